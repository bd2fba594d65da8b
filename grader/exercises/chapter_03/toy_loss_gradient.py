"""The exercise `toy_loss_gradient`: its parts, its known mistakes, and correct alternatives."""

from __future__ import annotations

import numpy as np

import grpo
from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.exercises.chapter_03.common import CHAPTER, as_floats, toy_arrays, toy_gradient_by_loop


def _toy_gradient(logits, actions, advantages, old_logps, ref_logps, clip_eps, kl_coef, coefficient, minus_p=True):
    """The loss gradient with another coefficient, for mistakes. `coefficient(A, rho, gate, delta)` is per rollout."""
    logits, actions, a, p, onehot = toy_arrays(logits, actions, advantages)
    old, ref = as_floats(old_logps, ref_logps)
    new = np.log(p)[actions]
    rho = np.exp(new - old)
    c = coefficient(a, rho, grpo.clip_gate(rho, a, clip_eps), ref - new)
    return -(c @ (onehot - p if minus_p else onehot)) / len(a)


def _gradient_mistake(coefficient, **options):
    """Make a wrong `toy_loss_gradient` from a coefficient (A, rho, gate, delta, clip_eps, kl_coef)."""

    def wrong(logits, actions, advantages, old_logps, ref_logps, clip_eps=0.2, kl_coef=0.0):
        return _toy_gradient(
            logits, actions, advantages, old_logps, ref_logps, clip_eps, kl_coef,
            lambda a, rho, gate, delta: coefficient(a, rho, gate, delta, clip_eps, kl_coef),
            **options,
        )  # fmt: skip

    return wrong


def _right_coefficient(a, rho, gate, delta, eps, beta):
    return gate * a * rho - beta * (1 - np.exp(delta))


def _toy_old_indexed(logits, actions, advantages, old_logps, ref_logps, clip_eps=0.2, kl_coef=0.0):
    old = np.asarray(old_logps)[actions]
    return grpo.toy_loss_gradient(logits, actions, advantages, old, ref_logps, clip_eps, kl_coef)


def _toy_both_indexed(logits, actions, advantages, old_logps, ref_logps, clip_eps=0.2, kl_coef=0.0):
    ref = np.asarray(ref_logps)[actions]
    return _toy_old_indexed(logits, actions, advantages, old_logps, ref, clip_eps, kl_coef)


def _open_gate(logits, actions, advantages, old_logps, clip_eps):
    rho = np.exp(grpo.log_softmax(logits)[actions] - old_logps)
    return grpo.clip_gate(rho, advantages, clip_eps)


def _toy_mean_of_unclipped(logits, actions, advantages, old_logps, ref_logps, clip_eps=0.2, kl_coef=0.0):
    unclipped = _open_gate(logits, actions, advantages, old_logps, clip_eps)
    if not unclipped.any():
        return np.full(len(logits), np.nan)
    kept = (np.asarray(x)[unclipped] for x in (actions, advantages, old_logps, ref_logps))
    return grpo.toy_loss_gradient(logits, *kept, clip_eps, kl_coef)


def _toy_divided_by_unclipped(logits, actions, advantages, old_logps, ref_logps, clip_eps=0.2, kl_coef=0.0):
    unclipped = _open_gate(logits, actions, advantages, old_logps, clip_eps).sum()
    total = _toy_sum(logits, actions, advantages, old_logps, ref_logps, clip_eps, kl_coef)
    return total / max(unclipped, 1)


def _gate_above_only(a, rho, gate, delta, eps, beta):
    return ~((rho > 1 + eps) & (a > 0)) * a * rho - beta * (1 - np.exp(delta))


def _gate_without_sign(a, rho, gate, delta, eps, beta):
    return (np.abs(rho - 1) <= eps) * a * rho - beta * (1 - np.exp(delta))


def _gate_reversed(a, rho, gate, delta, eps, beta):
    off = ((rho > 1 + eps) & (a < 0)) | ((rho < 1 - eps) & (a > 0))
    return ~off * a * rho - beta * (1 - np.exp(delta))


def _toy_old_and_ref_swapped(logits, actions, advantages, old_logps, ref_logps, clip_eps=0.2, kl_coef=0.0):
    return grpo.toy_loss_gradient(logits, actions, advantages, ref_logps, old_logps, clip_eps, kl_coef)


