"""The exercise `sample_group`: its parts, its known mistakes, and correct alternatives."""

from __future__ import annotations

import math

import numpy as np

import grpo
from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.exercises.chapter_03.common import CHAPTER, draw_seed
from grader.plain import Rng

_SHARES, _FRESH = slice(3, 6), slice(6, 9)  # the calls of the second and the third part
_LONG = 3000


def _sample_calls(rng):
    # The two skewed policies put their favourite first and last: no single random number hits both.
    return [
        call([0.0, 0.0, 0.0, 0.0], 4, Rng(draw_seed(rng))),
        call([0.5, 0.0, -0.3, 0.0, -0.2], 6, Rng(draw_seed(rng))),
        call([-0.2, 0.0, -0.3, 0.0, 0.5], 7, Rng(draw_seed(rng))),
    ]


def _share_calls(rng):
    # The last logits could pass for probabilities: a function that takes them for such draws here and fails elsewhere.
    policies = [[2.0, 1.0, 0.0, -1.0], [2.0, 1.0, 0.0, -1.0], [0.7, 0.1, 0.1, 0.1]]
    return [call(rng.permutation(logits), _LONG, Rng(draw_seed(rng))) for logits in policies]


def _fresh_calls(rng):
    logits, first, second = [0.2, 0.0, -0.1, 0.1], draw_seed(rng), draw_seed(rng)
    return [call(logits, 30, Rng(first)), call(logits, 30, Rng(second)), call(logits, 30, Rng(first))]


def _draws(value):
    draws = np.asarray(value)
    return draws if draws.dtype.kind in "iu" and draws.ndim == 1 else None


def _draws_in_range(values, calls):
    for i, (value, one) in enumerate(zip(values, calls, strict=True)):
        draws, (logits, size, _) = _draws(value), one.args
        if draws is None:
            return i, "a flat list of whole numbers is due, one answer number per rollout"
        if draws.size != size:
            return i, f"{size} rollouts were asked for, {draws.size} came back"
        if draws.min() < 0 or draws.max() >= len(logits):
            wrong = draws.min() if draws.min() < 0 else draws.max()
            return i, f"the answers are numbered 0 ... {len(logits) - 1}, and {wrong} came back"
    return None


def _shares(value, answers):
    draws = _draws(value)
    return None if draws is None or draws.size == 0 else np.bincount(draws, minlength=answers) / draws.size


def _shares_match(value, probs):
    """Tell whether the shares of a long sample lie within 5 standard errors of `probs`."""
    shares = _shares(value, len(probs))
    errors = np.sqrt(probs * (1 - probs) / _LONG)
    return shares is not None and len(shares) == len(probs) and bool(np.all(np.abs(shares - probs) <= 5 * errors))


def _shares_follow_policy(values, calls):
    for i, (value, one) in enumerate(zip(values, calls, strict=True)):
        probs, draws = grpo.softmax(one.args[0]), _draws(value)
        if draws is None or draws.size != _LONG:
            return i, f"{_LONG} whole numbers are due"
        if not _shares_match(value, probs):
            shown = ", ".join(f"{x:.3f}" for x in _shares(value, len(probs))[: len(probs)])
            due = ", ".join(f"{x:.3f}" for x in probs)
            return i, f"in {_LONG} draws the answers have the shares {shown}; the policy's probabilities are {due}"
    return None


def _draws_are_fresh(values, calls):
    first, second, again = (_draws(value) for value in values)
    if any(draws is None or draws.size == 0 for draws in (first, second, again)):
        return "a flat list of whole numbers is due"
    if np.ptp(first) == 0 and np.ptp(second) == 0:
        return "all 30 rollouts of a group are the same answer"
    if np.array_equal(first, second):
        return "two generators with different seeds give the very same group"
    if not np.array_equal(first, again):
        return "two generators with the same seed give different groups, so a run cannot be repeated"
    return None


def _sample_argmax(logits, group_size, rng):
    return np.full(group_size, int(np.argmax(logits)))


