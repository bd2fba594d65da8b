"""What an instructor takes away: scores.csv, submissions.csv, the feedback pages, and a table of the class."""

from __future__ import annotations

import csv
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.table import Table

from grader.classroom.grading import Graded, Score

SCORES = ("student", "chapter", "exercise", "points", "max_points", "result", "mistake")
SUBMISSIONS = ("student", "chapter", "state", "reason")


def write_report(graded: Sequence[Graded], out: Path) -> None:
    """Write scores.csv, submissions.csv and feedback/STUDENT/CHAPTER.html under `out`. Each file appears whole."""
    out.mkdir(parents=True, exist_ok=True)
    scores = [score for one in graded for score in one.scores]
    _write_csv(out / "scores.csv", SCORES, (_score_row(score) for score in scores))
    _write_csv(
        out / "submissions.csv",
        SUBMISSIONS,
        ((g.submission.student, g.submission.chapter, g.state, g.reason) for g in graded),
    )
    for one in graded:
        if one.feedback:
            page = out / "feedback" / one.submission.student_id / f"{one.submission.chapter}.html"
            page.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(one.feedback, page)


def _score_row(score: Score) -> tuple:
    points = "" if score.points is None else f"{score.points:g}"
    return (score.student, score.chapter, score.exercise, points, score.max_points, score.result, score.mistake)


def _write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence]) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
    with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows([_harmless(field) for field in row] for row in rows)
    os.chmod(temporary, 0o644)
    os.replace(temporary, path)


def _harmless(field) -> str:
    """A text that a spreadsheet would take for a formula gets a quote before it: names and errors are not ours."""
    text = str(field)
    return "'" + text if isinstance(field, str) and text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def class_tables(graded: Sequence[Graded]) -> list[Table]:
    """One table per chapter with one row per student: points, state, reason."""
    tables = []
    for chapter in dict.fromkeys(one.submission.chapter for one in graded):
        table = Table("student", "points", "state", "reason", title=chapter, title_justify="left")
        for one in graded:
            if one.submission.chapter != chapter:
                continue
            known = [s.points for s in one.scores if s.points is not None]
            most = sum(s.max_points for s in one.scores)
            points = f"{sum(known):g}/{most}" if known else f"–/{most}"
            style = {"graded": "", "needs review": "yellow"}.get(one.state, "red")
            table.add_row(_e(one.submission.student), points, one.state, _e(one.reason), style=style)
        tables.append(table)
    return tables


def exercise_table(graded: Sequence[Graded]) -> Table:
    """One row per exercise: how many have it right, how many tried, and the commonest mistakes."""
    table = Table("exercise", "right", "tried", "commonest mistakes", title="Exercises")
    scores = [score for one in graded for score in one.scores if score.points is not None]
    for name in dict.fromkeys(score.exercise for score in scores):
        mine = [score for score in scores if score.exercise == name]
        tried = [score for score in mine if score.result != "not attempted"]
        right = sum(score.points >= score.max_points for score in mine)
        common = Counter(score.mistake for score in mine if score.mistake).most_common(3)
        table.add_row(name, str(right), f"{len(tried)}/{len(mine)}", ", ".join(f"{m} ({n})" for m, n in common))
    return table


def _e(text: str) -> str:
    from rich.markup import escape

    return escape(text)
