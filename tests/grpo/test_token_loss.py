"""The loss of token log-probs: worked numbers, cases C2, C6 and D1 to D9, and central differences for the gradient."""

import itertools

import numpy as np
import pytest

from grpo.gradients import finite_diff_gradient
from grpo.objective import aggregate_token_losses, grpo_loss
from grpo.token_loss import (
    AGGREGATES,
    KL_KINDS,
    LEVELS,
    kl_in_reward,
    log_ratios,
    token_grpo_gradient,
    token_grpo_loss,
    token_weights,
)

LENGTHS = np.array([5, 3, 1, 0, 4])
MASK = np.arange(5) < LENGTHS[:, np.newaxis]


def constant(aggregate):
    return 7 if aggregate == "constant" else None


def random_batch(seed, mask=MASK):
    """Log-probs around -1, a drift of rollouts and tokens that is clipped in places, garbage at padding."""
    rng = np.random.default_rng(seed)
    new = -1.0 + 0.3 * rng.normal(size=mask.shape)
    old = new + 0.3 * rng.normal(size=mask.shape) + 0.3 * rng.normal(size=(len(mask), 1))
    ref = new + 0.5 * rng.normal(size=mask.shape)
    for values in (new, old, ref):
        values[~mask] = rng.choice([np.nan, np.inf, -np.inf, 9.0], size=(~mask).sum())
    return {"new_logps": new, "old_logps": old, "advantages": rng.normal(size=len(mask)), "mask": mask}, ref


# --- weights --------------------------------------------------------------------------------------------------


def test_weights_by_hand():
    mask = [[1, 1, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0]]
    np.testing.assert_allclose(token_weights(mask, "rollout_sum"), np.array(mask) / 3)
    np.testing.assert_allclose(token_weights(mask, "rollout_mean"), np.array(mask) / [[6], [12], [1]])
    np.testing.assert_allclose(token_weights(mask, "token_mean"), np.array(mask) / 6)
    np.testing.assert_allclose(token_weights(mask, "constant", 5), np.array(mask) / 15)
    np.testing.assert_allclose(token_weights(mask, "constant", constant_length=1), np.array(mask) / 3)


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_weights_are_the_averages_of_the_library(aggregate):
    losses = np.where(MASK, np.random.default_rng(0).normal(size=MASK.shape), np.nan)
    value = (token_weights(MASK, aggregate, constant(aggregate))[MASK] * losses[MASK]).sum()
    expected = aggregate_token_losses(losses, MASK, aggregate, length=constant(aggregate))
    assert value == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_case_d9_no_kept_token_no_weight(aggregate):
    weights = token_weights(np.zeros((2, 3)), aggregate, constant(aggregate))
    np.testing.assert_array_equal(weights, np.zeros((2, 3)))
    assert weights.dtype == np.float64


def test_weights_errors():
    for mask in (np.ones(3), np.ones((1, 1, 1)), np.ones((0, 3))):
        with pytest.raises(ValueError, match=r"mask has shape .*: pass \(N, T\)"):
            token_weights(mask, "token_mean")
    with pytest.raises(ValueError, match="neither 0 nor 1"):
        token_weights([[0.5]], "token_mean")
    with pytest.raises(ValueError, match="aggregate is 'mean': choose 'rollout_sum', 'rollout_mean'"):
        token_weights(MASK, "mean")
    with pytest.raises(ValueError, match="constant_length is None with aggregate='constant'"):
        token_weights(MASK, "constant")
    with pytest.raises(ValueError, match="constant_length is 3 with aggregate='token_mean'"):
        token_weights(MASK, "token_mean", 3)
    with pytest.raises(ValueError, match="constant_length is 0: it must be at least 1"):
        token_weights(MASK, "constant", 0)


# --- ratios ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("length", "of_rollout"), [(100, 2.7), (512, 167)])
def test_convention_c10_a_drift_of_a_hundredth_per_token(length, of_rollout):
    batch = np.full((1, length), -0.99), np.full((1, length), -1.0), np.ones((1, length))
    ratios = {level: np.exp(log_ratios(*batch, level)) for level in LEVELS}
    np.testing.assert_allclose(ratios["rollout"], of_rollout, rtol=0.01)
    np.testing.assert_allclose(ratios["gspo"], 1.01, atol=1e-4)
    np.testing.assert_allclose(ratios["token"], 1.01, atol=1e-4)


