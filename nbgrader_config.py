"""nbgrader's steps mapped on this course's folders; read by `nbgrader …` and formgrader when run from here.

`grader grade` makes the same settings in code (grader/classroom/nbgrader_api.py).
"""

from pathlib import Path

from grader.classroom.formgrader import formgrader_config

here = Path(__file__).resolve().parent
c = get_config()  # noqa: F821  (defined by nbgrader when it reads this file)
c.merge(formgrader_config(here / "grading"))
c.CourseDirectory.root = str(here)
c.CourseDirectory.course_id = "grpo-from-scratch"
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "notebooks"
c.CourseDirectory.submitted_directory = "grading/submitted"
c.CourseDirectory.autograded_directory = "grading/autograded"
c.CourseDirectory.feedback_directory = "grading/feedback"
