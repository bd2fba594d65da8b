"""The exercise `wilson_interval`: its parts, its known mistakes, and correct alternatives."""

from __future__ import annotations

import math

from grader.compare import as_numbers
from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.exercises.chapter_07.common import CHAPTER


def _checked(successes, trials):
    if trials < 1 or not 0 <= successes <= trials:
        raise ValueError(f"{successes} successes of {trials} trials: there must be trials, and no more successes")


def _interval(
    centre=lambda p, n, z: p + z**2 / (2 * n),
    inside=lambda p, n, z: p * (1 - p) / n + z**2 / (4 * n**2),
    scale=lambda n, z: 1 + z**2 / n,
    factor=lambda z: z,
    share=lambda s, n: s / n,
    check=_checked,
    ends=lambda low, high: (low, high),
):
    """Wilson's interval with one of its pieces made otherwise."""

    def interval(successes, trials, z=1.96):
        check(successes, trials)
        p, n = share(successes, trials), trials
        half = factor(z) * math.sqrt(max(inside(p, n, z), 0.0)) / scale(n, z)
        middle = centre(p, n, z) / scale(n, z)
        return ends(middle - half, middle + half)

    return interval


wilson_interval = _interval()


def _wald(successes, trials, z=1.96):
    _checked(successes, trials)
    p = successes / trials
    half = z * math.sqrt(p * (1 - p) / trials)
    return p - half, p + half


def _wald_cut_off(successes, trials, z=1.96):
    low, high = _wald(successes, trials, z)
    return max(0.0, low), min(1.0, high)


def _agresti_coull(successes, trials, z=1.96):
    """The usual interval of a share with z**2 / 2 successes and as many failures put in."""
    _checked(successes, trials)
    n = trials + z**2
    p = (successes + z**2 / 2) / n
    half = z * math.sqrt(p * (1 - p) / n)
    return p - half, p + half


def _corrected(successes, trials, z=1.96):
    """Wilson's interval with a correction for continuity."""
    _checked(successes, trials)
    p, n = successes / trials, trials
    low_root = z**2 - 2 - 1 / n + 4 * p * (n * (1 - p) + 1)
    high_root = z**2 + 2 - 1 / n + 4 * p * (n * (1 - p) - 1)
    low = (2 * n * p + z**2 - 1 - z * math.sqrt(max(low_root, 0.0))) / (2 * (n + z**2))
    high = (2 * n * p + z**2 + 1 + z * math.sqrt(max(high_root, 0.0))) / (2 * (n + z**2))
    return (0.0 if p == 0 else max(0.0, low)), (1.0 if p == 1 else min(1.0, high))


def _std_for_error(successes, trials, z=1.96):
    _checked(successes, trials)
    p = successes / trials
    half = z * math.sqrt(p * (1 - p))
    return p - half, p + half


def _z_ignored(successes, trials, z=1.96):
    return wilson_interval(successes, trials)


def _centre_and_half(successes, trials, z=1.96):
    low, high = wilson_interval(successes, trials, z)
    return (low + high) / 2, (high - low) / 2


def _no_check(successes, trials):
    """0 / 0 raises a ZeroDivisionError by itself."""


def _only_trials(successes, trials):
    if trials < 1:
        raise ValueError("no trials")


def _only_successes(successes, trials):
    if not 0 <= successes <= trials:
        raise ValueError("successes outside 0 .. trials")


def _only_too_many(successes, trials):
    if trials < 1 or successes > trials:
        raise ValueError("more successes than trials")


def _everything_for_no_trials(successes, trials, z=1.96):
    return (0.0, 1.0) if trials == 0 else wilson_interval(successes, trials, z)


def _by_roots(successes, trials, z=1.96):
    """The two shares p0 from which the observed one lies z standard errors away: (p - p0)^2 = z^2 p0 (1 - p0) / n."""
    if trials <= 0 or successes < 0 or successes > trials:
        raise ValueError("no such share")
    a, b, c = trials + z * z, 2 * successes + z * z, successes * successes / trials
    root = math.sqrt(max(b * b - 4 * a * c, 0.0))
    return [max(0.0, (b - root) / (2 * a)), min(1.0, (b + root) / (2 * a))]


