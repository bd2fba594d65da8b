"""nbgrader's steps mapped on this course's folders; read by `nbgrader …` and formgrader when run from here.

`grader grade` makes the same settings in code (grader/classroom/nbgrader_api.py).
"""

from grader.classroom.nbgrader_api import course_config

c = get_config()  # noqa: F821  (defined by nbgrader when it reads this file)
c.merge(course_config())
c.CourseDirectory.course_id = "grpo-from-scratch"
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "notebooks"
c.CourseDirectory.submitted_directory = "grading/submitted"
c.CourseDirectory.autograded_directory = "grading/autograded"
c.CourseDirectory.feedback_directory = "grading/feedback"
c.CourseDirectory.db_url = "sqlite:///grading/gradebook.db?timeout=60"  # a grading may be at work: wait for it
