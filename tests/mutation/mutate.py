"""Change the library one small step at a time and see whether its tests notice.

    python -m tests.mutation.mutate [MODULE ...] [--workers N]

Every module grpo/<name>.py in MODULES is mutated, and only tests/grpo/test_<name>.py is run against it. The same
goes for the modules of grpo/expressions in EXPRESSIONS, which name their tests; "expressions" stands for all of
them. A mutant that no test notices is printed as a diff and makes the exit code 1, unless equivalent.toml lists it
with the reason why no test can notice it. An entry there that fits no survivor any more makes the exit code 1 too.

Speed: pytest collects once, every test is timed, then forked children try the mutants in chunks, the fast tests
first. The code of a function is exchanged in place, so that every name bound to that function sees the change, and
a method in its class; the first failing test ends a mutant, and that test must pass again once the change is
undone. POSIX only (fork, alarm).
"""

import argparse
import ast
import copy
import difflib
import gc
import inspect
import os
import signal
import sys
import time
import tomllib
import warnings
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import CellType, FunctionType

ROOT = Path(__file__).resolve().parents[2]
EQUIVALENT = Path(__file__).with_name("equivalent.toml")
MODULES = ["checks", "rollouts", "rewards", "advantages", "logprobs", "objective", "gradients", "signals", "token_loss"]
VECTORISED = "test_vectorised_equals_token_by_token"
DEFAULTS = "test_expression_trainer.py::test_the_course_s_settings_are_the_defaults_everywhere"
ADAM_AND_SGD = ["test_sgd_by_hand", "test_adam_by_hand", "test_adam_is_algorithm_1", "test_bad_rates"]
# The expression game, its loop and evaluator, and what they learn with: module -> its tests. Tests with a
# fixture cannot be used here, and torch would make every fork slow.
POLICY_TESTS = ["test_policies.py", "test_policy_arithmetic.py", f"test_expression_gradients.py::{VECTORISED}"]
EXPRESSIONS = {
    "expressions.objective": ["test_expression_objective.py", DEFAULTS],
    "expressions.advantages": ["test_expression_advantages.py"],
    "expressions.verifier": ["test_verifier.py"],
    "expressions.rewards": ["test_verifier.py"],
    "expressions.policy": POLICY_TESTS,
    "expressions.tabular": POLICY_TESTS,
    "expressions.mlp": POLICY_TESTS,
    "expressions.per_token": [*POLICY_TESTS, "test_per_token.py", DEFAULTS],
    "expressions.optimizers": [f"test_optimizers.py::{name}" for name in ADAM_AND_SGD],
    "expressions.compare": ["test_paired_difference.py"],
    "expressions.trainer": ["test_expression_trainer.py"],
    "expressions.evaluator": ["test_evaluator.py"],
    "expressions.task": ["test_game.py"],
    "expressions.game": ["test_game.py"],
    "expressions.networks": ["test_networks.py"],
}
TIMEOUT_S = 60  # an endless loop is a noticed mutant, and mostly much earlier than this
CHUNK = 25  # mutants per child
FUNCTION_PARTS = ("__code__", "__defaults__", "__kwdefaults__")

COMPARISONS = {
    ast.Lt: [ast.LtE, ast.GtE],
    ast.LtE: [ast.Lt, ast.Gt],
    ast.Gt: [ast.GtE, ast.LtE],
    ast.GtE: [ast.Gt, ast.Lt],
    ast.Eq: [ast.NotEq],
    ast.NotEq: [ast.Eq],
    ast.Is: [ast.IsNot],
    ast.IsNot: [ast.Is],
    ast.In: [ast.NotIn],
    ast.NotIn: [ast.In],
}
OPERATORS = {
    ast.Add: [ast.Sub],
    ast.Sub: [ast.Add],
    ast.Mult: [ast.Div],
    ast.Div: [ast.Mult],
    ast.Mod: [ast.FloorDiv],
    ast.Pow: [ast.Mult],
    ast.BitAnd: [ast.BitOr],
    ast.BitOr: [ast.BitAnd],
}
NAME_PAIRS = [
    ("minimum", "maximum"),
    ("min", "max"),
    ("mean", "sum"),
    ("exp", "expm1"),
    ("any", "all"),
    ("zeros", "ones"),
    ("partition", "rpartition"),
    ("ones_like", "zeros_like"),
    ("isnan", "isinf"),
    ("isfinite", "isnan"),
    ("std", "var"),
    ("log", "log1p"),
    ("finditer", "findall"),
    ("argmax", "argmin"),
    ("startswith", "endswith"),
    ("cos", "sin"),
]
NAMES = {a: b for a, b in NAME_PAIRS} | {b: a for a, b in NAME_PAIRS}
COMMUTATIVE = ("min", "max", "minimum", "maximum")
DELETABLE = (ast.Assign, ast.AugAssign, ast.Expr, ast.If, ast.For, ast.Raise, ast.Try, ast.Return)


