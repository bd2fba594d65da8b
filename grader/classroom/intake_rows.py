"""Which rows a report has: names that meet in one folder, and people who cannot be told apart."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from grader.classroom.intake_names import safe_id

if TYPE_CHECKING:
    from grader.classroom.intake import Submission


def alike(students: Iterable[str]) -> dict[str, list[str]]:
    """Return {student: all whose ids differ in nothing but capital letters, if in that}, of those not alone in this."""
    found: dict[str, list[str]] = {}
    for student in students:
        found.setdefault(unicodedata.normalize("NFC", safe_id(student).casefold()), []).append(student)
    return {student: sorted(group) for group in found.values() if len(group) > 1 for student in group}


def without_a_folder(near: Mapping[str, list[str]], roster: Iterable[str], folds: bool) -> dict[str, str]:
    """Return {student: why nothing of theirs can be graded}: their folder would be that of others, too.

    The only one of them who is on the roster keeps it.

    Args:
        near: what `alike` returns.
        roster: who is known.
        folds: whether capital letters make no other folder (see `folds_case`).
    """
    found = {}
    for student, group in near.items():
        group = group if folds else [other for other in group if safe_id(other) == safe_id(student)]
        known = [other for other in group if other in roster]
        if len(group) > 1 and known != [student]:
            found[student] = (
                f"{' and '.join(group)} would share a folder here: give one of them another name with --names"
            )
    return found


def folds_case(folder: Path) -> bool:
    """Tell whether names that differ in capital letters alone are one file in this (our own) folder, as on macOS."""
    probe = folder / "a name"
    probe.touch()
    try:
        return (folder / "A NAME").exists()
    finally:
        probe.unlink()


def told_alike(group: Sequence[str]) -> str:
    """Say that names differ in capital letters alone."""
    return f"the names {' and '.join(group)} differ in capital letters alone: look whether they are one person"


def open_names(claims: Mapping[str, tuple[int, set[str]]]) -> dict[str, str]:
    """Return {name: what to settle} of all whose work may lie under another of these names.

    Args:
        claims: what `intake_names.contested` returns.
    """
    return {
        name: f"it is open who is {wanted}: say who is who with --names"
        for wanted, (_, used) in claims.items()
        for name in (wanted, *used)
    }


def without_doubles(rows: Iterable[Submission], claims: Mapping[str, tuple[int, set[str]]]) -> list[Submission]:
    """Leave out rows that say of somebody that nothing came, where it came under another name.

    Several people of one name keep the platform's number behind it. The name alone then stands for nobody, and in
    Moodle the numbers are others in each assignment: per chapter there are as many rows as there are people, those
    with work first.

    Args:
        rows: a row for each name and chapter.
        claims: what `intake_names.contested` returns.
    """
    rows = list(rows)
    group = {name: wanted for wanted, (_, used) in claims.items() for name in (wanted, *used)}
    came = Counter((group.get(row.student), row.chapter) for row in rows if row.state != "missing")
    kept = []
    for row in rows:
        wanted = group.get(row.student)
        if wanted is not None and row.state == "missing":
            if row.student == wanted or came[wanted, row.chapter] >= claims[wanted][0]:
                continue
            came[wanted, row.chapter] += 1
        kept.append(row)
    return kept
