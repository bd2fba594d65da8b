"""The workflow that runs chapter 07 on a GPU, as far as it can be checked without one."""

import re
import shlex

import nbformat
import pytest

from grader.paths import ROOT, SOLUTIONS, notebook_path

yaml = pytest.importorskip("yaml")
CHAPTER = "07_qwen3_on_a_gpu"


@pytest.fixture(scope="module")
def workflow():
    return yaml.safe_load((ROOT / ".github/workflows/gpu.yml").read_text(encoding="utf-8"))


def started_by(workflow):
    return workflow[True]  # `on` is a boolean in YAML 1.1


def commands(workflow):
    (job,) = workflow["jobs"].values()
    return [step["run"] for step in job["steps"] if "run" in step]


def papermill(workflow):
    """The words of the papermill command, continuation lines joined."""
    (command,) = [command for command in commands(workflow) if "bin/papermill" in command]
    (line,) = [line for line in command.replace("\\\n", " ").splitlines() if "bin/papermill" in line]
    return shlex.split(line)


def test_it_is_started_by_hand_only_and_can_only_read(workflow):
    assert list(started_by(workflow)) == ["workflow_dispatch"]
    assert workflow["permissions"] == {"contents": "read"}
    (job,) = workflow["jobs"].values()
    assert job["steps"][0]["with"]["persist-credentials"] is False


def test_the_runner_is_an_input(workflow):
    inputs = started_by(workflow)["workflow_dispatch"]["inputs"]
    (job,) = workflow["jobs"].values()
    assert inputs["runner"]["required"] is True and job["runs-on"] == "${{ inputs.runner }}"
    assert inputs["model"]["default"] == "Qwen/Qwen3-0.6B-Base"


def test_no_input_is_pasted_into_a_command(workflow):
    assert not [command for command in commands(workflow) if "${{" in command]
    (job,) = workflow["jobs"].values()
    used = set(re.findall(r"inputs\.(\w+)", str(job)))
    assert used == set(started_by(workflow)["workflow_dispatch"]["inputs"])


def test_papermill_sets_parameters_that_the_chapter_has(workflow):
    words = papermill(workflow)
    (job,) = workflow["jobs"].values()
    source = words[1].replace("$CHAPTER", job["env"]["CHAPTER"])
    assert ROOT / source == notebook_path(SOLUTIONS, CHAPTER)
    notebook = nbformat.read(ROOT / source, as_version=4)
    (cell,) = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", [])]
    given = dict(re.findall(r"^([A-Z_]+) = (\S+)", cell.source, re.MULTILINE))
    asked = {words[at + 1]: word for at, word in enumerate(words) if word in ("-p", "-r")}
    assert set(asked) == {"MODEL", "STEPS", "MEMORY"} <= set(given)
    # -r leaves text as it is; -p makes a number of "50".
    assert {name for name, flag in asked.items() if flag == "-p"} == {"STEPS"} and given["STEPS"] == "0"
    assert words[words.index("--cwd") + 1] == "$CHAPTER"


def test_the_executed_notebook_is_kept_even_after_a_failure(workflow):
    (job,) = workflow["jobs"].values()
    (step,) = [step for step in job["steps"] if step.get("uses", "").startswith("actions/upload-artifact")]
    assert step["if"] == "always()" and papermill(workflow)[2].startswith(step["with"]["path"] + "/")
