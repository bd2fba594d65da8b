"""Paired differences: the t quantile against closed forms and tables, the interval by hand, the verdicts."""

import math

import numpy as np
import pytest

from grpo.expressions import Difference, paired_difference
from grpo.expressions.compare import student_t_quantile


def test_student_t_quantiles_of_the_table():
    for df, value in ((1, 12.706), (2, 4.303), (4, 2.776), (19, 2.093), (1000, 1.962)):
        assert student_t_quantile(df) == pytest.approx(value, abs=6e-4)
    assert student_t_quantile(19, 0.99) == pytest.approx(2.861, abs=6e-4)


@pytest.mark.parametrize("level", [1e-6, 0.5, 0.95])
def test_student_t_quantiles_in_closed_form(level):
    assert student_t_quantile(1, level) == pytest.approx(math.tan(math.pi / 2 * level), rel=1e-8)
    assert student_t_quantile(2, level) == pytest.approx(level * math.sqrt(2 / (1 - level**2)), rel=1e-8)


@pytest.mark.parametrize("df", [0, 1.5])
def test_bad_degrees_of_freedom(df):
    with pytest.raises(ValueError, match=f"^df is {df}"):
        student_t_quantile(df)


def test_paired_differences_by_hand():
    difference = paired_difference([1.0, 3.0, 8.0], [1.0, 1.0, 1.0])  # 0, 2, 7: mean 3, variance 13
    half = 4.302653 * math.sqrt(13 / 3)
    assert (difference.mean, difference.n) == (3.0, 3)
    assert difference.share_above == 2 / 3
    assert (difference.low, difference.high) == pytest.approx((3 - half, 3 + half), abs=1e-5)
    assert difference.verdict() == "undecided"
    assert paired_difference([-0.5, 1.0], [0.0, 0.0]).share_above == 0.5


def test_two_pairs_have_an_interval_and_one_has_not():
    two = paired_difference([1.0, 2.0], [0.0, 0.0])
    assert (two.low, two.high) == pytest.approx((1.5 - 12.7062 / 2, 1.5 + 12.7062 / 2), abs=1e-4)
    one = paired_difference([1.0], [0.0])
    assert (one.low, one.high) == (-math.inf, math.inf)


def test_the_numbers_are_plain_floats():
    difference = paired_difference([1.0, 2.0], [0.0, 0.0])
    for number in (difference.mean, difference.low, difference.high, difference.share_above, student_t_quantile(1)):
        assert type(number) is float


@pytest.mark.parametrize(
    ("values", "baseline", "message"),
    [
        ([1.0], [0.0, 1.0], "^lengths differ"),
        (1.0, [0.0], "^values has shape"),
        ([math.nan], [0.0], r"^values\[0\] is nan"),
        ([1.0], [[0.0]], "^baseline has shape"),
        ([1.0], [math.inf], r"^baseline\[0\] is inf"),
    ],
)
def test_bad_pairs(values, baseline, message):
    with pytest.raises(ValueError, match=message):
        paired_difference(values, baseline)


@pytest.mark.parametrize(
    ("shift", "margin", "verdict"),
    [(0.0, 0.1, "equal"), (0.0, 0.0, "undecided"), (1.0, 0.1, "higher"), (-1.0, 0.1, "lower"), (0.1, 0.1, "undecided")],
)
def test_verdicts(shift, margin, verdict):
    noise = np.array([-0.01, 0.01] * 5)
    assert paired_difference(noise + shift, np.zeros(10)).verdict(margin) == verdict


@pytest.mark.parametrize(
    ("low", "high", "margin", "verdict"),
    [
        (0.1, 0.3, 0.1, "undecided"),
        (-0.3, -0.1, 0.1, "undecided"),
        (-0.1, 0.1, 0.1, "equal"),
        (-0.3, 0.0, 0.1, "undecided"),
        (0.0, 0.3, 0.1, "undecided"),
        (0.0, 0.0, 0.0, "undecided"),
    ],
)
def test_verdicts_on_the_edge(low, high, margin, verdict):
    assert Difference((low + high) / 2, low, high, 10, 0.5).verdict(margin) == verdict


def test_without_a_margin_zero_decides():
    assert Difference(0.5, 0.4, 0.6, 10, 1.0).verdict() == "higher"
    assert Difference(-0.5, -0.6, -0.4, 10, 0.0).verdict() == "lower"
