"""Points by hand and extra credit: which of them somebody has to look at again, since the work was graded anew.

nbgrader marks a grade that has points by hand whenever it grades, whether anything has changed or not, and never
marks extra credit. Here a mark stands exactly where the work, or what its check gives, is no longer what the points
were given for. formgrader clears a mark when it saves the score.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nbgrader.api import Gradebook

from grader.classroom.engine.gradebook import Entry
from grader.classroom.intake import Submission

RECORDED = "by hand"  # in a submission's record


def given(entry: Entry) -> dict[str, list]:
    """Return {exercise: [points by hand, extra credit, what the check gives]} of those that nobody has to look at."""
    return {
        name: [grade.manual, grade.extra, grade.auto]
        for name, grade in sorted(entry.grades.items())
        if (grade.manual is not None or grade.extra) and not grade.open
    }


def settled(entry: Entry | None, record: Mapping[str, Any], digest: str) -> dict[str, list]:
    """Return, in the form of `given`, what was given for the very work that is at hand.

    Args:
        entry: what the gradebook holds now.
        record: of the last grading of this submission (see `engine.records`).
        digest: of the work at hand.
    """
    if entry is None or record.get("content") != digest:
        return {}
    kept = record.get(RECORDED)
    kept = kept if isinstance(kept, dict) else {}
    now = {name: [grade.manual, grade.extra, grade.auto] for name, grade in entry.grades.items()}
    return {name: known for name, known in kept.items() if now.get(name) == known} | given(entry)


def mark(gradebook: Gradebook, submission: Submission, known: Mapping[str, list]) -> bool:
    """Mark the grades by hand of a submission that are not among `known`, and no others; tell if a mark has changed."""
    notebook = gradebook.find_submission_notebook(submission.chapter, submission.chapter, submission.student_id)
    changed = False
    for grade in notebook.grades:
        if grade.manual_score is not None or grade.extra_credit:
            wanted = known.get(grade.name) != [grade.manual_score, grade.extra_credit or 0.0, grade.auto_score]
            changed |= grade.needs_manual_grade != wanted
            grade.needs_manual_grade = wanted
    gradebook.db.commit()
    return changed
