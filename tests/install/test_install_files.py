"""The files around the code: Makefile, .ci/run, the workflow, constraints, licence."""

import os
import re
import shutil
import subprocess
import sys
import tomllib

import pytest

from grader import bootstrap
from grader.paths import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
MAKE = shutil.which("make")


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.skipif(MAKE is None, reason="no make on this machine")
@pytest.mark.parametrize(
    "arguments, command",
    [
        (["lab"], "lab"),
        (["lab", "EXTRAS=qwen3"], 'lab --extras "qwen3"'),
        (["test", "ARGS=-k loss"], "test -k loss"),
        (["grade"], "grade grading/submitted --out grading/report"),
        (["release"], "release"),
        (["bench"], "bench"),
        (["mistakes"], "mistakes"),
        ([], "help"),
    ],
)
def test_each_target_is_one_command(arguments, command):
    # `make test ARGS=...`, which may be what runs this, hands its variables down.
    env = {
        key: value for key, value in os.environ.items() if key not in ("ARGS", "EXTRAS", "PYTHON") and "MAKE" not in key
    }
    done = subprocess.run([MAKE, "-n", *arguments], cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    lines = [" ".join(line.split()) for line in done.stdout.splitlines() if "make[" not in line]
    assert lines == [f"python3 -m grader {command}"]


def test_every_target_is_named_in_the_help():
    targets = set(re.findall(r"^([a-z]+):", read("Makefile"), re.MULTILINE)) - {"help"}
    assert targets == set(re.findall(r"make ([a-z]+) ", bootstrap.HELP)) - {"lab EXTRAS"}


def test_python_versions_are_the_same_everywhere():
    (low, high) = bootstrap.OLDEST, bootstrap.NEWEST
    assert PROJECT["requires-python"] == f">={low[0]}.{low[1]},<{high[0]}.{high[1] + 1}"
    assert f"Python {low[0]}.{low[1]} to {high[0]}.{high[1]}" in read("grader/__main__.py")
    yaml = pytest.importorskip("yaml")
    matrix = yaml.safe_load(read(".github/workflows/test.yml"))["jobs"]["test"]["strategy"]["matrix"]
    assert matrix["python"] == [f"3.{minor}" for minor in range(low[1], high[1] + 1)]
    assert len(matrix["system"]) == 3


def test_the_workflow_can_only_read_and_runs_the_same_commands():
    yaml = pytest.importorskip("yaml")
    workflow = yaml.safe_load(read(".github/workflows/test.yml"))
    assert workflow["permissions"] == {"contents": "read"}
    commands = [step["run"] for step in workflow["jobs"]["test"]["steps"] if "run" in step]
    assert any(c.startswith("make test") for c in commands) and "python -m grader test" in commands
    assert re.search(r"^make test$", read(".ci/run"), re.MULTILINE)


@pytest.mark.skipif(shutil.which("bash") is None or sys.platform == "win32", reason="no bash on this machine")
def test_ci_run_is_a_script_that_bash_can_read():
    assert (ROOT / ".ci/run").stat().st_mode & 0o100
    assert subprocess.run(["bash", "-n", str(ROOT / ".ci/run")]).returncode == 0


def test_constraints_pin_all_that_is_asked_for_and_nothing_of_one_machine():
    lines = [line for line in read("constraints.txt").splitlines() if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][0-9A-Za-z.]*", line) for line in lines)  # no +cpu, no paths, no ;
    pinned = {bootstrap.distribution(line).lower().replace("_", "-"): line.split("==")[1] for line in lines}
    assert len(pinned) == len(lines)
    assert not [name for name in pinned if re.search(r"nvidia|cuda|triton|grpo", name)]
    for requirement in [r for group in PROJECT["optional-dependencies"].values() for r in group] + PROJECT[
        "dependencies"
    ]:
        name = bootstrap.distribution(requirement)
        if name != PROJECT["name"]:
            assert within(pinned[name], requirement[len(name) :]), requirement
    assert pinned["torch"] == "2.13.0"


def within(version, ranges):
    def key(text):
        return [int(part) for part in re.findall(r"\d+", text)] + [0] * 4

    compare = {">=": lambda a, b: a >= b, "<": lambda a, b: a < b}
    found = re.findall(r"(>=|<)([\d.]+)", ranges)
    assert len(found) == len(ranges.split(","))
    return all(compare[sign](key(version)[:4], key(bound)[:4]) for sign, bound in found)


def test_the_licence_is_mit_for_everything():
    text = read("LICENSE")
    assert text.startswith("MIT License") and "Copyright (c) 2026 the GRPO from scratch contributors" in text
    assert "code, notebooks, text" in text and "WITHOUT WARRANTY OF ANY KIND" in text
