"""The Qwen3 forward pass for training, without the work that the rollouts of a group have in common.

A batch of whole rows runs a prompt once for every rollout of its group, and runs padding. Here each prompt runs once,
and its keys and values are looked at by all of its rollouts; the matrix products see real tokens only. The values are
those of the model's own forward, and so are the gradients: what flows back into a prompt is the sum over its rollouts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from grpo.qwen3.decode import require_plain_qwen3, rope_theta, rotary_tables, rotate
from grpo.qwen3.masks import position_ids
from grpo.qwen3.precision import product_dtype


def completion_hidden(model, rollouts, *, shared_prompts: bool = True, checkpoint_layers: bool = False) -> Tensor:
    """Last hidden states at the positions that score the completion tokens which count.

    Position t-1 scores token t, so the first token of a completion is scored by the last one of its prompt.

    Args:
        model: a `Qwen3ForCausalLM`; with shared_prompts=False any model of transformers with `model.model`.
        rollouts: `grpo.qwen3.sampler.Rollouts`, N rows.
        shared_prompts: run each prompt once. False calls the model's own forward on N whole rows.
        checkpoint_layers: keep only the input of each layer for the backward pass and compute the rest again.

    Returns: (rollouts.tokens, hidden), after the final norm, row after row.

    Raises: ValueError if shared_prompts is asked of a model that `grpo.qwen3.decode` does not know, or a completion
        is empty (length 0).
    """
    if int(rollouts.lengths.min()) < 1:
        row = int(rollouts.lengths.argmin())
        raise ValueError(f"rollout {row} has length 0: a completion has at least one token, its stop token if no other")
    batch = _trim(rollouts)
    if shared_prompts:
        return _shared(model, batch, checkpoint_layers)
    return _whole_rows(model, batch, checkpoint_layers)


@dataclass
class _Batch:
    """Rollouts without the columns that are padding everywhere, and with each prompt once."""

    prompt_ids: Tensor  # (B, P)
    prompt_mask: Tensor  # (B, P)
    prompt_of: Tensor  # (N,)
    inputs: Tensor  # (N, C-1) completion tokens but the last, which predicts nothing
    input_mask: Tensor  # (N, C-1): true where the next token counts


def _trim(rollouts):
    longest, prompt_width = int(rollouts.lengths.max()), int(rollouts.prompt_mask.sum(-1).max())
    _, prompt_of = rollouts.prompt_index.unique(return_inverse=True)
    first = prompt_of.new_empty(int(prompt_of.max()) + 1)
    first[prompt_of] = torch.arange(len(prompt_of), device=first.device)  # one row of each prompt, whichever
    return _Batch(
        prompt_ids=rollouts.prompt_ids[first, -prompt_width:],
        prompt_mask=rollouts.prompt_mask[first, -prompt_width:],
        prompt_of=prompt_of,
        inputs=rollouts.completion_ids[:, : longest - 1],
        input_mask=rollouts.mask[:, 1:longest],
    )


def _whole_rows(model, batch, checkpoint_layers):
    ids = torch.cat([batch.prompt_ids[batch.prompt_of], batch.inputs], dim=1)
    mask = torch.cat([batch.prompt_mask[batch.prompt_of], batch.input_mask], dim=1)
    layers = list(model.model.layers) if checkpoint_layers else []
    for layer in layers:
        # On the object, in front of the method of its class. Not with the switch of transformers, which works in
        # training mode only and changes its name.
        layer.forward = partial(checkpoint, layer.forward, use_reentrant=False)
    try:
        outputs = model.model(
            input_ids=ids, attention_mask=mask.long(), position_ids=position_ids(mask), use_cache=False
        )
    finally:
        for layer in layers:
            del layer.forward
    scoring = torch.cat([torch.ones_like(mask[:, :1]), batch.input_mask], dim=1)
    return outputs.last_hidden_state[:, batch.prompt_ids.shape[1] - 1 :][scoring]


def _shared(model, batch, checkpoint_layers):
    config = model.config
    require_plain_qwen3(config)
    width = batch.prompt_mask.shape[1]
    rows, columns = batch.input_mask.shape
    base = model.model
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads

    ids = torch.cat([batch.prompt_ids[batch.prompt_mask], batch.inputs[batch.input_mask]])
    starts = batch.prompt_mask.sum(-1)[batch.prompt_of]
    after = starts[:, None] + torch.arange(columns, device=ids.device)
    positions = torch.cat([position_ids(batch.prompt_mask)[batch.prompt_mask], after[batch.input_mask]])
    hidden = base.embed_tokens(ids)
    cos, sin = rotary_tables(rope_theta(config), head_dim, width + columns, hidden.detach())
    cos, sin = cos[positions][:, None], sin[positions][:, None]

    device, dtype = ids.device, product_dtype(hidden)
    causal = torch.ones(width, width, dtype=torch.bool, device=device).tril()
    # A padding position may look at itself: with nothing to look at it would be NaN. Nobody reads its result.
    itself = torch.eye(width, dtype=torch.bool, device=device)
    prompt_bias = _bias((causal & batch.prompt_mask[:, None]) | itself, dtype)
    causal = torch.ones(columns, columns, dtype=torch.bool, device=device).tril().expand(rows, -1, -1)
    seen = batch.prompt_mask[batch.prompt_of][:, None].expand(-1, columns, -1)
    completion_bias = _bias(torch.cat([seen, causal], dim=-1), dtype)
    layout = _Layout(
        _Padding(batch.prompt_mask), _Padding(batch.input_mask), batch.prompt_of, prompt_bias, completion_bias
    )
    for layer in base.layers:
        block = partial(_block, layer, layout, cos, sin, config)
        hidden = checkpoint(block, hidden, use_reentrant=False) if checkpoint_layers else block(hidden)

    # Where the hidden state for each scored token stands: the prompt's last token, or the completion token before it.
    last_of_prompt = batch.prompt_mask.sum(-1).cumsum(0) - 1
    before = torch.empty(rows, columns + 1, dtype=torch.int64, device=device)
    before[:, 0] = last_of_prompt[batch.prompt_of]
    before[:, 1:][batch.input_mask] = torch.arange(int(last_of_prompt[-1]) + 1, len(ids), device=device)
    scoring = torch.cat([torch.ones(rows, 1, dtype=torch.bool, device=device), batch.input_mask], dim=1)
    hidden = hidden.index_select(0, before[scoring])
    return F.rms_norm(hidden, base.norm.weight.shape, base.norm.weight, config.rms_norm_eps)


@dataclass
class _Layout:
    prompt: _Padding
    completion: _Padding
    prompt_of: Tensor
    prompt_bias: Tensor
    completion_bias: Tensor


class _Padding:
    """Between the real tokens of a (rows, width) mask, side by side, and the rectangle."""

    def __init__(self, mask):
        self.shape = tuple(mask.shape)
        self.where = mask.flatten().nonzero()[:, 0]
        self.full = len(self.where) == mask.numel()

    def pad(self, tokens):
        """(tokens, heads, D) -> (rows, heads, width, D), 0 at padding."""
        if not self.full:
            zeros = tokens.new_zeros(self.shape[0] * self.shape[1], *tokens.shape[1:])
            tokens = zeros.index_copy(0, self.where, tokens)
        return tokens.view(*self.shape, *tokens.shape[1:]).transpose(1, 2)

    def unpad(self, padded):
        """(rows, heads, width, D) -> (tokens, heads * D)"""
        tokens = padded.transpose(1, 2).reshape(self.shape[0] * self.shape[1], -1)
        return tokens if self.full else tokens.index_select(0, self.where)


def _block(layer, layout, cos, sin, config, hidden):
    """One transformer block on (tokens, hidden): first those of the prompts, then those of the completions.

    Under autocast its products are in half precision; norms, rotations and the residual stream keep their dtype.
    """
    attention, mlp, eps = layer.self_attn, layer.mlp, config.rms_norm_eps
    dtype = layout.prompt_bias.dtype  # of the products; cast once here, not by autocast for each of them
    normed = _norm(hidden, layer.input_layernorm, eps).to(dtype)
    head_dim = cos.shape[-1]
    query, key, value = (
        project(normed).view(len(hidden), -1, head_dim)
        for project in (attention.q_proj, attention.k_proj, attention.v_proj)
    )
    query = rotate(_norm(query.to(hidden.dtype), attention.q_norm, eps), cos, sin).to(dtype)
    key = rotate(_norm(key.to(hidden.dtype), attention.k_norm, eps), cos, sin).to(dtype)

    cut = len(layout.prompt.where)
    query_p, key_p, value_p = (layout.prompt.pad(tensor[:cut]) for tensor in (query, key, value))
    mixed = layout.prompt.unpad(_attend(query_p, key_p, value_p, layout.prompt_bias))
    if cut < len(hidden):
        query_c, key_c, value_c = (layout.completion.pad(tensor[cut:]) for tensor in (query, key, value))
        key_c = torch.cat([key_p.index_select(0, layout.prompt_of), key_c], dim=2)
        value_c = torch.cat([value_p.index_select(0, layout.prompt_of), value_c], dim=2)
        own = layout.completion.unpad(_attend(query_c, key_c, value_c, layout.completion_bias))
        mixed = torch.cat([mixed, own])
    hidden = hidden + attention.o_proj(mixed)
    normed = _norm(hidden, layer.post_attention_layernorm, eps).to(dtype)
    return hidden + mlp.down_proj(F.silu(mlp.gate_proj(normed)) * mlp.up_proj(normed))


def _attend(query, key, value, bias):
    """(rows, heads, q, D), twice (rows, kv heads, k, D), (rows, 1, q, k) -> (rows, heads, q, D)"""
    sharing = query.shape[1] // key.shape[1]
    if sharing > 1 and query.is_cuda:
        # On a GPU torch has no kernel for a mask and shared key heads at once but the one that keeps all scores, for
        # the backward pass too. Keys and values once per head are less.
        key, value = (tensor.repeat_interleave(sharing, dim=1) for tensor in (key, value))
        sharing = 1
    return F.scaled_dot_product_attention(query, key, value, attn_mask=bias, enable_gqa=sharing > 1)


def _norm(hidden, module, eps):
    return F.rms_norm(hidden, module.weight.shape, module.weight, eps)


def _bias(visible, dtype):
    """(rows, q, k) bool -> (rows, 1, q, k) what is added to the scores."""
    bias = torch.zeros(visible.shape, dtype=dtype, device=visible.device)
    return bias.masked_fill_(~visible, -torch.inf)[:, None]
