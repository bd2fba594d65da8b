"""grpo.gradients: every closed form against central differences, and the whole chain on the toy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo import (
    categorical_kl,
    extract_boxed_strict,
    finite_diff_gradient,
    full_objective,
    full_objective_gradient,
    group_relative_advantage,
    group_rollouts,
    grpo_loss,
    k_loss_expected_gradient,
    kl_k1,
    kl_k2,
    kl_k3,
    log_softmax,
    policy_gradient_analytic,
    policy_gradient_objective,
    reverse_kl_gradient,
    reward_rlvr,
    rollout_ratio,
    sample_group,
    score_completions,
    softmax,
    toy_grpo_step,
    toy_loss,
    toy_loss_gradient,
)

few = settings(derandomize=True, max_examples=20, deadline=None)
seeds = st.integers(0, 2**32 - 1)

# The running example: four answers, each sampled once, the first two right.
ACTIONS = np.arange(4)
ADVANTAGES = np.sqrt(0.75) * np.array([1, 1, -1, -1])
REFERENCE = np.array([0.20, -0.10, 0.05, -0.15])
START = REFERENCE + np.array([0.30, 0.20, -0.25, -0.25])

# Case D1: two answers, one sample of each, rewards 1 and 0 (eps 0).
D1_ACTIONS, D1_ADVANTAGES = np.array([0, 1]), np.array([1, -1]) / np.sqrt(2)


def random_batch(seed, answers=4, rollouts=7):
    """Logits, actions, advantages that do not sum to 0, and old and reference log-probs of other policies."""
    rng = np.random.default_rng(seed)
    logits, old, reference = rng.normal(size=(3, answers))
    actions = rng.integers(answers, size=rollouts)
    advantages = rng.normal(0.5, 1, size=rollouts)
    return logits, actions, advantages, log_softmax(old)[actions], log_softmax(reference)[actions]


# --- softmax, finite differences, exact KL --------------------------------------------------------------------


def test_softmax():
    np.testing.assert_allclose(softmax(np.log([0.2, 0.3, 0.5])), [0.2, 0.3, 0.5])
    np.testing.assert_array_equal(softmax([[1e4, 0.0], [0.0, -np.inf]]), [[1, 0], [1, 0]])


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_finite_differences_for_any_shape(shape):
    x = np.random.default_rng(0).normal(size=shape)
    gradient = finite_diff_gradient(lambda y: (y**3).sum(), x)
    assert gradient.shape == shape
    np.testing.assert_allclose(gradient, 3 * x**2, atol=1e-6)


def test_finite_differences_are_central():
    # Exact for a parabola; a one-sided difference would be off by h.
    assert finite_diff_gradient(lambda y: y @ y, [1.0], h=0.5) == pytest.approx(2.0, abs=1e-12)
    assert finite_diff_gradient(lambda y: y[0] ** 3, [1.0], h=0.5) == pytest.approx(3.25, abs=1e-12)
    # The default step is 1e-5: the error of a cube is its square.
    assert finite_diff_gradient(lambda y: 1e6 * y[0] ** 3, [0.0]) == pytest.approx(1e-4, rel=1e-6)


def test_finite_differences_do_not_change_x():
    x = np.array([1.0, 2.0])

    def f(y):
        value = y @ y
        y[:] = 0.0  # not even when f spoils what it is given
        return value

    np.testing.assert_allclose(finite_diff_gradient(f, x), [2.0, 4.0], atol=1e-6)
    np.testing.assert_array_equal(x, [1.0, 2.0])


def test_finite_differences_take_ints():
    np.testing.assert_allclose(finite_diff_gradient(lambda y: y @ y, [1, 2]), [2.0, 4.0], atol=1e-6)


def test_finite_differences_errors():
    for h in (0, -1e-5, np.nan):
        with pytest.raises(ValueError, match="h is"):
            finite_diff_gradient(lambda y: y.sum(), [1.0], h=h)
    with pytest.raises(ValueError, match=r"^x must be an array of numbers"):
        finite_diff_gradient(lambda y: y.sum(), "x")
    with pytest.raises(ValueError, match=r"^f\(x\) must be an array of numbers"):
        finite_diff_gradient(lambda y: "one", [1.0])
    for f in (lambda y: y, lambda y: [y.sum()]):
        with pytest.raises(ValueError, match=r"f returned an array of shape \(1,\)"):
            finite_diff_gradient(f, [1.0])


def test_categorical_kl():
    assert categorical_kl([0.5, 0.5], [0.25, 0.75]) == pytest.approx(0.14384, abs=5e-6)
    assert categorical_kl([0.25, 0.75], [0.5, 0.5]) == pytest.approx(0.13081, abs=5e-6)
    assert categorical_kl([0.3, 0.7], [0.3, 0.7]) == 0.0
    assert type(categorical_kl([0.3, 0.7], [0.3, 0.7])) is float


def test_categorical_kl_with_zeros():
    with np.errstate(all="raise"):
        assert categorical_kl([1.0, 0.0], [0.5, 0.5]) == pytest.approx(np.log(2))
        assert categorical_kl([1.0, 0.0], [1.0, 0.0]) == 0.0
        assert categorical_kl([0.5, 0.5, 0.0], [0.25, 0.25, 0.5]) == pytest.approx(np.log(2))
        assert categorical_kl([0.5, 0.5], [1.0, 0.0]) == np.inf
        assert categorical_kl([0.5, 0.5, 0.0], [0.5, 0.0, 0.5]) == np.inf


@pytest.mark.parametrize("bad", [[0.5, 0.6], [0.5, 0.4], [1.5, -0.5], [0.5, 0.5 + 1.5e-6], [50, 50]])
def test_categorical_kl_wants_probabilities(bad):
    with pytest.raises(ValueError, match=r"p is .*: pass probabilities"):
        categorical_kl(bad, [0.5, 0.5])
    with pytest.raises(ValueError, match=r"q is .*: pass probabilities"):
        categorical_kl([0.5, 0.5], bad)


def test_categorical_kl_errors():
    assert categorical_kl([0.5, 0.5 + 5e-7], [0.5, 0.5]) == pytest.approx(0.0, abs=1e-6)
    with pytest.raises(ValueError, match="p: 2, q: 4"):
        categorical_kl([0.5, 0.5], [0.25] * 4)
    with pytest.raises(ValueError, match=r"q\[1\] is nan"):
        categorical_kl([0.5, 0.5], [0.5, np.nan])


@few
@given(seeds)
def test_exact_kl_is_not_negative_and_its_gradient_is_right(seed):
    logits, reference = np.random.default_rng(seed).normal(size=(2, 5))
    kl = categorical_kl(softmax(logits), softmax(reference))
    assert kl >= 0.0
    numeric = finite_diff_gradient(lambda x: categorical_kl(softmax(x), softmax(reference)), logits)
    np.testing.assert_allclose(reverse_kl_gradient(logits, reference), numeric, atol=1e-8)


def test_at_the_reference_the_penalty_has_no_gradient():
    np.testing.assert_array_equal(reverse_kl_gradient(REFERENCE, REFERENCE), np.zeros(4))
    logps = log_softmax(REFERENCE)
    gradient = toy_loss_gradient(REFERENCE, ACTIONS, np.zeros(4), logps, logps, kl_coef=10.0)
    np.testing.assert_array_equal(gradient, np.zeros(4))


# --- the score-function gradient ------------------------------------------------------------------------------


@pytest.mark.parametrize("advantages", [ADVANTAGES, [1.0, 1.0, 0.0, 0.0], [2.0, -0.3, 0.1, 0.7]])
@pytest.mark.parametrize("logits", [np.zeros(4), START, [2.0, -1.0, 0.5, 0.0]])
def test_analytic_gradient_against_central_differences(logits, advantages):
    numeric = finite_diff_gradient(lambda x: policy_gradient_objective(x, ACTIONS, advantages), logits)
    analytic = policy_gradient_analytic(logits, ACTIONS, advantages)
    np.testing.assert_allclose(analytic, numeric, rtol=0, atol=1e-6)
    assert abs(analytic.sum()) < 1e-15


def test_closed_form_at_the_uniform_start():
    np.testing.assert_allclose(policy_gradient_analytic(np.zeros(4), ACTIONS, ADVANTAGES), ADVANTAGES / 4)


def test_minus_p_matters_only_when_advantages_do_not_sum_to_zero():
    without_p = ADVANTAGES / 4
    np.testing.assert_allclose(policy_gradient_analytic(START, ACTIONS, ADVANTAGES), without_p, atol=1e-15)
    raw_rewards = np.array([1.0, 1.0, 0.0, 0.0])
    difference = policy_gradient_analytic(START, ACTIONS, raw_rewards) - raw_rewards / 4
    np.testing.assert_allclose(difference, -softmax(START) / 2)


def test_policy_gradient_objective_by_hand():
    value = policy_gradient_objective(np.log([0.25, 0.75]), [1, 1, 0], [1.0, 2.0, -1.0])
    assert value == pytest.approx((3 * np.log(0.75) - np.log(0.25)) / 3)
    assert type(value) is float


def test_one_step_raises_right_answers_and_lowers_wrong_ones():
    change = softmax(START + 0.1 * policy_gradient_analytic(START, ACTIONS, ADVANTAGES)) - softmax(START)
    np.testing.assert_array_equal(np.sign(change), np.sign(ADVANTAGES))


@few
@given(seeds)
def test_surrogate_at_ratio_one_has_the_policy_gradient(seed):
    logits, actions, advantages, _, _ = random_batch(seed)
    old_logps = log_softmax(logits)[actions]
    gradient = toy_loss_gradient(logits, actions, advantages, old_logps, old_logps)
    np.testing.assert_allclose(gradient, -policy_gradient_analytic(logits, actions, advantages), atol=1e-15)


def batch_functions():
    """Every function of (logits, actions, advantages, ...), with the rest filled in."""
    return {
        "objective": policy_gradient_objective,
        "analytic": policy_gradient_analytic,
        "full": lambda x, a, adv: full_objective(x, a, adv, np.zeros(np.size(x)), 0.1),
        "full_gradient": lambda x, a, adv: full_objective_gradient(x, a, adv, np.zeros(np.size(x)), 0.1),
        "loss": lambda x, a, adv: toy_loss(x, a, adv, np.full(2, -1.0), np.full(2, -1.0)),
        "loss_gradient": lambda x, a, adv: toy_loss_gradient(x, a, adv, np.full(2, -1.0), np.full(2, -1.0)),
    }


@pytest.mark.parametrize("name", batch_functions())
@pytest.mark.parametrize(
    ("logits", "actions", "advantages", "message"),
    [
        ([0.0, np.nan], [0, 1], [1.0, 1.0], r"logits\[1\] is nan"),
        ([[0.0, 0.0]], [0, 1], [1.0, 1.0], r"logits has shape"),
        ([0.0, 0.0], [0, 2], [1.0, 1.0], r"actions\[1\] is 2: answers are numbered 0 .. 1"),
        ([0.0, 0.0], [-1, 5], [1.0, 1.0], r"actions\[0\] is -1: answers"),
        ([0.0, 0.0], [0.0, 1.0], [1.0, 1.0], r"actions has dtype float64"),
        ([0.0, 0.0], [[0], [1]], [1.0, 1.0], r"actions has shape \(2, 1\)"),
        ([0.0, 0.0], [0, 1], [[1.0], [1.0]], r"advantages has shape \(2, 1\)"),
        ([0.0, 0.0], [0, 1], [1.0, np.inf], r"advantages\[1\] is inf"),
        ([0.0, 0.0], [0, 1], [1.0], r"actions: 2, advantages: 1"),
    ],
)
def test_bad_batches_are_named(name, logits, actions, advantages, message):
    with pytest.raises(ValueError, match=message):
        batch_functions()[name](logits, actions, advantages)


# --- the objective with an exact KL ---------------------------------------------------------------------------


@few
@given(seeds, st.sampled_from([0.0, 0.1, 10.0]))
def test_full_objective_gradient_against_central_differences(seed, kl_coef):
    logits, actions, advantages, _, _ = random_batch(seed)
    arguments = actions, advantages, REFERENCE, kl_coef
    numeric = finite_diff_gradient(lambda x: full_objective(x, *arguments), logits)
    np.testing.assert_allclose(full_objective_gradient(logits, *arguments), numeric, rtol=0, atol=1e-6)


def test_full_objective_by_hand():
    gain = policy_gradient_objective(START, ACTIONS, ADVANTAGES)
    kl = categorical_kl(softmax(START), softmax(REFERENCE))
    assert full_objective(START, ACTIONS, ADVANTAGES, REFERENCE, 2.0) == pytest.approx(gain - 2 * kl, abs=1e-15)


@pytest.mark.parametrize(("kl_coef", "distance"), [(0.1, 1.50), (10.0, 0.51)])
def test_toy_proof_a_large_penalty_pulls_back_to_the_reference(kl_coef, distance):
    # The distance is the sum of absolute differences of the logits.
    assert np.abs(START - REFERENCE).sum() == pytest.approx(1.0)
    advantages = group_relative_advantage([1, 1, 0, 0], 4).ravel()
    logits = START
    for _ in range(20):
        logits = logits + 0.03 * full_objective_gradient(logits, ACTIONS, advantages, REFERENCE, kl_coef)
    assert np.abs(logits - REFERENCE).sum() == pytest.approx(distance, abs=5e-3)


@pytest.mark.parametrize("function", [full_objective, full_objective_gradient])
def test_full_objective_errors(function):
    with pytest.raises(ValueError, match="logits: 4, ref_logits: 3"):
        function(START, ACTIONS, ADVANTAGES, REFERENCE[:3], 0.1)
    with pytest.raises(ValueError, match=r"ref_logits\[0\] is nan"):
        function(START, ACTIONS, ADVANTAGES, [np.nan, 0, 0, 0], 0.1)
    with pytest.raises(ValueError, match="kl_coef is -1"):
        function(START, ACTIONS, ADVANTAGES, REFERENCE, -1)


# --- KL estimators as losses ----------------------------------------------------------------------------------

C11_LOGITS, C11_REFERENCE = [0.5, -0.3, 0.1], [1.0, 0.0, -1.0]


@pytest.mark.parametrize(
    ("kind", "gradient"),
    [("k1", (0, 0, 0)), ("k2", (-0.2587, -0.0739, 0.3326)), ("k3", (-0.1935, -0.0327, 0.2262))],
)
def test_convention_c11_expected_gradients(kind, gradient):
    np.testing.assert_allclose(k_loss_expected_gradient(kind, C11_LOGITS, C11_REFERENCE), gradient, rtol=0, atol=5e-5)


def test_convention_c11_which_kl_each_descends():
    policy, reference = softmax(C11_LOGITS), softmax(C11_REFERENCE)
    k2 = k_loss_expected_gradient("k2", C11_LOGITS, C11_REFERENCE)
    np.testing.assert_allclose(k2, reverse_kl_gradient(C11_LOGITS, C11_REFERENCE), atol=1e-15)
    forward = finite_diff_gradient(lambda x: categorical_kl(reference, softmax(x)), C11_LOGITS)
    k3 = k_loss_expected_gradient("k3", C11_LOGITS, C11_REFERENCE)
    np.testing.assert_allclose(k3, forward, atol=1e-9)
    np.testing.assert_allclose(k3, policy - reference, atol=1e-15)


@pytest.mark.parametrize(("kind", "estimator"), [("k1", kl_k1), ("k2", kl_k2), ("k3", kl_k3)])
def test_expected_gradient_is_that_of_the_loss_with_frozen_samples(kind, estimator):
    weights, reference = softmax(C11_LOGITS), log_softmax(C11_REFERENCE)
    numeric = finite_diff_gradient(lambda x: weights @ estimator(reference - log_softmax(x)), C11_LOGITS)
    analytic = k_loss_expected_gradient(kind, C11_LOGITS, C11_REFERENCE)
    np.testing.assert_allclose(analytic, numeric, rtol=0, atol=1e-9)


def test_k_loss_errors():
    with pytest.raises(ValueError, match="kind is 'k4': choose 'k1', 'k2' or 'k3'"):
        k_loss_expected_gradient("k4", C11_LOGITS, C11_REFERENCE)
    for function in (reverse_kl_gradient, lambda x, ref: k_loss_expected_gradient("k2", x, ref)):
        with pytest.raises(ValueError, match="logits: 3, ref_logits: 2"):
            function(C11_LOGITS, [0.0, 1.0])
        with pytest.raises(ValueError, match=r"logits\[1\] is inf"):
            function([0.0, np.inf], [0.0, 1.0])
        with pytest.raises(ValueError, match="ref_logits has shape"):
            function([0.0, 1.0], 1.0)


# --- sampling -------------------------------------------------------------------------------------------------


def test_sample_group_follows_the_policy():
    probs, size = np.array([0.5, 0.3, 0.2, 0.0]), 20_000
    with np.errstate(divide="ignore"):
        logits = np.maximum(np.log(probs), -1e3)
    actions = sample_group(logits, size, np.random.default_rng(0))
    assert actions.shape == (size,) and actions.dtype.kind == "i"
    shares = np.bincount(actions, minlength=4) / size
    assert np.all(np.abs(shares - probs) <= 5 * np.sqrt(probs * (1 - probs) / size))


def test_sample_group_advances_the_generator():
    rng = np.random.default_rng(0)
    first, second = (sample_group(np.zeros(4), 20, rng) for _ in range(2))
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(first, sample_group(np.zeros(4), 20, np.random.default_rng(0)))
    assert sample_group([0.0, 1.0], 1, rng).shape == (1,)


def test_sample_group_errors():
    rng = np.random.default_rng(0)
    for bad in (0, np.random.RandomState(0), None):
        with pytest.raises(ValueError, match=r"rng is .*: pass a generator"):
            sample_group(np.zeros(4), 2, bad)
    with pytest.raises(ValueError, match="group_size is 0: it must be at least 1"):
        sample_group(np.zeros(4), 0, rng)
    with pytest.raises(ValueError, match="logits has shape"):
        sample_group(np.zeros((2, 2)), 2, rng)


# --- the GRPO loss on the toy ---------------------------------------------------------------------------------


def test_case_d1_zero_loss_with_a_gradient():
    logps = np.log([0.5, 0.5])
    assert toy_loss([0, 0], D1_ACTIONS, D1_ADVANTAGES, logps, logps) == 0.0
    gradient = toy_loss_gradient([0, 0], D1_ACTIONS, D1_ADVANTAGES, logps, logps)
    np.testing.assert_allclose(gradient, [-0.35355, 0.35355], rtol=0, atol=5e-6)


def test_toy_loss_is_grpo_loss_with_one_rollout_per_action():
    logits, actions, advantages, old_logps, ref_logps = random_batch(5)
    new_logps = log_softmax(logits)[actions]
    ratios = [rollout_ratio([new], [old]) for new, old in zip(new_logps, old_logps, strict=True)]
    for clip_eps, kl_coef in ((0.2, 0.0), (0.2, 0.7), (0.5, 0.7)):
        expected = grpo_loss(ratios, advantages, ref_logps - new_logps, clip_eps, kl_coef)
        value = toy_loss(logits, actions, advantages, old_logps, ref_logps, clip_eps, kl_coef)
        assert value == pytest.approx(expected, abs=1e-14)
    defaults = toy_loss(logits, actions, advantages, old_logps, ref_logps)
    assert defaults == toy_loss(logits, actions, advantages, old_logps, ref_logps, 0.2, 0.0)


@few
@given(seeds, st.sampled_from([0.0, 0.04, 2.0]), st.sampled_from([0.05, 0.2, 0.9]))
def test_toy_loss_gradient_against_central_differences(seed, kl_coef, clip_eps):
    logits, *batch = random_batch(seed)
    numeric = finite_diff_gradient(lambda x: toy_loss(x, *batch, clip_eps, kl_coef), logits)
    analytic = toy_loss_gradient(logits, *batch, clip_eps, kl_coef)
    np.testing.assert_allclose(analytic, numeric, rtol=1e-6, atol=1e-7)
    assert abs(analytic.sum()) < 1e-12


def test_toy_loss_gradient_defaults():
    logits, *batch = random_batch(3)
    np.testing.assert_array_equal(toy_loss_gradient(logits, *batch), toy_loss_gradient(logits, *batch, 0.2, 0.0))


def test_convention_c12_micro_batch_gradients_add_up():
    logits, *batch = random_batch(7, rollouts=12)
    parts = [
        toy_loss_gradient(logits, *(column[rows : rows + 4] for column in batch), kl_coef=0.3)
        for rows in range(0, 12, 4)
    ]
    np.testing.assert_allclose(np.mean(parts, axis=0), toy_loss_gradient(logits, *batch, kl_coef=0.3), atol=1e-14)


@pytest.mark.parametrize("function", [toy_loss, toy_loss_gradient])
def test_toy_loss_errors(function):
    logps = np.log([0.5, 0.5])
    with pytest.raises(ValueError, match="actions: 2, advantages: 2, old_logps: 1, ref_logps: 2"):
        function([0, 0], D1_ACTIONS, D1_ADVANTAGES, logps[:1], logps)
    with pytest.raises(ValueError, match=r"ref_logps\[0\] is -inf"):
        function([0, 0], D1_ACTIONS, D1_ADVANTAGES, logps, [-np.inf, 0.0])
    with pytest.raises(ValueError, match="kl_coef is -1"):
        function([0, 0], D1_ACTIONS, D1_ADVANTAGES, logps, logps, kl_coef=-1)
    with pytest.raises(ValueError, match="eps is -1"):
        function([0, 0], D1_ACTIONS, D1_ADVANTAGES, logps, logps, clip_eps=-1)


# --- steps ----------------------------------------------------------------------------------------------------


def step(logits, old_logits, **settings):
    zeros = np.zeros(2)
    return toy_grpo_step(logits, zeros, old_logits, D1_ACTIONS, [1, 0], 1.0, advantage_eps=0, **settings)


def test_case_e1_two_inner_steps():
    start = np.zeros(2)
    first = step(start, start)
    np.testing.assert_allclose(first, [0.3536, -0.3536], rtol=0, atol=5e-5)
    assert softmax(first)[0] == pytest.approx(0.6698, abs=5e-5)
    old_logps = log_softmax(start)
    np.testing.assert_allclose(np.exp(log_softmax(first) - old_logps), [1.3395, 0.6605], rtol=0, atol=5e-5)

    gradient = toy_loss_gradient(first, D1_ACTIONS, D1_ADVANTAGES, old_logps, old_logps)
    np.testing.assert_array_equal(gradient, [0.0, 0.0])
    np.testing.assert_array_equal(step(first, start), first)
    refreshed = step(first, first)  # the mistake: old follows the current policy
    np.testing.assert_allclose(refreshed, [0.7071, -0.7071], rtol=0, atol=5e-5)


def test_step_uses_its_settings():
    start = np.zeros(2)
    first = step(start, start)
    assert not np.array_equal(step(first, start, clip_eps=0.5), first)
    pulled_back = step(first, start, kl_coef=0.5)
    assert 0 < pulled_back[0] < first[0]

    gradient = step(start, start) - start
    for learning_rate in (0.0, 0.25):
        moved = toy_grpo_step(start, start, start, D1_ACTIONS, [1, 0], learning_rate=learning_rate, advantage_eps=0)
        np.testing.assert_allclose(moved, learning_rate * gradient, atol=1e-15)
    np.testing.assert_allclose(
        toy_grpo_step(start, start, start, D1_ACTIONS, [1, 0]), 0.1 * np.array([0.5, -0.5]) * 0.70700679, atol=1e-9
    )


def test_step_defaults():
    logits, old, reference = np.random.default_rng(3).normal(size=(3, 4))
    batch = [0, 1, 2, 3, 0, 1], [1, 0, 0, 1, 0.5, 0]
    default = toy_grpo_step(logits, reference, old, *batch)
    np.testing.assert_array_equal(default, toy_grpo_step(logits, reference, old, *batch, 0.1, 0.2, 0.0, 1e-4))


def test_step_is_one_descent_step_of_the_loss():
    logits, old, reference = np.random.default_rng(4).normal(size=(3, 4))
    actions, rewards = np.array([0, 1, 2, 3, 0, 1]), [1, 0, 0, 1, 0.5, 0]
    advantages = group_relative_advantage(rewards, 6).ravel()
    gradient = finite_diff_gradient(
        lambda x: toy_loss(
            x, actions, advantages, log_softmax(old)[actions], log_softmax(reference)[actions], 0.3, 0.7
        ),
        logits,
    )
    moved = toy_grpo_step(logits, reference, old, actions, rewards, 0.5, 0.3, 0.7)
    np.testing.assert_allclose(moved, logits - 0.5 * gradient, atol=1e-8)


def test_step_without_signal_changes_nothing():
    np.testing.assert_array_equal(toy_grpo_step(START, REFERENCE, START, ACTIONS, np.ones(4)), START)


def test_step_errors():
    zeros = np.zeros(2)
    with pytest.raises(ValueError, match="logits: 2, ref_logits: 3"):
        toy_grpo_step(zeros, np.zeros(3), zeros, D1_ACTIONS, [1, 0])
    with pytest.raises(ValueError, match="logits: 2, old_logits: 3"):
        toy_grpo_step(zeros, zeros, np.zeros(3), D1_ACTIONS, [1, 0])
    with pytest.raises(ValueError, match="learning_rate is -1"):
        toy_grpo_step(zeros, zeros, zeros, D1_ACTIONS, [1, 0], learning_rate=-1)
    with pytest.raises(ValueError, match="actions: 2, rewards: 3"):
        toy_grpo_step(zeros, zeros, zeros, D1_ACTIONS, [1, 0, 0])
    with pytest.raises(ValueError, match=r"actions\[1\] is 2"):
        toy_grpo_step(zeros, zeros, zeros, [0, 2], [1, 0])
    with pytest.raises(ValueError, match=r"rewards\[1\] is nan"):
        toy_grpo_step(zeros, zeros, zeros, D1_ACTIONS, [1, np.nan])
    with pytest.raises(ValueError, match="group_size is 1"):
        toy_grpo_step(zeros, zeros, zeros, [0], [1])


def test_the_whole_chain():
    """Sample, group, reward, advantage, log-probs of three policies, ratio, clip, k3, loss, gradient, step."""
    answers = [r"\boxed{83}", r"so it is \boxed{83}", "The answer is 83", r"\boxed{38}"]
    rng = np.random.default_rng(0)
    reference = np.zeros(4)
    logits, losses = reference, []
    for _ in range(40):
        old = logits
        actions = sample_group(old, 8, rng)
        groups = group_rollouts(["83"] * 8, [answers[action] for action in actions], 8)
        rewards = score_completions(
            lambda texts, truths: [reward_rlvr(text, truth) for text, truth in zip(texts, truths, strict=True)],
            groups["83"],
            ["83"] * 8,
        )
        advantages = group_relative_advantage(rewards, 8).ravel()
        old_logps, ref_logps = log_softmax(old)[actions], log_softmax(reference)[actions]
        losses.append(toy_loss(logits, actions, advantages, old_logps, ref_logps))
        for _ in range(2):
            logits = toy_grpo_step(logits, reference, old, actions, rewards, 0.5, kl_coef=0.01)

    right = [extract_boxed_strict(answer) == "83" for answer in answers]
    assert softmax(reference)[right].sum() == 0.5
    assert softmax(logits)[right].sum() > 0.9
    # The loss is no progress signal: without the penalty it is 0 at the start of every batch.
    np.testing.assert_allclose(losses, np.zeros(40), atol=1e-12)
