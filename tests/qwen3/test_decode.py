"""The written-out forward pass against the model's own, and the cache."""

import sys
from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

sys.path.insert(0, str(Path(__file__).parent))
from small_models import prompts_of_lengths, qwen3

from grpo.qwen3 import packed
from grpo.qwen3.decode import DecodeWeights, KVCache, decode_step, prefill, require_plain_qwen3, rope_theta
from grpo.qwen3.masks import left_pad
from grpo.qwen3.packed import Projection
from grpo.qwen3.sampler import draw_tokens

PROMPTS = prompts_of_lengths(3, 17, 1, 9)
GROUP, STEPS = 2, 5
SHAPES = {
    "tied": {},
    "untied, with biases": {"tie_word_embeddings": False, "attention_bias": True},
    "one key head per query head": {"num_key_value_heads": 4},
    "one key head for all": {"num_key_value_heads": 1},
    "another rope base": {"rope_parameters": {"rope_type": "default", "rope_theta": 37.0}},
}


def decoded(model, prompts=PROMPTS, tensor_slot=False, drop=None, **options):
    """(B * GROUP, STEPS + 1, V): logits after the prompt and after each token of `fed`; and these tokens."""
    weights = DecodeWeights.from_model(model, **options)
    ids, mask = left_pad(prompts, pad_id=0)
    cache = KVCache(weights, mask, GROUP, STEPS)
    fed = torch.randint(50, (len(prompts) * GROUP, STEPS), generator=torch.Generator().manual_seed(3))
    rows = torch.arange(len(fed))
    first = prefill(weights, cache, ids, mask).repeat_interleave(GROUP, dim=0)
    logits = torch.full((len(fed), STEPS + 1, first.shape[-1]), torch.nan, dtype=first.dtype)
    logits[:, 0] = first
    for step in range(STEPS):
        if drop and step in drop:
            keep = torch.tensor([i for i in range(len(rows)) if i not in drop[step]])
            cache.keep(keep, used=step)
            rows = rows[keep]
        slot = (torch.tensor([step]), STEPS) if tensor_slot else (step,)
        logits[rows, step + 1] = decode_step(weights, cache, fed[rows, step], *slot)
    return logits, fed


