"""The loop: what it does with its parts, what it reports, what it refuses."""

from dataclasses import replace
from inspect import signature

import numpy as np
import pytest

from grpo import group_relative_advantage, zero_variance_fraction
from grpo.expressions import (
    SGD,
    Curves,
    MLPPolicy,
    TableReward,
    TabularPolicy,
    TrainSettings,
    expression_task,
    one_hot_features,
    per_token_policy,
    token_loss,
    train,
)
from grpo.expressions.per_token import loss_and_gradient, sgd_step

REWARD = TableReward(expression_task())


def generators(*seeds):
    return [np.random.default_rng(seed) for seed in seeds]


def start(kind, rngs):
    return TabularPolicy(10, rngs) if kind == "tabular" else MLPPolicy(one_hot_features(10), rngs)


def run(kind="mlp", seeds=(0, 1), reward=REWARD, **settings):
    rngs = generators(*seeds)
    policy, curves = start(kind, rngs), Curves()
    names = ("optimizer", "prompts", "loss_function", "advantage_function", "reference")
    parts = {name: settings.pop(name) for name in names if name in settings}
    for signals in train(policy, reward, TrainSettings(**{"steps": 5, **settings}), rngs, **parts):
        curves.add(signals)
    return policy, curves


kinds = pytest.mark.parametrize("kind", ["tabular", "mlp"])


@kinds
@pytest.mark.parametrize("inner_updates", [1, 3])
def test_an_iteration_is_the_per_token_iteration(kind, inner_updates):
    rngs = generators(0)
    policy, twin = start(kind, rngs), start(kind, generators(0))
    reference = per_token_policy(twin.frozen_copy())
    view = per_token_policy(twin)
    seen = []

    def watch(rollouts):
        seen.append(rollouts)
        return REWARD(rollouts)

    settings = TrainSettings(steps=3, learning_rate=2.0, kl_coef=0.5, inner_updates=inner_updates)
    for signals in train(policy, watch, settings, rngs):
        rollouts = seen[-1]
        rewards = REWARD(rollouts)[0]
        advantages = group_relative_advantage(rewards.ravel(), 8)
        groups = [
            [(words(rollouts, 0, prompt, i), rollouts.logps[0, prompt, i]) for i in range(8)] for prompt in range(10)
        ]
        for _ in range(inner_updates):
            loss, gradient = loss_and_gradient(view, reference, groups, advantages, kl_coef=0.5)
            sgd_step(view, gradient, 2.0)
        assert signals.loss[0] == pytest.approx(loss, abs=1e-12)
        for name, value in policy.parameters.items():
            np.testing.assert_allclose(value[0], view.parameters[name], rtol=0, atol=1e-12)


def words(rollouts, seed, prompt, i):
    from grpo.expressions.game import response_tokens

    return list(response_tokens(rollouts.expressions[seed, prompt, i]))


@kinds
def test_a_seed_trains_the_same_alone_and_in_company(kind):
    together, _ = run(kind, (3, 4, 5), steps=20)
    for place, seed in enumerate((3, 4, 5)):
        alone, _ = run(kind, (seed,), steps=20)
        for name, value in alone.parameters.items():
            np.testing.assert_allclose(value[0], together.parameters[name][place], rtol=0, atol=1e-10)


def test_signals_are_what_they_say():
    seen = []

    def watch(rollouts):
        seen.append((rollouts, REWARD(rollouts)))
        return seen[-1][1]

    _, curves = run(reward=watch, steps=4)
    for step, (rollouts, rewards) in enumerate(seen):
        for seed in range(2):
            assert curves["reward"][step, seed] == pytest.approx(rewards[seed].mean())
            share = zero_variance_fraction(rewards[seed].ravel(), 8)
            assert curves["zero_variance_share"][step, seed] == pytest.approx(share)
            assert curves["length"][step, seed] == pytest.approx(rollouts.lengths[seed].mean())
            rms = np.sqrt((group_relative_advantage(rewards[seed].ravel(), 8) ** 2).mean())
            assert curves["advantage_rms"][step, seed] == pytest.approx(rms)
    assert curves.names()[0] == "reward" and curves["reward"].shape == (4, 2)


def test_the_gradient_norm_is_the_length_of_the_step():
    class Recorder(SGD):
        def step(self, parameters, gradient):
            norms.append(np.sqrt(sum((slope[0] ** 2).sum() for slope in gradient.values())))
            super().step(parameters, gradient)

    norms = []
    _, curves = run(seeds=(0,), optimizer=Recorder(0.3), inner_updates=2)
    np.testing.assert_allclose(curves["gradient_norm"][:, 0], np.reshape(norms, (5, 2)).mean(axis=1), atol=1e-12)


