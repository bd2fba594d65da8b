"""Rebuilding a notebook from the release and what a student wrote: every rule that `repair` states."""

import ast
import copy
import json

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from grader.classroom.intake_notebook import Cell, chapters_in, read_cells
from grader.classroom.repair import _one_answer, rebuild
from grader.classroom.repair_cells import bound_names, defines
from grader.exercises import EXERCISES
from grader.paths import NOTEBOOKS, SOLUTIONS, chapters, notebook_path

STUB = "def half(x):\n    raise NotImplementedError()"
GOOD = "def half(x):\n    return x / 2"
ANSWER = dict(grade=False, solution=True, locked=False, task=False, schema_version=3)
CHECK = dict(grade=True, solution=False, locked=True, task=False, schema_version=3, points=4)


def release():
    cells = [
        new_markdown_cell("# A chapter"),
        new_code_cell("import numpy as np", id="setup"),
        new_code_cell(STUB, id="answer", metadata={"nbgrader": {"grade_id": "half_answer", **ANSWER}}),
        new_code_cell("check(half)", id="check", metadata={"nbgrader": {"grade_id": "half", **CHECK}}),
    ]
    return new_notebook(cells=cells, metadata={"language_info": {"name": "python"}})


def answer(source=GOOD, kind="code", **marks):
    return Cell(kind, source, "half_answer", {**ANSWER, **marks})


def check(source="check(half)", **marks):
    return Cell("code", source, "half", {**CHECK, **marks})


def code(source):
    return Cell("code", source)


SETUP = code("import numpy as np")


def texts(*cells):
    """(the texts of all code cells, {mark: its text}, remarks)"""
    notebook, remarks = rebuild(cells, release())
    nbformat.validate(notebook)
    marked = {c.metadata.nbgrader.grade_id: c.source for c in notebook.cells if "nbgrader" in c.metadata}
    assert set(marked) == {"half_answer", "half"} and marked["half"] == "check(half)"
    return [c.source for c in notebook.cells if c.cell_type == "code"], marked, remarks


def test_an_honest_notebook_stays_as_it_is():
    order, _, remarks = texts(SETUP, answer(), code("half(3)"), check())
    assert order == ["import numpy as np", GOOD, "half(3)", "check(half)"] and remarks == []


def test_nothing_but_texts_is_taken_from_the_student():
    student = release()
    for cell in student.cells:
        cell.metadata.update(tags=["skip-execution"], deletable=False)
        cell.id = "same"
    student.cells[2].source = GOOD
    student.cells[2].outputs = [{"output_type": "stream", "name": "stdout", "text": "4"}]
    student.metadata.kernelspec = {"name": "evil", "display_name": "evil"}
    made, remarks = rebuild(read_cells(json.dumps(student).encode(), "x.ipynb"), release())
    ours = release()
    ours.cells[2].source = GOOD
    assert (
        made.cells[1:] == ours.cells[1:]
        and made.cells[0].source == ours.cells[0].source
        and made.metadata == ours.metadata
        and remarks == []
    )


@pytest.mark.parametrize("marks", [{"points": 99}, {"grade": False}, {"solution": True}])
def test_changed_marks_are_put_right_and_said(marks):
    notebook, remarks = rebuild([SETUP, answer(), check(**marks)], release())
    assert notebook.cells[-1].metadata.nbgrader == release().cells[-1].metadata.nbgrader
    assert remarks == ["the marks of the cell half were changed"]


def test_another_checksum_is_put_right_without_a_word():
    assert texts(SETUP, answer(checksum="old"), check())[2] == []


def test_a_split_cell_whose_parts_are_python_runs_as_it_stands():
    order, marked, remarks = texts(SETUP, answer("two = 2"), answer("def half(x):\n    return x / two"), check())
    assert marked["half_answer"] == "def half(x):\n    return x / two" and order[1] == "two = 2"
    assert remarks == ["the cell half_answer stands there more than once"]
    order, marked, _ = texts(SETUP, answer("def half(x):\n    return x / two"), answer("two = 2"), check())
    assert marked["half_answer"].startswith("def half") and order[1:] == [
        marked["half_answer"],
        "two = 2",
        "check(half)",
    ]


def test_a_split_function_is_joined():
    parts = [answer("def half(x):\n    two = 2"), Cell("markdown", "a thought"), answer("    return x / two")]
    order, marked, remarks = texts(SETUP, *parts, check())
    assert marked["half_answer"] == "def half(x):\n    two = 2\n    return x / two" and len(order) == 3
    assert "the parts of the split cell half_answer were joined" in remarks


