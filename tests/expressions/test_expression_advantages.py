"""Batched advantages against the library's, and the rival baselines."""

import numpy as np
import pytest

from grpo import group_relative_advantage
from grpo.expressions import RunningMean, global_advantages, group_advantages, make_advantage
from grpo.expressions.advantages import ADVANTAGE_KINDS

RNG = np.random.default_rng(0)
BATCHES = [
    RNG.normal(size=(3, 4, 5)),
    (RNG.random(size=(4, 10, 8)) < 0.2) + 0.1,
    np.full((2, 3, 4), 0.1),
    np.full((1, 1, 7), 1e8) + RNG.normal(size=(1, 1, 7)),
]


@pytest.mark.parametrize("rewards", BATCHES)
@pytest.mark.parametrize(("eps", "ddof"), [(1e-4, 1), (0.0, 1), (1e-4, 0), (0.5, 1)])
def test_group_advantages_are_the_library_s(rewards, eps, ddof):
    for ours, one in zip(group_advantages(rewards, eps, ddof), rewards, strict=True):
        expected = group_relative_advantage(one.ravel(), rewards.shape[-1], eps, ddof)
        np.testing.assert_allclose(ours, expected, rtol=1e-12, atol=1e-12)


def test_the_defaults_are_the_library_s():
    rewards = BATCHES[0]
    expected = np.stack([group_relative_advantage(one.ravel(), 5) for one in rewards])
    for ours in (group_advantages(rewards), make_advantage("group")(rewards)):
        np.testing.assert_allclose(ours, expected, rtol=1e-12)
    expected = np.stack([group_relative_advantage(one.ravel(), 20).reshape(4, 5) for one in rewards])
    for ours in (global_advantages(rewards), make_advantage("global")(rewards)):
        np.testing.assert_allclose(ours, expected, rtol=1e-12)


@pytest.mark.parametrize("rewards", BATCHES[:3])
def test_global_advantages_are_one_big_group(rewards):
    for ours, one in zip(global_advantages(rewards), rewards, strict=True):
        expected = group_relative_advantage(one.ravel(), one.size)
        np.testing.assert_allclose(ours.ravel(), expected.ravel(), rtol=1e-12, atol=1e-12)


def test_group_advantages_sum_to_zero_and_ties_get_zero():
    advantages = group_advantages(BATCHES[1])
    np.testing.assert_allclose(advantages.sum(axis=-1), 0.0, atol=1e-12)
    tied = (BATCHES[1] == BATCHES[1][..., :1]).all(axis=-1)
    assert tied.any() and not advantages[tied].any() and advantages[~tied].any(axis=-1).all()
    assert not group_advantages(np.full((1, 2, 3), 0.1)).any()


def test_equal_rewards_divide_by_nothing():
    with np.errstate(all="raise"):
        assert not group_advantages(np.full((1, 2, 3), 0.1), eps=0.0).any()


def test_without_the_division():
    rewards = np.array([[[1.0, 0.0], [1.0, 1.0]]])
    np.testing.assert_array_equal(make_advantage("group_no_std")(rewards), [[[0.5, -0.5], [0.0, 0.0]]])
    np.testing.assert_array_equal(make_advantage("global_no_std")(rewards), [[[0.25, -0.75], [0.25, 0.25]]])


def test_running_means_by_hand():
    first, second = np.array([[[1.0, 0.0]], [[1.0, 1.0]]]), np.array([[[0.0, 0.0]], [[0.0, 1.0]]])
    so_far = RunningMean()
    np.testing.assert_allclose(so_far(first), [[[0.5, -0.5]], [[0.0, 0.0]]])
    np.testing.assert_allclose(so_far(second), [[[-0.25, -0.25]], [[-0.75, 0.25]]])
    named = make_advantage("running_mean")
    np.testing.assert_array_equal(named(first), RunningMean()(first))
    before = make_advantage("running_mean_before")
    np.testing.assert_allclose(before(first), first)
    np.testing.assert_allclose(before(second), [[[-0.5, -0.5]], [[-1.0, 0.0]]])


def test_a_running_mean_counts_every_rollout_of_every_prompt():
    both = RunningMean(), RunningMean(include_current=False)
    for running in both:
        running(np.array([[[1.0]]]))
    batch = np.array([[[1.0, 0.0], [0.0, 0.0]]])
    for running, baseline in zip(both, (0.4, 1.0), strict=True):
        np.testing.assert_allclose(running(batch), batch - baseline)


def test_every_kind_has_a_function_and_others_are_refused():
    for kind in ADVANTAGE_KINDS:
        assert make_advantage(kind)(BATCHES[0]).shape == BATCHES[0].shape
    with pytest.raises(ValueError, match="advantage is 'batch': choose 'group'"):
        make_advantage("batch")
