"""The toy proof: GRPO on one softmax over K answers, where every gradient can be written down and checked.

An action is the number of an answer, 0 .. K-1, and each action is one whole rollout. The one identity behind
it all is d log pi(a) / d logits = onehot(a) - pi.
"""

import numpy as np

from grpo.advantages import group_relative_advantage
from grpo.checks import (
    as_count,
    as_finite_vector,
    as_floats,
    as_integers,
    as_nonnegative,
    as_positive,
    require_same_length,
)
from grpo.logprobs import log_softmax
from grpo.objective import clip_gate, grpo_loss, kl_k3_slope


def softmax(logits):
    """exp(x) / sum exp(x) over the last axis.

    Args:
        logits: (..., V), as in `log_softmax`.

    Returns: (..., V) float64, each in [0, 1], summing to 1.

    Raises: ValueError as in `log_softmax`.
    """
    return np.exp(log_softmax(logits))


def policy_gradient_objective(logits, actions, advantages):
    """J = mean of A_i log pi(a_i): its gradient is the policy gradient. J itself measures nothing.

    Args:
        logits: (K,).
        actions: (N,) integers in 0 .. K-1.
        advantages: (N,), constants.

    Returns: float. To be maximised.

    Raises: ValueError if logits or advantages are not finite, non-empty 1-D arrays, actions are not integers
        in 0 .. K-1 (the row is named), or the lengths differ.

    Source: REINFORCE, R. J. Williams (1992), Machine Learning 8, theorem 1.
    """
    logits, actions, advantages = _toy_batch(logits, actions, advantages=advantages)
    return float((advantages * log_softmax(logits)[actions]).mean())


def policy_gradient_analytic(logits, actions, advantages):
    """The gradient of `policy_gradient_objective` in closed form: (1/N) sum_i A_i (onehot(a_i) - pi).

    Args and errors: as in `policy_gradient_objective`.

    Returns: (K,) float64, summing to 0. Ascent on it raises what had a positive advantage.
    """
    logits, actions, advantages = _toy_batch(logits, actions, advantages=advantages)
    return _mean_score(logits, actions, advantages)


def finite_diff_gradient(f, x, h=1e-5):
    """Central differences, (f(x + h e_i) - f(x - h e_i)) / 2h for each entry: the check on every gradient
    here.

    Args:
        f: callable, array of the shape of x -> number.
        x: array of any shape; not changed.
        h: step, > 0. The error is of order h^2 + 1e-16/h, smallest near 1e-5.

    Returns: float64 array of the shape of x.

    Raises: ValueError if h is not positive, or f does not return one number.
    """
    x = as_floats(x, "x")
    h = as_positive(h, "h")

    gradient = np.empty(x.shape)
    for index in np.ndindex(x.shape):
        step = np.zeros(x.shape)
        step[index] = h
        gradient[index] = (_value(f, x + step) - _value(f, x - step)) / (2.0 * h)
    return gradient


def categorical_kl(p, q):
    """KL(p || q) = sum p log(p/q) between two distributions over K answers, in nats.

    KL(policy || reference) is called the reverse KL, KL(reference || policy) the forward KL.

    Args:
        p: (K,) probabilities.
        q: (K,) probabilities.

    Returns: float, >= 0 up to rounding; inf if q is 0 where p is not.

    Raises: ValueError if p or q is not a finite 1-D array, has a negative entry, or does not sum to 1 within
        1e-6, or if their lengths differ.
    """
    p, q = _as_distribution(p, "p"), _as_distribution(q, "q")
    require_same_length(p=p, q=q)
    possible = p > 0.0  # an answer that p never gives adds 0, whatever q says
    if np.any(q[possible] == 0.0):
        return np.inf
    return float((p[possible] * np.log(p[possible] / q[possible])).sum())


def reverse_kl_gradient(logits, ref_logits):
    """Gradient of KL(policy || reference) with respect to the policy's logits: pi (log pi - log ref - KL).

    Args:
        logits: (K,).
        ref_logits: (K,).

    Returns: (K,) float64. Exactly 0 at the reference itself: the penalty resists later drift, it causes none.

    Raises: ValueError if the inputs are not finite 1-D arrays of one length.
    """
    logits, ref_logits = _logit_pair(logits, ref_logits)
    log_quotient = log_softmax(logits) - log_softmax(ref_logits)
    probs = softmax(logits)
    return probs * (log_quotient - (probs * log_quotient).sum())


