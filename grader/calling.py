"""Call a student's function and bring back what happened, whatever happened.

The function may raise, print, warn, change its arguments or the global random state, or never end. None of it
reaches the caller: it is all written into an `Outcome`, and the world looks afterwards as it did before.
"""

from __future__ import annotations

import builtins
import contextlib
import inspect
import io
import os
import random
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from grader.exercise import Call
from grader.plain import Rng, materialise, name_of, same_data, to_plain

SECONDS_PER_CALL = 5.0
SECONDS_PER_CHECK = 20.0
# Time counts while the function computes: the same one must not pass or fail by how busy the machine is. One that
# waits, or that a busy machine holds up, gets so many times longer on the clock on the wall.
PATIENCE = 4
MAX_PRINTED = 2_000  # characters kept of what a function prints
OUR_FOLDER = str(Path(__file__).parent)


@dataclass(frozen=True)
class Raised:
    """An exception, as plain data. `where` is the student's own line, empty if none was involved."""

    type_name: str
    message: str
    where: str = ""
    is_value_error: bool = False


@dataclass(frozen=True)
class Outcome:
    """What one call did.

    `kind` is "value" (then `value` is plain data), "raised" (then `raised` is set), "not attempted" (the stub is
    untouched), "timeout", "interrupted" (the student pressed the stop button) or "not run" (an earlier call did not
    end).
    """

    kind: str
    value: Any = None
    raised: Raised | None = None
    printed: str = ""
    warned: tuple[str, ...] = ()
    changed_arguments: tuple[str, ...] = ()


NOT_RUN = Outcome("not run")


class _TimeUp(BaseException):
    """Raised by the timer inside the student's function. No Exception, so `except Exception` does not swallow it."""


@dataclass
class _Output(io.TextIOBase):
    """A text file that keeps the first MAX_PRINTED characters and forgets the rest."""

    kept: list[str] = field(default_factory=list)
    size: int = 0

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        text = text.encode("utf-8", "replace").decode()  # a lone surrogate cannot be sent to the notebook
        room = MAX_PRINTED - self.size
        if room > 0:
            self.kept.append(text[:room])
            self.size += min(len(text), room)
        return len(text)


def call_all(fn: Callable, calls: Sequence[Call], seconds: float = SECONDS_PER_CALL) -> list[Outcome]:
    """Make the calls one after another, each on its own copy of the arguments, and return one Outcome for each.

    After a call that ran out of time or was interrupted, and after the untouched stub, the remaining calls are
    not made; neither after SECONDS_PER_CHECK in all. Both limits are in seconds of computing (see PATIENCE). The
    global state that a function may disturb (random numbers, numpy's error settings and print options, the working
    folder, the environment) is put back at the end.
    """
    outcomes: list[Outcome] = []
    spent = _stopwatch()
    with _world_as_it_was():
        for one in calls:
            outcomes.append(call_once(fn, one, min(seconds, max(SECONDS_PER_CHECK - spent(), 0.01))))
            if outcomes[-1].kind in ("timeout", "interrupted", "not attempted"):
                break
    return outcomes + [NOT_RUN] * (len(calls) - len(outcomes))


def call_once(fn: Callable, one: Call, seconds: float = SECONDS_PER_CALL) -> Outcome:
    """Make one call under a time limit (POSIX main thread only: elsewhere the stop button has to do)."""
    args, kwargs = materialise(one.args), materialise(one.kwargs)
    output = _Output()
    kind, value, raised = "value", None, None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output), _time_limit(seconds):
                value = to_plain(fn(*args, **kwargs))
        except NotImplementedError as error:
            # The stub raises it bare. With words it comes from a library (torch, for a dtype it has no kernel for).
            kind = "raised" if error.args else "not attempted"
            raised = _describe(error) if error.args else None
        except _TimeUp:
            kind = "timeout"
        except KeyboardInterrupt:
            kind = "interrupted"
        except BaseException as error:  # also SystemExit: a function must not end the check
            kind, raised = "raised", _describe(error)
    return Outcome(
        kind,
        value,
        raised,
        printed="".join(output.kept),
        warned=tuple(dict.fromkeys(_first_line(w.message) for w in caught)),
        changed_arguments=_changed(fn, one, args, kwargs),
    )


def _first_line(message: Any) -> str:
    return str(message).encode("utf-8", "replace").decode().partition("\n")[0].strip()[:200]


def _describe(error: BaseException) -> Raised:
    kind = type(error)
    try:
        message = _first_line(error)
    except BaseException:  # whatever the student's own __str__ does
        message = "(its message could not be read)"
    return Raised(name_of(kind), message, _students_line(error), issubclass(kind, ValueError))


