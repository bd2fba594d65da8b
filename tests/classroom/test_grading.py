"""A whole class through `grader grade`: everybody's points, state and named mistake."""

import csv
import hashlib
import importlib.util
import os
import re
import shutil

import pytest
import students
from nbformat.v4 import new_code_cell
from nbgrader.api import Gradebook
from typer.testing import CliRunner

from grader import cli
from grader.classroom.grading import GradingError, _alone, grade_class, without_scripts
from grader.classroom.reports import write_report
from grader.classroom.same_student import known_as
from grader.exercises import EXERCISES
from grader.judge.sandbox import why_not
from grader.paths import NOTEBOOKS

CHAPTER = students.CHAPTER
# Where kernels cannot be shut in (macOS, Windows), the same is tested without.
UNPROTECTED = ["--no-sandbox"] if why_not() else []
FULL = {name: float(e.points) for name, e in EXERCISES.items() if e.chapter == CHAPTER}
BLANK = {name: None for name in FULL}
ROSTER = ["ana", "ben", "uma", "zo\u00eb"]
CARELESS = {"abe", "bea", "cai", "dot", "eli", "fay", "gil", "hal", "zo\u00eb"}


def digest(folder):
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


class Graded:
    """What the command wrote, read back from its files."""

    def __init__(self, folder, output, exit_code):
        self.out, self.output, self.exit_code = folder, output, exit_code
        with (folder / "scores.csv").open(newline="", encoding="utf-8") as file:
            self.scores = list(csv.DictReader(file))
        with (folder / "submissions.csv").open(newline="", encoding="utf-8") as file:
            self.submissions = {row["student"]: row for row in csv.DictReader(file)}

    def points(self, student):
        rows = [row for row in self.scores if row["student"] == student]
        return {row["exercise"]: float(row["points"]) if row["points"] else None for row in rows}

    def row(self, student, exercise):
        return next(r for r in self.scores if r["student"] == student and r["exercise"] == exercise)

    def state(self, student):
        reason = self.submissions[student]["reason"]
        return self.submissions[student]["state"], reason.replace("not on the roster", "").strip("; ")


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("class")
    students.hand_in(folder / "submitted")
    (folder / "roster.csv").write_text("student\n" + "\n".join(ROSTER) + "\n")
    before = digest(folder / "submitted")
    home = os.environ.get("IPYTHONDIR")
    os.environ["IPYTHONDIR"] = str(folder / "ipython")
    try:
        result = CliRunner().invoke(
            cli.app,
            ["grade", str(folder / "submitted"), "--out", str(folder / "report"), "--work", str(folder / "grading"),
             "--roster", str(folder / "roster.csv"), "--seed", "11", "--cell-seconds", "16", *UNPROTECTED],
            catch_exceptions=False,
        )  # fmt: skip
    finally:
        os.environ.pop("IPYTHONDIR") if home is None else os.environ.update(IPYTHONDIR=home)
    assert digest(folder / "submitted") == before, "the submitted files were touched"
    return Graded(folder / "report", result.output, result.exit_code)


def test_every_name_has_a_row_and_every_exercise_one_each(graded):
    everybody = {"ana", "ben", "cleo", "dev", "eve", "finn", "gus", "hana", "ivo", "kim", "lea", "max", "nia", "oli"}
    everybody |= {"quin", "rosa", "sam", "tess", "uma"} | CARELESS
    assert set(graded.submissions) == everybody and graded.exit_code == 0
    assert len(graded.scores) == len(everybody) * len(FULL)


def test_all_right(graded):
    assert graded.points("ana") == FULL and graded.state("ana") == ("graded", "")
    assert {row["result"] for row in graded.scores if row["student"] == "ana"} == {"right"}


def test_untouched_is_not_attempted(graded):
    assert graded.points("ben") == {name: 0 for name in FULL}
    assert {row["result"] for row in graded.scores if row["student"] == "ben"} == {"not attempted"}


def test_known_mistakes_are_named_and_the_rest_keeps_its_points(graded):
    row = graded.row("cleo", "group_relative_advantage")
    assert (row["result"], row["mistake"]) == ("partly right", "ddof 0")
    assert 0 < float(row["points"]) < FULL["group_relative_advantage"]
    others = {name: points for name, points in graded.points("cleo").items() if name != "group_relative_advantage"}
    assert others == {name: points for name, points in FULL.items() if name != "group_relative_advantage"}
    assert graded.row("dev", "log_softmax")["mistake"] == "naive softmax"
    assert graded.row("dev", "sequence_logprob")["mistake"] == "temperature left out"


