"""Sampling: the distribution, the captured log-probs, stops, seeds, and that nothing else decides."""

import math
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))
from small_models import logprobs_alone, prompts_of_lengths, qwen3, rollouts_of

from grpo.qwen3 import sampler
from grpo.qwen3.decode import DecodeWeights, KVCache, decode_step, prefill
from grpo.qwen3.logprobs import completion_logprobs
from grpo.qwen3.masks import completion_lengths
from grpo.qwen3.sampler import draw_tokens, sample, wave_parts

PROMPTS = prompts_of_lengths(2, 40, 11, 1)
STOPS = frozenset({1, 2, 3, 4})


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def sampled(model, seed=0, **changes):
    options = {"max_new_tokens": 24, "stop_ids": STOPS, "pad_id": 1, "generator": rng(seed)}
    return sample(model, changes.pop("prompts", PROMPTS), changes.pop("group_size", 6), **{**options, **changes})


# Drawing one token


def chi_square(counts, probabilities):
    """The statistic in standard deviations from its mean, over cells that expect 5 draws or more."""
    expected = probabilities * counts.sum()
    large = expected >= 5
    observed, expected = (torch.cat([cells[large], cells[~large].sum()[None]]) for cells in (counts, expected))
    observed, expected = observed[expected > 0], expected[expected > 0]
    freedom = len(expected) - 1
    return (((observed - expected) ** 2 / expected).sum().item() - freedom) / math.sqrt(2 * freedom)


@pytest.mark.parametrize("vocabulary, draws", [(3, 20_000), (300, 40_000), (32_000, 4_000)])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_tokens_are_drawn_from_the_softmax(vocabulary, draws, temperature):
    logits = 1.5 * torch.randn(vocabulary, generator=rng(1))
    uniform = torch.rand(draws, generator=rng(2), dtype=torch.float64)
    tokens = torch.cat([draw_tokens(logits.expand(len(u), -1), temperature, u)[0] for u in uniform.split(1000)])
    counts = torch.bincount(tokens, minlength=vocabulary).double()
    exact = (logits.double() / temperature).softmax(-1)
    assert abs(chi_square(counts, exact)) < 4
    # The test sees a wrong temperature, or a shift by one token.
    assert chi_square(counts, (logits.double() / temperature / 1.2).softmax(-1)) > 4
    assert chi_square(counts, exact.roll(1)) > 4


@pytest.mark.parametrize("vocabulary", [4, 255, 256, 257, 1000])
def test_the_inverse_of_the_cumulative_distribution_point_by_point(vocabulary):
    logits = torch.randn(vocabulary, generator=rng(3))
    cumulative = logits.double().softmax(-1).cumsum(-1)
    uniform = torch.linspace(0.001, 0.999, 500, dtype=torch.float64)
    away = (uniform[:, None] - cumulative).abs().amin(-1) > 1e-6  # from a border, where rounding decides
    tokens, _ = draw_tokens(logits.expand(len(uniform), -1), 1.0, uniform)
    assert torch.equal(tokens[away], torch.searchsorted(cumulative, uniform, right=True)[away])
    assert away.sum() > 450


