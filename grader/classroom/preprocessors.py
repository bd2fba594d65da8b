"""The two steps of `nbgrader autograde` that this course replaces or adds (see `course_config`).

`CourseExecute` takes the place of nbgrader's Execute. Cells run in the student's kernel, in a sandbox; a check cell
runs there too, but only its function is called there: the comparison happens here (see `grader.judge`). A kernel that
dies or hangs costs the cells it kept from running and nothing else. `OnlyChecks` follows: points come from a report
that the judge wrote and from nothing else, since nbgrader gives full points to a cell without any output, and none to
one that merely printed a warning.
"""

from __future__ import annotations

import os
import secrets

from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_output
from nbgrader.preprocessors import Execute, NbGraderPreprocessor
from nbgrader.utils import is_grade
from traitlets import Integer

from grader import source
from grader.checking import SEED_VARIABLE, run_check
from grader.classroom.repair import grade_id_of, shorten_prints
from grader.exercises import EXERCISES
from grader.judge.inside import ANSWER_MIME, MISSING, NO_FUNCTION, question
from grader.judge.wire import WireError, decode_outcomes, encode_calls
from grader.report import CHECK_MIME

KERNEL_DIED, TIMED_OUT, NOT_RUN, NO_RESULT = "KernelDied", "CellTimeoutError", "NotRun", "NoResult"
NOT_A_FUNCTION = "NotAFunction"
MAX_OUTPUT = 8_000_000  # bytes of output kept of one notebook


class NoAnswer(Exception):
    """The kernel was asked for a function's results and sent none that can be read; `output` says so in the cell."""

    def __init__(self, name: str, text: str):
        super().__init__(text)
        self.output = error_output(name, text)


def error_output(name: str, text: str) -> NotebookNode:
    """Return a notebook's error output, without a traceback beyond its own sentence."""
    return NotebookNode(output_type="error", ename=name, evalue=text, traceback=[f"{name}: {text}"])


def error_names(cell: NotebookNode) -> list[str]:
    """Return the names of the errors among a cell's outputs."""
    return [output.ename for output in cell.get("outputs", []) if output.output_type == "error"]


class CourseExecute(Execute):
    """Execute a notebook to its end, whatever its cells do to the kernel, and judge its check cells."""

    max_output = Integer(MAX_OUTPUT, help="bytes of output kept of one notebook").tag(config=True)

    def preprocess(self, nb, resources=None, km=None):
        self.stopped_by = ""
        self.timed_out_before = False
        self.output_left = self.max_output
        self.answers = {grade_id_of(cell): cell.source for cell in nb.cells if cell.cell_type == "code"}
        return super().preprocess(nb, resources, km)

    def preprocess_cell(self, cell, resources, index):
        if cell.cell_type != "code" or not cell.source.strip():
            return cell, resources
        if self.stopped_by:
            cell.outputs = [error_output(NOT_RUN, f"not run, since {self.stopped_by}")]
            return cell, resources
        try:
            if is_grade(cell) and grade_id_of(cell) in EXERCISES:
                self._judge(cell, resources, index)
            else:
                cell, resources = super().preprocess_cell(cell, resources, index)
        except DeadKernelError:
            self.stopped_by = f"the kernel died in cell {index + 1}"
            cell.outputs.append(error_output(KERNEL_DIED, self.stopped_by))
        except CellTimeoutError:  # a loop in compiled code hears no interrupt
            self.stopped_by = f"the kernel did not answer any more in cell {index + 1}"
            cell.outputs.append(error_output(TIMED_OUT, self.stopped_by))
        except ValueError as error:
            if "Signature" not in str(error):
                raise
            # A copy of the kernel (made by fork) talks on the same sockets: from here on no message means anything.
            self.stopped_by = f"the kernel talked nonsense in cell {index + 1}: its code had started copies of it"
            cell.outputs = [error_output(KERNEL_DIED, self.stopped_by)]
        timed_out = TIMED_OUT in error_names(cell)
        if timed_out and self.timed_out_before:
            # The interrupt after the first one did not free the kernel: waiting on every later cell helps nobody.
            self.stopped_by = f"the kernel did not answer any more in cell {index + 1}"
        self.timed_out_before = timed_out
        return cell, resources

    def process_message(self, msg, cell, cell_index):
        """Drop what a notebook puts out beyond its share, so that a flood fills neither memory nor the page."""
        if msg["msg_type"] in ("stream", "display_data", "execute_result", "error"):
            # An answer to the judge has limits of its own, and must not be lost to what was printed before.
            if ANSWER_MIME not in msg["content"].get("data", {}):
                self.output_left -= len(repr(msg["content"]))
            if self.output_left < 0:
                return None
        return super().process_message(msg, cell, cell_index)

    def _judge(self, cell, resources, index):
        """Fill a check cell with the judge's own report; the cell's code is not run at all."""
        name = grade_id_of(cell)
        cell.outputs = []
        count = None

        def ask(calls):
            nonlocal count
            asking = new_code_cell(question(name, encode_calls(calls)))
            try:
                super(CourseExecute, self).preprocess_cell(asking, resources, index)
            finally:
                self.nb.cells[index] = cell  # nbclient puts whatever it ran there
            count = asking.execution_count
            return _read_answer(name, asking, len(calls))

        try:
            code = source.code_in(self.answers.get(f"{name}_answer", ""), name)
            report = run_check(EXERCISES[name], None, _seed(), ask, code, secret=True)
        except NoAnswer as problem:
            cell.outputs = [problem.output]
        else:
            data = report._repr_mimebundle_()
            cell.outputs = [new_output("execute_result", data=data, execution_count=count)]
        cell.execution_count = count


def _seed() -> int:
    given = os.environ.get(SEED_VARIABLE, "")
    return int(given) if given else secrets.randbits(32)


def _read_answer(name, asking, count):
    """Return the outcomes that a kernel sent, which may be anything at all."""
    sent = [o.data[ANSWER_MIME] for o in asking.outputs if ANSWER_MIME in o.get("data", {})]
    if TIMED_OUT in error_names(asking):
        raise NoAnswer(TIMED_OUT, "the function did not come to an end")
    if len(sent) != 1 or not isinstance(sent[0], dict):
        raise NoAnswer(NO_RESULT, "the kernel sent no results of this function")
    problem = sent[0].get("problem")
    if problem == MISSING:
        raise NoAnswer("NameError", f"name '{name}' is not defined")
    if problem == NO_FUNCTION:
        raise NoAnswer(NOT_A_FUNCTION, f"{name} is no function when the check comes")
    try:
        return decode_outcomes(sent[0].get("outcomes"), count)
    except WireError as error:
        raise NoAnswer(NO_RESULT, f"the kernel sent no results that can be read: {error}") from None


class OnlyChecks(NbGraderPreprocessor):
    """Let only what the judge reported count as points."""

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
            cell.outputs = [error_output(NO_RESULT, "this cell holds no report of the judge, so it earns no points")]
        return cell, resources
