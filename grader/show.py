"""Show inputs and answers the way a person would write them: short, aligned, and cut where they are long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from grader.calling import Outcome, parameter_names
from grader.compare import as_numbers
from grader.exercise import Call
from grader.plain import NotPlain, SmoothFunction

MAX_TEXT = 240


def show_call(name: str, one: Call, reference: Callable) -> str:
    """Write a call with its arguments named as in the reference: `f(rewards=[1, 1, 0, 0], group_size=4)`."""
    names = parameter_names(reference)
    pieces = [(f"{names[i]}=" if i < len(names) else "") + show_value(value) for i, value in enumerate(one.args)] + [
        f"{key}={show_value(value)}" for key, value in one.kwargs.items()
    ]
    text = f"{name}({', '.join(pieces)})"
    if len(text) > 90 and len(pieces) > 1:
        text = f"{name}(\n    " + ",\n    ".join(pieces) + ")"
    functions = [value for value in (*one.args, *one.kwargs.values()) if isinstance(value, SmoothFunction)]
    text = f"{text}   # {one.note}" if one.note else text
    return "\n".join([text, *(f"    # with f(x) = {function}" for function in functions)])


def show_value(value: Any) -> str:
    """Write a plain value on one line."""
    if isinstance(value, np.ndarray):
        return show_value(value.tolist()) if value.ndim == 0 else f"np.array({show_value(value.tolist())})"
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, SmoothFunction):
        return "f"
    if isinstance(value, str):
        return _cut(_text(value))
    if isinstance(value, (list, tuple)):
        items = [show_value(item) for item in value]
        if len(items) > 16:
            items = [*items[:12], f"… {len(items) - 12} more"]
        inner = ", ".join(items)
        return _cut(f"[{inner}]" if isinstance(value, list) else f"({inner}{',' if len(items) == 1 else ''})")
    if isinstance(value, dict):
        return _cut("{" + ", ".join(f"{show_value(k)}: {show_value(v)}" for k, v in value.items()) + "}")
    if isinstance(value, NotPlain):
        return f"<{value.type_name}>"
    return _cut(repr(value))


def show_pair(expected: Outcome, got: Outcome) -> tuple[str, str]:
    """Write the right and the student's answer one above the other, with enough digits to tell them apart."""
    if expected.kind == "value" and got.kind == "value":
        a, b = as_numbers(expected.value), as_numbers(got.value)
        if a is not None and b is not None and a.size <= 64 and b.size <= 64:
            digits = _digits(a, b)
            return _block(a, digits), _block(b, digits)
    return show_outcome(expected), show_outcome(got)


def show_outcome(outcome: Outcome) -> str:
    """Write what a call did, in one line."""
    if outcome.kind == "value":
        return show_value(outcome.value)
    if outcome.kind == "raised":
        return (
            f"{outcome.raised.type_name}: {outcome.raised.message}"
            if outcome.raised.message
            else outcome.raised.type_name
        )
    return outcome.kind


def _digits(a: np.ndarray, b: np.ndarray) -> int:
    """Return how many decimals show a difference, between 3 and 8."""
    if a.dtype.kind in "biu" and b.dtype.kind in "biu":
        return 0
    if a.shape != b.shape:
        return 4
    with np.errstate(invalid="ignore"):  # two infinities have no gap, and need no decimals
        gap = np.abs(a.astype(float) - b.astype(float))
    gap = gap[np.isfinite(gap) & (gap > 0)]
    if gap.size == 0:
        return 4
    return int(np.clip(np.ceil(-np.log10(gap.max())) + 1, 3, 8))


def _block(array: np.ndarray, digits: int) -> str:
    array = np.asarray(array)
    if array.ndim == 0:
        return _fixed(array.item(), digits)
    if array.ndim == 1:
        return "  ".join(_fixed(x, digits) for x in array.tolist()) or "(nothing)"
    rows = array.reshape(array.shape[0], -1) if array.size else array.reshape(0, 0)
    return "\n".join(_block(row, digits) for row in rows) or f"(empty, shape {array.shape})"


def _fixed(x: Any, digits: int) -> str:
    if isinstance(x, bool):
        return str(x)
    if isinstance(x, float) and (abs(x) >= 1e6 or (x != 0 and abs(x) < 10.0**-digits)):
        return f"{x:.3g}"
    text = f"{x:.{digits}f}"
    return text.removeprefix("-") if not text.strip("-0.") else text  # no "-0.000"


def _number(x: float) -> str:
    return f"{x:.0f}" + ".0" if x == int_or_nan(x) and abs(x) < 1e6 else f"{x:.6g}"


def int_or_nan(x: float) -> float:
    """Return x rounded towards zero, or NaN where that has no meaning (NaN, infinity)."""
    return float(int(x)) if np.isfinite(x) else float("nan")


def _text(value: str) -> str:
    """Write a text as a student types it: a raw string where it holds back-slashes and nothing that forbids one."""
    if "\\" in value and '"' not in value and value.isprintable() and not value.endswith("\\"):
        return f'r"{value}"'
    return repr(value)


def _cut(text: str) -> str:
    text = text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"
    return text.encode("utf-8", "replace").decode()  # a lone surrogate cannot be sent to the notebook
