"""Tabular and MLP policy: the grammar, rollouts, copies, subsets of prompts."""

import numpy as np
import pytest

from grpo.expressions import EXPRESSIONS, TOKENS, MLPPolicy, TabularPolicy, one_hot_features, per_token_policy
from grpo.expressions.game import LEGAL, LENGTHS, PREFIXES, response_tokens
from grpo.expressions.per_token import next_token_logprobs, score_response


def generators(*seeds):
    return [np.random.default_rng(seed) for seed in seeds]


def tabular(*seeds):
    return TabularPolicy(10, generators(*seeds), scale=1.0)


def mlp(*seeds):
    return MLPPolicy(one_hot_features(10), generators(*seeds))


both = pytest.mark.parametrize("make", [tabular, mlp])


@both
def test_token_probabilities_sum_to_one_over_legal_tokens(make):
    logps = make(0, 1).prefix_logprobs()
    assert logps.shape == (2, 10, 70, 6)
    np.testing.assert_allclose(np.exp(logps).sum(axis=-1), 1.0, atol=1e-12)
    np.testing.assert_array_equal(np.isfinite(logps), np.broadcast_to(LEGAL, logps.shape))


@both
def test_expression_probabilities_sum_to_one(make):
    np.testing.assert_allclose(np.exp(make(0, 1).expression_logprobs()).sum(axis=-1), 1.0, atol=1e-12)


@both
def test_the_per_token_view_says_the_same(make):
    policy = make(3, 4)
    table, whole = policy.prefix_logprobs(), policy.expression_logprobs()
    for seed in range(2):
        view = per_token_policy(policy, seed)
        for prompt in (0, 7):
            for state, prefix in enumerate(PREFIXES):
                ours = next_token_logprobs(view, prompt, prefix)
                np.testing.assert_allclose(ours, table[seed, prompt, state], rtol=0, atol=1e-12)
            for row in range(len(EXPRESSIONS)):
                logp = score_response(view, prompt, response_tokens(row)).sum()
                assert logp == pytest.approx(whole[seed, prompt, row], abs=1e-12)


@both
def test_rollouts_are_described_consistently(make):
    policy = make(7, 8)
    rollouts = policy.sample(None, 6, generators(0, 1))
    assert rollouts.logps.shape == rollouts.tokens.shape == rollouts.mask.shape == (2, 10, 6, 6)
    np.testing.assert_array_equal(rollouts.lengths, LENGTHS[rollouts.expressions])
    np.testing.assert_array_equal(rollouts.mask.sum(axis=-1), rollouts.lengths)
    np.testing.assert_array_equal(rollouts.logps, policy.token_logprobs(rollouts))
    assert not rollouts.logps[~rollouts.mask].any()
    whole = np.take_along_axis(policy.expression_logprobs(), rollouts.expressions, axis=-1)
    np.testing.assert_allclose(rollouts.logps.sum(axis=-1), whole, atol=1e-12)
    for seed, prompt, rollout in np.ndindex(rollouts.expressions.shape):
        length = rollouts.lengths[seed, prompt, rollout]
        spelled = tuple(TOKENS[token] for token in rollouts.tokens[seed, prompt, rollout, :length])
        assert spelled == response_tokens(rollouts.expressions[seed, prompt, rollout])


@both
def test_a_seed_samples_the_same_alone_and_in_company(make):
    together = make(0, 1, 2).sample(None, 8, generators(0, 1, 2)).expressions
    for seed in range(3):
        np.testing.assert_array_equal(make(seed).sample(None, 8, generators(seed)).expressions[0], together[seed])


@both
def test_seeds_and_rollouts_differ(make):
    expressions = make(0, 1).sample(None, 8, generators(0, 1)).expressions
    assert (expressions[0] != expressions[1]).any() and len(np.unique(expressions[0, 0])) > 1


