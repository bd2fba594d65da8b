"""What can be read off a student's function itself, where its source is at hand. Remarks only: no point hangs on it."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

OURS = ("grpo", "tables", "networks", "qwen3")  # what the notebooks call the modules with finished functions


@dataclass(frozen=True)
class Code:
    """The source of one function: its syntax tree, whose lines count from 1 at `def`, and where that line stands."""

    tree: ast.FunctionDef
    first_line: int = 1


def code_of(fn: Callable) -> Code | None:
    """Read a function's source, or return None where it is not at hand (a builtin, a lambda, a callable object)."""
    try:
        fn = inspect.unwrap(fn)  # functools.lru_cache and the like
        tree = ast.parse(textwrap.dedent(inspect.getsource(fn)))
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    first = tree.body[0] if tree.body else None
    if not isinstance(first, ast.FunctionDef) or not inspect.isfunction(fn):
        return None
    return Code(first, fn.__code__.co_firstlineno)


def code_in(text: str, name: str) -> Code | None:
    """Find the last function called `name` in the text of a cell, or return None: no such function, or no Python."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
    if not found:
        return None
    # The tree's lines count from the cell's own first line already.
    return Code(found[-1], 1)


def leftover_stub(code: Code | None) -> int | None:
    """Return the line (in the cell) of a `raise NotImplementedError` that stands among lines of the student's own.

    None for an untouched stub, and where the source cannot be read.
    """
    if code is None:
        return None
    body = [node for node in code.tree.body if not _is_docstring(node)]
    stubs = [node for node in ast.walk(code.tree) if isinstance(node, ast.Raise) and _raises_not_implemented(node)]
    if not stubs or (len(body) == 1 and body[0] is stubs[0]):
        return None
    return code.first_line + stubs[0].lineno - 1


def shortcut_notes(code: Code | None, names: Sequence[str]) -> Iterator[str]:
    """Yield a remark for each finished function that is used as `grpo.NAME` (or from another of our modules).

    The first of `names` is the exercise's own; the others do the work of it.
    """
    nodes = list(ast.walk(code.tree)) if code else []
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


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _raises_not_implemented(node: ast.Raise) -> bool:
    raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
    return isinstance(raised, ast.Name) and raised.id == "NotImplementedError"
