"""nbgrader's formgrader in JupyterLab and Chromium: its buttons grade in the sandbox, and what is given by hand stays.

One JupyterLab serves all tests here. Set GRPO_SCREENSHOTS to a folder to keep pictures.
"""

import os
import re
from pathlib import Path

import nbformat
import pytest
import students
from browsing import jupyterlab, start_chromium
from gradebooks import gradebook_in
from nbformat.v4 import new_code_cell, new_markdown_cell

from grader.bootstrap import find_chromium
from grader.classroom.engine.gradebook import enter_chapter, grading_api
from grader.classroom.engine.records import Settings, the_secret
from grader.exercises import EXERCISES
from grader.judge.sandbox import why_not
from grader.paths import ROOT

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = find_chromium()
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine (apt-get install chromium)"),
    pytest.mark.skipif(bool(why_not()), reason=f"no sandbox on this machine: {why_not()}"),
]
CHAPTER = students.CHAPTER
FULL = sum(exercise.points for exercise in EXERCISES.values() if exercise.chapter == CHAPTER)
SECONDS = 120
HOSTILE = """
import pathlib
from IPython.display import HTML, display
for place in ({outside!r}, {gradebook!r}):
    try:
        open(place, "a").write("x")
    except OSError as error:
        print(type(error).__name__)
display(HTML("<script>window.ran = 'output'</script><p>a table</p>"))
"""
PROSE = "What I *learned* <script>window.ran = 'prose'</script><img src=x onerror=\"window.ran = 'picture'\">"


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A course folder with this repository's configuration, one chapter in its gradebook, and nothing graded."""
    folder = tmp_path_factory.mktemp("course")
    config = (ROOT / "nbgrader_config.py").read_text(encoding="utf-8") + "\nc.CourseExecute.timeout = 2\n"
    (folder / "nbgrader_config.py").write_text(config, encoding="utf-8")
    work = folder / "grading"
    work.mkdir()
    settings = Settings(str(work), the_secret(work, None), 2, 60, True, False, "none")
    enter_chapter(grading_api(settings), CHAPTER, work)
    students.hand_in_one(work / "submitted", "ana")
    notebook = students.with_answers({"group_relative_advantage": students.DDOF_0}, students.solved())
    code = HOSTILE.format(outside=str(folder / "outside"), gradebook=str(work / "gradebook.db"))
    notebook.cells[2:2] = [new_code_cell(code), new_code_cell("while True:\n    pass"), new_markdown_cell(PROSE)]
    hostile = work / "submitted" / "mal" / CHAPTER / f"{CHAPTER}.ipynb"
    hostile.parent.mkdir(parents=True)
    nbformat.write(notebook, hostile)
    link = work / "submitted" / "lin" / CHAPTER / f"{CHAPTER}.ipynb"
    link.parent.mkdir(parents=True)
    link.symlink_to(ROOT / "solutions" / CHAPTER / f"{CHAPTER}.ipynb")
    return folder


@pytest.fixture(scope="module")
def lab(course, tmp_path_factory):
    """The address of a JupyterLab of its own, started in the course folder as the documentation says."""
    home = tmp_path_factory.mktemp("lab")
    with jupyterlab(course, home) as address:
        yield address


@pytest.fixture(scope="module")
def page(lab):
    with playwright.sync_playwright() as p:
        chromium = start_chromium(p, CHROMIUM)
        one = chromium.new_page(viewport={"width": 1200, "height": 1000})
        one.set_default_timeout(SECONDS * 1000)
        one.goto(f"{lab}/formgrader/?token=course")  # logs in
        one.wait_for_function("() => models && models.loaded")
        one.goto(f"{lab}/formgrader/manage_submissions/{CHAPTER}")
        one.wait_for_function("() => models && models.loaded")
        yield one
        chromium.close()


def row(page, student):
    return page.locator("#main-table tr", has=page.locator("td.student-id", has_text=re.compile(f"^{student}$")))


