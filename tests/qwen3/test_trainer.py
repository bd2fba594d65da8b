"""One step of GRPO against a computation of its own: scores row by row, loss and gradient by the numpy library."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))
from micro_run import PROBLEMS, CoinReward, digits_reward, micro_model, same_weights, settings, weights

import grpo.qwen3.trainer as trainer_module
from grpo import group_relative_advantage, kl_k3
from grpo.qwen3.guards import NotFiniteError, OutOfMemoryError
from grpo.qwen3.health import diagnose, read_signals
from grpo.qwen3.prompt_order import PromptOrder
from grpo.qwen3.trainer import Trainer, completion_texts
from grpo.token_loss import kl_in_reward, log_ratios, token_grpo_gradient, token_grpo_loss


class Watched:
    """A trainer whose rollouts, advantages, and weights and gradients at every optimizer step are written down."""

    def __init__(self, monkeypatch, reward=digits_reward, model=None, problems=PROBLEMS, out_dir=None, **changes):
        model, tokenizer = micro_model() if model is None else model
        self.trainer = Trainer(model, tokenizer, problems, reward, settings(**changes), out_dir=out_dir)
        self.model, self.rollouts, self.steps, self.rewards = model, None, [], None
        sample, score, take_step = self.trainer.sample, self.trainer.score, self.trainer.take_step

        def watched_sample(chosen):
            self.chosen, self.rollouts = chosen, sample(chosen)
            return self.rollouts

        def watched_score(*arguments):
            self.rewards = score(*arguments)
            return self.rewards

        def watched_step(update):
            before, gradients = weights(model), {}
            for name, parameter in model.named_parameters():
                gradients[name] = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.clone()
            take_step(update)
            self.steps.append((before, gradients, update))

        monkeypatch.setattr(self.trainer, "sample", watched_sample)
        monkeypatch.setattr(self.trainer, "score", watched_score)
        monkeypatch.setattr(self.trainer, "take_step", watched_step)


def row_by_row(model, rollouts, temperature=1.0):
    """(N, C) log-probs with a gradient: each rollout alone, without padding, through the model's own forward."""
    rows = []
    for row in range(len(rollouts)):
        prompt = rollouts.prompt_ids[row][rollouts.prompt_mask[row]]
        answer = rollouts.completion_ids[row, : rollouts.lengths[row]]
        ids = torch.cat([prompt, answer])
        logits = model(input_ids=ids[None], use_cache=False).logits[0, len(prompt) - 1 : -1]
        logps = torch.log_softmax(logits / temperature, dim=-1)[range(len(answer)), answer]
        rows.append(torch.nn.functional.pad(logps, (0, rollouts.completion_ids.shape[1] - len(answer))))
    return torch.stack(rows)


def loaded(model, values):
    """A copy of the model with other weights."""
    import copy

    other = copy.deepcopy(model)
    other.load_state_dict(values, strict=False)
    return other


def expected_gradient(watched, number, ref_logps=None, importance=None, old=None):
    """dict, name -> gradient of update `number`: numpy's d loss / d log-prob, through row-by-row scores."""
    run, rollouts = watched.trainer.settings, watched.rollouts
    model = loaded(watched.model, watched.steps[number][0])
    model.zero_grad()
    new = row_by_row(model, rollouts, run.temperature)
    rewards = watched.rewards.numpy()
    old = rollouts.logprobs.numpy() if old is None else old
    if run.kl == "k1_in_reward":
        rewards = kl_in_reward(rewards, old, ref_logps, rollouts.mask.numpy(), run.kl_coef)
    advantages = group_relative_advantage(rewards, run.group_size)
    if not run.scale_by_std:
        advantages = rewards.reshape(advantages.shape)
        advantages = advantages - advantages.mean(axis=1, keepdims=True)
    arguments = {
        "ref_logps": ref_logps,
        "level": run.level,
        "aggregate": run.aggregate,
        "clip_low": run.clip_low,
        "clip_high": run.clip_high,
        "kl_coef": run.loss_kl_coef,
        "kl": "k3" if run.kl == "k1_in_reward" else run.kl,
        "constant_length": run.max_new_tokens if run.aggregate == "constant" else None,
        "importance_weights": importance,
    }
    inputs = (new.detach().double().numpy(), old, advantages.ravel(), rollouts.mask.numpy())
    slope = token_grpo_gradient(*inputs, **arguments)
    (new * torch.tensor(slope, dtype=torch.float32)).sum().backward()
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    return gradients, token_grpo_loss(*inputs, **arguments), inputs


