"""One page about a class: what to look at, how each exercise went, who has how many points, how long it took.

The page needs nothing but itself: no script, no font, no picture from elsewhere, and whatever it shows of a student's
(names, reasons) is escaped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from urllib.parse import quote

from grader.classroom.class_plots import duration_plot, points_plot
from grader.classroom.states import Graded
from grader.classroom.statistics import (
    OUTCOMES,
    ExerciseSummary,
    course_order,
    duration,
    hardly_handed_in,
    is_late,
    points_of,
    summaries,
    to_look_at,
)
from grader.report import prose

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
Links = Mapping[tuple[str, str], str]  # (student, chapter) -> where the feedback page lies


def class_page(graded: Sequence[Graded], links: Links) -> str:
    """Return the page as HTML.

    Args:
        graded: every submission of the class.
        links: where the feedback pages lie, seen from this page.
    """
    style = files("grader.classroom").joinpath("class_page.css").read_text(encoding="utf-8")
    chapters = course_order(graded)
    found = summaries(graded)
    parts = [
        _head(graded, chapters),
        _look_at(to_look_at(graded), links),
        _late([one for one in graded if is_late(one)], links),
        "<h2>Exercises</h2>",
        _legend(),
        *(_chapter(chapter, graded, [s for s in found if s.chapter == chapter]) for chapter in chapters),
        _students(graded, chapters, links),
    ]
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Class report</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(part for part in parts if part)
        + "\n</main>\n</body>\n</html>\n"
    )


def _head(graded: Sequence[Graded], chapters: Sequence[str]) -> str:
    students = {one.submission.student for one in graded}
    states = [one.state for one in graded]
    kinds = dict.fromkeys(("graded", "needs review", "failed", "missing", *states))
    told = [f"{escape(state)} {states.count(state)}" for state in kinds]
    return (
        f"<h1>Class report</h1>\n<p class=sum>{_count(len(students), 'student')}, {_count(len(chapters), 'chapter')} · "
        f"{_count(len(graded), 'submission')}: {', '.join(told)}</p>"
    )


def _look_at(found: Sequence[Graded], links: Links) -> str:
    alike: dict[tuple[str, str, str], list[Graded]] = {}
    for one in found:  # what is wrong with all that somebody handed in is said once
        alike.setdefault((one.submission.student, one.state, _why(one)), []).append(one)
    rows = [
        f"<tr><td>{escape(student)}</td>"
        f"<td>{'<br>'.join(_linked(one, links, one.submission.chapter) for one in same)}</td>"
        f'<td><span class="state {_word(state)}">{escape(state)}</span></td><td>{why}</td></tr>'
        for (student, state, why), same in alike.items()
    ]
    if not rows:
        return "<h2>To look at</h2>\n<p>Nothing failed, nothing needs a review, nothing was flagged.</p>"
    return f"<h2>To look at ({len(found)})</h2>\n" + _table(("student", "chapter", "state", "why"), rows)


def _why(one: Graded) -> str:
    said = [one.reason] if one.reason else []
    said += [flag for flag in one.flags if flag not in one.reason]
    return "<br>".join(prose(sentence) for sentence in said)


def _late(found: Sequence[Graded], links: Links) -> str:
    rows = [
        f"<tr><td>{_linked(one, links, one.submission.student)}</td><td>{escape(one.submission.chapter)}</td>"
        f"<td>{duration(one.late) if one.late else 'marked late by the learning platform'}</td>"
        f"<td class=n>{f'−{one.penalty:g} points' if one.penalty else ''}</td></tr>"
        for one in sorted(found, key=lambda one: (one.submission.chapter, -one.late, one.submission.student))
    ]
    if not rows:
        return ""
    return f"<h2>Late ({len(rows)})</h2>\n" + _table(("student", "chapter", "late by", "penalty"), rows)


def _legend() -> str:
    marks = "".join(f'<span><i class="{_word(kind)}"></i>{kind}</span>' for kind in OUTCOMES)
    return f"<p class=legend>{marks}</p>"


def _chapter(chapter: str, graded: Sequence[Graded], found: Sequence[ExerciseSummary]) -> str:
    mine = [one for one in graded if one.submission.chapter == chapter and one.state != "missing"]
    missing = [one for one in graded if one.submission.chapter == chapter and one.state == "missing"]
    out = [f"<section>\n<h3>{escape(chapter)} <small>{_count(len(mine), 'submission')}</small></h3>"]
    if missing:
        names = ", ".join(escape(one.submission.student) for one in missing)
        accident = " (hardly anybody handed this in)" if hardly_handed_in([*mine, *missing]) else ""
        out.append(f"<details><summary>{len(missing)} missing{accident}</summary><p>{names}</p></details>")
    if not mine:
        return "\n".join([*out, "<p>Nobody handed it in.</p>\n</section>"])
    rows = [_exercise(summary) for summary in found]
    out.append(_table(("exercise", "results", "right", "points", "commonest mistakes"), rows, "exercises"))
    plots = [
        points_plot([points_of(one) for one in mine], chapter),
        duration_plot([one.seconds for one in mine], chapter),
    ]
    out.append("<div class=plots>" + "".join(f"<figure>{plot}</figure>" for plot in plots if plot) + "</div>")
    return "\n".join([*out, "</section>"])


def _exercise(one: ExerciseSummary) -> str:
    share = f"{100 * one.counts['right'] / one.results:.0f} %" if one.results else "–"
    points = f"{one.mean:.1f} of {one.max_points}" if one.mean is not None else f"– of {one.max_points}"
    common = "".join(
        f"<li><b>{escape(mistake.name)}</b> ({mistake.count}) <span>{prose(mistake.says)}</span></li>"
        for mistake in one.common
    )
    if one.nobody:
        common = f"<li class=nobody>Nobody has it right: {one.tried} tried.</li>{common}"
    if not one.results:
        common = f"<li class=nobody>There is no result of anybody.</li>{common}"
    return (
        f'<tr class="{"nobody" if one.nobody or not one.results else ""}"><td><code>{escape(one.name)}</code></td>'
        f"<td>{_bar(one)}</td><td class=n>{one.counts['right']}/{one.results}<br><small>{share}</small></td>"
        f"<td class=n>{points}</td><td>{f'<ul>{common}</ul>' if common else ''}</td></tr>"
    )


def _bar(one: ExerciseSummary) -> str:
    whole = sum(one.counts.values())
    told = ", ".join(f"{one.counts[kind]} {kind}" for kind in OUTCOMES if one.counts[kind])
    parts = "".join(
        f'<i class="{_word(kind)}" style="width:{100 * one.counts[kind] / whole:.2f}%">{one.counts[kind]}</i>'
        for kind in OUTCOMES
        if one.counts[kind]
    )
    return f'<div class=bar role=img aria-label="{told}" title="{told}">{parts}</div>'


def _students(graded: Sequence[Graded], chapters: Sequence[str], links: Links) -> str:
    by_name: dict[str, dict[str, Graded]] = {}
    for one in graded:
        by_name.setdefault(one.submission.student, {})[one.submission.chapter] = one
    absent = [name for name, mine in by_name.items() if all(one.state == "missing" for one in mine.values())]
    rows = [
        f"<tr><td>{escape(name)}</td>{''.join(_points(mine.get(chapter), links) for chapter in chapters)}</tr>"
        for name, mine in by_name.items()
        if name not in absent
    ]
    short = tuple(f'<abbr title="{escape(chapter)}">{escape(chapter.partition("_")[0])}</abbr>' for chapter in chapters)
    out = "<h2>Students</h2>\n" + _table(("student", *short), rows, "students")
    if absent:
        listed = ", ".join(escape(name) for name in absent)
        out += f"\n<details><summary>{len(absent)} handed in nothing</summary><p>{listed}</p></details>"
    return out


def _points(one: Graded | None, links: Links) -> str:
    if one is None or one.state == "missing":
        return "<td class=n>·</td>"
    points, most = points_of(one)
    shown = "–" if points is None else f"{points:g}"
    link = links.get((one.submission.student, one.submission.chapter))
    text = f"{shown}<small>/{most}</small>"
    text = f'<a href="{escape(_quoted(link))}">{text}</a>' if link else text
    mark = "" if one.state == "graded" else f' title="{escape(one.state)}"'
    return f'<td class="n {_word(one.state) if mark else ""}"{mark}>{text}</td>'


def _linked(one: Graded, links: Links, words: str) -> str:
    link = links.get((one.submission.student, one.submission.chapter))
    return f'<a href="{escape(_quoted(link))}">{escape(words)}</a>' if link else escape(words)


def _quoted(link: str) -> str:
    return quote(link)


def _table(header: Sequence[str], rows: Sequence[str], kind: str = "plain") -> str:
    head = "".join(f"<th>{word}</th>" for word in header)
    return f'<div class=wide><table class="{kind}">\n<tr>{head}</tr>\n' + "\n".join(rows) + "\n</table></div>"


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _word(kind: str) -> str:
    return kind.replace(" ", "-")
