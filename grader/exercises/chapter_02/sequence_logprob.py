"""The exercise `sequence_logprob`: its parts, its known mistakes, and correct alternatives."""

from __future__ import annotations

import math

import numpy as np

import grpo
from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.exercises.chapter_02.common import CHAPTER, log_softmax_with_logaddexp


def _scores_checked(logits, token_ids, prompt_len, temperature=1.0):
    """The course's own errors, then (log-probs of all rows, ids), for mistakes that are about the numbers only."""
    grpo.sequence_logprob(logits, token_ids, prompt_len, temperature)
    return grpo.log_softmax(np.asarray(logits, dtype=float) / temperature), np.asarray(token_ids)


def _picked(rows, ids):
    n = min(len(rows), len(ids))
    return rows[np.arange(n), ids[:n]]


def _seq_own_position(logits, token_ids, prompt_len, temperature=1.0):
    logps, ids = _scores_checked(logits, token_ids, prompt_len, temperature)
    return float(_picked(logps, ids[:-1])[prompt_len - 1 :].sum())


def _seq_own_position_cut(logits, token_ids, prompt_len, temperature=1.0):
    logps, ids = _scores_checked(logits, token_ids, prompt_len, temperature)
    return float(_picked(logps[prompt_len:], ids[prompt_len:]).sum())


def _seq_past_the_last_row(logits, token_ids, prompt_len, temperature=1.0):
    logps = grpo.log_softmax(np.asarray(logits, dtype=float) / temperature)
    return float(sum(logps[t, token_ids[t]] for t in range(prompt_len, len(token_ids))))


def _seq_mask_shifted(logits, token_ids, prompt_len, temperature=1.0):
    logps, ids = _scores_checked(logits, token_ids, prompt_len, temperature)
    return float(_picked(logps, ids[1:])[prompt_len:].sum())


def _seq_prompt_counted(logits, token_ids, prompt_len, temperature=1.0):
    logps, ids = _scores_checked(logits, token_ids, prompt_len, temperature)
    return float(_picked(logps, ids[1:]).sum())


def _answer_logps(logits, token_ids, prompt_len, temperature=1.0):
    return grpo.token_logprobs(logits, token_ids, prompt_len, temperature)


def _seq_last_dropped(logits, token_ids, prompt_len, temperature=1.0):
    return float(_answer_logps(logits, token_ids, prompt_len, temperature)[:-1].sum())


def _seq_mean(logits, token_ids, prompt_len, temperature=1.0):
    return float(_answer_logps(logits, token_ids, prompt_len, temperature).mean())


def _seq_no_temperature(logits, token_ids, prompt_len, temperature=1.0):
    return float(_answer_logps(logits, token_ids, prompt_len).sum())


def _seq_temperature_multiplied(logits, token_ids, prompt_len, temperature=1.0):
    return float(_answer_logps(logits, token_ids, prompt_len, 1.0 / temperature).sum())


def _seq_temperature_after(logits, token_ids, prompt_len, temperature=1.0):
    return float(_answer_logps(logits, token_ids, prompt_len).sum() / temperature)


def _seq_raw_logits(logits, token_ids, prompt_len, temperature=1.0):
    _, ids = _scores_checked(logits, token_ids, prompt_len, temperature)
    rows = np.asarray(logits, dtype=float) / temperature
    return float(_picked(rows[prompt_len - 1 :], ids[prompt_len:]).sum())


def _seq_log_of_product(logits, token_ids, prompt_len, temperature=1.0):
    with np.errstate(all="ignore"):
        return float(np.log(np.prod(np.exp(_answer_logps(logits, token_ids, prompt_len, temperature)))))


def _seq_probability(logits, token_ids, prompt_len, temperature=1.0):
    return float(np.exp(_answer_logps(logits, token_ids, prompt_len, temperature).sum()))


def _seq_per_token(logits, token_ids, prompt_len, temperature=1.0):
    return _answer_logps(logits, token_ids, prompt_len, temperature)


def _seq_sign(logits, token_ids, prompt_len, temperature=1.0):
    return -grpo.sequence_logprob(logits, token_ids, prompt_len, temperature)


