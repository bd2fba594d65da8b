"""What exports have in common: the report of a grading, read back, and CSV files of which one column is filled in."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.classroom.intake_names import Person, tidy, who_is_who

# The columns of a report: those of scores.csv, and those of submissions.csv that exports read.
SCORES = ("student", "chapter", "exercise", "points", "max_points", "result", "mistake", "comment")
SUBMISSIONS = (
    "student", "chapter", "state", "reason", "penalty", "late", "late_seconds", "flags", "number", "feedback", "intake",
)  # fmt: skip


class ExportError(Exception):
    """Nothing can be exported; the message says why and what to do."""


@dataclass(frozen=True)
class Line:
    """One exercise of a result. `points` is None where there is no result. `comment` is the instructor's."""

    exercise: str
    points: float | None
    max_points: float
    result: str
    mistake: str
    comment: str = ""


@dataclass(frozen=True)
class Result:
    """One student's chapter, as the report has it.

    `late` is "yes" or empty, `late_seconds` how late, 0 where that is not known. `number` is the student's on the
    learning platform, or empty. `intake` is what was handed in: "found", "failed" (refused), "missing", or "in doubt"
    (it cannot be graded before the instructor has settled something).
    """

    student: str
    chapter: str
    state: str
    reason: str
    penalty: float
    late: str
    number: str
    feedback: str
    lines: tuple[Line, ...]
    late_seconds: float = 0.0
    flags: str = ""
    intake: str = "found"

    @property
    def refused(self) -> bool:
        """True where what was handed in could not be used, or nothing was: the student's to hand in again."""
        return self.intake in ("failed", "missing")

    @property
    def most(self) -> float:
        """The most points of the chapter."""
        return sum(line.max_points for line in self.lines)

    @property
    def points(self) -> float | None:
        """The points, lateness taken off; None unless every exercise has a result, since no result is no 0."""
        if not self.lines or any(line.points is None for line in self.lines):
            return None
        return max(0.0, sum(line.points for line in self.lines) - self.penalty)

    @property
    def why_not(self) -> str:
        """Why there are no points."""
        lost = ", ".join(line.exercise for line in self.lines if line.points is None)
        if lost and self.state in ("graded", "needs review"):
            return f"no result of {lost}"
        return f"{self.state}: {self.reason}" if self.reason else self.state


def read_report(report: Path) -> list[Result]:
    """Return the results in a report's folder.

    Raises:
        ExportError: there is none, it is not of this version, or something has changed it.
    """
    lines: dict[tuple[str, str], list[Line]] = {}
    for number, row in _rows(report / "scores.csv", SCORES):
        where = f"{report / 'scores.csv'}, line {number}"
        points = _number(row, "points", where) if row["points"] else None
        words = (row[key] for key in ("result", "mistake", "comment"))
        line = Line(row["exercise"], points, _number(row, "max_points", where), *words)
        lines.setdefault((row["student"], row["chapter"]), []).append(line)
    results = []
    for number, row in _rows(report / "submissions.csv", SUBMISSIONS):
        where = f"{report / 'submissions.csv'}, line {number}"
        words = (row[key] for key in ("student", "chapter", "state", "reason"))
        results.append(
            Result(
                *words,
                _number(row, "penalty", where),
                row["late"],
                row["number"],
                row["feedback"],
                tuple(lines.get((row["student"], row["chapter"]), ())),
                _number(row, "late_seconds", where),
                row["flags"],
                row["intake"],
            )
        )
    return results


