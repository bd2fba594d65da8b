"""The numbers to watch while a policy trains. The loss is not one: it stays near 0 and shows no progress."""

from dataclasses import dataclass

import numpy as np

from grpo.advantages import zero_variance_fraction
from grpo.checks import as_finite_vector, as_floats
from grpo.objective import clip_fraction, kl_k3


@dataclass(frozen=True)
class HealthSignals:
    """One training step in eight numbers.

    reward_mean: mean reward, in the reward's unit. The progress signal; it should rise, noisily.
    zero_variance_share: share of groups with equal rewards, 0..1. Near 1 nothing is learned: the prompts are
        too easy, too hard, or the group is too small.
    entropy: mean entropy of the next-token distribution, in nats. It falls slowly in a healthy run; near 0
        all rollouts are alike and exploration is over.
    kl: mean k3 against the reference, in nats. It grows slowly; a jump says that the policy has left the
        reference.
    clip_fraction: share of ratios whose gradient is clipped off, 0..1. Exactly 0 with one update per batch;
        when most of the batch is clipped, the step is too large or the rollouts too old.
    gradient_norm: Euclidean norm over all parameters, before clipping. Spikes announce a collapse; 0 goes
        with a zero_variance_share of 1.
    response_length: mean number of answer tokens, end token included. A slide to the minimum or the maximum
        is a loophole in the reward.
    truncation_rate: share of rollouts cut off by the token budget, 0..1. At 1 no rollout reaches its answer:
        raise the budget before reading anything else.
    """

    reward_mean: float
    zero_variance_share: float
    entropy: float
    kl: float
    clip_fraction: float
    gradient_norm: float
    response_length: float
    truncation_rate: float


def health_signals(
    *,
    rewards,
    group_size,
    entropies,
    deltas,
    ratios,
    advantages,
    gradient,
    response_lengths,
    truncated,
    clip_eps=0.2,
):
    """Compute the `HealthSignals` of one step from plain arrays. Leave padding out of all of them.

    Args:
        rewards: (P * G,) flat, group after group.
        group_size: G, at least 2.
        entropies: (M,) entropy of the policy at each answer token (or once per rollout), in nats.
        deltas: (M',) logp_ref - logp_policy of sampled tokens or rollouts, in nats.
        ratios: (R,) the ratios that went into the loss, one per rollout or per token.
        advantages: (R,) the advantage that each ratio was multiplied with.
        gradient: array of any shape: all parameters' gradients.
        response_lengths: (P * G,) answer tokens per rollout.
        truncated: (P * G,) bools, true where the token budget ended the rollout.
        clip_eps: clip range, >= 0.

    Returns: HealthSignals.

    Raises: ValueError if an input is empty or not finite, response_lengths or truncated has not one entry per
        reward, truncated holds something other than 0 and 1, or as in `zero_variance_fraction` and
        `clip_fraction`.
    """
    rewards = as_finite_vector(rewards, "rewards")
    response_lengths = as_finite_vector(response_lengths, "response_lengths")
    truncated = as_finite_vector(truncated, "truncated")
    gradient = as_finite_vector(as_floats(gradient, "gradient").ravel(), "gradient")
    if not len(rewards) == len(response_lengths) == len(truncated):
        raise ValueError(
            f"{len(rewards)} rewards, {len(response_lengths)} response_lengths, {len(truncated)} truncated: "
            "pass one of each per rollout"
        )
    if not np.all((truncated == 0) | (truncated == 1)):
        raise ValueError("truncated holds an entry that is neither 0 nor 1: pass one flag per rollout")

    return HealthSignals(
        reward_mean=float(rewards.mean()),
        zero_variance_share=zero_variance_fraction(rewards, group_size),
        entropy=float(as_finite_vector(entropies, "entropies").mean()),
        kl=float(kl_k3(as_finite_vector(deltas, "deltas")).mean()),
        clip_fraction=clip_fraction(ratios, advantages, clip_eps),
        gradient_norm=float(np.linalg.norm(gradient)),
        response_length=float(response_lengths.mean()),
        truncation_rate=float(truncated.mean()),
    )
