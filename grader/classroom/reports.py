"""What an instructor takes away: scores.csv, submissions.csv, the feedback pages, and one page about the class."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from grader.classroom.class_page import class_page
from grader.classroom.class_tables import class_tables, exercise_table
from grader.classroom.export import SCORES
from grader.classroom.states import Graded, Score
from grader.classroom.statistics import is_late, points_of
from grader.classroom.whole import copy_whole, write_whole

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")

__all__ = ["SCORES", "SUBMISSIONS", "class_tables", "exercise_table", "write_report"]

SUBMISSIONS = (
    "student", "chapter", "state", "reason", "points", "max_points", "penalty", "late", "late_seconds", "seconds",
    "flags", "number", "feedback", "intake",
)  # fmt: skip


def write_report(graded: Sequence[Graded], out: Path) -> None:
    """Write scores.csv, submissions.csv, class.html and feedback/STUDENT/CHAPTER.html under `out`.

    Each file appears whole. A feedback page of an earlier report goes where its submission has none any more, or its
    student another name.
    """
    out.mkdir(parents=True, exist_ok=True)
    known = {one.submission.student_id for one in graded}
    scores = [score for one in graded for score in one.scores]
    _write_csv(out / "scores.csv", SCORES, (_score_row(score) for score in scores))
    for one in graded:
        page = out / feedback_name(one)
        if one.feedback:
            copy_whole(one.feedback, page)
        else:
            page.unlink(missing_ok=True)
        for old in set(one.formerly) - known:
            (out / "feedback" / old / page.name).unlink(missing_ok=True)
    _write_csv(out / "submissions.csv", SUBMISSIONS, (_submission_row(one) for one in graded))
    links = {(g.submission.student, g.submission.chapter): feedback_name(g) for g in graded if g.feedback}
    write_whole(out / "class.html", class_page(graded, links))


def feedback_name(one: Graded) -> str:
    """Return where a submission's feedback page lies, from the report's folder."""
    return f"feedback/{one.submission.student_id}/{one.submission.chapter}.html"


def _score_row(score: Score) -> tuple:
    points = "" if score.points is None else f"{score.points:g}"
    return (
        score.student,
        score.chapter,
        score.exercise,
        points,
        score.max_points,
        score.result,
        score.mistake,
        score.comment,
    )


def _submission_row(one: Graded) -> tuple:
    points, most = points_of(one)
    return (
        one.submission.student,
        one.submission.chapter,
        one.state,
        one.reason,
        "" if points is None else f"{points:g}",
        most,
        f"{one.penalty:g}" if one.penalty else "",
        "yes" if is_late(one) else "",
        f"{one.late:.0f}" if one.late else "",
        f"{one.seconds:.1f}" if one.seconds else "",
        "; ".join(one.flags),
        one.submission.number,
        feedback_name(one) if one.feedback else "",
        one.submission.intake,
    )


def _write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence]) -> None:
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([harmless(field) for field in row] for row in rows)
    write_whole(path, file.getvalue())


def harmless(field) -> str:
    """A text that a spreadsheet would take for a formula gets a quote before it: names and errors are not ours.

    What a terminal would obey is written out, and so is the carriage return, which Python's csv writes without quotes.
    """
    text = CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", str(field))
    return "'" + text if isinstance(field, str) and text[:1] in ("=", "+", "-", "@", "\t", "\r") else text
