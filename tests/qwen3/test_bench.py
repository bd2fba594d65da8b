"""The benchmark on a size of no interest: what it measures is equal work, and its numbers add up. No time is judged."""

import io
import math
import sys

import pytest
import torch
from rich.console import Console

from grpo.qwen3 import bench, bench_contestants
from grpo.qwen3.bench import ORDER, TRL, bench_qwen3, measure_peak
from grpo.qwen3.bench_contestants import CONTESTANTS, SIZES, Bfloat16, Floor, HFGenerate, OneByOne, Ours

SIZE = SIZES["test"]


def test_the_whole_table_without_trl(monkeypatch):
    few = ("ours", "ours, bf16 rollouts", TRL, "matmul floor")
    monkeypatch.setattr(bench, "ORDER", [name for name in ORDER if name in few])
    find = bench.importlib.util.find_spec
    monkeypatch.setattr(bench.importlib.util, "find_spec", lambda name: None if name == "trl" else find(name))
    output = io.StringIO()
    found = bench_qwen3(Console(file=output, width=200), repeats=1, sizes=("test",), memory=False)
    text = output.getvalue()
    assert "TRL is left out: trl not installed (pip install 'grpo-from-scratch[trl]')" in text
    for name in bench.ORDER:
        if name == TRL:
            assert f"test, {name}" not in found
            continue
        assert name in text and found[f"test, {name}"] > 0
        if name != "ours":
            assert math.isclose(found[f"test, {name} / ours"], found[f"test, {name}"] / found["test, ours"])
        if sys.platform == "linux":
            assert 2**26 < found[f"test, {name}, peak"] < 2**34
    parts = ("sampling", "log-probs, forward", "backward", "optimizer", "rest")
    assert math.isclose(sum(found[f"test, ours, {part}"] for part in parts), found["test, ours"], rel_tol=1e-6)
    assert 0 < found["test, ours, bf16 rollouts, mismatch"] < 0.02
    extremes = (found[f"test, ours, bf16 rollouts, {which} importance weight"] for which in ("smallest", "largest"))
    assert next(extremes) < 1 < next(extremes)
    assert all(isinstance(value, float) for value in found.values())


def test_trl_takes_part():
    pytest.importorskip("trl")
    pytest.importorskip("datasets")
    runner = bench._Runner(TRL, "test")
    try:
        answers = [runner.iteration() for _ in range(2)]
    finally:
        runner.close()
    assert all(answer["seconds"] > 0 and answer["peak"] > 0 for answer in answers)
    assert runner.process.returncode == 0


def test_a_contestant_that_fails_is_named():
    runner = bench._Runner("ours", "no such size")
    try:
        with pytest.raises(RuntimeError, match="'ours' failed: KeyError: 'no such size'"):
            runner.iteration()
    finally:
        runner.close()


@pytest.mark.parametrize("kind", [Ours, Bfloat16, HFGenerate, OneByOne])
def test_all_do_the_same_work(kind):
    with torch.random.fork_rng(devices=[]):
        contestant = kind(SIZE)
        rollouts = contestant.rollouts()
        before = [parameter.detach().clone() for parameter in contestant.model.parameters()]
        result = contestant.iteration()
    assert rollouts.lengths.tolist() == [SIZE.new_tokens] * SIZE.rollouts
    assert rollouts.completion_ids.shape == (SIZE.rollouts, SIZE.new_tokens)
    for row in range(SIZE.rollouts):
        prompt = rollouts.prompt_ids[row][rollouts.prompt_mask[row]].tolist()
        assert prompt == contestant.prompts[row // SIZE.group_size]
    assert len(set(map(tuple, rollouts.completion_ids.tolist()))) == SIZE.rollouts
    assert any(not torch.equal(one, two) for one, two in zip(before, contestant.model.parameters(), strict=True))
    assert set(result["split"]) >= {"sampling", "log-probs, forward", "backward", "optimizer"}


def test_the_contestants_agree_on_the_gradient():
    """One batch of rollouts, the losses of all ways: the gradients are one."""
    gradients = []
    with torch.random.fork_rng(devices=[]):
        contestants = [kind(SIZE) for kind in (Ours, OneByOne)]
        rollouts = contestants[0].rollouts()
    for contestant in contestants:
        advantages = torch.linspace(-1, 1, SIZE.rollouts)
        weights = rollouts.mask / rollouts.mask.sum(-1, keepdim=True) / SIZE.rollouts
        for rows in torch.arange(SIZE.rollouts).split(contestant.rows_at_once):
            contestant.loss(rollouts.rows(rows), advantages[rows], weights[rows]).backward()
        gradients.append([parameter.grad for parameter in contestant.model.parameters()])
    for one, two in zip(*gradients, strict=True):
        assert (one - two).abs().max() < 1e-5 * two.abs().max()


def test_the_floor_holds_all_products(monkeypatch):
    flops = []
    three = lambda matrix, rows: flops.append(6 * rows * matrix.numel())  # noqa: E731
    monkeypatch.setattr(bench_contestants, "_three_products", three)
    floor = Floor(SIZE)
    for project, matrix in zip([*floor.packed, floor.packed_head], [*floor.matrices, floor.head], strict=True):
        monkeypatch.setattr(project, "__class__", _counting(flops, matrix))
    floor.iteration()
    layers, head = sum(matrix.numel() for matrix in floor.matrices), floor.head.numel()
    prompts, rollouts, tokens = len(SIZE.prompt_lengths), SIZE.rollouts, SIZE.new_tokens
    sampling = 2 * layers * (prompts * max(SIZE.prompt_lengths) + rollouts * (tokens - 1)) + 2 * head * (
        prompts + rollouts * (tokens - 1)
    )
    training = 6 * layers * (sum(SIZE.prompt_lengths) + rollouts * (tokens - 1)) + 6 * head * rollouts * tokens
    assert sum(flops) == sampling + training
    with torch.random.fork_rng(devices=[]):
        model = Ours(SIZE).model
    matrices = sum(parameter.numel() for parameter in model.parameters() if parameter.ndim == 2)
    assert layers + head == matrices


def _counting(flops, matrix):
    class Counting:
        def __call__(self, x):
            flops.append(2 * x.numel() * matrix.shape[0])

    return Counting


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of a process is read from /proc")
def test_pieces_need_less_memory(record_property):
    peaks = {kind: measure_peak(kind, vocabulary=32_000) / 2**20 for kind in ("full", "kept", "chunked")}
    record_property("extra peak in MiB, 2048 tokens, vocabulary 32000", peaks)
    all_logits = 2048 * 32_000 * 4 / 2**20
    assert peaks["full"] > 2.5 * all_logits
    assert all_logits < peaks["kept"] < 1.7 * all_logits
    assert peaks["chunked"] < 0.8 * all_logits  # two pieces of 32 MiB, and what the allocator keeps


def test_the_contestants_are_those_of_the_table():
    assert {*CONTESTANTS, TRL} == set(ORDER)