def full_objective(logits, actions, advantages, ref_logits, kl_coef):
    """`policy_gradient_objective` - kl_coef * KL(policy || reference), the KL computed exactly.

    Args:
        logits, actions, advantages: as in `policy_gradient_objective`.
        ref_logits: (K,).
        kl_coef: weight of the penalty, >= 0.

    Returns: float. To be maximised.

    Raises: ValueError as in `policy_gradient_objective`, if ref_logits does not fit, or if kl_coef < 0.

    Source: the KL-regularised objective of RLHF, InstructGPT (arXiv 2203.02155), eq. 2.
    """
    logits, ref_logits = _logit_pair(logits, ref_logits)
    kl_coef = as_nonnegative(kl_coef, "kl_coef")
    gain = policy_gradient_objective(logits, actions, advantages)
    return gain - kl_coef * categorical_kl(softmax(logits), softmax(ref_logits))


def full_objective_gradient(logits, actions, advantages, ref_logits, kl_coef):
    """The gradient of `full_objective` with respect to logits, in closed form.

    Args and errors: as in `full_objective`.

    Returns: (K,) float64, summing to 0. To be ascended.
    """
    kl_coef = as_nonnegative(kl_coef, "kl_coef")
    gain = policy_gradient_analytic(logits, actions, advantages)
    return gain - kl_coef * reverse_kl_gradient(logits, ref_logits)


def k_loss_expected_gradient(kind, logits, ref_logits):
    """What k1, k2 or k3 does when it is used as a LOSS: its exact expected gradient under the policy.

    Autograd takes the samples as given and differentiates only through log pi of the sample, so this is
    sum_a pi(a) (dk/dlogp)(a) (onehot(a) - pi), over all K answers. k1 gives 0, k2 the reverse-KL gradient,
    k3 the forward-KL gradient, pi - ref.

    Args:
        kind: "k1", "k2" or "k3".
        logits: (K,) of the policy.
        ref_logits: (K,) of the reference.

    Returns: (K,) float64, to be descended.

    Raises: ValueError if kind is unknown or the logits are not finite 1-D arrays of one length.
    """
    logits, ref_logits = _logit_pair(logits, ref_logits)
    delta = log_softmax(ref_logits) - log_softmax(logits)
    slopes = {"k1": np.ones_like(delta), "k2": -delta, "k3": kl_k3_slope(delta)}
    if kind not in slopes:
        raise ValueError(f"kind is {kind!r}: choose 'k1', 'k2' or 'k3'")
    probs = softmax(logits)
    weights = probs * slopes[kind]
    return weights - weights.sum() * probs


def sample_group(logits, group_size, rng):
    """Sample the rollouts of one group: independent draws from softmax(logits).

    Args:
        logits: (K,).
        group_size: G, at least 1.
        rng: numpy.random.Generator, made once outside the loop. Seeding inside would make all groups equal.

    Returns: (G,) integers in 0 .. K-1.

    Raises: ValueError if logits is not a finite 1-D array, group_size < 1, or rng is not a Generator.
    """
    probs = softmax(as_finite_vector(logits, "logits"))
    group_size = as_count(group_size, "group_size", minimum=1)
    if not isinstance(rng, np.random.Generator):
        raise ValueError(f"rng is {rng!r}: pass a generator, rng = np.random.default_rng(seed)")
    return rng.choice(len(probs), size=group_size, p=probs)


def toy_loss(logits, actions, advantages, old_logps, ref_logps, clip_eps=0.2, kl_coef=0.0):
    """`grpo_loss` of the softmax policy.

    Args:
        logits: (K,) of the current policy.
        actions: (N,) integers in 0 .. K-1, one rollout each.
        advantages: (N,), constants.
        old_logps: (N,) log-probs of the actions under the policy that sampled them, constants.
        ref_logps: (N,) log-probs of the actions under the frozen reference, constants.
        clip_eps, kl_coef: as in `grpo_loss`.

    Returns: float. To be minimised; 0 at the first step of a group is normal.

    Raises: ValueError as in `policy_gradient_objective` and `grpo_loss`.
    """
    logits, actions, advantages, old_logps, ref_logps = _toy_batch(
        logits, actions, advantages=advantages, old_logps=old_logps, ref_logps=ref_logps
    )
    new_logps = log_softmax(logits)[actions]
    return grpo_loss(np.exp(new_logps - old_logps), advantages, ref_logps - new_logps, clip_eps, kl_coef)