def _students_line(error: BaseException) -> str:
    """Return 'line 4: `the code`' for the deepest frame that is the student's own, not a library's or ours."""
    if isinstance(error, SyntaxError) and error.lineno:
        return f"line {error.lineno}: `{(error.text or '').strip()}`"
    frames = traceback.extract_tb(error.__traceback__)
    # A frame without a readable line is compiled code (numpy's generators, say), never a student's.
    own = [f for f in frames if f.line and not f.filename.startswith(OUR_FOLDER) and not _is_library(f.filename)]
    return f"line {own[-1].lineno}: `{own[-1].line.strip()}`" if own else ""


def _is_library(filename: str) -> bool:
    grpo = str(Path(OUR_FOLDER).parent / "grpo")
    return "site-packages" in filename or filename.startswith((sys.base_prefix, grpo, "<frozen"))


def _changed(fn: Callable, one: Call, args: tuple, kwargs: dict) -> tuple[str, ...]:
    """Name the arguments that the function changed in place."""
    before = {**dict(enumerate(one.args)), **one.kwargs}
    after = {**dict(enumerate(args)), **kwargs}
    changed = [
        key
        for key, value in before.items()
        if not isinstance(value, Rng) and not callable(value) and not same_data(materialise(value), after[key])
    ]
    names = parameter_names(fn)
    return tuple(names[key] if isinstance(key, int) and key < len(names) else str(key) for key in changed)


def parameter_names(fn: Callable) -> list[str]:
    """Return the names of a function's positional parameters, or [] where it has no readable signature."""
    try:
        return list(inspect.signature(fn).parameters)
    except Exception:  # builtins have none, and an object that is called may raise anything
        return []


def _stopwatch() -> Callable[[], float]:
    """Return a function that tells how many seconds of computing have passed (threads do not make them more)."""
    wall, cpu = time.monotonic(), time.process_time()

    def spent() -> float:
        passed = time.monotonic() - wall
        return max(min(time.process_time() - cpu, passed), passed / PATIENCE)

    return spent


@contextlib.contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    usable = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
    if not usable:
        yield
        return

    def again(frame, event, arg):
        if event == "line":
            raise _TimeUp
        return again

    spent = _stopwatch()

    def stop(signum, frame):
        if spent() < seconds:  # the timer rings again
            return
        # A bare `except:` around the endless loop swallows the first one; raised once more on the handler's own
        # first line, it gets out.
        frame.f_trace = again
        sys.settrace(again)
        raise _TimeUp

    tracer, before = sys.gettrace(), signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, 0.1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        sys.settrace(tracer)


@contextlib.contextmanager
def _world_as_it_was() -> Iterator[None]:
    # The legacy global generator is the one that a student's function may disturb.
    numpy_state = np.random.get_state()  # noqa: NPY002
    python_state = random.getstate()
    put_torch_back = _torch_as_it_was(sys.modules.get("torch"))
    real_input, printing = builtins.input, np.get_printoptions()
    folder, environment = _go_to(None), dict(os.environ)

    def no_input(prompt: str = "") -> str:
        raise RuntimeError("the function calls input(), and nobody is there to answer: take the value as an argument")

    builtins.input = no_input
    try:
        with np.errstate():
            yield
    finally:
        builtins.input = real_input
        np.set_printoptions(**printing)
        _go_to(folder)
        if os.environ != environment:
            os.environ.clear()
            os.environ.update(environment)
        np.random.set_state(numpy_state)  # noqa: NPY002
        random.setstate(python_state)
        put_torch_back()


def _go_to(folder: str | None) -> str:
    """Make `folder` the working folder (None: stay), or where it is gone one that is there; return which it is."""
    for place in (folder or os.curdir, os.path.expanduser("~"), tempfile.gettempdir(), os.sep):
        with contextlib.suppress(OSError):  # a notebook may have stood in a temporary folder that has been removed
            os.chdir(place)
            return os.getcwd()
    return os.sep


def _torch_as_it_was(torch: Any) -> Callable[[], None]:
    """Return what puts torch's global settings back, of which a student's function may change any."""
    if not hasattr(torch, "get_rng_state"):  # not imported, or not to its end
        return lambda: None
    settings = [
        (torch.get_default_dtype, torch.set_default_dtype),
        (torch.get_default_device, torch.set_default_device),
        (torch.is_grad_enabled, torch.set_grad_enabled),
        (torch.is_anomaly_enabled, torch.autograd.set_detect_anomaly),
        (torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms),
        (torch.get_num_threads, torch.set_num_threads),
    ]
    before, random_state = [get() for get, _ in settings], torch.get_rng_state()

    def put_back():
        for (get, put), value in zip(settings, before, strict=True):
            if get() != value:  # to set a device, even the present one, would slow every later call
                put(value)
        torch.set_rng_state(random_state)

    return put_back
