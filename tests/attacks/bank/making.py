"""How a submission of the bank is written down, and how it is made from the released notebook.

What a cell tries outside its box needs to know where things are. The marks @SECRET@, @OUT@, @ROOT@, @WORK@, @MATE@,
@PORT@ and @MARK@ in a source are replaced by the runner's places (see `Places`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from grader.classroom.repair import grade_id_of
from grader.exercises import EXERCISES
from grader.paths import NOTEBOOKS, SOLUTIONS, chapters, notebook_path

CHAPTER_1, CHAPTER_2, CHAPTER_3, CHAPTER_4, CHAPTER_5 = chapters()[:5]
SETUP = "import numpy as np\n\nimport grpo\nfrom grader import check"
EVERYTHING = "everything"


@dataclass(frozen=True)
class Places:
    """Where an attack looks: a file with a secret, a folder, the course, the grading, a classmate's file, a port."""

    secret: str
    out: str
    root: str
    work: str
    mate: str
    port: str
    mark: str = ""

    def fill(self, source: str) -> str:
        """Put the places into a source."""
        for one in fields(self):
            source = source.replace(f"@{one.name.upper()}@", getattr(self, one.name))
        return source


@dataclass(frozen=True)
class Submission:
    """One submission: how it differs from the released notebook, and what it deserves.

    Args:
        name: unique; also the student's name.
        kind: what sort of attack or of honest work it is.
        tries: what it tries, in a sentence.
        chapter: whose notebook.
        solved: whether the exercises left alone hold right answers (else the untouched stubs).
        answers: exercise -> source of its answer cell.
        cells: (place, source) of code cells put in. Places: "start", "end", "before NAME", "after NAME" (the check).
        change: a last change of the notebook itself (metadata, order, stored outputs).
        raw: a change of the file's bytes.
        layout: writes the student's folder in another way: layout(folder of the student, bytes of the notebook).
        whole: keep the chapter's other cells too (default: only the exercises and a short first cell).
        deserves: exercise -> points, or EVERYTHING -> full points everywhere; default: full points for right answers
            left alone, 0 for changed ones and for stubs.
        may_lose: exercises that the notebook itself may keep from being graded (its kernel is gone, say), or
            (EVERYTHING,).
        states: what `Graded.state` may be.
        flagged: an instructor must be told (`flags`), since no check can see it: the work of others that runs here.
        effects: which effects outside are looked for on its account, for the reader; the runner looks for all of them.
    """

    name: str
    kind: str
    tries: str
    chapter: str = CHAPTER_2
    solved: bool = True
    answers: Mapping[str, str] = field(default_factory=dict)
    cells: tuple[tuple[str, str], ...] = ()
    change: Callable[[NotebookNode], None] | None = None
    raw: Callable[[bytes], bytes] | None = None
    layout: Callable[[Path, bytes], None] | None = None
    whole: bool = False
    deserves: Mapping[str, float] = field(default_factory=dict)
    may_lose: tuple[str, ...] = ()
    states: tuple[str, ...] = ("graded",)
    flagged: bool = False
    effects: tuple[str, ...] = ()

    def due(self) -> dict[str, float]:
        """Return the points that each exercise of the chapter deserves."""
        full = points_of(self.chapter)
        if EVERYTHING in self.deserves:
            return dict.fromkeys(full, 0.0) | full if self.deserves[EVERYTHING] else dict.fromkeys(full, 0.0)
        right = {name: points if self.solved and name not in self.answers else 0.0 for name, points in full.items()}
        return {**right, **self.deserves}

    def write(self, folder: Path, places: Places) -> None:
        """Write folder/NAME/CHAPTER/CHAPTER.ipynb, or what `layout` makes of it."""
        data = nbformat.writes(self.notebook(places)).encode()
        data = self.raw(data) if self.raw else data
        student = folder / self.name
        if self.layout:
            student.mkdir(parents=True)
            self.layout(student, data)
            return
        path = notebook_path(student, self.chapter)
        path.parent.mkdir(parents=True)
        path.write_bytes(data)

    def notebook(self, places: Places) -> NotebookNode:
        """Return the notebook that is handed in."""
        made = released(self.chapter, self.whole)
        answers = {**(solutions(self.chapter) if self.solved else {}), **self.answers}
        for cell in made.cells:
            name = grade_id_of(cell).removesuffix("_answer")
            if cell.metadata.get("nbgrader", {}).get("solution") and name in answers:
                cell.source = places.fill(answers.pop(name)).strip("\n")
        if answers:
            raise ValueError(f"{self.name}: {self.chapter} has no answer cell for {list(answers)}")
        for place, source in self.cells:
            made.cells.insert(_index(made, place), new_code_cell(places.fill(source).strip("\n")))
        if self.change:
            self.change(made)
        return made


def points_of(chapter: str) -> dict[str, float]:
    """Return exercise -> most points of a chapter."""
    return {name: float(one.points) for name, one in EXERCISES.items() if one.chapter == chapter}


def released(chapter: str, whole: bool = False) -> NotebookNode:
    """Return a chapter as students get it; by default only its exercises, behind its imports."""
    made = copy.deepcopy(_read(notebook_path(NOTEBOOKS, chapter)))
    if not whole:
        imports = [
            cell for cell in made.cells[:12] if cell.cell_type == "code" and "\nfrom grpo." in f"\n{cell.source}"
        ]
        made.cells = [new_code_cell(SETUP), *imports, *(cell for cell in made.cells if grade_id_of(cell))]
    return made


def solutions(chapter: str) -> dict[str, str]:
    """Return exercise -> source of a right answer."""
    cells = _read(notebook_path(SOLUTIONS, chapter)).cells
    marked = {grade_id_of(cell): cell.source for cell in cells}
    return {name.removesuffix("_answer"): text for name, text in marked.items() if name.endswith("_answer")}


@cache
def _read(path: Path) -> NotebookNode:
    return nbformat.read(path, as_version=4)


def _index(notebook: NotebookNode, place: str) -> int:
    if place in ("start", "end"):
        return 1 if place == "start" else len(notebook.cells)
    side, name = place.split()
    wanted = f"{name}_answer" if side == "before" else name
    index = next(i for i, cell in enumerate(notebook.cells) if grade_id_of(cell) == wanted)
    return index if side == "before" else index + 1


def cell_of(notebook: NotebookNode, grade_id: str) -> NotebookNode:
    """Return the cell with this grade_id."""
    return next(cell for cell in notebook.cells if grade_id_of(cell) == grade_id)


def nothing(*names: str) -> dict[str, str]:
    """Return answers that are functions of these names, and no solutions."""
    return {name: f"def {name}(*args, **kwargs):\n    return None" for name in names}
