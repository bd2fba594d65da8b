"""Read what happened off a graded notebook: each exercise's result, and what an instructor should look at."""

from __future__ import annotations

from nbformat import NotebookNode

from grader.classroom.engine.gradebook import Entry
from grader.classroom.intake import Submission
from grader.classroom.preprocessors import KERNEL_DIED, NOT_A_FUNCTION, NOT_RUN, TIMED_OUT, WITHHELD, error_names
from grader.classroom.states import Score
from grader.exercises import EXERCISES
from grader.report import CHECK_MIME


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
        return f"error: {said.ename}: {said.evalue}"[:200], ""
    return f"failed: {error.ename}: {error.evalue}"[:200], ""


def report_in(cell: NotebookNode) -> dict | None:
    """Return the judge's report in a check cell, if there is one."""
    return next((o.data[CHECK_MIME] for o in cell.outputs if CHECK_MIME in o.get("data", {})), None)


def trouble_in(notebook: NotebookNode) -> str:
    """Say what an instructor should look at, or nothing: a kernel that died, cells that ran out of time."""
    dead = [o.evalue for c in notebook.cells for o in c.get("outputs", []) if o.get("ename") == KERNEL_DIED]
    late = [str(i + 1) for i, cell in enumerate(notebook.cells) if TIMED_OUT in error_names(cell)]
    unreached = [o.evalue for c in notebook.cells for o in c.get("outputs", []) if o.get("ename") == NOT_RUN]
    if dead:
        return f"{dead[0]}; the cells after it were not run"
    if late:
        more = f"; {unreached[0]}" if unreached else ""
        return f"cell {', '.join(late)} ran out of time{more}"
    return unreached[0] if unreached else ""


def leaks_in(notebook: NotebookNode) -> list[str]:
    """Say which cells put out inputs that were drawn for the grading."""
    texts = [(i, str(o.get("text", ""))) for i, c in enumerate(notebook.cells, 1) for o in c.get("outputs", [])]
    return [f"cell {i} put out inputs that were drawn for the grading" for i, text in texts if text == WITHHELD]


def read_scores(one: Submission, notebook: NotebookNode, entry: Entry) -> tuple[tuple[Score, ...], list[str]]:
    """Read each exercise's result: what happened from the notebook, the points from the gradebook.

    Also returns what an instructor should know: checks that gave no result, and grades given by hand before.
    """
    cells, scores, remarks = cells_by_id(notebook), [], []
    for exercise in due_in(one.chapter):
        result, mistake = result_of(exercise.name, cells)
        grade, points = entry.grades.get(exercise.name), None
        if grade is None:
            result = "failed: the gradebook does not know this exercise"
        elif grade.manual is not None:
            remarks.append(
                f"{exercise.name} keeps the {grade.manual:g} points given by hand; the check gives {grade.auto or 0:g}"
            )
            points, result = grade.score, "graded by hand"
        elif not result.startswith("failed"):
            points = grade.score
        if result.startswith("failed"):
            remarks.append(f"{exercise.name}: {result}")
        scores.append(Score(one.student, one.chapter, exercise.name, points, exercise.points, result, mistake))
    return tuple(scores), remarks
