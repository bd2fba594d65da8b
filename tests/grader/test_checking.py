"""check(fn): points, states, the smallest failing input, the named mistake, and what a student reads."""

import html.parser
import json
import signal

import numpy as np
import pytest

import grader
import grpo
from grader import source
from grader.checking import SEED_VARIABLE, check, run_check
from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.plain import Rng
from grader.report import CHECK_MIME, as_html


def double(x):
    if x < 0:
        raise ValueError("x is negative")
    return 2.0 * x


EXERCISE = Exercise(
    name="double",
    chapter="00_test",
    difficulty=1,
    minutes=1,
    reference=double,
    parts=(
        Part(
            "the double of a number", 2, lambda rng: [call(30), call(3), call(float(rng.uniform(1, 9)))], hint="Twice."
        ),
        Part("the double of 0 is 0", 1, lambda rng: [call(0), call(1.5)]),
        Part(
            "a negative number raises a ValueError", 1, lambda rng: [call(1), call(-1)], only_errors=True, hint="Raise."
        ),
    ),
    mistakes=(
        Mistake("squared", lambda x: double(x) and float(x) ** 2, "You multiply the number by itself."),
        Mistake("negative accepted", lambda x: 2.0 * x, "Negative numbers must be refused."),
        Mistake("one more", lambda x: double(x) + 1, "One too many."),
    ),
    alternatives=(Alternative("a sum", lambda x: double(x)),),
)


def graded(fn, exercise=EXERCISE, seed=0):
    return run_check(exercise, fn, seed)


def test_right():
    report = graded(double)
    assert (report.state, report.points, report.max_points, report.mistake) == ("right", 4, 4, "")
    assert all(part.passed and part.evidence is None for part in report.parts) and report.headline == ""


def test_partly_right_names_the_mistake_and_shows_the_smallest_failing_input():
    report = graded(lambda x: double(x) and float(x) ** 2)
    assert (report.state, report.points, report.mistake) == ("partly right", 1, "squared")
    first = report.parts[0]
    assert first.evidence.call == "double(x=3)"
    assert (first.evidence.expected, first.evidence.got) == ("6.000", "9.000")
    assert first.mistake_says == "You multiply the number by itself." and first.hint == ""


def test_a_stub_left_among_ones_own_lines_is_not_an_untouched_stub():
    def left(x):
        """A docstring."""
        answer = double(x)
        raise NotImplementedError()
        return answer

    report = graded(left)
    assert report.state == "error in your code" and report.points == 0
    assert f"line {left.__code__.co_firstlineno + 3}" in report.headline


def test_a_finished_function_of_the_library_is_noted():
    def zero_variance_fraction(rewards, group_size):
        return grpo.zero_variance_fraction(rewards, group_size)

    report = check(zero_variance_fraction, seed=0)
    assert report.state == "right" and "the finished `zero_variance_fraction`, which is" in report.notes[0]


def test_a_mistake_that_a_passing_input_contradicts_is_not_named():
    part = Part("p", 1, lambda rng: [call(2), call(3)])
    mistakes = (Mistake("always 9", lambda x: 9.0, "It is always 9."),)
    exercise = Exercise("double", "00_test", 1, 1, double, (part,), mistakes)
    assert graded(lambda x: 9.0, exercise).mistake == "always 9"
    assert graded(lambda x: 4.0 if x == 2 else 9.0, exercise).mistake == ""


def test_hints_of_later_parts_wait_for_the_first():
    parts = tuple(Part(f"p{i}", 1, lambda rng, i=i: [call(i)], hint=f"hint {i}") for i in (1, 2, 3))
    report = graded(lambda x: double(x) * 1.1, Exercise("double", "00_test", 1, 1, double, parts, ()))
    assert [part.hint for part in report.parts] == [
        "hint 1",
        "Mend the part above first.",
        "Mend the part above first.",
    ]
    assert [part.evidence is None for part in report.parts] == [False, True, True]


def test_a_cause_is_explained_once():
    report = graded(lambda x: double(x) + 1)
    assert [part.passed for part in report.parts] == [False, False, True]
    assert report.parts[1].evidence is None and report.parts[1].mistake == "one more"
    assert str(report).count("One too many.") == 1


def test_two_mistakes_are_both_named():
    report = graded(lambda x: float(x) ** 2)
    assert [part.mistake for part in report.parts] == ["squared", "squared", "negative accepted"]
    assert report.parts[2].evidence.expected == "a ValueError" and report.parts[2].evidence.got == "1.0000"
    assert report.state == "wrong" and report.points == 0


def test_a_likeness_is_called_one():
    def squared_up_to_ten(x):
        double(x)
        return float(x) ** 2 if x < 10 else 0.0

    report = graded(squared_up_to_ten)
    # 30 -> 0 is no square, so the part as a whole is unknown; the second part (0 and 1.5) looks like squares.
    assert report.parts[0].mistake == "" and report.parts[0].hint == "Twice."
    assert report.parts[1].mistake == "squared"
    assert report.parts[1].mistake_says.startswith("This looks like a known mistake.")


