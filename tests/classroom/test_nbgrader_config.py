"""nbgrader's own configuration file says the same as the code."""

from traitlets.config.loader import PyFileConfigLoader

from grader.classroom.nbgrader_api import course_config
from grader.paths import ROOT


def test_plain_nbgrader_grades_the_same_way():
    loaded = PyFileConfigLoader("nbgrader_config.py", path=str(ROOT)).load_config()
    code = course_config()
    assert loaded.Autograde.autograde_preprocessors == code.Autograde.autograde_preprocessors
    assert loaded.CourseExecute.timeout == code.CourseExecute.timeout and loaded.OverwriteCells.add_missing_cells
    assert loaded.CourseDirectory.source_directory == "solutions"
    assert loaded.CourseDirectory.release_directory == "notebooks"


def test_no_tag_that_a_student_could_know_skips_a_cell():
    tags = {course_config().CourseExecute.skip_cells_with_tag for _ in range(3)}
    assert len(tags) == 3 and all(len(tag) == 32 for tag in tags)
