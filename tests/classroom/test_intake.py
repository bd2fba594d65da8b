"""Taking submissions in: what the class of test_grading.py does not show."""

import csv

import pytest

from grader.classroom.grading import Graded, Score
from grader.classroom.intake import IntakeError, Submission, read_roster, safe_id, take_in
from grader.classroom.reports import write_report

CHAPTER = "02_advantages_and_logprobs"


def test_rosters_in_several_forms(tmp_path):
    path = tmp_path / "roster"
    for text in (
        "ana\nben\n",
        "student,email\nana,a@x\nben,b@x\n",
        "\ufeffid\r\nana\r\n\r\nben\r\nana\r\n",
        "Student ID;Name\nana;A\nben;B\n",
    ):
        path.write_text(text, encoding="utf-8")
        assert read_roster(path) == ["ana", "ben"]


@pytest.mark.parametrize("content", [b"", b"student\n", b"\xff\xfe\x00bad"])
def test_a_roster_without_names_is_refused(tmp_path, content):
    path = tmp_path / "roster"
    path.write_bytes(content)
    with pytest.raises(IntakeError, match="roster"):
        read_roster(path)


def test_a_missing_roster_is_refused(tmp_path):
    with pytest.raises(IntakeError, match="cannot be read"):
        read_roster(tmp_path / "nowhere.csv")


def test_names_become_safe_and_stay_distinct():
    ids = [safe_id(name) for name in ("a b", "a_b", "a*b", "änne", "[x]", "-x", "..", "x" * 200)]
    assert len(set(ids)) == 8 and ids[1] == "a_b" and ids[3] == "änne"
    assert not any(set(i) & set(" *?[]{}/\\") or i[0] in ".-" or len(i) > 100 for i in ids)


def test_symbolic_links_are_refused(tmp_path):
    secret = tmp_path / "secret.ipynb"
    secret.write_text("{}")
    folder = tmp_path / "submitted" / "ana" / CHAPTER
    folder.mkdir(parents=True)
    (folder / f"{CHAPTER}.ipynb").symlink_to(secret)
    (found,) = take_in(tmp_path / "submitted", tmp_path / "staging", [CHAPTER], [], [])
    assert found.state == "failed" and "symbolic link" in found.reason


def test_oversize_files_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("grader.classroom.intake.MAX_BYTES", 10)
    folder = tmp_path / "submitted" / "ana" / CHAPTER
    folder.mkdir(parents=True)
    (folder / f"{CHAPTER}.ipynb").write_text('{"cells": []}' * 10)
    (found,) = take_in(tmp_path / "submitted", tmp_path / "staging", [CHAPTER], [], [])
    assert found.state == "failed" and "larger than" in found.reason


def test_reports_are_safe_in_a_spreadsheet_and_tell_no_result_from_zero(tmp_path):
    submission = Submission("=cmd()", "_cmd__", CHAPTER, "failed", "+why")
    scores = (Score("=cmd()", CHAPTER, "e", None, 3, "failed: x"), Score("=cmd()", CHAPTER, "f", 0.0, 3, "wrong"))
    write_report([Graded(submission, "failed", "+why", scores)], tmp_path)
    rows = list(csv.reader((tmp_path / "scores.csv").open(newline="")))
    assert [row[0] for row in rows[1:]] == ["'=cmd()"] * 2 and [row[3] for row in rows[1:]] == ["", "0"]
    assert list(csv.reader((tmp_path / "submissions.csv").open(newline="")))[1][3] == "'+why"
