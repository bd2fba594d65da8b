"""Details of the feedback page that a reader would miss, or that a student could use."""

from xml.etree import ElementTree

import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output, new_raw_cell
from test_feedback_page import (
    BROKEN,
    CHAPTER,
    FORGED,
    PIXEL,
    RIGHT,
    answer,
    cells_with,
    check,
    failed,
    judged,
    out,
)

from grader.classroom import mathml
from grader.classroom.feedback_page import feedback_page, summary
from grader.classroom.mathml import as_mathml, markdown_to_html
from grader.exercises import EXERCISES


def page_of(*cells):
    return feedback_page(new_notebook(cells=list(cells)), CHAPTER, "ana")


def test_a_check_cell_that_does_not_say_its_points_has_those_of_the_exercise():
    cell = check(RIGHT, 0, [])
    del cell.metadata.nbgrader["points"]
    assert summary(new_notebook(cells=[cell]))[0].most == EXERCISES[RIGHT].points


def test_two_exercises_without_a_result_are_two():
    lost = [check(name, 0, [failed("NoResult", "x")]) for name in (BROKEN, RIGHT)]
    assert "No total: 2 exercises have no result yet" in page_of(*lost)


def test_a_comment_on_an_answer_that_was_emptied_is_shown():
    assert "see me" in page_of(answer(RIGHT, source="", comment="see me"))


def test_an_answer_is_said_to_be_one():
    made = page_of(answer(RIGHT), new_code_cell("1"))
    assert f'<section class="cell answer"><h2>Your answer: {RIGHT}</h2>' in made and made.count("Your answer") == 1


def test_an_empty_raw_cell_is_nothing():
    assert "<section" not in page_of(new_raw_cell(" \n"))


def test_a_result_of_a_check_that_is_no_report_paints_nothing():
    made = page_of(check(RIGHT, 0, [new_output("execute_result", data={"text/html": FORGED, "text/plain": "7"})]))
    assert "<script" not in made and "FORGED" not in made and "<pre>7</pre>" in made


def test_a_report_without_html_is_shown_as_its_text():
    cell, _ = judged(RIGHT, EXERCISES[RIGHT].reference)
    del cell.outputs[0].data["text/html"]
    cell.outputs[0].data["text/plain"] = "it is right"
    made = page_of(cell)
    assert "<pre>it is right</pre>" in made and f'id="check-{RIGHT}"' in made


def test_the_line_end_that_jupyter_writes_behind_a_picture_is_left_out():
    assert f'base64,{PIXEL}">' in page_of(cells_with(out(image_png=PIXEL + "\n")))


def test_what_is_not_shown_is_said_in_few_words():
    assert len(page_of(cells_with(new_output("display_data", data={"a/" + "x" * 5000: "1"})))) < len(page_of()) + 500


def test_colours_of_a_shown_text_are_colours():
    assert "\x1b" not in page_of(cells_with(out(text_plain="\x1b[31mred\x1b[0m")))


def test_without_latex2mathml_formulas_stay_as_they_were_typed(monkeypatch):
    monkeypatch.setattr(mathml, "convert", None)
    assert as_mathml("x") is None and "$x^2$" in markdown_to_html("$x^2$")


@pytest.mark.parametrize(
    "made",
    [
        '<math><mi ID="a">x</mi></math>',
        '<math><mi onclick="a">x</mi></math>',
        '<math><mi id="a">x</mi></math>',
        "<math><IMG/></math>",
        "<math><annotation-xml/></math>",
        '<math mathcolor="red;x"/>',
        '<math width="1e9px"/>',
        "<math><b>x</b></math>",
    ],
)
def test_nothing_but_mathml_comes_out_whatever_is_made(monkeypatch, made):
    monkeypatch.setattr(mathml, "convert", lambda *a, **k: ElementTree.fromstring(made))
    assert as_mathml("x") is None


def test_heads_get_no_anchor():
    html = markdown_to_html("## Head")
    assert "<h2>Head</h2>" in html and "anchor" not in html and "id=" not in html


def test_a_fold_in_a_line_is_a_fold():
    assert "x <details><summary>s</summary>" in markdown_to_html("x <details><summary>s</summary>y</details>")


def test_blanks_around_a_formula_are_no_part_of_it():
    assert as_mathml(" x ") == as_mathml("x")


@pytest.mark.parametrize("text", ["$\\href{a}{<b>x}$", "$$\n\\href{a}{<b>x}\n$$"])
def test_a_formula_that_is_left_is_text(text):
    html = markdown_to_html(text)
    assert "<b>" not in html and "$" in html and "&lt;b&gt;" in html
