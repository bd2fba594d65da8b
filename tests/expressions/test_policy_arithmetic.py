"""Small print of the two policies: the start, draws on a boundary, what is kept, what is refused."""

from dataclasses import replace

import numpy as np
import pytest

from grpo.expressions import EXPRESSIONS, PREFIXES, MLPPolicy, TabularPolicy, count_features, mlp, one_hot_features
from grpo.expressions import tabular as tabular_module
from grpo.expressions.game import HAS_CHOICE
from grpo.expressions.policy import TreePolicy


class Draws:
    """A generator whose draws are known."""

    def __init__(self, values):
        self.values = np.asarray(values)

    def random(self, shape):
        return np.broadcast_to(self.values, shape)


def generators(*seeds):
    return [np.random.default_rng(seed) for seed in seeds]


def tabular_policy(n_prompts=2, seeds=(0,)):
    return TabularPolicy(n_prompts, generators(*seeds), scale=1.0)


def mlp_policy(n_prompts=2, seeds=(0,)):
    return MLPPolicy(one_hot_features(n_prompts), generators(*seeds), hidden=3)


both = pytest.mark.parametrize("make", [tabular_policy, mlp_policy])


def test_the_trunk():
    columns = np.arange(HAS_CHOICE.sum())
    policy = TreePolicy({"x": np.zeros((3, 1)), "y": np.zeros((3, 2))}, 1, columns)
    assert (policy.n_seeds, policy.n_prompts, policy.n_columns) == (3, 1, len(columns) + 1)
    assert type(policy.n_columns) is int and type(tabular_module.N_CHOICES) is int
    assert set(np.unique(policy.grammar)) == {-np.inf, 0.0}
    for call in (policy.logits, lambda: policy.backward(None), policy.frozen_copy):
        with pytest.raises(NotImplementedError):
            call()
    with pytest.raises(ValueError, match=r"^n_prompts is 0"):
        TreePolicy({"x": np.zeros((3, 1))}, 0, columns)


def test_the_tabular_start_is_noise_of_a_hundredth():
    policy = TabularPolicy(1, generators(0, 1))
    for seed, rng in enumerate(generators(0, 1)):
        start = 0.01 * rng.standard_normal((6, 1, tabular_module.N_CHOICES + 1))
        np.testing.assert_allclose(policy.parameters["logits"][seed], start, rtol=1e-12)


def test_the_smallest_mlp():
    policy = MLPPolicy([[1]], generators(0), hidden=1)
    assert policy.parameters["w1"].shape == (1, 1, 6)
    np.testing.assert_allclose(np.exp(policy.expression_logprobs()).sum(axis=-1), 1.0, atol=1e-12)


def test_the_features_may_be_lists_of_any_width():
    policy = MLPPolicy([[1, 0, 2], [0, 1, 0]], generators(0), count_features().tolist(), hidden=2)
    assert policy.parameters["w1"].shape == (1, 2, 8)
    assert not policy.prefix_rows[-1].any()
    assert count_features().dtype == one_hot_features(1).dtype == np.float64
    assert MLPPolicy(np.eye(2), generators(0)).parameters["b1"].shape == (1, mlp.HIDDEN)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([["x"]],), "^prompt_features must be an array"),
        ((np.eye(2), [["x"]] * 70), "^prefix_features must be an array"),
        ((np.zeros((0, 3)),), r"^prompt_features has shape \(0, 3\)"),
        ((np.eye(2), np.ones(len(PREFIXES))), r"^prefix_features has shape \(70,\)"),
    ],
)
def test_bad_features(arguments, message):
    features, *others = arguments
    with pytest.raises(ValueError, match=message):
        MLPPolicy(features, generators(0), *others)


def test_no_prompts_no_features():
    with pytest.raises(ValueError, match=r"^n_prompts is 0"):
        one_hot_features(0)


@pytest.mark.parametrize("seed", range(8))
def test_a_draw_on_a_boundary_belongs_to_the_next_expression(seed):
    policy = tabular_policy(1, (seed,))
    boundaries = np.cumsum(np.exp(policy.expression_logprobs()), axis=-1)
    boundaries = (boundaries / boundaries[..., -1:])[0, 0]
    for draws, first in ((boundaries[:-1], 1), (np.nextafter(boundaries, 0.0), 0)):
        drawn = policy.sample(None, len(draws), [Draws(draws)]).expressions[0, 0]
        np.testing.assert_array_equal(drawn, np.arange(first, len(EXPRESSIONS)))


def test_the_last_draw_stays_in_its_row():
    policy = tabular_policy(3, (0, 1))
    drawn = policy.sample(None, 2, [Draws(np.nextafter(1.0, 0.0))] * 2).expressions
    np.testing.assert_array_equal(drawn, np.full((2, 3, 2), len(EXPRESSIONS) - 1))


@both
def test_rollouts_name_their_prompts(make):
    policy, rngs = make(2, (0, 1)), generators(0, 1)
    assert policy.sample(None, 1, rngs).prompt_index.tolist() == [[0, 1]]
    prompts = np.array([[1], [0]])
    assert policy.sample(prompts, 1, rngs).prompt_index is prompts


@both
def test_log_probs_are_computed_once(make):
    policy = make()
    logps = policy.logprobs()
    assert policy.logprobs() is logps
    prompts = np.array([[1]])
    assert policy.logprobs(prompts) is policy.logprobs(prompts) is not logps
    policy.parameters_changed()
    assert policy.logprobs(prompts) is not logps
    assert policy._layout(logps.shape) is policy._layout(logps.shape)


@both
def test_the_index_of_the_rollouts_is_used(make):
    policy = make()
    rollouts = policy.sample(None, 2, generators(0))
    moved = replace(rollouts, index=np.zeros_like(rollouts.index))
    np.testing.assert_array_equal(
        policy.token_logprobs(moved), np.full_like(rollouts.logps, policy.logprobs()[0, 0, 0, 0])
    )


def test_the_hidden_layer_keeps_its_memory():
    policy = mlp_policy()
    policy.logprobs()
    hidden = policy._hidden
    policy.parameters_changed()
    policy.logprobs()
    assert policy._hidden is hidden
