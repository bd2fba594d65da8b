"""The torch objective against numpy's, value and gradient; what is detached; micro-batches; errors."""

import itertools

import numpy as np
import pytest
import torch

from grpo import token_loss
from grpo.advantages import group_relative_advantage
from grpo.qwen3.masks import length_mask
from grpo.qwen3.objective import (
    group_advantages,
    importance_weights,
    kl_in_reward,
    log_ratios,
    loss_metrics,
    token_grpo_loss,
    token_weights,
)

AGGREGATES, KL_KINDS, LEVELS = token_loss.AGGREGATES, token_loss.KL_KINDS, token_loss.LEVELS
GRID = list(itertools.product(LEVELS, AGGREGATES, KL_KINDS))
TOLERANCE = {torch.float32: 5e-6, torch.float64: 1e-13}


def constant(aggregate):
    return 6 if aggregate == "constant" else None


def random_batch(rng, lengths=None, dtype=torch.float64):
    """new, old, advantages, mask, ref, importance weights; NaN and infinity where the mask is false."""
    if lengths is None:
        lengths = np.r_[0, 1, rng.integers(0, 7, rng.integers(1, 6))]
    mask = length_mask(torch.tensor(lengths), 6)
    shape = tuple(mask.shape)
    new = -1.0 + 0.3 * rng.normal(size=shape)
    old = new + 0.3 * rng.normal(size=shape) + 0.3 * rng.normal(size=(shape[0], 1))
    ref, weights = new + 0.5 * rng.normal(size=shape), rng.uniform(0, 2, shape)
    batch = []
    for values in (new, old, ref, weights):
        garbage = rng.choice([np.nan, np.inf, -np.inf, 1e30], size=shape)
        batch.append(torch.tensor(np.where(mask, values, garbage), dtype=dtype))
    new, old, ref, weights = batch
    return new, old, torch.tensor(rng.normal(size=shape[0]), dtype=dtype), mask, ref, weights


def with_gradient(new, *batch, **settings):
    new = new.detach().clone().requires_grad_()
    loss = token_grpo_loss(new, *batch, **settings)
    loss.backward()
    return loss, new.grad


def of_numpy(new, old, advantages, mask, **settings):
    batch = [values.detach().double().numpy() for values in (new, old, advantages)]
    settings = {name: value.double().numpy() if torch.is_tensor(value) else value for name, value in settings.items()}
    loss = token_loss.token_grpo_loss(*batch, mask.numpy(), **settings)
    return loss, token_loss.token_grpo_gradient(*batch, mask.numpy(), **settings)


# --- against numpy --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("level", "aggregate", "kl"), GRID)
def test_value_and_gradient_are_numpy_s(level, aggregate, kl, dtype):
    rng = np.random.default_rng([LEVELS.index(level), AGGREGATES.index(aggregate), KL_KINDS.index(kl)])
    for kl_coef, weighted, (low, high) in itertools.product((0.0, 0.3), (False, True), ((0.2, 0.2), (0.1, 0.28))):
        new, old, advantages, mask, ref, correction = random_batch(rng, dtype=dtype)
        settings = {
            "ref_logps": ref, "level": level, "aggregate": aggregate, "constant_length": constant(aggregate), "kl": kl,
            "kl_coef": kl_coef, "clip_low": low, "clip_high": high,
            "importance_weights": correction if weighted else None,
        }  # fmt: skip
        loss, gradient = with_gradient(new, old, advantages, mask, **settings)
        expected_loss, expected_gradient = of_numpy(new, old, advantages, mask, **settings)
        assert loss.dtype == gradient.dtype == dtype and loss.shape == ()
        np.testing.assert_allclose(loss.item(), expected_loss, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])
        np.testing.assert_allclose(gradient.numpy(), expected_gradient, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])
        assert torch.all(gradient[~mask] == 0.0)


