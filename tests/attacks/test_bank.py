"""The bank of hostile, faulty and honest submissions: nothing gained, nothing lost, nothing reached."""

import contextlib
import shutil
import socket
import sqlite3
import subprocess
import sys
import time
from types import SimpleNamespace

import nbformat
import numpy as np
import pytest
from typer.testing import CliRunner

from grader import attack_effects, attacks, cli
from grader.attacks import MATE, NoBank, chosen, grade_bank, load_bank, totals
from grader.calling import Outcome, Raised, call_all
from grader.checking import run_check
from grader.classroom import preprocessors
from grader.classroom.nbgrader_api import course_config
from grader.exercises import EXERCISES
from grader.judge.sandbox import why_not
from grader.secrecy import drawn_calls

bank = load_bank()
EVERYTHING = [*bank.ATTACKS, *bank.HONEST]
PLACES = bank.Places(secret="s", out="o", root="r", work="w", mate="m", port="1", mark="x")
needs_box = pytest.mark.skipif(bool(why_not()), reason=f"no sandbox here: {why_not()}")
KINDS = {
    "kernel", "input transformer", "skip tags", "disk", "gradebook", "links", "hard-coded inputs", "cells", "output",
    "renamed files", "patched modules", "objects", "frames", "exit", "memory", "fork bomb", "interrupts", "network",
    "processes", "recursion", "broken file", "duplicate ids", "forged answers", "magics", "signals", "threads", "stdin",
    "environment", "proc", "disk full", "time", "wrong answers", "formats", "metadata", "privileges", "hidden inputs",
    "finished functions",
}  # fmt: skip


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    return grade_bank(EVERYTHING, tmp_path_factory.mktemp("bank"))


def told(rows):
    return [(row.name, row.state, row.reason, row.gained, row.lost, row.effects, row.fault) for row in rows]


@needs_box
def test_the_batch_goes_on_to_its_end(result):
    assert result.stopped == "" and result.effects == ()
    assert [row.name for row in result.rows] == [one.name for one in EVERYTHING]


@needs_box
def test_nobody_gains_a_point(result):
    assert told(row for row in result.rows if row.gained) == []


@needs_box
def test_no_honest_point_is_lost(result):
    assert told(row for row in result.rows if row.lost) == []


@needs_box
def test_nothing_happens_outside_and_no_page_shows_what_is_hidden(result):
    assert told(row for row in result.rows if row.effects) == []


@needs_box
def test_states_are_as_they_should_be_and_what_no_check_sees_is_told(result):
    assert told(row for row in result.rows if row.fault) == []


@needs_box
def test_the_totals_say_so(result):
    assert totals(result) == (
        f"{len(bank.ATTACKS)} attacks: 0 points gained, 0 honest points lost, 0 batches stopped, "
        f"0 effects outside the sandbox · honest {len(bank.HONEST)}/{len(bank.HONEST)}"
    )


def test_the_bank_holds_what_it_should():
    assert len(bank.ATTACKS) >= 60 and len(bank.HONEST) >= 40
    assert {one.kind for one in bank.ATTACKS} >= KINDS
    names = [one.name for one in EVERYTHING]
    assert len(set(names)) == len(names) and MATE in names
    assert all(one.tries and one.kind for one in EVERYTHING)


@pytest.mark.parametrize("one", [o for o in bank.ATTACKS if not o.layout], ids=lambda one: one.name)
def test_each_attack_changes_something(one):
    """A copy of the plain notebook under a fearsome name would test nothing."""
    plain = bank.Submission("plain", "plain", "", chapter=one.chapter, solved=one.solved)
    written = nbformat.writes(one.notebook(PLACES)).encode()
    written = one.raw(written) if one.raw else written
    assert written != nbformat.writes(plain.notebook(PLACES)).encode()


def test_what_is_due_is_said_for_every_exercise():
    one = bank.Submission("x", "k", "t", answers={"log_softmax": "x"}, deserves={"sequence_logprob": 1.0})
    full = {name: float(e.points) for name, e in EXERCISES.items() if e.chapter == one.chapter}
    assert one.due() == {**full, "log_softmax": 0.0, "sequence_logprob": 1.0}
    assert set(bank.Submission("x", "k", "t", solved=False).due().values()) == {0.0}


def graded(state="graded", points=None, flags=()):
    due = bank.Submission("x", "k", "t").due()
    scores = [SimpleNamespace(exercise=name, points=(points or {}).get(name, due[name])) for name in due]
    return SimpleNamespace(state=state, reason="", scores=scores, flags=flags)


