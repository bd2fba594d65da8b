"""Markdown on feedback pages: formulas as MathML, which browsers set by themselves, and no HTML of a student's.

A Markdown cell may be a student's. Its HTML is shown as it was typed, but for the folds that the chapters use, and
nothing of it gets an id, a class or a style: a page with grades on it must not be painted over.
"""

from __future__ import annotations

import re
from html import escape

from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

try:
    from latex2mathml.converter import convert
except ModuleNotFoundError:  # formulas then stay as they were typed
    convert = None

MAX_LENGTH = 2_000  # characters of a formula; a student's text may hold anything
FOLDS = re.compile(r"&lt;(/?(?:details|summary))&gt;")
# What a formula must not become: other elements than MathML's, and attributes that reach beyond the formula.
NO_FORMULA = re.compile(r"<(?!/?m[a-z]+\b)|\s(?:style|class|id|href|on\w+)\s*=", re.IGNORECASE)


def as_mathml(formula: str, block: bool = False) -> str | None:
    """Return a LaTeX formula as MathML, or None where it cannot be converted.

    Args:
        formula: without the dollar signs around it.
        block: set it on a line of its own.
    """
    if convert is None or len(formula) > MAX_LENGTH:
        return None
    try:
        made = convert(formula.strip(), display="block" if block else "inline")
    except (Exception, RecursionError):  # it raises many types for what it does not understand
        return None
    return None if NO_FORMULA.search(made) else made


def markdown_to_html(text: str) -> str:
    """Return Markdown as HTML, with formulas as MathML where that is possible and HTML as the text that it is."""
    return MarkdownWithMath(renderer=Renderer()).render(text)


class Renderer(IPythonRenderer):
    """nbconvert's renderer of Markdown, with formulas as MathML and without HTML, links that run and anchors."""

    def __init__(self):
        super().__init__(escape=True, allow_harmful_protocols=False, exclude_anchor_links=True)

    def block_math(self, body: str) -> str:
        return as_mathml(body, block=True) or super().block_math(body)

    def inline_math(self, body: str) -> str:
        return as_mathml(body) or super().inline_math(body)

    def block_html(self, html: str) -> str:
        return FOLDS.sub(r"<\1>", escape(html))

    def inline_html(self, html: str) -> str:
        return FOLDS.sub(r"<\1>", escape(html))

    def image(self, text: str, url: str, title: str | None = None) -> str:
        if url.startswith("attachment:"):  # pasted into the notebook: it was not taken in with the text
            return f"<small>(a picture: {escape(text)})</small>"
        return super().image(text, url, title)

    def block_mermaidjs(self, code: str) -> str:
        return f"<pre>{escape(code)}</pre>"  # nbconvert leaves it to a script, unescaped
