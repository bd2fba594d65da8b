"""The parts of `grpo bench qwen3 --device ...`, each in a process of its own.

    python -m grpo.qwen3.bench_device_parts PART SIZE DEVICE SECONDS

prints one line of JSON, {name: number}, for everything it has measured, as soon as it has: what is there when the time
is up counts. PART is decode, training or recipe.
"""

from __future__ import annotations

import json
import statistics
import sys
import time

import torch

from grpo.qwen3.arithmetic import load_arithmetic
from grpo.qwen3.bench_device_sizes import SIZES
from grpo.qwen3.decode import DecodeWeights, KVCache, decode_step, prefill
from grpo.qwen3.evaluate import evaluate
from grpo.qwen3.memory import ModelShape, memory_plan
from grpo.qwen3.peak import read_peak, reset_peak
from grpo.qwen3.precision import native_half
from grpo.qwen3.problems import TextProblem
from grpo.qwen3.recipes import arm_trainer, cold_started
from grpo.qwen3.sampler import sample
from grpo.qwen3.settings import GRPOSettings
from grpo.qwen3.tokenizer import tiny_tokenizer
from grpo.qwen3.trainer import Trainer

REPEATS = 3
# Of its time, what recipe a may use for training; the rest is for answering the test problems.
TRAINING_SHARE = 0.85


def half_name(device):
    """Name of the half precision: the one that the device is fast at; a CPU takes bfloat16, to run the same lines."""
    return native_half(device) or "bfloat16"


def random_model(config, device):
    """A Qwen3 with random weights, made on the device itself: drawing 596 million numbers takes a CPU several seconds.

    Returns: Qwen3ForCausalLM in evaluation mode. Sets the global seed: this is a process of its own.
    """
    from transformers import Qwen3ForCausalLM

    torch.manual_seed(0)
    with torch.device(device):
        return Qwen3ForCausalLM(config).eval()


def measure_decode(size, device, say, seconds):
    """Bandwidth, then seconds per decoded token of our sampler, of the step alone, and of transformers' generate."""
    say({"bandwidth": copy_bandwidth(size.copy_bytes, device)})
    config, half = size.config(), getattr(torch, half_name(device))
    model, shape = random_model(config, device), ModelShape.of(config)
    weights = DecodeWeights.from_model(model, half, pack=False)
    say({"decode, bytes of weights": float(2 * shape.matrix_numbers)})
    for prompts, group in size.batches:
        name = f"decode, batch {prompts * group}"
        say({f"{name}, bytes": float(decode_bytes(shape, size, prompts, group))})
        ids = torch.randint(config.vocab_size, (prompts, size.prompt_width), generator=torch.Generator().manual_seed(1))

        def ours(tokens, ids=ids, group=group):
            generator = torch.Generator().manual_seed(2)
            options = {"stop_ids": (), "pad_id": 0, "generator": generator, "rollout_dtype": half}
            return sample(model, ids.tolist(), group, max_new_tokens=tokens, **options)

        say({f"{name}, ours": _per_token(ours, size, device)})
        say({f"{name}, the step alone": _step_seconds(weights, ids.to(device), group, size, device)})
    del weights
    model = model.to(half)
    for prompts, group in size.batches:
        ids = torch.randint(
            config.vocab_size, (prompts * group, size.prompt_width), generator=torch.Generator().manual_seed(1)
        )
        seconds = _per_token(lambda tokens, ids=ids: hf_generate(model, ids.to(device), tokens), size, device)
        say({f"decode, batch {prompts * group}, HF generate": seconds})


def copy_bandwidth(size, device):
    """Bytes per second, read and written, of copying a tensor of `size` bytes: the best of 10."""
    source = torch.ones(size // 4, device=device)
    target = torch.empty_like(source)
    times = []
    for _ in range(10):
        start = _now(device)
        target.copy_(source)
        times.append(_now(device) - start)
    return 2 * size / min(times)


def decode_bytes(shape, size, prompts, group):
    """Bytes that one decode step cannot do without reading: the matrices, and keys and values of prompts (once for a
    group) and of the tokens so far, on average over the steps that are timed."""
    tokens = prompts * size.prompt_width + prompts * group * (size.short + size.long) / 2
    return 2 * (shape.matrix_numbers + shape.cache_numbers_per_token * tokens)


def hf_generate(model, ids, tokens):
    """transformers' generate: as many tokens for every row, at temperature 1, no filter and no stop."""
    with torch.no_grad():
        return model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            do_sample=True,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            min_new_tokens=tokens,
            max_new_tokens=tokens,
            eos_token_id=None,
            pad_token_id=0,
        )


