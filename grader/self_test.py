"""Test the grader on itself: every known mistake must lose points and be named, every right answer must earn all.

This is `grader mistakes`. It also tries answers that know nothing (always None, always 0, always an error, the
input returned): none of them may earn a point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from grader.checking import run_check
from grader.exercise import Exercise

SEEDS = (0, 1, 2, 3, 4)


@dataclass(frozen=True)
class Verdict:
    """One row: what a check said of one implementation, over all seeds.

    `kind` is "mistake", "correct" or "knows nothing". `ok` is what `grader mistakes` asks for; for a mistake,
    `killed` (points lost) and `named` (by its own name) are told apart.
    """

    exercise: str
    kind: str
    name: str
    points: int
    max_points: int
    killed: bool
    named: bool
    said: str

    @property
    def ok(self) -> bool:
        return self.killed and self.named if self.kind == "mistake" else self.killed


def _always_raises(*args, **kwargs):
    raise ValueError("no")


def _first_argument(*args, **kwargs):
    return args[0] if args else None


def _zeros_like_first(*args, **kwargs):
    return np.zeros_like(np.asarray(args[0], dtype=float)) if args else 0.0


KNOWS_NOTHING: dict[str, Callable] = {
    "always ValueError": _always_raises,
    "always None": lambda *a, **k: None,
    "always 0": lambda *a, **k: 0,
    "always 1.0": lambda *a, **k: 1.0,
    "always an empty text": lambda *a, **k: "",
    "always an empty list": lambda *a, **k: [],
    "always an empty dict": lambda *a, **k: {},
    "always NaN": lambda *a, **k: float("nan"),
    "the first argument": _first_argument,
    "zeros like the first argument": _zeros_like_first,
}


def right_answers(exercise: Exercise) -> dict[str, tuple[Exercise, Callable]]:
    """Return the reference, its variants in other types, and the listed alternatives, each with its exercise.

    The reference gives plain data in a torch exercise too: it and its variants are checked without the adapter.
    """
    plain = replace(exercise, adapter=None)
    answers = {"reference": (plain, exercise.reference)}
    for name, convert in _OTHER_TYPES.items():
        answers[name] = (plain, _converted(exercise.reference, convert))
    answers.update({alternative.name: (exercise, alternative.code) for alternative in exercise.alternatives})
    return answers


def _converted(fn: Callable, convert: Callable) -> Callable:
    return lambda *args, **kwargs: convert(fn(*args, **kwargs))


def _as_lists(value):
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def _as_float32(value):
    return np.float32(value) if isinstance(value, float) or _is_float_array(value) else value


def _as_tensor(value):
    import torch

    return torch.tensor(value, requires_grad=True) if isinstance(value, float) or _is_float_array(value) else value


def _is_float_array(value) -> bool:
    return isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind == "f"


_OTHER_TYPES: dict[str, Callable] = {"reference as lists": _as_lists, "reference in float32": _as_float32}
try:
    import torch  # noqa: F401

    _OTHER_TYPES["reference as torch tensors"] = _as_tensor
except ImportError:  # chapters 01 to 05 do without torch
    pass


def examine(exercise: Exercise, seeds: Iterable[int] = SEEDS) -> list[Verdict]:
    """Run all mistakes, right answers and empty answers of one exercise; one Verdict each."""
    seeds = list(seeds)
    rows = []
    for mistake in exercise.mistakes:
        reports = [run_check(exercise, mistake.code, seed) for seed in seeds]
        names = list(dict.fromkeys(r.mistake for r in reports))
        rows.append(
            _verdict(exercise, "mistake", mistake.name, reports,
                     killed=all(r.points < r.max_points for r in reports),
                     named=names == [mistake.name],
                     said=", ".join(n or "(no name)" for n in names))
        )  # fmt: skip
    for name, (checked, code) in right_answers(exercise).items():
        reports = [run_check(checked, code, seed) for seed in seeds]
        wrong = [str(r) for r in reports if r.points < r.max_points]
        rows.append(
            _verdict(exercise, "correct", name, reports, killed=not wrong, named=True, said=wrong[0] if wrong else "")
        )
    for name, code in KNOWS_NOTHING.items():
        reports = [run_check(exercise, code, seed) for seed in seeds[:1]]
        earned = [str(r) for r in reports if r.points > 0]
        rows.append(
            _verdict(exercise, "knows nothing", name, reports, killed=not earned, named=True,
                     said=earned[0] if earned else "")
        )  # fmt: skip
    return rows


def _verdict(exercise, kind, name, reports, killed, named, said) -> Verdict:
    worst = min if kind == "correct" else max
    return Verdict(exercise.name, kind, name, worst(r.points for r in reports), exercise.points, killed, named, said)
