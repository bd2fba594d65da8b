"""The exercise `grpo_loss`: its parts, its known mistakes, and correct alternatives."""

from __future__ import annotations

import math

import numpy as np

import grpo
from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.exercises.chapter_03.common import CHAPTER, as_floats, surrogate_min_first, surrogate_with_max


def _loss_inputs(ratios, advantages, deltas):
    """The course's own errors, for mistakes that are about the numbers only."""
    grpo.grpo_loss(ratios, advantages, deltas)
    return as_floats(ratios, advantages, deltas)


def _loss_from(surrogate, penalty, kl_coef):
    return float(-np.mean(surrogate) + kl_coef * np.mean(penalty))


def _loss_surrogate_sign(ratios, advantages, deltas, clip_eps=0.2, kl_coef=0.0):
    r, a, d = _loss_inputs(ratios, advantages, deltas)
    return _loss_from(-grpo.clipped_surrogate(r, a, clip_eps), grpo.kl_k3(d), kl_coef)


def _loss_is_objective(ratios, advantages, deltas, clip_eps=0.2, kl_coef=0.0):
    return -grpo.grpo_loss(ratios, advantages, deltas, clip_eps, kl_coef)


def _loss_kl_sign(ratios, advantages, deltas, clip_eps=0.2, kl_coef=0.0):
    r, a, d = _loss_inputs(ratios, advantages, deltas)
    return _loss_from(grpo.clipped_surrogate(r, a, clip_eps), grpo.kl_k3(d), -kl_coef)


def _loss_kl_rewarded_only(ratios, advantages, deltas, clip_eps=0.2, kl_coef=0.0):
    r, a, d = _loss_inputs(ratios, advantages, deltas)
    return _loss_from(grpo.clipped_surrogate(r, a, clip_eps), np.where(a > 0, grpo.kl_k3(d), 0.0), kl_coef)


def _loss_kl_mean_of_rewarded(ratios, advantages, deltas, clip_eps=0.2, kl_coef=0.0):
    r, a, d = _loss_inputs(ratios, advantages, deltas)
    penalty = grpo.kl_k3(d)[a > 0] if np.any(a > 0) else 0.0
    return _loss_from(grpo.clipped_surrogate(r, a, clip_eps), penalty, kl_coef)


def _loss_dead_group_skipped(ratios, advantages, deltas, clip_eps=0.2, kl_coef=0.0):
    loss = grpo.grpo_loss(ratios, advantages, deltas, clip_eps, kl_coef)
    return loss if np.any(np.asarray(advantages)) else 0.0


def _loss_sum(ratios, advantages, deltas, clip_eps=0.2, kl_coef=0.0):
    return len(ratios) * grpo.grpo_loss(ratios, advantages, deltas, clip_eps, kl_coef)


def _loss_kl_sum(ratios, advantages, deltas, clip_eps=0.2, kl_coef=0.0):
    r, a, d = _loss_inputs(ratios, advantages, deltas)
    return _loss_from(grpo.clipped_surrogate(r, a, clip_eps), grpo.kl_k3(d).sum(), kl_coef)


def _loss_broadcast(ratios, advantages, deltas, clip_eps=0.2, kl_coef=0.0):
    r, a, d = as_floats(ratios, advantages, deltas)
    surrogate = np.minimum(r * a, np.clip(r, 1 - clip_eps, 1 + clip_eps) * a)
    return _loss_from(surrogate, grpo.kl_k3(d), kl_coef)


def _loss_no_clip(ratios, advantages, deltas, clip_eps=0.2, kl_coef=0.0):
    r, a, d = _loss_inputs(ratios, advantages, deltas)
    return _loss_from(r * a, grpo.kl_k3(d), kl_coef)


def _loss_max(ratios, advantages, deltas, clip_eps=0.2, kl_coef=0.0):
    r, a, d = _loss_inputs(ratios, advantages, deltas)
    return _loss_from(surrogate_with_max(r, a, clip_eps), grpo.kl_k3(d), kl_coef)


def _loss_min_first(ratios, advantages, deltas, clip_eps=0.2, kl_coef=0.0):
    r, a, d = _loss_inputs(ratios, advantages, deltas)
    return _loss_from(surrogate_min_first(r, a, clip_eps), grpo.kl_k3(d), kl_coef)


