"""The loss of a batch with one ratio, one clip gate and one KL term per token, and its derivative by log-prob.

The functions of `grpo.objective`, for arrays with axes S seeds, P prompts, G rollouts, T tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from grpo.checks import require_choice
from grpo.objective import MAX_DELTA

KL_KINDS = ("k1", "k2", "k3", "k3_capped")
TOKEN_AVERAGES = ("mean", "sum")


@dataclass(frozen=True)
class TokenLoss:
    """loss: (S,). coefficients: (S, P, G, T), d loss / d log-prob, 0 at padding. open_gate: bool, where the clip lets
    the surrogate's gradient pass; meaningless at padding."""

    loss: np.ndarray
    coefficients: np.ndarray
    open_gate: np.ndarray


def token_weights(mask, lengths, token_average="mean"):
    """What each token counts in the loss: 1/N times 1/|o| ("mean") or times 1 ("sum"); 0 at padding.

    Args:
        mask: (S, P, G, T) bool.
        lengths: (S, P, G) int, true entries of the mask.
        token_average: "mean" (DeepSeekMath) or "sum" (a rollout's log-prob is the sum of its tokens').

    Returns: (S, P, G, T) float64. N = P * G, the rollouts of one seed.

    Raises: ValueError if token_average is unknown.
    """
    n_rollouts = lengths.shape[1] * lengths.shape[2]
    if token_average == "mean":
        return mask * (1.0 / (n_rollouts * lengths))[..., np.newaxis]
    if token_average == "sum":
        return mask / n_rollouts
    raise ValueError(f"token_average is {token_average!r}: choose {' or '.join(map(repr, TOKEN_AVERAGES))}")


def kl_penalty(delta, kind="k3"):
    """A KL estimate and its derivative by the policy's log-prob.

    kind         value                     derivative
    "k1"         -delta                    1
    "k2"         delta^2 / 2               -delta
    "k3"         exp(delta) - delta - 1    1 - exp(delta)
    "k3_capped"  as k3                     1 - exp(min(delta, 1)): a token that the policy all but gave up cannot pull
                                           with more than 1.72

    Args:
        delta: logp_ref - logp_policy, any shape. k3 is constant, with derivative 0, above 80, as in `grpo.kl_k3`.
        kind: one of the four names.

    Returns: two arrays of the shape of delta.

    Raises: ValueError if kind is unknown.
    """
    if kind == "k1":
        return -delta, np.ones_like(delta)
    if kind == "k2":
        return 0.5 * delta * delta, -delta
    require_choice(kind, "kl_kind", KL_KINDS)
    limited = np.minimum(delta, MAX_DELTA)
    grown = np.expm1(limited)
    if kind == "k3_capped":
        return grown - limited, -np.expm1(np.minimum(delta, 1.0))
    return grown - limited, np.where(delta > MAX_DELTA, 0.0, -grown)


def token_loss(new_logps, old_logps, ref_logps, advantages, weights, clip_eps=0.2, kl_coef=0.04, kl_kind="k3"):
    """-sum_t w_t [ min(r_t A, clip(r_t) A) - kl_coef * k_t ], and what a hand-written backward pass needs.

    d loss / d log-prob = -w_t [ gate_t A r_t - kl_coef * dk_t ]. Without the gate the clip would change the loss but
    stop no update.

    Args:
        new_logps: (S, P, G, T) under the current policy.
        old_logps: (S, P, G, T) under the policy that sampled, constants.
        ref_logps: (S, P, G, T) under the frozen reference, constants; None if kl_coef is 0.
        advantages: (S, P, G), constants.
        weights: (S, P, G, T), from `token_weights`.
        clip_eps: clip range, >= 0.
        kl_coef: beta, >= 0.
        kl_kind: one of KL_KINDS.

    Returns: TokenLoss.

    Raises: ValueError if kl_kind is unknown, or the reference is missing although kl_coef is not 0.

    Source: DeepSeekMath (arXiv 2402.03300), eq. 3 and 4.
    """
    advantages = advantages[..., np.newaxis]
    ratio = np.exp(new_logps - old_logps)
    gained = ratio * advantages
    clipped = np.clip(ratio, 1.0 - clip_eps, 1.0 + clip_eps) * advantages
    # Inside the range the two are the same number; outside, the smaller one decides whether the gradient passes.
    open_gate = gained <= clipped
    value = np.minimum(gained, clipped)
    slope = gained * open_gate
    if kl_coef:
        if ref_logps is None:
            raise ValueError(f"kl_coef is {kl_coef} but ref_logps is None: pass the reference's log-probs")
        penalty, penalty_slope = kl_penalty(ref_logps - new_logps, kl_kind)
        value = value - kl_coef * penalty
        slope = slope - kl_coef * penalty_slope
    return TokenLoss(-(weights * value).sum(axis=(1, 2, 3)), -weights * slope, open_gate)
