"""The exercise `log_ratios`: its parts, its known mistakes, and correct alternatives."""

from __future__ import annotations

import numpy as np

from grader import torch_calls
from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.exercises.chapter_06.common import CHAPTER, draw_lengths, draw_logps, kept, mask_of
from grader.torch_calls import torch, upstream
from grpo import token_loss


def _log_ratios(new_logps, old_logps, mask, level):
    """The reference, in numpy: value, and gradient of the weighted sum along the new log-probs."""
    value = token_loss.log_ratios(new_logps, old_logps, mask, level)
    weights = np.where(mask, upstream(value.shape), 0.0)
    if level != "token":
        weights = np.where(mask, weights.sum(axis=1, keepdims=True), 0.0)
    if level == "gspo":
        weights = weights / mask.sum(axis=1, keepdims=True)
    return {"value": value, "gradient": weights}


_PAIR = np.array([[-1.0, -0.5]]), np.array([[-1.3, -0.4]]), np.array([[True, True]])


def _batch(rng, rows=3, width=4, padding=(-9.0, -5.0)):
    mask = mask_of(draw_lengths(rng, rows, width), width)
    old = draw_logps(rng, mask, padding=padding[1])
    return draw_logps(rng, mask, 0.4, old, padding=padding[0]), old, mask


def _of_level(level):
    def calls(rng):
        nan = (float("nan"), 0.0) if level == "token" else (-9.0, float("nan"))
        return [
            call(*_PAIR, level),
            call(*_batch(rng), level),
            call(*_batch(rng, rows=4, width=6), level),
            call(*_batch(rng, rows=2, padding=nan), level, note="NaN at the padding"),
        ]

    return calls


def _gradients(rng):
    return [call(*_PAIR, "gspo")] + [
        call(*_batch(rng), level) for level in rng.permutation(["token", "rollout", "gspo"]).tolist()
    ]


def _levels(rng):
    return [call(*_PAIR, "token"), call(*_PAIR, "sequence"), call(*_batch(rng), "Token")]


def _from(of_tokens, of_rollouts, check=True):
    def solution(new_logps, old_logps, mask, level):
        if check and level not in ("token", "rollout", "gspo"):
            raise ValueError(f"level is {level!r}: choose token, rollout or gspo")
        of_token = of_tokens(new_logps, old_logps, mask)
        return of_token if level == "token" else of_rollouts(of_token, mask, level)

    return solution


def _tokens(new, old, mask):
    return kept(new - old.detach(), mask)


def _tokens_exchanged(new, old, mask):
    return kept(old.detach() - new, mask)


def _tokens_exp(new, old, mask):
    return torch.exp(kept(new - old.detach(), mask))


def _tokens_unmasked(new, old, mask):
    return new - old.detach()


def _tokens_times_mask(new, old, mask):
    return (new - old.detach()) * mask


def _tokens_detached(new, old, mask):
    return kept(new.detach() - old, mask)


def _rollouts(of_token, mask, level):
    total = of_token.sum(dim=1, keepdim=True)
    return kept((total / mask.sum(dim=1, keepdim=True) if level == "gspo" else total).expand(mask.shape), mask)


def _rollouts_unmasked(of_token, mask, level):
    total = of_token.sum(dim=1, keepdim=True)
    return (total / mask.sum(dim=1, keepdim=True) if level == "gspo" else total).expand(mask.shape)


def _rollouts_padded_mean(of_token, mask, level):
    total = of_token.sum(dim=1, keepdim=True)
    return kept((total / mask.shape[1] if level == "gspo" else total).expand(mask.shape), mask)


def _rollouts_batch_mean(of_token, mask, level):
    total = of_token.sum(dim=1, keepdim=True)
    mean = of_token.sum() / mask.sum()
    return kept((mean if level == "gspo" else total).expand(mask.shape), mask)


def _rollouts_columns(of_token, mask, level):
    total = of_token.sum(dim=0, keepdim=True)
    return kept((total / mask.sum(dim=0, keepdim=True) if level == "gspo" else total).expand(mask.shape), mask)


def _rollouts_swapped(of_token, mask, level):
    return _rollouts(of_token, mask, "rollout" if level == "gspo" else "gspo")


def _rollouts_one_number(of_token, mask, level):
    total = of_token.sum(dim=1)
    return total / mask.sum(dim=1) if level == "gspo" else total


def _rollouts_running(of_token, mask, level):
    total = of_token.cumsum(dim=1)
    return kept(total / mask.cumsum(dim=1) if level == "gspo" else total, mask)


def _rollouts_tokens_kept(of_token, mask, level):
    """GSPO-token written wrongly: the value of the rollout, but the gradient of the token alone."""
    return _rollouts(of_token, mask, level).detach() + of_token - of_token.detach()


def _by_loop(new_logps, old_logps, mask, level):
    if level not in ("token", "rollout", "gspo"):
        raise ValueError("no such level")
    rows = []
    for new, old, row in zip(new_logps, old_logps, mask, strict=True):
        moved = new[row] - old[row]
        filled = {"token": moved, "rollout": moved.sum().expand(len(moved)), "gspo": moved.mean().expand(len(moved))}
        rows.append(torch.cat([filled[level], torch.zeros(int((~row).sum()), dtype=new.dtype)]))
    return torch.stack(rows)


