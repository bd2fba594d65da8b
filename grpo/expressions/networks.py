"""The finished pieces of chapter 05: a small network by hand, GRPO on it, reading a run, and a split without a leak.

A network is a dict of four arrays: w1 (H, D), b1 (H,), w2 (V, H), b2 (V,). Its input is a row of D numbers: how often
each of the five tokens stands in the prefix, then a 1 at the place of the target. `grpo.expressions` holds the same
algorithm for many networks at once; the tests compare the two.
"""

from __future__ import annotations

import numpy as np

from grpo.expressions.game import END_ID, TOKENS
from grpo.expressions.mlp import MLPPolicy, count_features, one_hot_features
from grpo.expressions.per_token import PerTokenMLP, loss_and_gradient
from grpo.expressions.rewards import TableReward
from grpo.expressions.task import expression_task
from grpo.expressions.trainer import TrainSettings, train

COUNTED = TOKENS[:END_ID]  # the tokens that can stand in a prefix
HEALTHY, COLLAPSE, TIED, HELD_BACK = LABELS = ("healthy", "length collapse", "tied groups", "held back")
LAST_POINTS = 5  # of a curve, averaged to say how a run ends


def encode(prefix, target, targets):
    """The input row of a state: (5 + P,) float64, the counts of 2 3 5 + * in the prefix, then a one-hot row.

    Args:
        prefix: the tokens written so far, without an end token.
        target: one of the targets.
        targets: list of P targets, in the order of their columns.

    Raises: ValueError if the target is not in the list, or a token can stand in no prefix.
    """
    if target not in targets:
        raise ValueError(f"{target} is none of the targets")
    unknown = [token for token in prefix if token not in COUNTED]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is no token of a prefix")
    return np.array([prefix.count(token) for token in COUNTED] + [one == target for one in targets], dtype=float)


def mlp_forward(weights, x):
    """(N, V) logits w2 tanh(w1 x + b1) + b2, one row for each row of the (N, D) inputs."""
    return np.tanh(x @ weights["w1"].T + weights["b1"]) @ weights["w2"].T + weights["b2"]


def logit_gradient(coefficients, tokens, probs):
    """(N, V) gradients of the logits: a token's log-prob moves the logits of its state by onehot(token) - probs.

    Args:
        coefficients: (N,) d loss / d log-prob of the token of each row.
        tokens: (N,) int, the tokens' places.
        probs: (N, V) probabilities, 0 for illegal tokens.
    """
    one_hot = np.eye(np.shape(probs)[1])[tokens]
    return np.asarray(coefficients)[:, np.newaxis] * (one_hot - probs)


def mlp_backward(weights, x, logit_gradient):
    """Gradients of the four parameters, a dict with their shapes, from (N, V) gradients of the logits of N inputs."""
    hidden = np.tanh(x @ weights["w1"].T + weights["b1"])
    below = (logit_gradient @ weights["w2"]) * (1.0 - hidden**2)
    return {
        "w1": below.T @ x,
        "b1": below.sum(axis=0),
        "w2": logit_gradient.T @ hidden,
        "b2": logit_gradient.sum(axis=0),
    }


def mlp_grpo_gradient(weights, ref_weights, prompts, responses, old_logps, advantages, clip_eps=0.2, kl_coef=0.04):
    """Gradients of the GRPO loss: dict with the shapes of the parameters.

    Args:
        weights, ref_weights: the network and its frozen reference.
        prompts: N places in the list of targets.
        responses: N lists of tokens, each with its end token.
        old_logps: N arrays, the log-probs of these tokens when they were sampled.
        advantages: N numbers.
        clip_eps, kl_coef: clip range and weight of the k3 penalty.
    """
    n_prompts = weights["w1"].shape[1] - len(COUNTED)
    policy, reference = (PerTokenMLP(w, one_hot_features(n_prompts), count_features()) for w in (weights, ref_weights))
    groups, scores = ([[] for _ in range(n_prompts)] for _ in range(2))
    for prompt, response, logps, advantage in zip(prompts, responses, old_logps, advantages, strict=True):
        groups[prompt].append((response, logps))
        scores[prompt].append(advantage)
    return loss_and_gradient(policy, reference, groups, scores, clip_eps=clip_eps, kl_coef=kl_coef)[1]


def train_mlp(seeds, steps, learning_rate=0.3, kl_coef=0.04, inner_updates=1):
    """Parameters of one trained policy per seed, with the token sum and the capped k3 of chapter 05."""
    rngs = [np.random.default_rng(seed) for seed in seeds]
    task = expression_task()
    policy = MLPPolicy(one_hot_features(len(task)), rngs)
    settings = TrainSettings(
        steps=steps,
        learning_rate=learning_rate,
        kl_coef=kl_coef,
        kl_kind="k3_capped",
        inner_updates=inner_updates,
        token_average="sum",
    )
    for _ in train(policy, TableReward(task), settings, rngs, signals=False):
        pass
    return policy.parameters


def end_of_run(curves):
    """{signal: mean of its last points}."""
    return {name: float(np.mean(values[-LAST_POINTS:])) for name, values in curves.items()}


def read_run(curves):
    """What a run suffers from, one of LABELS.

    Args:
        curves: dict with lists of equal length: reward, zero_variance_share, length, kl, entropy.
    """
    end = end_of_run(curves)
    if end["length"] < 3.0:
        return COLLAPSE
    if end["zero_variance_share"] > 0.85 and end["reward"] < 0.9:
        return TIED
    if end["kl"] < 0.2 and end["reward"] < 0.4:
        return HELD_BACK
    return HEALTHY


def held_out_split(numbers, share, rng):
    """(N,) bool, true for rows to be held out; rows with the same numbers, in any order, stay together.

    Args:
        numbers: N lists of three different ints.
        share: 0 .. 1, the share of the different groups of numbers to hold out.
        rng: numpy Generator.

    Returns: round(share * groups) groups are held out, but at least one, and at least one is not.
    """
    keys = [tuple(sorted(row)) for row in numbers]
    groups = sorted(set(keys))
    wanted = min(max(round(share * len(groups)), 1), len(groups) - 1)
    held_out = {groups[place] for place in rng.permutation(len(groups))[:wanted]}
    return np.array([key in held_out for key in keys])
