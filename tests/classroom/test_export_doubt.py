"""Nobody gets a 0 in Gradescope for what the instructor has to settle; what is the student's to hand in again does."""

import json
import os
import sys

import pytest
from test_export import run
from test_intake import CHAPTER, NAME, OTHER, ZOE, ZOE_APART, klass, packed, text  # noqa: F401

from grader.classroom import intake
from grader.classroom.engine.results import no_scores
from grader.classroom.intake import safe_id
from grader.classroom.reports import write_report
from grader.classroom.states import Graded

WORK = f"{CHAPTER}/{NAME}"


def zeros(found, tmp_path):
    """Export a report of these submissions; return ({who got a 0}, what the command said of the others)."""
    found = list(found.values() if isinstance(found, dict) else found)
    graded = [Graded(one, one.state, one.reason, no_scores(one, one.state)) for one in found]
    write_report(graded, tmp_path / "report")
    out = tmp_path / "gradescope"
    done = run("gradescope", "--report", tmp_path / "report", "--out", out, "--chapter", found[0].chapter)
    made = {path.parent.name for path in out.glob("*/results.json")}
    assert all(json.loads(path.read_text())["score"] == 0 for path in out.glob("*/results.json"))
    return made, done.output


def doubts(found):
    return {name: one.intake for name, one in found.items()}


def test_who_would_share_a_folder_gets_no_zero(klass, tmp_path):  # noqa: F811
    theirs = safe_id("Ana Lee")
    klass.put(f"Ana Lee/{WORK}")
    klass.put(f"{theirs}/{WORK}")
    klass.put("cy/x.txt", b"")
    found = klass.take()
    assert doubts(found) == {"Ana Lee": "in doubt", theirs: "in doubt", "cy": "failed"}
    assert {one.state for one in found.values()} == {"failed"}
    made, said = zeros(found, tmp_path)
    assert made == {"cy"}
    assert f"no results.json: {theirs} (failed: Ana Lee and {theirs} would share a folder here" in said


def test_who_may_be_somebody_else_gets_no_zero(klass, tmp_path):  # noqa: F811
    klass.put(f"Ana/{WORK}", b"junk")
    klass.put("ana/x.txt", b"")
    klass.put(f"cy/{WORK}", b"junk")
    found = klass.take(roster=["Ana", "cy"])
    assert doubts(found) == {"Ana": "in doubt", "ana": "in doubt", "cy": "failed"}
    assert found["Ana"].reason.endswith("; it is open who is Ana: say who is who with --names")
    assert "2 people here may be Ana: say who is who" in found["ana"].reason and "open" not in found["ana"].reason
    made, said = zeros(found, tmp_path)
    assert made == {"cy"} and "no results.json: Ana (failed" in said and "no results.json: ana (failed" in said


def test_namesakes_are_told_apart_by_number_but_not_who_of_them_handed_in_nothing(klass, tmp_path):  # noqa: F811
    for number, folder in ((1, "a"), (2, "a"), (3, "b")):
        chapter = CHAPTER if folder == "a" else OTHER
        data = b"junk" if number == 1 else text(chapter=chapter)
        klass.put(f"{folder}/Ana_{number}_assignsubmission_file/{chapter}.ipynb", data)
    found = klass.take(only=(CHAPTER, OTHER))
    told = {(one.student, one.chapter): one.intake for one in found}
    assert told["Ana (1)", CHAPTER] == "failed" and told["Ana (2)", CHAPTER] == "found"
    missing = [one for one in found if one.state == "missing"]
    assert [(one.chapter, one.intake) for one in missing] == [(OTHER, "in doubt")]
    assert "it is open who is Ana" in missing[0].reason
    assert zeros([one for one in found if one.chapter == CHAPTER and one.state != "found"], tmp_path)[0] == {
        safe_id("Ana (1)")
    }


@pytest.mark.skipif(sys.platform != "linux", reason="such names cannot stand beside each other there")
def test_a_name_that_is_written_in_two_ways_gets_no_zero(klass, tmp_path):  # noqa: F811
    klass.put(f"{ZOE}/{WORK}", text("x = 1"))
    klass.put(f"{ZOE_APART}/{WORK}", text("x = 2"))
    found = klass.take()
    assert doubts(found) == {ZOE: "in doubt"}
    made, said = zeros(found, tmp_path)
    assert not made and "hold different notebooks of this chapter" in said


def test_names_alike_but_for_capital_letters_get_no_zero(klass, tmp_path):  # noqa: F811
    source = packed({f"Ana/{NAME}": text(), "ana/x.txt": b"", "cy/x.txt": b""}, klass.folder / "a.zip")
    found = klass.take(source=source)
    assert doubts(found) == {"Ana": "found", "ana": "in doubt", "cy": "failed"}


def test_what_lies_where_no_folder_is_gets_no_zero(klass, tmp_path):  # noqa: F811
    klass.put("ana.ipynb")
    found = klass.take()
    assert doubts(found) == {"ana": "in doubt"}
    assert "lies outside a student's folder" in zeros(found, tmp_path)[1]


def test_what_this_machine_does_not_let_be_read_gets_no_zero(klass, monkeypatch):  # noqa: F811
    klass.put(f"ana/{WORK}")
    klass.put("ben/note.ipynb.zip", b"PK")
    klass.put("cy/a.zip", b"no zip file")

    def refuse(path, *arguments, open=os.open):
        if str(path).endswith((NAME, "note.ipynb.zip")):
            raise PermissionError(13, "Permission denied")
        return open(path, *arguments)

    monkeypatch.setattr("grader.classroom.intake_files.os.open", refuse)
    found = klass.take()
    assert doubts(found) == {"ana": "in doubt", "ben": "in doubt", "cy": "failed"}
    assert all("Permission denied" in found[name].reason for name in ("ana", "ben"))


def test_a_crash_of_the_intake_is_nobodys_zero(klass, tmp_path, monkeypatch):  # noqa: F811
    klass.put(f"ana/{WORK}")
    monkeypatch.setattr(intake, "rebuild", lambda *arguments: 1 / 0)
    found = klass.take()
    assert doubts(found) == {"ana": "in doubt"}
    made, said = zeros(found, tmp_path)
    assert not made and "no results.json: ana (failed: it could not be taken in: ZeroDivisionError" in said


@pytest.mark.parametrize(
    "path, data",
    [
        (WORK, b"junk"),
        (WORK, text(chapter=OTHER)),
        (f"{CHAPTER}/answers.txt", b""),
        ("a.zip", packed({"b.zip": packed({NAME: text()})})),
    ],
    ids=["unreadable", "another chapter", "no notebook", "zip in zip"],
)
def test_what_the_student_must_hand_in_again_gets_the_file_that_says_so(klass, tmp_path, path, data):  # noqa: F811
    klass.put(f"ana/{path}", data)
    klass.put(f"ben/{WORK}")
    found = klass.take(roster=["ana", "ben", "eve"])
    assert doubts(found) == {"ana": "failed", "ben": "found", "eve": "missing"}
    del found["ben"]
    made, said = zeros(found, tmp_path)
    assert made == {"ana", "eve"} and "no results.json" not in said


def test_what_is_found_is_found_whatever_is_said_of_it(klass):  # noqa: F811
    klass.put(f"Ana/{WORK}", text("1"))
    klass.put(f"ana/{WORK}", text("2"))
    assert set(doubts(klass.take(roster=["Ana"])).values()) == {"found"}
