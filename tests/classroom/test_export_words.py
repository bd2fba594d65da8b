"""What students read beside their grades: points, extra credit, and what the instructor has written by hand."""

import csv
from dataclasses import replace

import pytest
from nbgrader.api import Gradebook
from test_export import CHAPTER, DUE, MOODLE, _result, gradescope_of, rows
from test_export import graded as of_class
from test_results import MOST, NAMES, ONE, notebook

from grader.classroom.engine.gradebook import Entry, Grade, _new_gradebook, entry_of
from grader.classroom.engine.results import read_scores
from grader.classroom.export import Line, read_report
from grader.classroom.export_moodle import fill_moodle
from grader.classroom.export_words import comment, extra_in, points_said
from grader.classroom.reports import write_report
from grader.classroom.states import Graded

FIRST = NAMES[0]
FULL = MOST[FIRST]


def graded(remarks=None, **grades):
    """A graded submission, read as `grader grade` reads it."""
    entry = Entry({name: Grade(MOST[name], None, MOST[name]) for name in NAMES} | grades, {}, remarks=remarks or {})
    read = read_scores(replace(ONE, number="501"), notebook(), entry)
    return Graded(replace(ONE, number="501"), "graded", "; ".join(read.notes), read.scores)


def line(points, result, most=4.0, mistake=""):
    return Line("x", points, most, result, mistake)


# Extra credit


@pytest.mark.parametrize(
    "points, result, found",
    [
        (5.0, "right, 1 point of extra credit", ("right", 1.0)),
        (2.5, "graded by hand, 0.5 points of extra credit", ("graded by hand", 0.5)),
        (4.0, "right", ("right", 0.0)),
        (3.0, "graded by hand, -1 points of extra credit", ("graded by hand, -1 points of extra credit", 0.0)),
        (0.0, "error: E: x, 9 points of extra credit", ("error: E: x, 9 points of extra credit", 0.0)),
        (None, "failed: x, 1 point of extra credit", ("failed: x, 1 point of extra credit", 0.0)),
        (5.0, "error: E: x, some points of extra credit", ("error: E: x, some points of extra credit", 0.0)),
        (5.0, "1 point of extra credit in all", ("1 point of extra credit in all", 0.0)),
    ],
)
def test_extra_credit_is_read_off_the_result(points, result, found):
    assert extra_in(line(points, result)) == found


def test_points_are_said_with_what_is_extra():
    assert points_said(line(5.0, "right, 1 point of extra credit")) == "5 of 4, 1 of it extra credit"
    assert points_said(line(2.5, "wrong")) == "2.5 of 4" and points_said(line(None, "failed: x")) == "no result"


def test_extra_credit_is_plain_beside_the_grade_whatever_else_is_said(tmp_path):
    more = Grade(FULL, None, FULL + 1, extra=1.0)
    said = comment(_result(graded(**{FIRST: more}))).splitlines()
    assert said[0] == f"{FIRST}: {FULL + 1:g} of {FULL:g}, 1 of it extra credit"
    assert said[1] == f"{NAMES[1]}: {MOST[NAMES[1]]:g} of {MOST[NAMES[1]]:g}"
    by_hand = graded(**{FIRST: Grade(0.0, 1.0, 1.5, extra=0.5)})
    assert comment(_result(by_hand)).startswith(
        f"{FIRST}: 1.5 of {FULL:g}, 0.5 of it extra credit (graded by hand)\n{NAMES[1]}: "
    )
    one = of_class("Ana", 0.5)
    score = replace(one.scores[0], points=3.0, result="partly right, 1 point of extra credit")
    one = replace(one, scores=(score, *one.scores[1:]))
    assert comment(_result(one)).startswith(f"{DUE[0].name}: 3 of 5, 1 of it extra credit ({score.mistake})\n")
    _, data = gradescope_of(one, tmp_path)
    first, second, third = data["tests"][0]["output"].splitlines()
    assert (first, second) == ("partly right", "3 of 5, 1 of it extra credit") and third.startswith(score.mistake)


