"""What a class did, counted: for the tables in the terminal and for the class page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from grader.classroom.states import Graded, Score
from grader.exercises import EXERCISES

OUTCOMES = ("right", "partly right", "wrong", "not attempted", "no result")
FEW_OF = 10  # a chapter of which no more than one in so many has handed anything in may be there by accident
LOOK_AT = ("failed", "not graded yet", "needs review")  # states that somebody must see to, the worst first


@dataclass(frozen=True)
class Common:
    """A mistake, how many made it, and the sentence that they read."""

    name: str
    count: int
    says: str


@dataclass(frozen=True)
class ExerciseSummary:
    """How a class did in one exercise. `counts` has an entry for each of OUTCOMES; missing submissions count nowhere.

    `mean` is that of the points, None where nobody has any result.
    """

    name: str
    chapter: str
    max_points: int
    counts: dict[str, int]
    mean: float | None
    common: tuple[Common, ...]

    @property
    def results(self) -> int:
        """How many have a result: points, be they 0."""
        return sum(self.counts.values()) - self.counts["no result"]

    @property
    def tried(self) -> int:
        """How many of them wrote something."""
        return self.results - self.counts["not attempted"]

    @property
    def nobody(self) -> bool:
        """True where some tried and none has it right."""
        return self.tried > 0 and self.counts["right"] == 0


def outcome(score: Score) -> str:
    """Return which of OUTCOMES a score is."""
    if score.points is None:
        return "no result"
    if score.points >= score.max_points:
        return "right"
    if score.points > 0:
        return "partly right"
    return "not attempted" if score.result == "not attempted" else "wrong"


def summaries(graded: Iterable[Graded], most: int = 3) -> list[ExerciseSummary]:
    """Return one summary an exercise, in the course's order, for every chapter that anybody handed in."""
    graded = [one for one in graded if one.state != "missing"]
    chapters = {one.submission.chapter for one in graded}
    by_name: dict[str, list[Score]] = {e.name: [] for e in EXERCISES.values() if e.chapter in chapters}
    for one in graded:
        for score in one.scores:
            by_name.setdefault(score.exercise, []).append(score)
    return [_summary(name, scores, most) for name, scores in by_name.items()]


def _summary(name: str, scores: list[Score], most: int) -> ExerciseSummary:
    exercise = EXERCISES.get(name)
    counts = Counter(outcome(score) for score in scores)
    says = {mistake.name: mistake.says for mistake in exercise.mistakes} if exercise else {}
    made = Counter(score.mistake for score in scores if score.mistake)
    points = [score.points for score in scores if score.points is not None]
    return ExerciseSummary(
        name,
        exercise.chapter if exercise else (scores[0].chapter if scores else ""),
        exercise.points if exercise else max((score.max_points for score in scores), default=0),
        {kind: counts[kind] for kind in OUTCOMES},
        sum(points) / len(points) if points else None,
        tuple(Common(mistake, n, says.get(mistake, "")) for mistake, n in made.most_common(most)),
    )


def course_order(graded: Iterable[Graded]) -> list[str]:
    """Return the chapters of a class in the course's order."""
    return sorted({one.submission.chapter for one in graded})


def hardly_handed_in(chapter: Sequence[Graded]) -> bool:
    """Tell whether so few of a class handed a chapter in that it may have been by accident."""
    missing = sum(one.state == "missing" for one in chapter)
    return len(chapter) >= FEW_OF and 0 < len(chapter) - missing <= len(chapter) / FEW_OF


def points_of(one: Graded) -> tuple[float | None, int]:
    """Return (points, most points) of a submission, what lateness costs taken off; None where nothing has a result."""
    known = [score.points for score in one.scores if score.points is not None]
    most = sum(score.max_points for score in one.scores)
    return (max(0.0, sum(known) - one.penalty) if known else None), most


def complete(one: Graded) -> bool:
    """Tell whether every exercise of a submission has a result."""
    return bool(one.scores) and all(score.points is not None for score in one.scores)


def is_late(one: Graded) -> bool:
    """Tell whether a submission came in late, by the due date or by what the learning platform says."""
    return one.late > 0 or bool(one.submission.late)


def duration(seconds: float) -> str:
    """Write a stretch of time as people say it: 40 s, 5 min, 3 h 20 min, 2 days 4 h."""
    minutes, hours, days = round(seconds / 60), seconds / 3600, seconds / 86400
    if seconds < 60:
        return f"{seconds:.0f} s"
    if hours < 1:
        return f"{minutes} min"
    if days < 1:
        return f"{minutes // 60} h {minutes % 60} min"
    whole = int(days)
    return f"{whole} day{'s' if whole > 1 else ''} {int(hours - 24 * whole)} h"


def to_look_at(graded: Sequence[Graded]) -> list[Graded]:
    """Return the submissions that somebody should see: failed, in need of review, flagged; the worst first."""
    found = [one for one in graded if one.state in LOOK_AT or (one.flags and one.state != "missing")]
    rank = {state: place for place, state in enumerate(LOOK_AT)}
    return sorted(
        found, key=lambda one: (rank.get(one.state, len(rank)), one.submission.chapter, one.submission.student)
    )
