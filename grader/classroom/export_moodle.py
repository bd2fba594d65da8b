"""Fill the grading worksheet of an assignment in Moodle (Download grading worksheet, Upload grading worksheet).

Moodle (mod/assign/feedback/offline) finds a student by the number in "Identifier" ("Participant 1234567"), the same
that is in the names of the files it lets one download, and reads the columns "Grade" and "Feedback comments". It
leaves out rows whose grade was changed in Moodle after the worksheet was downloaded, by "Last modified (grade)",
which is therefore left alone here. A grade above the assignment's maximum it leaves out, too, and says nothing: the
student keeps what was there, often nothing, and gets the comment. So whoever has more gets the maximum.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

from grader.classroom.export import ExportError, Filled, Result, Sheet, match
from grader.classroom.export_numbers import comma_in, number_in, scaled
from grader.classroom.export_words import comment

# The words of an English Moodle; another language's worksheet needs its own, given as options.
GRADE, FEEDBACK, NAME, MAXIMUM = "Grade", "Feedback comments", "Full name", "Maximum grade"
LOCKED = "Grade can be changed"  # in another language nobody reads it here: Moodle leaves such rows out itself


def fill_moodle(
    results: Sequence[Result],
    worksheet: Path,
    names: dict[str, str] | None = None,
    grade_column: str = GRADE,
    feedback_column: str = FEEDBACK,
    possible: float | None = None,
    name_column: str = NAME,
    maximum_column: str = MAXIMUM,
) -> Filled:
    """Return the worksheet with grades and comments of `results` (of one chapter), all else unchanged.

    Args:
        results: of one chapter.
        worksheet: as downloaded.
        names: {name or number in Moodle: name on the roster}.
        grade_column, feedback_column, name_column, maximum_column: their titles, where Moodle speaks another language.
        possible: the assignment's maximum, where the worksheet has no column that says it.

    Raises:
        ExportError: not a worksheet, a column is not there, or the maximum is not known.
    """
    if possible is not None and not 0 <= possible < math.inf:
        raise ExportError(f"the maximum grade {possible:g} is no number above 0; give another --max-grade")
    sheet = Sheet.read(worksheet)
    told, locked = sheet.column(feedback_column), sheet.column(LOCKED)
    grade = _column(sheet, worksheet, "grade", grade_column)
    name = _column(sheet, worksheet, "name", name_column, NAME)
    maximum = _column(sheet, worksheet, "maximum", maximum_column, MAXIMUM)
    login = [sheet.column(key) for key in ("ID number", "Username", "Email address")]
    students = [
        (
            index,
            {"name": sheet.field(row, name), "number": _number(row[0]), **{str(i): sheet.field(row, i) for i in login}},
        )
        for index, row in enumerate(sheet.rows[1:], 1)
        if row and row[0].strip()
    ]
    if not any(student["number"] for _, student in students):
        raise ExportError(f"{worksheet} is no grading worksheet: its first column holds no 'Participant 1234567'")
    found, why = match(results, [student for _, student in students], names or {})
    comma = comma_in(*([sheet.field(row, place) for row in sheet.rows[1:]] for place in (maximum, grade)))
    written, left, scale, capped = [], [], set(), []
    for order, (index, student) in enumerate(students):
        result, row = found.get(order), sheet.rows[index]
        label = student["name"] or row[0]
        if result is None:
            left.append((label, why[order]))
        elif result.points is None:
            left.append((label, result.why_not))
        elif sheet.field(row, locked).casefold() == "no":
            left.append((label, "the grade cannot be changed in Moodle"))
        else:
            most = possible or _maximum(sheet.field(row, maximum), worksheet, label)
            if result.points > result.most:
                capped.append(f"{label} ({result.points:g} of {result.most:g})")
            text = scaled(min(result.points, result.most), result.most, most)
            scale.add(most)
            row += [""] * (max(grade, told or 0) + 1 - len(row))
            row[grade] = text.replace(".", ",") if comma else text
            if told is not None:
                row[told] = escape(comment(result), quote=False).replace("\n", "<br>")
            written.append(label)
    used = {id(result) for result in found.values()}
    unknown = tuple(result.student for result in results if id(result) not in used and result.state != "missing")
    most = results[0].most
    notes = [f"{most:g} points became {', '.join(f'{one:g}' for one in sorted(scale))}"] if scale - {most} else []
    if capped:
        notes.append(f"Moodle takes no grade above the maximum, so who has more gets that: {', '.join(capped)}")
    if told is None:
        notes.append(f"there is no column {feedback_column!r}: switch feedback comments on in Moodle")
    if name is None and unknown:
        notes.append(
            f"there is no column {name_column!r}, so rows go by numbers and logins alone: --name-column says where the "
            "names are"
        )
    return Filled(sheet.text(), tuple(written), tuple(left), unknown, "; ".join(notes))


def _column(sheet: Sheet, worksheet: Path, kind: str, title: str, usual: str | None = None) -> int | None:
    """Return where a column is. One that bears its usual title need not be there.

    Raises:
        ExportError: it is not there.
    """
    place = sheet.column(title)
    if place is None and title != usual:
        raise ExportError(
            f"{worksheet} has no column {title!r}; say with --{kind}-column which of these it is: "
            + ", ".join(sheet.rows[0])
        )
    return place


def _maximum(text: str, worksheet: Path, label: str) -> float:
    """Return the number in a field with somebody's maximum grade.

    Raises:
        ExportError: there is none, or it may be two.
    """
    try:
        most = number_in(text)
    except ExportError as error:
        raise ExportError(f"{worksheet}, maximum grade of {label}: {error}, or give it with --max-grade") from None
    if most is None:
        raise ExportError(
            f"{worksheet} does not say the maximum grade of {label}: give it with --max-grade, or name its column with "
            "--maximum-column"
        )
    return most


def _number(identifier: str) -> str:
    found = re.search(r"(\d+)\s*$", identifier)
    return found[1] if found else ""
