"""What the inputs of a check are drawn from, when grades are given.

Whoever sees the inputs of a grading (a later cell can print what a function was called with, in any disguise) can put
them, with the right answers, into the notebook. So the inputs depend on all of the notebook that can be read while it
runs: whatever is changed in it, text between the cells included, other inputs are drawn. They depend on the student,
too, so that nobody learns them from a classmate's page, and on nothing else: the same work of the same student gets
the same inputs whenever it is graded.
"""

from __future__ import annotations

import hashlib
import json

from nbformat import NotebookNode

from grader.classroom.repair import grade_id_of

BESIDE = "handed_in_beside"  # a rebuilt notebook's metadata: {name: digest} of the files that lie beside it


def content_digest(notebook: NotebookNode) -> str:
    """Return a digest of what a notebook says: its cells' sources, kinds and grade_ids, in their order, and the files
    that it may read.

    Ids of cells, which nbformat invents where a notebook has none, and outputs do not count: the judge takes neither
    from a student.
    """
    said = [[cell.cell_type, grade_id_of(cell), cell.source] for cell in notebook.cells]
    beside = notebook.metadata.get(BESIDE)
    return hashlib.sha256(json.dumps([said, beside] if beside else said).encode()).hexdigest()


def check_seed(secret: str, content: str, exercise: str, student: str = "") -> int:
    """Return the seed of one check of one student's submission.

    Args:
        secret: of this class's gradings (see `engine.records.the_secret`).
        content: what `content_digest` returns.
        exercise: the exercise's name.
        student: the student's id.
    """
    words = json.dumps([secret, content, exercise, student])
    return int.from_bytes(hashlib.sha256(words.encode()).digest()[:4], "big")
