"""The verifier as a reward function for the trainer: read every possible response once, then look results up."""

from __future__ import annotations

import numpy as np

from grpo.expressions.game import EXPRESSIONS, LENGTHS, response_tokens
from grpo.expressions.task import spell
from grpo.expressions.verifier import RewardWeights, batched_length_terms, verify


class TableReward:
    """A reward function (rollouts -> rewards) that asks the verifier once per prompt and expression.

    Args:
        task: Task.
        weights: RewardWeights.
        verifier: callable (response, target, numbers) -> Verdict; a student's own may stand here.

    Attributes:
        correct: (P, 39) bool, what the verifier calls right.
        base: (P, 39) float64, format and accuracy terms; the length term depends on the group and is added in a call.
    """

    def __init__(self, task, weights=None, verifier=verify):
        self.weights = weights or RewardWeights()
        verdicts = [
            [
                verifier(spell(response_tokens(row), numbers), int(target), tuple(map(str, numbers)))
                for row in range(len(EXPRESSIONS))
            ]
            for target, numbers in zip(task.targets, task.numbers.tolist(), strict=True)
        ]
        self.correct = np.array([[bool(verdict.correct) for verdict in row] for row in verdicts])
        well_formed = np.array([[bool(verdict.well_formed) for verdict in row] for row in verdicts])
        self.base = self.weights.format * well_formed + self.weights.accuracy * self.correct

    def __call__(self, rollouts):
        """Rewards of a batch.

        Args:
            rollouts: Rollouts of S seeds, P prompts, G responses each.

        Returns: (S, P, G) float64.
        """
        prompts = rollouts.prompt_index[..., np.newaxis]
        rewards = self.base[prompts, rollouts.expressions]
        if self.weights.length:
            lengths, correct = LENGTHS[rollouts.expressions], self.correct[prompts, rollouts.expressions]
            rewards = rewards + self.weights.length * batched_length_terms(lengths, correct, self.weights.gated)
        return rewards