def assert_close(left, right, tolerance=2e-5):
    scale = max(float(value.abs().max()) for value in right.values())
    assert scale > 1e-4
    for name in right:
        assert float((left[name] - right[name]).abs().max()) < tolerance * max(scale, 1.0), name


def reference_logps(watched):
    with torch.no_grad():
        return row_by_row(watched.trainer.reference, watched.rollouts, watched.trainer.settings.temperature).numpy()


ON_POLICY = [
    {},
    {"aggregate": "rollout_sum"},
    {"aggregate": "token_mean", "temperature": 0.7},
    {"aggregate": "constant"},
    {"scale_by_std": False},
]


@pytest.mark.parametrize("changes", ON_POLICY)
def test_the_first_step_against_numpy(monkeypatch, changes):
    watched = Watched(monkeypatch, max_grad_norm=None, **changes)
    signals = watched.trainer.step()
    gradients, loss, _ = expected_gradient(watched, 0)
    assert_close(watched.steps[0][1], gradients)
    assert signals["loss"] == pytest.approx(loss, abs=1e-5)
    assert signals["ratio_max"] == pytest.approx(1.0, abs=1e-4)  # one temperature for sampling and scoring
    norm = np.sqrt(sum(float((gradient**2).sum()) for gradient in gradients.values()))
    assert signals["gradient_norm"] == pytest.approx(norm, rel=1e-4)


OFF_POLICY = [
    {},
    {"level": "gspo", "aggregate": "token_mean"},
    {"level": "rollout", "aggregate": "rollout_sum", "learning_rate": 5e-4},
    {"kl_coef": 0.2},
    {"kl_coef": 0.2, "kl": "k2", "clip_high": 0.3},
    {"kl_coef": 0.2, "kl": "k1", "clip_low": 0.1},
    {"kl_coef": 0.05, "kl": "k1_in_reward"},
]


@pytest.mark.parametrize("changes", OFF_POLICY)
def test_every_inner_update_against_numpy(monkeypatch, changes):
    """E1: the old log-probs stay those of the sampling. And no update adds to the gradient of the one before."""
    options = {"learning_rate": 2e-3, "group_size": 8, "inner_updates": 3, "max_grad_norm": None, **changes}
    watched = Watched(monkeypatch, **options)
    watched.trainer.step()  # away from the reference
    watched.steps.clear()
    signals = watched.trainer.step()
    ref_logps = reference_logps(watched) if "kl_coef" in changes else None
    run, mask = watched.trainer.settings, watched.rollouts.mask.numpy()
    shut, largest = [], []
    for number in range(3):
        gradients, loss, (new, old, advantages, _) = expected_gradient(watched, number, ref_logps)
        assert_close(watched.steps[number][1], gradients, tolerance=1e-4)
        ratios = np.exp(log_ratios(new, old, mask, run.level))
        over = (ratios > 1 + run.clip_high) & (advantages[:, None] > 0)
        off = over | ((ratios < 1 - run.clip_low) & (advantages[:, None] < 0))
        counted = mask if run.level == "token" else mask & (mask.cumsum(axis=1) == 1)
        shut.append(off[counted].mean())
        largest.append(ratios[mask].max())
    assert signals["loss"] == pytest.approx(loss, abs=2e-5)
    assert signals["clip_fraction"] == pytest.approx(np.mean(shut), abs=1e-6) and signals["clip_fraction"] > 0
    assert signals["ratio_max"] == pytest.approx(max(largest), rel=1e-4) and signals["ratio_max"] > 1.05


def test_the_old_log_probs_are_the_captured_ones(monkeypatch):
    """Not the same computed anew, not even once: another batch shape or arithmetic would already be another policy."""
    watched, seen = Watched(monkeypatch, inner_updates=2), []
    loss = trainer_module.token_grpo_loss

    def spy(new, old, *arguments, **options):
        seen.append((new.detach().clone(), old.clone()))
        return loss(new, old, *arguments, **options)

    monkeypatch.setattr(trainer_module, "token_grpo_loss", spy)
    watched.trainer.step()
    assert len(seen) == 2 and all(torch.equal(old, watched.rollouts.logprobs) for _, old in seen)
    assert not torch.equal(seen[0][0], seen[1][0])