def test_an_unknown_mistake_gets_the_hint_and_no_name():
    report = graded(lambda x: double(x) * 1.01)
    assert report.mistake == "" and report.parts[0].hint == "Twice."
    assert (report.parts[0].evidence.expected, report.parts[0].evidence.got) == ("6.000", "6.060")


def test_close_answers_are_shown_with_enough_digits():
    evidence = graded(lambda x: double(x) * (1 + 1e-5)).parts[0].evidence
    assert evidence.expected != evidence.got and evidence.got.startswith("6.0000")


def test_not_attempted():
    def stub(x):
        raise NotImplementedError()

    report = graded(stub)
    assert (report.state, report.points) == ("not attempted", 0)
    assert "not attempted" in str(report) and "Traceback" not in str(report)


def test_an_error_in_the_code_is_said_once_with_the_students_line():
    def broken(x):
        return x.nothing

    report = graded(broken)
    assert report.state == "error in your code" and report.points == 0 and report.mistake == ""
    assert "AttributeError" in report.headline and "return x.nothing" in report.headline
    assert sum(part.evidence is not None for part in report.parts) == 1
    assert "calling.py" not in str(report) and "Traceback" not in str(report)


def test_an_error_in_some_calls_only():
    def sometimes(x):
        return double(x) if x != 0 else 1 / 0

    report = graded(sometimes)
    assert report.state == "partly right" and report.points == 3
    assert "ZeroDivisionError" in report.parts[1].evidence.sentence


def test_none_asks_for_the_return():
    report = graded(lambda x: None)
    assert "return" in report.headline and report.mistake == "" and report.points == 0


@pytest.mark.parametrize("answer", [float("nan"), (i for i in [1]), [1.0], "6", {"a": 1}, object()])
def test_answers_of_any_kind_are_survived(answer):
    report = graded(lambda x: double(x) and answer)
    assert report.points in (0, 1) and str(report) and as_html(report)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no interval timer on this system")
def test_an_endless_loop_keeps_the_points_earned_before(monkeypatch):
    monkeypatch.setattr("grader.calling.SECONDS_PER_CALL", 0.2)
    monkeypatch.setattr("grader.calling.call_once.__defaults__", (0.2,))
    monkeypatch.setattr("grader.calling.call_all.__defaults__", (0.2,))

    def f(x):
        while x == 0:
            pass
        return double(x)

    report = graded(f)
    assert (report.state, report.points) == ("stopped", 2) and "loop" in report.headline
    assert report.parts[2].evidence is None


def test_properties_judge_the_students_own_values():
    def distinct(values, calls):
        assert calls[0].args[1] == Rng(5)
        return None if values[0] != values[1] else "two calls give the same"

    part = Part("draws differ", 1, lambda rng: [call(1, Rng(5)), call(1, Rng(6))], holds=distinct)
    exercise = Exercise("draw", "00_test", 1, 1, lambda n, rng: rng.random(), (part,), (
        Mistake("constant", lambda n, rng: 0.5, "Always one half.", symptom=lambda values, calls: set(values) == {0.5}),
    ))  # fmt: skip
    assert graded(lambda n, rng: rng.random(), exercise).state == "right"
    report = graded(lambda n, rng: 0.5, exercise)
    assert report.mistake == "constant" and report.parts[0].evidence.sentence == "two calls give the same"
    # A property that cannot read the values is a wrong answer, not a crash of the grader.
    adds = Part("p", 1, lambda rng: [call(1)], holds=lambda values, calls: values[0] + 1)
    picky = Exercise("draw", "00_test", 1, 1, lambda n: 1.0, (adds,), ())
    assert "does not have the form" in graded(lambda n: "x", picky).parts[0].evidence.sentence


def test_a_property_can_point_at_the_call_it_speaks_of():
    part = Part("p", 1, lambda rng: [call(1), call(2)], holds=lambda values, calls: (1, "this one"))
    evidence = graded(lambda x: x, Exercise("f", "00_test", 1, 1, lambda x: x, (part,), ())).parts[0].evidence
    assert (evidence.call, evidence.sentence) == ("f(x=2)", "this one")


def test_an_error_in_every_call_can_be_a_known_mistake():
    part = Part("p", 1, lambda rng: [call([1]), call([1, 2])])
    mistakes = (Mistake("past the end", lambda xs: xs[len(xs)], "The last index is one less than the length."),)
    exercise = Exercise("last", "00_test", 1, 1, lambda xs: xs[-1], (part,), mistakes)
    report = graded(lambda xs: xs[1 + len(xs)], exercise)
    assert report.mistake == "past the end" and "IndexError" in report.headline
    assert graded(lambda xs: xs.nothing, exercise).mistake == ""


