"""TRL's own loss and advantages, called directly, against ours. Its trainer never trains: its methods are the oracle.

The loss. Both compute the log-probs of one tiny Qwen3 in float32, each by its own code; loss and the gradients of all
parameters agree within 1e-5 in 80 settings. How the names correspond is in `grpo.qwen3.objective`. What has no twin:

- TRL multiplies the KL estimate by the ratio unless use_bias_correction_kl is False; its default is True. The value is
  then ours while the ratio is 1, but not the gradient.
- Our "rollout" level, once new and old differ.

The advantages. TRL's code runs on our rewards (its sampling is replaced), 1,000 groups. Differences of policy:

- A reward of None or NaN: TRL leaves it out of the group's mean and std, and gives that completion the advantage 0.
  A group with one scorable completion gets 0 throughout. We raise a ValueError that names the row (convention C2).
- Equal rewards: TRL divides a rounding error by 1e-4 (float32), ours compares and gives exactly 0 (C3).
- A group of one: TRL gives 0, we raise (C2).
- The same in both: ddof 1, eps 1e-4 outside the root, scale_rewards "none" for no division. TRL computes in float32,
  the library in float64. "batch", and several weighted reward functions, are TRL's alone.
"""

import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from grpo import token_loss
from grpo.qwen3.masks import length_mask, position_ids
from grpo.qwen3.objective import group_advantages, token_grpo_loss, token_weights

# A setting that transformers is about to rename; TRL still asks for it by its old name.
pytestmark = pytest.mark.filterwarnings("ignore:.*gradient_checkpointing:FutureWarning")

TOLERANCE = 1e-5
LEVELS = {"token": "token", "gspo": "sequence"}
AGGREGATES = {  # TRL's loss_type -> ours
    "grpo": "rollout_mean",
    "bnpo": "token_mean",
    "dapo": "token_mean",
    "dr_grpo": "constant",
    "luspo": "rollout_sum",
}
SETTINGS = [(kl_coef, on, high) for kl_coef in (0.0, 0.1) for on in (True, False) for high in (0.2, 0.28)]
PAIRS = [(level, loss_type) for level in LEVELS for loss_type in AGGREGATES]
MAX_COMPLETION_LENGTH = 9  # the constant of dr_grpo, in the trainer of conftest.py

assert len(PAIRS) * len(SETTINGS) == 80


@pytest.fixture(scope="module")
def batch(trl_trainer):
    """Left-padded prompts, completions of unequal lengths (none among them), pad token as garbage after the end."""
    generator = torch.Generator().manual_seed(1)
    lengths = torch.tensor([7, 3, 1, 7, 0, 5])
    prompt_mask = length_mask(torch.tensor([4, 2, 4, 1, 3, 4]), 4).flip(1)
    mask = length_mask(lengths, 7)

    def ids(keep):
        drawn = torch.randint(5, len(trl_trainer.tokenizer), keep.shape, generator=generator)
        return torch.where(keep, drawn, trl_trainer.tokenizer.pad_token_id)

    batch = SimpleNamespace(
        prompt_ids=ids(prompt_mask),
        prompt_mask=prompt_mask,
        completion_ids=ids(mask),
        mask=mask,
        advantages=torch.tensor([1.2, -0.7, 0.4, -1.5, 0.9, 0.0]),
    )
    with torch.no_grad():
        logps = our_logps(trl_trainer.model, batch)
    # The first row's mean ratio, 1.26, is clipped at 1.2 and not at 1.28; the second's, .74, is clipped below.
    noise = 0.4 * torch.randn(mask.shape, generator=generator)
    noise = noise - (noise * mask).sum(1, keepdim=True) / lengths.clamp(min=1)[:, None]
    batch.old = logps + noise + torch.tensor([-0.23, 0.3, 0.1, -0.2, 0.0, 0.2])[:, None]
    batch.ref = logps + 0.4 * torch.randn(mask.shape, generator=generator)
    return batch


