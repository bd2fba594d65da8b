"""Take submissions in: find each student's notebook, or say why it cannot be graded.

What was handed in is only read. What can be graded is rebuilt (see `repair`) in a folder of our own, under the name
that nbgrader expects, so a renamed or misplaced file is no missing file. Where a file is in doubt its student gets a
row that says so; nobody else notices.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath

import dateutil.parser
import nbformat
from nbformat import NotebookNode
from nbgrader.utils import parse_utc

from grader.classroom.engine.trouble import is_full
from grader.classroom.intake_lms import handed_in
from grader.classroom.intake_names import contested, in_order, read_names, read_roster, safe_id, tidy, who_is_who
from grader.classroom.intake_notebook import MAX_BYTES, IntakeError, chapters_in, too_large
from grader.classroom.intake_rows import alike, folds_case, open_names, told_alike, without_a_folder, without_doubles
from grader.classroom.intake_work import STAMP, Notebook, Work, choose, look_through, some, unreadable
from grader.classroom.repair import is_untouched, rebuild
from grader.classroom.seeds import BESIDE
from grader.paths import NOTEBOOKS, notebook_path

__all__ = ["STAMP", "IntakeError", "Submission", "read_names", "read_roster", "safe_id", "take_in"]

OFF_ROSTER = "not on the roster"
# Files that a chapter wants handed in beside its notebook: {chapter: names}. Everything else stays behind.
WANTED: dict[str, tuple[str, ...]] = {}


@dataclass(frozen=True)
class Submission:
    """One student's work on one chapter.

    `state` is "found", "missing" or "failed"; `reason` says more (also of a file found under another name), and
    `flags` are those of its sentences that an instructor should look at. `student_id` is the student's name made safe
    for paths and glob patterns; it depends on the name alone. `late` is what the learning platform says, None where
    it says nothing; `timestamp` is when it was handed in, in nbgrader's form, "" where that is not known. `digest`
    is that of the notebook to be graded: it changes exactly when that does. `number` is the student's on the learning
    platform (in Moodle: of this one assignment), "" where there is none. `left` are the files that were left behind,
    as paths from the notebook's folder. `doubt` is True where the instructor must settle something first: whose the
    work is, or why it cannot be taken in here.
    """

    student: str
    student_id: str
    chapter: str
    state: str
    reason: str = ""
    flags: tuple[str, ...] = ()
    late: bool | None = None
    timestamp: str = ""
    digest: str = ""
    number: str = ""
    left: tuple[str, ...] = ()
    doubt: bool = False

    @property
    def intake(self) -> str:
        """As `state`, but "in doubt" where nothing can be graded and that need not be the student's doing."""
        return "in doubt" if self.doubt and self.state != "found" else self.state


