"""The finished pieces of chapter 05, by hand and against the policies of the library."""

import numpy as np
import pytest

from grpo import finite_diff_gradient, softmax
from grpo.expressions import (
    TARGETS,
    MLPPolicy,
    TableReward,
    TrainSettings,
    expression_task,
    networks,
    one_hot_features,
    per_token_policy,
    train,
)
from grpo.expressions.game import PREFIXES

WEIGHTS = {
    "w1": np.array([[1.0, 0.0], [1.0, -1.0]]),
    "b1": np.array([0.0, 0.5]),
    "w2": np.array([[1.0, 2.0], [0.0, -1.0], [0.5, 0.0]]),
    "b2": np.array([0.1, -0.1, 0.0]),
}
X = np.array([[1.0, 2.0], [-0.5, 0.25]])


def test_encode_by_hand():
    row = networks.encode(["2", "+", "5", "+"], 30, [5, 17, 30])
    assert row.tolist() == [1, 0, 1, 2, 0, 0, 0, 1] and row.dtype == float
    with pytest.raises(ValueError, match="7 is none of the targets"):
        networks.encode([], 7, [5, 17, 30])
    for token in ("END", "-"):
        with pytest.raises(ValueError, match=f"'{token}' is no token of a prefix"):
            networks.encode(["2", token], 5, [5, 17, 30])


def test_the_forward_pass_of_one_state_by_hand():
    h = np.tanh([1.0, -0.5])
    expected = [h[0] + 2 * h[1] + 0.1, -h[1] - 0.1, 0.5 * h[0]]
    np.testing.assert_allclose(networks.mlp_forward(WEIGHTS, X[:1]), [expected], atol=1e-15)


def test_the_backward_pass_against_central_differences():
    slopes = np.array([[0.5, -0.5, 0.2], [1.0, 0.3, -0.7]])
    found = networks.mlp_backward(WEIGHTS, X, slopes)
    for name, value in WEIGHTS.items():

        def total(x, name=name):
            return (slopes * networks.mlp_forward({**WEIGHTS, name: x}, X)).sum()

        assert found[name].shape == value.shape
        np.testing.assert_allclose(found[name], finite_diff_gradient(total, value, h=1e-5), atol=1e-9)


def test_the_gradient_of_log_probs_by_hand_and_against_central_differences():
    probs = np.array([[0.5, 0.3, 0.2], [0.0, 0.4, 0.6]])
    found = networks.logit_gradient([1.0, -2.0], [0, 2], probs)
    np.testing.assert_allclose(found, [[0.5, -0.3, -0.2], [0.0, 0.8, -0.8]], atol=1e-15)
    logits = np.array([[0.3, -1.0, 0.2]])

    def loss(z):
        return 1.7 * np.log(softmax(z))[0, 1]

    found = networks.logit_gradient([1.7], [1], softmax(logits))
    np.testing.assert_allclose(found, finite_diff_gradient(loss, logits, h=1e-5), atol=1e-9)


def test_the_gradient_of_one_end_token_by_hand():
    policy = MLPPolicy(one_hot_features(2), [np.random.default_rng(0)], hidden=3)
    weights = per_token_policy(policy).parameters
    targets = [5, 17]
    states = [[], ["5"]]
    x = np.array([networks.encode(prefix, 17, targets) for prefix in states])
    legal = np.array([[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]], dtype=bool)
    probs = softmax(np.where(legal, networks.mlp_forward(weights, x), -1e30))
    old = np.log(probs[[0, 1], [2, 5]])
    # At the sampling policy every ratio is 1; the penalty is off. The loss has a minus, and |o| is 2.
    slopes = networks.logit_gradient([-0.8 / 2, -0.8 / 2], [2, 5], probs)
    expected = networks.mlp_backward(weights, x, slopes)
    ref = {name: 0.5 * value for name, value in weights.items()}  # which does not matter without a penalty
    found = networks.mlp_grpo_gradient(weights, ref, [1], [["5", "END"]], [old], [0.8], kl_coef=0.0)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, atol=1e-13)
    # Above the range and with A > 0 nothing is left; a wider range lets it through.
    call = (weights, weights, [1], [["5", "END"]], [old - 0.25], [0.8])
    assert not any(value.any() for value in networks.mlp_grpo_gradient(*call, kl_coef=0.0).values())
    assert networks.mlp_grpo_gradient(*call, clip_eps=0.3, kl_coef=0.0)["b2"].any()


