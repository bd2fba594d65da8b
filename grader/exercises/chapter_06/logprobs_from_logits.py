"""The exercise `logprobs_from_logits`: its parts, its known mistakes, and correct alternatives."""

from __future__ import annotations

import numpy as np

from grader import torch_calls
from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.exercises.chapter_06.common import CHAPTER, numpy_log_softmax, rounded
from grader.torch_calls import torch, upstream


def _logprobs_from_logits(logits, token_ids, prompt_width, temperature=1.0):
    """The reference, in numpy: value, and gradient of the weighted sum along the logits."""
    scaled = np.asarray(logits, dtype=float)[:, prompt_width - 1 : -1] / temperature
    tokens = token_ids[:, prompt_width:, np.newaxis]
    table = numpy_log_softmax(scaled)
    value = np.take_along_axis(table, tokens, axis=2)[..., 0]
    one_hot = np.arange(logits.shape[2]) == tokens
    gradient = np.zeros(logits.shape)
    weights = upstream(value.shape)[..., np.newaxis] / temperature
    gradient[:, prompt_width - 1 : -1] = weights * (one_hot - np.exp(table))
    return {"value": value, "gradient": gradient}


def _batch(rng, rows=3, prompt=2, completion=2, vocabulary=4, scale=1.5):
    logits = rounded(scale * rng.standard_normal((rows, prompt + completion, vocabulary)), 2)
    return logits, rng.integers(0, vocabulary, (rows, prompt + completion)), prompt


def _next_is_likely():
    """The tiny model of chapter 02: it gives .9 to the token after the present one and .05 to the others."""
    ids = np.array([[0, 1, 2]])
    probs = np.full((1, 3, 3), 0.05)
    probs[0, np.arange(3), (ids[0] + 1) % 3] = 0.9
    return np.log(probs).round(6), ids, 1


def _shift_calls(rng):
    return [
        call(*_next_is_likely(), note="the model of chapter 02: .9 for the next number, .05 for the others"),
        call(*_batch(rng, rows=1, prompt=1, completion=2, vocabulary=3)),
        call(*_batch(rng, rows=3, prompt=2, completion=3)),
        call(*_batch(rng, rows=2, prompt=4, completion=2, vocabulary=5)),
    ]


def _temperature_calls(rng):
    half, ids, prompt = _batch(rng, rows=2, prompt=1, vocabulary=6, scale=5.0)
    return [
        call(np.array([[[2.0, 0.0], [0.0, 0.0]]]), np.array([[1, 0]]), 1, temperature=2.0),
        call(*_batch(rng), temperature=float(rng.choice([0.6, 0.7]))),
        call(half.astype(np.float16), ids, prompt, temperature=0.7, note="logits in half precision"),
    ]


def _precision_calls(rng):
    half, ids, prompt = _batch(rng, rows=2, prompt=1, vocabulary=6, scale=5.0)
    # Multiples of 1/4 are exact in float32 as well.
    large = rng.integers(-4, 5, (1, 3, 4)) / 4 + rng.permutation([2000.0, -2000.0, 1999.0, 0.0])
    return [
        call(large, np.array([[0, large[0, 0].argmax(), large[0, 1].argmin()]]), 1, note="large logits"),
        call(half.astype(np.float16), ids, prompt, note="logits in half precision"),
    ]


def _gradient_calls(rng):
    return [
        call(*_batch(rng, rows=1, prompt=1, completion=1, vocabulary=3)),
        call(*_batch(rng, rows=2, prompt=2, completion=3), temperature=1.3),
    ]


def _solution(logits, token_ids, prompt_width, temperature):
    logps = torch.log_softmax(logits[:, prompt_width - 1 : -1].float() / temperature, dim=-1)
    return logps.gather(-1, token_ids[:, prompt_width:, None])[..., 0]


def _from(logps_of):
    def solution(logits, token_ids, prompt_width, temperature=1.0):
        return logps_of(logits, token_ids, prompt_width, temperature)

    return solution


def _gathered(rows, tokens, temperature, table_of=None):
    """Log-probs of `tokens` by these rows of logits; `table_of` makes the table of log-probs otherwise."""
    rows = rows if rows.dtype == torch.float64 else rows.float()
    table = torch.log_softmax(rows / temperature, dim=-1) if table_of is None else table_of(rows, temperature)
    return table.gather(-1, tokens[..., None]).squeeze(-1)


def _table(table_of):
    """The right rows and tokens, with another table of log-probs."""
    return _from(lambda z, ids, p, t: _gathered(z[:, p - 1 : -1], ids[:, p:], t, table_of))


