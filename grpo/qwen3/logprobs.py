"""Log-probabilities of completion tokens with gradients, in pieces small enough for a large vocabulary."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from grpo.qwen3.forward import completion_hidden
from grpo.qwen3.precision import autocast
from grpo.qwen3.sampler import Rollouts

CHUNK_BYTES = 2**25  # logits at a time: large enough for fast products, small beside the model
KEEP_BYTES = 2**28  # up to this size the probabilities are kept for the backward pass, which then saves a product


def completion_logprobs(
    model,
    rollouts: Rollouts,
    *,
    temperature: float = 1.0,
    chunk_size: int | None = None,
    keep_bytes: int = KEEP_BYTES,
    checkpoint_layers: bool = False,
    shared_prompts: bool | None = None,
    precision: torch.dtype | None = None,
) -> tuple[Tensor, Tensor]:
    """Log-probability of every completion token under the model, and the entropy at its position.

    The logits at position t-1 score token t. The output projection, which is the expensive part for a large
    vocabulary, is computed only where a completion token that counts is scored.

    Args:
        model: a `Qwen3ForCausalLM`, or with shared_prompts=False any causal language model of transformers with
            `model.model` and `model.lm_head`. Its training mode does not matter to a Qwen3 without dropout.
        rollouts: N rows. Rows of the same prompt are cheapest together, and so are rows of similar length.
        temperature: logits are divided by it, as they were in sampling; > 0.
        chunk_size, keep_bytes: see `chunked_logprobs`.
        checkpoint_layers: keep only the input of each layer for the backward pass and compute the rest again.
        shared_prompts: run each prompt once for all its rollouts. False: the model's own forward on whole rows. None:
            whenever the model is a plain Qwen3.
        precision: torch.bfloat16 or torch.float16 for matrix products in that dtype under autocast; None computes in
            that of the weights. Call backward outside of any autocast.

    Returns: log-probabilities (N, C) with gradients, and entropies (N, C) in nats, without; both exactly 0 at padding,
        in float32 (float64 if the model is).

    Raises: ValueError if temperature is not positive, and as in `grpo.qwen3.forward.completion_hidden`.
    """
    if shared_prompts is None:
        shared_prompts = getattr(model.config, "model_type", None) == "qwen3" and not (
            model.training and getattr(model.config, "attention_dropout", 0)
        )
    with autocast(rollouts.lengths.device, precision):
        hidden = completion_hidden(model, rollouts, shared_prompts=shared_prompts, checkpoint_layers=checkpoint_layers)
    mask = rollouts.mask
    targets = rollouts.completion_ids[mask]
    logps, entropy = chunked_logprobs(
        hidden,
        model.lm_head.weight,
        targets,
        temperature,
        chunk_size=chunk_size,
        keep_bytes=keep_bytes,
        precision=precision,
    )
    where = mask.nonzero(as_tuple=True)
    zeros = logps.new_zeros(mask.shape)
    return zeros.index_put(where, logps), zeros.index_put(where, entropy)


def chunked_logprobs(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    temperature: float = 1.0,
    *,
    chunk_size: int | None = None,
    keep_bytes: int = 0,
    precision: torch.dtype | None = None,
) -> tuple[Tensor, Tensor]:
    """log softmax(hidden @ weight.T / temperature)[target] and the entropy, a piece of the tokens at a time.

    Plain autograd holds the logits, their log-softmax and the gradient of both: several (M, V) tensors. Here the
    backward pass computes each piece of the logits again and turns it into its gradient in place.

    Args:
        hidden: (M, hidden). weight: (V, hidden). targets: (M,) int64 in 0 .. V-1.
        temperature: > 0.
        chunk_size: rows of logits at a time. None: as many as fit in 32 MiB.
        keep_bytes: if all (M, V) probabilities fit in this many bytes they are kept, and one of four products saved.
        precision: dtype of the products that have the logits or the gradient of `hidden` as their result; None takes
            that of `hidden`. The gradient of `weight`, a sum over all pieces, keeps the dtype of `weight`.

    Returns: log-probabilities (M,) with gradients for hidden and weight, and entropies (M,) in nats, without; in
        float32 (float64 if hidden is).

    Raises: ValueError for shapes that do not fit, or a temperature or chunk_size out of range.
    """
    if hidden.ndim != 2 or weight.ndim != 2 or hidden.shape[1] != weight.shape[1] or targets.shape != hidden.shape[:1]:
        raise ValueError(
            f"hidden {tuple(hidden.shape)}, weight {tuple(weight.shape)}, targets {tuple(targets.shape)}: "
            "pass (M, hidden), (V, hidden) and (M,)"
        )
    if not 0 < temperature < float("inf"):
        raise ValueError(f"temperature is {temperature}: log-probabilities need a positive number")
    dtype = torch.promote_types(hidden.dtype, torch.float32)
    row_bytes = len(weight) * dtype.itemsize
    if chunk_size is None:
        chunk_size = max(16, CHUNK_BYTES // row_bytes)
    if chunk_size < 1:
        raise ValueError(f"chunk_size is {chunk_size}: it must be at least 1")
    keep = len(hidden) * row_bytes <= keep_bytes and weight.requires_grad | hidden.requires_grad
    keep = keep and torch.is_grad_enabled()
    return _ChunkedLogprobs.apply(hidden, weight, targets, temperature, chunk_size, keep, precision or hidden.dtype)


class _ChunkedLogprobs(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, weight, targets, temperature, chunk_size, keep, precision):
        dtype = torch.promote_types(hidden.dtype, torch.float32)
        logps, entropy = (torch.empty(len(hidden), dtype=dtype, device=hidden.device) for _ in range(2))
        rows = len(hidden) if keep else min(chunk_size, len(hidden))
        chances = torch.empty(rows, len(weight), dtype=dtype, device=hidden.device)
        rounded = weight.to(precision)  # weight itself without a precision of its own
        for start in range(0, len(hidden), chunk_size):
            piece = slice(start, start + chunk_size)
            logits = _logits(hidden[piece], rounded, temperature, dtype)
            logits -= logits.amax(-1, keepdim=True)
            part = torch.exp(logits, out=chances[piece] if keep else chances[: len(logits)])
            total = part.sum(-1)
            log_total = total.log()
            logps[piece] = logits.gather(-1, targets[piece, None])[:, 0] - log_total
            # -sum p log p = log(total) - sum p * shifted logit; a logit of -inf has p = 0 and adds nothing
            logits.clamp_(min=torch.finfo(dtype).min).mul_(part)
            entropy[piece] = log_total - logits.sum(-1) / total
            if keep:
                part /= total[:, None]
            del logits  # before the next piece is made, not after
        ctx.save_for_backward(hidden, rounded, targets, chances if keep else logps)
        ctx.temperature, ctx.chunk_size, ctx.keep = temperature, chunk_size, keep
        ctx.mark_non_differentiable(entropy)
        return logps, entropy

    @staticmethod
    @once_differentiable
    def backward(ctx, upstream, _):
        hidden, rounded, targets, saved = ctx.saved_tensors
        need_hidden, need_weight = ctx.needs_input_grad[:2]
        hidden_grad = torch.empty_like(hidden) if need_hidden else None
        weight_grad = torch.zeros_like(rounded, dtype=hidden.dtype) if need_weight else None
        for start in range(0, len(hidden), ctx.chunk_size):
            piece = slice(start, start + ctx.chunk_size)
            target, factor = targets[piece, None], upstream[piece, None] / ctx.temperature
            # d logp / d logits = onehot - softmax, divided by the temperature
            if ctx.keep:
                slope = saved[piece] * -factor
            else:
                logits = _logits(hidden[piece], rounded, ctx.temperature, upstream.dtype)
                # logp of the target is known: what is missing to its logit is the log of the total.
                logits -= logits.gather(-1, target) - saved[piece, None]
                slope = logits.exp_().mul_(-factor)
            slope.scatter_add_(-1, target, factor)
            slope = slope.to(hidden.dtype)
            if need_hidden and rounded.dtype == hidden.dtype:
                torch.mm(slope, rounded, out=hidden_grad[piece])
            elif need_hidden:
                hidden_grad[piece] = slope.to(rounded.dtype) @ rounded
            if need_weight:
                weight_grad.addmm_(slope.T, hidden[piece])
            logits = slope = None  # before the next piece is made, not after
        return hidden_grad, weight_grad, None, None, None, None, None


def _logits(hidden, weight, temperature, dtype):
    logits = (hidden.to(weight.dtype) @ weight.T).to(dtype)
    return logits if temperature == 1 else logits.div_(temperature)
