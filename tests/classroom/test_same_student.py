"""Nobody is in the gradebook twice, whichever program grades."""

import pytest
from nbgrader.api import Gradebook, MissingEntry

from grader.classroom.engine.gradebook import _new_gradebook
from grader.classroom.intake import Submission, safe_id
from grader.classroom.same_student import (
    SecondStudent,
    doubles,
    former_ids,
    keep_names,
    known_as,
    refuse_second,
    take_along,
)

CHAPTER = "02_advantages_and_logprobs"
ROSTER = ["Zoë Lee", "ben", "Ana García"]
FOUND = [Submission(name, safe_id(name), CHAPTER, "found") for name in ROSTER]


@pytest.fixture
def work(tmp_path):
    keep_names(tmp_path, FOUND[:2], {"u123": "ben"})
    keep_names(tmp_path, FOUND[2:], {})  # a later grading, of others
    return tmp_path


@pytest.mark.parametrize(
    "folder, name",
    [
        ("Zoë Lee", "Zoë Lee"),
        ("zoe_lee", "Zoë Lee"),
        ("Lee, Zoe", "Zoë Lee"),
        ("u123", "ben"),
        ("ben", "ben"),
        (safe_id("Zoë Lee"), "Zoë Lee"),
        ("ana garcia", "Ana García"),
    ],
)
def test_a_folder_belongs_to_whom_the_intake_says(work, folder, name):
    assert known_as(folder, work) == safe_id(name)


def test_nobody_is_known_of_other_folders_or_before_the_first_grading(work, tmp_path):
    assert known_as("carla", work) == "" and known_as("ben", tmp_path / "elsewhere") == ""
    (work / "students.json").write_text('{"students": ')
    assert known_as("ben", work) == ""


def test_nbgrader_is_refused_a_second_student_and_takes_it_out_again(work):
    url = f"sqlite:///{work}/gradebook.db?timeout=5"
    _new_gradebook(work)
    with Gradebook(url) as gradebook:
        gradebook.add_assignment(CHAPTER)
        gradebook.add_notebook(CHAPTER, CHAPTER)
        gradebook.add_grade_cell("log_softmax", CHAPTER, CHAPTER, max_score=4, cell_type="code")
        for student in ("zoe lee", "ben", "ana garcia"):
            gradebook.add_student(student)
            gradebook.add_submission(CHAPTER, student)
        gradebook.find_grade("log_softmax", CHAPTER, CHAPTER, "ana garcia").manual_score = 2.0
        gradebook.db.commit()
    with pytest.raises(
        SecondStudent, match=rf"'zoe lee' is not graded here.*{safe_id('Zoë Lee')}.*--chapter {CHAPTER}"
    ):
        refuse_second("zoe lee", CHAPTER, url)
    with pytest.raises(SecondStudent):
        refuse_second("ana garcia", CHAPTER, url)
    with pytest.raises(SecondStudent, match=safe_id("Nobody Yet")):
        refuse_second("Nobody Yet", CHAPTER, url)
    for student in ("ben", "carla", safe_id("Zoë Lee")):
        refuse_second(student, CHAPTER, url)
    with Gradebook(url) as gradebook:
        with pytest.raises(MissingEntry):
            gradebook.find_student("zoe lee")
        assert gradebook.find_student("ben")
        assert gradebook.find_grade("log_softmax", CHAPTER, CHAPTER, "ana garcia").manual_score == 2.0


def test_a_second_student_who_is_there_is_said():
    found = doubles(["ben", safe_id("Zoë Lee"), "Ben", "zoe lee", "carla"], FOUND)
    assert set(found) == {"ben", safe_id("Zoë Lee")}
    assert "second student 'Ben'" in found["ben"][0] and "second student 'zoe lee'" in found[safe_id("Zoë Lee")][0]


def test_who_had_another_name_in_an_earlier_grading_is_said(tmp_path):
    keep_names(tmp_path, [Submission("Zoe Lee", "zoe-0123", CHAPTER, "found")], {})
    assert doubles(["zoe-0123"], FOUND) == {}
    (said,) = doubles(["zoe-0123"], FOUND, tmp_path)[safe_id("Zoë Lee")]
    assert "second student 'zoe-0123'" in said and "grade again with it" in said


def _gradebook(work, **scores):
    _new_gradebook(work)
    gradebook = Gradebook(f"sqlite:///{work}/gradebook.db?timeout=5")
    gradebook.add_assignment(CHAPTER)
    gradebook.add_notebook(CHAPTER, CHAPTER)
    gradebook.add_grade_cell("log_softmax", CHAPTER, CHAPTER, max_score=4, cell_type="code")
    for student, score in scores.items():
        gradebook.add_student(student)
        gradebook.add_submission(CHAPTER, student)
        gradebook.find_grade("log_softmax", CHAPTER, CHAPTER, student).manual_score = score
    gradebook.db.commit()
    return gradebook


def test_grades_go_along_to_the_name_that_the_roster_has_now(tmp_path):
    keep_names(tmp_path, [Submission("lee, zoe", "old", CHAPTER, "found"), *FOUND[1:]], {"u1": "ben"})
    (tmp_path / "records" / "old").mkdir(parents=True)
    for name in ("judged", "autograded", "feedback"):
        (tmp_path / name / "old").mkdir(parents=True)
    new = safe_id("Zoë Lee")
    with _gradebook(tmp_path, old=3.0, ben=1.0, carla=2.0) as gradebook:
        gradebook.find_student("old").email = "zoe@example.org"
        assert take_along(gradebook, FOUND, tmp_path, ROSTER[1:]) == {}, "who is not on the roster may be another"
        assert take_along(gradebook, FOUND, tmp_path, ROSTER) == {new: ("old", "lee, zoe")}
        assert gradebook.find_student(new).email == "zoe@example.org"
        assert sorted(student.id for student in gradebook.students) == sorted(["ben", "carla", new])
        found = [
            gradebook.find_grade("log_softmax", CHAPTER, CHAPTER, one).manual_score for one in (new, "ben", "carla")
        ]
        assert found == [3.0, 1.0, 2.0]
        assert take_along(gradebook, FOUND, tmp_path, ROSTER) == {}
    moved = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.glob("*/*"))
    assert moved == sorted(f"{name}/{new}" for name in ("records", "judged", "autograded", "feedback"))
    assert former_ids(tmp_path) == {new: ["old"]}
    assert known_as("old", tmp_path) == "", "nbgrader would make a second student of it"
    assert known_as("u1", tmp_path) == "ben", "what --names said stays"


def test_grades_stay_where_it_is_not_clear_whose_they_are(tmp_path):
    with _gradebook(tmp_path, Ben=3.0, BEN=1.0) as gradebook:
        assert take_along(gradebook, FOUND, tmp_path, ROSTER) == {}, "two who may be ben"
        gradebook.remove_student("BEN")
        gradebook.add_student("ben")
        assert take_along(gradebook, FOUND, tmp_path, ROSTER) == {}, "ben has a place of his own"
        assert gradebook.find_grade("log_softmax", CHAPTER, CHAPTER, "Ben").manual_score == 3.0