def test_the_defaults_are_numpy_s():
    new, old, advantages, mask, ref, _ = random_batch(np.random.default_rng(1))
    for settings in ({}, {"ref_logps": ref, "kl_coef": 1.0}):
        loss, gradient = with_gradient(new, old, advantages, mask, **settings)
        expected_loss, expected_gradient = of_numpy(new, old, advantages, mask, **settings)
        assert loss.item() == pytest.approx(expected_loss, abs=1e-14)
        np.testing.assert_allclose(gradient.numpy(), expected_gradient, atol=1e-14)


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_weights_are_numpy_s(aggregate):
    for lengths in ([3, 0, 6, 1], [0, 0], [6]):
        mask = length_mask(torch.tensor(lengths), 6)
        weights = token_weights(mask, aggregate, constant(aggregate), torch.float64)
        assert (
            weights.dtype == torch.float64
            and token_weights(mask, aggregate, constant(aggregate)).dtype == torch.float32
        )
        expected = token_loss.token_weights(mask.numpy(), aggregate, constant(aggregate))
        np.testing.assert_allclose(weights.numpy(), expected, rtol=1e-15)


@pytest.mark.parametrize("level", LEVELS)
def test_log_ratios_are_numpy_s(level):
    new, old, _, mask, _, _ = random_batch(np.random.default_rng(2), [6, 0, 1, 4])
    expected = token_loss.log_ratios(new.numpy(), old.numpy(), mask.numpy(), level)
    np.testing.assert_allclose(log_ratios(new, old, mask, level).numpy(), expected, atol=1e-15)


def test_convention_c10_a_drift_of_a_hundredth_per_token():
    old, mask = torch.full((1, 512), -1.0), torch.ones(1, 512).bool()
    ratios = {level: log_ratios(old + 0.01, old, mask, level)[0, 0].exp().item() for level in LEVELS}
    assert ratios == {"token": pytest.approx(1.01, abs=1e-3), "gspo": pytest.approx(1.01, abs=1e-3),
                      "rollout": pytest.approx(167, abs=1)}  # fmt: skip


def test_kl_in_reward_is_numpy_s():
    _, old, rewards, mask, ref, _ = random_batch(np.random.default_rng(3))
    shaped = kl_in_reward(rewards.requires_grad_(), old.requires_grad_(), ref, mask, 0.3)
    expected = token_loss.kl_in_reward(rewards.detach().numpy(), old.detach().numpy(), ref.numpy(), mask.numpy(), 0.3)
    assert not shaped.requires_grad and shaped.shape == rewards.shape
    np.testing.assert_allclose(shaped.numpy(), expected, atol=1e-14)


def test_constants_of_another_dtype_are_cast():
    new, old, advantages, mask, ref, correction = random_batch(np.random.default_rng(8))
    batch = old, advantages, mask
    settings = {"ref_logps": ref, "kl_coef": 0.3, "importance_weights": correction}
    loss, gradient = with_gradient(new.float(), *batch, **settings)
    assert loss.dtype == gradient.dtype == torch.float32
    assert loss.item() == pytest.approx(with_gradient(new, *batch, **settings)[0].item(), abs=1e-5)
    weights = token_weights(mask, "token_mean")
    assert token_grpo_loss(new, *batch, weights=weights.double()).dtype == torch.float64
    assert token_grpo_loss(new.float(), *batch, weights=weights.double()).dtype == torch.float32
    assert token_grpo_loss(new.float(), old.float(), advantages, mask).dtype == torch.float32
    assert log_ratios(new.float(), old, mask, "token").dtype == torch.float32
    assert kl_in_reward(torch.ones(len(mask)).double(), new.float(), ref, mask, 0.1).dtype == torch.float32
    assert importance_weights(new.float(), old, mask).dtype == torch.float32


# --- cases ----------------------------------------------------------------------------------------------------


def two_actions():
    """Case D1: softmax of two equal logits, one rollout of each action, rewards 1 and 0."""
    theta = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    advantages = group_advantages(torch.tensor([1.0, 0.0], dtype=torch.float64), 2, eps=0.0)
    return theta, torch.log_softmax(theta, dim=0)[:, None], advantages, torch.ones(2, 1).bool()


