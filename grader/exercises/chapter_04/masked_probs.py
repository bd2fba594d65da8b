"""The exercise `masked_probs`: its parts, its known mistakes, and correct alternatives."""

from __future__ import annotations

import math

import numpy as np

from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.exercises.chapter_04.common import CHAPTER, draw_prefix, plain_softmax
from grpo.expressions import tables


def _checked(logits, mask):
    """The course's own errors, for mistakes that are about the numbers only."""
    tables.masked_probs(logits, mask)
    return np.asarray(logits, dtype=float), np.asarray(mask, dtype=bool)


def _probs_mask_after(logits, mask):
    logits, mask = _checked(logits, mask)
    return plain_softmax(logits) * mask


def _probs_mask_after_renormalised(logits, mask):
    logits, mask = _checked(logits, mask)
    probs = plain_softmax(logits) * mask
    with np.errstate(all="ignore"):
        return probs / probs.sum()


def _probs_logits_times_mask(logits, mask):
    logits, mask = _checked(logits, mask)
    return plain_softmax(logits * mask)


def _probs_small_penalty(logits, mask):
    logits, mask = _checked(logits, mask)
    return plain_softmax(np.where(mask, logits, logits - 10.0))


def _probs_moderate_penalty(logits, mask):
    logits, mask = _checked(logits, mask)
    return plain_softmax(np.where(mask, logits, logits - 100.0))


def _probs_large_penalty(logits, mask):
    logits, mask = _checked(logits, mask)
    return plain_softmax(logits + (1 - mask) * -1e9)


def _probs_large_number(logits, mask):
    logits, mask = _checked(logits, mask)
    return plain_softmax(np.where(mask, logits, -1e9))


def _probs_lowest_logit(logits, mask):
    logits, mask = _checked(logits, mask)
    return plain_softmax(np.where(mask, logits, logits.min()))


def _probs_no_shift(logits, mask):
    logits, mask = _checked(logits, mask)
    with np.errstate(all="ignore"):
        weights = np.exp(np.where(mask, logits, -np.inf))
        return weights / weights.sum()


def _probs_no_shift_times_mask(logits, mask):
    logits, mask = _checked(logits, mask)
    with np.errstate(all="ignore"):
        weights = np.exp(logits) * mask
        return weights / weights.sum()


def _probs_not_divided(logits, mask):
    probs = tables.masked_probs(logits, mask)
    return probs / probs.max()


def _probs_masked_logits(logits, mask):
    logits, mask = _checked(logits, mask)
    return np.where(mask, logits, -np.inf)


def _probs_zero_times_infinity(logits, mask):
    logits, mask = _checked(logits, mask)
    with np.errstate(all="ignore"):
        return plain_softmax(logits + (1 - mask) * -np.inf)


def _probs_logs(logits, mask):
    logits, mask = _checked(logits, mask)
    masked = np.where(mask, logits - logits[mask].max(), -np.inf)
    return masked - np.log(np.exp(masked).sum())


def _probs_shortened(logits, mask):
    logits, mask = _checked(logits, mask)
    return plain_softmax(logits[mask])


def _probs_inverted(logits, mask):
    logits, mask = _checked(logits, mask)
    with np.errstate(all="ignore"):  # where everything is allowed, nothing is left
        masked = np.where(mask, -np.inf, logits)
        weights = np.exp(masked - masked.max())
        return weights / weights.sum()


def _probs_uniform(logits, mask):
    logits, mask = _checked(logits, mask)
    return mask / mask.sum()


def _probs_unmasked(logits, mask):
    logits, mask = _checked(logits, mask)
    return plain_softmax(logits)


def _probs_nothing_checked(logits, mask):
    with np.errstate(all="ignore"):
        masked = np.where(np.asarray(mask, dtype=bool), logits, -np.inf)
        weights = np.exp(masked - masked.max())
        return weights / weights.sum()


def _probs_shapes_unchecked(logits, mask):
    if not np.any(mask):
        raise ValueError("nothing is allowed")
    return _probs_nothing_checked(logits, mask)


def _probs_all_forbidden_uniform(logits, mask):
    logits, mask = np.asarray(logits, dtype=float), np.asarray(mask, dtype=bool)
    if logits.shape != mask.shape:
        raise ValueError("the shapes differ")
    return tables.masked_probs(logits, mask) if mask.any() else np.full(len(mask), 1 / len(mask))


def _require(logits, mask):
    if len(logits) != len(mask) or not any(mask):
        raise ValueError("nothing to choose from")


