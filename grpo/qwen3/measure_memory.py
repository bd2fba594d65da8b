"""The memory plan held against what a process really takes.

    python -m grpo.qwen3.measure_memory [--sizes plain,wave] [--device cuda] [--json FILE]

Each size is a model with random weights in a process of its own. What is compared, for sampling and for training:

    planned    `memory_plan`: the tensors that are alive at the worst moment, worked out from shapes.
    measured   On a CPU the peak of the resident memory (VmHWM) of that phase, less what the process held before the
               model was made: torch, transformers and a first step of a tiny model, which loads all kernels. On a GPU
               torch.cuda.max_memory_allocated.

The second step is measured, as AdamW's averages are made in the first. Before each phase the C library is asked to
return what it holds of freed memory, and the peak is reset (/proc/self/clear_refs; where that is refused a thread looks
at the resident memory every millisecond). Rollouts have no stop token, so that they are as long as the plan says.

glibc's malloc keeps freed blocks of up to 32 MB in a heap of its own, with holes that the next tensor does not fit
into: of tensors that small a process holds up to twice what is alive. That says nothing about a plan of tensors, so the
measured process gives blocks above 64 kB back at once (MALLOC_MMAP_THRESHOLD_=65536); --heap leaves malloc as it is.
The tensors of a published model are larger than 32 MB, and so not concerned. What is measured beside tensors, and in no
plan, are the buffers of the matrix products and, for half precision on a CPU, the kernels that oneDNN compiles for
every new shape and keeps: a decode has a new shape for each token, so half precision is measured in training only.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Size:
    """One comparison. shape: of a Qwen3Config; prompt_width: tokens of every prompt; settings: of GRPOSettings."""

    about: str
    prompt_width: int
    shape: dict = field(default_factory=dict)
    settings: dict = field(default_factory=dict)


BASE_SHAPE = {
    "vocab_size": 2000,
    "hidden_size": 256,
    "intermediate_size": 768,
    "num_hidden_layers": 6,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 32,
    "tie_word_embeddings": True,
}
BASE_SETTINGS = {"prompts_per_step": 4, "group_size": 4, "max_new_tokens": 32, "kl_coef": 0.0, "steps": 2}
MANY_KEYS = {"num_hidden_layers": 4, "num_attention_heads": 16, "num_key_value_heads": 16, "head_dim": 64}
HALF = {"precision": "bfloat16"}
# glibc's name for: larger blocks are maps of their own, which go back to the system when they are freed.
NO_HEAP = {"MALLOC_MMAP_THRESHOLD_": "65536"}
SIZES = {
    "small": Size("weights and states of a small model", 16, {"vocab_size": 8000, "num_hidden_layers": 4}),
    "parameters": Size(
        "almost only weights, gradients and AdamW's averages",
        16,
        {"vocab_size": 50_000, "hidden_size": 512, "intermediate_size": 1536, "num_hidden_layers": 8},
    ),
    "reference": Size(
        "a reference for the KL, an untied output matrix, two backward passes",
        16,
        {"vocab_size": 30_000, "hidden_size": 384, "intermediate_size": 1152, "tie_word_embeddings": False},
        {"kl_coef": 0.1, "micro_batch_size": 8},
    ),
    "activations": Size(
        "one backward pass over 4,000 tokens", 16, {"hidden_size": 384}, {"max_new_tokens": 240, "group_size": 4}
    ),
    "recomputed": Size(
        "the same tokens with layers computed again",
        16,
        {"hidden_size": 384},
        {"max_new_tokens": 240, "group_size": 4, "checkpoint_layers": True},
    ),
    "half precision": Size(
        "the same tokens in bfloat16", 16, {"hidden_size": 384}, {"max_new_tokens": 240, "group_size": 4, **HALF}
    ),
    "cache": Size(
        "keys and values of 64 rollouts",
        64,
        MANY_KEYS,
        {"group_size": 16, "max_new_tokens": 128, "micro_batch_size": 4},
    ),
    "wave": Size(
        "the same rollouts in waves of 16",
        64,
        MANY_KEYS,
        {"group_size": 16, "max_new_tokens": 128, "micro_batch_size": 4, "rollout_wave": 16},
    ),
    "vocabulary": Size(
        "logits over 150,000 words",
        16,
        {"vocab_size": 150_000, "hidden_size": 128, "num_hidden_layers": 2},
        {"prompts_per_step": 8, "group_size": 16, "micro_batch_size": 16},
    ),
    "large": Size(
        "3 GB",
        32,
        {"vocab_size": 100_000, "hidden_size": 768, "intermediate_size": 2304, "num_hidden_layers": 12},
        {"micro_batch_size": 8},
    ),
}


def size_settings(size):
    """GRPOSettings of a size."""
    from grpo.qwen3.settings import GRPOSettings

    return GRPOSettings(**{**BASE_SETTINGS, **size.settings})


def size_config(size):
    """transformers.Qwen3Config of a size."""
    from transformers import Qwen3Config

    return Qwen3Config(**{**BASE_SHAPE, **size.shape}, max_position_embeddings=2048)


def measure(size, device="cpu"):
    """Plan and measured peaks of one size, in this process: it should have made no other model.

    Args:
        size: Size.
        device: "cpu" (Linux only) or "cuda".

    Returns: dict with planned and measured, each a dict of bytes by phase.

    Raises: RuntimeError if the resident memory cannot be read here.
    """
    from grpo.qwen3.memory import memory_plan
    from grpo.qwen3.model import tiny_config, tiny_model
    from grpo.qwen3.peak import CudaMeter, ResidentMeter

    settings = size_settings(size)
    # Pays for what the first step of any model loads and keeps.
    _trainer(
        tiny_model(0, tiny_config()), settings.changed(prompts_per_step=1, group_size=2, max_new_tokens=3), 4
    ).step()
    meter = CudaMeter(device) if device.startswith("cuda") else ResidentMeter()
    meter.start()
    base = meter.now()
    trainer = _trainer(tiny_model(0, size_config(size)).to(device), settings, size.prompt_width)
    trainer.step()

    measured, sample = {}, trainer.sample

    def watched(chosen):
        trainer.optimizer.zero_grad()  # as the sampling itself begins: gradients belong to training
        meter.start()
        rollouts = sample(chosen)
        measured["sampling"] = meter.peak() - base
        meter.start()
        return rollouts

    trainer.sample = watched
    trainer.step()
    measured["training"] = meter.peak() - base
    plan = memory_plan(trainer.model.config, settings, size.prompt_width, device)
    return {"planned": {"sampling": plan.sampling, "training": plan.training}, "measured": measured}


def measure_apart(name, device="cpu", heap=False):
    """`measure` for SIZES[name] in a fresh process; heap: leave the C library's malloc as it is.

    Raises: RuntimeError with its last words if it failed.
    """
    command = [sys.executable, "-m", "grpo.qwen3.measure_memory", "--here", name, "--device", device]
    environment = os.environ if heap else {**os.environ, **NO_HEAP}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise RuntimeError(f"size {name} could not be measured: {done.stderr.strip().splitlines()[-1:]}")
    return json.loads(done.stdout.splitlines()[-1])


def comparison_table(found):
    """rich Table. found: dict, name of the size -> what `measure` returns."""
    from rich.table import Table

    from grpo.qwen3.memory import readable_bytes

    table = Table(title="Peak memory, planned and measured")
    for column in ("size", "", "phase", "planned", "measured", "measured / planned"):
        table.add_column(column, justify="left" if column in ("size", "", "phase") else "right")
    for name, row in found.items():
        for phase in ("sampling", "training"):
            planned, measured = row["planned"][phase], row["measured"][phase]
            first = (name, SIZES[name].about) if phase == "sampling" else ("", "")
            table.add_row(*first, phase, readable_bytes(planned), readable_bytes(measured), f"{measured / planned:.2f}")
    return table


class _Coins:
    """Rewards that always differ within a group, so that every rollout is trained on."""

    def batch(self, texts, truths, finished):
        return [float(index % 2) for index in range(len(texts))]


def _trainer(model, settings, width):
    from grpo.qwen3.problems import TextProblem
    from grpo.qwen3.tokenizer import tiny_tokenizer
    from grpo.qwen3.trainer import Trainer

    problems = [TextProblem("1+1?", "2")] * settings.prompts_per_step
    trainer = Trainer(model, tiny_tokenizer(), problems, _Coins(), settings, stop_ids=())
    trainer.prompts = [[(7 * row + place) % 40 for place in range(width)] for row in range(len(problems))]
    return trainer


def main(arguments=None):
    """The command line. Returns: dict, name of the size -> what `measure` returns."""
    parser = argparse.ArgumentParser(prog="python -m grpo.qwen3.measure_memory", description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default=",".join(SIZES), help="names, with commas between; default all")
    parser.add_argument("--device", default="cpu", help="cpu, or cuda")
    parser.add_argument("--heap", action="store_true", help="leave the C library's malloc as it is")
    parser.add_argument("--json", type=Path, help="write all numbers here")
    parser.add_argument("--here", choices=SIZES, help="this size in this process, as a line of JSON")
    options = parser.parse_args(arguments)
    if options.here:
        print(json.dumps(measure(SIZES[options.here], options.device)))
        return None
    names = options.sizes.split(",")
    unknown = [name for name in names if name not in SIZES]
    if unknown:
        parser.error(f"unknown sizes {', '.join(unknown)}: choose from {', '.join(SIZES)}")
    found = {}
    for name in names:
        found[name] = measure_apart(name, options.device, options.heap)
        ratios = (found[name]["measured"][phase] / found[name]["planned"][phase] for phase in ("sampling", "training"))
        print(f"{name}: measured / planned {', '.join(f'{ratio:.2f}' for ratio in ratios)}", flush=True)
    from rich.console import Console

    Console().print(comparison_table(found))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return found


if __name__ == "__main__":
    main()
