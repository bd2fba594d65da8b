"""Problems from a file of one's own: one JSON object per line, with a prompt and its known answer."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from reprlib import repr as shown


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
        lines = json_lines(path)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ValueError(f"{path} cannot be read: {reason}") from error
    problems = [_read_line(line, f"{path}, line {number}") for number, line in lines]
    if not problems:
        raise ValueError(f'{path} is empty: write one {{"prompt": ..., "truth": ...}} per line')
    return problems


def json_lines(path):
    """(number, text) of each line of a file that is not blank.

    Only line breaks end a line: in JSON a text may hold U+2028 as it is. Raises: OSError, UnicodeDecodeError.
    """
    lines = Path(path).read_bytes().decode("utf-8-sig").split("\n")
    return [(number, line) for number, line in enumerate(lines, 1) if line.strip()]


def is_whole(text):
    r"""Whether a text is one that can be encoded: JSON may hold half a character, "\ud83d" alone."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def _read_line(line, place):
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{place} is not JSON ({error}): write one object per line") from error
    if not isinstance(fields, dict):
        raise ValueError(f'{place} is no object: write {{"prompt": ..., "truth": ...}}')
    for name in ("prompt", "truth"):
        value = fields.get(name)
        if not isinstance(value, str) or not value.strip():
            found = f"is {shown(value)}" if name in fields else "is missing"
            raise ValueError(f"{place}: {name} {found}: it must be a string that is not blank")
        if not is_whole(value):
            raise ValueError(
                f"{place}: {name} holds half a character (a lone surrogate): write it whole, or take it out"
            )
    return TextProblem(fields["prompt"], fields["truth"])
