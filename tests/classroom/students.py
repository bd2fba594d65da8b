"""A class of students, as files: each hands in chapter 02 in a way of their own.

`hand_in(folder)` writes the tree that an instructor gets: folder/STUDENT/CHAPTER/*.ipynb.
"""

from __future__ import annotations

import copy
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from grader.paths import NOTEBOOKS, SOLUTIONS, notebook_path

CHAPTER = "02_advantages_and_logprobs"
OTHER_CHAPTER = "01_rollouts_and_rewards"

DDOF_0 = """
import numpy as np

def group_relative_advantage(rewards, group_size, eps=1e-4):
    rewards = np.asarray(rewards, dtype=float)
    if group_size < 2 or rewards.size == 0 or rewards.size % group_size or not np.isfinite(rewards).all():
        raise ValueError("no whole groups of finite rewards")
    groups = rewards.reshape(-1, group_size)
    return (groups - groups.mean(axis=1, keepdims=True)) / (groups.std(axis=1, keepdims=True) + eps)
"""

NO_TEMPERATURE = """
import numpy as np

def sequence_logprob(logits, token_ids, prompt_len, temperature=1.0):
    logits = np.asarray(logits, dtype=float)
    if len(logits) != len(token_ids) - 1 or not 1 <= prompt_len < len(token_ids):
        raise ValueError("shapes")
    if temperature <= 0 or min(token_ids) < 0 or max(token_ids) >= logits.shape[1]:
        raise ValueError("values")
    top = logits.max(axis=-1, keepdims=True)
    logps = logits - top - np.log(np.exp(logits - top).sum(axis=-1, keepdims=True))
    return sum(logps[t - 1, token_ids[t]] for t in range(prompt_len, len(token_ids)))
"""

NAIVE_LOG_SOFTMAX = """
import numpy as np

def log_softmax(logits):
    return np.log(np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True))
"""

ENDLESS = """
def zero_variance_fraction(rewards, group_size):
    while True:
        pass
"""

CRASH = """
import os

def zero_variance_fraction(rewards, group_size):
    os._exit(1)
"""

ASKS = """
def zero_variance_fraction(rewards, group_size):
    return float(input("which fraction? "))
"""

BROKEN_SYNTAX = "def zero_variance_fraction(rewards, group_size:\n    return 0"

COMPILED_LOOP = """
def sequence_logprob(logits, token_ids, prompt_len, temperature=1.0):
    return float(sum(range(10**13)))
"""

LAMBDA = """
import numpy as np

zero_variance_fraction = lambda rewards, group_size: grpo.zero_variance_fraction(rewards, group_size)
"""

NOISY = """
import sys, warnings
import numpy as np

def zero_variance_fraction(rewards, group_size):
    print("working on", rewards)
    print("to stderr", file=sys.stderr)
    warnings.warn("just saying")
    rewards = np.asarray(rewards, dtype=float)
    if group_size < 2 or rewards.size == 0 or rewards.size % group_size or not np.isfinite(rewards).all():
        raise ValueError("no whole groups of finite rewards")
    groups = rewards.reshape(-1, group_size)
    return np.float32(np.mean([all(row == row[0]) for row in groups]))
"""

NAMES = ("group_relative_advantage", "rollout_advantages", "zero_variance_fraction", "log_softmax", "sequence_logprob")
ALL_WRONG = {name: f"def {name}(*args, **kwargs):\n    return None" for name in NAMES}


def solved() -> NotebookNode:
    """The students' notebook with the answers of the solution in it."""
    return with_answers(_solutions())


def with_answers(answers: dict[str, str], base: NotebookNode | None = None) -> NotebookNode:
    """A copy of `base` (default: the released notebook) in which the named exercises have these answers."""
    notebook = copy.deepcopy(base) if base else nbformat.read(notebook_path(NOTEBOOKS, CHAPTER), as_version=4)
    left = dict(answers)
    for cell in notebook.cells:
        name = cell.metadata.get("nbgrader", {}).get("grade_id", "").removesuffix("_answer")
        if cell.metadata.get("nbgrader", {}).get("solution") and name in left:
            cell.source = left.pop(name).strip("\n")
    assert not left, f"no answer cell for {list(left)}"
    return notebook


