"""The exercise `rollout_ratio`: its parts, its known mistakes, and correct alternatives."""

from __future__ import annotations

import math

import numpy as np

import grpo
from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.exercises.chapter_03.common import CHAPTER, as_floats


def _log_ratios(new_logps, old_logps):
    """The course's own errors, then the token-by-token difference, for mistakes that are about the numbers only."""
    grpo.rollout_ratio(new_logps, old_logps)
    new, old = as_floats(new_logps, old_logps)
    return new - old


def _ratio_gspo(new_logps, old_logps):
    return np.exp(_log_ratios(new_logps, old_logps).mean())


def _ratio_mean_of_tokens(new_logps, old_logps):
    return np.exp(_log_ratios(new_logps, old_logps)).mean()


def _ratio_sum_of_tokens(new_logps, old_logps):
    return np.exp(_log_ratios(new_logps, old_logps)).sum()


def _ratio_per_token(new_logps, old_logps):
    return np.exp(_log_ratios(new_logps, old_logps))


def _ratio_swapped(new_logps, old_logps):
    return np.exp(-_log_ratios(new_logps, old_logps).sum())


def _ratio_no_exp(new_logps, old_logps):
    return _log_ratios(new_logps, old_logps).sum()


def _ratio_last_token(new_logps, old_logps):
    return np.exp(_log_ratios(new_logps, old_logps)[-1])


def _ratio_difference(new_logps, old_logps):
    _log_ratios(new_logps, old_logps)
    return np.exp(np.sum(new_logps)) - np.exp(np.sum(old_logps))


def _ratio_probabilities_first(new_logps, old_logps):
    _log_ratios(new_logps, old_logps)
    with np.errstate(all="ignore"):
        return np.prod(np.exp(new_logps)) / np.prod(np.exp(old_logps))


def _ratio_quotient_of_logs(new_logps, old_logps):
    _log_ratios(new_logps, old_logps)
    return np.sum(new_logps) / np.sum(old_logps)


def _ratio_clipped(new_logps, old_logps):
    return np.clip(np.exp(_log_ratios(new_logps, old_logps).sum()), 0.8, 1.2)


def _ratio_any_shape(new_logps, old_logps):
    return np.exp(np.sum(new_logps) - np.sum(old_logps))


def _ratio_shapes_left_to_numpy(new_logps, old_logps):
    return np.exp(np.sum(np.asarray(new_logps) - np.asarray(old_logps)))


def _ratio_by_loop(new_logps, old_logps):
    if np.ndim(new_logps) != 1 or np.shape(new_logps) != np.shape(old_logps):
        raise ValueError("one rollout has as many new as old log-probs")
    log_ratio = 0.0
    for new, old in zip(new_logps, old_logps, strict=True):
        log_ratio += float(new) - float(old)
    return math.exp(log_ratio)


def _ratio_as_product(new_logps, old_logps):
    new, old = as_floats(new_logps, old_logps)
    if new.ndim != 1 or new.shape != old.shape:
        raise ValueError("shapes differ")
    return np.prod(np.exp(new - old))


def _logps(rng, tokens):
    return -rng.uniform(0.1, 2.0, tokens)


def _drifted(rng, old):
    """New log-probs for `old`: the first token fell a little, the others rose, so the readings of "ratio" differ.

    From four tokens on the ratio is above 1.6: no clip range of the course holds it, nor its inverse.
    """
    shift = rng.uniform(0.2, 0.4, old.size)
    shift[0] = -rng.uniform(0.05, 0.1)
    return old + shift


def _pair_of_logps(rng, tokens):
    old = _logps(rng, tokens) - 0.5
    return _drifted(rng, old), old


def _ratio_both_ways(rng):
    new, old = _pair_of_logps(rng, 4)
    return [call(old, old), call(new, old), call(old, new)]


def _ratio_is_relative(values, calls):
    same, forth, back = (float(value) for value in values)
    if not abs(same - 1.0) < 1e-6:
        return 0, f"new and old are the same numbers, and the ratio is {same:.4g} instead of 1"
    if abs(forth - 1.0) < 1e-3:
        return 1, "new and old differ, and the ratio is 1"
    if not abs(forth * back - 1.0) < 1e-4:
        return 1, (
            f"the ratio is {forth:.4g} here and {back:.4g} with the two arguments exchanged: "
            "multiplied they should be 1"
        )
    return None


