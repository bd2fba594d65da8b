"""All exercises of the course by name, in the order in which a student meets them.

To add one, write an `Exercise` literal in the file of its chapter and list it in that file's EXERCISES.
"""

from grader.exercise import Exercise
from grader.exercises import chapter_01, chapter_02, chapter_03, chapter_04, chapter_05, chapter_06, chapter_07

CHAPTERS = (chapter_01, chapter_02, chapter_03, chapter_04, chapter_05, chapter_06, chapter_07)

EXERCISES: dict[str, Exercise] = {}
for _chapter in CHAPTERS:
    for _exercise in _chapter.EXERCISES:
        if _exercise.name in EXERCISES:
            raise ValueError(f"two exercises are called {_exercise.name!r}; a name must say which one is meant")
        EXERCISES[_exercise.name] = _exercise
