"""Which ways lead from an answer to the finished function of its exercise, through any cells of the notebook.

An answer may call a helper that another cell defines, and the helper the finished function. So the names of all cells
are followed: from what an answer is bound to, to what that reads, and on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from grader.judge.bindings import Binding, read_bindings
from grader.source import OURS

PUT = ("fed", "set")  # ways to add to what a name stands for


class Reach:
    """The names of a notebook and what they depend on. `cells` are the sources of its cells in their order."""

    def __init__(self, cells: Sequence[str], names: Iterable[str]):
        self.packages: set[str] = set()  # what any cell calls a whole module of grpo
        self.modules = set(OURS)
        self.bindings: dict[str, list[tuple[int, Binding]]] = {}
        for number, source in enumerate(cells):
            packages, parts, bindings = read_bindings(source, frozenset(names))
            self.packages |= packages
            self.modules |= packages | parts
            for one in bindings:
                self.bindings.setdefault(one.name, []).append((number, one))
        made = {name for name, found in self.bindings.items() if any(one.kind == "made" for _, one in found)}
        self.made = frozenset(made)
        for name in self.bindings.keys() - made:  # plt.plot(...) puts nothing into plt that an answer would use
            self.bindings[name] = [found for found in self.bindings[name] if found[1].kind != "fed"]

    def way(self, name: str, end: int) -> list[tuple[str, int]] | None:
        """Return how what `name` stands for at the cell `end` comes to the finished function of that name: the names
        on the shortest way, each with the number of its cell; None if it does not come to it.

        The cells from `end` on run too late. Of several cells that bind `name`, the last one counts.
        """
        mine = [found for found in self.bindings.get(name, ()) if found[0] < end]
        last = max((number for number, one in mine if one.kind not in PUT), default=end)
        waiting: deque = deque((found, ()) for found in mine if found[0] >= last or found[1].kind in PUT)
        seen: set[str] = set()
        followed: set[int] = set()  # the names that one statement binds depend on the same
        while waiting:
            (number, one), way = waiting.popleft()
            if id(one.reads) in followed:
                continue
            followed.add(id(one.reads))
            way = (way, one.name, number)
            if one.takes_finished(name, self.modules):
                return _unfolded(way)
            for other in sorted(one.reads - seen):
                seen.add(other)
                waiting += [(found, way) for found in self.bindings.get(other, ()) if found[0] < end]
        return None


def _unfolded(way: tuple) -> list[tuple[str, int]]:
    found = []
    while way:
        way, *last = way
        found.append(tuple(last))
    return found[::-1]