@dataclass
class Mutant:
    module: str
    function: str  # "Class.method" or "Class.field" within a class, "<module>" for statements outside of functions
    original: ast.stmt  # the function, the field or the module-level statement
    changed: ast.stmt
    survived: bool | None = None
    killer: str = ""  # the test that noticed it

    def __post_init__(self):
        old, new = (ast.unparse(tree).splitlines() for tree in (self.original, self.changed))
        self.diff = [line for line in difflib.ndiff(old, new) if line[0] in "-+"]
        # The first changed line on both sides identifies a mutant: stable when other lines move.
        self.before = next((line[2:].strip() for line in self.diff if line[0] == "-"), "")
        self.after = next((line[2:].strip() for line in self.diff if line[0] == "+"), "")

    @property
    def key(self):
        return self.module, self.function, self.before, self.after


# --- making mutants -------------------------------------------------------------------------------------------


def mutants_of(source, module):
    """All mutants of a module's source, each once."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and _is_text(body[0]):
            body[:1] = [] if len(body) > 1 else [ast.Pass()]  # docstrings

    mutants = []
    for function, statement in _mutable_statements(tree):
        seen = {ast.unparse(statement)}
        for changed in _changed_copies(statement):
            text = ast.unparse(changed)
            if text not in seen and _compiles(changed):
                seen.add(text)
                mutants.append(Mutant(module, function, statement, changed))
    return mutants


def _mutable_statements(tree):
    """(name, statement) of functions and constants, and of methods and fields with a default in the classes."""
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef):
            yield statement.name, statement
        elif isinstance(statement, ast.Assign):
            yield "<module>", statement
        elif isinstance(statement, ast.ClassDef):
            for part in statement.body:
                if isinstance(part, ast.FunctionDef):
                    yield f"{statement.name}.{part.name}", part
                elif isinstance(part, ast.AnnAssign) and part.value is not None:
                    yield f"{statement.name}.{part.target.id}", part


def _changed_copies(statement):
    """Copies of the statement, each with one place changed."""
    paths = list(_paths(statement, ()))
    for path in paths:
        for replacement in _replacements(_at(statement, path), is_root=not path):
            changed = copy.deepcopy(statement)
            parent, (name, index) = _at(changed, path[:-1]), path[-1]
            if index is None:
                setattr(parent, name, replacement)
            else:
                getattr(parent, name)[index] = replacement
            yield ast.fix_missing_locations(changed)


def _compiles(statement):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            compile(ast.Module([statement], []), "mutant", "exec")
    except (SyntaxError, TypeError, ValueError):
        return False
    return True


def _paths(node, path):
    """Paths of (field, index) from a statement to everything below it that may be changed."""
    if path:
        yield path
    for name, value in ast.iter_fields(node):
        if name == "annotation" or (isinstance(node, ast.FunctionDef) and name not in ("args", "body")):
            continue
        if isinstance(node, ast.Raise | ast.JoinedStr | ast.ExceptHandler) and name != "body":
            continue  # the text of a message is no behaviour
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(child, ast.AST):
                yield from _paths(child, (*path, (name, index)))


def _at(node, path):
    for name, index in path:
        node = getattr(node, name)
        node = node if index is None else node[index]
    return node


def _is_text(node):
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _replacements(node, is_root):
    if isinstance(node, DELETABLE) and not is_root:
        yield ast.Pass()
    if isinstance(node, ast.Return) and node.value is not None:
        yield ast.Return(value=ast.Constant(None))
    if isinstance(node, ast.If | ast.IfExp):
        for value in (True, False):
            yield _with(node, test=ast.Constant(value))
    if isinstance(node, ast.Compare):
        for index, operator in enumerate(node.ops):
            for other in COMPARISONS[type(operator)]:
                yield _with(node, ops=_swapped(node.ops, index, other()))
    if isinstance(node, ast.BinOp):
        for other in OPERATORS.get(type(node.op), []):
            yield _with(node, op=other())
        yield node.left
        yield node.right
    if isinstance(node, ast.AugAssign):
        for other in OPERATORS.get(type(node.op), []):
            yield _with(node, op=other())
    if isinstance(node, ast.UnaryOp):
        yield node.operand
    if isinstance(node, ast.BoolOp):
        yield _with(node, op=ast.And() if isinstance(node.op, ast.Or) else ast.Or())
        for index in range(len(node.values)):
            rest = node.values[:index] + node.values[index + 1 :]
            yield rest[0] if len(rest) == 1 else _with(node, values=rest)
    if isinstance(node, ast.Constant):
        for value in _other_constants(node.value):
            yield ast.Constant(value)
    if isinstance(node, ast.Attribute | ast.Name):
        name = "attr" if isinstance(node, ast.Attribute) else "id"
        if getattr(node, name) in NAMES:
            yield _with(node, **{name: NAMES[getattr(node, name)]})
    if isinstance(node, ast.Slice):
        for bound in ("lower", "upper"):
            if getattr(node, bound) is not None:
                yield _with(node, **{bound: None})
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        yield node.value
    if isinstance(node, ast.Call):
        for index in range(len(node.keywords)):
            yield _with(node, keywords=node.keywords[:index] + node.keywords[index + 1 :])
        if len(node.args) > 1 or (node.args and node.keywords):
            yield _with(node, args=node.args[:-1])
        commutative = getattr(node.func, "attr", getattr(node.func, "id", "")) in COMMUTATIVE
        for index in range(0 if commutative else len(node.args) - 1):
            args = list(node.args)
            args[index : index + 2] = args[index + 1], args[index]
            yield _with(node, args=args)
        if len(node.args) == 1 and not isinstance(node.args[0], ast.GeneratorExp):
            yield node.args[0]  # f(x) -> x
        if isinstance(node.func, ast.Attribute) and not _is_module(node.func.value):
            yield node.func.value  # x.f(...) -> x


def _other_constants(value):
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int | float):
        return [other for other in (value + 1, value - 1, value * 2) if other != value]
    if isinstance(value, str):
        return [value[1:], value[:-1]]
    return []


def _with(node, **changes):
    other = copy.copy(node)
    for name, value in changes.items():
        setattr(other, name, value)
    return other


def _swapped(items, index, item):
    return [*items[:index], item, *items[index + 1 :]]


def _is_module(node):
    return isinstance(node, ast.Name) and node.id in ("np", "re", "operator")


# --- running them ---------------------------------------------------------------------------------------------


@contextmanager
def installed(module, statement, function=""):
    """Exchange one function of an imported module in place, or one of its constants, and put it back at the end.

    A function named "Class.method" or "Class.field" is exchanged in its class.
    """
    namespace = dict(vars(module))
    owner = getattr(module, function.partition(".")[0]) if "." in function else None
    caches = []
    if owner and isinstance(statement, ast.FunctionDef):
        # A class around it gives super() its cell.
        body = ast.ClassDef(owner.__name__, bases=[], keywords=[], body=[statement], decorator_list=[], type_params=[])
        exec(compile(ast.Module([ast.fix_missing_locations(body)], []), module.__name__, "exec"), namespace)
        method = vars(namespace[owner.__name__])[statement.name]
        target, changed = owner, {statement.name: _moved(method, owner, module)}
    elif owner:  # a default of a dataclass
        target = owner.__init__
        names = target.__code__.co_varnames[: target.__code__.co_argcount]
        values = dict(zip(names[::-1], target.__defaults__[::-1], strict=False))
        values[statement.target.id] = eval(compile(ast.Expression(statement.value), "", "eval"), namespace)
        changed = {"__defaults__": tuple(values[name] for name in names if name in values)}
    elif isinstance(statement, ast.FunctionDef):
        exec(compile(ast.Module([statement], []), module.__name__, "exec"), namespace)
        target = getattr(module, statement.name)
        caches.append(target)
        target, source = inspect.unwrap(target), inspect.unwrap(namespace[statement.name])
        changed = {name: getattr(source, name) for name in FUNCTION_PARTS}
    else:
        exec(compile(ast.Module([statement], []), module.__name__, "exec"), namespace)
        names = [node.id for target in statement.targets for node in ast.walk(target) if isinstance(node, ast.Name)]
        target, changed = module, {name: namespace[name] for name in names}
    classes = [(one, dict(vars(one))) for one in vars(module).values() if isinstance(one, type)]
    # Not getattr: that would call a property and bind a method.
    original = {name: vars(target)[name] if target is owner else getattr(target, name) for name in changed}
    try:
        for name, value in changed.items():
            setattr(target, name, value)
        _forget(caches)
        yield
    finally:
        _forget(caches)
        for name, value in original.items():
            setattr(target, name, value)
        # A mutant may have taken a class for its instance and left attributes there.
        for one, before in classes:
            for name in set(vars(one)) - set(before):
                delattr(one, name)
            for name, value in before.items():
                if vars(one)[name] is not value:
                    setattr(one, name, value)


def _forget(functions):
    """Clear what functions under lru_cache have kept."""
    for function in functions:
        if hasattr(function, "cache_clear"):
            function.cache_clear()


def _moved(method, owner, module):
    """A method that was compiled elsewhere, as a method of this class of this module."""
    if isinstance(method, property):
        return property(_moved(method.fget, owner, module))
    cells = tuple(CellType(owner) for _ in method.__code__.co_freevars)  # there is only __class__
    moved = FunctionType(method.__code__, vars(module), method.__name__, method.__defaults__, cells)
    moved.__kwdefaults__ = method.__kwdefaults__
    return moved


def passes(item):
    """Run one collected test without pytest's protocol, which costs more than most of these tests."""
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    wanted = inspect.signature(item.obj).parameters
    if set(wanted) - set(parameters):
        raise NotImplementedError(f"{item.nodeid}: tests of mutated modules use no fixtures, only parametrize")
    try:
        item.obj(**{name: parameters[name] for name in wanted})
    except KeyboardInterrupt:
        raise
    except BaseException:  # pytest.raises fails with one that is no Exception
        return False
    return True


