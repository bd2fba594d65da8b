"""What the statements of a cell bind outside functions, and what that then depends on.

A name depends on the names of the notebook that its statement reads, functions and classes on all that stands in
them, and on the finished functions that are taken out of grpo there. A call of a finished function outside of
functions does not count: what it returns is no function.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from grader.judge.names import FUNCTIONS, NO_SYNTAX_TREE, modules_of, parsed

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
BODIES = ("body", "orelse", "finalbody", "handlers")
MAX_KEPT = 10_000  # characters of a cell whose bindings are worth keeping
Taken = tuple[str, str]  # (a name, the finished function that is taken out of what the name stands for)


@dataclass
class Binding:
    """One name that a cell binds, or puts something into, and what it then depends on."""

    name: str
    reads: set[str] = field(default_factory=set)
    takes: set[Taken] = field(default_factory=set)
    finished: set[str] = field(default_factory=set)  # finished functions that it imports, or is
    # or "imported"; "fed": a call may have put something into what was there; "set": a part of it was assigned to
    kind: str = "made"

    def takes_finished(self, name: str, modules: set[str]) -> bool:
        """Tell whether it depends on the finished function `name` by itself."""
        return name in self.finished or any(taken == name and module in modules for module, taken in self.takes)


def read_bindings(source: str, names: frozenset[str]) -> tuple[set[str], set[str], list[Binding]]:
    """Return what a cell calls whole modules of grpo, what it takes out of them, and its bindings.

    Args:
        source: the cell's text, IPython's own lines included.
        names: the finished functions to look for.
    """
    return _kept(source, names) if len(source) <= MAX_KEPT else _read(source, names)


@lru_cache(maxsize=512)  # the released cells are the same in every submission
def _kept(source: str, names: frozenset[str]) -> tuple[set[str], set[str], list[Binding]]:
    return _read(source, names)


def _read(source: str, names: frozenset[str]) -> tuple[set[str], set[str], list[Binding]]:
    try:
        tree = parsed(source)
        if tree is None:
            return set(), set(), []
        bindings = [one for node in _statements(tree) for one in _Statement(node, names).bindings()]
        return *modules_of(tree), bindings
    except NO_SYNTAX_TREE:  # that it cannot be read is told of the cell (see `names.read`)
        return set(), set(), []


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the statements that run outside functions, each without those in its bodies."""
    left: list[ast.AST] = list(tree.body)
    while left:
        node = left.pop()
        holders = node.cases if isinstance(node, ast.Match) else [node]
        inner = [part for holder in holders for name in BODIES for part in _as_list(getattr(holder, name, None))]
        if inner and not isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            left += inner
            node = _head(node, holders, inner)
        yield node


def _head(node: ast.AST, holders: list[ast.AST], inner: list[ast.AST]) -> ast.AST:
    """Return what of a compound statement is not in its bodies: what is looped over, the patterns of its cases."""
    skipped = {id(part) for part in [*inner, *holders]}
    kept = [part for one in [node, *holders] for part in ast.iter_child_nodes(one) if id(part) not in skipped]
    return ast.Tuple(kept, ast.Load())


@dataclass(frozen=True)
class _At:
    """Where in a statement the reading is: what is local there, how many functions deep, and what it is part of."""

    scopes: tuple[frozenset[str], ...] = ()
    depth: int = 0
    wanted: frozenset[str] = frozenset()  # finished functions that are taken out of this expression
    into: frozenset[tuple[str, int, str]] = frozenset()  # (the name that this is put into, the depth there, how)
    called: bool = False

    def but(self, **changes) -> _At:
        return _At(**{**self.__dict__, "called": False, **changes})

    def is_global(self, name: str) -> bool:
        return bool(name) and not any(name in scope for scope in self.scopes)


