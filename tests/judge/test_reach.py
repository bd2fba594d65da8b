"""The names of all cells are followed to a finished function, and to nothing that only looks like a way to it."""

import nbformat
import pytest

from grader.classroom.repair import grade_id_of
from grader.exercises import EXERCISES
from grader.judge.bindings import MAX_KEPT, Binding, _kept, read_bindings
from grader.judge.flags import flags
from grader.judge.reach import Reach
from grader.paths import NOTEBOOKS, SOLUTIONS, chapters, notebook_path

NAMES = {"log_softmax", "sequence_logprob"}
ANSWER = "def log_softmax(x):\n    return helper(x)"


def way(*cells, name="log_softmax"):
    return Reach(cells, NAMES).way(name, len(cells))


def names(found):
    return found and [name for name, _ in found]


LEADS = {
    "function": "def helper(x):\n    return grpo.log_softmax(x)",
    "lambda": "helper = lambda x: grpo.log_softmax(x)",
    "async": "async def helper(x):\n    return grpo.log_softmax(x)",
    "value": "helper = grpo.log_softmax",
    "module's alias": "import grpo as g\ndef helper(x):\n    return g.log_softmax(x)",
    "module's path": "import grpo.logprobs\ndef helper(x):\n    return grpo.logprobs.log_softmax(x)",
    "part": "from grpo import logprobs as part\ndef helper(x):\n    return part.log_softmax(x)",
    "part by its name": "from grpo import logprobs\ndef helper(x):\n    return logprobs.log_softmax(x)",
    "import in a function": "def helper(x):\n    from grpo.logprobs import log_softmax as f\n    return f(x)",
    "default": "def helper(x, f=lambda x: grpo.log_softmax(x)):\n    return f(x)",
    "default by name": "def helper(x, *, f=grpo.log_softmax):\n    return f(x)",
    "annotated": "helper: object = grpo.log_softmax",
    "walrus": "print(helper := lambda x: grpo.log_softmax(x))",
    "pairs": "helper, other = [lambda x: grpo.log_softmax(x)] * 2",
    "comprehension": "helper = [f for f in [lambda x: grpo.log_softmax(x)]][0]",
    "global": "def make():\n    global helper\n    def helper(x): return grpo.log_softmax(x)\nmake()",
    "loop": "for helper in [lambda x: grpo.log_softmax(x)]:\n    pass",
    "with": "with f(lambda x: grpo.log_softmax(x)) as helper:\n    pass",
    "match": "match [lambda x: grpo.log_softmax(x)]:\n    case [helper]:\n        pass",
    "star": "match [lambda x: grpo.log_softmax(x)]:\n    case [*helper]:\n        pass",
    "mapping": "match {1: lambda x: grpo.log_softmax(x)}:\n    case {**helper}:\n        pass",
    "in a block": "if True:\n    try:\n        1\n    except ValueError:\n        2\n    finally:\n"
                  "        def helper(x): return grpo.log_softmax(x)",
    "in a handler": "try:\n    1 / 0\nexcept ZeroDivisionError:\n    helper = grpo.log_softmax",
    "in a case": "match 1:\n    case _:\n        helper = grpo.log_softmax",
    "else": "while False:\n    1\nelse:\n    helper = grpo.log_softmax",
    "bound method": "helper = grpo.log_softmax.__call__",
    "cell magic": "%%time\ndef helper(x): return grpo.log_softmax(x)",
    "called inside": "def helper(x): return np.vectorize(lambda y: grpo.log_softmax(y))(x)",
}  # fmt: skip


@pytest.mark.parametrize("cell", LEADS.values(), ids=list(LEADS))
def test_a_name_that_is_bound_to_a_finished_function_leads_to_it(cell):
    assert way(cell, ANSWER) == [("log_softmax", 1), ("helper", 0)]
    assert way(cell.replace("log_softmax", "softmax"), ANSWER) is None


