"""Grade a class: one submission after another through nbgrader, so that none can touch another's grade."""

from __future__ import annotations

import errno
import html
import importlib.util
import os
import re
import shutil
import sys
import warnings
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbgrader.api import MissingEntry
from nbgrader.apps.api import NbGraderAPI
from sqlalchemy.exc import SQLAlchemyError

from grader.bootstrap import lock_file
from grader.checking import SEED_VARIABLE
from grader.classroom.intake import Submission, take_in
from grader.classroom.nbgrader_api import CELL_SECONDS, course_api, course_config
from grader.classroom.preprocessors import KERNEL_DIED, NOT_A_FUNCTION, NOT_RUN, TIMED_OUT, error_names
from grader.classroom.release import NOT_FOR_STUDENTS, ReleaseError, generate
from grader.exercises import EXERCISES
from grader.judge.sandbox import why_not
from grader.paths import SOLUTIONS, chapters
from grader.report import CHECK_MIME


@dataclass(frozen=True)
class Score:
    """One exercise of one submission. `points` is None where nothing could be graded: no result is no 0."""

    student: str
    chapter: str
    exercise: str
    points: float | None
    max_points: int
    result: str
    mistake: str = ""


@dataclass(frozen=True)
class Graded:
    """What became of one submission: `state` is "graded", "needs review", "failed" or "missing"."""

    submission: Submission
    state: str
    reason: str
    scores: tuple[Score, ...]
    feedback: Path | None = None


class GradingError(Exception):
    """The grading as a whole cannot start; the message says why and what to do."""


def grade_class(
    submitted: Path,
    work: Path,
    only: list[str] | None = None,
    roster: list[str] | None = None,
    seed: int | None = None,
    cell_seconds: int = CELL_SECONDS,
    sandbox: bool = True,
    progress: Callable[[int, int, str], None] = lambda done, total, what: None,
) -> list[Graded]:
    """Grade every submission under `submitted` and return one Graded for each student and chapter.

    Args:
        submitted: holds STUDENT/CHAPTER/*.ipynb; it is only read.
        work: where the gradebook, the graded notebooks and the feedback live (`grading/`).
        only: chapters to grade; default: those that anybody handed in.
        roster: students who must have a row whatever they handed in.
        seed: draws the inputs of the checks; None: new ones for every check.
        cell_seconds: time limit for one cell.
        sandbox: shut every kernel in; False runs the students' code with the rights of this process.
        progress: called before each submission and at the end with (number done, number of all, what is next).

    Raises:
        IntakeError: there is nothing to grade.
        GradingError: there is no sandbox on this machine, another grading is at work here, or the gradebook cannot
            be used.
    """
    if sandbox and why_not():
        raise GradingError(
            f"nothing was graded, since the students' code cannot be shut in: {why_not()}. To grade the work of "
            "people you trust all the same, add --no-sandbox: their code then runs with your rights."
        )
    try:
        with _alone(work):
            return _grade_all(submitted, work, only or [], roster or [], seed, cell_seconds, sandbox, progress)
    except SQLAlchemyError as error:
        raise GradingError(
            f"the gradebook {work / 'gradebook.db'} cannot be used ({str(error).splitlines()[0]}); "
            "move it away to start a new one, or restore a copy"
        ) from None


@contextmanager
def _alone(work: Path):
    """Let one grading at a time use the folder; the system frees the lock when a process dies."""
    work.mkdir(parents=True, exist_ok=True)
    with (work / ".lock").open("a+b") as file:
        try:
            lock_file(file, wait=False)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EAGAIN, errno.EDEADLK):
                raise
            raise GradingError(
                f"another grading is using {work}; wait for its end, or give --work another folder"
            ) from None
        yield


