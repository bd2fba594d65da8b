"""`grpo bench qwen3 --device`: every line of it with the tiny model on a CPU. No time is judged."""

import io
import itertools
import json
import math
import re
import sys

import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

import grpo.cli
from grpo.qwen3 import bench_device, bench_device_parts
from grpo.qwen3.bench_device import SHARES, TABLES, floor_seconds, run_part
from grpo.qwen3.bench_device import bench_device as bench
from grpo.qwen3.bench_device_parts import (
    PARTS,
    SIZES,
    EveryOther,
    copy_bandwidth,
    decode_bytes,
    half_name,
    hf_generate,
    random_model,
)
from grpo.qwen3.memory import ModelShape, memory_plan
from grpo.qwen3.model import parameter_count, real_shape_config, tiny_config
from grpo.qwen3.settings import GRPOSettings

TINY = SIZES["tiny"]


def measure(part, seconds=1000.0, size=TINY):
    lines = []
    with torch.random.fork_rng(devices=[]):
        PARTS[part](size, torch.device("cpu"), lines.append, seconds)
    return {name: value for line in lines for name, value in line.items()}, lines


def shown(part, found):
    output = io.StringIO()
    Console(file=output, width=160).print(TABLES[part](found, TINY))
    return output.getvalue()


def test_decode():
    found, lines = measure("decode")
    assert all(isinstance(value, float) for value in found.values()) and found["bandwidth"] > 0
    names = {
        f"decode, batch {rows}, {what}" for rows in (1, 8, 64) for what in ("ours", "the step alone", "HF generate")
    }
    assert names <= set(found) and all(len(line) == 1 for line in lines)
    assert found["decode, bytes of weights"] == 2 * ModelShape.of(tiny_config()).matrix_numbers
    found |= dict.fromkeys(names, 0.002)
    found |= {"bandwidth": 1e9, "decode, batch 8, bytes": 1e6, "decode, batch 8, HF generate": 0.006}
    text = shown("decode", found)
    assert re.search(r"│ +8 │ +1\.000 │ +2\.000 │ +2\.000 │ +6\.000 │ +2\.0 │ +3\.0 │ +4,000 │", text)
    assert "a copy moves 1 GB/s" in text and "at most 2.5 x floor, HF at least 5 x ours" in text.replace("\n", " ")
    assert found["decode, batch 8, ours / floor"] == pytest.approx(2.0)
    assert found["decode, batch 8, HF generate / ours"] == pytest.approx(3.0)
    assert found["decode, batch 8, tokens per second"] == pytest.approx(4000)
    assert floor_seconds(found, 8) == 0.001 and floor_seconds({}, 8) is None


def test_the_floor_counts_matrices_and_cache():
    shape = ModelShape.of(real_shape_config())
    real = SIZES["real"]
    # 114,688 bytes a token, as SPEC has it: 8 prompts of 150, and 64 rollouts with 48 tokens on average.
    assert decode_bytes(shape, real, 8, 8) == 2 * shape.matrix_numbers + 114_688 * (8 * 150 + 64 * 48)
    assert 1.18e9 < 2 * shape.matrix_numbers < 1.2e9
    assert real.training["prompts_per_step"] * real.training["group_size"] == 64
    assert (real.training["max_new_tokens"], real.prompt_width) == (512, 150)
    assert [prompts * group for prompts, group in real.batches] == [1, 8, 64]


