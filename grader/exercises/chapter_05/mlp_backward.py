"""The exercise `mlp_backward`: its parts, its known mistakes, and correct alternatives."""

from __future__ import annotations

import numpy as np

from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.exercises.chapter_05.common import (
    CHAPTER,
    LOWER,
    PARAMETERS,
    UPPER,
    gradient_of,
    gradients_match,
    random_weights,
    right_but_for_an_axis,
    rounded,
)
from grpo.expressions.networks import mlp_backward


def _passes(weights, x, slopes, through=None, lower=None, upper=None, back=None):
    """A backward pass with one place changed, for mistakes.

    through: (hidden, z) -> factor of the tanh; lower: (below, x) -> {"w1", "b1"}; upper: (slopes, hidden) -> {"w2",
    "b2"}; back: (slopes, w2) -> what arrives at the hidden layer.
    """
    z = x @ weights["w1"].T + weights["b1"]
    hidden = np.tanh(z)
    arrived = slopes @ weights["w2"] if back is None else back(slopes, weights["w2"])
    below = arrived * (1.0 - hidden**2 if through is None else through(hidden, z))
    found = {
        "w1": below.T @ x,
        "b1": below.sum(axis=0),
        "w2": slopes.T @ hidden,
        "b2": slopes.sum(axis=0),
    }
    if lower is not None:
        found |= lower(below, x, arrived)
    if upper is not None:
        found |= upper(slopes, hidden)
    return found


def _changed(**places):
    def wrong(weights, x, logit_gradient):
        return _passes(weights, x, logit_gradient, **places)

    return wrong


def _mean_for_sum(weights, x, logit_gradient):
    return {name: value / len(x) for name, value in mlp_backward(weights, x, logit_gradient).items()}


def _last_state_only(weights, x, logit_gradient):
    return mlp_backward(weights, x[-1:], logit_gradient[-1:])


def _sign(weights, x, logit_gradient):
    return {name: -value for name, value in mlp_backward(weights, x, logit_gradient).items()}


def _no_bias_before_tanh(weights, x, logit_gradient):
    return mlp_backward({**weights, "b1": np.zeros_like(weights["b1"])}, x, logit_gradient)


def _without(key):
    def wrong(weights, x, logit_gradient):
        found = mlp_backward(weights, x, logit_gradient)
        return {name: value for name, value in found.items() if name != key}

    return wrong


def _linear(weights, x, logit_gradient):
    hidden, below = x @ weights["w1"].T + weights["b1"], logit_gradient @ weights["w2"]
    return {
        "w1": below.T @ x,
        "b1": below.sum(axis=0),
        "w2": logit_gradient.T @ hidden,
        "b2": logit_gradient.sum(axis=0),
    }


def _step_taken(weights, x, logit_gradient):
    return {name: weights[name] - value for name, value in mlp_backward(weights, x, logit_gradient).items()}


def _by_loops(weights, x, logit_gradient):
    found = {name: np.zeros_like(value) for name, value in weights.items()}
    for row, slope in zip(x, logit_gradient, strict=True):
        hidden = np.tanh(weights["w1"] @ row + weights["b1"])
        below = (weights["w2"].T @ slope) / np.cosh(weights["w1"] @ row + weights["b1"]) ** 2
        found["w2"] += np.outer(slope, hidden)
        found["b2"] += slope
        found["w1"] += np.outer(below, row)
        found["b1"] += below
    return found


def _by_differences(weights, x, logit_gradient):
    """Central differences of sum(logit_gradient * logits): slow, and right."""

    def total(changed):
        hidden = np.tanh(x @ changed["w1"].T + changed["b1"])
        return float(np.sum(logit_gradient * (hidden @ changed["w2"].T + changed["b2"])))

    found = {}
    for name, value in weights.items():
        slopes = np.zeros_like(value)
        for place in np.ndindex(*value.shape):
            up, down = value.copy(), value.copy()
            up[place] += 1e-5
            down[place] -= 1e-5
            slopes[place] = (total({**weights, name: up}) - total({**weights, name: down})) / 2e-5
        found[name] = slopes
    return found


def _in_float32(weights, x, logit_gradient):
    small = {name: value.astype(np.float32) for name, value in weights.items()}
    found = mlp_backward(small, x.astype(np.float32), logit_gradient.astype(np.float32))
    return {name: value.tolist() for name, value in found.items()}


