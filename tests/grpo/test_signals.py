"""grpo.signals: eight numbers from plain arrays."""

import dataclasses

import numpy as np
import pytest

from grpo import HealthSignals, health_signals, kl_k3


def step_arrays(**changes):
    arrays = {
        "rewards": [1, 1, 1, 0],
        "group_size": 2,
        "entropies": [0.5, 1.0, 1.5],
        "deltas": [0.0, np.log(2)],
        "ratios": [1.5, 0.5, 1.3, 1.0],
        "advantages": [1.0, 1.0, -1.0, -1.0],
        "gradient": [[3.0, 0.0], [0.0, -4.0]],
        "response_lengths": [2, 4, 6, 8],
        "truncated": [False, False, False, True],
    }
    return arrays | changes


def test_worked_step():
    signals = health_signals(**step_arrays())
    assert dataclasses.asdict(signals) == {
        "reward_mean": 0.75,
        "zero_variance_share": 0.5,
        "entropy": 1.0,
        "kl": pytest.approx((1 - np.log(2)) / 2),
        "clip_fraction": 0.25,
        "gradient_norm": 5.0,
        "response_length": 5.0,
        "truncation_rate": 0.25,
    }
    assert all(type(value) is float for value in dataclasses.astuple(signals))


def test_signals_are_frozen():
    signals = health_signals(**step_arrays())
    assert isinstance(signals, HealthSignals)
    with pytest.raises(dataclasses.FrozenInstanceError):
        signals.kl = 0.0


def test_convention_c7_truncated_rollouts_are_counted_not_dropped():
    signals = health_signals(**step_arrays(truncated=[1, 1, 1, 1], rewards=[0, 0, 0, 0]))
    assert (signals.truncation_rate, signals.zero_variance_share, signals.reward_mean) == (1.0, 1.0, 0.0)
    assert signals.response_length == 5.0


def test_clip_range_is_used():
    assert health_signals(**step_arrays(ratios=[1.19, 1, 1, 1])).clip_fraction == 0.0
    assert health_signals(**step_arrays(ratios=[1.21, 1, 1, 1])).clip_fraction == 0.25
    assert health_signals(**step_arrays(clip_eps=0.5)).clip_fraction == 0.0


def test_per_token_arrays_may_have_their_own_length():
    signals = health_signals(
        **step_arrays(entropies=np.ones(9), deltas=np.ones(7), ratios=np.ones(5), advantages=np.ones(5))
    )
    assert (signals.entropy, signals.clip_fraction) == (1.0, 0.0)
    assert signals.kl == pytest.approx(kl_k3(1.0))


@pytest.mark.parametrize("gradient", [3.0, [3.0], [[[3.0]]]])
def test_gradient_of_any_shape(gradient):
    assert health_signals(**step_arrays(gradient=gradient)).gradient_norm == 3.0


@pytest.mark.parametrize(
    "name", ["rewards", "entropies", "deltas", "ratios", "advantages", "gradient", "response_lengths", "truncated"]
)
def test_bad_arrays_are_named(name):
    with pytest.raises(ValueError, match=f"{name} is empty"):
        health_signals(**step_arrays(**{name: []}))
    with pytest.raises(ValueError, match=rf"{name}\[1\] is nan"):
        health_signals(**step_arrays(**{name: [1.0, np.nan, 1.0, 1.0]}))


def test_arrays_must_be_numbers():
    for name in ("rewards", "entropies", "deltas", "gradient"):
        with pytest.raises(ValueError, match=f"^{name} must be an array of numbers"):
            health_signals(**step_arrays(**{name: ["x"]}))


@pytest.mark.parametrize("name", ["rewards", "response_lengths", "truncated"])
def test_one_entry_per_rollout(name):
    with pytest.raises(ValueError, match=rf"2 {name}.*pass one of each per rollout"):
        health_signals(**step_arrays(**{name: [1.0, 0.0]}))


@pytest.mark.parametrize("flag", [0.5, 2, -1])
def test_truncated_holds_flags(flag):
    with pytest.raises(ValueError, match="truncated holds an entry that is neither 0 nor 1"):
        health_signals(**step_arrays(truncated=[0, 1, 0, flag]))


def test_group_size_is_checked():
    with pytest.raises(ValueError, match="group_size is 1"):
        health_signals(**step_arrays(group_size=1))
