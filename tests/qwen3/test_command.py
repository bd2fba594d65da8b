"""`grpo train qwen3`: options, messages, files, Ctrl-C, and the way back."""

import json
import os
import re
import signal
import sys
from pathlib import Path

import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parent))
from micro_run import PROBLEMS, digits_reward, micro_model, same_weights, weights
from other_process import other_process, says

import grpo.cli
from grpo.qwen3 import command, live, rewards
from grpo.qwen3 import model as models
from grpo.qwen3.health import read_signals
from grpo.qwen3.model import load_model
from grpo.qwen3.plot import PANELS, plot_health, running_mean
from grpo.qwen3.problems import read_problems
from grpo.qwen3.trainer import Trainer


def call(*arguments):
    width, grpo.cli.console.width = grpo.cli.console.width, 200  # an earlier test may have fixed it
    try:
        result = CliRunner().invoke(grpo.cli.app, ["train", "qwen3", *map(str, arguments)])
    finally:
        grpo.cli.console.width = width
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, re.sub(r"[\s│╭╮╰╯─]+", " ", result.output)


@pytest.fixture(scope="module")
def micro(tmp_path_factory):
    """Options of a run of a second: a saved micro model, and problems of its own."""
    folder = tmp_path_factory.mktemp("micro")
    model, tokenizer = micro_model()
    model.save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    lines = [json.dumps({"prompt": problem.prompt, "truth": problem.truth}) for problem in PROBLEMS]
    (folder / "train.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "test.jsonl").write_text(lines[0] + "\n\n" + lines[1] + "\n")
    options = {
        "model": folder / "model",
        "data": folder / "train.jsonl",
        "steps": 3,
        "prompts": 2,
        "group-size": 4,
        "max-new-tokens": 6,
        "prompt-style": "plain",
        "micro-batch": 8,
        "checkpoint-every": 1,
    }
    return [str(part) for name, value in options.items() for part in (f"--{name}", value)], folder


@pytest.fixture(autouse=True)
def varied_reward(monkeypatch):
    """An untrained model boxes nothing: pay for digits instead."""
    monkeypatch.setattr(rewards, "boxed_reward", digits_reward)


def test_a_whole_run(micro, tmp_path):
    options, folder = micro
    out, numbers, picture = tmp_path / "run", tmp_path / "run.json", tmp_path / "run.png"
    status, output = call(
        *options, "--out", out, "--test-data", folder / "test.jsonl", "--json", numbers, "--plot", picture
    )
    assert status == 0
    assert "GRPO on" in output and "3 steps of 2 prompts x 4 rollouts" in output
    assert "greedy accuracy, 2 test problems" in output and "mean of first 3 steps" in output
    assert re.search(r"\d\.\d{3} \(\d\.\d{3} \.\. \d\.\d{3}\)", output)
    assert "the trained policy:" in output
    data = json.loads(numbers.read_text())
    assert [row["step"] for row in data["signals"]] == [1, 2, 3]
    assert data["settings"]["group_size"] == 4 and data["settings"]["learning_rate"] == 2e-6
    assert data["notes"]["before"]["problems"] == data["after"]["problems"] == 2
    assert read_signals(out / "metrics.jsonl") == data["signals"]
    assert picture.stat().st_size > 10_000 and picture.read_bytes().startswith(b"\x89PNG")
    start, _ = load_model(folder / "model")
    trained, _ = load_model(out / "checkpoints" / "step-000003" / "policy")
    assert not same_weights(weights(start), weights(trained))


def test_every_setting_reaches_the_run(micro, tmp_path):
    options, _ = micro
    numbers = tmp_path / "run.json"
    given = (
        "--steps 1 --prompts 3 --group-size 5 --max-new-tokens 7 --temperature 0.9 --rollout-dtype bfloat16 "
        "--learning-rate 0.003 --warmup 2 --max-grad-norm 0.5 --inner-updates 2 --level gspo --aggregate token_mean "
        "--clip-low 0.1 --clip-high 0.3 --kl-coef 0.05 --kl k2 --no-scale-by-std --micro-batch 4 "
        "--no-checkpoint-layers --checkpoint-every 3 --keep 5 --seed 6 --precision bfloat16 --wave 7"
    )
    status, _ = call(*options, *given.split(), "--json", numbers)
    assert status == 0
    expected = {
        "steps": 1,
        "prompts_per_step": 3,
        "group_size": 5,
        "max_new_tokens": 7,
        "temperature": 0.9,
        "rollout_dtype": "bfloat16",
        "learning_rate": 0.003,
        "warmup_steps": 2,
        "max_grad_norm": 0.5,
        "inner_updates": 2,
        "level": "gspo",
        "aggregate": "token_mean",
        "clip_low": 0.1,
        "clip_high": 0.3,
        "kl_coef": 0.05,
        "kl": "k2",
        "scale_by_std": False,
        "micro_batch_size": 4,
        "checkpoint_layers": False,
        "checkpoint_every": 3,
        "keep_checkpoints": 5,
        "seed": 6,
        "prompt_style": "plain",
        "precision": "bfloat16",
        "rollout_wave": 7,
    }
    data = json.loads(numbers.read_text())
    assert data["settings"].items() >= expected.items()
    assert data["signals"][0]["sampler_gap"] > 0 and data["after"] is None


def test_the_tiny_model_follows_recipe_a_without_any_option(monkeypatch):
    settings = command.default_settings("tiny")
    assert settings == command.RECIPES["a"].settings
    seen = {}

    def fake(recipe, seed, progress):
        seen.update(recipe=recipe, seed=seed)
        progress(1, 0.5)
        model, tokenizer = micro_model(seed)
        return model, tokenizer, type("ColdStart", (), {"steps": 15, "checks": [(15, 0.25)]})

    monkeypatch.setattr(command, "cold_started", fake)
    status, output = call("--steps", 1, "--prompts", 2, "--evaluate", 3, "--max-new-tokens", 4, "--seed", 5)
    assert status == 0 and seen == {"recipe": "a", "seed": 5}
    assert "cold start: 15 steps on demonstrations, sampled reward 0.25" in output
    assert "greedy accuracy, 3 test problems" in output and "nothing is kept (--out DIR keeps it)" in output
    monkeypatch.setattr(command, "cold_started", lambda *a, **k: pytest.fail("a cold start"))
    seeds = []
    monkeypatch.setattr(command, "load_model", lambda *a, **k: seeds.append(k["seed"]) or load_model(*a, **k))
    small = ("--steps", 1, "--prompts", 2, "--evaluate", 0, "--max-new-tokens", 4, "--seed", 5)
    status, output = call(*small, "--no-cold-start")
    assert status == 0 and seeds == [5] and "cold start" not in output and "test problems" not in output


def test_a_dry_run_shows_the_plan_takes_one_step_and_keeps_nothing(micro, tmp_path):
    options, _ = micro
    numbers = tmp_path / "plan.json"
    status, output = call(*options, "--dry-run", "--out", tmp_path / "run", "--json", numbers)
    assert status == 0 and not (tmp_path / "run").exists()
    for text in ("Memory plan", "KV cache", "activations", "one step:", "3 steps take about", "peak memory"):
        assert text in output
    data = json.loads(numbers.read_text())
    assert len(data["signals"]) == 1 and data["plan"]["gradients"]["training"] > 0


def test_what_fits_is_chosen_and_said_and_what_was_given_stays(micro, tmp_path):
    options, _ = micro
    numbers, out = tmp_path / "run.json", tmp_path / "run"
    few = [*options, "--steps", 1, "--max-memory", "2GB", "--json", numbers]  # --micro-batch 8 is among them
    status, output = call(*few, "--out", out)
    assert status == 0 and "--max-memory 2GB: of 2.0 GB, 1.4 GB are planned for tensors" in output
    assert "all 8 rollouts are decoded at once" in output
    data = json.loads(numbers.read_text())
    # The default of a published model is to compute layers again: here nothing asks for it.
    assert data["settings"]["checkpoint_layers"] is False and data["settings"]["micro_batch_size"] == 8
    assert any("decoded at once" in choice for choice in data["notes"]["memory"])
    status, output = call(*few, "--wave", 2, "--checkpoint-layers", "--micro-batch", 3, "--plan")
    assert status == 0 and "waves of 2:" in output and "micro-batches of 3 rollouts, computing every layer" in output
    data = json.loads(numbers.read_text())
    assert [data["settings"][name] for name in ("rollout_wave", "micro_batch_size")] == [2, 3]
    status, output = call("--out", out, "--resume", "--max-memory", "2GB")
    assert status == 2 and "--max-memory chooses for a new run" in output
    status, output = call("--out", out, "--resume", "--steps", 2, "--wave", 4)
    assert status == 0 and "from step 1 of 2" in output


def test_a_plan_alone_takes_no_step(micro, tmp_path, monkeypatch):
    monkeypatch.setattr(command, "Trainer", lambda *a, **k: pytest.fail("a trainer"))
    numbers = tmp_path / "plan.json"
    status, output = call(*micro[0], "--plan", "--json", numbers)
    assert status == 0 and "Memory plan" in output and "one step" not in output
    assert set(json.loads(numbers.read_text())) == {"settings", "plan", "planned_peaks", "choices"}


def test_the_plan_of_a_rehearsal_needs_no_weights(monkeypatch, tmp_path):
    monkeypatch.setattr(models, "tiny_model", lambda *a, **k: pytest.fail("weights"))
    numbers, card = tmp_path / "plan.json", ("--device", "cuda", "--precision", "float16", "--rollout-dtype", "float16")
    status, output = call("--model", "real-shape", "--plan", "--max-memory", "15GB", *card, "--json", numbers)
    assert status == 0 and "of 15.0 GB, 13.8 GB are planned" in output
    data = json.loads(numbers.read_text())
    assert data["plan"]["weights"]["sampling"] == 4 * 596_049_920
    assert max(data["planned_peaks"].values()) < 13.8e9
    assert data["settings"]["checkpoint_layers"] and data["settings"]["max_new_tokens"] == 512


def test_a_rehearsal_runs_with_coins_for_rewards(monkeypatch, tmp_path):
    """The same way through the command, with a small shape."""
    from grpo.qwen3.model import tiny_config

    monkeypatch.setattr(models, "real_shape_config", lambda: tiny_config(vocab_size=500, layers=1))
    numbers, out = tmp_path / "run.json", tmp_path / "run"
    run = ("--model", "real-shape", "--prompts", 2, "--group-size", 2, "--max-new-tokens", 4, "--steps", 2, "--seed", 3)
    status, output = call(*run, "--json", numbers, "--out", out)
    assert status == 0 and "GRPO on real-shape" in output and "test problems" not in output
    rewards = [row["reward"] for row in json.loads(numbers.read_text())["signals"]]
    assert set(rewards) <= {0.0, 0.25, 0.5, 0.75, 1.0} and any(rewards)
    status, output = call("--out", out, "--resume", "--steps", 3)
    assert status == 0 and "from step 2 of 3" in output


def test_skipped_updates_are_named_in_the_text(micro, monkeypatch):
    from grpo.qwen3.precision import LossScaler

    make = LossScaler.__init__

    def high(scaler, *arguments):
        make(scaler, *arguments)
        scaler.load_state_dict({**scaler.state_dict(), "scale": 2.0**60})

    monkeypatch.setattr(LossScaler, "__init__", high)
    status, output = call(*micro[0], "--precision", "float16", "--steps", 1)
    assert status == 0 and "step 1: its update was skipped, because a float16 gradient overflowed" in output
    assert "the next loss is scaled by 5.76461e+17" in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--steps", "0"], "--steps"),
        (["--group-size", "1"], "--group-size"),
        (["--learning-rate", "0"], "learning_rate is 0.0"),
        (["--temperature", "0"], "temperature is 0.0"),
        (["--kl-coef", "-1"], "kl_coef is -1.0"),
        (["--level", "sentence"], "level is 'sentence': choose 'token', 'rollout', 'gspo'"),
        (["--aggregate", "sum"], "aggregate is 'sum'"),
        (["--kl", "k4"], "kl is 'k4'"),
        (["--rollout-dtype", "int8"], "rollout_dtype is 'int8'"),
        (["--prompt-style", "rhyme"], "prompt_style is 'rhyme'"),
        (["--reward", "kind"], "reward is 'kind': choose 'strict' or 'math'"),
        (["--model", "no/such/folder"], "there is no folder no/such/folder"),
        (["--model", "tiny", "--device", "warp"], "device is 'warp'"),
        (["--model", "some-folder", "--cold-start"], "--cold-start is for --model tiny"),
        (["--resume"], "--resume needs --out"),
        (["--resume", "--out", "no_such_run"], "no_such_run holds no run"),
        (["--resume", "--dry-run", "--out", "x"], "--dry-run and --plan keep nothing"),
        (["--resume", "--plan", "--out", "x"], "--dry-run and --plan keep nothing"),
        (["--plan", "--device", "warp"], "device is 'warp'"),
        (["--precision", "half"], "precision is 'half': choose 'float32', 'bfloat16', 'float16'"),
        (["--wave", "0"], "--wave"),
        (["--max-memory", "a lot"], "the memory is 'a lot': write a number and a unit, such as 15GB"),
        (["--max-memory", "1MB", "--plan"], "1.0 MB are not enough for torch itself"),
        (["--test-data", "x.jsonl"], "--test-data without --data"),
        (["--data", "no_such_file.jsonl"], "no_such_file.jsonl cannot be read: No such file or directory"),
        (["--plot", "run.xyz"], "the name must end in .png, .svg, .pdf"),
        (["--json", "no_such_folder/run.json"], "the folder no_such_folder does not exist"),
        (["--prompts", "9000"], "8007 problems for prompts_per_step 9000"),
    ],
)
def test_a_bad_argument_is_one_message_and_status_2(arguments, message, monkeypatch):
    monkeypatch.setattr(command, "cold_started", lambda *a, **k: (*micro_model(), None))
    monkeypatch.setattr(command, "_cold_start", lambda *a: (*micro_model(), {}))
    status, output = call("--evaluate", 0, *arguments)
    assert status == 2 and message in output, output
    assert "Traceback" not in output


