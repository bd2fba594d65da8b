"""One student, one name in the gradebook, whoever grades: `grader grade`, `nbgrader autograde` or formgrader's button.

nbgrader calls a student as the folder of the submission is called. `grader grade` goes by the roster and by `--names`,
and makes the name safe for paths: a folder "Ana Lee" or "ana_lee" would be a second student there, with grades of its
own that no report shows. So `grader grade` notes who is called what, and nbgrader's steps ask here before they grade.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from nbgrader.api import Gradebook, MissingEntry, Student
from sqlalchemy.engine import make_url

from grader.classroom.intake import Submission
from grader.classroom.intake_names import Person, safe_id, who_is_who
from grader.classroom.unscored import has_points
from grader.classroom.whole import write_whole

KEPT = "students.json"  # in the work folder


class SecondStudent(Exception):
    """nbgrader was asked to grade a folder under another name than its student's; the message says what to do."""


def keep_names(work: Path, found: Iterable[Submission], names: Mapping[str, str]) -> None:
    """Note whose id is whose name, and what `--names` said, beside what earlier gradings have noted."""
    kept = _kept(work)
    students = kept.students | {one.student_id: one.student for one in found}
    now = replace(kept, students=students, names=kept.names | dict(names))
    if now != kept:
        now.write(work)


def known_as(folder: str, work: Path) -> str:
    """Return the id under which `grader grade` knows the student whose folder this is; "" for one it does not know."""
    kept = _kept(work)
    return folder if folder in kept.students else _id_of(folder, kept.students.values(), kept.names)


def refuse_second(student: str, chapter: str, db_url: str) -> None:
    """Raise SecondStudent if `grader grade` calls the student of this folder otherwise, or would.

    By then nbgrader has entered the second one; it is taken out again unless it has any grade.
    """
    database = make_url(db_url).database
    known = (known_as(student, Path(database).parent) if database else "") or safe_id(student)
    if known == student:
        return
    with Gradebook(db_url) as gradebook, suppress(MissingEntry):
        second = gradebook.find_student(student)
        if not any(has_points(one) for one in second.submissions):
            gradebook.remove_student(student)
    raise SecondStudent(
        f"the folder {student!r} is not graded here, since `grader grade` calls its student {known!r}, and the "
        f"gradebook would have two. To grade it, run `grader grade --chapter {chapter}`, or call the folder {known!r}"
    )


def take_along(
    gradebook: Gradebook, found: Sequence[Submission], work: Path, roster: Iterable[str]
) -> dict[str, tuple[str, str]]:
    """Let the grades of students whose names the roster spells otherwise now go with them to their new ids.

    That is for one student of an earlier grading whom nobody is called any more, and one on the roster who is not in
    the gradebook yet. Of any others `doubles` tells: without a roster two people may have names that are alike.

    Args:
        found: the submissions at hand.
        work: the folder in which earlier gradings have noted who is called what.
        roster: the names on it.

    Returns: {student_id: (the id, the name) that this student had before}.
    """
    entered, on_roster, moved = {student.id for student in gradebook.students}, set(map(safe_id, roster)), {}
    for known, others in _earlier_ids(entered, found, work).items():
        if known in entered or len(others) > 1 or known not in on_roster:
            continue
        (old,), kept = others, _kept(work)
        moved[known] = old, kept.students.get(old, old)
        # The gradebook comes last: a grading that is killed before that does all of it again.
        for folder in ("records", "judged", "autograded", "feedback"):
            _move(work / folder, old, known)
        former = dict.fromkeys([*kept.former.get(old, []), *kept.former.get(known, []), old])
        students = {one: name for one, name in kept.students.items() if one != old}
        replace(kept, students=students, former={**kept.former, known: [*former]}).write(work)
        _rename(gradebook, old, known)
    return moved


def _rename(gradebook: Gradebook, old: str, new: str) -> None:
    """Give a student another id, in one transaction: a gradebook never holds half of it."""
    before, after = gradebook.find_student(old), Student(id=new)
    for column in ("first_name", "last_name", "email", "lms_user_id"):
        setattr(after, column, getattr(before, column))
    gradebook.db.add(after)
    for submission in list(before.submissions):
        submission.student = after
    gradebook.db.flush()
    gradebook.db.expire(before)
    gradebook.db.delete(before)
    gradebook.db.commit()


def former_ids(work: Path) -> dict[str, list[str]]:
    """Return {student_id: the ids under which earlier gradings knew the student}."""
    return _kept(work).former


def _move(folder: Path, old: str, new: str) -> None:
    with suppress(OSError):  # there may be none, or there is a newer one
        os.rename(folder / old, folder / new)


def doubles(ids: Iterable[str], found: Sequence[Submission], work: Path | None = None) -> dict[str, tuple[str, ...]]:
    """Return {student_id: what to say of it} for those whom a gradebook has a second time, under another id.

    Args:
        ids: the students in the gradebook.
        found: the submissions at hand.
        work: the folder in which earlier gradings have noted who is called what.
    """
    made = {}
    for known, others in _earlier_ids(ids, found, work).items():
        made[known] = tuple(
            f"the gradebook has a second student {other!r} of this name, whose grades are not in this report "
            f"(nbgrader, or an earlier grading with another roster, called them so). If the roster was left out "
            f"this time, grade again with it; else move what was graded by hand there to {known!r}, "
            f"and remove the other with `nbgrader db student remove --force {other!r}`"
            for other in others
        )
    return made


def _earlier_ids(ids: Iterable[str], found: Sequence[Submission], work: Path | None) -> dict[str, list[str]]:
    """Return {student_id of this grading: the other ids in the gradebook that are of the same student}."""
    earlier = _kept(work).students if work else {}
    students = {one.student_id: one.student for one in found}
    made: dict[str, list[str]] = {}
    for other in sorted(set(ids) - set(students)):
        known = _id_of(earlier.get(other, other), students.values(), {})
        if known in students:
            made.setdefault(known, []).append(other)
    return made


def _id_of(folder: str, names: Iterable[str], said: Mapping[str, str]) -> str:
    """Return the id of the student whom a folder of this name belongs to, as the intake would say; "" for nobody."""
    person, names = Person(folder), list(names)
    name, _ = who_is_who([person], names, said)[person]
    return safe_id(name) if name in names else ""


@dataclass(frozen=True)
class _Kept:
    """What earlier gradings have noted: names by student_id, what `--names` said, and {student_id: ids before}."""

    students: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    former: dict[str, list[str]] = field(default_factory=dict)

    def write(self, work: Path) -> None:
        write_whole(work / KEPT, json.dumps(asdict(self), ensure_ascii=False, indent=1) + "\n")


def _kept(work: Path) -> _Kept:
    try:
        data = json.loads((work / KEPT).read_text(encoding="utf-8"))
        former = {name: list(map(str, ids)) for name, ids in dict(data.get("former", {})).items()}
        return _Kept(dict(data["students"]), dict(data["names"]), former)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return _Kept()
