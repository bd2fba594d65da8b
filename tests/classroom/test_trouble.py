"""A gradebook that is locked, read-only or damaged, and a disk that is full: a sentence, and the next run goes on."""

import errno
import shutil
import sqlite3
import subprocess
import sys

import gradebooks
import kill_gradings
import pytest
import students
from nbgrader.api import Gradebook
from typer.testing import CliRunner

from grader import cli
from grader.classroom.engine import gradebook as gradebook_module
from grader.classroom.engine import run as run_module
from grader.classroom.engine import trouble
from grader.classroom.engine.run import Run
from grader.classroom.engine.trouble import Unusable, in_words, trouble_with
from grader.classroom.grading import GradingError, _alone, grade_class
from grader.judge.sandbox import why_not

SANDBOX = not why_not()
FULL = OSError(28, "No space left on device")


@pytest.fixture(scope="module")
def class_of_two(tmp_path_factory):
    folder = tmp_path_factory.mktemp("two")
    kill_gradings.hand_in(folder / "submitted", 2)
    grade_class(folder / "submitted", folder / "grading", seed=5, sandbox=SANDBOX, workers=1)
    return folder


@pytest.fixture
def ungraded(class_of_two, tmp_path, monkeypatch):
    """A copy of the class in which all is judged and nothing is in the gradebook yet; nobody waits for long."""
    subprocess.run(["cp", "-r", str(class_of_two), str(tmp_path / "copy")], check=True)
    work = tmp_path / "copy" / "grading"
    for record in (work / "records").rglob("s0*/*.json"):
        record.unlink()
    real = gradebook_module.in_work_folder

    def impatient(folder):
        return {name: value.replace("timeout=60", "timeout=0.2") for name, value in real(folder).items()}

    monkeypatch.setattr(gradebook_module, "in_work_folder", impatient)
    return tmp_path / "copy"


def grade(folder, **options):
    return grade_class(folder / "submitted", folder / "grading", seed=5, sandbox=SANDBOX, **options)


def goes_on(folder, whole):
    assert all(one.state in ("graded", "needs review") for one in grade(folder))
    assert gradebooks.gradebook_in(folder / "grading") == gradebooks.gradebook_in(whole / "grading")


@pytest.mark.parametrize("when", ["before", "on the way"])
def test_a_gradebook_that_another_program_has_locked(ungraded, class_of_two, when):
    held = sqlite3.connect(ungraded / "grading" / "gradebook.db", isolation_level=None)

    def hold(*now):
        if not held.in_transaction:
            held.execute("BEGIN EXCLUSIVE")

    if when == "before":
        hold()
    with pytest.raises(GradingError, match=r"another program has locked the gradebook .*gradebook\.db.*goes on"):
        grade(ungraded, progress=hold)
    held.close()
    goes_on(ungraded, class_of_two)


def test_a_disk_that_fills_up_ends_the_grading_and_not_one_row_after_another(ungraded, class_of_two, monkeypatch):
    real, asked = run_module.write_whole, []

    def full(path, text):
        asked.append(path)
        raise FULL

    monkeypatch.setattr(run_module, "write_whole", full)
    with pytest.raises(GradingError, match=r"there is no room left for .*No space left.*make room"):
        grade(ungraded)
    assert len(asked) == 1
    monkeypatch.setattr(run_module, "write_whole", real)
    goes_on(ungraded, class_of_two)


def test_what_nbgrader_could_not_write_is_the_disks_fault_or_the_rows(tmp_path, monkeypatch):
    one = type("One", (), {"chapter": students.CHAPTER, "student_id": "ana"})
    api = type("Api", (), {})
    api.autograde = lambda *args, **kw: {
        "success": False, "log": "sqlalchemy.exc.OperationalError: (sqlite3.OperationalError) database or disk is full"
    }  # fmt: skip
    sqlite3.connect(tmp_path / "gradebook.db").close()
    assert "OperationalError" in gradebook_module.autograde(api, one, tmp_path), "the disk is as it should be"
    monkeypatch.setattr(trouble, "write_whole", lambda *args: (_ for _ in ()).throw(FULL))
    with pytest.raises(Unusable, match="No space left"):
        gradebook_module.autograde(api, one, tmp_path)