def our_logps(model, batch):
    ids = torch.cat([batch.prompt_ids, batch.completion_ids], dim=1)
    mask = torch.cat([batch.prompt_mask, batch.mask], dim=1)
    logits = model(input_ids=ids, attention_mask=mask.long(), position_ids=position_ids(mask)).logits
    logps = torch.log_softmax(logits[:, batch.prompt_ids.shape[1] - 1 : -1], dim=-1)
    return logps.gather(2, batch.completion_ids[..., None])[..., 0]


def value_and_gradients(model, loss):
    model.zero_grad()
    loss.backward()
    gradients = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    model.zero_grad()
    assert len(gradients) == 24 and all(gradient.abs().max() > 0 for gradient in gradients.values())
    return loss.item(), gradients


def trl_loss(trl, batch, level, loss_type, kl_coef, on_policy, clip_high, rows=slice(None), bias_correction=False):
    trainer = trl.trainer
    trainer.loss_type, trainer.importance_sampling_level = loss_type, LEVELS[level]
    trainer.beta, trainer.epsilon_low, trainer.epsilon_high = kl_coef, 0.2, clip_high
    trainer.args.use_bias_correction_kl = bias_correction
    inputs = {
        "prompt_ids": batch.prompt_ids[rows],
        "prompt_mask": batch.prompt_mask[rows].long(),
        "completion_ids": batch.completion_ids[rows],
        "completion_mask": batch.mask[rows].long(),
        "advantages": batch.advantages[rows],
        "num_items_in_batch": batch.mask.sum(),
        "ref_per_token_logps": batch.ref[rows],
    }
    if not on_policy:
        inputs["old_per_token_logps"] = batch.old[rows]
    return value_and_gradients(trl.model, trainer._compute_loss(trl.model, inputs))


def settings_of(level, loss_type, kl_coef, clip_high):
    return {
        "level": level,
        "aggregate": AGGREGATES[loss_type],
        "constant_length": MAX_COMPLETION_LENGTH if loss_type == "dr_grpo" else None,
        "clip_high": clip_high,
        "kl_coef": kl_coef,
    }


def our_loss(trl, batch, level, loss_type, kl_coef, on_policy, clip_high):
    new = our_logps(trl.model, batch)
    # Padding as the worst that could stand there.
    old = torch.where(batch.mask, new if on_policy else batch.old, torch.nan)
    ref = torch.where(batch.mask, batch.ref, torch.nan)
    settings = settings_of(level, loss_type, kl_coef, clip_high)
    loss = token_grpo_loss(new, old, batch.advantages, batch.mask, ref_logps=ref, **settings)
    of_numpy = token_loss.token_grpo_loss(
        *(values.detach().double().numpy() for values in (new, old, batch.advantages)),
        batch.mask.numpy(),
        ref_logps=ref.double().numpy(),
        **settings,
    )
    value, gradients = value_and_gradients(trl.model, loss)
    return value, gradients, of_numpy


def largest_difference(ours, theirs):
    return max((ours[name] - theirs[name]).abs().max().item() for name in theirs)


@pytest.mark.parametrize(("level", "loss_type"), PAIRS)
def test_loss_and_parameter_gradients_are_trl_s(trl_trainer, batch, level, loss_type):
    in_loss, in_gradient, in_numpy, seen = 0.0, 0.0, 0.0, set()
    for setting in SETTINGS:
        theirs, their_gradients = trl_loss(trl_trainer, batch, level, loss_type, *setting)
        ours, our_gradients, of_numpy = our_loss(trl_trainer, batch, level, loss_type, *setting)
        in_loss = max(in_loss, abs(ours - theirs))
        in_gradient = max(in_gradient, largest_difference(our_gradients, their_gradients))
        in_numpy = max(in_numpy, abs(of_numpy - theirs))
        seen.add(round(theirs, 6))
    print(f"{level:<6} {loss_type:<8} loss {in_loss:.1e}  gradient {in_gradient:.1e}  numpy's loss {in_numpy:.1e}")
    assert in_loss < TOLERANCE and in_gradient < TOLERANCE and in_numpy < TOLERANCE
    # On-policy the upper clip cannot matter; all the other settings must not be the same thing twice.
    assert len(seen) == 6


