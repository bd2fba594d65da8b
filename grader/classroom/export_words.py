"""What a student reads of an exercise on a learning platform, beside the grade."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from grader.classroom.statistics import duration

if TYPE_CHECKING:
    from grader.classroom.export import Line, Result

_EXTRA = re.compile(r"(?P<before>.*), (?P<extra>\S+) points? of extra credit", re.DOTALL)  # see `engine.results`


def extra_in(line: Line) -> tuple[str, float]:
    """Return (the result without the words on extra credit, how many of the points are that)."""
    found = _EXTRA.fullmatch(line.result)
    try:
        extra = float(found["extra"]) if found else 0.0
    except ValueError:
        extra = 0.0
    # An error's message may end like that, too, but has no points.
    return (found["before"], extra) if 0 < extra <= (line.points or 0) else (line.result, 0.0)


def points_said(line: Line) -> str:
    """Say how many points an exercise has, of how many, and which are extra credit."""
    if line.points is None:
        return "no result"
    _, extra = extra_in(line)
    return f"{line.points:g} of {line.max_points:g}" + (f", {extra:g} of it extra credit" if extra else "")


def comment(result: Result) -> str:
    """Return what a student reads beside the grade: the points of each exercise, the mistakes by name, and below each
    what the instructor has written to it."""
    lines = []
    for line in result.lines:
        what, _ = extra_in(line)
        word = line.mistake or ("" if what == "right" else what)
        lines.append(f"{line.exercise}: {points_said(line)}" + (f" ({word})" if word else ""))
        lines += [f"Comment: {line.comment}"] if line.comment else []
    if result.penalty:
        late = f" ({duration(result.late_seconds)})" if result.late_seconds else ""
        lines.append(f"late{late}: -{result.penalty:g}")
    return "\n".join(lines)