@pytest.mark.parametrize("marked_part", [0, 1])
def test_a_split_function_is_joined_whichever_part_kept_the_mark(marked_part):
    sources = ["def half(x):\n    two = 2", "    return x / two"]
    parts = [answer(s) if i == marked_part else code(s) for i, s in enumerate(sources)]
    order, marked, remarks = texts(SETUP, *parts, check())
    assert marked["half_answer"] == "\n".join(sources) and len(order) == 3
    assert remarks == ["the parts of the split cell half_answer were joined"]


def test_parts_with_other_code_between_them_are_not_joined():
    order, *_ = texts(SETUP, answer("def half(x):\n    two = 2"), code("1"), answer("    return x / two"), check())
    assert len(order) == 5


def test_of_two_copies_the_last_counts_and_both_run():
    order, marked, remarks = texts(SETUP, answer("def half(x):\n    return x"), answer(), check())
    assert marked["half_answer"] == GOOD and order[1] == "def half(x):\n    return x"
    assert "half is defined in 2 cells marked half_answer; the last one counts" in remarks


@pytest.mark.parametrize(
    "copies", [[STUB, GOOD], [GOOD, STUB], [GOOD, "def half(x):\n    '''Half.'''\n    raise NotImplementedError()"]]
)
def test_an_untouched_copy_never_overwrites_the_answer(copies):
    order, marked, _ = texts(SETUP, *map(answer, copies), check())
    assert order == ["import numpy as np", GOOD, "check(half)"] and marked["half_answer"] == GOOD


def test_an_answer_in_a_cell_of_its_own_counts():
    for cells in ([code(GOOD), answer(STUB)], [answer(STUB), code(GOOD)], [code(GOOD)], [code(GOOD), answer("")]):
        order, _, remarks = texts(SETUP, *cells, check())
        assert order == ["import numpy as np", GOOD, "check(half)"], cells
        assert "half was written in another cell than half_answer, and is graded there" in remarks


def test_a_second_definition_beside_the_answer_runs_and_is_said():
    order, marked, remarks = texts(SETUP, answer(), code("half = lambda x: x * .5"), check())
    assert marked["half_answer"] == GOOD and order[2] == "half = lambda x: x * .5"
    assert remarks == ["half is defined in another cell, too, than half_answer"]


def test_an_answer_that_became_text_is_code_again():
    assert texts(SETUP, answer(kind="markdown"), check())[1]["half_answer"] == GOOD


def test_an_emptied_or_untouched_answer_is_the_stub():
    assert texts(SETUP, answer("  \n"), check())[1]["half_answer"] == STUB
    assert texts(SETUP, answer(STUB), check())[1:] == ({"half_answer": STUB, "half": "check(half)"}, [])


def test_a_deleted_exercise_stands_whole_at_the_end():
    order, _, remarks = texts(SETUP, code("1"))
    assert order == ["import numpy as np", "1", STUB, "check(half)"]
    assert remarks == ["the answer cell of half was missing", "the check of half was missing"]


def test_a_deleted_answer_comes_back_before_its_check():
    order, _, remarks = texts(SETUP, check(), code("1"))
    assert order[1:] == [STUB, "check(half)", "1"] and remarks == ["the answer cell of half was missing"]


def test_a_stub_without_its_mark_is_no_answer():
    order, _, remarks = texts(SETUP, code(STUB), check())
    assert order[1:] == [STUB, STUB, "check(half)"] and remarks == ["the answer cell of half was missing"]


def test_an_ordinary_cell_is_never_joined_to_an_answer():
    order, *_ = texts(SETUP, code("def g():"), answer("    return 1"), check())
    assert order[1:] == ["def g():", "    return 1", "check(half)"]


def test_a_deleted_check_comes_back_behind_its_answer():
    order, _, remarks = texts(SETUP, answer(), code("crash()"))
    assert order[1:] == [GOOD, "check(half)", "crash()"] and remarks == ["the check of half was missing"]


def test_a_check_before_its_answer_is_moved_behind_it():
    order, _, remarks = texts(SETUP, check(), code("1"), answer())
    assert order[1:] == ["1", GOOD, "check(half)"]
    assert remarks == ["the check of half stood before its answer, and was moved behind it"]


def test_what_was_typed_into_a_check_runs_before_it():
    order, _, remarks = texts(SETUP, answer(), check("x = 99"))
    assert order[1:] == [GOOD, "x = 99", "check(half)"]
    assert remarks == ["the check of half was edited; the released one is used"]


