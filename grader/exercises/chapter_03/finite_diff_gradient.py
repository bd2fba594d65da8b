"""The exercise `finite_diff_gradient`: its parts, its known mistakes, and correct alternatives."""

from __future__ import annotations

import numpy as np

import grpo
from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.exercises.chapter_03.common import CHAPTER
from grader.plain import SmoothFunction


def _each_coordinate(x, difference):
    """Fill a gradient: `difference(x, step)` with `step` along each coordinate in turn."""
    x = np.asarray(x, dtype=float)
    return np.array([difference(x, direction) for direction in np.eye(x.size)])


def _fd_forward(f, x, h=1e-5):
    return _each_coordinate(x, lambda x, e: (f(x + h * e) - f(x)) / h)


def _fd_backward(f, x, h=1e-5):
    return _each_coordinate(x, lambda x, e: (f(x) - f(x - h * e)) / h)


def _fd_by_h(f, x, h=1e-5):
    return 2 * grpo.finite_diff_gradient(f, x, h)


def _fd_by_h_squared(f, x, h=1e-5):
    return 2 / h * grpo.finite_diff_gradient(f, x, h)


def _fd_not_divided(f, x, h=1e-5):
    return 2 * h * grpo.finite_diff_gradient(f, x, h)


def _fd_times_h(f, x, h=1e-5):
    return h**2 * grpo.finite_diff_gradient(f, x, h)


def _fd_second(f, x, h=1e-5):
    return _each_coordinate(x, lambda x, e: (f(x + h * e) - 2 * f(x) + f(x - h * e)) / h**2)


def _fd_sign(f, x, h=1e-5):
    return -grpo.finite_diff_gradient(f, x, h)


def _fd_all_at_once(f, x, h=1e-5):
    x = np.asarray(x, dtype=float)
    return np.full(x.shape, (f(x + h) - f(x - h)) / (2 * h))


def _fd_not_restored(f, x, h=1e-5):
    x, gradient = np.array(x, dtype=float), []
    for i in range(x.size):
        x[i] += h
        up = f(x)
        x[i] -= 2 * h
        gradient.append((up - f(x)) / (2 * h))
    return np.array(gradient)


def _fd_steps_add_up(f, x, h=1e-5):
    up, down, gradient = np.array(x, dtype=float), np.array(x, dtype=float), []
    for i in range(up.size):
        up[i] += h
        down[i] -= h
        gradient.append((f(up) - f(down)) / (2 * h))
    return np.array(gradient)


def _fd_richardson(f, x, h=1e-5):
    return (4 * grpo.finite_diff_gradient(f, x, h / 2) - grpo.finite_diff_gradient(f, x, h)) / 3


def _fd_fixed_h(f, x, h=1e-5):
    return grpo.finite_diff_gradient(f, x, 1e-5)


def _fd_integers_cut(f, x, h=1e-5):
    gradient = np.zeros(len(x))
    for i in range(len(x)):
        up, down = np.array(x), np.array(x)
        up[i] += h
        down[i] -= h
        gradient[i] = (f(up) - f(down)) / (2 * h)
    return gradient


def _right_for_floats_only(values, calls):
    """Tell whether all answers are right except those for an x of whole numbers."""
    for value, one in zip(values, calls, strict=True):
        right = np.allclose(value, grpo.finite_diff_gradient(*one.args, **one.kwargs), rtol=_RTOL, atol=_ATOL)
        if right == (np.asarray(one.args[1]).dtype.kind in "iu"):
            return False
    return True


def _fd_one_number(f, x, h=1e-5):
    return grpo.finite_diff_gradient(f, x, h)[0]


def _fd_in_place(f, x, h=1e-5):
    x, gradient = [float(value) for value in x], []
    for i, value in enumerate(x):
        x[i] = value + h
        up = f(np.array(x))
        x[i] = value - h
        down = f(np.array(x))
        x[i] = value
        gradient.append((up - down) / (2 * h))
    return gradient


def _fd_mean_of_both_sides(f, x, h=1e-5):
    return (_fd_forward(f, x, h) + _fd_backward(f, x, h)) / 2


def _curve(rng, size):
    """A function with a bend in every coordinate, and a point where that bend shows."""
    signs = np.where(rng.permutation(size) % 2, -1.0, 1.0)
    linear, bend = rng.uniform(0.5, 2, size), rng.uniform(1, 2, size) * signs
    f = SmoothFunction(tuple(linear.tolist()), tuple(bend.tolist()), float(rng.uniform(1, 2)))
    return f, rng.uniform(0.5, 1.2, size)


# With the default step the one-sided difference is off by about 1e-5. That is right enough for the parts that are not
# about it: they are the same for every seed, and only the part with a large step tells the two apart.
_RTOL, _ATOL = 1e-4, 5e-5