def _sample_reseeded(logits, group_size, rng):
    rng = np.random.default_rng(0)
    return rng.choice(len(logits), size=group_size, p=grpo.softmax(logits))


def _sample_reseeded_in_loop(logits, group_size, rng):
    return [int(np.random.default_rng(0).choice(len(logits), p=grpo.softmax(logits))) for _ in range(group_size)]


def _sample_uniform(logits, group_size, rng):
    return rng.integers(0, len(logits), size=group_size)


def _sample_no_softmax(logits, group_size, rng):
    return rng.choice(len(logits), size=group_size, p=logits)


def _sample_softmax_twice(logits, group_size, rng):
    return rng.choice(len(logits), size=group_size, p=grpo.softmax(grpo.softmax(logits)))


def _sample_sign(logits, group_size, rng):
    return rng.choice(len(logits), size=group_size, p=grpo.softmax(-np.asarray(logits)))


def _sample_global_state(logits, group_size, rng):
    return np.random.choice(len(logits), size=group_size, p=grpo.softmax(logits))  # noqa: NPY002


def _sample_without_replacement(logits, group_size, rng):
    return rng.choice(len(logits), size=group_size, replace=False, p=grpo.softmax(logits))


def _sample_counts(logits, group_size, rng):
    return rng.multinomial(group_size, grpo.softmax(logits))


def _sample_one_hot(logits, group_size, rng):
    return rng.multinomial(1, grpo.softmax(logits), size=group_size)


def _sample_probabilities(logits, group_size, rng):
    probs = grpo.softmax(logits)
    return probs[rng.choice(len(probs), size=group_size, p=probs)]


def _looks_like(kind):
    def symptom(values, calls):
        return all(kind(value, one) for value, one in zip(values, calls, strict=True))

    return symptom


def _all_the_same(value):
    draws = _draws(value)
    return draws is not None and draws.size > 1 and np.ptp(draws) == 0


def _looks_reseeded(values, calls):
    first, second, again = (_draws(value) for value in values[_FRESH])
    return first.size == 30 and np.ptp(first) > 0 and np.array_equal(first, second) and np.array_equal(first, again)


def _looks_global(values, calls):
    first, _, again = (_draws(value) for value in values[_FRESH])
    return np.ptp(first) > 0 and not np.array_equal(first, again) and first.size == 30


def _looks_distributed(probs_of):
    def symptom(values, calls):
        long = zip(values[_SHARES], calls[_SHARES], strict=True)
        return all(_shares_match(value, probs_of(np.asarray(one.args[0], dtype=float))) for value, one in long)

    return symptom


def _fractions(value):
    numbers = np.asarray(value)
    return numbers.dtype.kind == "f" and bool(np.all((numbers > 0) & (numbers < 1)))


def _sample_by_cumsum(logits, group_size, rng):
    edges = np.cumsum(np.exp(logits - np.max(logits)))
    return [int(np.searchsorted(edges, rng.random() * edges[-1], side="right")) for _ in range(group_size)]


def _sample_by_gumbel(logits, group_size, rng):
    return np.argmax(np.asarray(logits) + rng.gumbel(size=(group_size, len(logits))), axis=1)


def _sample_one_by_one(logits, group_size, rng):
    weights = [math.exp(x) for x in logits]
    probs = [w / sum(weights) for w in weights]
    return [rng.choice(len(probs), p=probs) for _ in range(group_size)]


