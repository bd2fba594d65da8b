"""The exercise `log_softmax`: its parts, its known mistakes, and correct alternatives."""

from __future__ import annotations

import math

import numpy as np

import grpo
from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.exercises.chapter_02.common import CHAPTER, as_float_rows, log_softmax_with_logaddexp


def _logsm_naive(logits):
    x = as_float_rows(logits)
    with np.errstate(all="ignore"):
        return np.log(np.exp(x) / np.exp(x).sum(axis=-1, keepdims=True))


def _logsm_overflowing_sum(logits):
    x = as_float_rows(logits)
    with np.errstate(all="ignore"):
        return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def _softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def _logsm_underflow(logits):
    with np.errstate(all="ignore"):
        return np.log(_softmax(as_float_rows(logits)))


def _logsm_eps_inside(logits):
    return np.log(_softmax(as_float_rows(logits)) + 1e-9)


def _logsm_wrong_axis(logits):
    x = as_float_rows(logits)
    shifted = x - x.max(axis=0, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=0, keepdims=True))


def _logsm_whole_array(logits):
    x = as_float_rows(logits)
    return x - x.max() - np.log(np.exp(x - x.max()).sum())


def _logsm_one_max(logits):
    x = as_float_rows(logits)
    with np.errstate(all="ignore"):
        return x - x.max() - np.log(np.exp(x - x.max()).sum(axis=-1, keepdims=True))


def _logsm_keepdims_forgotten(logits):
    x = as_float_rows(logits)
    shifted = x - x.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1))


def _logsm_max_not_put_back(logits):
    x = as_float_rows(logits)
    return x - np.log(np.exp(x - x.max(axis=-1, keepdims=True)).sum(axis=-1, keepdims=True))


def _logsm_base_2(logits):
    return grpo.log_softmax(logits) / np.log(2)


def _logsm_base_10(logits):
    return grpo.log_softmax(logits) / np.log(10)


def _logsm_sum_in_base_2(logits):
    return _logsm_other_log(logits, np.log2)


def _logsm_sum_in_base_10(logits):
    return _logsm_other_log(logits, np.log10)


def _logsm_other_log(logits, log):
    x = as_float_rows(logits)
    x = x - x.max(axis=-1, keepdims=True)
    return x - log(np.exp(x).sum(axis=-1, keepdims=True))


def _logsm_builtin_max(logits):
    x = as_float_rows(logits)
    shifted = x - max(x)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def _logsm_probabilities(logits):
    return _softmax(as_float_rows(logits))


def _logsm_sign(logits):
    return -grpo.log_softmax(logits)


def _logsm_row_by_row(logits):
    def one(row):
        top = max(row)
        total = math.log(sum(math.exp(v - top) for v in row)) + top
        return [v - total for v in row]

    def rows(x):
        return one(x) if not isinstance(x[0], list) else [rows(part) for part in x]

    return rows(np.asarray(logits).tolist())


def _logsm_float32(logits):
    x = np.asarray(logits, dtype=np.float32)
    x = x - x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def _drawn_logits(rng, *shape):
    """Logits with two decimals in which every row has a level of its own, so that rows cannot share a normaliser."""
    level = np.round(rng.permutation(int(np.prod(shape[:-1], dtype=int))).reshape(*shape[:-1], 1) * 1.5, 1)
    return np.round(rng.normal(0.0, 1.5, size=shape), 2) + level


def _arrays_and_their_rows(rng):
    wide, square, deep = _drawn_logits(rng, 2, 5), _drawn_logits(rng, 3, 3), _drawn_logits(rng, 2, 2, 3)
    calls = []
    for array in (wide, square, deep):
        calls += [call(array), *(call(row) for row in array.reshape(-1, array.shape[-1]))]
    return calls


def _rows_alone_give_the_same(values, calls):
    place = 0
    while place < len(calls):
        x = calls[place].args[0]
        rows = int(np.prod(x.shape[:-1]))
        whole, alone = np.asarray(values[place], float), np.array(values[place + 1 : place + 1 + rows], float)
        place += 1 + rows
        if whole.shape != x.shape:
            return f"logits of shape {x.shape} came in, and an answer of shape {whole.shape} came out"
        if np.allclose(whole, x) or not np.ptp(alone) > 0.01:
            return "the logits come back as they are, or all alike"
        if not np.allclose(whole.reshape(rows, -1), alone, rtol=1e-4, atol=1e-5):
            return f"a row of an array of shape {x.shape} gives other numbers than the same row alone"
    return None


def _huge(rng):
    small, drawn = np.array([2.0, 1.0, 0.0]), rng.permutation([0.0, 1.0, 3.0]) + rng.integers(-40, 40) / 4
    return [
        call(np.array([1e4, 0.0, -1e4])),
        call(np.array([small + 1e4, small - 1e4]), note="the same differences at another level"),
        call(small),
        call(drawn - 1e4, note="the next call's at another level"),
        call(drawn),
    ]


