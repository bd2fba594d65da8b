"""The exercise `policy_gradient_analytic`: its parts, its known mistakes, and correct alternatives."""

from __future__ import annotations

import math

import numpy as np

import grpo
from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.exercises.chapter_03.common import CHAPTER, toy_arrays, uneven_advantages


def _pg_no_p(logits, actions, advantages):
    _, _, a, _, onehot = toy_arrays(logits, actions, advantages)
    return a @ onehot / len(a)


def _pg_plus_p(logits, actions, advantages):
    _, _, a, p, onehot = toy_arrays(logits, actions, advantages)
    return a @ (onehot + p) / len(a)


def _pg_one_direction(logits, actions, advantages):
    _, _, a, p, onehot = toy_arrays(logits, actions, advantages)
    return a @ (onehot * (1 - p)) / len(a)


def _pg_sum(logits, actions, advantages):
    return len(actions) * grpo.policy_gradient_analytic(logits, actions, advantages)


def _pg_mean_over_answers(logits, actions, advantages):
    return _pg_sum(logits, actions, advantages) / len(logits)


def _pg_sign(logits, actions, advantages):
    return -grpo.policy_gradient_analytic(logits, actions, advantages)


def _pg_no_advantages(logits, actions, advantages):
    return grpo.policy_gradient_analytic(logits, actions, np.ones(len(actions)))


def _pg_p_of_the_action(logits, actions, advantages):
    _, actions, a, p, onehot = toy_arrays(logits, actions, advantages)
    return a @ (onehot - p[actions][:, None]) / len(a)


def _pg_logits_for_p(logits, actions, advantages):
    logits, _, a, _, onehot = toy_arrays(logits, actions, advantages)
    return a @ (onehot - logits) / len(a)


def _pg_log_p(logits, actions, advantages):
    logits, _, a, _, onehot = toy_arrays(logits, actions, advantages)
    return a @ (onehot - grpo.log_softmax(logits)) / len(a)


def _pg_centred_again(logits, actions, advantages):
    a = np.asarray(advantages, dtype=float)
    return grpo.policy_gradient_analytic(logits, actions, a - a.mean())


def _pg_repeats_lost(logits, actions, advantages):
    logits, actions, a, p, _ = toy_arrays(logits, actions, advantages)
    gradient = -a.sum() * p
    gradient[actions] += a
    return gradient / len(a)


def _pg_no_p_repeats_lost(logits, actions, advantages):
    logits, actions, a, _, _ = toy_arrays(logits, actions, advantages)
    gradient = np.zeros(len(logits))
    gradient[actions] += a
    return gradient / len(a)


def _pg_of_probability(logits, actions, advantages):
    _, actions, a, p, onehot = toy_arrays(logits, actions, advantages)
    return (a * p[actions]) @ (onehot - p) / len(a)


def _pg_per_rollout(logits, actions, advantages):
    _, _, a, p, onehot = toy_arrays(logits, actions, advantages)
    return a[:, None] * (onehot - p) / len(a)


def _pg_by_loop(logits, actions, advantages):
    weights = [math.exp(x) for x in logits]
    probs = [w / sum(weights) for w in weights]
    gradient = [0.0] * len(probs)
    for action, advantage in zip(actions, advantages, strict=True):
        for j, p in enumerate(probs):
            gradient[j] += advantage * ((1.0 if j == action else 0.0) - p) / len(actions)
    return gradient


def _pg_by_bincount(logits, actions, advantages):
    logits, actions, a, p, _ = toy_arrays(logits, actions, advantages)
    return (np.bincount(actions, weights=a, minlength=len(logits)) - a.sum() * p) / len(a)


def _pg_by_differences(logits, actions, advantages):
    return grpo.finite_diff_gradient(lambda x: grpo.policy_gradient_objective(x, actions, advantages), logits)


RUNNING_ADVANTAGES = [0.866, 0.866, -0.866, -0.866]


def _toy_call(rng, answers=4, rollouts=6):
    """Logits far from uniform, actions with repeats, advantages that do not sum to 0."""
    logits = rng.permutation(np.linspace(-1.0, 1.2, answers)) + rng.uniform(-0.1, 0.1, answers)
    actions = rng.permutation([*range(answers - 1), 0, 1, *rng.integers(0, answers - 1, rollouts - answers - 1)])
    return call(logits, actions, uneven_advantages(rng, rollouts))


def _gradient_balances(values, calls):
    for i, (value, one) in enumerate(zip(values, calls, strict=True)):
        gradient, logits = np.asarray(value, dtype=float), np.asarray(one.args[0])
        if gradient.shape != logits.shape:
            return i, f"one number per answer is due, shape {logits.shape}, and the shape is {gradient.shape}"
        if not np.abs(gradient).max() > 1e-3:
            return i, "the gradient is 0, although the advantages are not"
        if not abs(gradient.sum()) < 1e-5:
            return i, f"the entries add up to {gradient.sum():.4f}; one answer can only gain what others lose"
        never = np.setdiff1d(np.arange(len(logits)), one.args[1])
        if never.size and not (gradient[never[0]] < 0) == (np.mean(one.args[2]) > 0):
            return i, f"answer {never[0]} was never drawn, and it does not make room for the answers that were"
    return None


