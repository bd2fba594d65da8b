"""`grpo`: options, messages, files; and the benchmarks behind it."""

import json
import random
import re
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import grpo.cli
from grpo import group_relative_advantage
from grpo.expressions import MLPPolicy, TabularPolicy, bench, one_hot_features, per_token_policy
from grpo.expressions.game import PREFIXES, TARGETS
from grpo.expressions.per_token import loss_and_gradient, sample_groups
from grpo.expressions.pure_python import PurePythonMLP, PurePythonTabular, iteration, loss_gradient
from grpo.expressions.verifier import group_rewards


def call(*arguments):
    result = CliRunner().invoke(grpo.cli.app, list(arguments))
    return result.exit_code, re.sub(r"[\s│]+", " ", result.output)


SMALL = ("--steps", "3", "--seeds", "2")


@pytest.mark.parametrize("policy", ["tabular", "mlp"])
def test_the_default_run_is_followed_by_both_ablations(policy):
    status, output = call("train", policy, *SMALL)
    assert status == 0
    for text in ("standard: 2 seeds, 3 steps", "no-kl: 2 seeds", "no-group-norm: 2 seeds", "Against standard"):
        assert text in output
    for signal in ("exact success", "greedy success", "zero-variance share", "entropy", "KL", "clip fraction"):
        assert signal in output


@pytest.mark.parametrize(
    ("ablation", "changed"), [("no-kl", {"kl_coef": 0.0}), ("no-group-norm", {"advantage": "running_mean"})]
)
def test_one_ablation_alone(ablation, changed, tmp_path):
    file = tmp_path / "run.json"
    status, output = call("train", "mlp", "--ablation", ablation, *SMALL, "--json", str(file))
    assert status == 0 and "Against" not in output
    data = json.loads(file.read_text())
    assert list(data) == [ablation]
    assert data[ablation]["settings"].items() >= changed.items()


def test_every_option_reaches_the_run(tmp_path):
    file = tmp_path / "run.json"
    options = "--first-seed 7 --inner-updates 2 --group-size 4 --learning-rate 0.5 --kl-coef 0.1 --token-average sum"
    status, _ = call("train", "mlp", *SMALL, *options.split(), "--json", str(file), "--plot", str(tmp_path / "run.png"))
    assert status == 0 and (tmp_path / "run.png").stat().st_size > 10_000
    data = json.loads(file.read_text())
    assert list(data) == ["standard", "no-kl", "no-group-norm"]
    expected = {"inner_updates": 2, "group_size": 4, "learning_rate": 0.5, "kl_coef": 0.1, "token_average": "sum"}
    assert data["standard"]["settings"].items() >= {"steps": 3, **expected}.items()
    assert data["standard"]["seeds"] == [7, 8] and np.shape(data["no-kl"]["curves"]["kl"]) == (3, 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "transformer"], "No such command 'transformer'"),
        (["train", "mlp", "--ablation", "no-clip"], "'no-clip' is not one of 'no-kl', 'no-group-norm'"),
        (["train", "mlp", "--steps", "0"], "--steps"),
        (["train", "mlp", "--seeds", "0"], "--seeds"),
        (["train", "mlp", "--seeds", "many"], "--seeds"),
        (["train", "mlp", "--inner-updates", "-1"], "--inner-updates"),
        (["train", "mlp", "--group-size", "1"], "--group-size"),
        (["train", "mlp", "--learning-rate", "0"], "learning_rate is 0.0"),
        (["train", "mlp", "--learning-rate", "nan"], "learning_rate is nan"),
        (["train", "mlp", "--kl-coef", "-1"], "--kl-coef"),
        (["train", "mlp", "--token-average", "max"], "token_average is 'max': choose 'mean', 'sum'"),
        (["train", "mlp", "--json", "no_such_folder/run.json"], "the folder no_such_folder does not exist"),
        (["train", "mlp", "--plot", "run.xyz"], "the name must end in .png, .svg, .pdf"),
        (["train", "mlp", "--unknown"], "No such option: --unknown"),
        (["bench", "nothing"], "no benchmark is called 'nothing'; there are: expressions"),
        (["nothing"], "No such command 'nothing'"),
    ],
)
def test_bad_arguments_get_a_message_and_status_2(arguments, message):
    status, output = call(*arguments)
    assert status == 2
    assert message in output