def test_a_gpu_that_is_not_there_is_one_message():
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    status, output = call("--device", "cuda", "--no-cold-start", "--evaluate", 0)
    assert status == 2 and "torch finds 0 GPUs here: use cpu" in output


@pytest.mark.parametrize("missing", [["torch"], ["torch", "transformers", "safetensors"]])
def test_missing_libraries_are_named_with_the_way_to_get_them(monkeypatch, missing):
    monkeypatch.setattr(grpo.cli, "find_spec", lambda name: None if name in missing else object())
    status, output = call("--steps", 1)
    assert status == 2
    assert f"a Qwen3 model needs {' and '.join(missing)}" in output
    assert 'pip install "grpo-from-scratch[qwen3]"' in output and "make lab EXTRAS=qwen3" in output
    result = CliRunner().invoke(grpo.cli.app, ["bench", "qwen3"])
    assert result.exit_code == 2 and "EXTRAS=qwen3" in re.sub(r"[\s│]+", " ", result.output)


def test_the_other_benchmarks_run_without_torch(monkeypatch):
    monkeypatch.setattr(grpo.cli, "find_spec", lambda name: None)
    ran = []
    monkeypatch.setattr(
        grpo.cli,
        "benchmarks",
        lambda: {"qwen3": lambda: pytest.fail("loaded"), "other": lambda: lambda console: ran.append(1)},
    )
    result = CliRunner().invoke(grpo.cli.app, ["bench"])
    assert result.exit_code == 0 and ran == [1] and "left out qwen3: it needs torch" in result.output