def measure_training(size, device, say, seconds):
    """Seconds of a whole iteration, and the peak of both phases beside what the memory plan says."""
    reset_peak(device)
    idle = read_peak(device)
    half = half_name(device)
    settings = GRPOSettings(**size.training, rollout_dtype=half, precision=half)
    # One symbol is one token, so this is as wide as it is long.
    problems = [
        TextProblem("".join(f"{row}{place}+"[place % 2] for place in range(size.prompt_width)), "1")
        for row in range(settings.prompts_per_step)
    ]
    plan = memory_plan(size.config(), settings, size.prompt_width, device)
    say({"training, plan, sampling": float(plan.sampling), "training, plan, training": float(plan.training)})
    trainer = MeasuredTrainer(
        random_model(size.config(), device),
        tiny_tokenizer(),
        problems,
        EveryOther(),
        settings,
        stop_ids=(),
    )
    for name in ("first step", "step"):  # the first one also pays for what is made once
        reset_peak(device)
        start = _now(device)
        signals = trainer.step()
        seconds, peak = _now(device) - start, read_peak(device)
        say(
            {
                f"training, {name}": seconds,
                f"training, {name}, sampling": signals["sampling_seconds"],
                f"training, {name}, tokens": float(signals["tokens"]),
                f"training, {name}, peak of sampling": trainer.sampling_peak - idle,
                f"training, {name}, peak of training": peak - idle,
            }
        )


class EveryOther:
    """A reward that gives every group a spread, so that no rollout is left out of the backward pass."""

    def batch(self, texts, truths, finished):
        return [float(row % 2) for row in range(len(texts))]


class MeasuredTrainer(Trainer):
    """Notes the peak of the memory while sampling, then starts to count anew."""

    sampling_peak = float("nan")

    def sample(self, chosen):
        rollouts = super().sample(chosen)
        device = rollouts.lengths.device
        _now(device)
        self.sampling_peak = read_peak(device)
        reset_peak(device)
        return rollouts


def measure_recipe(size, device, say, seconds):
    """Recipe a on the device: greedy accuracy before and after, seconds a step. As many steps as fit are taken."""
    due = time.perf_counter() + TRAINING_SHARE * seconds
    start = time.perf_counter()
    model, tokenizer, cold = cold_started("a", 0, **size.cold_start)
    say({"recipe, cold start": time.perf_counter() - start, "recipe, cold start, steps": float(cold.steps)})
    model.to(device)
    test = load_arithmetic("test")[: size.test]
    say({"recipe, before": evaluate(model, tokenizer, test).accuracy})
    trainer = arm_trainer("a", "recipe a", 0, model, tokenizer)
    start = time.perf_counter()
    for step in range(1, size.recipe_steps + 1):
        trainer.step()
        each = (time.perf_counter() - start) / step
        say({"recipe, steps": float(step), "recipe, step": each, "recipe, reward": trainer.history[-1]["reward"]})
        if time.perf_counter() + each > due:
            break
    say({"recipe, after": evaluate(model, tokenizer, test).accuracy})


def _per_token(run, size, device):
    """Median seconds of one more token: the difference between a long and a short run, divided by its tokens."""
    run(size.short)  # what is made once
    found = []
    for _ in range(REPEATS):
        times = []
        for tokens in (size.short, size.long):
            start = _now(device)
            run(tokens)
            times.append(_now(device) - start)
        found.append((times[1] - times[0]) / (size.long - size.short))
    return statistics.median(found)


@torch.no_grad()
def _step_seconds(weights, ids, group, size, device):
    """Median seconds of `decode_step`, without drawing tokens and without asking who still runs."""
    mask = torch.ones_like(ids, dtype=torch.bool)
    cache = KVCache(weights, mask, group, size.long)
    prefill(weights, cache, ids, mask)
    tokens = ids[:, -1].repeat_interleave(group)
    found = []
    for _ in range(REPEATS):
        start = _now(device)
        for slot in range(size.short, size.long):
            decode_step(weights, cache, tokens, slot)
        found.append((_now(device) - start) / (size.long - size.short))
    return statistics.median(found)


def _now(device):
    """Seconds on the clock, after everything that the device was given is done."""
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


PARTS = {"decode": measure_decode, "training": measure_training, "recipe": measure_recipe}


def main(part, size, device, seconds):
    """Measure a part in about so many seconds; every line on the standard output is one dict."""
    output, sys.stdout = sys.stdout, sys.stderr  # whatever a library prints stays out of the answers

    def say(found):
        print(json.dumps(found), file=output, flush=True)

    PARTS[part](SIZES[size], torch.device(device), say, float(seconds))


if __name__ == "__main__":
    main(*sys.argv[1:])
