"""The exercise `token_coefficients`: its parts, its known mistakes, and correct alternatives."""

from __future__ import annotations

import functools
import math

import numpy as np

import grpo
from grader.compare import as_numbers
from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.exercises.chapter_04.common import CHAPTER, judged_after, read_numbers
from grader.plain import to_plain
from grpo.expressions import tables

_DEFAULT = 0.04  # of kl_coef


def _gate(ratio, advantage, eps):
    """1 where the surrogate's gradient passes, 0 where the clip is active."""
    return grpo.clip_gate(ratio, np.broadcast_to(advantage, ratio.shape), eps)


def _wrong(push=None, pull=None, weigh=None, join=None, ratio=None, masked=True):
    """The right function with one of its pieces exchanged.

    push(ratio, advantage, eps): the surrogate's part; pull(new, ref): the slope of the penalty; weigh(mask): what a
    token counts; join(push, pull, kl_coef, advantage): their sum; ratio(new, old); masked: 0 behind the end token.
    """

    def wrong(new_logps, old_logps, ref_logps, mask, advantages, clip_eps=0.2, kl_coef=0.04):
        mask = np.asarray(mask, dtype=bool)
        new, old, ref = (np.where(mask, x, 0.0) for x in (new_logps, old_logps, ref_logps))
        a = np.asarray(advantages, dtype=float)[:, np.newaxis]
        pushed = (push or _push)((ratio or _ratio)(new, old), a, clip_eps)
        pulled = (pull or _pull)(new, ref)
        joined = (join or _join)(pushed, pulled, kl_coef, a) * (weigh or _weigh)(mask)
        return np.where(mask, joined, 0.0) if masked else joined

    return wrong


def _ratio(new, old):
    return np.exp(new - old)


def _ratio_of_log_probs(new, old):
    return np.where(old == 0, 1.0, new / np.where(old == 0, 1.0, old))


def _ratio_of_rollout(new, old):
    return np.broadcast_to(np.exp((new - old).sum(axis=1, keepdims=True)), new.shape)


def _push(ratio, a, eps):
    return _gate(ratio, a, eps) * a * ratio


def _pull(new, ref):
    return 1.0 - np.exp(ref - new)


def _weigh(mask):
    return 1.0 / (len(mask) * mask.sum(axis=1, keepdims=True))


def _join(push, pull, kl_coef, a):
    return push - kl_coef * pull


def _gate_for_good_only(ratio, a, eps):
    return np.where((a > 0) & (ratio > 1 + eps), 0.0, a * ratio)


def _gate_outside_the_range(ratio, a, eps):
    return np.where((ratio < 1 - eps) | (ratio > 1 + eps), 0.0, a * ratio)


def _gate_on_the_wrong_side(ratio, a, eps):
    return np.where(((a > 0) & (ratio < 1 - eps)) | ((a < 0) & (ratio > 1 + eps)), 0.0, a * ratio)


def _clipped_ratio(ratio, a, eps):
    return np.where(_gate(ratio, a, eps) > 0, ratio, np.clip(ratio, 1 - eps, 1 + eps)) * a


def _coefficients_old_and_new_exchanged(new_logps, old_logps, ref_logps, mask, advantages, clip_eps=0.2, kl_coef=0.04):
    mask = np.asarray(mask, dtype=bool)
    new, old, ref = (np.where(mask, x, 0.0) for x in (new_logps, old_logps, ref_logps))
    a = np.asarray(advantages, dtype=float)[:, np.newaxis]
    return np.where(mask, (_push(np.exp(old - new), a, clip_eps) - kl_coef * _pull(new, ref)) * _weigh(mask), 0.0)


def _coefficients_kl_to_old(new_logps, old_logps, ref_logps, mask, advantages, clip_eps=0.2, kl_coef=0.04):
    return tables.token_coefficients(new_logps, old_logps, old_logps, mask, advantages, clip_eps, kl_coef)


