"""The two steps of `nbgrader autograde` that this course replaces or adds (see `course_config`).

`CourseExecute` takes the place of nbgrader's Execute: a kernel that dies or hangs costs the cells it kept from
running and nothing else. `OnlyChecks` follows it: points come from a result of `check()` and from nothing else, since
nbgrader gives full points to a cell without any output, and none to one that merely printed a warning.
"""

from __future__ import annotations

import os

from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from nbgrader.preprocessors import Execute, NbGraderPreprocessor
from nbgrader.utils import is_grade

from grader.checking import SEED_VARIABLE
from grader.classroom.repair import grade_id_of, shorten_prints
from grader.exercises import EXERCISES
from grader.report import CHECK_MIME

KERNEL_DIED, TIMED_OUT, NOT_RUN, NO_RESULT = "KernelDied", "CellTimeoutError", "NotRun", "NoResult"


def error_output(name: str, text: str) -> NotebookNode:
    """Return a notebook's error output, without a traceback beyond its own sentence."""
    return NotebookNode(output_type="error", ename=name, evalue=text, traceback=[f"{name}: {text}"])


def error_names(cell: NotebookNode) -> list[str]:
    """Return the names of the errors among a cell's outputs."""
    return [output.ename for output in cell.get("outputs", []) if output.output_type == "error"]


def grading_call(name: str) -> str:
    """Return the code that a check cell runs when it is graded.

    It does not use the notebook's own names, which a deleted setup cell or a variable called `check` would break, and
    it says which exercise is meant, so that a lambda or an alias is graded as what the cell asks for.
    """
    seed = os.environ.get(SEED_VARIABLE, "")
    return (
        f"__import__('importlib').import_module('grader.checking')"
        f".check({name}, exercise={name!r}, seed={int(seed) if seed else None})"
    )


class CourseExecute(Execute):
    """Execute a notebook to its end, whatever its cells do to the kernel."""

    def preprocess(self, nb, resources=None, km=None):
        self.stopped_by = ""
        self.timed_out_before = False
        return super().preprocess(nb, resources, km)

    def preprocess_cell(self, cell, resources, index):
        if cell.cell_type != "code" or not cell.source.strip():
            return cell, resources
        if self.stopped_by:
            cell.outputs = [error_output(NOT_RUN, f"not run, since {self.stopped_by}")]
            return cell, resources
        written, exercise = cell.source, grade_id_of(cell)
        if is_grade(cell) and exercise in EXERCISES:
            cell.source = grading_call(exercise)
        try:
            cell, resources = super().preprocess_cell(cell, resources, index)
        except DeadKernelError:
            self.stopped_by = f"the kernel died in cell {index + 1}"
            cell.outputs.append(error_output(KERNEL_DIED, self.stopped_by))
        except CellTimeoutError:  # a loop in compiled code hears no interrupt
            self.stopped_by = f"the kernel did not answer any more in cell {index + 1}"
            cell.outputs.append(error_output(TIMED_OUT, self.stopped_by))
        finally:
            cell.source = written
        timed_out = TIMED_OUT in error_names(cell)
        if timed_out and self.timed_out_before:
            # The interrupt after the first one did not free the kernel: waiting on every later cell helps nobody.
            self.stopped_by = f"the kernel did not answer any more in cell {index + 1}"
        self.timed_out_before = timed_out
        return cell, resources


class OnlyChecks(NbGraderPreprocessor):
    """Let only what `check()` returned count as points."""

    def preprocess_cell(self, cell, resources, index):
        shorten_prints(cell)
        if not is_grade(cell) or cell.cell_type != "code":
            return cell, resources
        for output in cell.outputs:
            if output.output_type == "stream" and output.name == "stderr":
                output.name = "stdout"  # nbgrader reads any stderr as failure; a warning is none
        results = [output for output in cell.outputs if output.output_type == "execute_result"]
        reports = [output.data[CHECK_MIME] for output in results if CHECK_MIME in output.data]
        mine = len(results) == len(reports) == 1 and reports[0].get("exercise") == grade_id_of(cell)
        if not error_names(cell) and not mine:
            cell.outputs = [error_output(NO_RESULT, "this cell brought no result of check(), so it earns no points")]
        return cell, resources