def test_the_released_setup_runs_first_whatever_became_of_it():
    assert texts(answer(), check())[0][0] == "import numpy as np"
    assert texts(code("import numpy as no"), answer(), check())[0][:2] == ["import numpy as np", "import numpy as no"]


@pytest.mark.parametrize(
    "source", ["%matplotlib inline\n" + GOOD, "half = len", "from os import path as half", "class half:\n    pass"]
)
def test_what_defines_a_function(source):
    assert defines(source, "half")


@pytest.mark.parametrize(
    "source", ["halfway = 1", "def f():\n    half = 1", "half == 1", "half(2)", "%time half(2)", "\0"]
)
def test_what_does_not(source):
    assert not defines(source, "half")


@pytest.mark.parametrize("chapter", chapters())
@pytest.mark.parametrize("folder", [NOTEBOOKS, SOLUTIONS], ids=["released", "solved"])
def test_nothing_is_said_of_our_own_chapters(chapter, folder):
    path = notebook_path(folder, chapter)
    ours = nbformat.read(notebook_path(NOTEBOOKS, chapter), as_version=4)
    made, remarks = rebuild(read_cells(path.read_bytes(), path.name), ours)
    assert remarks == []
    if folder == NOTEBOOKS:
        assert _code(made) == _code(ours)


def _code(notebook):
    return [(c.source, c.metadata.get("nbgrader")) for c in notebook.cells if c.cell_type == "code"]


def test_the_release_is_not_changed():
    ours = release()
    before = copy.deepcopy(ours)
    made, _ = rebuild([SETUP, answer(), check()], ours)
    made.cells[-1].metadata.nbgrader.points = 7
    assert ours == before and isinstance(made, NotebookNode)


def test_a_cell_is_parsed_once_however_many_exercises_ask_about_it(monkeypatch):
    parsed, parse = [], ast.parse
    monkeypatch.setattr(ast, "parse", lambda source, *a, **k: parsed.append(source) or parse(source, *a, **k))
    cells = tuple(Cell("code", f"# cell {i}\n" + "\n".join(f"{name} = {i}" for name in EXERCISES)) for i in range(9))
    bound_names.cache_clear()
    (chapter,) = chapters_in(cells)
    assert chapter in {exercise.chapter for exercise in EXERCISES.values()}
    assert all(defines(cell.source, name) for cell in cells for name in EXERCISES)
    assert not any(defines(cell.source, "cell") for cell in cells)
    assert len(parsed) == len(cells)


def test_only_an_unmarked_cell_may_be_part_of_an_answer():
    assert _one_answer({"half_answer", ""}, "half_answer") and _one_answer({"half_answer"}, "half_answer")
    assert not _one_answer({"half_answer", "other_answer"}, "half_answer") and not _one_answer({""}, "half_answer")


ABC = ("a", "b", "c")
MINE = {name: f"def {name}(x):\n    return '{name}'" for name in ABC}
STUBS = {name: STUB.replace("half", name) for name in ABC}


def release_of_three():
    made = release()
    del made.cells[2:]
    for name in ABC:
        made.cells += [
            new_code_cell(STUBS[name], id=f"a{name}", metadata={"nbgrader": {"grade_id": f"{name}_answer", **ANSWER}}),
            new_code_cell(f"check({name})", id=f"c{name}", metadata={"nbgrader": {"grade_id": name, **CHECK}}),
        ]
    return made


def answer_to(name, source):
    return Cell("code", source, f"{name}_answer", ANSWER)


def check_of(name):
    return Cell("code", f"check({name})", name, CHECK)


ALL = "\n".join(MINE.values())
THREE_STUBS = [one for n in ABC for one in (answer_to(n, STUBS[n]), check_of(n))]


