"""Submissions that nbgrader has entered but never scored: its exports and formgrader would give each of them a 0."""

from __future__ import annotations

from nbgrader.api import Gradebook, MissingEntry


def leave_no_zero(gradebook: Gradebook, chapter: str, student_id: str) -> None:
    """Take a submission out of the gradebook if no check of it has points, by itself or by hand."""
    try:
        entered = gradebook.find_submission(chapter, student_id)
    except MissingEntry:
        return
    grades = [grade for notebook in entered.notebooks for grade in notebook.grades]
    if all(grade.auto_score is None and grade.manual_score is None for grade in grades):
        gradebook.remove_submission(chapter, student_id)
