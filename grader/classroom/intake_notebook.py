"""Read one notebook that somebody handed in: of all that is in it, only its cells' texts and their marks are kept.

Nothing here relies on what the file says about itself beyond the format's number: what is not a text where a text is
due makes the file unreadable, with a reason, and everything that is not kept (outputs, tags, attachments) cannot do
any harm later.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from grader.classroom.intake_kinds import what_it_is
from grader.classroom.repair_cells import DEFINES, bound_names
from grader.exercises import EXERCISES

MAX_BYTES = 20_000_000
MAX_CELLS = 3_000
MAX_PARTS = 500_000  # lists and objects; each takes up to two hundred bytes of memory, however short it is written
MAX_CODE = 500_000  # characters in all code cells; what we release has up to about fifty thousand
KINDS = ("code", "markdown", "raw")


class IntakeError(Exception):
    """Something that was handed in, or the whole folder, cannot be read; the message says why and what to do."""


@dataclass(frozen=True)
class Cell:
    """What is kept of one cell: its kind ("code", "markdown" or "raw"), its text, its mark and what the mark says."""

    kind: str
    source: str
    grade_id: str = ""
    marks: dict = field(default_factory=dict)


def read_cells(data: bytes, name: str) -> tuple[Cell, ...]:
    """Return the cells of a notebook in nbformat 4, given as the bytes of the file called `name`.

    Raises:
        IntakeError: too large, too many parts, no JSON, another format, or cells that are none.
    """
    if len(data) > MAX_BYTES:
        raise IntakeError(too_large(name))
    if data.count(b"[") + data.count(b"{") > MAX_PARTS:
        raise IntakeError(f"{name} holds more than {MAX_PARTS:,} lists and objects; clear its outputs")
    try:
        notebook = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError, MemoryError):  # ValueError: also bytes that are not UTF-8
        raise IntakeError(f"{name} is not a readable Jupyter notebook: {what_it_is(data)}") from None
    if not isinstance(notebook, dict):
        raise IntakeError(f"{name} is not a readable Jupyter notebook (it holds {_kind(notebook)}, no object)")
    version = notebook.get("nbformat")
    if version != 4:
        found = f"in nbformat {str(version)[:20]}" if version is not None else "without a number of its nbformat"
        raise IntakeError(f"{name} is a notebook {found}; this course takes nbformat 4 (save it with JupyterLab again)")
    cells = notebook.get("cells")
    if not isinstance(cells, list):
        raise IntakeError(f"{name} is not a readable Jupyter notebook (it has no list of cells)")
    if len(cells) > MAX_CELLS:
        raise IntakeError(f"{name} has {len(cells):,} cells; up to {MAX_CELLS:,} are read")
    read = tuple(_cell(cell, f"{name}, cell {number}") for number, cell in enumerate(cells, 1))
    if sum(len(cell.source) for cell in read if cell.kind == "code" or cell.grade_id) > MAX_CODE:
        raise IntakeError(f"{name} has more than {MAX_CODE:,} characters of code; data belongs into no code cell")
    return read


def too_large(name: str) -> str:
    """Say that a file is too large."""
    return f"{name} is larger than {MAX_BYTES // 1_000_000} MB; clear its outputs and hand it in again"


def chapters_in(cells: tuple[Cell, ...]) -> set[str]:
    """Return the chapters whose exercises are in a notebook: by the marks of its cells, else by what it defines.

    Some editors drop the marks. Then the chapter is the one most of whose functions are defined there.
    """
    marked = {EXERCISES[name].chapter for cell in cells if (name := exercise_of(cell.grade_id)) in EXERCISES}
    if marked:
        return marked
    counts: dict[str, int] = {}
    code = [cell.source for cell in cells if cell.kind == "code"]
    written = {word for source in code for match in DEFINES.findall(source) for word in match} & EXERCISES.keys()
    bound = {name for source in code if any(name in source for name in written) for name in bound_names(source)}
    for name in written & bound:
        counts[EXERCISES[name].chapter] = counts.get(EXERCISES[name].chapter, 0) + 1
    return {max(counts, key=lambda chapter: (counts[chapter], chapter))} if counts else set()


def exercise_of(grade_id: str) -> str:
    """Return the exercise that an answer cell or a check cell with this mark belongs to."""
    return grade_id.removesuffix("_answer")


def _cell(cell: object, where: str) -> Cell:
    if not isinstance(cell, dict) or cell.get("cell_type") not in KINDS:
        kind = str(cell.get("cell_type") if isinstance(cell, dict) else _kind(cell))[:30]
        raise IntakeError(f"{where}, is no cell (its type is {kind!r}; it should be one of {', '.join(KINDS)})")
    source = "" if cell.get("source", 0) is None else cell.get("source")
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        source = "".join(source)
    if not isinstance(source, str):
        raise IntakeError(f"{where}, has no text")
    metadata = cell.get("metadata")
    marks = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    marks = marks if isinstance(marks, dict) else {}
    grade_id = marks.get("grade_id")
    # Halves of characters cannot be written to a file; editors hide a mark of the byte order, and Python refuses it.
    source = source.encode("utf-8", "replace").decode("utf-8").removeprefix("\ufeff")
    return Cell(cell["cell_type"], source, grade_id if isinstance(grade_id, str) else "", marks)


def _kind(value: object) -> str:
    return {list: "a list", str: "a text", int: "a number", float: "a number"}.get(type(value), "something else")
