"""The two steps of `nbgrader autograde` that this course replaces or adds (see `course_config`).

`CourseExecute` takes the place of nbgrader's Execute. Cells run in the student's kernel, in a sandbox; a check cell
runs there too, but only its function is called there: the comparison happens here (see `grader.judge`). A kernel that
dies or hangs costs the cells it kept from running and nothing else. `OnlyChecks` follows: points come from a report
that the judge wrote and from nothing else, since nbgrader gives full points to a cell without any output, and none to
one that merely printed a warning.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import secrets
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import nbformat
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_output
from nbgrader.preprocessors import Execute, NbGraderPreprocessor
from nbgrader.utils import is_grade
from traitlets import Integer, Unicode

from grader import source
from grader.checking import SEED_VARIABLE, run_check
from grader.classroom.cells import cell_name
from grader.classroom.repair import MAX_PRINTED, grade_id_of, shorten_prints
from grader.classroom.repair_cells import bound_names
from grader.classroom.seeds import check_seed, content_digest
from grader.exercises import EXERCISES
from grader.judge.flags import RAN_FINISHED
from grader.judge.hidden import Hidden, hidden_values, holds_hidden
from grader.judge.inside import ANSWER_MIME, MISSING, NO_FUNCTION, question
from grader.judge.messages import believable
from grader.judge.watch import Watch, processes_of, use_of
from grader.judge.wire import WireError, decode_outcomes, encode_calls
from grader.report import CHECK_MIME

KERNEL_DIED, TIMED_OUT, NOT_RUN, NO_RESULT = "KernelDied", "CellTimeoutError", "NotRun", "NoResult"
NOT_A_FUNCTION = "NotAFunction"
NOT_ASKED = -1  # nothing that looks like an answer is kept then
WITHHELD = "(This cell put out inputs that were drawn for the grading; that is not shown.)\n"
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
MAX_SEARCHED = 1_000_000  # characters of one output that are searched for what must not be shown
TOO_LONG = f"(This cell put out more than {MAX_SEARCHED:,} characters in one piece; they are not shown.)\n"
MAX_OUTPUT = 8_000_000  # bytes of output kept of one notebook
NOTEBOOK_SECONDS = 900  # for all cells of one notebook; the chapters take up to 2 minutes


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


def waited_in(cell: NotebookNode) -> str:
    """Return what was noted of a cell that ran out of time while it computed little: " (…)", else ""."""
    noted = (re.search(r" \(it computed for .*\)$", o.evalue) for o in cell.outputs if o.get("ename") == TIMED_OUT)
    return next((found[0] for found in noted if found), "")


class Starved(Exception):
    """A cell ran out of time and had computed for less than half of it; on a less busy machine it may do better."""


class CourseExecute(Execute):
    """Execute a notebook to its end, whatever its cells do to the kernel, and judge its check cells."""

    max_output = Integer(MAX_OUTPUT, help="bytes of output kept of one notebook").tag(config=True)
    notebook_seconds = Integer(NOTEBOOK_SECONDS, help="time limit for all cells of a notebook").tag(config=True)
    began, stopped_by, timed_out_before, watch = 0.0, "", False, None
    may_repeat = False  # raise Starved where the notebook had better be judged once more
    hidden, drawn = Hidden(), ()  # what must not be shown, and (exercise, seed) of what is to come to it
    secret = Unicode(help="what the inputs of the checks are drawn from; empty: new ones each time").tag(config=True)

    def preprocess(self, nb, resources=None, km=None):
        self.began = time.monotonic()
        self.content = content_digest(nb)
        self.student = (resources or {}).get("nbgrader", {}).get("student", "")
        self.hidden, self.drawn = Hidden(), []
        self.watch, self.cpu_seconds = None, 0.0
        self.stopped_by = ""
        self.timed_out_before = False
        self.output_left = self.max_output
        self.answers_due = NOT_ASKED
        self.answers = {grade_id_of(cell): cell.source for cell in nb.cells if cell.cell_type == "code"}
        return super().preprocess(nb, resources, km)

    @contextmanager
    def setup_kernel(self, **kwargs):
        """Watch what the kernel's box takes, where it has one, and add up the CPU time that it took."""
        with super().setup_kernel(**kwargs):
            limits, pid = getattr(self.km, "limits", None), getattr(self.km.provisioner, "pid", None)
            if limits is None or pid is None:
                yield
                return
            with Watch(pid, limits, getattr(self.km, "private", None)) as self.watch:
                yield
            self.cpu_seconds = use_of(processes_of(pid), sys.maxsize).cpu_seconds

    def preprocess_cell(self, cell, resources, index):
        if cell.cell_type != "code" or not cell.source.strip():
            return cell, resources
        where = cell_name(self.nb.cells if self.nb else [cell] * (index + 1), index)
        if not self.stopped_by and self._elapsed() > self.notebook_seconds:
            self.stopped_by = f"the notebook ran longer than {self.notebook_seconds} seconds before {where}"
        if self.stopped_by:
            cell.outputs = [error_output(NOT_RUN, f"not run, since {self.stopped_by}")]
            return cell, resources
        limit, computed, began = self._get_timeout(cell), self._computed(), self._elapsed()
        try:
            if is_grade(cell) and grade_id_of(cell) in EXERCISES:
                self._judge(cell, resources, index)
            else:
                cell, resources = super().preprocess_cell(cell, resources, index)
                self._withhold(cell)
        except DeadKernelError:
            why = f": {self.watch.reason}" if self.watch is not None and self.watch.reason else ""
            self.stopped_by = f"the kernel died in {where}{why}"
            cell.outputs.append(error_output(KERNEL_DIED, self.stopped_by))
        except CellTimeoutError:  # a loop in compiled code hears no interrupt
            self.stopped_by = f"the kernel did not answer any more in {where}"
            cell.outputs.append(error_output(TIMED_OUT, self.stopped_by))
        except Exception as error:  # a message may hold anything, and each part of the client fails in its own way
            # A copy of the kernel (made by fork) talks on the same sockets: from here on no message means anything.
            why = ": its code had started copies of it" if "Signature" in str(error) else f" ({type(error).__name__})"
            self.stopped_by = f"the kernel talked nonsense in {where}{why}"
            cell.outputs = [error_output(KERNEL_DIED, self.stopped_by)]
        timed_out = TIMED_OUT in error_names(cell)
        # An error of this name may be the student's own: then the time is not up.
        if timed_out and limit is not None and computed is not None and self._elapsed() - began > 0.9 * limit:
            self._see_whether_starved(cell, where, limit, self._computed() - computed)
        if timed_out and self.timed_out_before:
            # The interrupt after the first one did not free the kernel: waiting on every later cell helps nobody.
            self.stopped_by = f"the kernel did not answer any more in {where}"
        self.timed_out_before = timed_out
        return cell, resources

    def _computed(self):
        """Return the CPU seconds that the kernel's box has taken so far, or None where that cannot be seen."""
        pid = getattr(getattr(self.km, "provisioner", None), "pid", None)
        if self.watch is None or pid is None or self.km.container:  # a container's processes are no children of ours
            return None
        return use_of(processes_of(pid), sys.maxsize).cpu_seconds

    def _see_whether_starved(self, cell, where, limit, computed):
        """Note of a cell that was stopped, or raise where it may be repeated, that it had computed for little."""
        if computed >= limit / 2:
            return
        note = f"(it computed for {computed:.0f} of its {limit} s: it waited, or the machine was too busy)"
        if self.may_repeat:
            raise Starved(f"{where} ran out of time {note}")
        for output in cell.outputs:
            if output.get("ename") == TIMED_OUT:
                output.evalue = f"{output.evalue} {note}"

    def process_message(self, msg, cell, cell_index):
        """Drop what no kernel sends, and what a notebook puts out beyond its share of memory and page."""
        msg = believable(msg)
        if msg is None:
            return None
        if msg["msg_type"] in ("stream", "display_data", "execute_result", "error"):
            # An answer to the judge has limits of its own, and must not be lost to what was printed before. One that
            # nobody asked for is none, and a second one is kept so that it can be seen that there are two.
            if ANSWER_MIME in msg["content"].get("data", {}):
                self.answers_due -= 1
                if self.answers_due < -1:
                    return None
            else:
                self.output_left -= len(repr(msg["content"]))
                if self.output_left < 0:
                    return None
        return super().process_message(msg, cell, cell_index)

    def _withhold(self, cell):
        """Drop what a cell put out of the inputs that a check before it had drawn: its function has seen them.

        What is longer than can be searched in a moment is not shown either.
        """
        texts = [_text_of(output) for output in cell.outputs]
        short = [(o, text) for o, text in zip(cell.outputs, texts, strict=True) if len(text) <= MAX_SEARCHED]
        if short:
            for name, seed in self.drawn:  # most checks are followed by no output before the next
                self.hidden |= hidden_values(EXERCISES[name], seed)
            self.drawn = []
        shown = [output for output, text in short if not holds_hidden(text, self.hidden)]
        notes = [TOO_LONG] * (len(short) < len(texts)) + [WITHHELD] * (len(shown) < len(short))
        if notes:
            cell.outputs = [*shown, *(new_output("stream", name="stdout", text=note) for note in notes)]

    def _judge(self, cell, resources, index):
        """Fill a check cell with the judge's own report; the cell's code is not run at all."""
        name = grade_id_of(cell)
        cell.outputs = []
        count, marks = None, {}

        def ask(calls):
            nonlocal count, marks
            asking = new_code_cell(question(name, encode_calls(calls)))
            self.answers_due = 1
            try:
                super(CourseExecute, self).preprocess_cell(asking, resources, index)
            finally:
                self.nb.cells[index] = cell  # nbclient puts whatever it ran there
                self.answers_due = NOT_ASKED
            count = asking.execution_count
            outcomes, ran_finished = _read_answer(name, asking, len(calls), self.answers.get(f"{name}_answer", ""))
            marks |= {RAN_FINISHED: True} if ran_finished else {}
            return outcomes

        seed = self._seed(name)
        self.drawn.append((name, seed))
        try:
            code = source.code_in(self.answers.get(f"{name}_answer", ""), name)
            report = run_check(EXERCISES[name], None, seed, ask, code, secret=True)
        except NoAnswer as problem:
            cell.outputs = [problem.output]
        else:
            data = report._repr_mimebundle_()
            cell.outputs = [new_output("execute_result", data=data, execution_count=count, metadata=marks)]
        cell.execution_count = count

    def _elapsed(self):
        return time.monotonic() - self.began if self.began else 0.0

    def _get_timeout(self, cell):
        """No cell may run longer than what is left of the notebook's time."""
        limit = super()._get_timeout(cell)
        left = max(1, int(self.notebook_seconds - self._elapsed()))
        return left if limit is None else min(limit, left)

    def _seed(self, name):
        if self.secret:
            return check_seed(self.secret, self.content, name, self.student)
        given = os.environ.get(SEED_VARIABLE, "")
        return int(given) if given else secrets.randbits(32)


