"""Comparing answers: what counts as equal, and the sentence when it is not."""

import numpy as np
import pytest

from grader.calling import Outcome, Raised
from grader.compare import Tolerance, difference, value_difference
from grader.plain import NotPlain

T = Tolerance(2e-6, 1e-8)


@pytest.mark.parametrize(
    "expected, got",
    [
        (np.array([1.0, 2.0]), [1.0, 2.0]),
        (np.array([1.0, 2.0]), (1, 2)),
        (np.array([[1.0], [2.0]]), [[1.0], [2.0]]),
        (0.5, np.float32(0.5)),
        (0.5, np.array(0.5)),
        (1.0, True),
        (np.array([True, False]), [1, 0]),
        (1 / 3, np.float32(1 / 3)),
        (1.0, 1.0 + 1e-6),
        (None, None),
        ("83", "83"),
        ({"a": ["x"]}, {"a": ["x"]}),
        (["a", None], ["a", None]),
        (["a"], ("a",)),
        ((np.zeros((2, 3)), np.zeros(2)), [np.zeros((2, 3)), np.zeros(2)]),
    ],
)
def test_equal(expected, got):
    got = np.array(got) if isinstance(got, np.generic) else got
    assert value_difference(expected, got, T) is None


@pytest.mark.parametrize(
    "expected, got, words",
    [
        (1.0, 1.0 + 1e-5, ""),
        (np.array([1.0, 2.0]), np.array([1.0, 2.1]), ""),
        (np.zeros((2, 2)), np.zeros(4), "the numbers are right, the shape is not: shape (4,), not shape (2, 2)"),
        (np.zeros((2, 2)), np.ones(4), "the shape is wrong"),
        (0.5, np.array([0.5]), "the numbers are right, the shape is not: shape (1,), not a single number"),
        (np.array([1.0, 2.0]), np.array([1.0, np.nan]), "there is nan at index 1"),
        (1.0, float("inf"), "there is inf"),
        (1.0, None, "it returned None"),
        (1.0, "1.0", "it returned a text, not a number"),
        (np.zeros(2), [[0], [0, 0]], "it returned a list, not numbers of shape (2,)"),
        ("83", 83, "it returned a number, not a text"),
        (None, "83", "it returned a text, not None"),
        ("83", "38", ""),
        ({"a": 1}, {"b": 1}, "the keys are 'b', not 'a'"),
        ({"a": [1]}, {"a": [2]}, "under the key 'a' the value differs"),
        ({"a": 1}, [1], "it returned a list, not a dict"),
        (["a", "b"], ["a"], "it has 1 items, not 2"),
        (["a", "b"], ["b", "a"], "item 0 differs"),
        (["a"], "a", "it returned a text, not a list"),
        ((np.zeros((2, 3)), np.zeros(2)), (np.zeros((2, 3)), np.ones(2)), "item 1 differs"),
        (1.0, NotPlain("generator"), "it returned a generator that has not run yet"),
        (1.0, NotPlain("Thing"), "it returned something of type Thing"),
        (1.0, NotPlain("list", "it holds too much"), "it holds too much"),
    ],
)
def test_unequal_and_why(expected, got, words):
    sentence = value_difference(expected, got, T)
    assert sentence is not None and words in sentence and (words or sentence == "")


def test_float32_gets_room_and_float64_does_not():
    near = np.array([1.0]) * (1 + 1e-5)
    assert value_difference(np.array([1.0]), near.astype(np.float32), T) is None
    assert value_difference(np.array([1.0]), near, T) is not None


def value(x):
    return Outcome("value", x)


def raised(name, is_value_error):
    return Outcome("raised", raised=Raised(name, "why", is_value_error=is_value_error))


def test_errors_where_they_are_due_and_where_not():
    due = raised("ValueError", True)
    assert difference(due, raised("UnicodeError", True), T) is None
    assert "IndexError" in difference(due, raised("IndexError", False), T)
    assert "AssertionError" in difference(due, raised("AssertionError", False), T)
    assert "asks for a ValueError" in difference(due, raised("AssertionError", False), T)
    assert "asks for" not in difference(value(1.0), raised("AssertionError", False), T)
    assert "write `raise`" in difference(due, value(NotPlain("ValueError")), T)
    assert "write `raise`" in difference(due, value(NotPlain("type")), T)
    assert "ValueError was due" in difference(due, value(0.0), T)
    assert "ValueError" in difference(value(1.0), raised("ValueError", True), T)
    assert "did not come to an end" in difference(value(1.0), Outcome("timeout"), T)
