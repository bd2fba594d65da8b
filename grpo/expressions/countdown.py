"""Does a network share what it learns? Countdown-lite, with held-out prompts and a control that cannot share.

The grammar is that of the expression game; the number tokens 2, 3, 5 stand for a prompt's smallest, middle and largest
number. The network with numeric inputs sees the numbers and the target; the control sees which prompt it is, and so
has nothing to go by for a prompt it was never trained on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from grpo.expressions.countdown_data import SPLITS, countdown_prompts
from grpo.expressions.evaluator import Evaluator
from grpo.expressions.game import PREFIXES, TOKENS
from grpo.expressions.mlp import MLPPolicy, one_hot_features
from grpo.expressions.optimizers import Adam
from grpo.expressions.rewards import TableReward
from grpo.expressions.task import Task
from grpo.expressions.trainer import TrainSettings, train

INPUTS = ("numeric", "one-hot")
HIDDEN = 64
LEARNING_RATE = 0.01


@dataclass(frozen=True)
class CountdownRun:
    """steps: (n,) evaluated iterations, 0 first. Scores: (n, S), exact, on the training and the held-out prompts."""

    inputs: str
    split: str
    settings: TrainSettings
    seeds: tuple[int, ...]
    steps: np.ndarray
    train_exact: np.ndarray
    train_greedy: np.ndarray
    heldout_exact: np.ndarray
    heldout_greedy: np.ndarray


def position_features():
    """(70, 25) float64: which token stands at each of the five positions of a prefix, one-hot."""
    features = np.zeros((len(PREFIXES), 5, len(TOKENS) - 1))
    for row, prefix in enumerate(PREFIXES):
        for position, token in enumerate(prefix):
            features[row, position, TOKENS.index(token)] = 1.0
    return features.reshape(len(PREFIXES), -1)


def numeric_features(numbers, targets, fit_on):
    """What the network sees of a prompt: the three numbers, the target, and their logs, each column standardised.

    Args:
        numbers: (P, 3) int.
        targets: (P,) int.
        fit_on: (P,) bool, the prompts that mean and std are taken from: the training prompts.

    Returns: (P, 8) float64.
    """
    raw = np.column_stack([numbers, targets]).astype(float)
    raw = np.concatenate([raw, np.log(raw)], axis=1)
    return (raw - raw[fit_on].mean(axis=0)) / raw[fit_on].std(axis=0)


def countdown_settings(**changes):
    """The settings of the experiment: 500 iterations of 32 prompts x 8, no KL. The step is Adam's, .01."""
    return TrainSettings(
        **{"steps": 500, "prompts_per_step": 32, "kl_coef": 0.0, "learning_rate": LEARNING_RATE, **changes}
    )


def run_countdown(inputs="numeric", seeds=range(8), settings=None, split="split", evaluate_every=50, on_step=None):
    """Train on the training prompts, evaluate on both parts.

    Args:
        inputs: "numeric", or "one-hot" for the control.
        seeds: integers; each is one run.
        settings: TrainSettings, default `countdown_settings()`.
        split: "split" (held-out prompts) or "split_by_numbers" (held-out number triples).
        evaluate_every: iterations between evaluations; the start and the end are always evaluated.
        on_step: callable (iteration), called after each.

    Returns: CountdownRun.

    Raises: ValueError if inputs or split is unknown, or there are no seeds.
    """
    if inputs not in INPUTS:
        raise ValueError(f"inputs is {inputs!r}: choose {' or '.join(map(repr, INPUTS))}")
    if split not in SPLITS:
        raise ValueError(f"split is {split!r}: choose {' or '.join(map(repr, SPLITS))}")
    settings, seeds = settings or countdown_settings(), tuple(int(seed) for seed in seeds)
    if not seeds:
        raise ValueError("seeds is empty: pass at least one")

    prompts = countdown_prompts()
    task = Task([prompt["target"] for prompt in prompts], [prompt["numbers"] for prompt in prompts])
    in_training = np.array([prompt[split] == "train" for prompt in prompts])
    features = one_hot_features(len(task))
    if inputs == "numeric":
        features = numeric_features(task.numbers, task.targets, in_training)

    rngs = [np.random.default_rng(seed) for seed in seeds]
    policy = MLPPolicy(features, rngs, position_features(), HIDDEN)
    reward = TableReward(task)
    evaluators = [Evaluator(reward.correct, prompts=np.flatnonzero(part)) for part in (in_training, ~in_training)]
    steps, scores = [0], [_scores(evaluators, policy)]
    training = train(
        policy,
        reward,
        settings,
        rngs,
        prompts=np.flatnonzero(in_training),
        optimizer=Adam(settings.learning_rate),
        signals=False,
    )
    for iteration, _ in enumerate(training, start=1):
        if iteration % evaluate_every == 0 or iteration == settings.steps:
            steps.append(iteration)
            scores.append(_scores(evaluators, policy))
        if on_step is not None:
            on_step(iteration)
    return CountdownRun(inputs, split, settings, seeds, np.array(steps), *np.swapaxes(np.array(scores), 0, 1))


def _scores(evaluators, policy):
    found = [evaluator(policy) for evaluator in evaluators]
    return [scores for evaluation in found for scores in (evaluation.exact_success, evaluation.greedy_success)]
