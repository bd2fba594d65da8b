"""nbgrader's gradebook: chapters enter it, grades are written by nbgrader's own steps, and rows are read back.

Only the process that grades uses this module; workers read the gradebook at most.
"""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path

import nbgrader
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.apps.api import NbGraderAPI

from grader.classroom.engine.records import Settings, chapter_digest, read_json
from grader.classroom.engine.trouble import Unusable, trouble_with
from grader.classroom.formgrader import write_config
from grader.classroom.intake import Submission
from grader.classroom.lateness import policy_config
from grader.classroom.nbgrader_api import COURSE_ID, course_api, course_config, in_work_folder
from grader.classroom.preprocessors import CourseExecute, TakeJudged
from grader.classroom.release import NOT_FOR_STUDENTS, ReleaseError, generate
from grader.classroom.whole import write_whole
from grader.exercises import EXERCISES
from grader.paths import SOLUTIONS


@dataclass(frozen=True)
class Grade:
    """What the gradebook holds about one exercise: the judge's points, those given by hand, and what counts.

    `extra` are points of extra credit, on top of either. `open` is set where somebody has to look at it (again), see
    `engine.by_hand`.
    """

    auto: float | None
    manual: float | None
    score: float
    extra: float = 0.0
    open: bool = False


@dataclass(frozen=True)
class Entry:
    """What the gradebook holds about one submission. `late` is in seconds, `penalty` in points.

    `comments` are those that stand by the cells, `remarks` only what somebody has written there by hand.
    """

    grades: dict[str, Grade]
    comments: dict[str, str]
    late: float = 0.0
    penalty: float = 0.0
    handed_in: str = ""
    due: str = ""
    remarks: dict[str, str] = field(default_factory=dict)

    def shown(self) -> dict:
        """Return what a feedback page shows of it."""
        grades = {name: {**asdict(grade), "open": False} for name, grade in self.grades.items()}
        shown = {**asdict(self), "grades": grades, "handed_in": "", "due": ""}
        del shown["remarks"]  # they stand among the comments
        return shown


def grading_api(settings: Settings) -> NbGraderAPI:
    """Return nbgrader's API for a work folder, with a gradebook in it, grading from what workers have judged."""
    work = Path(settings.work)
    config = course_config(settings.cell_seconds, settings.sandbox)
    steps = config.Autograde.autograde_preprocessors
    config.Autograde.autograde_preprocessors = [TakeJudged if step is CourseExecute else step for step in steps]
    config.TakeJudged.judged = str(work / "judged")
    config.CourseExecute.secret = settings.secret
    config.CourseExecute.notebook_seconds = settings.notebook_seconds
    config.SandboxedKernelManager.pictures = settings.pictures
    config.SandboxedKernelManager.container = settings.container
    config.merge(policy_config(settings.late_policy))
    api = course_api(work, config, **in_work_folder(work))
    _new_gradebook(work)
    write_config(work)
    api.gradebook.close()  # one that cannot be used is found out before anything is graded
    return api


