"""Grade a class: workers judge notebooks in parallel, nbgrader's gradebook is written by one process, nothing is lost.

The work is done in `grader.classroom.engine`; this is the door to it.
"""

from __future__ import annotations

import errno
import importlib.util
import logging
import os
import shutil
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from nbgrader.apps.api import NbGraderAPI
from sqlalchemy.exc import SQLAlchemyError

from grader.bootstrap import lock_file
from grader.checking import SEED_VARIABLE
from grader.classroom.engine.feedback import without_scripts
from grader.classroom.engine.gradebook import enter_chapter, grading_api, set_due
from grader.classroom.engine.pool import Pool
from grader.classroom.engine.records import Settings, the_secret
from grader.classroom.engine.run import Run
from grader.classroom.engine.trouble import Unusable, in_words, is_full, trouble_with
from grader.classroom.intake import Submission, take_in
from grader.classroom.intake_names import tidy
from grader.classroom.lateness import LatenessError, policy_config, read_due
from grader.classroom.nbgrader_api import CELL_SECONDS
from grader.classroom.preprocessors import NOTEBOOK_SECONDS
from grader.classroom.release import ReleaseError
from grader.classroom.same_student import keep_names
from grader.classroom.states import NOT_YET, Graded, Score
from grader.exercises import EXERCISES
from grader.judge.kernel import sweep
from grader.judge.sandbox import why_not
from grader.paths import chapters

__all__ = ["Graded", "GradingError", "GradingStopped", "Score", "grade_class", "without_scripts"]


class GradingError(Exception):
    """The grading as a whole cannot start; the message says why and what to do."""


class GradingStopped(Exception):
    """The grading was stopped before its end; `graded` has a row for everybody, some of them "not graded yet"."""

    def __init__(self, graded: list[Graded]):
        left = sum(one.state == NOT_YET for one in graded)
        super().__init__(
            f"the grading was stopped with {left} of {len(graded)} submissions not graded yet; what is done is kept, "
            "and shown as it was graded last: the same command goes on from here (--again starts over)"
        )
        self.graded = graded


def grade_class(
    submitted: Path,
    work: Path,
    only: list[str] | None = None,
    roster: list[str] | None = None,
    seed: int | None = None,
    cell_seconds: int = CELL_SECONDS,
    sandbox: bool = True,
    progress: Callable[[int, int, str], None] = lambda done, total, what: None,
    *,
    workers: int | None = None,
    again: bool = False,
    pictures: bool = False,
    notebook_seconds: int = NOTEBOOK_SECONDS,
    due: str = "",
    late_policy: str = "none",
    names: Mapping[str, str] | None = None,
    container: str = "",
) -> list[Graded]:
    """Grade every submission under `submitted` and return one Graded for each student and chapter.

    What an earlier grading in the same `work` folder has done, and what has not changed since, is taken over.

    Args:
        submitted: holds STUDENT/CHAPTER/*.ipynb, or what a learning platform gives out; it is only read.
        work: where the gradebook, the graded notebooks and the feedback live (`grading/`).
        only: chapters to grade; default: those that anybody handed in.
        roster: students who must have a row whatever they handed in.
        seed: draws the inputs of the checks; None: a secret that `work` keeps draws them.
        cell_seconds: time limit for one cell.
        sandbox: shut every kernel in; False runs the students' code with the rights of this process.
        progress: called now and then, and at the end, with (number done, number of all, what is going on).
        workers: processes that judge at the same time; None: as many as there are cores.
        again: judge also what has not changed.
        pictures: draw the notebooks' plots, which earn no points and take half of the time.
        notebook_seconds: time limit for all cells of one notebook.
        due: a time, or a file with a time for each chapter (see `lateness.read_due`); "": as the gradebook has it.
        late_policy: what lateness costs (see `lateness.policy_config`).
        names: the roster's names for those that a learning platform uses.
        container: a command that starts a container (see `grader.judge.container`), in place of bubblewrap.

    Raises:
        IntakeError: there is nothing to grade.
        GradingError: there is no sandbox on this machine, another grading is at work here, the gradebook cannot be
            used, or an argument cannot be.
        GradingStopped: Ctrl-C or SIGTERM ended it early.
    """
    reason = (why_not(container) if container else why_not()) if sandbox else ""
    if reason:
        raise GradingError(
            f"nothing was graded, since the students' code cannot be shut in: {reason}. To grade the work of "
            "people you trust all the same, add --no-sandbox: their code then runs with your rights."
        )
    if submitted.resolve() == work.resolve():
        raise GradingError(
            f"{work} is the folder with the submissions: name another --work, or the grader's own files become students"
        )
    if submitted.is_dir() and work.resolve().is_relative_to(submitted.resolve()):
        raise GradingError(
            f"--work {work} lies in the folder with the submissions, where folders are students: name another"
        )
    if workers is not None and workers < 1:
        raise GradingError(f"{workers} workers can grade nothing; use 1 or more")
    try:
        policy_config(late_policy)
        times = read_due(due, chapters()) if due else {}
        with _alone(work), _quiet(), _stop_signals() as stopped:
            (work / "grading.log").unlink(missing_ok=True)
            if sandbox:
                sweep()
            found = take_in(submitted, work / "intake", chapters(), only or [], roster or [], names)
            _require_torch(submission.chapter for submission in found if submission.state == "found")
            keep_names(work, found, names or {})
            secret = the_secret(work, seed)
            settings = Settings(
                str(work.resolve()), secret, cell_seconds, notebook_seconds, sandbox, pictures, late_policy, container
            )
            run = Run(found, settings, again, [tidy(name) for name in roster or []])
            with Pool(settings, workers or os.cpu_count() or 1) as pool:
                run.begin(pool)
                run.go(pool, _api_for(found, settings, times), progress, stopped)
            if stopped():
                raise GradingStopped(run.result())
            return run.result()
    except (LatenessError, ReleaseError) as error:
        raise GradingError(str(error)) from None
    except (SQLAlchemyError, Unusable) as error:
        raise GradingError(in_words(getattr(error, "orig", None) or error, work)) from None
    except OSError as error:
        trouble = is_full(error) or (isinstance(error, shutil.Error) and trouble_with(work))
        if not trouble:
            raise
        raise GradingError(in_words(error if is_full(error) else Unusable(trouble), work)) from None


