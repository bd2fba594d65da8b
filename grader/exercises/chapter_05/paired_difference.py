"""The exercise `paired_difference`: its parts, its known mistakes, and correct alternatives."""

from __future__ import annotations

from statistics import fmean, stdev

import numpy as np

from grader.compare import as_numbers
from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.exercises.chapter_05.common import CHAPTER
from grpo.expressions import compare
from grpo.expressions.compare import student_t_quantile as _quantile

_DUE = "three numbers are due (shape (3,)): the mean difference, the lower and the upper end of its interval"


def paired_difference(values, baseline):
    """(mean, low, high) of `grpo.expressions.paired_difference`."""
    found = compare.paired_difference(values, baseline)
    return found.mean, found.low, found.high


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
    """Of the differences; one pair is treated apart, as the exercise asks."""
    a, b, _ = _pair(values, baseline)
    low, high = np.percentile(a - b, [2.5, 97.5]) if len(a) > 1 else (-np.inf, np.inf)
    return float((a - b).mean()), float(low), float(high)


def _half_width_returned(values, baseline):
    mean, _, high = paired_difference(values, baseline)
    return mean, high - mean, high - mean


def _lengths_not_compared(values, baseline):
    n = min(len(values), len(baseline))
    return paired_difference(values[:n], baseline[:n])


def _one_against_many(values, baseline):
    return paired_difference(*np.broadcast_arrays(values, baseline))  # ValueError for three against two


def _left_to_numpy(values, baseline):
    return _nan_dropped(*np.broadcast_arrays(values, baseline))


def _for_one_pair(answer):
    """Right for two pairs and more; answer(difference) for one."""

    def wrong(values, baseline):
        mean, low, high = paired_difference(values, baseline)
        return answer(mean) if len(values) == 1 else (mean, low, high)

    return wrong


def _refuses(mean):
    raise ValueError("df is 0: it must be at least 1")


def _nan_dropped(values, baseline):
    a, b = np.asarray(values, dtype=float), np.asarray(baseline, dtype=float)
    if a.shape != b.shape:
        raise ValueError("no pairs")
    keep = np.isfinite(a) & np.isfinite(b)
    return paired_difference(a[keep], b[keep])


def _everything_accepted(values, baseline):
    n = min(len(values), len(baseline))
    return _nan_dropped(values[:n], baseline[:n])


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
            return i, _DUE
        if not abs(numbers[0] - right) < 1e-5:
            return i, f"the mean of the differences is {right:.4f}, yours is {numbers[0]:.4f}"
    return None


def _width_calls(rng):
    return [
        call([0.75, 0.5, 0.75], [0.5, 0.5, 0.25]),
        call([0.5, 0.5], [0.4, 0.2]),
        call(*_seeds(rng, 8)),
        call(*_seeds(rng, 20)),
    ]


def _width_is_right(values, calls):
    for i, (value, one) in enumerate(zip(values, calls, strict=True)):
        numbers = _three_numbers(value)
        if numbers is None:
            return i, _DUE
        _, low, high = paired_difference(*one.args)
        if numbers[1] > numbers[2]:
            return i, f"the lower end, {numbers[1]:.4f}, lies above the upper one, {numbers[2]:.4f}"
        if not abs((numbers[2] - numbers[1]) - (high - low)) < 1e-4 * (high - low) + 1e-7:
            return i, f"the interval is {high - low:.4f} wide, yours is {numbers[2] - numbers[1]:.4f}"
        if not abs(numbers[2] + numbers[1] - 2 * numbers[0]) < 1e-4:
            return i, "the mean does not lie in the middle of the interval"
    return None


def _single_calls(rng):
    (value,), (baseline,) = _seeds(rng, 1)
    return [
        call([0.5], [0.25], note="one seed: nothing is known about the spread"),
        call([baseline], [value], note="one seed"),
        call([0.5, 0.5], [0.4, 0.2], note="two seeds: here there is an interval"),
    ]


def _single_is_open(values, calls):
    two = _three_numbers(values[-1])
    turned = two is not None and two[1] > two[2]  # both ends exchanged everywhere: another part's business
    for i, (value, one) in enumerate(zip(values, calls, strict=True)):
        numbers = _three_numbers(value)
        if numbers is None:
            return i, _DUE
        if len(one.args[0]) > 1:
            if not np.isfinite(numbers).all():
                return i, "two seeds have an interval, if a wide one"
        elif tuple(numbers[1:]) != ((np.inf, -np.inf) if turned else (-np.inf, np.inf)):
            ends = ", ".join(f"{end:.3g}" for end in numbers[1:])
            return i, f"one pair says nothing about the spread: its interval goes from -inf to inf, not ({ends})"
        elif not np.isfinite(numbers[0]):
            return i, "the mean of one difference is that difference"
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
        return _DUE
    if not (abs(before[2] - before[1]) > 1e-4 and np.isfinite(before).all()):
        return "the interval has no width"
    if not np.allclose(before, after, atol=1e-5):
        return 1, (
            f"the interval is {abs(before[2] - before[1]):.3f} wide before and {abs(after[2] - after[1]):.3f} after "
            "each seed's luck was changed in both arms alike; what both arms share has to cancel"
        )
    return None


