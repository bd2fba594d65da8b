"""The exercise `kl_k3`: its parts, its known mistakes, and correct alternatives."""

from __future__ import annotations

import math

import numpy as np

import grpo
from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.exercises.chapter_03.common import CHAPTER


def _delta(delta):
    return np.minimum(np.asarray(delta, dtype=float), 80.0)


def _k3_delta_sign(delta):
    return grpo.kl_k3(-np.asarray(delta))


def _k3_is_k1(delta):
    return -np.asarray(delta, dtype=float)


def _k3_is_k2(delta):
    return np.asarray(delta, dtype=float) ** 2 / 2


def _k3_is_absolute(delta):
    return np.abs(np.asarray(delta, dtype=float))


def _k3_negative(delta):
    return -grpo.kl_k3(delta)


def _k3_without_delta(delta):
    return np.expm1(_delta(delta))


def _k3_without_one(delta):
    return grpo.kl_k3(delta) + 1.0


def _k3_plus_delta(delta):
    delta = _delta(delta)
    return np.expm1(delta) + delta


def _k3_naive(delta):
    delta = np.asarray(delta, dtype=float)
    return np.exp(delta) - delta - 1.0


def _k3_naive_but_limited(delta):
    delta = _delta(delta)
    return np.exp(delta) - delta - 1.0


def _k3_one_twice(delta):
    return grpo.kl_k3(delta) - 1.0


def _k3_one_twice_no_limit(delta):
    return _k3_no_limit(delta) - 1.0


def _k3_limited_from_below(delta):
    delta = np.maximum(np.asarray(delta, dtype=float), 80.0)
    return np.expm1(delta) - delta


def _k3_cut_at_zero(delta):
    return np.maximum(_k3_naive_but_limited(delta), 0.0)


def _k3_cut_at_zero_no_limit(delta):
    return np.maximum(_k3_naive(delta), 0.0)


def _k3_no_limit(delta):
    delta = np.asarray(delta, dtype=float)
    return np.expm1(delta) - delta


def _k3_limited_twice(delta):
    return grpo.kl_k3(np.clip(delta, -80.0, 80.0))


def _k3_mean(delta):
    return np.mean(grpo.kl_k3(delta))


def _k3_plain_python(delta):
    if np.ndim(delta):
        return [_k3_plain_python(one) for one in np.asarray(delta).tolist()]
    delta = min(float(delta), 80.0)
    return math.expm1(delta) - delta


def _k3_with_series(delta):
    delta = _delta(delta)
    near = delta**2 / 2 + delta**3 / 6 + delta**4 / 24
    return np.where(np.abs(delta) < 1e-4, near, np.exp(delta) - delta - 1.0)


def _k3_exponent_limited(delta):
    delta = np.asarray(delta, dtype=float)
    return np.expm1(np.where(delta > 80, 80.0, delta)) - delta


_NEAR_ZERO = (0.0, 0.5, -0.5, 2e-9, -8e-10, 1e-8, -1e-8, 1e-7, -1e-6)


def _tiny_deltas(rng):
    sizes = 10.0 ** rng.uniform(-10, -8.5, 10)
    return (sizes * np.where(rng.random(10) < 0.5, -1, 1)).tolist()


def _k3_keeps_its_digits(values, calls):
    for i, (value, one) in enumerate(zip(values, calls, strict=True)):
        deltas, found = np.ravel(one.args[0]), np.ravel(np.asarray(value, dtype=float))
        if found.size != deltas.size:
            return i, f"{deltas.size} deltas went in, {found.size} numbers came back"
        for delta, k3 in zip(deltas, found, strict=True):
            if not k3 >= 0.0:
                return i, f"the result is {k3:.4g}, below 0"
            right = float(grpo.kl_k3(delta))
            if abs(delta) < 1e-3 and abs(k3 - right) > 0.1 * right:
                return i, f"the result is {k3:.3g}, and {right:.3g} is right: the digits got lost"
            if abs(delta) > 0.1 and k3 == 0.0:
                return i, "the result is 0, and only delta = 0 may give 0"
    return None


