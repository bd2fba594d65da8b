"""Deriving nbgrader's metadata: what is derived, and what is refused."""

import pytest
from nbformat.v4 import new_code_cell, new_notebook

from grader.classroom import annotate as module
from grader.classroom.annotate import annotate
from grader.exercise import Exercise, Part, call


@pytest.fixture(autouse=True)
def one_exercise(monkeypatch):
    part = Part("p", 3, lambda rng: [call(1)])
    exercise = Exercise("double", "00_test", 1, 1, lambda x: 2 * x, (part,), ())
    other = Exercise("other", "99_elsewhere", 1, 1, lambda x: x, (part,), ())
    monkeypatch.setattr(module, "EXERCISES", {"double": exercise, "other": other})


ANSWER = "def double(x):\n    ### BEGIN SOLUTION\n    return 2 * x\n    ### END SOLUTION"
CHECK = "check(double)"


def annotated(*sources):
    notebook = new_notebook(cells=[new_code_cell(source) for source in sources])
    annotate(notebook, "00_test")
    return notebook.cells


def test_answer_and_check_cells_are_found():
    setup, answer, check = annotated("import numpy", ANSWER, CHECK)
    assert "nbgrader" not in setup.metadata
    assert answer.metadata.nbgrader.grade_id == "double_answer" and answer.metadata.nbgrader.solution
    assert not answer.metadata.nbgrader.locked and not answer.metadata.nbgrader.grade
    assert check.metadata.nbgrader.grade_id == "double" and check.metadata.nbgrader.points == 3
    assert check.metadata.nbgrader.locked and check.metadata.nbgrader.grade


@pytest.mark.parametrize(
    "sources, words",
    [
        ((ANSWER,), "has no cell `check"),
        ((CHECK,), "has no answer cell"),
        ((CHECK, ANSWER), "before its answer"),
        ((ANSWER, ANSWER, CHECK), "a second answer cell for double"),
        ((ANSWER, CHECK, CHECK), "a second check cell"),
        ((ANSWER, CHECK, "check(nobody)"), "no exercise is called 'nobody'"),
        ((ANSWER, CHECK, "check(other)"), "belongs to 99_elsewhere"),
        ((ANSWER.replace("### END SOLUTION", ""), CHECK), "exactly one"),
        (("### BEGIN SOLUTION\nx = 1\n### END SOLUTION",), "inside the function"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(sources, words):
    with pytest.raises(ValueError, match=words):
        annotated(*sources)


def test_the_code_of_a_long_picture_is_folded():
    long, short = "x = 1\n" * 12 + "plt.show()", "plt.plot([1])\nplt.show()"
    picture, small, text, *_ = annotated(long, short, "x = 1\n" * 20, ANSWER, CHECK)
    assert picture.metadata.jupyter == {"source_hidden": True}
    assert "jupyter" not in small.metadata and "jupyter" not in text.metadata
