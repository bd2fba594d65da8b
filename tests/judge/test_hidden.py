"""What the grading draws is recognised however it is printed, and nothing else is."""

import re

import numpy as np
import pytest

from grader.calling import Outcome
from grader.checking import run_check
from grader.exercises import EXERCISES
from grader.judge.hidden import NUMBER, SHORT, Hidden, _digits, _length, _rows, hidden_values, holds_hidden
from grader.paths import NOTEBOOKS, SOLUTIONS, notebook_path
from grader.secrecy import drawn_calls

SEED = 17
N = 200_000
# Of fool_lenient_verifier every check shows the smallest truth first, and that is no secret.
NUMPY = [name for name, one in EXERCISES.items() if one.chapter < "03" and name != "fool_lenient_verifier"]


def drawn_of(name):
    """The drawn calls of an exercise under SEED, and all of them."""
    exercise, rng = EXERCISES[name], np.random.default_rng(SEED)
    calls = [one for part in exercise.parts for one in part.calls(rng)]
    return [calls[i] for i in sorted(drawn_calls(exercise, calls))], calls


@pytest.mark.parametrize("write", [repr, str, lambda x: x.tolist(), lambda x: [f"{n:.5f}" for n in x.ravel().tolist()]])
def test_a_drawn_array_is_found_in_each_way_of_printing_it(write):
    drawn, _ = drawn_of("log_softmax")
    array = max((np.asarray(one.args[0], dtype=float) for one in drawn), key=np.size)
    text = f"<pre>I was called with {write(array)}</pre>"
    assert holds_hidden(text, hidden_values(EXERCISES["log_softmax"], SEED))
    assert not holds_hidden(text, hidden_values(EXERCISES["log_softmax"], SEED + 1))


@pytest.mark.parametrize("name", NUMPY)
def test_a_report_that_withholds_nothing_is_caught_and_the_judges_own_is_not(name):
    """The same wrong answers reported as a student sees them, and as the judge does."""
    exercise = EXERCISES[name]
    hidden = hidden_values(exercise, SEED, answers=True)
    _, calls = drawn_of(name)

    def wrong_where_drawn(asked):
        drawn = drawn_calls(exercise, calls)
        right = exercise.reference
        return [Outcome("value", "wrong") if i in drawn else run_once(right, one) for i, one in enumerate(asked)]

    def pages(secret):
        report = run_check(exercise, None, SEED, wrong_where_drawn, secret=secret)
        return report._repr_mimebundle_()["text/html"]

    assert holds_hidden(pages(secret=False), hidden)
    assert holds_hidden(pages(secret=True), hidden) == ""


def run_once(fn, one):
    from grader.calling import call_once

    return call_once(fn, one)


@pytest.mark.parametrize("chapter", ["01_rollouts_and_rewards", "02_advantages_and_logprobs", "03_the_grpo_loss"])
def test_chapters_do_not_hold_it_by_chance(chapter):
    hidden = Hidden()
    for exercise in EXERCISES.values():
        if exercise.chapter == chapter:
            hidden |= hidden_values(exercise, SEED, answers=True)
    assert hidden.texts
    for folder in (SOLUTIONS, NOTEBOOKS):
        assert holds_hidden(notebook_path(folder, chapter).read_text(encoding="utf-8"), hidden) == ""


def test_what_every_check_shows_is_not_hidden():
    exercise = EXERCISES["group_relative_advantage"]
    drawn, calls = drawn_of("group_relative_advantage")
    common = [one for one in calls if all(one is not other for other in drawn)]
    hidden = hidden_values(exercise, SEED, answers=True)
    assert common and not any(holds_hidden(repr(one), hidden) for one in common)


def test_long_numbers_rows_of_short_ones_and_texts():
    row = ("1.100e+00", "2.235e+00", "3.333e+00")
    hidden = Hidden(frozenset({"1.2345679e-01"}), frozenset({row}), frozenset({"a b c"}))
    assert holds_hidden("x = -0.12345678912", hidden) == "1.2345679e-01"
    assert holds_hidden("[1.1, 2.2352, 3.3331]", hidden) == "1.100e+00 2.235e+00 3.333e+00"
    assert holds_hidden("a\n   b&#32;c", hidden) == "a b c"
    others = ("0.1234567", "0.12345699", "[2.2352, 1.1, 3.3331]", "1.1 2.2352 0 3.3331", "a c", "v0.12345678912")
    assert [holds_hidden(other, hidden) for other in others] == [""] * len(others)


