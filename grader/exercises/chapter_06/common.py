"""What several exercises of chapter 06 share: random batches with padding, and numpy pieces for the references."""

from __future__ import annotations

import numpy as np

from grader.torch_calls import torch

CHAPTER = "06_qwen3_in_torch"
ENDOFTEXT, IM_END = 151643, 151645  # the two stop tokens of Qwen3


def draw_seed(rng):
    return int(rng.integers(1, 2**31))


def rounded(array, digits=3):
    """The array with few decimals, so that a report can show it."""
    return np.round(array, digits)


def draw_lengths(rng, rollouts, width):
    """Lengths of which one is the whole width, one is shorter, and none is 0."""
    lengths = np.concatenate([[width, max(width - 2, 1)], rng.integers(1, width + 1, max(rollouts - 2, 0))])
    return rng.permutation(lengths[:rollouts])


def mask_of(lengths, width):
    return np.arange(width) < np.asarray(lengths)[:, np.newaxis]


def draw_logps(rng, mask, moved=0.0, around=None, padding=-9.0):
    """Log-probs with three decimals; `around` others, at most `moved` away; `padding` where the mask is false."""
    if around is None:
        logps = -rng.uniform(0.3, 2.5, mask.shape)
    else:
        logps = np.where(mask, around, 0.0) + rng.uniform(-moved, moved, mask.shape)
    return np.where(mask, rounded(logps), padding)


def draw_advantages(rng, rollouts):
    """Advantages of both signs that do not sum to 0, in random order."""
    good = rng.uniform(0.6, 1.6, rollouts - rollouts // 2)
    return rounded(rng.permutation(np.concatenate([good, -rng.uniform(0.5, 1.2, rollouts // 2)])), 2)


def numpy_log_softmax(logits):
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def kept(values, mask):
    """Values with 0 at padding, whatever stood there; the gradient there is 0 as well."""
    return torch.where(mask, values, torch.zeros((), dtype=values.dtype))