LOG_RATIOS = Exercise(
    name="log_ratios",
    chapter=CHAPTER,
    difficulty=2,
    minutes=12,
    reference=_log_ratios,
    adapter=torch_calls.value_and_gradient("new_logps"),
    rtol=2e-5,
    atol=1e-6,
    parts=(
        Part(
            says="level token: each token for itself, 0 at the padding",
            points=1,
            calls=_of_level("token"),
            entry="value",
            hint="New minus old. NaN times 0 is NaN, so choose the zeros instead of multiplying by them.",
        ),
        Part(
            says="level rollout: the sum over the rollout, at each of its tokens",
            points=1,
            calls=_of_level("rollout"),
            entry="value",
            hint="One number per row, written at every token that counts. The padding must not be in the sum.",
        ),
        Part(
            says="level gspo: the mean over the rollout's own tokens",
            points=1,
            calls=_of_level("gspo"),
            entry="value",
            hint="Divide by the number of tokens that count in this row. Rows have different lengths.",
        ),
        Part(
            says="the gradient: a rollout's ratio moves with all of its tokens",
            points=1,
            calls=_gradients,
            entry="gradient",
            hint="Each token of the rollout is in the sum, so each gets a gradient from every place where the sum "
            "stands. torch does this by itself, as long as nothing is detached but the old log-probs.",
        ),
        Part(
            says="another level is a ValueError",
            points=1,
            calls=_levels,
            only_errors=True,
            hint="A level with a typing error must not be taken for one of the three.",
        ),
    ),
    mistakes=(
        Mistake(
            "new and old exchanged",
            _from(_tokens_exchanged, _rollouts),
            "The signs are turned round: old minus new. Good rollouts would be made less likely.",
        ),
        Mistake(
            "ratio instead of its log",
            _from(_tokens_exp, _rollouts),
            "The ratios came back, and sums of ratios. Their logs are asked for; exp comes later, once.",
        ),
        Mistake(
            "ratio instead of its log, 0 at padding",
            _from(lambda new, old, mask: kept(_tokens_exp(new, old, mask), mask), _rollouts),
            "The ratios came back, and sums of ratios. Their logs are asked for; exp comes later, once.",
        ),
        Mistake(
            "padding not masked",
            _from(_tokens_unmasked, _rollouts_unmasked),
            "What stands at the padding is in the result, and in the sums. The log-probs there are of tokens that "
            "nobody sampled.",
        ),
        Mistake(
            "NaN times 0",
            _from(_tokens_times_mask, _rollouts_unmasked),
            "The mask was multiplied in. NaN times 0 is NaN, and then the whole sum is NaN; where a row has nothing "
            "to attend to, a model does give NaN. Choose between two values instead.",
        ),
        Mistake(
            "mean over the padded width",
            _from(_tokens, _rollouts_padded_mean),
            "The sum was divided by the width of the batch. Short rollouts then hardly have a ratio, and what a "
            "rollout's ratio is depends on the longest one beside it.",
        ),
        Mistake(
            "one mean for the whole batch",
            _from(_tokens, _rollouts_batch_mean),
            "All rollouts have the same mean, that of all tokens of the batch.",
        ),
        Mistake(
            "along the wrong axis",
            _from(_tokens, _rollouts_columns),
            "The sums run over the rollouts, place by place. They should run along each row.",
        ),
        Mistake(
            "rollout and gspo exchanged",
            _from(_tokens, _rollouts_swapped),
            "Sum and mean have changed places: `rollout` is the sum, `gspo` the mean.",
        ),
        Mistake(
            "one number per rollout",
            _from(_tokens, _rollouts_one_number),
            "One number per rollout came back. So that the same loss works for all three levels, it is asked for at "
            "every token of the rollout.",
        ),
        Mistake(
            "running sums",
            _from(_tokens, _rollouts_running),
            "At each token stands the sum so far. The ratio of a rollout is one number, the same at all of its tokens.",
        ),
        Mistake(
            "gradient of the token alone",
            _from(_tokens, _rollouts_tokens_kept),
            "The values are those of the rollout, the gradients those of single tokens: something on the way from "
            "the sum to the result was detached.",
        ),
        Mistake(
            "no gradient (new log-probs detached, or numpy)",
            _from(_tokens_detached, _rollouts),
            "The values are right and no gradient arrives: the new log-probs were detached, or numpy did the work. "
            "The old log-probs are the constants here, not the new ones.",
        ),
        Mistake(
            "unknown level accepted",
            _from(_tokens, lambda of_token, mask, level: _rollouts(of_token, mask, level), check=False),
            "A level that does not exist gave a result. One typing error in a settings file, and a run of hours has "
            "used another method than its report says.",
        ),
    ),
    alternatives=(
        Alternative("row by row", _by_loop),
        Alternative("masked_fill and sums", _from(lambda n, o, m: (n - o).masked_fill(~m, 0.0), _rollouts)),
    ),
    hint="`torch.where(mask, values, 0.0)` chooses. With `keepdim=True` a sum keeps its column, and "
    "`.expand(...)` or a second `torch.where` writes it at every token.",
)