@pytest.mark.parametrize("aggregate", ["rollout_mean", "rollout_sum", "token_mean", "constant"])
@pytest.mark.parametrize("size", [1, 3, 8])
def test_micro_batches_give_the_gradient_of_the_full_batch(monkeypatch, aggregate, size):
    found = []
    for micro_batch_size in (None, size):
        watched = Watched(
            monkeypatch, aggregate=aggregate, micro_batch_size=micro_batch_size, kl_coef=0.1, inner_updates=2
        )
        signals = watched.trainer.step()
        found.append((watched.steps[0][1], signals))
    assert_close(found[1][0], found[0][0], tolerance=1e-5)
    for name in ("loss", "clip_fraction", "ratio_max", "gradient_norm", "kl"):
        assert found[1][1][name] == pytest.approx(found[0][1][name], abs=2e-3)


def test_the_step_of_adamw(monkeypatch):
    watched = Watched(monkeypatch, max_grad_norm=None, learning_rate=0.01, weight_decay=0.1, betas=(0.8, 0.9))
    averages = {}
    for step in (1, 2):
        watched.steps.clear()
        watched.trainer.step()
        before, gradients, _ = watched.steps[0]
        after = weights(watched.model)
        for name, gradient in gradients.items():
            mean, square = averages.get(name, (0.0, 0.0))
            mean, square = 0.8 * mean + 0.2 * gradient, 0.9 * square + 0.1 * gradient**2
            averages[name] = mean, square
            move = (mean / (1 - 0.8**step)) / ((square / (1 - 0.9**step)).sqrt() + 1e-8)
            torch.testing.assert_close(after[name], before[name] * (1 - 0.01 * 0.1) - 0.01 * move, atol=2e-6, rtol=0)


def test_the_gradient_is_clipped_and_its_norm_reported_from_before(monkeypatch):
    free = Watched(monkeypatch, max_grad_norm=None)
    norm = free.trainer.step()["gradient_norm"]
    held = Watched(monkeypatch, max_grad_norm=norm / 10)
    assert held.trainer.step()["gradient_norm"] == pytest.approx(norm, rel=1e-6)
    after = torch.cat([parameter.grad.flatten() for parameter in held.model.parameters()])
    assert float(after.norm()) == pytest.approx(norm / 10, rel=1e-3)
    loose = Watched(monkeypatch, max_grad_norm=norm * 2)
    loose.trainer.step()
    assert same_weights(weights(loose.model), weights(free.model))


def test_the_warm_up_reaches_the_optimizer(monkeypatch):
    watched = Watched(monkeypatch, warmup_steps=3, inner_updates=2, learning_rate=0.03)
    rates = []
    optimizer_step = watched.trainer.optimizer.step
    monkeypatch.setattr(
        watched.trainer.optimizer,
        "step",
        lambda: (rates.append(watched.trainer.optimizer.param_groups[0]["lr"]), optimizer_step()),
    )
    logged = [watched.trainer.step()["learning_rate"] for _ in range(4)]
    assert logged == pytest.approx([0.01, 0.02, 0.03, 0.03])
    assert rates == pytest.approx([rate for rate in logged for _ in range(2)])


def test_the_reference_is_the_start_and_stays_it(monkeypatch):
    watched = Watched(monkeypatch, kl_coef=0.1)
    start = weights(watched.model)
    first = watched.trainer.step()
    assert first["kl"] == pytest.approx(0.0, abs=1e-8)
    ref_logps, captured = reference_logps(watched), watched.rollouts.logprobs.numpy()
    for _ in range(3):
        signals = watched.trainer.step()
    assert same_weights(weights(watched.trainer.reference), start)
    assert not same_weights(weights(watched.model), start)
    mask = watched.rollouts.mask.numpy()
    ref_logps, captured = reference_logps(watched), watched.rollouts.logprobs.numpy()
    assert signals["kl"] == pytest.approx(kl_k3((ref_logps - captured)[mask]).mean(), rel=1e-4)
    assert signals["kl"] > 0.001
    assert all(not parameter.requires_grad for parameter in watched.trainer.reference.parameters())


