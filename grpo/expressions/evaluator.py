"""How good a policy is, exactly: sums over the 39 expressions instead of samples."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from grpo.expressions.game import LENGTHS


@dataclass(frozen=True)
class Evaluation:
    """A policy's scores, one number per seed, each a mean over prompts. All are exact.

    exact_success: probability that a sampled response is right, 0..1.
    greedy_success: share of prompts whose greedy response is right.
    expected_reward: of one response; the length term, which needs a group, is left out.
    expected_length: tokens of a response, the end token included.
    entropy: of the distribution over whole responses, in nats.
    kl: KL(policy || reference) between the distributions over whole responses, in nats; NaN without a reference.
    """

    exact_success: np.ndarray
    greedy_success: np.ndarray
    expected_reward: np.ndarray
    expected_length: np.ndarray
    entropy: np.ndarray
    kl: np.ndarray

    def mean(self):
        """dict, name -> mean over seeds."""
        return {field.name: float(getattr(self, field.name).mean()) for field in fields(self)}


class Evaluator:
    """Evaluates policies on some or all prompts of a task.

    Args:
        correct: (P, 39) bool, which expressions are right (`Task.correct` or `TableReward.correct`).
        base_reward: (P, 39) float, what each earns (`TableReward.base`); default: 1 if right, else 0.
        reference: the frozen policy for the KL; None leaves it out.
        prompts: (P',) int, the prompts that count; None for all.
    """

    def __init__(self, correct, base_reward=None, reference=None, prompts=None):
        chosen = slice(None) if prompts is None else prompts
        self.correct = np.asarray(correct, dtype=float)[chosen]
        self.base_reward = self.correct if base_reward is None else np.asarray(base_reward, dtype=float)[chosen]
        self.prompts = None if prompts is None else np.asarray(prompts)[np.newaxis]
        self._reference_logps = None if reference is None else self._logps(reference)

    def __call__(self, policy):
        """Evaluation of a policy: arrays of shape (S,)."""
        logps = self._logps(policy)
        probs = np.exp(logps)
        n_prompts = len(self.correct)
        # A response that has become impossible adds 0; 0 * -inf would be NaN.
        surprise = np.where(probs > 0.0, logps, 0.0)
        kl = np.full(len(probs), np.nan)
        if self._reference_logps is not None:
            kl = (probs * (surprise - np.where(probs > 0.0, self._reference_logps, 0.0))).sum(axis=(1, 2)) / n_prompts
        right = np.take_along_axis(self.correct[np.newaxis], self._greedy(policy)[..., np.newaxis], axis=2)
        return Evaluation(
            exact_success=(probs * self.correct).sum(axis=(1, 2)) / n_prompts,
            greedy_success=right.sum(axis=(1, 2)) / n_prompts,
            expected_reward=(probs * self.base_reward).sum(axis=(1, 2)) / n_prompts,
            expected_length=(probs * LENGTHS).sum(axis=(1, 2)) / n_prompts,
            entropy=-(probs * surprise).sum(axis=(1, 2)) / n_prompts,
            kl=kl,
        )

    def _logps(self, policy):
        return policy.expression_logprobs(self._asked(policy))

    def _greedy(self, policy):
        return policy.greedy(self._asked(policy))

    def _asked(self, policy):
        if self.prompts is None or len(self.prompts) == policy.n_seeds:
            return self.prompts
        # One array for all calls: the policy recognises it and does not compute its log-probs twice.
        self.prompts = np.repeat(self.prompts[:1], policy.n_seeds, axis=0)
        return self.prompts