def test_case_d1_the_first_loss_is_zero_and_its_gradient_is_not():
    theta, logps, advantages, mask = two_actions()
    loss = token_grpo_loss(logps, logps.detach(), advantages, mask)
    loss.backward()
    assert loss.item() == 0.0
    np.testing.assert_allclose(theta.grad, [-0.35355, 0.35355], atol=5e-6)


@pytest.mark.parametrize("level", LEVELS)
def test_case_d2_the_same_attached_tensor_as_old(level):
    theta, logps, advantages, mask = two_actions()
    token_grpo_loss(logps, logps, advantages, mask, level=level).backward()
    np.testing.assert_allclose(theta.grad, [-0.35355, 0.35355], atol=5e-6)


def test_only_the_current_policy_gets_a_gradient():
    batch = random_batch(np.random.default_rng(4))
    new, old, advantages, mask, ref, correction = (
        values.clone().requires_grad_() if values.is_floating_point() else values for values in batch
    )
    weights = token_weights(mask, "token_mean", dtype=torch.float64).requires_grad_()
    settings = {"kl_coef": 0.3, "importance_weights": correction, "weights": weights, "ref_logps": ref}
    token_grpo_loss(new, old, advantages, mask, **settings).backward()
    assert new.grad.abs().sum() > 0
    assert all(values.grad is None for values in (old, advantages, ref, correction, weights))
    # The reference may be the current policy itself: at distance 0 the penalty does not pull.
    alone = with_gradient(batch[0], old, advantages, mask)[1]
    again = batch[0].clone().requires_grad_()
    token_grpo_loss(again, old, advantages, mask, ref_logps=again, kl_coef=5.0).backward()
    torch.testing.assert_close(again.grad, alone)


def test_case_d3_both_signs_of_the_advantage():
    ratios = torch.tensor([[2.0], [0.5], [2.0], [0.5]])
    loss, gradient = with_gradient(
        ratios.log(), torch.zeros(4, 1), torch.tensor([-1.0, -1.0, 1.0, 1.0]), torch.ones(4, 1).bool()
    )
    assert loss.item() == pytest.approx((2.0 + 0.8 - 1.2 - 0.5) / 4)
    np.testing.assert_allclose(gradient, [[0.5], [0.0], [0.0], [-0.125]], atol=1e-7)


def test_case_d4_k3_and_its_slope():
    new, ref = torch.tensor([[0.5]]).log(), torch.tensor([[0.25]]).log()
    for kl, value, slope in (("k3", 0.1931, 0.5), ("k2", 0.2402, 0.6931), ("k1", 0.6931, 1.0)):
        loss, gradient = with_gradient(
            new, new, torch.zeros(1), torch.ones(1, 1).bool(), ref_logps=ref, kl_coef=1.0, kl=kl
        )
        assert (loss.item(), gradient.item()) == (pytest.approx(value, abs=1e-4), pytest.approx(slope, abs=1e-4))


def test_case_d5_three_readings_of_the_ratio():
    batch = torch.tensor([[0.3, -0.1]]), torch.zeros(1, 2), torch.ones(1), torch.ones(1, 2).bool()
    assert token_grpo_loss(*batch).item() == pytest.approx(-1.0524, abs=5e-5)
    assert token_grpo_loss(*batch, level="rollout", aggregate="rollout_sum").item() == pytest.approx(-1.2)
    assert token_grpo_loss(*batch, level="gspo").item() == pytest.approx(-1.1052, abs=5e-5)


def test_case_d8_averages_of_the_losses():
    logps, mask = torch.full((2, 4), -1.0), length_mask(torch.tensor([2, 4]), 4)
    advantages = torch.tensor([-1.0, -4.0])
    values = [
        token_grpo_loss(
            logps, logps, advantages, mask, aggregate=how, constant_length=4 if how == "constant" else None
        ).item()
        for how in AGGREGATES
    ]
    assert values == pytest.approx([9.0, 2.5, 3.0, 2.25])


