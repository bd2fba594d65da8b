"""What `nbgrader autograde` and formgrader's button need beyond `grader grade`: they get files just as they came in.

`TakeIn` goes before nbgrader's own steps and does for one notebook what the intake does for a class.
`formgrader_config` is what a folder's `nbgrader_config.py` has to merge; `write_config` makes such a file for a work
folder, so that nothing in there is ever graded by nbgrader's own, unprotected steps.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import nbformat
from nbgrader import preprocessors as stock
from nbgrader.api import Gradebook
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets.config import Config
from traitlets.log import get_logger

from grader.classroom.engine.feedback import feedback_config
from grader.classroom.intake_files import files_in_folder
from grader.classroom.intake_notebook import MAX_BYTES, Cell, IntakeError, chapters_in, read_cells
from grader.classroom.lateness import last_policy, policy_config
from grader.classroom.nbgrader_api import COURSE_ID, course_config
from grader.classroom.repair import rebuild
from grader.classroom.same_student import SecondStudent, refuse_second
from grader.classroom.unscored import leave_no_zero
from grader.classroom.whole import write_whole
from grader.judge.sandbox import why_not
from grader.paths import NOTEBOOKS, chapters, notebook_path

CONFIG_FILE = "nbgrader_config.py"
CONFIG_TEXT = f'''"""nbgrader and formgrader in this folder: written by `grader grade`, anew each time."""

from pathlib import Path

from grader.classroom.formgrader import formgrader_config

c = get_config()  # noqa: F821
c.merge(formgrader_config(Path(__file__).resolve().parent))
c.CourseDirectory.root = str(Path(__file__).resolve().parent)
c.CourseDirectory.course_id = "{COURSE_ID}"
c.CourseDirectory.submitted_directory = "intake"  # what was taken in, whatever it came out of
'''


class TakeIn(NbGraderPreprocessor):
    """Rebuild a notebook from the released one and the student's texts, as `grader grade` does.

    Raises:
        IntakeError: the file cannot be graded; the message says why.
        SecondStudent: the gradebook has its student under another name.
    """

    def preprocess(self, nb, resources):
        place, asked = resources["metadata"], resources["nbgrader"]
        chapter = asked["assignment"]
        try:
            refuse_second(asked["student"], chapter, asked["db_url"])
            cells = read_submission(Path(place["path"]), f"{place['name']}.ipynb", chapter)
        except (IntakeError, SecondStudent) as error:
            self.log.error("Not graded: %s", error)  # else it stands below a screenful of traceback
            with Gradebook(asked["db_url"]) as gradebook:
                leave_no_zero(gradebook, chapter, asked["student"])
            raise
        notebook, remarks = rebuild(cells, nbformat.read(notebook_path(NOTEBOOKS, chapter), as_version=4))
        for remark in remarks:
            self.log.warning("%s: %s", place["name"], remark)
        return notebook, resources


def read_submission(folder: Path, name: str, chapter: str) -> tuple[Cell, ...]:
    """Return the cells of a submitted notebook, following no link.

    Args:
        folder: submitted/STUDENT/CHAPTER.
        name: the file in it.
        chapter: the one that it should be.

    Raises:
        IntakeError: a link, too large, no notebook, or another chapter's.
    """
    for place in (folder, folder.parent):
        if place.is_symlink():
            raise IntakeError(f"the folder {place.name} is a symbolic link; hand in the files themselves")
    file = next(file for file in files_in_folder(folder) if file.path.as_posix() == name)
    if file.problem:
        raise IntakeError(file.problem)
    cells = read_cells(file.read(MAX_BYTES), name)
    inside = chapters_in(cells)
    if chapter not in inside:
        found = f"this is {', '.join(sorted(inside))}" if inside else "none of the exercises is in it"
        raise IntakeError(f"{name} was handed in as {chapter}, but {found}")
    return cells


def explain(assignment: str, student: str, notebooks: list[str]) -> None:
    """Say first, where it can be seen, why nbgrader is about to fail: below, it stands among tracebacks or nowhere."""
    name, reason = f"{assignment}.ipynb", why_not()
    found = [Path(notebook).name for notebook in notebooks]
    if reason:
        get_logger().error("Nothing can be graded, since the students' code cannot be shut in: %s", reason)
    if name not in found:
        get_logger().error(
            "Not graded: nbgrader takes only notebooks called %s (found: %s). `grader grade` grades it under any name",
            name,
            ", ".join(found),
        )


def formgrader_config(work: Path) -> Config:
    """Return the settings under which nbgrader grades as the last `grader grade` in the folder `work` did.

    Its secret draws the inputs and its late policy holds, so a button gives the points that the command gave.
    """
    made = course_config()
    made.Autograde.sanitize_preprocessors = [
        TakeIn,
        stock.ClearOutput,
        stock.DeduplicateIds,
        stock.OverwriteKernelspec,
        stock.OverwriteCells,
        stock.CheckCellMetadata,
    ]
    made.Autograde.pre_convert_hook = explain
    # nbgrader copies what lies beside a notebook, and follows links in doing so. It looks into no folder with one of
    # these names; what nbgrader's exchange collects is not affected.
    made.CourseDirectory.ignore = [*CourseDirectory().ignore, *chapters()]
    made.CourseDirectory.db_url = f"sqlite:///{work}/gradebook.db?timeout=60"  # a grading may be at work: wait for it
    with suppress(OSError, UnicodeDecodeError):  # before the first grading there is none
        made.CourseExecute.secret = (work / "secret").read_text(encoding="ascii").strip()
    made.merge(policy_config(last_policy(work)))
    made.merge(feedback_config())
    return made


def write_config(work: Path) -> None:
    """Let nbgrader and formgrader, started in a work folder, find how to grade there."""
    file = work / CONFIG_FILE
    if not file.is_file() or file.read_text(encoding="utf-8") != CONFIG_TEXT:
        write_whole(file, CONFIG_TEXT)