def _loss_fixed_eps(ratios, advantages, deltas, clip_eps=0.2, kl_coef=0.0):
    return grpo.grpo_loss(ratios, advantages, deltas, 0.2, kl_coef)


def _loss_kl_ignored(ratios, advantages, deltas, clip_eps=0.2, kl_coef=0.0):
    return grpo.grpo_loss(ratios, advantages, deltas, clip_eps, 0.0)


def _loss_kl_unweighted(ratios, advantages, deltas, clip_eps=0.2, kl_coef=0.0):
    return grpo.grpo_loss(ratios, advantages, deltas, clip_eps, 1.0)


def _loss_delta_sign(ratios, advantages, deltas, clip_eps=0.2, kl_coef=0.0):
    return grpo.grpo_loss(ratios, advantages, -np.asarray(deltas, dtype=float), clip_eps, kl_coef)


def _loss_k1(ratios, advantages, deltas, clip_eps=0.2, kl_coef=0.0):
    r, a, d = _loss_inputs(ratios, advantages, deltas)
    return _loss_from(grpo.clipped_surrogate(r, a, clip_eps), -d, kl_coef)


def _loss_k2(ratios, advantages, deltas, clip_eps=0.2, kl_coef=0.0):
    r, a, d = _loss_inputs(ratios, advantages, deltas)
    return _loss_from(grpo.clipped_surrogate(r, a, clip_eps), d**2 / 2, kl_coef)


def _loss_k3_of_the_mean(ratios, advantages, deltas, clip_eps=0.2, kl_coef=0.0):
    r, a, d = _loss_inputs(ratios, advantages, deltas)
    return _loss_from(grpo.clipped_surrogate(r, a, clip_eps), grpo.kl_k3(d.mean()), kl_coef)


def _loss_tables_accepted(ratios, advantages, deltas, clip_eps=0.2, kl_coef=0.0):
    if not np.shape(ratios) == np.shape(advantages) == np.shape(deltas):
        raise ValueError("three arrays of one shape")
    return _loss_broadcast(ratios, advantages, deltas, clip_eps, kl_coef)


def _loss_deltas_not_checked(ratios, advantages, deltas, clip_eps=0.2, kl_coef=0.0):
    if np.ndim(ratios) != 1 or np.shape(ratios) != np.shape(advantages):
        raise ValueError("two flat arrays of one length")
    return _loss_broadcast(ratios, advantages, deltas, clip_eps, kl_coef)


def _loss_means_first(ratios, advantages, deltas, clip_eps=0.2, kl_coef=0.0):
    r, a, d = _loss_inputs(ratios, advantages, deltas)
    return _loss_from(grpo.clipped_surrogate(r.mean(), a.mean(), clip_eps), grpo.kl_k3(d), kl_coef)


def _loss_by_loop(ratios, advantages, deltas, clip_eps=0.2, kl_coef=0.0):
    shapes = {np.shape(ratios), np.shape(advantages), np.shape(deltas)}
    if len(shapes) != 1 or np.ndim(ratios) != 1:
        raise ValueError("three flat arrays of one length")
    total = 0.0
    for r, a, d in zip(ratios, advantages, deltas, strict=True):
        total -= min(r * a, min(max(r, 1 - clip_eps), 1 + clip_eps) * a)
        total += kl_coef * (math.expm1(d) - d)
    return total / len(ratios)


def _loss_in_float32(ratios, advantages, deltas, clip_eps=0.2, kl_coef=0.0):
    grpo.grpo_loss(ratios, advantages, deltas)
    r, a, d = (np.asarray(x, dtype=np.float32) for x in (ratios, advantages, deltas))
    surrogate = np.minimum(r * a, np.clip(r, np.float32(1 - clip_eps), np.float32(1 + clip_eps)) * a)
    return np.mean(np.float32(kl_coef) * (np.expm1(d) - d) - surrogate)


def _deltas(rng, rollouts):
    return rng.uniform(0.2, 1.2, rollouts) * np.where(rng.permutation(rollouts) % 2, -1, 1)


