"""Compare what came back with what is right, and say in words how they differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from grader.calling import Outcome
from grader.plain import NotPlain

FLOAT32_RTOL, FLOAT32_ATOL = 2e-5, 1e-5


@dataclass(frozen=True)
class Tolerance:
    """Relative and absolute tolerance for float64 answers; coarser floats get at least the float32 one."""

    rtol: float
    atol: float

    def for_dtype(self, dtype: np.dtype) -> Tolerance:
        if dtype.kind == "f" and dtype.itemsize < 8:
            return Tolerance(max(self.rtol, FLOAT32_RTOL), max(self.atol, FLOAT32_ATOL))
        return self


def difference(expected: Outcome, got: Outcome, tolerance: Tolerance) -> str | None:
    """Return None when `got` is as good as `expected`, else a short sentence on how it differs.

    The sentence may be empty when showing both values side by side says it all.
    """
    if got.kind == "raised":
        if expected.kind == "raised" and got.raised.is_value_error:
            return None
        advice = "; the course asks for a ValueError" if got.raised.type_name == "AssertionError" else ""
        return f"it raised {got.raised.type_name}: {got.raised.message}{advice if expected.kind == 'raised' else ''}"
    if got.kind != "value":
        return {
            "timeout": "it did not come to an end",
            "interrupted": "it was interrupted",
            "not attempted": "it is not attempted yet",
            "not run": "it was not run, since an earlier call did not end",
        }[got.kind]
    if expected.kind == "raised":
        if isinstance(got.value, NotPlain) and _is_error(got.value):
            return _not_plain(got.value)
        return "it returned a value where a ValueError was due"
    return value_difference(expected.value, got.value, tolerance)


def value_difference(expected: Any, got: Any, tolerance: Tolerance) -> str | None:
    """Compare two plain values: None when they agree, else the sentence."""
    if got is None and expected is not None:
        return "it returned None"
    if isinstance(got, NotPlain):
        return _not_plain(got)
    if isinstance(expected, dict):
        return _dict_difference(expected, got, tolerance)
    numbers = as_numbers(expected)  # none for a tuple of arrays of different shapes: that is a list of answers
    if numbers is not None:
        return _numeric_difference(numbers, got, tolerance)
    if isinstance(expected, (list, tuple)):
        return _list_difference(expected, got, tolerance)
    if type(got) is not type(expected):
        return f"it returned {_kind(got)}, not {_kind(expected)}"
    return None if got == expected else ""


def _is_error(got: NotPlain) -> bool:
    return got.type_name == "type" or got.type_name.endswith(("Error", "Exception"))


def _not_plain(got: NotPlain) -> str:
    if _is_error(got):
        return "it returned an error instead of raising it: write `raise`, not `return`"
    if got.why:
        return f"it returned something of type {got.type_name}: {got.why}"
    if got.type_name in ("generator", "map", "filter", "zip"):
        return f"it returned a {got.type_name} that has not run yet: make a list or an array of it"
    return f"it returned something of type {got.type_name}, which is neither a number, a text, a list nor an array"


def _dict_difference(expected: dict, got: Any, tolerance: Tolerance) -> str | None:
    if not isinstance(got, dict):
        return f"it returned {_kind(got)}, not a dict"
    if set(got) != set(expected):
        return f"the keys are {_shown(got)}, not {_shown(expected)}"
    for key in expected:
        found = value_difference(expected[key], got[key], tolerance)
        if found is not None:
            return f"under the key {key!r}" + (f" {found}" if found else " the value differs")
    return None


def _list_difference(expected: list | tuple, got: Any, tolerance: Tolerance) -> str | None:
    if not isinstance(got, (list, tuple)):
        return f"it returned {_kind(got)}, not a list"
    if len(got) != len(expected):
        return f"it has {len(got)} items, not {len(expected)}"
    for index, (e, g) in enumerate(zip(expected, got, strict=True)):
        found = value_difference(e, g, tolerance)
        if found is not None:
            return f"item {index}" + (f": {found}" if found else " differs")
    return None


def _numeric_difference(expected: np.ndarray, got: Any, tolerance: Tolerance) -> str | None:
    actual = as_numbers(got)
    if actual is None:
        return f"it returned {_kind(got)}, not {_kind_of_numbers(expected)}"
    if actual.shape != expected.shape:
        same = actual.size == expected.size and _close(expected.ravel(), actual.ravel(), tolerance)
        start = "the numbers are right, the shape is not: " if same else "the shape is wrong: "
        return f"{start}{_shape(actual)}, not {_shape(expected)}"
    if _close(expected, actual, tolerance):
        return None
    bad = ~np.isfinite(actual) & np.isfinite(expected.astype(float))
    if bad.any():
        place = tuple(int(i) for i in np.argwhere(bad)[0])
        where = f" at index {place[0] if len(place) == 1 else place}" if place else ""
        return f"there is {actual[place]:.0f}{where}"
    return ""


def as_numbers(value: Any) -> np.ndarray | None:
    """Return a plain value as an array of numbers, or None if it is none (text, ragged lists, None inside)."""
    if isinstance(value, np.ndarray):
        return value
    if not _is_numeric(value):
        return None
    try:
        array = np.array(value)
    except (ValueError, OverflowError):
        return None
    return array if array.dtype.kind in "biuf" else None


def _is_numeric(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "biuf"
    if isinstance(value, (list, tuple)):
        return len(value) > 0 and all(_is_numeric(item) for item in value)
    return isinstance(value, (bool, int, float))


def _close(expected: np.ndarray, actual: np.ndarray, tolerance: Tolerance) -> bool:
    t = tolerance.for_dtype(actual.dtype)
    return bool(np.allclose(actual.astype(float), expected.astype(float), rtol=t.rtol, atol=t.atol, equal_nan=True))


def _shape(array: np.ndarray) -> str:
    return "a single number" if array.ndim == 0 else f"shape {array.shape}"


def _kind_of_numbers(array: np.ndarray) -> str:
    return "a number" if array.ndim == 0 else f"numbers of shape {array.shape}"


def _kind(value: Any) -> str:
    if value is None:
        return "None"
    if isinstance(value, np.ndarray):
        return "a number" if value.ndim == 0 else f"an array of shape {value.shape}"
    names = {str: "a text", bool: "a truth value", int: "a number", float: "a number", list: "a list",
             tuple: "a tuple", dict: "a dict"}  # fmt: skip
    return names.get(type(value), f"a {type(value).__name__}")


def _shown(keys: dict) -> str:
    text = ", ".join(repr(key) for key in list(keys)[:6])
    return f"{text}, …" if len(keys) > 6 else text
