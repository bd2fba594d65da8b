"""The points of one repository, as GitHub Classroom reads them: two notices in the log of the workflow."""

from __future__ import annotations

import json
from collections.abc import Sequence

from grader.classroom.export import Result


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