def _solutions() -> dict[str, str]:
    cells = nbformat.read(notebook_path(SOLUTIONS, CHAPTER), as_version=4).cells
    marked = {c.metadata.nbgrader.grade_id: c.source for c in cells if "nbgrader" in c.metadata}
    return {name.removesuffix("_answer"): source for name, source in marked.items() if name.endswith("_answer")}


def hand_in(folder: Path) -> None:
    """Write the whole class."""
    right = solved()
    untouched = with_answers({})

    _write(folder, "ana", right)
    _write(folder, "ben", untouched)
    _write(folder, "cleo", with_answers({"group_relative_advantage": DDOF_0}, right))
    _write(folder, "dev", with_answers({"sequence_logprob": NO_TEMPERATURE, "log_softmax": NAIVE_LOG_SOFTMAX}, right))
    _write(folder, "eve", with_answers({"zero_variance_fraction": CRASH}, right))
    _write(folder, "finn", with_answers({"zero_variance_fraction": ENDLESS}, right))
    loop = copy.deepcopy(right)
    loop.cells.insert(2, new_code_cell("while True:\n    pass"))
    _write(folder, "gus", loop)
    _write(folder, "hana", right, name="my chapter 2 (final version).ipynb")
    _write(folder, "ivo", with_answers({"zero_variance_fraction": BROKEN_SYNTAX}, right))
    _write(folder, "kim", right).write_text("this is not a notebook")
    _write(folder, "lea", with_answers({"zero_variance_fraction": NOISY}, right))
    removed = copy.deepcopy(right)
    removed.cells = [c for c in removed.cells if c.source.strip() != "check(log_softmax)"]
    _write(folder, "max", removed)
    edited = with_answers({})
    for cell in edited.cells:
        if cell.source.startswith("check("):
            cell.source = "99"
    _write(folder, "nia", edited)
    _write(folder, "oli", with_answers({"zero_variance_fraction": ASKS}, right))
    _write(folder, "quin", with_answers(ALL_WRONG))
    _write(folder, "rosa", right, name="one.ipynb")
    _write(folder, "rosa", with_answers({"group_relative_advantage": DDOF_0}), name="two.ipynb")
    _write(folder, "sam", nbformat.read(notebook_path(NOTEBOOKS, OTHER_CHAPTER), as_version=4))
    (folder / "tess" / CHAPTER).mkdir(parents=True)

    # What honest people do to a notebook without noticing.
    copied = copy.deepcopy(right)
    answer = next(i for i, c in enumerate(copied.cells) if c.source.startswith("def log_softmax"))
    copied.cells.insert(answer, copy.deepcopy(copied.cells[answer]))
    copied.cells[answer].id = "copied-cell"
    copied.cells[answer].source = "helper_rows = 2"  # the first half of a split cell, say
    _write(folder, "abe", copied)
    lost = copy.deepcopy(right)
    lost.cells = [c for c in lost.cells if "log_softmax" not in c.metadata.get("nbgrader", {}).get("grade_id", "")]
    _write(folder, "bea", lost)
    no_setup = copy.deepcopy(right)
    setup = next(c for c in no_setup.cells if "from grader import check" in c.source)
    setup.source = "import grpo\nimport numpy as np\nimport matplotlib.pyplot as plt\ncheck = 1.0 == 1.0"
    _write(folder, "cai", no_setup)
    _write(folder, "dot", with_answers({"zero_variance_fraction": LAMBDA}, right))
    _write(folder, "eli", with_answers({"sequence_logprob": COMPILED_LOOP}, right))
    alias = {"sequence_logprob": "sequence_logprob = group_relative_advantage"}
    _write(folder, "fay", with_answers(alias, right))
    misplaced = _write(folder, "gil", right)
    misplaced.rename(folder / "gil" / "chapter two.IPYNB")
    bom = _write(folder, "hal", right)
    bom.write_bytes(b"\xef\xbb\xbf" + bom.read_bytes())
    _write(folder, "zoe\u0308", right)  # the accent as a character of its own


def hand_in_one(folder: Path, student: str) -> None:
    """Write one student's right answers."""
    _write(folder, student, solved())


def _write(folder: Path, student: str, notebook: NotebookNode, name: str = f"{CHAPTER}.ipynb") -> Path:
    path = folder / student / CHAPTER / name
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, path)
    return path
