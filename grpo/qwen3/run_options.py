"""What `grpo train qwen3` is told: the options of a run beside its settings, their defaults, and what can be wrong."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from grpo.qwen3.checkpoint import RunFolder
from grpo.qwen3.fit import parse_bytes
from grpo.qwen3.model import REAL_SHAPE, TINY, as_device
from grpo.qwen3.rewards import REWARDS
from grpo.qwen3.settings import GRPOSettings

# Where to start from with a published model; the tiny one has the defaults of GRPOSettings.
PUBLISHED = {
    "steps": 50,
    "prompts_per_step": 8,
    "group_size": 8,
    "max_new_tokens": 512,
    "prompt_style": "base",
    "learning_rate": 2e-6,
    "warmup_steps": 5,
    "kl_coef": 0.0,
    "micro_batch_size": 4,
    "checkpoint_layers": True,
    "checkpoint_every": 10,
}
# Its random weights can learn nothing, so coins are thrown for the rewards; its tokenizer is the tiny one.
REHEARSAL = {**PUBLISHED, "prompt_style": "plain"}
# Test problems for the tiny model, a rehearsal and a published model, unless told otherwise.
EVALUATE = {TINY: 1000, REAL_SHAPE: 0, None: 200}


@dataclass(frozen=True)
class RunOptions:
    """What the command line says beside the settings of GRPO. None: what suits the model, or what the run has.

    model: "tiny" (default), a hub name, a folder, or "real-shape" for a rehearsal: the shape of Qwen3-0.6B with random
        weights, and coins for rewards.
    out: folder for metrics and checkpoints.
    resume: go on with the run in `out`.
    device: "cpu" or "cuda".
    data, test_data: JSON-lines files; without them, the arithmetic set.
    reward: "strict" (default) or "math".
    cold_start: whether a tiny model is taught the form of the answers first (default: yes).
    evaluate: test problems answered before and after; 0 for none.
    plot_file: file for the picture of the run's health.
    max_memory: such as "15GB": waves, micro-batches, checkpointing and, on a GPU, half precision are chosen to fit.
    plan: show the memory plan, and stop before any weights are loaded onto the device.
    dry_run: show the memory plan, take one step, and keep nothing.
    """

    model: str | None = None
    out: Path | None = None
    resume: bool = False
    device: str = "cpu"
    data: Path | None = None
    test_data: Path | None = None
    reward: str | None = None
    cold_start: bool | None = None
    evaluate: int | None = None
    plot_file: Path | None = None
    max_memory: str | None = None
    plan: bool = False
    dry_run: bool = False

    def __post_init__(self):
        as_device(self.device)
        if self.max_memory is not None:
            parse_bytes(self.max_memory)
        if self.reward not in (None, *REWARDS):
            raise ValueError(f"reward is {self.reward!r}: choose {' or '.join(map(repr, REWARDS))}")

    def notes(self):
        """What a run remembers of them, defaults filled in: plain data."""
        model = self.model or TINY
        return {
            "model": model,
            "data": None if self.data is None else str(self.data),
            "test_data": None if self.test_data is None else str(self.test_data),
            "reward": self.reward or REWARDS[0],
            "evaluate": EVALUATE.get(model, EVALUATE[None]) if self.evaluate is None else self.evaluate,
        }


def default_settings(model, **changes):
    """The settings for a model, with some changed. Raises ValueError for a bad one."""
    return GRPOSettings(**{**{TINY: {}, REAL_SHAPE: REHEARSAL}.get(model, PUBLISHED), **changes})


def prepare(options, changes):
    """Check everything that can be checked before a model is loaded.

    Args:
        options: RunOptions.
        changes: dict, the settings given on the command line.

    Returns: GRPOSettings, or None for a run that goes on with its own.

    Raises: ValueError or CheckpointError, one sentence.
    """
    if options.test_data is not None and options.data is None:
        raise ValueError("--test-data without --data: problems of your own to be tested on need some to be trained on")
    if not options.resume:
        model = options.model or TINY
        if options.cold_start and (model != TINY or options.data is not None):
            raise ValueError("--cold-start is for --model tiny and its own problems: leave it out")
        if options.out is not None and not (options.dry_run or options.plan):
            RunFolder(options.out).require_free()
        return default_settings(model, **changes)

    if options.out is None:
        raise ValueError("--resume needs --out: the folder of the run to go on with")
    if options.dry_run or options.plan:
        raise ValueError("--dry-run and --plan keep nothing and resume nothing: leave out one of the two")
    if options.max_memory is not None:
        raise ValueError(
            "--max-memory chooses for a new run: to go on in less memory, give --wave, --micro-batch or "
            "--checkpoint-layers"
        )
    notes = RunFolder(options.out).about()["notes"]
    for name, value in options.notes().items():
        if getattr(options, name) is not None and value != notes[name]:
            raise ValueError(
                f"the run in {options.out} has {name} {notes[name]!r}, not {value!r}: leave the option out"
            )
    return None
