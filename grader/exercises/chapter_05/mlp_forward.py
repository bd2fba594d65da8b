"""The exercise `mlp_forward`: its parts, its known mistakes, and correct alternatives."""

from __future__ import annotations

import math

import numpy as np

import grpo
from grader.compare import as_numbers
from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.exercises.chapter_05.common import CHAPTER, random_weights, rounded
from grpo.expressions.networks import mlp_forward

_TABLES = slice(3, 9)  # the calls of the part about tables


def _layers(w):
    return w["w1"], w["b1"], w["w2"], w["b2"]


def _with_activation(activation):
    def wrong(weights, x):
        w1, b1, w2, b2 = _layers(weights)
        return activation(x @ w1.T + b1) @ w2.T + b2

    return wrong


def _then(last):
    def wrong(weights, x):
        return last(mlp_forward(weights, x))

    return wrong


def _no_b1(weights, x):
    return mlp_forward({**weights, "b1": 0.0}, x)


def _no_b2(weights, x):
    return mlp_forward({**weights, "b2": 0.0}, x)


def _no_bias(weights, x):
    return mlp_forward({**weights, "b1": 0.0, "b2": 0.0}, x)


def _bias_outside(weights, x):
    w1, b1, w2, b2 = _layers(weights)
    return (np.tanh(x @ w1.T) + b1) @ w2.T + b2


def _w1_transposed(weights, x):
    w1, b1, w2, b2 = _layers(weights)
    return np.tanh(x @ w1 + b1) @ w2.T + b2


def _w2_transposed(weights, x):
    w1, b1, w2, b2 = _layers(weights)
    return np.tanh(x @ w1.T + b1) @ w2 + b2


def _both_transposed(weights, x):
    w1, b1, w2, b2 = _layers(weights)
    return np.tanh(x @ w1 + b1) @ w2 + b2


def _columns_are_states(weights, x):
    return mlp_forward(weights, x).T


def _hidden_only(weights, x):
    return np.tanh(x @ weights["w1"].T + weights["b1"])


def _first_row_only(weights, x):
    return mlp_forward(weights, x[:1])[0]


def _with_hidden(weights, x):
    return mlp_forward(weights, x), _hidden_only(weights, x)


def _sum_of_states(weights, x):
    return mlp_forward(weights, x).sum(axis=0)


def _squeezed(weights, x):
    return np.squeeze(mlp_forward(weights, x))


def _batch_mean(weights, x):
    w1, b1, w2, b2 = _layers(weights)
    z = x @ w1.T + b1
    return np.tanh(z - z.mean(axis=0)) @ w2.T + b2


def _by_loops(weights, x):
    w1, b1, w2, b2 = (value.tolist() for value in _layers(weights))
    rows = []
    for row in x.tolist():
        hidden = [math.tanh(sum(a * b for a, b in zip(w, row, strict=True)) + c) for w, c in zip(w1, b1, strict=True)]
        rows.append([sum(a * b for a, b in zip(w, hidden, strict=True)) + c for w, c in zip(w2, b2, strict=True)])
    return rows


def _columns_inside(weights, x):
    w1, b1, w2, b2 = _layers(weights)
    return (w2 @ np.tanh(w1 @ x.T + b1[:, np.newaxis]) + b2[:, np.newaxis]).T


def _in_float32(weights, x):
    w1, b1, w2, b2 = (value.astype(np.float32) for value in _layers(weights))
    return np.einsum("nh,vh->nv", np.tanh(np.einsum("nd,hd->nh", x.astype(np.float32), w1) + b1), w2) + b2


def _small():
    return {
        "w1": np.array([[1.0, 0.0], [1.0, -1.0]]),
        "b1": np.array([0.0, 0.5]),
        "w2": np.array([[1.0, 2.0], [0.0, -1.0]]),
        "b2": np.array([0.1, -0.1]),
    }


def _inputs(rng, rows, columns):
    return rounded(rng.normal(size=(rows, columns)))


def _one_state_calls(rng):
    return [
        call(_small(), np.array([[1.0, 2.0]])),
        call(random_weights(rng, 3, 3, 3), _inputs(rng, 1, 3)),
        call(random_weights(rng, 5, 4, 6), _inputs(rng, 1, 5)),
    ]


def _table_calls(rng):
    square, long = random_weights(rng, 3, 3, 3), random_weights(rng, 4, 4, 4)  # all square: nothing raises here
    x, y = _inputs(rng, 3, 3), _inputs(rng, 6, 4)
    return [call(square, x), *(call(square, x[i : i + 1]) for i in range(3)), call(long, y), call(long, y[3:4])]


def _rows_as_if_alone(values, calls):
    for start, rows in ((0, (0, 1, 2)), (4, (3,))):
        table, outputs = as_numbers(values[start]), len(calls[start].args[0]["b2"])
        shape = (len(calls[start].args[1]), outputs)
        if table is None or table.shape != shape:
            found = "no table of numbers" if table is None else f"shape {table.shape}"
            return start, f"{shape[0]} states and {outputs} outputs: a table of shape {shape} is due, and {found} came"
        if not np.ptp(table, axis=0).max() > 1e-6:
            return start, "different states get the same logits"
        for offset, row in enumerate(rows, start=1):
            alone = as_numbers(values[start + offset])
            if alone is None or alone.size != outputs or not np.allclose(table[row], alone.ravel(), 1e-4, 1e-5):
                return start, f"state {row} gets other logits in this table than in a call of its own"
    return None


def _bias_calls(rng):
    return [
        call(_small(), np.zeros((2, 2)), note="the inputs are all 0"),
        call(random_weights(rng, 4, 3, 5), np.zeros((2, 4)), note="the inputs are all 0"),
        call({**random_weights(rng, 4, 3, 5), "w2": np.zeros((5, 3))}, _inputs(rng, 2, 4), note="w2 is all 0"),
    ]


