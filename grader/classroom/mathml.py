"""Markdown on feedback pages: formulas as MathML, which browsers set by themselves, and no HTML of a student's.

A Markdown cell may be a student's. Its HTML is shown as it was typed, but for the folds that the chapters use, and
nothing of it gets an id, a class or a style: a page with grades on it must not be painted over. A formula is written
anew out of the elements that it became, and a text whose HTML holds any other tag than `page_tags` names is shown as it
was typed.
"""

from __future__ import annotations

import re
from html import escape, unescape
from xml.etree.ElementTree import Element

from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

from grader.classroom.page_tags import FORMULA_ATTRIBUTES, FORMULA_ELEMENTS, only_known_tags

try:
    from latex2mathml.converter import convert_to_element as convert
except ModuleNotFoundError:  # formulas then stay as they were typed
    convert = None

MAX_LENGTH = 2_000  # characters of a formula; a student's text may hold anything
FOLDS = re.compile(r"&lt;(/?(?:details|summary))&gt;")
LENGTH = re.compile(r"([+-]*)(\d*\.?\d+)(em|ex|px|pt|pc|mu|mm|cm|in|)")
NAMED_LENGTH = re.compile(r"(?:negative)?(?:very)*(?:thin|medium|thick)mathspace")
IN_EM = {"em": 1.0, "ex": 0.5, "px": 0.07, "pt": 0.1, "pc": 1.2, "mu": 0.06, "mm": 0.25, "cm": 2.5, "in": 6.0, "": 1.0}
LENGTHS = ("width", "height", "depth", "voffset", "lspace", "rspace", "minsize", "maxsize", "linethickness")
# How far a formula may spread, and how far its parts may be moved over what stands beside it, all of them together.
MAX_SPREAD, MAX_SHIFT = 60.0, 4.0  # em of the text around it
MAX_SIZE = 3.0  # times the size of the letters around it


class NoFormulaError(ValueError):
    """What a formula became is no formula, or would reach beyond its place."""


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
        reach = {"spread": 0.0, "shift": 0.0}
        written = _written(made, reach, 1.0)
    except (Exception, RecursionError):  # it raises many types for what it does not understand
        return None
    return written if reach["spread"] <= MAX_SPREAD and reach["shift"] <= MAX_SHIFT else None


def _written(element: Element, reach: dict[str, float], size: float) -> str:
    """Write an element anew, add up how far it reaches, and raise where there is more to it than MathML's own."""
    if element.tag not in FORMULA_ELEMENTS:
        raise NoFormulaError(f"an element {element.tag}")
    attributes = ""
    for name, value in element.attrib.items():
        if name == "xmlns":  # a page knows the elements without it
            continue
        if name not in FORMULA_ATTRIBUTES or not FORMULA_ATTRIBUTES[name].fullmatch(value):
            raise NoFormulaError(f"{name}={value!r}")
        if name == "mathsize":
            size *= _em(value)
            if size > MAX_SIZE:
                raise NoFormulaError(f"letters {size:.1f} times as large")
        if name in LENGTHS:
            long = _em(value) * size
            reach["spread"] += abs(long)
            reach["shift"] += abs(long) if name == "voffset" or long < 0 else 0
        attributes += f' {name}="{escape(value)}"'
    # Signs stand in it as entities, and so may what somebody typed.
    text = unescape(element.text or "")
    inside = escape(text.replace("\\_", "_") if element.tag == "mtext" else text, quote=False)
    inside += "".join(_written(child, reach, size) for child in element)
    return f"<{element.tag}{attributes}>{inside}</{element.tag}>"


def _em(length: str) -> float:
    if NAMED_LENGTH.fullmatch(length):
        return 0.0  # 7/18 em at most
    found = LENGTH.fullmatch(length)
    if found is None:
        raise NoFormulaError(f"a length {length!r}")
    return (-1 if "-" in found[1] else 1) * float(found[2]) * IN_EM[found[3]]


def markdown_to_html(text: str) -> str:
    """Return Markdown as HTML, with formulas as MathML where that is possible and HTML as the text that it is."""
    made = MarkdownWithMath(renderer=Renderer()).render(text)
    return made if only_known_tags(made) else f"<pre>{escape(text)}</pre>"


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