def toy_loss_gradient(logits, actions, advantages, old_logps, ref_logps, clip_eps=0.2, kl_coef=0.0):
    """The gradient of `toy_loss` in closed form: -(1/N) sum_i c_i (onehot(a_i) - pi).

    c_i = gate_i * A_i * rho_i - kl_coef * (1 - exp(ref_i - new_i)), with the `clip_gate`. Without the gate
    the clip would change the loss but never stop an update.

    Args and errors: as in `toy_loss`.

    Returns: (K,) float64, summing to 0. To be descended.
    """
    logits, actions, advantages, old_logps, ref_logps = _toy_batch(
        logits, actions, advantages=advantages, old_logps=old_logps, ref_logps=ref_logps
    )
    kl_coef = as_nonnegative(kl_coef, "kl_coef")
    new_logps = log_softmax(logits)[actions]
    ratios = np.exp(new_logps - old_logps)
    gate = clip_gate(ratios, advantages, clip_eps)
    coefficients = gate * advantages * ratios - kl_coef * kl_k3_slope(ref_logps - new_logps)
    return -_mean_score(logits, actions, coefficients)


def toy_grpo_step(
    logits,
    ref_logits,
    old_logits,
    actions,
    rewards,
    learning_rate=0.1,
    clip_eps=0.2,
    kl_coef=0.0,
    advantage_eps=1e-4,
):
    """One GRPO update: rewards -> advantages -> log-probs of three policies -> gradient -> one descent step.

    The three policies are three arguments. With several steps on one group, old_logits stays what it was when
    the group was sampled; if it followed logits, every ratio would be 1 and the clip would never act.

    Args:
        logits: (K,) current policy, being trained.
        ref_logits: (K,) reference policy, frozen for the whole run.
        old_logits: (K,) policy that sampled the actions.
        actions: (G,) integers in 0 .. K-1, one group, G at least 2.
        rewards: (G,).
        learning_rate: step of plain gradient descent, >= 0.
        clip_eps, kl_coef: as in `grpo_loss`.
        advantage_eps: the eps of `group_relative_advantage`.

    Returns: (K,) float64, the new logits. The old array is not changed.

    Raises: ValueError as in `toy_loss` and `group_relative_advantage`, if the three policies differ in
        length, or if learning_rate < 0.

    Source: DeepSeekMath (arXiv 2402.03300), algorithm 1: the part for one group, with one gradient step.
    """
    logits, ref_logits = _logit_pair(logits, ref_logits)
    logits, old_logits = _logit_pair(logits, old_logits, "old_logits")
    learning_rate = as_nonnegative(learning_rate, "learning_rate")
    logits, actions, rewards = _toy_batch(logits, actions, rewards=rewards)

    advantages = group_relative_advantage(rewards, len(rewards), advantage_eps).ravel()
    old_logps = log_softmax(old_logits)[actions]
    ref_logps = log_softmax(ref_logits)[actions]
    gradient = toy_loss_gradient(logits, actions, advantages, old_logps, ref_logps, clip_eps, kl_coef)
    return logits - learning_rate * gradient


def _value(f, x):
    value = as_floats(f(x), "f(x)")
    if value.ndim:
        raise ValueError(f"f returned an array of shape {value.shape}: it must return one number")
    return value


def _mean_score(logits, actions, coefficients):
    """(1/N) sum_i c_i (onehot(a_i) - pi)."""
    score = np.eye(len(logits))[actions] - softmax(logits)
    return coefficients @ score / len(actions)


def _toy_batch(logits, actions, **columns):
    logits = as_finite_vector(logits, "logits")
    actions = as_integers(actions, "actions")
    if actions.ndim != 1:
        raise ValueError(f"actions has shape {actions.shape}: pass a flat 1-D array of answer numbers")
    columns = {name: as_finite_vector(values, name) for name, values in columns.items()}
    require_same_length(actions=actions, **columns)
    bad_rows = np.flatnonzero((actions < 0) | (actions >= len(logits)))
    if bad_rows.size:
        row = bad_rows[0]
        raise ValueError(f"actions[{row}] is {actions[row]}: answers are numbered 0 .. {len(logits) - 1}")
    return logits, actions, *columns.values()


def _logit_pair(logits, other_logits, other_name="ref_logits"):
    logits = as_finite_vector(logits, "logits")
    other_logits = as_finite_vector(other_logits, other_name)
    require_same_length(logits=logits, **{other_name: other_logits})
    return logits, other_logits


def _as_distribution(probs, name):
    probs = as_finite_vector(probs, name)
    if np.any(probs < 0.0) or abs(probs.sum() - 1.0) > 1e-6:
        raise ValueError(f"{name} is {probs}, sum {probs.sum()}: pass probabilities, as softmax(logits) gives")
    return probs
