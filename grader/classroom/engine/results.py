"""Read what happened off a graded notebook: each exercise's result, and what an instructor should look at."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from nbformat import NotebookNode

from grader.classroom.cells import cell_name
from grader.classroom.intake import Submission
from grader.classroom.intake_notebook import exercise_of
from grader.classroom.preprocessors import (
    KERNEL_DIED,
    NOT_A_FUNCTION,
    NOT_RUN,
    TIMED_OUT,
    WITHHELD,
    error_names,
    waited_in,
)
from grader.classroom.states import Score
from grader.exercises import EXERCISES
from grader.report import CHECK_MIME

LEFT_BEHIND = "which was handed in beside the notebook and left behind"
# What Python and NumPy say of a file that is not there, and how much of what a student's cells put out is read for it.
NO_FILE, NO_MODULE = ("No such file or directory", "not found"), re.compile(r"No module named \W{0,4}(\w+)")
MAX_SAID, MAX_LINE, MAX_READ = 20_000, 2_000, 100_000  # characters of an output, of a line, of a notebook

if TYPE_CHECKING:
    from grader.classroom.engine.gradebook import Entry

# What IPython calls a cell in the message of a syntax error.
IPYTHON_FILE = re.compile(r"\((?:\d+|<ipython-input[^>]*>|ipython-input[^)]*?)(?:\.py)?, line (\d+)\)")


def due_in(chapter: str) -> list:
    """Return the exercises of a chapter."""
    return [exercise for exercise in EXERCISES.values() if exercise.chapter == chapter]


def no_scores(submission: Submission, result: str) -> tuple[Score, ...]:
    """Return a score without points for each exercise of a submission that could not be graded."""
    due = due_in(submission.chapter)
    return tuple(Score(submission.student, e.chapter, e.name, None, e.points, result) for e in due)


def cells_by_id(notebook: NotebookNode) -> dict[str, NotebookNode]:
    """Return the cells that carry a grade_id."""
    return {c.metadata.nbgrader.grade_id: c for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade_id")}


def result_of(name: str, cells: dict[str, NotebookNode]) -> tuple[str, str]:
    """Return (result, mistake) of an exercise. A result that begins with "failed" is not the student's doing."""
    cell, answer = cells.get(name), cells.get(f"{name}_answer")
    if cell is None:
        return "failed: the check cell is missing", ""
    error = next((output for output in cell.outputs if output.output_type == "error"), None)
    if error is None:
        report = report_in(cell)
        return (report["state"], report["mistake"]) if report else ("failed: no result", "")
    if error.ename in (KERNEL_DIED, NOT_RUN):
        return error.evalue, ""
    if error.ename == TIMED_OUT:
        return "the cell ran out of time", ""
    if error.ename == NOT_A_FUNCTION:
        return f"error: {error.evalue}", ""
    if error.ename == "NameError" and f"'{name}'" in error.evalue:  # no such function: the answer cell says why
        said = next((o for o in (answer or {}).get("outputs", []) if o.output_type == "error"), error)
        return IPYTHON_FILE.sub(r"(line \1)", f"error: {said.ename}: {said.evalue}"[:200]), ""
    return f"failed: {error.ename}: {error.evalue}"[:200], ""


def report_in(cell: NotebookNode) -> dict | None:
    """Return the judge's report in a check cell, if there is one."""
    return next((o.data[CHECK_MIME] for o in cell.outputs if CHECK_MIME in o.get("data", {})), None)


def trouble_in(notebook: NotebookNode) -> str:
    """Say what an instructor should look at, or nothing: a kernel that died, cells that ran out of time."""
    dead = [o.evalue for c in notebook.cells for o in c.get("outputs", []) if o.get("ename") == KERNEL_DIED]
    late = [
        f"{cell_name(notebook.cells, index)} ran out of time{waited_in(cell)}"
        for index, cell in enumerate(notebook.cells)
        if TIMED_OUT in error_names(cell)
    ]
    unreached = [o.evalue for c in notebook.cells for o in c.get("outputs", []) if o.get("ename") == NOT_RUN]
    if dead:
        return f"{dead[0]}; the cells after it were not run"
    if late:
        return "; ".join([*late, *unreached[:1]])
    return unreached[0] if unreached else ""


def left_out_in(notebook: NotebookNode, left: Sequence[str]) -> list[str]:
    """Say which cells needed a file that was handed in beside the notebook and is not there when it is graded.

    Args:
        left: those files, as paths seen from the notebook's folder.
    """
    found, unread = [], MAX_READ
    for index, cell in enumerate(notebook.cells):
        lines = [line for output in cell.get("outputs", []) for line in _complaints(output)]
        said = "\n".join(lines)[:unread]
        unread -= len(said)
        if said:
            files = "\n".join(line for line in said.splitlines() if any(words in line for words in NO_FILE))
            modules = set(NO_MODULE.findall(said))
            missed = [name for name in left if PurePosixPath(name).name in files or _module_of(name) in modules]
            where = cell_name(notebook.cells, index) if missed else ""
            found += [f"{where} needs {name}, {LEFT_BEHIND}" for name in missed]
    return found