FURTHER = {
    "alias": ("def a(x): return grpo.log_softmax(x)\nhelper = a", ["a"]),
    "chain": ("def a(x): return grpo.log_softmax(x)\ndef b(x): return a(x)\ndef helper(x): return b(x)", ["b", "a"]),
    "imported name": ("from grpo import log_softmax as f\nhelper = f", ["f"]),
    "everything": ("from grpo import *\nhelper = log_softmax", ["log_softmax"]),
    "class": ("class C:\n    def f(self, x): return grpo.log_softmax(x)\nhelper = C().f", ["C"]),
    "base class": ("class B:\n    f = grpo.log_softmax\nclass C(B): pass\nhelper = C().f", ["C", "B"]),
    "class decorator": ("def a(c): return grpo.log_softmax\n@a\nclass helper: pass", ["a"]),
    "decorator": ("def a(f): return lambda x: grpo.log_softmax(x)\n@a\ndef helper(x): pass", ["a"]),
    "factory": ("def a():\n    def b(x): return grpo.log_softmax(x)\n    return b\nhelper = a()", ["a"]),
    "default of another": ("def a(x): return grpo.log_softmax(x)\ndef helper(x, f=a): return f(x)", ["a"]),
    "item": ("d = {}\nd['f'] = lambda x: grpo.log_softmax(x)\ndef helper(x): return d['f'](x)", ["d"]),
    "list": ("d = []\nd.append(lambda x: grpo.log_softmax(x))\ndef helper(x): return d[0](x)", ["d"]),
    "added": ("d = []\nd += [lambda x: grpo.log_softmax(x)]\ndef helper(x): return d[0](x)", ["d"]),
    "attribute": ("class H: pass\nH.f = lambda x: grpo.log_softmax(x)\nhelper = H.f", ["H"]),
    "setattr": ("class H: pass\nsetattr(H, 'f', grpo.log_softmax)\ndef helper(x): return H.f(x)", ["H"]),
    "put in by a function": (
        "d = []\ndef a(x): return grpo.log_softmax(x)\ndef fill(): d.append(a)\nfill()\nhelper = d[0]", ["d", "a"]),
    "given away": ("d = []\ndef keep(f): d.append(f)\nkeep(grpo.log_softmax)\ndef helper(x): return keep(x)", ["keep"]),
    "local in an inner function": (
        "def helper(x):\n    def f():\n        a = 1\n        return a\n    return a(x)\na = grpo.log_softmax", ["a"]),
    "local in a comprehension": ("def helper(x):\n    [a for a in x]\n    return a(x)\na = grpo.log_softmax", ["a"]),
    "another exercise": (
        "def sequence_logprob(x): return grpo.log_softmax(x)\ndef helper(x): return sequence_logprob(x)",
        ["sequence_logprob"]),
}  # fmt: skip


@pytest.mark.parametrize("cell, through", FURTHER.values(), ids=list(FURTHER))
def test_names_are_followed_from_one_to_the_next(cell, through):
    assert names(way(cell, ANSWER)) == ["log_softmax", "helper", *through]


HONEST = {
    "compared": "def helper(x): return x\nprint(helper(grpo.log_softmax([1.0])), grpo.log_softmax([1.0]))",
    "compared in a function": "def helper(x): return x\ndef compare(x): return helper(x) - grpo.log_softmax(x)",
    "compared with a name": "def helper(x): return x\ndef other(x): return grpo.log_softmax(x)\nhelper(other(1))",
    "a result": "table = grpo.log_softmax([1.0, 2.0])\ndef helper(x): return table",
    "local name": "def helper(x):\n    ref = x\n    return ref\ndef ref(x): return grpo.log_softmax(x)",
    "local name of another": "def helper(x): return x\ndef f(x):\n    helper = grpo.log_softmax(x)\n    return helper",
    "put into what is local": "def helper(x): return x\ndef other(helper):\n    helper.append(grpo.log_softmax)",
    "side by side": "if True:\n    def helper(x): return x\n    ref = grpo.log_softmax",
    "argument": "def helper(*ref, **more): return ref, more\nref = more = lambda x: grpo.log_softmax(x)",
    "other arguments": "def helper(a, /, ref, *, k=1): return ref, a, k\nref = a = k = lambda x: grpo.log_softmax(x)",
    "argument of a lambda": "helper = lambda ref: ref\nref = lambda x: grpo.log_softmax(x)",
    "argument further out": "def helper(ref):\n    def inner(): return ref\n    return inner\nref = grpo.log_softmax",
    "in a comprehension": "def helper(x): return [ref for ref in x]\ndef ref(x): return grpo.log_softmax(x)",
    "in a class": "class helper:\n    ref = 3\n    other = ref\ndef ref(x): return grpo.log_softmax(x)",
    "caught": "def helper(x):\n    try: x\n    except E as ref: return ref\ndef ref(x): return grpo.log_softmax(x)",
    "matched": "def helper(x):\n    match x:\n        case [ref, *a]: return ref, a\n        case {**b}: return b\n"
               "ref = a = b = grpo.log_softmax",
    "imported": "def helper(x):\n    import math as ref\n    return ref\ndef ref(x): return grpo.log_softmax(x)",
    "defined inside": "def helper(x):\n    def ref(): return x\n    return ref()\nref = grpo.log_softmax",
    "drawn": "import matplotlib.pyplot as plt\nplt.plot(lambda x: grpo.log_softmax(x))\ndef helper(x): return plt",
    "of another": "def helper(x): return other.log_softmax(x)",
    "broken": "def helper(x) return grpo.log_softmax(x)",
}  # fmt: skip


