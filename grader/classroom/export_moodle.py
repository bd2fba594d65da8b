"""Fill the grading worksheet of an assignment in Moodle (Download grading worksheet, Upload grading worksheet).

Moodle (mod/assign/feedback/offline) finds a student by the number in "Identifier" ("Participant 1234567"), the same
that is in the names of the files it lets one download, and reads the columns "Grade" and "Feedback comments". It
leaves out rows whose grade was changed in Moodle after the worksheet was downloaded, by "Last modified (grade)",
which is therefore left alone here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

from grader.classroom.export import ExportError, Filled, Result, Sheet, comment, match
from grader.classroom.export_numbers import number_in, scaled

# The words of an English Moodle; another language's worksheet needs its own, given as options.
GRADE, FEEDBACK, MAXIMUM, LOCKED = (
    "Grade",
    "Feedback comments",
    ("Maximum grade", "Maximum Grade"),
    "Grade can be changed",
)


def fill_moodle(
    results: Sequence[Result],
    worksheet: Path,
    names: dict[str, str] | None = None,
    grade_column: str = GRADE,
    feedback_column: str = FEEDBACK,
    possible: float | None = None,
) -> Filled:
    """Return the worksheet with grades and comments of `results` (of one chapter), all else unchanged.

    Args:
        results: of one chapter.
        worksheet: as downloaded.
        names: {name or number in Moodle: name on the roster}.
        grade_column, feedback_column: their titles, where Moodle speaks another language.
        possible: the assignment's maximum, where the worksheet has no column that says it.

    Raises:
        ExportError: not a worksheet, or the maximum is not known.
    """
    if possible is not None and not 0 <= possible < math.inf:
        raise ExportError(f"the maximum grade {possible:g} is no number above 0; give another --max-grade")
    sheet = Sheet.read(worksheet)
    grade, told = sheet.column(grade_column), sheet.column(feedback_column)
    if grade is None:
        raise ExportError(
            f"{worksheet} has no column {grade_column!r}; name the one with the grades with --grade-column. Its "
            f"columns: {', '.join(sheet.rows[0])}"
        )
    maximum, locked = sheet.column(*MAXIMUM), sheet.column(LOCKED)
    name, login = sheet.column("Full name"), [sheet.column(key) for key in ("ID number", "Username", "Email address")]
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
    written, left, scale = [], [], set()
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
            try:
                most = possible or number_in(sheet.field(row, maximum))
            except ExportError as error:
                raise ExportError(
                    f"{worksheet}, maximum grade of {label}: {error}, or give it with --max-grade"
                ) from None
            if not most:
                raise ExportError(f"{worksheet} does not say the maximum grade of {label}; give it with --max-grade")
            text = scaled(result.points, result.most, most)
            scale.add(most)
            row += [""] * (max(grade, told or 0) + 1 - len(row))
            row[grade] = text.replace(".", ",") if re.search(r"^[^,]*,\d+$", sheet.field(row, maximum)) else text
            if told is not None:
                row[told] = escape(comment(result), quote=False).replace("\n", "<br>")
            written.append(label)
    used = {id(result) for result in found.values()}
    unknown = tuple(result.student for result in results if id(result) not in used and result.state != "missing")
    most = results[0].most
    notes = [f"{most:g} points became {', '.join(f'{one:g}' for one in sorted(scale))}"] if scale - {most} else []
    notes += [
        "" if told is not None else f"there is no column {feedback_column!r}: switch feedback comments on in Moodle"
    ]
    return Filled(sheet.text(), tuple(written), tuple(left), unknown, "; ".join(filter(None, notes)))


def _number(identifier: str) -> str:
    found = re.search(r"(\d+)\s*$", identifier)
    return found[1] if found else ""
