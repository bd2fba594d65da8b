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


def _probs_lowest_logit(logits, mask):
    logits, mask = _checked(logits, mask)
    return plain_softmax(np.where(mask, logits, logits.min()))


def _probs_no_shift(logits, mask):
    logits, mask = _checked(logits, mask)
    with np.errstate(all="ignore"):
        weights = np.exp(np.where(mask, logits, -np.inf))
        return weights / weights.sum()


def _probs_zero_times_infinity(logits, mask):
    logits, mask = _checked(logits, mask)
    with np.errstate(all="ignore"):
        return plain_softmax(logits + (1 - mask) * -np.inf)


def _probs_logs(logits, mask):
    with np.errstate(divide="ignore"):
        return np.log(tables.masked_probs(logits, mask))


def _probs_shortened(logits, mask):
    logits, mask = _checked(logits, mask)
    return plain_softmax(logits[mask])


def _probs_inverted(logits, mask):
    logits, mask = _checked(logits, mask)
    return tables.masked_probs(logits, ~mask if not mask.all() else mask)


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


def _probs_all_forbidden_uniform(logits, mask):
    logits, mask = np.asarray(logits, dtype=float), np.asarray(mask, dtype=bool)
    if logits.shape != mask.shape:
        raise ValueError("the shapes differ")
    return plain_softmax(np.where(mask, logits, -1e9))


def _require(logits, mask):
    if len(logits) != len(mask) or not any(mask):
        raise ValueError("nothing to choose from")


def _probs_by_loop(logits, mask):
    _require(logits, mask)
    top = max(x for x, ok in zip(logits, mask, strict=True) if ok)
    weights = [math.exp(x - top) if ok else 0.0 for x, ok in zip(logits, mask, strict=True)]
    return [w / sum(weights) for w in weights]


def _probs_with_large_penalty(logits, mask):
    _require(logits, mask)
    return plain_softmax(np.where(mask, logits, -1e9))


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
    ]


def _any_size(rng):
    shift = float(rng.integers(800, 3000))
    return [
        call(np.array([0.0, 0.0, 0.0, 1002.0, 1001.0, 1000.0]), _AFTER_NUMBER),
        call(np.array([0.5, 0.1, 0.2, 2.0, 1.0, 0.0]) - shift, _AFTER_NUMBER),
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
            "A mask that allows nothing gave NaN, or a mask of another shape was repeated silently. Both mean that "
            "something went wrong before; stop there.",
        ),
        Mistake(
            "nothing allowed: uniform",
            _probs_all_forbidden_uniform,
            "Where nothing is allowed, the forbidden tokens share the probability. A large negative number for "
            "forbidden logits does that silently: if all are equally bad, all are equally good.",
        ),
    ),
    alternatives=(
        Alternative("a loop over lists", _probs_by_loop),
        Alternative("a huge penalty, with the checks", _probs_with_large_penalty),
        Alternative("the allowed ones alone, put back in place", _probs_scattered),
    ),
    hint="`np.where(condition, a, b)` chooses entry by entry.",
    rtol=1e-5,
)
