"""The judge's hand inside the kernel: call the student's function there and send back what happened.

Everything in this process belongs to the student, this module included. It has no secrets (no seed, no expected
value, no points), and nothing that it sends is believed before `grader.judge.wire` has read it.
"""

from __future__ import annotations

from typing import Any

ANSWER_MIME = "application/vnd.grpo-course.answer+json"
MISSING, NO_FUNCTION = "missing", "no function"


def question(name: str, calls: str) -> str:
    """Return the line of code that asks a kernel for the function `name`. `calls` comes from `wire.encode_calls`."""
    return f"__import__('importlib').import_module('grader.judge.inside').answer({name!r}, {calls!r})"


def answer(name: str, calls: str) -> None:
    """Make the calls and publish {"outcomes": JSON}, or {"problem": word} where there is no function to call.

    "finished" is there and true if the finished function of that name ran meanwhile.
    """
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    publish({ANSWER_MIME: _answer(name, calls, shell.user_ns), "text/plain": ""}, shell.display_pub)


def publish(data: dict[str, Any], publisher: Any) -> None:
    """Publish under MIME types, whatever the student's code calls `display` or has put in place of IPython's."""
    type(publisher).publish(publisher, data, {})


def _answer(name: str, calls: str, names: dict) -> dict[str, Any]:
    from grader.calling import call_all
    from grader.exercises import EXERCISES
    from grader.judge import finished
    from grader.judge.wire import decode_calls, encode_outcomes

    if name not in names:
        return {"problem": MISSING}
    if not callable(names[name]):
        return {"problem": NO_FUNCTION}
    function = EXERCISES[name].on_plain_data(names[name])
    finished.note_calls([name])  # once more: modules may have been loaded since the kernel started
    finished.CALLED.clear()
    sent = {"outcomes": encode_outcomes(call_all(function, decode_calls(calls)))}
    return {**sent, "finished": True} if name in finished.CALLED else sent
