"""What several exercises of chapter 03 share."""

from __future__ import annotations

import math

import numpy as np

import grpo

CHAPTER = "03_the_grpo_loss"


def draw_seed(rng):
    return int(rng.integers(1, 2**31))


def as_floats(*values):
    return tuple(np.asarray(value, dtype=float) for value in values)


def uneven_advantages(rng, rollouts):
    """Advantages of both signs that do not sum to 0."""
    good, bad = rng.uniform(0.8, 2, rollouts - rollouts // 2), -rng.uniform(0.2, 0.7, rollouts // 2)
    return rng.permutation(np.concatenate([good, bad]))


def surrogate_inputs(ratio, advantage, eps):
    ratio, advantage = as_floats(ratio, advantage)
    return ratio, advantage, np.clip(ratio, 1.0 - eps, 1.0 + eps)


def surrogate_with_max(ratio, advantage, eps=0.2):
    ratio, advantage, clipped = surrogate_inputs(ratio, advantage, eps)
    return np.maximum(ratio * advantage, clipped * advantage)


def surrogate_min_first(ratio, advantage, eps=0.2):
    ratio, advantage, clipped = surrogate_inputs(ratio, advantage, eps)
    return np.minimum(ratio, clipped) * advantage


def toy_arrays(logits, actions, weights):
    """logits, actions, weights, probabilities and one-hot rows as arrays."""
    logits, weights = as_floats(logits, weights)
    actions = np.asarray(actions)
    return logits, actions, weights, grpo.softmax(logits), np.eye(len(logits))[actions]


def toy_gradient_by_loop(logits, actions, advantages, old_logps, ref_logps, clip_eps=0.2, kl_coef=0.0):
    total = math.log(sum(math.exp(x) for x in logits))
    probs = [math.exp(x - total) for x in logits]
    gradient = [0.0] * len(probs)
    for action, a, old, ref in zip(actions, advantages, old_logps, ref_logps, strict=True):
        new = logits[action] - total
        rho = math.exp(new - old)
        moved_enough = rho > 1 + clip_eps if a > 0 else rho < 1 - clip_eps
        slope = (0.0 if moved_enough else a * rho) + kl_coef * math.expm1(ref - new)
        for j, p in enumerate(probs):
            gradient[j] -= slope * ((j == action) - p) / len(actions)
    return gradient