def _seq_bad_input_accepted(logits, token_ids, prompt_len, temperature=1.0):
    logps = grpo.log_softmax(np.asarray(logits, dtype=float) / temperature)
    return float(sum(logps[t - 1, token_ids[t]] for t in range(prompt_len, len(token_ids))))


def _seq_block(logits, token_ids, prompt_len, temperature=1.0):
    logps, ids = _scores_checked(logits, token_ids, prompt_len, temperature)
    return float(logps[prompt_len - 1 :, ids[prompt_len:]].sum())


def _seq_prompt_ids_unchecked(logits, token_ids, prompt_len, temperature=1.0):
    ids, vocabulary = np.array(token_ids), np.shape(logits)[1]
    ids[:prompt_len] = np.clip(ids[:prompt_len], 0, vocabulary - 1)
    return grpo.sequence_logprob(logits, ids, prompt_len, temperature)


def _require_scores(logits, token_ids, prompt_len):
    logits = np.asarray(logits)
    if logits.ndim != 2 or len(logits) != len(token_ids) - 1 or not 1 <= prompt_len < len(token_ids):
        raise ValueError("the shapes do not fit")
    if any(not 0 <= t < logits.shape[1] for t in token_ids):
        raise ValueError("a token is not in the vocabulary")


def _seq_pure_python(logits, token_ids, prompt_len, temperature=1.0):
    _require_scores(logits, token_ids, prompt_len)
    total = 0.0
    for t in range(prompt_len, len(token_ids)):
        row = [float(x) / temperature for x in logits[t - 1]]
        top = max(row)
        total += row[int(token_ids[t])] - top - math.log(sum(math.exp(x - top) for x in row))
    return total


def _seq_from_the_end(logits, token_ids, prompt_len, temperature=1.0):
    _require_scores(logits, token_ids, prompt_len)
    n = len(token_ids) - prompt_len
    logps = log_softmax_with_logaddexp(np.asarray(logits)[-n:] / temperature)
    return np.take_along_axis(logps, np.asarray(token_ids)[-n:, None], axis=1).sum()


def _seq_with_a_mask(logits, token_ids, prompt_len, temperature=1.0):
    _require_scores(logits, token_ids, prompt_len)
    targets = np.asarray(token_ids)[1:]
    logps = grpo.log_softmax(np.asarray(logits) / temperature)
    one_hot = targets[:, None] == np.arange(logps.shape[1])
    is_answer = np.arange(1, len(token_ids)) >= prompt_len
    return np.float64((logps * one_hot).sum(axis=1)[is_answer].sum())


# Softmax gives .9 to (t+1) mod 3 after token t, and .05 to each of the two others.
_LN_18 = float(np.log(18.0))


_NEXT_TOKEN = np.array([[0.0, _LN_18, 0.0], [0.0, 0.0, _LN_18], [_LN_18, 0.0, 0.0]])


_WORKED = (_NEXT_TOKEN[[0, 1]], np.array([0, 1, 2]), 1)


def _drawn_sequence(rng, length, vocabulary, prompt_len, spread=1.5):
    logits = np.round(rng.normal(0.0, spread, size=(length - 1, vocabulary)), 2)
    return logits, rng.integers(0, vocabulary, size=length), prompt_len


def _answers(rng):
    return [
        call(*_WORKED, note="a model that gives 0.9 to the next number"),
        call(*_drawn_sequence(rng, 7, 4, 3)),
        call(*_drawn_sequence(rng, 9, 5, 2)),
        call(*_drawn_sequence(rng, 600, 5, 4, spread=3.0), note="a long answer"),
    ]


def _other_prompts(rng):
    logits, ids, prompt_len = _drawn_sequence(rng, 8, 4, 4)
    other_prompt, other_answer = logits.copy(), logits.copy()
    other_prompt[: prompt_len - 1] = np.round(rng.normal(0.0, 4.0, size=(prompt_len - 1, 4)), 2)
    other_answer[prompt_len - 1 :, 0] += np.array([2.0, 3.0, 4.0, 5.0])
    return [
        call(logits, ids, prompt_len),
        call(other_prompt, ids, prompt_len, note="other logits inside the prompt"),
        call(other_answer, ids, prompt_len, note="other logits in the answer"),
    ]