def test_a_reference_of_ones_own_and_none_at_all():
    model, tokenizer = micro_model()
    other, _ = micro_model(seed=1)
    trainer = Trainer(model, tokenizer, PROBLEMS, digits_reward, settings(kl_coef=0.1), reference=other)
    assert trainer.reference is other and trainer.step()["kl"] > 0.1
    assert Trainer(model, tokenizer, PROBLEMS, digits_reward, settings(kl_coef=0.0)).reference is None
    with pytest.raises(ValueError, match="the reference shares weights with the model"):
        Trainer(model, tokenizer, PROBLEMS, digits_reward, settings(kl_coef=0.1), reference=model)


def test_rollouts_that_cannot_change_the_gradient_are_left_out(monkeypatch):
    """Same weights after three steps, less work; in a step without any signal AdamW's momentum still acts."""

    def reward(text, truth, finished):
        return digits_reward(text, truth, finished) if truth in ("0", "2") else 0.5

    found = []
    for skip in (False, True):
        watched = Watched(monkeypatch, reward=reward, skip_zero_advantages=skip, micro_batch_size=3)
        signals = [watched.trainer.step() for _ in range(4)]
        found.append((weights(watched.model), signals, watched))
    (all_weights, all_signals, _), (few_weights, few_signals, _) = found
    assert [row["trained_rollouts"] for row in all_signals] == [8] * 4
    trained = [row["trained_rollouts"] for row in few_signals]
    assert max(trained) < 8 and sum(trained) > 0
    for name in all_weights:
        torch.testing.assert_close(few_weights[name], all_weights[name], atol=2e-6, rtol=0)
    for left, right in zip(all_signals, few_signals, strict=True):
        for name in ("reward", "loss", "clip_fraction", "gradient_norm", "zero_variance_share", "entropy"):
            assert left[name] == pytest.approx(right[name], abs=1e-5), name
    # A penalty on the KL moves every rollout: none may be left out.
    watched = Watched(monkeypatch, reward=lambda text, truth, finished: 0.5, kl_coef=0.1)
    assert watched.trainer.step()["trained_rollouts"] == 8


def test_a_step_without_any_signal_moves_as_momentum_says(monkeypatch):
    rewards = {True: digits_reward, False: lambda text, truth, finished: 1.0}
    alive = [True]
    found = []
    for skip in (True, False):
        alive[0] = True
        watched = Watched(monkeypatch, reward=lambda *rollout: rewards[alive[0]](*rollout), skip_zero_advantages=skip)
        watched.trainer.step()
        moved = weights(watched.model)
        alive[0] = False
        signals = watched.trainer.step()
        assert signals["gradient_norm"] == 0.0 and signals["loss"] == 0.0
        assert signals["ratio_max"] == pytest.approx(1.0, abs=1e-5)
        assert signals["zero_variance_share"] == 1.0
        assert not same_weights(moved, weights(watched.model))
        found.append(weights(watched.model))
    assert same_weights(*found)


def test_signals_are_those_of_the_rollouts(monkeypatch):
    watched = Watched(monkeypatch, max_new_tokens=20, temperature=1.3)
    signals = watched.trainer.step()
    rollouts, mask = watched.rollouts, watched.rollouts.mask.numpy()
    groups = watched.rewards.numpy().reshape(2, 4)
    assert signals["reward"] == pytest.approx(groups.mean())
    assert signals["zero_variance_share"] == np.mean([len(set(group)) == 1 for group in groups])
    assert signals["entropy"] == pytest.approx(-rollouts.logprobs.numpy()[mask].mean(), rel=1e-5)
    assert signals["length"] == pytest.approx(mask.sum() / 8) and signals["tokens"] == mask.sum()
    assert signals["truncation_rate"] == pytest.approx(1 - rollouts.finished.numpy().mean())
    assert 0 < signals["truncation_rate"] < 1
    assert signals["kl"] is None and signals["sampler_gap"] is None
    assert signals["cpu_seconds"] > 0 and 0 < signals["sampling_seconds"] < signals["wall_seconds"]


