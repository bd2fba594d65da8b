"""A run that goes on from its checkpoint takes the same way, to the bit, however it was ended."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from micro_run import PROBLEMS, CoinReward, micro_model, same_weights, settings, weights

from grpo.qwen3.checkpoint import RunFolder, write_folder
from grpo.qwen3.health import read_signals
from grpo.qwen3.trainer import Trainer


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """What kill_runs.py has found."""
    if not sys.platform.startswith("linux"):
        pytest.skip("needs fork and SIGKILL, and torch in a forked child: Linux only")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("kill_runs.py"), tmp_path_factory.mktemp("killed")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_killed_and_resumed_runs_end_as_the_one_left_alone(killed):
    assert len(killed["runs"]) == 14
    assert [run["different"] for run in killed["runs"]] == [[]] * 14


def test_the_kills_came_in_the_middle_of_steps_and_of_checkpoints(killed):
    runs = killed["runs"]
    assert sum(run["kills"] for run in runs) >= 14
    assert sum(run["torn"] for run in runs) >= 3
    assert killed["events"] > 1000


@pytest.mark.parametrize("stop_after", [1, 2, 3])
def test_a_resumed_run_takes_the_same_steps(tmp_path, stop_after):
    """In one process: epoch position, generators, momentum, reward, and no gradient left over from the step before."""
    run = settings(steps=5, checkpoint_every=1, keep_checkpoints=9, kl_coef=0.1, inner_updates=2, seed=9)
    model, tokenizer = micro_model()
    alone = Trainer(model, tokenizer, PROBLEMS, CoinReward(1), run, out_dir=tmp_path / "alone")
    alone.train()

    model, tokenizer = micro_model()
    Trainer(model, tokenizer, PROBLEMS, CoinReward(1), run, out_dir=tmp_path / "run").train(stop_after)
    again = Trainer.resume(tmp_path / "run", PROBLEMS, CoinReward(77))
    taken = []
    take = again.prompt_order.take
    again.prompt_order.take = lambda wanted: taken.append(take(wanted)) or taken[-1]
    again.train()
    assert same_weights(weights(again.model), weights(alone.model))
    names = [name for name in again.history[-1] if not name.endswith("seconds")]
    assert [[row[name] for name in names] for row in again.history] == [
        [row[name] for name in names] for row in alone.history
    ]
    assert read_signals(tmp_path / "run" / "metrics.jsonl") == again.history
    expected = [alone.prompt_order._order(epoch)[i : i + 2].tolist() for epoch in (0, 1) for i in (0, 2, 4)]
    assert taken == expected[stop_after:5]


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_half_precision_and_its_loss_scale_go_on_too(tmp_path, precision):
    run = settings(
        steps=6,
        checkpoint_every=1,
        keep_checkpoints=9,
        precision=precision,
        rollout_dtype=precision,
        rollout_wave=3,
        inner_updates=2,
        seed=9,
    )

    def trainer(folder):
        model, tokenizer = micro_model()
        made = Trainer(model, tokenizer, PROBLEMS, CoinReward(1), run, out_dir=tmp_path / folder)
        if precision == "float16":  # so high that updates are skipped on both sides of the interruption
            made.scaler.load_state_dict({**made.scaler.state_dict(), "scale": 2.0**20, "growth_interval": 3})
        return made

    alone = trainer("alone")
    alone.train()
    trainer("run").train(2)
    again = Trainer.resume(tmp_path / "run", PROBLEMS, CoinReward(77))
    again.train()
    assert same_weights(weights(again.model), weights(alone.model))
    assert again.scaler.state_dict() == alone.scaler.state_dict()
    scales = [row["loss_scale"] for row in again.history]
    assert scales == [row["loss_scale"] for row in alone.history]
    if precision == "float16":
        skipped = [row["skipped_updates"] for row in again.history]
        assert skipped[0] > 0 and any(skipped[2:]) and len(set(scales)) > 2
        assert not all(skipped)


def without(folder, names, scaler):
    """The newest checkpoint as it was before there were these settings and the scale."""
    newest = RunFolder(folder).newest()[0]

    def fill(path):
        shutil.copytree(newest, path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("manifest.json"))
        state = json.loads((path / "state.json").read_text())
        state["settings"] = {name: value for name, value in state["settings"].items() if name not in names}
        if scaler:
            del state["scaler"]
        (path / "state.json").write_text(json.dumps(state))

    write_folder(newest, fill)


def test_a_checkpoint_from_before_half_precision_goes_on(tmp_path):
    run = settings(steps=4, checkpoint_every=1)
    model, tokenizer = micro_model()
    alone = Trainer(model, tokenizer, PROBLEMS, CoinReward(1), run)
    alone.train()
    model, tokenizer = micro_model()
    Trainer(model, tokenizer, PROBLEMS, CoinReward(1), run, out_dir=tmp_path / "run").train(2)
    without(tmp_path / "run", ("precision", "rollout_wave"), scaler=True)
    again = Trainer.resume(tmp_path / "run", PROBLEMS, CoinReward(77), rollout_wave=4)
    assert again.settings.precision == "float32" and again.settings.rollout_wave == 4
    again.settings = again.settings.changed(rollout_wave=None)
    again.train()
    assert same_weights(weights(again.model), weights(alone.model))


def test_a_float16_run_without_its_scale_is_refused(tmp_path):
    model, tokenizer = micro_model()
    run = settings(precision="float16")
    Trainer(model, tokenizer, PROBLEMS, CoinReward(1), run, out_dir=tmp_path / "run").train(1)
    with pytest.raises(ValueError, match=r"precision was 'float16' .* cannot become 'float32' now"):
        Trainer.resume(tmp_path / "run", PROBLEMS, CoinReward(1), precision="float32")
    without(tmp_path / "run", (), scaler=True)
    with pytest.raises(ValueError, match=r"holds no loss scale.*start a new run"):
        Trainer.resume(tmp_path / "run", PROBLEMS, CoinReward(1))


def test_steps_after_the_checkpoint_are_taken_again_and_listed_once(tmp_path):
    model, tokenizer = micro_model()
    run = settings(steps=4, checkpoint_every=0)
    trainer = Trainer(model, tokenizer, PROBLEMS, CoinReward(1), run, out_dir=tmp_path / "run")
    first = [trainer.step() for _ in range(3)]  # no checkpoint but that of step 0
    again = Trainer.resume(tmp_path / "run", PROBLEMS, CoinReward(1))
    assert again.steps_done == 0 and again.history == []
    again.train()
    rows = read_signals(tmp_path / "run" / "metrics.jsonl")
    assert [row["step"] for row in rows] == [1, 2, 3, 4]
    assert [row["reward"] for row in rows[:3]] == [row["reward"] for row in first]