def test_a_crash_costs_what_it_kept_from_running_and_is_flagged(graded):
    state, reason = graded.state("eve")
    assert state == "needs review" and "kernel died in the check of zero_variance_fraction" in reason
    points = graded.points("eve")
    assert points["group_relative_advantage"] == FULL["group_relative_advantage"]
    assert points["zero_variance_fraction"] == points["sequence_logprob"] == 0
    assert "kernel died" in graded.row("eve", "zero_variance_fraction")["result"]
    assert "not run" in graded.row("eve", "sequence_logprob")["result"]


def test_an_endless_loop_in_a_function_costs_that_exercise(graded):
    assert graded.row("finn", "zero_variance_fraction")["result"] == "stopped"
    assert graded.points("finn") == {**FULL, "zero_variance_fraction": 0} and graded.state("finn")[0] == "graded"


def test_an_endless_loop_between_the_exercises_costs_nothing_but_is_flagged(graded):
    assert graded.points("gus") == FULL
    state, reason = graded.state("gus")
    assert state == "needs review" and reason.startswith("the cell `while True:` under the heading")
    assert "ran out of time" in reason.partition(" (it computed")[0] and ";" not in reason


def test_a_renamed_file_is_graded(graded):
    assert graded.points("hana") == FULL
    assert graded.state("hana") == ("graded", "handed in as my chapter 2 (final version).ipynb")


def test_a_syntax_error_is_an_error_and_costs_that_exercise(graded):
    assert graded.points("ivo") == {**FULL, "zero_variance_fraction": 0}
    assert graded.row("ivo", "zero_variance_fraction")["result"].startswith("error: SyntaxError")


def test_noise_costs_nothing(graded):
    assert graded.points("lea") == FULL


def test_a_deleted_check_cell_is_put_back(graded):
    assert graded.points("max") == FULL


def test_an_edited_check_cell_earns_nothing(graded):
    assert graded.points("nia") == {name: 0 for name in FULL}


def test_input_is_named(graded):
    row = graded.row("oli", "zero_variance_fraction")
    assert row["result"] == "error in your code" and float(row["points"]) == 0
    page = (graded.out / "feedback" / "oli" / f"{CHAPTER}.html").read_text(encoding="utf-8")
    assert "input()" in page


def test_all_wrong_is_zero(graded):
    assert graded.points("quin") == {name: 0 for name in FULL}
    assert graded.state("quin") == ("graded", "")


@pytest.mark.parametrize(
    "student, state, words",
    [
        ("kim", "failed", "not a readable Jupyter notebook"),
        ("rosa", "failed", "several notebooks (one.ipynb, two.ipynb)"),
        ("sam", "failed", "this is 01_rollouts_and_rewards"),
        ("tess", "missing", "no notebook of this chapter"),
        ("uma", "missing", "nothing was handed in"),
    ],
)
def test_what_cannot_be_graded_says_why_and_is_never_a_zero(graded, student, state, words):
    assert graded.state(student)[0] == state and words in graded.state(student)[1]
    assert graded.points(student) == BLANK
    assert all(row["result"] == state for row in graded.scores if row["student"] == student)


@pytest.mark.parametrize(
    "student, remark",
    [
        ("abe", "the cell log_softmax_answer stands there more than once"),
        ("cai", ""),
        ("dot", ""),
        ("gil", "handed in as chapter two.IPYNB"),
        ("hal", ""),
        ("zo\u00eb", ""),
    ],
)
def test_careless_but_right_earns_all_points(graded, student, remark):
    assert graded.points(student) == FULL and graded.state(student) == ("graded", remark)


def test_a_deleted_exercise_costs_that_exercise(graded):
    assert graded.points("bea") == {**FULL, "log_softmax": 0}
    assert graded.row("bea", "log_softmax")["result"] == "not attempted"
    assert "the answer cell of log_softmax was missing" in graded.state("bea")[1]


def test_a_loop_in_compiled_code_costs_that_exercise_and_is_flagged(graded):
    assert graded.points("eli") == {**FULL, "sequence_logprob": 0}
    state, reason = graded.state("eli")
    assert state == "needs review" and "ran out of time" in reason
    assert graded.row("eli", "sequence_logprob")["result"] == "the cell ran out of time"


def test_another_exercises_function_is_graded_as_what_the_cell_asks_for(graded):
    assert graded.points("fay") == {**FULL, "sequence_logprob": 0}


def test_the_roster_marks_who_is_not_on_it(graded):
    assert graded.submissions["cleo"]["reason"] == "not on the roster"
    assert graded.submissions["ana"]["reason"] == ""


