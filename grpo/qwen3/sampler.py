"""Sample groups of rollouts in one batch, and record the log-probability of every sampled token."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from grpo.qwen3.decode import DecodeWeights, KVCache, decode_step, prefill
from grpo.qwen3.masks import left_pad, length_mask

BLOCK = 256  # tokens whose probabilities are summed before any of them is looked at
KEEP_SHARE = 0.75  # finished rows leave when at most this share still runs: moving the cache costs about one step
STEPS_BETWEEN_CHECKS = 16  # on a GPU
PACK_LIMIT = 2**30  # bytes of weights that may be copied into the CPU's own layout


@dataclass(frozen=True)
class Rollouts:
    """A batch of N sampled completions, group after group. P: prompt width, C: completion width.

    Attributes:
        prompt_ids: (N, P) int64, LEFT padded. prompt_mask: (N, P) bool, true at real tokens.
        completion_ids: (N, C) int64, right padded.
        lengths: (N,) int64, tokens of each completion that count, the stop token included.
        logprobs: (N, C) float32: log-probability of each token under the distribution it was sampled from; 0 at
            padding.
        finished: (N,) bool, true if the completion ended with a stop token, false if it was cut off.
        group_size: rollouts per prompt.
        prompt_index: (N,) int64: rows with the same number have the same prompt.
    """

    prompt_ids: Tensor
    prompt_mask: Tensor
    completion_ids: Tensor
    lengths: Tensor
    logprobs: Tensor
    finished: Tensor
    group_size: int
    prompt_index: Tensor

    @property
    def mask(self) -> Tensor:
        """(N, C) bool: the tokens that count. By length, never by value: the padding may be a stop id."""
        return length_mask(self.lengths, self.completion_ids.shape[1])

    @property
    def tokens(self) -> int:
        """Number of completion tokens that count."""
        return int(self.lengths.sum())

    def __len__(self) -> int:
        return len(self.lengths)

    def rows(self, index) -> Rollouts:
        """The rollouts at these rows (indices, a slice or a bool mask), with the same widths."""
        chosen = {
            field.name: getattr(self, field.name)[index]
            for field in fields(self)
            if isinstance(getattr(self, field.name), Tensor)
        }
        return replace(self, **chosen)


@torch.no_grad()
def sample(
    model,
    prompts: Sequence[Sequence[int]],
    group_size: int,
    *,
    max_new_tokens: int,
    temperature: float = 1.0,
    stop_ids: Iterable[int],
    pad_id: int,
    generator: torch.Generator | None = None,
    rollout_dtype: torch.dtype | None = None,
    wave: int | None = None,
) -> Rollouts:
    """Sample `group_size` completions of every prompt.

    Each prompt runs through the model once. All its rollouts are then decoded together; one that has drawn a stop token
    is finished, and finished rows leave the batch when enough of them have gathered. Only the arguments decide: the
    model's generation_config is never read, and the model's training mode does not matter.

    Args:
        model: a `Qwen3ForCausalLM`.
        prompts: B lists of token ids, none empty.
        max_new_tokens: longest completion, at least 1.
        temperature: logits are divided by it, before the log-softmax that both the draw and the recorded
            log-probabilities use; 0 takes the most probable token (log-probabilities are then those at temperature 1).
        stop_ids: every id that ends a completion; may be empty.
        pad_id: fills the rest of the rows; may be a stop id.
        generator: a CPU generator. It gives one number per row and slot, whatever is sampled: how much it advances
            depends only on the shapes, and a row's draws do not depend on the other rows.
        rollout_dtype: sample with copies of the weights in this dtype (torch.bfloat16, torch.float16). The recorded
            log-probabilities are then those of the copies.
        wave: rollouts decoded at the same time, see `wave_parts`; None takes all. The cache of a wave is freed before
            the next one begins. Draws and result are those of one batch, up to the rounding of its products.

    Returns: `Rollouts` on the model's device, N = B * group_size, C = the longest completion.

    Raises: ValueError for an empty prompt, a prompt id outside the vocabulary, or an argument out of range.
    """
    prompts = [list(prompt) for prompt in prompts]
    _check(prompts, group_size, max_new_tokens, wave, temperature, model.config.vocab_size)
    weights = DecodeWeights.from_model(model, rollout_dtype, pack=_pays_to_pack(model))
    device = weights.embedding.device
    stops = torch.tensor(sorted({int(stop) for stop in stop_ids}), dtype=torch.int64, device=device)
    prompt_ids, prompt_mask = (tensor.to(device) for tensor in left_pad(prompts, pad_id))
    rows = len(prompts) * group_size
    draws = None
    if temperature > 0:
        where = torch.device("cpu") if generator is None else generator.device
        draws = torch.rand(rows, max_new_tokens, generator=generator, dtype=torch.float64, device=where).to(device)

    completion_ids = torch.full((rows, max_new_tokens), pad_id, dtype=torch.int64, device=device)
    logprobs = torch.zeros(rows, max_new_tokens, dtype=torch.float32, device=device)
    lengths = torch.full((rows,), max_new_tokens, dtype=torch.int64, device=device)
    finished = torch.zeros(rows, dtype=torch.bool, device=device)
    for asked, part in wave_parts(len(prompts), group_size, wave):
        _sample_wave(
            weights,
            prompt_ids[asked],
            prompt_mask[asked],
            _Results(completion_ids[part], logprobs[part], lengths[part], finished[part]),
            None if draws is None else draws[part],
            temperature,
            stops,
            pad_id,
        )

    if not bool(logprobs.isfinite().all()):
        row = int((~logprobs.isfinite()).nonzero()[0, 0])
        reason = "the model's weights hold NaN or infinity"
        if weights.dtype == torch.float16:
            reason += ", or a number has passed 65504, the end of float16: sample in bfloat16 or float32"
        raise ValueError(f"the logits of rollout {row} are not finite: {reason}")
    width = int(lengths.max())
    return Rollouts(
        prompt_ids=prompt_ids.repeat_interleave(group_size, dim=0),
        prompt_mask=prompt_mask.repeat_interleave(group_size, dim=0),
        completion_ids=completion_ids[:, :width].contiguous(),
        lengths=lengths,
        logprobs=logprobs[:, :width].contiguous(),
        finished=finished,
        group_size=group_size,
        prompt_index=torch.arange(len(prompts), device=device).repeat_interleave(group_size),
    )


def wave_parts(prompts: int, group_size: int, wave: int | None) -> list[tuple[slice, slice]]:
    """How rollouts are split into waves: [(slice of the prompts, slice of the rollouts)], in order.

    A wave is as many whole prompts as fit into `wave` rollouts; where not even one group fits, a part of one group.
    """
    wave = prompts * group_size if wave is None else wave
    if wave >= group_size:
        size = wave // group_size
        starts = range(0, prompts, size)
        ends = [min(start + size, prompts) for start in starts]
        return [
            (slice(start, end), slice(start * group_size, end * group_size))
            for start, end in zip(starts, ends, strict=True)
        ]
    return [
        (slice(prompt, prompt + 1), slice(first, min(first + wave, (prompt + 1) * group_size)))
        for prompt in range(prompts)
        for first in range(prompt * group_size, (prompt + 1) * group_size, wave)
    ]


@dataclass(frozen=True)
class _Results:
    """Where a wave leaves its rollouts: views of the rows of the batch. As in `Rollouts`, at full width."""

    completion_ids: Tensor
    logprobs: Tensor
    lengths: Tensor
    finished: Tensor


def _sample_wave(weights, prompt_ids, prompt_mask, results, draws, temperature, stops, pad_id):
    """Decode the rollouts of some prompts, the same number for each, into `results`."""
    rows, max_new_tokens = results.completion_ids.shape
    device, group_size = stops.device, rows // len(prompt_ids)
    completion_ids, logprobs = results.completion_ids, results.logprobs
    lengths, finished = results.lengths, results.finished
    cache = KVCache(weights, prompt_mask, group_size, max_new_tokens)
    logits = prefill(weights, cache, prompt_ids, prompt_mask).repeat_interleave(group_size, dim=0)
    alive = torch.arange(rows, device=device)  # the row of the result that each row of the batch belongs to
    for step in range(max_new_tokens):
        tokens, logps = draw_tokens(logits, temperature, None if draws is None else draws[alive, step])
        running = ~finished[alive]
        completion_ids[alive, step] = torch.where(running, tokens, pad_id)
        logprobs[alive, step] = torch.where(running, logps, 0.0)
        stopped = running & torch.isin(tokens, stops)
        lengths[alive] = torch.where(stopped, step + 1, lengths[alive])
        finished[alive] |= stopped
        if step + 1 == max_new_tokens:
            break
        # Asking who still runs makes the host wait for a GPU, so there it is asked now and then.
        if len(stops) and (device.type == "cpu" or step % STEPS_BETWEEN_CHECKS == STEPS_BETWEEN_CHECKS - 1):
            running = (~finished[alive]).nonzero()[:, 0]
            if len(running) == 0:
                break
            if len(running) <= KEEP_SHARE * len(alive):
                cache.keep(running, used=step)
                alive, tokens = alive[running], tokens[running]
        logits = decode_step(weights, cache, tokens, step)


def draw_tokens(logits: Tensor, temperature: float, draw: Tensor | None) -> tuple[Tensor, Tensor]:
    """One token per row of softmax(logits / temperature), and its log-probability.

    Inverse transform: the first token at which the cumulative probability passes the row's number. It is looked for in
    two steps, first among the sums of blocks of tokens, then inside one block, because summing up a whole vocabulary
    in order is slow. A token of probability 0 adds nothing to a sum and is never drawn.

    Args:
        logits: (N, V), of any float type; computed with in float32 (float64 stays).
        temperature: 0 takes the largest logit; the log-probability is then that at temperature 1.
        draw: (N,) float64 in [0, 1), one number per row; not used at temperature 0.

    Returns: token ids (N,) int64 and their log-probabilities (N,), float32 (float64).
    """
    rows, vocabulary = logits.shape
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    if temperature not in (0, 1):
        logits = logits / temperature
    largest = logits.amax(-1, keepdim=True)
    width = min(BLOCK, vocabulary)
    blocks = -(-vocabulary // width)
    chances = logits.new_empty(rows, blocks * width)
    chances[:, vocabulary:] = 0.0
    torch.sub(logits, largest, out=chances[:, :vocabulary]).exp_()
    chances = chances.view(rows, blocks, width)
    sums = chances.sum(-1).double()
    if temperature == 0:
        tokens = logits.argmax(-1, keepdim=True)
    else:
        block, rest = _first_above(sums, draw[:, None])
        inside = chances.gather(1, block[:, :, None].expand(-1, -1, width))[:, 0].double()
        place, _ = _first_above(inside, rest)
        tokens = block * width + place
    logps = logits.gather(-1, tokens) - largest - sums.sum(-1, keepdim=True).log().to(logits.dtype)
    return tokens[:, 0], logps[:, 0]


def _first_above(weights, fraction):
    """Index (N, 1) of the first of (N, K) weights at which the running sum passes `fraction` (N, 1) of the total,
    and how far into that weight, as a fraction of it, the point lies."""
    running = weights.cumsum(-1)
    target = fraction * running[:, -1:]
    # Rounding can put the target on the total itself: then it is the last weight that is not 0.
    last = (running < running[:, -1:]).sum(-1, keepdim=True)
    index = torch.minimum((running <= target).sum(-1, keepdim=True), last)
    chosen = weights.gather(-1, index)
    return index, ((target - (running.gather(-1, index) - chosen)) / chosen).clamp(0, 1)


def _pays_to_pack(model):
    """Packing copies the weights: on a CPU, for as long as that is no burden."""
    size = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    return model.device.type == "cpu" and size <= PACK_LIMIT


def _check(prompts, group_size, max_new_tokens, wave, temperature, vocabulary):
    if not prompts:
        raise ValueError("prompts is empty: pass at least one list of token ids")
    for row, prompt in enumerate(prompts):
        if not prompt:
            raise ValueError(f"prompts[{row}] is empty: a prompt needs at least one token (a begin or newline token)")
        bad = [token for token in prompt if not 0 <= token < vocabulary]
        if bad:
            raise ValueError(f"prompts[{row}] holds the id {bad[0]}: ids must be in 0 .. {vocabulary - 1}")
    counts = {"group_size": group_size, "max_new_tokens": max_new_tokens, "wave": 1 if wave is None else wave}
    for name, value in counts.items():
        if value < 1:
            raise ValueError(f"{name} is {value}: it must be at least 1")
    if not 0 <= temperature < float("inf"):
        raise ValueError(f"temperature is {temperature}: it must be 0 (most probable token) or a positive number")
