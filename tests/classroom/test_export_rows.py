"""Rows and columns of Canvas and Moodle as they come: what tells who it is, what stays, what is filled in."""

import csv
import io
from dataclasses import replace

import pytest
from test_export import DUE, MOODLE, MOST, _result, graded, run

from grader.classroom.export import ExportError, match
from grader.classroom.export_canvas import fill_canvas
from grader.classroom.export_moodle import fill_moodle
from grader.classroom.reports import write_report

HEADER = f"Student,ID,SIS User ID,SIS Login ID,Section,02 Advantages and logprobs (78)\nPoints Possible,,,,,{MOST}\n"


def filled(tmp_path, results, text, **more):
    path = tmp_path / "grades.csv"
    path.write_text(text, encoding="utf-8", newline="")
    return fill_canvas(results, path, **more)


def test_a_list_of_names_is_asked_for_the_number_first():
    results = [_result(graded("ana")), _result(graded("cleo"))]
    found, _ = match(results, [{"name": "X", "ID": "7"}], {"X": "cleo", "7": "ana"})
    assert found[0].student == "ana"


def test_half_of_the_two_name_columns_is_no_gradebook(tmp_path):
    ana = [_result(graded("Lee", number="501"))]
    for column in ("LastName", "FirstName"):
        with pytest.raises(ExportError, match="is no gradebook of Canvas"):
            filled(tmp_path, ana, HEADER.replace("Student", column) + "Lee,501,,,,\n")


def test_two_name_columns_are_read_as_people_write_names(tmp_path):
    text = HEADER.replace("Student", "LastName,FirstName").replace("Possible,", "Possible,,") + "Lee,Ana,501,,,,\n"
    assert filled(tmp_path, [_result(graded("x", number="501"))], text).written == ("Ana Lee",)


@pytest.mark.parametrize("row", ["A,501,,,,\n", "A,1,501,,,\n", "A,1,,501,,\n"])
def test_each_of_the_numbers_of_canvas_tells_who_it_is(tmp_path, row):
    assert filled(tmp_path, [_result(graded("x", number="501"))], HEADER + row).written == ("A",)


@pytest.mark.parametrize("stands", ["EX", "ex", "N/A"])
def test_who_is_excused_or_not_assigned_keeps_that(tmp_path, stands):
    done = filled(tmp_path, [_result(graded("x", number="501"))], HEADER + f"A,501,,,,{stands}\n")
    assert done.left == (("A", f"stands at {stands} in Canvas"),) and done.text.endswith(f",{stands}\n")


def test_who_handed_in_nothing_is_not_looked_for(tmp_path):
    results = [_result(graded("x", number="501")), _result(graded("Eve", state="missing"))]
    assert filled(tmp_path, results, HEADER + "A,501,,,,\n").unknown == ()
    (tmp_path / "sheet.csv").write_text(MOODLE, encoding="utf-8")
    assert fill_moodle(results, tmp_path / "sheet.csv").unknown == ()


def test_a_row_that_ends_early_is_filled(tmp_path):
    done = filled(tmp_path, [_result(graded("x", number="501"))], HEADER + "A,501\n")
    assert done.text.splitlines()[-1] == f"A,501,,,,{MOST}"


def test_a_column_without_a_number_is_no_assignment(tmp_path):
    text = HEADER.replace("(78)", "(78),02 Advantages and logprobs total").replace(f",{MOST}\n", f",{MOST},\n")
    assert filled(tmp_path, [_result(graded("x", number="501"))], text + "A,501,,,,,\n").text.endswith(f",{MOST},\n")


def test_the_number_of_a_column_is_the_whole_number(tmp_path):
    ana = [_result(graded("x", number="501"))]
    for wanted in ("8", "7", "Advantages", "(7"):
        with pytest.raises(ExportError, match="no column fits"):
            filled(tmp_path, ana, HEADER + "A,501,,,,\n", column=wanted)