def _company_matters(values, calls):
    """Tables of the right shape in which a state gets other logits than in a call of its own."""
    shapes = [(len(one.args[1]), len(one.args[0]["b2"])) for one in calls]
    if any(np.shape(value) != shape for value, shape in zip(values, shapes, strict=True)):
        return False
    table, *alone, long, fourth = (np.asarray(value) for value in values[_TABLES])
    return not (np.allclose(table, np.concatenate(alone), 1e-4, 1e-5) and np.allclose(long[3:4], fourth, 1e-4, 1e-5))


def _relu(z):
    return np.maximum(z, 0.0)


def _sigmoid(z):
    return 1.0 / (1.0 + np.exp(-z))


MLP_FORWARD = Exercise(
    name="mlp_forward",
    chapter=CHAPTER,
    difficulty=1,
    minutes=10,
    reference=mlp_forward,
    parts=(
        Part(
            says="the logits of one state",
            points=2,
            calls=_one_state_calls,
            hint="Two layers: input to hidden, through tanh; hidden to logits, and nothing after that.",
        ),
        Part(
            says="a table of states: every row as if it were alone",
            points=1,
            calls=_table_calls,
            holds=_rows_as_if_alone,
            hint="One row per state goes in, one row of logits per state comes out.",
        ),
        Part(
            says="the biases alone: an input of zeros, and weights of zeros",
            points=1,
            calls=_bias_calls,
            hint="With an input of zeros the hidden layer is not 0: something is still added before the tanh.",
        ),
    ),
    mistakes=(
        Mistake(
            "no bias in the hidden layer",
            _no_b1,
            "`b1` is not used. With an input of zeros every hidden unit would then be 0, whatever was learned.",
        ),
        Mistake("no bias at the output", _no_b2, "`b2` is not used: an output could not be likely by itself."),
        Mistake("no bias at all", _no_bias, "Neither `b1` nor `b2` is used."),
        Mistake(
            "bias after the tanh",
            _bias_outside,
            "`b1` is added after the tanh. It belongs inside: it shifts the point at which a unit switches.",
        ),
        Mistake(
            "relu for tanh",
            _with_activation(_relu),
            "Negative hidden values are cut to 0 and large ones are not bounded: that is a ReLU. A good layer, but the "
            "backward pass of this chapter is that of tanh.",
        ),
        Mistake(
            "sigmoid for tanh",
            _with_activation(_sigmoid),
            "The hidden values lie between 0 and 1: that is the logistic function. tanh goes from -1 to 1.",
        ),
        Mistake(
            "no activation",
            _with_activation(lambda z: z),
            "There is no tanh. Two linear layers in a row are one linear layer: it could not learn that a number may "
            "be used only with some targets.",
        ),
        Mistake(
            "tanh on the output",
            _then(np.tanh),
            "The logits went through a tanh as well, so they lie between -1 and 1. No token could get a probability "
            "above e²/(e²+1) against another.",
        ),
        Mistake(
            "softmax included",
            _then(grpo.softmax),
            "These are probabilities. The grammar mask comes before the softmax, so logits are asked for.",
        ),
        Mistake(
            "log-softmax included",
            _then(grpo.log_softmax),
            "These are log-probs. The grammar mask comes before the softmax, so logits are asked for.",
        ),
        Mistake(
            "w1 transposed",
            _w1_transposed,
            "`w1` was used the wrong way round. It has one row per hidden unit. With as many inputs as units numpy "
            "does not complain.",
        ),
        Mistake(
            "w2 transposed",
            _w2_transposed,
            "`w2` was used the wrong way round. It has one row per output. With as many outputs as hidden units numpy "
            "does not complain.",
        ),
        Mistake(
            "both transposed",
            _both_transposed,
            "`w1` and `w2` were used the wrong way round. A row of a weight matrix belongs to the unit that it feeds.",
        ),
        Mistake(
            "states in columns",
            _columns_are_states,
            "The table is on its side: one column per state. Rows are asked for.",
        ),
        Mistake("hidden layer returned", _hidden_only, "These are the hidden values. One more layer is to come."),
        Mistake(
            "first state only",
            _first_row_only,
            "Only the first state was computed, as a flat row. A table comes in and a table goes out.",
        ),
        Mistake(
            "hidden values returned as well",
            _with_hidden,
            "Two tables came back, the logits and the hidden values. Only the logits are asked for; the backward pass "
            "computes the hidden values again.",
        ),
        Mistake(
            "summed over the states",
            _sum_of_states,
            "The logits of all states were added up. Each state has logits of its own: one row per state.",
        ),
        Mistake(
            "axis dropped for one state",
            _squeezed,
            "With a single state the table lost an axis. A table of one row is due: whoever calls the function should "
            "not have to ask how many rows there are.",
        ),
        Mistake(
            "largest logit subtracted",
            _then(lambda logits: logits - logits.max(axis=1, keepdims=True)),
            "The largest logit of every row is 0: it was subtracted. That is the first step of a softmax, and does not "
            "belong here.",
        ),
        Mistake(
            "states that see each other",
            _batch_mean,
            "A state gets other logits in company than alone: something in the formula depends on the other rows. Look "
            "for a mean, a sum or a maximum along the wrong axis.",
            symptom=_company_matters,
        ),
    ),
    alternatives=(
        Alternative("pure Python", _by_loops),
        Alternative("states in columns inside", _columns_inside),
        Alternative("einsum in float32", _in_float32),
    ),
    hint="`x @ w.T` multiplies every row of `x` with every row of `w`.",
)
