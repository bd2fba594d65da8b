"""How much memory a run takes, item by item, worked out from shapes before anything is allocated.

Sampling and training take turns: a run needs the larger of the two sums. Counted are the tensors; the libraries
themselves (some 0.5 GB with CUDA), the allocator's rounding and what else runs on the machine come on top.
"""

from __future__ import annotations

from dataclasses import dataclass

from grpo.qwen3.logprobs import CHUNK_BYTES, KEEP_BYTES
from grpo.qwen3.sampler import PACK_LIMIT

BYTES = {"float32": 4, "bfloat16": 2}
# Per logit while a token is drawn: the logits, the same divided by the temperature, and their exponentials.
SAMPLING_BYTES_PER_LOGIT = 4 + 4 + 4
# Logits and their exponentials, or the gradient of the former, are alive at once while a piece is scored.
COPIES_OF_A_PIECE = 2


@dataclass(frozen=True)
class ModelShape:
    """The numbers of a Qwen3 configuration that decide about memory.

    vocabulary, hidden, intermediate, layers, heads, kv_heads, head_dim: ints.
    tied: whether embedding and output projection are one matrix.
    """

    vocabulary: int
    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    tied: bool

    @classmethod
    def of(cls, config):
        """From a transformers Qwen3Config."""
        return cls(
            config.vocab_size,
            config.hidden_size,
            config.intermediate_size,
            config.num_hidden_layers,
            config.num_attention_heads,
            config.num_key_value_heads,
            config.head_dim,
            config.tie_word_embeddings,
        )

    @property
    def parameters(self):
        """Number of parameters, a tied matrix once."""
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        attention = 2 * self.hidden * queries + 2 * self.hidden * keys + 2 * self.head_dim
        layer = attention + 3 * self.hidden * self.intermediate + 2 * self.hidden
        matrices = self.vocabulary * self.hidden * (1 if self.tied else 2)
        return matrices + self.layers * layer + self.hidden

    @property
    def cache_numbers_per_token(self):
        """Keys and values that one token leaves in the cache, over all layers."""
        return 2 * self.layers * self.kv_heads * self.head_dim

    @property
    def matrix_numbers(self):
        """Entries of the matrices that multiply tokens, the output matrix included, tied or not."""
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        layer = 2 * self.hidden * (queries + keys) + 3 * self.hidden * self.intermediate
        return self.layers * layer + self.vocabulary * self.hidden

    def layer_activations(self, tokens, seen):
        """Numbers that one layer keeps for the backward pass.

        Args:
            tokens: those that run through it: every prompt once, and the completions.
            seen: tokens in whole rows, prompt and completion: what the completions look at.

        In terms of the widths H (hidden), I (intermediate), A (heads * head_dim), K (kv_heads * head_dim), per token:

            two norms and what comes out of them, the residual stream          6 H + 2
            gate before and after the activation, up, their product            4 I
            query as projected and rotated, attention's result, padded copies  6 A + 2 per head
            key and value as projected, normalised, rotated, padded            5 K + 1 per kv head

        and 2 K per seen token: keys and values of its own and of its prompt, side by side for each rollout.
        """
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        each = 6 * self.hidden + 4 * self.intermediate + 6 * queries + 5 * keys + 2 + 2 * self.heads + self.kv_heads
        return tokens * each + seen * 2 * keys


@dataclass(frozen=True)
class MemoryItem:
    """One line of a plan: what it is, its bytes while sampling and while training, and how they come about."""

    name: str
    sampling: int
    training: int
    formula: str


