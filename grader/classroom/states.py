"""What a grading says about each name: a row for every submission, and one for each of its exercises."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from grader.classroom.intake import Submission

NOT_YET = "not graded yet"


@dataclass(frozen=True)
class Score:
    """One exercise of one submission. `points` is None where nothing could be graded: no result is no 0.

    `comment` is what an instructor has written to it by hand, its lines apart by line feeds.
    """

    student: str
    chapter: str
    exercise: str
    points: float | None
    max_points: int
    result: str
    mistake: str = ""
    comment: str = ""


@dataclass(frozen=True)
class Graded:
    """What became of one submission.

    `state` is "graded", "needs review", "failed", "missing" or "not graded yet" (the grading was stopped before).
    `late` is how many seconds after the due date it came in, `penalty` the points that nbgrader's late plugin takes
    off for it (the scores themselves stay as they are). `seconds` is how long its notebook ran. `flags` are sentences
    about what an instructor should look at. `fresh` is False where an earlier grading's result was taken over.
    `formerly` are the ids under which earlier gradings knew this student.
    """

    submission: Submission
    state: str
    reason: str
    scores: tuple[Score, ...]
    feedback: Path | None = None
    late: float = 0.0
    penalty: float = 0.0
    seconds: float = 0.0
    flags: tuple[str, ...] = ()
    fresh: bool = True
    formerly: tuple[str, ...] = ()