def _batch(rng, rows, inputs, hidden, outputs):
    slopes = rng.normal(size=(rows, outputs))
    return random_weights(rng, inputs, hidden, outputs), rounded(rng.normal(size=(rows, inputs))), rounded(slopes)


def _small():
    weights = {
        "w1": np.array([[1.0, 0.0], [1.0, -1.0]]),
        "b1": np.array([0.0, 0.5]),
        "w2": np.array([[1.0, 2.0], [0.0, -1.0]]),
        "b2": np.array([0.1, -0.1]),
    }
    return weights, np.array([[1.0, 2.0]]), np.array([[0.5, -0.5]])


def _one_state_calls(rng):
    return [call(*_small()), call(*_batch(rng, 1, 3, 3, 3)), call(*_batch(rng, 1, 4, 3, 6))]


def _many_state_calls(rng):
    weights, x, slopes = _batch(rng, 3, 3, 4, 2)
    return [call(weights, x, slopes), *(call(weights, x[i : i + 1], slopes[i : i + 1]) for i in range(3))]


def _adds_up(values, calls):
    for key in PARAMETERS:
        parts = []
        for i, value in enumerate(values):
            found, sentence = gradient_of(value, key)
            if found is None:
                return i, sentence
            parts.append(found)
        together, *single = parts
        if any(one.shape != together.shape for one in single):
            return f"the gradient of {key} has shape {together.shape} for three states and {single[0].shape} for one"
        total = np.sum(single, axis=0)
        if not np.abs(total).max() > 1e-6:
            return f"the gradient of {key} is 0"
        if not np.allclose(together, total, rtol=1e-3, atol=1e-4):
            return f"the gradient of {key} for three states is not the sum of those for each state alone"
    return None


