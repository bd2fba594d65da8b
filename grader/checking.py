"""`check(fn)`: grade one exercise, say what holds, what does not, and which mistake it looks like."""

from __future__ import annotations

import difflib
import inspect
import os
import re
import secrets
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import FrameType

import numpy as np

from grader import source
from grader.calling import MAX_PRINTED, Outcome, Raised, call_all
from grader.compare import Tolerance, difference
from grader.diagnose import Diagnosis, diagnose
from grader.exercise import Call, Exercise, Part
from grader.exercises import EXERCISES
from grader.report import Evidence, PartResult, Report
from grader.secrecy import drawn_calls, evidence_withheld, scrubbed
from grader.show import show_call, show_pair

SEED_VARIABLE = "GRPO_CHECK_SEED"
# A sentence about the form of an answer, behind which a hint about its content would mislead.
_FORM = re.compile(r"\bshape\b|\bit returned |\bit has \d+ items|^six numbers are due|^there is no row for")
Caller = Callable[[Sequence[Call]], list[Outcome]]


def check(fn: Callable, exercise: str | None = None, seed: int | None = None) -> Report:
    """Check a function that solves an exercise of the course.

    Args:
        fn: the student's function. Its name says which exercise it solves.
        exercise: the exercise's name, where the function is called otherwise.
        seed: draws the random part of the inputs. Default: the environment variable GRPO_CHECK_SEED, else a new
            one each time, so that answers learned by heart do not pass.

    Returns:
        A Report. A notebook shows it as the last value of a cell; `print` shows it as text.

    Raises:
        TypeError: `fn` is no function (a call of it was passed, say).
        KeyError: no exercise has this name.
    """
    if isinstance(fn, str):
        raise TypeError(f"check() takes the function itself: write check({fn}), without quotation marks")
    if not callable(fn):
        raise TypeError(
            f"check() takes the function itself, and got {type(fn).__name__}: write check(name), without calling it"
        )
    name = exercise or getattr(fn, "__name__", "")
    if name not in EXERCISES and exercise is None:
        name = _held_as(fn, inspect.currentframe().f_back) or name
    if name not in EXERCISES and not isinstance(getattr(fn, "__name__", None), str) and exercise is None:
        raise KeyError(
            f"an object of the class {type(fn).__name__} has no name that says which exercise it solves: write "
            f"check(object, exercise=...) with one of: {', '.join(EXERCISES)}"
        )
    if name not in EXERCISES:
        near = difflib.get_close_matches(name, EXERCISES, n=1)
        guess = f" Did you mean check({near[0]})?" if near else ""
        raise KeyError(
            f"no exercise is called {name!r}.{guess} For a function of another name, write "
            f"check(function, exercise=...) with one of: {', '.join(EXERCISES)}"
        )
    return run_check(EXERCISES[name], fn, _seed(seed))


def _held_as(fn: Callable, frame: FrameType | None) -> str:
    """Return the exercise by whose name the calling notebook holds `fn`, or "": the grading goes by that name too.

    It finds what has another name of its own, or none: an object that can be called, a functools.partial.
    """
    names = frame.f_globals if frame else {}
    return next((name for name in EXERCISES if names.get(name) is fn), "")


def _seed(seed: int | None) -> int:
    if seed is not None:
        return seed
    given = os.environ.get(SEED_VARIABLE, "")
    if not given:
        return secrets.randbits(32)
    if not given.isdigit():
        raise ValueError(f"{SEED_VARIABLE} is {given!r}; set it to a whole number or leave it unset")
    return int(given)


def run_check(
    exercise: Exercise,
    fn: Callable | None,
    seed: int,
    caller: Caller | None = None,
    code: source.Code | None = None,
    secret: bool = False,
) -> Report:
    """Grade `fn` on the inputs that `seed` draws.

    Args:
        exercise: what is checked.
        fn: the student's function; None where only `caller` can reach it.
        seed: draws the random part of the inputs.
        caller: makes the calls where the function lives, adapter and all (see `Exercise.on_plain_data`); default:
            in this process. Only plain data comes back from it.
        code: the function's source, if it is at hand; default: read off `fn`.
        secret: do not show inputs that `seed` has drawn, nor what is right for them; those that every check has in
            common may be shown.
    """
    code = code or (source.code_of(fn) if fn else None)
    rng = np.random.default_rng(seed)
    calls_of = [list(part.calls(rng)) for part in exercise.parts]
    calls = [one for part_calls in calls_of for one in part_calls]
    expected = call_all(exercise.reference, calls)
    got = caller(calls) if caller else call_all(exercise.on_plain_data(fn), calls)
    if got[0].kind == "not attempted":
        return _not_attempted(exercise, source.leftover_stub(code))

    results: list[tuple[Part, list[int], str]] = []  # the part, where it failed, its property's sentence
    start = 0
    for part, part_calls in zip(exercise.parts, calls_of, strict=True):
        indices = range(start, start + len(part_calls))
        results.append((part, *_judge(exercise, part, indices, calls, expected, got)))
        start += len(part_calls)

    failed = [indices for _, indices, _ in results if indices]
    found = iter(diagnose(exercise, calls, expected, got, failed) if failed else [])
    diagnoses = [next(found) if indices else None for _, indices, _ in results]
    hidden: frozenset[int] = frozenset()
    if secret:
        hidden = drawn_calls(exercise, calls)
        got = scrubbed(got, hidden)
        results = [
            (part, bad if part.holds else sorted(bad, key=lambda i: i in hidden), sentence)
            for part, bad, sentence in results
        ]
    notes = _notes(got) + tuple(source.shortcut_notes(code, (exercise.name, *exercise.shortcuts)))
    return _report(exercise, calls, expected, got, results, diagnoses, notes, hidden)


