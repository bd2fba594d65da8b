"""The engine of a grading: the order of work changes nothing, what is done is kept, and nothing is left lying about."""

import contextlib
import json
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import gradebooks
import kill_gradings
import pytest
import students
from nbgrader.api import Gradebook
from sqlalchemy.exc import SQLAlchemyError
from typer.testing import CliRunner

from grader import cli
from grader.classroom.engine import feedback, records
from grader.classroom.engine import run as run_module
from grader.classroom.engine.pool import COMMAND, Pool
from grader.classroom.engine.records import Settings, judging_key, read_json, the_secret
from grader.classroom.engine.run import Run
from grader.classroom.grading import GradingError, GradingStopped, grade_class
from grader.classroom.preprocessors import check_seed, content_digest
from grader.classroom.reports import write_report
from grader.classroom.whole import write_whole
from grader.judge.kernel import sweep
from grader.judge.sandbox import why_not

CHAPTER = students.CHAPTER
SANDBOX = not why_not()


def points(graded):
    return {(s.student, s.exercise): s.points for one in graded for s in one.scores}


def unwritable(settings, size):
    raise AssertionError("a worker was started although nothing had changed")


@pytest.fixture(scope="module")
def class_of_four(tmp_path_factory):
    """Four students, graded undisturbed by two workers."""
    folder = tmp_path_factory.mktemp("four")
    kill_gradings.hand_in(folder / "submitted", 4)
    graded = grade_class(folder / "submitted", folder / "grading", seed=5, sandbox=SANDBOX, workers=2)
    write_report(graded, folder / "report")
    return folder, graded


def test_the_number_of_workers_and_a_repetition_change_no_score(class_of_four, tmp_path):
    folder, graded = class_of_four
    alone = grade_class(folder / "submitted", tmp_path / "grading", seed=5, sandbox=SANDBOX, workers=1)
    assert points(alone) == points(graded)
    assert gradebooks.gradebook_in(tmp_path / "grading") == gradebooks.gradebook_in(folder / "grading")
    assert all(one.fresh and one.seconds > 0 for one in alone)


def test_what_has_not_changed_is_taken_over_without_a_worker(class_of_four, monkeypatch):
    folder, graded = class_of_four
    monkeypatch.setattr("grader.classroom.engine.pool._Process", unwritable)
    pages = {one.feedback: one.feedback.stat().st_mtime_ns for one in graded}
    second = grade_class(folder / "submitted", folder / "grading", seed=5, sandbox=SANDBOX)
    assert points(second) == points(graded) and not any(one.fresh for one in second)
    assert [(one.state, one.reason, one.flags) for one in second] == [(g.state, g.reason, g.flags) for g in graded]
    assert {page: page.stat().st_mtime_ns for page in pages} == pages


def test_only_what_changed_is_judged_again_and_hand_grades_stay(class_of_four, tmp_path):
    folder, _ = class_of_four
    subprocess.run(["cp", "-r", str(folder), str(tmp_path / "copy")], check=True)
    submitted, work = tmp_path / "copy" / "submitted", tmp_path / "copy" / "grading"
    with Gradebook(f"sqlite:///{work}/gradebook.db") as gradebook:
        gradebook.find_grade("log_softmax", CHAPTER, CHAPTER, "s01").manual_score = 1.5
        gradebook.db.commit()
    students._write(submitted, "s02", students.solved())
    graded = {g.submission.student: g for g in grade_class(submitted, work, seed=5, sandbox=SANDBOX)}
    assert {name: one.fresh for name, one in graded.items()} == {"s00": False, "s01": False, "s02": True, "s03": False}
    assert all(score.points == score.max_points for score in graded["s02"].scores)
    score = next(score for score in graded["s01"].scores if score.exercise == "log_softmax")
    assert (score.points, score.result) == (1.5, "graded by hand")


