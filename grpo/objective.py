"""The GRPO loss and its parts: ratio, clipped surrogate, KL estimators, and ways to average over tokens."""

import numpy as np

from grpo.checks import as_count, as_finite_vector, as_floats, as_mask, as_nonnegative

# float32 overflows in exp at 89. The torch port shares this limit, so it stays below.
MAX_DELTA = 80.0


def rollout_ratio(new_logps, old_logps):
    """How much likelier the current policy makes a whole rollout than the one that sampled it.

    exp(sum(new) - sum(old)). It grows with the length: a drift of .01 per token gives 2.7 at 100 tokens and
    167 at 512.

    Args:
        new_logps: (T,) log-probs of one rollout's answer tokens under the current policy, in nats.
        old_logps: (T,) the same under the policy that sampled it, captured while sampling.

    Returns: float, >= 0. Exactly 1.0 for equal inputs.

    Raises: ValueError if the inputs are not 1-D, are empty, differ in length, or hold NaN or infinity (the
        position is named). The one infinity with a meaning is -inf in new_logps (now impossible): ratio 0.
    """
    return float(np.exp(_log_ratios(new_logps, old_logps).sum()))


def sequence_mean_ratio(new_logps, old_logps):
    """The length-normalised ratio of GSPO: exp(mean(new - old)), the geometric mean of the token ratios.

    Args and errors: as in `rollout_ratio`.

    Returns: float, >= 0. It does not grow with the length: .01 per token gives 1.01 at any length.

    Source: GSPO (arXiv 2507.18071), eq. 7.
    """
    return float(np.exp(_log_ratios(new_logps, old_logps).mean()))


def token_ratios(new_logps, old_logps):
    """One ratio per token: exp(new - old).

    Args and errors: as in `rollout_ratio`.

    Returns: (T,) float64, each >= 0.

    Source: DeepSeekMath (arXiv 2402.03300), eq. 3.
    """
    return np.exp(_log_ratios(new_logps, old_logps))


def clipped_surrogate(ratio, advantage, eps=0.2):
    """min(r A, clip(r, 1-eps, 1+eps) A): what a changed policy gains, but nothing for moving too far.

    The minimum is taken after the product, so it is pessimistic for both signs of A: r=2, A=-1 gives -2 (a
    bad action that became likelier is punished in full); r=.5, A=-1 gives -.8.

    Args:
        ratio: scalar or array, >= 0 (not its log). NaN passes through, for a mask to drop later.
        advantage: scalar or array. Two arrays must have one shape.
        eps: clip range, >= 0.

    Returns: float64, of the shape of the inputs. An objective: to be maximised.

    Raises: ValueError if two arrays differ in shape (nothing is broadcast), a ratio is negative, or eps < 0.

    Source: PPO (arXiv 1707.06347), eq. 7.
    """
    ratio, advantage, eps = _surrogate_inputs(ratio, advantage, eps)
    clipped = np.clip(ratio, 1.0 - eps, 1.0 + eps)
    return np.minimum(ratio * advantage, clipped * advantage)


def clip_gate(ratio, advantage, eps=0.2):
    """True where `clipped_surrogate` passes a gradient, False where the clip has switched it off.

    Off are r > 1+eps with A > 0 and r < 1-eps with A < 0: the rollout has moved far enough in the wanted
    direction. In a hand-written gradient, d surrogate / d log-prob = gate * A * r.

    Args and errors: as in `clipped_surrogate`.

    Returns: bool, of the shape of the inputs.
    """
    ratio, advantage, eps = _surrogate_inputs(ratio, advantage, eps)
    off = ((ratio > 1.0 + eps) & (advantage > 0.0)) | ((ratio < 1.0 - eps) & (advantage < 0.0))
    return ~off


def clip_fraction(ratios, advantages, clip_eps=0.2):
    """Share of rollouts (or tokens) whose gradient the clip has switched off.

    Args:
        ratios: (N,), each >= 0.
        advantages: (N,).
        clip_eps: clip range, >= 0.

    Returns: float in [0, 1]. 0 with one update per batch, where every ratio is 1.

    Raises: ValueError if the inputs are not finite 1-D arrays of one length, a ratio is negative, or
        clip_eps < 0.
    """
    ratios = as_finite_vector(ratios, "ratios")
    advantages = as_finite_vector(advantages, "advantages")
    return float(1.0 - clip_gate(ratios, advantages, clip_eps).mean())


def kl_k1(delta):
    """k1 = -delta: unbiased for KL(policy || reference), but negative for many samples, and of high variance.

    As a loss its expected gradient is 0: it is no penalty at all.

    Args:
        delta: logp_ref - logp_policy of samples drawn from the policy, in nats; scalar or array.

    Returns: float64 of the same shape, in nats.

    Source: J. Schulman, "Approximating KL Divergence" (2020), as are k2 and k3.
    """
    return -_as_delta(delta)


def kl_k2(delta):
    """k2 = delta^2 / 2: biased as an estimate of KL(policy || reference), never negative.

    As a loss its expected gradient is exactly that of KL(policy || reference).

    Args and returns: as in `kl_k1`.
    """
    return 0.5 * _as_delta(delta) ** 2


def kl_k3(delta):
    """k3 = exp(delta) - delta - 1: unbiased for KL(policy || reference), never negative, low variance.

    As a loss its expected gradient is that of the forward KL(reference || policy), with a heavy tail.

    Args and returns: as in `kl_k1`. delta is limited to 80, so that exp cannot overflow, not even in float32.

    Source: DeepSeekMath (arXiv 2402.03300), eq. 4.
    """
    delta = np.minimum(_as_delta(delta), MAX_DELTA)
    # exp(delta) - 1 loses all its digits near 0 and can come out below delta; expm1 does not.
    return np.expm1(delta) - delta


