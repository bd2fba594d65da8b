"""The GRPO loss of token log-probs in torch: the port of `grpo.token_loss`, value and gradient checked against it.

The loss is a weighted sum over the tokens that count,

    loss = sum_it w_it [ -c_it min(r_it A_i, clip(r_it, 1 - clip_low, 1 + clip_high) A_i) + kl_coef k_it ]

with weights w from `token_weights` (the aggregate), a ratio r from `log_ratios` (the level), c = 1 or the importance
weights of a sampler that is not the trainer, and k the KL estimate of the token. Old and reference log-probs,
advantages and weights are constants: they are detached here, so that handing over an attached tensor does no harm.

At level "rollout" the min(...) of a rollout is shared out evenly among its tokens.

Which of our settings is which of TRL's (GRPOConfig of trl 1.16, with use_bias_correction_kl=False; its default, True,
multiplies the KL estimate by the ratio and has no twin here):

    aggregate         loss_type                                     level        importance_sampling_level
    "rollout_mean"    "grpo"                                        "token"      "token"
    "token_mean"      "bnpo", per micro-batch                       "gspo"       "sequence"
                      "dapo", over the whole batch                  "rollout"    none
    "constant"        "dr_grpo", max_completion_length
    "rollout_sum"     "luspo"

    clip_low, clip_high, kl_coef      epsilon, epsilon_high, beta
    group_advantages(scale=False)     scale_rewards="none"

While new and old agree, all three levels have the same gradient, so "rollout" with "rollout_sum", the cookbook's loss,
then has that of TRL's "luspo". Once they differ, nothing in TRL uses the product of a rollout's token ratios.
"""

import numpy as np
import torch

from grpo.advantages import group_relative_advantage
from grpo.checks import as_count, as_nonnegative, as_positive, require_choice
from grpo.objective import MAX_DELTA
from grpo.qwen3.masks import masked_mean, masked_sum, require_mask
from grpo.token_loss import AGGREGATES, KL_KINDS, LEVELS


def token_weights(mask, aggregate, constant_length=None, dtype=torch.float32):
    """What each token counts, so that loss = sum(weights * token losses).

    Made from the full batch and cut into rows, they make the losses of micro-batches add up to that of the batch.

    Args:
        mask: (N, C) bool.
        aggregate, constant_length: as in `grpo.token_loss.token_weights`.
        dtype: of the result.

    Returns: (N, C), 0 where the mask is false.

    Raises: ValueError if the mask is no 2-D bool tensor or has no rows, aggregate is unknown, or constant_length is
        missing for "constant" or given for another aggregate.
    """
    require_mask(mask, ndim=2)
    if len(mask) == 0:
        raise ValueError("mask has no rows: pass at least one rollout")
    require_choice(aggregate, "aggregate", AGGREGATES)
    if (aggregate == "constant") != (constant_length is not None):
        raise ValueError(
            f"constant_length is {constant_length!r} with aggregate={aggregate!r}: give it for 'constant', only there"
        )
    if aggregate == "token_mean":
        return mask.to(dtype) / mask.sum().clamp(min=1)
    weights = mask.to(dtype) / len(mask)
    if aggregate == "rollout_mean":
        return weights / mask.sum(dim=1, keepdim=True).clamp(min=1)
    if aggregate == "constant":
        return weights / as_count(constant_length, "constant_length", minimum=1)
    return weights


