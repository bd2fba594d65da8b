"""Right work written in many ways: every one deserves all its points."""

from __future__ import annotations

import copy

from nbformat.v4 import new_code_cell, new_markdown_cell, new_output

from grader.classroom.repair import grade_id_of

from . import honest_answers as other
from .making import (
    CHAPTER_1,
    CHAPTER_2,
    CHAPTER_3,
    CHAPTER_4,
    CHAPTER_5,
    EVERYTHING,
    Submission,
    cell_of,
    solutions,
)

ONE = {
    "group_rollouts": other.GROUP_ROLLOUTS_COUNTER,
    "extract_boxed_strict": other.BOXED_RECURSIVE,
    "reward_rlvr": other.REWARD_INT,
    "fool_lenient_verifier": other.FOOL_OTHER,
    "checkpoint_accuracy": other.ACCURACY_NUMPY,
}
ONE_AGAIN = {
    "group_rollouts": other.GROUP_ROLLOUTS_COMPREHENSION,
    "extract_boxed_strict": other.BOXED_GENERATOR,
    "reward_rlvr": other.REWARD_NUMPY,
    "checkpoint_accuracy": other.ACCURACY_FRACTION,
}
LOOPS = {
    "group_relative_advantage": other.ADVANTAGE_LOOPS,
    "rollout_advantages": other.ROLLOUT_SORT,
    "zero_variance_fraction": other.ZERO_SETS,
    "log_softmax": other.SOFTMAX_LOOPS,
    "sequence_logprob": other.SEQUENCE_LOOP,
}
NUMPY = {
    "group_relative_advantage": other.ADVANTAGE_STATISTICS,
    "zero_variance_fraction": other.ZERO_PTP,
    "log_softmax": other.SOFTMAX_LOGADDEXP,
    "sequence_logprob": other.SEQUENCE_TAKE,
}
THREE = {
    "rollout_ratio": other.RATIO_PROD,
    "clipped_surrogate": other.CLIP_WHERE,
    "kl_k3": other.K3_LOOP,
    "grpo_loss": other.LOSS_LOOP,
}
SLEEPY = """
import time

def zero_variance_fraction(rewards, group_size):
    time.sleep(0.15)
    return slow_but_right(rewards, group_size)
"""
SLOW = """
def slow_but_right(rewards, group_size):
    values = [float(r) for r in rewards]
    if group_size < 2 or len(values) % group_size or any(v != v for v in values):
        raise ValueError("bad input")
    count = 0
    for i in range(0, len(values), group_size):
        same = True
        for a in values[i:i + group_size]:
            for b in values[i:i + group_size]:
                same = same and a == b
        count += same
    return count / (len(values) // group_size)
"""
LAMBDA = """
log_softmax = lambda logits: np.asarray(logits, float) - np.logaddexp.reduce(np.asarray(logits, float), -1)[..., None]
"""
DECORATED = """
import functools, time

def timed(fn):
    @functools.wraps(fn)
    def inner(*args, **kwargs):
        start = time.perf_counter()
        try:
            return fn(*args, **kwargs)
        finally:
            inner.seconds = time.perf_counter() - start
    return inner

@timed
@functools.wraps(np.log)
def log_softmax(logits):
    x = np.asarray(logits, dtype=float)
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))
"""
PARTIAL = """
import functools

def _scaled(divisor, logits):
    x = np.asarray(logits, dtype=float) / divisor
    return x - np.logaddexp.reduce(x, axis=-1, keepdims=True)

log_softmax = functools.partial(_scaled, 1.0)
"""
OBJECT = """
class LogSoftmax:
    def __call__(self, logits):
        x = np.asarray(logits, dtype=float)
        return x - np.logaddexp.reduce(x, axis=-1, keepdims=True)

log_softmax = LogSoftmax()
"""
GLOBALS = """
AXIS = -1
FLOAT = np.float64

def log_softmax(logits):
    global CALLS
    CALLS = globals().get("CALLS", 0) + 1
    x = np.asarray(logits, dtype=FLOAT)
    return x - np.logaddexp.reduce(x, axis=AXIS, keepdims=True)
"""
SCRATCH = """
x = np.linspace(-3, 3)
y = log_softmax(x)
y[0], y.sum()
"""
PLOT = """
import matplotlib.pyplot as plt

plt.plot(log_softmax(np.linspace(-3, 3)), label="mine")
plt.legend()
plt.show()
"""
MAGIC = """
%time log_softmax([1.0, 2.0])
%timeit -n 2 -r 2 log_softmax([1.0, 2.0])
%matplotlib inline
%who_ls
"""
SHELL = "!echo hello\nfiles = !ls\nprint(len(files))\n%pwd\nlog_softmax?"
FAILING = "log_softmax(None) / 0"
STDERR = "import sys\nprint('a message', file=sys.stderr)\nnp.log(np.zeros(2))"
STYLE = "import logging, warnings\nlogging.warning('careful')\nwarnings.warn('too')\nwarnings.simplefilter('ignore')"
SETTINGS = "np.set_printoptions(precision=2)\nnp.seterr(divide='ignore', over='warn')\nnp.random.seed(0)\n%precision 3"
CAPTURE = "%%capture seen\nprint('nobody sees this')"
OWN_TESTS = """
import unittest

class Tests(unittest.TestCase):
    def test_sum(self):
        self.assertAlmostEqual(np.exp(log_softmax([1.0, 2.0])).sum(), 1.0)

unittest.main(argv=["x"], exit=False)
"""
ASYNC = "import asyncio\nawait asyncio.sleep(0.01)\nprint('awaited')"
THREADED = "from concurrent.futures import ThreadPoolExecutor as Pool\nlist(Pool(2).map(log_softmax, [[1.0], [2.0]]))"
DISPLAY = """
from IPython import display as module
from IPython.display import display as show, publish_display_data
from pprint import pprint as display

display("mine"), show("theirs")
publish_display_data = print = None
"""
SAVED = "from pathlib import Path\nPath('notes.txt').write_text('a note')\nprint(Path('notes.txt').read_text())"


