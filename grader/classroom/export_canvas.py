"""Fill one column of a gradebook that was downloaded from Canvas (Grades, Export), to be imported there again.

Its shape is that of Canvas's lib/gradebook_exporter.rb: a header with "Student" (or "LastName", "FirstName"), "ID",
"SIS Login ID", "Section", then a column an assignment, called "Title (id)"; perhaps a row about posting; a row whose
first field is "Points Possible"; then a row a student. Canvas changes only what differs, and reads "EX" as excused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from grader.classroom.export import ExportError, Filled, Result, Sheet, match
from grader.classroom.export_numbers import comma_in, number_in, scaled
from grader.paths import chapters

FIXED = (
    "student",
    "lastname",
    "firstname",
    "id",
    "sis user id",
    "sis login id",
    "integration id",
    "root account",
    "section",
)
KEEP = ("EX", "N/A")


def fill_canvas(
    results: Sequence[Result], gradebook: Path, column: str = "", names: dict[str, str] | None = None
) -> Filled:
    """Return the gradebook with the points of `results` (of one chapter) in one column, all else unchanged.

    Points are put on the scale of the column's Points Possible. Who has no result, is excused or is not assigned
    keeps what stands there.

    Args:
        results: of one chapter.
        gradebook: as downloaded.
        column: the title of the column, or its number; default: the one whose title names the chapter.
        names: {name or number on Canvas: name on the roster}.

    Raises:
        ExportError: not a gradebook, no such column, or no Points Possible.
    """
    sheet = Sheet.read(gradebook)
    first = sheet.column("Student")
    family, given = sheet.column("LastName"), sheet.column("FirstName")
    if sheet.column("ID") is None or (first is None and (family is None or given is None)):
        raise ExportError(f"{gradebook} is no gradebook of Canvas: its columns Student and ID are missing")
    place = _column(sheet, gradebook, column, results[0].chapter)
    top = next((i for i, row in enumerate(sheet.rows) if row and row[0].strip().casefold() == "points possible"), None)
    try:
        possible = number_in(sheet.field(sheet.rows[top], place)) if top is not None else None
    except ExportError as error:
        raise ExportError(f"{gradebook}, Points Possible for {sheet.rows[0][place]!r}: {error}") from None
    if possible is None:
        raise ExportError(f"{gradebook}: there are no Points Possible for {sheet.rows[0][place]!r}; set them in Canvas")
    students = []
    for index, row in enumerate(sheet.rows[top + 1 :], top + 1):
        name = sheet.field(row, first) or f"{sheet.field(row, given)} {sheet.field(row, family)}".strip()
        if sheet.field(row, sheet.column("ID")) and name:
            numbers = {key: sheet.field(row, sheet.column(key)) for key in ("ID", "SIS Login ID", "SIS User ID")}
            students.append((index, {"name": name, **numbers}))
    comma = comma_in([sheet.field(row, place) for row in sheet.rows[1:]])
    found, why = match(results, [student for _, student in students], names or {})
    written, left = [], []
    for order, (index, student) in enumerate(students):
        result, row = found.get(order), sheet.rows[index]
        if result is None:
            left.append((student["name"], why[order]))
        elif result.points is None:
            left.append((student["name"], result.why_not))
        elif sheet.field(row, place).upper() in KEEP:
            left.append((student["name"], f"stands at {sheet.field(row, place)} in Canvas"))
        else:
            row += [""] * (place + 1 - len(row))
            text = scaled(result.points, result.most, possible)
            row[place] = text.replace(".", ",") if comma else text
            written.append(student["name"])
    used = {id(result) for result in found.values()}
    unknown = tuple(result.student for result in results if id(result) not in used and result.state != "missing")
    most = results[0].most
    title, notes = sheet.rows[0][place].strip(), []
    if possible != most:
        notes.append(f"{most:g} points became {possible:g}, the Points Possible of the column")
    if other := next((c for c in chapters() if c != results[0].chapter and _letters(c) in _letters(title)), ""):
        notes.append(f"the points of {results[0].chapter} stand in the column {title!r} now, which names {other}")
    note = "; ".join(notes)
    return Filled(sheet.text(), tuple(written), tuple(left), unknown, note)


def _column(sheet: Sheet, gradebook: Path, wanted: str, chapter: str) -> int:
    header = sheet.rows[0]
    titles = {
        index: title.strip()
        for index, title in enumerate(header)
        if title.strip().casefold() not in FIXED and re.search(r"\(\d+\)\s*$", title)
    }
    if wanted:
        fits = [
            i
            for i, title in titles.items()
            if wanted in (title, title.rpartition(" (")[0]) or title.endswith(f"({wanted})")
        ]
    else:
        fits = [i for i, title in titles.items() if _letters(chapter) in _letters(title)]
    if len(fits) == 1:
        return fits[0]
    if not titles:
        raise ExportError(
            f"{gradebook} has no column of an assignment (their titles end in a number, like 'Week 2 (78)'); make the "
            "assignment in Canvas and export the gradebook again"
        )
    which = f"{len(fits)} columns fit" if fits else "no column fits"
    raise ExportError(
        f"{gradebook}: {which} {wanted or chapter!r}; say which with --column, by its title or its number: "
        + "; ".join(titles.values())
    )


def _letters(text: str) -> str:
    return "".join(letter for letter in text.casefold() if letter.isalnum())