def _coefficients_end_not_counted(new_logps, old_logps, ref_logps, mask, advantages, clip_eps=0.2, kl_coef=0.04):
    mask = np.asarray(mask, dtype=bool)
    last = np.zeros(mask.shape, dtype=bool)
    last[np.arange(len(mask)), mask.sum(axis=1) - 1] = True
    return tables.token_coefficients(new_logps, old_logps, ref_logps, mask & ~last, advantages, clip_eps, kl_coef)


def _coefficients_nan_times_zero(new_logps, old_logps, ref_logps, mask, advantages, clip_eps=0.2, kl_coef=0.04):
    mask = np.asarray(mask, dtype=float)
    new, old, ref = (np.asarray(x, dtype=float) for x in (new_logps, old_logps, ref_logps))
    a = np.asarray(advantages, dtype=float)[:, np.newaxis]
    with np.errstate(all="ignore"):
        ratio = np.exp(new - old)
        shut = ((a > 0) & (ratio > 1 + clip_eps)) | ((a < 0) & (ratio < 1 - clip_eps))
        joined = np.where(shut, 0.0, a * ratio) - kl_coef * (1 - np.exp(ref - new))
        return joined * mask / (len(mask) * mask.sum(axis=1, keepdims=True))


def _coefficients_penalty_weighed(weigh):
    """The surrogate's part is right, and the penalty has divisions of its own: weigh(mask)."""

    def wrong(new_logps, old_logps, ref_logps, mask, advantages, clip_eps=0.2, kl_coef=0.04):
        mask = np.asarray(mask, dtype=bool)
        new, ref = (np.where(mask, x, 0.0) for x in (new_logps, ref_logps))
        pushed = tables.token_coefficients(new_logps, old_logps, ref_logps, mask, advantages, clip_eps, 0.0)
        return np.where(mask, pushed - kl_coef * _pull(new, ref) * weigh(mask), 0.0)

    return wrong


def _coefficients_nan_behind(new_logps, old_logps, ref_logps, mask, advantages, clip_eps=0.2, kl_coef=0.04):
    right = tables.token_coefficients(new_logps, old_logps, ref_logps, mask, advantages, clip_eps, kl_coef)
    return np.where(mask, right, np.nan)


def _coefficients_padding_counted(new_logps, old_logps, ref_logps, mask, advantages, clip_eps=0.2, kl_coef=0.04):
    everywhere = np.ones(np.shape(mask), dtype=bool)
    new, old, ref = (np.nan_to_num(x) for x in (new_logps, old_logps, ref_logps))
    return tables.token_coefficients(new, old, ref, everywhere, advantages, clip_eps, kl_coef)


def _coefficients_fixed(**settings):
    def wrong(new_logps, old_logps, ref_logps, mask, advantages, clip_eps=0.2, kl_coef=0.04):
        used = {"clip_eps": clip_eps, "kl_coef": kl_coef, **settings}
        return tables.token_coefficients(new_logps, old_logps, ref_logps, mask, advantages, **used)

    return wrong


def _coefficients_by_loop(new_logps, old_logps, ref_logps, mask, advantages, clip_eps=0.2, kl_coef=0.04):
    out = [[0.0] * len(row) for row in mask]
    for i, row in enumerate(mask):
        for t, real in enumerate(row):
            if not real:
                continue
            new, old, ref, a = new_logps[i][t], old_logps[i][t], ref_logps[i][t], advantages[i]
            ratio = math.exp(new - old)
            shut = ratio > 1 + clip_eps if a > 0 else ratio < 1 - clip_eps
            out[i][t] = (-kl_coef * (1 - math.exp(ref - new)) + (0 if shut else a * ratio)) / sum(row) / len(mask)
    return out


