"""The verifier: verdicts, length term, rewards; alone and as the trainer's table."""

import re

import numpy as np
import pytest

from grpo.expressions import RewardWeights, TableReward, TabularPolicy, expression_task, group_rewards, verify
from grpo.expressions import length_terms as kimi
from grpo.expressions.game import EXPRESSIONS, response_tokens
from grpo.expressions.verifier import Verdict, batched_length_terms

SHORT, MIDDLE, LONG = "2 END", "2 + 3 END", "2 * 3 + 5 END"


def split(*texts):
    return [text.split() for text in texts]


def test_verdicts():
    assert verify(MIDDLE.split(), 5) == Verdict(True, True, 5, "")
    assert verify(MIDDLE.split(), 6) == Verdict(True, False, 5, "")
    assert verify(["7", "+", "9", "END"], 16, ("1", "7", "9")).correct
    assert verify(np.array(MIDDLE.split()), 5) == Verdict(True, True, 5, "")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("2 + 3", "the end token is missing: the response was cut off"),
        ("", "the end token is missing"),
        ("2 END END", "token 'END' comes after the end token"),
        ("2 END + 3 END", "token '\\+' comes after the end token"),
        ("END", "it is empty"),
        ("2 + END", "it stops after the operator"),
        ("2 + 2 END", "the number 2 is used twice"),
    ],
)
def test_malformed_responses_are_rejected_with_a_reason(text, reason):
    verdict = verify(text.split(), 5)
    assert not verdict.well_formed and not verdict.correct and verdict.value is None
    assert re.match(reason, verdict.reason)


def test_a_malformed_response_earns_nothing_even_for_the_right_value():
    np.testing.assert_array_equal(group_rewards(split("2 + 3", "2 + 3 END", "2 END"), 5), [0.0, 1.1, 0.1])


def test_the_length_term_by_hand():
    # lengths 2, 4, 6: lambda .5, 0, -.5
    np.testing.assert_allclose(kimi([2, 4, 6], [True, True, True]), [0.5, 0.0, -0.5])
    np.testing.assert_allclose(kimi([2, 4, 6], [False, False, False]), [0.0, 0.0, -0.5])
    np.testing.assert_allclose(kimi([2, 6, 2], [False, True, True]), [0.0, -0.5, 0.5])
    with np.errstate(all="raise"):
        np.testing.assert_array_equal(kimi([4, 4, 4], [True, False, True]), [0.0, 0.0, 0.0])
    np.testing.assert_array_equal(kimi([3], [True]), [0.0])


def test_every_group_has_its_own_shortest_and_longest():
    lengths, correct = np.array([[2, 4], [6, 10]]), np.array([[True, True], [True, True]])
    np.testing.assert_allclose(batched_length_terms(lengths, correct), [[0.5, -0.5], [0.5, -0.5]])


def test_the_gate_needs_a_right_answer_in_the_group():
    np.testing.assert_array_equal(kimi([2, 4, 6], [False] * 3, gated=True), np.zeros(3))
    np.testing.assert_allclose(kimi([2, 4, 6], [False, False, True], gated=True), [0.0, 0.0, -0.5])
    np.testing.assert_array_equal(kimi([4, 4], [True, False], gated=True), np.zeros(2))
    lengths, correct = np.array([[2, 6], [2, 6]]), np.array([[False, False], [True, False]])
    np.testing.assert_allclose(batched_length_terms(lengths, correct, gated=True), [[0.0, 0.0], [0.5, -0.5]])


def test_without_the_gate_wrong_answers_pay_and_odd_lengths_count():
    lengths, wrong = np.array([3, 4]), np.array([False, False])
    np.testing.assert_allclose(kimi(lengths, wrong), [0.0, -0.5])
    np.testing.assert_allclose(batched_length_terms(lengths, wrong), [0.0, -0.5])
    np.testing.assert_allclose(group_rewards(split(SHORT, LONG), 7, RewardWeights(length=1.0)), [0.1, -0.4])


def test_every_weight_counts():
    responses = split(SHORT, LONG)
    for weights, expected in [
        (RewardWeights(), [0.1, 1.1]),
        (RewardWeights(format=0.0), [0.0, 1.0]),
        (RewardWeights(accuracy=2.0), [0.1, 2.1]),
        (RewardWeights(length=0.2), [0.1, 1.0]),
        (RewardWeights(0.5, 3.0, 1.0), [0.5, 3.0]),
    ]:
        np.testing.assert_allclose(group_rewards(responses, 11, weights), expected)


def test_a_group_with_its_own_numbers():
    responses = split("7 + 9 END", "2 + 3 END")
    np.testing.assert_array_equal(group_rewards(responses, 16, numbers=("1", "7", "9")), [1.1, 0.0])


@pytest.mark.parametrize("weights", [RewardWeights(), RewardWeights(0.3, 2, 0.4), RewardWeights(0.1, 1, 0.5, True)])
def test_the_table_is_the_verifier(weights):
    task, rngs = expression_task(), [np.random.default_rng(seed) for seed in range(3)]
    reward = TableReward(task, weights)
    for prompts in (None, np.array([[3, 1], [9, 0], [5, 5]])):
        rollouts = TabularPolicy(10, rngs).sample(prompts, 8, rngs)
        rewards = reward(rollouts)
        for seed, place in np.ndindex(rewards.shape[:2]):
            prompt = place if prompts is None else prompts[seed, place]
            responses = [response_tokens(row) for row in rollouts.expressions[seed, place]]
            expected = group_rewards(responses, int(task.targets[prompt]), weights)
            np.testing.assert_allclose(rewards[seed, place], expected, atol=1e-15)


def test_the_table_takes_another_verifier():
    def likes_short(response, target, numbers):
        return Verdict(len(response) < 6, len(response) == 2, None, "")

    reward = TableReward(expression_task(), verifier=likes_short)
    assert reward.correct.sum() == 30
    assert reward.base[0, EXPRESSIONS.index(("2",))] == 1.1
    assert reward.base[0, EXPRESSIONS.index(("2", "+", "3"))] == 0.1
    assert reward.base[0, EXPRESSIONS.index(("2", "+", "3", "*", "5"))] == 0.0


def test_a_verifier_gets_plain_python_and_may_answer_with_any_truth_value():
    def answers_loosely(response, target, numbers):
        assert type(target) is int and numbers == ("2", "3", "5")
        assert all(type(token) is str for token in (*response, *numbers))
        return Verdict(len(response), None if len(response) > 2 else target, None, "")

    reward = TableReward(expression_task(), verifier=answers_loosely)
    assert reward.correct.dtype == bool
    assert np.unique(reward.base).tolist() == [0.1, 1.1]


@pytest.mark.parametrize("name", ["format", "accuracy", "length"])
@pytest.mark.parametrize("value", [-0.1, float("nan"), float("inf"), "1", True, None])
def test_bad_weights(name, value):
    with pytest.raises(ValueError, match=f"the {name} weight is"):
        RewardWeights(**{name: value})


def test_bad_groups():
    with pytest.raises(ValueError, match="responses is empty"):
        group_rewards([], 5)
    for lengths, correct in (([[2]], [True]), (np.zeros(0, dtype=int), []), ([2, 4], [[True, False]])):
        with pytest.raises(ValueError, match="lengths has shape"):
            kimi(lengths, correct)
    with pytest.raises(ValueError, match="lengths has dtype"):
        kimi([], [])
    with pytest.raises(ValueError, match="lengths differ"):
        kimi([2, 4], [True])
