"""grpo.checks: clean data or a ValueError with the value, the place and the remedy."""

import numpy as np
import pytest

from grpo.checks import (
    as_count,
    as_finite_vector,
    as_floats,
    as_integers,
    as_mask,
    as_nonnegative,
    as_positive,
    require_choice,
    require_same_length,
)


@pytest.mark.parametrize("value", [2, np.int64(2), np.uint8(2), np.array(2)])
def test_count_accepts_every_integer_type(value):
    count = as_count(value, "group_size", minimum=2)
    assert count == 2 and type(count) is int


@pytest.mark.parametrize("value", [2.0, "2", None, True, np.True_, [2]])
def test_count_rejects_what_is_no_integer(value):
    with pytest.raises(ValueError, match=r"group_size is .*: pass a whole number of at least 1"):
        as_count(value, "group_size", minimum=1)


def test_count_below_the_minimum_is_named():
    with pytest.raises(ValueError, match="group_size is 1: it must be at least 2"):
        as_count(1, "group_size", minimum=2)


@pytest.mark.parametrize("value", [0, 0.0, 1e-12, 3, np.float32(0.5)])
def test_nonnegative_accepts_zero_and_more(value):
    number = as_nonnegative(value, "eps")
    assert number == value and type(number) is float


@pytest.mark.parametrize("check", [as_nonnegative, as_positive])
@pytest.mark.parametrize("value", [-1e-12, np.nan, np.inf, -np.inf, "x", None, [1.0, 2.0]])
def test_numbers_out_of_range_are_rejected(check, value):
    with pytest.raises(ValueError, match=r"eps is .*: pass a finite number that is 0 or more"):
        check(value, "eps")


def test_positive_rejects_zero_only():
    assert as_positive(1e-300, "h") == 1e-300
    with pytest.raises(ValueError, match=r"h is 0: pass a number above 0"):
        as_positive(0, "h")


def test_floats_cast_and_keep_the_shape():
    floats = as_floats([[1, True], [None, 2.5]], "rewards")
    assert floats.dtype == np.float64
    np.testing.assert_array_equal(floats, [[1.0, 1.0], [np.nan, 2.5]])


@pytest.mark.parametrize("values", [[[1.0], [1.0, 2.0]], ["one"], [{}]])
def test_floats_reject_what_is_no_rectangle_of_numbers(values):
    with pytest.raises(ValueError, match="rewards must be an array of numbers"):
        as_floats(values, "rewards")


@pytest.mark.parametrize("values", [[1, 2], np.array([1, 2], dtype=np.uint16)])
def test_integers_pass(values):
    np.testing.assert_array_equal(as_integers(values, "ids"), [1, 2])


@pytest.mark.parametrize("values", [[1.0, 2.0], [True, False], ["1"], []])
def test_integers_reject_other_types(values):
    with pytest.raises(ValueError, match=r"ids has dtype .*: pass integers"):
        as_integers(values, "ids")


def test_finite_vector_casts_to_float64():
    vector = as_finite_vector([True, 0, 2], "rewards")
    assert vector.dtype == np.float64
    np.testing.assert_array_equal(vector, [1.0, 0.0, 2.0])


@pytest.mark.parametrize("values", [3.0, [[1.0, 2.0]], [[1.0], [2.0]]])
def test_finite_vector_rejects_other_shapes(values):
    with pytest.raises(ValueError, match=r"rewards has shape .*: pass a flat 1-D array"):
        as_finite_vector(values, "rewards")


def test_finite_vector_rejects_nothing_at_all():
    with pytest.raises(ValueError, match="rewards is empty"):
        as_finite_vector([], "rewards")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, None])
def test_finite_vector_names_the_first_bad_row(bad):
    with pytest.raises(ValueError, match=r"rewards\[2\] is .*: repair or drop row 2"):
        as_finite_vector([0.0, 1.0, bad, 1.0, np.nan], "rewards")


@pytest.mark.parametrize("mask", [[0, 1, 1], [0.0, 1.0, 1.0], [False, True, True]])
def test_mask_becomes_bool(mask):
    clean = as_mask(mask, (3,))
    assert clean.dtype == bool
    np.testing.assert_array_equal(clean, [False, True, True])


@pytest.mark.parametrize(("mask", "shape"), [([1, 1], (3,)), ([[1, 1, 1]], (3,)), (1, ()), ([1], (1, 1))])
def test_mask_of_another_shape_is_not_broadcast(mask, shape):
    with pytest.raises(ValueError, match=r"mask has shape .*: pass one entry per token"):
        as_mask(mask, shape)


@pytest.mark.parametrize("entry", [0.5, 2, -1, np.nan])
def test_mask_does_not_weight(entry):
    with pytest.raises(ValueError, match="mask holds an entry that is neither 0 nor 1"):
        as_mask([1, entry, 0], (3,))


def test_same_length_lists_all_lengths():
    require_same_length(prompts=[1, 2], rewards=(3, 4))
    require_same_length(prompts=[], rewards=())
    with pytest.raises(ValueError, match=r"lengths differ \(prompts: 2, rewards: 1, ids: 2\)"):
        require_same_length(prompts=[1, 2], rewards=[3], ids=[4, 5])


def test_require_choice():
    assert require_choice("b", "letter", ("a", "b")) is None
    with pytest.raises(ValueError, match=r"^letter is 'c': choose 'a', 'b'$"):
        require_choice("c", "letter", ("a", "b"))
