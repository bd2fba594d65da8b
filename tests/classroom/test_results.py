"""What is read off a graded notebook and the gradebook: points by hand, extra credit, and what needs a review."""

import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from grader.classroom.engine import results
from grader.classroom.engine.gradebook import Entry, Grade
from grader.classroom.engine.results import due_in, leaks_in, left_out_in, read_scores, trouble_in
from grader.classroom.intake import Submission
from grader.classroom.preprocessors import KERNEL_DIED, NO_RESULT, NOT_RUN, TIMED_OUT, WITHHELD, error_output
from grader.report import CHECK_MIME

CHAPTER = "02_advantages_and_logprobs"
NAMES = [exercise.name for exercise in due_in(CHAPTER)]
MOST = {exercise.name: float(exercise.points) for exercise in due_in(CHAPTER)}
ONE = Submission("ana", "ana", CHAPTER, "found")


def check(name, output=None):
    output = output or report(name)
    cell = new_code_cell(f"check({name})", outputs=[output])
    cell.metadata.nbgrader = NotebookNode(grade_id=name, grade=True, solution=False)
    return cell


def report(name, **more):
    data = {"exercise": name, "state": "right", "mistake": "", **more}
    return new_output("execute_result", data={"text/plain": "1", CHECK_MIME: data})


def notebook(**outputs):
    return new_notebook(cells=[check(name, outputs.get(name)) for name in NAMES])


def reading(book=None, **grades):
    entry = Entry({name: Grade(MOST[name], None, MOST[name]) for name in NAMES} | grades, {})
    return read_scores(ONE, book or notebook(), entry)


def score(read, name):
    return next((s.points, s.result) for s in read.scores if s.exercise == name)


def test_points_by_hand_are_settled_once_somebody_has_saved_them():
    settled = reading(log_softmax=Grade(4.0, 1.5, 1.5))
    assert score(settled, "log_softmax") == (1.5, "graded by hand") and settled.review == () and settled.settled
    assert settled.notes == ("log_softmax has 1.5 points by hand; the check gives 4",)
    opened = reading(log_softmax=Grade(4.0, 1.5, 1.5, open=True))
    assert score(opened, "log_softmax") == (1.5, "graded by hand") and not opened.settled and opened.notes == ()
    assert len(opened.review) == 1 and opened.review[0].startswith("log_softmax has 1.5 points by hand, given before")
    assert reading().review == reading().notes == () and not reading().settled


def test_a_mark_on_what_has_no_points_by_hand_means_nothing():
    assert reading(log_softmax=Grade(4.0, None, 4.0, open=True)).review == ()


def test_extra_credit_is_said_and_counted():
    read = reading(log_softmax=Grade(4.0, None, 5.0, extra=1.0), sequence_logprob=Grade(1.0, 3.0, 5.5, extra=2.5))
    assert score(read, "log_softmax") == (5.0, "right, 1 point of extra credit")
    assert score(read, "sequence_logprob") == (5.5, "graded by hand, 2.5 points of extra credit")
    assert "log_softmax has 1 point of extra credit" in read.notes and read.review == ()


def test_extra_credit_makes_no_result_of_none():
    read = reading(notebook(log_softmax=error_output(NO_RESULT, "x")), log_softmax=Grade(0.0, None, 1.0, extra=1.0))
    assert score(read, "log_softmax") == (None, "failed: NoResult: x")
    assert read.review == ("log_softmax: failed: NoResult: x",)


def test_points_by_hand_for_all_that_was_lost_settle_it():
    dead = notebook(
        log_softmax=error_output(KERNEL_DIED, "the kernel died"), sequence_logprob=error_output(NOT_RUN, "not run")
    )
    by_hand = {name: Grade(0.0, 2.0, 2.0) for name in ("log_softmax", "sequence_logprob")}
    assert reading(dead, **by_hand).settled
    assert not reading(dead, log_softmax=by_hand["log_softmax"]).settled
    assert not reading(dead, **by_hand | {"sequence_logprob": Grade(0.0, 2.0, 2.0, open=True)}).settled
    slow = notebook(log_softmax=error_output(TIMED_OUT, ""))
    assert not reading(slow, sequence_logprob=by_hand["sequence_logprob"]).settled
    assert reading(slow, log_softmax=by_hand["log_softmax"]).settled


