"""Formulas on feedback pages as MathML: browsers set it by themselves, where a script would be forbidden."""

from __future__ import annotations

import re

from jinja2 import pass_context
from nbconvert.exporters import HTMLExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

try:
    from latex2mathml.converter import convert
except ModuleNotFoundError:  # formulas then stay as they were typed
    convert = None

MAX_LENGTH = 2_000  # characters of a formula; a student's text may hold anything


def as_mathml(formula: str, block: bool = False) -> str | None:
    """Return a LaTeX formula as MathML, or None where it cannot be converted.

    Args:
        formula: without the dollar signs around it.
        block: set it on a line of its own.
    """
    if convert is None or len(formula) > MAX_LENGTH or "\\href" in formula:
        return None
    try:
        made = convert(formula.strip(), display="block" if block else "inline")
    except (Exception, RecursionError):  # it raises many types for what it does not understand
        return None
    return None if re.search(r"<(?!/?m[a-z]+\b)", made) else made


class MathRenderer(IPythonRenderer):
    """nbconvert's renderer of Markdown, with formulas as MathML where that is possible."""

    def block_math(self, body: str) -> str:
        return as_mathml(body, block=True) or super().block_math(body)

    def inline_math(self, body: str) -> str:
        return as_mathml(body) or super().inline_math(body)


class WithMathML(HTMLExporter):
    """A mixin for nbconvert's HTML exporter (see `HTMLExporter.markdown2html`)."""

    @pass_context
    def markdown2html(self, context, source):
        """Return Markdown as HTML."""
        renderer = MathRenderer(
            escape=False,
            attachments=context.get("cell", {}).get("attachments", {}),
            embed_images=self.embed_images,
            path=context.get("resources", {}).get("metadata", {}).get("path", ""),
            anchor_link_text=self.anchor_link_text,
            exclude_anchor_links=self.exclude_anchor_links,
            **self.lexer_options,
        )
        return MarkdownWithMath(renderer=renderer).render(source)