class TakeJudged(CourseExecute):
    """Take the outputs of a notebook that was executed and judged before; execute only what differs from it."""

    judged = Unicode(help="where STUDENT/CHAPTER.json holds the judged notebooks").tag(config=True)

    def preprocess(self, nb, resources=None, km=None):
        who = resources["nbgrader"]
        path = Path(self.judged) / who["student"] / f"{who['assignment']}.json"
        try:
            done = nbformat.from_dict(json.loads(path.read_text(encoding="utf-8"))["notebook"])
            same = content_digest(done) == content_digest(nb)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):  # damaged: judge it again
            same = False
        if not same:
            return super().preprocess(nb, resources, km)
        for cell, judged in zip(nb.cells, done.cells, strict=True):
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = judged.outputs, judged.execution_count
        for name in {"language_info", "widgets"} & set(done.metadata):
            nb.metadata[name] = done.metadata[name]
        return nb, resources


def _text_of(output):
    """Return what an output says in words, not in pictures, as far as a page shows it (see `shorten_prints`).

    Lines stay lines and colours go: a number behind `\\n` or `[31m` would not look like one.
    """
    words = [data for kind, data in output.get("data", {}).items() if not kind.startswith("image/")]
    said = [output.get("text", "")[:MAX_PRINTED], output.get("evalue", ""), *output.get("traceback", []), *words]
    return COLOUR.sub("", "\n".join(one if isinstance(one, str) else json.dumps(one) for one in said))


def _read_answer(name, asking, count, answer=""):
    """Return the outcomes that a kernel sent, which may be anything at all, and whether it says that the finished
    function ran.

    `answer` is the text of the answer cell, which may define a function of another name.
    """
    sent = [o.data[ANSWER_MIME] for o in asking.outputs if ANSWER_MIME in o.get("data", {})]
    if TIMED_OUT in error_names(asking):
        raise NoAnswer(TIMED_OUT, "the function did not come to an end")
    if len(sent) != 1 or not isinstance(sent[0], dict):
        raise NoAnswer(NO_RESULT, "the kernel sent no results of this function")
    problem = sent[0].get("problem")
    if problem == MISSING:
        near = difflib.get_close_matches(name, bound_names(answer), n=1)
        instead = f"; its cell defines {near[0]}" if near else ""
        raise NoAnswer("NameError", f"name '{name}' is not defined{instead}")
    if problem == NO_FUNCTION:
        raise NoAnswer(NOT_A_FUNCTION, f"{name} is no function when the check comes")
    try:
        return decode_outcomes(sent[0].get("outcomes"), count), sent[0].get("finished") is True
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