def test_trl_and_datasets_are_not_needed(micro, monkeypatch):
    for name in ("trl", "datasets", "accelerate"):
        monkeypatch.setitem(sys.modules, name, None)  # an import of it raises
    status, _ = call(*micro[0], "--steps", 1)
    assert status == 0


def test_somebody_elses_folder_is_refused_before_anything_is_loaded(micro, tmp_path, monkeypatch):
    (tmp_path / "thesis.tex").write_text("years of work")
    monkeypatch.setattr(command, "load_model", lambda *a, **k: pytest.fail("loaded"))
    status, output = call(*micro[0], "--out", tmp_path)
    assert status == 2 and "holds files already" in output
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def press_ctrl_c(monkeypatch, at, twice=False):
    """SIGINT to this process while step `at` samples."""
    sample = Trainer.sample

    def interrupted(self, chosen):
        if self.steps_done + 1 == at:
            os.kill(os.getpid(), signal.SIGINT)
            if twice:
                os.kill(os.getpid(), signal.SIGINT)
        return sample(self, chosen)

    monkeypatch.setattr(Trainer, "sample", interrupted)


@pytest.mark.skipif(os.name == "nt", reason="os.kill with SIGINT ends the process on Windows")
def test_ctrl_c_saves_and_the_run_goes_on_to_the_same_end(micro, tmp_path, monkeypatch):
    options, folder = micro
    tested = [*options, "--checkpoint-every", 0, "--test-data", folder / "test.jsonl"]
    assert call(*tested, "--out", tmp_path / "alone")[0] == 0
    with monkeypatch.context() as patch:
        press_ctrl_c(patch, at=2)
        status, output = call(*tested, "--out", tmp_path / "run")
    assert status == 130
    assert "finishing this step, then saving" in output and "stopped and saved after step 2" in output
    assert "grpo train qwen3 --out" in output and "--resume" in output
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

    numbers = tmp_path / "run.json"
    status, output = call("--out", tmp_path / "run", "--resume", "--json", numbers)
    assert status == 0 and "from step 2 of 3" in output
    assert "greedy accuracy, 2 test problems" in output
    assert [row["step"] for row in json.loads(numbers.read_text())["signals"]] == [1, 2, 3]
    ends = [load_model(tmp_path / name / "checkpoints" / "step-000003" / "policy")[0] for name in ("alone", "run")]
    assert same_weights(*map(weights, ends))


