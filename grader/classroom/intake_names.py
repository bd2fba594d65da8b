"""Whose submission it is: the roster, the names that a learning platform uses, and how the two meet."""

from __future__ import annotations

import csv
import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from grader.classroom.intake_notebook import IntakeError

_HEADERS = (
    "student",
    "student id",
    "id",
    "name",
    "full name",
    "roster",
    "lms",
    "lms name",
    "lms id",
    "email",
    "e-mail",
)
_FIRST, _LAST = (
    ("first name", "firstname", "given name", "vorname"),
    ("last name", "lastname", "surname", "family name", "nachname"),
)
NOBODY = ("points possible", "student, test", "test student")  # rows of a gradebook of Canvas that are nobody's
UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue"})
_STUDENTS = ("student", "student id", "roster", "name", "full name")  # a roster's column, the first of these it has


@dataclass(frozen=True)
class Person:
    """Somebody as the place where the submission was found calls them; `number` may be empty.

    `place` tells the places apart: within one of them, two persons are two people.
    """

    name: str
    number: str = ""
    place: str = ""


def read_roster(path: Path) -> list[str]:
    """Return the names in a roster: one a line, or a column of a CSV file.

    The column is the one whose header says student, roster or name, else the first; a header is not needed. Columns
    for first and last names are put together.

    Raises:
        IntakeError: the file cannot be read or names nobody, or lines that differ come down to one name.
    """
    rows, column = _rows(path, "roster"), 0
    titles = [_title(field) for field in rows[0][1]] if rows else []
    halves = [next((titles.index(title) for title in kind if title in titles), None) for kind in (_FIRST, _LAST)]
    if any(half is not None for half in halves) and not any(title in _STUDENTS for title in titles):
        if None in halves:
            raise IntakeError(
                f"the roster {path} has a column {rows[0][1][max(half or 0 for half in halves)]!r} and none for the "
                "rest of the name; add it, or one column with the whole name called student"
            )
        whole = [(number, " ".join(row[half] for half in halves if half < len(row))) for number, row in rows[1:]]
        rest = {number: row for number, row in rows}  # it tells two people of one name apart
        rows, titles = [(0, ["student"]), *((number, [name, *rest[number]]) for number, name in whole)], ["student"]
    headed = bool(titles) and (titles[0] in _HEADERS or any(title in _STUDENTS for title in titles))
    if headed:
        column = next((titles.index(title) for title in _STUDENTS if title in titles), 0)
        rows = rows[1:]
    rows = [(number, row) for number, row in rows if not row or tidy(row[column % len(row)]).casefold() not in NOBODY]
    seen: dict[str, tuple[int, list[str]]] = {}
    for number, row in rows:
        if column >= len(row) or not row[column].strip():
            raise IntakeError(f"line {number} of the roster {path} names nobody in its column {column + 1}")
        name, fields = tidy(row[column]), [field.strip() for field in row if field.strip()]
        if not headed and len(row) == 2 and row[1][:1] == " " and row[1].strip() and "@" not in row[1]:
            raise IntakeError(
                f'line {number} of the roster {path} may be one name or two columns: write "{name}, {row[1].strip()}" '
                'with its quotes, or a first line that names the columns, such as "student,given name"'
            )
        first, before = seen.setdefault(name, (number, fields))
        if before != fields:
            raise IntakeError(
                f"lines {first} and {number} of the roster {path} differ and both name {name!r}: a name with a comma "
                'needs quotes ("Lee, Ana"), a column of names that is not the first a first line that says student, '
                "and two people of one name a name of their own each"
            )
    if not seen:
        raise IntakeError(f"the roster {path} names nobody; write one student a line")
    return list(seen)


def read_names(path: Path) -> dict[str, str]:
    """Return {name or number on the learning platform: name on the roster} from a CSV file with these two columns.

    Raises:
        IntakeError: the file cannot be read, a line lacks one of the two, or says of one name two things.
    """
    rows = _rows(path, "list of names")
    if rows and _title(rows[0][1][0]) in _HEADERS:
        rows = rows[1:]
    names: dict[str, str] = {}
    for number, row in rows:
        if len(row) < 2 or not row[0].strip() or not row[1].strip():
            said = next(field for field in row if field.strip())
            raise IntakeError(
                f"line {number} of the list of names {path} says nothing of {said!r}; write NAME-OR-NUMBER,ROSTER-NAME"
            )
        if any(field.strip() for field in row[2:]):
            raise IntakeError(
                f"line {number} of the list of names {path} has more than two columns; a name with a comma needs quotes"
            )
        theirs, ours = tidy(row[0]), tidy(row[1])
        if names.setdefault(theirs, ours) != ours:
            raise IntakeError(f"the list of names {path} says of {theirs!r} both {names[theirs]!r} and {ours!r}")
    if not names:
        raise IntakeError(f"the list of names {path} is empty; write NAME-OR-NUMBER,ROSTER-NAME, one a line")
    return names