def test_points_above_and_below_are_counted_apart():
    one = bank.Submission("x", "k", "t", answers={"log_softmax": "x"}, may_lose=("zero_variance_fraction",))
    row = attacks._row(one, graded(points={"sequence_logprob": None, "zero_variance_fraction": 0.0}), ())
    assert (row.gained, row.lost) == (4.0, 5.0) and not row.ok
    right = attacks._row(one, graded(points={"log_softmax": 0.0}), ())
    assert right.ok and right.fault == ""
    assert not attacks._row(one, graded(points={"log_softmax": 0.0}), ("it wrote to /",)).ok
    assert "expected graded" in attacks._row(one, graded("failed", {"log_softmax": 0.0}), ()).fault
    assert not attacks._row(one, None, ()).ok


def test_what_must_be_told_must_be_told():
    one = bank.Submission("x", "k", "t", flagged=True)
    assert "nobody is told" in attacks._row(one, graded(), ()).fault
    assert attacks._row(one, graded(flags=("cell 1 …",)), ()).ok


def test_a_file_a_process_a_connection_and_a_grade_outside_are_found_with_their_owner(tmp_path):
    with attack_effects.Outside(tmp_path) as outside:
        outside.work.mkdir()
        gradebook(outside.work / "gradebook.db", [("eve", 100.0, None), ("ana", None, 5.0)])
        assert outside.effects() == {"eve": ["it changed the gradebook"]}
        mark = outside.places(tmp_path, "eve-1.0")["mark"]
        (outside.out / mark).write_text("x")
        with socket.create_connection(("127.0.0.1", int(outside.places(tmp_path, "")["port"]))) as line:
            line.sendall(mark.encode())
        left = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(60)", mark])
        try:
            end = time.monotonic() + 10
            while len(outside.effects().get("eve-1.0", [])) < 3 and time.monotonic() < end:
                time.sleep(0.05)
            found = outside.effects()
        finally:
            left.kill()
            left.wait()
        assert sorted(found["eve-1.0"]) == [
            "a process outlived its kernel", "it reached a port of this machine", f"it wrote to {outside.out}",
        ]  # fmt: skip
        shutil.rmtree(outside.out)
        assert outside.effects()[""] == ["a file outside was changed or deleted"]


def gradebook(path, rows):
    """The three tables of nbgrader's gradebook that lead from a grade to its student."""
    with contextlib.closing(sqlite3.connect(path)) as base:
        base.execute("CREATE TABLE submitted_assignment (id, student_id)")
        base.execute("CREATE TABLE submitted_notebook (id, assignment_id)")
        base.execute("CREATE TABLE grade (notebook_id, manual_score, auto_score)")
        for number, (student, manual, auto) in enumerate(rows):
            base.execute("INSERT INTO submitted_assignment VALUES (?, ?)", (number, student))
            base.execute("INSERT INTO submitted_notebook VALUES (?, ?)", (number, number))
            base.execute("INSERT INTO grade VALUES (?, ?, ?)", (number, manual, auto))
        base.commit()


def test_pages_are_searched(tmp_path):
    """A page with a solution's line, and one with a file from outside, are caught; a student's own line is not."""
    one = bank.Submission("x", "k", "t", solved=False)
    outside = attack_effects.Outside(tmp_path)
    staged = outside.work / "intake" / "x" / one.chapter / f"{one.chapter}.ipynb"
    staged.parent.mkdir(parents=True)
    nbformat.write(one.notebook(PLACES), staged)
    line = "shifted = logits - logits.max(axis=-1, keepdims=True)"
    assert line in attack_effects.secret_lines(one.chapter)
    page = tmp_path / "page.html"
    page.write_text(f"<body><span>shifted</span> = {line.partition(' = ')[2]} <b>{outside.secret}</b></body>")
    mine = SimpleNamespace(feedback=page, submission=SimpleNamespace(student_id="x"))
    assert outside.on_page(mine) == ["a file from outside stands on the page"]
    (found,) = attack_effects.hidden_in_page(mine, outside, one, 7)
    assert "a line of the solution" in found
    nbformat.write(bank.Submission("x", "k", "t").notebook(PLACES), staged)
    assert attack_effects.hidden_in_page(mine, outside, one, 7) == ()


