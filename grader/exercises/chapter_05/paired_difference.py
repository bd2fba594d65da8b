"""The exercise `paired_difference`: its parts, its known mistakes, and correct alternatives."""

from __future__ import annotations

from functools import lru_cache
from statistics import fmean, stdev

import numpy as np

from grader.compare import as_numbers
from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.exercises.chapter_05.common import CHAPTER
from grpo.expressions import compare

_quantile = lru_cache(compare.student_t_quantile)  # it integrates numerically, and is asked for the same few values


def paired_difference(values, baseline):
    """(mean, low, high) as `grpo.expressions.paired_difference` has them, with the t factors kept."""
    values, baseline, n = _pair(values, baseline)
    differences = values - baseline
    half = _quantile(n - 1) * float(differences.std(ddof=1) / np.sqrt(n)) if n > 1 else float("inf")
    return _interval(float(differences.mean()), half)


def _pair(values, baseline):
    values, baseline = np.asarray(values, dtype=float), np.asarray(baseline, dtype=float)
    if values.shape != baseline.shape or not np.isfinite([values, baseline]).all():
        raise ValueError("no pairs")
    return values, baseline, len(values)


def _interval(mean, half):
    return mean, mean - half, mean + half


def _with_half(half):
    """A mistake in the half width only: half(differences, n) for n > 1."""

    def wrong(values, baseline):
        a, b, n = _pair(values, baseline)
        return _interval(float((a - b).mean()), half(a - b, n) if n > 1 else float("inf"))

    return wrong


def _unpaired(values, baseline):
    a, b, n = _pair(values, baseline)
    if n == 1:
        return _interval(float(a[0] - b[0]), float("inf"))
    half = _quantile(2 * n - 2) * np.sqrt((a.var(ddof=1) + b.var(ddof=1)) / n)
    return _interval(float(a.mean() - b.mean()), half)


def _unpaired_same_df(values, baseline):
    a, b, n = _pair(values, baseline)
    if n == 1:
        return _interval(float(a[0] - b[0]), float("inf"))
    half = _quantile(n - 1) * np.sqrt((a.var(ddof=1) + b.var(ddof=1)) / n)
    return _interval(float(a.mean() - b.mean()), half)


def _sign(values, baseline):
    return paired_difference(baseline, values)


def _absolute(values, baseline):
    a, b, n = _pair(values, baseline)
    return paired_difference(np.abs(a - b), np.zeros(n))


def _sorted(values, baseline):
    a, b, _ = _pair(values, baseline)
    return paired_difference(np.sort(a), np.sort(b))


def _relative(values, baseline):
    a, b, n = _pair(values, baseline)
    return paired_difference((a - b) / b, np.zeros(n))


def _median(values, baseline):
    mean, low, high = paired_difference(values, baseline)
    middle = float(np.median(np.asarray(values) - np.asarray(baseline)))
    return middle, low - mean + middle, high - mean + middle


def _percentiles(values, baseline):
    a, b, _ = _pair(values, baseline)
    low, high = np.percentile(a - b, [2.5, 97.5])
    return float((a - b).mean()), float(low), float(high)


def _half_width_returned(values, baseline):
    mean, _, high = paired_difference(values, baseline)
    return mean, high - mean, high - mean


def _lengths_not_compared(values, baseline):
    n = min(len(values), len(baseline))
    return paired_difference(values[:n], baseline[:n])


def _nan_dropped(values, baseline):
    a, b = np.asarray(values, dtype=float), np.asarray(baseline, dtype=float)
    if a.shape != b.shape:
        raise ValueError("no pairs")
    keep = np.isfinite(a) & np.isfinite(b)
    return paired_difference(a[keep], b[keep])


def _with_statistics(values, baseline):
    if len(values) != len(baseline):
        raise ValueError("no pairs")
    gaps = [float(a) - float(b) for a, b in zip(values, baseline, strict=True)]
    if any(gap != gap for gap in gaps):
        raise ValueError("NaN")
    half = _quantile(len(gaps) - 1) * stdev(gaps) / len(gaps) ** 0.5 if len(gaps) > 1 else float("inf")
    return [fmean(gaps), fmean(gaps) - half, fmean(gaps) + half]


def _with_sums(values, baseline):
    a, b, n = _pair(values, baseline)
    gaps = a - b
    mean = gaps.sum() / n
    if n == 1:
        return np.array([mean, -np.inf, np.inf])
    error = np.sqrt(((gaps - mean) ** 2).sum() / (n * (n - 1)))
    return np.array([mean, mean - _quantile(n - 1) * error, mean + _quantile(n - 1) * error])


