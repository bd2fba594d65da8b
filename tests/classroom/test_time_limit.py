"""A cell that ran out of time without having computed for much of it is judged once more before that is believed."""

import copy
import time

import pytest
import students
from nbformat.v4 import new_code_cell

from grader.classroom import preprocessors as module
from grader.classroom.engine.pool import Pool
from grader.classroom.grading import grade_class
from grader.classroom.preprocessors import CourseExecute, Starved, waited_in
from grader.judge.sandbox import why_not


def times_out(self, cell, resources, index):
    self.began -= 10.0
    cell.outputs = [module.error_output(module.TIMED_OUT, "")]
    return cell, resources


def raises_that_name(self, cell, resources, index):
    cell.outputs = [module.error_output(module.TIMED_OUT, "")]
    return cell, resources


def step_that_computed(seconds, monkeypatch, may_repeat):
    step = CourseExecute(timeout=10)
    step.may_repeat = may_repeat
    clock = iter([100.0, 100.0 + seconds] * 2)
    monkeypatch.setattr(module.Execute, "preprocess_cell", times_out)
    monkeypatch.setattr(CourseExecute, "_computed", lambda self: next(clock))
    step.began = time.monotonic()
    return step


def test_who_computed_for_less_than_half_of_the_time_gets_another_try(monkeypatch):
    step = step_that_computed(4.9, monkeypatch, may_repeat=True)
    with pytest.raises(Starved, match=r"the cell `work\(\)` ran out of time \(it computed for 5 of its 10 s"):
        step.preprocess_cell(new_code_cell("work()"), {}, 0)


@pytest.mark.parametrize("seconds, noted", [(4.9, True), (5.1, False)])
def test_without_another_try_it_is_believed_and_noted(monkeypatch, seconds, noted):
    step = step_that_computed(seconds, monkeypatch, may_repeat=False)
    cell, _ = step.preprocess_cell(new_code_cell("work()"), {}, 0)
    assert module.error_names(cell) == [module.TIMED_OUT] and bool(waited_in(cell)) == noted
    assert not noted or waited_in(cell).startswith(" (it computed for 5 of its 10 s: it waited")


def test_who_computed_all_the_time_is_believed_at_once(monkeypatch):
    step = step_that_computed(5.1, monkeypatch, may_repeat=True)
    cell, _ = step.preprocess_cell(new_code_cell("work()"), {}, 0)
    assert module.error_names(cell) == [module.TIMED_OUT] and waited_in(cell) == ""


def test_an_error_that_only_has_the_name_repeats_nothing(monkeypatch):
    step = step_that_computed(0.0, monkeypatch, may_repeat=True)
    monkeypatch.setattr(module.Execute, "preprocess_cell", raises_that_name)
    cell, _ = step.preprocess_cell(new_code_cell("class CellTimeoutError(Exception): ..."), {}, 0)
    assert module.error_names(cell) == [module.TIMED_OUT] and waited_in(cell) == ""


def test_where_nothing_can_be_seen_nothing_is_repeated(monkeypatch):
    monkeypatch.setattr(module.Execute, "preprocess_cell", times_out)
    step = CourseExecute(timeout=10)
    step.may_repeat = True
    cell, _ = step.preprocess_cell(new_code_cell("work()"), {}, 0)
    assert module.error_names(cell) == [module.TIMED_OUT] and waited_in(cell) == ""


@pytest.mark.skipif(bool(why_not()), reason="without a box nobody sees what it computes")
def test_a_cell_that_sleeps_costs_one_repetition_and_a_file_left_behind_is_named(tmp_path, monkeypatch):
    notebook = copy.deepcopy(students.solved())
    notebook.cells.insert(2, new_code_cell("import helpers"))
    notebook.cells.insert(2, new_code_cell("import time\ntime.sleep(600)"))
    students._write(tmp_path / "submitted", "ana", notebook)
    (tmp_path / "submitted" / "ana" / students.CHAPTER / "helpers.py").write_text("x = 1")
    tasks = []
    give = Pool.give
    monkeypatch.setattr(Pool, "give", lambda self, task: tasks.append(task) or give(self, task))
    (one,) = grade_class(tmp_path / "submitted", tmp_path / "grading", seed=1, cell_seconds=2)
    assert [task["last"] for task in tasks if task["do"] == "judge"] == [False, True]
    assert one.state == "needs review" and all(score.points == score.max_points for score in one.scores)
    assert "the cell `import time` under the heading" in one.reason
    assert "ran out of time (it computed for 0 of its 2 s: it waited, or the machine was too busy)" in one.reason
    assert "needs helpers.py, which was handed in beside the notebook and left behind" in one.reason
