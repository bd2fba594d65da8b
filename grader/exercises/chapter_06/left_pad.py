"""The exercise `left_pad`: its parts, its known mistakes, and correct alternatives."""

from __future__ import annotations

import numpy as np

from grader import torch_calls
from grader.compare import as_numbers
from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.exercises.chapter_06.common import CHAPTER
from grader.torch_calls import torch


def _left_pad(prompts, pad_id):
    """The reference, in numpy."""
    width = max(map(len, prompts))
    ids = np.array([[pad_id] * (width - len(prompt)) + list(prompt) for prompt in prompts])
    mask = np.array([[False] * (width - len(prompt)) + [True] * len(prompt) for prompt in prompts])
    return {"ids": ids, "mask": mask, "position_ids": np.where(mask, mask.cumsum(axis=1) - 1, 0)}


def _prompts(rng, pad_id, lengths, with_pad=False):
    prompts = [rng.integers(10, 60, length).tolist() for length in lengths]
    if with_pad:  # the padding id is an ordinary token of a prompt, as after an earlier turn of a chat
        for prompt in prompts:
            prompt[int(rng.integers(len(prompt)))] = pad_id
    return prompts


def _calls(rng):
    return [
        call([[7, 8], [4, 5, 6]], 0),
        call([[1, 5], [5, 1, 6], [8]], 1, note="the padding id occurs in the prompts"),
        call(_prompts(rng, 3, rng.permutation([2, 5, 4])), 3),
        call(_prompts(rng, 2, rng.permutation([3, 6, 1, 4]), with_pad=True), 2),
    ]


def _row(numbers):
    return " ".join(str(int(x)) for x in numbers)


def _positions_fit(values, calls):
    for i, (value, one) in enumerate(zip(values, calls, strict=True)):
        due, found = _left_pad(*one.args), as_numbers(value)
        right, mask = due["position_ids"], due["mask"]
        if found is None or found.shape != right.shape:
            return i, f"position ids of shape {right.shape} are due"
        for row, expected, real in zip(found, right, mask, strict=True):
            if not np.array_equal(row[real], expected[real]):
                return i, (
                    f"the real tokens of the row {_row(due['ids'][list(right.tolist()).index(expected.tolist())])} "
                    f"stand at the places {_row(expected[real])}, yours are {_row(row[real])}"
                )
            if np.any((row < 0) | (row >= right.shape[1])):
                return i, (
                    f"the row {_row(row)} holds a place that does not exist: padding needs some number "
                    f"from 0 to {right.shape[1] - 1}, for a table of positions is looked up there as well"
                )
    return None


def _made_of(ids_of=None, mask_of=None, positions_of=None):
    """The right function with one of its three results made otherwise."""

    def solution(prompts, pad_id):
        right = {name: torch.tensor(array) for name, array in _left_pad(prompts, pad_id).items()}
        ids = right["ids"] if ids_of is None else ids_of(prompts, pad_id)
        mask = right["mask"] if mask_of is None else mask_of(prompts, pad_id, ids)
        positions = right["position_ids"] if positions_of is None else positions_of(mask)
        return ids, mask, positions

    return solution


def _right_padded(prompts, pad_id):
    width = max(map(len, prompts))
    ids = torch.tensor([prompt + [pad_id] * (width - len(prompt)) for prompt in prompts])
    mask = torch.arange(width) < torch.tensor([len(prompt) for prompt in prompts])[:, None]
    return ids, mask, torch.where(mask, mask.long().cumsum(1) - 1, 0)


def _reversed(prompts, pad_id):
    return torch.tensor(_left_pad([prompt[::-1] for prompt in prompts], pad_id)["ids"])


def _padded_with_zeros(prompts, pad_id):
    return torch.tensor(_left_pad(prompts, 0)["ids"])


def _cut_to_shortest(prompts, pad_id):
    width = min(map(len, prompts))
    return _made_of()([prompt[-width:] for prompt in prompts], pad_id)


def _mask_by_value(prompts, pad_id, ids):
    return ids != pad_id


def _mask_inverted(prompts, pad_id, ids):
    return ~torch.tensor(_left_pad(prompts, pad_id)["mask"])


def _mask_of_all(prompts, pad_id, ids):
    return torch.ones_like(ids, dtype=torch.bool)


def _mask_of_numbers(prompts, pad_id, ids):
    return torch.tensor(_left_pad(prompts, pad_id)["mask"]).float()


def _positions_by_place(mask):
    return torch.arange(mask.shape[1]).expand(mask.shape)


def _positions_from_1(mask):
    return torch.where(mask, mask.long().cumsum(dim=1), 0)


def _positions_minus_1(mask):
    return mask.long().cumsum(dim=1) - 1


def _positions_backwards(mask):
    return torch.where(mask, mask.shape[1] - 1 - torch.arange(mask.shape[1]), 0)


def _wrong_mask_with_its_positions(mask_of):
    """A wrong mask from which the positions follow, as they do in a real program."""

    def wrong(prompts, pad_id):
        ids = torch.tensor(_left_pad(prompts, pad_id)["ids"])
        mask = mask_of(prompts, pad_id, ids)
        return ids, mask, torch.where(mask, mask.long().cumsum(dim=1) - 1, 0)

    return wrong


def _is_right_padded(values, calls):
    return any(len(set(map(len, one.args[0]))) > 1 for one in calls) and all(
        np.array_equal(value["ids"], _right_padded(*one.args)[0].numpy())
        for value, one in zip(values, calls, strict=True)
    )