def _toy_ref_is_old(logits, actions, advantages, old_logps, ref_logps, clip_eps=0.2, kl_coef=0.0):
    return grpo.toy_loss_gradient(logits, actions, advantages, old_logps, old_logps, clip_eps, kl_coef)


def _toy_sum(logits, actions, advantages, old_logps, ref_logps, clip_eps=0.2, kl_coef=0.0):
    return len(actions) * grpo.toy_loss_gradient(logits, actions, advantages, old_logps, ref_logps, clip_eps, kl_coef)


def _toy_sign(logits, actions, advantages, old_logps, ref_logps, clip_eps=0.2, kl_coef=0.0):
    return -grpo.toy_loss_gradient(logits, actions, advantages, old_logps, ref_logps, clip_eps, kl_coef)


def _toy_fixed_eps(logits, actions, advantages, old_logps, ref_logps, clip_eps=0.2, kl_coef=0.0):
    return grpo.toy_loss_gradient(logits, actions, advantages, old_logps, ref_logps, 0.2, kl_coef)


def _toy_gradient_by_differences(logits, actions, advantages, old_logps, ref_logps, clip_eps=0.2, kl_coef=0.0):
    def loss(x):
        return grpo.toy_loss(x, actions, advantages, old_logps, ref_logps, clip_eps, kl_coef)

    return grpo.finite_diff_gradient(loss, logits)


def _toy_gradient_by_active_branch(logits, actions, advantages, old_logps, ref_logps, clip_eps=0.2, kl_coef=0.0):
    """The gate found by comparing the two products, as autograd does."""
    logits, actions, a, p, onehot = toy_arrays(logits, actions, advantages)
    new = np.log(p)[actions]
    rho = np.exp(new - old_logps)
    unclipped_counts = rho * a <= np.clip(rho, 1 - clip_eps, 1 + clip_eps) * a
    slope = np.where(unclipped_counts, rho * a, 0) + kl_coef * np.expm1(ref_logps - new)
    return -np.mean(slope[:, None] * (onehot - p), axis=0)


def _off_policy_batch(rng, size=1.0):
    """Eight rollouts in which both signs of A meet ratios above, below and inside the clip range."""
    logits = rng.permutation([0.8, 0.1, -0.4, -0.9]) + rng.uniform(-0.1, 0.1, 4)
    actions = rng.permutation([0, 1, 2, 3, 0, 1, 2, 0])
    advantages = np.array([1, 1, 1, 1, -1, -1, -1, -1]) * rng.uniform(0.4, 1.6, 8) + 0.1
    shift = np.array([1, -1, 0.15, -0.1, 1, -1, 0.1, -0.15]) * rng.uniform(0.45, 0.7, 8) * size
    new = grpo.log_softmax(logits)[actions]
    ref = new + rng.permutation(np.array([0.7, -0.7, 0.5, -0.5, 0.4, -0.6, 0.3, -0.2])) * rng.uniform(0.8, 1.2, 8)
    return logits, actions, advantages, new - shift, ref


def _on_policy_calls(rng):
    half = np.log([0.5, 0.5])
    logits, actions, advantages, _, ref = _off_policy_batch(rng)
    return [
        call(np.zeros(2), np.array([0, 1]), np.array([0.7071, -0.7071]), half, half),
        call(logits, actions, advantages, grpo.log_softmax(logits)[actions], ref),
    ]


def _off_policy_calls(rng):
    half, moved = np.log([0.5, 0.5]), np.array([0.3536, -0.3536])
    return [
        call(moved, np.array([0, 1]), np.array([0.7071, -0.7071]), half, half, note="both rollouts are clipped"),
        call(-moved, np.array([0, 1]), np.array([0.7071, -0.7071]), half, half, note="moved the wrong way: no clip"),
        call(*_off_policy_batch(rng)),
        call(*_off_policy_batch(rng)),
    ]


def _kl_only_calls(rng):
    logits, actions, _, old, ref = _off_policy_batch(rng)
    at_reference = grpo.log_softmax(logits)[actions]
    half = np.log([0.5, 0.5])
    return [
        call(np.array([0.5, -0.5]), np.array([0, 1]), np.zeros(2), half, half, kl_coef=1.0),
        call(logits, actions, np.zeros(8), old, at_reference, kl_coef=2.0, note="the policy is the reference"),
        call(logits, actions, np.zeros(8), old, ref, kl_coef=0.5),
    ]