@pytest.mark.skipif(os.name == "nt", reason="os.kill with SIGINT ends the process on Windows")
def test_a_second_ctrl_c_stops_at_once_and_leaves_the_last_checkpoint(micro, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        press_ctrl_c(patch, at=3, twice=True)
        status, output = call(*micro[0], "--out", tmp_path / "run")
    assert status == 130 and "stopped at once" in output
    assert sorted(path.name for path in (tmp_path / "run" / "checkpoints").glob("step-*"))[-1] == "step-000002"
    status, output = call("--out", tmp_path / "run", "--resume", "--steps", 4)
    assert status == 0 and "from step 2 of 4" in output


def test_a_resume_keeps_to_its_run(micro, tmp_path):
    options, folder = micro
    assert call(*options, "--out", tmp_path / "run")[0] == 0
    resume = ["--out", tmp_path / "run", "--resume"]
    for arguments, message in [
        (["--learning-rate", "0.1"], "learning_rate was 2e-06"),
        (["--model", "tiny"], "has model"),
        (["--reward", "math"], "has reward 'strict', not 'math'"),
        (["--steps", "2"], "has taken 3 steps: --steps must be at least that"),
    ]:
        status, output = call(*resume, *arguments)
        assert status == 2 and message in output, output
    status, output = call(*resume, "--model", folder / "model", "--steps", 4, "--group-size", 4)
    assert status == 0 and "from step 3 of 4" in output
    # Done already: the table once more.
    assert call(*resume)[0] == 0


def test_two_processes_do_not_go_on_with_one_run(micro, tmp_path, monkeypatch):
    out = tmp_path / "run"
    assert call(*micro[0], "--steps", 1, "--out", out)[0] == 0
    held, resume = [], Trainer.resume

    def watched(*arguments, **options):
        held.append(says(out))  # before the checkpoint is read: later both might have read the same one
        return resume(*arguments, **options)

    monkeypatch.setattr(Trainer, "resume", watched)
    with other_process(out):
        status, output = call("--out", out, "--resume", "--steps", 2)
    said = output.replace(" ", "")  # a long folder is broken over lines
    assert status == 2 and f"anotherprocesswritesinto{out},andtwowouldspoil" in said and held == []
    assert [row["step"] for row in read_signals(out / "metrics.jsonl")] == [1]
    assert call("--out", out, "--resume", "--steps", 2)[0] == 0 and held == ["kept out"]


def test_a_damaged_checkpoint_is_passed_over_and_said(micro, tmp_path):
    assert call(*micro[0], "--out", tmp_path / "run")[0] == 0
    (tmp_path / "run" / "checkpoints" / "step-000003" / "optimizer.safetensors").write_bytes(b"")
    status, output = call("--out", tmp_path / "run", "--resume")
    assert status == 0 and "passed over a damaged checkpoint" in output and "has 0 bytes where" in output
    assert "from step 2 of 3" in output
    assert [row["step"] for row in read_signals(tmp_path / "run" / "metrics.jsonl")] == [1, 2, 3]


def test_a_run_that_cannot_go_on_ends_with_status_1(micro, tmp_path, monkeypatch):
    loss = Trainer.loss

    def poisoned(self, batch, rows, update, first=True):
        value = loss(self, batch, rows, update, first)
        update.loss = float("nan")
        return value

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "loss", poisoned)
        status, output = call(*micro[0], "--out", tmp_path / "run")
    assert status == 1 and "step 1 was not taken: its loss is nan" in output and "The checkpoint of step 0" in output

    with monkeypatch.context() as patch:
        patch.setattr("grpo.qwen3.trainer.sample", lambda *a, **k: (_ for _ in ()).throw(MemoryError()))
        status, output = call(*micro[0], "--out", tmp_path / "run2")
    assert status == 1 and "out of memory while sampling: lower rollout_wave (now 8), then max_new_tokens (6)" in output

    with monkeypatch.context() as patch:
        patch.setattr(rewards, "boxed_reward", lambda *rollout: float("nan"))
        status, output = call(*micro[0], "--out", tmp_path / "run3")
    assert status == 1 and "rewards[0] is nan" in output

    with monkeypatch.context() as patch:
        patch.setattr("grpo.qwen3.health.os.fsync", lambda handle: (_ for _ in ()).throw(OSError(28, "full")))
        status, output = call(*micro[0], "--out", tmp_path / "run4")
    assert status in (1, 2) and "the disk is full" in output


