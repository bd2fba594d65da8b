"""What the instructors' page and the files beside it promise: commands and options that there are."""

import os
import re
import shutil
import subprocess

import pytest
import typer.main
import yaml

from grader import cli
from grader.paths import ROOT

DOCS = ROOT / "docs"
FILES = ["instructors.md", "classroom.yml", "gradescope/run_autograder", "gradescope/README.md", "Containerfile"]
COMMAND = re.compile(r"(?:grader|\$grader|grpo-course) (grade|export \w+)((?: [^\n`]*)?)")


def options_of(words):
    command = typer.main.get_command(cli.app)
    for word in words.split():
        command = command.commands[word]
    return {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}


@pytest.mark.parametrize("name", FILES)
def test_every_command_that_is_written_there_exists(name):
    text = (DOCS / name).read_text(encoding="utf-8").replace('", "', " ").replace('["', "grader ").replace('"]', "")
    found = COMMAND.findall(text)
    assert found
    for command, rest in found:
        assert set(re.findall(r"(?<![\w-])--[a-z-]+", rest)) <= options_of(command), (command, rest)


def test_options_named_in_the_text_exist():
    text = (DOCS / "instructors.md").read_text(encoding="utf-8")
    every = (
        options_of("grade")
        | options_of("export canvas")
        | options_of("export moodle")
        | options_of("export gradescope")
    )
    foreign = {
        "--privileged",
        "--rm",
        "--init",
        "--security-opt",
        "--volume",
        "--userns",
        "--user",
        "--target",
        "--build-arg",
    }
    named = {option for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*", text)} - foreign
    assert named <= every and "--names" in named


def test_the_workflow_reads_only_and_uploads_only_the_report():
    flow = yaml.safe_load((DOCS / "classroom.yml").read_text(encoding="utf-8"))
    assert flow["permissions"] == {"contents": "read"} and "secrets" not in str(flow)
    steps = flow["jobs"]["grade"]["steps"]
    assert [s["with"]["path"] for s in steps if "upload-artifact" in s.get("uses", "")] == ["report"]
    checkouts = [s["with"] for s in steps if "checkout" in s.get("uses", "")]
    assert all(w["persist-credentials"] is False for w in checkouts) and checkouts[0]["path"] == "submitted/student"
    assert "--seed" not in str(flow), "a known seed tells the inputs"


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
@pytest.mark.parametrize("name", ["setup.sh", "run_autograder"])
def test_the_scripts_for_gradescope_are_scripts(name):
    path = DOCS / "gradescope" / name
    assert subprocess.run(["bash", "-n", path], capture_output=True).returncode == 0
    assert path.stat().st_mode & 0o111 and "course" in path.read_text(encoding="utf-8")


GRADER = """#!/usr/bin/env bash
echo "$*" >> said
case "$1" in
  grade) echo '{"score": 99}' > results/results.json ;; # as a student's code might
  export) [ -e results/results.json ] && echo "a result was there already" >> said; exit 1 ;;
esac
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_gradescope_gets_no_result_but_the_exports(tmp_path):
    """Where the export writes none there is none: no older one, and none that something else has written."""
    grader = tmp_path / "source" / "course" / ".venv" / "bin" / "grader"
    for folder in (grader.parent, tmp_path / "submission", tmp_path / "results"):
        folder.mkdir(parents=True)
    (tmp_path / "submission" / "x.ipynb").write_text("{}")
    (tmp_path / "results" / "results.json").write_text("old")
    grader.write_text(GRADER)
    grader.chmod(0o755)
    done = subprocess.run(
        ["bash", DOCS / "gradescope" / "run_autograder"], env={**os.environ, "AUTOGRADER": str(tmp_path)}
    )
    grade, export = (tmp_path / "said").read_text().splitlines()
    assert grade.startswith("grade work/submitted --chapter 02_advantages_and_logprobs --work work --out work/report")
    assert export == (
        "export gradescope --chapter 02_advantages_and_logprobs --report work/report --student student"
        " --out results/results.json"
    )
    assert done.returncode == 1 and not (tmp_path / "results" / "results.json").exists()
    assert (tmp_path / "work" / "submitted" / "student" / "x.ipynb").exists()
