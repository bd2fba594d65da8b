"""Keep a kernel's own messages below the size at which the judge hangs up.

The judge cuts the connection at a message that is too large (see `kernel.MAX_MESSAGE`), and hears nothing more of that
kernel: its memory is worth more than one notebook. Whoever prints without end, and means no harm, should not lose the
checks that come later; so the kernel shortens its own messages. Code that wants to can undo this, at its own cost.
"""

from __future__ import annotations

from typing import Any

MOST = 40_000_000  # bytes of a message
KEPT = 100_000  # characters kept of a text that was too long


def bound_messages(session_class: type, most: int = MOST) -> None:
    """Let every session of `session_class` (jupyter_client's) shorten what it sends to `most` bytes."""
    serialize = session_class.serialize

    def bounded(self, msg: dict[str, Any], ident=None) -> list[bytes]:
        parts = serialize(self, msg, ident)
        size = sum(map(len, parts))
        if size <= most or not isinstance(msg.get("content"), dict):
            return parts
        return serialize(self, {**msg, "content": shortened(msg["content"], size)}, ident)

    session_class.serialize = bounded


def shortened(content: dict[str, Any], size: int) -> dict[str, Any]:
    """Return a message's content without what makes it too large; `size` is what it had, in bytes."""
    note = f"… an output of {size / 1e6:,.0f} MB was cut here"
    if isinstance(content.get("text"), str):
        return {**content, "text": f"{content['text'][:KEPT]}\n{note}\n"}
    if "data" in content:
        return {**content, "data": {"text/plain": note}}
    if "traceback" in content:
        return {**content, "evalue": str(content.get("evalue", ""))[:KEPT], "traceback": [note]}
    return {}