def test_a_sick_run_is_told_so_once(micro, monkeypatch):
    monkeypatch.setattr(rewards, "boxed_reward", lambda *rollout: 0.0)
    status, output = call(*micro[0])
    assert status == 0
    assert (
        output.count("all groups have zero variance (mean reward 0.00)") == output.count("truncated at 6 tokens") == 1
    )
    assert "step 1: 100% of the rollouts are truncated at 6 tokens, and all groups have zero variance" in output
    assert "step 2: all groups" in output


def test_problems_of_ones_own(tmp_path):
    path = tmp_path / "problems.jsonl"
    path.write_text('{"prompt": "1+1?", "truth": "2", "source": "me"}\n\n{"prompt": "2+2?", "truth": " 4"}\n')
    assert [(problem.prompt, problem.truth) for problem in read_problems(path)] == [("1+1?", "2"), ("2+2?", " 4")]
    path.write_bytes('\ufeff{"prompt": "1+1\u2028?", "truth": "2"}\r\n{"prompt": "x\u0085", "truth": "4"}'.encode())
    assert [problem.prompt for problem in read_problems(path)] == ["1+1\u2028?", "x\u0085"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2 is not JSON"),
        ("[1, 2]", "line 2 is no object"),
        ('{"prompt": "1+1?"}', "line 2: truth is missing"),
        ('{"prompt": "1+1?", "truth": 2}', "line 2: truth is 2: it must be a string"),
        ('{"prompt": " ", "truth": "2"}', "line 2: prompt is ' '"),
        ('{"prompt": "x", "truth": NaN}', "line 2: truth is nan: it must be a string"),
        ('{"prompt": "\\ud83d", "truth": "2"}', "line 2: prompt holds half a character"),
        ("[" * 100_000, "line 2 is not JSON"),
    ],
)
def test_a_bad_line_is_numbered(tmp_path, line, message):
    path = tmp_path / "problems.jsonl"
    path.write_text('{"prompt": "1+1?", "truth": "2"}\n' + line + "\n")
    with pytest.raises(ValueError, match=r"problems\.jsonl, ") as error:
        read_problems(path)
    assert message in str(error.value)
    path.write_text("\n")
    with pytest.raises(ValueError, match="is empty"):
        read_problems(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="it is not UTF-8 text"):
        read_problems(path)