def _coefficients_by_differences(new_logps, old_logps, ref_logps, mask, advantages, clip_eps=0.2, kl_coef=0.04):
    """Central differences of the objective itself, token by token."""
    mask = np.asarray(mask, dtype=bool)
    new, old, ref = (np.where(mask, x, 0.0) for x in (new_logps, old_logps, ref_logps))
    a = np.broadcast_to(np.asarray(advantages, dtype=float)[:, np.newaxis], new.shape)

    def objective(x):
        return grpo.clipped_surrogate(np.exp(x - old), a, clip_eps) - kl_coef * grpo.kl_k3(ref - x)

    h = 1e-6
    return np.where(mask, (objective(new + h) - objective(new - h)) / (2 * h) * _weigh(mask), 0.0)


def _coefficients_with_min(new_logps, old_logps, ref_logps, mask, advantages, clip_eps=0.2, kl_coef=0.04):
    """The gate found by comparing the two sides of the min; float32."""
    mask = np.asarray(mask)
    new, old, ref = (np.where(mask, x, 0).astype(np.float32) for x in (new_logps, old_logps, ref_logps))
    a = np.asarray(advantages, dtype=np.float32).reshape(-1, 1)
    ratio = np.exp(new - old)
    passes = ratio * a <= np.clip(ratio, np.float32(1 - clip_eps), np.float32(1 + clip_eps)) * a
    each = passes * ratio * a + np.float32(kl_coef) * np.expm1(ref - new)
    return mask * each / mask.sum(axis=1)[:, None] / np.float32(len(mask))


def _real_tokens_only(fn, names):
    """An adapter: what an answer holds behind the end token counts only in the part about that.

    The calls of that part name the weight of the penalty, and with it the default; in all others it is set to 0.
    """

    @functools.wraps(fn)
    def calls_and_cuts(new_logps, old_logps, ref_logps, mask, *args, **kwargs):
        real = np.array(mask, dtype=bool)
        value = fn(new_logps, old_logps, ref_logps, mask, *args, **kwargs)
        numbers = as_numbers(to_plain(value))
        if kwargs.get("kl_coef") == _DEFAULT or numbers is None or numbers.shape != real.shape:
            return value
        return np.where(real, numbers, numbers.dtype.type(0))

    return calls_and_cuts


def _mask(lengths):
    return np.arange(max(lengths)) < np.array(lengths)[:, np.newaxis]


def _logps(rng, mask):
    return np.where(mask, -rng.uniform(0.3, 2.0, mask.shape), 0.0)