def test_a_worker_whose_disk_is_full_ends_the_grading_if_it_is(tmp_path, monkeypatch):
    run = Run([], settings_for(tmp_path), again=False)
    run.found, run.tries = [None], {}
    answer = {"do": "judge", "number": 0, "problem": "OSError: [Errno 28] No space left on device", "full": True}
    monkeypatch.setattr(run_module, "trouble_with", lambda work: "")
    run._take(answer)
    assert list(run.to_judge) == [0], "tried once more"
    monkeypatch.setattr(run_module, "trouble_with", lambda work: "[Errno 28] No space left on device")
    with pytest.raises(Unusable):
        run._take(answer)


def settings_for(work):
    return run_module.Settings(str(work), "seed 1", 60, 900, SANDBOX, False, "none")


def test_a_report_that_cannot_be_written_costs_nothing_else(class_of_two, tmp_path, monkeypatch):
    monkeypatch.setattr("grader.classroom.reports.write_report", lambda *args: (_ for _ in ()).throw(FULL))
    arguments = ["grade", str(class_of_two / "submitted"), "--work", str(class_of_two / "grading"), "--seed", "5"]
    result = CliRunner().invoke(cli.app, [*arguments, "--out", str(tmp_path), *([] if SANDBOX else ["--no-sandbox"])])
    said = " ".join(result.output.split())
    assert result.exit_code == 1 and "report could not be written" in said and "No space left" in said


def test_half_a_folder_of_the_release_is_the_full_disks_fault(tmp_path, monkeypatch):
    students.hand_in_one(tmp_path / "submitted", "ana")
    half = shutil.Error([("a", "b", "[Errno 28] No space left on device")])
    monkeypatch.setattr("grader.classroom.grading.take_in", lambda *args: (_ for _ in ()).throw(half))
    monkeypatch.setattr("grader.classroom.grading.trouble_with", lambda work: "[Errno 28] No space left on device")
    with pytest.raises(GradingError, match="there is no room left"):
        grade(tmp_path)
    monkeypatch.setattr("grader.classroom.grading.trouble_with", lambda work: "")
    with pytest.raises(shutil.Error):
        grade(tmp_path)


def test_a_gradebook_is_tried_out_by_writing(tmp_path):
    assert trouble_with(tmp_path) == "" and not (tmp_path / "gradebook.db").exists(), "half a gradebook was made"
    held = sqlite3.connect(tmp_path / "gradebook.db", isolation_level=None)
    assert trouble_with(tmp_path) == "" and not list(tmp_path.glob(".probe*"))
    held.execute("BEGIN EXCLUSIVE")
    assert "locked" in trouble_with(tmp_path)
    held.close()
    (tmp_path / "gradebook.db").write_text("no database " * 100)
    assert "not a database" in trouble_with(tmp_path)


@pytest.mark.parametrize(
    "error, words",
    [
        (FULL, "there is no room left for"),
        (Unusable("[Errno 28] No space left on device"), "there is no room left for"),
        (sqlite3.OperationalError("database or disk is full"), "there is no room left for"),
        (sqlite3.OperationalError("database is locked"), "another program has locked"),
        (sqlite3.OperationalError("attempt to write a readonly database"), "cannot be written"),
        (sqlite3.OperationalError("unable to open database file"), "cannot be written"),
        (sqlite3.OperationalError("disk I/O error"), "is the disk full, or gone?"),
        (sqlite3.DatabaseError("file is not a database"), "move it away to start a new one"),
    ],
)
def test_each_trouble_has_a_sentence_that_says_what_to_do(tmp_path, error, words):
    said = in_words(error, tmp_path)
    assert words in said and str(tmp_path) in said and "\n" not in said
    assert ("goes on from here" in said) != ("move it away" in said)


