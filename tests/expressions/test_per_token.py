"""The per-token policies and their loop: what the comparison with the vectorised ones leaves open."""

import numpy as np
import pytest

from grpo.expressions import PREFIXES, MLPPolicy, TabularPolicy, kl_penalty, per_token_policy
from grpo.expressions.per_token import (
    loss_and_gradient,
    next_token_logprobs,
    sample_groups,
    sample_response,
    score_response,
    sgd_step,
)

LAST_UNIFORM = np.nextafter(1.0, 0.0)


class Fixed:
    """A policy with the same logits everywhere, or a generator that draws one number for ever."""

    def __init__(self, value):
        self.value = value

    def logits(self, prompt, prefix):
        return self.value

    def random(self):
        return self.value


def tabular(seed=0, n_seeds=1):
    return TabularPolicy(2, [np.random.default_rng(seed + number) for number in range(n_seeds)], scale=1.0)


def test_the_first_seed_is_the_default():
    policy = tabular(n_seeds=2)
    np.testing.assert_array_equal(per_token_policy(policy).parameters["logits"], policy.parameters["logits"][0])


def test_other_features_of_a_prefix():
    features = np.random.default_rng(0).normal(size=(len(PREFIXES), 3))
    policy = MLPPolicy(np.eye(2), [np.random.default_rng(0)], features, hidden=4)
    view, table = per_token_policy(policy, 0, features), policy.prefix_logprobs()
    for state in (0, 1, 5):
        ours = next_token_logprobs(view, 1, PREFIXES[state])
        np.testing.assert_allclose(ours, table[0, 1, state], rtol=0, atol=1e-12)


def test_the_mask_of_other_numbers():
    logps = next_token_logprobs(Fixed(np.zeros(6)), 0, ["7"], ("1", "7", "9"))
    np.testing.assert_allclose(np.exp(logps), [0, 0, 0, 1 / 3, 1 / 3, 1 / 3])


def test_large_logits_do_not_overflow():
    logps = next_token_logprobs(Fixed(np.array([800.0, 800.0, 800.0, 0.0, 0.0, 0.0])), 0, [])
    np.testing.assert_allclose(np.exp(logps), [1 / 3, 1 / 3, 1 / 3, 0, 0, 0])


def test_a_draw_of_zero_takes_the_first_legal_token():
    response, logps = sample_response(Fixed(np.zeros(6)), 0, Fixed(0.0))
    assert response == ["2", "+", "3", "+", "5", "END"]
    assert isinstance(logps, np.ndarray)
    np.testing.assert_allclose(np.exp(logps), [1 / 3, 1 / 3, 1 / 2, 1 / 3, 1, 1])


def test_the_last_draw_takes_the_last_legal_token():
    """Also where the probabilities add up to less than 1 by a rounding."""
    short = 0
    for seed in range(60):
        policy = Fixed(np.random.default_rng(seed).normal(size=6))
        short += np.cumsum(np.exp(next_token_logprobs(policy, 0, [])))[-1] < 1.0
        assert sample_response(policy, 0, Fixed(LAST_UNIFORM))[0] == ["5", "END"]
    assert short > 3


def test_a_step_by_hand():
    policy = per_token_policy(tabular())
    array = policy.parameters["logits"]
    start = array.copy()
    sgd_step(policy, {"logits": np.full(array.shape, 3.0)}, 0.5)
    np.testing.assert_allclose(array, start - 1.5)


def batch():
    policy, reference = per_token_policy(tabular(0)), per_token_policy(tabular(1))
    return policy, reference, sample_groups(policy, 2, 3, np.random.default_rng(0))


def test_at_the_edge_of_the_clip_range_the_gradient_passes():
    policy, reference, groups = batch()
    for advantage in (1.0, -1.0):
        advantages = np.full((2, 3), advantage)
        wide, narrow = (
            loss_and_gradient(policy, reference, groups, advantages, clip_eps=eps, kl_coef=0.0) for eps in (0.2, 0.0)
        )
        assert narrow[0] == wide[0] and type(wide[0]) is float
        assert wide[1]["logits"].any()
        np.testing.assert_array_equal(narrow[1]["logits"], wide[1]["logits"])


@pytest.mark.parametrize("kind", ["k1", "k2", "k3", "k3_capped"])
def test_the_kl_term_alone(kind):
    policy, reference, groups = batch()
    loss, _ = loss_and_gradient(policy, reference, groups, np.zeros((2, 3)), kl_coef=0.5, kl_kind=kind)
    expected = 0.0
    for prompt, group in enumerate(groups):
        for response, logps in group:
            delta = score_response(reference, prompt, response) - logps
            expected += 0.5 * kl_penalty(delta, kind)[0].mean() / 6
    assert loss == pytest.approx(expected, abs=1e-12)
