"""What the inputs of a check are drawn from, when grades are given."""

from __future__ import annotations

import hashlib
import json

from nbformat import NotebookNode

from grader.classroom.repair import grade_id_of


def content_digest(notebook: NotebookNode) -> str:
    """Return a digest of what a notebook says: its cells' sources, kinds and grade_ids, in their order.

    Ids of cells, which nbformat invents where a notebook has none, and outputs do not count.
    """
    said = [(cell.cell_type, grade_id_of(cell), cell.source) for cell in notebook.cells]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()


def check_seed(secret: str, content: str, exercise: str) -> int:
    """Return the seed of one check of one submission.

    The same work gets the same inputs, whoever hands it in and whenever it is graded; changed work gets others, so
    that inputs that leaked (a later cell can print what a function was called with) are worth nothing.
    """
    return int.from_bytes(hashlib.sha256(f"{secret}|{content}|{exercise}".encode()).digest()[:4], "big")
