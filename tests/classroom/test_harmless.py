"""What a student wrote or put out is text and pictures to whoever reads it, and nothing that a browser runs."""

import nbformat
import pytest
from nbconvert.exporters import HTMLExporter
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from grader.classroom.harmless import Harmless, plain
from grader.paths import NOTEBOOKS, chapters, notebook_path
from grader.report import CHECK_MIME

CHAPTER = chapters()[0]


def through(*cells):
    notebook = new_notebook(cells=list(cells))
    return Harmless().preprocess(notebook, {"nbgrader": {"assignment": CHAPTER}})[0].cells


def shown(data):
    return through(new_code_cell("x", outputs=[new_output("display_data", data=data)]))[0].outputs[0].data


def test_of_an_output_texts_and_pictures_are_kept():
    assert shown({"text/html": "<b>7</b>", "text/plain": "7"}) == {"text/plain": "7"}
    pictures = {"image/png": "aaaa", "image/jpeg": "bbbb", "text/plain": "<Figure>"}
    assert shown({**pictures, "application/javascript": "1", "image/svg+xml": "<svg/>", "text/latex": "x"}) == pictures


@pytest.mark.parametrize("kind", ["text/html", "text/markdown", "application/javascript", "text/latex", CHECK_MIME])
def test_what_has_no_text_is_said_to_be_missing(kind):
    assert shown({kind: "1"}) == {"text/plain": f"({kind}: not shown)"}


def test_streams_errors_and_the_judges_reports_stay_as_they_are():
    stream = new_output("stream", name="stdout", text="<script>1</script>")
    error = new_output("error", ename="E", evalue="<b>", traceback=["<b>"])
    report = new_output("execute_result", data={"text/html": "<b>4</b>", CHECK_MIME: {"points": 4}})
    check = new_code_cell("check(f)", outputs=[report])
    check.metadata.nbgrader = NotebookNode(grade=True, solution=False, grade_id="f", points=4)
    mine, judged = through(new_code_cell("x", outputs=[stream, error]), check)
    assert mine.outputs == [stream, error] and judged.outputs == [report]


def test_released_prose_is_ours_and_stays():
    released = [cell for cell in nbformat.read(notebook_path(NOTEBOOKS, CHAPTER), as_version=4).cells
                if cell.cell_type == "markdown"]  # fmt: skip
    assert any("<details>" in cell.source for cell in released)
    assert [cell.source for cell in through(*released)] == [cell.source for cell in released]
    edited = through(new_markdown_cell(released[0].source + "<script>1</script>"))[0].source
    assert edited == plain(released[0].source) + "< script>1< /script>"


@pytest.mark.parametrize(
    "text, made",
    [
        ("a<script>b</script>", "a< script>b< /script>"),
        ("<!-- x --><?php", "< !-- x -->< ?php"),
        ("[x](javascript:1) [y](JavaScript:2) vbscript:", "[x](java script:1) [y](Java Script:2) vb script:"),
        ("[x](java&#115;cript:1) &lt;b&gt;", "[x](java& #115;cript:1) & lt;b& gt;"),
        ("*R&D* $1 < 2$, $a &= b$, a <- b, <3", "*R&D* $1 < 2$, $a &= b$, a <- b, <3"),
        (r"$\href{x}{y} \style{a}{b}\class1$ \\cssId", r"$\ href{x}{y} \ style{a}{b}\ class1$ \\ cssId"),
        (r"$\styled \mathrm{style} \frac{a}{b}$", r"$\styled \mathrm{style} \frac{a}{b}$"),
    ],
)  # fmt: skip
def test_html_entities_and_scripts_become_text_and_formulas_stay(text, made):
    assert plain(text) == made


@pytest.mark.parametrize(
    "text, shown",
    [
        ("![image.png](attachment:image.png)", "(a picture was pasted here: image.png)"),
        ("![a](<attachment:b c.png>)", ""),
        ("![a][1]\n\n[1]: Attachment:b.png", ""),
        ("![a](attach\\ment:b.png) ![a](attachment\\:b.png)", ""),
        ("![a](attach&#109;ent:b.png)", ""),
        ("see the attachment: a file", "see the attachment"),
    ],
)
def test_a_picture_that_was_not_taken_in_with_a_text_stops_no_page(text, shown):
    """nbconvert, with which formgrader shows a notebook, raises for a picture that is not there."""
    (cell,) = through(new_markdown_cell(text))
    page, _ = HTMLExporter().from_notebook_node(new_notebook(cells=[cell]))
    assert shown in page and 'src="attachment:' not in page.lower()


def test_the_name_of_a_picture_ends_where_another_may_begin():
    """So a long text is read once: no part of it is looked at from two beginnings."""
    assert plain("![a![b](attachment:c)") == "![a(a picture was pasted here: b)"
    assert "(a picture" not in plain("![a](attachment:b![c)")