def test_a_gradebook_that_is_empty_is_not_taken_for_a_new_one(ungraded):
    path = ungraded / "grading" / "gradebook.db"
    path.write_bytes(b"")
    with pytest.raises(GradingError, match=r"gradebook\.db cannot be used \(it is empty\); move it away"):
        grade_class(ungraded / "submitted", ungraded / "grading", seed=5, sandbox=SANDBOX)
    assert path.stat().st_size == 0


def test_a_gradebook_that_may_only_be_read(ungraded, class_of_two, monkeypatch):
    path, said = ungraded / "grading" / "gradebook.db", "attempt to write a readonly database"
    with Gradebook(f"sqlite:///{path}") as book:
        book.remove_student("s01")  # so that there is something to write
    with monkeypatch.context() as patch:  # the rights of files do not stop root
        real = gradebook_module.in_work_folder(ungraded / "grading")
        read_only = {**real, "db_url": f"sqlite:///file:{path}?mode=ro&uri=true"}
        patch.setattr(gradebook_module, "in_work_folder", lambda work: read_only)
        connect = sqlite3.connect
        patch.setattr(
            trouble.sqlite3, "connect", lambda file, **more: connect(f"file:{file}?mode=ro", uri=True, **more)
        )
        with pytest.raises(GradingError, match=rf"the gradebook .* cannot be written \({said}\)"):
            grade(ungraded)
    goes_on(ungraded, class_of_two)


def test_a_work_folder_that_is_a_file_is_said(tmp_path):
    (tmp_path / "grading").write_text("")
    students.hand_in_one(tmp_path / "submitted", "ana")
    with pytest.raises(GradingError, match=r"grading cannot be written .*--work"):
        grade(tmp_path)


def test_two_programs_at_once_do_not_share_a_work_folder(class_of_two, tmp_path):
    before = gradebooks.gradebook_in(class_of_two / "grading")
    command = [sys.executable, "-m", "grader", "grade", str(class_of_two / "submitted"), "--out", str(tmp_path / "out")]
    with _alone(class_of_two / "grading"):
        done = subprocess.run(
            [*command, "--work", str(class_of_two / "grading"), "--again", *([] if SANDBOX else ["--no-sandbox"])],
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 1 and "another grading is using" in said and "Traceback" not in said
    assert gradebooks.gradebook_in(class_of_two / "grading") == before and not (tmp_path / "out").exists()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EFBIG, errno.EDQUOT])
def test_a_disk_is_full_in_more_than_one_way(tmp_path, number):
    assert trouble.is_full(OSError(number, "x")) and "there is no room left" in in_words(OSError(number, "x"), tmp_path)
    assert not trouble.is_full(OSError(errno.EACCES, "x")) and not trouble.is_full(ValueError(number))


@pytest.mark.parametrize("said", ["database is locked", "database table is busy"])
def test_a_gradebook_that_somebody_uses_is_said_in_one_line(tmp_path, said):
    words = in_words(Unusable(f"{said}\nand a stack"), tmp_path)
    assert "another program has locked" in words and said in words and "a stack" not in words


@pytest.mark.parametrize(
    "error", [Unusable("read-only file system"), Unusable("readonly database"), PermissionError("no")]
)
def test_a_gradebook_that_may_not_be_written(tmp_path, monkeypatch, error):
    for may_write, advice in ((set(), True), ({"gradebook.db"}, True), ({"gradebook.db", tmp_path.name}, False)):
        monkeypatch.setattr(trouble.os, "access", lambda path, how, may=may_write: path.name in may)
        words = in_words(error, tmp_path)
        assert "cannot be written" in words and ("give yourself the right" in words) == advice
