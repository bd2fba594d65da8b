"""How much memory a run takes, item by item, worked out from shapes before anything is allocated.

Sampling and training take turns, and training has moments at which different things are alive: a run needs the largest
of these sums. Counted are the tensors; the libraries themselves (some 0.5 GB), the allocator's rounding and what else
runs on the machine come on top. `python -m grpo.qwen3.measure_memory` holds the plan against measured peaks.
"""

from __future__ import annotations

from dataclasses import dataclass

from grpo.qwen3.logprobs import CHUNK_BYTES, KEEP_BYTES
from grpo.qwen3.sampler import PACK_LIMIT, wave_parts
from grpo.qwen3.shape import ModelShape

BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
# Logits and their exponentials, or the gradient of the former, are alive at once while a piece is scored.
COPIES_OF_A_PIECE = 2
SAMPLING_MOMENTS = ("prefill", "decode")
# The log-probs are scored and their gradient taken; the layers' backward pass; the embedding's, its end; AdamW.
TRAINING_MOMENTS = ("scoring", "layers", "embedding", "update")
MOMENTS = SAMPLING_MOMENTS + TRAINING_MOMENTS


@dataclass(frozen=True)
class MemoryItem:
    """One line of a plan: what it is, its bytes while sampling and while training, how they come about, and when.

    moments: those of MOMENTS at which it is alive.
    """

    name: str
    sampling: int
    training: int
    formula: str
    moments: tuple = MOMENTS

    def at(self, moment):
        """Bytes alive at this moment."""
        if moment not in self.moments:
            return 0
        return self.sampling if moment in SAMPLING_MOMENTS else self.training


@dataclass(frozen=True)
class MemoryPlan:
    """What a run allocates. items: tuple of MemoryItem."""

    items: tuple

    def at(self, moment):
        """Bytes alive at one of MOMENTS."""
        return sum(item.at(moment) for item in self.items)

    @property
    def sampling(self):
        """Bytes while sampling, at most."""
        return max(map(self.at, SAMPLING_MOMENTS))

    @property
    def training(self):
        """Bytes while training, at most."""
        return max(map(self.at, TRAINING_MOMENTS))

    @property
    def peak(self):
        """The larger of the two."""
        return max(self.sampling, self.training)

    def __getitem__(self, name):
        return next(item for item in self.items if item.name == name)


def memory_plan(config, settings, prompt_width, device="cpu"):
    """The memory plan of a run.

    Args:
        config: transformers Qwen3Config, or a ModelShape.
        settings: GRPOSettings.
        prompt_width: tokens of the longest prompt.
        device: "cpu" or "cuda"; on a CPU sampling copies the weights of a small model into a faster layout, and AdamW
            needs room for intermediate results.

    Returns: MemoryPlan. Completions are counted at their full max_new_tokens: an upper bound.
    """
    shape = ModelShape.of(config)
    weights = 4 * shape.parameters
    output = 4 * shape.output_numbers
    on_cpu = str(device).startswith("cpu")
    # The first backward pass after a step makes the gradients, layer by layer; any further one adds to them.
    added_up = _rows(settings)[0] < settings.rollouts_per_step
    alive = TRAINING_MOMENTS if added_up else ("embedding", "update")
    reference = weights if settings.needs_reference else 0
    return MemoryPlan(
        (
            MemoryItem("weights", weights, weights, "parameters x 4 (float32)"),
            MemoryItem("AdamW's two averages", 2 * weights, 2 * weights, "parameters x 8"),
            MemoryItem("reference", reference, reference, "parameters x 4, with a KL penalty only"),
            MemoryItem("gradients", 0, weights, "parameters x 4", alive),
            _sampling_copy(shape, settings, on_cpu),
            _cache(shape, settings, prompt_width),
            _prefill(shape, settings, prompt_width),
            _attention(shape, settings, prompt_width),
            _drawing(shape, settings),
            *_half_weights(shape, settings),
            *_activations(shape, settings, prompt_width, on_cpu),
            _layer_gradients(shape, settings, prompt_width),
            _logits(shape, settings),
            # Made anew in every backward pass before it is added to the others. A tied one waits for the embedding's.
            MemoryItem(
                "gradient of the output matrix",
                0,
                output,
                "vocabulary x hidden x 4",
                ("scoring", "layers", "embedding") if shape.tied and added_up else ("scoring", "layers"),
            ),
            MemoryItem("gradient of the embedding", 0, output, "vocabulary x hidden x 4", ("embedding",)),
            MemoryItem(
                "AdamW's intermediate results",
                0,
                2 * output if on_cpu else 0,
                "largest matrix x 8, on a CPU",
                ("update",),
            ),
        )
    )


