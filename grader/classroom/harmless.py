"""Nothing that a student wrote or put out is run by the browser of whoever reads it.

formgrader shows a graded notebook as a page of the instructor's own JupyterLab: a script on it could give points, read
the other submissions or start a terminal there.
"""

from __future__ import annotations

import functools
import re

import nbformat
from nbgrader.preprocessors import NbGraderPreprocessor
from nbgrader.utils import is_grade

from grader.paths import NOTEBOOKS, notebook_path

SHOWN = ("text/plain", "image/png", "image/jpeg")
# A space makes a text of a tag and of an entity, and changes nothing in a formula.
OPENS = re.compile(r"<(?=[A-Za-z/!?])|&(?=#|\w+;)")
# Pictures that were pasted into a text are not taken in with it, and formgrader shows no notebook that misses one.
# No part of it can match where the next one may begin: a text may be long.
PASTED = re.compile(r"!\[([^\[\]\n]{0,200})\]\(attachment:[^)\[\n]{0,200}\)")
ATTACHED = re.compile(r"attachment(?=\\?:)", re.IGNORECASE)
SCHEME = re.compile(r"(?<=java)(?=script)|(?<=vb)(?=script)", re.IGNORECASE)
# What makes HTML of a formula. formgrader's MathJax is told to be safe; whatever else shows the notebook may not be.
TEX = re.compile(r"\\(?=(?:href|style|class|cssId|require|bbox|mmlToken)(?![A-Za-z]))")


class Harmless(NbGraderPreprocessor):
    """Keep texts and pictures of a student's outputs, and prose without HTML; the judge's reports stay as they are."""

    def preprocess(self, nb, resources):
        released = _texts_of(resources["nbgrader"]["assignment"])
        for cell in nb.cells:
            if cell.cell_type == "code" and not is_grade(cell):
                for output in cell.outputs:
                    if "data" in output:
                        output.data = _shown(output.data)
            elif cell.cell_type != "code" and cell.source not in released:
                cell.source = plain(cell.source)
        return nb, resources


def plain(markdown: str) -> str:
    """Return a text in Markdown without HTML, pasted pictures and addresses that run.

    HTML is the text that it is, no address begins with `javascript:` or `attachment:`, a pasted picture is named, and
    what would make HTML of a formula is no command.
    """
    markdown = TEX.sub(r"\g<0> ", PASTED.sub(r"(a picture was pasted here: \1)", markdown))
    return ATTACHED.sub(r"\g<0> ", SCHEME.sub(" ", OPENS.sub(r"\g<0> ", markdown)))


def _shown(data):
    kept = {kind: value for kind, value in data.items() if kind in SHOWN}
    return type(data)(kept or {"text/plain": f"({', '.join(data)}: not shown)"})


@functools.cache
def _texts_of(chapter: str) -> frozenset[str]:
    """Return the texts of a chapter as it was released; they are ours."""
    cells = nbformat.read(notebook_path(NOTEBOOKS, chapter), as_version=4).cells
    return frozenset(cell.source for cell in cells if cell.cell_type != "code")
