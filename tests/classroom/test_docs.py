"""What the instructors' page and the files beside it promise: commands and options that there are."""

import re
import shutil
import subprocess

import pytest
import typer.main
import yaml

from grader import cli
from grader.paths import ROOT

DOCS = ROOT / "docs"
FILES = ["instructors.md", "classroom.yml", "gradescope/run_autograder", "Containerfile"]
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
    foreign = {"--privileged", "--rm", "--init", "--security-opt", "--volume", "--userns"}
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
