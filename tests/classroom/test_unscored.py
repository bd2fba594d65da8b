"""No 0 is left in the gradebook for what could not be graded."""

import pytest
from nbgrader.api import Gradebook

from grader.classroom.grading import grade_class
from grader.classroom.unscored import leave_no_zero
from grader.judge.sandbox import why_not

CHAPTER = "02_advantages_and_logprobs"
NAMES = ("nothing", "zero", "hand", "other")


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """A gradebook in which four students are entered, and what a grading says of files that are no notebooks."""
    work = tmp_path_factory.mktemp("work")
    for student in ("nothing", "zero"):
        path = work / "submitted" / student / CHAPTER / f"{CHAPTER}.ipynb"
        path.parent.mkdir(parents=True)
        path.write_text("no notebook")

    def grade():
        return grade_class(work / "submitted", work, roster=list(NAMES), sandbox=not why_not())

    grade()
    url = f"sqlite:///{work}/gradebook.db"
    with Gradebook(url) as gradebook:
        for student in (*NAMES, "gone"):
            gradebook.update_or_create_student(student)
            gradebook.update_or_create_submission(CHAPTER, student)
        gradebook.find_grade("sequence_logprob", CHAPTER, CHAPTER, "zero").auto_score = 0.0
        gradebook.find_grade("sequence_logprob", CHAPTER, CHAPTER, "hand").manual_score = 0.0
        gradebook.db.commit()
        leave_no_zero(gradebook, CHAPTER, "gone")
        leave_no_zero(gradebook, CHAPTER, "nobody")
        leave_no_zero(gradebook, "01_rollouts_and_rewards", "other")
        before = {submission.student_id for submission in gradebook.assignment_submissions(CHAPTER)}
    rows = grade()
    with Gradebook(url) as gradebook:
        return before, rows, {submission.student_id for submission in gradebook.assignment_submissions(CHAPTER)}


def test_only_what_was_asked_for_and_has_no_points_goes(graded):
    assert graded[0] == {"nothing", "zero", "hand", "other"}


def test_a_grading_takes_them_out_for_rows_without_a_result(graded):
    _, rows, entered = graded
    assert {row.submission.student: row.state for row in rows} == {
        "nothing": "failed",
        "zero": "failed",
        "hand": "missing",
        "other": "missing",
    }
    assert entered == {"zero", "hand"}
