"""How inputs and answers are written in a report."""

import numpy as np
import pytest

from grader.calling import Outcome, Raised
from grader.exercise import call
from grader.plain import NotPlain, Rng, SmoothFunction
from grader.show import show_call, show_outcome, show_pair, show_value


@pytest.mark.parametrize(
    "value, text",
    [
        (1, "1"),
        (True, "True"),
        (None, "None"),
        (0.1, "0.1"),
        (2.0, "2.0"),
        (1e-9, "1e-09"),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        (1e8, "1e+08"),
        ("plain", "'plain'"),
        (r"\boxed{8}", 'r"\\boxed{8}"'),
        ('\\boxed{"8"}', "'\\\\boxed{\"8\"}'"),
        ("\\a\n", "'\\\\a\\n'"),
        ("ends in \\", "'ends in \\\\'"),
        ([1, "a"], "[1, 'a']"),
        ((1,), "(1,)"),
        ({"a": [1.5]}, "{'a': [1.5]}"),
        (np.array([[1, 2], [3, 4]]), "np.array([[1, 2], [3, 4]])"),
        (np.array(1.5), "1.5"),
        (list(range(20)), "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, … 8 more]"),
        (NotPlain("set"), "<set>"),
        (Rng(3), "np.random.default_rng(3)"),
        (SmoothFunction((1.0,), (0.0,)), "f"),
    ],
)
def test_values(value, text):
    assert show_value(value) == text


def test_long_texts_are_cut():
    assert len(show_value("x" * 1000)) == 240 and show_value("x" * 1000).endswith("…")


def reference(rewards, group_size, eps=1e-4):
    return 0


def test_calls_name_their_arguments_and_carry_their_note():
    assert show_call("f", call([1, 0], 2, eps=0.5), reference) == "f(rewards=[1, 0], group_size=2, eps=0.5)"
    assert show_call("f", call([1], 1, note="one"), reference).endswith("group_size=1)   # one")
    assert show_call("f", call(["long text here"] * 9, 2), reference).count("\n") == 2


def test_a_function_argument_is_spelled_out():
    f = SmoothFunction((1.0, -2.0), (0.0, 0.5), twist=3.0)
    shown = show_call("g", call(f, [1.0]), lambda f, x: 0)
    assert shown == "g(f=f, x=[1.0])\n    # with f(x) = 1 x[0] - 2 x[1] + 0.5 sin(x[1]) + 3 x[0] x[1]"


def value(x):
    return Outcome("value", np.asarray(x) if not isinstance(x, str) else x)


def test_pairs_show_where_they_differ():
    assert show_pair(value([1.0, 2.0]), value([1.0, 2.5])) == ("1.000  2.000", "1.000  2.500")
    a, b = show_pair(value(0.86591), value(0.8659))
    assert a != b
    assert show_pair(value([1, 2]), value([1, 3])) == ("1  2", "1  3")
    assert show_pair(value([[1.0], [2.0]]), value([[1.0], [9.0]])) == ("1.000\n2.000", "1.000\n9.000")
    assert show_pair(value("a"), value("b")) == ("'a'", "'b'")
    assert show_pair(value(1.0), Outcome("raised", raised=Raised("KeyError", "'x'")))[1] == "KeyError: 'x'"
    assert show_pair(value([-1e-9, 1.0]), value([0.0, 2.0]))[0] == "-1e-09  1.000"
    assert show_pair(value([-0.0, 1.0]), value([0.0, 2.0]))[0] == "0.000  1.000"
    assert "nan" in show_pair(value([1.0]), value([np.nan]))[1]


def test_outcomes():
    assert show_outcome(Outcome("raised", raised=Raised("KeyError", ""))) == "KeyError"
    assert show_outcome(Outcome("timeout")) == "timeout"


@pytest.mark.filterwarnings("error")
def test_infinities_are_shown_without_a_warning():
    both = Outcome("value", np.array([np.inf, 1.0]))
    assert show_pair(both, Outcome("value", np.array([np.inf, 2.0]))) == ("inf  1.000", "inf  2.000")
