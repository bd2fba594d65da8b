"""Due dates and what lateness costs: nbgrader's own dates, timestamps and plugin, as rows show them."""

from datetime import datetime

import gradebooks
import pytest
import students
from nbgrader.api import Gradebook
from nbgrader.plugins import BasePlugin

from grader.classroom.grading import GradingError, grade_class
from grader.classroom.lateness import LatenessError, keep_policy, last_policy, policy_config, read_due, untimed
from grader.judge.sandbox import why_not

CHAPTER = students.CHAPTER
ALL = [students.OTHER_CHAPTER, CHAPTER]


class OnePointADay(BasePlugin):
    """A late policy of an instructor's own."""

    def late_submission_penalty(self, student_id, score, total_seconds_late):
        return total_seconds_late / 86_400


def test_one_time_for_all_chapters_in_utc():
    assert read_due("2026-12-01T23:59+01:00", ALL) == dict.fromkeys(ALL, datetime(2026, 12, 1, 22, 59))
    assert read_due("2026-12-01", ALL)[CHAPTER] == datetime(2026, 12, 1, 23, 59, 59)


def test_the_policy_of_the_last_grading_is_kept(tmp_path):
    assert last_policy(tmp_path) == "none"
    keep_policy(tmp_path, "zero")
    assert last_policy(tmp_path) == "zero"
    for damaged in (b"\n", b"\xff"):
        (tmp_path / "late_policy").write_bytes(damaged)
        assert last_policy(tmp_path) == "none"


def test_a_file_with_a_time_for_each_chapter(tmp_path):
    path = tmp_path / "due.csv"
    path.write_text(f"chapter,time\n{CHAPTER}, 2026-12-01T12:00\n\n", encoding="utf-8-sig")
    assert read_due(str(path), ALL) == {CHAPTER: datetime(2026, 12, 1, 12)}
    path.write_text(f"{CHAPTER[:2]},2026-12-01T12:00\n")
    assert read_due(str(path), ALL) == {CHAPTER: datetime(2026, 12, 1, 12)}


@pytest.mark.parametrize(
    "text, word", [("99_x,2026-12-01", "99_x"), (f"{CHAPTER}", "row 1"), (f"{CHAPTER},tomorrow", "tomorrow")]
)
def test_what_cannot_be_read_is_named(tmp_path, text, word):
    path = tmp_path / "due.csv"
    path.write_text(text)
    with pytest.raises(LatenessError, match=word):
        read_due(str(path), ALL)


def test_a_time_that_is_none_is_named():
    with pytest.raises(LatenessError, match="tomorrow"):
        read_due("tomorrow", ALL)


@pytest.mark.parametrize(
    "times, due, policy, says",
    [
        (["", ""], "2026-12-01", "none", "None of the submissions says when it came in (there is no timestamp.txt)"),
        (["", "2026-12-01 10:00:00 UTC", ""], "", "zero", "2 of 3 do not say when"),
        (["2026-12-01 10:00:00 UTC"], "2026-12-01", "zero", ""),
        ([""], "", "none", ""),
        ([], "2026-12-01", "zero", ""),
    ],
)
def test_a_due_date_that_means_nothing_to_anybody_is_said(times, due, policy, says):
    assert (says in untimed(iter(times), due, policy)) and bool(untimed(times, due, policy)) == bool(says)


@pytest.mark.parametrize("policy", ["half", "no_such_module.Plugin", "os.system", "nbgrader.plugins.BasePlugin"])
def test_policies_that_do_not_exist_are_named_before_anything_is_graded(tmp_path, policy):
    with pytest.raises(LatenessError, match=policy):
        policy_config(policy)
    students.hand_in_one(tmp_path / "submitted", "ana")
    with pytest.raises(GradingError, match=policy):
        grade_class(tmp_path / "submitted", tmp_path / "grading", sandbox=False, late_policy=policy)
    assert not (tmp_path / "grading").exists()


def test_lateness_and_its_price_are_in_the_rows_and_follow_the_policy(tmp_path):
    submitted, work = tmp_path / "submitted", tmp_path / "grading"
    for student, when in (("ana", "2026-12-01 10:00:00 UTC"), ("ben", "2026-12-03 12:00:00 UTC"), ("cleo", "")):
        students.hand_in_one(submitted, student)
        if when:
            (submitted / student / CHAPTER / "timestamp.txt").write_text(when)

    def grade(**options):
        return {g.submission.student: g for g in grade_class(submitted, work, seed=1, sandbox=not why_not(), **options)}

    first = grade()
    assert all(one.late == one.penalty == 0 and one.state == "graded" for one in first.values())
    judged = {path: path.stat().st_mtime_ns for path in (work / "judged").rglob("*.json")}

    due = grade(due="2026-12-02T12:00")
    assert [due[name].late for name in ("ana", "ben", "cleo")] == [0, 86_400, 0]
    assert due["ben"].penalty == 0, "no policy takes nothing"
    points = sum(score.points for score in due["ben"].scores)

    zero = grade(late_policy="zero")  # the due date stays in the gradebook
    assert (zero["ben"].late, zero["ben"].penalty, zero["ana"].penalty) == (86_400, points, 0)
    assert sum(score.points for score in zero["ben"].scores) == points, "the scores themselves stay"

    with Gradebook(f"sqlite:///{work}/gradebook.db") as gradebook:  # formgrader counts no lateness
        gradebook.find_grade("log_softmax", CHAPTER, CHAPTER, "ben").manual_score = 1.0
        gradebook.db.commit()
    less = grade(late_policy="zero")["ben"]
    assert less.penalty == sum(score.points for score in less.scores) == points - 3 and less.state == "graded"

    own = grade(late_policy="test_lateness.OnePointADay")
    assert own["ben"].penalty == 1
    with Gradebook(f"sqlite:///{work}/gradebook.db") as gradebook:
        assert gradebook.find_submission_notebook(CHAPTER, CHAPTER, "ben").late_submission_penalty == 1
    assert {path: path.stat().st_mtime_ns for path in judged} == judged, "nothing had to be executed again"
    assert gradebooks.gradebook_in(work)["grades"]
