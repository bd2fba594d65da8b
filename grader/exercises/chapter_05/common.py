"""What several exercises of chapter 05 share: small networks, finished passes, and properties of gradients."""

from __future__ import annotations

import numpy as np

from grader.compare import as_numbers
from grader.exercise import Property

CHAPTER = "05_mlp_grpo"
PARAMETERS = ("w1", "b1", "w2", "b2")
BIASES = ("b1", "b2")
UPPER, LOWER = ("w2", "b2"), ("w1", "b1")


def random_weights(rng, inputs, hidden, outputs=6):
    """Weights of a small network, none of them 0 and the biases as large as the rest."""
    shapes = {"w1": (hidden, inputs), "b1": (hidden,), "w2": (outputs, hidden), "b2": (outputs,)}
    return {name: rounded(rng.normal(size=shape) * 0.6) for name, shape in shapes.items()}


def rounded(array, digits=3):
    """The array with few decimals, so that a report can show it."""
    return np.round(array, digits)


def draw_seed(rng):
    return int(rng.integers(0, 2**31))


def gradients_match(reference, keys=PARAMETERS, scale=2e-5, shapes=True, factor=None) -> Property:
    """A property: the dict of gradients agrees with the reference's under these keys.

    The tolerance is `scale` times the largest entry of the right gradient, so that float32 inside is fine. With
    `shapes` false, a bias may have an axis of length 1 too many: that is another part's business. So is a gradient
    that is factor(call) times as long, if a `factor` is given.
    """

    def holds(values, calls):
        for i, (value, one) in enumerate(zip(values, calls, strict=True)):
            right = reference(*one.args, **one.kwargs)
            sentence = _first_difference(right, value, keys, scale, shapes)
            if sentence and factor is not None:
                longer = {name: factor(one) * slopes for name, slopes in right.items()}
                sentence = _first_difference(longer, value, keys, scale, shapes) and sentence
            if sentence:
                return i, sentence
        return None

    return holds


def gradient_of(value, key, flat=False):
    """(array, "") of the gradient under this key, or (None, what is wrong). flat: axes of length 1 are dropped."""
    if not isinstance(value, dict):
        return None, "a dict is due, with the keys w1, b1, w2 and b2 and each gradient in the shape of its parameter"
    if key not in value:
        there = ", ".join(map(repr, list(value)[:5])) or "none"
        return (
            None,
            f"there is no gradient under the key {key!r}; the keys are {there}. Names and shapes are those of weights",
        )
    found = as_numbers(value[key])
    if found is None:
        return None, f"the gradient of {key} is no array of numbers"
    if flat and found.ndim > 1 and found.size == max(found.shape):
        found = found.ravel()
    return found.astype(float), ""


def right_but_for_an_axis(reference):
    """A symptom: every number is right, and the gradient of a bias came back with two axes."""
    match = gradients_match(reference, shapes=False)

    def symptom(values, calls):
        return any(np.ndim(value[key]) == 2 for value in values for key in BIASES) and match(values, calls) is None

    return symptom


def _first_difference(expected, value, keys, scale, shapes):
    for key in keys:
        right = expected[key]
        mine, sentence = gradient_of(value, key, flat=not shapes and right.ndim == 1)
        if mine is None:
            return sentence
        if mine.shape != right.shape:
            return f"{key} has shape {right.shape}, and its gradient came back with shape {mine.shape}"
        gap = np.abs(mine - right)
        if not np.all(gap <= scale * np.abs(right).max() + 1e-7):
            place = tuple(int(k) for k in np.unravel_index(np.argmax(np.nan_to_num(gap, nan=np.inf)), gap.shape))
            where = ", ".join(map(str, place))
            return f"the slope along {key}[{where}] is {right[place]:.5f}, yours is {mine[place]:.5f}"
    return None
