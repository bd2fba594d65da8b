"""What is believed of the messages that a kernel sends while a cell runs.

The kernel belongs to the student, with the key that signs its messages, so any field may be anything at all. What a
notebook can hold is let through, cleaned of what it has no use for: displays that change what was shown before,
widgets and their outputs, metadata. The rest is dropped, as if it had never been said.
"""

from __future__ import annotations

import json
import re
from typing import Any

from grader.judge.inside import ANSWER_MIME

STREAMS = ("stdout", "stderr")
MAX_MIME_TYPES = 20
JSON_TYPE = re.compile(r"application/(.*\+)?json")  # as nbformat knows it


def believable(message: Any) -> dict[str, Any] | None:
    """Return a message with a content that nbclient and nbformat can take, or None where there is nothing to take."""
    try:
        kind, content = message["msg_type"], message["content"]
        parent = message["parent_header"]
    except (TypeError, KeyError):
        return None
    if type(content) is not dict or type(parent) is not dict or not isinstance(kind, str):
        return None
    clean = _CLEAN.get(kind, lambda content: None)(content)
    return None if clean is None else {**message, "content": clean}


def _status(content: dict) -> dict | None:
    state = content.get("execution_state")
    return {"execution_state": state} if isinstance(state, str) else None


def _input(content: dict) -> dict | None:
    count = _count(content)
    return None if count is None else {"execution_count": count}


def _stream(content: dict) -> dict | None:
    text = content.get("text")
    if content.get("name") not in STREAMS or not isinstance(text, str):
        return None
    return {"name": content["name"], "text": _text(text)}


def _display(content: dict) -> dict | None:
    data = content.get("data")
    if type(data) is not dict or len(data) > MAX_MIME_TYPES:
        return None
    kept = {kind: _value(kind, value) for kind, value in data.items()}
    kept = {kind: value for kind, value in kept.items() if value is not None}
    return {"data": kept, "metadata": {}} if kept else None


def _result(content: dict) -> dict | None:
    shown = _display(content)
    return None if shown is None else {**shown, "execution_count": _count(content)}


def _error(content: dict) -> dict | None:
    name, value, lines = (content.get(key) for key in ("ename", "evalue", "traceback"))
    if not isinstance(name, str) or not isinstance(value, str) or not isinstance(lines, list):
        return None
    return {"ename": _text(name), "evalue": _text(value), "traceback": [_text(x) for x in lines if isinstance(x, str)]}


def _clear(content: dict) -> dict | None:
    return {"wait": content.get("wait") is True}


# Not in here: comm_open, comm_msg and comm_close (widgets), update_display_data.
_CLEAN = {
    "status": _status, "execute_input": _input, "stream": _stream, "display_data": _display,
    "execute_result": _result, "error": _error, "clear_output": _clear,
}  # fmt: skip


def _value(kind: str, value: Any) -> Any:
    """Return what a notebook may hold under a MIME type, or None: a text, or JSON where the type is one of JSON."""
    if kind == ANSWER_MIME:
        return value  # read with care of its own: see grader.judge.wire
    if isinstance(value, str):
        return _text(value)
    if JSON_TYPE.fullmatch(kind):
        try:
            return json.loads(json.dumps(value, allow_nan=False))
        except (TypeError, ValueError, RecursionError):
            return None
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return _text("".join(value))
    return None


def _count(content: dict) -> int | None:
    count = content.get("execution_count")
    return count if type(count) is int and 0 <= count < 10**9 else None


def _text(text: str) -> str:
    """A lone surrogate is legal in JSON, but in no file, page or database afterwards."""
    return text.encode("utf-8", "replace").decode("utf-8")
