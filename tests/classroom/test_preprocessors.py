"""What counts as points, cell by cell: only what check() returned for the exercise that the cell names."""

import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook, new_output

from grader.classroom import preprocessors as module
from grader.classroom.preprocessors import NO_RESULT, OnlyChecks, error_names
from grader.classroom.repair import MAX_PRINTED, repair
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


def test_repair_keeps_the_last_copy_and_puts_back_what_is_missing():
    release = new_notebook(cells=[check_cell(grade_id="a"), check_cell(grade_id="b")])
    mine = new_notebook(cells=[check_cell(grade_id="a"), check_cell(grade_id="a"), check_cell(grade_id="alien")])
    mine.cells[0].metadata.nbgrader = NotebookNode(mine.cells[0].metadata.nbgrader)
    remarks = repair(mine, release)
    assert [c.metadata.get("nbgrader", {}).get("grade_id") for c in mine.cells] == [None, "a", None, "b"]
    assert remarks == ["the cell a stands there more than once", "the cell b was missing"]


def test_repair_takes_the_marks_of_a_cell_from_the_release():
    release = new_notebook(cells=[check_cell(grade_id="a")])
    mine = new_notebook(cells=[check_cell(grade_id="a")])
    mine.cells[0].metadata.nbgrader.update(grade=False, points=99)
    assert repair(mine, release) == ["the marks of the cell a were changed"]
    assert mine.cells[0].metadata.nbgrader == release.cells[0].metadata.nbgrader
    assert mine.cells[0].metadata.nbgrader is not release.cells[0].metadata.nbgrader


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


def test_another_checksum_is_put_right_without_a_word():
    release, mine = (new_notebook(cells=[check_cell(grade_id="a")]) for _ in range(2))
    release.cells[0].metadata.nbgrader.checksum = "new"
    assert repair(mine, release) == []
    assert mine.cells[0].metadata.nbgrader.checksum == "new"