def test_help_stays_light():
    code = "import sys, grpo.cli; print([m for m in ('matplotlib', 'torch', 'grpo.expressions') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_benchmarks_run_by_name_and_are_stored(monkeypatch, tmp_path):
    calls = []
    fake = {name: lambda name=name: lambda console: calls.append(name) or {"x": float("nan")} for name in ("a", "b")}
    monkeypatch.setattr(grpo.cli, "benchmarks", lambda: fake)
    assert call("bench", "b", "--json", str(tmp_path / "b.json"))[0] == 0 and calls == ["b"]
    assert json.loads((tmp_path / "b.json").read_text()) == {"b": {"x": None}}
    assert call("bench")[0] == 0 and calls == ["b", "a", "b"]


def test_benchmarks_are_found_by_entry_point(monkeypatch):
    class Point:
        name = "other"

        def load(self):
            return len

    monkeypatch.setattr(grpo.cli, "entry_points", lambda group: [Point()] if group == "grpo.bench" else [])
    assert set(grpo.cli.benchmarks()) >= {"expressions", "other"}
    assert grpo.cli.benchmarks()["other"]() is len
    assert grpo.cli.benchmarks()["expressions"]() is bench.bench_expressions


def test_the_expression_benchmark_measures_everything(monkeypatch):
    monkeypatch.setattr(bench, "COMPARED_SIZES", (8,))
    monkeypatch.setattr(bench, "GROUP_SIZES", (8, 16))
    found = bench.bench_expressions(seconds=0.0)
    assert all(value > 0 for value in found.values())
    for policy in ("tabular", "mlp"):
        assert found[f"{policy}, token by token, numpy, group 8"] > 10 * found[f"{policy}, group 8"]


@pytest.mark.parametrize("kind", ["tabular", "mlp"])
def test_the_version_without_numpy_does_the_same(kind):
    rng = np.random.default_rng(0)
    make = (
        (lambda: TabularPolicy(10, [rng], 0.5)) if kind == "tabular" else lambda: MLPPolicy(one_hot_features(10), [rng])
    )
    policy, reference = make(), make()
    pure = PurePythonTabular if kind == "tabular" else PurePythonMLP
    view = per_token_policy(policy)
    groups = sample_groups(view, 10, 4, rng)
    rewards = [group_rewards([r for r, _ in group], target) for target, group in zip(TARGETS, groups, strict=True)]
    advantages = group_relative_advantage(np.concatenate(rewards), 4)
    _, expected = loss_and_gradient(view, per_token_policy(reference), groups, advantages)
    as_tuples = [[(tuple(response), logps.tolist()) for response, logps in group] for group in groups]
    found = loss_gradient(pure(policy), pure(reference), TARGETS, as_tuples)
    if kind == "mlp":
        for name, slopes in zip(("w1", "b1", "w2", "b2"), found, strict=True):
            np.testing.assert_allclose(slopes, expected[name], rtol=0, atol=1e-12)
    else:
        for (prompt, prefix), slopes in found.items():
            state = policy.column[PREFIXES.index(prefix)]
            if state < policy.n_columns - 1:
                np.testing.assert_allclose(slopes, expected["logits"][:, prompt, state], rtol=0, atol=1e-12)


def test_the_version_without_numpy_takes_steps():
    model = MLPPolicy(one_hot_features(10), [np.random.default_rng(0)])
    policy, reference = PurePythonMLP(model), PurePythonMLP(model)
    before = policy.logits(0, ())
    iteration(policy, reference, TARGETS, 4, random.Random(0), 0.3)
    assert policy.logits(0, ()) != before and reference.logits(0, ()) == before
