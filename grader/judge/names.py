"""What a cell does with names, read off its syntax tree: which finished functions it takes, and on which ways."""

from __future__ import annotations

import ast
import io
import re
import textwrap
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field

from grader.paths import ROOT
from grader.source import OURS

PACKAGES = ("grpo", "grader")
HIDING = (
    "exec", "eval", "compile", "__import__", "import_module", "resolve_name", "run_module", "run_path",
    "spec_from_file_location", "SourceFileLoader", "FunctionType", "CodeType", "locate", "getmodule", "get_original",
    "module_from_spec", "exec_module", "load_module",
)  # fmt: skip
NAMESPACES = ("globals", "locals", "vars")
PUTS = ("update", "setdefault", "__setitem__")  # into a dict
ROUNDABOUT = ("getattr", "vars", "getmembers", "getattr_static")
LOOKS = ("help", "dir", "print", "repr", "type", "display")  # what is done with a module out of curiosity
PLAIN_PARTS = ("__doc__", "__name__", "__file__", "__version__", "__path__", "__all__")
MAX_SOURCE = 60_000  # characters of a cell: longer ones may be made to take minutes
NO_SYNTAX_TREE = (RecursionError, MemoryError, ValueError)
# Lines that only IPython understands. Each alternative takes time in proportion to the line: what can repeat is never
# followed by something that can match the same characters.
IPYTHON = re.compile(r"^([ \t]*)(?![ \t])(?:[%!?;,/].*|[\w,. ]*= *[%!].*|[%\w.*\[\]]*\?{1,2}[ \t]*)$", re.MULTILINE)
TIMED = re.compile(r"^([ \t]*)(?![ \t])%{1,2}(?:time|timeit|prun|capture)\b(?![ \t]+-)[ \t]*", re.MULTILINE)
PROMPT = re.compile(r"^[ \t]*(?:>>>|\.\.\.(?!:)|In \[\d+\]:|\.\.\.+:)(?: |$)", re.MULTILINE)
MAX_NAME = 60  # characters shown of a name that a student has made up
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class TooLong(ValueError):
    """A cell is longer than is read."""


@dataclass
class Seen:
    """What one cell does with names."""

    roots: set[str] = field(default_factory=set)  # the first names of what is imported
    imported: list[str] = field(default_factory=list)  # finished functions imported by their own name
    everything: bool = False  # `from grpo import *`
    kept: list[str] = field(default_factory=list)  # finished functions used as values, not called
    used: list[str] = field(default_factory=list)  # finished functions used at all
    around: list[str] = field(default_factory=list)  # modules with finished functions, used as values
    replaced: list[str] = field(default_factory=list)  # parts of modules that were assigned to
    hiding: list[str] = field(default_factory=list)
    grader: bool = False  # more of the grader than `check` is imported
    foreign: bool = False  # the exercise's name is bound to something that is not written in this cell
    unread: str = ""  # why it could not be read
    python: bool = True  # whether it is Python, or IPython's own


def read(
    source: str,
    names: set[str],
    answer: str = "",
    elsewhere: frozenset[str] = frozenset(),
    bound: frozenset[str] = frozenset(),
) -> Seen:
    """Read a cell; one that is no Python (a cell in another language, a slip) does nothing.

    Args:
        source: the cell's text, IPython's own lines included.
        names: the finished functions to look for.
        answer: the exercise whose answer cell this is, if it is one.
        elsewhere: what other cells call grpo and its modules.
        bound: the names that the notebook binds; a `print` among them is not Python's.
    """
    seen = Seen()
    try:
        tree = parsed(source)
        seen.python = tree is not None or source[:2] == "%%"  # a cell magic may be in any language
        if tree is not None:
            _imports_and_uses(tree, names, elsewhere - _own_names(tree), bound, seen)
            seen.foreign = bool(answer) and _bound_to_foreign(tree, answer)
    except NO_SYNTAX_TREE as error:
        seen.unread = type(error).__name__
    return seen


