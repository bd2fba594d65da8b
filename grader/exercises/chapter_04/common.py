"""What several exercises of chapter 04 share."""

from __future__ import annotations

import numpy as np

from grpo.expressions.game import END, EXPRESSIONS, NUMBERS, OPERATORS, PREFIXES, TARGETS, TOKENS

CHAPTER = "04_tabular_grpo"
ID = {token: number for number, token in enumerate(TOKENS)}


def draw_seed(rng):
    return int(rng.integers(1, 2**31))


def draw(rng, items, size=None):
    """One item, or a list of `size` different ones."""
    if size is None:
        return items[rng.integers(len(items))]
    return [items[i] for i in rng.permutation(len(items))[:size]]


def draw_prefix(rng, length):
    """A beginning of an expression with so many tokens, as a list."""
    return list(draw(rng, [prefix for prefix in PREFIXES if len(prefix) == length]))


def draw_response(rng, numbers_used):
    """A well-formed response with so many numbers, as a list of tokens with the end token."""
    return [*draw(rng, [one for one in EXPRESSIONS if len(one) == 2 * numbers_used - 1]), END]


def as_mask(allowed):
    return np.array([token in allowed for token in TOKENS])


def wants_number(prefix):
    return len(prefix) % 2 == 0


def free_numbers(prefix):
    return [number for number in NUMBERS if number not in prefix]


def plain_softmax(logits):
    """Softmax without any mask, for mistakes that have none."""
    weights = np.exp(np.asarray(logits, dtype=float) - np.max(logits))
    return weights / weights.sum()


__all__ = [
    "CHAPTER",
    "END",
    "EXPRESSIONS",
    "ID",
    "NUMBERS",
    "OPERATORS",
    "PREFIXES",
    "TARGETS",
    "TOKENS",
    "as_mask",
    "draw",
    "draw_prefix",
    "draw_response",
    "draw_seed",
    "free_numbers",
    "plain_softmax",
    "wants_number",
]
