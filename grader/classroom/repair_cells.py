"""What the text of a student's cell says about an exercise's function: does it bind it, is it still the stub?"""

from __future__ import annotations

import ast
import re
from functools import lru_cache

from grader.source import code_in

DEFINES = re.compile(r"^(?:async )?(?:def|class) (\w+)|^(\w+) *(?::[^=\n]*)?=(?!=)", re.MULTILINE)


def defines(source: str, name: str) -> bool:
    """Tell whether a cell's text binds `name` at its top level: def, class, assignment or import."""
    return name in source and name in bound_names(source)


@lru_cache(maxsize=128)  # a notebook's cells, as each exercise asks about each of them
def bound_names(source: str) -> frozenset[str]:
    """Return the names that a cell's text binds at its top level: def, class, assignment or import."""
    tree = _parsed(source)
    if tree is None:  # with IPython's own commands in it, or broken
        return frozenset(word for match in DEFINES.findall(source) for word in match if word)
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        names |= {part.id for t in targets if t for part in ast.walk(t) if isinstance(part, ast.Name)}
        if isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names}
    return frozenset(names)


def is_as_released(source: str, name: str, stub: str) -> bool:
    """Tell whether a cell is as it was released (in whatever version of the course), or empty."""
    if not source.strip() or source.strip() == stub.strip():
        return True
    tree, code = _parsed(source), code_in(source, name)
    if tree is None or code is None:
        return False
    rest = [node for node in _without_texts(tree.body) if not isinstance(node, ast.Import | ast.ImportFrom)]
    return all(isinstance(node, ast.FunctionDef) and _is_stub(node) for node in rest)


def _is_stub(function: ast.FunctionDef) -> bool:
    body = _without_texts(function.body)
    raised = getattr(body[0], "exc", None) if len(body) == 1 and isinstance(body[0], ast.Raise) else None
    raised = raised.func if isinstance(raised, ast.Call) else raised
    return isinstance(raised, ast.Name) and raised.id == "NotImplementedError"


def _without_texts(body: list[ast.stmt]) -> list[ast.stmt]:
    return [node for node in body if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))]


def parses(source: str) -> bool:
    """Tell whether a text is Python as it stands."""
    return _parsed(source) is not None


def _parsed(source: str) -> ast.Module | None:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def checked_name(source: str, name: str) -> str:
    """Return what a student called the function that `check(..., "NAME")` was called with, or ""."""
    for node in ast.walk(_parsed(source) or ast.Module([], [])):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "check":
            given = [*node.args[1:2], *(one.value for one in node.keywords if one.arg == "exercise")]
            if node.args and isinstance(node.args[0], ast.Name) and node.args[0].id != name:
                if any(isinstance(one, ast.Constant) and one.value == name for one in given):
                    return node.args[0].id
    return ""


def without_an_answer(answer: str, name: str) -> bool:
    """Tell whether an answer cell does not bind the function, or only as the stub."""
    return not defines(answer, name) or is_as_released(answer, name, "")


def ends_in_return(source: str, name: str) -> bool:
    """Tell whether a function's last line returns: then no part of it is missing, and an indented cell below it is one
    of its own, which IPython runs."""
    code = code_in(source, name)
    return code is not None and isinstance(code.tree.body[-1], ast.Return)
