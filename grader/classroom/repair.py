"""Mend what happens to honest notebooks, so that nbgrader can grade them: copied, emptied and deleted exercise cells.

nbgrader gives up on the whole notebook over any of these. Here each is put right and said in the submission's reason.
"""

from __future__ import annotations

import copy

from nbformat import NotebookNode

MAX_PRINTED = 20_000  # characters kept of one output: a page with megabytes of print helps nobody


def repair(notebook: NotebookNode, release: NotebookNode) -> list[str]:
    """Give `notebook` (changed in place) each exercise cell of `release` exactly once; return what was mended.

    A cell that stands there several times (copied or split by the student) keeps its mark in the last place: all of
    them run, in their order, and the check then sees what the student's last word on the function was.
    """
    remarks = []
    due = {grade_id_of(cell): cell for cell in release.cells if grade_id_of(cell)}
    last = {grade_id_of(cell): index for index, cell in enumerate(notebook.cells)}
    for index, cell in enumerate(notebook.cells):
        grade_id = grade_id_of(cell)
        if grade_id in due and last[grade_id] != index:
            remarks.append(f"the cell {grade_id} stands there more than once")
        if grade_id not in due or last[grade_id] != index:
            cell.metadata.pop("nbgrader", None)
        else:
            ours = due[grade_id].metadata.nbgrader
            # Checksums differ between versions of the course, and say nothing about the student.
            if any(cell.metadata.nbgrader.get(mark) != ours.get(mark) for mark in ("grade", "solution", "points")):
                remarks.append(f"the marks of the cell {grade_id} were changed")
            cell.metadata.nbgrader = copy.deepcopy(ours)
    for grade_id, cell in due.items():
        if grade_id not in last:
            notebook.cells.append(copy.deepcopy(cell))
            remarks.append(f"the cell {grade_id} was missing")
    return list(dict.fromkeys(remarks))


def grade_id_of(cell: NotebookNode) -> str:
    """Return a cell's grade_id, or "" where it has none that can be read."""
    meta = cell.metadata.get("nbgrader")
    grade_id = meta.get("grade_id") if isinstance(meta, dict) else None
    return grade_id if isinstance(grade_id, str) else ""


def shorten_prints(cell: NotebookNode) -> None:
    """Cut printed output that nobody would read."""
    for output in cell.get("outputs", []):
        if output.output_type == "stream" and len(output.text) > MAX_PRINTED:
            output.text = output.text[:MAX_PRINTED] + f"\n… {len(output.text) - MAX_PRINTED:,} characters more"
