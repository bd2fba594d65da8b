"""The GRPO loss of token log-probs and its gradient, written out by hand: what the torch port is checked against.

One batch is N rollouts padded to T tokens. Three choices are free of each other: the level (which ratio a token is
weighed with), the aggregate (how much each token counts) and the KL estimate.
"""

import numpy as np

from grpo.checks import as_count, as_finite_vector, as_floats, as_mask, as_nonnegative, require_choice
from grpo.objective import MAX_DELTA, kl_k1, kl_k2, kl_k3, kl_k3_slope

LEVELS = ("token", "rollout", "gspo")
AGGREGATES = ("rollout_sum", "rollout_mean", "token_mean", "constant")
KL_KINDS = ("k3", "k2", "k1")


def token_weights(mask, aggregate, constant_length=None):
    """What each token counts, so that loss = sum(weights * token losses).

    aggregate          weight of a kept token           as a mean
    "rollout_sum"      1 / N                            over rollouts of the token sum (the cookbook's)
    "rollout_mean"     1 / (N |o_i|)                    over rollouts of the token mean
    "token_mean"       1 / sum_j |o_j|                  over all kept tokens
    "constant"         1 / (N constant_length)          over rollouts of the token sum / constant_length

    |o_i| is the number of kept tokens of rollout i. The same averages as in `grpo.aggregate_token_losses`.

    Args:
        mask: (N, T) bools or 0/1.
        aggregate: one of the four names.
        constant_length: for "constant" only, at least 1.

    Returns: (N, T) float64, 0 at masked tokens; all 0 if every token is masked.

    Raises: ValueError if the mask is not 2-D, has no rows or holds something other than 0 and 1, aggregate is unknown,
        or constant_length is missing for "constant" or given for another aggregate.

    Source: as in `grpo.aggregate_token_losses`.
    """
    mask = np.asarray(mask)
    if mask.ndim != 2 or len(mask) == 0:
        raise ValueError(f"mask has shape {mask.shape}: pass (N, T), at least one rollout")
    keep = as_mask(mask, mask.shape)
    require_choice(aggregate, "aggregate", AGGREGATES)
    if (aggregate == "constant") != (constant_length is not None):
        raise ValueError(
            f"constant_length is {constant_length!r} with aggregate={aggregate!r}: give it for 'constant', only there"
        )
    if aggregate == "token_mean":
        return keep / max(keep.sum(), 1)
    if aggregate == "rollout_mean":
        return keep / (len(keep) * _counts(keep))
    if aggregate == "constant":
        return keep / (len(keep) * as_count(constant_length, "constant_length", minimum=1))
    return keep / len(keep)


def log_ratios(new_logps, old_logps, mask, level):
    """The log of the ratio current / old policy that each token is weighed with.

    level        log-ratio of token t in rollout i              a drift of .01 per token gives the ratio
    "token"      new_it - old_it                                1.01
    "rollout"    sum over the rollout of new - old              2.7 at 100 tokens, 167 at 512
    "gspo"       mean over the rollout of new - old             1.01

    Args:
        new_logps: (N, T) under the current policy, in nats.
        old_logps: (N, T) under the policy that sampled.
        mask: (N, T) bools or 0/1. What masked tokens hold, even NaN, does not matter.
        level: one of the three names.

    Returns: (N, T) float64, 0 at masked tokens. For "rollout" and "gspo" the kept tokens of a row hold one value.

    Raises: ValueError if the shapes differ, a kept log-prob is not finite (its place is named), or level is unknown.

    Source: DeepSeekMath (arXiv 2402.03300), eq. 3, for "token"; GSPO (arXiv 2507.18071), eq. 7, for "gspo".
    """
    new, keep = _kept(new_logps, "new_logps", mask)
    require_choice(level, "level", LEVELS)
    of_token = new - _kept(old_logps, "old_logps", keep)[0]
    if level == "token":
        return of_token
    of_rollout = of_token.sum(axis=1, keepdims=True)
    if level == "gspo":
        of_rollout = of_rollout / _counts(keep)
    return np.where(keep, of_rollout, 0.0)