@both
def test_greedy_follows_the_likeliest_token(make):
    policy = make(0, 1, 2)
    table, greedy = policy.prefix_logprobs(), policy.greedy()
    for seed, prompt in np.ndindex(greedy.shape):
        prefix = ()
        while True:
            token = TOKENS[int(np.argmax(table[seed, prompt, PREFIXES.index(prefix)]))]
            if token == "END":
                break
            prefix = (*prefix, token)
        assert EXPRESSIONS[greedy[seed, prompt]] == prefix


@both
def test_a_subset_of_prompts_is_a_cut_of_the_whole(make):
    policy = make(0, 1)
    prompts = np.array([[4, 0, 4], [9, 3, 2]])
    whole = policy.logprobs()
    cut = policy.logprobs(prompts)
    for seed in range(2):
        np.testing.assert_allclose(cut[seed], whole[seed][:, prompts[seed]], atol=1e-13)
        np.testing.assert_array_equal(policy.greedy(prompts)[seed], policy.greedy()[seed, prompts[seed]])


@both
def test_a_copied_policy_is_equal_and_independent(make):
    policy = make(0, 1)
    copy = policy.frozen_copy()
    np.testing.assert_array_equal(policy.logprobs(), copy.logprobs())
    rollouts = policy.sample(None, 8, generators(0, 1))
    np.testing.assert_array_equal(rollouts.expressions, copy.sample(None, 8, generators(0, 1)).expressions)
    np.testing.assert_array_equal(rollouts.logps, copy.token_logprobs(rollouts))
    before = copy.logprobs().copy()
    for value in policy.parameters.values():
        value += 1.0 + np.arange(value.size).reshape(value.shape)
    policy.parameters_changed()
    np.testing.assert_array_equal(before, copy.logprobs())
    copy.parameters_changed()
    np.testing.assert_array_equal(before, copy.logprobs())
    assert not np.allclose(policy.expression_logprobs(), copy.expression_logprobs())


@pytest.mark.parametrize(("reader", "writer"), [(tabular, mlp), (mlp, tabular)])
def test_one_policy_scores_another_ones_rollouts(reader, writer):
    rollouts = writer(0).sample(None, 8, generators(0))
    scored = reader(1).token_logprobs(rollouts)
    whole = np.take_along_axis(reader(1).expression_logprobs(), rollouts.expressions, axis=-1)
    np.testing.assert_allclose(scored.sum(axis=-1), whole, atol=1e-12)


def test_the_mlp_start_has_the_promised_scale():
    policy = mlp(*range(20))
    assert {name: value.shape[1:] for name, value in policy.parameters.items()} == {
        "w1": (48, 15),
        "b1": (48,),
        "w2": (6, 48),
        "b2": (6,),
    }
    assert policy.parameters["w1"].var() * 15 == pytest.approx(1.0, abs=0.05)
    assert policy.parameters["w2"].var() * 48 == pytest.approx(1.0, abs=0.1)
    assert not policy.parameters["b1"].any() and not policy.parameters["b2"].any()


def test_the_mlp_cannot_tell_the_order_of_a_prefix():
    logps = mlp(0).prefix_logprobs()
    a, b = PREFIXES.index(("2", "+", "3")), PREFIXES.index(("3", "+", "2"))
    np.testing.assert_array_equal(logps[:, :, a], logps[:, :, b])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: TabularPolicy(0, generators(0)), "n_prompts is 0"),
        (lambda: TabularPolicy(10, generators(0), scale=-1), "scale is -1"),
        (lambda: MLPPolicy(np.ones(3), generators(0)), r"prompt_features has shape \(3,\)"),
        (lambda: MLPPolicy(np.eye(3), generators(0), np.eye(3)), r"prefix_features has shape \(3, 3\)"),
        (lambda: MLPPolicy(np.eye(3), generators(0), hidden=0), "hidden is 0"),
        (lambda: per_token_policy(object()), "policy is of type object: pass a TabularPolicy or an MLPPolicy"),
    ],
)
def test_bad_policies(call, message):
    with pytest.raises(ValueError, match=message):
        call()
