"""Notice, in the kernel, when an answer runs the finished function of its exercise, by whatever name it got hold of it.

What a cell does with names can be read off its text (see `names`), but a call can be written in more ways than anybody
reads. So each finished function of grpo gets, in place, a body that notes the call and then does the same as before:
whoever holds the function, under whatever name, holds this one. It is a note for the instructor and no defence: the
kernel belongs to the student, who may undo it.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

CALLED: set[str] = set()  # the finished functions that ran since this was emptied


@dataclass(frozen=True)
class _Noted:
    name: str
    original: Callable

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        CALLED.add(self.name)
        return self.original(*args, **kwargs)


def _stand_in(*args, _noted, **kwargs):
    return _noted(*args, **kwargs)


def note_calls(names: Iterable[str]) -> None:
    """Let the finished functions of these names, in all modules of grpo that are loaded, note that they are called."""
    modules = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] == "grpo"]
    for name in names:
        for module in modules:
            found = inspect.unwrap(getattr(module, "__dict__", {}).get(name), stop=_is_ours)
            if isinstance(found, FunctionType) and found.__module__.partition(".")[0] == "grpo":
                _note(found, name)


def _is_ours(function: Any) -> bool:
    return getattr(function, "__code__", None) is _stand_in.__code__


def _note(function: FunctionType, name: str) -> None:
    if _is_ours(function) or function.__closure__:  # a body with other free variables does not fit
        return
    original = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    original.__kwdefaults__, original.__doc__ = function.__kwdefaults__, function.__doc__
    original.__annotations__, original.__qualname__ = function.__annotations__, function.__qualname__
    original.__module__ = function.__module__
    function.__code__, function.__defaults__ = _stand_in.__code__, None
    function.__kwdefaults__ = {"_noted": _Noted(name, original)}
    function.__wrapped__ = original  # what inspect and help show