def try_mutants(mutants, items, cpu_limit_s, report):
    """Run the tests against each mutant and report(name of the test that failed first, or "").

    Stops early, with an unreported mutant, when an earlier one has left something broken behind.
    """
    items = list(items)
    module = import_module(f"grpo.{mutants[0].module}")
    for mutant in mutants:
        signal.setitimer(signal.ITIMER_PROF, cpu_limit_s)
        signal.alarm(TIMEOUT_S)
        with installed(module, mutant.changed, mutant.function):
            killer = next((item for item in items if not passes(item)), None)
        if killer is None:
            report("")
            continue
        if not passes(killer):
            return
        report(killer.nodeid)
        # The next mutant is often noticed by the same test: try that one first.
        items.sort(key=lambda item, killer=killer: item is not killer)


def tests_of(module):
    """Files, or tests in files ("file::test"), that are run against a module's mutants, relative to ROOT."""
    if module in EXPRESSIONS:
        return [f"tests/expressions/{test}" for test in EXPRESSIONS[module]]
    return [f"tests/grpo/test_{module}.py"]


def _belongs(nodeid, test):
    return nodeid == test or nodeid.startswith((f"{test}::", f"{test}["))


class Runner:
    """A pytest plugin: pytest collects the tests as usual, then this runs them once per mutant, in children."""

    def __init__(self, mutants, workers):
        self.mutants, self.workers = mutants, workers
        self.broken = []  # tests that fail without any mutation
        self.tests, self.cpu_limit_s = {}, {}  # by module; the limit is a multiple of what the tests take

    def pytest_runtestloop(self, session):
        if session.testsfailed:
            return True  # a test file could not be collected
        for module in {mutant.module: None for mutant in self.mutants}:
            chosen = tests_of(module)
            self.tests[module] = [item for item in session.items if any(_belongs(item.nodeid, test) for test in chosen)]
        seconds = {}
        for item in {item.nodeid: item for items in self.tests.values() for item in items}.values():
            started = time.process_time()
            if not passes(item):
                self.broken.append(item.nodeid)
            seconds[item.nodeid] = time.process_time() - started
        for module, items in self.tests.items():
            items.sort(key=lambda item: seconds[item.nodeid])
            self.cpu_limit_s[module] = 1 + 5 * sum(seconds[item.nodeid] for item in items)
        if self.broken:
            return True

        gc.freeze()  # memory that the collector leaves alone is not copied in every child
        waiting = [
            of_module[start : start + CHUNK]
            for of_module in self._by_module()
            for start in range(0, len(of_module), CHUNK)
        ]
        running = {}
        while running or waiting:
            while waiting and len(running) < self.workers:
                chunk = waiting.pop()
                process, pipe = self._start(chunk)
                running[process] = chunk, pipe
            process, status = os.wait()
            rest = self._collect(*running.pop(process), status)
            if rest:
                waiting.append(rest)
        return True

    def _by_module(self):
        modules = {}
        for mutant in self.mutants:
            modules.setdefault(mutant.module, []).append(mutant)
        return modules.values()

    def _start(self, chunk):
        """Fork a child that tries a chunk of mutants and writes one line for each."""
        read, write = os.pipe()
        process = os.fork()
        if process:
            os.close(write)
            return process, read
        try:  # the child must never return into the parent's code
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, 1)
            os.dup2(null, 2)
            module = chunk[0].module
            try_mutants(
                chunk,
                self.tests[module],
                self.cpu_limit_s[module],
                lambda killer: os.write(write, f"{killer}\n".encode()),
            )
        finally:
            os._exit(0)

    def _collect(self, chunk, pipe, status):
        """Take over what a child found. Returns the mutants that it did not get to."""
        with open(pipe, encoding="utf-8") as lines:
            killers = lines.read().splitlines()
        if os.WIFSIGNALED(status) or not killers:
            killers.append("the whole run: it ended or hung")
        for mutant, killer in zip(chunk, killers, strict=False):
            mutant.survived, mutant.killer = not killer, killer
        return chunk[len(killers) :]