FINITE_DIFF_GRADIENT = Exercise(
    name="finite_diff_gradient",
    chapter=CHAPTER,
    difficulty=1,
    minutes=10,
    reference=grpo.finite_diff_gradient,
    parts=(
        Part(
            says="one slope per coordinate, with the default step",
            points=2,
            calls=lambda rng: [
                call(SmoothFunction((1.0, 0.0), (0.0, 2.0), 1.0), np.array([0.5, 1.0])),
                call(SmoothFunction((3.0,), (0.0,)), np.array([0.5])),
                call(*_curve(rng, 4)),
            ],
            hint="One entry per coordinate; the others stay where they are meanwhile. And how far apart are the "
            "two points at which f is taken?",
        ),
        Part(
            says="two-sided, and with the step that was asked for (h = .1, .05, 1)",
            points=1,
            calls=lambda rng: [
                call(SmoothFunction((1.0, 0.0), (0.0, 2.0), 1.0), np.array([0.5, 1.0]), h=0.1),
                call(*_curve(rng, 3), h=0.1),
                call(*_curve(rng, 5), h=0.05),
                call(*_curve(rng, 3), h=1.0),
            ],
            hint="Look at f on both sides of x, `h` away from it. A large step makes the difference visible.",
        ),
        Part(
            says="an x of whole numbers",
            points=1,
            calls=lambda rng: [
                call(SmoothFunction((1.0, 2.0), (1.0, 1.0), 1.0), np.array([1, 2])),
                call(_curve(rng, 3)[0], rng.integers(1, 5, 3)),
            ],
            hint="Integer arrays cannot hold 1.00001. Which dtype does your working copy have?",
        ),
    ),
    mistakes=(
        Mistake(
            "forward difference",
            _fd_forward,
            "This looks ahead only: f(x + h) against f(x). Its error shrinks with h, that of the two-sided "
            "difference with h squared.",
        ),
        Mistake(
            "backward difference",
            _fd_backward,
            "This looks back only: f(x) against f(x - h). The two-sided difference is far more exact.",
        ),
        Mistake(
            "divided by h",
            _fd_by_h,
            "Everything is twice too large. How far apart are x + h and x - h?",
        ),
        Mistake(
            "divided by h squared",
            _fd_by_h_squared,
            "The difference was divided by h squared, or by h twice. A first derivative is divided by one distance.",
        ),
        Mistake(
            "not divided",
            _fd_not_divided,
            "This is the difference of the two values alone. The distance between the two points is missing.",
        ),
        Mistake(
            "brackets missing around 2 * h",
            _fd_times_h,
            "Everything is far too small. `/ 2 * h` divides by 2 and then multiplies by h: Python goes from left to "
            "right, and the distance needs brackets.",
        ),
        Mistake(
            "second derivative",
            _fd_second,
            "This is the second derivative: how the slope bends, not the slope.",
        ),
        Mistake(
            "sign",
            _fd_sign,
            "All signs are turned round: which of the two values comes first?",
        ),
        Mistake(
            "all coordinates at once",
            _fd_all_at_once,
            "All coordinates were moved together, so every entry is the same. A partial derivative moves "
            "one and leaves the rest.",
        ),
        Mistake(
            "x not put back",
            _fd_not_restored,
            "The first entry is right and later ones are off: x was moved and not put back before the next coordinate.",
        ),
        Mistake(
            "steps add up",
            _fd_steps_add_up,
            "The first entry is right, and each later one contains those before it: the working copies keep the "
            "steps of earlier coordinates. Start each coordinate from x itself.",
        ),
        Mistake(
            "more than two points (Richardson)",
            _fd_richardson,
            "This is a formula of higher order, from steps h and h/2. It is nearer to the derivative, but it is not "
            "the central difference with step `h` that is asked for here, with one point on each side.",
        ),
        Mistake(
            "h ignored",
            _fd_fixed_h,
            "A large `h` gives the same result as the smallest one: the step does not depend on what is passed in.",
        ),
        Mistake(
            "whole numbers cut off",
            _fd_integers_cut,
            "For an x of whole numbers the step got lost: an integer array cuts 1.00001 down to 1, without a "
            "warning. Make a float copy first.",
            symptom=_right_for_floats_only,
        ),
        Mistake(
            "one number",
            _fd_one_number,
            "One number came back; a gradient has one entry per coordinate of x.",
        ),
    ),
    alternatives=(
        Alternative("a list changed and put back", _fd_in_place),
        Alternative("the mean of forward and backward", _fd_mean_of_both_sides),
    ),
    hint="A row of `np.eye(len(x))` is a step along one coordinate.",
    rtol=_RTOL,
    atol=_ATOL,
)