def test_timing_is_the_difference_of_two_runs(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(bench_device_parts, "_now", lambda device: clock[0])

    def run(tokens):
        clock[0] += 10 + 0.5 * tokens  # ten seconds for the prompts

    assert bench_device_parts._per_token(run, TINY, "cpu") == pytest.approx(0.5)


def test_all_contestants_decode_as_many_tokens():
    with torch.random.fork_rng(devices=[]):
        model = random_model(tiny_config(), "cpu")
    ids = torch.ones(3, 4, dtype=torch.int64)
    assert hf_generate(model, ids, 5).shape == (3, 9)
    assert copy_bandwidth(2**16, torch.device("cpu")) > 0
    assert parameter_count(model) == 399_104


def test_training(monkeypatch):
    found, _ = measure("training")
    settings = GRPOSettings(**TINY.training, rollout_dtype="bfloat16", precision="bfloat16")
    plan = memory_plan(tiny_config(), settings, TINY.prompt_width, "cpu")
    assert (found["training, plan, sampling"], found["training, plan, training"]) == (plan.sampling, plan.training)
    assert found["training, step, tokens"] == 2 * 4 * 8
    assert 0 < found["training, step, sampling"] < found["training, step"]
    if sys.platform == "linux":
        assert found["training, step, peak of training"] > 0
    found |= {"training, step": 4.0, "training, step, sampling": 3.0, "training, step, peak of sampling": 5e9}
    text = shown("training", found)
    assert re.search(r"│ sampling │ +3\.00 │ +21 │ +5\.0 GB │", text) and re.search(
        r"│ training │ +1\.00 │ +64 │", text
    )
    assert re.search(r"│ together │ +4\.00 │ +16 │", text) and "8 rollouts x 8 tokens, prompts of 12" in text
    assert "first iteration" not in text and found["training, tokens per second"] == 16
    first = {name.replace("training, step", "training, first step"): value for name, value in found.items()}
    assert "first iteration" in shown("training", first) and "first iteration" not in shown("training", {})


def test_every_group_has_a_spread():
    assert EveryOther().batch(["a"] * 4, ["1"] * 4, [True] * 4) == [0.0, 1.0, 0.0, 1.0]


def test_every_phase_has_a_peak_of_its_own(monkeypatch):
    peaks, events = iter([100.0, 30.0, 7.0, 30.0, 7.0]), []
    monkeypatch.setattr(bench_device_parts, "reset_peak", lambda device: events.append("reset"))
    monkeypatch.setattr(bench_device_parts, "read_peak", lambda device: events.append("read") or next(peaks))
    found, _ = measure("training")
    assert events == ["reset", "read"] + ["reset", "read", "reset", "read"] * 2
    assert found["training, step, peak of sampling"] == 30 - 100
    assert found["training, step, peak of training"] == 7 - 100


def test_recipe():
    found, _ = measure("recipe")
    assert (found["recipe, steps"], found["recipe, cold start, steps"]) == (2, 2)
    assert 0 <= found["recipe, before"] <= 1 and 0 <= found["recipe, after"] <= 1
    text = shown("recipe", found | {"recipe, step": 0.25})
    assert "2 of 2" in text and "0.250" in text and "20 test problems" in text
    short, _ = measure("recipe", seconds=0.0)
    assert short["recipe, steps"] == 1 and "recipe, after" in short  # it stops early, and still answers


def test_half_precision_follows_the_device(monkeypatch):
    assert half_name("cpu") == "bfloat16"
    monkeypatch.setattr(bench_device_parts, "native_half", lambda device: "float16")
    assert half_name("cuda") == "float16"


# Processes and the budget


def test_a_part_in_its_process(monkeypatch):
    found = run_part("decode", "tiny", "cpu", 300.0)
    assert "decode, batch 64, HF generate" in found and not {"decode, error", "decode, left out"} & set(found)


def stand_in(monkeypatch, tmp_path, code):
    """Let a part's process run this program instead."""
    program = tmp_path / "part.py"
    program.write_text(code)
    popen = bench_device.subprocess.Popen
    made = []

    def replaced(command, **options):
        made.append((popen([command[0], str(program), *command[3:]], **options), command))
        return made[-1][0]

    monkeypatch.setattr(bench_device.subprocess, "Popen", replaced)
    return made


def test_what_is_there_when_the_time_is_up_counts(monkeypatch, tmp_path):
    code = "import time\nprint('{\"bandwidth\": 5.0}', flush=True)\ntime.sleep(600)"
    made = stand_in(monkeypatch, tmp_path, code)
    clock = itertools.chain(
        [0.0, 0.0], itertools.repeat(60.0)
    )  # the budget is made, the first line waited for, and then it is too late
    monkeypatch.setattr(bench_device.time, "monotonic", lambda: next(clock))
    assert run_part("decode", "tiny", "cpu", 60.0) == {"bandwidth": 5.0, "decode, left out": 1.0}
    assert made[0][0].returncode is not None and made[0][1][3:] == ["decode", "tiny", "cpu", "60.0"]
    assert run_part("decode", "tiny", "cpu", 0.0) == {"decode, left out": 1.0} and len(made) == 1


def test_a_part_that_fails_keeps_what_it_had(monkeypatch, tmp_path):
    stand_in(monkeypatch, tmp_path, "print('{\"bandwidth\": 5.0}', flush=True)\nraise MemoryError('too big')")
    assert run_part("decode", "tiny", "cpu", 60.0) == {"bandwidth": 5.0, "decode, error": "MemoryError: too big"}


def test_what_one_part_does_not_use_goes_to_the_next(monkeypatch):
    clock, limits = [0.0], {}
    monkeypatch.setattr(bench_device.time, "monotonic", lambda: clock[0])

    def part(name, size, device, limit):
        limits[name] = limit
        clock[0] += {"decode": 10.0, "training": 60.0, "recipe": 0.0}[name]
        return {f"{name}, left out": 1.0} if name == "training" else {f"{name}, error": "torn"}

    monkeypatch.setattr(bench_device, "run_part", part)
    output = io.StringIO()
    found = bench(Console(file=output, width=120), "cpu", tiny=True, seconds=100.0)
    assert limits == {"decode": pytest.approx(40), "training": pytest.approx(65), "recipe": pytest.approx(30)}
    text = output.getvalue()
    assert "decode failed: torn" in text and "training: what is - was left out: no time" in text
    assert found["seconds"] == 70 and sum(SHARES.values()) == pytest.approx(1)


def test_bad_arguments():
    with pytest.raises(ValueError, match="seconds is 0"):
        bench(seconds=0.0, device="cpu")
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="torch finds 0 GPUs here"):
            bench()