def test_a_row_of_ones_and_zeros_tells_little():
    from grader.judge.hidden import _of_values

    assert not _of_values([[1.0, 0.0, 1.0, 0.0] * 5], "call").rows
    assert _of_values([[0.12, 1.71, 0.66, 0.95, 0.31, 0.44]], "call").rows


def rows_of(*numbers):
    return list(_rows([_digits(number, SHORT) for number in numbers]))


def test_how_much_the_numbers_of_a_row_must_tell():
    """Ten digits between them; a lone digit tells a third of one, and what stood in the row before tells nothing."""
    assert rows_of(*range(10)) == [] and rows_of(*range(11, 16)) == [tuple(f"1.{n}00e+01" for n in range(1, 6))]
    assert rows_of(1.25, 2.5, 12.25, 3.125) == [("1.250e+00", "2.500e+00", "1.225e+01", "3.125e+00"),
                                                ("2.500e+00", "1.225e+01", "3.125e+00")]  # fmt: skip
    assert rows_of(1.25, 2.5, 12.25) == [] and rows_of(1.25, 1.25, 2.5, 2.5, 2.5, 1.25) == []
    ones = [1.0] * 8
    assert len(rows_of(1.234, *ones, 2.345, 9.876)) == 1 and rows_of(1.234, *ones, 1.0, 1.0, 2.345, 9.876) == []


def test_digits_are_counted_and_rounded_as_they_are_written():
    assert [_length(text) for text in ("0.00123", "-1.50e10", "12", "0", ".5E-3")] == [3, 3, 2, 0, 1]
    assert [_digits(value, 4) for value in ("-12.3456", 0.0, float("inf"), float("nan"), "1e999")] == [
        "1.235e+01", "0.000e+00", "", "", "",
    ]  # fmt: skip


def test_what_is_common_is_taken_out_of_what_is_hidden():
    one = Hidden(frozenset({"1", "2"}), frozenset({("1",), ("2",)}), frozenset({"a", "b"}))
    other = Hidden(frozenset({"2", "3"}), frozenset({("2",), ("3",)}), frozenset({"b", "c"}))
    assert one - other == Hidden(frozenset({"1"}), frozenset({("1",)}), frozenset({"a"}))
    assert one | other == Hidden(frozenset("123"), frozenset({("1",), ("2",), ("3",)}), frozenset("abc"))


def test_a_third_is_no_secret():
    from grader.judge.hidden import _of_values

    found = _of_values([[1 / 3, 2 / 3, 0.25, 1 / 7]], "call")
    assert not found.numbers
    assert _of_values([0.7310585786], "call").numbers == {"7.3105858e-01"}


OLD_NUMBER = re.compile(r"(?<![\w.])[-+]?\d*\.?\d+(?:[eE][-+]?\d+)?(?![\w])")


def test_numbers_are_told_as_before_in_any_mixture():
    """The pattern finds what its simpler and slower form finds."""
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list("1029.-+eEx _\n["), size=12)) for _ in range(20_000)]
    assert all(NUMBER.findall(text) == OLD_NUMBER.findall(text) for text in texts)
    assert sum(len(NUMBER.findall(text)) for text in texts) > 10_000


@pytest.mark.parametrize(
    "text",
    ["1" * N + "x", "1" * N + ".", "1." + "1" * N + "x", "1e" + "1" * N + "x", "-" * N, "." * N, "1." * (N // 2),
     "&" * N, "&#" + "1" * N + ";", "&#" * (N // 2), " " * N + "x", "+1" * (N // 2), "1e-" * (N // 3), "0" * N + "x"],
    ids=lambda text: f"{text[:3]}{text[-1]}",
)  # fmt: skip
def test_long_runs_are_searched_to_their_end(text):
    """The square of 200,000 steps would take hours; and no number is too long to be read."""
    hidden = Hidden(frozenset({"1.2345679e-01"}), frozenset({("1.100e+00", "2.235e+00")}), frozenset({"a b c"}))
    assert holds_hidden(text, hidden) == ""
    assert holds_hidden(f"{text} 0.123456789", hidden) == "1.2345679e-01"


def test_characters_written_by_their_numbers_are_read_as_a_browser_does():
    hidden = Hidden(texts=frozenset({"a b c"}))
    assert holds_hidden("a&#32;b&#0000000000000032;c", hidden) == "a b c"
    assert holds_hidden("&#" + "9" * 5_000 + "; a b c", hidden) == "a b c"


def test_where_nothing_is_hidden_nothing_is_searched(monkeypatch):
    monkeypatch.setattr("grader.judge.hidden.NUMBER", None)
    assert holds_hidden("0.123456789", Hidden()) == ""