def test_rollouts_may_come_in_any_order():
    rng = np.random.default_rng(1)
    policy, reference = (MLPPolicy(one_hot_features(2), [rng], hidden=3) for _ in range(2))
    weights, ref = (per_token_policy(one).parameters for one in (policy, reference))
    prompts, responses = [1, 0, 1], [["5", "END"], ["2", "+", "3", "END"], ["3", "*", "5", "END"]]
    old, advantages = [np.full(len(one), -1.0) for one in responses], [1.0, -0.5, 0.25]
    found = networks.mlp_grpo_gradient(weights, ref, prompts, responses, old, advantages)
    back = networks.mlp_grpo_gradient(weights, ref, prompts[::-1], responses[::-1], old[::-1], advantages[::-1])
    for name, value in found.items():
        assert value.any()
        np.testing.assert_allclose(value, back[name], atol=1e-14)
    written_out = networks.mlp_grpo_gradient(weights, ref, prompts, responses, old, advantages, 0.2, 0.04)
    assert all((value == written_out[name]).all() for name, value in found.items())
    with pytest.raises(ValueError, match="zip"):
        networks.mlp_grpo_gradient(weights, ref, prompts, responses, old, advantages[:2])


def test_a_seed_trains_the_same_alone_and_in_company():
    together, alone = networks.train_mlp([3, 4], 2), networks.train_mlp([4], 2)
    for name, value in alone.items():
        np.testing.assert_allclose(value[0], together[name][1], atol=1e-12)
    assert together["w1"].shape == (2, 48, 5 + len(TARGETS))
    harder = networks.train_mlp([4], 2, kl_coef=2.0)
    assert not np.allclose(harder["w1"], alone["w1"])
    assert not np.allclose(networks.train_mlp([4], 2, inner_updates=2)["w1"], alone["w1"])


@pytest.mark.parametrize(
    "given", [{}, {"learning_rate": 20.0, "kl_coef": 0.5, "inner_updates": 2}, {"steps": 1, "learning_rate": 0.6}]
)
def test_training_is_the_library_s_with_the_chapter_s_settings(given):
    rngs = [np.random.default_rng(4)]
    policy = MLPPolicy(one_hot_features(10), rngs)
    settings = TrainSettings(
        **{"steps": 3, "learning_rate": 0.3, "kl_coef": 0.04, **given}, token_average="sum", kl_kind="k3_capped"
    )
    for _ in train(policy, TableReward(expression_task()), settings, rngs):
        pass
    for name, value in networks.train_mlp([4], **{"steps": 3, **given}).items():
        np.testing.assert_array_equal(value, policy.parameters[name])


def curves(length=5.0, ties=0.3, reward=0.6, kl=1.0):
    """Curves that tell nothing before their last five points."""
    ends = {"length": length, "zero_variance_share": ties, "reward": reward, "kl": kl, "entropy": 2.0}
    return {name: [9.9] * 7 + [value - 0.01, value + 0.01] + [value] * 3 for name, value in ends.items()}


@pytest.mark.parametrize(
    ("ends", "label"),
    [
        ({}, "healthy"),
        ({"ties": 0.95, "reward": 1.08}, "healthy"),
        ({"length": 2.1, "ties": 0.95, "reward": 0.3}, "length collapse"),
        ({"ties": 0.95}, "tied groups"),
        ({"kl": 0.1, "reward": 0.2}, "held back"),
        ({"kl": 0.1, "reward": 0.6}, "healthy"),
        ({"kl": 0.9, "reward": 0.2}, "healthy"),
    ],
)
def test_runs_by_their_ends(ends, label):
    assert networks.read_run(curves(**ends)) == label and label in networks.LABELS
    assert networks.end_of_run(curves(**ends))["entropy"] == pytest.approx(2.0)
    assert type(networks.end_of_run(curves())["kl"]) is float


@pytest.mark.parametrize(
    "ends",
    [
        {"length": 3.0},
        {"length": 3.5},
        {"ties": 0.85},
        {"ties": 0.95, "reward": 0.9},
        {"kl": 0.2, "reward": 0.2},
        {"kl": 0.3, "reward": 0.2},
        {"kl": 0.1, "reward": 0.4},
    ],
)
def test_runs_at_the_thresholds_are_healthy(ends):
    flat = {name: [values[-1]] * 5 for name, values in curves(**ends).items()}
    assert networks.read_run(flat) == "healthy"


@pytest.mark.parametrize(("share", "held"), [(0.34, 1), (0.5, 2), (0.65, 3), (0.01, 1), (0.99, 3)])
def test_groups_are_held_out_as_a_whole(share, held):
    numbers = [[2, 3, 5], [1, 4, 6], [5, 3, 2], [2, 7, 9], [6, 1, 4], [3, 4, 8]]
    splits = set()
    for seed in range(20):
        flags = networks.held_out_split(numbers, share, np.random.default_rng(seed))
        assert flags.dtype == bool and flags[0] == flags[2] and flags[1] == flags[4]
        assert flags[[0, 1, 3, 5]].sum() == held
        splits.add(tuple(flags.tolist()))
        np.testing.assert_array_equal(flags, networks.held_out_split(numbers, share, np.random.default_rng(seed)))
    assert len(splits) > 3


def test_the_features_are_those_of_the_policy():
    from grpo.expressions import count_features

    for row, prefix in zip(count_features(), PREFIXES, strict=True):
        np.testing.assert_array_equal(networks.encode(prefix, 5, [5])[:5], row)
