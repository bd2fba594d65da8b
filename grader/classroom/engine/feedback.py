"""Feedback pages: nbgrader's own, made quicker, and without anything that a browser would run or fetch."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from types import CodeType

from jinja2 import BytecodeCache, Environment
from jinja2.bccache import Bucket
from nbconvert.exporters import HTMLExporter
from nbconvert.filters import Highlight2HTML
from nbconvert.filters.widgetsdatatypefilter import WidgetsDataTypeFilter
from traitlets.config import Config

from grader.classroom.mathml import WithMathML

POLICY = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; font-src data:; form-action 'none'; base-uri 'none'"
)
NO_ALT = re.compile(r"<img (?![^>]*\balt=)")


class _InMemory(BytecodeCache):
    """Compiled templates: compiling them anew for each page takes a quarter of a second."""

    def __init__(self):
        self.kept: dict[str, CodeType] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        bucket.code = self.kept.get(bucket.key + bucket.checksum)

    def dump_bytecode(self, bucket: Bucket) -> None:
        self.kept[bucket.key + bucket.checksum] = bucket.code


_compiled = _InMemory()


class CourseHTML(WithMathML):
    """nbconvert's HTML, without its second pass over the finished page, in which it parses all of it again."""

    def _create_environment(self) -> Environment:
        environment = super()._create_environment()
        environment.bytecode_cache = _compiled
        return environment

    def from_notebook_node(self, nb, resources=None, **kw):
        lexer = nb.metadata.get("language_info", {}).get("pygments_lexer", "ipython3")
        resources = self._init_resources(resources)
        widgets = WidgetsDataTypeFilter(notebook_metadata=self._nb_metadata, parent=self, resources=resources)
        self.register_filter("highlight_code", Highlight2HTML(pygments_lexer=lexer, parent=self))
        self.register_filter("filter_data_type", widgets)
        page, resources = super(HTMLExporter, self).from_notebook_node(nb, resources, **kw)
        return NO_ALT.sub('<img alt="a picture that this cell drew" ', page), resources


def feedback_config() -> Config:
    """Return the settings under which nbgrader's feedback step uses `CourseHTML`."""
    made = Config()
    made.GenerateFeedback.exporter_class = CourseHTML
    return made


def without_scripts(page: str) -> str:
    """Return an HTML page that runs no script and loads nothing: it holds whatever a student's cells put out.

    What a browser would have fetched for it, the typesetting of formulas included, stays away.
    """
    head, found, rest = page.partition("<head>")
    if not found:
        return f"<pre>{html.escape(page)}</pre>"
    rest = re.sub("http-equiv", "data-http-equiv", rest, flags=re.IGNORECASE)  # no redirection, no second policy
    return f'{head}{found}<meta http-equiv="Content-Security-Policy" content="{POLICY}">{rest}'


def without_places(page: str, places: Iterable[str]) -> str:
    """Return a page on which "…" stands for these folders, also where a path begins with one."""
    folders = sorted({place.rstrip("/") for place in places} - {""}, key=len, reverse=True)
    if not folders:
        return page
    # It must not be a part of a longer name or path, or of a picture's base64.
    return re.sub(rf"(?<![\w+/])(?:{'|'.join(map(re.escape, folders))})(?![\w.-])", "…", page)