def _module_of(name: str) -> str:
    path = PurePosixPath(name)
    return path.parts[0].removesuffix(".py") if path.suffix == ".py" else ""


def _complaints(output: NotebookNode) -> list[str]:
    """Return the lines in which an output says that something is not there: it is the error of the cell itself, or the
    one that the judge reports of the function. A long text is read at both ends, as is a long line in it."""
    report = output.get("data", {}).get(CHECK_MIME)
    if output.output_type == "error":
        said = f"{output.ename}: {_ends(output.evalue, MAX_SAID)}"
    elif report:  # each text of it stands on lines of its own
        said = _ends(json.dumps(report, ensure_ascii=False, indent=0).replace("\\n", "\n"), MAX_SAID)
    else:
        return []
    lines = said.splitlines()
    return [_ends(line, MAX_LINE) for line in lines if NO_MODULE.search(line) or any(w in line for w in NO_FILE)]


def _ends(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most // 2]} … {text[-(most // 2) :]}"


def leaks_in(notebook: NotebookNode) -> list[str]:
    """Say which cells put out inputs that were drawn for the grading."""
    return [
        f"{cell_name(notebook.cells, index)} put out inputs that were drawn for the grading"
        for index, cell in enumerate(notebook.cells)
        if any(output.get("text", "") == WITHHELD for output in cell.get("outputs", []))
    ]


@dataclass(frozen=True)
class Reading:
    """What a graded notebook and the gradebook say: a score for each exercise, and what there is to know.

    `review` says what an instructor must look at, `notes` what is merely so. `settled` tells whether somebody has given
    points by hand and has done so for every exercise that has no result or was not reached; `all_seen`, for every one
    that does not have all its points.
    """

    scores: tuple[Score, ...]
    review: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    settled: bool = False
    all_seen: bool = False


def read_scores(one: Submission, notebook: NotebookNode, entry: Entry) -> Reading:
    """Read each exercise's result: what happened from the notebook, the points from the gradebook."""
    cells, scores, review, notes, by_hand, lost = cells_by_id(notebook), [], [], [], set(), set()
    said = _remarks_by_exercise(entry.remarks)
    for exercise in due_in(one.chapter):
        result, mistake = result_of(exercise.name, cells)
        if result.startswith("failed") or cut_short(cells.get(exercise.name)):
            lost.add(exercise.name)
        grade, points = entry.grades.get(exercise.name), None
        if grade is None:
            result = "failed: the gradebook does not know this exercise"
        elif grade.manual is not None:
            says = f"the check gives {grade.auto or 0:g}"
            if grade.open:
                review.append(
                    f"{exercise.name} has {grade.manual:g} points by hand, given before it was graded anew; {says}: "
                    "save them again in formgrader, or others"
                )
            else:
                by_hand.add(exercise.name)
                notes.append(f"{exercise.name} has {grade.manual:g} points by hand; {says}")
            points, result = grade.score, "graded by hand"
        elif not result.startswith("failed"):
            points = grade.score
        if result.startswith("failed"):
            review.append(f"{exercise.name}: {result}")
        if grade is not None and grade.extra:
            extra = f"{grade.extra:g} point{'' if grade.extra == 1 else 's'} of extra credit"
            if grade.open and grade.manual is None:
                review.append(
                    f"{exercise.name} has {extra}, given before it was graded anew: save it again in formgrader"
                )
            else:
                notes.append(f"{exercise.name} has {extra}")
            result = result if points is None else f"{result}, {extra}"
        words = (result, mistake, said.pop(exercise.name, ""))
        scores.append(Score(one.student, one.chapter, exercise.name, points, exercise.points, *words))
    notes += [f"the comment on {name} stands on the feedback page alone" for name in said]
    short = {one.exercise for one in scores if one.points is None or one.points < one.max_points}
    settled = bool(by_hand) and lost <= by_hand
    return Reading(tuple(scores), tuple(review), tuple(notes), settled, settled and short <= by_hand)


def _remarks_by_exercise(remarks: Mapping[str, str]) -> dict[str, str]:
    """Join what somebody has written to the cells of each exercise, without empty lines at its ends."""
    found: dict[str, list[str]] = {}
    for cell, text in remarks.items():
        # All line ends become one kind: a lone \r would break the report's CSV files.
        lines = [line.rstrip() for line in text.strip().splitlines()]
        found.setdefault(exercise_of(cell), []).extend(lines)
    return {name: "\n".join(lines) for name, lines in found.items() if lines}


def cut_short(check: NotebookNode | None) -> bool:
    """Tell whether a check gave no result for a reason that an instructor should look at."""
    return check is None or bool({KERNEL_DIED, NOT_RUN, TIMED_OUT} & set(error_names(check)))
