"""What counts as points, cell by cell: only what check() returned for the exercise that the cell names."""

import json
import time

import numpy as np
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook, new_output

from grader.classroom import preprocessors as module
from grader.classroom.engine.results import leaks_in
from grader.classroom.preprocessors import NO_RESULT, OnlyChecks, error_names
from grader.classroom.repair import MAX_PRINTED
from grader.exercises import EXERCISES
from grader.judge.hidden import Hidden, hidden_values
from grader.report import CHECK_MIME


def check_cell(*outputs, grade_id="log_softmax"):
    cell = new_code_cell(f"check({grade_id})", outputs=list(outputs))
    cell.metadata.nbgrader = NotebookNode(grade=True, solution=False, grade_id=grade_id, points=4)
    return cell


def result(exercise="log_softmax", points="4"):
    return new_output("execute_result", data={"text/plain": points, CHECK_MIME: {"exercise": exercise}})


def judged(*outputs):
    return error_names(OnlyChecks().preprocess_cell(check_cell(*outputs), {}, 0)[0])


def test_a_report_of_the_right_exercise_counts():
    assert judged(result()) == []


@pytest.mark.parametrize(
    "outputs",
    [(), (result("group_rollouts"),), (new_output("execute_result", data={"text/plain": "4"}),), (result(), result())],
    ids=["no output", "another exercise", "a bare number", "two results"],
)
def test_anything_else_earns_nothing(outputs):
    assert judged(*outputs) == [NO_RESULT]


def test_stderr_is_no_failure_and_long_prints_are_cut():
    noisy = check_cell(new_output("stream", name="stderr", text="x" * (MAX_PRINTED + 500)), result())
    cell, _ = OnlyChecks().preprocess_cell(noisy, {}, 0)
    assert cell.outputs[0].name == "stdout" and "500 characters more" in cell.outputs[0].text
    assert error_names(cell) == []


def test_messages_with_a_foreign_signature_count_as_a_kernel_that_is_lost(monkeypatch):
    def talks_nonsense(self, cell, resources, index):
        raise ValueError("Invalid Signature: b'00'")

    monkeypatch.setattr(module.Execute, "preprocess_cell", talks_nonsense)
    step = module.CourseExecute()
    step.stopped_by, step.timed_out_before = "", False
    first, _ = step.preprocess_cell(new_code_cell("1"), {}, 0)
    second, _ = step.preprocess_cell(new_code_cell("2"), {}, 1)
    assert error_names(first) == [module.KERNEL_DIED] and "copies" in first.outputs[0].evalue
    assert error_names(second) == [module.NOT_RUN]


def test_a_notebook_that_has_used_up_its_time_is_not_run_any_further():
    step = module.CourseExecute(notebook_seconds=5, timeout=60)
    step.began = time.monotonic() - 3
    assert step._get_timeout(None) in (1, 2), "no cell gets more time than the notebook has left"
    step.began -= 10
    cell, _ = step.preprocess_cell(new_code_cell("1"), {}, 3)
    assert error_names(cell) == [module.NOT_RUN]
    assert cell.outputs[0].evalue == "not run, since the notebook ran longer than 5 seconds before the cell `1`"


def test_inputs_that_a_check_has_drawn_are_withheld_from_later_outputs():
    exercise = EXERCISES["log_softmax"]
    seed = module.check_seed("secret", "content", "log_softmax")
    rng = np.random.default_rng(seed)
    drawn = [one for part in exercise.parts for one in part.calls(rng)]
    step = module.CourseExecute()
    step.hidden = hidden_values(exercise, seed)
    leaks = [new_output("stream", name="stdout", text=repr(one.args)) for one in drawn]
    harmless = new_output("stream", name="stdout", text="my mean is 0.5")
    cell = new_code_cell("print(seen)", outputs=[harmless, *leaks])
    step._withhold(cell)
    assert cell.outputs[0] == harmless and cell.outputs[-1].text == module.WITHHELD
    assert len(cell.outputs) < len(leaks) + 1
    assert leaks_in(new_notebook(cells=[cell])) == [
        "the cell `print(seen)` put out inputs that were drawn for the grading"
    ]


