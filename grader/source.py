"""What can be read off a student's function itself, where its source is at hand. Remarks only: no point hangs on it."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator, Sequence

OURS = ("grpo", "tables")  # what the notebooks call the modules with finished functions


def leftover_stub(fn: Callable) -> int | None:
    """Return the line (in the cell) of a `raise NotImplementedError` that stands among lines of the student's own.

    None for an untouched stub, and where the source cannot be read.
    """
    function = _function(fn)
    if function is None:
        return None
    body = [node for node in function.body if not _is_docstring(node)]
    stubs = [node for node in ast.walk(function) if isinstance(node, ast.Raise) and _raises_not_implemented(node)]
    if not stubs or (len(body) == 1 and body[0] is stubs[0]):
        return None
    return fn.__code__.co_firstlineno + stubs[0].lineno - 1


def shortcut_notes(fn: Callable, names: Sequence[str]) -> Iterator[str]:
    """Yield a remark for each finished function that `fn` uses as `grpo.NAME` (or from another of our modules).

    The first of `names` is the exercise's own; the others do the work of it.
    """
    function = _function(fn)
    nodes = list(ast.walk(function)) if function else []
    used = {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in OURS
    }
    # Imported by their own name they are found too; the exercise's own name would be the student's function itself.
    used |= {node.id for node in nodes if isinstance(node, ast.Name)} & set(names[1:])
    for name in dict.fromkeys(names):
        if name in used:
            yield (
                f"the function calls the finished `{name}`, which {'is' if name == names[0] else 'does the work of'} "
                "this exercise. The check cannot tell; you can."
            )


def _function(fn: Callable) -> ast.FunctionDef | None:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(fn)))
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    first = tree.body[0] if tree.body else None
    return first if isinstance(first, ast.FunctionDef) else None


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _raises_not_implemented(node: ast.Raise) -> bool:
    raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
    return isinstance(raised, ast.Name) and raised.id == "NotImplementedError"