def test_rollouts_in_bfloat16_are_corrected(monkeypatch):
    """Old are the trainer's log-probs before the first update; the sampler's own go into truncated weights."""
    watched = Watched(
        monkeypatch, rollout_dtype="bfloat16", importance_cap=1.001, inner_updates=2, max_grad_norm=None,
        micro_batch_size=3,
    )  # fmt: skip
    signals = watched.trainer.step()
    rollouts, mask = watched.rollouts, watched.rollouts.mask.numpy()
    with torch.no_grad():
        old = row_by_row(loaded(watched.model, watched.steps[0][0]), rollouts).numpy()
    gap = np.where(mask, old - rollouts.logprobs.numpy(), 0.0)
    assert 1e-5 < np.abs(gap).max() < 0.1
    importance = np.minimum(np.exp(gap), 1.001)
    assert (importance == 1.001).any() and (importance < 1).any()
    for number in range(2):
        gradients, loss, _ = expected_gradient(watched, number, importance=importance, old=old)
        assert_close(watched.steps[number][1], gradients, tolerance=1e-4)
    assert signals["loss"] == pytest.approx(loss, abs=2e-5)
    assert signals["sampler_gap"] == pytest.approx(np.abs(gap)[mask].mean(), rel=1e-2)
    assert all(parameter.dtype == torch.float32 for parameter in watched.model.parameters())


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_a_training_pass_in_half_precision(monkeypatch, precision):
    """Its own log-probs are the old ones, whatever the sampler says; the gradient is nearly that of float32."""
    seen, loss = [], trainer_module.token_grpo_loss

    def spy(new, old, *arguments, **options):
        seen.append((new.detach().clone(), old.clone(), options["importance_weights"]))
        return loss(new, old, *arguments, **options)

    monkeypatch.setattr(trainer_module, "token_grpo_loss", spy)
    exact = Watched(monkeypatch, inner_updates=2, max_grad_norm=None)
    expected = exact.trainer.step()
    seen.clear()
    watched = Watched(monkeypatch, precision=precision, inner_updates=2, max_grad_norm=None, micro_batch_size=3)
    signals = watched.trainer.step()
    assert torch.equal(watched.rollouts.completion_ids, exact.rollouts.completion_ids)
    parts = len(seen) // 2
    assert all(torch.equal(new, old) for new, old, _ in seen[:parts])
    assert all(torch.equal(one[1], other[1]) for one, other in zip(seen[:parts], seen[parts:], strict=True))
    assert not torch.equal(seen[parts][0], seen[parts][1])
    assert any((weights != 1).any() for _, _, weights in seen)
    assert 1e-6 < signals["sampler_gap"] < 0.02 and expected["sampler_gap"] is None
    for number in range(2):
        flat = [
            torch.cat([gradient.flatten() for gradient in one.steps[number][1].values()]) for one in (watched, exact)
        ]
        # What take_step is handed is still scaled.
        assert float(torch.nn.functional.cosine_similarity(*flat, dim=0)) > 0.998
    assert signals["gradient_norm"] == pytest.approx(expected["gradient_norm"], rel=0.02)
    assert signals["loss_scale"] == (65536.0 if precision == "float16" else None)
    assert signals["skipped_updates"] == expected["skipped_updates"] == 0
    assert all(parameter.dtype == torch.float32 for parameter in watched.model.parameters())


def scaled(trainer, scale):
    trainer.scaler.load_state_dict({**trainer.scaler.state_dict(), "scale": scale})


def test_an_update_whose_float16_gradient_overflows_is_skipped_and_said(monkeypatch):
    watched = Watched(monkeypatch, precision="float16", inner_updates=2, kl_coef=0.1, micro_batch_size=5)
    trainer = watched.trainer
    before = weights(watched.model)
    scaled(trainer, 2.0**60)
    signals = trainer.step()
    assert signals["skipped_updates"] == 2 and signals["loss_scale"] == 2.0**58
    assert signals["gradient_norm"] is None and np.isfinite(signals["loss"]) and signals["ratio_max"] == 1.0
    assert same_weights(before, weights(watched.model)) and not trainer.optimizer.state
    assert not [text for text in diagnose(trainer.history) if "finite" in text or "skipped" in text]
    # The scale is looked for until one fits, and the witness of the first step is still waiting.
    scaled(trainer, 2.0**8)
    signals = trainer.step()
    assert signals["skipped_updates"] == 0 and signals["gradient_norm"] > 0 and trainer._moved
    assert not same_weights(before, weights(watched.model))
    for _ in range(5):
        scaled(trainer, 2.0**60)
        trainer.step()
    (warning,) = [text for text in diagnose(trainer.history) if "skipped" in text]
    assert "skipped in each of the last 5 steps" in warning and "set precision to bfloat16" in warning