KL_K3 = Exercise(
    name="kl_k3",
    chapter=CHAPTER,
    difficulty=1,
    minutes=10,
    reference=grpo.kl_k3,
    parts=(
        Part(
            says="the estimate for one delta",
            points=1,
            calls=lambda rng: [
                call(math.log(0.25) - math.log(0.5)),
                call(1.0),
                call(float(rng.uniform(0.3, 2))),
                call(float(-rng.uniform(0.3, 2))),
            ],
            hint="delta is log-prob of the reference minus log-prob of the policy, in this order, and it is handed to "
            "you.",
        ),
        Part(
            says="the estimates for many deltas",
            points=1,
            calls=lambda rng: [
                call(np.log([0.25, 0.75]) - np.log([0.5, 0.5])),
                call(rng.permutation(np.concatenate([rng.uniform(0.3, 2, 3), -rng.uniform(0.3, 2, 3)]))),
            ],
            hint="numpy functions work on a whole array; those of `math` do not.",
        ),
        Part(
            says="never below 0, and next to nothing for a tiny delta",
            points=1,
            calls=lambda rng: [call(x) for x in (*_NEAR_ZERO, *_tiny_deltas(rng))],
            holds=_k3_keeps_its_digits,
            hint="exp(delta) is 1 plus something tiny, and a float near 1 has room for 16 digits only. "
            "numpy has a function that computes exp(x) - 1 in one go.",
        ),
        Part(
            says="a delta of 1000 stays finite: delta is limited to 80 from above",
            points=1,
            calls=lambda rng: [
                call(1000.0),
                call(90.0),
                call(-1000.0, note="no limit on this side"),
                call(float(rng.integers(200, 900))),
                call(-float(rng.integers(200, 900))),
            ],
            hint="Limit delta before it goes into exp, and on the one side where exp grows.",
        ),
    ),
    mistakes=(
        Mistake(
            "delta the wrong way round",
            _k3_delta_sign,
            "These are the numbers for minus delta: the ratio inside is upside down. delta is reference "
            "minus policy, and it needs no further sign.",
        ),
        Mistake(
            "k1",
            _k3_is_k1,
            "This is the estimator k1. Its mean is right, but it is negative for many samples, and as a "
            "loss it penalises nothing at all.",
        ),
        Mistake(
            "k2",
            _k3_is_k2,
            "This is the estimator k2, half of delta squared. It is close to k3 for a small delta and "
            "another number for a large one.",
        ),
        Mistake(
            "absolute value of delta",
            _k3_is_absolute,
            "This is the absolute value of delta. It is never negative, but its mean is not the KL.",
        ),
        Mistake(
            "KL wrong sign",
            _k3_negative,
            "All signs are turned round: this penalty would reward the policy for leaving the reference.",
        ),
        Mistake(
            "delta not subtracted",
            _k3_without_delta,
            "This is exp(delta) - 1. It goes below 0 for a negative delta, and its mean under the policy is "
            "0: one term of the three is missing.",
        ),
        Mistake(
            "1 not subtracted",
            _k3_without_one,
            "Everything is too large by 1: at delta = 0, where the two policies agree, the estimate must be 0.",
        ),
        Mistake(
            "1 subtracted twice",
            _k3_one_twice,
            "Everything is too small by 1: -1 at delta = 0, where 0 is due. `np.expm1` is exp(x) - 1 already, so "
            "the 1 of the formula must not be subtracted once more.",
        ),
        Mistake(
            "1 subtracted twice, and no limit",
            _k3_one_twice_no_limit,
            "Everything is too small by 1: -1 at delta = 0, where 0 is due. `np.expm1` is exp(x) - 1 already, so "
            "the 1 of the formula must not be subtracted once more. And a delta of 1000 is not limited yet.",
        ),
        Mistake(
            "limited from below",
            _k3_limited_from_below,
            "Every ordinary delta was turned into 80, so all results are the same enormous number. `np.maximum` "
            "gives the larger of two numbers: which one do you want when delta is 1000, and which when it is 1?",
        ),
        Mistake(
            "delta added",
            _k3_plus_delta,
            "delta was added where it is to be subtracted: the curve then has no minimum at 0.",
        ),
        Mistake(
            "naive exp",
            _k3_naive,
            "On paper this is right. In floats exp(delta) - delta - 1 loses all its digits near 0 (the "
            "result can be negative), and it becomes infinite for a large delta. Two small changes repair "
            "both.",
        ),
        Mistake(
            "digits lost near 0",
            _k3_naive_but_limited,
            "Near 0 the subtraction of 1 throws all digits away, and the result can be negative. numpy has "
            "a function for exp(x) - 1.",
        ),
        Mistake(
            "negative values cut off",
            _k3_cut_at_zero,
            "Cutting at 0 hides the negative values, but the digits are lost all the same: for a tiny delta the "
            "result is 0, or far too large. Compute exp(x) - 1 without the loss, then nothing needs cutting.",
        ),
        Mistake(
            "negative values cut off, and no limit",
            _k3_cut_at_zero_no_limit,
            "Cutting at 0 hides the negative values, but the digits are lost all the same: for a tiny delta the "
            "result is 0, or far too large. And a delta of 1000 gives infinity.",
        ),
        Mistake(
            "overflow",
            _k3_no_limit,
            "A large delta gives infinity, or a number that float32 cannot hold. One such rollout turns the "
            "loss of the whole batch into inf. Limit delta first.",
        ),
        Mistake(
            "limited on both sides",
            _k3_limited_twice,
            "Very negative deltas were limited as well. exp is harmless there, and the limit hides how far "
            "the policy has gone.",
        ),
        Mistake(
            "mean taken",
            _k3_mean,
            "One number came back for many deltas. Averaging is the job of `grpo_loss`; here each delta keeps its own.",
        ),
    ),
    alternatives=(
        Alternative("plain Python numbers", _k3_plain_python),
        Alternative("a power series near 0", _k3_with_series),
        Alternative("only the exponent limited", _k3_exponent_limited),
    ),
    hint="Look at the formula in the text, then at `np.expm1` and `np.minimum`.",
    atol=1e-20,  # near 0 the values themselves are of the order 1e-19, and what a naive exp makes of them is 1e-16
)