def take_in(
    submitted: Path,
    staging: Path,
    known_chapters: list[str],
    only: list[str],
    roster: list[str],
    names: Mapping[str, str] | None = None,
) -> list[Submission]:
    """Write every gradable notebook to staging/STUDENT/CHAPTER/CHAPTER.ipynb and return one Submission per name.

    Args:
        submitted: what `intake_lms.handed_in` reads: a folder or a zip file.
        staging: our own folder; emptied first.
        known_chapters: the course's chapters.
        only: the chapters to grade; empty: those that anybody handed in.
        roster: names that must have a row even if they handed in nothing.
        names: {name or number on the learning platform: name on the roster}.

    Raises:
        IntakeError: `submitted` cannot be read, or holds no submission.
    """
    found, roster = handed_in(submitted), [tidy(name) for name in roster]
    people = [one.person for one in found]
    called, claims = who_is_who(people, roster, names or {}), contested(people, roster, names or {})
    works: dict[str, Work] = {}
    for one in found:
        name, remark = called[one.person]
        work = works.setdefault(name, Work())
        work.remarks += [*one.remarks, remark] if remark else one.remarks
        look_through(one, work)
    works = dict(sorted(works.items()))
    present = {chapter for work in works.values() for one in work.notebooks for chapter in one.chapters}
    chosen = only or [name for name in known_chapters if name in present]
    if only and present and not present & set(only) and not any(_unread(work) for work in works.values()):
        raise IntakeError(
            f"nobody handed in {' or '.join(only)}: what lies in {submitted} is of {', '.join(sorted(present))}. "
            "Nothing was graded, and the last report was left as it is"
        )
    students = sorted({*works, *roster}, key=in_order)
    if not students or not chosen:
        seen = [problem for work in works.values() for problem in (*work.problems, *unreadable(work.notebooks))]
        raise IntakeError(
            f"{submitted} holds no submission. Expected: {submitted}/STUDENT/CHAPTER/CHAPTER.ipynb, where CHAPTER is "
            f"one of {', '.join(known_chapters)}, or a download of Moodle or Canvas"
            + (f". Found: {'; '.join(seen[:3])}" if seen else "")
        )
    if staging.exists():
        shutil.rmtree(staging)
    staging.mkdir(parents=True)
    near = alike(students)
    lost = without_a_folder(near, roster, bool(near) and folds_case(staging))
    for student in set(near) - set(roster):
        if student in works:
            works[student].remarks.append(told_alike(near[student]))
    releases = {chapter: nbformat.read(notebook_path(NOTEBOOKS, chapter), as_version=4) for chapter in chosen}
    known = {*roster, *(name for wanted, (_, used) in claims.items() if wanted in roster for name in used)}
    unsettled = open_names(claims)
    submissions = []
    for student in students:
        for chapter in chosen:
            if student in lost:
                one = Submission(student, safe_id(student), chapter, "failed", lost[student], doubt=True)
            else:
                one = _take_one_or_fail(student, chapter, works.get(student), releases[chapter], staging)
            # Without a list of any kind, namesakes are told apart by their numbers, but not what came of neither.
            if student in unsettled and (one.state == "missing" or (one.state == "failed" and (roster or names))):
                told = () if "--names" in one.reason else (unsettled[student],)
                one = replace(one, reason=_joined(one.reason, *told), doubt=True)
            if roster and student not in known:
                said = "; ".join(filter(None, [one.reason, OFF_ROSTER]))
                one = replace(one, reason=said, flags=(*one.flags, OFF_ROSTER))
            submissions.append(one)
    return without_doubles(submissions, claims)


def _unread(work: Work) -> bool:
    """Tell whether somebody handed in what may be anything: it could not be read."""
    return bool(work.problems) or any(one.cells is None for one in work.notebooks)


def _take_one_or_fail(
    student: str, chapter: str, work: Work | None, release: NotebookNode, staging: Path
) -> Submission:
    """Do as `_take_one`, and let what nobody foresaw cost this row and no other. A full disk is everybody's."""
    try:
        return _take_one(student, chapter, work, release, staging)
    except Exception as error:
        if is_full(error):
            raise
        shutil.rmtree(staging / safe_id(student) / chapter, ignore_errors=True)
        reason = f"it could not be taken in: {type(error).__name__}: {str(error)[:100]!r}; look at the file"
        return Submission(student, safe_id(student), chapter, "failed", reason, doubt=True)


def _take_one(student: str, chapter: str, work: Work | None, release: NotebookNode, staging: Path) -> Submission:
    """Return what became of one student's chapter, having written the notebook if it was found."""
    made = partial(Submission, student, safe_id(student), chapter)
    if work is None:
        return made("missing", "nothing was handed in")
    made = partial(made, number=work.number, doubt=work.in_doubt)
    mine = [one for one in work.notebooks if one.path.parent == PurePosixPath(chapter)]
    elsewhere = [one for one in work.notebooks if one not in mine and one.chapters == {chapter}]
    lost = [one for one in work.notebooks if one.cells is None and not one.chapters]
    candidates, untouched = _with_work(mine or elsewhere, release)
    one, remarks, problem = choose(candidates, chapter)
    remarks += [f"not graded, since nothing is done in it: {some(untouched)}"] if untouched else []
    if problem:
        return made("failed", _joined(problem, *work.remarks))
    if one is None:
        return made(*_nothing(work, lost, chapter))
    made = partial(made, late=one.late, number=one.number or work.number)
    if one.cells is None:
        return made("failed", _joined(one.problem, *work.remarks))
    inside = chapters_in(one.cells)
    if chapter not in inside:
        wrong = f"this is {', '.join(sorted(inside))}, handed in as {chapter}"
        return made(
            "failed", _joined(wrong if inside else f"none of the exercises of {chapter} is in it", *work.remarks)
        )
    at_place = PurePosixPath(chapter) / f"{chapter}.ipynb"
    place = one.path.name if one.path.parent == at_place.parent else one.path.as_posix()
    remarks = ([] if one.called == at_place.name else [f"handed in as {place}"]) + remarks
    notebook, flags = rebuild(one.cells, release)
    target = staging / safe_id(student) / chapter
    target.mkdir(parents=True)
    left, beside, trouble = _take_others(work, one, chapter, target)
    if beside:
        notebook.metadata[BESIDE] = beside
    text = nbformat.writes(notebook) + "\n"
    (target / at_place.name).write_text(text, encoding="utf-8", newline="\n")
    flags += trouble
    timestamp = _take_stamp(work, one, chapter, target, flags)
    flags = list(dict.fromkeys([*flags, *work.remarks, *work.problems, *unreadable(lost)]))
    digest = hashlib.sha256(text.encode()).hexdigest()
    return made("found", _joined(*remarks, *flags), tuple(flags), timestamp=timestamp, digest=digest, left=left)