def test_feedback_pages_name_the_mistake(graded):
    pages = {p.parent.name for p in (graded.out / "feedback").glob("*/*.html")}
    assert pages == {s for s, row in graded.submissions.items() if row["state"] in ("graded", "needs review")}
    page = (graded.out / "feedback" / "cleo" / f"{CHAPTER}.html").read_text(encoding="utf-8")
    assert "population standard deviation" in page


def test_the_terminal_says_what_matters(graded):
    assert "ddof 0 (1)" in graded.output
    assert "28 submissions: 23 graded now, 3 failed, 2 missing; 3 of the graded need review." in graded.output
    assert ("rights" in graded.output) == bool(why_not()), "a warning stands there exactly where no sandbox does"


def test_nothing_to_grade_is_said(tmp_path):
    empty = tmp_path / "submitted"
    result = CliRunner().invoke(cli.app, ["grade", str(empty), "--work", str(tmp_path / "w")])
    assert result.exit_code == 1 and "is not there" in result.output.replace("\n", " ")
    empty.mkdir()
    result = CliRunner().invoke(cli.app, ["grade", str(empty), "--work", str(tmp_path / "w")])
    assert result.exit_code == 1 and "holds no submission" in result.output.replace("\n", " ")
    assert CliRunner().invoke(cli.app, ["grade", str(empty), "--chapter", "99_x"]).exit_code == 2
    result = CliRunner().invoke(cli.app, ["grade", str(empty), "--work", str(tmp_path / "w"), "--chapter", "02"])
    assert result.exit_code == 1 and "holds no submission" in result.output.replace("\n", " ")


def test_one_grading_at_a_time(tmp_path):
    students.hand_in_one(tmp_path / "submitted", "ana")
    with _alone(tmp_path / "grading"), pytest.raises(GradingError, match="another grading"):
        grade_class(tmp_path / "submitted", tmp_path / "grading", sandbox=False)


def test_grades_by_hand_stay_and_need_a_look_only_when_the_work_has_changed(tmp_path):
    submitted, work = tmp_path / "submitted", tmp_path / "grading"

    def grade(**options):
        (one,) = grade_class(submitted, work, seed=3, sandbox=not why_not(), **options)
        return one, {score.exercise: score for score in one.scores}

    def by_hand(**columns):
        with Gradebook(f"sqlite:///{work}/gradebook.db") as gradebook:
            grade = gradebook.find_grade("log_softmax", CHAPTER, CHAPTER, "ana")
            extra = gradebook.find_grade("sequence_logprob", CHAPTER, CHAPTER, "ana")
            extra.extra_credit, extra.needs_manual_grade = 1.0, False
            for name, value in columns.items():
                setattr(grade, name, value)
            gradebook.db.commit()

    students.hand_in_one(submitted, "ana")
    first, _ = grade()
    assert first.state == "graded" and all(score.points == score.max_points for score in first.scores)

    by_hand(manual_score=1.5)  # as formgrader saves it
    for options in ({}, {"late_policy": "zero"}):  # nbgrader grades anew under another policy: no new work
        second, scores = grade(**options)
        assert second.state == "graded" and second.fresh == bool(options), options
        assert (scores["log_softmax"].points, scores["log_softmax"].result) == (1.5, "graded by hand")
        assert "log_softmax has 1.5 points by hand; the check gives 4" in second.reason
        most = scores["sequence_logprob"].max_points
        assert scores["sequence_logprob"].points == most + 1 and "extra credit" in scores["sequence_logprob"].result
    assert scores["sequence_logprob"].result == "right, 1 point of extra credit"

    answers = {"log_softmax": students.NAIVE_LOG_SOFTMAX}
    answers["zero_variance_fraction"] = (
        "def zero_variance_fraction(*given):\n    return globals()['grpo'].zero_variance_fraction(*given)"
    )
    changed = students.with_answers(answers, students.solved())
    changed.cells.append(new_code_cell("import helpers"))
    students._write(submitted, "ana", changed)
    (submitted / "ana" / CHAPTER / "helpers.py").write_text("x = 1")
    third, scores = grade()
    assert third.state == "needs review" and third.fresh and scores["log_softmax"].points == 1.5
    ran = "zero_variance_fraction: the finished zero_variance_fraction ran when the answer was tested"
    assert ran in third.flags and len([score for score in third.scores if score.result == "right"]) >= 1
    needs = "needs helpers.py, which was handed in beside the notebook and left behind"
    page = third.feedback.read_text()
    assert needs in third.reason and f"{needs}. Only the notebook is graded" in page
    assert "1.5 points given by your instructor (the check below gave " in page
    assert page.count("1 point of extra credit") == 2, "in the table and above the check"
    assert "log_softmax has 1.5 points by hand, given before it was graded anew" in third.reason
    assert "sequence_logprob has 1 point of extra credit, given before it was graded anew" in third.reason

    by_hand(manual_score=2.5, needs_manual_grade=False)  # saved again
    with Gradebook(f"sqlite:///{work}/gradebook.db") as gradebook:
        gradebook.add_student("Ana")
    fourth, scores = grade()
    assert fourth.state == "graded" and not fourth.fresh and scores["log_softmax"].points == 2.5
    assert needs in fourth.reason, "somebody who has given points by hand has seen it"
    assert (work / "nbgrader_config.py").is_file(), "formgrader, started there, must grade as this does"
    assert known_as("Ana", work) == "ana", "nbgrader asks there before it grades a folder of that name"
    assert "second student 'Ana'" in "".join(fourth.flags) and "second student" not in "".join(third.flags)

    write_report([fourth], tmp_path / "report")
    by_hand(needs_manual_grade=True)  # as nbgrader leaves it when it grades the same work
    assert grade()[0].state == "graded"
    with Gradebook(f"sqlite:///{work}/gradebook.db") as gradebook:
        gradebook.remove_student("Ana")
    fifth, scores = grade(roster=["ANA"])
    assert fifth.state == "graded" and scores["log_softmax"].points == 2.5
    assert ran in fifth.flags and "second student" not in "".join(fifth.flags)
    assert "called 'ana' in earlier gradings, whose grades came along" in fifth.reason
    write_report([fifth], tmp_path / "report")
    assert [page.name for page in (tmp_path / "report" / "feedback").iterdir() if list(page.iterdir())] == ["ANA"]

    arguments = ["grade", str(submitted), "--work", str(work), "--seed", "-3"]
    assert CliRunner().invoke(cli.app, arguments).exit_code == 2