@pytest.mark.parametrize("wanted", ["02 Advantages and logprobs", "02 Advantages and logprobs (78)", "78"])
def test_a_column_is_named_by_its_title_or_number(tmp_path, wanted):
    text = HEADER.replace("Section,", "Section,02 Advantages and logprobs again (9),").replace(f",{MOST}", f",1,{MOST}")
    assert filled(tmp_path, [_result(graded("x", number="501"))], text + "A,501,,,,,\n", column=wanted).written == (
        "A",
    )


def test_a_row_without_an_id_is_nobodys(tmp_path):
    done = filled(tmp_path, [_result(graded("Ana Lee"))], HEADER + "Ana Lee,,,,,\n")
    assert (done.written, done.left, done.unknown) == ((), (), ("Ana Lee",))


def sheet(tmp_path, results, text, **more):
    path = tmp_path / "sheet.csv"
    path.write_text(text, encoding="utf-8")
    return fill_moodle(results, path, **more)


def test_a_maximum_below_0_is_refused(tmp_path):
    with pytest.raises(ExportError, match="the maximum grade -5 is no number above 0"):
        sheet(tmp_path, [_result(graded("x", number="501"))], MOODLE, possible=-5.0)


def test_an_empty_row_is_nobodys(tmp_path):
    done = sheet(tmp_path, [_result(graded("x", number="501"))], MOODLE + ",,,,,,,,,\n")
    assert len(done.left) == 4 and all(label for label, _ in done.left)


@pytest.mark.parametrize("word", ["No", "no", "NO"])
def test_a_grade_that_is_locked_stays(tmp_path, word):
    done = sheet(tmp_path, [_result(graded("Finn"))], MOODLE.replace(",No,", f",{word},"))
    assert not done.written and ("Finn", "the grade cannot be changed in Moodle") in done.left


def test_a_maximum_that_is_given_comes_before_the_worksheets(tmp_path):
    done = sheet(tmp_path, [_result(graded("x", number="501"))], MOODLE, possible=10.0)
    assert done.text.splitlines()[1].startswith("Participant 501,Somebody,a@x,Submitted,10,")


def test_nothing_is_said_of_a_scale_that_is_the_chapters(tmp_path):
    done = sheet(tmp_path, [_result(graded("x", number="501"))], MOODLE.replace("100,00", f"{MOST},00"))
    assert done.written and done.note == ""


def test_the_number_is_the_one_at_the_end(tmp_path):
    done = sheet(tmp_path, [_result(graded("x", number="501"))], MOODLE.replace("Participant 501", "Participant 2 501"))
    assert done.written == ("Somebody",)


def test_a_row_that_ends_before_the_comment_is_filled(tmp_path):
    text = "Identifier,Full name,Grade,Feedback comments\nParticipant 501,A\n"
    done = sheet(tmp_path, [_result(graded("x", number="501"))], text, possible=float(MOST))
    assert done.text.splitlines()[1].startswith(f"Participant 501,A,{MOST},{DUE[0].name}: ")


@pytest.mark.parametrize("column", ["ID number", "Username", "Email address"])
def test_each_login_of_moodle_tells_who_it_is(tmp_path, column):
    text = f"Identifier,Full name,{column},Grade\nParticipant 1,X,ana1,\n"
    assert sheet(tmp_path, [_result(graded("ana1"))], text, possible=10.0).written == ("X",)


GERMAN = (
    "ID,Vollständiger Name,Bewertung,Bestwertung,Kommentar\n"
    'Teilnehmer/in1,Ana Lee,"7,00","30,00",\nTeilnehmer/in2,Ben Öz,,"30,00",\n'
)
IN_GERMAN = {
    "grade_column": "Bewertung",
    "feedback_column": "Kommentar",
    "name_column": "vollständiger name",
    "maximum_column": "Bestwertung",
}


def columns_of(done):
    return [row[2:4] for row in csv.reader(io.StringIO(done.text))][1:]