def test_a_cell_that_ran_out_of_time_is_named():
    slow = new_code_cell("while True:\n    pass", outputs=[error_output(TIMED_OUT, "")])
    waiting = new_code_cell("sleep()", outputs=[error_output(TIMED_OUT, " (it computed for 1 of its 9 s: it waited)")])
    book = new_notebook(cells=[new_markdown_cell("# Try it"), slow, waiting, check("log_softmax")])
    first = 'the cell `while True:` under the heading "Try it" ran out of time'
    second = 'the cell `sleep()` under the heading "Try it" ran out of time (it computed for 1 of its 9 s: it waited)'
    assert trouble_in(book) == f"{first}; {second}"
    book.cells[3].outputs = [error_output(NOT_RUN, "not run, since it did not answer")]
    assert trouble_in(book) == f"{first}; {second}; not run, since it did not answer"


def test_a_cell_that_put_out_what_was_drawn_is_named():
    leak = new_code_cell("print(seen)", outputs=[new_output("stream", name="stdout", text=WITHHELD)])
    assert leaks_in(new_notebook(cells=[check("log_softmax"), leak])) == [
        "the cell `print(seen)` put out inputs that were drawn for the grading"
    ]


def complains(name, text):
    return new_notebook(cells=[new_code_cell("x()", outputs=[error_output(name, text)])])


def test_a_file_that_was_left_behind_and_is_needed_is_named():
    says = "the cell `x()` needs {}, which was handed in beside the notebook and left behind"
    module = complains("ModuleNotFoundError", "No module named 'helpers'")
    assert left_out_in(module, ["notes.txt", "helpers.py"]) == [says.format("helpers.py")]
    package = complains("ModuleNotFoundError", "No module named 'utils.maths'")
    assert left_out_in(package, ["utils/maths.py"]) == [says.format("utils/maths.py")]
    data = complains("FileNotFoundError", "[Errno 2] No such file or directory: 'data/run.csv'")
    assert left_out_in(data, ["data/run.csv"]) == [says.format("data/run.csv")]
    assert left_out_in(data, ["helpers.py"]) == left_out_in(module, []) == []
    other = complains("ModuleNotFoundError", "No module named 'helpers2'")
    assert left_out_in(other, ["helpers.py", "helpers", "helpers2/notes.txt"]) == []
    printed = new_notebook(
        cells=[new_code_cell("x()", outputs=[new_output("stream", text="No module named 'helpers'")])]
    )
    assert left_out_in(printed, ["helpers.py"]) == []


@pytest.mark.parametrize(
    "text",
    [
        "run.csv not found.",  # as NumPy says it
        "Dataset not found: /data/run.csv",
        "no\nNo such file or directory: 'run.csv'\nat all",
        "[Errno 2] No such file or directory: 'run.csv'" + "\nx" * 50_000,
        "\nx" * 50_000 + "\n[Errno 2] No such file or directory: 'run.csv'",
    ],
    ids=["before", "behind", "in a line of many", "at the beginning of much", "at the end of much"],
)
def test_a_missing_file_is_named_wherever_the_error_says_it(text):
    assert len(left_out_in(complains("FileNotFoundError", text), ["run.csv"])) == 1


def test_a_file_that_another_line_names_is_not_missed():
    assert left_out_in(complains("OSError", "a.csv not found\nwhile reading run.csv"), ["run.csv"]) == []
    evidence = {"call": "f('run.csv')", "got": "KeyError: 'not found'"}
    book = notebook(log_softmax=report("log_softmax", state="error in your code", parts=[{"evidence": evidence}]))
    assert left_out_in(book, ["run.csv"]) == []


def test_of_what_cells_put_out_only_so_much_is_read_for_missing_files(monkeypatch):
    """A student's error may be millions of characters long, and there may be thousands of files and cells."""
    long = "not found" * 100_000
    for text in (long, long.replace("d", "d\n"), "\n".join([long] * 3)):
        (error,) = complains("OSError", text).cells[0].outputs
        lines = results._complaints(error)
        assert (
            sum(map(len, lines)) <= results.MAX_SAID + 100 and max(map(len, lines), default=0) <= results.MAX_LINE + 3
        )
    many = new_notebook(cells=[complains("E", f"here:\n{n}.csv not found").cells[0] for n in range(30)])
    monkeypatch.setattr(results, "MAX_READ", 10 * len("1.csv not found"))
    assert len(left_out_in(many, [f"{n}.csv" for n in range(30)])) == 10


def test_a_file_that_a_function_needs_is_found_in_the_judges_report():
    evidence = {"call": "f([1])", "got": "ModuleNotFoundError: No module named 'helpers'"}
    book = notebook(log_softmax=report("log_softmax", state="error in your code", parts=[{"evidence": evidence}]))
    assert left_out_in(book, ["helpers.py"]) == [
        "the check of log_softmax needs helpers.py, which was handed in beside the notebook and left behind"
    ]
