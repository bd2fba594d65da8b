"""Comparing two runs on the same seeds: the mean of the paired differences and its interval."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from grpo.checks import as_count, as_finite_vector, require_same_length


@dataclass(frozen=True)
class Difference:
    """mean: of the paired differences. low, high: its 95 % interval (infinite for one pair). n: pairs.
    share_above: share of pairs with a difference above 0."""

    mean: float
    low: float
    high: float
    n: int
    share_above: float

    def verdict(self, margin=0.0):
        """What the interval says about a margin that was chosen beforehand.

        Returns: "higher" or "lower" if the whole interval lies beyond the margin; "equal" if it lies within it (for a
        margin above 0); else "undecided".
        """
        if self.low > margin:
            return "higher"
        if self.high < -margin:
            return "lower"
        if margin > 0.0 and -margin <= self.low and self.high <= margin:
            return "equal"
        return "undecided"


def student_t_quantile(df, level=0.95):
    """The t for which a Student t variable with df degrees of freedom lies in -t .. t with probability `level`.

    With t = sqrt(df) tan(a), the density of the angle a is proportional to cos(a)^(df - 1).
    """
    return _t_quantile(as_count(df, "df", minimum=1), level)


@lru_cache(maxsize=256)
def _t_quantile(df, level):
    """It integrates numerically, and a study asks for the same few values again and again."""
    angles = np.linspace(0.0, np.pi / 2, 200_001)
    heights = np.cos(angles) ** (df - 1)
    areas = np.concatenate([[0.0], np.cumsum(heights[1:] + heights[:-1])])
    return float(np.sqrt(df) * np.tan(np.interp(level, areas / areas[-1], angles)))


def paired_difference(values, baseline):
    """values - baseline, seed by seed. The interval is Student's t: mean -+ t * sd / sqrt(n).

    Args:
        values: (n,) one number per seed.
        baseline: (n,) the same seeds in the same order.

    Returns: Difference.

    Raises: ValueError if the two are not finite flat arrays of one length.
    """
    values, baseline = as_finite_vector(values, "values"), as_finite_vector(baseline, "baseline")
    require_same_length(values=values, baseline=baseline)
    differences = values - baseline
    n, mean = len(differences), float(differences.mean())
    half = student_t_quantile(n - 1) * float(differences.std(ddof=1) / np.sqrt(n)) if n > 1 else float("inf")
    return Difference(mean, mean - half, mean + half, n, float((differences > 0).mean()))