def stale_outputs(notebook) -> None:
    """Outputs and numbers of an earlier session, out of order."""
    for number, cell in enumerate(c for c in notebook.cells if c.cell_type == "code"):
        cell.execution_count = 40 - number
        cell.outputs = [new_output("stream", name="stderr", text="an old warning\n"),
                        new_output("error", ename="NameError", evalue="old", traceback=["old"])]  # fmt: skip


def half_cleared(notebook) -> None:
    """Every other cell cleared, collapsed and folded."""
    for number, cell in enumerate(notebook.cells):
        cell.metadata.update(collapsed=True, jupyter={"source_hidden": bool(number % 2)}, tags=["mine"])


def notes_everywhere(notebook) -> None:
    """Markdown of the student's own between all cells."""
    notebook.cells = [c for cell in notebook.cells for c in (new_markdown_cell("my *note*"), cell)]
    notebook.cells.append(new_code_cell(""))


def exercises_moved(notebook) -> None:
    """The two last exercises stand before the first, with what they need."""
    tail = notebook.cells[-4:]
    notebook.cells = [notebook.cells[0], *tail, *notebook.cells[1:-4]]


def helper_split(notebook) -> None:
    """A helper of the answer stands in a cell below a copy of its marks (as splitting a cell leaves it)."""
    cell = cell_of(notebook, "log_softmax_answer")
    first = copy.deepcopy(cell)
    first.id, first.source = "first-half", "def shift(x):\n    return x - x.max(axis=-1, keepdims=True)"
    cell.source = ("def log_softmax(logits):\n    x = shift(np.asarray(logits, dtype=float))\n"
                   "    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))")  # fmt: skip
    notebook.cells.insert(notebook.cells.index(cell), first)


def setup_lost(notebook) -> None:
    """Without the line that imports check, and with another name for numpy beside."""
    notebook.cells[0].source = "import numpy\nimport numpy as np\nimport grpo"


def checks_called_often(notebook) -> None:
    """check() called in cells of the student's own too."""
    for cell in [c for c in notebook.cells if c.source.startswith("check(")]:
        notebook.cells.insert(notebook.cells.index(cell), new_code_cell(f"print({cell.source})"))


def all_in_one_cell(notebook) -> None:
    """All functions in one cell of its own; the marked cells are as they were released."""
    notebook.cells.insert(1, new_code_cell("\n\n\n".join(solutions(CHAPTER_2).values())))


def merged_cells(notebook) -> None:
    """Two exercises merged into one cell, with the check between them."""
    first, check, second = notebook.cells[1:4]
    first.source = "\n\n".join(cell.source for cell in (first, check, second))
    del notebook.cells[2:4]


def marks_lost(notebook) -> None:
    """One cell without marks holds everything, as a script that became a notebook."""
    notebook.cells = [new_code_cell("\n\n".join(cell.source for cell in notebook.cells))]


def own_cells_only(notebook) -> None:
    """Everything but the first cell and the exercises thrown away, and a title put on top."""
    kept = [cell for cell in notebook.cells if grade_id_of(cell) or "import numpy" in cell.source]
    notebook.cells = [new_markdown_cell("# Homework"), *kept]


def right(name, style, chapter=CHAPTER_2, answers=None, cells=(), **more):
    """A submission that is right."""
    return Submission(name, "honest", style, chapter=chapter, answers=answers or {}, cells=cells,
                      deserves={EVERYTHING: 1.0}, **more)  # fmt: skip


