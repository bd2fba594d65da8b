"""Exports: files in the shapes that Canvas and Moodle write, filled in and read again; results.json for Gradescope."""

import csv
import io
import json
import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import a_class
import pytest
from typer.testing import CliRunner

from grader import cli
from grader.classroom.export import ExportError, Line, Result, Sheet, _plain, match, of_chapter, read_report
from grader.classroom.export_files import MADE, Files
from grader.classroom.export_moodle import fill_moodle
from grader.classroom.export_numbers import comma_in, number_in, scaled
from grader.classroom.export_words import comment
from grader.classroom.intake import Submission
from grader.classroom.reports import write_report
from grader.classroom.states import Graded, Score
from grader.exercises import EXERCISES

CHAPTER = "02_advantages_and_logprobs"
DUE = [exercise for exercise in EXERCISES.values() if exercise.chapter == CHAPTER]
MOST = sum(exercise.points for exercise in DUE)


def graded(name, share=1.0, state="graded", number="", penalty=0.0, lost=False, chapter=CHAPTER, intake="", flags=()):
    scores = []
    for exercise in (e for e in EXERCISES.values() if e.chapter == chapter):
        points = None if state in ("failed", "missing") else float(int(exercise.points * share))
        right = points == exercise.points
        scores.append(
            Score(
                name,
                chapter,
                exercise.name,
                points,
                exercise.points,
                "right" if right else "partly right",
                "" if right else exercise.mistakes[0].name,
            )
        )
    if lost:
        scores[0] = replace(scores[0], points=None, result="failed: no result")
    late = penalty * 36000
    return Graded(
        Submission(name, name, chapter, intake or ("missing" if state == "missing" else "found"), number=number),
        state,
        "why <b>" if state != "graded" else "",
        tuple(scores),
        None,
        late,
        penalty,
        flags=flags,
    )


