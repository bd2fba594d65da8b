"""The exercise `completion_mask`: its parts, its known mistakes, and correct alternatives."""

from __future__ import annotations

import numpy as np

import grpo
from grader import torch_calls
from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.exercises.chapter_06.common import CHAPTER, ENDOFTEXT, IM_END
from grader.torch_calls import torch

_WIDTH = 7


def _rows(rng, stops, pad, lengths):
    """One row for each length, 0 for a row that never stops; behind the stop token stands padding."""
    rows = np.full((len(lengths), _WIDTH), pad)
    for row, length in zip(rows, lengths, strict=True):
        row[: length or _WIDTH] = rng.integers(10, 60, length or _WIDTH)
        if length:
            row[length - 1] = stops[rng.integers(len(stops))]
    return rows


def _pad_is_eos(rng):
    lengths = rng.permutation([2, 4, 5])
    return [
        call(np.array([[5, 9, 1, 1, 1]]), {1}),
        call(np.array([[7, 2, 2, 2], [2, 2, 2, 2]]), {2}),
        call(_rows(rng, [3], 3, lengths), {3}, note="3 is the end token, and the padding"),
    ]


def _two_stops(rng):
    stops = [ENDOFTEXT, IM_END]
    rows = _rows(rng, stops, 0, [3, 5])
    rows[0, 2], rows[1, 4] = rng.permutation(stops)
    return [
        call(np.array([[9, ENDOFTEXT, 9, 9], [9, IM_END, 9, 9]]), set(stops), note="both end a completion of Qwen3"),
        call(rng.permutation(rows), set(stops), note="padded with 0"),
    ]


def _cut_off(rng):
    return [
        call(np.array([[4, 5, 6], [4, 1, 1]]), {1}, note="the first row was cut off"),
        call(_rows(rng, [1], 0, rng.permutation([0, 3, 6])), {1}),
    ]


def _is_stop(ids, stops):
    return torch.isin(ids, torch.tensor(sorted(stops)))


def _by_lengths(lengths_of):
    """A mask made of one length per row."""

    def solution(completion_ids, stop_ids):
        lengths = lengths_of(completion_ids, _is_stop(completion_ids, stop_ids))
        return torch.arange(completion_ids.shape[1]) < lengths[:, None]

    return solution


def _width(ids):
    return torch.full((len(ids),), ids.shape[1])


def _lengths(ids, is_stop):
    first = is_stop.int().argmax(dim=1) + 1
    return torch.where(is_stop.any(dim=1), first, _width(ids))


def _lengths_without_stop(ids, is_stop):
    return (is_stop.cumsum(dim=1) == 0).sum(dim=1)


def _lengths_argmax_only(ids, is_stop):
    return is_stop.int().argmax(dim=1) + 1


def _lengths_none_is_empty(ids, is_stop):
    return torch.where(is_stop.any(dim=1), is_stop.int().argmax(dim=1) + 1, torch.zeros_like(_width(ids)))


def _lengths_last_stop(ids, is_stop):
    last = ids.shape[1] - is_stop.flip(1).int().argmax(dim=1)
    return torch.where(is_stop.any(dim=1), last, _width(ids))


def _lengths_one_more(ids, is_stop):
    return _lengths(ids, is_stop) + 1


def _lengths_of_the_first_to_stop(ids, is_stop):
    return _lengths(ids, is_stop).min().expand(len(ids))


def _not_a_stop(completion_ids, stop_ids):
    return ~_is_stop(completion_ids, stop_ids)


def _non_stops_plus_one(ids, is_stop):
    return torch.minimum((~is_stop).sum(dim=1) + 1, _width(ids))


def _everything(completion_ids, stop_ids):
    return torch.ones_like(completion_ids, dtype=torch.bool)


def _inverted(completion_ids, stop_ids):
    return ~_by_lengths(_lengths)(completion_ids, stop_ids)


def _lengths_returned(completion_ids, stop_ids):
    return _lengths(completion_ids, _is_stop(completion_ids, stop_ids))


def _one_stop_only(completion_ids, stop_ids):
    return _by_lengths(_lengths)(completion_ids, {max(stop_ids)})


def _looks_like_one_stop(values, calls):
    """Every mask is the right one for some single stop id of its call."""
    return all(
        any(np.array_equal(value, grpo.completion_mask(one.args[0], {stop})) for stop in one.args[1])
        for value, one in zip(values, calls, strict=True)
    )


def _numpy_mask(completion_ids, stop_ids):
    return grpo.completion_mask(completion_ids.numpy(), stop_ids)


