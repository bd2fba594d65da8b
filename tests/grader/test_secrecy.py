"""When grades are given, a report shows no input that was drawn, and nothing that could spell one out."""

import numpy as np

from grader.checking import run_check
from grader.exercise import Exercise, Part, call
from grader.secrecy import drawn_calls

LONG = -123456.78901234567  # longer than what is drawn: a report picks the shortest input that fails, if it may


def doubled(x):
    return 2.0 * x


def drawn(rng):
    return [call(float(rng.normal())), call(float(rng.normal()))]


EXERCISE = Exercise(
    "doubled", "00_test", 1, 1, doubled,
    (
        Part("two known numbers", 2, lambda rng: [call(3.0), call(0.5)], hint="twice"),
        Part("both", 1, lambda rng: [*drawn(rng), call(LONG)], hint="twice"),
        Part("drawn numbers", 3, drawn, hint="twice"),
    ),
    (),
)  # fmt: skip


def judged(fn, seed=5, secret=True):
    return run_check(EXERCISE, fn, seed, secret=secret)


def spoken(report):
    return str(report) + report._repr_mimebundle_()["text/html"] + str(report.to_dict())


def inputs(seed=5):
    rng = np.random.default_rng(seed)
    return [c.args[0] for part in EXERCISE.parts for c in part.calls(rng)]


def test_drawn_inputs_are_told_from_common_ones():
    rng = np.random.default_rng(5)
    calls = [c for part in EXERCISE.parts for c in part.calls(rng)]
    assert drawn_calls(EXERCISE, calls) == {2, 3, 5, 6}


def test_a_common_input_is_shown_where_one_fails():
    assert judged(lambda x: x).parts[0].evidence.call == "doubled(x=3.0)"
    wrong_later = lambda x: 2 * x if x in (3.0, 0.5) else x  # noqa: E731
    hidden, shown = (judged(wrong_later, secret=secret).parts[1].evidence for secret in (True, False))
    assert "-123457" in hidden.call and "-123457" not in shown.call


def test_where_only_drawn_ones_fail_none_is_shown():
    report = judged(lambda x: 2 * x if x in (3.0, 0.5, LONG) else x)
    evidence = report.parts[1].evidence
    assert evidence.call == evidence.expected == evidence.got == "" and "not shown" in evidence.sentence
    assert "check(doubled)" in evidence.sentence
    assert not any(f"{x:.3f}" in spoken(report) for x in inputs() if x not in (3.0, 0.5, LONG))


def test_nothing_that_the_code_says_spells_out_a_drawn_input():
    secrets = [f"{x:.4f}" for x in inputs() if x not in (3.0, 0.5, LONG)]

    def raises(x):
        if f"{x:.4f}" in secrets:
            raise KeyError(f"{x:.4f}")
        return 2 * x

    def prints(x):
        if f"{x:.4f}" in secrets:
            print(f"{x:.4f}")
        return 2 * x

    for fn in (raises, prints):
        assert any(secret in spoken(judged(fn, secret=False)) for secret in secrets), "else this test sees nothing"
        assert not any(secret in spoken(judged(fn)) for secret in secrets)


def test_points_and_parts_are_the_same_either_way():
    for fn in (doubled, lambda x: x, lambda x: 2 * x if x > 0 else 0.0, lambda x: None):
        hidden, shown = judged(fn), judged(fn, secret=False)
        assert (hidden.points, hidden.state) == (shown.points, shown.state)
        assert [p.passed for p in hidden.parts] == [p.passed for p in shown.parts]
