"""Take a folder of submissions in: find each student's notebook, or say why it cannot be graded.

The submitted folder is only read. What can be graded is copied to a folder of our own, under the name that nbgrader
expects, so a renamed file is no missing file.
"""

from __future__ import annotations

import csv
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from grader.exercises import EXERCISES

MAX_BYTES = 20_000_000


@dataclass(frozen=True)
class Submission:
    """One student's work on one chapter.

    `state` is "found", "missing" or "failed"; `reason` says more (also of a file found under another name).
    `student_id` is the student's name made safe for paths and glob patterns.
    """

    student: str
    student_id: str
    chapter: str
    state: str
    reason: str = ""


class IntakeError(Exception):
    """The folder of submissions cannot be read; the message says why and what to do."""


def read_roster(path: Path) -> list[str]:
    """Return the names in a roster: one a line, or the first column of a CSV file with a header called student or id.

    Raises:
        IntakeError: the file cannot be read or names nobody.
    """
    try:
        rows = [row for row in csv.reader(path.read_text(encoding="utf-8-sig").splitlines()) if row and row[0].strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise IntakeError(f"the roster {path} cannot be read ({error}); give a text or CSV file in UTF-8") from None
    names = [row[0].strip() for row in rows]
    if names and names[0].lower() in ("student", "student_id", "id", "name"):
        names = names[1:]
    if not names:
        raise IntakeError(f"the roster {path} names nobody; write one student a line")
    return list(dict.fromkeys(names))


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
    folders = {path.name: path for path in sorted(submitted.iterdir()) if path.is_dir() and path.name[0] not in "._"}
    students = sorted(set(folders) | set(roster))
    handed_in = sorted({path.name for folder in folders.values() for path in folder.iterdir() if path.is_dir()})
    chosen = only or [name for name in known_chapters if name in handed_in]
    if not students or not chosen:
        raise IntakeError(
            f"{submitted} holds no submission. Expected: {submitted}/STUDENT/CHAPTER/CHAPTER.ipynb, where CHAPTER is "
            f"one of {', '.join(known_chapters)}"
        )
    if staging.exists():
        shutil.rmtree(staging)
    ids = _safe_ids(students)
    return [
        _take_one(student, ids[student], chapter, folders.get(student), staging)
        for student in students
        for chapter in chosen
    ]


def _safe_ids(students: list[str]) -> dict[str, str]:
    ids: dict[str, str] = {}
    for student in students:
        plain = re.sub(r"[^\w.\-]", "_", student)
        taken, safe, number = set(ids.values()), plain, 2
        while safe in taken:
            safe, number = f"{plain}-{number}", number + 1
        ids[student] = safe
    return ids


def _take_one(student: str, student_id: str, chapter: str, folder: Path | None, staging: Path) -> Submission:
    def result(state: str, reason: str = "") -> Submission:
        return Submission(student, student_id, chapter, state, reason)

    if folder is None or not (folder / chapter).is_dir():
        return result("missing", "no folder for this chapter was handed in")
    expected = folder / chapter / f"{chapter}.ipynb"
    found = sorted(p for p in (folder / chapter).glob("*.ipynb") if not p.name.startswith("."))
    path = expected if expected in found else found[0] if len(found) == 1 else None
    if path is None and not found:
        return result("missing", "the folder holds no notebook")
    if path is None:
        names = ", ".join(p.name for p in found)
        return result("failed", f"several notebooks ({names}) and none is called {chapter}.ipynb; keep one")
    if path.is_symlink() or any(parent.is_symlink() for parent in (folder, folder / chapter)):
        return result("failed", f"{path.name} is a symbolic link; hand in the file itself")
    try:
        notebook = _read(path)
    except IntakeError as error:
        return result("failed", str(error))
    strange = _wrong_chapter(notebook, chapter)
    if strange:
        return result("failed", strange)
    target = staging / student_id / chapter / f"{chapter}.ipynb"
    target.parent.mkdir(parents=True)
    nbformat.write(notebook, target)
    return result("found", "" if path == expected else f"handed in as {path.name}")


def _read(path: Path) -> NotebookNode:
    if path.stat().st_size > MAX_BYTES:
        raise IntakeError(
            f"the file is larger than {MAX_BYTES // 1_000_000} MB; clear its outputs and hand it in again"
        )
    try:
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
    except Exception as error:  # nbformat raises many types for broken files
        first = str(error).strip().partition("\n")[0][:120]
        raise IntakeError(f"{path.name} is not a readable Jupyter notebook ({type(error).__name__}: {first})") from None
    return notebook


def _wrong_chapter(notebook: NotebookNode, chapter: str) -> str:
    ids = {cell.metadata.get("nbgrader", {}).get("grade_id") for cell in notebook.cells}
    due = {name for name, exercise in EXERCISES.items() if exercise.chapter == chapter}
    mine = {name for name in due if name in ids or f"{name}_answer" in ids}
    if mine:
        return ""
    others = {EXERCISES[i.removesuffix("_answer")].chapter for i in ids if i and i.removesuffix("_answer") in EXERCISES}
    if others:
        return f"this is {', '.join(sorted(others))}, handed in as {chapter}"
    return f"none of the exercises of {chapter} is in it"