def test_an_overflow_that_no_scale_helps_stops_the_run(monkeypatch):
    watched = Watched(monkeypatch, precision="float16")
    trainer = watched.trainer
    loss = trainer.loss

    def steep(*arguments, **options):
        value = loss(*arguments, **options)
        return value + (next(watched.model.parameters()).sum() * 0.0).sqrt()

    monkeypatch.setattr(trainer, "loss", steep)
    scaled(trainer, 2.0)
    assert trainer.step()["skipped_updates"] == 1 and trainer.scaler.scale_factor == 1.0
    with pytest.raises(NotFiniteError, match="too large for float16: set precision to 'float32'"):
        trainer.step()


def test_a_float16_step_without_any_signal(monkeypatch):
    watched = Watched(monkeypatch, precision="float16", reward=lambda *rollout: 1.0)
    signals = watched.trainer.step()
    assert signals["gradient_norm"] == 0.0 and signals["skipped_updates"] == 0 and signals["trained_rollouts"] == 0


@pytest.mark.parametrize("wave", [1, 3, 4, 6])
def test_waves_do_not_change_a_step(monkeypatch, wave):
    found = []
    for rollout_wave in (None, wave):
        watched = Watched(monkeypatch, rollout_wave=rollout_wave)
        watched.trainer.step()
        found.append((watched.rollouts.completion_ids, watched.steps[0][1]))
    assert torch.equal(found[0][0], found[1][0])
    assert_close(found[1][1], found[0][1], tolerance=1e-5)


def test_weights_below_float32_are_refused():
    """E8: at 1.0 the spacing of bfloat16 is .0078, and a step of .001 leaves the weight where it is."""
    assert float(torch.tensor(1.0, dtype=torch.bfloat16) - 0.001) == 1.0
    model, tokenizer = micro_model(dtype=torch.bfloat16)
    with pytest.raises(ValueError, match=r"embed_tokens.weight is torch.bfloat16: train float32 weights"):
        Trainer(model, tokenizer, PROBLEMS, digits_reward, settings())


def test_an_optimizer_that_moves_nothing_is_found_at_the_first_step():
    model, tokenizer = micro_model()
    trainer = Trainer(model, tokenizer, PROBLEMS, digits_reward, settings())
    trainer.optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(3))], lr=1.0)
    with pytest.raises(RuntimeError, match="no weight has changed"):
        trainer.step()
    # Without a gradient there is nothing to see, and the check waits for a step that has one.
    trainer = Trainer(model, tokenizer, PROBLEMS, lambda *rollout: 1.0, settings())
    assert trainer.step()["gradient_norm"] == 0.0
    trainer.reward = digits_reward
    trainer.optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(3))], lr=1.0)
    with pytest.raises(RuntimeError, match="no weight has changed"):
        trainer.step()


def test_a_reward_sees_text_truth_and_end_of_its_own_rollout(monkeypatch):
    seen = []

    def reward(text, truth, finished):
        seen.append((text, truth, finished))
        return digits_reward(text, truth, finished)

    watched = Watched(monkeypatch, reward=reward, max_new_tokens=20)
    watched.trainer.step()
    truths = [PROBLEMS[index].truth for index in watched.chosen for _ in range(4)]
    assert [truth for _, truth, _ in seen] == truths and len(set(truths)) == 2
    tokenizer, rollouts = watched.trainer.tokenizer, watched.rollouts
    for (text, _, finished), ids, length, done in zip(
        seen, rollouts.completion_ids, rollouts.lengths, rollouts.finished, strict=True
    ):
        assert finished is bool(done)
        kept = ids[: int(length) - int(done)]
        assert text == tokenizer.decode(kept, skip_special_tokens=False)
    assert {finished for _, _, finished in seen} == {True, False}
    # The truths belong to the prompts that were sampled from.
    asked = [tokenizer.decode(ids[mask]) for ids, mask in zip(rollouts.prompt_ids, rollouts.prompt_mask, strict=True)]
    assert asked == [PROBLEMS[index].prompt for index in watched.chosen for _ in range(4)]