def _is_inverted(values, calls):
    return all(
        np.array_equal(value["mask"], ~_left_pad(*one.args)["mask"])
        and np.array_equal(value["ids"], _left_pad(*one.args)["ids"])
        for value, one in zip(values, calls, strict=True)
    )


def _tensors_by_row(prompts, pad_id):
    width = max(len(prompt) for prompt in prompts)
    ids = torch.full((len(prompts), width), pad_id)
    mask = torch.zeros(len(prompts), width, dtype=torch.bool)
    for row, prompt in enumerate(prompts):
        ids[row, width - len(prompt) :] = torch.tensor(prompt)
        mask[row, width - len(prompt) :] = True
    return ids, mask, (mask.long().cumsum(dim=1) - 1).clamp(min=0)


def _as_transformers(prompts, pad_id):
    """Position 1 at padding, as `generate` of transformers has it: harmless, since nobody attends to it."""
    ids, mask, _ = _tensors_by_row(prompts, pad_id)
    positions = mask.long().cumsum(dim=1) - 1
    return ids, mask, positions.masked_fill(~mask, min(1, ids.shape[1] - 1))


def _flipped_right_padding(prompts, pad_id):
    rows = [torch.tensor(prompt[::-1]) for prompt in prompts]
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=pad_id).flip(1)
    lengths = torch.tensor([len(prompt) for prompt in prompts])
    places = torch.arange(ids.shape[1]) - (ids.shape[1] - lengths[:, None])
    return ids, places >= 0, places.clamp(min=0)


LEFT_PAD = Exercise(
    name="left_pad",
    chapter=CHAPTER,
    difficulty=1,
    minutes=10,
    reference=_left_pad,
    adapter=torch_calls.tensors(ids="int", mask="bool", position_ids="int"),
    parts=(
        Part(
            says="the ids: padding on the left, so that every prompt ends in the last column",
            points=1,
            calls=_calls,
            entry="ids",
            hint="All rows are as wide as the longest prompt. Where does the next token go?",
        ),
        Part(
            says="the mask: true at real tokens, even where a real token has the padding's id",
            points=1,
            calls=_calls,
            entry="mask",
            hint="A prompt may well contain the padding id. What do you know about it besides its ids?",
        ),
        Part(
            says="the position ids: every prompt counts its own tokens from 0",
            points=2,
            calls=_calls,
            holds=_positions_fit,
            entry="position_ids",
            hint="A prompt must look the same to the model whether it is alone or beside a longer one.",
        ),
    ),
    mistakes=(
        Mistake(
            "padded on the right",
            _right_padded,
            "The padding is on the right. Then the last column holds padding for all but the longest prompt, and the "
            "model is asked to go on from there.",
            symptom=_is_right_padded,
        ),
        Mistake(
            "mask by token value",
            _wrong_mask_with_its_positions(_mask_by_value),
            "A real token that has the padding's id is hidden from the model. In a chat the end token stands between "
            "the turns, and many models pad with it. Lengths tell what is padding.",
        ),
        Mistake(
            "true at the padding",
            _wrong_mask_with_its_positions(_mask_inverted),
            "The mask is the wrong way round: the model would read the padding and nothing else.",
            symptom=_is_inverted,
        ),
        Mistake(
            "padding read as text",
            _wrong_mask_with_its_positions(_mask_of_all),
            "The mask is true everywhere: the model would read the padding as a part of the prompt, and the answer "
            "would depend on who else is in the batch.",
        ),
        Mistake(
            "a mask of floats",
            _made_of(mask_of=_mask_of_numbers),
            "The mask holds 1.0 and 0.0. As truth values are asked for, `~mask` and `tensor[mask]` shall work.",
        ),
        Mistake(
            "positions count the columns",
            _made_of(positions_of=_positions_by_place),
            "The position ids count the columns, padding included. A padded prompt then starts at place 3, say, and "
            "not at 0. Models whose positions are learned one by one answer differently.",
        ),
        Mistake(
            "positions from 1",
            _made_of(positions_of=_positions_from_1),
            "The first real token stands at place 1. A prompt without padding starts at 0, so this one must, too.",
        ),
        Mistake(
            "position -1 at the padding",
            _made_of(positions_of=_positions_minus_1),
            "At the padding the running sum minus one is -1. Nobody reads that place, but a table of positions is "
            "looked up there all the same, and it has no row -1.",
        ),
        Mistake(
            "positions counted from the end",
            _made_of(positions_of=_positions_backwards),
            "The positions run backwards: the last token of each prompt stands at place 0.",
        ),
        Mistake(
            "prompts reversed",
            _made_of(ids_of=_reversed),
            "The prompts stand in the batch from their last token to their first. Were they turned round for the "
            "padding, and not turned back?",
        ),
        Mistake(
            "padded with 0",
            _made_of(ids_of=_padded_with_zeros),
            "The padding is 0, whatever `pad_id` says.",
        ),
        Mistake(
            "cut to the shortest",
            _cut_to_shortest,
            "All prompts were cut to the length of the shortest. The model would answer questions it has not read.",
        ),
    ),
    alternatives=(
        Alternative("row by row", _tensors_by_row),
        Alternative("padding at position 1, as transformers has it", _as_transformers),
        Alternative("right padding of reversed rows, reversed", _flipped_right_padding),
    ),
    hint="First the width. `[pad_id] * n` makes a list of n paddings, and `mask.cumsum(dim=1)` counts along a row.",
)