CLASS = [
    graded("Ana Lee", number="501"),
    graded("=Ben Öz", 0.5, number="502", penalty=1.5),
    graded("Cleo", state="failed", number="503", intake="failed"),
    graded("Dev No", lost=True, number="504"),
    graded("Eve", state="missing"),
    graded("Finn", 0.0, "needs review", number="506"),
    graded("Nobody Knows", number="999"),
]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The report of CLASS, once: to draw the class page takes longer than most tests here."""
    folder = tmp_path_factory.mktemp("class")
    write_report(CLASS, folder)
    return folder


@pytest.fixture
def report(written, tmp_path):
    return shutil.copytree(written, tmp_path / "report")


def run(*arguments):
    return CliRunner().invoke(cli.app, ["export", *map(str, arguments)], catch_exceptions=False)


def rows(path, delimiter=","):
    return list(csv.reader(io.StringIO(path.read_text(encoding="utf-8-sig"), newline=""), delimiter=delimiter))


# The report, read back


def test_a_report_comes_back_as_it_was(report):
    results = {result.student: result for result in read_report(report)}
    assert [r.points for r in results.values()] == [
        MOST,
        sum(e.points // 2 for e in DUE) - 1.5,
        None,
        None,
        None,
        0,
        MOST,
    ]
    assert results["=Ben Öz"].lines[0].mistake == DUE[0].mistakes[0].name and results["=Ben Öz"].most == MOST
    assert results["Dev No"].why_not == f"no result of {DUE[0].name}" and "failed: why" in results["Cleo"].why_not


def test_a_report_says_what_came_in_and_how_late_and_what_to_look_at(tmp_path):
    late = replace(graded("a", penalty=0.5), late=7200.4, flags=("x", "y"))
    noted = replace(graded("b"), submission=Submission("b", "b", CHAPTER, "found", late=True))
    write_report([late, noted, graded("c", state="failed", intake="failed")], tmp_path)
    first, second, third = read_report(tmp_path)
    assert (first.late, first.late_seconds, first.penalty, first.flags) == ("yes", 7200, 0.5, "x; y")
    assert (second.late, second.late_seconds) == ("yes", 0)
    assert [one.refused for one in (first, second, third)] == [False, False, True]
    assert [replace(third, intake=word).refused for word in ("missing", "found", "in doubt")] == [True, False, False]
    assert comment(first).endswith("late (2 h 0 min): -0.5") and "late" not in comment(second)
    assert comment(replace(first, late_seconds=0.0)).endswith("late: -0.5")


def points_of(*points, penalty=0.0):
    lines = tuple(Line(f"x{n}", one, 2.0, "right", "") for n, one in enumerate(points))
    return Result("a", "c", "graded", "", penalty, "", "", "", lines)


def test_lateness_costs_no_more_than_there_is_and_no_result_is_no_zero():
    assert points_of(1.0, penalty=5.0).points == 0.0 and points_of(2.0, 1.5, penalty=0.5).points == 3.0
    assert points_of().points is None and points_of(2.0, None).points is None
    assert points_of(2.0, None).why_not == "no result of x1"
    left = replace(points_of(None), state="not graded yet")
    assert left.why_not == "not graded yet" and replace(left, reason="stopped").why_not == "not graded yet: stopped"


def test_the_quote_against_formulas_is_taken_off_again():
    assert [_plain(f"'{sign}x") for sign in "=+-@\t\r"] == [f"{sign}x" for sign in "=+-@\t\r"]
    assert [_plain(text) for text in ("'x", "x", "'", "", "'' =")] == ["'x", "x", "'", "", "'' ="]


def spoil(report, name, old, new):
    path = report / name
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


@pytest.mark.parametrize(
    "name, old, new, words",
    [
        ("submissions.csv", "late_seconds", "lateness", "submissions.csv has no column 'late_seconds'"),
        (
            "scores.csv",
            ",comment",
            ",words",
            "scores.csv has no column 'comment', so it is not a report of this version",
        ),
        ("scores.csv", ",", ";", "scores.csv is separated by semicolons: a spreadsheet has saved it"),
        ("scores.csv", ",5,5,right,", ',"5,0",5,right,', "scores.csv, line 2: points is '5,0', no number"),
        ("scores.csv", ",5,5,right,", ",inf,5,right,", "points is 'inf', no number"),
        ("submissions.csv", ",missing\n", ",missing,more\n", "line 6: not as many fields as columns"),
        ("submissions.csv", ",missing\n", "\n", "line 6: not as many fields as columns"),
    ],
)
def test_a_report_that_was_changed_is_said_with_the_place(report, name, old, new, words):
    spoil(report, name, old, new)
    done = run("gradescope", "--report", report)
    assert done.exit_code == 1 and words in done.output and "`grader grade` again" in done.output


def test_a_report_that_is_none_is_said(tmp_path):
    with pytest.raises(ExportError, match=r"scores.csv cannot be read .* Run `grader grade` first, or .* --report"):
        read_report(tmp_path)
    for name in ("scores.csv", "submissions.csv"):
        (tmp_path / name).write_text("")
    with pytest.raises(ExportError, match=r"scores.csv is empty; run `grader grade` again"):
        read_report(tmp_path)
    (tmp_path / "scores.csv").write_bytes("student\nÖz".encode("latin-1"))
    with pytest.raises(ExportError, match=r"scores.csv is not in UTF-8: a spreadsheet"):
        read_report(tmp_path)


@pytest.mark.parametrize("platform", ["canvas", "moodle"])
def test_a_file_that_is_not_there_is_said_before_all_that_is_wrong_with_the_other(report, tmp_path, platform):
    out = tmp_path / "out.csv"
    out.write_text("somebody's")
    done = run(platform, tmp_path / "none.csv", "--out", out, "--report", report)
    assert done.exit_code == 1 and "none.csv cannot be read (No such file" in done.output and "--out" not in done.output
    done = run(platform, out, "--out", out, "--report", report, "--names", tmp_path / "nobody.csv")
    assert done.exit_code == 1 and "nobody.csv cannot be read" in done.output and "--out" not in done.output
    assert out.read_text() == "somebody's"


def test_which_chapter(tmp_path):
    write_report([*CLASS, graded("Ana Lee", chapter="03_the_grpo_loss")], tmp_path)
    results = read_report(tmp_path)
    assert {r.chapter for r in of_chapter(results, "03_the_grpo_loss")} == {"03_the_grpo_loss"}
    assert of_chapter(results, "03") == of_chapter(results, "03_the_grpo_loss")
    with pytest.raises(ExportError, match="several chapters"):
        of_chapter(results, "")
    with pytest.raises(ExportError, match="no chapter '4'"):
        of_chapter(results, "4")


# Canvas

CANVAS = (
    "\ufeffStudent,ID,SIS User ID,SIS Login ID,Section,GRPO 01 (77),02 Advantages and logprobs (78),Final Score\r\n"
    ",,,,,Manual Posting,,\r\n"
    "    Points Possible,,,,,10,50,(read only)\r\n"
    '"Lee, Ana",501,u1,ana@x,"S, 1",3.50,,12.5\r\n'
    '"Öz, =Ben",7002,502,ben@x,S 1,"1,5",9,"a ""quote"""\r\n'
    "Cleo,503,u3,cleo,S 1,,7,\r\n"
    '"No, Dev",504,u4,dev,S 1,,,\r\n'
    "Eve,505,u5,eve,S 1,,,\r\n"
    "finn,7006,u6,finn,S 1,,EX,\r\n"
    '"Student, Test",9,,t,S 1,,,\r\n'
)