# The command line


def call(*arguments):
    result = CliRunner().invoke(grpo.cli.app, ["bench", *map(str, arguments)], env={"COLUMNS": "200"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, re.sub(r"[\s│╭╮╰╯─]+", " ", result.output)


def test_the_command(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(
        bench_device, "bench_device", lambda console, *rest: asked.append(rest) or {"a": 1.0, "b": math.nan}
    )
    assert call("qwen3", "--device", "cpu", "--tiny", "--seconds", 7, "--json", tmp_path / "x.json")[0] == 0
    assert call("qwen3", "--device", "cuda")[0] == 0
    assert asked == [("cpu", True, 7.0), ("cuda", False, 540.0)]
    assert json.loads((tmp_path / "x.json").read_text()) == {"qwen3": {"a": 1.0, "b": None}}
    for wrong in (["--device", "cpu"], ["expressions", "--device", "cpu"], ["qwen3", "--tiny"]):
        status, output = call(*wrong)
        assert status == 2 and "grpo bench qwen3 --device cuda" in output
    monkeypatch.setattr(grpo.cli, "find_spec", lambda name: None)
    status, output = call("qwen3", "--device", "cpu")
    assert status == 2 and "benchmark qwen3 needs torch" in output


def test_without_the_option_nothing_changes(monkeypatch):
    ran = []
    monkeypatch.setattr(grpo.cli, "benchmarks", lambda: {"qwen3": lambda: lambda console: ran.append(1)})
    assert call("qwen3")[0] == 0 and ran == [1]


def test_a_device_that_is_not_there_is_one_message():
    status, output = call("qwen3", "--device", "warp")
    assert status == 2 and "device is 'warp'" in output
