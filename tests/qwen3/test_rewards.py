"""Rewards of the Qwen3 chapters: only a closed thought, a strict last box and a proper end pay."""

import importlib.util
import json

import pytest

from grpo.qwen3.math_rewards import MathReward
from grpo.qwen3.rewards import REWARDS, RandomReward, boxed_reward, named_reward


@pytest.mark.parametrize(
    ("completion", "truth", "due"),
    [
        (r"<think>7+8+0=15,3+4+1=8</think>\boxed{85}", "85", 1.0),
        (r"\boxed{85}", "85", 1.0),
        (r"<think>maybe \boxed{9}? let me check", "9", 0.0),  # CASES A12: cut off in mid-thought
        (r"<think>\boxed{3}</think>\boxed{9}", "9", 1.0),
        (r"<think>\boxed{3}</think>\boxed{9}", "3", 0.0),
        (r"<think>\boxed{9}</think>", "9", 0.0),
        (r"<think>a</think>\boxed{9}<think>b", "9", 0.0),
        (r"\boxed{8}. Restating: \boxed{", "8", 0.0),  # A3: broken last box
        (r"The answer is 42.", "42", 0.0),  # A4: no box
        (r"Guess \boxed{3}; corrected: \boxed{5}", "5", 1.0),  # A2
        (r"\boxed{8<|pad|>5}", "85", 0.0),
        (r"\boxed{085}", "85", 0.0),
        (r"\boxed{2,5}", "25", 0.0),  # A8
    ],
)
def test_strict_box_outside_the_thinking(completion, truth, due):
    assert boxed_reward(completion, truth) == due
    assert isinstance(boxed_reward(completion, truth), float)


def test_a_completion_cut_off_earns_nothing_unless_scored_as_it_stands():
    assert boxed_reward(r"\boxed{85}", "85", True) == 1.0
    assert boxed_reward(r"\boxed{85}", "85", False) == 0.0


@pytest.mark.parametrize("truth", ["", " ", None])
def test_an_empty_truth_is_never_right(truth):
    for finished in (True, False):
        with pytest.raises(ValueError, match="truth"):
            boxed_reward(r"\boxed{}", truth, finished)


def test_random_rewards_know_nothing_and_repeat_by_seed():
    coin = RandomReward(3)
    values = [coin(r"\boxed{1}", "1", True) for _ in range(2000)]
    again = RandomReward(3)
    assert values == [again("nothing", "1", False) for _ in range(2000)]
    other = RandomReward(4)
    assert values != [other("", "1") for _ in range(2000)] and set(values) == {0.0, 1.0}
    assert 0.45 < sum(values) / 2000 < 0.55
    rare = RandomReward(0, share=0.1)
    assert 0.06 < sum(rare("", "1") for _ in range(2000)) / 2000 < 0.14
    for share in (0, 1, -0.1):
        with pytest.raises(ValueError, match="share is"):
            RandomReward(0, share)


def test_a_coin_goes_on_where_its_state_was_taken():
    coin = RandomReward(3)
    for _ in range(7):
        coin("", "1")
    state = json.loads(json.dumps(coin.state_dict()))
    expected = [coin("", "1") for _ in range(20)]
    other = RandomReward(9)
    other.load_state_dict(state)
    assert [other("", "1") for _ in range(20)] == expected


def test_rewards_by_name(monkeypatch):
    assert REWARDS == ("strict", "math") and named_reward("strict") is boxed_reward
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match="math-verify is not installed"):
        named_reward("math")


def test_every_math_reward_by_name_is_one_of_its_own():
    pytest.importorskip("math_verify")
    first, second = named_reward("math"), named_reward("math")
    assert isinstance(first, MathReward) and first is not second and first.verifier is not second.verifier