TOY_LOSS_GRADIENT = Exercise(
    name="toy_loss_gradient",
    chapter=CHAPTER,
    difficulty=3,
    minutes=25,
    reference=grpo.toy_loss_gradient,
    parts=(
        Part(
            says="first update (old = current): the policy gradient, as a gradient of a loss",
            points=1,
            calls=_on_policy_calls,
            hint="At ratio 1 nothing is clipped and the coefficient is the advantage. And mind the sign: "
            "this is to be descended.",
        ),
        Part(
            says="later updates: the ratio, and no gradient where the clip is active",
            points=2,
            calls=_off_policy_calls,
            hint="Go back to the picture of the clipped surrogate: on which flat piece does a good rollout "
            "end, on which a bad one? What is the derivative of the ratio by the log-prob?",
        ),
        Part(
            says="the KL penalty alone (all advantages 0), and 0 at the reference itself",
            points=2,
            calls=_kl_only_calls,
            hint="Differentiate exp(d) - d - 1 by log pi, where d = log ref - log pi. What does it give at d = 0?",
        ),
        Part(
            says="everything at once, with another clip range",
            points=1,
            calls=lambda rng: [call(*_off_policy_batch(rng, size=0.25), clip_eps=0.1, kl_coef=0.3)],
            hint="`clip_eps` and `kl_coef` are arguments. The gate belongs to the surrogate alone.",
        ),
    ),
    mistakes=(
        Mistake(
            "clip gate left out",
            _gradient_mistake(lambda a, rho, gate, delta, eps, beta: a * rho - beta * (1 - np.exp(delta))),
            "Rollouts that the clip should have switched off still push. In the loss the clip is there, in "
            "this gradient it is not: the two contradict each other.",
        ),
        Mistake(
            "gate only for A > 0",
            _gradient_mistake(_gate_above_only),
            "Good rollouts are switched off above the range, but bad ones below it still push. A rollout "
            "with A < 0 has its own flat piece.",
        ),
        Mistake(
            "gate blind to the sign of A",
            _gradient_mistake(_gate_without_sign),
            "Every ratio outside the range was switched off. A bad rollout that became likelier (r = 2, A = "
            "-1) must keep its gradient: it is the one that needs it most.",
        ),
        Mistake(
            "gate the wrong way round",
            _gradient_mistake(_gate_reversed),
            "The gate is closed where it should be open: rollouts that moved in the wrong direction lose "
            "their gradient, and those that have moved enough keep it.",
        ),
        Mistake(
            "clipped ratio as coefficient",
            _gradient_mistake(
                lambda a, rho, gate, delta, eps, beta: np.clip(rho, 1 - eps, 1 + eps) * a - beta * (1 - np.exp(delta))
            ),
            "The coefficient uses the clipped ratio. But the clipped ratio is a constant where the clip "
            "acts, and the gradient of a constant is 0.",
        ),
        Mistake(
            "surrogate as coefficient",
            _gradient_mistake(
                lambda a, rho, gate, delta, eps, beta: grpo.clipped_surrogate(rho, a, eps) - beta * (1 - np.exp(delta))
            ),
            "The value of the surrogate was used as the coefficient. Where the surrogate is flat its value "
            "is not 0, but its slope is.",
        ),
        Mistake(
            "ratio left out",
            _gradient_mistake(lambda a, rho, gate, delta, eps, beta: gate * a - beta * (1 - np.exp(delta))),
            "The coefficient lacks the factor r, the ratio. It is 1 in the first update, so the error shows only "
            "later.",
        ),
        Mistake(
            "old recomputed (ratio always 1)",
            _gradient_mistake(lambda a, rho, gate, delta, eps, beta: a - beta * (1 - np.exp(delta))),
            "The ratio is always 1: the old log-probs were computed from the current policy, so the clip "
            "never acts. They come as an argument because they belong to the policy that sampled.",
        ),
        Mistake(
            "reference and old swapped",
            _toy_old_and_ref_swapped,
            "The two sets of log-probs are exchanged: the ratio compares with the policy that sampled, the "
            "penalty with the frozen reference.",
        ),
        Mistake(
            "reference = old",
            _toy_ref_is_old,
            "The penalty compares with the old policy. The reference is a policy of its own, frozen from the start.",
        ),
        Mistake(
            "old log-probs indexed by the actions",
            _toy_old_indexed,
            "`old_logps` was indexed by the actions, but it already has one entry per rollout, in their order: each "
            "rollout is compared with the log-prob of another. Only the log-probs of all K answers need picking.",
        ),
        Mistake(
            "old and reference log-probs indexed by the actions",
            _toy_both_indexed,
            "`old_logps` and `ref_logps` were indexed by the actions, but both already have one entry per rollout: "
            "each rollout is compared with the log-prob of another. Only the log-probs of all K answers need picking.",
        ),
        Mistake(
            "mean over unclipped rollouts",
            _toy_mean_of_unclipped,
            "The clipped rollouts were dropped before averaging. They have slope 0, but they count: the loss is a "
            "mean over all N, and so is its gradient. With every rollout clipped nothing is left to average.",
        ),
        Mistake(
            "divided by the number of unclipped rollouts",
            _toy_divided_by_unclipped,
            "The sum was divided by the number of rollouts that are not clipped. The clipped ones have slope 0, but "
            "they count: the loss is a mean over all N, and so is its gradient.",
        ),
        Mistake(
            "KL wrong sign",
            _gradient_mistake(lambda a, rho, gate, delta, eps, beta: gate * a * rho + beta * (1 - np.exp(delta))),
            "The penalty pushes away from the reference.",
        ),
        Mistake(
            "delta the wrong way round",
            _gradient_mistake(lambda a, rho, gate, delta, eps, beta: gate * a * rho - beta * (1 - np.exp(-delta))),
            "Inside the exp of the penalty, reference and policy are exchanged.",
        ),
        Mistake(
            "KL pull at the reference",
            _gradient_mistake(lambda a, rho, gate, delta, eps, beta: gate * a * rho + beta * np.exp(delta)),
            "The penalty pulls even where the policy is the reference. k3 has its minimum there, so its "
            "slope is 0: one term of the derivative is missing.",
        ),
        Mistake(
            "slope of k1",
            _gradient_mistake(lambda a, rho, gate, delta, eps, beta: gate * a * rho - beta),
            "This is the penalty of k1: every rollout gets the same push, whatever the reference says of "
            "it. On average that is no penalty.",
        ),
        Mistake(
            "slope of k2",
            _gradient_mistake(lambda a, rho, gate, delta, eps, beta: gate * a * rho + beta * delta),
            "This is the slope of k2, delta itself. It is close to that of k3 for a small delta, and not the same.",
        ),
        Mistake(
            "KL behind the gate",
            _gradient_mistake(lambda a, rho, gate, delta, eps, beta: gate * (a * rho - beta * (1 - np.exp(delta)))),
            "Where the clip is active the penalty is switched off too. The clip belongs to the surrogate only.",
        ),
        Mistake(
            "kl_coef ignored",
            _gradient_mistake(lambda a, rho, gate, delta, eps, beta: gate * a * rho),
            "There is no penalty: `kl_coef` changes nothing.",
        ),
        Mistake(
            'no "- p"',
            _gradient_mistake(_right_coefficient, minus_p=False),
            "The probabilities are not subtracted from the one-hot rows. That is the same slip as in "
            "`policy_gradient_analytic`.",
        ),
        Mistake(
            "sum for mean",
            _toy_sum,
            "The rollouts were added and not averaged.",
        ),
        Mistake(
            "sign",
            _toy_sign,
            "The whole gradient has the wrong sign: this is the direction to go, and the gradient of a loss "
            "points the other way.",
        ),
        Mistake(
            "clip_eps ignored",
            _toy_fixed_eps,
            "The clip range is .2, whatever `clip_eps` is passed in.",
        ),
    ),
    alternatives=(
        Alternative("finite differences", _toy_gradient_by_differences),
        Alternative("two loops", toy_gradient_by_loop),
        Alternative("the active branch", _toy_gradient_by_active_branch),
    ),
    hint="Write one coefficient per rollout first; the sum over rollouts is that of `policy_gradient_analytic`.",
    shortcuts=("finite_diff_gradient", "clip_gate", "kl_k3_slope"),
)