def _judge(
    exercise: Exercise,
    part: Part,
    indices: range,
    calls: Sequence[Call],
    expected: Sequence[Outcome],
    got: Sequence[Outcome],
) -> tuple[list[int], str]:
    """Return the indices of the calls at which the part fails, smallest input first, and a sentence."""
    if part.only_errors:
        return [i for i in indices if _wrong_error(expected[i], got[i])], ""
    if part.holds is None:
        tolerance = Tolerance(exercise.rtol, exercise.atol)
        bad = [i for i in indices if difference(*_narrow(part, expected[i], got[i]), tolerance) is not None]
        return sorted(bad, key=lambda i: len(repr((calls[i].args, calls[i].kwargs)))), ""
    bad = [i for i in indices if got[i].kind != "value"]
    if bad:
        return bad, ""
    mine = [calls[i] for i in indices]
    pairs = {i: _narrow(part, expected[i], got[i]) for i in indices}
    told = [i for i, pair in pairs.items() if _told_by_adapter(exercise, *pair)]
    if told:
        return told, pairs[told[0]][1].value
    values = [pair[1].value for pair in pairs.values()]
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            verdict = part.holds(values, mine)
    except Exception:  # a property reads values of any shape; one that it cannot read is a wrong answer
        verdict = "the answer does not have the form that the exercise asks for"
    if not verdict:
        return [], ""
    place, sentence = verdict if isinstance(verdict, tuple) else (0, verdict)
    if not isinstance(sentence, str):  # a property that passes on what it was given instead of words about it
        sentence = "the answer does not have the form that the exercise asks for"
    return [indices[place], *(i for i in indices if i != indices[place])], sentence


def _narrow(part: Part, *outcomes: Outcome) -> list[Outcome]:
    """The outcomes with the one entry that the part is about as their value."""
    return [
        replace(one, value=one.value[part.entry]) if isinstance(one.value, dict) and part.entry in one.value else one
        for one in outcomes
    ]


def _told_by_adapter(exercise: Exercise, expected: Outcome, got: Outcome) -> bool:
    """Tell whether an adapter put a sentence where a value was due: it says what is wrong."""
    return exercise.adapter is not None and isinstance(got.value, str) and not isinstance(expected.value, str)


def _wrong_error(expected: Outcome, got: Outcome) -> bool:
    if expected.kind == "raised":
        return not (got.kind == "raised" and got.raised.is_value_error)
    return got.kind != "value"


def _not_attempted(exercise: Exercise, leftover_line: int | None) -> Report:
    if leftover_line is not None:
        return Report(
            exercise.name,
            exercise.chapter,
            "error in your code",
            0,
            exercise.points,
            headline=f"Your lines are there, but `raise NotImplementedError()` still stands in line {leftover_line}: "
            "delete it, so that they can come to their `return`.",
        )
    return Report(
        exercise.name,
        exercise.chapter,
        "not attempted",
        0,
        exercise.points,
        headline="Nothing written yet: put your own lines in place of `raise NotImplementedError()`.",
    )


