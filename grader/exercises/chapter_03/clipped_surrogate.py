"""The exercise `clipped_surrogate`: its parts, its known mistakes, and correct alternatives."""

from __future__ import annotations

import numpy as np

import grpo
from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.exercises.chapter_03.common import (
    CHAPTER,
    as_floats,
    surrogate_inputs,
    surrogate_min_first,
    surrogate_with_max,
)


def _surrogate_no_clip(ratio, advantage, eps=0.2):
    return np.asarray(ratio) * advantage


def _surrogate_no_min(ratio, advantage, eps=0.2):
    ratio, advantage, clipped = surrogate_inputs(ratio, advantage, eps)
    return clipped * advantage


def _surrogate_doubled_eps(ratio, advantage, eps=0.2):
    return grpo.clipped_surrogate(ratio, advantage, 2 * eps)


def _surrogate_clip_above_only(ratio, advantage, eps=0.2):
    ratio, advantage = as_floats(ratio, advantage)
    return np.minimum(ratio * advantage, np.minimum(ratio, 1.0 + eps) * advantage)


def _surrogate_clip_below_only(ratio, advantage, eps=0.2):
    ratio, advantage = as_floats(ratio, advantage)
    return np.minimum(ratio * advantage, np.maximum(ratio, 1.0 - eps) * advantage)


def _surrogate_loss_sign(ratio, advantage, eps=0.2):
    return -grpo.clipped_surrogate(ratio, advantage, eps)


def _surrogate_clips_product(ratio, advantage, eps=0.2):
    ratio, advantage = as_floats(ratio, advantage)
    return np.minimum(ratio * advantage, np.clip(ratio * advantage, 1.0 - eps, 1.0 + eps))


def _surrogate_product_clipped_alone(ratio, advantage, eps=0.2):
    return np.clip(np.asarray(ratio) * advantage, 1.0 - eps, 1.0 + eps)


def _surrogate_inverse_below(ratio, advantage, eps=0.2):
    ratio, advantage = as_floats(ratio, advantage)
    return np.minimum(ratio * advantage, np.clip(ratio, 1.0 / (1.0 + eps), 1.0 + eps) * advantage)


def _surrogate_fixed_eps(ratio, advantage, eps=0.2):
    return grpo.clipped_surrogate(ratio, advantage, 0.2)


def _surrogate_around_zero(ratio, advantage, eps=0.2):
    ratio, advantage = as_floats(ratio, advantage)
    return np.minimum(ratio * advantage, np.clip(ratio, -eps, eps) * advantage)


def _surrogate_mean(ratio, advantage, eps=0.2):
    return grpo.clipped_surrogate(ratio, advantage, eps).mean()


def _surrogate_by_cases(ratio, advantage, eps=0.2):
    ratio, advantage = as_floats(ratio, advantage)
    return np.where(advantage > 0, np.minimum(ratio, 1 + eps), np.maximum(ratio, 1 - eps)) * advantage


def _surrogate_minus_max(ratio, advantage, eps=0.2):
    ratio, advantage, clipped = surrogate_inputs(ratio, advantage, eps)
    return -np.maximum(-ratio * advantage, -clipped * advantage)


def _surrogate_plain_python(ratio, advantage, eps=0.2):
    ratio, advantage = np.broadcast_arrays(ratio, advantage)
    flat = [
        min(r * a, min(max(r, 1 - eps), 1 + eps) * a)
        for r, a in zip(ratio.ravel().tolist(), advantage.ravel().tolist(), strict=True)
    ]
    return np.array(flat).reshape(ratio.shape)


def _all_corners(rng):
    """Ratios below, inside and above every clip range in use, each with an A of either sign, in random order."""
    ratios = np.concatenate([rng.uniform(0.2, 0.5, 2), rng.uniform(0.95, 1.05, 2), rng.uniform(1.6, 3, 2)])
    advantages = np.array([0.5, -1.0, 1.0, -0.5, 2.0, -2.0])
    order = rng.permutation(6)
    return ratios[order], advantages[order]