@pytest.mark.parametrize(("level", "aggregate", "kl"), GRID)
def test_case_d9_everything_masked(level, aggregate, kl):
    nothing = torch.full((2, 3), torch.nan)
    loss, gradient = with_gradient(
        nothing, nothing, torch.ones(2), torch.zeros(2, 3).bool(), ref_logps=nothing, kl_coef=1.0, kl=kl, level=level,
        aggregate=aggregate, constant_length=constant(aggregate), importance_weights=nothing,
    )  # fmt: skip
    assert loss.item() == 0.0 and torch.all(gradient == 0.0)


@pytest.mark.parametrize("level", LEVELS)
def test_huge_log_ratios_stay_finite_in_float32(level):
    """exp overflows above 89: with the clip active, 0 * inf would be NaN."""
    for drift in (300.0, -300.0, 3e38, -3e38):
        new, old = torch.zeros(2, 4), torch.zeros(2, 4)
        new[:, 1] = drift
        loss, gradient = with_gradient(
            new, old, torch.tensor([1.0, -1.0]), torch.ones(2, 4).bool(), level=level, ref_logps=old, kl_coef=0.1
        )
        assert torch.isfinite(loss) and torch.all(torch.isfinite(gradient))


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize(("level", "kl"), list(itertools.product(LEVELS, KL_KINDS)))
def test_no_nan_is_made_on_the_way_back(level, kl):
    """Even where a mask would drop it: autograd's anomaly mode, a debugging aid, stops at any NaN."""
    new, old, advantages, mask, ref, correction = random_batch(np.random.default_rng(9), LENGTHS)
    weights = torch.where(mask, token_weights(mask, "token_mean", dtype=torch.float64), torch.nan)
    with torch.autograd.detect_anomaly(check_nan=True):
        _, gradient = with_gradient(
            new, old, advantages, mask, ref_logps=ref, level=level, kl=kl, kl_coef=0.1, importance_weights=correction,
            weights=weights,
        )  # fmt: skip
    assert torch.all(torch.isfinite(gradient))


def test_limits_are_numpy_s():
    for drift, advantage in itertools.product((81.0, 80.0, -81.0), (1.0, -1.0)):
        batch = torch.tensor([[drift]]).double(), torch.zeros(1, 1), torch.tensor([advantage]), torch.ones(1, 1).bool()
        settings = {"ref_logps": torch.zeros(1, 1), "kl_coef": 1e-30}
        loss, gradient = with_gradient(*batch, **settings)
        expected_loss, expected_gradient = of_numpy(*batch, **settings)
        assert loss.item() == pytest.approx(expected_loss, rel=1e-12)
        assert gradient.item() == pytest.approx(expected_gradient[0, 0], rel=1e-12)


# --- micro-batches --------------------------------------------------------------------------------------------

LENGTHS = [4, 0, 1, 6, 2, 6]
SPLITS = {"one by one": [1] * 6, "uneven": [1, 3, 2], "halves": [3, 3]}


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize(("level", "aggregate"), list(itertools.product(LEVELS, AGGREGATES)))
def test_micro_batches_give_the_full_batch(level, aggregate, split):
    new, old, advantages, mask, ref, correction = random_batch(np.random.default_rng(5), LENGTHS)
    settings = {"level": level, "kl_coef": 0.3}
    choice = {"aggregate": aggregate, "constant_length": constant(aggregate)}
    loss, gradient = with_gradient(
        new, old, advantages, mask, ref_logps=ref, importance_weights=correction, **settings, **choice
    )
    weights = token_weights(mask, **choice, dtype=torch.float64)
    parameter, total = new.clone().requires_grad_(), 0.0
    for rows in torch.arange(6).split(SPLITS[split]):
        width = max(int(mask[rows].sum(1).max()), 1)  # a micro-batch is cut to its own longest row
        part = [values[rows, :width] for values in (parameter, old, mask, ref, correction, weights)]
        micro_loss = token_grpo_loss(
            part[0], part[1], advantages[rows], part[2], ref_logps=part[3], importance_weights=part[4],
            weights=part[5], **settings, **choice,
        )  # fmt: skip
        micro_loss.backward()
        total += micro_loss.item()
    assert total == pytest.approx(loss.item(), abs=1e-14)
    torch.testing.assert_close(parameter.grad, gradient, atol=1e-15, rtol=0)


