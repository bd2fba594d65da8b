"""What a cell is called in a reason."""

import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

from grader.classroom import cells as cells_module
from grader.classroom.cells import LOOKED_AT, cell_name


def marked(grade_id):
    cell = new_code_cell("anything")
    cell.metadata.nbgrader = NotebookNode(grade_id=grade_id, grade=True, solution=False)
    return cell


def test_an_exercises_cells_are_called_by_it():
    cells = [marked("log_softmax_answer"), marked("log_softmax")]
    assert [cell_name(cells, i) for i in range(2)] == ["the answer log_softmax", "the check of log_softmax"]


@pytest.mark.parametrize(
    "cells, name",
    [
        ([new_code_cell("\n\n  x = 1\ny = 2")], "the cell `x = 1`"),
        ([new_code_cell("  \n")], "an empty cell"),
        (
            [new_markdown_cell("# One\ntext\n## Two ##\nmore"), new_markdown_cell("no heading"), new_code_cell("f()")],
            'the cell `f()` under the heading "Two"',
        ),
        (
            [new_markdown_cell("# Far"), new_code_cell("# a comment"), new_code_cell("f()")],
            'the cell `f()` under the heading "Far"',
        ),
        ([new_code_cell("a" * 50)], f"the cell `{'a' * 40}…`"),
        ([new_code_cell("a`b\x1b[31m\u2028c")], "the cell `a'b [31m`"),
    ],
)
def test_another_by_its_first_line_and_heading(cells, name):
    assert cell_name(cells, len(cells) - 1) == name


@pytest.mark.parametrize(
    "text, heading",
    [
        ("## One ##", "One"),
        ("#\tTwo", "Two"),
        ("#No\n# Last", "Last"),
        ("#   \n# Seen", "Seen"),
        ("# a" + " " * 200_000 + "b", "a"),
    ],
)
def test_the_heading_above_is_read_in_whatever_way_it_is_written(text, heading):
    cells = [new_markdown_cell(text), new_code_cell("x = 1")]
    assert f'under the heading "{heading}' in cell_name(cells, 1)


def test_what_stands_above_is_read_once_for_all_cells_of_a_notebook(monkeypatch):
    read, real = [], cells_module._last_heading
    monkeypatch.setattr(cells_module, "_last_heading", lambda text: read.append(text) or real(text))
    cells = [new_markdown_cell("# Read once"), *(new_code_cell(f"f({n})") for n in range(30))]
    names = [cell_name(cells, n) for n in range(1, 31)]
    assert names == [f'the cell `f({n})` under the heading "Read once"' for n in range(30)]
    assert len(read) == len(cells)
    cells[0].source = "# Changed"
    assert cell_name(cells, 30).endswith('"Changed"')


@pytest.mark.parametrize(
    "text, heading",
    [
        ("# First\n" + "long " * LOOKED_AT + "\n# Last\n" + "x" * 100, "Last"),
        ("# First\n" + "# Between\n" + "x" * LOOKED_AT * 3, "Between"),
        ("# First\n" + "x" * LOOKED_AT * 3 + "# " + "y" * (LOOKED_AT - 2), "First"),
        ("# First\n" + "x" * LOOKED_AT * 2 + "\n# Unseen\n" + "x" * LOOKED_AT * 2, "First"),
    ],
    ids=["at its end", "at its beginning", "a line that is cut is none", "in between"],
)
def test_of_a_long_text_both_ends_are_looked_at(text, heading):
    assert cell_name([new_markdown_cell(text), new_code_cell("x")], 1).endswith(f'under the heading "{heading}"')


def test_a_long_cell_is_named_by_its_beginning():
    assert cell_name([new_code_cell("\n" * LOOKED_AT * 2 + "f()\n" + "x" * LOOKED_AT)], 0) == "the cell `f()`"
    assert cell_name([new_code_cell("\x1b\n" * LOOKED_AT + "f()")], 0) == "an empty cell"
