"""How fast an iteration is: vectorised, token by token, without numpy; and how far from the cost of calling numpy."""

from __future__ import annotations

import random
import statistics
import time

import numpy as np
from rich.console import Console
from rich.table import Table

from grpo import group_relative_advantage
from grpo.expressions.experiment import LEARNING_RATES, POLICIES, make_policy
from grpo.expressions.game import TARGETS
from grpo.expressions.mlp import MLPPolicy, one_hot_features
from grpo.expressions.per_token import loss_and_gradient, per_token_policy, sample_groups, sgd_step
from grpo.expressions.pure_python import PurePythonMLP, PurePythonTabular, iteration
from grpo.expressions.rewards import TableReward
from grpo.expressions.tabular import TabularPolicy
from grpo.expressions.task import Task, expression_task
from grpo.expressions.trainer import TrainSettings, train
from grpo.expressions.verifier import group_rewards

GROUP_SIZES = (8, 32, 128, 512)
COMPARED_SIZES = (8, 64)
SEEDS_AT_ONCE = 16


def bench_expressions(console: Console | None = None, seconds: float = 1.0) -> dict[str, float]:
    """Print and return the median seconds of one training iteration, in every version, for both policies.

    An iteration samples all rollouts, rewards them, scores them under the reference, computes the gradient and takes a
    step; health signals are left out everywhere. The floor is the same sequence of numpy calls on the smallest arrays
    (one prompt, a group of two, one hidden unit).

    Args:
        console: where to print.
        seconds: time to spend on each number.
    """
    console = console or Console()
    found = {}
    for policy in POLICIES:
        console.print(f"measuring {policy} ...", style="dim")
        found |= {f"{policy}, {name}": value for name, value in _measure(policy, seconds).items()}

    table = Table("one iteration, 10 prompts", "group", *POLICIES, title="Median CPU times, one thread")
    for size in COMPARED_SIZES:
        for name in (
            f"group {size}",
            f"token by token, numpy, group {size}",
            f"token by token, no numpy, group {size}",
        ):
            label = name.removesuffix(f"group {size}").rstrip(", ") or "vectorised"
            table.add_row(label, str(size), *(f"{found[f'{p}, {name}'] * 1e3:.3f} ms" for p in POLICIES))
        for name in ("token by token, numpy", "token by token, no numpy"):
            ratios = (found[f"{p}, {name}, group {size}"] / found[f"{p}, group {size}"] for p in POLICIES)
            table.add_row(f"{name} / vectorised", str(size), *(f"{ratio:.0f}" for ratio in ratios))
        table.add_section()
    table.add_row("floor", "2", *(f"{found[f'{p}, floor'] * 1e3:.3f} ms" for p in POLICIES))
    ratios = (found[f"{p}, group 8"] / found[f"{p}, floor"] for p in POLICIES)
    table.add_row("vectorised / floor", "8", *(f"{ratio:.2f}" for ratio in ratios))
    console.print(table)

    table = Table("group size", *(f"{policy}, iterations/s" for policy in POLICIES), title="Larger groups")
    for size in GROUP_SIZES:
        table.add_row(str(size), *(f"{1 / found[f'{policy}, group {size}']:.0f}" for policy in POLICIES))
    console.print(table)

    table = Table(f"{SEEDS_AT_ONCE} seeds, one iteration each", *POLICIES, title="Seeds side by side")
    table.add_row("at once", *(f"{found[f'{p}, seeds at once'] * 1e3:.2f} ms" for p in POLICIES))
    table.add_row("one after another", *(f"{found[f'{p}, seeds in turn'] * 1e3:.2f} ms" for p in POLICIES))
    ratios = (found[f"{p}, seeds in turn"] / found[f"{p}, seeds at once"] for p in POLICIES)
    table.add_row("gain", *(f"{ratio:.1f}" for ratio in ratios))
    console.print(table)
    return found


def _measure(policy, seconds):
    sizes = sorted({*GROUP_SIZES, *COMPARED_SIZES})
    found = {f"group {size}": _median_step(_vectorised(policy, 1, size), seconds) for size in sizes}
    found["floor"] = _median_step(_smallest(policy), seconds)
    found["seeds at once"] = _median_step(_vectorised(policy, SEEDS_AT_ONCE, 8), seconds)
    in_turn = (_vectorised(policy, 1, 8, first_seed=seed) for seed in range(SEEDS_AT_ONCE))
    found["seeds in turn"] = sum(_median_step(steps, seconds / SEEDS_AT_ONCE) for steps in in_turn)
    for size in COMPARED_SIZES:
        found[f"token by token, numpy, group {size}"] = _median_step(_per_token(policy, size), seconds)
        found[f"token by token, no numpy, group {size}"] = _median_step(_no_numpy(policy, size), seconds)
    return found


def _vectorised(policy, n_seeds, group_size, first_seed=0):
    rngs = [np.random.default_rng(first_seed + seed) for seed in range(n_seeds)]
    settings = TrainSettings(steps=10**9, group_size=group_size, learning_rate=LEARNING_RATES[policy])
    return train(make_policy(policy, rngs), TableReward(expression_task()), settings, rngs, signals=False)


def _smallest(policy):
    rngs = [np.random.default_rng(0)]
    model = TabularPolicy(1, rngs) if policy == "tabular" else MLPPolicy(one_hot_features(1), rngs, hidden=1)
    settings = TrainSettings(steps=10**9, group_size=2, learning_rate=LEARNING_RATES[policy])
    return train(model, TableReward(Task([17])), settings, rngs, signals=False)


def _per_token(policy, group_size=8):
    rng = np.random.default_rng(0)
    model = make_policy(policy, [rng])
    view, reference = per_token_policy(model), per_token_policy(model.frozen_copy())
    while True:
        groups = sample_groups(view, len(TARGETS), group_size, rng)
        rewards = [
            group_rewards([response for response, _ in group], target)
            for target, group in zip(TARGETS, groups, strict=True)
        ]
        advantages = group_relative_advantage(np.concatenate(rewards), group_size)
        _, gradient = loss_and_gradient(view, reference, groups, advantages)
        sgd_step(view, gradient, LEARNING_RATES[policy])
        yield


def _no_numpy(policy, group_size=8):
    model = make_policy(policy, [np.random.default_rng(0)])
    kind = PurePythonTabular if policy == "tabular" else PurePythonMLP
    view, reference, rng = kind(model), kind(model), random.Random(0)
    while True:
        iteration(view, reference, TARGETS, group_size, rng, LEARNING_RATES[policy])
        yield


def _median_step(steps, seconds):
    """Median CPU seconds of one item of an iterator, after one to warm up; at least 3 are timed.

    CPU time, because on a busy machine the clock on the wall also counts other people's work.
    """
    next(steps)
    times, end = [], time.process_time() + seconds
    while len(times) < 3 or time.process_time() < end:
        start = time.process_time()
        next(steps)
        times.append(time.process_time() - start)
    return statistics.median(times)