def test_case_d8_means_of_micro_batch_means_are_something_else():
    logps, mask, advantages = torch.zeros(2, 4), length_mask(torch.tensor([2, 4]), 4), torch.tensor([-1.0, -4.0])
    rows = [[0], [1]]
    alone = [
        token_grpo_loss(logps[row], logps[row], advantages[row], mask[row], aggregate="token_mean").item()
        for row in rows
    ]
    assert np.mean(alone) == 2.5
    weights = token_weights(mask, "token_mean")
    parts = [
        token_grpo_loss(logps[row], logps[row], advantages[row], mask[row], weights=weights[row]).item() for row in rows
    ]
    assert sum(parts) == pytest.approx(3.0)


# --- metrics --------------------------------------------------------------------------------------------------


def test_metrics_by_hand():
    ratios = torch.tensor([[1.5, 1.0, torch.nan], [1.5, 0.5, 1.25], [9.0, 9.0, 9.0]])
    mask = length_mask(torch.tensor([2, 3, 0]), 3)
    batch = ratios.log(), torch.zeros(3, 3), torch.tensor([1.0, -1.0, 1.0]), mask
    metrics = loss_metrics(*batch, ref_logps=ratios.log() - np.log(2))
    assert metrics == {
        "clip_fraction": pytest.approx(2 / 5),
        "kl": pytest.approx(0.5 + np.log(2) - 1),
        "ratio_mean": pytest.approx(5.75 / 5),
        "ratio_max": pytest.approx(1.5),
    }
    assert all(type(value) is float for value in metrics.values())
    # A wider clip below frees r = .5, one above r = 1.5.
    assert loss_metrics(*batch, clip_low=0.6)["clip_fraction"] == pytest.approx(1 / 5)
    assert loss_metrics(*batch, clip_high=0.6)["clip_fraction"] == pytest.approx(1 / 5)
    assert loss_metrics(*batch)["kl"] is None


def test_metrics_of_one_ratio_per_rollout():
    new = torch.tensor([[0.3, 0.1], [0.2, 9.0], [9.0, 9.0]])
    mask = length_mask(torch.tensor([2, 1, 0]), 2)
    batch = new, torch.zeros(3, 2), torch.tensor([1.0, -1.0, 1.0]), mask
    of_rollout, gspo = (loss_metrics(*batch, level=level) for level in ("rollout", "gspo"))
    assert of_rollout["ratio_mean"] == pytest.approx((np.exp(0.4) + np.exp(0.2)) / 2)
    assert of_rollout["ratio_max"] == pytest.approx(np.exp(0.4)) and of_rollout["clip_fraction"] == 0.5
    assert gspo["ratio_mean"] == pytest.approx(np.exp(0.2)) and gspo["clip_fraction"] == 0.5
    assert loss_metrics(*batch, level="gspo", clip_high=0.3)["clip_fraction"] == 0.0


def test_metrics_of_huge_log_ratios():
    metrics = loss_metrics(
        torch.full((2, 1), 1e3), torch.zeros(2, 1), torch.tensor([1.0, -1.0]), torch.ones(2, 1).bool()
    )
    assert metrics["ratio_max"] == pytest.approx(np.exp(80)) and metrics["clip_fraction"] == 0.5


def test_metrics_errors():
    with pytest.raises(ValueError, match=r"^advantages has shape \(2, 1\): pass a flat"):
        loss_metrics(ONES, ONES, torch.ones(2, 1), ONES.bool())
    with pytest.raises(ValueError, match=r"^ref_logps has shape \(2, 1\)"):
        loss_metrics(ONES, ONES, torch.ones(2), ONES.bool(), torch.ones(2, 1))
    with pytest.raises(ValueError, match="clip_low is -1"):
        loss_metrics(ONES, ONES, torch.ones(2), ONES.bool(), clip_low=-1)


def test_metrics_without_tokens_and_with_a_graph():
    nothing = torch.full((2, 3), torch.nan, requires_grad=True)
    metrics = loss_metrics(nothing, nothing, torch.ones(2), torch.zeros(2, 3).bool(), nothing)
    assert metrics == {"clip_fraction": 0.0, "kl": 0.0, "ratio_mean": 1.0, "ratio_max": 1.0}