@dataclass(frozen=True)
class MemoryPlan:
    """What a run allocates. items: tuple of MemoryItem."""

    items: tuple

    @property
    def sampling(self):
        """Bytes while sampling."""
        return sum(item.sampling for item in self.items)

    @property
    def training(self):
        """Bytes while training."""
        return sum(item.training for item in self.items)

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
        device: "cpu" or "cuda"; on a CPU sampling copies the weights of a small model into a faster layout.

    Returns: MemoryPlan. Completions are counted at their full max_new_tokens: an upper bound.
    """
    shape = config if isinstance(config, ModelShape) else ModelShape.of(config)
    weights = 4 * shape.parameters
    return MemoryPlan(
        (
            MemoryItem("weights", weights, weights, "parameters x 4 (float32)"),
            MemoryItem("AdamW's two averages", 2 * weights, 2 * weights, "parameters x 8"),
            _reference(weights, settings),
            MemoryItem("gradients", 0, weights, "parameters x 4"),
            _sampling_copy(shape, settings, device),
            _cache(shape, settings, prompt_width),
            MemoryItem(
                "drawing a token",
                SAMPLING_BYTES_PER_LOGIT * settings.rollouts_per_step * shape.vocabulary,
                0,
                f"rollouts x vocabulary x {SAMPLING_BYTES_PER_LOGIT}",
            ),
            _activations(shape, settings, prompt_width),
            _logits(shape, settings),
            # Made anew in every backward pass before it is added to the others.
            MemoryItem(
                "gradient of the output matrix", 0, 4 * shape.vocabulary * shape.hidden, "vocabulary x hidden x 4"
            ),
        )
    )


def _reference(weights, settings):
    size = weights if settings.needs_reference else 0
    return MemoryItem("reference", size, size, "parameters x 4, with a KL penalty only")


def _sampling_copy(shape, settings, device):
    each = BYTES[settings.rollout_dtype]
    packed = str(device).startswith("cpu") and 4 * shape.parameters <= PACK_LIMIT
    size = each * shape.matrix_numbers if each == 2 or packed else 0
    return MemoryItem("weights for sampling", size, 0, f"matrices x {each}, in bfloat16 or in the CPU's layout")


def _cache(shape, settings, prompt_width):
    each = BYTES[settings.rollout_dtype]
    tokens = settings.prompts_per_step * prompt_width + settings.rollouts_per_step * settings.max_new_tokens
    formula = f"(prompts x width + rollouts x new) x layers x 2 x keys x {each}"
    return MemoryItem("KV cache", each * tokens * shape.cache_numbers_per_token, 0, formula)


def _rows(settings):
    """(rollouts, prompts) of the largest micro-batch; one that begins inside a group may touch a prompt more."""
    total, group_size = settings.rollouts_per_step, settings.group_size
    rows = min(settings.micro_batch_size or total, total)
    ends = ((start, min(start + rows, total) - 1) for start in range(0, total, rows))
    return rows, max(last // group_size - first // group_size + 1 for first, last in ends)


def _activations(shape, settings, prompt_width):
    rows, prompts = _rows(settings)
    width = settings.max_new_tokens - 1  # the last token is only a target
    tokens, seen = prompts * prompt_width + rows * width, rows * (prompt_width + width)
    layer = shape.layer_activations(tokens, seen)
    if settings.checkpoint_layers:
        numbers = shape.layers * tokens * shape.hidden + layer
        formula = "layers x tokens x hidden x 4, and one layer in full"
    else:
        numbers = shape.layers * layer
        formula = "layers x (tokens x (6 hidden + 4 mlp + 6 queries + 5 keys) + rows x 2 keys) x 4"
    # The last norm before and after, at the tokens that are scored; rotations; what each token may look at.
    numbers += shape.hidden * (tokens + 2 * rows * settings.max_new_tokens) + 2 * shape.head_dim * tokens
    numbers += rows * width * (prompt_width + width) + prompts * prompt_width**2
    return MemoryItem("activations", 0, 4 * numbers, formula)


def _logits(shape, settings):
    scored = _rows(settings)[0] * settings.max_new_tokens
    row = 4 * shape.vocabulary
    piece = min(settings.chunk_size or max(16, CHUNK_BYTES // row), scored)
    kept = scored * row if scored * row <= KEEP_BYTES else 0
    formula = f"{COPIES_OF_A_PIECE} x {piece} tokens x vocabulary x 4"
    if kept:
        formula += f", and probabilities kept for {scored} tokens"
    return MemoryItem("logits", 0, COPIES_OF_A_PIECE * piece * row + kept, formula)


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
    table.add_row("sum", readable_bytes(plan.sampling), readable_bytes(plan.training), "the larger one is needed")
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