def test_log_ratios_by_hand():
    new, old = [[1.0, 2.0, np.nan], [np.inf, 0.0, 0.0]], [[0.5, 3.0, 1.0], [np.nan, np.nan, np.inf]]
    mask = [[1, 1, 0], [0, 0, 0]]
    np.testing.assert_array_equal(log_ratios(new, old, mask, "token"), [[0.5, -1.0, 0.0], [0.0, 0.0, 0.0]])
    np.testing.assert_array_equal(log_ratios(new, old, mask, "rollout"), [[-0.5, -0.5, 0.0], [0.0, 0.0, 0.0]])
    np.testing.assert_array_equal(log_ratios(new, old, mask, "gspo"), [[-0.25, -0.25, 0.0], [0.0, 0.0, 0.0]])


def test_case_c2_the_shifted_mask_decides():
    # Tokens 5 6 7 8 9, of which 7 and 8 are the answer: the targets are 6 7 8 9.
    mask, logps = np.array([[0, 0, 1, 1, 0]]), np.array([[-1.0, -2.0, -4.0, -8.0]])
    assert log_ratios(logps, np.zeros((1, 4)), mask[:, 1:], "rollout")[0, 1] == -6.0
    assert log_ratios(logps, np.zeros((1, 4)), mask[:, :-1], "rollout")[0, 2] == -12.0


def test_log_ratios_errors():
    with pytest.raises(ValueError, match="level is 'sequence': choose 'token', 'rollout', 'gspo'"):
        log_ratios([[0.0]], [[0.0]], [[1]], "sequence")
    with pytest.raises(ValueError, match=r"new_logps\[1, 0\] is -inf, and the mask keeps it"):
        log_ratios([[0.0], [-np.inf]], [[0.0], [0.0]], [[1], [1]], "token")
    with pytest.raises(ValueError, match=r"old_logps\[0, 1\] is nan, and the mask keeps it"):
        log_ratios([[0.0, 0.0], [0.0, 0.0]], [[0.0, np.nan], [np.nan, 0.0]], [[1, 1], [1, 1]], "token")
    for shape in ((3,), (1, 1, 1), (0, 3)):
        with pytest.raises(ValueError, match=r"new_logps has shape .*: pass \(N, T\)"):
            log_ratios(np.zeros(shape), np.zeros(shape), np.ones(shape), "token")
    with pytest.raises(ValueError, match=r"old_logps has shape \(1, 1\), the mask \(1, 2\)"):
        log_ratios([[0.0, 0.0]], [[0.0]], [[1, 1]], "token")
    with pytest.raises(ValueError, match=r"new_logps has shape \(1, 2\), the mask \(2,\)"):
        log_ratios([[0.0, 0.0]], [[0.0, 0.0]], [1, 1], "token")
    with pytest.raises(ValueError, match="neither 0 nor 1"):
        log_ratios([[0.0]], [[0.0]], [[2]], "token")
    with pytest.raises(ValueError, match="old_logps must be an array of numbers"):
        log_ratios([[0.0]], [["x"]], [[1]], "token")


# --- the loss, by hand ----------------------------------------------------------------------------------------


def test_case_d3_both_signs_of_the_advantage():
    ratios, advantages = np.array([[2.0], [0.5], [2.0], [0.5]]), [-1.0, -1.0, 1.0, 1.0]
    batch = np.log(ratios), np.zeros((4, 1)), advantages, np.ones((4, 1))
    each = [token_grpo_loss(*(column[row : row + 1] for column in batch)) for row in range(4)]
    np.testing.assert_allclose(each, [2.0, 0.8, -1.2, -0.5])
    gradient = token_grpo_gradient(*batch, aggregate="rollout_sum")
    np.testing.assert_allclose(gradient, np.array([[2.0], [0.0], [0.0], [-0.5]]) / 4)


def test_low_and_high_clip_are_apart():
    batch = np.log([[1.25], [0.75]]), np.zeros((2, 1)), [1.0, -1.0], np.ones((2, 1))
    assert token_grpo_loss(*batch, clip_low=0.1, clip_high=0.3) == pytest.approx((-1.25 + 0.9) / 2)
    assert token_grpo_loss(*batch, clip_low=0.3, clip_high=0.1) == pytest.approx((-1.1 + 0.75) / 2)
    assert token_grpo_loss(*batch) == pytest.approx((-1.2 + 0.8) / 2)
    np.testing.assert_allclose(token_grpo_gradient(*batch, clip_low=0.1, clip_high=0.3), [[-1.25 / 2], [0.0]])
    np.testing.assert_allclose(token_grpo_gradient(*batch, clip_low=0.3, clip_high=0.1), [[0.0], [0.75 / 2]])
    np.testing.assert_array_equal(token_grpo_gradient(*batch), [[0.0], [0.0]])
    assert token_grpo_loss(*batch, clip_low=0, clip_high=0) == 0.0