def _seeds(rng, n, spread=0.2, effect=0.05):
    """Two arms whose seeds differ much from each other and little between the arms."""
    seed = rng.uniform(0.3, 0.3 + spread, size=n)
    values = seed + effect + rng.normal(size=n) * 0.02
    return np.round(values, 3).tolist(), np.round(seed, 3).tolist()


def _mean_calls(rng):
    return [
        call([0.75, 0.5, 0.75], [0.5, 0.5, 0.25]),
        call(*_seeds(rng, 7)),
        call(*_seeds(rng, 12, effect=-0.04)),
    ]


def _three_numbers(value):
    numbers = as_numbers(value)
    return None if numbers is None or numbers.shape != (3,) else numbers.astype(float)


def _mean_is_right(values, calls):
    for i, (value, one) in enumerate(zip(values, calls, strict=True)):
        numbers, right = _three_numbers(value), paired_difference(*one.args)[0]
        if numbers is None:
            return i, "three numbers are due: the mean difference, the lower and the upper end of its interval"
        if not abs(numbers[0] - right) < 1e-5:
            return i, f"the mean of the differences is {right:.4f}, yours is {numbers[0]:.4f}"
    return None


def _width_calls(rng):
    return [
        call([0.75, 0.5, 0.75], [0.5, 0.5, 0.25]),
        call([0.5, 0.5], [0.4, 0.2]),
        call(*_seeds(rng, 8)),
        call(*_seeds(rng, 20)),
        call([0.5], [0.25], note="one seed: nothing is known about the spread"),
    ]


def _width_is_right(values, calls):
    for i, (value, one) in enumerate(zip(values, calls, strict=True)):
        numbers = _three_numbers(value)
        if numbers is None:
            return i, "three numbers are due: the mean difference, the lower and the upper end of its interval"
        _, low, high = paired_difference(*one.args)
        if np.isinf(high):
            if not (numbers[1] == -np.inf and numbers[2] == np.inf):
                return i, "one pair says nothing about the spread: its interval goes from -inf to inf"
        elif not abs((numbers[2] - numbers[1]) - (high - low)) < 1e-4 * (high - low) + 1e-7:
            return i, f"the interval is {high - low:.4f} wide, yours is {numbers[2] - numbers[1]:.4f}"
        elif not abs(numbers[2] + numbers[1] - 2 * numbers[0]) < 1e-4:
            return i, "the mean does not lie in the middle of the interval"
    return None


def _luck_calls(rng):
    values, baseline = _seeds(rng, 9)
    luck = np.round(rng.normal(size=9) * 0.3, 3)
    return [
        call(values, baseline),
        call((values + luck).round(3).tolist(), (baseline + luck).round(3).tolist(),
             note="each seed got luckier or unluckier, in both arms alike"),
    ]  # fmt: skip


def _luck_cancels(values, calls):
    before, after = (_three_numbers(value) for value in values)
    if before is None or after is None:
        return "three numbers are due"
    if not (before[2] - before[1] > 1e-4 and np.isfinite(before).all()):
        return "the interval has no width"
    if not np.allclose(before, after, atol=1e-5):
        return 1, (
            f"the interval is {before[2] - before[1]:.3f} wide before and {after[2] - after[1]:.3f} after each seed's "
            "luck was changed in both arms alike; what both arms share has to cancel"
        )
    return None