MLP_BACKWARD = Exercise(
    name="mlp_backward",
    chapter=CHAPTER,
    difficulty=3,
    minutes=30,
    reference=mlp_backward,
    parts=(
        Part(
            says="the upper layer: gradients of w2 and b2",
            points=1,
            calls=_one_state_calls,
            holds=gradients_match(mlp_backward, UPPER, shapes=False),
            hint="What does one entry do to the loss? A weight of w2 multiplies one hidden value and feeds one logit: "
            "its slope needs both. An entry of b2 is added to one logit, and nothing multiplies it.",
        ),
        Part(
            says="through the tanh: gradients of w1 and b1",
            points=2,
            calls=_one_state_calls,
            holds=gradients_match(mlp_backward, LOWER, shapes=False),
            hint="First ask how the loss changes with each hidden value: every logit that it feeds says something. "
            "Then how the hidden value changes with what went into the tanh. b1 goes in there as it is, w1 times x.",
        ),
        Part(
            says="many states: their gradients add up",
            points=1,
            calls=_many_state_calls,
            holds=_adds_up,
            hint="The weights are the same for all states, so each state adds its share to the same gradient.",
        ),
        Part(
            says="everything together, in a table of states; each gradient has the shape of its parameter",
            points=1,
            calls=lambda rng: [call(*_batch(rng, 4, 4, 4, 4)), call(*_batch(rng, 6, 15, 8, 6))],
            holds=gradients_match(mlp_backward),
            hint="Compare shape by shape: the gradient of b1 has one axis, like b1. Then compare with the sum over the "
            "states.",
        ),
    ),
    mistakes=(
        Mistake(
            "tanh' left out",
            _changed(through=lambda hidden, z: np.ones_like(hidden)),
            "What arrives at the hidden layer goes on downwards as it is. On its way it passes the tanh, which is flat "
            "for large inputs and passes little there.",
        ),
        Mistake(
            "no tanh at all",
            _linear,
            "These are the gradients of a network without tanh: the hidden values did not go through it, and its slope "
            "is missing. The forward pass goes through the tanh, so both are due.",
        ),
        Mistake(
            "tanh' of the pre-activation",
            _changed(through=lambda hidden, z: 1.0 - z**2),
            "The slope of the tanh was computed from what goes into it. 1 - h² wants what comes out.",
        ),
        Mistake(
            "tanh twice",
            _changed(through=lambda hidden, z: 1.0 - np.tanh(hidden) ** 2),
            "The slope of the tanh was computed from the tanh of the hidden values. They have been through it already.",
        ),
        Mistake(
            "slope not squared",
            _changed(through=lambda hidden, z: 1.0 - np.abs(hidden)),
            "The slope at the tanh is too small: the hidden value is not squared in it.",
        ),
        Mistake(
            "square outside",
            _changed(through=lambda hidden, z: (1.0 - hidden) ** 2),
            "The slope of the tanh depends on the sign of the hidden value. It may not: tanh is as steep at -s as at "
            "s. The square belongs to the hidden value alone.",
        ),
        Mistake(
            "slope of the sigmoid",
            _changed(through=lambda hidden, z: hidden * (1.0 - hidden)),
            "h(1 - h) is the slope of the logistic function. The hidden layer is a tanh.",
        ),
        Mistake(
            "slope of the relu",
            _changed(through=lambda hidden, z: (z > 0).astype(float)),
            "The slope is 1 or 0: that of a ReLU. The hidden layer is a tanh.",
        ),
        Mistake(
            "b1 above the tanh",
            _changed(lower=lambda below, x, arrived: {"b1": arrived.sum(axis=0)}),
            "w1 is right, b1 is not: its gradient was taken before the slope of the tanh was multiplied in. b1 sits "
            "inside the tanh, next to w1 x.",
        ),
        Mistake(
            "bias gradients not summed",
            _changed(
                lower=lambda below, x, arrived: {"b1": below},
                upper=lambda slopes, hidden: {"b2": slopes},
            ),
            "The gradients of the biases have a row for each state. One bias serves all states, so the rows add up.",
        ),
        Mistake(
            "bias gradients with two axes",
            _changed(
                lower=lambda below, x, arrived: {"b1": below.sum(axis=0, keepdims=True)},
                upper=lambda slopes, hidden: {"b2": slopes.sum(axis=0, keepdims=True)},
            ),
            "All numbers are right. But the gradient of a bias came back with two axes, and a bias has one (`keepdims` "
            "keeps the other). The step `b1 -= ...` would fail.",
            symptom=right_but_for_an_axis(mlp_backward),
        ),
        Mistake(
            "gradient of b2 forgotten",
            _without("b2"),
            "There is no gradient of b2. Without it the frequency of the tokens could be learned only by way of the "
            "hidden layer.",
        ),
        Mistake(
            "mean for sum",
            _mean_for_sum,
            "The gradients were divided by the number of states. The weights of the loss are in the slopes already; "
            "here they add up.",
        ),
        Mistake(
            "w2 gradient transposed",
            _changed(upper=lambda slopes, hidden: {"w2": hidden.T @ slopes}),
            "The gradient of w2 is on its side: it must have the shape of w2, one row per logit.",
        ),
        Mistake(
            "w1 gradient transposed",
            _changed(lower=lambda below, x, arrived: {"w1": x.T @ below}),
            "The gradient of w1 is on its side: it must have the shape of w1, one row per hidden unit.",
        ),
        Mistake(
            "w1 and w2 gradients transposed",
            _changed(
                lower=lambda below, x, arrived: {"w1": x.T @ below},
                upper=lambda slopes, hidden: {"w2": hidden.T @ slopes},
            ),
            "The gradients of w1 and w2 are on their sides: each must have the shape of its parameter. Their numbers "
            "are right.",
        ),
        Mistake(
            "w2 the wrong way back",
            _changed(back=lambda slopes, w2: slopes @ w2.T),
            "On the way back w2 was used the wrong way round. With as many logits as hidden units numpy does not "
            "complain.",
        ),
        Mistake(
            "slope of the tanh in the w2 gradient",
            _changed(upper=lambda slopes, hidden: {"w2": slopes.T @ (1.0 - hidden**2)}),
            "The gradient of w2 holds the slope of the tanh. A weight of w2 multiplies the hidden value itself.",
        ),
        Mistake(
            "last state only",
            _last_state_only,
            "Only the last state counts: in a loop, each state overwrites the gradient instead of adding to it.",
        ),
        Mistake(
            "bias left out before the tanh",
            _no_bias_before_tanh,
            "The hidden values were computed again without b1. The backward pass must see those of the forward pass.",
        ),
        Mistake(
            "sign",
            _sign,
            "All signs are turned round. The gradient points uphill; the minus belongs to the step.",
        ),
        Mistake(
            "step taken already",
            _step_taken,
            "These are new weights: a step was taken. The gradient itself is asked for.",
        ),
    ),
    alternatives=(
        Alternative("state by state, cosh", _by_loops),
        Alternative("central differences", _by_differences),
        Alternative("float32, lists out", _in_float32),
    ),
    hint="Go backwards through the forward pass, one line at a time. The shapes tell you which side to transpose.",
)