def test_the_gate_is_open_on_the_edge():
    batch = np.log([[1.5], [0.5]]), np.zeros((2, 1)), [1.0, -1.0], np.ones((2, 1))
    gradient = token_grpo_gradient(*batch, clip_low=0.5, clip_high=0.5)
    np.testing.assert_allclose(gradient, [[-0.75], [0.25]])


def test_case_d5_three_readings_of_the_ratio():
    batch = [[0.3, -0.1]], [[0.0, 0.0]], [1.0], [[1, 1]]
    assert token_grpo_loss(*batch) == pytest.approx(-1.0524, abs=5e-5)
    assert token_grpo_loss(*batch, level="rollout", aggregate="rollout_sum") == pytest.approx(-1.2)
    unclipped = token_grpo_loss(*batch, level="rollout", aggregate="rollout_sum", clip_high=1.0)
    assert unclipped == pytest.approx(-1.2214, abs=5e-5)
    assert token_grpo_loss(*batch, level="gspo") == pytest.approx(-1.1052, abs=5e-5)
    np.testing.assert_allclose(token_grpo_gradient(*batch, level="gspo"), -1.1052 / 2, atol=5e-5)
    np.testing.assert_array_equal(token_grpo_gradient(*batch, level="rollout", aggregate="rollout_sum"), [[0.0, 0.0]])


def test_case_d4_k3_its_slope_and_the_other_estimates():
    new, ref = np.log([[0.5]]), np.log([[0.25]])
    batch = {"new_logps": new, "old_logps": new, "advantages": [0.0], "mask": [[1]], "ref_logps": ref, "kl_coef": 2.0}
    for kl, value, slope in (("k3", 0.1931, 0.5), ("k2", 0.6931**2 / 2, 0.6931), ("k1", 0.6931, 1.0)):
        assert token_grpo_loss(**batch, kl=kl) == pytest.approx(2 * value, abs=1e-4)
        assert token_grpo_gradient(**batch, kl=kl) == pytest.approx(2 * slope, abs=1e-4)
    assert token_grpo_loss(**batch) == token_grpo_loss(**batch, kl="k3")


def test_case_d8_averages_of_the_losses():
    # At ratio 1 a token's loss is -A: rollouts of 2 tokens with loss 1 and of 4 tokens with loss 4.
    logps, mask = np.full((2, 4), -1.0), [[1, 1, 0, 0], [1, 1, 1, 1]]
    values = [
        token_grpo_loss(
            logps, logps, [-1.0, -4.0], mask, aggregate=how, constant_length=4 if how == "constant" else None
        )
        for how in AGGREGATES
    ]
    assert values == [9.0, 2.5, 3.0, 2.25]


@pytest.mark.parametrize(("level", "aggregate"), list(itertools.product(LEVELS, AGGREGATES)))
def test_case_d9_everything_masked(level, aggregate):
    nothing = np.full((2, 3), np.nan)
    batch = {"new_logps": nothing, "old_logps": nothing, "advantages": [1.0, 2.0], "mask": np.zeros((2, 3), bool)}
    settings = {"level": level, "aggregate": aggregate, "constant_length": constant(aggregate), "kl_coef": 1.0}
    assert token_grpo_loss(**batch, ref_logps=nothing, **settings) == 0.0
    np.testing.assert_array_equal(token_grpo_gradient(**batch, ref_logps=nothing, **settings), np.zeros((2, 3)))


def test_case_d9_masked_tokens_are_in_no_divisor():
    logps, mask = np.zeros((1, 8)), [[1, 1, 0, 0, 0, 0, 0, 0]]
    for aggregate in ("rollout_mean", "token_mean"):
        assert token_grpo_loss(logps, logps, [-1.0], mask, aggregate=aggregate) == 1.0


