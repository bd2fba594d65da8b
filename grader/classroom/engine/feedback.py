"""Feedback pages: nbgrader's step that makes them, with the course's own page."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

from nbconvert.exporters.exporter import Exporter
from nbgrader.preprocessors import GetGrades
from nbgrader.utils import is_grade
from traitlets import default
from traitlets.config import Config

from grader.classroom.feedback_page import feedback_page, name_line

POLICY = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; font-src data:; form-action 'none'; base-uri 'none'"
)
ALONE = "Only the notebook is graded: what its cells need must stand in them."


class GetWholeGrades(GetGrades):
    """nbgrader's step, which puts each check's score into its cell, and with it how much of that is an instructor's."""

    def preprocess_cell(self, cell, resources, cell_index):
        """Return the cell with `score`, `by_hand` (points, or None) and `extra` among its marks, and the resources."""
        cell, resources = super().preprocess_cell(cell, resources, cell_index)
        if is_grade(cell):
            marks, whose = cell.metadata.nbgrader, (self.notebook_id, self.assignment_id, self.student_id)
            grade = self.gradebook.find_grade(marks.grade_id, *whose)
            marks["by_hand"], marks["extra"] = grade.manual_score, grade.extra_credit or 0.0
            resources["nbgrader"]["late_seconds"] = grade.notebook.assignment.total_seconds_late
        return cell, resources


class CourseHTML(Exporter):
    """The course's feedback page in the place where nbgrader expects one of nbconvert's exporters."""

    output_mimetype = "text/html"

    @default("file_extension")
    def _file_extension_default(self) -> str:
        return ".html"

    def from_notebook_node(self, nb, resources=None, **kw):
        """Return the page of a notebook, after nbgrader has read its grades, and the resources."""
        notebook, resources = super().from_notebook_node(nb, resources, **kw)
        whose = resources["nbgrader"]
        penalty, late = whose["late_penalty"], whose.get("late_seconds", 0.0)
        page = feedback_page(notebook, whose["assignment"], whose["student"], penalty, late)
        return without_scripts(page), resources


def feedback_config() -> Config:
    """Return the settings under which nbgrader's feedback step uses `CourseHTML`."""
    made = Config()
    made.GenerateFeedback.exporter_class = CourseHTML
    made.GenerateFeedback.preprocessors = [GetWholeGrades]
    return made


def with_name(page: str, student_id: str, name: str, left_out: Iterable[str] = ()) -> str:
    """Return a page on which a student is called by name: nbgrader knows people by what can be a folder's name.

    `left_out` says which cells needed a file that was left behind (see `results.left_out_in`); it stands below.
    """
    notes = [f'<p class="note">{html.escape(said[:1].upper() + said[1:])}. {ALONE}</p>' for said in left_out]
    return page.replace(name_line(student_id), "\n".join([name_line(name), *notes]), 1)


def without_scripts(page: str) -> str:
    """Return an HTML page that runs no script and loads nothing: it holds whatever a student's cells put out.

    Our own page holds nothing that could; this keeps a browser from it should anything have been overlooked.
    """
    head, found, rest = page.partition("<head>")
    if not found:
        return f"<pre>{html.escape(page)}</pre>"
    rest = re.sub("http-equiv", "data-http-equiv", rest, flags=re.IGNORECASE)  # no redirection, no second policy
    return f'{head}{found}<meta http-equiv="Content-Security-Policy" content="{POLICY}">{rest}'


def without_places(page: str, places: Iterable[str]) -> str:
    """Return a page on which "…" stands for these folders, also where a path begins with one."""
    folders = sorted({place.rstrip("/") for place in places} - {""}, key=len, reverse=True)
    if not folders:
        return page
    # It must not be a part of a longer name or path, or of a picture's base64.
    return re.sub(rf"(?<![\w+/])(?:{'|'.join(map(re.escape, folders))})(?![\w.-])", "…", page)