def log_ratios(new_logps, old_logps, mask, level):
    """The log of the ratio current / old policy that each token is weighed with.

    Args:
        new_logps: (N, C) under the current policy, in nats.
        old_logps: (N, C) under the policy that sampled; detached.
        mask: (N, C) bool.
        level: "token", "rollout" (the sum over the rollout) or "gspo" (its mean), as in `grpo.token_loss.log_ratios`.

    Returns: (N, C), 0 where the mask is false. For "rollout" and "gspo" a row holds one value.

    Raises: ValueError for shapes that differ, another dtype than float32 or float64, or an unknown level.
    """
    _require_logps(new_logps, "new_logps", mask)
    require_choice(level, "level", LEVELS)
    # Masked before the exp that follows: what is NaN at padding has no gradient there either.
    of_token = torch.where(mask, new_logps - _constant(old_logps, "old_logps", new_logps), 0)
    if level == "token":
        return of_token
    of_rollout = of_token.sum(dim=1, keepdim=True)
    if level == "gspo":
        of_rollout = of_rollout / mask.sum(dim=1, keepdim=True).clamp(min=1)
    return torch.where(mask, of_rollout, 0)


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
    weights=None,
):
    """The GRPO loss of a batch or of one of its micro-batches. Only new_logps gets a gradient.

    Args:
        new_logps: (N, C) float32 or float64, log-probs of the completion tokens under the current policy.
        old_logps: (N, C) the same under the policy that sampled. new_logps itself may be passed, attached: the ratio is
            then 1 and the gradient that of -A * log-prob.
        advantages: (N,), one per rollout.
        mask: (N, C) bool, true at the tokens that count. Padding may hold anything, even NaN.
        ref_logps, level, aggregate, clip_low, clip_high, kl_coef, kl, constant_length, importance_weights: as in
            `grpo.token_loss.token_grpo_loss`.
        weights: (N, C), the rows of the full batch's `token_weights` that belong to this micro-batch. aggregate and
            constant_length are then not read, and the losses (and gradients) of the micro-batches add up to those of
            the full batch.

    Returns: scalar tensor of the dtype of new_logps. 0, with gradient 0, if no token counts.

    Raises: ValueError for shapes that do not fit (advantages of shape (N, 1) would broadcast), another dtype than
        float32 or float64, an unknown level, aggregate or kl, a negative clip_low, clip_high or kl_coef, and for
        kl_coef > 0 without ref_logps. Values are not looked at, because a GPU would have to wait: NaN at a token that
        counts gives a loss of NaN.

    Source: as in `grpo.token_loss.token_grpo_loss`.
    """
    log_ratio = log_ratios(new_logps, old_logps, mask, level)
    losses = -_surrogate(log_ratio, advantages, clip_low, clip_high)
    if level == "rollout":
        losses = losses / mask.sum(dim=1, keepdim=True).clamp(min=1)  # one surrogate, shared out among its tokens
    if importance_weights is not None:
        losses = losses * torch.where(mask, _constant(importance_weights, "importance_weights", new_logps), 0)
    losses = losses + _penalty(new_logps, ref_logps, mask, kl, kl_coef)
    if weights is None:
        weights = token_weights(mask, aggregate, constant_length, new_logps.dtype)
    weights = torch.where(mask, _constant(weights, "weights", new_logps), 0)
    return masked_sum(weights * losses, mask)


def loss_metrics(
    new_logps, old_logps, advantages, mask, ref_logps=None, level="token", clip_low=0.2, clip_high=0.2
):  # fmt: skip
    """What to log beside the loss. A ratio counts once: per token, or per rollout with tokens at the other levels.

    Args: as in `token_grpo_loss`.

    Returns: dict of floats:
        clip_fraction: share of the ratios whose gradient the clip has switched off.
        kl: mean k3 over the tokens, in nats; None without ref_logps.
        ratio_mean, ratio_max: of the ratios.
        With no token at all: 0, 0, 1 and 1.

    Raises: ValueError as in `token_grpo_loss`.
    """
    with torch.no_grad():
        log_ratio = log_ratios(new_logps, old_logps, mask, level)
        ratio = torch.exp(log_ratio.clamp(max=MAX_DELTA))
        # The clip has switched off what it made worse.
        unclipped = ratio * _one_per_rollout(advantages, "advantages", ratio)[:, None]
        off = _surrogate(log_ratio, advantages, clip_low, clip_high) < unclipped
        counted = mask if level == "token" else mask & (mask.cumsum(dim=1) == 1)
        ratios = ratio[counted] if counted.any() else torch.ones(1)
        return {
            "clip_fraction": float(masked_mean(off, counted)),
            "kl": None if ref_logps is None else float(masked_mean(_kl(new_logps, ref_logps, mask, "k3"), mask)),
            "ratio_mean": float(ratios.mean()),
            "ratio_max": float(ratios.max()),
        }


def importance_weights(train_logps, sampler_logps, mask, cap=2.0):
    """Truncated importance weights for samples of a policy that is only nearly the trained one, such as bf16 rollouts.

    Args:
        train_logps: (N, C) under the old policy as the trainer computes it; detached.
        sampler_logps: (N, C) captured while sampling, for the same weights in the sampler's arithmetic; detached.
        mask: (N, C) bool.
        cap: upper limit, > 0. Without it one token that the sampler thought all but impossible rules the batch.

    Returns: (N, C) min(exp(train - sampler), cap); 1 where the mask is false.

    Raises: ValueError for shapes that differ, another dtype than float32 or float64, or a cap that is not positive.

    Source: truncated importance sampling, Ionides (2008), as used per token by TRL ("token_truncate").
    """
    cap = as_positive(cap, "cap")
    # Two arithmetics of one policy are a change of the log-prob per token, whatever the level of the loss.
    return torch.exp(log_ratios(train_logps, sampler_logps, mask, "token").detach()).clamp(max=cap)


