"""What several exercises of chapter 02 share."""

from __future__ import annotations

import numpy as np

CHAPTER = "02_advantages_and_logprobs"


def as_groups(rewards, group_size):
    return np.asarray(rewards, dtype=float).reshape(-1, group_size)


def random_groups(rng, groups, size):
    """Rewards of which every group has at least one 0 and one 1, so that no std is 0."""
    rewards = rng.integers(0, 2, size=(groups, size)).astype(float)
    rewards[:, 0], rewards[:, 1] = 0.0, 1.0
    return rng.permuted(rewards, axis=1).ravel().tolist()


def as_float_rows(logits):
    return np.asarray(logits, dtype=float)


def log_softmax_with_logaddexp(logits):
    x = as_float_rows(logits)
    return x - np.logaddexp.reduce(x, axis=-1, keepdims=True)