def _rows(path: Path, wanted: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """Return the rows of a report's file, each with the number of its (last) line."""
    again = "run `grader grade` again, with --out if the report is not in grading/report"
    try:
        text = path.read_bytes().decode("utf-8-sig")  # line ends as they are: a reason may hold some
    except OSError as error:
        raise ExportError(
            f"{path.parent} holds no report: {path.name} cannot be read ({error.strerror}). Run `grader grade` first, "
            "or name the folder of a report with --report"
        ) from None
    except UnicodeDecodeError:
        raise ExportError(f"{path} is not in UTF-8: a spreadsheet may have saved it; {again}") from None
    _allow_long_fields(text)
    reader = csv.DictReader(io.StringIO(text, newline=""))
    try:
        header = reader.fieldnames or ()
        lacking = [name for name in wanted if name not in header]
        if lacking and ";" in text.partition("\n")[0]:
            raise ExportError(f"{path} is separated by semicolons: a spreadsheet has saved it; {again}")
        if lacking:
            raise ExportError(
                f"{path} has no column {lacking[0]!r}, so it is not a report of this version; {again}"
                if header
                else f"{path} is empty; {again}"
            )
        rows = []
        for row in reader:
            if None in row or None in row.values():
                raise ExportError(f"{path}, line {reader.line_num}: not as many fields as columns; {again}")
            rows.append((reader.line_num, {key: _plain(value) for key, value in row.items()}))
    except csv.Error as error:
        raise ExportError(f"{path} is no CSV file ({error}); {again}") from None
    return iter(rows)


def _allow_long_fields(text: str) -> None:
    """Whole essays stand in some fields."""
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))


def _number(row: dict[str, str], name: str, where: str) -> float:
    """Return a field's number, 0 where it is empty."""
    try:
        number = float(row[name] or 0)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ExportError(f"{where}: {name} is {row[name]!r}, no number; run `grader grade` again, or correct it there")
    return number


def _plain(text: str) -> str:
    """Take off the quote that keeps a spreadsheet from calculating (`reports.harmless`)."""
    return text[1:] if text[:1] == "'" and text[1:2] in ("=", "+", "-", "@", "\t", "\r") else text


def of_chapter(results: Sequence[Result], chapter: str) -> list[Result]:
    """Return the results of one chapter; `chapter` may be empty where there is only one.

    Raises:
        ExportError: no such chapter, or several to choose from.
    """
    known = sorted({result.chapter for result in results})
    if not known:
        raise ExportError("the report names nobody; run `grader grade` first")
    if not chapter and len(known) > 1:
        raise ExportError(f"the report has several chapters ({', '.join(known)}); say which with --chapter")
    fits = [name for name in known if name == chapter] or [name for name in known if name.startswith(chapter)]
    if len(fits) != 1:
        raise ExportError(f"the report has no chapter {chapter!r} (--chapter); it has {', '.join(known)}")
    return [result for result in results if result.chapter == fits[0]]


def of_student(results: Sequence[Result], student: str) -> list[Result]:
    """Return the results of one student; of all for "".

    Raises:
        ExportError: the report has nobody of this name.
    """
    names = list(dict.fromkeys(result.student for result in results))
    if student and student not in names:
        more = f" and {len(names) - 10} others" if len(names) > 10 else ""
        raise ExportError(f"the report has nobody called {student!r} (--student); it has {', '.join(names[:10])}{more}")
    return [result for result in results if student in ("", result.student)]


