"""Advantages of a batch: the standard of GRPO and the baselines it is compared with. Axes: S seeds, P prompts, G."""

from __future__ import annotations

import numpy as np

from grpo.checks import require_choice

ADVANTAGE_KINDS = ("group", "group_no_std", "global", "global_no_std", "running_mean", "running_mean_before")


def group_advantages(rewards, eps=1e-4, ddof=1, divide=True):
    """(r - mean) / (std + eps) in each group, as `grpo.group_relative_advantage` has it.

    Args:
        rewards: (S, P, G).
        eps, ddof: as there.
        divide: False leaves the division out (Dr. GRPO, arXiv 2503.20783).

    Returns: (S, P, G). A group of equal rewards gets exactly 0.
    """
    size = rewards.shape[-1]
    centred = rewards - rewards.sum(axis=-1, keepdims=True) / size
    # Equal rewards are found by comparison: their computed mean can be off by a rounding.
    equal = (rewards == rewards[..., :1]).all(axis=-1, keepdims=True)
    if divide:
        scale = np.sqrt((centred * centred).sum(axis=-1, keepdims=True) / (size - ddof)) + eps
        centred = centred / np.where(equal, 1.0, scale)
    return np.where(equal, 0.0, centred)


def global_advantages(rewards, eps=1e-4, ddof=1, divide=True):
    """The same with one mean and one std for all rollouts of a seed's iteration: a hard prompt gets no credit for
    being hard.

    Args and returns: as in `group_advantages`.
    """
    flat = rewards.reshape(len(rewards), 1, -1)
    return group_advantages(flat, eps, ddof, divide).reshape(rewards.shape)


class RunningMean:
    """r - mean of all rewards so far, without a std: a baseline that knows neither prompt nor group.

    Args:
        include_current: count the batch itself as "so far"; if not, the first baseline is 0.
    """

    def __init__(self, include_current=True):
        self.include_current = include_current
        self._sum, self._count = 0.0, 0

    def __call__(self, rewards):
        """(S, P, G) rewards -> (S, P, G) advantages. Each call is one iteration."""
        before = self._sum / max(self._count, 1)
        self._sum = self._sum + rewards.sum(axis=(1, 2), keepdims=True)
        self._count += rewards.shape[1] * rewards.shape[2]
        return rewards - (self._sum / self._count if self.include_current else before)


def make_advantage(kind, eps=1e-4, ddof=1):
    """The advantage function of a name.

    Args:
        kind: one of ADVANTAGE_KINDS: own group or all rollouts of the iteration, with or without the division by the
            std; or the running mean of all rewards so far, with or without the current batch.
        eps, ddof: as in `group_advantages`.

    Returns: callable, (S, P, G) rewards -> (S, P, G) advantages. A running mean remembers: make one per run.

    Raises: ValueError if kind is unknown.
    """
    require_choice(kind, "advantage", ADVANTAGE_KINDS)
    if kind.startswith("running_mean"):
        return RunningMean(include_current=kind == "running_mean")
    function = group_advantages if kind.startswith("group") else global_advantages
    divide = not kind.endswith("no_std")
    return lambda rewards: function(rewards, eps, ddof, divide)
