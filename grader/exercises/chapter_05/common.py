"""What several exercises of chapter 05 share: small networks, finished passes, and properties of gradients."""

from __future__ import annotations

import numpy as np

from grader.compare import as_numbers
from grader.exercise import Property

CHAPTER = "05_mlp_grpo"
PARAMETERS = ("w1", "b1", "w2", "b2")
UPPER, LOWER = ("w2", "b2"), ("w1", "b1")


def mlp_forward(weights, x):
    """(N, V) logits w2 tanh(w1 x + b1) + b2 of a table of N inputs."""
    return np.tanh(x @ weights["w1"].T + weights["b1"]) @ weights["w2"].T + weights["b2"]


def mlp_backward(weights, x, logit_gradient):
    """Gradients of the four parameters, from (N, V) gradients of the logits of N inputs."""
    hidden = np.tanh(x @ weights["w1"].T + weights["b1"])
    below = (logit_gradient @ weights["w2"]) * (1.0 - hidden**2)
    return {
        "w1": below.T @ x,
        "b1": below.sum(axis=0),
        "w2": logit_gradient.T @ hidden,
        "b2": logit_gradient.sum(axis=0),
    }


def random_weights(rng, inputs, hidden, outputs=6):
    """Weights of a small network, none of them 0 and the biases as large as the rest."""
    shapes = {"w1": (hidden, inputs), "b1": (hidden,), "w2": (outputs, hidden), "b2": (outputs,)}
    return {name: rounded(rng.normal(size=shape) * 0.6) for name, shape in shapes.items()}


def rounded(array, digits=3):
    """The array with few decimals, so that a report can show it."""
    return np.round(array, digits)


def draw_seed(rng):
    return int(rng.integers(0, 2**31))


def gradients_match(reference, keys=PARAMETERS, scale=2e-5) -> Property:
    """A property: the dict of gradients agrees with the reference's under these keys.

    The tolerance is `scale` times the largest entry of the right gradient, so that float32 inside is fine.
    """

    def holds(values, calls):
        for i, (value, one) in enumerate(zip(values, calls, strict=True)):
            sentence = _first_difference(reference(*one.args, **one.kwargs), value, keys, scale)
            if sentence:
                return i, sentence
        return None

    return holds


def _first_difference(expected, value, keys, scale):
    if not isinstance(value, dict):
        return "a dict with the gradients of w1, b1, w2 and b2 is due"
    for key in keys:
        if key not in value:
            return f"there is no gradient under the key {key!r}"
        right, mine = expected[key], as_numbers(value[key])
        if mine is None:
            return f"the gradient of {key} is no array of numbers"
        if mine.shape != right.shape:
            return f"{key} has shape {right.shape}, and its gradient came back with shape {mine.shape}"
        gap = np.abs(mine.astype(float) - right)
        if not np.all(gap <= scale * np.abs(right).max() + 1e-7):
            place = tuple(int(k) for k in np.unravel_index(np.argmax(np.nan_to_num(gap, nan=np.inf)), gap.shape))
            where = ", ".join(map(str, place))
            return f"the slope along {key}[{where}] is {right[place]:.5f}, yours is {mine[place]:.5f}"
    return None