def _with_work(notebooks: list[Notebook], release: NotebookNode) -> tuple[list[Notebook], list[str]]:
    """Return the notebooks to choose from, and the names of the untouched ones that stand back for one with answers.

    That is for copies in one place; of attempts handed in one after another the last counts, whatever is in it.
    """
    if len({(one.folder, one.place, one.upload) for one in notebooks}) > 1:
        return notebooks, []
    untouched = [one for one in notebooks if one.cells is not None and is_untouched(one.cells, release)]
    begun = [one for one in notebooks if one.cells is not None and one not in untouched]
    if not begun or not untouched:
        return notebooks, []
    return [one for one in notebooks if one not in untouched], [one.path.name for one in untouched]


def _joined(*words: str) -> str:
    return "; ".join(dict.fromkeys(words))


def _nothing(work: Work, lost: list[Notebook], chapter: str) -> tuple[str, str]:
    """Return (state, reason) where no notebook of the chapter was found."""
    if work.problems or lost:
        return "failed", _joined(*work.problems, *unreadable(lost), *work.remarks)
    here = [file.path.name for file in work.others if not work.notebooks or file.path.parent.name == chapter]
    if here:
        return "failed", _joined(f"no notebook of this chapter was handed in, but {some(here)}", *work.remarks)
    return "missing", _joined("no notebook of this chapter was handed in", *work.remarks)


def _take_others(
    work: Work, one: Notebook, chapter: str, target: Path
) -> tuple[tuple[str, ...], dict[str, str], list[str]]:
    """Copy the files beside the notebook that the chapter wants.

    Returns: the files that were left behind, {name: digest} of those that were copied, and what to say of them.
    """
    left, taken, remarks = [], {}, []
    for file in work.others:
        if not file.path.is_relative_to(one.path.parent):
            continue
        name = file.path.relative_to(one.path.parent).as_posix()
        if name not in WANTED.get(chapter, ()):
            left.append(name)
            continue
        try:
            data = file.read(MAX_BYTES)
            if len(data) > MAX_BYTES:
                raise IntakeError(too_large(name))
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).write_bytes(data)
            taken[name] = hashlib.sha256(data).hexdigest()
        except IntakeError as error:
            remarks.append(str(error))
    if left:
        remarks.append(f"files beside the notebook were left behind: {some(left)}")
    return tuple(left), taken, remarks


def _take_stamp(work: Work, one: Notebook, chapter: str, target: Path, flags: list[str]) -> str:
    """Copy nbgrader's own record of the time of collection, and return it."""
    text = work.stamps.get(one.path.parent, "") if one.path.parent == PurePosixPath(chapter) else ""
    if not text:
        return ""
    try:
        # nbgrader reads +0100 as a hundred seconds
        offset = re.fullmatch(r".*[+-]\d\d:?\d\d", text, re.DOTALL)
        when = parse_utc(dateutil.parser.parse(text) if offset else text)
        if when.year < 1970:  # strftime writes early years so that nbgrader could not read them again
            raise ValueError(text)
        stamp = f"{when:%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, ArithmeticError):  # the last is what dateutil lets through from decimal
        flags.append(f"{STAMP} holds no time: {text[:40]!r}")
        return ""
    (target / STAMP).write_text(stamp + "\n", encoding="utf-8")
    return stamp
