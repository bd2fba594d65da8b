"""Sampling, from the tree and token by token, against exact probabilities."""

import numpy as np
import pytest

from grpo.expressions import MLPPolicy, TabularPolicy, one_hot_features, per_token_policy
from grpo.expressions.game import response_tokens
from grpo.expressions.per_token import sample_groups, score_response


def generators(*seeds):
    return [np.random.default_rng(seed) for seed in seeds]


def tabular(*seeds):
    return TabularPolicy(10, generators(*seeds), scale=1.0)


def mlp(*seeds):
    return MLPPolicy(one_hot_features(10), generators(*seeds))


both = pytest.mark.parametrize("make", [tabular, mlp])


@both
def test_sampling_follows_the_exact_probabilities(make):
    policy, n = make(5), 20_000
    rollouts = policy.sample(None, n, generators(0))
    exact = np.exp(policy.expression_logprobs())[0]
    for prompt in range(10):
        share = np.bincount(rollouts.expressions[0, prompt], minlength=39) / n
        error = np.sqrt(exact[prompt] * (1 - exact[prompt]) / n)
        assert np.all(np.abs(share - exact[prompt]) < 5 * error + 1e-9)


@both
def test_sampling_token_by_token_has_the_same_distribution(make):
    policy, n = make(6), 1500
    groups = sample_groups(per_token_policy(policy), 1, n, np.random.default_rng(1))
    number = {response_tokens(row): row for row in range(39)}
    share = np.bincount([number[tuple(response)] for response, _ in groups[0]], minlength=39) / n
    exact = np.exp(policy.expression_logprobs())[0, 0]
    assert np.all(np.abs(share - exact) < 5 * np.sqrt(exact * (1 - exact) / n) + 1e-9)
    for response, logps in groups[0][:50]:
        np.testing.assert_allclose(logps, score_response(per_token_policy(policy), 0, response), atol=1e-12)
