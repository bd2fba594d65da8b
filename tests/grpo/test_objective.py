"""grpo.objective: ratio, clip, KL estimators and the loss (conventions C10 to C13 and C15)."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo import (
    aggregate_token_losses,
    categorical_kl,
    clip_fraction,
    clip_gate,
    clipped_surrogate,
    finite_diff_gradient,
    grpo_loss,
    kl_k1,
    kl_k2,
    kl_k3,
    kl_k3_slope,
    rollout_ratio,
    sequence_mean_ratio,
    token_ratios,
)

few = settings(derandomize=True, max_examples=40, deadline=None)
RATIOS = (rollout_ratio, sequence_mean_ratio, token_ratios)
P = np.array([0.10, 0.20, 0.30, 0.25, 0.15])
Q = np.array([0.15, 0.15, 0.25, 0.30, 0.15])


# --- ratios ---------------------------------------------------------------------------------------------------


def test_convention_c10_drift_of_one_hundredth_per_token():
    for length, sum_ratio in ((100, 2.718), (512, 167.3)):
        old = np.full(length, -1.0)
        assert rollout_ratio(old + 0.01, old) == pytest.approx(sum_ratio, rel=1e-3)
        assert sequence_mean_ratio(old + 0.01, old) == pytest.approx(1.01005, abs=1e-5)
        np.testing.assert_allclose(token_ratios(old + 0.01, old), np.full(length, 1.01005), atol=1e-5)


def test_case_d5_three_readings_of_the_ratio():
    new, old = [-0.7, -2.1], [-1.0, -2.0]
    per_token = token_ratios(new, old)
    np.testing.assert_allclose(per_token, np.exp([0.3, -0.1]))
    assert clipped_surrogate(per_token, np.ones(2)).mean() == pytest.approx(1.0524, abs=5e-5)
    assert rollout_ratio(new, old) == pytest.approx(1.2214, abs=5e-5)
    assert clipped_surrogate(rollout_ratio(new, old), 1.0) == pytest.approx(1.2)
    assert sequence_mean_ratio(new, old) == pytest.approx(1.1052, abs=5e-5)


def test_the_same_rollout_scored_twice():
    logps = np.random.default_rng(0).normal(-3, 2, size=50)
    assert rollout_ratio(logps, logps.copy()) == 1.0
    assert sequence_mean_ratio(logps, logps.copy()) == 1.0
    np.testing.assert_array_equal(token_ratios(logps, logps.copy()), np.ones(50))
    assert type(rollout_ratio(logps, logps)) is type(sequence_mean_ratio(logps, logps)) is float


@pytest.mark.parametrize("function", RATIOS)
def test_a_token_that_became_impossible_has_ratio_zero(function):
    assert np.min(function([-1.0, -np.inf], [-1.0, -1.0])) == 0.0


@pytest.mark.parametrize("function", RATIOS)
@pytest.mark.parametrize(
    ("new", "old"),
    [([np.nan, -1], [-1, -1]), ([np.inf, -1], [-1, -1]), ([-1, -1], [np.nan, -1]), ([-1, -1], [-np.inf, -1])],
)
def test_bad_log_probs_are_named(function, new, old):
    with pytest.raises(ValueError, match="token 0 has new log-prob"):
        function(new, old)
    with pytest.raises(ValueError, match="token 2 has new log-prob"):
        function([-1.0, -1.0, *new, np.nan], [-1.0, -1.0, *old, np.nan])


@pytest.mark.parametrize("function", RATIOS)
def test_log_probs_must_be_numbers(function):
    with pytest.raises(ValueError, match=r"^new_logps must be an array of numbers"):
        function(["a"], [-1.0])
    with pytest.raises(ValueError, match=r"^old_logps must be an array of numbers"):
        function([-1.0], ["a"])


@pytest.mark.parametrize("function", RATIOS)
@pytest.mark.parametrize(
    ("new", "old"), [([], []), ([-1.0], [-1.0, -2.0]), (-1.0, -1.0), ([[-1.0]], [[-1.0]]), ([-1.0], -1.0)]
)
def test_ratios_take_two_vectors_of_one_length(function, new, old):
    with pytest.raises(ValueError, match=r"new_logps has shape .*, old_logps .*: pass the log-probs"):
        function(new, old)


# --- clip -----------------------------------------------------------------------------------------------------


def test_case_d3_both_signs_of_the_advantage():
    surrogate = clipped_surrogate([2, 0.5, 2, 0.5], [-1, -1, 1, 1])
    np.testing.assert_allclose(surrogate, [-2.0, -0.8, 1.2, 0.5])
    np.testing.assert_array_equal(clip_gate([2, 0.5, 2, 0.5], [-1, -1, 1, 1]), [True, False, False, True])
    assert clip_fraction([2, 0.5, 2, 0.5], [-1, -1, 1, 1]) == 0.5


def test_surrogate_takes_scalars():
    assert clipped_surrogate(2, -1) == -2.0
    np.testing.assert_allclose(clipped_surrogate(2, [1.0, -1.0]), [1.2, -2.0])
    np.testing.assert_allclose(clipped_surrogate([2.0, 0.5], 1), [1.2, 0.5])
    assert clip_gate(1.0, 1.0) and not clip_gate(1.21, 1.0)


def test_surrogate_uses_the_eps_it_is_given():
    np.testing.assert_allclose(clipped_surrogate([2, 0.1], [1, -1], eps=0.5), [1.5, -0.5])
    np.testing.assert_allclose(clipped_surrogate([2, 0.1], [1, -1], eps=0), [1.0, -1.0])
    np.testing.assert_array_equal(clip_gate([1.4, 0.6], [1, -1], eps=0.5), [True, True])
    assert clip_fraction([1.4, 0.6], [1, -1], clip_eps=0.5) == 0.0


def test_ratio_one_gives_exactly_the_advantage():
    advantages = np.array([-1.5, 0.0, 0.3, 2.0])
    np.testing.assert_array_equal(clipped_surrogate(np.ones(4), advantages), advantages)
    assert clip_gate(np.ones(4), advantages).all()


def test_gate_is_open_on_the_edge_and_at_advantage_zero():
    np.testing.assert_array_equal(clip_gate([1.5, 0.5], [1, -1], eps=0.5), [True, True])
    np.testing.assert_array_equal(clip_gate([9.0, 0.1], [0, 0]), [True, True])


@few
@given(st.floats(0, 5), st.floats(-5, 5), st.floats(0, 1))
def test_surrogate_is_the_pessimistic_one(ratio, advantage, eps):
    surrogate = clipped_surrogate(ratio, advantage, eps)
    clipped = min(max(ratio, 1 - eps), 1 + eps)
    assert surrogate == min(ratio * advantage, clipped * advantage)
    # The gate says whether the unclipped branch, the one with a gradient, is the minimum.
    assert clip_gate(ratio, advantage, eps) == (surrogate == ratio * advantage)


@few
@given(st.floats(-2, 2), st.sampled_from([-1.3, 0.7]))
def test_gate_gives_the_derivative(log_ratio, advantage):
    if min(abs(log_ratio - np.log(1.2)), abs(log_ratio - np.log(0.8))) < 1e-3:
        return  # a kink has no derivative
    ratio = np.exp(log_ratio)
    slope = finite_diff_gradient(lambda x: clipped_surrogate(np.exp(x), advantage), log_ratio)
    assert abs(slope - clip_gate(ratio, advantage) * advantage * ratio) < 1e-6


def test_surrogate_passes_nan_on():
    np.testing.assert_array_equal(clipped_surrogate([np.nan, 1.0], [1.0, 1.0]), [np.nan, 1.0])


@pytest.mark.parametrize("function", [clipped_surrogate, clip_gate])
def test_surrogate_errors(function):
    with pytest.raises(ValueError, match=r"^ratio must be an array of numbers"):
        function("x", 1.0)
    with pytest.raises(ValueError, match=r"^advantage must be an array of numbers"):
        function(1.0, "x")
    for ratio, advantage in ((np.ones(3), np.ones((3, 1))), (np.ones(3), np.ones(1)), (np.ones(2), np.ones(3))):
        with pytest.raises(ValueError, match=r"ratio has shape .*, advantage .*: pass equal shapes"):
            function(ratio, advantage)
    with pytest.raises(ValueError, match=r"ratio is -0\.3 at its lowest: pass exp"):
        function([np.nan, 1.0, -0.3], np.ones(3))
    with pytest.raises(ValueError, match=r"the clip range eps is -0\.2"):
        function(1.0, 1.0, -0.2)


def test_clip_fraction_is_a_share():
    ratios, advantages = [1.3, 1.3, 0.7, 0.7, 1.0], [1, -1, 1, -1, 1]
    assert clip_fraction(ratios, advantages) == pytest.approx(0.4)
    assert clip_fraction(np.ones(3), [1, -1, 0]) == 0.0
    assert clip_fraction([1.3], [1]) == 1.0
    assert type(clip_fraction(ratios, advantages)) is float


def test_clip_fraction_errors():
    with pytest.raises(ValueError, match="ratios has shape"):
        clip_fraction(1.0, [1.0])
    with pytest.raises(ValueError, match="advantages has shape"):
        clip_fraction([1.0], 1.0)
    with pytest.raises(ValueError, match=r"ratios\[0\] is nan"):
        clip_fraction([np.nan], [1.0])
    with pytest.raises(ValueError, match="pass equal shapes"):
        clip_fraction([1.0, 1.0], [1.0])


# --- KL -------------------------------------------------------------------------------------------------------


def test_case_d4_k3_and_its_slope():
    delta = np.log(0.25) - np.log(0.5)
    assert kl_k3(delta) == pytest.approx(0.1931, abs=5e-5)
    assert kl_k3(-delta) == pytest.approx(0.3069, abs=5e-5)  # the ratio upside down
    assert kl_k1(delta) == pytest.approx(0.6931, abs=5e-5)
    assert kl_k2(delta) == pytest.approx(0.6931**2 / 2, abs=5e-5)
    assert kl_k3_slope(delta) == pytest.approx(0.5)


def test_case_d4_k3_is_exact_in_expectation():
    policy, reference = np.array([0.5, 0.5]), np.array([0.25, 0.75])
    deltas = np.log(reference / policy)
    assert policy @ kl_k3(deltas) == pytest.approx(0.14384, abs=5e-6)
    assert policy @ kl_k1(deltas) == pytest.approx(0.14384, abs=5e-6)


def test_k3_by_sampling_within_five_standard_errors():
    assert categorical_kl(P, Q) == pytest.approx(0.0261, abs=5e-5)
    deltas = np.log(Q / P)[np.random.default_rng(0).choice(5, size=400_000, p=P)]
    samples = kl_k3(deltas)
    standard_error = samples.std(ddof=1) / np.sqrt(samples.size)
    assert abs(samples.mean() - categorical_kl(P, Q)) < 5 * standard_error
    # The same bound notices a factor of 1.3, which an absolute .01 would let pass.
    assert abs(1.3 * samples.mean() - categorical_kl(P, Q)) > 5 * standard_error > 5e-5
    assert (kl_k1(deltas) < 0).mean() > 0.05
    assert kl_k1(deltas).var() > 10 * samples.var()


@few
@given(st.floats(-700, 79))
def test_k3_is_never_negative(delta):
    assert kl_k3(delta) >= 0.0
    assert kl_k2(delta) >= 0.0
    assert kl_k3(delta) == pytest.approx(np.expm1(delta) - delta)


@pytest.mark.parametrize("scale", 10.0 ** np.arange(-18, 1))
def test_k3_is_never_negative_in_floats(scale):
    deltas = scale * np.random.default_rng(1).normal(size=10_000)
    assert kl_k3(deltas).min() >= 0.0
    np.testing.assert_allclose(kl_k3(deltas).mean(), kl_k2(deltas).mean(), rtol=0.5, atol=1e-17)


def test_k3_is_limited():
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        assert kl_k3(80.0) == pytest.approx(np.exp(80) - 81)
        assert kl_k3(1e9) == kl_k3(80.0) < np.finfo(np.float32).max
        assert kl_k3(79.0) < kl_k3(80.0)
        np.testing.assert_array_equal(kl_k3_slope([80.5, 1e9]), [0.0, 0.0])
        assert kl_k3_slope(80.0) == pytest.approx(1 - np.exp(80))


@few
@given(st.floats(-5, 5))
def test_k3_slope_is_the_derivative(logp_difference):
    slope = finite_diff_gradient(lambda logp: kl_k3(-logp), logp_difference)
    assert kl_k3_slope(-logp_difference) == pytest.approx(slope, rel=1e-7, abs=1e-8)


@pytest.mark.parametrize("function", [kl_k1, kl_k2, kl_k3, kl_k3_slope])
def test_kl_estimators_keep_the_shape(function):
    assert function(0.0) == 0.0
    assert isinstance(function(0), np.float64)
    assert function([[0.0, 1.0, 2.0]]).shape == (1, 3)
    assert np.isnan(function([np.nan, 0.0])[0])
    with pytest.raises(ValueError, match="delta must be an array of numbers"):
        function("x")


# --- loss -----------------------------------------------------------------------------------------------------


def test_grpo_loss_by_hand():
    ratios, advantages, deltas = [2, 0.5, 2, 0.5], [-1, -1, 1, 1], [0.0, np.log(2), 0.0, 0.0]
    assert grpo_loss(ratios, advantages, deltas) == pytest.approx(1.1 / 4)
    assert grpo_loss(ratios, advantages, deltas, kl_coef=0.5) == pytest.approx((1.1 + 0.5 * (1 - np.log(2))) / 4)
    assert grpo_loss(ratios, advantages, deltas, clip_eps=0.5) == pytest.approx((2 + 0.5 - 1.5 - 0.5) / 4)
    assert type(grpo_loss(ratios, advantages, deltas)) is float


def test_loss_is_minus_the_mean_advantage_at_ratio_one():
    assert grpo_loss(np.ones(3), [1.0, 2.0, 3.0], np.zeros(3)) == -2.0


def test_deltas_zero_make_the_kl_coefficient_irrelevant():
    batch = ([1.1, 0.9], [1.0, -1.0], [0.0, 0.0])
    assert grpo_loss(*batch, kl_coef=10.0) == grpo_loss(*batch, kl_coef=0.0)


def test_kl_counts_where_the_advantage_is_zero():
    assert grpo_loss([1.0, 1.0], [0.0, 0.0], [1.0, 1.0], kl_coef=2.0) == pytest.approx(2 * (np.e - 2))


def test_convention_c12_micro_batches():
    rng = np.random.default_rng(2)
    batch = np.exp(rng.normal(size=12)), rng.normal(size=12), rng.normal(size=12)
    parts = [grpo_loss(*(column[rows : rows + 3] for column in batch), kl_coef=0.3) for rows in range(0, 12, 3)]
    assert np.mean(parts) == pytest.approx(grpo_loss(*batch, kl_coef=0.3), abs=1e-14)


@pytest.mark.parametrize("name", ["ratios", "advantages", "deltas"])
def test_convention_c15_loss_takes_three_vectors_of_one_length(name):
    for wrong, message in (
        (np.ones((4, 1)), f"^{name} has shape"),
        (1.0, f"^{name} has shape"),
        ([], f"^{name} is empty"),
        ([1.0, np.nan, 1.0, 1.0], rf"^{name}\[1\] is nan"),
        (["a"], f"^{name} must be an array of numbers"),
        (np.ones(3), f"3 {name}.*: pass one of each per rollout"),
        (np.ones(1), f"1 {name}.*: pass one of each per rollout"),
    ):
        batch = dict.fromkeys(("ratios", "advantages", "deltas"), np.ones(4))
        with pytest.raises(ValueError, match=message):
            grpo_loss(**batch | {name: wrong})


def test_grpo_loss_checks_its_settings():
    with pytest.raises(ValueError, match=r"kl_coef is -0\.1"):
        grpo_loss([1.0], [1.0], [0.0], kl_coef=-0.1)
    with pytest.raises(ValueError, match=r"the clip range eps is -0\.1"):
        grpo_loss([1.0], [1.0], [0.0], clip_eps=-0.1)
    with pytest.raises(ValueError, match=r"ratio is -1\.0 at its lowest"):
        grpo_loss([-1.0], [1.0], [0.0])


# --- averaging over tokens ------------------------------------------------------------------------------------

D8_LOSSES = np.array([[1.0, 1.0, np.nan, np.nan], [4.0, 4.0, 4.0, 4.0]])
D8_MASK = np.array([[1, 1, 0, 0], [1, 1, 1, 1]])
D8 = {"rollout_sum": 9.0, "rollout_mean": 2.5, "token_mean": 3.0, "constant": 2.25}


def aggregate(losses, mask, how):
    return aggregate_token_losses(losses, mask, how, length=4 if how == "constant" else None)


@pytest.mark.parametrize("how", D8)
def test_case_d8_four_ways_to_average(how):
    value = aggregate(D8_LOSSES, D8_MASK, how)
    assert value == D8[how] and type(value) is float


@pytest.mark.parametrize("how", D8)
def test_case_d8_one_rollout_micro_batches(how):
    parts = [aggregate(D8_LOSSES[[row]], D8_MASK[[row]], how) for row in range(2)]
    # Each part counts by its share of the full batch's divisor: for the token mean that is its share of tokens.
    shares = D8_MASK.sum(axis=1) / D8_MASK.sum() if how == "token_mean" else np.array([0.5, 0.5])
    assert shares @ parts == pytest.approx(D8[how])
    if how == "token_mean":
        assert np.mean(parts) == 2.5  # the mean of means, where 3.0 is due


@pytest.mark.parametrize("how", D8)
def test_case_d9_everything_masked(how):
    assert aggregate([[1.0, np.nan], [np.inf, 1.0]], np.zeros((2, 2)), how) == 0.0


def test_case_d9_masked_tokens_are_not_in_the_divisor():
    losses, mask = np.full((1, 8), 1.0), [[1, 1, 0, 0, 0, 0, 0, 0]]
    assert aggregate_token_losses(losses, mask, "rollout_mean") == 1.0
    assert aggregate_token_losses(losses, mask, "token_mean") == 1.0


def test_a_rollout_without_tokens_counts_as_a_rollout():
    losses, mask = [[2.0, 2.0], [5.0, 5.0]], [[1, 1], [0, 0]]
    assert aggregate_token_losses(losses, mask, "rollout_sum") == 2.0
    assert aggregate_token_losses(losses, mask, "rollout_mean") == 1.0
    assert aggregate_token_losses(losses, mask, "token_mean") == 2.0
    assert aggregate_token_losses(losses, mask, "constant", length=1) == 2.0


def test_one_kept_token_is_divided_by_one():
    assert aggregate_token_losses([[3.0, 9.0]], [[1, 0]], "rollout_mean") == 3.0
    assert aggregate_token_losses([[3.0, 9.0]], [[1, 0]], "token_mean") == 3.0


def test_aggregate_errors():
    with pytest.raises(ValueError, match=r"^token_losses must be an array of numbers"):
        aggregate_token_losses([[1.0], [1.0, 2.0]], np.ones((2, 2)), "token_mean")
    for losses in ([1.0, 2.0], np.ones((1, 1, 1)), np.ones((0, 3))):
        with pytest.raises(ValueError, match=r"token_losses has shape .*: pass \(N, T\)"):
            aggregate_token_losses(losses, np.ones(np.shape(losses)), "token_mean")
    with pytest.raises(ValueError, match="mask has shape"):
        aggregate_token_losses(np.ones((2, 3)), np.ones(3), "token_mean")
    with pytest.raises(ValueError, match="length is None with how='constant'"):
        aggregate_token_losses(np.ones((2, 3)), np.ones((2, 3)), "constant")
    with pytest.raises(ValueError, match="length is 3 with how='token_mean'"):
        aggregate_token_losses(np.ones((2, 3)), np.ones((2, 3)), "token_mean", length=3)
    with pytest.raises(ValueError, match="length is 0: it must be at least 1"):
        aggregate_token_losses(np.ones((2, 3)), np.ones((2, 3)), "constant", length=0)
    with pytest.raises(ValueError, match="how is 'mean': choose 'rollout_sum'"):
        aggregate_token_losses(np.ones((2, 3)), np.ones((2, 3)), "mean")