def test_a_gradebook_that_was_moved_away_is_made_again_from_what_was_judged(class_of_four, tmp_path, monkeypatch):
    folder, graded = class_of_four
    subprocess.run(["cp", "-r", str(folder), str(tmp_path / "copy")], check=True)
    work = tmp_path / "copy" / "grading"
    (work / "gradebook.db").unlink()
    (work / "records" / "s01" / f"{CHAPTER}.json").unlink()  # as where a grading was killed on its way
    judged = {p: p.stat().st_mtime_ns for p in (work / "judged").rglob("*.json")}
    again = grade_class(tmp_path / "copy" / "submitted", work, seed=5, sandbox=SANDBOX)
    assert points(again) == points(graded) and {p: p.stat().st_mtime_ns for p in judged} == judged
    assert gradebooks.gradebook_in(work) == gradebooks.gradebook_in(folder / "grading")


def test_killed_and_resumed_is_as_if_undisturbed(class_of_four, tmp_path):
    folder, _ = class_of_four
    arguments = kill_gradings.command(folder, tmp_path)
    work = tmp_path / "grading"
    moments = [work / "judged" / "s00", work / "records" / "s01"]
    kills = sum(kill_gradings.kill_where(arguments, moment) for moment in moments if not moment.exists())
    assert kills == 2
    subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL)
    whole = kill_gradings.left_behind(folder)
    assert kill_gradings.left_behind(tmp_path) == whole


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")
def test_sigterm_ends_all_and_says_how_to_go_on(class_of_four, tmp_path):
    folder, _ = class_of_four
    process = subprocess.Popen(
        kill_gradings.command(folder, tmp_path, "--workers", "1"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, start_new_session=True,
    )  # fmt: skip
    while not (tmp_path / "grading" / "records" / "s00").exists():
        assert process.poll() is None
        time.sleep(0.02)
    mine = family(process.pid)
    process.send_signal(signal.SIGTERM)
    output = " ".join(process.communicate(timeout=60)[0].split())
    assert process.returncode == 130 and "the same command goes on from here" in output
    assert not [pid for pid in mine if alive(pid)]
    states = {row["student"]: row["state"] for row in gradebooks.report_in(tmp_path / "report")["submissions.csv"]}
    assert states["s00"] == "graded" and states["s03"] == "not graded yet"
    assert not any(word in output for word in ("Traceback", "Warning", "ERROR"))


@pytest.mark.parametrize("again", [False, True])
def test_what_an_earlier_grading_did_is_shown_when_one_is_stopped_at_once(class_of_four, tmp_path, monkeypatch, again):
    folder, _ = class_of_four
    shutil.copytree(folder / "grading", tmp_path / "grading")
    monkeypatch.setattr("grader.classroom.grading._stop_signals", lambda: contextlib.nullcontext(lambda: True))
    with pytest.raises(GradingStopped, match="0 of 4 submissions"):
        grade_class(folder / "submitted", tmp_path / "grading", seed=5, sandbox=SANDBOX, again=again)
    with pytest.raises(GradingStopped, match="4 of 4 submissions not graded yet") as other:
        grade_class(folder / "submitted", tmp_path / "grading", seed=6, sandbox=SANDBOX)
    assert {one.state for one in other.value.graded} == {"not graded yet"}, "these would have other inputs"


def test_grades_by_hand_stay_settled_where_a_grading_ended_before_its_record(class_of_four, tmp_path, monkeypatch):
    folder, _ = class_of_four
    shutil.copytree(folder / "grading", tmp_path / "grading")
    work = tmp_path / "grading"

    def grade(policy):
        graded = grade_class(folder / "submitted", work, seed=5, sandbox=SANDBOX, late_policy=policy)
        return next(one for one in graded if one.submission.student == "s00")

    with Gradebook(f"sqlite:///{work}/gradebook.db") as gradebook:
        for name, columns in (("log_softmax", {"manual_score": 1.5}), ("sequence_logprob", {"extra_credit": 1.0})):
            grade_row = gradebook.find_grade(name, CHAPTER, CHAPTER, "s00")
            for key, value in {**columns, "needs_manual_grade": False}.items():
                setattr(grade_row, key, value)
        gradebook.db.commit()
    state = grade("none").state
    with monkeypatch.context() as patch:  # killed when nbgrader had graded anew
        patch.setattr(Run, "_record", lambda *words: None)
        grade("zero")
    after = grade("zero")
    assert after.state == state == "graded" and "given before" not in after.reason, after.reason


def family(pid):
    below = Path(f"/proc/{pid}/task/{pid}/children")
    children = [int(word) for word in below.read_text().split()] if below.exists() else []
    return [*children, *(one for child in children for one in family(child))]


def alive(pid):
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def test_the_secret_is_kept_for_nobody_else_and_a_seed_goes_before_it(tmp_path):
    first = the_secret(tmp_path, None)
    assert the_secret(tmp_path, None) == first and the_secret(tmp_path / "other", None) != first
    assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600 or os.name == "nt"
    assert the_secret(tmp_path, 3) == "seed 3" and the_secret(tmp_path, 4) != "seed 3"


def test_seeds_differ_between_exercises_works_and_secrets_only():
    seeds = {check_seed(*words) for words in (("a", "b", "c"), ("x", "b", "c"), ("a", "x", "c"), ("a", "b", "x"))}
    assert len(seeds) == 4 and check_seed("a", "b", "c") == check_seed("a", "b", "c")


def test_what_a_notebook_says_counts_and_not_its_ids_or_outputs():
    one, other = students.solved(), students.solved()
    other.cells[0].id = "another"
    next(cell for cell in other.cells if cell.cell_type == "code").outputs = ["something"]
    assert content_digest(one) == content_digest(other)
    other.cells[-1].source += " "
    assert content_digest(one) != content_digest(other)


def test_a_result_depends_on_settings_chapter_and_judge(tmp_path, monkeypatch):
    settings = Settings(str(tmp_path), "seed 1", 60, 900, True, False, "none")
    key = judging_key("content", CHAPTER, settings)
    assert key == judging_key("content", CHAPTER, Settings("elsewhere", "seed 1", 60, 900, True, False, "zero"))
    others = [
        Settings(str(tmp_path), "seed 2", 60, 900, True, False, "none"),
        Settings(str(tmp_path), "seed 1", 61, 900, True, False, "none"),
        Settings(str(tmp_path), "seed 1", 60, 901, True, False, "none"),
        Settings(str(tmp_path), "seed 1", 60, 900, False, False, "none"),
    ]
    keys = {judging_key("content", CHAPTER, one) for one in others}
    keys |= {judging_key("other", CHAPTER, settings), judging_key("content", students.OTHER_CHAPTER, settings)}
    monkeypatch.setattr(records, "judge_version", lambda: "new")
    keys.add(judging_key("content", CHAPTER, settings))
    assert len(keys) == 7 and key not in keys


def test_a_damaged_file_of_ours_is_as_good_as_none(tmp_path):
    path = tmp_path / "b.json"
    write_whole(path, '{"x": 1}')
    assert read_json(path) == {"x": 1}
    path.write_text('{"x": ')
    assert read_json(path) == {} and read_json(tmp_path / "nowhere") == {}


def test_a_worker_that_dies_costs_its_submission_two_tries_and_nobody_else(tmp_path):
    settings = Settings(str(tmp_path), "seed 1", 60, 900, SANDBOX, False, "none")
    with Pool(settings, 1) as pool:
        pool.give({"do": "judge", "number": 0, "student": "ana", "chapter": CHAPTER, "key": "", "preload": []})
        pool.processes[0].process.kill()
        back = []
        while not back:
            back = pool.wait(1.0)
        assert back[0]["lost"] and "signal 9" in back[0]["problem"] and back[0]["number"] == 0
        assert not pool.processes and pool.idle()
        pool.give({"do": "judge", "number": 1, "student": "ana", "chapter": CHAPTER, "key": "", "preload": []})
        back = []
        while not back:
            back = pool.wait(1.0)
        assert "lost" not in back[0] and "FileNotFoundError" in back[0]["problem"]
        process = pool.processes[0].process
    assert process.poll() is not None


def test_stopping_in_one_process_keeps_rows_for_everybody(class_of_four, tmp_path, monkeypatch):
    folder, _ = class_of_four

    def stop(done, total, what):
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(GradingStopped, match="4 of 4 submissions not graded yet") as stopped:
        grade_class(folder / "submitted", tmp_path / "grading", seed=5, sandbox=SANDBOX, progress=stop)
    assert {one.state for one in stopped.value.graded} == {"not graded yet"}
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_nothing_in_the_current_folder_is_imported(tmp_path):
    (tmp_path / "grader").mkdir()
    for name in ("json.py", "numpy.py", "grader/__init__.py"):
        (tmp_path / name).write_text("raise SystemExit('taken from the folder of the submissions')")
    done = subprocess.run(COMMAND, input="", text=True, capture_output=True, cwd=tmp_path, timeout=120)
    assert "taken from" not in done.stdout + done.stderr


def test_a_process_starts_without_what_it_never_needs(tmp_path):
    code = (
        "import sys; from grader.classroom import engine; import grader.classroom.grading, grader.classroom.reports\n"
        "print([name for name in ('rfc3987_syntax', 'alembic.script', 'torch') if name in sys.modules])\n"
        "import jsonschema; jsonschema.validate({'a': 1}, {'required': ['a']})"
    )
    done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, timeout=120)
    assert done.stdout.strip() == "[]" and done.returncode == 0, done.stderr


