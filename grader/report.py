"""What a student sees after a check, as text and as HTML, and what nbgrader reads of it.

nbgrader takes the text/plain form of a cell's value as its partial credit when that is a number, so the points
stand there alone; a notebook shows the HTML form, and `print(report)` or a terminal the text form.
"""

from __future__ import annotations

import html
from dataclasses import asdict, dataclass

CHECK_MIME = "application/vnd.grpo-course.check+json"
WIDTH = 76


@dataclass(frozen=True)
class Evidence:
    """The smallest failing call of a part: the input, the two answers (may be empty) and a sentence (may be empty)."""

    call: str
    expected: str = ""
    got: str = ""
    sentence: str = ""


@dataclass(frozen=True)
class PartResult:
    """One line of a report. `mistake` names the known mistake this part looks like; `says` explains it."""

    says: str
    points: int
    passed: bool
    evidence: Evidence | None = None
    mistake: str = ""
    mistake_says: str = ""
    hint: str = ""


@dataclass(frozen=True)
class Report:
    """The result of one check.

    `state` is one of "right", "partly right", "wrong", "error in your code", "not attempted", "stopped".
    `mistake` is the name of the known mistake, empty if none was recognised. `notes` are remarks that cost nothing.
    """

    exercise: str
    chapter: str
    state: str
    points: int
    max_points: int
    parts: tuple[PartResult, ...] = ()
    mistake: str = ""
    notes: tuple[str, ...] = ()
    headline: str = ""

    def to_dict(self) -> dict:
        """The report as plain data, for files and for other processes."""
        return asdict(self)

    def __str__(self) -> str:
        return as_text(self)

    __repr__ = __str__

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        return {"text/plain": str(self.points), "text/html": as_html(self), CHECK_MIME: self.to_dict()}


def _score(report: Report) -> str:
    if report.state == "not attempted":
        return f"not attempted, {report.max_points} points to earn"
    return f"{report.points} of {report.max_points} points"


def as_text(report: Report) -> str:
    """Render a report for a terminal."""
    score = _score(report)
    lines = [report.exercise + " " * max(2, WIDTH - len(report.exercise) - len(score)) + score]
    if report.headline:
        lines += _wrapped(report.headline, " ")
    for part in report.parts:
        lines.append(f" {'✓' if part.passed else '✗'} {part.says}")
        if part.evidence:
            lines += _indented(part.evidence.call)
            lines += _labelled("expected", part.evidence.expected) + _labelled("yours", part.evidence.got)
            lines += _wrapped(part.evidence.sentence, "     ")
        lines += _wrapped(part.mistake_says or part.hint, "   ")
    for note in report.notes:
        lines += _wrapped("note: " + note, " ")
    return "\n".join(lines)


def _labelled(label: str, block: str) -> list[str]:
    if not block:
        return []
    first, *rest = block.split("\n")
    return [f"     {label:<9}{first}"] + [" " * 14 + line for line in rest]


def _indented(block: str) -> list[str]:
    return ["     " + line for line in block.split("\n")]


def _wrapped(text: str, indent: str) -> list[str]:
    import textwrap

    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent) if text else []


# Colours that read on a light and on a dark page; text takes the page's own colour.
_GREEN, _RED, _GREY, _BLUE = "#2e9e5b", "#d9534f", "#8a8a8a", "#3b82c4"
_STATE_COLOUR = {"right": _GREEN, "partly right": "#d18b1f", "not attempted": _GREY}


def as_html(report: Report) -> str:
    """Render a report for a notebook or a feedback page: inline styles only, no script, all text escaped."""
    colour = _STATE_COLOUR.get(report.state, _RED)
    rows = [
        f'<div style="display:flex;justify-content:space-between;gap:2em;border-bottom:1px solid {_GREY}55;'
        f'padding-bottom:4px;margin-bottom:4px"><code style="font-weight:600">{_e(report.exercise)}</code>'
        f'<span style="color:{colour};font-weight:600">{_e(_score(report))}</span></div>'
    ]
    if report.headline:
        rows.append(f'<div style="margin:4px 0">{prose(report.headline)}</div>')
    rows += [_part_html(part) for part in report.parts]
    rows += [f'<div style="color:{_GREY};margin-top:4px">note: {prose(note)}</div>' for note in report.notes]
    return (
        f'<div style="border-left:4px solid {colour};padding:6px 12px;max-width:46em;line-height:1.45;'
        f'font-size:14px">{"".join(rows)}</div>'
    )


def _part_html(part: PartResult) -> str:
    mark, colour = ("✓", _GREEN) if part.passed else ("✗", _RED)
    out = f'<div><span style="color:{colour};font-weight:600">{mark}</span> {prose(part.says)}</div>'
    inner = ""
    if part.evidence:
        inner += f"<pre {_PRE}>{_e(part.evidence.call)}</pre>"
        if part.evidence.expected or part.evidence.got:
            inner += (
                '<table style="margin:2px 0;border-collapse:collapse;font-size:13px">'
                + _answer_row("expected", part.evidence.expected)
                + _answer_row("yours", part.evidence.got)
                + "</table>"
            )
        if part.evidence.sentence:
            inner += f"<div>{prose(part.evidence.sentence)}</div>"
    if part.mistake_says or part.hint:
        inner += (
            f'<div style="border-left:3px solid {_BLUE};padding-left:8px;margin:4px 0">'
            f"{prose(part.mistake_says or part.hint)}</div>"
        )
    return out + (f'<div style="margin-left:1.4em">{inner}</div>' if inner else "")


_PRE = 'style="margin:2px 0;white-space:pre-wrap;background:none;border:0;padding:0;font-size:13px"'


def _answer_row(label: str, text: str) -> str:
    if not text:
        return ""
    cell = "text-align:left;vertical-align:baseline;padding:0"
    return (
        f'<tr style="background:none"><td style="{cell} 1em 0 0;color:{_GREY}">{label}</td>'
        f'<td style="{cell}"><pre {_PRE}>{_e(text)}</pre></td></tr>'
    )


def _e(text: str) -> str:
    return html.escape(text)


def prose(text: str) -> str:
    """Escape a sentence and set what stands between back-ticks as code."""
    pieces = html.escape(text).split("`")
    if len(pieces) % 2 == 0:  # an unpaired back-tick stays as it is
        return "`".join(pieces)
    return "".join(f"<code>{p}</code>" if i % 2 else p for i, p in enumerate(pieces))
