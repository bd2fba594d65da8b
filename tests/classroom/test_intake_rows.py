"""Names that meet in one folder, and rows of people who cannot be told apart."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from grader.classroom.intake_names import safe_id
from grader.classroom.intake_rows import alike, folds_case, told_alike, without_a_folder, without_doubles


def test_names_that_differ_in_capital_letters_alone():
    three = ["ANA", "Ana", "ana"]
    assert alike(["Ana", "ben", "ana", "ANA", "Ben Oz", "ben oz"]) == {name: three for name in three}
    assert "ana and Ana" in told_alike(["ana", "Ana"])


def test_who_has_no_folder_of_his_own():
    theirs = safe_id("a b")
    near = alike(["Ana", "ana", "a b", theirs])
    assert set(without_a_folder(near, [], folds=False)) == {"a b", theirs}
    assert set(without_a_folder(near, [], folds=True)) == {"Ana", "ana", "a b", theirs}
    assert set(without_a_folder(near, ["ana", "a b"], folds=True)) == {"Ana", theirs}
    assert set(without_a_folder(near, ["ana", "Ana"], folds=True)) == {"Ana", "ana", "a b", theirs}
    assert f"a b and {theirs} would share" in without_a_folder(near, [], folds=False)["a b"]


@pytest.mark.parametrize("there", [True, False])
def test_whether_a_file_system_knows_capital_letters_is_tried(tmp_path, monkeypatch, there):
    monkeypatch.setattr(Path, "exists", lambda self: self.name == "A NAME" and there)
    assert folds_case(tmp_path) is there
    assert list(tmp_path.iterdir()) == []


def rows(*given):
    return [SimpleNamespace(student=student, chapter=chapter, state=state) for student, chapter, state in given]


def kept(*given, claims):
    return [(row.student, row.chapter, row.state) for row in without_doubles(iter(rows(*given)), claims)]


TWO = {"Ana": (2, {"Ana (1)", "Ana (2)", "Ana (3)"})}


def test_only_rows_that_say_of_namesakes_that_nothing_came_are_left_out():
    bo, one, two = ("Bo", "x", "missing"), ("Ana (1)", "x", "found"), ("Ana (2)", "x", "failed")
    assert kept(("Ana", "x", "missing"), one, two, ("Ana (3)", "x", "missing"), bo, claims=TWO) == [one, two, bo]
    assert kept(("Ana", "x", "missing"), bo, claims={}) == [("Ana", "x", "missing"), bo]


def test_as_many_rows_are_kept_as_there_are_people_and_each_chapter_counts_for_itself():
    missing = [(f"Ana{number}", chapter, "missing") for chapter in "xy" for number in ("", " (1)", " (2)", " (3)")]
    assert kept(*missing, claims=TWO) == [missing[1], missing[2], missing[5], missing[6]]
    came = ("Ana (3)", "x", "found")
    assert kept(*missing[:3], came, claims=TWO) == [missing[1], came]
    alone = ("Ana", "x", "found")  # the only one of the name in another assignment
    assert kept(alone, *missing[1:4], claims=TWO) == [alone, missing[1]]


def test_other_peoples_names_have_nothing_to_do_with_it():
    claims = {**TWO, "Bo": (2, {"Bo (1)", "Bo (2)"})}
    given = [("Ana (1)", "x", "found"), ("Ana (2)", "x", "found"), ("Bo (1)", "x", "missing"), ("Bo (2)", "x", "found")]
    assert kept(*given, claims=claims) == given
