"""Take a folder of submissions in: find each student's notebook, or say why it cannot be graded.

The submitted folder is only read. What can be graded is copied to a folder of our own, under the name that nbgrader
expects, so a renamed or misplaced file is no missing file.
"""

from __future__ import annotations

import csv
import hashlib
import re
import shutil
import unicodedata
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from grader.classroom.repair import grade_id_of, repair
from grader.exercises import EXERCISES
from grader.paths import NOTEBOOKS, notebook_path

MAX_BYTES = 20_000_000
MAX_FILES = 200  # notebooks looked at in one student's folder


@dataclass(frozen=True)
class Submission:
    """One student's work on one chapter.

    `state` is "found", "missing" or "failed"; `reason` says more (also of a file found under another name).
    `student_id` is the student's name made safe for paths and glob patterns; it depends on the name alone.
    """

    student: str
    student_id: str
    chapter: str
    state: str
    reason: str = ""


class IntakeError(Exception):
    """The folder of submissions cannot be read; the message says why and what to do."""


def read_roster(path: Path) -> list[str]:
    """Return the names in a roster: one a line, or the first column of a CSV file, with or without a header.

    Raises:
        IntakeError: the file cannot be read or names nobody.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise IntakeError(f"the roster {path} cannot be read ({error}); give a text or CSV file in UTF-8") from None
    separator = ";" if lines and ";" in lines[0] and "," not in lines[0] else ","
    rows = [row for row in csv.reader(lines, delimiter=separator) if row and row[0].strip()]
    names = [_name(row[0]) for row in rows]
    if names and names[0].lower().replace("_", " ") in ("student", "student id", "id", "name"):
        names = names[1:]
    if not names:
        raise IntakeError(f"the roster {path} names nobody; write one student a line")
    return list(dict.fromkeys(names))


def _name(text: str) -> str:
    """The same name written with composed or with separate accents (as some file systems do) is one name."""
    return unicodedata.normalize("NFC", text.strip())


def take_in(
    submitted: Path, staging: Path, known_chapters: list[str], only: list[str], roster: list[str]
) -> list[Submission]:
    """Copy every gradable notebook to staging/STUDENT/CHAPTER/CHAPTER.ipynb and return one Submission per name.

    Args:
        submitted: holds STUDENT/CHAPTER/*.ipynb.
        staging: our own folder; emptied first.
        known_chapters: the course's chapters.
        only: the chapters to grade; empty: those that anybody handed in.
        roster: names that must have a row even if they handed in nothing.

    Raises:
        IntakeError: `submitted` is no folder, or holds no submission.
    """
    if not submitted.is_dir():
        raise IntakeError(f"{submitted} is not a folder; put the submissions into {submitted}/STUDENT/CHAPTER/")
    found = {
        _name(path.name): _notebooks(path)
        for path in sorted(submitted.iterdir())
        if path.is_dir() and path.name[0] not in "._"
    }
    folders = {_name(path.name): path for path in sorted(submitted.iterdir()) if _name(path.name) in found}
    students = sorted(set(found) | set(roster))
    handed_in = {chapter for files in found.values() for path in files for chapter in _chapters_of(path)}
    chosen = only or [name for name in known_chapters if name in handed_in]
    if not students or not chosen:
        raise IntakeError(
            f"{submitted} holds no submission. Expected: {submitted}/STUDENT/CHAPTER/CHAPTER.ipynb, where CHAPTER is "
            f"one of {', '.join(known_chapters)}"
        )
    if staging.exists():
        shutil.rmtree(staging)
    submissions = []
    for student in students:
        for chapter in chosen:
            state, reason = _take_one(student, chapter, folders.get(student), found.get(student, []), staging)
            if roster and student not in roster:
                reason = "; ".join(filter(None, [reason, "not on the roster"]))
            submissions.append(Submission(student, safe_id(student), chapter, state, reason))
    return submissions


def safe_id(student: str) -> str:
    """Make a name safe for paths. One that had to be changed gets a mark of its own, so that no two meet."""
    plain = re.sub(r"[^\w.\-]", "_", student)
    plain = plain if plain[0] not in ".-" else f"_{plain}"
    if plain == student and len(plain) <= 80:
        return plain
    return f"{plain[:80]}-{hashlib.sha256(student.encode()).hexdigest()[:8]}"


def _notebooks(folder: Path) -> list[Path]:
    files = (
        path
        for path in sorted(folder.rglob("*"))
        if path.suffix.lower() == ".ipynb" and not any(part[0] == "." for part in path.relative_to(folder).parts)
    )
    return [path for path, _ in zip(files, range(MAX_FILES), strict=False)]


def _chapters_of(path: Path) -> set[str]:
    """Return the chapters a file belongs to: the one its folder is called, else those whose exercises are in it."""
    if path.parent.name in {exercise.chapter for exercise in EXERCISES.values()}:
        return {path.parent.name}
    try:
        return _chapters_in(_read(path)) if not path.is_symlink() else set()
    except IntakeError:
        return set()


def _chapters_in(notebook: NotebookNode) -> set[str]:
    ids = {grade_id_of(cell).removesuffix("_answer") for cell in notebook.cells}
    return {EXERCISES[name].chapter for name in ids if name in EXERCISES}


def _take_one(student: str, chapter: str, folder: Path | None, files: list[Path], staging: Path) -> tuple[str, str]:
    """Return (state, reason), having copied the notebook if the state is "found"."""
    if folder is None:
        return "missing", "nothing was handed in"
    mine = [path for path in files if path.parent == folder / chapter]
    expected = folder / chapter / f"{chapter}.ipynb"
    elsewhere = [path for path in files if path not in mine and _chapters_of(path) == {chapter}]
    if expected in mine:
        path, others = expected, [p for p in mine if p != expected]
    elif len(mine) == 1 or (not mine and len(elsewhere) == 1):
        path, others = (mine or elsewhere)[0], []
    elif not mine and not elsewhere:
        return "missing", "no notebook of this chapter was handed in"
    else:
        names = ", ".join(_place(p, folder / chapter) for p in mine or elsewhere)
        return "failed", f"several notebooks ({names}) and none is called {chapter}.ipynb; keep one"

    remarks = [] if path == expected else [f"handed in as {_place(path, folder / chapter)}"]
    if path.is_symlink() or any(parent.is_symlink() for parent in (folder, path.parent)):
        return "failed", f"{path.name} is a symbolic link; hand in the file itself"
    if others:
        remarks.append(f"not graded: {', '.join(p.name for p in others)}")
    try:
        notebook = _read(path)
    except IntakeError as error:
        return "failed", str(error)
    inside = _chapters_in(notebook)
    if chapter not in inside:
        return "failed", (
            f"this is {', '.join(sorted(inside))}, handed in as {chapter}"
            if inside
            else f"none of the exercises of {chapter} is in it"
        )
    remarks += repair(notebook, nbformat.read(notebook_path(NOTEBOOKS, chapter), as_version=4))
    target = staging / safe_id(student) / chapter / f"{chapter}.ipynb"
    target.parent.mkdir(parents=True)
    nbformat.write(notebook, target)
    return "found", "; ".join(remarks)


def _place(path: Path, expected: Path) -> str:
    """Write where a file is: its name, or its path from the student's folder if it is not where it is expected."""
    return path.name if path.parent == expected else path.relative_to(expected.parent).as_posix()


def _read(path: Path) -> NotebookNode:
    try:
        if path.stat().st_size > MAX_BYTES:
            size = MAX_BYTES // 1_000_000
            raise IntakeError(f"{path.name} is larger than {size} MB; clear its outputs and hand it in again")
        notebook = nbformat.reads(path.read_bytes().decode("utf-8-sig"), as_version=4)
        nbformat.validate(notebook)
    except IntakeError:
        raise
    except Exception as error:  # nbformat raises many types for broken files
        first = str(error).strip().partition("\n")[0][:120]
        raise IntakeError(f"{path.name} is not a readable Jupyter notebook ({type(error).__name__}: {first})") from None
    return notebook