def withheld(step, *outputs):
    cell = new_code_cell("x", outputs=list(outputs))
    step._withhold(cell)
    return [output.get("text", "") for output in cell.outputs]


def printed(text):
    return new_output("stream", name="stdout", text=text)


def test_drawn_numbers_are_found_on_lines_of_their_own_and_in_colours():
    step = module.CourseExecute()
    step.hidden = Hidden(numbers=frozenset({"1.2345679e-01"}))
    assert withheld(step, printed("first\n0.123456789\n")) == [module.WITHHELD]
    red = "\x1b[31m0.123456789\x1b[0m"
    assert withheld(step, new_output("error", ename="E", evalue="", traceback=[red])) == [module.WITHHELD]
    data = {"text/plain": "x", "application/json": [0.123456789]}
    assert withheld(step, new_output("display_data", data=data)) == [module.WITHHELD]
    assert withheld(step, new_output("display_data", data={"image/svg+xml": "0.123456789"})) == [""]


def test_only_what_a_page_shows_is_searched_and_only_what_was_searched_is_shown():
    step = module.CourseExecute()
    step.hidden = Hidden(numbers=frozenset({"1.2345679e-01"}))
    beyond = printed("." * MAX_PRINTED + " 0.123456789")  # it is cut there later
    assert withheld(step, beyond) == [beyond.text]
    long = new_output("display_data", data={"text/html": "." * module.MAX_SEARCHED + "x 0.123456789"})
    assert withheld(step, printed("ok"), long) == ["ok", module.TOO_LONG]


def test_what_a_check_has_drawn_is_worked_out_only_when_something_is_put_out(monkeypatch):
    asked = []
    made = Hidden(numbers=frozenset({"1.2345679e-01"}))
    monkeypatch.setattr(module, "hidden_values", lambda exercise, seed: asked.append((exercise.name, seed)) or made)
    step = module.CourseExecute()
    step.drawn = [("log_softmax", 1), ("grpo_loss", 2)]
    assert withheld(step) == [] and asked == []
    assert withheld(step, printed("0.123456789")) == [module.WITHHELD]
    assert withheld(step, printed("0.123456789")) == [module.WITHHELD]
    assert asked == [("log_softmax", 1), ("grpo_loss", 2)]


def test_judged_outputs_are_taken_and_what_differs_is_executed(tmp_path, monkeypatch):
    executed = []
    monkeypatch.setattr(
        module.CourseExecute, "preprocess", lambda self, nb, resources, km=None: executed.append(nb) or (nb, resources)
    )
    judged = new_notebook(cells=[new_code_cell("1 + 1", outputs=[result()], execution_count=7)])
    (tmp_path / "ana").mkdir()
    (tmp_path / "ana" / "02.json").write_text(json.dumps({"notebook": judged}))
    step = module.TakeJudged(judged=str(tmp_path))
    resources = {"nbgrader": {"student": "ana", "assignment": "02"}}
    same, _ = step.preprocess(new_notebook(cells=[new_code_cell("1 + 1")]), resources)
    assert same.cells[0].outputs == [result()] and same.cells[0].execution_count == 7 and not executed
    other, _ = step.preprocess(new_notebook(cells=[new_code_cell("1 + 2")]), resources)
    assert other.cells[0].outputs == [] and executed == [other]
    for damaged in ("", "[]", "{}", '{"notebook": null}', '{"notebook": {"cells": [1]}}', "[" * 100_000):
        (tmp_path / "ana" / "02.json").write_text(damaged)
        executed.clear()
        step.preprocess(same, resources)
        assert executed == [same], damaged


def test_any_nonsense_of_the_kernel_costs_what_comes_after_it(monkeypatch):
    def talks_nonsense(self, cell, resources, index):
        raise TypeError("unhashable type: 'list'")

    monkeypatch.setattr(module.Execute, "preprocess_cell", talks_nonsense)
    cell, _ = module.CourseExecute().preprocess_cell(new_code_cell("1"), {}, 0)
    assert (
        error_names(cell) == [module.KERNEL_DIED] and "nonsense in the cell `1` (TypeError)" in cell.outputs[0].evalue
    )