def test_notes_cost_nothing():
    def noisy(x):
        print("here I am")
        np.float64(1) / np.float64(0)
        return double(x)

    report = graded(noisy)
    assert report.points == 4
    assert any("here I am" in note for note in report.notes) and any("divide" in note for note in report.notes)


def test_arguments_changed_in_place_are_noted():
    part = Part("p", 1, lambda rng: [call([1.0, 2.0])])
    exercise = Exercise("total", "00_test", 1, 1, lambda xs: float(sum(xs)), (part,), ())

    def total(xs):
        out = 0.0
        while xs:
            out += xs.pop()
        return out

    report = graded(total, exercise)
    assert report.points == 1 and "`xs`" in report.notes[0]


def test_an_object_that_can_be_called_is_checked_by_the_name_that_it_has_in_the_notebook():
    class Rewards:
        def __call__(self, *args):
            return 0.0

    notebook = {"check": check, "legal_tokens": Rewards()}
    assert eval("check(legal_tokens)", notebook).exercise == "legal_tokens"
    notebook = {"check": check, "mine": Rewards()}
    with pytest.raises(KeyError, match=r"an object of the class Rewards has no name .* check\(object, exercise="):
        eval("check(mine)", notebook)
    assert check(notebook["mine"], exercise="legal_tokens").exercise == "legal_tokens"


def test_check_finds_the_exercise_by_name_and_says_what_is_wrong():
    with pytest.raises(KeyError, match="no exercise is called 'nobody'"):
        check(lambda: 1, exercise="nobody")
    with pytest.raises(KeyError, match="group_relative_advantage"):
        check(lambda: 1)
    with pytest.raises(KeyError, match=r"Did you mean check\(log_softmax\)"):
        check(lambda: 1, exercise="logsoftmax")
    with pytest.raises(TypeError, match="without calling it"):
        check(3.0)
    with pytest.raises(TypeError, match="without quotation marks"):
        check("group_relative_advantage")
    assert grader.check is check


def test_the_seed_decides_the_inputs(monkeypatch):
    seen = []

    def double_and_remember(x):
        seen.append(x)
        return double(x)

    def inputs(seed):
        seen.clear()
        graded(double_and_remember, seed=seed)
        return list(seen)

    assert inputs(1) == inputs(1) != inputs(2)
    monkeypatch.setenv(SEED_VARIABLE, "twelve")
    with pytest.raises(ValueError, match="twelve"):
        check(double, exercise="group_relative_advantage")
    monkeypatch.setenv(SEED_VARIABLE, "7")
    assert check(double, exercise="group_relative_advantage").points == 0


def test_what_nbgrader_and_files_read():
    bundle = graded(lambda x: double(x) and float(x) ** 2)._repr_mimebundle_()
    assert bundle["text/plain"] == "1"
    assert json.loads(json.dumps(bundle[CHECK_MIME]))["mistake"] == "squared"
    assert graded(lambda x: None)._repr_mimebundle_()["text/plain"] == "0"


class Balance(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.tags = [], set()

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_html_is_balanced_and_escapes_what_students_write():
    def evil(x):
        raise RuntimeError("<script>alert(1)</script> `tick")

    page = as_html(graded(evil))
    balance = Balance()
    balance.feed(page)
    assert balance.open == [] and "script" not in balance.tags and "&lt;script&gt;" in page


def test_a_literal_with_a_fault_is_refused():
    part = Part("p", 1, lambda rng: [call(1)])
    twice = (Mistake("a", double, "x"), Mistake("a", double, "y"))
    with pytest.raises(ValueError, match="share a name"):
        Exercise("f", "c", 1, 1, double, (part,), twice)
    with pytest.raises(ValueError, match="difficulty is 5"):
        Exercise("f", "c", 5, 1, double, (part,), ())
    with pytest.raises(ValueError, match="points is 0"):
        Exercise("f", "c", 1, 1, double, (Part("p", 0, lambda rng: []),), ())


def test_a_cached_function_is_checked_like_any_other():
    import functools

    @functools.lru_cache
    def mean_of(*values):
        return sum(values)

    assert source.code_of(mean_of).tree.name == "mean_of"
    assert source.code_of(functools.partial(mean_of)) is None


def test_a_property_that_gives_no_words_does_not_break_the_report():
    part = Part("p", 1, lambda rng: [call(1)], holds=lambda values, calls: values[0], hint="h")
    odd = Exercise("double", "00_test", 1, 1, double, (part,), ())
    report = graded(lambda x: object(), odd)
    assert report.points == 0 and "form" in str(report)


def test_a_flood_of_prints_is_cut_and_not_counted():
    note = graded(lambda x: [print("line", i) for i in range(10_000)] and double(x)).notes[0]
    assert note.endswith("(and more)")