def test_no_workers_can_grade_nothing(tmp_path):
    with pytest.raises(GradingError, match="0 workers"):
        grade_class(tmp_path / "submitted", tmp_path / "grading", sandbox=False, workers=0)


def test_the_graders_own_folders_never_lie_among_the_students(tmp_path):
    with pytest.raises(GradingError, match="lies in the folder with the submissions, where folders are students"):
        grade_class(tmp_path, tmp_path / "grading", sandbox=False)
    arguments = ["grade", str(tmp_path), "--work", str(tmp_path.parent / "w"), "--out", str(tmp_path / "report")]
    done = CliRunner().invoke(cli.app, arguments)
    assert done.exit_code == 2 and "students" in done.output
    assert not (tmp_path / "grading").exists() and not (tmp_path / "report").exists()


def test_who_finds_the_gradebook_locked_waits(class_of_four, tmp_path):
    folder, graded = class_of_four
    subprocess.run(["cp", "-r", str(folder), str(tmp_path / "copy")], check=True)
    work = tmp_path / "copy" / "grading"
    for record in (work / "records").rglob("s0*/*.json"):
        record.unlink()  # so that all is written into the gradebook again
    held = sqlite3.connect(work / "gradebook.db", check_same_thread=False, isolation_level=None)
    held.execute("begin immediate")
    threading.Timer(7.0, lambda: held.execute("commit")).start()  # sqlite3 by itself waits for 5 seconds
    again = grade_class(tmp_path / "copy" / "submitted", work, seed=5, sandbox=SANDBOX)
    assert points(again) == points(graded) and all(one.state == g.state for one, g in zip(again, graded, strict=True))
    assert gradebooks.gradebook_in(work) == gradebooks.gradebook_in(folder / "grading")