def _own_position(logits, token_ids, prompt_width, temperature=1.0):
    return _gathered(logits[:, prompt_width:], token_ids[:, prompt_width:], temperature)


def _two_before(logits, token_ids, prompt_width, temperature=1.0):
    rolled = torch.roll(logits, 2, dims=1)
    return _gathered(rolled[:, prompt_width:], token_ids[:, prompt_width:], temperature)


def _prompt_counted(logits, token_ids, prompt_width, temperature=1.0):
    return _gathered(logits[:, :-1], token_ids[:, 1:], temperature)


def _last_token_dropped(logits, token_ids, prompt_width, temperature=1.0):
    return _gathered(logits[:, prompt_width - 1 : -2], token_ids[:, prompt_width:-1], temperature)


def _tokens_shifted_too(logits, token_ids, prompt_width, temperature=1.0):
    return _gathered(logits[:, prompt_width - 1 : -1], token_ids[:, prompt_width - 1 : -1], temperature)


def _half_precision(logits, token_ids, prompt_width, temperature=1.0):
    table = torch.log_softmax(logits[:, prompt_width - 1 : -1] / temperature, dim=-1)
    return table.gather(-1, token_ids[:, prompt_width:, None]).squeeze(-1)


def _divided_in_half_precision(logits, token_ids, prompt_width, temperature=1.0):
    return _right(logits / temperature, token_ids, prompt_width, 1.0)


def _whole_table(logits, token_ids, prompt_width, temperature=1.0):
    rows = logits[:, prompt_width - 1 : -1]
    return torch.log_softmax((rows if rows.dtype == torch.float64 else rows.float()) / temperature, dim=-1)


def _summed(logits, token_ids, prompt_width, temperature=1.0):
    return _from(_right)(logits, token_ids, prompt_width, temperature).sum(dim=1)


def _right(logits, token_ids, prompt_width, temperature):
    return _gathered(logits[:, prompt_width - 1 : -1], token_ids[:, prompt_width:], temperature)


def _naive(rows, temperature):
    weights = torch.exp(rows / temperature)
    return torch.log(weights / weights.sum(dim=-1, keepdim=True))


def _detached(logits, token_ids, prompt_width, temperature=1.0):
    return _right(logits.detach(), token_ids, prompt_width, temperature)


def _numpy(logits, token_ids, prompt_width, temperature=1.0):
    return _logprobs_from_logits(logits.detach().numpy(), token_ids.numpy(), prompt_width, temperature)["value"]


def _by_loop(logits, token_ids, prompt_width, temperature=1.0):
    rows = []
    for scores, ids in zip(logits, token_ids.tolist(), strict=True):
        row = []
        for place in range(prompt_width, len(ids)):
            z = scores[place - 1].double() / temperature
            row.append(z[ids[place]] - torch.logsumexp(z, dim=0))
        rows.append(torch.stack(row))
    return torch.stack(rows)


def _by_cross_entropy(logits, token_ids, prompt_width, temperature=1.0):
    rows = logits[:, prompt_width - 1 : -1].transpose(1, 2)
    rows = rows if rows.dtype == torch.float64 else rows.float()
    return -torch.nn.functional.cross_entropy(rows / temperature, token_ids[:, prompt_width:], reduction="none")