def token_grpo_loss(
    new_logps,
    old_logps,
    advantages,
    mask,
    *,
    ref_logps=None,
    level="token",
    aggregate="rollout_mean",
    clip_low=0.2,
    clip_high=0.2,
    kl_coef=0.0,
    kl="k3",
    constant_length=None,
    importance_weights=None,
):
    """sum_it w_it [ -c_it s_it + kl_coef k_it ], over the kept tokens.

    s_it is the clipped surrogate, min(r A, clip(r, 1 - clip_low, 1 + clip_high) A), of the token's ratio and its
    rollout's advantage. Level by level, before the weights:

    "token"     each token has its own s.
    "gspo"      the rollout's one s stands at each of its tokens. With "rollout_mean" that is the paper's objective, the
                mean of s over rollouts; with "rollout_sum" a rollout counts |o| times (LUSPO).
    "rollout"   the rollout's one s is shared out evenly: each token carries s / |o|. With "rollout_sum" that is the
                cookbook's objective, the mean of s over rollouts (`grpo.grpo_loss`).

    This way the level changes only how far the policy may move: while new and old agree (and without importance
    weights) the three have the same gradient, whatever the aggregate. The KL estimate is per token at every level, and
    the aggregate weighs it like the losses: with "rollout_sum" it is the sum over the rollout. (`grpo.grpo_loss` takes
    one k3 of the summed log-probs instead; over 100 tokens its exp is of no use.)

    Args:
        new_logps: (N, T) under the current policy, in nats.
        old_logps: (N, T) under the policy that sampled, constants.
        advantages: (N,), constants.
        mask: (N, T) bools or 0/1. What masked tokens hold, even NaN, does not matter. A rollout without kept tokens
            adds 0 and still counts as a rollout.
        ref_logps: (N, T) under the frozen reference, constants; needed if kl_coef > 0.
        level: "token", "rollout" or "gspo", see `log_ratios`. A log-ratio above 80 counts as 80, with gradient 0.
        aggregate, constant_length: see `token_weights`.
        clip_low, clip_high: the ratio is clipped to 1 - clip_low .. 1 + clip_high; each >= 0. clip_high > clip_low is
            DAPO's "clip-higher".
        kl_coef: weight of the KL estimate, >= 0.
        kl: "k3", "k2" or "k1", of delta = ref - new per token (`grpo.kl_k3`, `grpo.kl_k2`, `grpo.kl_k1`). "k1" is here
            to be shown: as a loss its expected gradient is 0, no penalty at all; in the reward it works
            (`kl_in_reward`).
        importance_weights: (N, T) c, constants >= 0 for samples of another policy than old; 1 by default. They weigh
            the surrogate, not the KL estimate.

    Returns: float. 0.0 if every token is masked.

    Raises: ValueError if a shape does not fit (advantages of shape (N, 1) would broadcast), a kept value is not finite
        (its place is named), level, aggregate or kl is unknown, clip_low, clip_high, kl_coef or an importance weight is
        negative, or ref_logps is missing although kl_coef > 0.

    Source: DeepSeekMath (arXiv 2402.03300), eq. 3 and 4; DAPO (arXiv 2503.14476), eq. 8; Dr. GRPO (arXiv 2503.20783);
        GSPO (arXiv 2507.18071), eq. 5.
    """
    weights = token_weights(mask, aggregate, constant_length)
    surrogate, _ = _surrogate(new_logps, old_logps, advantages, mask, level, clip_low, clip_high)
    if level == "rollout":
        surrogate = surrogate / _counts(mask)
    penalty, _ = _penalty(new_logps, ref_logps, mask, kl, kl_coef)
    return float((weights * (penalty - _correction(importance_weights, mask) * surrogate)).sum())


def token_grpo_gradient(
    new_logps,
    old_logps,
    advantages,
    mask,
    *,
    ref_logps=None,
    level="token",
    aggregate="rollout_mean",
    clip_low=0.2,
    clip_high=0.2,
    kl_coef=0.0,
    kl="k3",
    constant_length=None,
    importance_weights=None,
):
    """d `token_grpo_loss` / d new_logps, in closed form.

    With gate = 1 where the unclipped product is the minimum, else 0:

    "token"              -w_it c_it gate A r + kl_coef w_it dk
    "rollout", "gspo"    -(mean over the rollout of w c) gate A r + kl_coef w_it dk

    The last two agree: one shares s out by |o| and has d(log-ratio) / d(log-prob) = 1, the other has the whole s at
    each token and 1 / |o|. Only their ratios r differ. dk is 1 - exp(delta) for k3, -delta for k2, 1 for k1.

    Args and errors: as in `token_grpo_loss`.

    Returns: (N, T) float64, exactly 0 at masked tokens.
    """
    weights = token_weights(mask, aggregate, constant_length)
    pull = weights * _correction(importance_weights, mask)
    _, slope = _surrogate(new_logps, old_logps, advantages, mask, level, clip_low, clip_high)
    if level != "token":
        pull = pull.sum(axis=1, keepdims=True) / _counts(mask)  # each token moves the ratio of all
    _, penalty_slope = _penalty(new_logps, ref_logps, mask, kl, kl_coef)
    return weights * penalty_slope - pull * slope


