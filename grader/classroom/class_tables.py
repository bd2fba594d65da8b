"""A class in the terminal: one table a chapter, and one of its exercises."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.markup import escape
from rich.table import Table

from grader.classroom.states import NOT_YET, Graded
from grader.classroom.statistics import course_order, duration, hardly_handed_in, is_late, points_of, summaries

MOST_ROWS = 60  # beyond it, rows that say nothing but points are counted instead of shown
MOST_NAMES = 12


def class_tables(graded: Sequence[Graded]) -> list[Table]:
    """One table per chapter with one row per student: points, state, reason. Who handed in nothing is listed below."""
    return [_chapter_table(chapter, graded) for chapter in course_order(graded)]


def _chapter_table(chapter: str, graded: Sequence[Graded]) -> Table:
    mine = [one for one in graded if one.submission.chapter == chapter]
    missing = [one for one in mine if one.state == "missing"]
    rows = [one for one in mine if one.state != "missing"]
    quiet = [one for one in rows if one.state == "graded" and not one.reason and not one.flags and not is_late(one)]
    folded = quiet if len(rows) > MOST_ROWS else []
    below = []
    if folded:
        below.append(f"{len(folded)} more were graded without a remark (submissions.csv)")
    if missing:
        below.append(f"missing: {len(missing)} of {len(mine)} ({_names(missing)})")
    others = [other for other in course_order(graded) if other != chapter]
    if others and hardly_handed_in(mine):
        options = " ".join(f"--chapter {other}" for other in others)
        below.append(f"hardly anybody handed this in; was it by accident? Then grade with {options}")
    table = Table("student", "points", "state", "reason", title=chapter, title_justify="left")
    table.caption, table.caption_justify = escape("\n".join(below)) or None, "left"
    for one in rows:
        if one in folded:
            continue
        points, most = points_of(one)
        shown = "–" if points is None else f"{points:g}"
        reasons = [one.reason, *(flag for flag in one.flags if flag not in one.reason)]
        reasons += [_lateness(one)] if one.late else []
        style = {"graded": "", "needs review": "yellow"}.get(one.state, "red")
        said = escape("; ".join(filter(None, reasons)))
        table.add_row(escape(one.submission.student), f"{shown}/{most}", one.state, said, style=style)
    return table


def summary_line(graded: Sequence[Graded]) -> str:
    """Say in a line what became of all submissions: graded now, taken over, failed, missing, to be reviewed."""
    states = Counter(one.state for one in graded)
    with_grades = [one for one in graded if one.state in ("graded", "needs review")]
    now = sum(one.fresh for one in with_grades)
    parts = [f"{now} graded now", f"{len(with_grades) - now} taken over (nothing has changed)"]
    parts += [f"{states[state]} {state}" for state in ("failed", "missing", NOT_YET)]
    said = [part for part in parts if not part.startswith("0 ")] or ["nothing"]
    need = states["needs review"]
    review = f"; {need} of the graded {'needs' if need == 1 else 'need'} review" if need else ""
    return f"{len(graded)} submission{'' if len(graded) == 1 else 's'}: {', '.join(said)}{review}."


def _lateness(one: Graded) -> str:
    said = f"late by {duration(one.late)}"
    return f"{said}, {one.penalty:g} points off" if one.penalty else said


def _names(missing: Sequence[Graded]) -> str:
    names = [one.submission.student for one in missing]
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return "; ".join(names[:MOST_NAMES]) + more  # a name may hold a comma


def exercise_table(graded: Sequence[Graded]) -> Table:
    """One row per exercise, under its chapter: how many have it right, how many tried, and the commonest mistakes."""
    table = Table("exercise", "right", "tried", "commonest mistakes", title="Exercises", title_justify="left")
    chapter = None
    for summary in summaries(graded):
        if summary.chapter != chapter:
            chapter = summary.chapter
            table.add_section()
            table.add_row(f"[bold]{escape(chapter)}[/bold]", "", "", "")
        common = ", ".join(f"{one.name} ({one.count})" for one in summary.common)
        if summary.nobody:
            common = f"nobody has it right{'; ' if common else ''}{common}"
        right, tried = str(summary.counts["right"]), f"{summary.tried}/{summary.results}"
        table.add_row(summary.name, right, tried, escape(common), style="yellow" if summary.nobody else "")
    return table