def _api_for(found: Sequence[Submission], settings: Settings, times: Mapping[str, datetime]) -> NbGraderAPI:
    """Return nbgrader's API with a gradebook that knows the chapters and when they were due."""
    api, work = grading_api(settings), Path(settings.work)
    known = list(dict.fromkeys(submission.chapter for submission in found))
    try:
        for chapter in known:
            enter_chapter(api, chapter, work)
    except ReleaseError:
        if trouble := trouble_with(work):
            raise Unusable(trouble) from None
        raise
    set_due(api, {chapter: when for chapter, when in times.items() if chapter in known})
    return api


@contextmanager
def _alone(work: Path) -> Iterator[None]:
    """Let one grading at a time use the folder; the system frees the lock when a process dies."""
    try:
        work.mkdir(parents=True, exist_ok=True)
        lock = (work / ".lock").open("a+b")
    except OSError as error:
        if is_full(error):
            raise
        raise GradingError(f"{work} cannot be written ({error.strerror}); give --work another folder") from None
    with lock as file:
        try:
            lock_file(file, wait=False)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EAGAIN, errno.EDEADLK):
                raise
            raise GradingError(
                f"another grading is using {work}; wait for its end, or give --work another folder"
            ) from None
        yield


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the libraries' words about databases, cells and kernels out of the instructor's terminal.

    What matters of them is in the reasons; and kernels that run without a worker draw their inputs like the others.
    """
    seed, threads = os.environ.pop(SEED_VARIABLE, None), os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"
    level, logger = logging.getLogger("traitlets").level, logging.getLogger("traitlets")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            logger.setLevel(level)
            for name, value in ((SEED_VARIABLE, seed), ("OMP_NUM_THREADS", threads)):
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


@contextmanager
def _stop_signals() -> Iterator[Callable[[], bool]]:
    """Turn the first Ctrl-C or SIGTERM into a flag, so that the step at hand comes to its end; the second ends it."""
    seen: list[int] = []

    def stop(signum, frame):
        if seen:
            raise KeyboardInterrupt
        seen.append(signum)

    before = {}
    if threading.current_thread() is threading.main_thread():
        before = {one: signal.signal(one, stop) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(seen)
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def _require_torch(handed_in: Iterable[str]) -> None:
    """Say before the first notebook, not in each of them, that a chapter needs what is not installed."""
    needing = sorted(set(handed_in) & {e.chapter for e in EXERCISES.values() if "torch" in type(e.adapter).__module__})
    if needing and (importlib.util.find_spec("torch") is None or importlib.util.find_spec("transformers") is None):
        raise GradingError(
            f"{', '.join(needing)} was handed in and needs torch and transformers, which are not installed here: run "
            f"`{Path(sys.executable).name} -m pip install -c constraints.txt -e '.[qwen3]'` with the Python of this "
            "course (.venv), or grade the other chapters with --chapter"
        )