def parsed(source: str) -> ast.Module | None:
    """Return a cell's syntax tree, or None where it is no Python. Of what only IPython understands, statements behind
    magics and pasted prompts are read, an indentation that all lines share is taken off, other lines are left out.

    Raises: one of NO_SYNTAX_TREE for a cell that is nested too deep, or too long.
    """
    if len(source) > MAX_SOURCE:
        raise TooLong(f"{len(source):,} characters")
    unprompted = PROMPT.sub("", source)
    timed = TIMED.sub(r"\1", textwrap.dedent(unprompted))
    for text in (source, timed, IPYTHON.sub(r"\1pass", timed)):
        try:
            return ast.parse(text)
        except SyntaxError:
            continue
    return None


def without_comments(source: str) -> str:
    """Return a cell's text without its comments, which do nothing; as it is where it is no Python as it stands."""
    lines = io.StringIO(source).readlines()
    if len(source) > MAX_SOURCE:
        return source
    try:
        ast.parse(source)
        comments = [
            one for one in tokenize.generate_tokens(io.StringIO(source).readline) if one.type == tokenize.COMMENT
        ]
    except (SyntaxError, *NO_SYNTAX_TREE):
        return source
    for one in comments:
        row, start = one.start
        lines[row - 1] = lines[row - 1][:start] + lines[row - 1][start + len(one.string) :]
    return "".join(lines)


def _is_module(package: str, name: str) -> bool:
    """Tell whether what is imported from a package of grpo is a module, which holds all its functions."""
    if len(package) + len(name) > MAX_NAME:  # a student's own words, and no path
        return False
    place = ROOT.joinpath(*package.split("."), name)
    return place.with_name(f"{name}.py").is_file() or (place / "__init__.py").is_file()


def modules_of(tree: ast.Module) -> tuple[set[str], set[str]]:
    """Return the names under which a cell imports modules of grpo whole, and those of what it takes out of them."""
    whole: set[str] = set()
    parts: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            roots = [(one, one.name.partition(".")[0]) for one in node.names]
            whole |= {one.asname or root for one, root in roots if root == "grpo"}
        elif isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").partition(".")[0] == "grpo":
            for one in node.names:
                (whole if _is_module(node.module, one.name) else parts).add(one.asname or one.name)
    return whole, parts


def _own_names(tree: ast.Module) -> set[str]:
    """Return the names that a cell binds anywhere, as variables or arguments."""
    stored = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    return stored | {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}


def _imports_and_uses(
    tree: ast.Module, names: set[str], elsewhere: frozenset[str], bound: frozenset[str], seen: Seen
) -> None:
    packages, parts = modules_of(tree)
    modules, whole = set(), set(PACKAGES) | elsewhere | packages
    ours = set(OURS) | elsewhere | packages | parts
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                root = one.name.partition(".")[0]
                modules.add(one.asname or root)
                seen.roots.add(root)
                seen.grader |= root == "grader"
        elif isinstance(node, ast.ImportFrom) and not node.level:
            root = (node.module or "").partition(".")[0]
            seen.roots.add(root)
            seen.hiding += [one.name for one in node.names if one.asname and one.name in HIDING]
            seen.grader |= root == "grader" and (node.module != "grader" or {a.name for a in node.names} != {"check"})
            if root == "grpo":
                seen.imported += [one.name for one in node.names if one.name in names]
                seen.everything |= any(one.name == "*" for one in node.names)
    # What stands before a dot, is called, or is only looked at, is no use as a value.
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    before_dot = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    looks = set(LOOKS) - bound - _own_names(tree)
    compared = set(_compared(tree))
    looked_at = {id(a) for n in ast.walk(tree) if isinstance(n, ast.Call) and _plainly(n) in looks for a in n.args}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and _base(node) in ours:
            if node.attr in names and id(node) not in compared:
                seen.used.append(node.attr)
                if id(node) not in called | looked_at:
                    seen.kept.append(node.attr)
            elif node.attr.startswith("__") and node.attr not in PLAIN_PARTS:
                seen.around.append(_base(node))
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _base(node) in modules | ours:
            seen.replaced.append(_dotted(node))
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in whole:
            if id(node) not in before_dot | looked_at | called:  # a module cannot be called
                seen.around.append(node.id)
        elif isinstance(node, ast.Match) and isinstance(node.subject, ast.Name) and node.subject.id in ours:
            seen.around.append(node.subject.id)
        elif isinstance(node, ast.Call):
            _call(node, ours, seen)
        _namespace(node, seen)