def _grade_all(submitted, work, only, roster, seed, cell_seconds, sandbox, progress) -> list[Graded]:
    found = take_in(submitted, work / "intake", chapters(), only, roster)
    api = course_api(
        work,
        course_config(cell_seconds, sandbox),
        source_directory="source",
        submitted_directory="intake",
        db_url=f"sqlite:///{work.resolve()}/gradebook.db",
    )
    _require_torch(submission.chapter for submission in found if submission.state == "found")
    for chapter in dict.fromkeys(submission.chapter for submission in found):
        _enter_chapter(chapter, work, api.coursedir.db_url)
    graded = []
    with _kernel_environment(seed), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nbgrader's own, about its database and about cells that it adds itself
        for number, submission in enumerate(found):
            progress(number, len(found), f"{submission.student}, {submission.chapter}")
            graded.append(_grade_one(api, work, submission))
    progress(len(found), len(found), "done")
    return graded


def _require_torch(handed_in: Iterable[str]) -> None:
    """Say before the first notebook, not in each of them, that a chapter needs what is not installed."""
    needing = sorted(set(handed_in) & {e.chapter for e in EXERCISES.values() if "torch" in type(e.adapter).__module__})
    if needing and (importlib.util.find_spec("torch") is None or importlib.util.find_spec("transformers") is None):
        raise GradingError(
            f"{', '.join(needing)} was handed in and needs torch and transformers, which are not installed here: run "
            f"`{Path(sys.executable).name} -m pip install -c constraints.txt -e '.[qwen3]'` with the Python of this "
            "course (.venv), or grade the other chapters with --chapter"
        )


def _enter_chapter(chapter: str, work: Path, db_url: str) -> None:
    """Put a chapter's cells into the gradebook, and its extra files where nbgrader looks for them."""
    try:
        generate(chapter, SOLUTIONS, work / "release", db_url)
    except ReleaseError as error:
        raise GradingError(f"{chapter} cannot be entered into the gradebook: {error}") from None
    source = work / "source" / chapter
    if source.exists():
        shutil.rmtree(source)
    shutil.copytree(SOLUTIONS / chapter, source, ignore=shutil.ignore_patterns("*.ipynb", *NOT_FOR_STUDENTS))


@contextmanager
def _kernel_environment(seed: int | None):
    """Set what kernels inherit: one thread, and the seed of the checks."""
    wanted = {"OMP_NUM_THREADS": "1", SEED_VARIABLE: "" if seed is None else str(seed)}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _grade_one(api: NbGraderAPI, work: Path, submission: Submission) -> Graded:
    if submission.state != "found":
        return Graded(submission, submission.state, submission.reason, _no_scores(submission, submission.state))
    outcome = api.autograde(submission.chapter, submission.student_id, force=True, create=True)
    if not outcome["success"]:
        reason = _why(outcome, work)
        return Graded(submission, "failed", reason, _no_scores(submission, "failed"))
    done = work / "autograded" / submission.student_id / submission.chapter / f"{submission.chapter}.ipynb"
    notebook = nbformat.read(done, as_version=4)
    scores, remarks = _scores(api, submission, notebook)
    feedback = _feedback(api, work, submission)
    trouble = "; ".join(filter(None, [_trouble(notebook), *remarks]))
    reasons = [r for r in (submission.reason, trouble, "" if feedback else "no feedback page could be made") if r]
    return Graded(submission, "needs review" if trouble else "graded", "; ".join(reasons), scores, feedback)


def _no_scores(submission: Submission, result: str) -> tuple[Score, ...]:
    due = [exercise for exercise in EXERCISES.values() if exercise.chapter == submission.chapter]
    return tuple(Score(submission.student, e.chapter, e.name, None, e.points, result) for e in due)


