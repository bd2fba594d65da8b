"""What a cell is called, so that whoever reads a reason finds it: no page and no notebook shows the cells' numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence

from nbformat import NotebookNode

from grader.classroom.repair import grade_id_of
from grader.exercises import EXERCISES

# What can repeat is never followed by something that can match the same characters: a text may be long.
HEADING = re.compile(r"^#{1,6}[ \t]+(?![ \t])(.+)$", re.MULTILINE)
MOST = 40  # characters of a line


def cell_name(cells: Sequence[NotebookNode], index: int) -> str:
    """Name the cell at `index`: by its exercise, or by its first line and the heading that it stands under.

    The words are the student's, on one line and without what a terminal would obey:

        the answer log_softmax
        the check of log_softmax
        the cell `while True:` under the heading "Rollouts"
    """
    name = grade_id_of(cells[index])
    if name in EXERCISES:
        return f"the check of {name}"
    if name.removesuffix("_answer") in EXERCISES:
        return f"the answer {name.removesuffix('_answer')}"
    lines = [_line(text) for text in cells[index].source.splitlines()]
    first = next((text for text in lines if text), "")
    shown = f"the cell `{first}`" if first else "an empty cell"
    above = (HEADING.findall(cell.source) for cell in reversed(cells[:index]) if cell.cell_type == "markdown")
    heading = next((found[-1].rstrip().rstrip("#") for found in above if found), "")
    return f'{shown} under the heading "{_line(heading)}"' if heading else shown


def _line(text: str) -> str:
    plain = "".join(letter if letter.isprintable() else " " for letter in text).replace("`", "'").strip()
    return plain if len(plain) <= MOST else f"{plain[:MOST].rstrip()}…"
