"""Runs of many seeds: learning, ablations with paired seeds, comparison, plain data."""

import json

import numpy as np
import pytest

from grpo.expressions import RewardWeights, ablate, default_settings, paired_difference, run_experiment

SEEDS = range(10)


@pytest.fixture(scope="module")
def runs():
    """policy -> arm -> Run: the standard settings and both ablations, same seeds."""
    found = {}
    for policy in ("tabular", "mlp"):
        standard = default_settings(policy)
        arms = {"standard": standard, **{name: ablate(standard, name) for name in ("no-kl", "no-group-norm")}}
        found[policy] = {
            name: run_experiment(policy, settings, SEEDS, evaluate_every=100) for name, settings in arms.items()
        }
    return found


@pytest.mark.parametrize("policy", ["tabular", "mlp"])
def test_training_beats_the_cold_start_on_every_seed(runs, policy):
    run = runs[policy]["standard"]
    assert (run.end.exact_success > run.start.exact_success + 0.1).all()
    assert (run.end.greedy_success > run.start.greedy_success).mean() >= 0.95
    assert run.start.greedy_success.mean() < 0.2 and run.start.exact_success.mean() == pytest.approx(0.078, abs=0.01)


@pytest.mark.parametrize("policy", ["tabular", "mlp"])
def test_without_kl_the_drift_is_larger(runs, policy):
    difference = paired_difference(runs[policy]["no-kl"].end.kl, runs[policy]["standard"].end.kl)
    assert difference.verdict() == "higher" and difference.share_above >= 0.9


@pytest.mark.parametrize("policy", ["tabular", "mlp"])
def test_without_group_normalisation_success_is_lower_at_equal_step(runs, policy):
    arms = runs[policy]
    difference = paired_difference(arms["no-group-norm"].end.exact_success, arms["standard"].end.exact_success)
    assert difference.verdict(margin=0.05) == "lower"


def test_runs_with_the_same_seeds_are_paired(runs):
    for arms in runs.values():
        for name in ("no-kl", "no-group-norm"):
            np.testing.assert_array_equal(arms[name].start.exact_success, arms["standard"].start.exact_success)


def test_more_inner_updates_work_and_clip():
    settings = default_settings("tabular", inner_updates=4, learning_rate=10.0, steps=100)
    run = run_experiment("tabular", settings, range(4))
    assert run.curves["clip_fraction"].max() > 0.0
    assert (run.end.exact_success > run.start.exact_success + 0.3).all()


def test_evaluations_on_the_way():
    calls = []
    settings = default_settings("mlp", steps=7)
    run = run_experiment("mlp", settings, [5], evaluate_every=3, on_step=lambda *call: calls.append(call[0]))
    assert calls == [3, 6] and run.curves["exact_success"].shape == (2, 1)
    assert run_experiment("mlp", settings, [5], evaluate_every=0).curves.names() == []


def test_plain_data_survives_json():
    run = run_experiment("mlp", default_settings("mlp", steps=2), [5, 6], RewardWeights(length=0.1))
    data = json.loads(json.dumps(run.to_dict(), allow_nan=False))
    assert data["settings"]["steps"] == 2 and data["reward_weights"]["length"] == 0.1 and data["seeds"] == [5, 6]
    assert np.shape(data["curves"]["exact_success"]) == (2, 2)
    np.testing.assert_allclose(data["end"]["exact_success"], run.end.exact_success, rtol=1e-4)


def test_bad_arguments():
    with pytest.raises(ValueError, match="policy is 'cnn': choose 'tabular' or 'mlp'"):
        default_settings("cnn")
    with pytest.raises(ValueError, match="ablation is 'no-clip': choose 'no-kl' or 'no-group-norm'"):
        ablate(default_settings("mlp"), "no-clip")
    with pytest.raises(ValueError, match="seeds is empty"):
        run_experiment("mlp", seeds=[])
