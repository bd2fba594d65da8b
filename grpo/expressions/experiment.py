"""One experiment on the game: many seeds side by side, evaluated at the start, at the end, and on the way."""

from __future__ import annotations

import itertools
from dataclasses import asdict, dataclass, fields, replace

import numpy as np

from grpo.expressions.evaluator import Evaluation, Evaluator
from grpo.expressions.mlp import MLPPolicy, one_hot_features
from grpo.expressions.rewards import TableReward
from grpo.expressions.tabular import TabularPolicy
from grpo.expressions.task import expression_task
from grpo.expressions.trainer import Curves, TrainSettings, train
from grpo.expressions.verifier import RewardWeights

POLICIES = ("tabular", "mlp")
# The loss is a mean over ten prompts. A tabular policy shares nothing between them, so a step of 3 moves each by .3.
LEARNING_RATES = {"tabular": 3.0, "mlp": 0.3}
ABLATIONS = {"no-kl": {"kl_coef": 0.0}, "no-group-norm": {"advantage": "running_mean"}}


@dataclass(frozen=True)
class Run:
    """What a run was and what came out. start and end hold one number per seed; curves hold (steps, S) arrays."""

    policy: str
    settings: TrainSettings
    weights: RewardWeights
    seeds: tuple[int, ...]
    start: Evaluation
    end: Evaluation
    curves: Curves

    def to_dict(self, digits=5):
        """Plain data for JSON, numbers rounded to so many significant digits."""
        return {
            "policy": self.policy,
            "settings": asdict(self.settings),
            "reward_weights": asdict(self.weights),
            "seeds": list(self.seeds),
            "start": evaluation_dict(self.start, digits),
            "end": evaluation_dict(self.end, digits),
            "curves": {name: rounded(self.curves[name], digits) for name in self.curves.names()},
        }


def default_settings(policy, **changes):
    """The course's settings for "tabular" or "mlp". Raises ValueError for another name or a bad setting."""
    if policy not in POLICIES:
        raise ValueError(f"policy is {policy!r}: choose {' or '.join(map(repr, POLICIES))}")
    return TrainSettings(**{"learning_rate": LEARNING_RATES[policy], **changes})


def ablate(settings, ablation):
    """The settings with one part taken out. Raises ValueError for an unknown ablation."""
    if ablation not in ABLATIONS:
        raise ValueError(f"ablation is {ablation!r}: choose {' or '.join(map(repr, ABLATIONS))}")
    return replace(settings, **ABLATIONS[ablation])


def make_policy(policy, rngs):
    """A fresh policy for the ten prompts, one start per generator."""
    if policy == "tabular":
        return TabularPolicy(len(expression_task()), rngs)
    return MLPPolicy(one_hot_features(len(expression_task())), rngs)


def run_experiment(
    policy, settings=None, seeds=range(20), weights=None, *, evaluate_every=1, on_step=None, then=None, **parts
):
    """Train `len(seeds)` policies side by side. A seed gives the same run alone and in company.

    Runs with the same seeds are paired: same start, same random numbers in sampling.

    Args:
        policy: "tabular" or "mlp".
        settings: TrainSettings; default: the course's.
        seeds: integers.
        weights: RewardWeights; default: format .1, accuracy 1, no length term.
        evaluate_every: iterations between exact evaluations; 0: only start and end (then there are no curves).
        on_step: callable (iteration from 1, StepSignals, Evaluation), called at each evaluation.
        then: TrainSettings of a second stage that continues where the first one ends, with the same reference.
        parts: `advantage_function`, `loss_function`, `optimizer`, handed to `train`; `verifier`, to TableReward.

    Returns: Run.

    Raises: ValueError if there are no seeds, or as in `train`.
    """
    settings, weights = settings or default_settings(policy), weights or RewardWeights()
    seeds = tuple(int(seed) for seed in seeds)
    if not seeds:
        raise ValueError("seeds is empty: pass at least one")
    verifier = {"verifier": parts.pop("verifier")} if "verifier" in parts else {}
    rngs = [np.random.default_rng(seed) for seed in seeds]
    model = make_policy(policy, rngs)
    reward = TableReward(expression_task(), weights, **verifier)
    reference = model.frozen_copy()
    evaluator = Evaluator(reward.correct, reward.base, reference)

    start, curves = evaluator(model), Curves()
    stages = [settings] if then is None else [settings, then]
    training = itertools.chain.from_iterable(
        train(model, reward, stage, rngs, reference=reference, signals=bool(evaluate_every), **parts)
        for stage in stages
    )
    for iteration, signals in enumerate(training, start=1):
        if evaluate_every and iteration % evaluate_every == 0:
            evaluation = evaluator(model)
            curves.add(signals, evaluation)
            if on_step is not None:
                on_step(iteration, signals, evaluation)
    return Run(policy, settings, weights, seeds, start, evaluator(model), curves)


def evaluation_dict(evaluation, digits=5):
    """Evaluation -> name -> list of one number per seed."""
    return {field.name: rounded(getattr(evaluation, field.name), digits) for field in fields(evaluation)}


def rounded(array, digits=5):
    """Nested lists of an array's numbers with so many significant digits; NaN becomes None (JSON has none)."""
    if np.ndim(array):
        return [rounded(item, digits) for item in array]
    return float(f"{array:.{digits}g}") if np.isfinite(array) else None