@pytest.mark.parametrize("loss_type", ["dapo", "luspo"])
def test_micro_batches_add_up_to_trl_s_full_batch(trl_trainer, batch, loss_type):
    setting = (0.1, False, 0.28)
    theirs, their_gradients = trl_loss(trl_trainer, batch, "token", loss_type, *setting)
    weights = token_weights(batch.mask, AGGREGATES[loss_type])
    trl_trainer.model.zero_grad()
    total = 0.0
    for rows in (slice(0, 1), slice(1, 5), slice(5, 6)):
        part = SimpleNamespace(**{name: values[rows] for name, values in vars(batch).items()})
        new = our_logps(trl_trainer.model, part)
        loss = token_grpo_loss(
            new, part.old, part.advantages, part.mask, ref_logps=part.ref, clip_high=0.28, kl_coef=0.1,
            weights=weights[rows],
        )  # fmt: skip
        loss.backward()
        total += loss.item()
    gradients = {name: parameter.grad.clone() for name, parameter in trl_trainer.model.named_parameters()}
    trl_trainer.model.zero_grad()
    assert abs(total - theirs) < TOLERANCE and largest_difference(gradients, their_gradients) < TOLERANCE


def test_the_cookbook_s_loss_has_the_gradient_of_luspo_while_on_policy(trl_trainer, batch):
    def cookbook(on_policy):
        new = our_logps(trl_trainer.model, batch)
        old = new if on_policy else batch.old
        loss = token_grpo_loss(new, old, batch.advantages, batch.mask, level="rollout", aggregate="rollout_sum")
        return value_and_gradients(trl_trainer.model, loss)[1]

    for level in LEVELS:
        theirs = {on: trl_loss(trl_trainer, batch, level, "luspo", 0.0, on, 0.2)[1] for on in (True, False)}
        assert largest_difference(cookbook(True), theirs[True]) < TOLERANCE
        assert largest_difference(cookbook(False), theirs[False]) > 100 * TOLERANCE


def test_the_rollout_level_has_no_twin_in_trl(trl_trainer, batch):
    new = our_logps(trl_trainer.model, batch)
    for aggregate in set(AGGREGATES.values()):
        constant = MAX_COMPLETION_LENGTH if aggregate == "constant" else None
        ours = token_grpo_loss(
            new, batch.old, batch.advantages, batch.mask, level="rollout", aggregate=aggregate, constant_length=constant
        )
        for level, loss_type in PAIRS:
            assert abs(ours.item() - trl_loss(trl_trainer, batch, level, loss_type, 0.0, False, 0.2)[0]) > 1e-3


def test_trl_s_bias_corrected_kl_is_another_gradient(trl_trainer, batch):
    ours, our_gradients, _ = our_loss(trl_trainer, batch, "token", "grpo", 0.1, True, 0.2)
    theirs, their_gradients = trl_loss(trl_trainer, batch, "token", "grpo", 0.1, True, 0.2, bias_correction=True)
    assert abs(ours - theirs) < TOLERANCE  # on-policy: ratio 1
    assert largest_difference(our_gradients, their_gradients) > 100 * TOLERANCE


# --- advantages -----------------------------------------------------------------------------------------------


def trl_advantages(trl, rewards, group_size, scale="group"):
    """TRL's `_generate_and_score_completions` with the sampling replaced: one token per completion."""
    trainer, rows = trl.trainer, len(rewards)
    trl.rewards[:] = rewards
    trainer.num_generations, trainer.scale_rewards, trainer.beta = group_size, scale, 0.0
    sampled = ([[5]] * rows, [[6]] * rows, None, ["x"] * rows, None, {}, None, None)
    original = trainer._generate
    trainer._generate = lambda prompts: sampled
    try:
        return trainer._generate_and_score_completions([{"prompt": "1+1"}] * rows)["advantages"]
    finally:
        trainer._generate = original