SAMPLE_GROUP = Exercise(
    name="sample_group",
    chapter=CHAPTER,
    difficulty=1,
    minutes=8,
    reference=grpo.sample_group,
    parts=(
        Part(
            says="as many answer numbers as asked for, each one that exists",
            points=1,
            calls=_sample_calls,
            holds=_draws_in_range,
            hint="A rollout is the number of an answer: 0, 1, ... Answers may repeat, and often do.",
        ),
        Part(
            says="each answer as often as the policy says",
            points=2,
            calls=_share_calls,
            holds=_shares_follow_policy,
            hint="Logits become probabilities by softmax, once. Then draw with these probabilities.",
        ),
        Part(
            says="the generator decides: other seeds give other groups, the same seed the same group",
            points=1,
            calls=_fresh_calls,
            holds=_draws_are_fresh,
            hint="Draw from the `rng` that is handed in, and make no generator of your own.",
        ),
    ),
    mistakes=(
        Mistake(
            "argmax",
            _sample_argmax,
            "Every rollout is the likeliest answer. In such a group all rewards are equal, so nothing can "
            "be learned: draw at random.",
            symptom=_looks_like(
                lambda value, one: _all_the_same(value) and one.args[0][value[0]] == np.max(one.args[0])
            ),
        ),
        Mistake(
            "reseeded in the loop (all rollouts equal)",
            _sample_reseeded_in_loop,
            "All rollouts of a group are equal. Every draw starts from the same random number, as if a "
            "generator were made (or a seed set) again for each rollout; or one draw was made and copied.",
            symptom=_looks_like(lambda value, one: _all_the_same(value)),
        ),
        Mistake(
            "reseeded inside",
            _sample_reseeded,
            "Two generators with different seeds give the same group: the function makes its own generator. "
            "In a run every group would be the same. Use the `rng` of the argument.",
            symptom=_looks_reseeded,
        ),
        Mistake(
            "answer counts",
            _sample_counts,
            "This counts how often each answer came up. Each rollout's own answer number is asked for.",
            symptom=_looks_like(
                lambda value, one: (
                    _draws(value) is not None
                    and _draws(value).size == len(one.args[0])
                    and _draws(value).sum() == one.args[1]
                )
            ),
        ),
        Mistake(
            "one-hot rows",
            _sample_one_hot,
            "Each rollout is a row of zeros with a single one. The place of that one is the answer number.",
            symptom=_looks_like(lambda value, one: np.shape(value) == (one.args[1], len(one.args[0]))),
        ),
        Mistake(
            "probabilities returned",
            _sample_probabilities,
            "Probabilities came back where the numbers of the answers are asked for.",
            symptom=_looks_like(lambda value, one: _fractions(value)),
        ),
        Mistake(
            "uniform",
            _sample_uniform,
            "All answers come up equally often: the logits play no part.",
            symptom=_looks_distributed(lambda logits: np.full(logits.size, 1 / logits.size)),
        ),
        Mistake(
            "softmax missing",
            _sample_no_softmax,
            "The logits themselves were handed over as probabilities. They can be negative and need not sum to 1, "
            "so numpy refuses most of them. Which function turns logits into probabilities?",
        ),
        Mistake(
            "softmax twice",
            _sample_softmax_twice,
            "The shares are those of a softmax of a softmax: much too even. Probabilities must not go "
            "through softmax again.",
            symptom=_looks_distributed(lambda logits: grpo.softmax(grpo.softmax(logits))),
        ),
        Mistake(
            "sign of the logits",
            _sample_sign,
            "The least likely answer comes up most often: the logits have the wrong sign.",
            symptom=_looks_distributed(lambda logits: grpo.softmax(-logits)),
        ),
        Mistake(
            "global random state",
            _sample_global_state,
            "The same seed gives different groups: the draws do not come from the `rng` of the argument. "
            "Nobody could repeat such a run.",
            symptom=_looks_global,
        ),
        Mistake(
            "without replacement",
            _sample_without_replacement,
            "The answers were drawn without putting them back, so none can come up twice and a group larger "
            "than the list of answers is impossible. Rollouts are independent draws.",
        ),
    ),
    alternatives=(
        Alternative("cumulative sums", _sample_by_cumsum),
        Alternative("Gumbel noise and argmax", _sample_by_gumbel),
        Alternative("one draw at a time", _sample_one_by_one),
    ),
    hint="`rng.choice` can draw with given probabilities.",
)
