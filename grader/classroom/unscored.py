"""Submissions that nbgrader has entered but never scored: its exports and formgrader would give each of them a 0."""

from __future__ import annotations

from nbgrader.api import Gradebook, MissingEntry, SubmittedAssignment


def has_points(submission: SubmittedAssignment) -> bool:
    """Tell whether any check of a submission in the gradebook has points, by itself or by hand."""
    grades = (grade for notebook in submission.notebooks for grade in notebook.grades)
    return any(grade.auto_score is not None or grade.manual_score is not None for grade in grades)


def leave_no_zero(gradebook: Gradebook, chapter: str, student_id: str) -> None:
    """Take a submission out of the gradebook if no check of it has points, by itself or by hand."""
    try:
        entered = gradebook.find_submission(chapter, student_id)
    except MissingEntry:
        return
    if not has_points(entered):
        gradebook.remove_submission(chapter, student_id)