def test_a_folder_that_a_dead_judge_left_is_swept_and_one_in_use_is_not(tmp_path):
    fcntl = pytest.importorskip("fcntl")
    dead, used, new = (tmp_path / f"judge-{name}" for name in ("dead", "used", "new"))
    for folder in (dead, used, new):
        folder.mkdir()
        (folder / "kernel.json").write_text("{}")
    long_ago = time.time() - 1000
    os.utime(dead, (long_ago, long_ago))
    os.utime(used, (long_ago, long_ago))
    handle = os.open(used, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        swept = sweep(tmp_path)
    finally:
        os.close(handle)
    if sys.platform == "linux":
        assert swept == 1 and not dead.exists() and used.exists() and new.exists()


def test_damaged_files_are_made_again(class_of_four, tmp_path):
    folder, graded = class_of_four
    subprocess.run(["cp", "-r", str(folder), str(tmp_path / "copy")], check=True)
    work = tmp_path / "copy" / "grading"
    judged = work / "judged" / "s01" / f"{CHAPTER}.json"
    kept = read_json(judged)
    judged.write_text(json.dumps({"key": kept["key"]}))
    whole = {
        work / "autograded" / "s00" / CHAPTER / f"{CHAPTER}.ipynb": "",
        work / "records" / "s02" / f"{CHAPTER}.json": '{"graded": {',
        work / "feedback" / "s03" / CHAPTER / f"{CHAPTER}.html": "",
    }
    sizes = {path: path.stat().st_size for path in whole}
    for path, text in whole.items():
        path.write_text(text)
    again = grade_class(tmp_path / "copy" / "submitted", work, seed=5, sandbox=SANDBOX)
    assert points(again) == points(graded) and [one.state for one in again] == [one.state for one in graded]
    assert gradebooks.gradebook_in(work) == gradebooks.gradebook_in(folder / "grading")
    assert read_json(judged)["notebook"]["cells"]
    assert all(path.stat().st_size > sizes[path] / 2 for path in whole)


def test_a_graded_notebook_without_cells_is_none(class_of_four, tmp_path):
    folder, _ = class_of_four
    run = object.__new__(Run)
    run.work, run.found = tmp_path, [SimpleNamespace(student_id="s00", chapter=CHAPTER)]
    path = tmp_path / "autograded" / "s00" / CHAPTER / f"{CHAPTER}.ipynb"
    assert run._notebook(0) is None
    path.parent.mkdir(parents=True)
    for damaged in ("", "[]", "{}", '{"cells": 3}', "\0"):
        path.write_text(damaged)
        assert run._notebook(0) is None, damaged
    path.write_text((folder / "grading" / path.relative_to(tmp_path)).read_text())
    assert run._notebook(0).cells


def costly(real, error):
    """A function that raises the first time it is called."""
    left = [error]

    def call(*args, **kwargs):
        if left:
            raise left.pop()
        return real(*args, **kwargs)

    return call


def test_flags_that_cannot_be_looked_for_cost_one_review_and_no_point(class_of_four, monkeypatch):
    folder, graded = class_of_four
    monkeypatch.setattr(run_module, "flags", costly(run_module.flags, RecursionError("too deep")))
    again = grade_class(folder / "submitted", folder / "grading", seed=5, sandbox=SANDBOX)
    assert points(again) == points(graded)
    assert again[0].state == "needs review" and "could not be looked for: RecursionError: too deep" in again[0].reason
    assert any("could not be looked for" in flag for flag in again[0].flags)
    assert [(o.state, o.flags) for o in again[1:]] == [(o.state, o.flags) for o in graded[1:]]


@pytest.mark.parametrize("broken", ["read_scores", "trouble_in", "content_digest"])
def test_an_error_in_one_row_is_that_rows_alone(class_of_four, monkeypatch, broken):
    folder, graded = class_of_four
    monkeypatch.setattr(run_module, broken, costly(getattr(run_module, broken), MemoryError("no room")))
    again = grade_class(folder / "submitted", folder / "grading", seed=5, sandbox=SANDBOX)
    assert again[0].state == "failed" and "MemoryError: no room" in again[0].reason
    assert {score.points for score in again[0].scores} == {None}
    assert points(again[1:]) == points(graded[1:])


def test_a_gradebook_that_fails_on_the_way_is_everybodys(class_of_four, monkeypatch):
    folder, _ = class_of_four
    monkeypatch.setattr(run_module.gradebook, "entry_of", costly(None, SQLAlchemyError("disk I/O error")))
    with pytest.raises(GradingError, match="disk I/O error"):
        grade_class(folder / "submitted", folder / "grading", seed=5, sandbox=SANDBOX)


def test_places_of_this_machine_are_left_out_of_a_page():
    page = "<span>/opt/venv/lib/x.py</span> '/opt/venv/y' /opt/venvs/z a/opt/venv/x data:+/opt/venv/AAAA /opt/venv"
    made = feedback.without_places(page, ["/opt/venv/", "/opt", "", "/"])
    assert made == "<span>…/lib/x.py</span> '…/y' …/venvs/z a/opt/venv/x data:+/opt/venv/AAAA …"
    assert feedback.without_places(page, ["", "/"]) == page


def test_stopping_does_not_hide_what_an_earlier_grading_did(class_of_four):
    folder, graded = class_of_four

    def stop(done, total, what):
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(GradingStopped, match="0 of 4") as stopped:
        grade_class(folder / "submitted", folder / "grading", seed=5, sandbox=SANDBOX, progress=stop)
    assert points(stopped.value.graded) == points(graded)