def test_case_c6_nan_at_padding():
    new, nan = np.array([[np.nan, -0.5]]), np.array([[np.nan, -0.5]])
    batch = {"new_logps": new, "old_logps": nan, "advantages": [1.0], "mask": [[0, 1]]}
    settings = {"ref_logps": [[np.inf, -0.5]], "kl_coef": 0.1, "importance_weights": [[-np.inf, 2.0]]}
    assert token_grpo_loss(**batch, **settings) == -2.0
    np.testing.assert_array_equal(token_grpo_gradient(**batch, **settings), [[0.0, -2.0]])


def test_case_d1_the_first_loss_is_zero_and_its_gradient_is_not():
    # Two actions of equal probability, one sample of each, rewards 1 and 0: advantages +-.7071.
    logps = np.log([[0.5], [0.5]])
    batch = logps, logps, np.array([1.0, -1.0]) / np.sqrt(2.0), np.ones((2, 1))
    assert token_grpo_loss(*batch) == 0.0
    by_logp = token_grpo_gradient(*batch)[:, 0]
    jacobian = np.eye(2) - 0.5  # d log p_a / d theta_k
    np.testing.assert_allclose(by_logp @ jacobian, [-0.35355, 0.35355], atol=5e-6)


# --- what the levels mean -------------------------------------------------------------------------------------


def test_the_cookbook_s_loss():
    batch, _ = random_batch(3, MASK[LENGTHS > 0])
    drift = log_ratios(batch["new_logps"], batch["old_logps"], batch["mask"], "token").sum(axis=1)
    expected = grpo_loss(np.exp(drift), batch["advantages"], np.zeros(4))
    assert token_grpo_loss(**batch, level="rollout", aggregate="rollout_sum") == pytest.approx(expected, abs=1e-14)


def test_the_cookbook_s_loss_with_its_kl_for_rollouts_of_one_token():
    batch, ref = random_batch(4, np.ones((6, 1), bool))
    new, old = batch["new_logps"][:, 0], batch["old_logps"][:, 0]
    expected = grpo_loss(np.exp(new - old), batch["advantages"], ref[:, 0] - new, kl_coef=0.3)
    for level, aggregate in itertools.product(LEVELS, ("rollout_sum", "rollout_mean", "token_mean")):
        loss = token_grpo_loss(**batch, ref_logps=ref, kl_coef=0.3, level=level, aggregate=aggregate)
        assert loss == pytest.approx(expected, abs=1e-14)


def test_gspo_with_the_rollout_sum_counts_a_rollout_by_its_length():
    batch, _ = random_batch(5, MASK[LENGTHS > 0])
    mean_drift = log_ratios(batch["new_logps"], batch["old_logps"], batch["mask"], "gspo")[:, 0]
    lengths = batch["mask"].sum(axis=1)
    paper = grpo_loss(np.exp(mean_drift), batch["advantages"], np.zeros(4))
    assert token_grpo_loss(**batch, level="gspo") == pytest.approx(paper, abs=1e-14)
    luspo = grpo_loss(np.exp(mean_drift), batch["advantages"] * lengths, np.zeros(4))
    assert token_grpo_loss(**batch, level="gspo", aggregate="rollout_sum") == pytest.approx(luspo, abs=1e-14)


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_on_policy_the_levels_have_one_gradient(aggregate):
    batch, _ = random_batch(6)
    batch["old_logps"] = batch["new_logps"]
    expected = -token_weights(MASK, aggregate, constant(aggregate)) * batch["advantages"][:, np.newaxis]
    for level in LEVELS:
        gradient = token_grpo_gradient(**batch, level=level, aggregate=aggregate, constant_length=constant(aggregate))
        np.testing.assert_allclose(gradient, expected, atol=1e-15)


def test_importance_weights_weigh_the_surrogate_only():
    logps = np.full((1, 2), -1.0)
    batch = {"new_logps": logps, "old_logps": logps, "advantages": [2.0], "mask": [[1, 1]], "ref_logps": logps - 1}
    weights = [[0.5, 1.5]]
    penalty = token_grpo_loss(**batch | {"advantages": [0.0]}, kl_coef=1.0)
    assert penalty == pytest.approx(np.exp(-1))
    for level, policy in (("token", -2.0), ("gspo", -2.0), ("rollout", -1.0)):
        loss = token_grpo_loss(**batch, kl_coef=1.0, level=level, importance_weights=weights)
        assert loss == pytest.approx(policy + penalty)
    by_token = token_grpo_gradient(**batch, importance_weights=weights)
    np.testing.assert_allclose(by_token, [[-0.5, -1.5]])
    np.testing.assert_allclose(token_grpo_gradient(**batch, level="gspo", importance_weights=weights), [[-1.0, -1.0]])


