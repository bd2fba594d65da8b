"""Rewards of the Qwen3 chapters: the strict box outside the thinking, and controls that know nothing.

A reward is a callable (completion, truth, finished) -> float: text, known answer, and whether the rollout ended by
itself with a stop token.
"""

from __future__ import annotations

import numpy as np

from grpo.rewards import reward_reasoning

# By the names that the command line knows.
REWARDS = ("strict", "math")


def boxed_reward(completion, truth, finished=True):
    """1.0 if the completion ended by itself and the last box behind its thinking holds the truth, else 0.0.

    Args:
        completion: str, without the stop token.
        truth: str, the known answer, not blank.
        finished: bool, False for a rollout cut off at the token limit. Leave it at True to score a cut-off rollout
            as it stands.

    Returns: float, 0.0 or 1.0.

    Raises: ValueError as in `grpo.reward_rlvr`.
    """
    score = reward_reasoning(completion, truth)
    return score if finished else 0.0


def named_reward(name):
    """The reward of a name: "strict" is `boxed_reward`, "math" a MathReward of its own, ready to judge.

    Raises: ValueError for "math" without math-verify.
    """
    if name == "strict":
        return boxed_reward
    from grpo.qwen3.math_rewards import MathReward

    reward = MathReward()
    try:
        reward.verifier  # noqa: B018  it is made here, and asks for math-verify
    except ModuleNotFoundError as error:
        raise ValueError(str(error)) from error
    return reward


class RandomReward:
    """The control: 1.0 or 0.0 by the toss of a coin, whatever the completion says.

    A policy that improves under it owes the improvement to something else than the reward. It draws from a generator
    of its own, so it does not shift the sampler's random numbers.
    """

    def __init__(self, seed, share=0.5):
        """
        Args:
            seed: int.
            share: the chance of a 1.0, in (0, 1).

        Raises: ValueError if share is not in (0, 1).
        """
        if not 0 < share < 1:
            raise ValueError(f"share is {share}: a coin that always falls the same way makes every group equal")
        self.share = share
        self.generator = np.random.default_rng(seed)

    def __call__(self, completion, truth, finished=True):
        return float(self.generator.random() < self.share)

    def state_dict(self):
        """Where the coin stands, as plain data: a trainer keeps it in its checkpoints."""
        return {"generator": self.generator.bit_generator.state}

    def load_state_dict(self, state):
        """Go on where `state_dict` was taken."""
        self.generator.bit_generator.state = state["generator"]
