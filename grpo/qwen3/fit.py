"""Choose waves, micro-batches and checkpointing so that a run fits into a given amount of memory, and say why."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from reprlib import repr as shown

from grpo.qwen3.memory import (
    MOMENTS,
    SAMPLING_MOMENTS,
    MemoryPlan,
    memory_plan,
    readable_bytes,
)
from grpo.qwen3.settings import GRPOSettings

UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
# torch with its libraries; on a GPU, its context.
LIBRARY_BYTES = 500_000_000
# Of the memory: what an allocator rounds up, and blocks too small for the next tensor.
ROUNDING_SHARE = 0.05
# What there is for every parameter, whatever the batch.
OF_PARAMETERS = ("weights", "AdamW's two averages", "reference", "gradients")


class FitError(ValueError):
    """A run does not fit into the memory, not even in the smallest pieces. The message says what is too large."""


@dataclass(frozen=True)
class Fit:
    """What was chosen.

    settings: GRPOSettings. plan: its MemoryPlan. choices: tuple of str, a sentence each.
    """

    settings: GRPOSettings
    plan: MemoryPlan
    choices: tuple


def parse_bytes(text):
    """A number of bytes from "15GB", "500 MB" (powers of 1000), "14.5GiB" (powers of 1024) or "2000000".

    Raises: ValueError for anything else, for less than a byte, and for more than 2**63 - 1 of them.
    """
    found = re.fullmatch(r"\s*(\d{1,20}(?:\.\d{0,20})?|\.\d{1,20})\s*([a-zA-Z]*)\s*", str(text))
    unit = None if found is None else UNITS.get(found[2].upper())
    count = 0 if unit is None else int(Fraction(found[1].rstrip(".")) * unit)
    if not 1 <= count < 2**63:
        raise ValueError(f"the memory is {shown(text)}: write a number and a unit, such as 15GB, 14.5GiB or 500MB")
    return count


def fit_to_memory(config, settings, prompt_width, budget_bytes, device="cpu", *, half=None, keep=()):
    """Settings with which a run stays within a budget, the fastest that do.

    Sampling and training are fitted apart, as they take turns. Rollouts are decoded in as few waves as possible: each
    wave reads all weights for every token. The backward pass gets as large micro-batches as fit; layers are computed
    again only if otherwise not even one group would fit at a time, since a prompt runs once for those of its rollouts
    that are in the micro-batch.

    Args:
        config: transformers Qwen3Config, or a ModelShape.
        settings: GRPOSettings to start from. rollout_wave, micro_batch_size and checkpoint_layers are chosen anew.
        prompt_width: tokens of the longest prompt.
        budget_bytes: all that the process may take (of the GPU's memory, on a GPU). A part is left to the libraries and
            the allocator, see `usable_bytes`.
        device: "cpu" or "cuda".
        half: the format of half precision that the device is fast at, "bfloat16" or "float16"; precision and
            rollout_dtype become it. None leaves both as they are.
        keep: names of settings not to be changed.

    Returns: Fit.

    Raises: FitError if it does not fit in the smallest pieces; ValueError for an unknown name in keep.
    """
    settings.changed(**{name: getattr(settings, name, None) for name in keep})  # refuses unknown names
    usable = usable_bytes(budget_bytes)
    settings, choices = _with_half(settings, half, keep)

    def plan(**changes):
        return memory_plan(config, settings.changed(**changes), prompt_width, device)

    waves = wave_sizes(settings)
    if "rollout_wave" in keep:
        waves = [settings.rollout_wave]
    pieces = [
        {"checkpoint_layers": layers, "micro_batch_size": size}
        for layers, size in micro_batches(settings)
        if "checkpoint_layers" not in keep or layers == settings.checkpoint_layers
    ]
    if "micro_batch_size" in keep:
        pieces = [dict(piece, micro_batch_size=settings.micro_batch_size) for piece in pieces]
    smallest = plan(rollout_wave=waves[-1], **pieces[-1])
    if smallest.peak > usable:
        raise FitError(
            _too_large(smallest, settings.changed(rollout_wave=waves[-1], **pieces[-1]), usable, budget_bytes)
        )
    wave = next(wave for wave in waves if plan(rollout_wave=wave).sampling <= usable)
    piece = next(piece for piece in pieces if plan(**piece).training <= usable)
    chosen = settings.changed(rollout_wave=wave, **piece)
    final = memory_plan(config, chosen, prompt_width, device)
    choices += [
        f"of {readable_bytes(budget_bytes)}, {readable_bytes(usable)} are planned for tensors; the rest is for the "
        "libraries and for what the allocator rounds up",
        _say_wave(chosen, final, plan(rollout_wave=None)),
        _say_micro_batch(chosen, final, plan(micro_batch_size=None, checkpoint_layers=False), keep),
    ]
    return Fit(chosen, final, tuple(choices))


def usable_bytes(budget_bytes):
    """What of a budget is planned for tensors. Raises FitError if the libraries alone take more."""
    usable = int(budget_bytes * (1 - ROUNDING_SHARE)) - LIBRARY_BYTES
    if usable <= 0:
        raise FitError(
            f"{readable_bytes(budget_bytes)} are not enough for torch itself, which takes about "
            f"{readable_bytes(LIBRARY_BYTES)}: allow more memory"
        )
    return usable


def wave_sizes(settings):
    """Values of rollout_wave, the largest first: all, whole prompts in 2, 3, ... waves, parts of a group."""
    prompts, group_size = settings.prompts_per_step, settings.group_size
    whole = _parts(prompts)[1:]
    return [None, *(count * group_size for count in whole), *_parts(group_size)[1:]]


def micro_batches(settings):
    """(checkpoint_layers, micro_batch_size), the fastest first."""
    prompts, group_size = settings.prompts_per_step, settings.group_size
    whole = [count * group_size for count in _parts(prompts)]
    parts = _parts(group_size)[1:]
    # Parts of a group without checkpointing come last but one: they are for whoever has ruled the other out.
    return [
        *((layers, size) for layers in (False, True) for size in whole),
        *((layers, size) for layers in (False, True) for size in parts),
    ]


def _parts(count):
    """Sizes of the largest part when `count` things are split into 1, 2, 3, ... parts, evenly; each size once."""
    return list(dict.fromkeys(-(-count // parts) for parts in range(1, count + 1)))


def _with_half(settings, half, keep):
    if half is None:
        return settings, []
    names = [name for name in ("precision", "rollout_dtype") if name not in keep]
    choices = []
    if names:
        why = "which this GPU computes fast"
        if half == "float16":
            why = "because this GPU has no bfloat16 of its own"
            why += "; the loss is scaled so that small gradients survive" if "precision" in names else ""
        choices.append(f"{' and '.join(names)} {half}, {why}. Weights, gradients and AdamW's averages stay float32")
    asked = [name for name in keep if getattr(settings, name, None) == "bfloat16"]
    if half == "float16" and asked:
        choices.append(f"{' and '.join(asked)} bfloat16 as asked, which this GPU has to emulate: float16 is faster")
    return settings.changed(**dict.fromkeys(names, half)), choices


def _say_wave(settings, plan, whole):
    total, wave = settings.rollouts_per_step, settings.rollout_wave
    if wave is None:
        return f"all {total} rollouts are decoded at once: {readable_bytes(plan.sampling)} while sampling"
    return (
        f"rollouts are decoded in waves of {wave}: {readable_bytes(plan.sampling)} while sampling; all {total} at "
        f"once would take {readable_bytes(whole.sampling)}, {readable_bytes(whole['KV cache'].sampling)} of them "
        "keys and values"
    )


def _say_micro_batch(settings, plan, whole, keep):
    total, size = settings.rollouts_per_step, settings.micro_batch_size or settings.rollouts_per_step
    batch = f"all {total} rollouts in one backward pass" if size >= total else f"micro-batches of {size} rollouts"
    layers = "keeping what every layer computed"
    if settings.checkpoint_layers:
        layers = "computing every layer again (about a third more work)"
        layers += "" if "checkpoint_layers" in keep else ", since without that not even one group fits"
    said = f"{batch}, {layers}: {readable_bytes(plan.training)} while training"
    if size < total or settings.checkpoint_layers:
        said += f"; in one pass, keeping everything, it would be {readable_bytes(whole.training)}"
    return said


def _too_large(plan, settings, usable, budget):
    moment = max(MOMENTS, key=plan.at)
    phase = "sampling" if moment in SAMPLING_MOMENTS else "training"
    needed = plan.at(moment)
    alive = {item.name: item.at(moment) for item in plan.items}
    fixed = sum(alive[name] for name in OF_PARAMETERS)
    least = (needed + LIBRARY_BYTES) / (1 - ROUNDING_SHARE)
    start = (
        f"{readable_bytes(budget)} are too little: {phase} takes {readable_bytes(needed)} even in the smallest pieces, "
        f"and {readable_bytes(usable)} can be planned for"
    )
    if fixed > usable:
        names = ", ".join(f"{name} {readable_bytes(alive[name])}" for name in OF_PARAMETERS if alive[name])
        helps = "; ".join(["a smaller model", *_remedies("reference", settings)[: settings.needs_reference]])
        return (
            f"{start}. What every parameter needs is too large by itself ({names}). "
            f"What helps: {helps}, or {readable_bytes(least)} of memory"
        )
    name = max((name for name in alive if name not in OF_PARAMETERS), key=alive.get)
    helps = "".join(f"{remedy}, " for remedy in _remedies(name, settings))
    return (
        f"{start}. Beside {readable_bytes(fixed)} for weights, averages and gradients the largest item is {name}, "
        f"{readable_bytes(alive[name])}. What helps: {helps}{readable_bytes(least)} of memory"
    )


def _remedies(name, settings):
    """list of str: what makes this item smaller, as far as it is not done already."""
    half = "set {} to 'bfloat16' or 'float16'"
    tokens = f"lower max_new_tokens ({settings.max_new_tokens})"
    precision = [half.format("precision")] if settings.precision == "float32" else []
    rounded = [half.format("rollout_dtype")] if settings.rollout_dtype == "float32" else []
    wave = settings.rollout_wave or settings.rollouts_per_step
    waves = [f"lower rollout_wave ({wave})"] if wave > 1 else []
    micro = settings.micro_batch_size or settings.rollouts_per_step
    rows = [f"lower micro_batch_size ({micro})"] if micro > 1 else []
    layers = [] if settings.checkpoint_layers else ["turn on checkpoint_layers"]
    return {
        "reference": ["set kl_coef to 0, which needs no reference"],
        "KV cache": [*waves, *rounded, tokens],
        "drawing a token": waves,
        "attention of a step": [*waves, tokens],
        "weights for sampling": ["set rollout_dtype to 'float32', which on a GPU needs no copy"],
        "running the prompts": ["take shorter prompts"],
        "activations": [*rows, *layers, *precision, tokens],
        "gradients inside a layer": [*rows, tokens],
        "logits": ["lower chunk_size"],
        "a layer computed again": [*rows, *precision, tokens],
        "last norm": [*rows, tokens],
        "layers in half precision": layers,
    }.get(name, [])