def _one_number(value):
    return float(np.asarray(value, float).reshape(()))


def _prompt_does_not_matter(values, calls):
    base, other_prompt, other_answer = map(_one_number, values)
    if not abs(base - other_prompt) < 1e-5 * max(1.0, abs(base)):
        return f"only rows inside the prompt were changed, and the answer went from {base:.4f} to {other_prompt:.4f}"
    if not abs(base - other_answer) > 1e-3:
        return "the logits of the answer were changed, and the value did not follow"
    return None


def _temperatures(rng):
    calls = []
    drawn, warm = _drawn_sequence(rng, 6, 4, 2), float(np.round(rng.uniform(0.5, 0.8), 2))
    for (logits, ids, prompt_len), t in (((np.array([[2.0, 0.0]]), np.array([1, 0]), 1), 2.0), (drawn, warm)):
        calls += [
            call(logits, ids, prompt_len, temperature=t),
            call(logits / t, ids, prompt_len, note="the same logits, divided by hand"),
        ]
    return [*calls, call(*drawn)]


def _like_divided_logits(values, calls):
    values = [_one_number(value) for value in values]
    for i in (0, 2):
        hot, by_hand = values[i], values[i + 1]
        if not abs(hot - by_hand) < 1e-5 * max(1.0, abs(by_hand)):
            t = calls[i].kwargs["temperature"]
            return f"temperature {t:g} gives {hot:.4f}; the same logits divided by {t:g} by hand give {by_hand:.4f}"
    if not abs(values[2] - values[4]) > 1e-6:
        return "the temperature changes nothing"
    return None


