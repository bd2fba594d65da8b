"""The command line of a container. No container is started here: neither podman nor docker belongs to the tests."""

import subprocess
import sys

import pytest

from grader.judge import sandbox
from grader.judge.container import container_command
from grader.judge.sandbox import HOME, Limits, NoSandbox, environment, wrap
from grader.paths import ROOT

LIMITS = Limits(cpu_seconds=7, box_memory=123, disk=11, file=5, open_files=9, processes=13)


def made(tmp_path, template="podman --remote run --pull=never course:1", argv=(sys.executable, "-m", "kernel")):
    return container_command(template, argv, tmp_path, LIMITS, environment())


def test_what_shuts_it_in_stands_between_run_and_the_image(tmp_path):
    command = made(tmp_path)
    start, end = command.index("run"), command.index("course:1")
    assert command[:start] == ["podman", "--remote"] and command[end + 1 :] == ["python", "-m", "kernel"]
    inside = command[start + 1 : end]
    assert inside[-1] == "--pull=never"
    for option in ("--rm", "--network=none", "--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges"):
        assert option in inside
    for option in ("--memory=123", "--memory-swap=123", "--pids-limit=13", "--ulimit=cpu=7", "--ulimit=fsize=5"):
        assert option in inside
    assert f"--user={tmp_path.stat().st_uid}:{tmp_path.stat().st_gid}" in inside


def test_only_the_sockets_folder_can_be_written_and_only_the_course_is_seen(tmp_path):
    volumes = [word.removeprefix("--volume=") for word in made(tmp_path) if word.startswith("--volume=")]
    assert volumes[0] == f"{tmp_path}:{tmp_path}"
    assert volumes[1:] == [f"{ROOT / name}:{ROOT / name}:ro" for name in ("grpo", "grader", "data")]
    assert f"--tmpfs={HOME}:rw,mode=1777,size=11" in made(tmp_path)


def test_the_environment_is_that_of_the_box(tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "abc")
    words = made(tmp_path)
    assert f"--env=HOME={HOME}" in words and f"--env=PYTHONPATH={ROOT}" in words
    assert not any("SECRET_TOKEN" in word or word.startswith("--env=PATH=") for word in words)


def test_another_program_than_this_python_is_left_as_it_is(tmp_path):
    assert made(tmp_path, argv=("true", "x"))[-2:] == ["true", "x"]


@pytest.mark.parametrize("template", ["podman", "podman run", "podman run --rm", "docker exec x", ""])
def test_what_is_no_container_command_is_refused(tmp_path, template):
    with pytest.raises(ValueError, match=r"write it like `podman run IMAGE`"):
        made(tmp_path, template)


@pytest.mark.parametrize(
    "prints, words",
    [
        ("in the box\nand all is there", ""),
        ("in the box", "image lacks what the kernel needs"),
        ("in the box\nand all is there\nsolutions in /course/solutions", "the solutions in /course/solutions"),
        ("", "the container does not start"),
    ],
)
def test_it_is_tried_out_before_it_is_used(tmp_path, prints, words):
    """A program that stands for podman: it prints what a trial in a container would."""
    program = tmp_path / "podman"
    program.write_text(f"#!/bin/sh\nprintf '{prints}'\n".replace("\nand", "\\nand").replace("\nsol", "\\nsol"))
    program.chmod(0o755)
    assert words in sandbox.why_not(f"{program} run course")
    if words:
        with pytest.raises(NoSandbox, match=words):
            wrap(["true"], tmp_path, container=f"{program} run course")
    else:
        assert sandbox.why_not(f"{program} run course") == ""
        assert wrap(["true"], tmp_path, container=f"{program} run course")[0] == str(program)


def test_a_program_that_is_not_there_is_named():
    assert "no-such-program" in sandbox.why_not("no-such-program run course")


@pytest.mark.parametrize("where", ["", "venv", None])
def test_an_image_with_solutions_tells_on_itself(tmp_path, monkeypatch, capsys, where):
    """The words that the trial runs inside: the environment's folder or the one that it lies in may have solutions."""
    (tmp_path / "venv").mkdir()
    if where is not None:
        (tmp_path / where / "solutions").mkdir()
    monkeypatch.setattr("sys.prefix", str(tmp_path / "venv"))
    exec(sandbox.TELL_SOLUTIONS, {})
    told = f"solutions in {tmp_path / where / 'solutions'}\n" if where is not None else ""
    assert capsys.readouterr().out == told


@pytest.mark.parametrize(
    "script, words",
    [
        ("echo told >&2; echo printed; exit 3", "(told)"),
        ("exit 3", "(exit status 3)"),
        ("echo in the box; echo first >&2; echo last >&2", "needs (last)"),
        ('case "$*" in *solutions*) echo "solutions in here";; esac', "the solutions in here"),
    ],
)
def test_what_a_container_says_of_itself_is_told(tmp_path, script, words):
    program = tmp_path / "podman"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    assert words in sandbox.why_not(f"{program} run course")


def test_a_container_that_never_starts_is_said(monkeypatch):
    def never(*a, **k):
        raise subprocess.TimeoutExpired("podman", 300)

    monkeypatch.setattr(sandbox.subprocess, "run", never)
    assert "does not work here" in sandbox.why_not("podman run never")
    assert "write it like `podman run IMAGE`" in sandbox.why_not("podman start never")
