"""Find the known mistake that a wrong answer behaves like.

Every known mistake is run on the very calls that the student's function was given. One that did the same on all
of them is named with certainty. Failing that, one is named as a likeness if it did the same wherever a part failed
and is right wherever the student is right: a sentence that a passing test contradicts would only confuse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grader.calling import Outcome, call_all
from grader.compare import Tolerance, difference, value_difference
from grader.exercise import Call, Exercise, Mistake
from grader.plain import NotPlain, same_data

WEAKLY = "weakly"  # where a value was due, two errors of one type but with other words


@dataclass(frozen=True)
class Diagnosis:
    """A known mistake, and whether it explains all values (`exact`) or only those of one part."""

    mistake: Mistake
    exact: bool


def diagnose(
    exercise: Exercise,
    calls: Sequence[Call],
    expected: Sequence[Outcome],
    got: Sequence[Outcome],
    failed: Sequence[Sequence[int]],
) -> list[Diagnosis | None]:
    """Return, for each failed part, the mistake it looks like or None.

    `failed` holds, for each failed part, the indices into `calls` where it failed.
    """
    none_is_an_answer = any(outcome.kind == "value" and outcome.value is None for outcome in expected)
    if all(_says_nothing(outcome, none_is_an_answer) for outcome in got):
        return [None] * len(failed)
    alike = [(mistake, _agreement(exercise, mistake, calls, expected, got)) for mistake in exercise.mistakes]
    for mistake, agrees in alike:
        if all(agrees):
            return [Diagnosis(mistake, exact=True)] * len(failed)
    tolerance = Tolerance(exercise.rtol, exercise.atol)
    right = [i for i, (e, g) in enumerate(zip(expected, got, strict=True)) if difference(e, g, tolerance) is None]
    alike = [(mistake, agrees) for mistake, agrees in alike if mistake.symptom or all(agrees[i] for i in right)]
    values = [i for i, outcome in enumerate(expected) if outcome.kind == "value"]
    return [_likeness(alike, indices, values) for indices in failed]


def _says_nothing(outcome: Outcome, none_is_an_answer: bool) -> bool:
    """Tell whether an outcome fits too many causes: None, a ValueError, no end. Other errors can be telling."""
    if outcome.kind == "raised":
        return outcome.raised.is_value_error
    return outcome.kind != "value" or (outcome.value is None and not none_is_an_answer)


def _likeness(
    alike: list[tuple[Mistake, list[bool | str]]], indices: Sequence[int], values: Sequence[int]
) -> Diagnosis | None:
    candidates = [(mistake, agrees) for mistake, agrees in alike if all(agrees[i] for i in indices)]
    # Two errors of one type at every place may have nothing in common but the type.
    candidates = [(mistake, agrees) for mistake, agrees in candidates if any(agrees[i] != WEAKLY for i in indices)]
    if not candidates:
        return None
    mistake, agrees = max(candidates, key=lambda pair: sum(map(bool, pair[1])))
    only_errors_failed = not set(indices) & set(values)
    return Diagnosis(mistake, exact=only_errors_failed or all(agrees[i] for i in values))


def _agreement(
    exercise: Exercise,
    mistake: Mistake,
    calls: Sequence[Call],
    expected: Sequence[Outcome],
    got: Sequence[Outcome],
) -> list[bool | str]:
    """Tell for each call whether the mistake did there what the student's function did; WEAKLY counts as a yes."""
    if mistake.symptom is not None:
        return [_has_symptom(mistake, calls, got)] * len(calls)
    tolerance = Tolerance(exercise.rtol, exercise.atol)
    theirs = call_all(exercise.on_plain_data(mistake.code), calls)
    return [_alike(e, t, g, tolerance) for e, t, g in zip(expected, theirs, got, strict=True)]


def _has_symptom(mistake: Mistake, calls: Sequence[Call], got: Sequence[Outcome]) -> bool:
    if any(o.kind != "value" for o in got):
        return False
    try:
        return bool(mistake.symptom([o.value for o in got], calls))
    except Exception:  # a symptom reads values of any shape; one that it cannot read does not show it
        return False


def _alike(expected: Outcome, theirs: Outcome, got: Outcome, tolerance: Tolerance) -> bool | str:
    if theirs.kind != got.kind:
        return False
    if got.kind == "raised":
        same = theirs.raised.type_name == got.raised.type_name
        telling = expected.kind == "raised" or theirs.raised.message == got.raised.message
        return same and (telling or WEAKLY)
    if isinstance(got.value, NotPlain) or isinstance(theirs.value, NotPlain):
        return isinstance(theirs.value, NotPlain) and same_data(theirs.value, got.value)
    if expected.kind == "raised":  # an error was due: what is returned instead of it says little
        return True
    return got.kind != "value" or value_difference(theirs.value, got.value, tolerance) is None
