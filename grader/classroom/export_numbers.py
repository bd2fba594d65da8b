"""Points on a platform's own scale, and the numbers by which it says what that scale is."""

from __future__ import annotations

import math
import re

from grader.classroom.export import ExportError


def scaled(points: float, most: float, possible: float) -> str:
    """Return points on the platform's own scale, with at most two decimals."""
    return f"{points * possible / most:.2f}".rstrip("0").rstrip(".") if most else "0"


def number_in(text: str) -> float | None:
    """Read a number as platforms write them, with a point or a comma; None if there is nothing.

    Raises:
        ExportError: no number above 0, or one that may be two: is 1,000 a thousand, or one with three decimals?
    """
    text = re.sub(r"(?<=\d)[ \u00a0\u202f'\u2019](?=\d{3}(?!\d))", "", text.strip())
    if not text:
        return None
    if re.fullmatch(r"[1-9]\d{0,2}[.,]\d{3}", text):
        whole, decimals = re.split(r"[.,]", text)
        raise ExportError(f"{text} may be {whole}{decimals} or {whole}.{decimals[:2]}: write it in one of these ways")
    for thousands, decimal in (",.", ".,"):
        grouped = rf"[1-9]\d{{0,2}}(?:{re.escape(thousands)}\d{{3}})+"
        if re.fullmatch(rf"(?:\d+|{grouped})(?:{re.escape(decimal)}\d+)?", text, re.ASCII):
            number = float(text.replace(thousands, "").replace(decimal, "."))
            if 0 < number < math.inf:
                return number
    raise ExportError(f"{text[:40]} is no number above 0")