def listed_as_equivalent():
    """The entries of equivalent.toml: key -> entry."""
    entries = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8")).get("mutant", [])
    return {tuple(entry[name] for name in ("module", "function", "before", "after")): entry for entry in entries}


def run(modules, workers):
    """Run every mutant of the modules. Returns (mutants, problems), the problems as text."""
    sys.path.insert(0, str(ROOT))
    os.environ["OMP_NUM_THREADS"] = "1"
    # A small process forks faster, and no plugin takes part here.
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    import pytest
    from hypothesis import Phase
    from hypothesis import settings as hypothesis_settings

    # Shrinking makes a failure readable, and nobody reads these.
    hypothesis_settings.register_profile("mutation", phases=[Phase.explicit, Phase.generate])
    hypothesis_settings.load_profile("mutation")

    mutants = []
    for module in modules:
        path = ROOT / "grpo" / f"{module.replace('.', '/')}.py"
        mutants += mutants_of(path.read_text(encoding="utf-8"), module)
    runner = Runner(mutants, workers)
    files = [str(ROOT / test) for test in dict.fromkeys(test for module in modules for test in tests_of(module))]
    options = ["-c", os.devnull, f"--rootdir={ROOT}", "-qq", "-s", "-p", "no:cacheprovider"]
    code = pytest.main([*options, *files], plugins=[runner])
    if runner.broken or any(mutant.survived is None for mutant in mutants):
        return mutants, [f"tests fail without any mutation (pytest exit code {int(code)})", *runner.broken]
    return mutants, []


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="*", help="all of them if none is given")
    parser.add_argument("--workers", type=int, default=min(2, os.cpu_count() or 1))
    options = parser.parse_args(arguments)
    modules = [*MODULES, *EXPRESSIONS] if not options.modules else []
    for name in options.modules:
        modules += EXPRESSIONS if name == "expressions" else [name]

    started = time.monotonic()
    mutants, problems = run(modules, options.workers)
    if problems:
        print(*problems, sep="\n")
        return 1

    listed = listed_as_equivalent()
    survivors = [mutant for mutant in mutants if mutant.survived]
    unlisted = [mutant for mutant in survivors if mutant.key not in listed]
    surviving = {mutant.key for mutant in survivors}
    stale = [
        key for key, entry in listed.items() if key[0] in modules and key not in surviving and "depends_on" not in entry
    ]

    for mutant in unlisted:
        print(f"\nSURVIVED grpo/{mutant.module.replace('.', '/')}.py, {mutant.function}", *mutant.diff, sep="\n")
    for key in stale:
        print("\nSTALE in equivalent.toml (no such survivor):", *key, sep="\n  ")

    print(f"\n{'module':<24} {'killed':>6} {'equivalent':>10} {'survived':>8} {'total':>6}")
    for module in [*modules, "all"]:
        of_module = [mutant for mutant in mutants if module in (mutant.module, "all")]
        count = Counter(
            "killed" if not mutant.survived else "equivalent" if mutant.key in listed else "survived"
            for mutant in of_module
        )
        counts = f"{count['killed']:>6} {count['equivalent']:>10} {count['survived']:>8} {len(of_module):>6}"
        print(f"{module:<24} {counts}")
    print(f"{time.monotonic() - started:.0f} s")
    return 1 if unlisted or stale else 0


if __name__ == "__main__":
    sys.exit(main())
