"""Training runs with a known fault, for pictures and for the exercise `diagnose_run`."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from grpo.expressions import (
    TableReward,
    TabularPolicy,
    default_settings,
    expression_task,
    group_advantages,
    token_loss,
    train,
)

HEALTHY, BROKEN_SIGN, DEAD_CLIP, LEAKING = "healthy", "broken sign", "dead clip", "leaking reference"
DIAGNOSES = (HEALTHY, BROKEN_SIGN, DEAD_CLIP, LEAKING)
# Enough for the start of every run to solve a fifth of the prompts, so that a fall shows as clearly as a rise.
_WARM_UP = {"learning_rate": 30.0, "steps": 10}


class _SomeFollow:
    """A reference that stays where it is for some runs, and follows the policy for the others."""

    def __init__(self, frozen, policy, follows):
        self.frozen, self.policy, self.follows = frozen, policy, follows[:, np.newaxis, np.newaxis, np.newaxis]

    def token_logprobs(self, rollouts):
        return np.where(self.follows, self.policy.token_logprobs(rollouts), self.frozen.token_logprobs(rollouts))


@lru_cache(maxsize=8)
def faulty_runs(faults, inner_updates, learning_rate, seed, steps=30):
    """Train one policy for each fault, side by side, from starts that already know a little.

    Args:
        faults: tuple of DIAGNOSES, one for each run. "broken sign" turns every advantage round; "dead clip" recomputes
            the old log-probs in every update; the reference of a "leaking reference" is the policy of the iteration
            before.
        inner_updates: updates per batch.
        learning_rate: as in `default_settings("tabular")`.
        seed: of the first run; the others follow.
        steps: iterations.

    Returns: list of dicts, the signals of each run as a log would hold them: "inner_updates", an int, and lists with
        one number per iteration: "reward", "kl" (exact, to the reference, in nats), "entropy" (nats),
        "clip_fraction", "zero_variance_share", "loss".
    """
    is_fault = {fault: np.array([one == fault for one in faults]) for fault in DIAGNOSES}
    rngs = [np.random.default_rng(seed + i) for i in range(len(faults))]
    reward, policy = TableReward(expression_task()), TabularPolicy(len(expression_task()), rngs)
    warm = default_settings("tabular", **_WARM_UP)
    for _ in train(policy, reward, warm, rngs, signals=False):
        pass

    start = policy.frozen_copy()
    turned = np.where(is_fault[BROKEN_SIGN], -1.0, 1.0)[:, np.newaxis, np.newaxis]
    no_clip = is_fault[DEAD_CLIP][:, np.newaxis, np.newaxis, np.newaxis]

    def loss_function(new, old, *rest):
        return token_loss(new, np.where(no_clip, new, old), *rest)

    training = train(
        policy,
        reward,
        replace(warm, learning_rate=learning_rate, inner_updates=inner_updates, steps=steps),
        rngs,
        reference=_SomeFollow(start, policy, is_fault[LEAKING]),
        advantage_function=lambda rewards: turned * group_advantages(rewards),
        loss_function=loss_function,
    )
    log = {name: [] for name in ("reward", "kl", "entropy", "clip_fraction", "zero_variance_share", "loss")}
    frozen, before = start.expression_logprobs(), start.expression_logprobs()
    for signals in training:
        logps = policy.expression_logprobs()
        reference = np.where(is_fault[LEAKING][:, np.newaxis, np.newaxis], before, frozen)
        probs = np.exp(logps)
        log["kl"].append((probs * (logps - reference)).sum(axis=2).mean(axis=1))
        log["entropy"].append(-(probs * logps).sum(axis=2).mean(axis=1))
        for name in ("reward", "clip_fraction", "zero_variance_share", "loss"):
            log[name].append(getattr(signals, name))
        before = logps
    curves = {name: np.array(rows).T.tolist() for name, rows in log.items()}
    return [
        {"inner_updates": inner_updates, **{name: [round(x, 8) for x in rows[i]] for name, rows in curves.items()}}
        for i in range(len(faults))
    ]