# --- the gradient, by central differences ---------------------------------------------------------------------


def central_differences(batch, **settings):
    kept = batch["new_logps"][batch["mask"]]

    def loss(values):
        new = batch["new_logps"].copy()
        new[batch["mask"]] = values
        return token_grpo_loss(**batch | {"new_logps": new}, **settings)

    gradient = np.zeros(batch["mask"].shape)
    gradient[batch["mask"]] = finite_diff_gradient(loss, kept)
    return gradient


@pytest.mark.parametrize(("level", "aggregate", "kl"), list(itertools.product(LEVELS, AGGREGATES, KL_KINDS)))
def test_the_gradient_is_the_derivative(level, aggregate, kl):
    batch, ref = random_batch(sum(map(ord, level + aggregate + kl)))
    for kl_coef, weights in ((0.0, None), (0.3, np.random.default_rng(0).uniform(0, 2, MASK.shape))):
        settings = {
            "level": level, "aggregate": aggregate, "kl": kl, "constant_length": constant(aggregate), "ref_logps": ref,
            "clip_low": 0.15, "clip_high": 0.28, "kl_coef": kl_coef, "importance_weights": weights,
        }  # fmt: skip
        gradient = token_grpo_gradient(**batch, **settings)
        np.testing.assert_allclose(gradient, central_differences(batch, **settings), atol=1e-9)
        np.testing.assert_array_equal(gradient[~MASK], 0.0)
        assert np.abs(gradient).max() > 1e-3


@pytest.mark.parametrize("level", LEVELS)
def test_some_tokens_are_clipped_in_those_batches(level):
    """Otherwise the test above would not notice a gate that is always open."""
    batch, _ = random_batch(8)
    clipped = token_grpo_gradient(**batch, level=level)[MASK] == 0.0
    assert 0 < clipped.sum() < clipped.size


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_micro_batches_of_one_rollout_add_up(aggregate):
    batch, ref = random_batch(9)
    settings = {"aggregate": aggregate, "constant_length": constant(aggregate), "kl_coef": 0.2}
    whole = token_grpo_gradient(**batch, ref_logps=ref, **settings)
    rows = [{name: values[[row]] for name, values in batch.items()} for row in range(len(MASK))]
    parts = [token_grpo_gradient(**one, ref_logps=ref[[row]], **settings) for row, one in enumerate(rows)]
    # Alone, a rollout is divided by itself; in the batch by what the batch has.
    shares = LENGTHS / LENGTHS.sum() if aggregate == "token_mean" else np.full(5, 1 / 5)
    np.testing.assert_allclose(shares[:, np.newaxis] * np.concatenate(parts), whole, atol=1e-15)


def test_limits_keep_huge_log_ratios_finite():
    with np.errstate(over="raise", invalid="raise"):
        for drift, advantage in itertools.product((1e3, -1e3), (1.0, -1.0)):
            batch = np.array([[drift]]), np.zeros((1, 1)), [advantage], [[1]]
            expected = {(1e3, 1.0): -1.2, (1e3, -1.0): np.exp(80), (-1e3, 1.0): 0.0, (-1e3, -1.0): 0.8}
            assert token_grpo_loss(*batch) == pytest.approx(expected[drift, advantage])
            np.testing.assert_array_equal(token_grpo_gradient(*batch), [[0.0]])
        below = token_grpo_gradient([[80.0]], [[0.0]], [-1.0], [[1]])
        assert below[0, 0] == pytest.approx(np.exp(80))
        far = {"ref_logps": [[1e3]], "kl_coef": 1.0}
        assert token_grpo_loss([[0.0]], [[0.0]], [0.0], [[1]], **far) == pytest.approx(np.exp(80) - 81)
        np.testing.assert_array_equal(token_grpo_gradient([[0.0]], [[0.0]], [0.0], [[1]], **far), [[0.0]])


# --- k1 in the reward -----------------------------------------------------------------------------------------


def test_kl_in_reward_by_hand():
    old, ref = [[-1.0, -2.0, np.nan], [-1.0, -1.0, -1.0]], [[-1.5, -1.0, np.inf], [-2.0, -2.0, -2.0]]
    shaped = kl_in_reward([1, 0], old, ref, [[1, 1, 0], [1, 1, 1]], kl_coef=0.1)
    np.testing.assert_allclose(shaped, [1.0 - 0.1 * (0.5 - 1.0), -0.3])
    np.testing.assert_array_equal(kl_in_reward([1, 0], old, ref, [[1, 1, 0], [1, 1, 1]], 0.0), [1.0, 0.0])