def test_a_reward_that_takes_batches_is_called_once():
    class Batched:
        calls = 0

        def __call__(self, *rollout):
            raise AssertionError("one by one")

        def batch(self, texts, truths, finished):
            Batched.calls += 1
            return [digits_reward(*rollout) for rollout in zip(texts, truths, finished, strict=True)]

    results = []
    for reward in (Batched(), digits_reward):
        model, tokenizer = micro_model()
        results.append(Trainer(model, tokenizer, PROBLEMS, reward, settings()).step()["reward"])
    assert Batched.calls == 1 and results[0] == results[1]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), None])
def test_a_reward_that_is_no_number_is_named(value):
    model, tokenizer = micro_model()
    rewards = iter([0.0, 1.0, value, *[0.0] * 5])
    trainer = Trainer(model, tokenizer, PROBLEMS, lambda *rollout: next(rewards), settings())
    before = weights(model)
    with pytest.raises(ValueError, match=r"rewards\[2\] is"):
        trainer.step()
    assert same_weights(before, weights(model))


@pytest.mark.parametrize("where", ["loss", "gradient"])
def test_numbers_that_are_not_finite_stop_before_the_step(monkeypatch, tmp_path, where):
    watched = Watched(monkeypatch, out_dir=tmp_path / "run", max_grad_norm=1.0)
    trainer = watched.trainer
    trainer.step()
    trainer.save()
    before, averages = weights(watched.model), [state["exp_avg"].clone() for state in trainer.optimizer.state.values()]
    loss = trainer.loss

    def poisoned(batch, rows, update, first=True):
        value = loss(batch, rows, update, first)
        if where == "loss":
            update.loss = float("nan")
            return value
        parameter = next(watched.model.parameters())
        return value + (parameter.sum() * 0.0).sqrt()  # value 0, slope infinite: NaN in the gradient alone

    monkeypatch.setattr(trainer, "loss", poisoned)
    with pytest.raises(NotFiniteError) as error:
        trainer.step()
    assert "step 2 was not taken" in str(error.value) and "lower learning_rate" in str(error.value)
    assert "The checkpoint of step 1" in str(error.value)
    assert same_weights(before, weights(watched.model))
    for state, average in zip(trainer.optimizer.state.values(), averages, strict=True):
        assert torch.equal(state["exp_avg"], average)
    rows = read_signals(tmp_path / "run" / "metrics.jsonl")
    assert rows[-1]["step"] == 2 and None in (rows[-1]["loss"], rows[-1]["gradient_norm"])
    with pytest.raises(RuntimeError, match="step 2 was broken off and cannot be saved"):
        trainer.save()
    again = Trainer.resume(tmp_path / "run", PROBLEMS, digits_reward)
    assert again.steps_done == 1 and same_weights(before, weights(again.model))
    assert [row["step"] for row in read_signals(tmp_path / "run" / "metrics.jsonl")] == [1]
    assert again.step()["step"] == 2


ON_CPU = RuntimeError("[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate memory: you tried ...")


@pytest.mark.parametrize("error", [MemoryError(), torch.OutOfMemoryError("CUDA out of memory."), ON_CPU])
@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("sample", "out of memory while sampling: lower rollout_wave (now 8), then max_new_tokens (6), group_size (4)"),
        ("completion_logprobs", "out of memory while training: lower micro_batch_size (now 8), then max_new_tokens"),
    ],
)
def test_too_little_memory_says_what_to_lower(monkeypatch, tmp_path, error, place, message):
    model, tokenizer = micro_model()
    trainer = Trainer(model, tokenizer, PROBLEMS, digits_reward, settings(), out_dir=tmp_path / "run")

    def fail(*arguments, **options):
        raise error

    monkeypatch.setattr(trainer_module, place, fail)
    with pytest.raises(OutOfMemoryError) as caught:
        trainer.step()
    assert message in str(caught.value)
    assert "The checkpoint of step 0" in str(caught.value) and "is intact" in str(caught.value)
    assert trainer.record.folder.newest()[0].name == "step-000000"
    layers = "checkpoint_layers" if place == "completion_logprobs" else "rollout_dtype"
    assert layers in str(caught.value)


def test_other_errors_of_torch_are_left_alone(monkeypatch):
    model, tokenizer = micro_model()
    trainer = Trainer(model, tokenizer, PROBLEMS, digits_reward, settings())

    def fail(*arguments, **options):
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr(trainer_module, "sample", fail)
    with pytest.raises(RuntimeError, match="shapes do not match") as caught:
        trainer.step()
    assert not isinstance(caught.value, OutOfMemoryError)