def _compared(tree: ast.Module) -> Iterator[int]:
    """Yield the ids of what is called in asserts and bare expressions outside functions: to compare with, not to keep.

    A statement that binds a name, or makes a function, is read like any other.
    """
    for node in _outside_functions(tree):
        if isinstance(node, (ast.Assert, ast.Expr)):
            parts = list(ast.walk(node))
            if not any(isinstance(part, (ast.NamedExpr, ast.Lambda)) for part in parts):
                yield from (id(part.func) for part in parts if isinstance(part, ast.Call))


def _plainly(node: ast.Call) -> str:
    """Return the name that is called, "" where it stands behind a dot."""
    return node.func.id if isinstance(node.func, ast.Name) else ""


def _call(node: ast.Call, ours: set[str], seen: Seen) -> None:
    name, first = _called(node), node.args[0] if node.args else None
    own = isinstance(node.func, ast.Attribute) and name in ("compile", "eval", "exec")  # re.compile
    module = str(first.value) if isinstance(first, ast.Constant) else ""
    plain = name == "import_module" and module and module.partition(".")[0] not in PACKAGES
    if name in HIDING and not own and not plain:
        seen.hiding.append(name)
    if name in ROUNDABOUT and isinstance(first, ast.Name) and first.id in ours:
        seen.around.append(first.id)


def _namespace(node: ast.AST, seen: Seen) -> None:
    """Note a name that is bound through globals() or the like."""
    place = None
    if isinstance(node, (ast.Assign, ast.NamedExpr)):
        place = node.value
    elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
        place = node.value
    elif isinstance(node, ast.Attribute) and node.attr in PUTS:
        place = node.value
    if isinstance(place, ast.Call) and isinstance(place.func, ast.Name) and place.func.id in NAMESPACES:
        if not place.args:
            seen.hiding.append(place.func.id)


def _bound_to_foreign(tree: ast.Module, answer: str) -> bool:
    """Tell whether `answer` is bound, outside functions, to what is neither a def or lambda of this cell nor made
    from one."""
    own = {node.name for node in ast.walk(tree) if isinstance(node, (*FUNCTIONS, ast.ClassDef))}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
            own |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    settled: set[int] = set()
    for node in _outside_functions(tree):
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
            parts = list(ast.walk(node.value))
            if any(isinstance(p, ast.Lambda) or (isinstance(p, ast.Name) and p.id in own) for p in parts):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                settled |= {id(part) for target in targets for part in ast.walk(target)}
        elif isinstance(node, ast.AnnAssign):  # only a type
            settled.add(id(node.target))
    for node in _outside_functions(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in settled:
            bound = node.id
        elif isinstance(node, (ast.MatchAs, ast.MatchStar)):
            bound = node.name or ""
        elif isinstance(node, ast.MatchMapping):
            bound = node.rest or ""
        elif isinstance(node, ast.alias):
            bound = node.asname or node.name
        else:
            continue
        if bound == answer:
            return True
    return False


def _outside_functions(tree: ast.Module) -> Iterator[ast.AST]:
    left: list[ast.AST] = [tree]
    while left:
        node = left.pop()
        yield node
        if not isinstance(node, (*FUNCTIONS, ast.Lambda, ast.ClassDef)):
            left += ast.iter_child_nodes(node)


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _base(node: ast.Attribute) -> str:
    """Return the name that a chain of attributes begins with."""
    value: ast.expr = node
    while isinstance(value, ast.Attribute):
        value = value.value
    return value.id if isinstance(value, ast.Name) else ""


def _dotted(node: ast.Attribute) -> str:
    """Write a chain of attributes. `ast.unparse` would go as deep as the chain is long."""
    parts, value = [], node
    while isinstance(value, ast.Attribute):
        parts.append(value.attr)
        value = value.value
    name = ".".join([getattr(value, "id", ""), *reversed(parts)])
    return name if len(name) <= MAX_NAME else f"{name[:MAX_NAME]}…"