LOGPROBS_FROM_LOGITS = Exercise(
    name="logprobs_from_logits",
    chapter=CHAPTER,
    difficulty=2,
    minutes=15,
    reference=_logprobs_from_logits,
    adapter=torch_calls.value_and_gradient("logits"),
    rtol=2e-5,
    atol=1e-5,
    parts=(
        Part(
            says="each completion token is scored by the logits one place before it",
            points=2,
            calls=_shift_calls,
            entry="value",
            hint="At place t the model has read the tokens 0 … t and says what it expects next. Which places "
            "speak about the completion?",
        ),
        Part(
            says="log-probs of the distribution at this temperature",
            points=1,
            calls=_temperature_calls,
            entry="value",
            hint="The policy sampled from softmax(logits / T). Its log-probs must sum to 1 after exp. Logits in half "
            "precision become float32 before anything is computed with them.",
        ),
        Part(
            says="exact for large logits, and for logits in half precision",
            points=1,
            calls=_precision_calls,
            entry="value",
            hint="In half precision a number has about three digits. What must be done before the log-softmax, "
            "and who knows a log-softmax that does not overflow?",
        ),
        Part(
            says="the gradient arrives at the logits",
            points=2,
            calls=_gradient_calls,
            entry="gradient",
            hint="Every step from the logits to the result must be done by torch.",
        ),
    ),
    mistakes=(
        Mistake(
            "own position",
            _own_position,
            "Each token was scored by the logits at its own place. There the model has read the token already and "
            "speaks about the next one. In a real run such log-probs look plausible, and nothing learns.",
        ),
        Mistake(
            "shifted twice",
            _two_before,
            "The logits come from two places before the token. The prompt and the tokens are shifted against each "
            "other once, not twice.",
        ),
        Mistake(
            "prompt counted",
            _prompt_counted,
            "There is a log-prob for every token but the first, those of the prompt included. The policy did not "
            "write the prompt; only the completion's are asked for.",
        ),
        Mistake(
            "last token dropped",
            _last_token_dropped,
            "The last token of the completion is missing. Often it is the end token.",
        ),
        Mistake(
            "tokens shifted along with the logits",
            _tokens_shifted_too,
            "Logits and tokens were shifted by the same amount: each row of logits scores the token that it had just "
            "read. One of the two stays where it is.",
        ),
        Mistake(
            "temperature left out",
            _table(lambda rows, t: torch.log_softmax(rows, dim=-1)),
            "`temperature` changes nothing. The log-probs belong to another distribution than the one that was "
            "sampled, so the ratio is off from the first update on.",
        ),
        Mistake(
            "multiplied by the temperature",
            _table(lambda rows, t: torch.log_softmax(rows * t, dim=-1)),
            "The logits were multiplied by the temperature. Above 1 it must flatten the distribution.",
        ),
        Mistake(
            "temperature after the log-softmax",
            _table(lambda rows, t: torch.log_softmax(rows, dim=-1) / t),
            "The log-probs were divided by the temperature. Their exp then no longer sums to 1: scale the logits.",
        ),
        Mistake(
            "log-softmax along the places",
            _table(lambda rows, t: torch.log_softmax(rows / t, dim=1)),
            "The log-softmax ran along the places instead of the vocabulary: with a completion of one token every "
            "log-prob would be 0.",
        ),
        Mistake(
            "probabilities, no logs",
            _table(lambda rows, t: torch.softmax(rows / t, dim=-1)),
            "Probabilities came back, between 0 and 1. Their logs are asked for.",
        ),
        Mistake(
            "raw logits",
            _table(lambda rows, t: rows / t),
            "The logits themselves came back. They say nothing before they are compared with the other tokens'.",
        ),
        Mistake(
            "log of a softmax by hand",
            _table(_naive),
            "exp of a large logit is infinite, and the log of a small probability minus infinity. torch has a "
            "log-softmax in one piece that is not.",
        ),
        Mistake(
            "log of torch's softmax",
            _table(lambda rows, t: torch.log(torch.softmax(rows / t, dim=-1))),
            "The softmax of a token that is far behind is 0, and its log minus infinity. torch has a log-softmax in "
            "one piece that is exact there.",
        ),
        Mistake(
            "minus log-probs",
            _table(lambda rows, t: -torch.log_softmax(rows / t, dim=-1)),
            "The sign is turned round: a log-prob is never above 0. (A cross-entropy is minus a log-prob.)",
        ),
        Mistake(
            "divided by the temperature in half precision",
            _divided_in_half_precision,
            "The logits were divided by the temperature while still in half precision, which rounds them once more. "
            "First float32, then the temperature.",
        ),
        Mistake(
            "log-softmax in half precision",
            _half_precision,
            "The log-softmax was taken in half precision, and the log-probs are off in the third digit. A ratio made "
            "of them jumps by percents although nothing has moved.",
        ),
        Mistake(
            "the whole table",
            _whole_table,
            "There is one log-prob for every word of the vocabulary. That of the token that was sampled is asked for.",
        ),
        Mistake(
            "summed over the completion",
            _summed,
            "One sum per rollout came back. The loss of this chapter needs the tokens one by one.",
        ),
        Mistake(
            "no gradient (detached, or made by numpy)",
            _detached,
            "The numbers are right and no gradient arrives: the graph was cut, by `.detach()` or by a way through "
            "numpy. The loss would come out right, too, and the weights would never move.",
        ),
        Mistake(
            "a numpy array returned",
            _numpy,
            "The numbers are right, but they are a numpy array: for autograd the way ends there.",
        ),
    ),
    alternatives=(
        Alternative("loops, in float64", _by_loop),
        Alternative("minus the cross-entropy", _by_cross_entropy),
        Alternative("gather, in float32", _from(_solution)),
    ),
    shortcuts=("completion_logprobs", "chunked_logprobs"),
    hint="Three steps: the places that matter, the log-softmax along the vocabulary, and `gather` for the token that "
    "was sampled.",
)