def _both_signs_clipped(rng):
    """Six ratios and advantages in which each of the four corners of the clip occurs."""
    ratios = np.array([*rng.uniform(1.6, 3, 2), *rng.uniform(0.2, 0.5, 2), *rng.uniform(0.92, 1.08, 2)])
    advantages = np.array([1, -1, 1, -1, 1, -1]) * rng.uniform(0.4, 1.5, 6)
    order = rng.permutation(6)
    return ratios[order], advantages[order]


def _loss_pairs(rng):
    """Calls in pairs, first without and then with the penalty."""
    calls = []
    settings = [
        (np.ones(4), np.array([0.866, 0.866, -0.866, -0.866]), np.array([0.5, 0.5, -0.5, -0.5]), 0.1),
        (*_both_signs_clipped(rng), _deltas(rng, 6), 0.3),
        (*_both_signs_clipped(rng), np.zeros(6), 5.0),
        (rng.uniform(0.9, 1.1, 4), np.zeros(4), _deltas(rng, 4), 0.7),
    ]
    for ratios, advantages, deltas, kl_coef in settings:
        calls += [call(ratios, advantages, deltas), call(ratios, advantages, deltas, kl_coef=kl_coef)]
    return calls


def _penalty_is_added(values, calls):
    for i in range(0, len(values), 2):
        without, with_kl = (np.asarray(value, dtype=float) for value in values[i : i + 2])
        if without.shape or with_kl.shape:
            return i, "one number is due, not one per rollout"
        kl_coef, deltas = calls[i + 1].kwargs["kl_coef"], calls[i].args[2]
        due = kl_coef * grpo.kl_k3(deltas).mean()
        if not abs(with_kl - without - due) < 1e-5 + 1e-4 * abs(due):
            where = "" if np.any(calls[i].args[1]) else ", in a group whose advantages are all 0"
            return i + 1, (
                f"kl_coef {kl_coef:g} changes the loss by {with_kl - without:.5f}{where}; "
                f"kl_coef times the mean of k3 is {due:.5f}"
            )
    return None


