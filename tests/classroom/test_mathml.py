"""Formulas on feedback pages: MathML where it can be made, the typed text where not, and never anything else."""

import re
from html import unescape
from xml.etree import ElementTree

import nbformat
import pytest

from grader.classroom.mathml import as_mathml, markdown_to_html
from grader.paths import NOTEBOOKS, chapters, notebook_path

pytest.importorskip("latex2mathml")
FORMULA = re.compile(r"\$\$(.+?)\$\$|(?<![\\$`])\$([^$\n`]+?)\$(?!`)", re.DOTALL)


def test_formulas_become_mathml_and_prose_stays():
    html = markdown_to_html(
        "Costs 5 dollars, `$x$` is code.\n\nInline $\\pi_\\theta(a)$, and\n\n$$A_i = \\frac{r_i - \\mu}{\\sigma}$$\n"
    )
    assert html.count("<math ") == 2 and "<mfrac>" in html and 'display="block"' in html
    assert "\\frac" not in html and "<code>$x$</code>" in html and "5 dollars" in html


@pytest.mark.parametrize(
    "formula",
    [
        "^_^_^",
        "{" * 3000,
        "\\href{javascript:alert(1)}{x}",
        "x" * 2001,
        "\\style{position:fixed}{x}",
        "\\class{total}{x}",
    ],
    ids=["unfinished", "deep", "a link", "long", "a style", "a class"],
)
def test_what_cannot_be_converted_stays_as_it_was_typed(formula):
    assert as_mathml(formula) is None
    assert "<math" not in markdown_to_html(f"${formula}$")


@pytest.mark.parametrize(
    "tag",
    [
        '<mtext/style="position:fixed;top:0">GRADE</mtext>',
        "<mi/onmouseover=alert(1)>",
        "<img src=x onerror=alert(1)>",
        "<marquee>",
        "</math></section>",
        "&lt;script&gt;",
        "&#60;b&#62;",
        "<!--",
    ],
)
@pytest.mark.parametrize("command", ["text", "mathrm", "operatorname", "fbox", "tag", "hbox"])
def test_what_looks_like_html_in_a_formula_is_text(tag, command):
    made = as_mathml(f"\\{command}{{{tag}}}") or ""
    assert set(re.findall(r"<[^>]*>", made)) <= set(re.findall(r"</?m[a-z]+(?: [a-z]+=\"[a-z0-9.]*\")*>", made))
    if command == "text":
        assert ElementTree.fromstring(made).findtext(".//mtext").replace("\xa0", " ") == unescape(tag)


@pytest.mark.parametrize(
    "formula",
    [
        "\\hspace{99999px}",
        "\\rule{10em}{61em}",
        "\\hspace{1em}" * 61,
        "\\raise{50pt}{x}",
        "\\raise{1em}{\\raise{1em}{\\raise{1em}{\\raise{1em}{x}}}}",
        "\\Huge \\raise{1em}{x}",
        "\\Huge{\\Huge{x}}",
        "\\llap{over what stands before it}",
    ],
)
def test_no_formula_reaches_far_beyond_its_place(formula):
    assert as_mathml(formula) is None


@pytest.mark.parametrize(
    "formula",
    ["a \\qquad b \\! c", "\\rule{1em}{2px}", "\\raise{2pt}{x}", "\\Huge x", "\\color{red}{x}", "\\bigg( x \\bigg)"],
)
def test_what_stays_in_its_place_is_a_formula(formula):
    assert "<math" in as_mathml(formula)


@pytest.mark.parametrize("chapter", chapters())
def test_every_formula_of_the_course_can_be_converted(chapter):
    cells = nbformat.read(notebook_path(NOTEBOOKS, chapter), as_version=4).cells
    found = [m for c in cells if c.cell_type == "markdown" for m in FORMULA.findall(c.source)]
    assert [block or inline for block, inline in found if as_mathml(block or inline, bool(block)) is None] == []


def test_an_underscore_in_the_text_of_a_formula_is_one():
    assert "<mtext>prompt_len&lt;b&gt;</mtext>" in as_mathml(r"\text{prompt\_len<b>}")