def _new_gradebook(work: Path) -> None:
    """Make an empty gradebook, unless there is one; it appears whole, with both courses that nbgrader looks for."""
    path = work / "gradebook.db"
    if path.exists():
        if not path.stat().st_size:
            raise Unusable("it is empty")
        return
    new = work / f".gradebook-{os.getpid()}.db"
    try:
        with sqlite3.connect(new) as database:  # nbgrader would start another program to find out its own version
            database.execute("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
            database.execute("INSERT INTO alembic_version VALUES (?)", (_newest_version(),))
        database.close()
        for course in (COURSE_ID, "default_course"):
            Gradebook(f"sqlite:///{new.resolve()}", course).close()
        os.replace(new, path)
    finally:
        new.unlink(missing_ok=True)


def _newest_version() -> str:
    from alembic.config import Config as AlembicConfig  # with all that they import, needed once in a gradebook's life
    from alembic.script import ScriptDirectory

    config = AlembicConfig()
    config.set_main_option("script_location", str(Path(nbgrader.__file__).parent / "alembic"))
    return ScriptDirectory.from_config(config).get_current_head()


def enter_chapter(api: NbGraderAPI, chapter: str, work: Path) -> None:
    """Put a chapter's cells into the gradebook and its extra files where nbgrader looks for them, unless they are.

    Raises:
        ReleaseError: nbgrader refused.
    """
    mark = work / "entered" / f"{chapter}.json"
    if read_json(mark).get("chapter") == chapter_digest(chapter) and _is_known(api, chapter):
        return
    mark.unlink(missing_ok=True)
    generate(chapter, SOLUTIONS, work / "release", api.coursedir.db_url)
    source = work / "source" / chapter
    if source.exists():
        shutil.rmtree(source)
    shutil.copytree(SOLUTIONS / chapter, source, ignore=shutil.ignore_patterns("*.ipynb", *NOT_FOR_STUDENTS))
    write_whole(mark, f'{{"chapter": "{chapter_digest(chapter)}"}}\n')


def _is_known(api: NbGraderAPI, chapter: str) -> bool:
    due = {exercise.name for exercise in EXERCISES.values() if exercise.chapter == chapter}
    try:
        with api.gradebook as gradebook:
            return due <= {cell.name for cell in gradebook.find_notebook(chapter, chapter).grade_cells}
    except MissingEntry:
        return False


def set_due(api: NbGraderAPI, due: dict[str, datetime]) -> None:
    """Write due dates (UTC, without a time zone, as nbgrader keeps them) of chapters that the gradebook knows."""
    with api.gradebook as gradebook:
        for chapter, when in due.items():
            gradebook.find_assignment(chapter).duedate = when
        gradebook.db.commit()


def autograde(api: NbGraderAPI, submission: Submission, work: Path) -> str:
    """Let nbgrader grade a submission that was judged before; return "" or, in one line, why it could not.

    Raises:
        Unusable: the gradebook or the disk is at fault, so that the next submission would fare no better.
    """
    outcome = api.autograde(submission.chapter, submission.student_id, force=True, create=True)
    if outcome["success"]:
        return ""
    text = outcome.get("log", "") + "\n" + outcome.get("error", "")
    if re.search(r"sqlalchemy\.exc\.|sqlite3\.|\[Errno ", text):  # it may be words of the student's: see for yourself
        trouble = trouble_with(work)
        if trouble:
            raise Unusable(trouble)
    errors = [line.strip() for line in text.splitlines() if re.match(r"\s*[\w.]*(Error|Exception|Entry)\b: ", line)]
    last = errors[0] if errors else "nbgrader could not grade it"
    return last.replace(str(work.resolve()), "").replace(str(work), "")[:300]


def entry_of(gradebook: Gradebook, submission: Submission) -> Entry | None:
    """Return what the gradebook holds about a submission now, or None."""
    chapter, student = submission.chapter, submission.student_id
    gradebook.db.rollback()  # forget what was read before: others write
    try:
        whole = gradebook.find_submission(chapter, student)
        notebook = gradebook.find_submission_notebook(chapter, chapter, student)
    except MissingEntry:
        return None
    return Entry(
        {grade.name: _grade(grade) for grade in notebook.grades},
        {comment.name: comment.comment or "" for comment in notebook.comments},
        whole.total_seconds_late,
        notebook.late_submission_penalty or 0.0,
        _iso(whole.timestamp),
        _iso(whole.duedate),
        {comment.name: comment.manual_comment for comment in notebook.comments if comment.manual_comment},
    )


def _grade(row) -> Grade:
    return Grade(row.auto_score, row.manual_score, row.score, row.extra_credit or 0.0, row.needs_manual_grade)


def _iso(when: datetime | None) -> str:
    return when.isoformat() if when else ""


__all__ = [
    "Entry", "Grade", "ReleaseError", "Unusable", "autograde", "enter_chapter", "entry_of", "grading_api", "set_due",
]  # fmt: skip