def _sampling_copy(shape, settings, on_cpu):
    each = BYTES[settings.rollout_dtype]
    packed = on_cpu and 4 * shape.parameters <= PACK_LIMIT
    size = each * shape.matrix_numbers if each == 2 or packed else 0
    return MemoryItem("weights for sampling", size, 0, f"matrices x {each}, in half precision or in the CPU's layout")


def _wave(settings):
    """(prompts, rollouts) of the largest wave."""
    parts = wave_parts(settings.prompts_per_step, settings.group_size, settings.rollout_wave)
    return max((asked.stop - asked.start, part.stop - part.start) for asked, part in parts)


def _cache(shape, settings, prompt_width):
    each = BYTES[settings.rollout_dtype]
    prompts, rollouts = _wave(settings)
    tokens = prompts * prompt_width + rollouts * settings.max_new_tokens
    formula = f"(prompts x width + rollouts x new) x layers x 2 x keys x {each}"
    if settings.rollout_wave is not None:
        formula += f", a wave of {prompts} prompts, {rollouts} rollouts"
    return MemoryItem("KV cache", each * tokens * shape.cache_numbers_per_token, 0, formula)


def _prefill(shape, settings, prompt_width):
    each = BYTES[settings.rollout_dtype]
    size = _wave(settings)[0] * prompt_width * (4 * 3 * shape.hidden + each * 4 * shape.intermediate)
    return MemoryItem(
        "running the prompts", size, 0, f"prompts x width x (3 hidden x 4 + 4 mlp x {each})", ("prefill",)
    )


def _attention(shape, settings, prompt_width):
    each = BYTES[settings.rollout_dtype]
    scores = _wave(settings)[1] * shape.heads * (prompt_width + settings.max_new_tokens)
    formula = f"rollouts x heads x (width + new) x {3 * each + 4}"
    return MemoryItem("attention of a step", (3 * each + 4) * scores, 0, formula, ("decode",))


def _drawing(shape, settings):
    """The logits as they come; the same in float32, divided by the temperature; their exponentials."""
    each = BYTES[settings.rollout_dtype]
    each += 4 if each == 2 or settings.temperature != 1 else 0
    each += 4
    size = each * _wave(settings)[1] * shape.vocabulary
    return MemoryItem("drawing a token", size, 0, f"rollouts x vocabulary x {each}", ("decode",))


