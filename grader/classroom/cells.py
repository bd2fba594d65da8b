"""What a cell is called, so that whoever reads a reason finds it: no page and no notebook shows the cells' numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from nbformat import NotebookNode

from grader.classroom.repair import grade_id_of
from grader.exercises import EXERCISES

# What can repeat is never followed by something that can match the same characters: a text may be long.
HEADING = re.compile(r"^#{1,6}[ \t]+(?![ \t])(.+)$", re.MULTILINE)
MOST = 40  # characters of a line
LOOKED_AT = 4_000  # characters at each end of a text: no heading of a long text is looked for in between


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
    lines = (_line(text) for text in cells[index].source.lstrip()[:LOOKED_AT].splitlines())
    first = next((text for text in lines if text), "")
    shown = f"the cell `{first}`" if first else "an empty cell"
    heading = _headings(tuple(cell.source if cell.cell_type == "markdown" else "" for cell in cells))[index]
    return f'{shown} under the heading "{heading}"' if heading else shown


@lru_cache(maxsize=1)
def _headings(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the heading above each cell, or "", given the texts of a notebook's Markdown cells and "" for the others.

    A notebook's cells are named one after the other: what stands above them is read once for all of them.
    """
    above, found = "", []
    for text in texts:
        found.append(above)
        above = _last_heading(text) or above
    return tuple(found)


def _last_heading(text: str) -> str:
    parts = [text]
    if len(text) > 2 * LOOKED_AT:  # the end begins with a whole line
        parts = [text[-LOOKED_AT:].partition("\n")[2], text[:LOOKED_AT]]
    last = next((found[-1] for part in parts if (found := HEADING.findall(part))), "")
    return _line(last.rstrip().rstrip("#"))


def _line(text: str) -> str:
    plain = "".join(letter if letter.isprintable() else " " for letter in text).replace("`", "'").strip()
    return plain if len(plain) <= MOST else f"{plain[:MOST].rstrip()}…"