@dataclass
class Sheet:
    """A CSV file as a learning platform wrote it: every field as it is, and how to write it again."""

    rows: list[list[str]]
    delimiter: str
    newline: str
    bom: bool
    quote_all: bool

    @classmethod
    def read(cls, path: Path) -> Sheet:
        """Read a file in UTF-8, separated by commas, semicolons or tabs.

        Raises:
            ExportError: it cannot be read, or has no rows.
        """
        try:
            data = path.read_bytes()
            text = data.decode("utf-8-sig")
        except OSError as error:
            raise ExportError(f"{path} cannot be read ({error.strerror}); give the file as you downloaded it") from None
        except UnicodeDecodeError:
            raise ExportError(
                f"{path} is not in UTF-8; download it again, and do not save it with a spreadsheet"
            ) from None
        first = text.partition("\n")[0]
        delimiter = max(",;\t", key=first.count)
        _allow_long_fields(text)
        try:
            rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
        except csv.Error as error:
            raise ExportError(f"{path} is no CSV file ({error})") from None
        if len(rows) < 2:
            raise ExportError(f"{path} has no rows; download it again")
        newline = "\r\n" if "\r\n" in text else "\n"
        return cls(
            rows, delimiter, newline, data.startswith(b"\xef\xbb\xbf"), first.startswith('"') and first.count('"') >= 4
        )

    def text(self) -> str:
        """Return it as the platform's own file would be."""
        file = io.StringIO(newline="")
        quoting = csv.QUOTE_ALL if self.quote_all else csv.QUOTE_MINIMAL
        csv.writer(file, delimiter=self.delimiter, lineterminator=self.newline, quoting=quoting).writerows(self.rows)
        return ("\ufeff" if self.bom else "") + file.getvalue()

    def column(self, *names: str) -> int | None:
        """Return the index of the first of these columns that there is, whatever the case of its letters."""
        header = [title.strip().casefold() for title in self.rows[0]]
        return next((header.index(name.casefold()) for name in names if name.casefold() in header), None)

    def field(self, row: list[str], column: int | None) -> str:
        """Return a field, "" where the column or the field is not there."""
        return row[column].strip() if column is not None and column < len(row) else ""


@dataclass(frozen=True)
class Filled:
    """A platform's file, filled in: `text`, and whom it gives points, whom not and why, and what it could not place."""

    text: str
    written: tuple[str, ...]
    left: tuple[tuple[str, str], ...]  # (name, why)
    unknown: tuple[str, ...]  # in the report, not in the file
    note: str = ""


def match(
    results: Sequence[Result], rows: Sequence[dict[str, str]], names: dict[str, str]
) -> tuple[dict[int, Result], dict[int, str]]:
    """Return {index of a row: the result that belongs to it} and {index of another row: why it has none}.

    Args:
        results: of one chapter.
        rows: what is known of each row's student: "name", and numbers or logins under any other key.
        names: {name or number on the platform, or "name (number)" as reports have it: name on the roster}.
    """
    by_number = {result.number: result for result in results if result.number}
    by_name = {tidy(result.student): result for result in results}
    found: dict[int, Result] = {}
    people: dict[int, Person] = {}
    why: dict[int, str] = {}
    for index, row in enumerate(rows):
        numbers = [value for key, value in row.items() if key != "name" and value]
        called = tidy(row["name"])
        keys = (*numbers, *(f"{called} ({number})" for number in numbers), called)
        told = next((names[key] for key in keys if key in names), "")
        known = by_name.get(told) or next((by_number[n] for n in numbers if n in by_number), None)
        known = known or next((by_name[n] for n in numbers if n in by_name), None)
        if known and not told and _contradicts(row["name"], known, by_name):
            why[index] = f"its number is that of {known.student}, its name is not: is this the file of that class?"
        elif known:
            found[index] = known
        else:
            people[index] = Person(called, str(index), "sheet")
    taken = {id(result) for result in found.values()}
    free = [result.student for result in results if id(result) not in taken]
    who = who_is_who(people.values(), free, {})
    for index, person in people.items():
        name, remark = who[person]
        alone, _ = who_is_who([person], by_name, {})[person]  # whose result it were, if nobody else were there
        result = by_name.get(name)
        if result and id(result) not in taken:
            found[index] = result
        elif alone not in by_name:
            why[index] = "not in the report"
        elif id(by_name[alone]) in taken:
            why[index] = f"two people here may be {alone}, and another row is: say who is who with --names, by number"
        else:
            why[index] = f"{remark}, by number"
    return found, why


def _contradicts(name: str, known: Result, by_name: dict[str, Result]) -> bool:
    """Tell whether a row's name is somebody else's of the report than its number says."""
    person = Person(tidy(name))
    alone, _ = who_is_who([person], by_name, {})[person]
    return alone in by_name and by_name[alone] is not known
