"""The feedback page of one submission: what it earned, by exercise, and the notebook with the checks' reports.

Only what stands here reaches the student. What cells put out is theirs and may be made to look like anything, so it is
shown as text and pictures: no HTML, style, class or id of an output gets onto the page. The exception are the reports
of the checks, which the judge writes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files

from nbconvert.filters import ansi2html
from nbformat import NotebookNode
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name

from grader.classroom.engine.results import cells_by_id, report_in, result_of
from grader.classroom.mathml import markdown_to_html
from grader.classroom.statistics import duration
from grader.exercises import EXERCISES

PICTURES = ("image/png", "image/jpeg")
LATE = "taken off because it came in late"
BY_HAND = "points given by your instructor"
STOPPED = "your function did not come to an end"
NO_RESULT = "no result, which is not your doing: ask your instructor"
CODE = HtmlFormatter(cssclass="code")
# What highlighting and Markdown would take minutes for: they grow with the square of some lengths.
TOO_LONG, MAX_TEXT = re.compile(r"\s{300}|[^\n]{5000}"), 100_000


@dataclass(frozen=True)
class Row:
    """One exercise of the table at the top. `points` is None where there is no result."""

    name: str
    points: float | None
    most: float
    remark: str


def feedback_page(
    notebook: NotebookNode, chapter: str, student: str, penalty: float = 0.0, late_seconds: float = 0.0
) -> str:
    """Return the page as HTML.

    Args:
        notebook: judged, with the gradebook's points and comments in the metadata of its cells.
        chapter: its name.
        student: whose it is.
        penalty: the points that lateness costs.
        late_seconds: how long after the due date it came in, 0 if it did not or that is not known.
    """
    rows = summary(notebook)
    style = files("grader.classroom").joinpath("feedback_page.css").read_text(encoding="utf-8") + _code_style()
    title = title_of(chapter)
    cells = [_cell_or_text(cell) for cell in notebook.cells]
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n<header>\n"
        f"<h1>{escape(title)}</h1>\n{name_line(student)}\n{_total(rows, penalty, late_seconds)}\n{_table(rows)}\n"
        "<p>Below is the notebook as it was graded, with the reports of the checks.</p>\n</header>\n"
        + "\n".join(cell for cell in cells if cell)
        + "\n</main>\n</body>\n</html>\n"
    )


def title_of(chapter: str) -> str:
    """Return a chapter's name as people read it: "02_the_loss" is "Chapter 02: the loss"."""
    number, _, words = chapter.partition("_")
    return f"Chapter {number}: {words.replace('_', ' ')}" if number.isdigit() and words else chapter


def name_line(student: str) -> str:
    """Return the line of the page that says whose it is."""
    return f'<p class="student"><bdi>{escape(student)}</bdi></p>'


def summary(notebook: NotebookNode) -> list[Row]:
    """Return a row for each exercise with a check cell: its points in the gradebook and what went wrong, by name."""
    cells = cells_by_id(notebook)
    rows = []
    for name in (name for name in cells if name in EXERCISES):
        marks, report = cells[name].metadata.nbgrader, report_in(cells[name])
        result, mistake = result_of(name, cells)
        result = STOPPED if result == "stopped" else result
        score, most = marks.get("score"), marks.get("points", EXERCISES[name].points)
        lost = result.startswith("failed")
        given, extra = _by_hand(marks, report), marks.get("extra") or 0.0
        remarks = [mistake or ("" if lost or result == "right" else result), BY_HAND if given else ""]
        remarks += [f"{_points(extra)} of extra credit"] if extra else []
        if lost and not given:
            score, remarks = None, [NO_RESULT]
        rows.append(Row(name, score, most, "; ".join(filter(None, remarks))))
    return rows


def _by_hand(marks: dict, report: dict | None) -> bool:
    """Tell whether the points of a check, extra credit apart, are an instructor's and not the check's."""
    if marks.get("score") is None or marks.get("by_hand") is not None:
        return marks.get("by_hand") is not None
    return marks["score"] - (marks.get("extra") or 0.0) != (report["points"] if report else 0)


def _points(number: float) -> str:
    return f"{number:g} point{'' if number == 1 else 's'}"


def _total(rows: Sequence[Row], penalty: float, late_seconds: float) -> str:
    most = sum(row.most for row in rows)
    lost = sum(row.points is None for row in rows)
    points = max(0.0, sum(row.points or 0 for row in rows) - penalty)
    late = f" ({duration(late_seconds)} after it was due)" if late_seconds else ""
    late = f'\n<p class="late">{_points(penalty)} {LATE}{late}</p>' if penalty else ""
    if lost:
        what = f"{lost} exercise{'s have' if lost > 1 else ' has'} no result yet"
        return f'<p class="total no-result">No total: {what}</p>{late}'
    return f'<p class="total">{points:g} of {most:g} points</p>{late}'


