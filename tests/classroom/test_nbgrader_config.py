"""nbgrader's own configuration files say the same as the code, and take a notebook in as `grader grade` does."""

import json
import logging

import nbformat
import pytest
import students
from nbgrader.coursedir import CourseDirectory
from nbgrader.utils import find_all_files
from traitlets.config.loader import PyFileConfigLoader

from grader.classroom import formgrader
from grader.classroom.engine.feedback import CourseHTML
from grader.classroom.formgrader import TakeIn, formgrader_config, read_submission, write_config
from grader.classroom.harmless import Harmless
from grader.classroom.intake import take_in
from grader.classroom.intake_notebook import IntakeError
from grader.classroom.lateness import keep_policy
from grader.classroom.nbgrader_api import course_config
from grader.classroom.preprocessors import CourseExecute
from grader.paths import NOTEBOOKS, ROOT, chapters, notebook_path

CHAPTER = students.CHAPTER


def load(folder):
    return PyFileConfigLoader("nbgrader_config.py", path=str(folder)).load_config()


def test_plain_nbgrader_grades_the_same_way():
    loaded = load(ROOT)
    code = course_config()
    assert loaded.Autograde.autograde_preprocessors == code.Autograde.autograde_preprocessors
    assert {CourseExecute, Harmless} < set(loaded.Autograde.autograde_preprocessors)
    assert loaded.Autograde.sanitize_preprocessors[0] is TakeIn
    assert loaded.CourseExecute.kernel_manager_class == "grader.judge.kernel.SandboxedKernelManager"
    assert loaded.CourseExecute.timeout == code.CourseExecute.timeout and loaded.OverwriteCells.add_missing_cells
    assert loaded.CourseDirectory.source_directory == "solutions"
    assert loaded.CourseDirectory.release_directory == "notebooks"
    # Wherever the process was started: "Formgrader (local)" reads this file from another folder.
    assert loaded.CourseDirectory.root == str(ROOT)
    assert loaded.CourseDirectory.db_url == f"sqlite:///{ROOT}/grading/gradebook.db?timeout=60"


def test_a_work_folder_gets_a_configuration_of_its_own(tmp_path):
    write_config(tmp_path)
    loaded = load(tmp_path)
    assert loaded.Autograde == load(ROOT).Autograde and loaded.CourseExecute.kernel_manager_class
    assert loaded.CourseDirectory.root == str(tmp_path)
    assert loaded.CourseDirectory.submitted_directory == "intake"
    assert loaded.CourseDirectory.db_url == f"sqlite:///{tmp_path}/gradebook.db?timeout=60"


def test_a_button_grades_as_the_last_grading_did(tmp_path):
    before = formgrader_config(tmp_path)
    assert "secret" not in before.CourseExecute and before.LateSubmissionPlugin.penalty_method == "none"
    (tmp_path / "secret").write_text("0123\n")
    keep_policy(tmp_path, "zero")
    after = formgrader_config(tmp_path)
    assert after.CourseExecute.secret == "0123" and after.LateSubmissionPlugin.penalty_method == "zero"
    assert after.GenerateFeedback.exporter_class is CourseHTML


def test_nothing_beside_a_notebook_is_copied_and_nothing_is_kept_from_the_exchange(tmp_path):
    folder = tmp_path / "ana" / CHAPTER
    folder.mkdir(parents=True)
    for name in ("notes.txt", ".hidden"):
        (folder / name).symlink_to("/etc/hostname")
    ignore = formgrader_config(tmp_path).CourseDirectory.ignore
    assert find_all_files(str(folder), CourseDirectory().ignore) and not find_all_files(str(folder), ignore)
    assert set(ignore) == {*CourseDirectory().ignore, *chapters()}


def test_no_tag_that_a_student_could_know_skips_a_cell():
    tags = {course_config().CourseExecute.skip_cells_with_tag for _ in range(3)}
    assert len(tags) == 3 and all(len(tag) == 32 for tag in tags)


def taken_in(folder, student):
    """The notebook that nbgrader's first step makes of what a student handed in."""
    resources = {
        "metadata": {"path": str(folder / student / CHAPTER), "name": CHAPTER},
        "nbgrader": {"student": student, "assignment": CHAPTER, "notebook": CHAPTER, "db_url": f"sqlite:///{folder}/g.db"},
    }  # fmt: skip
    return TakeIn().preprocess(None, resources)[0]


def test_a_notebook_is_rebuilt_as_the_intake_does(tmp_path):
    students.hand_in(tmp_path / "submitted")
    for student in ("abe", "max", "cai"):  # a copied answer, a deleted check, a setup cell of one's own
        take_in(tmp_path / "submitted", tmp_path / "intake", chapters(), [CHAPTER], [])
        staged = nbformat.read(notebook_path(tmp_path / "intake" / student, CHAPTER), as_version=4)
        made = taken_in(tmp_path / "submitted", student)
        assert [(c.cell_type, c.source, c.metadata) for c in made.cells] == [
            (c.cell_type, c.source, c.metadata) for c in staged.cells
        ]


def test_why_nothing_can_be_graded_is_said_before_nbgrader_says_something_else(monkeypatch, caplog):
    explain = formgrader_config(ROOT / "grading").Autograde.pre_convert_hook
    monkeypatch.setattr(formgrader, "why_not", lambda: "")
    monkeypatch.setattr(formgrader, "get_logger", logging.getLogger)
    explain(assignment=CHAPTER, student="ana", notebooks=[f"/x/{CHAPTER}.ipynb"])
    assert not caplog.messages
    explain(assignment=CHAPTER, student="ana", notebooks=["/x/final (1).ipynb"])
    monkeypatch.setattr(formgrader, "why_not", lambda: "bwrap not found")
    explain(assignment=CHAPTER, student="ana", notebooks=[f"/x/{CHAPTER}.ipynb"])
    assert len(caplog.messages) == 2 and "(found: final (1).ipynb). `grader grade`" in caplog.messages[0]
    assert caplog.messages[1].endswith("cannot be shut in: bwrap not found")


@pytest.mark.parametrize("what", ["link", "linked folder", "no notebook", "another chapter", "nothing of ours"])
def test_what_cannot_be_graded_is_refused_with_the_reason(tmp_path, what):
    folder = tmp_path / "ana" / CHAPTER
    folder.parent.mkdir()
    file = folder / f"{CHAPTER}.ipynb"
    released = notebook_path(NOTEBOOKS, CHAPTER)
    if what == "linked folder":
        folder.symlink_to(released.parent)
    else:
        folder.mkdir()
    if what == "link":
        file.symlink_to(released)
    elif what == "no notebook":
        file.write_text("{")
    elif what == "another chapter":
        file.write_bytes(notebook_path(NOTEBOOKS, students.OTHER_CHAPTER).read_bytes())
    elif what == "nothing of ours":
        file.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []}))
    reasons = {
        "link": "is a symbolic link; hand in the file itself",
        "linked folder": "is a symbolic link; hand in the files themselves",
        "no notebook": "is not a readable Jupyter notebook",
        "another chapter": f"this is {students.OTHER_CHAPTER}",
        "nothing of ours": "none of the exercises is in it",
    }
    with pytest.raises(IntakeError, match=reasons[what]):
        read_submission(folder, file.name, CHAPTER)
