"""Recognise in a text what a grading has drawn: its inputs, and what is right for them.

A report withholds them (`grader.secrecy`), but a student's function sees its inputs, and a later cell can print them
onto the feedback page. What is looked for is what cannot stand there by chance: a number written with eight digits or
more, numbers in a row with ten digits or more between them, a long text, a whole call as a report would show it.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from grader.calling import call_all
from grader.exercise import Exercise
from grader.secrecy import drawn_calls
from grader.show import show_call

# Takes time in proportion to the text: no two parts that repeat stand side by side.
NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?(?!\w)")
# A character by its number, as HTML writes it. Seven digits are enough for any; Python refuses thousands of them.
CHARACTER = re.compile(r"&#0*(\d{1,7})\d*")
LONG, SHORT = 8, 4  # digits of a number that tells, and of one in a row
ROW = 10  # digits that the different numbers of a row must have between them
MOST_IN_A_ROW = 12
MIN_TEXT = 12  # characters of a drawn text that cannot come up by chance


@dataclass(frozen=True)
class Hidden:
    """What must not be shown: numbers of LONG digits, rows of numbers of up to SHORT digits, texts. `a | b` joins."""

    numbers: frozenset[str] = frozenset()
    rows: frozenset[tuple[str, ...]] = frozenset()
    texts: frozenset[str] = frozenset()

    def __or__(self, other: Hidden) -> Hidden:
        return Hidden(self.numbers | other.numbers, self.rows | other.rows, self.texts | other.texts)

    def __sub__(self, other: Hidden) -> Hidden:
        return Hidden(self.numbers - other.numbers, self.rows - other.rows, self.texts - other.texts)


def hidden_values(exercise: Exercise, seed: int, answers: bool = False) -> Hidden:
    """Return what the check of `exercise` draws from `seed` and shows nobody.

    Args:
        exercise: whose check.
        seed: the seed of its inputs.
        answers: also what the reference answers (which costs the time of calling it).
    """
    rng = np.random.default_rng(seed)
    calls = [one for part in exercise.parts for one in part.calls(rng)]
    drawn = drawn_calls(exercise, calls)
    expected = call_all(exercise.reference, calls) if answers else []
    hidden, common = Hidden(), Hidden()
    for index, one in enumerate(calls):
        values = [one.args, one.kwargs, *([expected[index].value] if answers else [])]
        found = _of_values(values, show_call(exercise.name, one, exercise.reference))
        if index in drawn:
            hidden |= found
        else:
            common |= found
    return hidden - common


def holds_hidden(text: str, hidden: Hidden) -> str:
    """Return what of `hidden` stands in `text` (HTML or not), or ""."""
    if hidden == Hidden():
        return ""
    plain = html.unescape(CHARACTER.sub(r"&#\1", text)) if "&" in text else text
    written = [found.group() for found in NUMBER.finditer(plain)]
    exact = {_digits(number, LONG) for number in written if _length(number) >= LONG}
    for number in exact & hidden.numbers:
        return number
    for row in _rows([_digits(number, SHORT) for number in written]):
        if row in hidden.rows:
            return " ".join(row)
    squeezed = _squeezed(plain)
    return next((one for one in hidden.texts if one in squeezed), "")


def _of_values(values: Iterable[Any], shown: str) -> Hidden:
    numbers, texts = list(_numbers(values)), [t for t in _texts(values) if len(t) >= MIN_TEXT]
    long = {_digits(n, LONG) for n in numbers if isinstance(n, float) and _needs(n) >= LONG}
    rows = _rows([_digits(number, SHORT) for number in numbers])
    return Hidden(frozenset(long), frozenset(rows), frozenset(_squeezed(t) for t in [*texts, shown]))


def _numbers(value: Any) -> Iterator[float | int]:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, dict):
        value = [part for item in value.items() for part in item]
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _numbers(item)
    elif isinstance(value, (int, float)):
        yield value


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        # The names of arguments and settings are keys that everybody knows.
        keys = [key for key in value if not (isinstance(key, str) and key.isidentifier())]
        value = [*keys, *value.values()]
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item)


def _rows(numbers: list[str]) -> Iterator[tuple[str, ...]]:
    """Yield, from each number on, as many as have ROW digits between them.

    One that stood in the row before tells nothing new, and a lone digit (0 or 1, say) tells little.
    """
    for start in range(len(numbers)):
        total, row = 0.0, []
        for number in numbers[start : start + MOST_IN_A_ROW]:
            told = len(number.partition("e")[0].rstrip("0").replace(".", ""))
            if number not in row:
                total += told if told > 1 else 0.3
            row.append(number)
            if total >= ROW:
                yield tuple(row)
                break


def _digits(number: float | str, count: int) -> str:
    """Round to so many digits; the sign goes, since a loss and its negative tell the same."""
    value = abs(float(number))
    return f"{value:.{count - 1}e}" if math.isfinite(value) else ""


def _length(written: str) -> int:
    """Return how many digits a written number tells."""
    return len(re.sub(r"[eE].*|\D", "", written).lstrip("0"))


def _needs(value: float) -> int:
    """Return how many digits a number needs to be written exactly; none for 1/3 and the like, which anybody prints."""
    digits = _length(repr(value)) if math.isfinite(value) else 0
    if digits < LONG:
        return digits
    exact = Fraction(value)
    return 0 if abs(exact.limit_denominator(99) - exact) < 1e-12 else digits


def _squeezed(text: str) -> str:
    return re.sub(r"\s+", " ", text)
