"""Every chapter, solved and untouched: what CI promises to students and instructors."""

import re
import shutil

import nbformat
import pytest

from grader.checking import SEED_VARIABLE
from grader.classroom.annotate import BEGIN, END, annotate
from grader.classroom.release import generate
from grader.execution import check_reports, run_with_papermill, verify
from grader.exercises import EXERCISES
from grader.paths import NOTEBOOKS, SOLUTIONS, chapters, notebook_path

CHAPTERS = chapters()
MACHINE = re.compile(r"(/(home|root|Users|tmp|work|private|opt|usr)/|[A-Z]:\\\\)[\w.]|ipykernel_\d|<ipython-input")


def due(chapter):
    return {name: exercise for name, exercise in EXERCISES.items() if exercise.chapter == chapter}


def read(folder, chapter):
    return nbformat.read(notebook_path(folder, chapter), as_version=4)


def test_every_exercise_belongs_to_a_chapter():
    assert {exercise.chapter for exercise in EXERCISES.values()} == set(CHAPTERS)
    assert chapters(NOTEBOOKS) == CHAPTERS


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_solved_chapter_earns_every_point(chapter):
    reports = check_reports(run_with_papermill(notebook_path(SOLUTIONS, chapter)))
    assert set(reports) == set(due(chapter))
    assert {name: r["points"] for name, r in reports.items()} == {n: e.points for n, e in due(chapter).items()}


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_an_untouched_chapter_runs_to_its_end_and_earns_nothing(chapter):
    reports = check_reports(run_with_papermill(notebook_path(NOTEBOOKS, chapter)))
    assert {name: (r["state"], r["points"]) for name, r in reports.items()} == {
        name: ("not attempted", 0) for name in due(chapter)
    }


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_release_is_reproduced_byte_for_byte(chapter, tmp_path):
    source = tmp_path / "solutions"
    shutil.copytree(SOLUTIONS / chapter, source / chapter, ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
    generate(chapter, source, tmp_path / "release", f"sqlite:///{tmp_path}/release.db")
    made = {p.relative_to(tmp_path / "release"): p.read_bytes() for p in (tmp_path / "release").rglob("*.*")}
    shipped = {p.relative_to(NOTEBOOKS): p.read_bytes() for p in (NOTEBOOKS / chapter).rglob("*.*")}
    assert made == shipped, f"run `grader release {chapter}` and commit the result"


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_annotating_again_changes_nothing(chapter):
    notebook = read(SOLUTIONS, chapter)
    before = nbformat.writes(notebook)
    annotate(notebook, chapter)
    assert nbformat.writes(notebook) == before


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_stored_outputs_are_complete_and_clean(chapter):
    notebook = read(SOLUTIONS, chapter)
    verify(notebook, chapter)
    assert [c.execution_count for c in notebook.cells if c.cell_type == "code"] == list(
        range(1, 1 + sum(c.cell_type == "code" for c in notebook.cells))
    )
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    text = notebook_path(SOLUTIONS, chapter).read_text(encoding="utf-8")
    assert not MACHINE.search(text), MACHINE.search(text)
    assert "Warning" not in "".join(str(c.get("outputs", "")) for c in notebook.cells)
    reports = check_reports(notebook)
    assert all(report["state"] == "right" for report in reports.values()) and set(reports) == set(due(chapter))


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_students_get_no_solution(chapter):
    released = read(NOTEBOOKS, chapter)
    text = "\n".join(cell.source for cell in released.cells)
    assert BEGIN not in text and END not in text and not any(cell.get("outputs") for cell in released.cells)
    for cell in read(SOLUTIONS, chapter).cells:
        if BEGIN in cell.source:
            body = cell.source.split(BEGIN)[1].split(END)[0]
            lines = [line.strip() for line in body.splitlines() if len(line.strip()) > 25]
            assert lines and not [line for line in lines if line in text]


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_every_cell_of_an_exercise_is_readable(chapter):
    notebook = read(SOLUTIONS, chapter)
    assert notebook.cells[0].cell_type == "markdown" and notebook.cells[0].source.startswith("# ")
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            words = re.sub(r"<[^>]+>|\$[^$]+\$", " ", cell.source).split()
            assert len(words) <= 190, f"{len(words)} words in one cell: {cell.source[:60]}"
    headings = "\n".join(c.source for c in notebook.cells if c.cell_type == "markdown")
    for name, exercise in due(chapter).items():
        assert f"about {exercise.minutes} minutes" in headings, name


def test_all_chapters_begin_with_the_same_setup():
    setups = {next(c.source for c in read(SOLUTIONS, name).cells if c.cell_type == "code") for name in CHAPTERS}
    assert len(setups) == 1 and "from grader import check" in setups.pop()


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_code_fits_beside_the_file_browser(chapter):
    cells = [cell for cell in read(SOLUTIONS, chapter).cells if cell.cell_type == "code"]
    assert not [line for cell in cells for line in cell.source.splitlines() if len(line) > 88]


def test_checks_draw_new_inputs_unless_told(monkeypatch):
    monkeypatch.delenv(SEED_VARIABLE, raising=False)
    from grader.checking import _seed

    assert len({_seed(None) for _ in range(8)}) == 8 and _seed(5) == 5