def _rows(path: Path, what: str) -> list[tuple[int, list[str]]]:
    """Return (number of the line, its fields) of each line that is not blank. A field ends with its line."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise IntakeError(f"the {what} {path} cannot be read ({error}); give a text or CSV file in UTF-8") from None
    lines = text.replace("\r\n", "\n").split("\n")  # splitlines would break a line at the U+2028 of a name, too
    separator = ";" if ";" in lines[0] and "," not in lines[0] else ","
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            row = next(csv.reader([line], delimiter=separator, strict=True), [])
        except csv.Error as error:
            raise IntakeError(
                f"line {number} of the {what} {path} cannot be read ({error}): a quote at the beginning of a field "
                "needs another at its end, in the same line"
            ) from None
        if any(field.strip() for field in row):
            rows.append((number, row))
    return rows


def _title(field: str) -> str:
    return tidy(field).lower().replace("_", " ")


def tidy(text: str) -> str:
    """The same name written with composed or with separate accents (as some file systems do) is one name."""
    return unicodedata.normalize("NFC", text.strip()) or "(no name)"


def who_is_who(
    people: Iterable[Person], roster: Iterable[str], names: Mapping[str, str]
) -> dict[Person, tuple[str, str]]:
    """Return {person: (the name to use, a remark or "")}.

    In this order: what `names` says of the number or the name; the same name on the roster; the one name on the
    roster that differs only in case, accents, punctuation or the order of its words (Canvas writes "leeana" for
    Ana Lee), or whose `safe_id` it is. Where two people of one place would get one name, none of them does: each
    keeps the name of the place with the number behind it.
    """
    return {person: (name, remark) for person, (name, remark, _) in _called(people, roster, names).items()}


def contested(
    people: Iterable[Person], roster: Iterable[str], names: Mapping[str, str]
) -> dict[str, tuple[int, set[str]]]:
    """Return {a name that several people of one place would have: (how many, the names that they use)}.

    The arguments are those of `who_is_who`.
    """
    found: dict[str, tuple[Counter, set[str]]] = {}
    for person, (name, _, wanted) in _called(people, roster, names).items():
        if wanted:
            rivals, used = found.setdefault(wanted, (Counter(), set()))
            rivals[person.place] += 1
            used.add(name)
    return {wanted: (max(rivals.values()), used) for wanted, (rivals, used) in found.items()}


def _called(
    people: Iterable[Person], roster: Iterable[str], names: Mapping[str, str]
) -> dict[Person, tuple[str, str, str]]:
    """Return {person: (the name to use, a remark or "", the name that others would have, too, or "")}."""
    people = list(dict.fromkeys(people))
    roster = [tidy(name) for name in roster]
    alike, with_e = _by_keys(roster, lambda name: name), _by_keys(roster, _without_dots)
    said = {_key(theirs): ours for theirs, ours in names.items()} | dict(names)
    ids = {safe_id(name): name for name in roster}
    told, same, near = {}, {}, {}
    for person in people:
        keys = (person.number, f"{person.name} ({person.number})", person.name, _key(person.name))
        wanted = next((said[key] for key in keys if key and key in said), None)
        guesses = {ids[person.name]} if person.name in ids else _guesses(person.name, alike, with_e)
        if wanted:
            on_roster = set() if wanted in roster else _guesses(wanted, alike, with_e)
            told[person] = min(on_roster) if len(on_roster) == 1 else wanted
        elif person.name in roster or len(guesses) != 1:
            same[person] = person.name
        else:
            near[person] = min(guesses)
    made = {person: (name, "", "") for person, name in told.items()}
    for person, name in (same | near).items():
        rivals = [other for other in same if other.place == person.place and other != person and same[other] == name]
        if person in near:
            rivals += [
                other for other in near if other.place == person.place and other != person and near[other] == name
            ]
        own = f"{person.name} ({person.number})" if rivals and person.number else person.name
        known = roster or names  # else nobody asks which of them it is
        remark = f"{len(rivals) + 1} people here may be {name}: say who is who with --names" if rivals and known else ""
        made[person] = (own, remark, name) if rivals else (name, "", "")
    return made


def _by_keys(roster: Iterable[str], written: Callable[[str], str]) -> dict[str, set[str]]:
    alike: dict[str, set[str]] = {}
    for name in roster:
        for key in _keys(written(name)):
            alike.setdefault(key, set()).add(name)
    return alike


def _guesses(name: str, alike: Mapping[str, set[str]], with_e: Mapping[str, set[str]]) -> set[str]:
    """Return who may be meant; umlauts that were written with an e are thought of where nobody fits better."""
    return alike.get(_key(name)) or with_e.get(_key(_without_dots(name)), set())


def _without_dots(name: str) -> str:
    """Write a German name as keyboards without its letters do: Müller is Mueller there."""
    return unicodedata.normalize("NFC", name).translate(UMLAUTS)


def _key(name: str) -> str:
    """A name without case, accents and everything that is no letter or digit."""
    plain = unicodedata.normalize("NFKD", name).casefold()
    return "".join(letter for letter in plain if letter.isalnum())


def in_order(name: str) -> tuple[str, str]:
    """Return by what names are sorted: É is an E there, and capital letters are none."""
    return _key(name), name


def _keys(name: str) -> set[str]:
    """A name's words may begin at any of them: family names come first on some lists."""
    words = [word for word in re.split(r"[\s,;]+", name) if _key(word)]
    return {_key("".join(words[i:] + words[:i])) for i in range(len(words))}


def safe_id(student: str) -> str:
    """Make a name safe for paths. One that had to be changed gets a mark of its own, so that no two meet by chance.

    An id is its own id: a folder that is called by it is the same student's.
    """
    plain = re.sub(r"[^\w.\-]", "_", student) or "_"
    plain = plain if plain[0] not in ".-" else f"_{plain}"
    short = plain[:80].encode()[:200].decode(errors="ignore")  # file systems count bytes
    return plain if short == student else f"{short}-{hashlib.sha256(student.encode()).hexdigest()[:8]}"