def kl_in_reward(rewards, old_logps, ref_logps, mask, kl_coef):
    """rewards - kl_coef * sum_t (old - ref), a constant: to be called before the advantages.

    Args: rewards (N,) tensor; the rest, and what it means, as in `grpo.token_loss.kl_in_reward`.

    Returns: (N,), detached, of the dtype of old_logps.

    Raises: ValueError for shapes that differ, another dtype than float32 or float64, or kl_coef < 0.
    """
    _require_logps(old_logps, "old_logps", mask)
    distance = masked_sum(old_logps.detach() - _constant(ref_logps, "ref_logps", old_logps), mask, dim=1)
    return _one_per_rollout(rewards, "rewards", old_logps) - as_nonnegative(kl_coef, "kl_coef") * distance


def group_advantages(rewards, group_size, eps=1e-4, scale=True):
    """`grpo.group_relative_advantage` of tensors: flat in, flat out.

    Args:
        rewards: (N,) tensor or sequence, group after group.
        group_size, eps: as in `grpo.group_relative_advantage`.
        scale: False leaves out the division by the std (Dr. GRPO, arXiv 2503.20783): reward minus group mean.

    Returns: (N,), detached, on the device of rewards; float64 for a float64 tensor, else float32.

    Raises: ValueError as in `grpo.group_relative_advantage`.
    """
    is_tensor = isinstance(rewards, torch.Tensor)
    values = rewards.detach().cpu().double().numpy() if is_tensor else rewards
    advantages = group_relative_advantage(values, group_size, eps)
    if not scale:
        groups = np.reshape(values, advantages.shape)
        # Where all rewards are equal the mean may be off by a rounding error: the advantage 0 stays 0.
        advantages = (groups - groups.mean(axis=1, keepdims=True)) * (advantages != 0.0)
    dtype = torch.float64 if is_tensor and rewards.dtype == torch.float64 else torch.float32
    return torch.tensor(advantages.ravel(), dtype=dtype, device=rewards.device if is_tensor else None)


def _surrogate(log_ratio, advantages, clip_low, clip_high):
    advantages = _one_per_rollout(advantages, "advantages", log_ratio)[:, None]
    low = 1.0 - as_nonnegative(clip_low, "clip_low")
    high = 1.0 + as_nonnegative(clip_high, "clip_high")
    # Beyond float32's range exp is inf, and where the clip is active 0 * inf would make the gradient NaN.
    ratio = torch.exp(log_ratio.clamp(max=MAX_DELTA))
    return torch.minimum(ratio * advantages, ratio.clamp(low, high) * advantages)


def _penalty(new_logps, ref_logps, mask, kl, kl_coef):
    require_choice(kl, "kl", KL_KINDS)
    kl_coef = as_nonnegative(kl_coef, "kl_coef")
    if kl_coef == 0.0:
        return 0.0
    if ref_logps is None:
        raise ValueError(f"kl_coef is {kl_coef} but ref_logps is None: pass the reference's log-probs, or kl_coef 0")
    return kl_coef * _kl(new_logps, ref_logps, mask, kl)


def _kl(new_logps, ref_logps, mask, kl):
    delta = torch.where(mask, _constant(ref_logps, "ref_logps", new_logps) - new_logps, 0)
    if kl == "k1":
        return -delta
    if kl == "k2":
        return 0.5 * delta**2
    delta = delta.clamp(max=MAX_DELTA)
    return torch.expm1(delta) - delta


def _require_logps(logps, name, mask):
    if not isinstance(logps, torch.Tensor) or logps.dtype not in (torch.float32, torch.float64) or logps.ndim != 2:
        found = f"{logps.dtype} {tuple(logps.shape)}" if isinstance(logps, torch.Tensor) else type(logps).__name__
        raise ValueError(f"{name} is {found}: pass a tensor (N, C) of float32 or float64, half precision is too coarse")
    require_mask(mask, shape=logps.shape)


def _constant(values, name, like):
    """values as a constant of the dtype of `like`, which must have the same shape: nothing is broadcast."""
    if not isinstance(values, torch.Tensor) or values.shape != like.shape:
        found = f"shape {tuple(values.shape)}" if isinstance(values, torch.Tensor) else f"type {type(values).__name__}"
        raise ValueError(f"{name} has {found}: pass a tensor {tuple(like.shape)}, one entry per token")
    return values.detach().to(like.dtype)


def _one_per_rollout(values, name, like):
    """(N,) values as a constant of the dtype of `like`, which is (N, C)."""
    # (N, 1) is not taken: without the [:, None] that follows it would broadcast to N x N somewhere.
    if not isinstance(values, torch.Tensor) or values.shape != like.shape[:1]:
        found = f"shape {tuple(values.shape)}" if isinstance(values, torch.Tensor) else f"type {type(values).__name__}"
        raise ValueError(f"{name} has {found}: pass a flat tensor ({len(like)},), one entry per rollout")
    return values.detach().to(like.dtype)
