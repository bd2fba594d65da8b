"""The ablation studies: arms, comparison, and the stored results."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from grpo.expressions import default_settings, study
from grpo.expressions.studies import STUDIES, Arm, Study

FOLDER = Path(__file__).parents[2] / "data" / "studies"
SMALL = {"steps": 20}


@pytest.mark.parametrize("name", STUDIES)
def test_the_stored_results_belong_to_the_study(name):
    stored, declared = json.loads((FOLDER / f"{name}.json").read_text()), STUDIES[name]()
    assert list(stored["arms"]) == list(declared.arms)
    assert stored["margin"] == declared.margin == 0.05 and stored["question"] == declared.question
    assert len(stored["seeds"]) >= 20
    for arm_name, arm in declared.arms.items():
        row = stored["arms"][arm_name]
        assert row["settings"].items() >= arm.settings.items() - {("learning_rate", None)}
        assert row["reward_weights"].items() >= arm.weights.items()
        assert len(row["end"]["exact_success"]) == len(stored["seeds"])
        assert len(row["curves"]["step"]) == len(row["curves"]["kl"]["mean"])
    compared = {(row["arm"], row["baseline"]) for row in stored["comparisons"]}
    assert compared == set(declared.baselines.items())


@pytest.mark.parametrize(("name", "arm"), [("no_kl", "beta 0, token mean"), ("length_term", "weight 0.1, plain, std")])
def test_a_stored_arm_can_be_run_again(name, arm):
    stored = json.loads((FOLDER / f"{name}.json").read_text())
    run = study.run_arm(STUDIES[name]().arms[arm], stored["seeds"][:4], {})
    for signal in ("exact_success", "greedy_success", "kl"):
        expected = stored["arms"][arm]["end"][signal][:4]
        np.testing.assert_allclose(getattr(run.end, signal), expected, rtol=1e-3, atol=1e-4)


def test_the_stored_generalisation_results():
    stored = json.loads((FOLDER / "countdown.json").read_text())
    numeric, control = (stored["arms"][f"{inputs}, held-out prompts"] for inputs in ("numeric", "one-hot"))
    assert len(numeric["seeds"]) >= 20 and np.shape(numeric["heldout_greedy"]) == (11, len(numeric["seeds"]))
    assert min(numeric["heldout_greedy"][-1]) > 0.3 + max(control["heldout_greedy"][-1])


def tiny(monkeypatch, arms, baselines, **more):
    monkeypatch.setitem(study.STUDIES, "tiny", lambda: Study("?", arms, baselines, **more))


def test_a_study_of_two_arms(monkeypatch):
    seen = []
    tiny(monkeypatch, {"a": Arm(SMALL), "b": Arm(SMALL), "c": Arm({**SMALL, "kl_coef": 0.0})}, {"b": "a", "c": "a"})
    data = study.run_study("tiny", range(3), lambda name, run: seen.append(name))
    json.dumps(data, allow_nan=False)
    assert seen == ["a", "b", "c"] and data["arms"]["a"]["end"] == data["arms"]["b"]["end"]
    assert [row["verdict"] for row in data["comparisons"][:4]] == ["equal", "equal", "undecided", "undecided"]
    assert data["arms"]["a"]["curves"]["step"] == [10, 20]


def test_a_second_stage_and_stalled_seeds(monkeypatch):
    monkeypatch.setattr(study, "SECOND_STAGE", 10)
    arms = {"as before": Arm(SMALL, then={}), "larger": Arm(SMALL, then={"group_size": 32})}
    tiny(monkeypatch, arms, {"larger": "as before"}, stalled_below=0.5)
    data = study.run_study("tiny", range(3))
    assert data["arms"]["larger"]["curves"]["step"] == [10, 20, 30] and data["comparisons"][0]["n"] == 3
    first, second = (data["arms"][name]["curves"]["exact_success"]["mean"] for name in arms)
    assert first[:2] == second[:2] and first[2] != second[2]
    tiny(monkeypatch, arms, {"larger": "as before"}, stalled_below=0.0)
    row = study.run_study("tiny", range(3))["comparisons"][0]
    assert row == {**row, "n": 0, "verdict": "undecided"}


def test_two_stages_are_one_run():
    whole = study.run_arm(Arm({"steps": 40}), range(2), {})
    monkey = replace(default_settings("mlp"), steps=20)
    halves = study.run_experiment("mlp", monkey, range(2), evaluate_every=10, then=monkey)
    np.testing.assert_allclose(halves.end.exact_success, whole.end.exact_success, rtol=1e-12)


def test_a_failed_first_batch_teaches_nothing_to_a_group():
    run = study.run_arm(Arm({"steps": 20}, first_batch_fails=True), range(2), {})
    advantages = study._after_a_failed_batch("group")
    rewards = np.array([[[0.1, 1.1]]])
    assert not advantages(rewards).any() and advantages(rewards).any()
    assert len(run.curves["reward"]) == 2


def test_matched_rates_lengthen_the_steps_without_std():
    rates = study.matched_rates(range(2))
    assert rates["group"] == 1.0 and rates["group_no_std"] > 1.5
    run = study.run_arm(Arm({"advantage": "global", **SMALL}, rate="matched"), range(1), {"global": 2.0})
    assert run.settings.learning_rate == pytest.approx(0.6)


def test_destroyed_runs_are_counted(monkeypatch):
    run = study.run_arm(Arm(SMALL), range(2), {})
    assert not study.destroyed(run).any()
    run.curves["exact_success"][:] = 0.0
    run.curves._rows["exact_success"][0][1] = 1.0
    assert study.destroyed(run).tolist() == [False, True]


def test_the_command_line(monkeypatch, tmp_path, capsys):
    tiny(monkeypatch, {"a": Arm(SMALL), "b": Arm(SMALL)}, {"b": "a"})
    study.main(["tiny", "--seeds", "2", "--folder", str(tmp_path / "new")])
    assert json.loads((tmp_path / "new" / "tiny.json").read_text())["seeds"] == [0, 1]
    assert "a: exact" in capsys.readouterr().out
    for arguments, message in ((["nothing"], "no study is called 'nothing'"), (["tiny", "--seeds", "1"], "at least 2")):
        with pytest.raises(SystemExit) as error:
            study.main(arguments)
        assert error.value.code == 2 and message in capsys.readouterr().err
    with pytest.raises(ValueError, match="study is 'nothing'"):
        study.run_study("nothing")