def test_the_picture_is_whole_at_any_time(tmp_path, monkeypatch):
    path = tmp_path / "health.png"
    history = [{"step": step, **{name: 0.5 for name in PANELS}, "kl": None} for step in range(1, 4)]
    plot_health(history[:1], path)
    first = path.read_bytes()

    def killed(source, target):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("grpo.qwen3.plot.os.replace", killed)
        with pytest.raises(KeyboardInterrupt):
            plot_health(history, path)
    assert path.read_bytes() == first
    plot_health(history, path)
    assert path.read_bytes() != first and [file.name for file in tmp_path.iterdir()] == ["health.png"]
    assert running_mean([1.0, 3.0, 5.0, 7.0], 2) == [1.0, 2.0, 4.0, 6.0]


def test_times_are_readable():
    assert [live.readable_seconds(value) for value in (3.4, 200, 14_700)] == ["3 s", "3 min 20 s", "4 h 5 min"]


def test_the_default_settings_of_a_published_model():
    settings = command.default_settings("Qwen/Qwen3-0.6B-Base", steps=7)
    assert settings.steps == 7 and settings.kl_coef == 0.0 and settings.prompt_style == "base"
    assert settings.checkpoint_layers and settings.micro_batch_size == 4


def test_signals_outside_the_main_thread_are_left_alone():
    import threading

    seen = []

    def run():
        with live.stop_request(Console(quiet=True)) as stop:
            seen.append(stop.asked)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [False]
