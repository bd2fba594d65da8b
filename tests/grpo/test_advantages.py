"""grpo.advantages: each rollout against its own group (conventions C1 to C3)."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo import (
    group_relative_advantage,
    no_signal_probability,
    rollout_advantages,
    zero_variance_fraction,
)

few = settings(derandomize=True, max_examples=30, deadline=None)
NEXT_FLOAT32 = np.nextafter(np.float32(0.3), np.float32(1))


def assert_rows(advantages, expected, atol=5e-5):
    np.testing.assert_allclose(advantages, expected, rtol=0, atol=atol)


def test_convention_c1_running_example():
    rewards = [1, 1, 0, 0]
    signs = np.array([[1, 1, -1, -1]])
    assert_rows(group_relative_advantage(rewards, 4, eps=0), 0.8660 * signs)
    assert_rows(group_relative_advantage(rewards, 4), 0.8659 * signs)
    assert_rows(group_relative_advantage(rewards, 4, eps=0, ddof=0), 1.0 * signs)


def test_convention_c1_eps_is_added_outside_the_root():
    std = np.std([1, 1, 0, 0], ddof=1)
    assert_rows(group_relative_advantage([1, 1, 0, 0], 4)[0, 0], 0.5 / (std + 1e-4), atol=1e-14)
    assert_rows(group_relative_advantage([1, 1, 0, 0], 4, eps=0.5)[0, 0], 0.5 / (std + 0.5), atol=1e-14)


def test_worked_group_of_eight():
    rewards = np.array([1, 0, 0, 1, 0, 0, 0, 1])
    assert_rows(group_relative_advantage(rewards, 8, eps=0), [np.where(rewards == 1, 1.2076, -0.7246)])
    assert_rows(group_relative_advantage(rewards, 8, eps=0, ddof=0), [np.where(rewards == 1, 1.2910, -0.7746)])


def test_quotient_of_the_conventions_goes_to_one():
    def quotient(size):
        rewards = [1, 0] * (size // 2)
        sample, population = (group_relative_advantage(rewards, size, eps=0, ddof=ddof) for ddof in (1, 0))
        return (sample / population)[0, 0]

    assert_rows(quotient(4), 0.8660)
    assert_rows([quotient(size) for size in (2, 8, 64)], np.sqrt([1 / 2, 7 / 8, 63 / 64]), atol=1e-12)


def test_case_b1_interleaved_prompts():
    advantages = rollout_advantages(["a", "b", "a", "b"], [1, 1, 0, 0], 2, eps=0)
    assert_rows(advantages, [0.7071, 0.7071, -0.7071, -0.7071])
    assert advantages.shape == (4,)
    np.testing.assert_array_equal(group_relative_advantage([1, 1, 0, 0], 2), np.zeros((2, 2)))


def test_case_b2_groups_not_batch():
    advantages = group_relative_advantage([0, 0, 0, 1, 1, 1, 1, 0], 4, eps=0)
    assert_rows(advantages, [[-0.5, -0.5, -0.5, 1.5], [0.5, 0.5, 0.5, -1.5]])


def test_case_b3_sample_and_population_std():
    assert_rows(group_relative_advantage([1, 0], 2, eps=0), [[0.7071, -0.7071]])
    assert_rows(group_relative_advantage([1, 0], 2), [[0.7070, -0.7070]])
    assert_rows(group_relative_advantage([1, 0], 2, eps=0, ddof=0), [[1, -1]])
    assert_rows(group_relative_advantage([1, 0, 0, 0], 4, eps=0), [[1.5, -0.5, -0.5, -0.5]])
    assert_rows(group_relative_advantage([1, 0, 0, 0], 4)[0, 0], 1.4997)
    assert_rows(group_relative_advantage([1, 0, 0, 0], 4, eps=0, ddof=0)[0, :2], [1.7321, -0.5774])


@pytest.mark.parametrize(
    "rewards",
    [
        np.full(7, 0.3, dtype=np.float32),
        np.array([0.3, NEXT_FLOAT32, 0.3, NEXT_FLOAT32], dtype=np.float32),
        [1, 1, 1, 1],
        [0, 0, 0, 0],
    ],
)
def test_case_b4_rounding_is_no_signal(rewards):
    assert_rows(group_relative_advantage(rewards, len(rewards)), np.zeros((1, len(rewards))), atol=2e-3)


@pytest.mark.parametrize("eps", [0, 1e-8, 1e-4])
@pytest.mark.parametrize("reward", [0.0, 0.1, 0.3, 1.0, -2.7])
@pytest.mark.parametrize("size", [2, 3, 7])
def test_convention_c3_equal_rewards_give_exactly_zero(eps, reward, size):
    np.testing.assert_array_equal(group_relative_advantage([reward] * size, size, eps=eps), np.zeros((1, size)))


def test_one_dead_group_does_not_touch_its_neighbour():
    assert_rows(group_relative_advantage([1, 1, 1, 0], 2, eps=0), [[0, 0], [0.7071, -0.7071]])


@pytest.mark.parametrize("rewards", [[1, 0], [True, False], np.array([1, 0], dtype=np.int8), (1.0, 0.0)])
def test_case_b7_ints_and_bools(rewards):
    advantages = group_relative_advantage(rewards, 2, eps=0)
    assert advantages.dtype == np.float64
    assert_rows(advantages, [[0.7071, -0.7071]])


@pytest.mark.parametrize("function", [group_relative_advantage, zero_variance_fraction])
def test_convention_c2_a_group_of_one(function):
    with pytest.raises(ValueError, match="group_size is 1: it must be at least 2"):
        function([1.0, 0.0], 1)


@pytest.mark.parametrize("bad", [np.nan, None, np.inf])
def test_convention_c2_a_bad_reward_is_named_by_its_input_row(bad):
    rewards = [0.0, 1.0, bad, 1.0]
    for function in (group_relative_advantage, zero_variance_fraction):
        with pytest.raises(ValueError, match=r"rewards\[2\]"):
            function(rewards, 2)
    with pytest.raises(ValueError, match=r"rewards\[2\]"):
        rollout_advantages(["b", "a", "a", "b"], rewards, 2)


@pytest.mark.parametrize("function", [group_relative_advantage, zero_variance_fraction])
def test_rewards_must_be_flat_whole_groups(function):
    for shape in ((2, 2), (4, 1), ()):
        with pytest.raises(ValueError, match="rewards has shape"):
            function(np.ones(shape), 2)
    with pytest.raises(ValueError, match="rewards is empty"):
        function([], 2)
    with pytest.raises(ValueError, match="5 rewards cannot be cut into groups of 2"):
        function([1.0] * 5, 2)
    with pytest.raises(ValueError, match="2 rewards cannot be cut into groups of 4"):
        function([1.0] * 2, 4)


def test_rewards_and_rates_must_be_numbers():
    for function in (group_relative_advantage, zero_variance_fraction):
        with pytest.raises(ValueError, match=r"^rewards must be an array of numbers"):
            function(["right", "wrong"], 2)
    with pytest.raises(ValueError, match=r"^pass_rate must be an array of numbers"):
        no_signal_probability("half", 2)


def test_eps_and_ddof_are_checked():
    with pytest.raises(ValueError, match=r"eps is -0\.1"):
        group_relative_advantage([1, 0], 2, eps=-0.1)
    with pytest.raises(ValueError, match="ddof is -1"):
        group_relative_advantage([1, 0], 2, ddof=-1)
    with pytest.raises(ValueError, match="ddof is 2 in groups of 2"):
        group_relative_advantage([1, 0], 2, ddof=2)
    assert group_relative_advantage([1, 0, 0], 3, ddof=2).shape == (1, 3)


def test_rollout_advantages_checks_ids():
    with pytest.raises(ValueError, match="prompt_ids: 2, rewards: 3"):
        rollout_advantages(["a", "a"], [1, 0, 1], 2)
    with pytest.raises(ValueError, match="prompt 'b' has 1 completions, expected 2"):
        rollout_advantages(["a", "a", "b"], [1, 0, 1], 2)


def test_rollout_advantages_passes_eps_and_ddof_on():
    assert_rows(rollout_advantages("abab", [1, 1, 0, 0], 2, eps=0, ddof=0), [1, 1, -1, -1])
    assert_rows(rollout_advantages("aaaa", [1, 1, 0, 0], 4), [0.8659, 0.8659, -0.8659, -0.8659])
    assert_rows(rollout_advantages("aaaa", [1, 1, 0, 0], 4, eps=0), [0.8660, 0.8660, -0.8660, -0.8660])
    assert_rows(rollout_advantages("aaaa", [1, 1, 0, 0], 4, eps=1e-4, ddof=0), 0.9998 * np.array([1, 1, -1, -1]))


groups_of_four = st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=12, max_size=12)


@few
@given(groups_of_four, st.permutations(range(12)))
def test_order_of_the_rows_does_not_matter(rewards, order):
    ids = np.repeat(["a", "b", "c"], 4)
    straight = group_relative_advantage(rewards, 4).ravel()
    shuffled = rollout_advantages(ids[order], np.array(rewards)[order], 4)
    np.testing.assert_allclose(shuffled, straight[order], rtol=0, atol=1e-12)


@few
@given(groups_of_four, st.floats(0.5, 10), st.floats(-5, 5))
def test_groups_are_centred_and_scale_free(rewards, scale, shift):
    advantages = group_relative_advantage(rewards, 4, eps=0)
    np.testing.assert_allclose(advantages.sum(axis=1), 0, atol=1e-12)
    moved = group_relative_advantage(scale * np.array(rewards) + shift, 4, eps=0)
    varied = np.ptp(np.reshape(rewards, (3, 4)), axis=1) > 0
    np.testing.assert_allclose(moved[varied], advantages[varied], atol=1e-9)
    np.testing.assert_allclose((advantages**2).sum(axis=1), np.where(varied, 3.0, 0.0), atol=1e-9)


def test_zero_variance_fraction():
    assert zero_variance_fraction([1, 1, 0, 0, 1, 0], 2) == 2 / 3
    assert zero_variance_fraction([0.1, 0.1, 0.1], 3) == 1.0
    assert zero_variance_fraction([1, 0, 1, 0, 1, 1, 1, 0], 4) == 0.0
    assert type(zero_variance_fraction([1, 0], 2)) is float


def test_no_signal_probability():
    assert no_signal_probability(0.5, 4) == 0.125
    assert no_signal_probability(0.5, 1) == 1.0
    np.testing.assert_allclose(no_signal_probability([0, 0.25, 1], 2), [1.0, 0.625, 1.0])
    for bad in (-0.01, 1.01, np.nan, 50):
        with pytest.raises(ValueError, match="pass a share between 0 and 1"):
            no_signal_probability([0.5, bad], 4)
    with pytest.raises(ValueError, match="group_size is 0"):
        no_signal_probability(0.5, 0)


def test_no_signal_probability_is_the_expected_zero_variance_fraction():
    rng = np.random.default_rng(0)
    groups, size, rate = 4000, 4, 0.3
    share = zero_variance_fraction(rng.random(groups * size) < rate, size)
    expected = no_signal_probability(rate, size)
    assert abs(share - expected) < 5 * np.sqrt(expected * (1 - expected) / groups)