PAIRED_DIFFERENCE = Exercise(
    name="paired_difference",
    chapter=CHAPTER,
    difficulty=2,
    minutes=12,
    reference=paired_difference,
    parts=(
        Part(
            says="the mean difference, seed by seed",
            points=1,
            calls=_mean_calls,
            holds=_mean_is_right,
            hint="values - baseline, so a better arm gives a number above 0.",
        ),
        Part(
            says="the width of the 95% interval, around the mean",
            points=2,
            calls=_width_calls,
            holds=_width_is_right,
            hint="How far would the *mean* of n differences move with other seeds? Less than one difference would.",
        ),
        Part(
            says="what both arms owe to the seed cancels",
            points=1,
            calls=_luck_calls,
            holds=_luck_cancels,
            hint="Subtract first. Then the differences are the only data.",
        ),
        Part(
            says="unequal lengths and NaN raise a ValueError",
            points=1,
            calls=lambda rng: [
                call([0.5, 0.75], [0.25, 0.5]),
                call([0.5, 0.75, 0.5], [0.25, 0.5], note="three seeds against two"),
                call([0.5, 0.75], [0.25, 0.5, 0.5], note="two seeds against three"),
                call([0.5, float("nan"), 0.75], [0.25, 0.5, 0.5]),
            ],
            only_errors=True,
            hint="A seed that failed in one arm must be noticed, not dropped: the failures are part of the result.",
        ),
    ),
    mistakes=(
        Mistake(
            "unpaired",
            _unpaired,
            "The spread of each arm went into the interval by itself. But the arms share their seeds: what a seed does "
            "to both cancels in the difference, and the interval becomes much smaller.",
        ),
        Mistake(
            "variances added",
            _unpaired_same_df,
            "The variances of the two arms were added, as if their seeds had nothing to do with each other.",
        ),
        Mistake(
            "std for standard error",
            _with_half(lambda d, n: _quantile(n - 1) * d.std(ddof=1)),
            "This interval holds single seeds, not the mean: it does not shrink with more seeds. Something with n is "
            "missing.",
        ),
        Mistake(
            "divided by n",
            _with_half(lambda d, n: _quantile(n - 1) * d.std(ddof=1) / n),
            "The interval shrinks too fast: the standard error of a mean falls with the root of n.",
        ),
        Mistake(
            "population std",
            _with_half(lambda d, n: _quantile(n - 1) * d.std() / np.sqrt(n)),
            "The std divides by n: it is a little too small, most of all with few seeds. See `ddof`.",
        ),
        Mistake(
            "1.96 for t",
            _with_half(lambda d, n: 1.96 * d.std(ddof=1) / np.sqrt(n)),
            "1.96 is the factor for infinitely many seeds. With 8 it is 2.36: the std itself is only an estimate.",
        ),
        Mistake(
            "wrong degrees of freedom",
            _with_half(lambda d, n: _quantile(n) * d.std(ddof=1) / np.sqrt(n)),
            "The t factor is that for one seed more. n differences leave one degree of freedom less than n.",
        ),
        Mistake(
            "90% interval",
            _with_half(lambda d, n: _quantile(n - 1, 0.9) * d.std(ddof=1) / np.sqrt(n)),
            "This is a 90% interval: 5% are cut off on each side. 95% cut off 2.5% on each side.",
        ),
        Mistake(
            "one standard error",
            _with_half(lambda d, n: d.std(ddof=1) / np.sqrt(n)),
            "The interval is the mean plus and minus one standard error. That is about a 68% interval.",
        ),
        Mistake(
            "half the width",
            _with_half(lambda d, n: 0.5 * _quantile(n - 1) * d.std(ddof=1) / np.sqrt(n)),
            "The interval has half the right width: it reaches from mean - t·se to mean + t·se.",
        ),
        Mistake(
            "percentiles of the seeds",
            _percentiles,
            "These are percentiles of the single differences. They say where other seeds lie, not where the mean does.",
        ),
        Mistake(
            "baseline minus values",
            _sign,
            "The sign is turned round: a better arm has to give a number above 0.",
        ),
        Mistake(
            "absolute differences",
            _absolute,
            "The sizes of the differences were averaged, without their signs. Then even two equal arms would differ.",
        ),
        Mistake(
            "sorted first",
            _sorted,
            "Both lists were sorted, so seeds are compared with strangers. Entry i of both lists is the same seed.",
        ),
        Mistake("relative difference", _relative, "The differences were divided by the baseline."),
        Mistake(
            "median",
            _median,
            "The median of the differences was taken. It would hide a few destroyed runs, and these matter.",
        ),
        Mistake(
            "half width returned",
            _half_width_returned,
            "The two ends of the interval are asked for, not its half width.",
        ),
        Mistake(
            "lengths not compared",
            _lengths_not_compared,
            "Three seeds against two were accepted: `zip` or a slice drops the rest without a word.",
        ),
        Mistake(
            "NaN dropped",
            _nan_dropped,
            "A failed seed was left out quietly. Then the arm that breaks most looks best.",
        ),
    ),
    alternatives=(
        Alternative("statistics.stdev", _with_statistics),
        Alternative("sums of squares", _with_sums),
    ),
    hint="Mean of the differences, plus and minus t times their standard error.",
)