def _signs(rng, n):
    """Advantages of both signs that do not sum to 0."""
    return rng.permutation(np.concatenate([rng.uniform(0.5, 2, n - n // 2), -rng.uniform(0.3, 0.8, n // 2)]))


def _first_updates(rng):
    mask = np.array([[True, True, False], [True, True, True]])
    small = np.array([[-1.0, -0.5, 0.0], [-1.0, -0.7, -0.3]])
    drawn = _mask(rng.permutation([2, 4, 6, 4]).tolist())
    logps = _logps(rng, drawn)
    return [
        call(small, small, small, mask, np.array([1.0, -1.0])),
        call(logps, logps, logps, drawn, _signs(rng, 4)),
    ]


def _moved(rng, mask):
    """Old and new log-probs whose ratios lie on all sides of the clip range, for good and for bad rollouts."""
    old = _logps(rng, mask) - 1.0
    logs = np.log([1.5, 0.6, 1.1, 0.9, 1.35, 0.7])
    steps = np.array([rng.permutation(logs) for _ in range(len(mask))])[:, : mask.shape[1]]
    # Each row begins on both sides, so that even the shortest rollout shows what happens there.
    steps[:, :2] = np.array([rng.permutation(np.log([1.6, 0.55])) for _ in range(len(mask))])
    return np.where(mask, old + steps, 0.0), np.where(mask, old, 0.0)


def _later_updates(rng):
    old = np.full((2, 2), -1.0)
    new = old + np.log([[2.0, 0.5], [2.0, 0.5]])
    mask = _mask([6, 6, 6, 6])  # lengths and padding have parts of their own
    drawn_new, drawn_old = _moved(rng, mask)
    whole = np.ones((2, 2), dtype=bool)
    return [
        call(new, old, new, whole, np.array([1.0, -1.0]), kl_coef=0.0),
        call(drawn_new, drawn_old, drawn_new, mask, _signs(rng, 4), kl_coef=0.0),
        call(drawn_new, drawn_old, drawn_new, mask, _signs(rng, 4), clip_eps=0.42, kl_coef=0.0),
    ]


def _penalties(rng):
    one, two = np.array([[-1.0, -1.0]]), np.array([[-0.5, -1.5]])
    mask = _mask([6, 6, 6])
    new, old = _moved(rng, mask)
    ref = np.where(mask, new + np.array([rng.permutation([0.7, -0.5, 0.3, -0.9, 0.5, -0.2]) for _ in mask]), 0.0)
    a = _signs(rng, 3)
    return [
        call(one, one, two, np.array([[True, True]]), np.array([0.0]), kl_coef=1.0, note="advantage 0"),
        call(new, old, ref, mask, a, kl_coef=0.0),
        call(new, old, ref, mask, a, kl_coef=0.3, note="the same with a penalty"),
    ]


def _one_for_each(value, one):
    return read_numbers(value, one.args[3].shape)


@judged_after(_one_for_each)
def _penalty_pulls(values, calls):
    alone, without, with_it = map(_one_for_each, values, calls)
    due = tables.token_coefficients(*calls[0].args, kl_coef=1.0)
    if not np.allclose(alone, due, rtol=1e-4, atol=1e-5):
        numbers = ("  ".join(f"{x:.4f}" for x in row.ravel()) for row in (due, alone))
        return 0, "the penalty alone should give {}; yours are {}".format(*numbers)
    pull = tables.token_coefficients(*calls[2].args, kl_coef=0.3)
    pull = pull - tables.token_coefficients(*calls[1].args, kl_coef=0.0)
    if not np.allclose(with_it - without, pull, rtol=1e-3, atol=1e-5):
        return 2, "the coefficients with a penalty, minus those without, are not what the penalty alone would give"
    return None


def _paddings(rng):
    mask = _mask([3, 5])
    new, old = _moved(rng, mask)
    ref = _logps(rng, mask)
    junk = [np.where(mask, x, rng.uniform(-9, 9, mask.shape)) for x in (new, old, ref)]
    broken = [np.where(mask, x, np.nan) for x in (new, old, ref)]
    a = _signs(rng, 2)
    return [
        call(new, old, ref, mask, a, kl_coef=_DEFAULT),
        call(*junk, mask, a, kl_coef=_DEFAULT, note="other numbers behind the end token"),
        call(*broken, mask, a, kl_coef=_DEFAULT, note="NaN behind the end token"),
    ]


@judged_after(_one_for_each)
def _padding_is_nothing(values, calls):
    mask = calls[0].args[3]
    clean, *others = map(_one_for_each, values, calls)
    for i, value in enumerate((clean, *others)):
        if np.any(value[~mask] != 0):
            return i, "behind the end token there are no tokens: their coefficients are 0"
        if not np.allclose(value, clean, rtol=1e-4, atol=1e-6):
            return i, "what stands behind the end token changes the coefficients of real tokens"
    if not np.abs(clean[mask]).min() < np.abs(clean[mask]).max():
        return "all coefficients are equal"
    return None


TOKEN_COEFFICIENTS = Exercise(
    name="token_coefficients",
    chapter=CHAPTER,
    difficulty=3,
    minutes=25,
    reference=tables.token_coefficients,
    parts=(
        Part(
            says="the first update: every token gets its rollout's advantage, divided by N and by |o|",
            points=2,
            calls=_first_updates,
            hint="All ratios are 1 here. What is left is the advantage and two divisions. The number of tokens is the "
            "row's own, and the mask knows it.",
        ),
        Part(
            says="a later update: the ratio, and the gate for both signs",
            points=2,
            calls=_later_updates,
            hint="Chapter 03: a good token stops pushing above the range, a bad one below it. Nothing else is shut.",
        ),
        Part(
            says="the penalty pulls back to the reference",
            points=1,
            calls=_penalties,
            holds=_penalty_pulls,
            hint="What is the slope of k3 in the new log-prob? A token that became likelier than under the reference "
            "has to be pulled down.",
        ),
        Part(
            says="behind the end token: 0, whatever stands there",
            points=1,
            calls=_paddings,
            holds=_padding_is_nothing,
            hint="NaN times 0 is NaN. Choose between two values instead of multiplying.",
        ),
    ),
    mistakes=(
        Mistake(
            "gate left out",
            _wrong(push=lambda ratio, a, eps: a * ratio),
            "The clip is missing from the gradient: tokens that have left the range still push. The loss may be "
            "clipped, but it is the gradient that moves the policy.",
        ),
        Mistake(
            "gate only for A > 0",
            _wrong(push=_gate_for_good_only),
            "Good tokens stop pushing, bad ones never do. The gate has a side for each sign of the advantage.",
        ),
        Mistake(
            "gate shut on both sides",
            _wrong(push=_gate_outside_the_range),
            "Every token outside the range was silenced. A bad token that became likelier, or a good one that became "
            "less likely, has to be repaired: its gate stays open.",
        ),
        Mistake(
            "gate on the wrong side",
            _wrong(push=_gate_on_the_wrong_side),
            "The two sides of the gate are exchanged: good tokens were silenced below the range, bad ones above it. "
            "Silent are those that went too far in the direction in which they push.",
        ),
        Mistake(
            "gate only above the range",
            _wrong(push=lambda ratio, a, eps: np.where(ratio > 1 + eps, 0.0, a * ratio)),
            "Every token above the range was silenced, and none below it. Which side is shut depends on the sign of "
            "the advantage.",
        ),
        Mistake(
            "gate only below the range",
            _wrong(push=lambda ratio, a, eps: np.where(ratio < 1 - eps, 0.0, a * ratio)),
            "Every token below the range was silenced, and none above it. Which side is shut depends on the sign of "
            "the advantage.",
        ),
        Mistake(
            "ratio of the log-probs",
            _wrong(ratio=_ratio_of_log_probs),
            "One log-prob was divided by the other. The ratio is one of probabilities: e to the difference of the "
            "log-probs.",
        ),
        Mistake(
            "difference instead of ratio",
            _wrong(ratio=lambda new, old: new - old),
            "In the first update nothing pulls, although every ratio is 1 there and every gate is open. Was the "
            "difference of the log-probs taken for the ratio? It is the logarithm of the ratio, and 0 there.",
        ),
        Mistake(
            "ratio of the whole rollout",
            _wrong(ratio=_ratio_of_rollout),
            "All tokens of a rollout have the same ratio, that of the whole rollout. That was chapter 03; here each "
            "token has its own.",
        ),
        Mistake(
            "clipped ratio instead of a gate",
            _wrong(push=_clipped_ratio),
            "Where the clip is active, the clipped product was used. That is the value of the surrogate; it does not "
            "change with the log-prob there, so its slope is 0.",
        ),
        Mistake(
            "ratio clipped on both sides, no gate",
            _wrong(push=lambda ratio, a, eps: a * np.clip(ratio, 1 - eps, 1 + eps)),
            "Every ratio outside the range was replaced by the edge of the range, whatever the sign of the advantage. "
            "A coefficient is a slope: where the clip is active it is 0, and where it is not, the ratio itself counts, "
            "also outside the range.",
        ),
        Mistake(
            "ratio forgotten",
            _wrong(push=lambda ratio, a, eps: _gate(ratio, a, eps) * a),
            "The advantage is there, the ratio is not. The slope of a ratio in the new log-prob is the ratio itself.",
        ),
        Mistake(
            "new and old exchanged",
            _coefficients_old_and_new_exchanged,
            "The ratio stands on its head: old over new. In the first update nobody notices.",
        ),
        Mistake(
            "token sum instead of mean",
            _wrong(weigh=lambda mask: 1.0 / len(mask)),
            "The division by the number of tokens is missing. Then a rollout counts as much as it has tokens (the sum "
            "of chapters 01 to 03). A real choice, and another one; chapter 05 compares the two.",
        ),
        Mistake(
            "mean over all tokens of the batch (DAPO)",
            _wrong(weigh=lambda mask: 1.0 / mask.sum()),
            "All tokens of the batch count the same. That is DAPO's average. Here each rollout counts the same, and "
            "shares its weight among its tokens.",
        ),
        Mistake(
            "divided by the padded length",
            _wrong(weigh=lambda mask: 1.0 / mask.size),
            "Every rollout was divided by the length of the longest one. How many tokens a row really has, the mask "
            "knows.",
        ),
        Mistake(
            "neither division",
            _wrong(weigh=lambda mask: 1.0),
            "Both divisions are missing, by the number of rollouts and by the number of tokens of each.",
        ),
        Mistake(
            "length one too small",
            _wrong(weigh=lambda mask: 1.0 / (len(mask) * (mask.sum(axis=1, keepdims=True) - 1.0))),
            "The number of tokens is one too small. The end token counts.",
        ),
        Mistake(
            "tokens counted down the columns",
            _wrong(weigh=lambda mask: 1.0 / (len(mask) * np.maximum(mask.sum(axis=0, keepdims=True), 1))),
            "The tokens were counted down the columns: that is how many rollouts have a token at this place. The "
            "length of a rollout is counted along its row.",
        ),
        Mistake(
            "1/N forgotten",
            _wrong(weigh=lambda mask: 1.0 / mask.sum(axis=1, keepdims=True)),
            "The division by the number of rollouts is missing: twice as many rollouts would make a step twice as "
            "large.",
        ),
        Mistake(
            "KL sign",
            _wrong(join=lambda push, pull, beta, a: push + beta * pull),
            "The penalty pushes away from the reference. It is subtracted from the objective.",
        ),
        Mistake(
            "KL: reference and policy exchanged",
            _wrong(pull=lambda new, ref: 1.0 - np.exp(new - ref)),
            "Policy and reference are exchanged in the penalty: delta is the log-prob of the reference minus that of "
            "the policy.",
        ),
        Mistake(
            "KL to the old policy",
            _coefficients_kl_to_old,
            "The penalty compares with the policy that drew the batch: `ref_logps` plays no part. It holds the policy "
            "near the reference, which stays the same for the whole run.",
        ),
        Mistake(
            "value of k3 instead of its slope",
            _wrong(pull=lambda new, ref: grpo.kl_k3(ref - new)),
            "This is the value of k3. A coefficient needs its slope in the new log-prob.",
        ),
        Mistake(
            "slope of k2",
            _wrong(pull=lambda new, ref: new - ref),
            "This is the slope of k2, delta squared over 2. Near the reference the two agree, further away they do "
            "not.",
        ),
        Mistake(
            "slope of k1",
            _wrong(pull=lambda new, ref: 1.0),
            "The penalty pulls at every token by the same amount, also where policy and reference agree: this is the "
            "slope of k1. It only makes every drawn token less likely.",
        ),
        Mistake(
            "delta instead of the slope",
            _wrong(pull=lambda new, ref: ref - new),
            "The difference of the two log-probs itself was taken as the slope, and with it the penalty pushes away "
            "from the reference.",
        ),
        Mistake(
            "penalty times the ratio",
            _wrong(
                push=lambda ratio, a, eps: np.stack([_push(ratio, a, eps), ratio]),
                join=lambda push, pull, beta, a: push[0] - beta * pull * push[1],
            ),
            "The penalty was multiplied by the ratio. The ratio belongs to the advantage; the slope of k3 stands by "
            "itself.",
        ),
        Mistake(
            "penalty times the advantage",
            _wrong(join=lambda push, pull, beta, a: push - beta * pull * a),
            "The penalty was multiplied by the advantage. It does not ask for rewards: a rollout with advantage 0 is "
            "pulled back like any other.",
        ),
        Mistake(
            "penalty not divided",
            _coefficients_penalty_weighed(lambda mask: 1.0),
            "The advantage is divided by N and by |o|, and the penalty is not: the brackets close too early. Both "
            "stand in the same mean, else the penalty grows with the batch.",
        ),
        Mistake(
            "penalty divided by |o| only",
            _coefficients_penalty_weighed(lambda mask: 1.0 / mask.sum(axis=1, keepdims=True)),
            "The penalty lacks one of the two divisions: it is divided by the number of tokens, and not by the number "
            "of rollouts.",
        ),
        Mistake(
            "penalty divided by N only",
            _coefficients_penalty_weighed(lambda mask: 1.0 / len(mask)),
            "The penalty lacks one of the two divisions: it is divided by the number of rollouts, and not by the "
            "number of tokens of each.",
        ),
        Mistake(
            "kl_coef left out",
            _wrong(join=lambda push, pull, beta, a: push - pull),
            "The penalty is there with full weight, whatever `kl_coef` says.",
        ),
        Mistake(
            "kl_coef fixed",
            _coefficients_fixed(kl_coef=0.04),
            "The weight of the penalty is .04, whatever `kl_coef` says.",
        ),
        Mistake(
            "KL behind the gate",
            _wrong(
                push=lambda ratio, a, eps: np.stack([_gate(ratio, a, eps), a * ratio]),
                join=lambda push, pull, beta, a: push[0] * (push[1] - beta * pull),
            ),
            "Where the clip is active the penalty is gone too. The gate belongs to the surrogate; the penalty always "
            "pulls.",
        ),
        Mistake(
            "KL only where there is an advantage",
            _wrong(join=lambda push, pull, beta, a: push - beta * pull * (a != 0)),
            "Rollouts without an advantage have no penalty. The penalty does not ask for rewards: it holds everywhere.",
        ),
        Mistake(
            "no KL",
            _coefficients_fixed(kl_coef=0.0),
            "`kl_coef` changes nothing: the penalty is missing.",
        ),
        Mistake(
            "clip_eps ignored",
            _coefficients_fixed(clip_eps=0.2),
            "The clip range is .2, whatever `clip_eps` says.",
        ),
        Mistake(
            "sign of the loss",
            _wrong(join=lambda push, pull, beta, a: -push + beta * pull),
            "These are slopes of the loss. Asked for is the other direction, uphill: a good rollout gets coefficients "
            "above 0.",
        ),
        Mistake(
            "end token not counted",
            _coefficients_end_not_counted,
            "The last token of each rollout got nothing, and the length is one too small. That token is the end token: "
            "without it the policy never learns when to stop.",
        ),
        Mistake(
            "padding counted",
            _coefficients_padding_counted,
            "The mask plays no part: places behind the end token count as tokens.",
        ),
        Mistake(
            "NaN behind the end token",
            _coefficients_nan_behind,
            "Real tokens are right, and behind the end token stands NaN. Nothing is there, so nothing may pull there: "
            "the coefficient is 0. (One NaN in a sum makes the sum NaN.)",
        ),
        Mistake(
            "not 0 behind the end token",
            _wrong(masked=False),
            "Real tokens are right, but behind the end token there are numbers other than 0. Nothing stands there, so "
            "nothing may pull there.",
        ),
        Mistake(
            "NaN times 0",
            _coefficients_nan_times_zero,
            "The padding was switched off by multiplying with 0, and NaN times 0 is NaN. Choose with the mask instead, "
            "before you compute.",
        ),
    ),
    alternatives=(
        Alternative("loops over lists", _coefficients_by_loop),
        Alternative("central differences of the objective", _coefficients_by_differences),
        Alternative("the gate from the two sides of the min, float32", _coefficients_with_min),
    ),
    hint="Ratio, gate, slope of the penalty, and two divisions.",
    rtol=1e-5,
    adapter=_real_tokens_only,
)