def random_groups(rng, groups, group_size):
    """Rewards of several kinds: 0/1, a few levels, any number, one outlier, all equal."""
    shape = (groups, group_size)
    kinds = [
        rng.integers(0, 2, shape),
        rng.choice([0.0, 0.1, 1.0, 1.1], shape),
        rng.normal(size=shape),
        np.eye(group_size)[rng.integers(0, group_size, groups)],
        np.repeat(rng.choice([0.0, 0.3, 1.0], (groups, 1)), group_size, axis=1),
    ]
    rewards = np.choose(np.arange(groups)[:, None] % len(kinds), kinds)
    return rewards.astype(np.float32).astype(np.float64)  # TRL keeps rewards in float32


@pytest.mark.parametrize("scale", ["group", "none"])
@pytest.mark.parametrize(("group_size", "groups"), [(2, 150), (3, 150), (4, 200), (8, 200), (16, 100)])
def test_advantages_are_trl_s(trl_trainer, group_size, groups, scale):
    rewards = random_groups(np.random.default_rng(group_size), groups, group_size)
    theirs = trl_advantages(trl_trainer, rewards.ravel().tolist(), group_size, scale).double().numpy()
    ours = group_advantages(rewards.ravel(), group_size, scale=scale == "group").double().numpy()
    difference = np.abs(ours - theirs).reshape(rewards.shape)
    equal = rewards.max(axis=1) == rewards.min(axis=1)
    print(
        f"groups of {group_size:>2}, {scale:<5}: {groups - equal.sum()} varied {difference[~equal].max():.1e}, "
        f"{equal.sum()} equal {difference[equal].max():.1e}"
    )
    assert difference[~equal].max() < TOLERANCE
    assert np.all(ours.reshape(rewards.shape)[equal] == 0.0) and difference[equal].max() < 2e-3
    assert equal.sum() >= groups // 5 and np.abs(theirs).max() > 0.5


def test_nan_rewards_are_left_out_by_trl_and_refused_by_us(trl_trainer):
    rng, group_size, groups = np.random.default_rng(7), 5, 200
    rewards = random_groups(rng, groups, group_size)
    rewards[rng.random(rewards.shape) < 0.3] = np.nan
    # None is what a reward function of TRL returns for "cannot say"; NaN is taken alike.
    given = [None if np.isnan(reward) and row % 2 else reward for row, reward in enumerate(rewards.ravel())]
    theirs = trl_advantages(trl_trainer, given, group_size).double().numpy().reshape(rewards.shape)
    with pytest.raises(ValueError, match=re.escape(f"rewards[{np.flatnonzero(np.isnan(rewards))[0]}] is nan")):
        group_advantages(rewards.ravel(), group_size)

    largest, sizes = 0.0, set()
    for group, advantages in zip(rewards, theirs, strict=True):
        scored = ~np.isnan(group)
        sizes.add(scored.sum())
        assert np.all(advantages[~scored] == 0.0)
        if scored.sum() < 2:  # nothing to compare with
            assert np.all(advantages == 0.0)
            continue
        ours = group_advantages(group[scored], int(scored.sum())).double().numpy()
        difference = np.abs(ours - advantages[scored]).max()
        assert difference < (2e-3 if np.ptp(group[scored]) == 0.0 else TOLERANCE)
        largest = max(largest, difference if np.ptp(group[scored]) else 0.0)
    assert sizes >= {1, 2, 3, 4, 5}
    print(f"without the NaN rows: {largest:.1e}")


def test_a_group_of_one_is_zero_in_trl_and_refused_by_us(trl_trainer):
    assert trl_advantages(trl_trainer, [0.5, 1.0], 1).tolist() == [0.0, 0.0]
    with pytest.raises(ValueError, match="group_size is 1"):
        group_advantages([0.5, 1.0], 1)


def test_a_group_of_equal_rewards_shows_trl_s_rounding_and_our_zero(trl_trainer):
    rewards = np.full(7, np.float32(0.3))
    assert torch.all(group_advantages(torch.tensor(rewards), 7) == 0.0)
    assert trl_advantages(trl_trainer, rewards.tolist(), 7).abs().max() < 2e-3