def test_kl_in_reward_errors():
    ones = np.ones((2, 3))
    with pytest.raises(ValueError, match="3 rewards for 2 rollouts"):
        kl_in_reward([1, 0, 1], ones, ones, ones, 0.1)
    with pytest.raises(ValueError, match=r"rewards has shape \(2, 1\)"):
        kl_in_reward([[1], [0]], ones, ones, ones, 0.1)
    with pytest.raises(ValueError, match="ref_logps has shape"):
        kl_in_reward([1, 0], ones, np.ones((2, 2)), ones, 0.1)
    with pytest.raises(ValueError, match="old_logps has shape"):
        kl_in_reward([1, 0], np.ones((2, 2)), ones, ones, 0.1)
    with pytest.raises(ValueError, match=r"kl_coef is -0\.1"):
        kl_in_reward([1, 0], ones, ones, ones, -0.1)


# --- errors ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [token_grpo_loss, token_grpo_gradient])
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"advantages": np.ones((2, 1))}, r"advantages has shape \(2, 1\): pass a flat 1-D array"),
        ({"advantages": np.ones(3)}, "3 advantages for 2 rollouts"),
        ({"advantages": [1.0, np.nan]}, r"advantages\[1\] is nan"),
        ({"new_logps": np.zeros((2, 4))}, r"new_logps has shape \(2, 4\), the mask \(2, 3\)"),
        ({"old_logps": np.zeros(3)}, r"old_logps has shape \(3,\): pass"),
        ({"mask": np.ones((2, 1))}, "the mask"),
        ({"mask": np.full((2, 3), 2)}, "neither 0 nor 1"),
        ({"ref_logps": np.zeros((2, 1)), "kl_coef": 0.1}, r"ref_logps has shape \(2, 1\), the mask"),
        ({"kl_coef": 0.1}, "kl_coef is 0.1 but ref_logps is None: pass the reference's"),
        ({"kl_coef": -0.1}, "kl_coef is -0.1: pass"),
        ({"clip_low": -0.1}, "clip_low is -0.1: pass"),
        ({"clip_high": -0.1}, "clip_high is -0.1: pass"),
        ({"level": "sequence"}, "level is 'sequence': choose"),
        ({"aggregate": "mean"}, "aggregate is 'mean': choose"),
        ({"kl": "k4"}, "kl is 'k4': choose 'k3', 'k2', 'k1'"),
        ({"constant_length": 3}, "constant_length is 3 with aggregate='rollout_mean'"),
        ({"importance_weights": np.ones((2, 1))}, r"importance_weights has shape \(2, 1\)"),
        ({"importance_weights": [[1, 1, 1], [1, -0.5, 1]]}, "importance_weights is -0.5 at its lowest"),
        ({"importance_weights": [[1, 1, 1], [1, np.nan, 1]]}, r"importance_weights\[1, 1\] is nan"),
    ],
)
def test_errors(function, changes, message):
    batch = {"new_logps": np.zeros((2, 3)), "old_logps": np.zeros((2, 3)), "advantages": [1.0, -1.0]}
    batch["mask"] = np.ones((2, 3))
    function(**batch)
    with pytest.raises(ValueError, match=message):
        function(**batch | changes)


def test_the_defaults():
    batch, ref = random_batch(10)
    explicit = {
        "level": "token", "aggregate": "rollout_mean", "clip_low": 0.2, "clip_high": 0.2, "kl_coef": 0.0, "kl": "k3",
        "constant_length": None, "importance_weights": None, "ref_logps": None,
    }  # fmt: skip
    assert token_grpo_loss(**batch) == token_grpo_loss(**batch, **explicit)
    np.testing.assert_array_equal(token_grpo_gradient(**batch), token_grpo_gradient(**batch, **explicit))
    assert token_grpo_gradient(**batch, ref_logps=ref, kl_coef=1.0).shape == MASK.shape
    k3 = token_grpo_gradient(**batch, ref_logps=ref, kl_coef=1.0, kl="k3")
    np.testing.assert_array_equal(token_grpo_gradient(**batch, ref_logps=ref, kl_coef=1.0), k3)
    assert type(token_grpo_loss(**batch)) is float