def kl_in_reward(rewards, old_logps, ref_logps, mask, kl_coef):
    """rewards - kl_coef * sum_t (old - ref): the KL penalty as part of the reward, before the advantages are taken.

    As a loss k1 has the expected gradient 0. As a constant in the reward it works: the policy gradient is then that of
    the expected reward - kl_coef * KL(policy || reference).

    Args:
        rewards: (N,).
        old_logps: (N, T) under the policy that sampled, in nats.
        ref_logps: (N, T) under the frozen reference.
        mask: (N, T) bools or 0/1.
        kl_coef: >= 0.

    Returns: (N,) float64.

    Raises: ValueError if a shape does not fit, a kept value is not finite, or kl_coef < 0.

    Source: as in RLHF, Ouyang et al. (arXiv 2203.02155), eq. 2.
    """
    old, keep = _kept(old_logps, "old_logps", mask)
    rewards = _one_per_rollout(rewards, "rewards", keep)
    distance = (old - _kept(ref_logps, "ref_logps", keep)[0]).sum(axis=1)
    return rewards - as_nonnegative(kl_coef, "kl_coef") * distance


def _surrogate(new_logps, old_logps, advantages, mask, level, clip_low, clip_high):
    """The clipped surrogate of each kept token and its slope by the log-ratio, gate A r: (N, T) each, 0 at padding."""
    log_ratio = log_ratios(new_logps, old_logps, mask, level)
    advantages = np.where(mask, _one_per_rollout(advantages, "advantages", mask)[:, np.newaxis], 0.0)
    low, high = 1.0 - as_nonnegative(clip_low, "clip_low"), 1.0 + as_nonnegative(clip_high, "clip_high")
    ratio = np.exp(np.minimum(log_ratio, MAX_DELTA))
    gained, clipped = ratio * advantages, ratio.clip(low, high) * advantages
    # Inside the range the two are the same number; outside, the smaller one decides whether the gradient passes.
    passes = (gained <= clipped) & (log_ratio <= MAX_DELTA)
    return np.minimum(gained, clipped), passes * gained


def _correction(importance_weights, mask):
    if importance_weights is None:
        return 1.0
    weights, _ = _kept(importance_weights, "importance_weights", mask)
    if np.any(weights < 0.0):
        raise ValueError(f"importance_weights is {weights.min()} at its lowest: pass exp(train - sampler)")
    return weights


def _penalty(new_logps, ref_logps, mask, kl, kl_coef):
    """kl_coef times the KL estimate and its slope by new_logps: (N, T) each, 0 at padding; 0.0 each without penalty."""
    require_choice(kl, "kl", KL_KINDS)
    kl_coef = as_nonnegative(kl_coef, "kl_coef")
    if kl_coef == 0.0:
        return 0.0, 0.0
    if ref_logps is None:
        raise ValueError(f"kl_coef is {kl_coef} but ref_logps is None: pass the reference's log-probs, or kl_coef 0")
    ref, _ = _kept(ref_logps, "ref_logps", mask)
    delta = log_ratios(ref, new_logps, mask, "token")
    if kl == "k3":
        return kl_coef * kl_k3(delta), kl_coef * kl_k3_slope(delta)
    if kl == "k2":
        return kl_coef * kl_k2(delta), kl_coef * -delta
    return kl_coef * kl_k1(delta), kl_coef


def _kept(values, name, mask):
    """(N, T) values with 0 at masked tokens, and the mask as bool."""
    values = as_floats(values, name)
    if values.ndim != 2 or len(values) == 0:
        raise ValueError(f"{name} has shape {values.shape}: pass (N, T), at least one rollout")
    mask = np.asarray(mask)
    if mask.shape != values.shape:
        raise ValueError(f"{name} has shape {values.shape}, the mask {mask.shape}: pass one entry per token in each")
    keep = as_mask(mask, values.shape)
    bad = np.argwhere(keep & ~np.isfinite(values))
    if bad.size:
        row, token = bad[0]
        raise ValueError(f"{name}[{row}, {token}] is {values[row, token]}, and the mask keeps it: mask padding out")
    return np.where(keep, values, 0.0), keep


def _counts(mask):
    """(N, 1) kept tokens per rollout, 1 where there is none: a sum over no tokens is 0, and 0 / 1 keeps it 0."""
    return np.maximum(np.sum(mask, axis=1, keepdims=True), 1)


def _one_per_rollout(values, name, mask):
    values = as_finite_vector(values, name)
    if len(values) != len(mask):
        raise ValueError(f"{len(values)} {name} for {len(mask)} rollouts: pass one of each per rollout")
    return values