def test_the_clip_fraction_counts_the_tokens_without_gradient():
    new, old, advantages, mask, _, _ = random_batch(np.random.default_rng(6))
    _, gradient = with_gradient(new, old, advantages, mask, aggregate="rollout_sum")
    share = (gradient[mask] == 0.0).double().mean().item()
    assert 0.0 < share < 1.0
    assert loss_metrics(new, old, advantages, mask)["clip_fraction"] == pytest.approx(share)


# --- importance weights and advantages ------------------------------------------------------------------------


def test_importance_weights_by_hand():
    train = torch.tensor([[-1.0, -1.0, torch.nan], [-1.0, -1.0, -1.0]], requires_grad=True)
    sampler = torch.tensor([[-1.5, -9.0, 5.0], [-0.5, -1.0, torch.inf]])
    mask = length_mask(torch.tensor([2, 2]), 3)
    weights = importance_weights(train, sampler, mask)
    assert not weights.requires_grad
    np.testing.assert_allclose(weights, [[np.exp(0.5), 2.0, 1.0], [np.exp(-0.5), 1.0, 1.0]], rtol=1e-6)
    assert importance_weights(train, sampler, mask, cap=1.2)[0].tolist() == pytest.approx([1.2, 1.2, 1.0])
    for cap in (0.0, -1.0, torch.inf, None):
        with pytest.raises(ValueError, match="cap is"):
            importance_weights(train, sampler, mask, cap)
    with pytest.raises(ValueError, match="has shape"):
        importance_weights(train, sampler[:, :2], mask)


def test_group_advantages_are_the_library_s():
    rewards = np.random.default_rng(7).normal(size=12).astype(np.float32)
    expected = group_relative_advantage(rewards, 4).ravel()
    ours = group_advantages(torch.tensor(rewards), 4)
    assert ours.dtype == torch.float32 and ours.shape == (12,)
    np.testing.assert_allclose(ours, expected, rtol=1e-6)
    np.testing.assert_allclose(group_advantages(rewards.tolist(), 4), expected, rtol=1e-6)
    in_float64 = group_advantages(torch.tensor(rewards).double().requires_grad_(), 4, eps=0.5)
    assert in_float64.dtype == torch.float64 and not in_float64.requires_grad
    np.testing.assert_array_equal(in_float64, group_relative_advantage(rewards, 4, eps=0.5).ravel())
    assert group_advantages([1, 0, True, False], 2).tolist() == pytest.approx([0.7070, -0.7070] * 2, abs=1e-4)


def test_group_advantages_of_half_precision():
    rewards = torch.tensor([1.0, 0.0, 0.5, 0.25], dtype=torch.bfloat16)
    np.testing.assert_allclose(
        group_advantages(rewards, 4), group_relative_advantage(rewards.tolist(), 4)[0], rtol=1e-6
    )


def test_group_advantages_without_the_std():
    assert group_advantages([1, 0, 0, 0, 3, 1, 1, 1], 4, scale=False).tolist() == [0.75, *[-0.25] * 3, 1.5, *[-0.5] * 3]
    equal = torch.full((7,), 0.1, dtype=torch.float64)
    assert group_advantages(equal, 7, scale=False).tolist() == [0.0] * 7


def test_group_advantages_errors():
    with pytest.raises(ValueError, match=r"rewards has shape \(2, 2\)"):
        group_advantages(torch.ones(2, 2), 2)
    with pytest.raises(ValueError, match=r"rewards\[1\] is nan"):
        group_advantages([1.0, torch.nan], 2, scale=False)
    with pytest.raises(ValueError, match=r"rewards\[0\] is nan"):
        group_advantages([None, 1.0], 2)
    with pytest.raises(ValueError, match="3 rewards cannot be cut into groups of 2"):
        group_advantages([1.0, 0.0, 0.0], 2)


# --- errors ---------------------------------------------------------------------------------------------------