@pytest.mark.parametrize("cell", HONEST.values(), ids=list(HONEST))
def test_what_only_looks_like_a_way_is_none(cell):
    assert way(cell, ANSWER) is None


def test_only_what_stands_before_the_check_and_the_last_binding_counts():
    helper = LEADS["function"]
    cells = (ANSWER, "check", helper)
    assert Reach(cells, NAMES).way("log_softmax", 1) is None
    assert names(Reach(cells, NAMES).way("log_softmax", 3)) == ["log_softmax", "helper"]
    assert way(helper, ANSWER, "def log_softmax(x):\n    return x") is None
    assert way(helper, ANSWER, "log_softmax.calls = 0") == [("log_softmax", 1), ("helper", 0)]
    assert way(ANSWER, "log_softmax.f = lambda x: grpo.log_softmax(x)") == [("log_softmax", 1)]
    assert way("x = 1") is None


def test_each_exercise_has_its_own_finished_function():
    cells = ("def helper(x): return grpo.log_softmax(x)", "def sequence_logprob(x): return helper(x)")
    assert way(*cells, name="sequence_logprob") is None
    assert names(way(*cells, ANSWER)) == ["log_softmax", "helper"]


def test_names_that_lead_in_circles_come_to_an_end():
    assert way("def helper(x): return log_softmax(helper(x))", ANSWER) is None


def test_what_is_deeply_nested_or_large_is_read_in_proportion():
    """The square of these would take hours."""
    for cell in ("x = y" + ".log_softmax" * 500, "f(" * 80 + ")" * 80, "a = " * 200 + "lambda: b.log_softmax"):
        assert way("\n".join([cell] * (200_000 // len(cell))), ANSWER) is None
    assert way("x = " + "-" * 50_000 + "1", ANSWER) is None


def test_short_cells_are_read_once_and_long_ones_are_not_kept():
    _kept.cache_clear()
    for cell in ("x = 1", "x = 1 #" + "x" * MAX_KEPT):
        for _ in range(2):
            packages, parts, (made,) = read_bindings(cell, frozenset(NAMES))
            assert (packages, parts, made) == (set(), set(), Binding("x"))
    assert (_kept.cache_info().hits, _kept.cache_info().misses) == (1, 1)


@pytest.mark.parametrize("chapter", chapters())
def test_our_own_answers_are_not_flagged_and_a_way_through_a_helper_is(chapter):
    solved = nbformat.read(notebook_path(SOLUTIONS, chapter), as_version=4)
    released = nbformat.read(notebook_path(NOTEBOOKS, chapter), as_version=4)
    assert flags(solved) == flags(released) == ()
    name = next(name for name, one in EXERCISES.items() if one.chapter == chapter)
    index = next(i for i, cell in enumerate(solved.cells) if grade_id_of(cell) == f"{name}_answer")
    solved.cells[index].source = f"def {name}(*args, **kwargs):\n    return by_hand(*args, **kwargs)"
    helper = nbformat.v4.new_code_cell(f"def by_hand(*args, **kwargs):\n    return grpo.{name}(*args, **kwargs)")
    solved.cells.insert(index, helper)
    (found,) = flags(solved)
    assert found.startswith(f"the answer {name} reaches the finished {name} through by_hand (the cell `def by_hand(")