def _probs_by_loop(logits, mask):
    _require(logits, mask)
    top = max(x for x, ok in zip(logits, mask, strict=True) if ok)
    weights = [math.exp(x - top) if ok else 0.0 for x, ok in zip(logits, mask, strict=True)]
    return [w / sum(weights) for w in weights]


def _probs_with_lowest_float(logits, mask):
    _require(logits, mask)
    return plain_softmax(np.where(mask, logits, np.finfo(float).min))


def _probs_scattered(logits, mask):
    _require(logits, mask)
    probs = np.zeros(len(logits))
    chosen = np.flatnonzero(mask)
    probs[chosen] = np.exp(logits[chosen] - np.logaddexp.reduce(logits[chosen]))
    return probs


_AFTER_NUMBER = np.array([False, False, False, True, True, True])


def _ordinary(rng):
    calls = [call(np.array([0.0, 0.0, 0.0, 2.0, 1.0, 0.0]), _AFTER_NUMBER)]
    for length in (0, 2, 3):
        # Large enough to be seen, and far enough from 0 that a logit of 0 is another one.
        logits = rng.permutation([1.5, -1.2, 0.8, 2.3, -0.7, 0.4]) + rng.uniform(-0.2, 0.2, 6)
        calls.append(call(logits, tables.legal_tokens(draw_prefix(rng, length))))
    return calls


def _forbidden_favourite(rng):
    high = rng.uniform(0.5, 1.5, 6)
    high[int(rng.integers(0, 3))] = 2000.0
    return [
        call(np.array([1000.0, 0.0, 0.0, 2.0, 1.0, 0.0]), _AFTER_NUMBER),
        call(high, _AFTER_NUMBER),
        call(np.where(high > 1000, 1e35, high), _AFTER_NUMBER),
    ]


def _any_size(rng):
    shift = float(rng.integers(800, 3000))
    everything = np.ones(6, dtype=bool)
    # Lower than any penalty that a person would type; far apart, and no ties, so that every right way of computing
    # gives exactly 0 and 1, in float32 too.
    low = -float(rng.uniform(1, 9)) * 1e35
    return [
        call(np.array([0.0, 0.0, 0.0, 1002.0, 1001.0, 1000.0]), _AFTER_NUMBER),
        call(np.array([0.5, 0.1, 0.2, 2.0, 1.0, 0.0]) - shift, everything),
        call(
            low * np.array([4.0, 4.0, 4.0, 2.0, 1.0, 3.0]),
            _AFTER_NUMBER,
            note="the allowed logits are very low",
        ),
    ]