def test_a_broken_gradebook_is_said(tmp_path):
    students.hand_in_one(tmp_path / "submitted", "ana")
    (tmp_path / "grading").mkdir()
    (tmp_path / "grading" / "gradebook.db").write_text("this is no database, only some text " * 9)
    with pytest.raises(GradingError, match="gradebook"):
        grade_class(tmp_path / "submitted", tmp_path / "grading", sandbox=False)


def test_without_a_sandbox_nothing_is_graded_unless_it_is_asked_for(tmp_path, monkeypatch):
    students.hand_in_one(tmp_path / "submitted", "ana")
    monkeypatch.setattr("grader.classroom.grading.why_not", lambda: "bwrap not found: apt-get install bubblewrap")
    arguments = ["grade", str(tmp_path / "submitted"), "--work", str(tmp_path / "grading")]
    result = CliRunner().invoke(cli.app, arguments)
    assert result.exit_code == 1 and not (tmp_path / "grading").exists()
    assert "nothing was graded" in result.output and "apt-get install bubblewrap" in result.output
    assert "--no-sandbox" in result.output


def test_a_chapter_with_torch_is_refused_at_the_start_where_torch_is_missing(tmp_path, monkeypatch):
    chapter = "06_qwen3_in_torch"
    students.hand_in_one(tmp_path / "submitted", "ana")
    folder = tmp_path / "submitted" / "ana" / chapter
    folder.mkdir()
    shutil.copy(NOTEBOOKS / chapter / f"{chapter}.ipynb", folder)
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == "torch" else real(name, *a))
    with pytest.raises(GradingError, match="06_qwen3_in_torch was handed in and needs torch"):
        grade_class(tmp_path / "submitted", tmp_path / "grading", sandbox=False)


def test_feedback_pages_run_no_scripts(graded):
    page = next((graded.out / "feedback").rglob("*.html")).read_text(encoding="utf-8")
    head = page.partition("<head>")[2]
    assert head.startswith('<meta http-equiv="Content-Security-Policy" content="default-src \'none\'')
    assert "base-uri 'none'" in head.partition(">")[0]
    assert page.count("http-equiv") - page.count("data-http-equiv") == 1


def test_a_page_without_a_head_is_shown_as_text():
    assert without_scripts("<script>x</script>") == "<pre>&lt;script&gt;x&lt;/script&gt;</pre>"
    made = without_scripts("<html><head></head><body><META HTTP-EQUIV='refresh' content='0;url=x'></body></html>")
    assert "script-src" not in made and "data-http-equiv='refresh'" in made


def test_the_submissions_are_not_the_work_folder(tmp_path):
    with pytest.raises(GradingError, match="is the folder with the submissions: name another --work"):
        grade_class(tmp_path, tmp_path / "x" / "..", sandbox=False)
    done = CliRunner().invoke(cli.app, ["grade", str(tmp_path), "--out", str(tmp_path), "--no-sandbox"])
    assert done.exit_code == 2 and "submissions;nameanother" in re.sub(r"[\s│]+", "", done.output)
