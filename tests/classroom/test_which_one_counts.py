"""Which of several notebooks and names counts, where more than one could."""

import os

import nbformat
import students
from test_intake import CHAPTER, NAME, RELEASED, ZOE, ZOE_APART, klass, packed  # noqa: F401
from test_repair import GOOD, SETUP, STUB, answer, check, code, release
from test_same_student import FOUND

from grader.classroom.intake_names import read_roster
from grader.classroom.intake_notebook import Cell
from grader.classroom.repair import is_untouched
from grader.classroom.same_student import keep_names, known_as


def worked():
    return nbformat.writes(
        students.with_answers({"log_softmax": "def log_softmax(logits):\n    return 'mine'"})
    ).encode()


def test_an_untouched_notebook_does_not_stand_back_for_one_that_cannot_be_read(klass):  # noqa: F811
    klass.put(f"ana/{CHAPTER}/{NAME}")
    klass.put(f"ana/{CHAPTER}/{CHAPTER}-Copy1.ipynb", b"junk")
    one = klass.one()
    assert one.state == "found" and "nothing is done" not in one.reason


def test_of_two_folders_of_one_name_none_stands_back_for_the_other(klass):  # noqa: F811
    files = {f"{ZOE}/{CHAPTER}/{NAME}": RELEASED, f"{ZOE_APART}/{CHAPTER}/{NAME}": worked()}
    one = klass.one(source=packed(files, klass.folder / "z.zip"))
    assert one.state == "failed" and "hold different notebooks of this chapter" in one.reason


def test_of_two_moodle_downloads_the_later_counts_even_if_nothing_is_done_in_it(klass):  # noqa: F811
    for number, (name, when, data) in enumerate([("a.zip", 100, worked()), ("b.zip", 200, RELEASED)]):
        os.utime(klass.put(name, packed({f"Ana_{number}_assignsubmission_file_/{NAME}": data})), (when, when))
    assert not any("'mine'" in cell.source for cell in klass.staged(klass.one()).cells)


def test_what_counts_as_begun():
    assert is_untouched([SETUP, answer(STUB), check()], release())
    assert not is_untouched([answer(STUB), code(GOOD)], release()), "written in a cell without the mark"
    assert not is_untouched([answer("x / 2")], release()), "the marked cell, whatever it holds"
    assert is_untouched([answer(STUB), Cell("markdown", "half = the idea")], release()), "prose is no answer"


def test_a_line_with_half_of_the_columns_is_a_name(tmp_path):
    (tmp_path / "r.csv").write_text("first name,last name\nCher\nAna,Lee\n")
    assert read_roster(tmp_path / "r.csv") == ["Cher", "Ana Lee"]


def test_an_id_is_its_students_whatever_names_says_of_it(tmp_path):
    keep_names(tmp_path, FOUND, {"ben": "Zoë Lee"})
    assert known_as("ben", tmp_path) == "ben"
