"""The recorded runs that chapter 07 reads: complete, made as their README says, and diagnosed as the chapter tells."""

import json
import re
import shlex

import pytest

from grader.paths import ROOT
from grpo.qwen3.command import default_settings
from grpo.qwen3.health import SIGNALS, diagnose, read_signals, sicknesses
from grpo.qwen3.settings import GRPOSettings

FOLDER = ROOT / "data" / "runs"
# Step at which each warning appears first.
FOUND = {
    "healthy": {},
    "high_rate": {"kl_runaway": 2, "no_variance": 6, "reward_collapse": 15},
    "cut_off": {"truncated": 1, "no_variance": 2},
    "no_penalty": {"no_variance": 6, "reward_collapse": 15},
    "many_updates": {"mostly_clipped": 1},
}
OPTIONS = {
    "--steps": ("steps", int),
    "--learning-rate": ("learning_rate", float),
    "--kl-coef": ("kl_coef", float),
    "--max-new-tokens": ("max_new_tokens", int),
    "--level": ("level", str),
    "--inner-updates": ("inner_updates", int),
    "--checkpoint-every": ("checkpoint_every", int),
}


def about(name):
    return json.loads((FOLDER / name / "run.json").read_text(encoding="utf-8"))


def history(name):
    return read_signals(FOLDER / name / "metrics.jsonl")


def commands():
    """{folder: words of its command in the README}."""
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    found = [shlex.split(line) for line in re.findall(r"`grpo train qwen3 (--out .*?)`", text)]
    return {words[1]: words[2:] for words in found}


def test_every_folder_has_its_command():
    assert set(commands()) == {path.name for path in FOLDER.iterdir() if path.is_dir()} == set(FOUND)


@pytest.mark.parametrize("name", FOUND)
def test_the_settings_are_those_of_the_command(name):
    words = commands()[name]
    given = dict(zip(words[::2], words[1::2], strict=True))
    assert (given.pop("--evaluate", None) == "0") == (about(name)["notes"]["before"] is None)
    changes = {OPTIONS[flag][0]: OPTIONS[flag][1](value) for flag, value in given.items()}
    assert GRPOSettings.from_dict(about(name)["settings"]) == default_settings("tiny", **changes)
    assert about(name)["notes"]["model"] == "tiny" and about(name)["parameters"] == 399_104


@pytest.mark.parametrize("name", FOUND)
def test_the_log_is_complete(name):
    rows = history(name)
    assert [row["step"] for row in rows] == list(range(1, about(name)["settings"]["steps"] + 1))
    assert all(set(row) == set(SIGNALS) for row in rows)


def test_all_runs_begin_alike():
    """The same start and the same first prompts: only what was set differs."""
    first = [history(name)[0] for name in FOUND if name != "cut_off"]
    assert len({(row["reward"], row["entropy"], row["tokens"]) for row in first}) == 1
    assert len({json.dumps(about(name)["notes"]["cold_start"]) for name in FOUND}) == 1


@pytest.mark.parametrize("name", FOUND)
def test_the_warnings_come_when_the_chapter_says(name):
    rows, first = history(name), {}
    for steps in range(1, len(rows) + 1):
        for sickness in sicknesses(rows[:steps]):
            first.setdefault(sickness, steps)
    assert first == FOUND[name]
    if first:
        assert diagnose(rows[: min(first.values())])


def test_the_healthy_run_has_learned():
    rows, outcome = history("healthy"), json.loads((FOLDER / "healthy" / "evaluation.json").read_text(encoding="utf-8"))
    assert sum(row["reward"] for row in rows[-10:]) > 2 * sum(row["reward"] for row in rows[:10])
    plain = outcome["rows"][0]
    assert plain["problems"] == 240 and plain["control"]["votes"] == 1
    assert plain["accuracy"] > about("healthy")["notes"]["before"]["accuracy"] + 0.3


def test_no_file_names_a_place_on_somebodys_machine():
    for path in FOLDER.rglob("*.json*"):
        assert not re.search(r"(?<![\w.])/(home|root|tmp|work|Users|private)/", path.read_text(encoding="utf-8")), path
