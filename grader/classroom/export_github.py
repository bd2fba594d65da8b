"""The points of one repository, as GitHub Classroom reads them: two notices in the log of the workflow."""

from __future__ import annotations

import json
from collections.abc import Sequence

from grader.classroom.export import ExportError, Result, of_student


def of_repository(results: Sequence[Result], student: str = "") -> list[Result]:
    """Return the results of one repository: those of `student`, or of the only one in the report.

    Raises:
        ExportError: nobody, or several to choose from; notices about a whole class would be one sum over all of it.
    """
    mine = of_student(results, student)
    count = len({result.student for result in mine})
    if count > 1:
        raise ExportError(
            f"the report has {count} students. This export is for the workflow in one student's repository "
            "(docs/classroom.yml): say which one with --student. For a class there are `grader export canvas`, moodle "
            "and gradescope"
        )
    return mine


def notices(results: Sequence[Result]) -> list[str]:
    """Return the lines to print. Where any exercise has no result there is an error to see instead of points."""
    lost = [f"{result.chapter}: {result.why_not}" for result in results if result.points is None]
    if lost or not results:
        said = _one_line("; ".join(lost) or "nothing was handed in")
        return [f"::error title=Not graded::{said}"]
    points, most = sum(result.points for result in results), sum(result.most for result in results)
    report = json.dumps({"totalPoints": points, "maxPoints": most})
    return [
        f"::notice title=Autograding complete::Points {points:g}/{most:g}",
        f"::notice title=Autograding report::{report}",
    ]


def _one_line(text: str) -> str:
    """A line of the log is a command to the workflow; what a student wrote must not begin one."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
