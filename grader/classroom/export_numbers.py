"""Points on a platform's own scale, and the numbers by which it says what that scale is."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from grader.classroom.export import ExportError


def scaled(points: float, most: float, possible: float) -> str:
    """Return points on the platform's own scale, with at most two decimals."""
    return f"{points * possible / most:.2f}".rstrip("0").rstrip(".") if most else "0"


def number_in(text: str) -> float | None:
    """Read a number as platforms write them, with a point or a comma; None if there is nothing.

    Raises:
        ExportError: no number above 0, or one that may be two: is 1,000 a thousand, or one with three decimals?
    """
    text = _without_spaces(text)
    if not text:
        return None
    if _may_be_two(text):
        whole, decimals = re.split(r"[.,]", text)
        raise ExportError(f"{text} may be {whole}{decimals} or {whole}.{decimals[:2]}: write it in one of these ways")
    for thousands, decimal in (",.", ".,"):
        if _written_with(thousands, decimal, text):
            number = float(text.replace(thousands, "").replace(decimal, "."))
            if 0 < number < math.inf:
                return number
    raise ExportError(f"{text[:40]} is no number above 0")


def comma_in(*columns: Iterable[str]) -> bool:
    """Tell whether a comma stands before decimals, by the first of these columns that shows what does.

    Where one column shows both, it is not the comma: "87,5" is 87 to whoever expects a point.
    """
    for column in columns:
        marks = set(map(_decimal_mark, column)) - {""}
        if marks:
            return marks == {","}
    return False


def _decimal_mark(text: str) -> str:
    text = _without_spaces(text)
    if _may_be_two(text):
        return ""
    return next((mark for other, mark in (",.", ".,") if mark in text and _written_with(other, mark, text)), "")


def _without_spaces(text: str) -> str:
    """Take out what sets thousands apart and can be nothing else."""
    return re.sub(r"(?<=\d)[ \u00a0\u202f'\u2019](?=\d{3}(?!\d))", "", text.strip())


def _may_be_two(text: str) -> bool:
    return bool(re.fullmatch(r"[1-9]\d{0,2}[.,]\d{3}", text))


def _written_with(thousands: str, decimal: str, text: str) -> bool:
    grouped = rf"[1-9]\d{{0,2}}(?:{re.escape(thousands)}\d{{3}})+"
    return bool(re.fullmatch(rf"(?:\d+|{grouped})(?:{re.escape(decimal)}\d+)?", text, re.ASCII))