@pytest.mark.parametrize("vocabulary", [5, 600, 32_000])
def test_a_token_of_probability_zero_is_never_drawn(vocabulary):
    smallest_and_largest = torch.tensor([0.0, 1.0], dtype=torch.float64)  # 1: what rounding can make of almost 1
    for possible in ([0], [vocabulary - 1], [1, vocabulary // 2, vocabulary - 2]):
        logits = torch.full((vocabulary,), -math.inf)
        logits[possible] = torch.randn(len(possible), generator=rng(4))
        uniform = torch.cat([torch.rand(200, generator=rng(5), dtype=torch.float64), smallest_and_largest])
        tokens, logps = draw_tokens(logits.expand(len(uniform), -1), 1.0, uniform)
        assert set(tokens.tolist()) <= set(possible)
        assert (tokens[-2], tokens[-1]) == (possible[0], possible[-1])
        assert logps.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("temperature", [1.0, 0.5, 3.0])
def test_the_log_prob_is_that_of_logits_over_temperature(dtype, temperature):
    logits = (4 * torch.randn(20, 700, generator=rng(6))).to(dtype)
    kept = logits.clone()
    tokens, logps = draw_tokens(logits, temperature, torch.rand(20, generator=rng(7), dtype=torch.float64))
    expected = (logits.double() / temperature).log_softmax(-1).gather(-1, tokens[:, None])[:, 0]
    torch.testing.assert_close(logps.double(), expected, rtol=0, atol=3e-6)
    assert logps.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert torch.equal(logits, kept)


def test_the_worked_numbers_of_temperature_and_filters():
    # CASES C7. T=2: log softmax(1, 0); the raw distribution, not what is left after top_k=1, whose log-prob is 0.
    uniform = torch.zeros(1, dtype=torch.float64)
    token, logp = draw_tokens(torch.tensor([[2.0, 0.0]]), 2.0, uniform)
    assert token.item() == 0 and logp.item() == pytest.approx(-0.3133, abs=5e-5)
    token, logp = draw_tokens(torch.tensor([[2.0, 1.0, 0.0]]), 1.0, uniform)
    assert token.item() == 0 and logp.item() == pytest.approx(-0.4076, abs=5e-5)


def test_huge_logits():
    logits = torch.tensor([[1e4, 1e4 - 1, -1e4], [-1e30, -1e30, 0.0]])
    tokens, logps = draw_tokens(logits, 1.0, torch.tensor([0.9, 0.9]).double())
    assert tokens.tolist() == [1, 2]
    torch.testing.assert_close(logps, torch.tensor([-1.3133, 0.0]), rtol=0, atol=1e-3)


# The batch


def test_captured_log_probs_are_those_of_the_model(record_property):
    model = qwen3()
    for temperature in (1.0, 0.6):
        rollouts = sampled(model, temperature=temperature)
        assert len(set(rollouts.lengths.tolist())) > 4
        recomputed, _ = completion_logprobs(model, rollouts, temperature=temperature, shared_prompts=False)
        worst = (recomputed - rollouts.logprobs).abs().max().item()
        record_property(f"captured against recomputed, temperature {temperature}", worst)
        assert worst < 1e-4
        for row in range(0, len(rollouts), 5):
            length = int(rollouts.lengths[row])
            with torch.no_grad():
                alone, _ = logprobs_alone(
                    model, PROMPTS[row // 6], rollouts.completion_ids[row, :length].tolist(), temperature
                )
            assert (alone - rollouts.logprobs[row, :length]).abs().max() < 1e-4


def test_a_prompt_sampled_alone_gives_the_rows_it_has_in_a_batch(record_property):
    model = qwen3()
    for temperature in (1.0, 0.0):
        batch = sampled(model, temperature=temperature)
        alone = sampled(model, prompts=PROMPTS[:1], temperature=temperature)
        width = alone.completion_ids.shape[1]
        assert torch.equal(alone.completion_ids, batch.completion_ids[:6, :width])
        assert torch.equal(alone.lengths, batch.lengths[:6])
        worst = (alone.logprobs - batch.logprobs[:6, :width]).abs().max().item()
        record_property(f"alone against in a batch, temperature {temperature}", worst)
        assert worst < 1e-4


def test_shapes_padding_and_the_stop_token():
    rollouts = sampled(qwen3())
    count, width = rollouts.completion_ids.shape
    assert count == len(rollouts) == 24 and width == rollouts.lengths.max()
    assert rollouts.prompt_ids.shape == rollouts.prompt_mask.shape == (24, 40)
    for row in range(count):
        length, tokens = int(rollouts.lengths[row]), rollouts.completion_ids[row].tolist()
        prompt = PROMPTS[row // 6]
        assert rollouts.prompt_ids[row][rollouts.prompt_mask[row]].tolist() == prompt
        assert rollouts.prompt_mask[row].tolist() == [False] * (40 - len(prompt)) + [True] * len(prompt)
        assert not STOPS & set(tokens[: length - 1])
        assert bool(rollouts.finished[row]) == (tokens[length - 1] in STOPS)
        assert rollouts.finished[row] or length == 24
        assert set(tokens[length:]) <= {1}  # the padding, which is a stop id too
        # The stop token has its log-prob, the padding has exactly 0.
        assert (rollouts.logprobs[row, :length] < 0).all() and (rollouts.logprobs[row, length:] == 0).all()
    assert 0 < rollouts.finished.sum() < count
    assert torch.equal(rollouts.mask.sum(-1), rollouts.lengths) and rollouts.tokens == rollouts.lengths.sum()
    assert rollouts.prompt_index.tolist() == [row // 6 for row in range(24)]
    # The real stop comes first, so lengths found again from the ids are the same though pad = eos.
    ended = rollouts.finished
    assert torch.equal(completion_lengths(rollouts.completion_ids, STOPS)[ended], rollouts.lengths[ended])
    part = rollouts.rows(torch.tensor([3, 20]))
    assert len(part) == 2 and part.prompt_index.tolist() == [0, 3] and part.group_size == 6
    assert torch.equal(part.logprobs, rollouts.logprobs[[3, 20]])


def test_both_ends_of_qwen3_stop_a_rollout():
    # CASES E4: end of text and end of turn, as a set.
    ids = torch.tensor([[9, 151643, 9, 9], [9, 151645, 9, 9]])
    lengths = completion_lengths(ids, {151643, 151645})
    rows = [row[:length].tolist() for row, length in zip(ids, lengths, strict=True)]
    assert rollouts_of([[1], [1]], rows).mask.tolist() == [[True, True]] * 2
    # And in sampling: token 9 is followed by either end, at random, and nothing comes after it.
    model = stub(vocab_size=151_646, hidden_size=4)
    ends = [151643, 151645]
    with torch.no_grad():
        model.lm_head.weight.zero_()
        model.lm_head.weight[ends, 0] = 1e3
        model.model.embed_tokens.weight.zero_()
        model.model.embed_tokens.weight[:, 0] = 1.0
    rollouts = sample(model, [[9]], 12, max_new_tokens=4, stop_ids=set(ends), pad_id=0, generator=rng())
    assert rollouts.lengths.tolist() == [1] * 12 and rollouts.finished.all()
    assert set(rollouts.completion_ids.flatten().tolist()) == set(ends)
    one = sample(model, [[9]], 12, max_new_tokens=4, stop_ids={151643}, pad_id=0, generator=rng())
    assert one.lengths.max() > 1


def stub(**changes):
    """A Qwen3 whose layers add nothing: the logits are those of the token itself; untied."""
    model = qwen3(num_hidden_layers=1, tie_word_embeddings=False, **changes)
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
    return model


def test_the_generation_config_of_the_model_decides_nothing():
    # CASES E3: a uniform policy over 4 tokens; all 8 rollouts equal has chance 6.1e-5.
    model = stub(vocab_size=4)
    with torch.no_grad():
        model.lm_head.weight.zero_()
    config = model.generation_config
    config.do_sample, config.top_k, config.top_p, config.temperature = True, 1, 0.1, 0.1
    config.repetition_penalty, config.max_new_tokens, config.eos_token_id = 3.0, 1, [0, 1, 2, 3]
    options = {"max_new_tokens": 3, "stop_ids": (), "pad_id": 0}
    rollouts = sample(model, [[1, 2]], 8, generator=rng(), **options)
    assert len(set(map(tuple, rollouts.completion_ids.tolist()))) > 1
    assert rollouts.lengths.tolist() == [3] * 8 and not rollouts.finished.any()
    # The distribution in effect, not the one in the file.
    torch.testing.assert_close(rollouts.logprobs, torch.full((8, 3), math.log(1 / 4)))


def test_greedy_twice_is_the_same_and_the_most_probable():
    model = qwen3()
    one, two = (sampled(model, seed, temperature=0.0, group_size=2) for seed in (0, 1))
    assert torch.equal(one.completion_ids, two.completion_ids) and torch.equal(one.logprobs, two.logprobs)
    for row in (0, 2, 4):
        length = int(one.lengths[row])
        completion = one.completion_ids[row, :length].tolist()
        prompt = PROMPTS[row // 2]
        logits = model(input_ids=torch.tensor([prompt + completion])).logits[0, len(prompt) - 1 : -1]
        assert logits.argmax(-1).tolist() == completion
        expected, _ = logprobs_alone(model, prompt, completion)
        torch.testing.assert_close(one.logprobs[row, :length], expected, rtol=0, atol=1e-4)


def test_the_seed_decides_and_global_state_is_left_alone():
    model = qwen3()
    torch.manual_seed(5)
    before = torch.get_rng_state()
    one, again, other = sampled(model, 0), sampled(model, 0), sampled(model, 1)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(one.completion_ids, again.completion_ids) and torch.equal(one.logprobs, again.logprobs)
    assert one.completion_ids.tolist() != other.completion_ids.tolist()
    # How far the generator moves depends on the shapes only, not on what was drawn or when rollouts ended.
    states = []
    for stops in (STOPS, range(50)):
        generator = rng(7)
        sampled(model, generator=generator, stop_ids=stops)
        states.append(generator.get_state())
    assert torch.equal(*states)
    # Rollouts of one group differ: the generator is not seeded again for each.
    assert len(set(map(tuple, one.completion_ids[:6].tolist()))) > 3


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_when_finished_rows_leave_changes_nothing(share, monkeypatch):
    model = qwen3()
    expected = sampled(model)
    batches = []

    def counting(weights, cache, tokens, slot):
        batches.append(len(tokens))
        return decode_step(weights, cache, tokens, slot)

    monkeypatch.setattr(sampler, "decode_step", counting)
    monkeypatch.setattr(sampler, "KEEP_SHARE", share)
    rollouts = sampled(model)
    assert torch.equal(rollouts.completion_ids, expected.completion_ids)
    torch.testing.assert_close(rollouts.logprobs, expected.logprobs, rtol=0, atol=1e-5)
    alive = [int((rollouts.lengths > step + 1).sum()) for step in range(len(batches))]
    assert batches == {0.0: [24] * len(batches), 1.0: alive}.get(share, batches)
    assert batches[-1] < 24 or share == 0.0


def test_sampling_ends_with_the_last_rollout(monkeypatch):
    steps = []
    monkeypatch.setattr(sampler, "decode_step", lambda *args: steps.append(1) or decode_step(*args))
    rollouts = sampled(qwen3(), stop_ids=range(50))
    assert rollouts.lengths.tolist() == [1] * 24 and rollouts.completion_ids.shape == (24, 1) and not steps


def test_each_prompt_runs_once(monkeypatch):
    seen = []

    def watching(weights, cache, ids, mask):
        seen.append(tuple(ids.shape))
        return prefill(weights, cache, ids, mask)

    monkeypatch.setattr(sampler, "prefill", watching)
    sampled(qwen3())
    assert seen == [(4, 40)]


def test_training_mode_and_gradients_do_not_matter():
    model = qwen3(attention_dropout=0.5)
    expected = sampled(model)
    model.train()
    rollouts = sampled(model)
    assert model.training
    assert torch.equal(rollouts.completion_ids, expected.completion_ids)
    assert not rollouts.logprobs.requires_grad and not rollouts.logprobs.is_inference()


# bf16 rollouts


def test_bfloat16_rollouts_record_the_log_probs_of_the_rounded_model(record_property):
    model = qwen3(initializer_range=0.1, vocab_size=400)
    rollouts = sampled(model, rollout_dtype=torch.bfloat16, stop_ids=())
    assert rollouts.logprobs.dtype == torch.float32
    assert next(model.parameters()).dtype == torch.float32
    recomputed, _ = completion_logprobs(model, rollouts)
    mismatch = (recomputed - rollouts.logprobs).abs().mean().item()
    record_property("mean |captured - recomputed| of bfloat16 rollouts", mismatch)
    assert 1e-5 < mismatch < 0.02
    # Fed the same tokens, the rounded weights give the recorded numbers.
    weights = DecodeWeights.from_model(model, torch.bfloat16, pack=True)
    cache = KVCache(weights, rollouts.prompt_mask[::6], 6, 24)
    logits = prefill(weights, cache, rollouts.prompt_ids[::6], rollouts.prompt_mask[::6]).repeat_interleave(6, dim=0)
    for step in range(3):
        tokens = rollouts.completion_ids[:, step]
        logps = logits.float().log_softmax(-1).gather(-1, tokens[:, None])[:, 0]
        torch.testing.assert_close(logps, rollouts.logprobs[:, step], rtol=0, atol=1e-5)
        logits = decode_step(weights, cache, tokens, step)


def test_importance_weights_take_the_rounding_out_of_an_expectation(record_property):
    # Exact, over all first tokens: E_sampler[w f] with w = min(train / sampler, 2) against E_train[f].
    from grpo.qwen3.objective import importance_weights

    model = qwen3(initializer_range=0.1, vocab_size=400)
    prompt = torch.tensor([PROMPTS[2]])
    mask = torch.ones_like(prompt, dtype=torch.bool)

    def first_logps(dtype):
        weights = DecodeWeights.from_model(model, dtype)
        return prefill(weights, KVCache(weights, mask, 1, 1), prompt, mask).float().log_softmax(-1)

    train, rounded = first_logps(None), first_logps(torch.bfloat16)
    weights = importance_weights(train, rounded, torch.ones_like(train, dtype=torch.bool))
    reward = torch.randn(400, generator=rng(8), dtype=torch.float64)
    exact, sampler_chances = train.double().exp() @ reward, rounded.double().exp()
    without = (sampler_chances @ reward - exact).abs().item()
    with_weights = ((sampler_chances * weights.double()) @ reward - exact).abs().item()
    record_property("error of an expectation without and with importance weights", (without, with_weights))
    assert with_weights < without / 50


# Errors


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"prompts": []}, "prompts is empty"),
        ({"prompts": [[1], []]}, r"prompts\[1\] is empty"),
        ({"prompts": [[1, 50]]}, r"prompts\[0\] holds the id 50"),
        ({"prompts": [[-1]]}, "holds the id -1"),
        ({"group_size": 0}, "group_size is 0"),
        ({"max_new_tokens": 0}, "max_new_tokens is 0"),
        ({"wave": 0}, "wave is 0"),
        ({"temperature": -1.0}, "temperature is -1"),
        ({"temperature": math.nan}, "temperature is nan"),
    ],
)
def test_errors_name_the_argument(changes, message):
    with pytest.raises(ValueError, match=message):
        sampled(qwen3(), **changes)


def test_weights_that_are_not_finite_are_an_error():
    model = qwen3()
    with torch.no_grad():
        model.model.norm.weight[0] = math.nan
    with pytest.raises(ValueError, match="rollout 0 are not finite"):
        sampled(model)


# Waves


@pytest.mark.parametrize("wave", [1, 4, 6, 8, 13, 24, 99])
def test_waves_give_the_rollouts_of_one_batch(wave, monkeypatch):
    model, generators = qwen3(), [rng(3), rng(3)]
    whole = sampled(model, generator=generators[0])
    batches = []

    def watching(weights, cache, tokens, slot):
        batches.append(len(tokens))
        return decode_step(weights, cache, tokens, slot)

    monkeypatch.setattr(sampler, "decode_step", watching)
    waves = sampled(model, generator=generators[1], wave=wave)
    assert max(batches) == {1: 1, 4: 4, 6: 6, 8: 6, 13: 12}.get(wave, 24)  # whole prompts, or a part of one group
    assert torch.equal(*(generator.get_state() for generator in generators))
    for name in ("prompt_ids", "prompt_mask", "completion_ids", "lengths", "finished", "prompt_index"):
        assert torch.equal(getattr(waves, name), getattr(whole, name)), name
    torch.testing.assert_close(waves.logprobs, whole.logprobs, rtol=0, atol=1e-4)


def test_how_rollouts_are_split_into_waves():
    def sizes(*arguments):
        return [(asked.stop - asked.start, part.stop - part.start) for asked, part in wave_parts(*arguments)]

    assert sizes(5, 4, None) == sizes(5, 4, 20) == sizes(5, 4, 1000) == [(5, 20)]
    assert sizes(5, 4, 11) == sizes(5, 4, 8) == [(2, 8), (2, 8), (1, 4)]
    assert sizes(2, 4, 7) == sizes(2, 4, 4) == [(1, 4), (1, 4)]
    assert sizes(2, 4, 3) == [(1, 3), (1, 1), (1, 3), (1, 1)]
    for wave in range(1, 13):
        parts = wave_parts(3, 4, wave)
        assert [row for _, part in parts for row in range(part.start, part.stop)] == list(range(12))
        assert all(asked.start == part.start // 4 and asked.stop == -(-part.stop // 4) for asked, part in parts)


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_rollouts_of_a_rounded_copy_in_waves(half):
    model = qwen3(initializer_range=0.1, vocab_size=400)
    whole, waves = (sampled(model, rollout_dtype=half, stop_ids=(), wave=wave) for wave in (None, 5))
    recomputed, _ = completion_logprobs(model, waves)
    gap = (recomputed - waves.logprobs).abs().mean().item()
    assert {torch.bfloat16: 1e-4, torch.float16: 1e-5}[half] < gap < {torch.bfloat16: 2e-2, torch.float16: 2e-3}[half]
    assert torch.equal(whole.completion_ids[:, 0], waves.completion_ids[:, 0])


def test_numbers_beyond_float16_are_said_to_be():
    model = qwen3(tie_word_embeddings=False)
    with torch.no_grad():
        model.lm_head.weight.mul_(1e5)
    assert sampled(model).logprobs.isfinite().all()
    with pytest.raises(ValueError, match="65504, the end of float16: sample in bfloat16 or float32"):
        sampled(model, rollout_dtype=torch.float16)