def by_the_model(model, fed, prompts=PROMPTS):
    rows = []
    for row, tokens in enumerate(fed.tolist()):
        prompt = prompts[row // GROUP]
        with torch.no_grad():
            rows.append(model(input_ids=torch.tensor([prompt + tokens]), use_cache=False).logits[0, len(prompt) - 1 :])
    return torch.stack(rows)


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("pack", [False, True])
def test_logits_are_those_of_the_model(name, pack, record_property):
    model = qwen3(**SHAPES[name])
    logits, fed = decoded(model, pack=pack)
    expected = by_the_model(model, fed)
    error = (logits - expected).abs().max().item()
    record_property("largest error of a logit", error)
    assert error < 1e-5 * expected.abs().max()


def test_float64_agrees_to_its_own_precision():
    model = qwen3(dtype=torch.float64)
    logits, fed = decoded(model)
    # The model computes its norms and its rotary angles in float32 whatever its dtype is.
    torch.testing.assert_close(logits, by_the_model(model, fed), rtol=0, atol=1e-4)
    assert logits.dtype == torch.float64


def test_bfloat16_copies_are_close_and_only_close():
    model = qwen3(initializer_range=0.1)
    exact, _ = decoded(model)
    for pack in (False, True):
        rounded, _ = decoded(model, dtype=torch.bfloat16, pack=pack)
        assert rounded.dtype == torch.bfloat16
        error = (rounded.float() - exact).abs().max() / exact.abs().max()
        assert 1e-4 < error < 0.05


def test_fixed_shapes_give_the_same():
    model = qwen3()
    torch.testing.assert_close(decoded(model, tensor_slot=True)[0], decoded(model)[0], rtol=0, atol=1e-5)


class NoWaiting(TorchDispatchMode):
    """Refuses every operator whose result, or its shape, the host must know before it can go on."""

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        waits = function._schema.name in ("aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select")
        waits |= function._schema.name.startswith(("aten::_unique", "aten::unique"))
        if function._schema.name == "aten::index":  # by a mask: as many rows as there are
            waits |= any(index is not None and index.dtype == torch.bool for index in arguments[1])
        if waits:
            raise RuntimeError(f"{function} makes the host wait")
        return function(*arguments, **(options or {}))


def test_a_step_and_a_draw_never_wait_for_the_device():
    weights = DecodeWeights.from_model(qwen3())
    ids, mask = left_pad(PROMPTS, pad_id=0)
    cache = KVCache(weights, mask, GROUP, STEPS)
    prefill(weights, cache, ids, mask)
    rows = 8
    for slot in range(2):
        tokens, uniform = torch.zeros(rows, dtype=torch.int64), torch.zeros(rows, dtype=torch.float64)
        place = torch.tensor([slot])
        with NoWaiting():
            logits = decode_step(weights, cache, tokens, place, view=STEPS)
            draw_tokens(logits, 0.7, uniform)
            draw_tokens(logits, 0.0, None)
        if slot == 0:
            cache.keep(torch.tensor([1, 4, 7]), used=1)  # this may wait: it comes now and then, between steps
            rows = 3
    with pytest.raises(RuntimeError, match="wait"), NoWaiting():
        bool(torch.ones(1).sum() > 0)


def test_the_same_dtype_refers_to_the_weights_and_another_copies_them():
    model = qwen3(tie_word_embeddings=False)
    weights = DecodeWeights.from_model(model)
    attention = model.model.layers[1].self_attn
    assert [w.data_ptr() for w in weights.layers[1].qkv.weights] == [
        module.weight.data_ptr() for module in (attention.q_proj, attention.k_proj, attention.v_proj)
    ]
    assert weights.head.weights[0].data_ptr() == model.lm_head.weight.data_ptr()
    before, _ = decoded(model)
    copies = DecodeWeights.from_model(model, torch.bfloat16)
    kept = copies.layers[0].out.weights[0].clone()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.1)
    assert torch.equal(copies.layers[0].out.weights[0], kept)
    assert weights.layers[0].out.weights[0].data_ptr() == model.model.layers[0].self_attn.o_proj.weight.data_ptr()
    after, fed = decoded(model)
    assert (after - before).abs().max() > 0.01
    torch.testing.assert_close(after, by_the_model(model, fed), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("drop", [{1: [0]}, {2: [2, 3], 4: [0, 4]}, {0: [1, 3, 5, 7]}, {1: [0, 1, 2, 3, 4, 5, 7]}])
def test_rows_that_leave_do_not_change_the_others(drop):
    model = qwen3()
    full, _ = decoded(model)
    some, _ = decoded(model, drop=drop)
    still = ~some.isnan().any(-1)
    gone = sum(len(rows) for rows in drop.values())
    assert still[:, -1].sum() == len(full) - gone
    torch.testing.assert_close(some[still], full[still], rtol=0, atol=1e-5)


def test_a_prompt_is_stored_once_and_memory_is_allocated_once():
    model = qwen3()
    weights = DecodeWeights.from_model(model)
    ids, mask = left_pad(PROMPTS, pad_id=0)
    cache = KVCache(weights, mask, group_size=6, max_new_tokens=STEPS)
    assert cache.prompt_keys.shape == cache.prompt_values.shape == (3, 4, 2, 17, 16)
    assert cache.keys.shape == cache.values.shape == (3, 24, 2, STEPS, 16)
    stored = (cache.keys, cache.values, cache.prompt_keys, cache.prompt_values)
    places = [tensor.data_ptr() for tensor in stored]
    prefill(weights, cache, ids, mask)
    decode_step(weights, cache, torch.zeros(24, dtype=torch.int64), 0)
    cache.keep(torch.arange(0, 24, 5), used=1)
    decode_step(weights, cache, torch.zeros(5, dtype=torch.int64), 1)
    stored = (cache.keys, cache.values, cache.prompt_keys, cache.prompt_values)
    assert places == [tensor.data_ptr() for tensor in stored]


def test_what_stands_at_padding_does_not_matter():
    weights = DecodeWeights.from_model(qwen3())
    ids, mask = left_pad(PROMPTS, pad_id=0)
    results = []
    for filler in (0, 33):
        cache = KVCache(weights, mask, 1, 1)
        first = prefill(weights, cache, ids.masked_fill(~mask, filler), mask)
        results.append((first, decode_step(weights, cache, torch.tensor([4, 5, 6, 7]), 0)))
    for one, other in zip(*results, strict=True):
        assert torch.equal(one, other)
        assert one.isfinite().all()


def test_positions_start_at_the_first_real_token():
    # A rotary model does not show a shift of a whole row (CASES C5), so the positions themselves are looked at.
    weights = DecodeWeights.from_model(qwen3())
    ids, mask = left_pad(PROMPTS, pad_id=0)
    cache = KVCache(weights, mask, GROUP, 2)
    assert cache.start.tolist() == [3, 3, 17, 17, 1, 1, 9, 9]
    cache.keep(torch.tensor([1, 4, 7]), used=0)
    assert cache.start.tolist() == [3, 1, 9]
    # Keys of the first layer depend on token and position only: the same token at the same position, padded or not.
    prefill(weights, cache, ids, mask)
    alone = KVCache(weights, torch.ones(1, 3, dtype=torch.bool), 1, 1)
    prefill(weights, alone, torch.tensor([PROMPTS[0]]), torch.ones(1, 3, dtype=torch.bool))
    torch.testing.assert_close(cache.prompt_keys[0, 0, :, -3:], alone.prompt_keys[0, 0], rtol=0, atol=1e-6)


def test_other_models_are_refused_by_name():
    from transformers import LlamaConfig, Qwen2Config, Qwen3Config

    for config, name in ((LlamaConfig(), "llama"), (Qwen2Config(), "qwen2")):
        with pytest.raises(ValueError, match=f"'{name}'"):
            require_plain_qwen3(config)
    sliding = Qwen3Config(use_sliding_window=True, sliding_window=8, max_window_layers=1, num_hidden_layers=2)
    with pytest.raises(ValueError, match="sliding_attention"):
        require_plain_qwen3(sliding)
    with pytest.raises(ValueError, match="gelu"):
        require_plain_qwen3(Qwen3Config(hidden_act="gelu"))
    scaled = Qwen3Config(rope_parameters={"rope_type": "linear", "rope_theta": 1e4, "factor": 2.0})
    with pytest.raises(ValueError, match="linear"):
        require_plain_qwen3(scaled)
    model = qwen3(num_hidden_layers=2, use_sliding_window=True, sliding_window=8, max_window_layers=1)
    with pytest.raises(ValueError, match="sliding_attention"):
        DecodeWeights.from_model(model)


def test_rope_theta_old_and_new():
    class Config:
        def __init__(self, **fields):
            self.__dict__.update(fields)

    assert rope_theta(Config(rope_parameters={"rope_type": "default", "rope_theta": 5e5})) == 5e5
    assert rope_theta(Config(rope_theta=1e6, rope_scaling=None)) == 1e6
    with pytest.raises(ValueError, match="yarn"):
        rope_theta(Config(rope_theta=1e6, rope_scaling={"type": "yarn", "factor": 4.0}))
    with pytest.raises(ValueError, match="rope_theta"):
        rope_theta(Config())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("pack", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_projection(dtype, pack, bias):
    generator = torch.Generator().manual_seed(1)
    weights = [torch.randn(out, 12, generator=generator) for out in (5, 8, 3)]
    biases = [torch.randn(len(weight), generator=generator) if bias else None for weight in weights]
    x = torch.randn(2, 4, 12, generator=generator)
    project = Projection(weights, biases, dtype, pack)
    expected = torch.cat([torch.nn.functional.linear(x, *pair) for pair in zip(weights, biases, strict=True)], -1)
    assert project(x).dtype == dtype
    torch.testing.assert_close(project(x).float(), expected, rtol=0, atol=1e-5 if dtype == torch.float32 else 0.1)


def test_without_the_packing_operators_the_plain_product_is_used(monkeypatch):
    def missing(weight):
        raise AttributeError("'_OpNamespace' 'mkldnn' object has no attribute '_reorder_linear_weight'")

    wrong = lambda x, weight, bias: torch.nn.functional.linear(x, weight, bias) * 1.1  # noqa: E731
    for changes in ({"_pack": missing}, {"_pack": lambda weight: weight, "_packed_product": wrong}):
        with monkeypatch.context() as patch:
            for name, replacement in changes.items():
                patch.setattr(packed, name, replacement)
            packed.can_pack.cache_clear()
            project = Projection([torch.eye(3)], pack=True)
            assert not project.packed
            assert torch.equal(project(torch.ones(1, 3)), torch.ones(1, 3))
    packed.can_pack.cache_clear()
    assert not packed.can_pack(torch.float64, torch.device("cpu"))