GRPO_LOSS = Exercise(
    name="grpo_loss",
    chapter=CHAPTER,
    difficulty=2,
    minutes=12,
    reference=grpo.grpo_loss,
    parts=(
        Part(
            says="without penalty: the mean clipped surrogate, as a loss",
            points=2,
            calls=lambda rng: [
                call(np.array([2.0, 0.5, 2.0, 0.5]), np.array([1.0, 1.0, -1.0, -1.0]), np.zeros(4)),
                call(*_both_signs_clipped(rng), np.zeros(6)),
                call(*_both_signs_clipped(rng), _deltas(rng, 6), clip_eps=0.1),
            ],
            hint="What is to be made large becomes, with the other sign, something to be made small.",
        ),
        Part(
            says="the penalty: kl_coef times the mean k3 of all rollouts",
            points=2,
            calls=_loss_pairs,
            holds=_penalty_is_added,
            hint="Every rollout is compared with the reference, the wrong ones and those without any signal too.",
        ),
        Part(
            says="shapes that differ, or are not flat, raise a ValueError",
            points=1,
            calls=lambda rng: [
                call(np.array([1.0, 1.1]), np.array([1.0, -1.0]), np.zeros(2)),
                call(np.ones(4), np.array([[1.0], [1.0], [-1.0], [-1.0]]), np.zeros(4), note="a (4, 1) column"),
                call(np.ones((2, 2)), np.array([[1.0, 1.0], [-1.0, -1.0]]), np.zeros((2, 2))),
                call(np.ones(3), np.array([1.0, -1.0, 0.0]), np.zeros(1), note="numpy would repeat the single delta"),
                call(*rng.uniform(0.8, 1.2, (3, 5))),
                call(*rng.uniform(0.8, 1.2, (2, 5)), rng.uniform(0, 1, 4), note="a delta is missing"),
            ],
            only_errors=True,
            hint="Three shapes must be equal, and each must have one axis. Check that first.",
        ),
    ),
    mistakes=(
        Mistake(
            "loss sign",
            _loss_surrogate_sign,
            "The surrogate has the wrong sign: going downhill on this loss makes good rollouts less likely.",
        ),
        Mistake(
            "objective returned",
            _loss_is_objective,
            "The whole result has the wrong sign. This is the objective, to be made large; an optimiser "
            "makes its loss small.",
        ),
        Mistake(
            "KL wrong sign",
            _loss_kl_sign,
            "The penalty lowers the loss: the policy is paid for leaving the reference.",
        ),
        Mistake(
            "KL only on rewarded rollouts",
            _loss_kl_rewarded_only,
            "Only rollouts with A > 0 were compared with the reference. Wrong answers can drift too, and "
            "nothing would hold them.",
        ),
        Mistake(
            "KL averaged over rewarded rollouts",
            _loss_kl_mean_of_rewarded,
            "The mean of k3 runs over the rollouts with A > 0 only. It belongs to all rollouts, right or wrong.",
        ),
        Mistake(
            "KL skipped without a signal",
            _loss_dead_group_skipped,
            "Where all advantages are 0 the loss is 0 as well, penalty included. Such a group teaches "
            "nothing about the task, but its distance to the reference still counts.",
        ),
        Mistake(
            "sum for mean",
            _loss_sum,
            "The rollouts were added and not averaged: the size of a step would grow with the group.",
        ),
        Mistake(
            "KL summed",
            _loss_kl_sum,
            "The surrogate was averaged, the penalty was summed: kl_coef would mean something else for "
            "every group size.",
        ),
        Mistake(
            "no clip",
            _loss_no_clip,
            "Nothing is clipped: this is the mean of r times A.",
        ),
        Mistake(
            "max for min",
            _loss_max,
            "The larger of the two products was taken in the surrogate. `grpo.clipped_surrogate` has the right one.",
        ),
        Mistake(
            "right only for A > 0",
            _loss_min_first,
            "The minimum was taken over the ratios, before the multiplication by A. For bad rollouts that is wrong.",
        ),
        Mistake(
            "clip_eps ignored",
            _loss_fixed_eps,
            "The clip range is .2, whatever `clip_eps` is passed in.",
        ),
        Mistake(
            "kl_coef ignored",
            _loss_kl_ignored,
            "The penalty is missing: `kl_coef` changes nothing.",
        ),
        Mistake(
            "kl_coef taken as 1",
            _loss_kl_unweighted,
            "The penalty is there, but with full weight, whatever `kl_coef` says.",
        ),
        Mistake(
            "delta the wrong way round",
            _loss_delta_sign,
            "k3 was computed from minus delta. delta comes in as reference minus policy, ready to use.",
        ),
        Mistake(
            "k1 for k3",
            _loss_k1,
            "The penalty is the mean of k1. As a loss it has an expected gradient of 0: it holds nothing.",
        ),
        Mistake(
            "k2 for k3",
            _loss_k2,
            "The penalty is the mean of k2. It has its merits, but GRPO's published loss, and this course, use k3.",
        ),
        Mistake(
            "k3 of the mean delta",
            _loss_k3_of_the_mean,
            "The deltas were averaged first, and k3 was taken of their mean: rollouts that moved up and rollouts "
            "that moved down cancel, and the distance looks small. Each rollout has its own k3.",
        ),
        Mistake(
            "means before the product",
            _loss_means_first,
            "Ratios and advantages were averaged first and combined afterwards. In a group the advantages "
            "have mean 0, so the signal is gone. Combine each ratio with its own advantage.",
        ),
        Mistake(
            "tables accepted",
            _loss_tables_accepted,
            "Three arrays of shape (2, 2) gave a number. Their shapes agree, but they are not flat: this loss is "
            "that of one group, one number per rollout. How many axes does each array have?",
        ),
        Mistake(
            "deltas not checked",
            _loss_deltas_not_checked,
            "Ratios and advantages were compared with each other, the deltas with nothing: numpy repeats a single "
            "delta for every rollout. All three belong in the comparison.",
        ),
        Mistake(
            "shapes not checked",
            _loss_broadcast,
            "Shapes that do not fit gave a number. A (G, 1) column against a (G,) row makes G x G products, "
            "whose mean is about 0: the run looks alive and learns nothing. Stop with a ValueError.",
        ),
    ),
    alternatives=(
        Alternative("a loop over rollouts", _loss_by_loop),
        Alternative("computed in float32", _loss_in_float32),
    ),
    hint="Two of your earlier functions are in the library: `grpo.clipped_surrogate` and `grpo.kl_k3`.",
)