def _by_bisection(successes, trials, z=1.96):
    import numpy as np

    if trials < 1 or successes < 0 or successes > trials:
        raise ValueError("no such share")
    p = successes / trials

    def outside(share):
        return abs(p - share) > z * np.sqrt(share * (1 - share) / trials)

    ends = []
    for far in (0.0, 1.0):
        near = p
        if not outside(far) and far == p:
            ends.append(far)
            continue
        for _ in range(60):
            middle = (near + far) / 2
            near, far = (near, middle) if outside(middle) else (middle, far)
        ends.append(near)
    return np.array(ends)


def _middle_calls(rng):
    trials = int(rng.integers(30, 60))
    few = int(rng.integers(9, 15))
    return [
        call(8, 10),
        call(int(rng.integers(2, few // 2)), few),
        call(int(rng.integers(trials // 2 + 2, trials - 3)), trials),
        call(trials / 4 + 0.125, trials, note="a sum of rewards need not be a whole number"),
        call(76, 500, note="15.2% of MATH-500"),
    ]


def _edge_calls(rng):
    trials = int(rng.integers(11, 40))
    return [call(0, 10), call(10, 10), call(0, trials), call(trials, trials), call(1, 1)]


def _two_ends(value):
    numbers = as_numbers(value)
    return None if numbers is None or numbers.shape != (2,) else numbers.astype(float)


def _edges_make_sense(values, calls):
    for i, (value, one) in enumerate(zip(values, calls, strict=True)):
        found = _two_ends(value)
        if found is None:
            return i, "two numbers are due, the lower and the upper end"
        low, high = sorted(found)
        if not (low > -1e-6 and high < 1 + 1e-6):
            return i, f"a share lies between 0 and 1, and this interval goes from {low:.4f} to {high:.4f}"
        trials = one.args[1]
        if not high - low > 0.2 / (trials + 4):
            return i, f"the interval is {high - low:.4f} wide, as if {trials} trials left nothing open"
        sure = low if one.args[0] == 0 else 1 - high
        if abs(sure) > 1e-6:
            end = "lower end is 0" if one.args[0] == 0 else "upper end is 1"
            return i, f"the {end} here: no share lies nearer to what was seen. This one ends {abs(sure):.4f} away"
    return None


def _z_calls(rng):
    trials = int(rng.integers(20, 40))
    successes = int(rng.integers(4, trials - 4))
    z = float(rng.choice([1.15, 1.28, 1.44]))
    return [call(8, 10, z=1.0), call(successes, trials, z=z), call(successes, trials, z=2.576)]


def _error_calls(rng):
    trials = int(rng.integers(5, 20))
    return [
        call(3, trials, z=2.576),
        call(0, 0, note="no trials"),
        call(trials + 1, trials, z=2.576),
        call(-1, trials, z=2.576),
    ]


WILSON_INTERVAL = Exercise(
    name="wilson_interval",
    chapter=CHAPTER,
    difficulty=1,
    minutes=10,
    reference=wilson_interval,
    parts=(
        Part(
            says="a share somewhere in the middle",
            points=1,
            calls=_middle_calls,
            hint="Three pieces: the middle, the half width, and what both are divided by. Check each by hand for 8 of "
            "10.",
        ),
        Part(
            says="0 and all successes: the interval has a width, and stays within 0 and 1",
            points=1,
            calls=_edge_calls,
            holds=_edges_make_sense,
            hint="10 right answers of 10 do not prove an accuracy of 1. What is left of the half width if p (1 - p) "
            "is 0?",
        ),
        Part(
            says="other levels than 95%",
            points=1,
            calls=_z_calls,
            hint="Every z of the formula is the argument.",
        ),
        Part(
            says="no trials, and more or fewer successes than there can be, raise a ValueError",
            points=1,
            calls=_error_calls,
            only_errors=True,
            hint="Look at both numbers before you divide. 0 / 0 raises an error of its own, which says less.",
        ),
    ),
    mistakes=(
        Mistake(
            "the usual interval",
            _wald,
            "This is p plus and minus z standard errors. At 0 of 10 it has no width at all, and near 0 or 1 it reaches "
            "beyond them. Wilson's interval is another one.",
        ),
        Mistake(
            "the usual interval, cut off at 0 and 1",
            _wald_cut_off,
            "This is p plus and minus z standard errors, cut off at 0 and 1. Cut off it looks sensible, but at 0 of 10 "
            "it still has no width.",
        ),
        Mistake(
            "Agresti-Coull",
            _agresti_coull,
            "This is the interval of Agresti and Coull: the same middle, but a little wider, and near 0 and 1 it "
            "reaches beyond them. It is a real method, and another one.",
        ),
        Mistake(
            "corrected for continuity",
            _corrected,
            "This is Wilson's interval with a correction for continuity. It is a real method, wider than the one asked "
            "for.",
        ),
        Mistake(
            "the middle is p",
            _interval(centre=lambda p, n, z: p * (1 + z**2 / n)),
            "The width is right, and the interval lies around p. Its middle is drawn towards a half, the more the "
            "fewer trials there are; else it would leave 0..1.",
        ),
        Mistake(
            "p not moved, and yet divided",
            _interval(centre=lambda p, n, z: p),
            "The middle is p divided by something above 1: it moved towards 0, not towards a half. A term is missing.",
        ),
        Mistake(
            "z not squared in the middle",
            _interval(centre=lambda p, n, z: p + z / (2 * n)),
            "In the middle z stands where its square belongs.",
        ),
        Mistake(
            "z not squared under the root",
            _interval(inside=lambda p, n, z: p * (1 - p) / n + z / (4 * n**2)),
            "Under the root z stands where its square belongs.",
        ),
        Mistake(
            "z not squared in the divisor",
            _interval(scale=lambda n, z: 1 + z / n),
            "In what both are divided by, z stands where its square belongs.",
        ),
        Mistake(
            "z never squared",
            _interval(
                centre=lambda p, n, z: p + z / (2 * n),
                inside=lambda p, n, z: p * (1 - p) / n + z / (4 * n**2),
                scale=lambda n, z: 1 + z / n,
            ),
            "z was not squared anywhere. Only the factor of the root is a plain z.",
        ),
        Mistake(
            "n for 2n in the middle",
            _interval(centre=lambda p, n, z: p + z**2 / n),
            "The middle moves too far: at 0 of 10 the interval does not begin at 0. Look at what z squared is divided "
            "by.",
        ),
        Mistake(
            "n for n squared under the root",
            _interval(inside=lambda p, n, z: p * (1 - p) / n + z**2 / (4 * n)),
            "The interval is much too wide: under the root a term falls with the square of n, not with n.",
        ),
        Mistake(
            "times n in the middle",
            _interval(centre=lambda p, n, z: p + z**2 / 2 * n),
            "In the middle z squared was multiplied by n. Python works from left to right: `a / 2 * n` is half of a, "
            "times n. What stands below a fraction line needs brackets.",
        ),
        Mistake(
            "times n squared under the root",
            _interval(inside=lambda p, n, z: p * (1 - p) / n + z**2 / 4 * n**2),
            "Under the root z squared was multiplied by n squared. Python works from left to right: `a / 4 * n` is a "
            "quarter of a, times n. What stands below a fraction line needs brackets.",
        ),
        Mistake(
            "times n in both",
            _interval(
                centre=lambda p, n, z: p + z**2 / 2 * n,
                inside=lambda p, n, z: p * (1 - p) / n + z**2 / 4 * n**2,
            ),
            "In the middle and under the root z squared was multiplied by what it should be divided by. Python works "
            "from left to right: `a / 2 * n` is half of a, times n. What stands below a fraction line needs brackets.",
        ),
        Mistake(
            "2 for 4 under the root",
            _interval(inside=lambda p, n, z: p * (1 - p) / n + z**2 / (2 * n**2)),
            "The term with z under the root is twice too large.",
        ),
        Mistake(
            "no term with z under the root",
            _interval(inside=lambda p, n, z: p * (1 - p) / n),
            "Under the root stands p (1 - p) / n alone: at 0 of 10 the interval has no width.",
        ),
        Mistake(
            "not divided",
            _interval(scale=lambda n, z: 1.0),
            "Middle and half width were not divided by 1 + z^2 / n: at 10 of 10 the interval leaves 0..1.",
        ),
        Mistake(
            "half width not divided",
            _interval(inside=lambda p, n, z: (p * (1 - p) / n + z**2 / (4 * n**2)) * (1 + z**2 / n) ** 2),
            "The middle was divided by 1 + z^2 / n, the half width was not.",
        ),
        Mistake(
            "middle not divided",
            _interval(centre=lambda p, n, z: (p + z**2 / (2 * n)) * (1 + z**2 / n)),
            "The half width was divided by 1 + z^2 / n, the middle was not.",
        ),
        Mistake(
            "no root",
            _interval(inside=lambda p, n, z: (p * (1 - p) / n + z**2 / (4 * n**2)) ** 2),
            "The root was not taken: a variance stands where a width belongs.",
        ),
        Mistake(
            "without z before the root",
            _interval(factor=lambda z: 1.0),
            "The root was not multiplied by z: the interval is about half as wide, as for one standard error.",
        ),
        Mistake(
            "2z before the root",
            _interval(factor=lambda z: 2 * z),
            "The interval is twice too wide: the half width reaches to each side already.",
        ),
        Mistake(
            "z / 2 before the root",
            _interval(factor=lambda z: z / 2),
            "The interval is half as wide as it should be: z reaches to each side.",
        ),
        Mistake(
            "std for standard error",
            _std_for_error,
            "The number of trials plays no part in the width: this is the spread of one answer, not of the share.",
        ),
        Mistake(
            "z fixed at 1.96",
            _z_ignored,
            "The interval is that of 95%, whatever z is passed in.",
        ),
        Mistake(
            "in percent",
            _interval(ends=lambda low, high: (100 * low, 100 * high)),
            "The ends came back in percent. They are shares, from 0 to 1.",
        ),
        Mistake(
            "in counts",
            lambda successes, trials, z=1.96: tuple(trials * end for end in wilson_interval(successes, trials, z)),
            "The ends came back as numbers of successes. They are shares, from 0 to 1.",
        ),
        Mistake(
            "ends exchanged",
            _interval(ends=lambda low, high: (high, low)),
            "The ends have changed places: first the lower one.",
        ),
        Mistake(
            "middle and half width",
            _centre_and_half,
            "The middle and the half width came back. The two ends are asked for.",
        ),
        Mistake(
            "share rounded down",
            _interval(share=lambda s, n: math.floor(s) / n),
            "Successes were rounded down to a whole number. A sum of rewards need not be one.",
        ),
        Mistake(
            "whole division",
            _interval(share=lambda s, n: s // n),
            "The share is 0 for everything below all successes: // divides and rounds down.",
        ),
        Mistake(
            "nothing refused",
            _interval(check=_no_check),
            "Impossible numbers of successes go through, and 0 of 0 fails with another error. An accuracy of 110% in a "
            "table is a bug somewhere else, and this is the place to notice it.",
        ),
        Mistake(
            "successes not looked at",
            _interval(check=_only_trials),
            "More successes than trials, and fewer than none, go through, or are cut off to what is possible. They "
            "come from a slip elsewhere (a reward counted twice, say), and this is the place to notice it.",
        ),
        Mistake(
            "no trials not looked at",
            _interval(check=_only_successes),
            "0 of 0 fails with a ZeroDivisionError, which does not say what is wrong. Look at the trials first.",
        ),
        Mistake(
            "fewer than none",
            _interval(check=_only_too_many),
            "A number of successes below 0 goes through. It happens with rewards that can be negative.",
        ),
        Mistake(
            "everything for no trials",
            _everything_for_no_trials,
            "0 of 0 gave the interval from 0 to 1. That is not unreasonable, but an evaluation without problems is a "
            "slip: stop with a ValueError.",
        ),
    ),
    alternatives=(
        Alternative("roots of the quadratic equation", _by_roots),
        Alternative("bisection", _by_bisection),
    ),
    shortcuts=("evaluate",),
    hint="Middle, half width, and one divisor for both. Errors first.",
)