def _table(rows: Sequence[Row]) -> str:
    lines = [
        f'<tr><td><a href="#check-{escape(row.name)}"><code>{escape(row.name)}</code></a></td>'
        f'<td class="n">{"no result" if row.points is None else f"{row.points:g} of {row.most:g}"}</td>'
        f"<td>{escape(row.remark)}</td></tr>"
        for row in rows
    ]
    return "<table>\n<tr><th>exercise</th><th>points</th><th></th></tr>\n" + "\n".join(lines) + "\n</table>"


def _cell_or_text(cell: NotebookNode) -> str:
    """One cell, or its bare text where that is all that can be shown: no cell costs the page."""
    try:
        return _cell(cell)
    except (Exception, RecursionError):  # what libraries raise for a text of a student's may be anything
        return f'<section class="cell"><pre>{escape(str(cell.source))}</pre></section>'


def _as_it_is(text: str) -> str:
    """A text that is too long, or odd, to be set as what it is; "" for others."""
    return f"<pre>{escape(text)}</pre>" if len(text) > MAX_TEXT or TOO_LONG.search(text) else ""


def _ansi(text: str) -> str:
    try:
        return ansi2html(text)
    except Exception:  # it knows only the usual colours
        return escape(text)


def _cell(cell: NotebookNode) -> str:
    grade_id = cell.metadata.get("nbgrader", {}).get("grade_id", "")
    if cell.cell_type == "markdown":
        return f'<section class="cell markdown">{_as_it_is(cell.source) or markdown_to_html(cell.source)}</section>'
    if cell.cell_type != "code":
        return f'<section class="cell"><pre>{escape(cell.source)}</pre></section>' if cell.source.strip() else ""
    if grade_id in EXERCISES:
        return (
            f'<section class="cell check" id="check-{escape(grade_id)}"><h2><code>check({escape(grade_id)})</code></h2>'
            f"{_from_instructor(cell)}{''.join(_judged(output) for output in cell.outputs)}</section>"
        )
    comment = cell.metadata.get("nbgrader", {}).get("comment") or ""
    if not cell.source.strip() and not comment:
        return ""
    answers = grade_id.removesuffix("_answer") if grade_id.endswith("_answer") else ""
    heading = f"<h2>Your answer: {escape(answers)}</h2>" if answers else ""
    said = f'<div class="comment"><b>Comment</b> {markdown_to_html(comment)}</div>' if comment else ""
    return (
        f'<section class="cell{" answer" if answers else ""}">{heading}{_highlighted(cell.source)}'
        f"{''.join(_output(output) for output in cell.outputs)}{said}</section>"
    )


def _from_instructor(cell: NotebookNode) -> str:
    """What an instructor has given, above the report of the check, which says something else."""
    marks, report = cell.metadata.nbgrader, report_in(cell)
    extra, said = marks.get("extra") or 0.0, []
    if _by_hand(marks, report):
        gave = f" (the check below gave {report['points']:g})" if report else ""
        said.append(f"{_points(marks['score'] - extra)} given by your instructor{gave}")
    said += [f"{_points(extra)} of extra credit"] if extra else []
    return f'<p class="by-hand">{escape(", and ".join(said))}</p>' if said else ""


def _judged(output: NotebookNode) -> str:
    """The judge's own report; whatever else a check cell holds is shown like any output."""
    is_report = output.output_type == "execute_result" and report_in(NotebookNode(outputs=[output]))
    return output.data["text/html"] if is_report and "text/html" in output.data else _output(output)


def _output(output: NotebookNode) -> str:
    if output.output_type == "stream":
        return f'<div class="output"><pre>{_ansi(output.text)}</pre></div>'
    if output.output_type == "error":
        return f'<div class="output error"><pre>{_ansi(chr(10).join(output.traceback))}</pre></div>'
    return f'<div class="output">{_shown(output.get("data", {}))}</div>'


def _shown(data: dict) -> str:
    """One output of a cell: a picture or its text, whatever else it would be in a notebook."""
    for kind in PICTURES:
        if isinstance(data.get(kind), str):
            return f'<img alt="a picture that this cell drew" src="data:{kind};base64,{escape(data[kind].strip())}">'
    if isinstance(data.get("text/plain"), str):
        return f"<pre>{_ansi(data['text/plain'])}</pre>"
    return f"<small>an output that is not shown here ({escape(', '.join(map(str, data))[:200])})</small>"


@cache
def _lexer():
    return get_lexer_by_name("ipython3")


@cache
def _code_style() -> str:
    return CODE.get_style_defs(".code") + "\n"


def _highlighted(source: str) -> str:
    return _as_it_is(source) or highlight(source, _lexer(), CODE)