def kl_k3_slope(delta):
    """d k3 / d logp_policy = 1 - exp(delta): what a hand-written gradient needs.

    Args and returns: as in `kl_k1`. 0 above the limit of 80, where `kl_k3` is constant.
    """
    delta = _as_delta(delta)
    return np.where(delta > MAX_DELTA, 0.0, -np.expm1(np.minimum(delta, MAX_DELTA)))[()]


def grpo_loss(ratios, advantages, deltas, clip_eps=0.2, kl_coef=0.0):
    """-(mean clipped surrogate) + kl_coef * mean k3, over rollouts.

    To be minimised, but no measure of progress: at the first update of a batch it is near 0 whatever the
    gradient is, and negative values are normal.

    Args:
        ratios: (N,) current over old policy, one per rollout.
        advantages: (N,), constants: no gradient flows through them.
        deltas: (N,) logp_ref - logp_policy, one per rollout, in nats.
        clip_eps: clip range, >= 0.
        kl_coef: weight of the KL penalty, >= 0.

    Returns: float.

    Raises: ValueError if the three are not finite, non-empty 1-D arrays of one length (a (G, 1) column would
        broadcast to G x G and average to 0), a ratio is negative, or clip_eps or kl_coef is negative.

    Source: DeepSeekMath (arXiv 2402.03300), eq. 3, with k3 from eq. 4, and one ratio per rollout.
    """
    ratios = as_finite_vector(ratios, "ratios")
    advantages = as_finite_vector(advantages, "advantages")
    deltas = as_finite_vector(deltas, "deltas")
    if not len(ratios) == len(advantages) == len(deltas):
        raise ValueError(
            f"{len(ratios)} ratios, {len(advantages)} advantages, {len(deltas)} deltas: pass one of each per rollout"
        )
    kl_coef = as_nonnegative(kl_coef, "kl_coef")
    return float(-clipped_surrogate(ratios, advantages, clip_eps).mean() + kl_coef * kl_k3(deltas).mean())


def aggregate_token_losses(token_losses, mask, how, length=None):
    """Average per-token losses to one number. The four ways weight long rollouts differently.

    how                value                                     who
    "rollout_sum"      mean over rollouts of the token sum       REINFORCE: one log-prob per rollout
    "rollout_mean"     mean over rollouts of the token mean      DeepSeekMath (arXiv 2402.03300), eq. 3
    "token_mean"       sum of all / number of kept tokens        DAPO (arXiv 2503.14476), section 3.3
    "constant"         sum of all / (rollouts * length)          Dr. GRPO (arXiv 2503.20783)

    Masked tokens count in no sum and in no divisor; what they hold, even NaN, does not matter. A rollout
    without kept tokens adds 0 and still counts as a rollout; with no kept token at all the result is 0.0.

    Args:
        token_losses: (N, T).
        mask: (N, T) bools or 0/1.
        how: one of the four names.
        length: for "constant" only: the fixed length that every rollout is divided by, at least 1.

    Returns: float.

    Raises: ValueError if token_losses is not 2-D or has no rows, the mask does not fit, how is unknown, or
        length is missing for "constant" or given for another way.
    """
    token_losses = as_floats(token_losses, "token_losses")
    if token_losses.ndim != 2 or len(token_losses) == 0:
        raise ValueError(f"token_losses has shape {token_losses.shape}: pass (N, T), at least one rollout")
    keep = as_mask(mask, token_losses.shape)
    if (how == "constant") != (length is not None):
        raise ValueError(f"length is {length!r} with how={how!r}: give it for 'constant', and only there")

    sums = np.where(keep, token_losses, 0.0).sum(axis=1)
    counts = keep.sum(axis=1)
    if how == "rollout_sum":
        return float(sums.mean())
    if how == "rollout_mean":
        # The sum over no tokens is 0: dividing it by 1 instead of 0 keeps it 0.
        return float((sums / np.maximum(counts, 1)).mean())
    if how == "token_mean":
        return float(sums.sum() / max(counts.sum(), 1))
    if how == "constant":
        return float(sums.mean() / as_count(length, "length", minimum=1))
    raise ValueError(f"how is {how!r}: choose 'rollout_sum', 'rollout_mean', 'token_mean' or 'constant'")


def _log_ratios(new_logps, old_logps):
    new, old = as_floats(new_logps, "new_logps"), as_floats(old_logps, "old_logps")
    if new.ndim != 1 or new.shape != old.shape or new.size == 0:
        raise ValueError(
            f"new_logps has shape {new.shape}, old_logps {old.shape}: pass the log-probs of one rollout's "
            "answer tokens as two (T,) arrays, T at least 1"
        )
    bad = np.flatnonzero(np.isnan(new) | (new == np.inf) | ~np.isfinite(old))
    if bad.size:
        token = bad[0]
        raise ValueError(
            f"token {token} has new log-prob {new[token]} and old log-prob {old[token]}: "
            "drop padding first; a sampled token has a finite old log-prob"
        )
    return new - old


def _surrogate_inputs(ratio, advantage, eps):
    ratio, advantage = as_floats(ratio, "ratio"), as_floats(advantage, "advantage")
    if ratio.ndim and advantage.ndim and ratio.shape != advantage.shape:
        raise ValueError(f"ratio has shape {ratio.shape}, advantage {advantage.shape}: pass equal shapes, or a scalar")
    if np.any(ratio < 0.0):
        raise ValueError(f"ratio is {np.nanmin(ratio)} at its lowest: pass exp(new - old), not its log")
    return ratio, advantage, as_nonnegative(eps, "the clip range eps")


def _as_delta(delta):
    return as_floats(delta, "delta")