def _shares(rng, n):
    return (rng.integers(1, 99, n) / 100).tolist()


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
            says="two seeds and more: the width of the 95% interval, around the mean",
            points=2,
            calls=_width_calls,
            holds=_width_is_right,
            hint="How far would the *mean* of n differences move with other seeds? Less than one difference would.",
        ),
        Part(
            says="one seed only: the interval goes from -inf to inf",
            points=1,
            calls=_single_calls,
            holds=_single_is_open,
            hint="One difference has no spread, so nothing bounds the interval. Treat n = 1 apart from the others.",
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
                call([0.5, 0.6, 0.7], [0.5], note="three seeds against one"),
                call([0.5, float("nan"), 0.75], [0.25, 0.5, 0.5]),
                call(_shares(rng, 4), _shares(rng, 4)),
                call(_shares(rng, 4), _shares(rng, 3), note="four seeds against three"),
                call([*_shares(rng, 3), float("nan")], _shares(rng, 4)),
            ],
            only_errors=True,
            hint="A seed that failed in one arm must be noticed, not dropped: the failures are part of the result. Do "
            "not leave the lengths to numpy: it subtracts one number from three without complaint.",
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
            "level .975",
            _with_half(lambda d, n: _quantile(n - 1, 0.975) * d.std(ddof=1) / np.sqrt(n)),
            "This is a 97.5% interval. `student_t_quantile` takes the level of the whole interval, not of one side.",
        ),
        Mistake(
            "var for std",
            _with_half(lambda d, n: _quantile(n - 1) * d.var(ddof=1) / np.sqrt(n)),
            "The variance stands where the std belongs. It is not even in the unit of the differences.",
        ),
        Mistake(
            "corrected twice",
            _with_half(lambda d, n: _quantile(n - 1) * d.std(ddof=1) / np.sqrt(n - 1)),
            "There is n - 1 in the std, and once more under the root. It belongs in one of the two places.",
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
            "NaN for one pair",
            _for_one_pair(lambda mean: (mean, float("nan"), float("nan"))),
            "With one pair the ends are NaN: the std of one number is 0 divided by 0. One pair says nothing about the "
            "spread, and an interval says that by having no ends: -inf and inf.",
        ),
        Mistake(
            "no width for one pair",
            _for_one_pair(lambda mean: (mean, mean, mean)),
            "With one pair the interval has no width, as if one seed were certain. It is the other way round: one pair "
            "says nothing about the spread, so the interval has no ends.",
        ),
        Mistake(
            "one pair refused",
            _for_one_pair(_refuses),
            "One pair raises a ValueError (is a t factor asked for with 0 degrees of freedom?). It has a mean, and an "
            "interval without ends.",
        ),
        Mistake(
            "ends exchanged",
            lambda values, baseline: tuple(paired_difference(values, baseline)[k] for k in (0, 2, 1)),
            "The lower and the upper end have changed places. First the mean, then the lower end, then the upper one.",
        ),
        Mistake(
            "mean in the middle",
            lambda values, baseline: tuple(paired_difference(values, baseline)[k] for k in (1, 0, 2)),
            "The three numbers came in the order of their size. First the mean, then the lower end, then the upper.",
        ),
        Mistake(
            "lengths not compared",
            _lengths_not_compared,
            "Three seeds against two were accepted: `zip` or a slice drops the rest without a word.",
        ),
        Mistake(
            "one against many",
            _one_against_many,
            "Three seeds against one were accepted: numpy spreads a single number over the others. Three against two "
            "it refuses, so the gap shows only here. Compare the lengths yourself.",
        ),
        Mistake(
            "NaN accepted",
            _nan_dropped,
            "A NaN went through without a word. Whoever drops it makes the arm that breaks most look best; whoever "
            "passes it on spoils the mean. A failed seed has to be noticed.",
        ),
        Mistake(
            "left to numpy",
            _left_to_numpy,
            "NaN is accepted, and so are three seeds against one: numpy refuses three against two, but spreads a "
            "single number over the others, and calculates with NaN without complaint. Look at both yourself.",
        ),
        Mistake(
            "nothing refused",
            _everything_accepted,
            "Lists of two lengths and a NaN are both accepted. With the wrong length seeds are compared with strangers "
            "or dropped; with NaN a failed seed goes unnoticed.",
        ),
    ),
    alternatives=(
        Alternative("statistics.stdev", _with_statistics),
        Alternative("sums of squares", _with_sums),
    ),
    hint="Mean of the differences, plus and minus t times their standard error.",
)