def test_extra_credit_passes_no_test_of_gradescopes(tmp_path):
    for points, extra, status in ((FULL, 1.0, "failed"), (FULL + 1, 1.0, "passed")):
        _, data = gradescope_of(graded(**{FIRST: Grade(points - extra, None, points, extra=extra)}), tmp_path)
        first = data["tests"][0]
        assert (first["score"], first["max_score"], first["status"]) == (points, FULL, status)


# Comments


def test_what_is_written_by_hand_reaches_the_report_and_the_platforms(tmp_path):
    one = graded({f"{FIRST}_answer": "=See me <b>\n\nsoon, 'please'"})
    write_report([one], tmp_path)
    (result,) = read_report(tmp_path)
    assert [each.comment for each in result.lines] == ["=See me <b>\n\nsoon, 'please'", "", "", "", ""]
    points = f"{FIRST}: {FULL:g} of {FULL:g}"
    assert comment(result).startswith(f"{points}\nComment: =See me <b>\n\nsoon, 'please'\n{NAMES[1]}: ")
    (tmp_path / "sheet.csv").write_text(MOODLE, encoding="utf-8")
    (tmp_path / "moodle.csv").write_text(fill_moodle([result], tmp_path / "sheet.csv").text, encoding="utf-8")
    told = rows(tmp_path / "moodle.csv")[1][9]
    assert told.startswith(f"{points}<br>Comment: =See me &lt;b&gt;<br><br>soon, 'please'<br>{NAMES[1]}: ")
    _, data = gradescope_of(one, tmp_path)
    assert data["tests"][0]["output"] == "right\nComment: =See me <b>\n\nsoon, 'please'"
    assert data["tests"][1]["output"] == "right"


@pytest.mark.parametrize(
    "remarks, said",
    [
        ({FIRST: "a"}, "a"),
        ({f"{FIRST}_answer": "a", FIRST: "b"}, "a\nb"),
        ({f"{FIRST}_answer": "\n a \r\nb\rc  \n"}, "a\nb\nc"),
        ({f"{FIRST}_answer": " \n "}, ""),
        ({}, ""),
    ],
)
def test_the_lines_of_comments(remarks, said, tmp_path):
    one = graded(remarks)
    assert one.scores[0].comment == said and not any(score.comment for score in one.scores[1:])
    write_report([one], tmp_path)
    assert read_report(tmp_path)[0].lines[0].comment == said and one.reason == ""


def test_a_comment_on_no_exercise_is_said_to_stay_where_it_is():
    one = graded({"another_cell": "a", "an_empty_one": "", f"{FIRST}_answer": "b"})
    assert one.reason == "the comment on another_cell stands on the feedback page alone"
    assert one.scores[0].comment == "b"


def test_an_essay_of_a_comment_comes_back(tmp_path):
    csv.field_size_limit(131_072)  # as at first, whatever ran before
    write_report([graded({FIRST: "x" * 200_000})], tmp_path)
    assert len(read_report(tmp_path)[0].lines[0].comment) == 200_000


def test_only_what_somebody_has_written_is_a_remark(tmp_path):
    _new_gradebook(tmp_path)
    with Gradebook(f"sqlite:///{tmp_path}/gradebook.db") as book:
        book.add_assignment(CHAPTER)
        book.add_notebook(CHAPTER, CHAPTER)
        cells = [f"{name}_answer" for name in NAMES[:4]]
        for cell in cells:
            book.add_solution_cell(cell, CHAPTER, CHAPTER)
        book.add_student("ana")
        book.add_submission(CHAPTER, "ana")
        kept = {one.name: one for one in book.find_submission_notebook(CHAPTER, CHAPTER, "ana").comments}
        kept[cells[0]].auto_comment = kept[cells[1]].auto_comment = "No response."
        kept[cells[1]].manual_comment, kept[cells[2]].manual_comment = "mine", ""
        book.db.commit()
        entry = entry_of(book, ONE)
    assert entry.remarks == {cells[1]: "mine"}
    assert entry.comments == {cells[0]: "No response.", cells[1]: "mine", cells[2]: "", cells[3]: ""}
    assert "remarks" not in entry.shown()