def test_canvas_gets_one_column_and_keeps_the_rest(report, tmp_path):
    source, out = tmp_path / "grades.csv", tmp_path / "out" / "canvas.csv"
    source.write_text(CANVAS, encoding="utf-8", newline="")
    done = run("canvas", source, "--out", out, "--report", report)
    assert done.exit_code == 0, done.output
    before, after = rows(source), rows(out)
    half = (sum(e.points // 2 for e in DUE) - 1.5) * 50 / MOST
    assert [row[6] for row in after] == [before[0][6], "", "50", "50", f"{round(half, 2):g}", "7", "", "", "EX", ""]
    for old, new in zip(before, after, strict=True):
        assert old[:6] + old[7:] == new[:6] + new[7:]
    text = out.read_bytes()
    assert text.startswith(b"\xef\xbb\xbf") and text.count(b"\r\n") == len(after) and b"\n\n" not in text
    for words in (
        "Cleo (failed: why",
        "no result of group_relative_advantage",
        "stands at EX",
        "Eve (missing",
        "Test (not in the report)",
    ):
        assert words in done.output, done.output
    assert "not found in the file: Nobody Knows" in done.output and f"{MOST} points became 50" in done.output


def test_canvas_with_two_name_columns_a_chosen_column_and_a_list_of_names(report, tmp_path):
    source, out = tmp_path / "grades.csv", tmp_path / "canvas.csv"
    header = "LastName;FirstName;ID;Section;Week 2 (5);02 advantages and logprobs (6)"
    source.write_text(f"{header}\nPoints Possible;;;;{MOST};\nL.;A.;42;S;;\nx;Finn;43;S;3;\n")
    (tmp_path / "names.csv").write_text("42,Ana Lee\n43,Finn\n")
    done = run("canvas", source, "--out", out, "--report", report, "--column", "5", "--names", tmp_path / "names.csv")
    assert done.exit_code == 0 and "became" not in done.output
    assert [row[4] for row in rows(out, ";")][2:] == [str(MOST), "0"]
    quarter = f"{MOST / 4:g}".replace(".", ",")
    source.write_text(
        source.read_text().replace("x;Finn;43;S;3;", "x;Finn;43;S;8,5;").replace(f";{MOST};", f";{quarter};")
    )
    done = run("canvas", source, "--out", out, "--report", report, "--column", "5", "--names", tmp_path / "names.csv")
    assert [row[4] for row in rows(out, ";")][2] == quarter, done.output
    source.write_text(source.read_text().replace("Week 2 (5)", "03 the GRPO loss (5)"))
    done = run("canvas", source, "--out", tmp_path / "o.csv", "--report", report, "--column", "5", "--force")
    assert "in the column '03 the GRPO loss (5)' now, which names 03_the_grpo_loss" in done.output.replace("\n", " ")


@pytest.mark.parametrize(
    "text, arguments, words",
    [
        (CANVAS, ["--column", "Week 9"], "no column fits 'Week 9'"),
        (CANVAS.replace("GRPO 01 (77)", "02 advantages and logprobs again (77)"), [], "2 columns fit"),
        (CANVAS.replace(",10,50,", ",10,,"), [], "no Points Possible"),
        (CANVAS.replace("Student,ID", "Name,No"), [], "is no gradebook of Canvas"),
        ("Student,ID\n", [], "has no rows"),
        ("", [], "has no rows"),
        ("Student,ID\nPoints Possible,\nAna Lee,501\n", [], "no column of an assignment"),
    ],
)
def test_what_is_no_gradebook_is_said_and_nothing_is_written(report, tmp_path, text, arguments, words):
    source, out = tmp_path / "grades.csv", tmp_path / "canvas.csv"
    source.write_text(text)
    done = run("canvas", source, "--out", out, "--report", report, *arguments)
    assert done.exit_code == 1 and words in done.output and not out.exists()


def test_other_encodings_are_refused_and_long_fields_are_not(tmp_path):
    path = tmp_path / "grades.csv"
    path.write_text("Student,ID\n" + "x" * 200_000 + ",1\n")
    assert len(Sheet.read(path).rows[1][0]) == 200_000
    path.write_bytes("Student,ID\nÖz,1\n".encode("latin-1"))
    with pytest.raises(ExportError, match="not in UTF-8"):
        Sheet.read(path)


# Moodle

MOODLE = (
    "Identifier,Full name,Email address,Status,Grade,Maximum grade,Grade can be changed,Last modified (submission),"
    '"Last modified (grade)","Feedback comments"\n'
    'Participant 501,Somebody,a@x,Submitted,,"100,00",Yes,"Monday, 1 March 2027, 10:00 AM",-,\n'
    'Participant 502,=Ben Öz,b@x,Submitted,"3,00","100,00",Yes,-,-,old\n'
    'Participant 503,Cleo,c@x,Submitted,"5,00","100,00",Yes,-,-,by hand\n'
    'Participant 77,Finn,f@x,Submitted,,"100,00",No,-,-,\n'
    'Participant 78,Someone Else,g@x,,,"100,00",Yes,-,-,\n'
)


def test_moodle_gets_grades_and_comments_and_keeps_the_rest(report, tmp_path):
    source, out = tmp_path / "sheet.csv", tmp_path / "moodle.csv"
    source.write_text(MOODLE, encoding="utf-8")
    done = run("moodle", source, "--out", out, "--report", report)
    assert done.exit_code == 0, done.output
    before, after = rows(source), rows(out)
    half = round((sum(e.points // 2 for e in DUE) - 1.5) * 100 / MOST, 2)
    assert [row[4] for row in after][1:] == ["100", f"{half:g}".replace(".", ","), "5,00", "", ""]
    assert [old[:4] + old[5:9] for old in before] == [new[:4] + new[5:9] for new in after]
    assert after[3][9] == "by hand" and after[1][9].startswith(f"{DUE[0].name}: 5 of 5<br>")
    assert f"({DUE[0].mistakes[0].name})" in after[2][9] and after[2][9].endswith("late (15 h 0 min): -1.5")
    assert "cannot be changed" in done.output and "Someone Else (not in the report)" in done.output


def test_moodle_in_another_language_and_without_a_maximum(report, tmp_path):
    source, out = tmp_path / "sheet.csv", tmp_path / "moodle.csv"
    source.write_text("ID,Vollständiger Name,Bewertung\nTeilnehmer/in501,Ana Lee,\n", encoding="utf-8")
    arguments = ["moodle", source, "--out", out, "--report", report]
    assert "no column 'Grade'; say with --grade-column which of these it is: ID, Voll" in run(*arguments).output
    assert "maximum grade" in run(*arguments, "--grade-column", "Bewertung").output and not out.exists()
    done = run(*arguments, "--grade-column", "bewertung", "--max-grade", "10")
    assert done.exit_code == 0 and rows(out)[1] == ["Teilnehmer/in501", "Ana Lee", "10"] and "no column" in done.output
    source.write_text("a,Grade\nx,\n")
    assert "no grading worksheet" in run(*arguments).output


def test_what_students_write_is_no_markup_in_a_comment(tmp_path):
    one = graded("Ana Lee", number="501")
    first = replace(one.scores[0], points=0.0, result="error: 'x' <script>")
    result = _result(replace(one, scores=(first, *one.scores[1:])))
    assert comment(result).startswith(f"{DUE[0].name}: 0 of 5 (error: 'x' <script>)")
    (tmp_path / "sheet.csv").write_text(MOODLE, encoding="utf-8")
    (tmp_path / "moodle.csv").write_text(fill_moodle([result], tmp_path / "sheet.csv").text, encoding="utf-8")
    assert rows(tmp_path / "moodle.csv")[1][9].startswith(f"{DUE[0].name}: 0 of 5 (error: 'x' &lt;script&gt;)<br>")


def _result(one):
    with tempfile.TemporaryDirectory() as scratch:
        write_report([one], Path(scratch))
        return read_report(Path(scratch))[0]


def test_moodle_finds_people_by_login_and_list_and_fills_short_rows(tmp_path):
    people = [_result(graded("ana@x")), _result(graded("O'Neill"))]
    sheet = tmp_path / "sheet.csv"
    sheet.write_text(
        "Identifier,Full name,Email address,Grade,Feedback comments\nParticipant 1,X,ana@x\n\n,,,,\n"
        "Participant 2,Y,y@x,,\nParticipant 3,,z@x,,\n"
    )
    done = fill_moodle(people, sheet, {"y@x": "O'Neill"}, possible=float(MOST))
    assert (done.written, done.left) == (("X", "Y"), (("Participant 3", "not in the report"),))
    assert done.text.splitlines()[1].startswith(f"Participant 1,X,ana@x,{MOST},{DUE[0].name}: ")


def test_rows_find_their_student_by_number_login_and_name():
    results = [_result(graded("ana", number="1")), _result(graded("Ben Öz")), _result(graded("cleo"))]
    people = [
        {"name": "X", "ID": "1"},
        {"name": "Oz, Ben", "ID": ""},
        {"name": "Y", "login": "cleo"},
        {"name": "Z", "ID": "9"},
    ]
    found, why = match(results, people, {})
    assert {index: result.student for index, result in found.items()} == {0: "ana", 1: "Ben Öz", 2: "cleo"}
    assert why == {3: "not in the report"}
    assert match(results, people, {"9": "cleo"})[0][3].student == "cleo"
    assert match(results, people, {"Z (9)": "cleo"})[0][3].student == "cleo"
    assert match(results, [{"name": " Zoe\u0308", "ID": ""}], {"Zo\u00eb": "cleo"})[0][0].student == "cleo"


def test_two_rows_of_one_name_are_said_to_be_two():
    results = [_result(graded("ana lee")), _result(graded("cleo", number="3")), _result(graded("dev"))]
    names = ("ana lee", "ana lee", "X", "cleo", "Y", "Y")
    people = [{"name": name, "ID": number} for name, number in zip(names, "123456", strict=True)]
    found, why = match(results, people, {})
    assert {index: result.student for index, result in found.items()} == {2: "cleo"}
    assert why[0] == why[1] == "2 people here may be ana lee: say who is who with --names, by number"
    assert why[3] == "two people here may be cleo, and another row is: say who is who with --names, by number"
    assert why[4] == why[5] == "not in the report"


@pytest.mark.parametrize(
    "text, number",
    [
        ("", None),
        ("50", 50),
        ("3.50", 3.5),
        ("1,5", 1.5),
        ("100,00", 100),
        ("100.00000", 100),
        ("0,125", 0.125),
        ("0.125", 0.125),
        ("1000", 1000),
        ("1,000.00", 1000),
        ("1.000,5", 1000.5),
        ("1,000,000", 1e6),
        ("1.000.000", 1e6),
        ("1\u202f000,5", 1000.5),
        ("1'000", 1000),
        ("12 345", 12345),
    ],
)
def test_numbers_as_platforms_write_them(text, number):
    assert number_in(f" {text} ") == number


@pytest.mark.parametrize(
    "text",
    [
        "nan",
        "inf",
        "-5",
        "0",
        "0,00",
        "1e3",
        "1,0,0",
        "1,00,000",
        "1.000,000.5",
        "1 2",
        "1 0000",
        "\u0663\u0664",
        "x",
        "-",
        "9" * 400,
    ],
)
def test_what_is_no_maximum_is_said(text):
    with pytest.raises(ExportError, match="is no number above 0") as said:
        number_in(text)
    assert len(str(said.value)) < 70


@pytest.mark.parametrize("text", ["1,000", "1.000", "100,000"])
def test_a_number_that_may_be_two_is_refused(text):
    with pytest.raises(
        ExportError, match=rf"{text} may be {text[:-4]}000 or {text[:-4]}\.00: write it in one of these ways"
    ):
        number_in(text)


@pytest.mark.parametrize(
    "columns, comma",
    [
        ([["100,00"], ["3.00"]], True),
        ([["100.00"], ["3,00"]], False),
        ([["100", ""], ["-", "3,5"]], True),
        ([["0,00"]], True),
        ([["1.000,00"]], True),
        ([["1\u202f000,5"]], True),
        ([["1,000.00"]], False),
        ([["1,000,000"], ["x,5"], ["1,0,0"], ["1, 2"]], False),
        ([["12,500"], ["1,5"]], True),
        ([["12,500"], ["1.5"]], False),
        ([["100", "3,5", "2.5"], ["3,5"]], False),
        ([[], []], False),
    ],
)
def test_which_mark_stands_before_decimals(columns, comma):
    assert comma_in(*columns) is comma


def test_large_scales_keep_their_decimals():
    assert [scaled(1, 3, 300_000), scaled(1, 3, 100_000), scaled(0, 3, 1)] == ["100000", "33333.33", "0"]
    assert scaled(0, 0, 5) == "0" and scaled(1, 1, 100) == "100"


@pytest.mark.parametrize(
    "possible, words", [('"1,000"', "1,000 may be 1000 or 1.00"), ("nan", "nan is no number"), ("0", "0 is no")]
)
def test_points_possible_that_are_none_are_refused_and_nothing_is_written(report, tmp_path, possible, words):
    source, out = tmp_path / "grades.csv", tmp_path / "canvas.csv"
    source.write_text(CANVAS.replace(",10,50,", f",10,{possible},"))
    done = run("canvas", source, "--out", out, "--report", report)
    assert done.exit_code == 1 and f"Points Possible for '02 Advantages and logprobs (78)': {words}" in done.output
    assert not out.exists()


def test_a_maximum_grade_that_is_none_is_refused_and_nothing_is_written(report, tmp_path):
    source, out = tmp_path / "sheet.csv", tmp_path / "moodle.csv"
    for maximum, words in (("nan", "nan is no number above 0"), ("1,000", "1,000 may be 1000 or 1.00")):
        source.write_text(MOODLE.replace('"100,00"', f'"{maximum}"'), encoding="utf-8")
        done = run("moodle", source, "--out", out, "--report", report)
        assert done.exit_code == 1 and f"maximum grade of Somebody: {words}" in done.output and not out.exists()
        assert "or give it with --max-grade" in done.output
    assert run("moodle", source, "--out", out, "--report", report, "--max-grade", "nan").exit_code != 0
    done = run("moodle", source, "--out", out, "--report", report, "--max-grade", "inf")
    assert done.exit_code == 1 and "the maximum grade inf is no number above 0" in done.output
    with pytest.raises(ExportError, match="the maximum grade nan is no number above 0"):
        fill_moodle(of_chapter(read_report(report), CHAPTER), source, possible=float("nan"))
    assert not out.exists()
    source.write_text(MOODLE.replace('"100,00"', '"1,000.00"'), encoding="utf-8")
    assert run("moodle", source, "--out", out, "--report", report).exit_code == 0
    assert rows(out)[2][4] == f"{round((sum(e.points // 2 for e in DUE) - 1.5) * 1000 / MOST, 2):g}"


# Gradescope

WORDS = ("why", "wrote the gradebook", "needs review", "flag")  # what is for the instructor alone


def gradescope_of(one, tmp_path):
    write_report([one], tmp_path / "one")
    done = run("gradescope", "--report", tmp_path / "one", "--out", tmp_path / "results.json", "--force")
    out = tmp_path / "results.json"
    return done, json.loads(out.read_text(encoding="utf-8")) if out.exists() else None


def seen(data):
    """What a student sees of results.json."""
    return json.dumps([data["output"], [test for test in data["tests"] if test["visibility"] != "hidden"]])


def test_gradescope(report, tmp_path):
    out = tmp_path / "results" / "results.json"
    done = run("gradescope", "--report", report, "--student", "=Ben Öz", "--out", out)
    assert done.exit_code == 0 and "1 written" in done.output
    data = json.loads(out.read_text(encoding="utf-8"))
    assert data["score"] == sum(e.points // 2 for e in DUE) - 1.5 and len(data["tests"]) == len(DUE)
    first = data["tests"][0]
    assert (first["score"], first["max_score"], first["status"]) == (DUE[0].points // 2, DUE[0].points, "failed")
    assert first["visibility"] == "visible" and DUE[0].mistakes[0].says in first["output"]
    assert data["output"] == "late: 1.5 points taken off" and data["stdout_visibility"] == "hidden"
    done, data = gradescope_of(graded("Ana"), tmp_path)
    assert data["score"] == MOST and data["output"] == "" and {t["status"] for t in data["tests"]} == {"passed"}
    assert {test["output"] for test in data["tests"]} == {"right"}


def test_what_is_meant_for_the_instructor_is_in_a_test_that_students_do_not_see(tmp_path):
    flags = ("cell 3 wrote the gradebook", "another flag", "why <b>")
    one = graded("Finn", 0.0, "needs review", flags=flags)
    done, data = gradescope_of(one, tmp_path)
    assert done.exit_code == 0 and data["score"] == 0 and not [word for word in WORDS if word in seen(data)]
    assert "your instructor will look at it" in data["output"]
    (notes,) = [test for test in data["tests"] if test["visibility"] == "hidden"]
    assert notes["output"] == "needs review: why <b>\ncell 3 wrote the gradebook\nanother flag" and "score" not in notes
    done, data = gradescope_of(replace(one, state="graded", reason=""), tmp_path)
    assert data["output"] == "", "flags cost nothing: not a word of them to the student"
    assert "gradebook" not in seen(data) and "gradebook" in json.dumps(data)


@pytest.mark.parametrize(
    "state, reason, more_said",
    [
        ("failed", "x.ipynb is not readable", "x.ipynb is not readable"),
        ("failed", "not saved whole; ask for it again", "not saved whole; hand it in again"),
        ("failed", "it is a text; ask for the file that ends", "it is a text; hand in the file that ends"),
        ("missing", "nothing was handed in", ""),
        ("missing", "", ""),
    ],
)
def test_who_handed_in_nothing_that_can_be_used_reads_first_what_to_hand_in(tmp_path, state, reason, more_said):
    one = replace(graded("Cleo", state=state, intake=state), reason=f"{reason}; not on the roster".lstrip("; "))
    done, data = gradescope_of(one, tmp_path)
    assert done.exit_code == 0 and data["score"] == 0
    first, *more = data["output"].splitlines()
    assert first == f"Not graded: hand in your notebook of this chapter, {CHAPTER}.ipynb."
    assert more == ([f"What was handed in could not be used: {more_said}"] if more_said else []), (
        "no word of the roster"
    )
    assert f"0 points, and told what to hand in: Cleo ({state}" in done.output
    assert [test["visibility"] for test in data["tests"]] == ["hidden"]


@pytest.mark.parametrize(
    "one, words",
    [
        (graded("Cleo", state="failed"), "failed: why"),
        (graded("Cleo", lost=True), f"no result of {DUE[0].name}"),
        (replace(graded("Cleo", lost=True), state="not graded yet"), "not graded yet"),
    ],
)
def test_where_the_grader_has_no_result_there_is_no_score_at_all(tmp_path, one, words):
    done, data = gradescope_of(graded("Cleo"), tmp_path)
    assert data["score"] == MOST
    done, data = gradescope_of(one, tmp_path)
    assert done.exit_code == 1 and data is None, "the older result would have been taken for this one's"
    assert f"no results.json: Cleo ({words}" in done.output and "0 written" in done.output


def test_gradescope_for_all(report, tmp_path):
    out = tmp_path / "all"
    done = run("gradescope", "--report", report, "--out", out)
    assert done.exit_code == 1, "somebody has none"
    made = {path.parent.name.partition("-")[0] for path in out.glob("*/results.json")}
    assert made == {"Ana_Lee", "_Ben_Öz", "Cleo", "Eve", "Finn", "Nobody_Knows"}
    assert "no results.json: Dev No (no result of" in done.output and "6 written" in done.output
    assert "told what to hand in: Eve (missing" in done.output
    done = run("gradescope", "--report", report, "--out", tmp_path / "one.JSON")
    assert done.exit_code == 1 and f"has {len(CLASS)} students and --out" in done.output
    done = run("gradescope", "--report", report, "--student", "ana")
    assert done.exit_code == 1 and "nobody called 'ana' (--student); it has Ana Lee, =Ben Öz" in done.output


def test_gradescope_takes_one_chapter(tmp_path):
    write_report([graded("a"), graded("a", chapter="03_the_grpo_loss")], tmp_path / "report")
    out = tmp_path / "results.json"
    arguments = ["gradescope", "--report", tmp_path / "report", "--out", out]
    done = run(*arguments)
    assert done.exit_code == 1 and "several chapters" in done.output and "--chapter" in done.output
    assert run(*arguments, "--chapter", CHAPTER).exit_code == 0
    assert json.loads(out.read_text())["score"] == MOST
    done = run(*arguments, "--chapter", "03_the_grpo_loss")
    assert done.exit_code == 1 and f"holds the export for gradescope {CHAPTER}" in done.output
    assert json.loads(out.read_text())["score"] == MOST


# What is there already


def test_an_export_writes_again_what_it_has_written_and_nothing_else(report, tmp_path):
    source, out = tmp_path / "grades.csv", tmp_path / "canvas.csv"
    source.write_text(CANVAS, encoding="utf-8", newline="")
    arguments = ["canvas", source, "--out", out, "--report", report]
    assert run(*arguments).exit_code == 0
    write_report([graded("Ana Lee", 0.0, number="501")], report)
    done = run(*arguments)
    assert done.exit_code == 0 and rows(out)[3][6] == "0", "the same export after another grading"
    out.write_text(out.read_text(encoding="utf-8-sig") + "by hand\n")
    done = run(*arguments)
    assert done.exit_code == 1 and "--force" in done.output and "by hand" in out.read_text()
    assert f"{out} is there already, and this export has not made it, or it was changed since" in done.output
    assert run(*arguments, "--force").exit_code == 0 and "by hand" not in out.read_text()
    assert run(*arguments[:2], "--out", source, "--report", report).exit_code == 1
    assert source.read_bytes() == CANVAS.encode(), "the gradebook itself"
    assert "is a folder" in run(*arguments[:2], "--out", tmp_path, "--report", report).output


def test_a_worksheet_is_not_lost_and_nothing_is_written_where_nobody_is_found(report, tmp_path):
    source, out = tmp_path / "sheet.csv", tmp_path / "moodle.csv"
    source.write_text(MOODLE, encoding="utf-8")
    out.write_text("somebody's")
    done = run("moodle", source, "--out", out, "--report", report)
    assert done.exit_code == 1 and "is there already" in done.output and out.read_text() == "somebody's"
    out.unlink()
    source.write_text(MOODLE.splitlines()[0] + "\nParticipant 78,Someone Else,g@x,,,100,Yes,-,-,\n")
    done = run("moodle", source, "--out", out, "--report", report)
    assert done.exit_code == 1 and "nothing was written" in done.output and not out.exists()


def test_one_file_that_is_somebody_elses_keeps_all_from_being_written(report, tmp_path):
    theirs = tmp_path / "all" / "Finn" / "results.json"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("{}")
    done = run("gradescope", "--report", report, "--out", tmp_path / "all")
    assert done.exit_code == 1 and str(theirs) in done.output and theirs.read_text() == "{}"
    assert len(list((tmp_path / "all").glob("*/results.json"))) == 1
    run("gradescope", "--report", report, "--out", tmp_path / "all", "--force")
    assert json.loads(theirs.read_text())["score"] == 0
    write_report([graded("Dev No"), graded("Finn", lost=True)], report)
    run("gradescope", "--report", report, "--out", tmp_path / "all")
    assert not theirs.exists() and "6 written" not in done.output


def test_a_record_of_exports_that_cannot_be_read_or_written_costs_only_the_question(tmp_path, monkeypatch):
    files = Files(tmp_path, "canvas x")
    files.write(tmp_path / "a.csv", "a")
    files.claim([tmp_path / "a.csv", tmp_path / "new.csv"])
    for text in ("[]", "{", ""):
        (tmp_path / MADE).write_text(text)
        with pytest.raises(ExportError, match="is there already"):
            files.claim([tmp_path / "a.csv"])
    (tmp_path / MADE).unlink()
    (tmp_path / MADE).mkdir()  # nobody can write a file there
    files.write(tmp_path / "b.csv", "b")
    assert (tmp_path / "b.csv").read_text() == "b"
    (tmp_path / "file").write_text("")
    with pytest.raises(ExportError, match=r"file/c.csv cannot be written \(.*\); give another place with --out"):
        files.write(tmp_path / "file" / "c.csv", "c")


# GitHub Classroom


def test_github_reads_points_only_where_everything_has_a_result(tmp_path):
    write_report([graded("a", penalty=0.5), graded("a", 0.0, chapter="03_the_grpo_loss")], tmp_path)
    most = MOST + sum(e.points for e in EXERCISES.values() if e.chapter == "03_the_grpo_loss")
    first, second = run("github", "--report", tmp_path).output.splitlines()
    assert first == f"::notice title=Autograding complete::Points {MOST - 0.5:g}/{most}"
    assert json.loads(second.partition("report::")[2]) == {"totalPoints": MOST - 0.5, "maxPoints": most}
    failed = replace(graded("a", state="failed", chapter="03_the_grpo_loss"), reason="x\r\n::notice::100%")
    write_report([graded("a"), failed], tmp_path)
    done = run("github", "--report", tmp_path)
    assert done.output == "::error title=Not graded::03_the_grpo_loss: failed: x\\x0d%0A::notice::100%25\n"
    assert done.exit_code == 1


def test_github_is_for_one_repository(report):
    done = run("github", "--report", report)
    assert done.exit_code == 1 and "::" not in done.output
    assert f"has {len(CLASS)} students" in done.output and "--student" in done.output and "canvas" in done.output
    done = run("github", "--report", report, "--student", "Ana Lee")
    assert done.exit_code == 0 and f"Points {MOST}/{MOST}" in done.output
    done = run("github", "--report", report, "--student", "ana")
    assert done.exit_code == 1 and "nobody called 'ana'" in done.output


def test_a_whole_class_goes_through(tmp_path):
    write_report(a_class.graded_class(), tmp_path)
    results = of_chapter(read_report(tmp_path), CHAPTER)
    lines = ["Student,ID,Section,02_advantages_and_logprobs (1)", f"Points Possible,,,{MOST}"]
    lines += [f"{result.student},{n},S," for n, result in enumerate(results)]
    (tmp_path / "grades.csv").write_text(os.linesep.join(lines), encoding="utf-8")
    done = run(
        "canvas", tmp_path / "grades.csv", "--out", tmp_path / "c.csv", "--report", tmp_path, "--chapter", CHAPTER
    )
    assert done.exit_code == 0 and f"{sum(r.points is not None for r in results)} filled in" in done.output
    done = run("gradescope", "--report", tmp_path, "--chapter", CHAPTER, "--student", "nobody")
    assert done.exit_code == 1 and f" and {len(results) - 10} others" in done.output


def test_whose_points_are_still_to_be_looked_at_is_said(report, tmp_path):
    said = "points as they are, but it needs review: Finn (why <b>)"
    done = run("gradescope", "--report", report, "--out", tmp_path / "gradescope")
    assert done.output.count("needs review") == 1 and said in done.output
    assert (
        "needs review" not in run("gradescope", "--report", report, "--out", tmp_path / "a", "--student", "Eve").output
    )
    source = tmp_path / "grades.csv"
    for names, times in ((["Ana Lee", "Finn"], 1), (["Ana Lee"], 0)):
        lines = "".join(f"{name},{number},,\n" for number, name in enumerate(names))
        source.write_text(f"Student,ID,Section,Advantages (7)\n    Points Possible,,,{MOST}\n{lines}", encoding="utf-8")
        done = run("canvas", source, "--out", tmp_path / "out.csv", "--report", report, "--column", "7")
        assert done.exit_code == 0 and done.output.count(said) == times, done.output


def test_a_row_whose_number_and_name_are_two_peoples_is_left(report, tmp_path):
    source, out = tmp_path / "grades.csv", tmp_path / "out.csv"
    source.write_text(
        f"Student,ID,Section,Advantages (7)\n    Points Possible,,,{MOST}\n"
        "Finn,501,,3\nSomebody Else,506,,\nAna Lee,1,,\n", encoding="utf-8",
    )  # fmt: skip
    done = run("canvas", source, "--out", out, "--report", report, "--column", "7")
    assert "left as it was: Finn (its number is that of Ana Lee, its name is not" in done.output
    assert [row[3] for row in rows(out)][2:4] == ["3", "0"]  # whom the report does not know goes by number
    (tmp_path / "names.csv").write_text("501,Ana Lee\n")
    run("canvas", source, "--out", out, "--report", report, "--column", "7", "--names", tmp_path / "names.csv")
    assert rows(out)[2][3] == f"{MOST}"
