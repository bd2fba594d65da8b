"""nbgrader, configured for this course: the one place where its settings are made in code."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import sys
from pathlib import Path

from nbgrader.apps.api import NbGraderAPI
from nbgrader.coursedir import CourseDirectory
from traitlets.config import Config

from grader.execution import kernel_config

CELL_SECONDS = 60
COURSE_ID = "grpo-from-scratch"


def course_config(cell_seconds: int = CELL_SECONDS, sandbox: bool = True) -> Config:
    """Return how this course wants submissions graded; `nbgrader_config.py` uses the same.

    `cell_seconds` is the time limit for one cell. A check stops a student's function itself after a few seconds,
    so this one is for loops outside functions. `sandbox` shuts every kernel in; where that cannot be done, a kernel
    does not start, and the error says why.
    """
    from nbgrader import preprocessors as stock

    from grader.classroom.harmless import Harmless
    from grader.classroom.preprocessors import CourseExecute, OnlyChecks

    made = kernel_config()
    made.Autograde.autograde_preprocessors = [
        CourseExecute,
        OnlyChecks,
        Harmless,
        stock.IgnorePattern,
        stock.LimitOutput,
        stock.SaveAutoGrades,
        stock.AssignLatePenalties,
        stock.CheckCellMetadata,
    ]
    made.OverwriteCells.add_missing_cells = True
    made.CourseExecute.timeout = cell_seconds
    if sandbox:
        made.CourseExecute.kernel_manager_class = "grader.judge.kernel.SandboxedKernelManager"
    # nbclient skips cells with this tag; a random one cannot be set by a student to skip a check.
    made.CourseExecute.skip_cells_with_tag = secrets.token_hex(16)
    return made


def course_api(root: Path, config: Config | None = None, **coursedir: str) -> NbGraderAPI:
    """Return nbgrader's API for a course rooted at `root`; keyword arguments are settings of its CourseDirectory.

    nbgrader keeps its settings in the order files, command line, code; this ignores the files, so that a grading
    does not depend on what stands in the home directory.
    """
    made = Config()
    made.CourseDirectory.root = str(root)
    made.CourseDirectory.course_id = COURSE_ID
    made.Exchange.root = str(root)  # not used; the default is a folder that only some machines have
    for name, value in coursedir.items():
        made.CourseDirectory[name] = value
    if config:
        made.merge(config)
    _own_event_loop()
    _own_programs_first()
    logging.getLogger("traitlets").setLevel(logging.ERROR)
    return NbGraderAPI(CourseDirectory(config=made), config=made)


def in_work_folder(work: Path) -> dict[str, str]:
    """Return the folders of `grader grade` for `course_api`. Who finds the gradebook locked waits a minute at most."""
    return {
        "source_directory": "source",
        "submitted_directory": "intake",
        "db_url": f"sqlite:///{work.resolve()}/gradebook.db?timeout=60",
    }


def _own_programs_first() -> None:
    """Let nbgrader find `alembic`, which it calls by name, beside this Python even if no venv is activated."""
    folder = str(Path(sys.executable).parent)
    if folder not in os.environ.get("PATH", "").split(os.pathsep):
        os.environ["PATH"] = os.pathsep.join([folder, os.environ.get("PATH", "")])


def _own_event_loop() -> None:
    """nbconvert asks for the current event loop; Python 3.12 and later have none unless one is set."""
    try:
        asyncio.get_event_loop_policy().get_event_loop()
    except RuntimeError:
        asyncio.set_event_loop(asyncio.new_event_loop())