ROLLOUT_RATIO = Exercise(
    name="rollout_ratio",
    chapter=CHAPTER,
    difficulty=1,
    minutes=8,
    reference=grpo.rollout_ratio,
    parts=(
        Part(
            says="one number for the whole rollout",
            points=2,
            calls=lambda rng: [
                call(np.array([-1.0, -0.5]), np.array([-1.3, -0.4])),
                call(np.array([-0.25]), np.array([-0.5]), note="one token"),
                call(*_pair_of_logps(rng, 5)),
                call(*_pair_of_logps(rng, 12)),
            ],
            hint="The log-prob of a rollout is a sum over its tokens. Which operation turns a difference of "
            "logs into a quotient?",
        ),
        Part(
            says="nothing changed gives 1; new and old exchanged gives the inverse",
            points=1,
            calls=_ratio_both_ways,
            holds=_ratio_is_relative,
            hint="A ratio compares the same tokens under two policies.",
        ),
        Part(
            says="a drift of .01 per token: 2.7 at 100 tokens, 167 at 512",
            points=1,
            calls=lambda rng: [
                call(np.full(n, -2.0), np.full(n, -2.01)) for n in (100, 512, int(rng.integers(200, 500)))
            ],
            hint="The probability of 512 tokens is too small for a float. Stay in logs as long as you can.",
        ),
        Part(
            says="log-probs of different shapes raise a ValueError",
            points=1,
            calls=lambda rng: [
                call(np.array([-1.0, -2.0]), np.array([-1.5, -2.0])),
                call(np.array([-1.0, -2.0, -1.0]), np.array([-1.5, -2.0]), note="a token is missing"),
                call(np.array([-1.0]), np.array([-1.5, -2.0]), note="numpy would repeat the single entry"),
                call(np.array([[-1.0], [-2.0]]), np.array([-1.5, -2.0]), note="numpy would make 2 x 2 of it"),
                call(*_pair_of_logps(rng, 6)),
                call(_pair_of_logps(rng, 6)[0], _pair_of_logps(rng, 5)[1], note="a token is missing"),
            ],
            only_errors=True,
            hint="Compare the two shapes before you compute anything.",
        ),
    ),
    mistakes=(
        Mistake(
            "mean of log-ratios (GSPO)",
            _ratio_gspo,
            "This is the ratio of GSPO: the log-ratios were averaged over the tokens. It is a real method, "
            "and another one. Here the ratio belongs to the whole rollout, so every token adds to it.",
        ),
        Mistake(
            "mean of token ratios",
            _ratio_mean_of_tokens,
            "One ratio per token was made, and the ratios were averaged. The probability of a rollout is a "
            "product over its tokens, and so is the ratio.",
        ),
        Mistake(
            "sum of token ratios",
            _ratio_sum_of_tokens,
            "The ratios of the tokens were added: an unchanged policy gets as many as there are tokens "
            "instead of 1. What is added, the logs or the ratios?",
        ),
        Mistake(
            "one ratio per token",
            _ratio_per_token,
            "This is one ratio per token, the reading of chapters 04 and 05. Here the whole rollout has one ratio.",
        ),
        Mistake(
            "old and new swapped",
            _ratio_swapped,
            "The ratio is upside down: it is above 1 where the rollout became less likely. Current policy "
            "over old policy.",
        ),
        Mistake(
            "no exp",
            _ratio_no_exp,
            "This is the logarithm of the ratio: 0 where nothing changed. The clip around 1 would have "
            "nothing to hold.",
        ),
        Mistake(
            "last token only",
            _ratio_last_token,
            "Only the last token counts in this ratio. The policy may have changed its mind about every token.",
        ),
        Mistake(
            "difference of probabilities",
            _ratio_difference,
            "The two probabilities were subtracted. A ratio says by what factor a rollout became likelier, "
            "and is 1 where nothing changed.",
        ),
        Mistake(
            "quotient of log-probs",
            _ratio_quotient_of_logs,
            "The log-probs themselves were divided. A quotient of probabilities is a difference of logs.",
        ),
        Mistake(
            "probabilities multiplied first",
            _ratio_probabilities_first,
            "The two probabilities were computed first and divided afterwards. That is right on paper, but "
            "at a few hundred tokens both are 0 in floats, and 0/0 is NaN. Do the subtraction while the "
            "numbers are still logs.",
        ),
        Mistake(
            "clipped already",
            _ratio_clipped,
            "No ratio is above 1.2 or below .8: it was clipped here. Clipping is the job of `clipped_surrogate`, "
            "which needs the ratio as it is, since a bad rollout's ratio counts in full.",
        ),
        Mistake(
            "different shapes accepted",
            _ratio_any_shape,
            "Log-probs of different shapes gave a number. If a token is missing on one side, the two sums "
            "are about two different texts and the ratio means nothing: stop with a ValueError.",
        ),
        Mistake(
            "shapes left to numpy",
            _ratio_shapes_left_to_numpy,
            "numpy refuses to subtract 2 entries from 3, but it repeats a single entry, and it makes a table of a "
            "column and a row. So some shapes that differ still gave a number: compare the shapes yourself.",
        ),
    ),
    alternatives=(
        Alternative("a loop and math.exp", _ratio_by_loop),
        Alternative("the product of the token ratios", _ratio_as_product),
    ),
    hint="Three numpy functions are enough, and the order in which you call them is everything.",
)
