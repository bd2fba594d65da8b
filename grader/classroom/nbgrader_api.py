"""nbgrader, configured for this course: the one place where its settings are made in code."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from nbgrader.apps.api import NbGraderAPI
from nbgrader.coursedir import CourseDirectory
from traitlets.config import Config


def course_api(root: Path, config: Config | None = None, **coursedir: str) -> NbGraderAPI:
    """Return nbgrader's API for a course rooted at `root`; keyword arguments are settings of its CourseDirectory.

    nbgrader keeps its settings in the order files, command line, code; this ignores the files, so that a grading
    does not depend on what stands in the home directory.
    """
    made = Config()
    made.CourseDirectory.root = str(root)
    made.CourseDirectory.course_id = "grpo-from-scratch"
    for name, value in coursedir.items():
        made.CourseDirectory[name] = value
    if config:
        made.merge(config)
    _own_event_loop()
    logging.getLogger("traitlets").setLevel(logging.ERROR)
    return NbGraderAPI(CourseDirectory(config=made), config=made)


def _own_event_loop() -> None:
    """nbconvert asks for the current event loop; Python 3.12 and later have none unless one is set."""
    try:
        asyncio.get_event_loop_policy().get_event_loop()
    except RuntimeError:
        asyncio.set_event_loop(asyncio.new_event_loop())