def _by_counting(completion_ids, stop_ids):
    is_stop = _is_stop(completion_ids, stop_ids).long()
    return is_stop.cumsum(dim=1) - is_stop == 0


def _by_loop(completion_ids, stop_ids):
    rows = []
    for ids in completion_ids.tolist():
        ended, row = False, []
        for one in ids:
            row.append(not ended)
            ended = ended or one in stop_ids
        rows.append(row)
    return torch.tensor(rows)


COMPLETION_MASK = Exercise(
    name="completion_mask",
    chapter=CHAPTER,
    difficulty=1,
    minutes=10,
    reference=grpo.completion_mask,
    adapter=torch_calls.tensors(mask="bool"),
    parts=(
        Part(
            says="padding with the end token: the first one counts, the others do not",
            points=2,
            calls=_pad_is_eos,
            hint="The first end token was sampled by the policy, the rest is filling. Their ids are the same, so it "
            "is their place that tells them apart.",
        ),
        Part(
            says="more than one token can end a completion",
            points=1,
            calls=_two_stops,
            hint="`stop_ids` is a set, and whichever of its ids comes first ends the row.",
        ),
        Part(
            says="a row that was cut off counts whole",
            points=1,
            calls=_cut_off,
            hint="What does your code do with a row in which no id of the set occurs?",
        ),
    ),
    mistakes=(
        Mistake(
            "masked by token value (ids != pad)",
            _not_a_stop,
            "Tokens were chosen by their value: every end token is dropped, the real one included, and what stands "
            "behind it is kept. A policy trained like this is never told to stop, so its answers grow and grow.",
        ),
        Mistake(
            "end token dropped",
            _by_lengths(_lengths_without_stop),
            "The mask ends one token too early: the first end token is missing. To stop was a choice of the policy, "
            "with a log-prob of its own, and it must be trained like the others.",
        ),
        Mistake(
            "up to the last end token",
            _by_lengths(_lengths_last_stop),
            "The mask reaches to the last end token of the row. With padding by end tokens that is all of the "
            "padding. Which of them did the policy sample?",
        ),
        Mistake(
            "one token too many",
            _by_lengths(_lengths_one_more),
            "The mask reaches one token beyond the first end token.",
        ),
        Mistake(
            "one stop id only",
            _one_stop_only,
            "Only one id of the set ends a row. Qwen3 has two end tokens, and a chat answer ends with the other one: "
            "what comes behind it would be scored as a part of the answer.",
            symptom=_looks_like_one_stop,
        ),
        Mistake(
            "cut-off row keeps one token",
            _by_lengths(_lengths_argmax_only),
            "A row without an end token keeps its first token only: `argmax` of a row of zeros is 0. A completion "
            "that ran into the limit counts with all its tokens.",
        ),
        Mistake(
            "cut-off row is empty",
            _by_lengths(_lengths_none_is_empty),
            "A row without an end token is dropped whole. Then nobody tells the policy that rambling on earns "
            "nothing, and dividing by the row's length divides by 0.",
        ),
        Mistake(
            "length by counting tokens that are no stop",
            _by_lengths(_non_stops_plus_one),
            "The length is the number of tokens that are no end token, plus one. Padding of another value is counted "
            "with them. What counts is where the first end token stands.",
        ),
        Mistake(
            "everybody stops with the first",
            _by_lengths(_lengths_of_the_first_to_stop),
            "All rows have the length of the shortest one. Each row stops for itself.",
        ),
        Mistake(
            "everything counted",
            _everything,
            "Every token counts, the padding too. The policy would be trained on tokens that it never chose.",
        ),
        Mistake(
            "true at the padding",
            _inverted,
            "The mask is the wrong way round: true where the padding is.",
        ),
        Mistake(
            "lengths returned",
            _lengths_returned,
            "The lengths came back, one number per row. They are right; compare them with the places 0, 1, 2, … of "
            "the tokens.",
        ),
        Mistake(
            "a numpy array returned",
            _numpy_mask,
            "The mask is a numpy array. In this chapter tensors come back, so that the next step can go on in torch.",
        ),
    ),
    alternatives=(
        Alternative("count the stops before each token", _by_counting),
        Alternative("compare places with lengths", _by_lengths(_lengths)),
        Alternative("loops", _by_loop),
    ),
    shortcuts=("completion_lengths",),
    hint="`torch.isin` finds the end tokens. A running sum along the row tells how many of them came before.",
)