ONES = torch.ones(2, 3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"advantages": torch.ones(2, 1)}, r"advantages has shape \(2, 1\): pass a flat tensor \(2,\), one entry per"),
        ({"advantages": torch.ones(3)}, r"advantages has shape \(3,\)"),
        ({"advantages": torch.tensor(1.0)}, r"advantages has shape \(\)"),
        ({"advantages": [1.0, 2.0]}, "advantages has type list"),
        ({"old_logps": torch.ones(2, 1)}, r"old_logps has shape \(2, 1\): pass a tensor \(2, 3\), one entry per token"),
        ({"old_logps": None}, "old_logps has type NoneType"),
        ({"new_logps": torch.ones(6)}, r"new_logps is torch.float32 \(6,\): pass a tensor \(N, C\)"),
        ({"new_logps": ONES.bfloat16()}, "new_logps is torch.bfloat16 .* half precision is too coarse"),
        ({"new_logps": ONES.numpy()}, "new_logps is ndarray"),
        ({"new_logps": ONES.tolist()}, "new_logps is list"),
        ({"mask": torch.ones(2, 1).bool()}, r"mask has shape \(2, 1\): pass \(2, 3\)"),
        ({"mask": ONES}, "mask is of type torch.float32: pass a bool tensor"),
        ({"ref_logps": torch.ones(3), "kl_coef": 0.1}, r"ref_logps has shape \(3,\)"),
        ({"kl_coef": 0.1}, "kl_coef is 0.1 but ref_logps is None: pass the reference's"),
        ({"kl_coef": -0.1}, "kl_coef is -0.1: pass"),
        ({"clip_low": -0.1}, "clip_low is -0.1: pass"),
        ({"clip_high": -0.1}, "clip_high is -0.1: pass"),
        ({"level": "sequence"}, "level is 'sequence': choose 'token', 'rollout', 'gspo'"),
        ({"aggregate": "mean"}, "aggregate is 'mean': choose"),
        ({"kl": "k4"}, "kl is 'k4': choose 'k3', 'k2', 'k1'"),
        ({"aggregate": "constant"}, "constant_length is None with aggregate='constant'"),
        ({"constant_length": 3}, "constant_length is 3 with aggregate='rollout_mean'"),
        ({"constant_length": 0, "aggregate": "constant"}, "constant_length is 0: it must be at least 1"),
        ({"importance_weights": torch.ones(2, 1)}, r"importance_weights has shape \(2, 1\)"),
        ({"weights": torch.ones(2, 1)}, r"weights has shape \(2, 1\)"),
    ],
)
def test_errors(changes, message):
    batch = {"new_logps": ONES, "old_logps": ONES, "advantages": torch.ones(2), "mask": ONES.bool()}
    token_grpo_loss(**batch)
    with pytest.raises(ValueError, match=message):
        token_grpo_loss(**batch | changes)


def test_a_batch_without_rows():
    empty = torch.zeros(0, 3)
    with pytest.raises(ValueError, match="mask has no rows: pass at least one rollout"):
        token_grpo_loss(empty, empty, torch.zeros(0), empty.bool())
    with pytest.raises(ValueError, match=r"mask has shape \(3,\): pass 2 axes"):
        token_weights(torch.ones(3).bool(), "token_mean")


def test_kl_in_reward_errors():
    with pytest.raises(ValueError, match=r"rewards has shape \(2, 1\): pass a flat tensor"):
        kl_in_reward(torch.ones(2, 1), ONES, ONES, ONES.bool(), 0.1)
    with pytest.raises(ValueError, match=r"ref_logps has shape \(3,\)"):
        kl_in_reward(torch.ones(2), ONES, torch.ones(3), ONES.bool(), 0.1)
    with pytest.raises(ValueError, match=r"old_logps is torch.float32 \(3,\)"):
        kl_in_reward(torch.ones(2), torch.ones(3), ONES, ONES.bool(), 0.1)
    with pytest.raises(ValueError, match=r"kl_coef is -0\.1"):
        kl_in_reward(torch.ones(2), ONES, ONES, ONES.bool(), -0.1)