@needs_box
def test_the_search_knows_what_the_judge_has_drawn(tmp_path, monkeypatch):
    """With the judge's own filter off, a function that keeps its inputs shows them, and the search finds them."""
    monkeypatch.setattr(preprocessors, "holds_hidden", lambda *args: "")
    one = next(one for one in bank.ATTACKS if one.name == "recorded-inputs")
    notebook = one.notebook(PLACES)
    staged = tmp_path / "notebook.ipynb"
    nbformat.write(notebook, staged)
    config = course_config(30)
    config.CourseExecute.secret = "seed 5"
    resources = {"metadata": {"path": str(tmp_path)}, "nbgrader": {"student": "eve"}}
    executed, _ = preprocessors.CourseExecute(config=config).preprocess(notebook, resources)
    shown = "".join(o.get("text", "") for cell in executed.cells for o in cell.get("outputs", []))
    assert attack_effects.holds_hidden(shown, attack_effects.hidden_of(staged, one.chapter, 5, "eve"))
    assert not attack_effects.holds_hidden(shown, attack_effects.hidden_of(staged, one.chapter, 6, "eve"))
    assert not attack_effects.holds_hidden(shown, attack_effects.hidden_of(staged, one.chapter, 5, "ana"))


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=list(EXERCISES))
def test_every_part_has_an_input_that_is_drawn(exercise):
    """Else whoever learns the inputs that every check shows by heart earns the part."""
    rng = np.random.default_rng(99)
    calls_of = [list(part.calls(rng)) for part in exercise.parts]
    drawn = drawn_calls(exercise, [one for calls in calls_of for one in calls])
    start = 0
    for part, calls in zip(exercise.parts, calls_of, strict=True):
        assert drawn & set(range(start, start + len(calls))), part.says
        start += len(calls)


def test_a_part_of_the_bank_can_be_chosen():
    assert [one.name for one in chosen("links")][-1] == MATE
    assert {one.kind for one in chosen("links")} == {"links", "honest"}
    assert [one.name for one in chosen("os-exit")] == ["os-exit", MATE]
    assert len(chosen()) == len(EVERYTHING)
    with pytest.raises(NoBank, match="no submission called 'nonsense'; the kinds are: broken file, cells"):
        chosen("nonsense")


def test_without_the_tests_folder_the_command_says_what_is_missing(tmp_path, monkeypatch):
    with pytest.raises(NoBank, match="needs a checkout of the course with its tests"):
        load_bank(tmp_path / "nowhere")
    monkeypatch.setattr(attacks, "load_bank", lambda: load_bank(tmp_path / "nowhere"))
    run = CliRunner().invoke(cli.app, ["attacks"])
    assert run.exit_code == 1 and "needs a checkout" in run.output


@needs_box
def test_the_command_prints_the_table_and_writes_the_file(tmp_path):
    run = CliRunner().invoke(cli.app, ["attacks", "--only", "links", "--json", str(tmp_path / "rows.json")])
    assert run.exit_code == 0, run.output
    assert "link-to-solution" in run.output
    assert "2 attacks: 0 points gained, 0 honest points lost, 0 batches stopped" in run.output
    assert '"ok": true' in (tmp_path / "rows.json").read_text()


@pytest.mark.parametrize("default", [None, "raise", 0.0])
@pytest.mark.parametrize("name", [name for name, one in EXERCISES.items() if one.chapter < "04"])
def test_inputs_known_by_heart_earn_nothing(name, default):
    """Right answers to everything that one seed draws, and the same for all other inputs."""
    exercise = EXERCISES[name]
    known = {}
    for part in exercise.parts:
        for one in part.calls(np.random.default_rng(1)):
            known[repr((one.args, one.kwargs))] = call_all(exercise.reference, [one])[0]

    def learned(calls):
        got = []
        for one in calls:
            stranger = Outcome("raised", raised=Raised("ValueError", "", "", True))
            stranger = stranger if default == "raise" else Outcome("value", default)
            got.append(known.get(repr((one.args, one.kwargs)), stranger))
        return got

    assert {seed: run_check(exercise, None, seed, learned).points for seed in (1001, 1002)} == {1001: 0, 1002: 0}


def test_answers_that_nobody_asked_for_are_not_kept_and_those_that_were_are_not_lost():
    """Else a cell could fill the judge's memory with them, or a flood of prints keep the real one away."""
    judge = preprocessors.CourseExecute()
    judge.reset_execution_trackers()
    judge.clear_before_next_output = False

    def kept(*messages):
        cell = nbformat.v4.new_code_cell("x")
        for kind, content in messages:
            message = {"msg_type": kind, "content": content, "parent_header": {"msg_id": "m"}}
            judge.process_message({**message, "header": {"msg_type": kind}}, cell, 0)
        return [o.output_type for o in cell.outputs]

    answer = ("display_data", {"data": {preprocessors.ANSWER_MIME: {"outcomes": "x" * 1000}}})
    flood = ("stream", {"name": "stdout", "text": "x" * 1000})
    judge.output_left, judge.answers_due = 100, preprocessors.NOT_ASKED
    assert kept(answer, answer) == []
    assert kept(flood, flood) == []
    judge.answers_due = 1
    assert kept(answer) == ["display_data"]
    judge.answers_due = 1
    assert kept(answer, answer, answer, flood) == ["display_data", "display_data"]