def _report(
    exercise: Exercise,
    calls: Sequence[Call],
    expected: Sequence[Outcome],
    got: Sequence[Outcome],
    results: Sequence[tuple[Part, list[int], str]],
    diagnoses: Sequence[Diagnosis | None],
    notes: tuple[str, ...],
    hidden: frozenset[int],
) -> Report:
    explained: set[str] = set()  # a cause is shown once, not under every part that it breaks
    unexplained = False  # what fails after an unexplained failure may have the same cause: no more hints then
    parts = []
    for (part, bad, sentence), diagnosis in zip(results, diagnoses, strict=True):
        if not bad:
            parts.append(PartResult(part.says, part.points, passed=True))
            continue
        if got[bad[0]].kind == "not run":
            parts.append(PartResult(part.says, part.points, passed=False))
            continue
        evidence = _evidence(exercise, calls[bad[0]], expected[bad[0]], got[bad[0]], part, sentence)
        mistake = diagnosis.mistake if diagnosis else None
        cause = mistake.name if mistake else re.sub(r"\d+", "", evidence.sentence)
        if cause and cause in explained:
            name = mistake.name if mistake else ""
            parts.append(
                PartResult(part.says, part.points, passed=False, mistake=name, hint="The same reason as above.")
            )
            continue
        if unexplained and not mistake and not part.only_errors:
            parts.append(PartResult(part.says, part.points, passed=False, hint="Mend the part above first."))
            continue
        unexplained = unexplained or not mistake
        explained.add(cause)
        says = ""
        if mistake:
            says = mistake.says if diagnosis.exact else f"This looks like a known mistake. {mistake.says}"
        told = _told_by_adapter(exercise, *_narrow(part, expected[bad[0]], got[bad[0]]))
        speaks_for_itself = told or got[bad[0]].kind != "value" or _FORM.search(evidence.sentence)
        parts.append(
            PartResult(
                part.says,
                part.points,
                passed=False,
                evidence=evidence_withheld(exercise.name) if bad[0] in hidden else evidence,
                mistake=mistake.name if mistake else "",
                mistake_says=says,
                hint="" if mistake or speaks_for_itself else part.hint,
            )
        )
    points = sum(part.points for part in parts if part.passed)
    return Report(
        exercise.name,
        exercise.chapter,
        _state(exercise, points, got),
        points,
        exercise.points,
        parts=tuple(parts),
        mistake=next((part.mistake for part in parts if part.mistake), ""),
        notes=notes,
        headline=_headline(exercise, points, expected, got),
    )


def _evidence(exercise: Exercise, one: Call, expected: Outcome, got: Outcome, part: Part, sentence: str) -> Evidence:
    shown = show_call(exercise.name, one, exercise.reference)
    expected, got = _narrow(part, expected, got)
    if _told_by_adapter(exercise, expected, got):
        return Evidence(shown, sentence=got.value)
    if part.holds is not None and got.kind == "value":
        return Evidence(shown, sentence=sentence)
    text = difference(expected, got, Tolerance(exercise.rtol, exercise.atol)) or ""
    if got.kind == "raised" and got.raised.where:
        text = f"{text}, in {got.raised.where}"
    if got.kind != "value":
        right = show_pair(expected, expected)[0] if part.holds is None else ""
        return Evidence(shown, _due(expected) or right, "", text)
    if expected.kind == "raised":
        return Evidence(shown, _due(expected), show_pair(got, got)[1], "")
    return Evidence(shown, *show_pair(expected, got), text)


def _due(expected: Outcome) -> str:
    return "a ValueError" if expected.kind == "raised" else ""


def _unexpected_errors(expected: Sequence[Outcome], got: Sequence[Outcome]) -> list[Raised]:
    pairs = zip(expected, got, strict=True)
    return [g.raised for e, g in pairs if g.kind == "raised" and e.kind != "raised"]


def _state(exercise: Exercise, points: int, got: Sequence[Outcome]) -> str:
    if any(o.kind in ("timeout", "interrupted") for o in got):
        return "stopped"
    if points == exercise.points:
        return "right"
    if points:
        return "partly right"
    return "error in your code" if all(o.kind == "raised" for o in got) else "wrong"


def _headline(exercise: Exercise, points: int, expected: Sequence[Outcome], got: Sequence[Outcome]) -> str:
    if any(o.kind == "timeout" for o in got):
        return "The function ran too long and was stopped: look for a loop that never ends."
    if any(o.kind == "interrupted" for o in got):
        return "The check was interrupted. Where no time limit can be set (Windows), the stop button is the way out."
    if points == exercise.points:
        return ""
    if all(o.kind == "value" and o.value is None for o in got) and not any(
        e.kind == "value" and e.value is None for e in expected
    ):
        return "The function returned None in every call: is the `return` missing, or never reached?"
    errors = _unexpected_errors(expected, got)
    if errors and all(o.kind == "raised" for o in got):
        first = errors[0]
        where = f" ({first.where})" if first.where else ""
        return f"Your code raised {first.type_name}: {first.message}{where}"
    return ""


def _notes(got: Sequence[Outcome]) -> tuple[str, ...]:
    notes = []
    changed = dict.fromkeys(name for o in got for name in o.changed_arguments)
    if changed:
        names = ", ".join(f"`{name}`" for name in changed)
        notes.append(
            f"the function changes its argument {names} in place; the caller's data is altered. Work on a copy."
        )
    warned = dict.fromkeys(text for o in got for text in o.warned)
    notes += [f"Python warned while your code ran: {text}" for text in list(warned)[:2]]
    printed = next((o.printed for o in got if o.printed.strip()), "")
    if printed:
        lines = printed.strip().split("\n")
        cut = len(printed) >= MAX_PRINTED
        more = " (and more)" if cut else f" (and {len(lines) - 3} lines more)" if len(lines) > 3 else ""
        notes.append("your code printed: " + " / ".join(lines[:3])[:300] + more)
    return tuple(notes)