def _same_at_any_level(values, calls):
    apart, moved, small, *drawn = (np.asarray(value, float) for value in values)
    for one, got in zip(calls, (apart, moved, small, *drawn), strict=True):
        if not np.all(np.isfinite(got)):
            return f"there is {got[~np.isfinite(got)][0]:.0f} in the answer for {one.args[0].ravel()[:3].tolist()}"
    level = np.allclose(drawn[0], drawn[1], rtol=1e-4, atol=1e-5) and np.ptp(drawn[1]) > 1e-3
    if not (level and np.allclose(moved, small, rtol=1e-4, atol=1e-5)):
        return "a constant added to all logits of a row changes the answer; probabilities would not change"
    steps = -np.diff(apart)
    if not np.isclose(steps[0], steps[1], rtol=1e-4) or not abs(steps[0]) > 1.0:
        return f"the logits fall by 1e4 twice, the answer by {steps[0]:.4g} and then by {steps[1]:.4g}"
    return None


def _flat_bottom(values, calls):
    """Something was added inside the logarithm: two very unlikely tokens get the same, finite, value."""
    first, second, third = np.asarray(values[-5], float)  # of the logits 1e4, 0, -1e4
    return bool(np.isfinite([first, second, third]).all() and second < -3 and abs(second - third) < 1e-6)


LOG_SOFTMAX = Exercise(
    name="log_softmax",
    chapter=CHAPTER,
    difficulty=2,
    minutes=12,
    reference=grpo.log_softmax,
    parts=(
        Part(
            says="one row of logits: the natural logs of its probabilities",
            points=2,
            calls=lambda rng: [call(np.array([2.0, 1.0, 0.0])), call(_drawn_logits(rng, 6)), call(np.zeros(4))],
            hint="Write down the probability of one token, take its logarithm on paper, and see what becomes of the "
            "fraction.",
        ),
        Part(
            says="any shape: every row along the last axis by itself",
            points=1,
            calls=_arrays_and_their_rows,
            holds=_rows_alone_give_the_same,
            hint="Which axis do maximum and sum run over, and do their results still line up with the logits?",
        ),
        Part(
            says="finite and right for logits of ten thousand",
            points=1,
            calls=_huge,
            holds=_same_at_any_level,
            hint="exp overflows above 709. Which number may you subtract from a whole row without changing its "
            "probabilities?",
        ),
    ),
    mistakes=(
        Mistake(
            "naive softmax",
            _logsm_naive,
            "Fine for small logits; at 1e4 exp overflows to infinity, and inf/inf is NaN. Nothing keeps the "
            "logits of a model small, and one NaN spoils the whole training step.",
        ),
        Mistake(
            "overflow in the sum",
            _logsm_overflowing_sum,
            "The fraction was taken apart, as it should be; but exp of a large logit still overflows inside the sum.",
        ),
        Mistake(
            "probability underflows",
            _logsm_underflow,
            "The overflow is gone. But a very unlikely token has a probability that rounds to 0, and its log is -inf. "
            "Do not go through the probability at all.",
        ),
        Mistake(
            "floor inside the log",
            _logsm_eps_inside,
            "Very unlikely tokens all get the same value: a small number was added to the probability, or it was cut "
            "off from below. That hides the problem: below that floor the gradient is 0 and the value is wrong.",
            symptom=_flat_bottom,
        ),
        Mistake(
            "wrong axis",
            _logsm_wrong_axis,
            "A single row is right. In an array you normalise over the first axis: tokens of different positions "
            "compete with each other.",
        ),
        Mistake(
            "whole-array normaliser",
            _logsm_whole_array,
            "A single row is right. In an array the probabilities of all rows together sum to 1; each row must do so "
            "by itself.",
        ),
        Mistake(
            "one maximum for all rows",
            _logsm_one_max,
            "The largest logit of the whole array was subtracted. A row far below it underflows. Each row needs its "
            "own maximum.",
        ),
        Mistake(
            "keepdims forgotten",
            _logsm_keepdims_forgotten,
            "A single row works, an array does not: the sums have one axis less than the logits. With a square array "
            "numpy would even subtract the sum of the wrong row without an error.",
        ),
        Mistake(
            "maximum not put back",
            _logsm_max_not_put_back,
            "The maximum was subtracted in one of two places only: your numbers are too large by exactly the maximum "
            "of the row, some are even positive. A log-probability never is.",
        ),
        Mistake("log base 2", _logsm_base_2, "These are logs to base 2 (bits). The course uses natural logs."),
        Mistake("log base 10", _logsm_base_10, "These are logs to base 10. The course uses natural logs."),
        Mistake(
            "sum in base 2",
            _logsm_sum_in_base_2,
            "The log of the sum is to base 2, while exp belongs to the natural log. The two must have the same base.",
        ),
        Mistake(
            "sum in base 10",
            _logsm_sum_in_base_10,
            "The log of the sum is to base 10, while exp belongs to the natural log. The two must have the same base.",
        ),
        Mistake(
            "Python's own max",
            _logsm_builtin_max,
            "A single row works. Python's own `max` cannot handle an array with several rows: it compares whole rows "
            "with each other, and their comparison is neither true nor false. numpy's maximum knows axes.",
        ),
        Mistake(
            "probabilities, no log",
            _logsm_probabilities,
            "These are the probabilities themselves. The logarithm is missing.",
        ),
        Mistake(
            "sign",
            _logsm_sign,
            "These are the right numbers with the wrong sign: a loss (cross-entropy) is minus a log-probability.",
        ),
    ),
    alternatives=(
        Alternative("np.logaddexp", log_softmax_with_logaddexp),
        Alternative("pure Python, row by row", _logsm_row_by_row),
        Alternative("float32 inside", _logsm_float32),
    ),
    hint="Two steps: move each row so that its largest logit is 0; then subtract the log of the sum of exps.",
)