def test_one_update_never_clips_and_more_do():
    ratios = []

    def watch(new, old, *rest):
        ratios.append(np.exp(new - old))
        return token_loss(new, old, *rest)

    _, once = run(steps=10, learning_rate=3.0, loss_function=watch)
    assert not once["clip_fraction"].any() and all((ratio == 1.0).all() for ratio in ratios)
    ratios.clear()
    _, often = run(steps=10, learning_rate=3.0, inner_updates=4, loss_function=watch)
    assert often["clip_fraction"].mean() > 0.02
    assert all((ratio == 1.0).all() == (update % 4 == 0) for update, ratio in enumerate(ratios))


def test_the_reference_is_the_start():
    seen = []

    def watch(new, old, ref, *rest):
        seen.append((old, ref))
        return token_loss(new, old, ref, *rest)

    run(steps=3, loss_function=watch)
    np.testing.assert_array_equal(*seen[0])
    assert not np.allclose(*seen[2])


def test_without_kl_no_reference_is_asked():
    seen = []

    def watch(new, old, ref, *rest):
        seen.append(ref)
        return token_loss(new, old, ref, *rest)

    run(kl_coef=0.0, loss_function=watch)
    assert seen == [None] * 5


def test_a_reference_of_one_s_own_is_used_unless_there_is_no_penalty():
    reference, seen = start("mlp", generators(8, 9)), []

    def watch(new, old, ref, *rest):
        seen.append(ref)
        return token_loss(new, old, ref, *rest)

    asked = []

    def reward(rollouts):
        asked.append(rollouts)
        return REWARD(rollouts)

    run(steps=1, reference=reference, loss_function=watch, reward=reward)
    np.testing.assert_array_equal(seen[0], reference.token_logprobs(asked[0]))
    run(steps=1, reference=reference, loss_function=watch, kl_coef=0.0)
    assert seen[1] is None


def test_the_settings_reach_the_loss():
    seen = []

    def watch(new, old, ref, advantages, weights, *rest):
        seen.append((weights, rest))
        return token_loss(new, old, ref, advantages, weights, *rest)

    for average in ("mean", "sum"):
        run(steps=1, loss_function=watch, token_average=average, clip_eps=0.3, kl_coef=0.7, kl_kind="k2")
    (mean, rest), (total, _) = seen
    assert rest == (0.3, 0.7, "k2")
    assert total.max() == pytest.approx(1 / 80) and mean.max() == pytest.approx(1 / 160)


def test_advantages_by_the_settings_or_by_a_function():
    seen = []

    def own(rewards):
        seen.append(rewards)
        return np.zeros(rewards.shape)

    _, curves = run(advantage_function=own, reward=lambda r: np.ones(r.lengths.shape, dtype=int), kl_coef=0.0)
    assert seen[0].dtype == float and not curves["gradient_norm"].any()
    rms = [run(steps=1, advantage_ddof=ddof)[1]["advantage_rms"] for ddof in (0, 1)]
    np.testing.assert_allclose(rms[0] / rms[1], np.sqrt(8 / 7), rtol=2e-3)


def test_the_clip_fraction_counts_tokens_that_exist():
    lengths, shut = [], []

    def reward(rollouts):
        lengths.append(rollouts.lengths.sum(axis=(1, 2)))
        return REWARD(rollouts)

    def all_shut(*arguments):
        return replace(token_loss(*arguments), open_gate=np.zeros(arguments[0].shape, dtype=bool))

    _, curves = run(loss_function=all_shut, inner_updates=3)
    assert (curves["clip_fraction"] == 1.0).all()

    def watch(new, old, *rest):
        result = token_loss(new, old, *rest)
        shut.append((~result.open_gate & (old != 0.0)).sum(axis=(1, 2, 3)))
        return result

    _, curves = run(steps=2, learning_rate=3.0, inner_updates=4, loss_function=watch, reward=reward)
    expected = np.reshape(shut, (2, 4, 2)).sum(axis=1) / (4 * np.array(lengths))
    assert expected.any()
    np.testing.assert_allclose(curves["clip_fraction"], expected)


@pytest.mark.parametrize(
    ("prompts", "per_step", "asked"),
    [
        (None, None, None),
        ([4, 1, 6], None, [[4, 1, 6]] * 2),
        (None, 10, [list(range(10))] * 2),
        ([4, 1], 2, [[1, 4]] * 2),
    ],
)
def test_which_prompts_are_asked(prompts, per_step, asked):
    seen = []

    def watch(rollouts):
        seen.append(rollouts.prompts)
        return REWARD(rollouts)

    run(steps=1, reward=watch, prompts=prompts, prompts_per_step=per_step)
    if asked is None:
        assert seen == [None]
    else:
        np.testing.assert_array_equal(np.sort(seen[0]) if per_step else seen[0], asked)


