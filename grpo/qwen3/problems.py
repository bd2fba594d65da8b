"""Problems from a file of one's own: one JSON object per line, with a prompt and its known answer."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class TextProblem:
    """A prompt (str, the question) and its truth (str, the known answer)."""

    prompt: str
    truth: str


def read_problems(path):
    """Problems from a JSON-lines file.

    Args:
        path: file with one object per line; "prompt" and "truth" are strings that are not blank, other names are left
            alone, and so are blank lines.

    Returns: list of TextProblem, not empty.

    Raises: ValueError that names the file, and the line where one is at fault.
    """
    path = Path(path)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ValueError(f"{path} cannot be read: {reason}") from error
    problems = [_read_line(line, f"{path}, line {number}") for number, line in enumerate(lines, 1) if line.strip()]
    if not problems:
        raise ValueError(f'{path} is empty: write one {{"prompt": ..., "truth": ...}} per line')
    return problems


def _read_line(line, place):
    try:
        fields = json.loads(line)
    except ValueError as error:
        raise ValueError(f"{place} is not JSON ({error}): write one object per line") from error
    if not isinstance(fields, dict):
        raise ValueError(f'{place} is no object: write {{"prompt": ..., "truth": ...}}')
    for name in ("prompt", "truth"):
        value = fields.get(name)
        if not isinstance(value, str) or not value.strip():
            found = f"is {value!r}" if name in fields else "is missing"
            raise ValueError(f"{place}: {name} {found}: it must be a string that is not blank")
    return TextProblem(fields["prompt"], fields["truth"])