def test_moodle_in_another_language_with_all_its_columns(tmp_path):
    results = [_result(graded("Ana Lee")), _result(graded("Ben Öz", 0.5))]
    part = round(results[1].points * 30 / MOST, 2)
    assert part != int(part)
    done = sheet(tmp_path, results, GERMAN, **IN_GERMAN)
    half = f"{part:g}".replace(".", ",")
    assert columns_of(done) == [["30", "30,00"], [half, "30,00"]] and done.note == f"{MOST} points became 30"
    assert done.written == ("Ana Lee", "Ben Öz") and f",{DUE[0].name}: 5 of 5<br>" in done.text
    by_hand = GERMAN.replace('"7,00"', "7.00")
    assert columns_of(sheet(tmp_path, results, by_hand, **IN_GERMAN))[1][0] == half, "the maximum is Moodle's own"
    given = {**IN_GERMAN, "maximum_column": "Maximum grade", "possible": 30.0}
    for text, wanted in (
        (GERMAN, half),
        (GERMAN.replace("Bestwertung", "x").replace('"30,00"', "30"), half),
        (by_hand, f"{part:g}"),
    ):
        assert columns_of(sheet(tmp_path, results, text, **given))[1][0] == wanted, text
    shown = {**IN_GERMAN, "possible": 30.0}
    assert columns_of(sheet(tmp_path, results, GERMAN.replace('"7,00"', ""), **shown))[1][0] == half


@pytest.mark.parametrize("option", ["grade", "name", "maximum"])
def test_a_column_that_was_named_must_be_there(tmp_path, option):
    with pytest.raises(ExportError, match=rf"no column 'Nix'; say with --{option}-column which of these it is: ID, Vo"):
        sheet(tmp_path, [_result(graded("Ana Lee"))], GERMAN, **{**IN_GERMAN, f"{option}_column": "Nix"})


def test_what_moodles_words_cost_is_said(tmp_path):
    ana = [_result(graded("Ana Lee"))]
    usual = {key: IN_GERMAN[key] for key in ("grade_column", "feedback_column")}
    with pytest.raises(ExportError, match=r"maximum grade of Teilnehmer/in1: .*--max-grade.*--maximum-column"):
        sheet(tmp_path, [_result(graded("x", number="1"))], GERMAN, **usual)
    done = sheet(tmp_path, ana, GERMAN, **usual)
    assert not done.written and "no column 'Full name', so rows go by numbers" in done.note
    assert "--name-column" in done.note
    assert "Full name" not in sheet(tmp_path, [_result(graded("x", number="1"))], GERMAN, possible=1.0, **usual).note
    assert "by numbers" not in sheet(tmp_path, ana, GERMAN.replace("Ana", "Bea"), **IN_GERMAN).note


def test_moodles_options_reach_it(tmp_path):
    write_report([graded("Ana Lee")], tmp_path / "report")
    (tmp_path / "sheet.csv").write_text(GERMAN, encoding="utf-8")
    options = [f"--{key.replace('_', '-')}={value}" for key, value in IN_GERMAN.items()]
    done = run("moodle", tmp_path / "sheet.csv", "--report", tmp_path / "report", "--out", tmp_path / "m.csv", *options)
    assert done.exit_code == 0 and "1 filled in" in done.output, done.output
    assert f'Ana Lee,30,"30,00",{DUE[0].name}: ' in (tmp_path / "m.csv").read_text(encoding="utf-8")


def test_more_than_the_maximum_becomes_that_in_moodle_and_stays_in_canvas(tmp_path):
    more = graded("x", number="501")
    more = replace(more, scores=(replace(more.scores[0], points=7.0), *more.scores[1:]))
    results = [_result(more), _result(graded("Finn", number="77"))]
    done = sheet(tmp_path, results, MOODLE.replace(",No,", ",Yes,"))
    grades = {row[1]: row[4] for row in csv.reader(io.StringIO(done.text))}
    assert grades["Somebody"] == grades["Finn"] == "100" and f"{DUE[0].name}: 7 of 5" in done.text
    assert f"so who has more gets that: Somebody ({MOST + 2} of {MOST})" in done.note and "Finn" not in done.note
    canvas = filled(tmp_path, results, HEADER + "A,501,,,,\nFinn,77,,,,\n")
    assert canvas.text.endswith(f"A,501,,,,{MOST + 2}\nFinn,77,,,,{MOST}\n") and canvas.note == ""