MASKED_PROBS = Exercise(
    name="masked_probs",
    chapter=CHAPTER,
    difficulty=1,
    minutes=10,
    reference=tables.masked_probs,
    parts=(
        Part(
            says="the allowed tokens share the probability, the others get 0",
            points=2,
            calls=_ordinary,
            hint="The result has one number for each token, and they sum to 1. A forbidden token should behave as if "
            "its logit were lower than any number.",
        ),
        Part(
            says="also where a forbidden token has by far the largest logit",
            points=1,
            calls=_forbidden_favourite,
            hint="Which of the logits may play a part in the softmax at all, and in the shift before it?",
        ),
        Part(
            says="logits of any size",
            points=1,
            calls=_any_size,
            hint="Chapter 02: subtract the largest before you take exponentials. The largest of which ones?",
        ),
        Part(
            says="nothing allowed, or shapes that differ: a ValueError",
            points=1,
            calls=lambda rng: [
                call(np.array([0.0, 1.0, 0.0]), np.array([True, True, False])),
                call(np.zeros(6), np.zeros(6, dtype=bool), note="nothing is allowed"),
                call(np.zeros(6), np.array([True]), note="one entry for six logits"),
                call(rng.integers(-9, 9, 5) / 4, np.array([True, False, True, True, False])),
                call(rng.integers(-9, 9, 5) / 4, np.zeros(5, dtype=bool), note="nothing is allowed"),
                call(rng.integers(-9, 9, 5) / 4, np.ones(4, dtype=bool), note="four entries for five logits"),
            ],
            only_errors=True,
            hint="Two questions before the softmax. numpy would answer with NaN, or repeat a single entry silently.",
        ),
    ),
    mistakes=(
        Mistake(
            "mask after the softmax",
            _probs_mask_after,
            "The probabilities do not sum to 1. The softmax gave a share to the forbidden tokens, and then this share "
            "was thrown away. The mask has to act before the softmax.",
        ),
        Mistake(
            "mask after the softmax, renormalised",
            _probs_mask_after_renormalised,
            "Fine as long as the allowed tokens have some probability to begin with. Where a forbidden token has all "
            "of it, the rest is rounded to 0, and 0/0 is NaN. Forbidden logits must not take part, not even in the "
            "shift.",
        ),
        Mistake(
            "forbidden logits set to 0",
            _probs_logits_times_mask,
            "The logits of forbidden tokens became 0 (or nearly 0, if you typed `-1e-9` for `-1e9`). A logit of 0 is "
            "no prohibition: it is often larger than the logits of allowed tokens.",
        ),
        Mistake(
            "penalty too small",
            _probs_small_penalty,
            "Forbidden tokens are only made unlikely: something like 10 was subtracted from their logits. One draw in "
            "twenty thousand is then illegal, and a large logit brings them back.",
        ),
        Mistake(
            "penalty that a large logit overcomes",
            _probs_moderate_penalty,
            "Something was subtracted from the logits of forbidden tokens. A logit that is large enough overcomes it, "
            "and a forbidden token takes all of the probability.",
        ),
        Mistake(
            "large penalty that a larger logit overcomes",
            _probs_large_penalty,
            "A large number such as 1e9 was subtracted from the logits of forbidden tokens. Logits have any size: one "
            "that is larger still overcomes it. Is there anything that is lower than every number, whatever was there?",
        ),
        Mistake(
            "a large negative number is not low enough",
            _probs_large_number,
            "Forbidden logits were set to a large negative number such as -1e9. Logits have any size: where those of "
            "the allowed tokens are lower still, the forbidden ones win. Is there anything that is lower than every "
            "number?",
        ),
        Mistake(
            "forbidden logits set to the lowest one",
            _probs_lowest_logit,
            "Forbidden tokens got the lowest logit that occurs, and with it a probability like the least likely token.",
        ),
        Mistake(
            "no shift before exp",
            _probs_no_shift,
            "`exp` of 1000 is infinite, and infinite over infinite is NaN. Chapter 02 has the remedy.",
        ),
        Mistake(
            "no shift before exp, then times the mask",
            _probs_no_shift_times_mask,
            "`exp` of 1000 is infinite: infinite times 0, or over infinite, is NaN. Chapter 02 has the remedy. And "
            "forbidden logits should not reach `exp` at all.",
        ),
        Mistake(
            "not divided by the sum",
            _probs_not_divided,
            "The proportions are right, but the numbers do not sum to 1: the last step of the softmax is missing.",
        ),
        Mistake(
            "masked logits returned",
            _probs_masked_logits,
            "These are logits, with minus infinity for the forbidden tokens. The softmax over them is still to come.",
        ),
        Mistake(
            "0 times infinity",
            _probs_zero_times_infinity,
            "The result is NaN: somewhere 0 is multiplied by infinity, for the tokens that are allowed. Choose between "
            "two values instead of multiplying.",
        ),
        Mistake("log-probs returned", _probs_logs, "These are log-probs. Asked for are probabilities, which sum to 1."),
        Mistake(
            "forbidden tokens left out",
            _probs_shortened,
            "The answer has an entry for allowed tokens only. Then nobody knows which entry belongs to which token: "
            "keep the place of each, with a 0 for the forbidden ones.",
        ),
        Mistake(
            "inverted",
            _probs_inverted,
            "The forbidden tokens share the probability, and the allowed ones get nothing. True means allowed.",
        ),
        Mistake(
            "logits ignored",
            _probs_uniform,
            "All allowed tokens got the same probability: the logits play no part, so nothing can be learned.",
        ),
        Mistake("no mask", _probs_unmasked, "This is the softmax over all tokens: the mask plays no part."),
        Mistake(
            "nothing checked",
            _probs_nothing_checked,
            "Neither a mask that allows nothing nor a mask of another shape stopped the function. Both mean that "
            "something went wrong before. Left alone, numpy answers the one with NaN and repeats the other silently.",
        ),
        Mistake(
            "shapes not compared",
            _probs_shapes_unchecked,
            "A mask of another shape did not stop the function: numpy repeats a single entry for all logits, without a "
            "word. Compare the two shapes first.",
        ),
        Mistake(
            "nothing allowed: an answer all the same",
            _probs_all_forbidden_uniform,
            "Where nothing is allowed, something came back. There is no distribution over nothing: NaN, zeros or equal "
            "shares all hide that something went wrong before. Stop there.",
        ),
    ),
    alternatives=(
        Alternative("a loop over lists", _probs_by_loop),
        Alternative("the lowest float as a penalty, with the checks", _probs_with_lowest_float),
        Alternative("the allowed ones alone, put back in place", _probs_scattered),
    ),
    hint="`np.where(condition, a, b)` chooses entry by entry.",
    rtol=1e-5,
)