@pytest.mark.parametrize(
    "cells",
    [
        [SETUP, code(ALL), *THREE_STUBS],
        [SETUP, *THREE_STUBS, code(ALL)],
        [SETUP, answer_to("a", ALL), check_of("a"), *THREE_STUBS[2:]],
        [SETUP, answer_to("c", ALL), check_of("c"), answer_to("b", STUBS["b"]), check_of("b")],
        [SETUP, code(ALL), *map(check_of, ABC)],
        [code(f"import numpy as np\n{ALL}")],
        [
            SETUP,
            answer_to("a", MINE["a"] + "\nprint(1)\n" + MINE["b"]),
            check_of("b"),
            answer_to("c", MINE["c"]),
            check_of("c"),
        ],
        [
            SETUP,
            answer_to("b", ALL),
            answer_to("b", STUBS["b"]),
            answer_to("c", "def other():\n    pass"),
            check_of("c"),
        ],
    ],
)
def test_functions_in_one_cell_answer_all_their_exercises(cells):
    notebook, remarks = rebuild(cells, release_of_three())
    nbformat.validate(notebook)
    checked, names = {}, {}
    for cell in notebook.cells:
        if cell.cell_type == "code" and cell.source.startswith("check("):
            name = cell.source[6:-1]
            checked[name] = names[name](0)
        elif cell.cell_type == "code":
            exec(cell.source.replace("import numpy as np", ""), names)
    assert checked == {name: name for name in ABC}
    marks = [cell.metadata.nbgrader.grade_id for cell in notebook.cells if "nbgrader" in cell.metadata]
    assert sorted(marks) == sorted([*ABC, *(f"{name}_answer" for name in ABC)])
    assert any("graded there" in said for said in remarks)


def test_an_exercise_with_an_answer_of_its_own_is_not_answered_by_another_cell():
    cells = [SETUP, answer_to("a", ALL), check_of("a"), answer_to("b", "def b(x):\n    return 'own'"), check_of("b")]
    notebook, remarks = rebuild(cells, release_of_three())
    marked = {c.metadata.nbgrader.grade_id: c.source for c in notebook.cells if "nbgrader" in c.metadata}
    assert "own" in marked["b_answer"] and marked["c_answer"].startswith("# c is written in the cell of a")
    assert [said for said in remarks if "graded there" in said] == [
        "c was written in the cell of a, and is graded there"
    ]


def test_an_indented_cell_below_a_whole_function_is_a_cell_of_its_own():
    order, marked, remarks = texts(SETUP, answer(), code("    def helper(x):\n        return x"), check())
    assert marked["half_answer"] == GOOD and remarks == [] and order[2].startswith("    def helper")
    _, marked, remarks = texts(
        SETUP, answer("def half(x):\n    if x:\n        return x / 2"), code("    return 0"), check()
    )
    assert marked["half_answer"].endswith("return x / 2\n    return 0") and "were joined" in remarks[0]


def test_parts_without_end_are_not_joined_without_end(monkeypatch):
    read = []
    monkeypatch.setattr("grader.classroom.repair.parses", lambda source: read.append(len(source)) or ast_parses(source))
    for cells in (
        [answer("def half(x):\n    y = 1"), *(answer(f"    y = {n}") for n in range(400))],
        [answer("def half(x):\n    y = 1"), *(answer("    y = '" + "x" * 5_000 + "'") for n in range(40))],
    ):
        read.clear()
        _, remarks = rebuild([SETUP, *cells, check()], release())
        assert "the parts of the split cell half_answer were joined" in remarks
        assert sum(read) < 3_000_000


def ast_parses(source):
    try:
        return bool(ast.parse(source)) or True
    except SyntaxError:
        return False


@pytest.mark.parametrize("call", ['check(my_half, "half")', 'check(my_half, exercise="half")'])
@pytest.mark.parametrize("stub", [True, False])
def test_a_function_that_was_checked_under_another_name_is_graded_under_it(call, stub):
    mine = GOOD.replace("half", "my_half")
    cells = [SETUP, *([answer(STUB), code(mine)] if stub else [answer(mine)]), check(call)]
    order, _, remarks = texts(*cells)
    assert order[-2:] == ["half = my_half", "check(half)"] and "half is graded under the name my_half" in "".join(
        remarks
    )
    order, _, remarks = texts(SETUP, answer(), code(mine), check(call))
    assert "half = my_half" not in order, "an answer under its own name counts"
    for other in ('check(my_half, "other")', "check(my_half)", 'print(my_half, "half")', 'check("x", "half")'):
        assert "half = my_half" not in texts(SETUP, answer(mine), check(other))[0]


def test_a_draft_behind_the_merged_answers_counts_as_it_does_in_python():
    later = code("def a(x):\n    return 'later'")
    cells = [SETUP, answer_to("a", STUBS["a"]), answer_to("b", ALL), later, check_of("a"), check_of("b")]
    notebook, _ = rebuild(cells, release_of_three())
    marked = {c.metadata.nbgrader.grade_id: c.source for c in notebook.cells if "nbgrader" in c.metadata}
    assert "later" in marked["a_answer"]