def _rows(settings):
    """(rollouts, prompts) of the largest micro-batch; one that begins inside a group may touch a prompt more."""
    total, group_size = settings.rollouts_per_step, settings.group_size
    rows = min(settings.micro_batch_size or total, total)
    ends = ((start, min(start + rows, total) - 1) for start in range(0, total, rows))
    return rows, max(last // group_size - first // group_size + 1 for first, last in ends)


def _tokens(settings, prompt_width):
    """(tokens that run through the layers, tokens in whole rows) of the largest micro-batch."""
    rows, prompts = _rows(settings)
    width = settings.max_new_tokens - 1  # the last token is only a target
    return prompts * prompt_width + rows * width, rows * (prompt_width + width)


def _half_weights(shape, settings):
    """Autocast's copies of the layers' matrices, each until its backward pass, and of the output matrix."""
    if settings.precision == "float32":
        return MemoryItem("layers in half precision", 0, 0, ""), MemoryItem("output matrix in half precision", 0, 0, "")
    layers, moments = (1, ("layers",)) if settings.checkpoint_layers else (shape.layers, ("scoring", "layers"))
    size = 2 * layers * shape.layer_matrix_numbers
    return (
        MemoryItem("layers in half precision", 0, size, f"matrices of {layers} layers x 2", moments),
        MemoryItem(
            "output matrix in half precision", 0, 2 * shape.output_numbers, "vocabulary x hidden x 2", ("scoring",)
        ),
    )


def _activations(shape, settings, prompt_width, on_cpu):
    """What the layers keep until the backward pass; what one that is computed again keeps; what the last norm keeps."""
    rows, prompts = _rows(settings)
    tokens, seen = _tokens(settings, prompt_width)
    each = BYTES[settings.precision]
    layer = shape.layer_activations(tokens, seen, each, shares_keys=on_cpu)
    full = f"tokens x (16 hidden + 8 (queries + keys) + {each} (2 hidden + 4 mlp + 4 queries + 3 keys))"
    again = 0
    if settings.checkpoint_layers:
        size = 4 * shape.layers * tokens * shape.hidden
        again = layer - 4 * tokens * shape.hidden  # its input is there already
        formula = "layers x tokens x hidden x 4"
    else:
        size = shape.layers * layer
        formula = f"layers x ({full}, and what they look at)"
    # Rotations, and what each token may look at.
    size += 4 * 2 * shape.head_dim * tokens
    size += each * (rows * (settings.max_new_tokens - 1) * (seen // rows) + prompts * prompt_width**2)
    scored = rows * settings.max_new_tokens
    return (
        MemoryItem("activations", 0, size, formula, ("scoring", "layers")),
        MemoryItem("a layer computed again", 0, again, f"{full}, its input aside", ("layers",)),
        MemoryItem(
            "last norm",
            0,
            4 * shape.hidden * (tokens + 2 * scored),
            "(tokens + 2 x scored tokens) x hidden x 4",
            ("scoring",),
        ),
    )


def _layer_gradients(shape, settings, prompt_width):
    tokens, _ = _tokens(settings, prompt_width)
    each = BYTES[settings.precision]
    size = shape.layer_gradients(tokens, each)
    return MemoryItem(
        "gradients inside a layer", 0, size, f"tokens x (hidden x 4 + 2 mlp x {each}), a matrix x 4", ("layers",)
    )


def _logits(shape, settings):
    """Of a piece of the tokens, and their exponentials; these of all tokens, where they are kept to save a product."""
    scored = _rows(settings)[0] * settings.max_new_tokens
    row = 4 * shape.vocabulary
    piece = min(settings.chunk_size or max(16, CHUNK_BYTES // row), scored)
    if scored * row <= KEEP_BYTES:
        size, formula = (piece + scored) * row, f"({piece} + {scored}) tokens x vocabulary x 4, probabilities kept"
    else:
        size, formula = COPIES_OF_A_PIECE * piece * row, f"{COPIES_OF_A_PIECE} x {piece} tokens x vocabulary x 4"
    return MemoryItem("logits", 0, size, formula, ("scoring",))


def memory_table(plan, title="Memory plan"):
    """rich Table of a plan; items of 0 bytes are left out."""
    from rich.table import Table

    table = Table(title=title)
    table.add_column("")
    table.add_column("sampling", justify="right")
    table.add_column("training", justify="right")
    table.add_column("how", style="dim")
    for item in plan.items:
        if item.sampling or item.training:
            table.add_row(item.name, *map(_readable, (item.sampling, item.training)), item.formula)
    table.add_section()
    parts = ", ".join(f"{moment} {readable_bytes(plan.at(moment))}" for moment in TRAINING_MOMENTS)
    table.add_row(
        "at most at once",
        readable_bytes(plan.sampling),
        readable_bytes(plan.training),
        f"the larger one is needed; training: {parts}",
    )
    return table


def readable_bytes(count):
    """A number of bytes as people write it: 12 B, 3.4 kB, 5.6 MB, 7.8 GB (powers of 1000)."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def _readable(count):
    return readable_bytes(count) if count else ""