class _Statement:
    def __init__(self, node: ast.AST, names: frozenset[str]):
        self.names = names
        self.bound: set[str] = set()
        self.whole = Binding("")
        self.fed: dict[tuple[str, str], Binding] = {}
        self.imported: list[Binding] = []
        stack = [(node, _At())]
        while stack:
            part, at = stack.pop()
            stack += self._parts(part, at)

    def bindings(self) -> Iterator[Binding]:
        for name in self.bound:
            yield Binding(name, self.whole.reads, self.whole.takes, self.whole.finished)
        yield from self.fed.values()
        yield from self.imported

    def _parts(self, node: ast.AST, at: _At) -> Iterator[tuple[ast.AST, _At]]:
        """Note what a part of the statement does, and yield the parts of it that are to be read, and where."""
        if isinstance(node, ast.Name):
            self._name(node, at)
        elif isinstance(node, (*FUNCTIONS, ast.Lambda)):
            yield from self._function(node, at)
        elif isinstance(node, ast.ClassDef):
            self._bind(node.name, at)
            inside = at.but(scopes=(*at.scopes, frozenset(_stored(node.body))))
            yield from ((child, at if isinstance(child, FUNCTIONS) else inside) for child in node.body)
            yield from ((child, at.but()) for child in (*node.bases, *node.keywords, *node.decorator_list))
        elif isinstance(node, COMPREHENSIONS):
            local = frozenset(_stored([part.target for part in node.generators]))
            yield from _children(node, at.but(scopes=(*at.scopes, local)))
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            taken = node.attr in self.names and (at.depth > 0 or not at.called)
            yield node.value, at.but(wanted=at.wanted | {node.attr} if taken else at.wanted)
        elif isinstance(node, ast.Call):
            inside = at.but(into=at.into | self._into([_receiver(node)], at, "set" if _sets(node) else "fed"))
            yield node.func, at.but(called=True)
            yield from ((child, inside) for child in (*node.args, *node.keywords))
        elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            put = self._into([_base(one) for one in targets if not isinstance(one, ast.Name)], at, "set")
            yield from ((one, at.but()) for one in targets)
            if node.value is not None:
                yield node.value, at.but(into=at.into | put)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            self._import(node, at)
        elif isinstance(node, (ast.MatchAs, ast.MatchStar, ast.MatchMapping)):
            self._bind(getattr(node, "name", None) or getattr(node, "rest", None) or "", at)
            yield from _children(node, at.but())
        else:
            yield from _children(node, at.but())

    def _name(self, node: ast.Name, at: _At) -> None:
        if not isinstance(node.ctx, ast.Load):
            self._bind(node.id, at)
        elif at.is_global(node.id):
            # A name before a dot is read there too: what stands behind the dot may be any part of it.
            self._note(self.whole, node, at)
            for name, depth, kind in at.into:
                if not at.called or at.depth > depth:
                    self._note(self.fed.setdefault((name, kind), Binding(name, kind=kind)), node, at)

    def _note(self, binding: Binding, node: ast.Name, at: _At) -> None:
        binding.reads.add(node.id)
        binding.takes |= {(node.id, name) for name in at.wanted}

    def _bind(self, name: str, at: _At) -> None:
        if at.is_global(name):
            self.bound.add(name)

    def _into(self, names: Iterable[str], at: _At, kind: str) -> frozenset[tuple[str, int, str]]:
        return frozenset((name, at.depth, kind) for name in names if at.is_global(name))

    def _function(self, node: ast.AST, at: _At) -> Iterator[tuple[ast.AST, _At]]:
        body = [node.body] if isinstance(node, ast.Lambda) else node.body
        made = node.args
        given = [*made.posonlyargs, *made.args, *made.kwonlyargs, *filter(None, [made.vararg, made.kwarg])]
        declared = {name for part in _own_parts(body) if isinstance(part, ast.Global) for name in part.names}
        local = {one.arg for one in given} | (set(_stored(body)) - declared)
        inside = at.but(scopes=(*at.scopes, frozenset(local)), depth=at.depth + 1)
        yield from ((child, inside) for child in body)
        # Decorators and defaults are worked out where the function is made.
        outside = [*made.defaults, *(one for one in made.kw_defaults if one), *getattr(node, "decorator_list", [])]
        yield from ((child, at.but()) for child in outside)
        if not isinstance(node, ast.Lambda):
            self._bind(node.name, at)

    def _import(self, node: ast.Import | ast.ImportFrom, at: _At) -> None:
        member = isinstance(node, ast.ImportFrom)
        ours = member and not node.level and (node.module or "").partition(".")[0] == "grpo"
        for one in node.names:
            finished = self.names & ({one.name} if one.name != "*" else self.names) if ours else set()
            if at.depth:
                self.whole.finished |= finished
                continue
            here = one.asname or (one.name if member else one.name.partition(".")[0])
            for name in finished if one.name == "*" else [here]:
                self.imported.append(
                    Binding(name, finished={name} if one.name == "*" else set(finished), kind="imported")
                )


def _children(node: ast.AST, at: _At) -> Iterator[tuple[ast.AST, _At]]:
    return ((child, at) for child in ast.iter_child_nodes(node))


def _sets(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Name) and node.func.id == "setattr" and bool(node.args)


def _receiver(node: ast.Call) -> str:
    """Return the name of what a call may put its arguments into: name(...), name.append(...), setattr(name, ...)."""
    if _sets(node):
        return _base(node.args[0])
    return _base(node.func)


def _base(node: ast.AST) -> str:
    """Return the name that a chain of attributes, indices and calls begins with."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _own_parts(body: list[ast.AST]) -> Iterator[ast.AST]:
    """Yield what stands in a function's body, but not in functions, classes and comprehensions within it."""
    left = list(body)
    while left:
        node = left.pop()
        yield node
        if not isinstance(node, (*FUNCTIONS, ast.Lambda, ast.ClassDef, *COMPREHENSIONS)):
            left += ast.iter_child_nodes(node)


def _stored(body: list[ast.AST]) -> Iterator[str]:
    """Yield the names that a body binds."""
    for node in _own_parts(body):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
            yield node.name or ""
        elif isinstance(node, ast.MatchMapping):
            yield node.rest or ""
        elif isinstance(node, ast.alias):
            yield node.asname or node.name.split(".")[0]


def _as_list(value: object) -> list:
    return value if isinstance(value, list) else []