POLICY_GRADIENT_ANALYTIC = Exercise(
    name="policy_gradient_analytic",
    chapter=CHAPTER,
    difficulty=2,
    minutes=15,
    reference=grpo.policy_gradient_analytic,
    parts=(
        Part(
            says="the running example: each answer once, advantages that sum to 0",
            points=2,
            calls=lambda rng: [
                call(np.zeros(4), np.arange(4), np.array(RUNNING_ADVANTAGES)),
                call(rng.uniform(-1, 1, 4), rng.permutation(4), np.array(RUNNING_ADVANTAGES)),
            ],
            hint="For one rollout, the gradient of log pi(a) is a vector with one entry per answer. Average "
            "these vectors, each with its advantage.",
        ),
        Part(
            says="any logits, repeated answers, advantages that do not sum to 0",
            points=2,
            calls=lambda rng: [
                call(np.array([0.0, 0.0]), np.array([0]), np.array([1.0])),
                _toy_call(rng),
                _toy_call(rng, answers=5, rollouts=9),
            ],
            hint="Raising one logit also changes the probability of every other answer. And is each rollout "
            "counted, also when an answer came up twice?",
        ),
        Part(
            says="what one answer gains, others lose",
            points=1,
            calls=lambda rng: [
                call(np.array([0.0, 0.0, 0.0]), np.array([0, 1]), np.array([1.0, 0.5])),
                call(rng.uniform(-1, 1, 4), np.array([2, 2, 0]), rng.uniform(0.5, 1.5, 3)),
            ],
            holds=_gradient_balances,
            hint="Probabilities sum to 1, so the entries of this gradient sum to 0.",
        ),
    ),
    mistakes=(
        Mistake(
            'no "- p"',
            _pg_no_p,
            "Only the logits of the drawn answers move; the probabilities are not subtracted. While "
            "advantages sum to 0 nobody notices, since the missing term cancels. Otherwise it is wrong.",
        ),
        Mistake(
            '"+ p"',
            _pg_plus_p,
            "The probabilities were added where they are to be subtracted. While advantages sum to 0 the "
            "term cancels and nobody notices.",
        ),
        Mistake(
            "only the drawn answer",
            _pg_one_direction,
            "Only the entry of the drawn answer is filled. The other logits are in the softmax as well: "
            "they have to make room.",
        ),
        Mistake(
            "sum for mean",
            _pg_sum,
            "The rollouts were added and not averaged: the step would grow with the group.",
        ),
        Mistake(
            "averaged over the answers",
            _pg_mean_over_answers,
            "The sum was divided by the number of answers K. It is the number of rollouts N that counts.",
        ),
        Mistake(
            "sign",
            _pg_sign,
            "All signs are turned round: a rollout with a positive advantage would become less likely.",
        ),
        Mistake(
            "advantages left out",
            _pg_no_advantages,
            "The advantages play no part: good and bad rollouts are made likelier alike.",
        ),
        Mistake(
            "p of the drawn answer everywhere",
            _pg_p_of_the_action,
            "The probability of the drawn answer was subtracted from every entry. Each entry has the "
            "probability of its own answer.",
        ),
        Mistake(
            "logits for probabilities",
            _pg_logits_for_p,
            "The logits were subtracted where probabilities are meant. The softmax is missing.",
        ),
        Mistake(
            "log-probs for probabilities",
            _pg_log_p,
            "The log-probs were subtracted where the probabilities themselves are meant. While advantages sum to "
            "0 nobody notices, since what is subtracted cancels. Otherwise all logits grow.",
        ),
        Mistake(
            "advantages centred again",
            _pg_centred_again,
            "The mean of the advantages was subtracted first. They come in ready: where they do not sum to 0, that "
            "is meant, and a single rollout would teach nothing.",
        ),
        Mistake(
            "repeated answers counted once",
            _pg_repeats_lost,
            "Where an answer came up twice, only one of its rollouts counts. With an array of indices, "
            "`g[i] += a` adds only once for each index. Look up `np.add.at` or `np.bincount`, or go through "
            "the rollouts one by one.",
        ),
        Mistake(
            'repeated answers counted once, no "- p"',
            _pg_no_p_repeats_lost,
            "Two things at once. With an array of indices, `g[i] += a` adds only once for each index, so repeated "
            "answers get lost. And the probabilities are not subtracted.",
        ),
        Mistake(
            "gradient of pi, not of log pi",
            _pg_of_probability,
            "There is a factor pi(a) too much: this is the gradient of the probability and not of its logarithm.",
        ),
        Mistake(
            "one row per rollout",
            _pg_per_rollout,
            "Each rollout kept a row of its own. Add the rows: one number per answer is due.",
        ),
    ),
    alternatives=(
        Alternative("two loops over lists", _pg_by_loop),
        Alternative("bincount", _pg_by_bincount),
        Alternative("finite differences", _pg_by_differences),
    ),
    hint="`np.eye(K)[actions]` has one row per rollout, with a one at its answer.",
    shortcuts=("finite_diff_gradient", "toy_loss_gradient"),
)
