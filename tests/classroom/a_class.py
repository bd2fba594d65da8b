"""A class as a grading leaves it, without any grading: for what reports and exports make of it."""

from __future__ import annotations

import random
from dataclasses import replace

from grader.classroom.intake import Submission, safe_id
from grader.classroom.states import Graded, Score
from grader.exercises import EXERCISES

FIRST = "Ana Ben Chloé Dmitri Eve Fatima Göran Hana Ines João Kofi Lê Mei Nia Oluwaseun Priya Quentin Rosa".split()
LAST = "Lee Öz García-Márquez van der Berg Nguyen Okonkwo Papadopoulos-Konstantinidou".replace(
    "van der Berg", "Berg"
).split()
CHAPTERS = ("02_advantages_and_logprobs", "03_the_grpo_loss", "04_tabular_grpo")
ALL_FAIL = "kl_k3"


def graded_class(students: int = 34, chapters: tuple[str, ...] = CHAPTERS, seed: int = 1) -> list[Graded]:
    """Every kind of submission there is, and one exercise (ALL_FAIL) that nobody has right."""
    rng = random.Random(seed)
    names = [f"{FIRST[n % len(FIRST)]} {LAST[n % len(LAST)]}" + (f" {n}" if n >= 90 else "") for n in range(students)]
    return [_graded(rng, name, chapter, place) for chapter in chapters for place, name in enumerate(names)]


def _graded(rng: random.Random, name: str, chapter: str, place: int) -> Graded:
    submission = Submission(name, safe_id(name), chapter, "found", number=str(1000 + place))
    due = [exercise for exercise in EXERCISES.values() if exercise.chapter == chapter]
    state, reason, flags = "graded", "", ()
    if place % 11 == 7 or place in (3, 9):
        why = "no notebook of this chapter was handed in"
        return Graded(replace(submission, state="missing"), "missing", why, _empty(name, due, "missing"))
    if place % 17 == 5:
        reason = f"{chapter}.ipynb is not a readable Jupyter notebook: it is a PDF document"
        return Graded(replace(submission, state="failed"), "failed", reason, _empty(name, due, "failed"))
    scores = tuple(_score(rng, name, exercise) for exercise in due)
    if place % 13 == 4:
        state, reason = "needs review", "cell 14 ran out of time; handed in as Copy of final (2).ipynb"
        scores = (*scores[:-1], replace(scores[-1], points=None, result="failed: no result", mistake=""))
    if place % 10 == 6:
        flags = ("the function calls the finished `grpo.log_softmax`, which is this exercise",)
    late = {2: 4 * 3600.0, 12: 30 * 3600.0}.get(place, 0.0)
    return Graded(submission, state, reason, scores, None, late, late / 3600 / 10, rng.uniform(2, 9), flags)


def _empty(name: str, due: list, result: str) -> tuple[Score, ...]:
    return tuple(Score(name, e.chapter, e.name, None, e.points, result) for e in due)


def _score(rng: random.Random, name: str, exercise) -> Score:
    kind = rng.choices(("right", "partly right", "wrong", "not attempted"), (6, 3, 1, 1))[0]
    if exercise.name == ALL_FAIL:
        kind = rng.choice(("partly right", "wrong"))
    points = {"right": exercise.points, "partly right": rng.randrange(1, exercise.points)}.get(kind, 0)
    mistake = rng.choice(exercise.mistakes[:5]).name if kind in ("partly right", "wrong") else ""
    return Score(name, exercise.chapter, exercise.name, float(points), exercise.points, kind, mistake)