def _scores(api: NbGraderAPI, submission: Submission, notebook: NotebookNode) -> tuple[tuple[Score, ...], list[str]]:
    """Read each exercise's result: what happened from the notebook, the points from the gradebook.

    Also returns what an instructor should know: checks that gave no result, and grades given by hand before.
    """
    cells = {c.metadata.nbgrader.grade_id: c for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade_id")}
    scores, remarks = [], []
    with api.gradebook as gradebook:
        for exercise in EXERCISES.values():
            if exercise.chapter != submission.chapter:
                continue
            result, mistake = _result(exercise.name, cells)
            points = None
            try:
                grade = gradebook.find_grade(
                    exercise.name, submission.chapter, submission.chapter, submission.student_id
                )
            except MissingEntry:
                result = "failed: the gradebook does not know this exercise"
            else:
                points = None if result.startswith("failed") else grade.score
                if grade.manual_score is not None:
                    remarks.append(
                        f"{exercise.name} keeps the {grade.manual_score:g} points given by hand; the check gives "
                        f"{grade.auto_score or 0:g}"
                    )
                    points, result = grade.score, "graded by hand"
            if result.startswith("failed"):
                remarks.append(f"{exercise.name}: {result}")
            scores.append(
                Score(submission.student, exercise.chapter, exercise.name, points, exercise.points, result, mistake)
            )
    return tuple(scores), remarks


def _result(name: str, cells: dict[str, NotebookNode]) -> tuple[str, str]:
    """Return (result, mistake) of an exercise. A result that begins with "failed" is not the student's doing."""
    cell, answer = cells.get(name), cells.get(f"{name}_answer")
    if cell is None:
        return "failed: the check cell is missing", ""
    error = next((output for output in cell.outputs if output.output_type == "error"), None)
    if error is None:
        report = next((o.data[CHECK_MIME] for o in cell.outputs if CHECK_MIME in o.get("data", {})), None)
        return (report["state"], report["mistake"]) if report else ("failed: no result", "")
    if error.ename in (KERNEL_DIED, NOT_RUN):
        return error.evalue, ""
    if error.ename == TIMED_OUT:
        return "the cell ran out of time", ""
    if error.ename == NOT_A_FUNCTION:
        return f"error: {error.evalue}", ""
    if error.ename == "NameError" and f"'{name}'" in error.evalue:  # no such function: the answer cell says why
        said = next((o for o in (answer or {}).get("outputs", []) if o.output_type == "error"), error)
        return f"error: {said.ename}: {said.evalue}"[:200], ""
    return f"failed: {error.ename}: {error.evalue}"[:200], ""


def _trouble(notebook: NotebookNode) -> str:
    """Say what an instructor should look at, or nothing: a kernel that died, cells that ran out of time."""
    dead = [o.evalue for c in notebook.cells for o in c.get("outputs", []) if o.get("ename") == KERNEL_DIED]
    late = [str(i + 1) for i, cell in enumerate(notebook.cells) if TIMED_OUT in error_names(cell)]
    unreached = [o.evalue for c in notebook.cells for o in c.get("outputs", []) if o.get("ename") == NOT_RUN]
    if dead:
        return f"{dead[0]}; the cells after it were not run"
    if late:
        more = f"; {unreached[0]}" if unreached else ""
        return f"cell {', '.join(late)} ran out of time{more}"
    return ""


def _why(outcome: dict, work: Path) -> str:
    """Return the error that nbgrader met, in one line and without paths."""
    text = outcome.get("log", "") + "\n" + outcome.get("error", "")
    if "KeyboardInterrupt" in text:
        raise KeyboardInterrupt
    errors = [line.strip() for line in text.splitlines() if re.match(r"\s*[\w.]*(Error|Exception|Entry)\b: ", line)]
    last = errors[0] if errors else "nbgrader could not grade it"
    return last.replace(str(work.resolve()), "").replace(str(work), "")[:300]


def _feedback(api: NbGraderAPI, work: Path, submission: Submission) -> Path | None:
    outcome = api.generate_feedback(submission.chapter, submission.student_id, force=True)
    page = work / "feedback" / submission.student_id / submission.chapter / f"{submission.chapter}.html"
    if not outcome["success"] or not page.is_file():
        return None
    page.chmod(0o644)
    page.write_text(without_scripts(page.read_text(encoding="utf-8")), encoding="utf-8")
    return page


def without_scripts(page: str) -> str:
    """Return an HTML page that runs no script and loads nothing: it holds whatever a student's cells put out.

    What a browser would have fetched for it, the typesetting of formulas included, stays away.
    """
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; font-src data:; form-action 'none'"
    head, found, rest = page.partition("<head>")
    if not found:
        return f"<pre>{html.escape(page)}</pre>"
    rest = re.sub("http-equiv", "data-http-equiv", rest, flags=re.IGNORECASE)  # no redirection, no second policy
    return f'{head}{found}<meta http-equiv="Content-Security-Policy" content="{policy}">{rest}'
