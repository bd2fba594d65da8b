"""The Qwen3 forward pass for sampling, written out over the weights of a transformers model.

Nothing here calls the model's own `forward` or a cache class of transformers (whose argument names changed between
versions): only weights and a few numbers of the config are read. The keys and values of a prompt are stored once for
its whole group; each rollout stores only those of its own tokens. One decode step has fixed shapes and never waits
for the device, so that it can be captured as a CUDA graph.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from grpo.qwen3.masks import position_ids
from grpo.qwen3.packed import Projection


@dataclass
class LayerWeights:
    """One transformer block."""

    input_norm: Tensor
    qkv: Projection
    qk_norm: Tensor  # (heads + kv heads, head_dim): q_norm for each query head, k_norm for each key head
    out: Projection
    mlp_norm: Tensor
    gate_up: Projection
    down: Projection


@dataclass
class DecodeWeights:
    """What the decode needs of a Qwen3 model.

    Attributes:
        embedding: (V, hidden), the model's own. head: hidden -> V logits.
        layers: one `LayerWeights` per block. final_norm: (hidden,).
        heads, kv_heads, head_dim: heads * head_dim need not be the hidden size.
        eps: of every RMS norm. theta: base of the rotary angles.
        dtype: of the matrix products and of the cache. Norms, rotations and the sums that run through the layers
            stay in the model's dtype; they cost little, and rounding them would add to the error.
    """

    embedding: Tensor
    head: Projection
    layers: list[LayerWeights]
    final_norm: Tensor
    heads: int
    kv_heads: int
    head_dim: int
    eps: float
    theta: float
    dtype: torch.dtype

    @classmethod
    def from_model(cls, model, dtype: torch.dtype | None = None, pack: bool = False) -> DecodeWeights:
        """Read the weights of a `Qwen3ForCausalLM`.

        Args:
            dtype: of the matrices. With the model's own (or None) the result refers to the parameters: it costs no
                memory and follows every optimizer step. With another it holds copies, made now: take new ones after
                a step.
            pack: copy the matrices into the layout that is fastest on a CPU, see `grpo.qwen3.packed`.

        Raises: ValueError for another architecture, sliding-window attention, a rotary scaling, or an activation
            other than silu.
        """
        config = model.config
        require_plain_qwen3(config)
        heads = config.num_attention_heads
        kv_heads = config.num_key_value_heads or heads
        head_dim = getattr(config, "head_dim", None) or config.hidden_size // heads
        embedding = model.model.embed_tokens.weight.detach()
        dtype = dtype or embedding.dtype

        def project(*modules):
            return Projection([m.weight for m in modules], [m.bias for m in modules], dtype, pack)

        layers = []
        for layer in model.model.layers:
            attention, mlp = layer.self_attn, layer.mlp
            q_norm, k_norm = attention.q_norm.weight.detach(), attention.k_norm.weight.detach()
            layers.append(
                LayerWeights(
                    input_norm=layer.input_layernorm.weight.detach(),
                    qkv=project(attention.q_proj, attention.k_proj, attention.v_proj),
                    qk_norm=torch.cat([q_norm.expand(heads, -1), k_norm.expand(kv_heads, -1)]),
                    out=project(attention.o_proj),
                    mlp_norm=layer.post_attention_layernorm.weight.detach(),
                    gate_up=project(mlp.gate_proj, mlp.up_proj),
                    down=project(mlp.down_proj),
                )
            )
        return cls(
            embedding=embedding,
            head=project(model.lm_head),
            layers=layers,
            final_norm=model.model.norm.weight.detach(),
            heads=heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            eps=config.rms_norm_eps,
            theta=rope_theta(config),
            dtype=dtype,
        )


def rotary_tables(theta: float, head_dim: int, length: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """cos and sin for positions 0 .. length-1, (length, head_dim) each, on the device and in the dtype of `like`.

    The first half of sin has its sign turned, so that rotating x is x * cos + roll(x, head_dim / 2) * sin.
    """
    pairs = torch.arange(0, head_dim, 2, dtype=torch.float32, device=like.device)
    # As transformers does it: inverse frequencies, then a product, all in float32.
    frequencies = 1.0 / theta ** (pairs / head_dim)
    angles = torch.arange(length, dtype=torch.float32, device=like.device)[:, None] * frequencies
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([cos, cos], dim=-1).to(like.dtype), torch.cat([-sin, sin], dim=-1).to(like.dtype)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn (..., D) by the angles of `rotary_tables`, given in a shape that broadcasts."""
    return torch.addcmul(x * cos, x.roll(x.shape[-1] // 2, dims=-1), sin)


def require_plain_qwen3(config) -> None:
    """Raise ValueError unless the decode written out here computes what this config describes."""
    kind = getattr(config, "model_type", None)
    if kind != "qwen3":
        raise ValueError(f"the model's architecture is {kind!r}: only 'qwen3' (Qwen3ForCausalLM) can be decoded here")
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    if getattr(config, "use_sliding_window", False) or kinds != {"full_attention"}:
        raise ValueError(
            f"the model has layers of {sorted(kinds - {'full_attention'}) or ['sliding_attention']}: only full "
            "attention is supported, so set use_sliding_window=False in its config if it was trained that way"
        )
    if getattr(config, "hidden_act", "silu") != "silu":
        raise ValueError(f"hidden_act is {config.hidden_act!r}: only 'silu' is supported")
    rope_theta(config)


def rope_theta(config) -> float:
    """Base of the rotary angles: config.rope_parameters (transformers 5), or config.rope_theta (older files).

    Raises: ValueError if it is missing, or a rotary scaling ("yarn", "linear", ...) is set.
    """
    parameters = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    kind = parameters.get("rope_type", parameters.get("type", "default"))
    if kind != "default":
        raise ValueError(f"rope_type is {kind!r}: only the plain rotary embedding ('default') is supported")
    theta = parameters.get("rope_theta", getattr(config, "rope_theta", None))
    if theta is None:
        raise ValueError("the config has no rope_theta, neither in rope_parameters nor by itself: add the model's own")
    return float(theta)


class KVCache:
    """Keys and values, allocated once: (B, kv_heads, P, D) per layer for the prompts, (N, kv_heads, C, D) for the rest.

    Row n belongs to prompt `prompt_of[n]`. `keep` drops rows; the memory stays.

    Args:
        weights: their dtype and device are used.
        prompt_mask: (B, P) bool, left padded.
        group_size: rollouts per prompt; N = B * group_size.
        max_new_tokens: C.
    """

    def __init__(self, weights: DecodeWeights, prompt_mask: Tensor, group_size: int, max_new_tokens: int):
        prompts, width = prompt_mask.shape
        rows, layers, like = prompts * group_size, len(weights.layers), weights.embedding
        shape = (layers, prompts, weights.kv_heads, width, weights.head_dim)
        self.prompt_keys = torch.zeros(shape, dtype=weights.dtype, device=like.device)
        self.prompt_values = torch.zeros_like(self.prompt_keys)
        shape = (layers, rows, weights.kv_heads, max_new_tokens, weights.head_dim)
        # Zeros, because a slot that is not written yet gets the attention weight 0, and 0 * NaN would be NaN.
        self.keys = torch.zeros(shape, dtype=weights.dtype, device=like.device)
        self.values = torch.zeros_like(self.keys)
        self.prompt_bias = None
        if not bool(prompt_mask.all()):
            bias = torch.zeros(prompts, 1, 1, width, dtype=like.dtype, device=like.device)
            self.prompt_bias = bias.masked_fill_(~prompt_mask[:, None, None, :], -torch.inf)
        self.cos, self.sin = rotary_tables(weights.theta, weights.head_dim, width + max_new_tokens, like)
        self.start = prompt_mask.sum(-1).repeat_interleave(group_size)  # position of each row's first new token
        self.prompt_of = torch.arange(prompts, device=like.device).repeat_interleave(group_size)
        self.group_size = group_size
        self.rows = rows
        self._grid = None

    def keep(self, rows: Tensor, used: int) -> None:
        """Keep only these rows (sorted indices into the present ones), of which `used` slots are filled."""
        count = len(rows)
        for stored in (self.keys, self.values):
            for layer in stored:
                # The right side is a copy, so rows can move within the same memory.
                layer[:count, :, :used] = layer[rows, :, :used]
        self.start, self.prompt_of, self.rows = self.start[rows], self.prompt_of[rows], count
        self._grid = self._make_grid()

    def _make_grid(self):
        """Where the remaining rows stand in a (prompts left, most rows of one prompt) rectangle."""
        left, prompt, counts = self.prompt_of.unique_consecutive(return_inverse=True, return_counts=True)
        first = counts.cumsum(0) - counts
        column = torch.arange(self.rows, device=prompt.device) - first[prompt]
        width = int(counts.max())
        row_at = torch.zeros(len(left), width, dtype=torch.int64, device=prompt.device)
        row_at[prompt, column] = torch.arange(self.rows, device=prompt.device)
        return left, row_at, prompt * width + column

    def prompt_scores(self, layer: int, query: Tensor) -> Tensor:
        """(N, kv_heads, q, D) scaled queries against the keys of their prompts -> (N, kv_heads, q, P) scores."""
        keys, bias = self.prompt_keys[layer], self.prompt_bias
        if self._grid is not None:
            left = self._grid[0]
            keys, bias = keys[left], None if bias is None else bias[left]
        grouped = self._to_groups(query)
        scores = grouped @ keys.transpose(-1, -2)
        if bias is not None:
            scores += bias
        return self._to_rows(scores, query.shape[2])

    def prompt_mix(self, layer: int, weights: Tensor) -> Tensor:
        """(N, kv_heads, q, P) attention weights -> (N, kv_heads, q, D) sums of their prompts' values."""
        values = self.prompt_values[layer]
        if self._grid is not None:
            values = values[self._grid[0]]
        return self._to_rows(self._to_groups(weights) @ values, weights.shape[2])

    def _to_groups(self, tensor):
        """(N, kv_heads, q, X) -> (B, kv_heads, G * q, X)"""
        if self._grid is not None:
            row_at = self._grid[1]
            tensor = tensor[row_at.view(-1)]
            groups, size = row_at.shape
        else:
            groups, size = self.prompt_keys.shape[1], self.group_size
        _, kv_heads, queries, last = tensor.shape
        grouped = tensor.view(groups, size, kv_heads, queries, last).transpose(1, 2)
        return grouped.reshape(groups, kv_heads, size * queries, last)

    def _to_rows(self, grouped, queries):
        """(B, kv_heads, G * q, X) -> (N, kv_heads, q, X)"""
        groups, kv_heads, total, last = grouped.shape
        rows = grouped.view(groups, kv_heads, total // queries, queries, last).transpose(1, 2)
        rows = rows.reshape(-1, kv_heads, queries, last)
        return rows if self._grid is None else rows[self._grid[2]]


@torch.no_grad()
def prefill(weights: DecodeWeights, cache: KVCache, prompt_ids: Tensor, prompt_mask: Tensor) -> Tensor:
    """Run the prompts once each, fill the cache, and return the logits of the first new token.

    Args:
        prompt_ids: (B, P), LEFT padded. prompt_mask: (B, P) bool.

    Returns: (B, V) logits in the weights' dtype: one row per prompt, to be repeated to its group.
    """
    batch, width = prompt_ids.shape
    positions = position_ids(prompt_mask)
    cos, sin = cache.cos[positions][:, :, None], cache.sin[positions][:, :, None]
    causal = torch.ones(width, width, dtype=torch.bool, device=prompt_ids.device).tril()
    itself = torch.eye(width, dtype=torch.bool, device=prompt_ids.device)
    # A padding position may look at itself: with nothing to look at it would be NaN. Nobody reads its result.
    visible = ((causal & prompt_mask[:, None, :]) | itself)[:, None]
    hidden = F.embedding(prompt_ids, weights.embedding)
    for index, layer in enumerate(weights.layers):
        query, key, value = _query_key_value(weights, layer, hidden, cos, sin)
        query, key, value = (tensor.transpose(1, 2) for tensor in (query, key, value))
        cache.prompt_keys[index].copy_(key)
        cache.prompt_values[index].copy_(value)
        mixed = F.scaled_dot_product_attention(
            query, key, value, attn_mask=visible, enable_gqa=weights.heads != weights.kv_heads
        )
        mixed = mixed.transpose(1, 2).reshape(batch, width, -1)
        if index == len(weights.layers) - 1:
            hidden, mixed = hidden[:, -1], mixed[:, -1]  # of the last layer only the last position is used
        hidden = _after_attention(weights, layer, hidden, mixed)
    return _logits(weights, hidden)


@torch.no_grad()
def decode_step(
    weights: DecodeWeights, cache: KVCache, token_ids: Tensor, slot: int | Tensor, view: int | None = None
) -> Tensor:
    """One new token per row: append its keys and values to the cache, return the logits of the next.

    Args:
        token_ids: (N,) the tokens sampled last.
        slot: where in the cache they go; they stand at position start + slot. As an int, slot + 1 slots are looked
            at, the least possible. As a (1,) int64 tensor on the device, `view` of them are, whatever its value: the
            shapes stay the same over several steps, as a CUDA graph needs it.
        view: with a tensor slot: how many slots to look at, > slot.

    Returns: (N, V) logits in the weights' dtype.
    """
    rows, kv_heads, head_dim = len(token_ids), weights.kv_heads, weights.head_dim
    unwritten = None
    if isinstance(slot, int):
        view = slot + 1
    else:
        unwritten = torch.arange(view, device=token_ids.device) > slot
    positions = cache.start + slot
    cos, sin = cache.cos[positions][:, None], cache.sin[positions][:, None]
    hidden = F.embedding(token_ids, weights.embedding)
    for index, layer in enumerate(weights.layers):
        query, key, value = _query_key_value(weights, layer, hidden, cos, sin)
        keys, values = cache.keys[index, :rows], cache.values[index, :rows]
        if unwritten is None:
            keys[:, :, slot], values[:, :, slot] = key, value
        else:
            keys.index_copy_(2, slot, key[:, :, None])
            values.index_copy_(2, slot, value[:, :, None])
        # The query heads that share a key head stand side by side, like several queries: nothing is repeated.
        query = (query * head_dim**-0.5).view(rows, kv_heads, weights.heads // kv_heads, head_dim)
        own = query @ keys[:, :, :view].transpose(-1, -2)
        if unwritten is not None:
            own.masked_fill_(unwritten, -torch.inf)
        shared = cache.prompt_scores(index, query)
        attention = torch.cat([shared, own], dim=-1).softmax(-1, dtype=torch.promote_types(own.dtype, torch.float32))
        attention = attention.to(own.dtype)
        width = shared.shape[-1]
        mixed = attention[..., width:] @ values[:, :, :view]
        mixed += cache.prompt_mix(index, attention[..., :width])
        hidden = _after_attention(weights, layer, hidden, mixed.view(rows, -1))
    return _logits(weights, hidden)


def _logits(weights, hidden):
    """(..., hidden) before the final norm -> (..., V)"""
    return weights.head(_norm(hidden, weights.final_norm, weights.eps))


def _norm(hidden, weight, eps):
    return F.rms_norm(hidden, weight.shape, weight, eps)


def _query_key_value(weights, layer, hidden, cos, sin):
    """(..., hidden) -> query (..., heads, D), key and value (..., kv_heads, D), normalised and rotated."""
    heads, kv_heads, head_dim = weights.heads, weights.kv_heads, weights.head_dim
    projected = layer.qkv(_norm(hidden, layer.input_norm, weights.eps))
    projected = projected.view(*hidden.shape[:-1], heads + 2 * kv_heads, head_dim)
    both, value = projected.split([heads + kv_heads, kv_heads], dim=-2)
    both = F.rms_norm(both.to(hidden.dtype), (head_dim,), None, weights.eps) * layer.qk_norm
    query, key = rotate(both, cos, sin).to(weights.dtype).split([heads, kv_heads], dim=-2)
    return query, key, value


def _after_attention(weights, layer, hidden, mixed):
    """Output projection, residual, and the gated MLP with its residual."""
    hidden = hidden + layer.out(mixed)
    gate, up = layer.gate_up(_norm(hidden, layer.mlp_norm, weights.eps)).chunk(2, dim=-1)
    return hidden + layer.down(F.silu(gate) * up)
