"""Derive a notebook's nbgrader metadata from what its cells say, so that nobody has to write it by hand.

A code cell with `### BEGIN SOLUTION` that defines the function of an exercise is that exercise's answer cell; a cell
that holds nothing but `check(NAME)` is its check cell, with NAME as its grade_id and the exercise's points. The
code of a longer cell that draws a picture is folded: most readers want the picture, and one click opens the code.
"""

from __future__ import annotations

import re

from nbformat import NotebookNode

from grader.exercises import EXERCISES

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
DRAWS, FOLD_FROM = "plt.show()", 12
_CHECK = re.compile(r"check\((\w+)\)")
_DEF = re.compile(r"^def (\w+)\(", re.MULTILINE)


def annotate(notebook: NotebookNode, chapter: str) -> None:
    """Write nbgrader metadata and settled notebook metadata into `notebook`, in place.

    Raises:
        ValueError: a cell and the exercises disagree; the message names the chapter, the cell and the remedy.
    """
    answers: dict[str, int] = {}
    checks: dict[str, int] = {}
    for index, cell in enumerate(notebook.cells):
        cell.metadata.pop("nbgrader", None)
        if cell.cell_type != "code":
            continue
        where = f"{chapter}, cell {index}"
        _fold(cell, DRAWS in cell.source and cell.source.count("\n") >= FOLD_FROM)
        match = _CHECK.fullmatch(cell.source.strip())
        if match:
            _once(checks, _known(match[1], chapter, where), index, where, "check cell")
            _mark(cell, match[1], grade=True, points=EXERCISES[match[1]].points)
        elif BEGIN in cell.source:
            name = _answered(cell.source, chapter, where)
            _once(answers, name, index, where, "answer cell")
            _mark(cell, f"{name}_answer", solution=True)
    due = [name for name, exercise in EXERCISES.items() if exercise.chapter == chapter]
    for name in due:
        if name not in answers or name not in checks:
            what = "answer cell (with BEGIN SOLUTION)" if name not in answers else f"cell `check({name})`"
            raise ValueError(f"{chapter}: the exercise {name} has no {what}; add it or take the exercise out")
        if checks[name] < answers[name]:
            raise ValueError(f"{chapter}: the check of {name} stands before its answer cell; swap them")
    notebook.metadata = NotebookNode(
        kernelspec={"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
        language_info={"name": "python"},
    )


def _fold(cell: NotebookNode, fold: bool) -> None:
    jupyter = {key: value for key, value in cell.metadata.pop("jupyter", {}).items() if key != "source_hidden"}
    if fold:
        jupyter["source_hidden"] = True
    if jupyter:
        cell.metadata["jupyter"] = NotebookNode(jupyter)


def _known(name: str, chapter: str, where: str) -> str:
    if name not in EXERCISES:
        raise ValueError(f"{where}: no exercise is called {name!r}; add it to grader/exercises or correct the name")
    if EXERCISES[name].chapter != chapter:
        raise ValueError(f"{where}: {name} belongs to {EXERCISES[name].chapter}; move the cell or the exercise")
    return name


def _answered(source: str, chapter: str, where: str) -> str:
    if source.count(BEGIN) != 1 or source.count(END) != 1:
        raise ValueError(f"{where}: an answer cell needs exactly one '{BEGIN}' and one '{END}'")
    before = _DEF.findall(source[: source.index(BEGIN)])
    if not before:
        raise ValueError(f"{where}: '{BEGIN}' must stand inside the function that the exercise asks for")
    return _known(before[-1], chapter, where)


def _once(seen: dict[str, int], name: str, index: int, where: str, what: str) -> None:
    if name in seen:
        raise ValueError(f"{where}: a second {what} for {name} (the first is cell {seen[name]}); remove one")
    seen[name] = index


def _mark(cell: NotebookNode, grade_id: str, grade: bool = False, solution: bool = False, points: int = 0) -> None:
    meta = {
        "grade": grade,
        "grade_id": grade_id,
        "locked": grade,
        "schema_version": 3,
        "solution": solution,
        "task": False,
    }
    if grade:
        meta["points"] = points
    cell.metadata["nbgrader"] = NotebookNode(meta)