def press(page, student, button):
    """Press a button in a student's row; return what the dialogue says that comes when it is done, and close it."""
    row(page, student).locator(f"td.{button} a").click()
    dialogue = page.locator(".modal-dialog:visible")
    said = dialogue.locator(".modal-title").inner_text(), dialogue.locator(".modal-body").inner_text()
    keep_picture(page, f"{button}-{student}")
    dialogue.locator("button").first.click()
    page.locator(".modal-backdrop").wait_for(state="detached")
    return said


def keep_picture(page, name):
    folder = os.environ.get("GRPO_SCREENSHOTS")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=f"{folder}/formgrader-{name}.png", full_page=True)


def points_of(course, student):
    rows = gradebook_in(course / "grading")["grades"]
    return {exercise: auto for who, _, exercise, auto, *_ in rows if who == student}


def test_the_autograde_button_grades_in_the_sandbox(page, course):
    assert row(page, "ana").locator("td.status").inner_text() == "needs autograding"
    for student in ("ana", "mal"):
        title, said = press(page, student, "autograde")
        assert title == "Success", said
    points = points_of(course, "ana")
    assert points == {one.name: one.points for one in EXERCISES.values() if one.chapter == CHAPTER}
    hostile = points_of(course, "mal")
    assert 0 < hostile["group_relative_advantage"] < points["group_relative_advantage"]
    assert {**hostile, "group_relative_advantage": None} == {**points, "group_relative_advantage": None}
    assert row(page, "ana").locator("td.score").inner_text() == f"{FULL} / {FULL}"
    assert row(page, "mal").locator("td.score").inner_text() == f"{sum(hostile.values()):g} / {FULL}"
    assert not (course / "outside").exists()
    graded = nbformat.read(course / "grading" / "autograded" / "mal" / CHAPTER / f"{CHAPTER}.ipynb", as_version=4)
    outputs = [output for cell in graded.cells[2:4] for output in cell.outputs]
    assert "".join(output.get("text", "") for output in outputs) == "FileNotFoundError\n" * 2
    assert [output.data for output in outputs if "data" in output] == [
        {"text/plain": "<IPython.core.display.HTML object>"}
    ]
    assert outputs[-1].ename == "CellTimeoutError"


def test_a_link_is_refused_with_a_sentence(page, course):
    title, said = press(page, "lin", "autograde")
    assert title == "Error" and f"{CHAPTER}.ipynb is a symbolic link; hand in the file itself" in said
    assert not points_of(course, "lin"), "an entry without points would be a 0 in nbgrader's exports"


def test_points_and_words_by_hand_are_kept_and_no_script_of_a_student_runs(page, course, lab):
    page.goto(f"{lab}/formgrader/manage_students/mal/{CHAPTER}")
    page.locator("#main-table a").first.click()
    page.wait_for_function("() => window.formgrader?.grades?.loaded && formgrader.comments?.loaded")
    assert page.locator("text=What I learned").count() == page.locator("text=CellTimeoutError").count() == 1
    assert page.evaluate("() => window.ran") is None
    for field, value in (("#group_relative_advantage", "4.5"), ("#group_relative_advantage_answer-comment", "Nearly!")):
        with page.expect_response(lambda response: response.request.method == "PUT" and response.ok):
            page.locator(field).fill(value)
            page.locator(field).blur()
    keep_picture(page, "by-hand")
    page.goto(f"{lab}/formgrader/manage_submissions/{CHAPTER}")
    assert press(page, "mal", "generate-feedback")[0] == "Success"
    assert row(page, "mal").locator("td.score").inner_text().endswith(f".5 / {FULL}")
    feedback = (course / "grading" / "feedback" / "mal" / CHAPTER / f"{CHAPTER}.html").read_text(encoding="utf-8")
    assert "Nearly!" in feedback and "window.ran = 'output'</script>" not in feedback