CLIPPED_SURROGATE = Exercise(
    name="clipped_surrogate",
    chapter=CHAPTER,
    difficulty=2,
    minutes=12,
    reference=grpo.clipped_surrogate,
    parts=(
        Part(
            says="good rollouts (A > 0)",
            points=2,
            calls=lambda rng: [
                call(2.0, 1.0),
                call(0.5, 1.0),
                call(1.0, 0.7),
                call(float(rng.uniform(1.6, 3)), float(rng.uniform(0.3, 2))),
                call(float(rng.uniform(0.2, 0.5)), float(rng.uniform(0.3, 2))),
            ],
            hint="Try ratio 2 and advantage 1 by hand: what is r A, what is the clipped r times A, and "
            "which one counts?",
        ),
        Part(
            says="bad rollouts (A < 0)",
            points=2,
            calls=lambda rng: [
                call(2.0, -1.0),
                call(0.5, -1.0),
                call(1.0, -0.7),
                call(float(rng.uniform(1.6, 3)), -float(rng.uniform(0.3, 2))),
                call(float(rng.uniform(0.2, 0.5)), -float(rng.uniform(0.3, 2))),
            ],
            hint="Multiplying by a negative number turns the order round. Write down the two products for "
            "ratio 2 and advantage -1 before you compare them.",
        ),
        Part(
            says="arrays, another eps, and one advantage for many ratios",
            points=1,
            calls=lambda rng: [
                call(np.array([0.5, 1.0, 2.0]), 1.0),
                call(np.array([0.5, 1.0, 2.0]), 1.0, eps=0.1),
                call(*_all_corners(rng), eps=0.3),
            ],
            hint="The range runs from 1 - eps to 1 + eps, with the `eps` of the argument. Use numpy "
            "functions that work on arrays and on single numbers.",
        ),
    ),
    mistakes=(
        Mistake(
            "no clip",
            _surrogate_no_clip,
            "Nothing is clipped: this is r times A. One batch could then push a rollout as far as it likes.",
        ),
        Mistake(
            "max for min",
            surrogate_with_max,
            "The larger of the two products was taken. The surrogate is the pessimistic one: it promises no "
            "gain that the clip would deny.",
        ),
        Mistake(
            "min before multiplying",
            surrogate_min_first,
            "These numbers are right for A > 0 and wrong for A < 0: the minimum was taken over the ratios, "
            "before the multiplication. A negative A turns small and large round.",
        ),
        Mistake(
            "min missing",
            _surrogate_no_min,
            "This is the clipped ratio times A, with nothing to compare it with. A bad rollout that became "
            "twice as likely is then hardly punished, and gets no gradient.",
        ),
        Mistake(
            "doubled eps",
            _surrogate_doubled_eps,
            "The clip range is twice as wide as it should be. It runs from 1 - eps to 1 + eps.",
        ),
        Mistake(
            "clipped above only",
            _surrogate_clip_above_only,
            "The ratio is limited above, but not below. A bad rollout (A < 0) that is already less likely "
            "would be pushed down without an end.",
        ),
        Mistake(
            "clipped below only",
            _surrogate_clip_below_only,
            "The ratio is limited below, but not above. A good rollout would be pushed up without an end.",
        ),
        Mistake(
            "loss sign",
            _surrogate_loss_sign,
            "All signs are turned round. The surrogate is an objective, to be made large; `grpo_loss` turns "
            "the sign, later.",
        ),
        Mistake(
            "clip on the product",
            _surrogate_clips_product,
            "The product r A was clipped to the range around 1. Only the ratio belongs there; an advantage "
            "of .3 or -1 does not.",
        ),
        Mistake(
            "only the product, clipped",
            _surrogate_product_clipped_alone,
            "The product r A was clipped to the range around 1, so even a bad rollout gets a positive number. "
            "Only the ratio belongs into that range, and two products are compared in the end.",
        ),
        Mistake(
            "lower limit 1/(1 + eps)",
            _surrogate_inverse_below,
            "The lower limit is the inverse of the upper one, .83 for eps = .2. That would be even in logs, but "
            "PPO and GRPO measure the range on the ratio itself: eps down as well as up.",
        ),
        Mistake(
            "eps fixed at .2",
            _surrogate_fixed_eps,
            "The range is that of eps = .2, whatever `eps` is passed in.",
        ),
        Mistake(
            "clip around 0",
            _surrogate_around_zero,
            "The ratio was clipped to -eps ... eps. A ratio says nothing changed when it is 1, so 1 is the middle.",
        ),
        Mistake(
            "mean taken",
            _surrogate_mean,
            "One number came back for many rollouts. Averaging is the job of `grpo_loss`; here each rollout "
            "keeps its own.",
        ),
    ),
    alternatives=(
        Alternative("two cases by sign", _surrogate_by_cases),
        Alternative("minus the maximum of the losses", _surrogate_minus_max),
        Alternative("plain Python numbers", _surrogate_plain_python),
    ),
    hint="`np.clip` limits, `np.minimum` compares entry by entry.",
)
