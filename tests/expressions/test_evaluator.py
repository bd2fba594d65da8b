"""Exact scores against sampling and against sums written out."""

import numpy as np
import pytest

from grpo import categorical_kl
from grpo.expressions import Evaluator, MLPPolicy, TableReward, TabularPolicy, expression_task, one_hot_features
from grpo.expressions.game import LENGTHS

TASK = expression_task()
REWARD = TableReward(TASK)


def generators(*seeds):
    return [np.random.default_rng(seed) for seed in seeds]


def test_sums_written_out():
    policy, reference = (MLPPolicy(one_hot_features(10), generators(a, b)) for a, b in ((0, 1), (2, 3)))
    result = Evaluator(REWARD.correct, REWARD.base, reference)(policy)
    ours, theirs = (np.exp(p.expression_logprobs()) for p in (policy, reference))
    for seed in range(2):
        success = np.mean([ours[seed, p][TASK.values[p] == TASK.targets[p]].sum() for p in range(10)])
        assert result.exact_success[seed] == pytest.approx(success, abs=1e-13)
        assert result.expected_reward[seed] == pytest.approx(0.1 + success, abs=1e-13)
        assert result.expected_length[seed] == pytest.approx(np.mean([ours[seed, p] @ LENGTHS for p in range(10)]))
        entropy = np.mean([-(ours[seed, p] * np.log(ours[seed, p])).sum() for p in range(10)])
        assert result.entropy[seed] == pytest.approx(entropy, abs=1e-12)
        kl = np.mean([categorical_kl(ours[seed, p], theirs[seed, p]) for p in range(10)])
        assert result.kl[seed] == pytest.approx(kl, abs=1e-12)
        greedy = np.mean([TASK.correct[p, policy.greedy()[seed, p]] for p in range(10)])
        assert result.greedy_success[seed] == pytest.approx(greedy, abs=1e-13)


def test_sampling_agrees():
    policy = TabularPolicy(10, generators(0), scale=1.0)
    exact = Evaluator(REWARD.correct, REWARD.base)(policy)
    rollouts = policy.sample(None, 4000, generators(1))
    rewards = REWARD(rollouts)
    for samples, value in ((rewards, exact.expected_reward), (rollouts.lengths, exact.expected_length)):
        error = samples.std() / np.sqrt(samples.size)
        assert abs(samples.mean() - value[0]) < 5 * error
    assert np.isnan(exact.kl).all()


def test_the_kl_of_a_copy_is_zero():
    policy = MLPPolicy(one_hot_features(10), generators(0, 1))
    assert not Evaluator(REWARD.correct, reference=policy.frozen_copy())(policy).kl.any()


def test_a_policy_that_is_certain():
    policy = TabularPolicy(10, generators(0))
    reference = policy.frozen_copy()
    logits = policy.parameters["logits"]
    logits[...] = 0.0
    logits[:, 5] = 5000.0  # end the response wherever that is legal
    logits[:, 1] = 5000.0  # "3" wherever that is legal
    policy.parameters_changed()
    result = Evaluator(REWARD.correct, reference=reference)(policy)
    assert result.expected_length[0] == pytest.approx(2.0) and result.entropy[0] == pytest.approx(0.0, abs=1e-12)
    assert 1.0 < result.kl[0] < np.log(39) and result.exact_success[0] == 0.0
    assert set(result.mean()) == {
        "exact_success",
        "greedy_success",
        "expected_reward",
        "expected_length",
        "entropy",
        "kl",
    }


def test_a_response_that_cannot_be_sampled_adds_nothing():
    policy = TabularPolicy(10, generators(0))
    reference = policy.frozen_copy()
    policy.parameters["logits"][:, 0] = -np.inf  # "2" is never chosen where there is a choice
    policy.parameters_changed()
    result = Evaluator(REWARD.correct, reference=reference)(policy)
    probs = np.exp(policy.expression_logprobs()[0])
    assert (probs == 0.0).any() and np.isfinite(result.kl).all()
    entropy = np.mean([-sum(p * np.log(p) for p in row if p > 0) for row in probs])
    assert result.entropy[0] == pytest.approx(entropy, abs=1e-12)
    assert Evaluator(REWARD.correct, reference=policy.frozen_copy())(policy).kl[0] == 0.0


def test_the_mean_is_over_the_seeds_and_plain():
    result = Evaluator(REWARD.correct, REWARD.base)(MLPPolicy(one_hot_features(10), generators(0, 1)))
    assert result.mean()["exact_success"] == pytest.approx(sum(result.exact_success) / 2)
    assert all(type(value) is float for value in result.mean().values())


def test_lists_will_do():
    policy = TabularPolicy(10, generators(0), scale=1.0)
    arrays = Evaluator(REWARD.correct, REWARD.base, prompts=np.array([2, 7]))(policy)
    lists = Evaluator(REWARD.correct.tolist(), REWARD.base.tolist(), prompts=[2, 7])(policy)
    for name in ("exact_success", "greedy_success", "expected_reward"):
        assert getattr(lists, name) == getattr(arrays, name)


def test_the_prompts_are_one_array_as_long_as_the_number_of_seeds_stays():
    evaluate = Evaluator(REWARD.correct, prompts=[2, 7])
    for seeds in ((0, 1, 2), (0, 1), (0,)):
        policy = TabularPolicy(10, generators(*seeds), scale=1.0)
        evaluate(policy)
        asked = evaluate.prompts
        np.testing.assert_array_equal(asked, [[2, 7]] * len(seeds))
        evaluate(policy)
        assert evaluate.prompts is asked


def test_a_subset_of_prompts():
    policy = MLPPolicy(one_hot_features(10), generators(0, 1, 2))
    one_by_one = [Evaluator(REWARD.correct, REWARD.base, prompts=[p])(policy) for p in (2, 7)]
    both = Evaluator(REWARD.correct, REWARD.base, prompts=[2, 7])(policy)
    for name in ("exact_success", "greedy_success", "expected_reward", "entropy", "expected_length"):
        mean = np.mean([getattr(one, name) for one in one_by_one], axis=0)
        np.testing.assert_allclose(getattr(both, name), mean, atol=1e-13)
