"""The per-token loss against the library's scalar functions."""

import numpy as np
import pytest

from grpo import aggregate_token_losses, clip_gate, clipped_surrogate, kl_k1, kl_k2, kl_k3, kl_k3_slope
from grpo.expressions import kl_penalty, token_loss, token_weights
from grpo.expressions.objective import KL_KINDS

SHAPE = (2, 3, 4, 6)


def batch(seed=0):
    rng = np.random.default_rng(seed)
    lengths = rng.choice([2, 4, 6], size=SHAPE[:3])
    mask = np.arange(6) < lengths[..., np.newaxis]
    old, ref, new = (np.where(mask, -rng.exponential(size=SHAPE), 0.0) for _ in range(3))
    return new, old, ref, rng.normal(size=SHAPE[:3]), mask, lengths


@pytest.mark.parametrize(("average", "how"), [("mean", "rollout_mean"), ("sum", "rollout_sum")])
@pytest.mark.parametrize("kl_coef", [0.0, 0.3])
def test_the_loss_is_the_library_s(average, how, kl_coef):
    new, old, ref, advantages, mask, lengths = batch()
    result = token_loss(new, old, ref, advantages, token_weights(mask, lengths, average), 0.2, kl_coef)
    for seed in range(SHAPE[0]):
        spread = np.broadcast_to(advantages[seed][..., np.newaxis], SHAPE[1:])
        ratios = np.exp(new - old)[seed]
        per_token = -(clipped_surrogate(ratios, spread) - kl_coef * kl_k3(ref - new)[seed])
        expected = aggregate_token_losses(per_token.reshape(-1, 6), mask[seed].reshape(-1, 6), how)
        assert result.loss[seed] == pytest.approx(expected, abs=1e-13)
        np.testing.assert_array_equal(result.open_gate[seed], clip_gate(ratios, spread))
    assert not result.coefficients[~mask].any()


def test_the_clip_acts_on_both_signs():
    def one(ratio, advantage):
        new, zero = np.full((1, 1, 1, 1), np.log(ratio)), np.zeros((1, 1, 1, 1))
        result = token_loss(new, zero, None, np.full((1, 1, 1), advantage), np.ones((1, 1, 1, 1)), kl_coef=0.0)
        return result.loss[0], result.coefficients.item(), bool(result.open_gate.all())

    assert one(2.0, -1.0) == pytest.approx((2.0, 2.0, True))
    assert one(0.5, -1.0) == pytest.approx((0.8, 0.0, False))
    assert one(2.0, 1.0) == pytest.approx((-1.2, 0.0, False))
    assert one(0.5, 1.0) == pytest.approx((-0.5, -0.5, True))
    assert one(1.0, 1.0) == pytest.approx((-1.0, -1.0, True))


def test_the_kl_kinds_are_the_library_s():
    delta = np.array([-3.0, -1e-9, 0.0, 1e-9, 0.5, 1.0, 1.5, 80.0, 81.0])
    for kind, function, slope in (
        ("k1", kl_k1, np.ones(9)),
        ("k2", kl_k2, -delta),
        ("k3", kl_k3, kl_k3_slope(delta)),
        ("k3_capped", kl_k3, -np.expm1(np.minimum(delta, 1.0))),
    ):
        value, ours = kl_penalty(delta, kind)
        np.testing.assert_array_equal(value, function(delta))
        np.testing.assert_array_equal(ours, slope)
    np.testing.assert_array_equal(kl_penalty(delta), kl_penalty(delta, "k3"))


def test_k3_is_never_negative_and_zero_for_equal_policies():
    delta = np.random.default_rng(0).normal(size=10_000) * np.logspace(-12, 2, 10_000)
    for kind in ("k3", "k3_capped"):
        assert (kl_penalty(delta, kind)[0] >= 0.0).all()
        assert [part.item() for part in kl_penalty(np.zeros(1), kind)] == [0.0, 0.0]


@pytest.mark.parametrize("kind", KL_KINDS)
def test_coefficients_are_the_derivative_of_the_loss(kind):
    new, old, ref, advantages, mask, lengths = batch(1)
    if kind == "k3_capped":
        ref = np.minimum(ref, new + 1.0)
    weights, h = token_weights(mask, lengths), 1e-6
    result = token_loss(new, old, ref, advantages, weights, 0.2, 0.3, kind)
    for place in np.ndindex(SHAPE):
        step = np.zeros(SHAPE)
        step[place] = h
        up, down = (token_loss(new + s, old, ref, advantages, weights, 0.2, 0.3, kind).loss for s in (step, -step))
        slope = (up - down)[place[0]] / (2 * h)
        assert result.coefficients[place] == pytest.approx(slope, abs=1e-8)


def test_weights():
    mask = np.array([[[[1, 1, 0, 0], [1, 1, 1, 1]]]], dtype=bool)
    lengths = mask.sum(axis=-1)
    np.testing.assert_allclose(token_weights(mask, lengths)[0, 0], [[0.25, 0.25, 0, 0], [0.125] * 4])
    np.testing.assert_allclose(token_weights(mask, lengths, "sum")[0, 0], [[0.5, 0.5, 0, 0], [0.5] * 4])


def test_errors():
    new, old, ref, advantages, mask, lengths = batch()
    with pytest.raises(ValueError, match="token_average is 'max': choose 'mean' or 'sum'"):
        token_weights(mask, lengths, "max")
    weights = token_weights(mask, lengths)
    with pytest.raises(ValueError, match="kl_kind is 'k4': choose 'k1', 'k2', 'k3', 'k3_capped'"):
        token_loss(new, old, ref, advantages, weights, kl_kind="k4")
    with pytest.raises(ValueError, match="ref_logps is None"):
        token_loss(new, old, None, advantages, weights)
