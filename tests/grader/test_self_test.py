"""The grader's test of itself: on the course's own exercises, and on exercises with a fault that it must find."""

import numpy as np
import pytest
from typer.testing import CliRunner

from grader import cli
from grader.calling import call_all
from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.exercises import EXERCISES
from grader.self_test import examine


@pytest.mark.parametrize("name", EXERCISES)
def test_every_mistake_is_named_and_every_right_answer_earns_all(name):
    # `grader mistakes` runs five seeds. Here one is enough where every call is a training run.
    seeds = (0,) if name.startswith("train_") else (0, 1)
    faults = [(row.kind, row.name, row.said) for row in examine(EXERCISES[name], seeds=seeds) if not row.ok]
    assert not faults


@pytest.mark.parametrize("name", EXERCISES)
def test_every_exercise_has_what_the_course_promises(name):
    exercise = EXERCISES[name]
    assert len(exercise.mistakes) >= 3 and exercise.alternatives and exercise.minutes > 0
    assert all(part.hint for part in exercise.parts)
    assert all(len(mistake.says) <= 400 for mistake in exercise.mistakes)


@pytest.mark.parametrize("name", EXERCISES)
def test_the_reference_raises_only_where_an_error_is_asked_for(name):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        for part in EXERCISES[name].parts:
            outcomes = call_all(EXERCISES[name].reference, part.calls(rng))
            assert any(o.kind != "value" for o in outcomes) == part.only_errors, part.says
            assert not any(o.warned or o.changed_arguments for o in outcomes), part.says


def test_the_course_knows_at_least_sixty_mistakes():
    assert sum(len(exercise.mistakes) for exercise in EXERCISES.values()) >= 60


def double(x):
    return 2.0 * x


def exercise(mistakes=(), alternatives=(), calls=lambda rng: [call(1), call(2)], holds=None):
    part = Part("p", 1, calls, holds=holds)
    return Exercise("double", "00_test", 1, 1, double, (part,), mistakes, alternatives)


def faults(one):
    return {(row.kind, row.name) for row in examine(one) if not row.ok}


def test_a_sound_exercise_has_no_fault():
    assert faults(exercise((Mistake("square", lambda x: x * x, "s"),), (Alternative("sum", lambda x: x + x),))) == set()


def test_a_mistake_that_keeps_all_points_is_found():
    assert faults(exercise((Mistake("doubles 2 only", lambda x: x + 1 if x == 1 else 4, "s"),))) == {
        ("mistake", "doubles 2 only")
    }


def test_a_mistake_that_another_one_hides_is_found():
    twins = (Mistake("first", lambda x: 0.5 * x, "s"), Mistake("second", lambda x: x / 2, "s"))
    assert faults(exercise(twins)) == {("mistake", "second")}


def test_a_right_answer_that_loses_points_is_found():
    assert faults(exercise(alternatives=(Alternative("off", lambda x: 2 * x + 0.1),))) == {("correct", "off")}


def test_an_answer_that_knows_nothing_and_earns_is_found():
    lenient = exercise(holds=lambda values, calls: None)
    assert ("knows nothing", "always 0") in faults(lenient)


def test_the_command_line_reports_and_fails(monkeypatch):
    monkeypatch.setitem(EXERCISES, "double", exercise((Mistake("fine", lambda x: 2 * x, "s"),)))
    result = CliRunner().invoke(cli.app, ["mistakes", "--exercise", "double"])
    assert result.exit_code == 1 and "killed 0/1" in result.output.replace("\n", "") and "survives" in result.output
    monkeypatch.setitem(EXERCISES, "double", exercise((Mistake("square", lambda x: x * x, "s"),)))
    result = CliRunner().invoke(cli.app, ["mistakes", "--exercise", "double", "--quiet"])
    assert result.exit_code == 0 and "killed 1/1, named 1/1" in result.output.replace("\n", "")
    assert CliRunner().invoke(cli.app, ["mistakes", "--exercise", "nobody"]).exit_code == 2