def test_prompts_are_drawn_from_the_pool():
    asked = []

    def watch(rollouts):
        asked.append(rollouts.prompts)
        return REWARD(rollouts)

    policy, _ = run("tabular", reward=watch, prompts=np.array([1, 4, 6]), prompts_per_step=2, steps=30, kl_coef=0.0)
    asked = np.array(asked)
    assert asked.shape == (30, 2, 2) and set(asked.ravel()) == {1, 4, 6}
    assert (asked[..., 0] != asked[..., 1]).all() and (asked[:, 0] != asked[:, 1]).any()
    untouched, moved = start("tabular", generators(0, 1)).parameters["logits"], policy.parameters["logits"]
    changed = (untouched != moved).any(axis=(0, 1, 3))
    assert np.flatnonzero(changed).tolist() == [1, 4, 6]
    _, curves = run("tabular", prompts=np.array([1, 4, 6]))
    assert len(curves["reward"]) == 5


def test_equal_rewards_without_kl_change_nothing():
    policy, curves = run(reward=lambda rollouts: np.ones(rollouts.lengths.shape), kl_coef=0.0)
    for name, value in start("mlp", generators(0, 1)).parameters.items():
        np.testing.assert_array_equal(value, policy.parameters[name])
    assert (curves["zero_variance_share"] == 1.0).all() and not curves["gradient_norm"].any()


def test_signals_can_be_switched_off():
    rngs = generators(0)
    settings = TrainSettings(steps=2)
    assert list(train(start("mlp", rngs), REWARD, settings, rngs, signals=False)) == [None, None]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"group_size": 1}, "group_size is 1: it must be at least 2"),
        ({"steps": 0}, "steps is 0"),
        ({"learning_rate": 0.0}, "learning_rate is 0.0"),
        ({"inner_updates": 0}, "inner_updates is 0"),
        ({"clip_eps": -0.1}, "clip_eps is -0.1"),
        ({"kl_coef": float("nan")}, "kl_coef is nan"),
        ({"advantage_eps": -1}, "advantage_eps is -1"),
        ({"kl_kind": "kl"}, "kl_kind is 'kl': choose 'k1'"),
        ({"token_average": "max"}, "token_average is 'max': choose 'mean', 'sum'"),
        ({"advantage": "batch"}, "advantage is 'batch': choose 'group'"),
        ({"advantage_ddof": 2}, "advantage_ddof is 2: choose 0 or 1"),
        ({"advantage_ddof": -1}, "^advantage_ddof is -1: it must be at least 0"),
        ({"prompts_per_step": 0}, "prompts_per_step is 0"),
    ],
)
def test_bad_settings(changes, message):
    with pytest.raises(ValueError, match=message):
        TrainSettings(**changes)


def test_the_smallest_settings():
    settings = TrainSettings(
        group_size=2, steps=1, inner_updates=1, clip_eps=0.0, kl_coef=0.0, advantage_ddof=0, prompts_per_step=1
    )
    assert (settings.steps, settings.prompts_per_step, settings.advantage_ddof) == (1, 1, 0)


@pytest.mark.parametrize(
    ("reward", "message"),
    [
        (lambda rollouts: 1.0, r"the reward function returned shape \(\): return one reward per rollout, \(2, 10, 8\)"),
        (lambda rollouts: np.full(rollouts.lengths.shape, np.nan), r"\(0, 0, 0\) is nan"),
        (lambda rollouts: np.where(np.arange(8) == 3, np.inf, REWARD(rollouts)), r"\(0, 0, 3\) is inf"),
    ],
)
def test_bad_rewards_stop_the_run(reward, message):
    with pytest.raises(ValueError, match=message):
        run(reward=reward)


def test_bad_calls():
    rngs = generators(0, 1)
    with pytest.raises(ValueError, match="1 generators for 2 seeds"):
        next(train(start("mlp", rngs), REWARD, TrainSettings(), rngs[:1]))
    with pytest.raises(ValueError, match="prompts_per_step is 4, but there are 3 prompts"):
        run(prompts=np.arange(3), prompts_per_step=4)


def test_the_course_s_settings_are_the_defaults_everywhere():
    settings = TrainSettings()
    assert (settings.group_size, settings.steps, settings.learning_rate, settings.inner_updates) == (8, 300, 0.3, 1)
    assert (settings.clip_eps, settings.kl_coef, settings.kl_kind) == (0.2, 0.04, "k3")
    assert (settings.token_average, settings.advantage) == ("mean", "group")
    assert (settings.advantage_eps, settings.advantage_ddof) == (1e-4, 1)
    for function in (token_loss, loss_and_gradient):
        for name, parameter in signature(function).parameters.items():
            if parameter.default is not parameter.empty:
                assert parameter.default == getattr(settings, name)
