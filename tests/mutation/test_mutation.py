"""No small change of the numpy library, or of the expression game and its training, goes unnoticed by its tests."""

import ast
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

HERE = Path(__file__).parent
specification = importlib.util.spec_from_file_location("mutate", HERE / "mutate.py")
mutate = sys.modules["mutate"] = importlib.util.module_from_spec(specification)
specification.loader.exec_module(mutate)

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="mutants run in forked children")


def changes(source):
    return {mutant.after for mutant in mutate.mutants_of(source, "module")}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("return a < b", {"return a <= b", "return a >= b", "return None"}),
        ("return a == b", {"return a != b"}),
        ("return a is None", {"return a is not None"}),
        ("return a - b", {"return a + b", "return a", "return b"}),
        ("return a and b", {"return a or b", "return a", "return b"}),
        ("return not a", {"return a"}),
        ("return -a", {"return a"}),
        ("return 2", {"return 3", "return 1", "return 4"}),
        ("return True", {"return False"}),
        ("return np.std(a, axis=1, ddof=b)", {"return np.std(a, ddof=b)", "return np.std(a, axis=1)"}),
        ("return np.minimum(a, b)", {"return np.maximum(a, b)", "return np.minimum(a)"}),
        ("return a.mean()", {"return a.sum()", "return a"}),
        ("return np.exp(a)", {"return np.expm1(a)", "return a"}),
        ("return f(a, b)", {"return f(b, a)", "return f(a)"}),
        ("return a[1:]", {"return a[:]", "return a[2:]", "return a[0:]", "return a"}),
        ("a += b", {"a -= b", "pass"}),
        ("g(a)", {"pass", "a"}),
        ("if a: b()", {"pass", "if True:", "if False:"}),
        ("for x in a: b(x)", {"pass"}),
    ],
)
def test_operators(line, expected):
    assert expected <= changes(f"def f(a, b):\n    {line}\n    b()\n")


def test_defaults_and_constants_are_mutated():
    assert {"def f(a=3):", "def f(a=1):", "def f(a=4):"} <= changes("def f(a=2):\n    return a")
    assert {"LIMIT = 9", "LIMIT = 7"} <= changes("LIMIT = 8")


def test_texts_are_left_alone():
    source = 'def f(a):\n    """Text."""\n    raise ValueError(f"{a} is 1", a + 1, "text")\n'
    assert changes(source) == {"pass"}
    assert changes('def f(a):\n    return f"{a + 1} text"\n') == {"return None", "pass"}


def test_installed_changes_the_function_for_everybody_and_puts_it_back():
    namespace = {}
    exec("LIMIT = 1\ndef f(a=1):\n    return a + LIMIT", namespace)
    module = SimpleNamespace(**namespace)
    module.__name__ = "module"
    function = module.f
    with mutate.installed(module, ast.parse("def f(a=5):\n    return a - LIMIT").body[0]):
        assert function() == 4
    with mutate.installed(module, ast.parse("LIMIT = 7").body[0]):
        assert module.LIMIT == 7
    assert (function(), module.LIMIT) == (2, 1)


def test_a_function_with_a_cache_and_constants_made_together_are_exchanged():
    module = ModuleType("module")
    source = "from functools import lru_cache\n@lru_cache(maxsize=9)\ndef f(a):\n    return a + 1\nX, Y = 1, 2\n"
    exec(source, vars(module))
    assert module.f(1) == 2
    with mutate.installed(module, ast.parse("@lru_cache(maxsize=9)\ndef f(a):\n    return a - 1").body[0]):
        assert module.f(1) == 0
    with mutate.installed(module, ast.parse("X, Y = 3, 4").body[0]):
        assert (module.X, module.Y) == (3, 4)
    assert (module.f(1), module.X, module.Y) == (2, 1, 2)


def test_methods_and_defaults_of_a_class_are_mutated():
    source = "class A(B):\n    x: int = 2\n    y: int\n    def f(self, a: c[1]=0) -> d[2]:\n        return self.x + a\n"
    mutants = mutate.mutants_of(source, "module")
    assert {mutant.function for mutant in mutants} == {"A.x", "A.f"}
    assert {"x: int = 3", "x: int = 1", "x: int = 4", "return self.x - a"} <= changes(source)
    assert not any("c[1]" not in mutant.after for mutant in mutants if mutant.after.startswith("def"))


def test_installed_changes_a_class_for_everybody_and_puts_it_back():
    module = ModuleType("module")
    exec(
        "from dataclasses import dataclass\n"
        "class Base:\n    def f(self):\n        return 1\n"
        "class A(Base):\n    def f(self):\n        return super().f() + 1\n"
        "    @property\n    def g(self):\n        return 5\n"
        "@dataclass(frozen=True)\nclass D:\n    x: int\n    y: int = 2\n    z: int = 3\n",
        vars(module),
    )
    one, before = module.A(), dict(vars(module.A))

    def changed(source, function):
        return mutate.installed(module, ast.parse(source).body[0], function)

    with changed("def f(self):\n    return super().f() - 1", "A.f"):
        assert one.f() == module.A().f() == 0
    with changed("@property\ndef g(self):\n    return 6", "A.g"):
        assert one.g == 6
    with changed("y: int = 7", "D.y"):
        assert (module.D(1).y, module.D(1).z) == (7, 3)
    with changed("def f(self):\n    type(self).left_behind = type(self).g = 1", "A.f"):
        one.f()
        assert module.A.left_behind == 1
    assert (one.f(), one.g, module.D(1).y) == (2, 5, 2)
    assert dict(vars(module.A)) == before


@needs_fork
def test_a_mutant_that_no_test_notices_is_reported(tmp_path):
    for folder in ("grpo", "tests/grpo"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "grpo" / "__init__.py").write_text("")
    (tmp_path / "grpo" / "sums.py").write_text(
        "def add(a, b):\n    return a + b\n\ndef spin(n):\n    while n > 0:\n        n = n - 1\n    return n\n"
    )
    (tmp_path / "tests" / "grpo" / "test_sums.py").write_text(
        "from grpo.sums import add, spin\n\ndef test_add():\n    assert add(2, 2) == 4\n    assert add(2, 0) == 2\n"
    )
    script = tmp_path / "tests" / "mutation" / "mutate.py"
    script.parent.mkdir()
    script.write_bytes((HERE / "mutate.py").read_bytes())
    listed = '[[mutant]]\nmodule = "sums"\nfunction = "spin"\nbefore = "x"\nafter = "y"\nreason = "gone"\n'
    script.with_name("equivalent.toml").write_text(listed)
    done = subprocess.run(
        [sys.executable, str(script), "sums"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "SURVIVED grpo/sums.py, spin" in done.stdout
    assert "-     return n\n+     return None" in done.stdout
    assert "STALE" in done.stdout


@needs_fork
def test_every_mutant_of_the_library_is_noticed():
    done = subprocess.run(
        [sys.executable, str(HERE / "mutate.py")],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