SOFTMAX = "log_softmax"
AFTER = f"after {SOFTMAX}"

BATCH = [
    right("honest-solution", "the course's own answers"),
    right("honest-whole-1", "the whole notebook of chapter 01, plots and all", CHAPTER_1, whole=True),
    right("honest-whole-2", "the whole notebook of chapter 02, plots and all", whole=True),
    right("honest-counter", "Counter, recursion, boolean arithmetic", CHAPTER_1, ONE),
    right("honest-generators", "comprehensions, generators, match, fractions, type hints", CHAPTER_1, ONE_AGAIN),
    right("honest-mixed-1", "two hands in one notebook", CHAPTER_1,
          {**ONE_AGAIN, "reward_rlvr": other.REWARD_INT, "fool_lenient_verifier": other.FOOL_OTHER}),
    right("honest-loops", "loops in place of arrays, lists in place of arrays", answers=LOOPS),
    right("honest-numpy", "statistics, ptp, logaddexp, take_along_axis", answers=NUMPY),
    right("honest-float32", "single precision", answers={"group_relative_advantage": other.ADVANTAGE_SINGLE}),
    right("honest-class", "a dataclass with a cached property", answers={"sequence_logprob": other.SEQUENCE_CLASS}),
    right("honest-lambda", "a lambda", answers={SOFTMAX: LAMBDA}),
    right("honest-decorators", "two decorators around the function", answers={SOFTMAX: DECORATED}),
    right("honest-partial", "functools.partial", answers={SOFTMAX: PARTIAL}),
    right("honest-callable", "an object that can be called", answers={SOFTMAX: OBJECT}),
    right("honest-globals", "constants and a counter as globals", answers={SOFTMAX: GLOBALS}),
    right("honest-warnings", "warnings and standard error in every call", answers={SOFTMAX: other.SOFTMAX_WARNS}),
    right("honest-slow", "slow but finite, with a helper in another cell",
          answers={"zero_variance_fraction": SLEEPY}, cells=(("before zero_variance_fraction", SLOW),)),
    right("honest-scratch", "cells for trying things out", cells=((AFTER, SCRATCH), ("end", SCRATCH))),
    right("honest-plot", "a plot of its own", cells=((AFTER, PLOT),)),
    right("honest-magics", "%time, %timeit, %matplotlib, %who_ls", cells=((AFTER, MAGIC),)),
    right("honest-shell", "shell lines, their results, a question mark", cells=((AFTER, SHELL),)),
    right("honest-error", "a cell that fails", cells=((AFTER, FAILING),)),
    right("honest-stderr", "standard error and warnings of numpy", cells=((AFTER, STDERR), ("start", STYLE))),
    right("honest-settings", "print options, numpy errors raised, a seed", cells=(("start", SETTINGS),)),
    right("honest-capture", "a cell magic that keeps output", cells=((AFTER, CAPTURE),)),
    right("honest-own-tests", "unit tests of its own", cells=((AFTER, OWN_TESTS),)),
    right("honest-async", "await and threads at the top level", cells=((AFTER, ASYNC), ("end", THREADED))),
    right("honest-display", "display by other names, other things by its name", cells=(("start", DISPLAY),)),
    right("honest-files", "a file written and read", cells=((AFTER, SAVED),)),
    right("honest-stale", "old outputs, errors and numbers out of order", change=stale_outputs),
    right("honest-collapsed", "collapsed and tagged cells", change=half_cleared),
    right("honest-notes", "markdown between all cells, and an empty cell", change=notes_everywhere),
    right("honest-reordered", "exercises in another order", change=exercises_moved),
    right("honest-split", "an answer split in two cells with the same marks", change=helper_split),
    right("honest-no-setup", "the first cell rewritten", change=setup_lost),
    right("honest-checks", "check() called in cells of its own", change=checks_called_often),
    right("honest-one-cell", "all functions in one cell, the marked cells left alone", solved=False,
          change=all_in_one_cell),
    right("honest-merged", "two exercises merged into one cell", change=merged_cells),
    right("honest-script", "one cell without marks that holds everything", change=marks_lost),
    right("honest-widget", "a magic for another editor above an answer",
          answers={SOFTMAX: "%matplotlib widget\n" + solutions(CHAPTER_2)[SOFTMAX]}),
    right("honest-bare", "everything but the exercises thrown away", whole=True, change=own_cells_only),
    right("honest-3", "where, recursion, loops in chapter 03", CHAPTER_3, THREE),
    right("honest-3-solution", "chapter 03 with notes between the cells", CHAPTER_3, change=notes_everywhere),
    right("honest-4", "chapter 04 with the course's answers", CHAPTER_4),
    right("honest-5", "chapter 05 with the course's answers and stale outputs", CHAPTER_5, change=stale_outputs),
]  # fmt: skip