def test_every_epoch_takes_each_problem_once_in_an_order_of_its_own():
    order = PromptOrder(7, seed=3)
    taken = [index for _ in range(7) for index in order.take(3)]
    epochs = [taken[0:7], taken[7:14], taken[14:21]]
    assert all(sorted(epoch) == list(range(7)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2] and epochs[0] != list(range(7))
    assert order.drawn == 21
    assert PromptOrder(7, seed=3, drawn=5).take(9) == taken[5:14]
    assert PromptOrder(7, seed=4).take(7) != epochs[0]


def test_a_run_depends_on_its_seed_alone(monkeypatch):
    states = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002  the legacy state must stay put
    found = []
    for seed in (1, 1, 2):
        watched = Watched(monkeypatch, seed=seed)
        watched.trainer.train(2)
        found.append((weights(watched.model), watched.chosen))
        torch.rand(3)
        torch.set_rng_state(states[0])
    assert same_weights(found[0][0], found[1][0]) and found[0][1] == found[1][1]
    assert not same_weights(found[0][0], found[2][0])
    watched = Watched(monkeypatch, seed=1)
    before = torch.get_rng_state()
    watched.trainer.step()
    assert torch.equal(torch.get_rng_state(), before)
    assert np.array_equal(np.random.get_state()[1], states[1])  # noqa: NPY002


def test_dropout_takes_no_part():
    model, tokenizer = micro_model()
    model.config.attention_dropout = 0.5
    for layer in model.model.layers:
        layer.self_attn.attention_dropout = 0.5
    trainer = Trainer(model.train(), tokenizer, PROBLEMS, digits_reward, settings())
    signals = trainer.step()
    assert signals["ratio_max"] == pytest.approx(1.0, abs=1e-4)
    assert not model.training


def test_training_saves_on_the_way_and_stops_when_told(tmp_path):
    model, tokenizer = micro_model()
    run = settings(steps=5, checkpoint_every=2, keep_checkpoints=9)
    trainer = Trainer(model, tokenizer, PROBLEMS, CoinReward(), run, out_dir=tmp_path / "run")
    seen = []
    signals = trainer.train(callback=lambda trainer, row: seen.append(row["step"]) or row["step"] == 3)
    assert seen == [1, 2, 3] == [row["step"] for row in signals]
    assert trainer.record.folder.steps() == [0, 2, 3]
    assert [row["step"] for row in trainer.train()] == [4, 5]
    assert trainer.record.folder.steps() == [0, 2, 3, 4, 5]
    assert trainer.train() == [] and [row["step"] for row in trainer.train(1)] == [6]
    assert [row["step"] for row in read_signals(tmp_path / "run" / "metrics.jsonl")] == [1, 2, 3, 4, 5, 6]


def test_what_cannot_be_trained_is_refused():
    model, tokenizer = micro_model()
    with pytest.raises(ValueError, match="1 problems for prompts_per_step 2"):
        Trainer(model, tokenizer, PROBLEMS[:1], digits_reward, settings())
    with pytest.raises(ValueError, match=r"questions\[1\]"):
        bad = type(PROBLEMS[0])("x", "What is ü?", "1", "", "")
        Trainer(model, tokenizer, [PROBLEMS[0], bad], digits_reward, settings())


def test_the_texts_keep_what_stands_in_the_middle():
    from grpo.qwen3.sampler import Rollouts

    _, tokenizer = micro_model()
    stop, pad = tokenizer.eos_token_id, tokenizer.pad_token_id
    eight, five = (tokenizer.convert_tokens_to_ids(digit) for digit in "85")
    ids = torch.tensor([[eight, pad, five, stop], [eight, five, stop, pad], [eight, stop, eight, five]])
    lengths, finished = torch.tensor([4, 3, 4]), torch.tensor([True, True, False])
    rollouts = Rollouts(ids, ids > 0, ids, lengths, torch.zeros(3, 4), finished, 3, torch.zeros(3, dtype=torch.int64))
    assert completion_texts(tokenizer, rollouts, {stop}) == ["8<|pad|>5", "85", "8<|endoftext|>85"]