SEQUENCE_LOGPROB = Exercise(
    name="sequence_logprob",
    chapter=CHAPTER,
    difficulty=2,
    minutes=20,
    reference=grpo.sequence_logprob,
    parts=(
        Part(
            says="the sum over all answer tokens, each scored by the row before it",
            points=2,
            calls=_answers,
            hint="Row t-1 was computed before token t was known. Write down, for T = 3 and one prompt token, which row "
            "goes with which token.",
        ),
        Part(
            says="the logits inside the prompt do not matter",
            points=1,
            calls=_other_prompts,
            holds=_prompt_does_not_matter,
            hint="The policy did not choose the prompt. Which row scores the first token that it did choose?",
        ),
        Part(
            says="a temperature acts as if the logits had been divided by it",
            points=1,
            calls=_temperatures,
            holds=_like_divided_logits,
            hint="Sampling divides first and normalises then. The score has to go the same way.",
        ),
        Part(
            says="shapes, lengths and ids that do not fit raise a ValueError",
            points=1,
            calls=lambda rng: [
                call(*_WORKED),
                call(_NEXT_TOKEN, np.array([0, 1, 2]), 1, note="three rows for three ids: one row too many"),
                call(_NEXT_TOKEN[:2], np.array([0, 1, 2]), 0, note="no prompt"),
                call(_NEXT_TOKEN[:2], np.array([0, 1, 2]), 3, note="no answer"),
                call(_NEXT_TOKEN[:2], np.array([0, 1, 3]), 1, note="the vocabulary is 0, 1, 2"),
                call(_NEXT_TOKEN[:2], np.array([0, 1, -1]), 1, note="-1 is no token"),
                call(_NEXT_TOKEN[:2], np.array([3, 1, 2]), 1, note="3 stands in the prompt"),
                call(_NEXT_TOKEN[:2], np.array([-1, 1, 2]), 1, note="-1 stands in the prompt"),
                call(rng.integers(-9, 9, (3, 4)) / 4, rng.integers(0, 4, 4), 2),
                call(rng.integers(-9, 9, (3, 4)) / 4, rng.integers(0, 4, 5), 2, note="three rows for five ids"),
                call(rng.integers(-9, 9, (3, 4)) / 4, np.append(rng.integers(0, 4, 3), 4), 2, note="4 is no token"),
            ],
            only_errors=True,
            hint="Three questions: does the number of rows fit the number of ids, is there a prompt and an answer, is "
            "every id in the vocabulary?",
        ),
    ),
    shortcuts=("token_logprobs",),
    mistakes=(
        Mistake(
            "own position",
            _seq_own_position,
            "Each token was looked up in the row of its own position. That row predicts the token after it: you "
            "score how likely a repetition was. On the small example that gives -5.9915.",
        ),
        Mistake(
            "own position, last token lost",
            _seq_own_position_cut,
            "Each token was looked up in the row of its own position, and the last one had no row left. A row predicts "
            "the token after it.",
        ),
        Mistake(
            "own position, past the last row",
            _seq_past_the_last_row,
            "Each token was looked up in the row of its own position, and for the last token there is none. That a row "
            "is missing is no accident: a row predicts the token after it, and nothing comes after the last token.",
        ),
        Mistake(
            "mask shifted",
            _seq_mask_shifted,
            "Rows and tokens are paired correctly, but the sum starts one place too late: the first token of the "
            "answer is missing. After a shift, position i of the targets is position i+1 of the sequence.",
        ),
        Mistake(
            "last token dropped",
            _seq_last_dropped,
            "The last token is missing. It is usually the end token, and choosing to stop is a decision of the policy "
            "like any other: without it, it never learns when to stop.",
        ),
        Mistake(
            "prompt counted",
            _seq_prompt_counted,
            "The tokens of the prompt are in the sum. The policy did not choose them, so they say nothing about how "
            "likely its answer was.",
        ),
        Mistake(
            "mean instead of sum",
            _seq_mean,
            "This is the mean over the tokens. The log-probability of the whole answer is the sum: probabilities of "
            "steps multiply.",
        ),
        Mistake(
            "temperature left out",
            _seq_no_temperature,
            "The argument `temperature` changes nothing. These are log-probs of a distribution that nobody sampled "
            "from.",
        ),
        Mistake(
            "temperature multiplied",
            _seq_temperature_multiplied,
            "The temperature works the wrong way round: a high one must make the distribution flatter, not sharper.",
        ),
        Mistake(
            "temperature after the log-softmax",
            _seq_temperature_after,
            "The log-probs were divided by the temperature. Then their exponentials no longer sum to 1. At which step "
            "did the sampler divide?",
        ),
        Mistake(
            "a block instead of pairs",
            _seq_block,
            "Too many numbers were added up: with a slice for the rows and an array of ids for the columns, numpy "
            "takes every row with every id. For n tokens that is a block of n times n numbers; you want the n pairs.",
        ),
        Mistake(
            "ids of the prompt not checked",
            _seq_prompt_ids_unchecked,
            "An id outside of the vocabulary was accepted because it stands in the prompt. It is not scored, but it "
            "shows that ids and logits do not belong together.",
        ),
        Mistake(
            "raw logits summed",
            _seq_raw_logits,
            "These are sums of logits. Logits are scores without a common scale; only the log-softmax turns them into "
            "log-probabilities.",
        ),
        Mistake(
            "log of a product",
            _seq_log_of_product,
            "Correct on paper. But the product of several hundred probabilities is smaller than the smallest float: it "
            "becomes 0, and its log -inf. Stay with logarithms all the way.",
        ),
        Mistake(
            "probability, no log",
            _seq_probability,
            "This is the probability of the answer. Asked for is its logarithm.",
        ),
        Mistake(
            "one value per token",
            _seq_per_token,
            "The log-probs of the single tokens came back. Asked for is one number for the whole answer.",
        ),
        Mistake(
            "sign",
            _seq_sign,
            "The right numbers with the wrong sign: this is a loss. A log-probability is at most 0.",
        ),
        Mistake(
            "bad input accepted",
            _seq_bad_input_accepted,
            "Input that does not fit went through, or ended in an error that does not say what is wrong. numpy reads "
            "index -1 as 'the last one', and a row too many goes unnoticed: the run continues with wrong numbers.",
        ),
    ),
    alternatives=(
        Alternative("pure Python", _seq_pure_python),
        Alternative("counted from the end", _seq_from_the_end),
        Alternative("shifted targets, one-hot and a mask", _seq_with_a_mask),
    ),
    hint="Divide, log-softmax, pick one number per answer token, add up.",
)
