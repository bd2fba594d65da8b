"""The adapters: a reader's functions, in the vectorised trainer, train like the library's own."""

import numpy as np

from grpo import group_relative_advantage
from grpo.expressions import MLPPolicy, TableReward, TrainSettings, expression_task, one_hot_features, train
from grpo.expressions.parts import FunctionPolicy, batched_advantage, batched_coefficient
from grpo.expressions.per_token import per_token_policy

REWARD = TableReward(expression_task())


def coefficient(new, old, ref, advantage, clip_eps, kl_coef):
    ratio = np.exp(new - old)
    shut = (advantage > 0 and ratio > 1 + clip_eps) or (advantage < 0 and ratio < 1 - clip_eps)
    return (0.0 if shut else advantage * ratio) - kl_coef * (1.0 - np.exp(ref - new))


def forward(parameters, x):
    hidden = np.tanh(x @ parameters["w1"].T + parameters["b1"])
    return hidden @ parameters["w2"].T + parameters["b2"], hidden


def backward(parameters, x, hidden, slopes):
    below = (slopes @ parameters["w2"]) * (1 - hidden**2)
    return {"w1": below.T @ x, "b1": below.sum(axis=0), "w2": slopes.T @ hidden, "b2": slopes.sum(axis=0)}


def mlp(*seeds):
    return MLPPolicy(one_hot_features(10), [np.random.default_rng(seed) for seed in seeds])


def trained(policy, seeds=(0,), prompts=None, **parts):
    rngs = [np.random.default_rng(seed) for seed in seeds]
    settings = TrainSettings(steps=4, learning_rate=2.0, inner_updates=3)
    signals = list(train(policy, REWARD, settings, rngs, prompts=prompts, **parts))
    return policy.parameters, signals


def assert_equal_parameters(ours, theirs):
    for name, value in ours.items():
        np.testing.assert_allclose(value, theirs[name], rtol=0, atol=1e-12)


def test_a_reader_s_advantage():
    function = batched_advantage(group_relative_advantage)
    assert_equal_parameters(trained(mlp(0, 1), (0, 1), advantage_function=function)[0], trained(mlp(0, 1), (0, 1))[0])


def test_a_reader_s_coefficient():
    function = batched_coefficient(coefficient)
    ours, signals = trained(mlp(0), loss_function=function)
    theirs, expected = trained(mlp(0))
    assert_equal_parameters(ours, theirs)
    assert signals[-1].clip_fraction == expected[-1].clip_fraction
    np.testing.assert_allclose(signals[-1].loss, expected[-1].loss, rtol=1e-12)


def test_a_reader_s_coefficient_without_kl():
    settings = TrainSettings(steps=1, kl_coef=0.0)
    ours, theirs = mlp(0), mlp(0)
    for policy, parts in ((ours, {"loss_function": batched_coefficient(coefficient)}), (theirs, {})):
        list(train(policy, REWARD, settings, [np.random.default_rng(0)], **parts))
    assert_equal_parameters(ours.parameters, theirs.parameters)


def test_a_reader_s_network():
    for prompts in (None, np.array([3, 8, 1])):
        start = mlp(0)
        policy = FunctionPolicy(per_token_policy(start).parameters, forward, backward, one_hot_features(10))
        np.testing.assert_allclose(policy.prefix_logprobs(), start.prefix_logprobs(), atol=1e-12)
        copy = policy.frozen_copy()
        assert_equal_parameters(trained(policy, prompts=prompts)[0], trained(start, prompts=prompts)[0])
        assert_equal_parameters(copy.parameters, mlp(0).parameters)
