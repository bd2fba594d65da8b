"""The exercise `legal_tokens`: its parts, its known mistakes, and correct alternatives."""

from __future__ import annotations

import numpy as np

from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.exercises.chapter_04.common import (
    CHAPTER,
    END,
    EXPRESSIONS,
    NUMBERS,
    OPERATORS,
    TOKENS,
    as_mask,
    draw_prefix,
    free_numbers,
    wants_number,
)
from grpo.expressions import tables


def _after_number(prefix, last=OPERATORS):
    return [*(last if free_numbers(prefix) else ()), END]


def _legal_number_twice(prefix):
    return as_mask(NUMBERS if wants_number(prefix) else _after_number(prefix))


def _legal_only_previous_excluded(prefix):
    if wants_number(prefix):
        return as_mask([number for number in NUMBERS if number not in prefix[-2:]])
    return as_mask(_after_number(prefix))


def _legal_end_after_operator(prefix):
    return as_mask([*free_numbers(prefix), END] if prefix and wants_number(prefix) else _right(prefix))


def _legal_end_at_the_start(prefix):
    return as_mask([*NUMBERS, END] if not prefix else _right(prefix))


def _legal_end_only_when_full(prefix):
    if wants_number(prefix):
        return as_mask(free_numbers(prefix))
    return as_mask(OPERATORS if free_numbers(prefix) else [END])


def _legal_no_end_after_one_number(prefix):
    return as_mask(OPERATORS if len(prefix) == 1 else _right(prefix))


def _legal_operator_at_the_end(prefix):
    return as_mask(free_numbers(prefix) if wants_number(prefix) else [*OPERATORS, END])


def _legal_operator_once(prefix):
    return as_mask([token for token in _right(prefix) if token not in prefix])


def _legal_turns_swapped(prefix):
    if wants_number(prefix):
        return as_mask([*OPERATORS, END])
    return as_mask(free_numbers(prefix))


def _legal_inverted(prefix):
    return ~tables.legal_tokens(prefix)


def _legal_names(prefix):
    return list(_right(prefix))


def _legal_places(prefix):
    return np.flatnonzero(tables.legal_tokens(prefix))


def _legal_never_an_end(prefix):
    return as_mask([token for token in _right(prefix) if token != END])


def _legal_alphabetical(prefix):
    return as_mask(_right(prefix))[[TOKENS.index(token) for token in sorted(TOKENS)]]


def _in_another_order(values, calls):
    """The right truth values, in an order of the tokens that is the same in all calls."""
    got = np.array([np.asarray(value, dtype=bool) for value in values])
    due = np.array([tables.legal_tokens(*one.args) for one in calls])
    columns, wanted = (sorted(map(tuple, table.T)) for table in (got, due))
    return got.shape == due.shape and columns == wanted and not np.array_equal(got, due)


def _legal_added_mask(prefix):
    return np.where(tables.legal_tokens(prefix), 0.0, -np.inf)


def _legal_everything(prefix):
    return as_mask([token for token in TOKENS if token not in prefix or token in OPERATORS])


def _right(prefix):
    return free_numbers(prefix) if wants_number(prefix) else _after_number(prefix)


def _legal_by_enumeration(prefix):
    prefix = tuple(prefix)
    following = {(*one, END)[len(prefix)] for one in EXPRESSIONS if (*one, END)[: len(prefix)] == prefix}
    return [token in following for token in TOKENS]


def _legal_by_last_token(prefix):
    if not prefix or prefix[-1] in ("+", "*"):
        return np.array([int(number not in prefix) for number in ("2", "3", "5")] + [0, 0, 0])
    room = len(prefix) < 5
    return np.array([0, 0, 0, int(room), int(room), 1])


def _legal_as_tuple(prefix):
    number = len(prefix) % 2 == 0
    used = set(prefix)
    return tuple(
        (number and token not in used) if token.isdigit() else (not number and (token == END or len(prefix) < 5))
        for token in TOKENS
    )


LEGAL_TOKENS = Exercise(
    name="legal_tokens",
    chapter=CHAPTER,
    difficulty=1,
    minutes=10,
    reference=tables.legal_tokens,
    parts=(
        Part(
            says="at the start and after an operator: the numbers that are still free",
            points=2,
            calls=lambda rng: [
                call([], note="the start"),
                call(["2", "+"]),
                call(draw_prefix(rng, 2)),
                call(draw_prefix(rng, 4)),
            ],
            hint="A number is free if it stands nowhere in the beginning. Operators and the end token have to wait.",
        ),
        Part(
            says="after a number: an operator, or the end",
            points=1,
            calls=lambda rng: [call(["3"]), call(draw_prefix(rng, 1)), call(draw_prefix(rng, 3))],
            hint="After a number the policy has a choice: go on, or stop.",
        ),
        Part(
            says="no number left: only the end",
            points=1,
            calls=lambda rng: [call(["2", "*", "3", "+", "5"]), call(draw_prefix(rng, 5))],
            hint="What would have to follow an operator here?",
        ),
    ),
    mistakes=(
        Mistake(
            "number twice",
            _legal_number_twice,
            "A number that was used may come again. The rule of the game is: each number at most once.",
        ),
        Mistake(
            "only the previous number excluded",
            _legal_only_previous_excluded,
            "Only the number just before is forbidden; one from further back may come again. Look at the whole "
            "beginning.",
        ),
        Mistake(
            "never an end",
            _legal_never_an_end,
            "The end token is never legal, so no response can ever come to an end. It may follow every number.",
        ),
        Mistake(
            "end after an operator",
            _legal_end_after_operator,
            "The end token may follow an operator. Then `2 +` is a complete response, and it has no value.",
        ),
        Mistake(
            "end at the start",
            _legal_end_at_the_start,
            "The end token may come first. The empty response is no expression.",
        ),
        Mistake(
            "end only when all numbers are used",
            _legal_end_only_when_full,
            "The policy cannot stop before all three numbers are used: every response has the same length, `5` alone "
            "can never be said, and a reward for short answers would have nothing to compare.",
        ),
        Mistake(
            "no end after a single number",
            _legal_no_end_after_one_number,
            "A single number is forbidden as a response. It is an expression like any other, and the shortest one.",
        ),
        Mistake(
            "operator although no number is left",
            _legal_operator_at_the_end,
            "An operator may come although all three numbers are used. Then nothing at all is legal in the next step: "
            "the softmax over nothing is NaN.",
        ),
        Mistake(
            "operator once",
            _legal_operator_once,
            "An operator that was used may not come again. `2 + 3 + 5` is a fine expression: only numbers are used up.",
        ),
        Mistake(
            "turns swapped",
            _legal_turns_swapped,
            "Numbers and operators come at each other's turn. Before the first token the beginning has length 0.",
        ),
        Mistake(
            "inverted",
            _legal_inverted,
            "True and False are exchanged: the mask marks what is forbidden. Here True means 'may follow'.",
        ),
        Mistake(
            "token names returned",
            _legal_names,
            "The legal tokens came back by name. Asked for is a mask: six truth values, one for each token, in the "
            "order of TOKENS.",
        ),
        Mistake(
            "places returned",
            _legal_places,
            "The places of the legal tokens came back. Asked for is a mask: six truth values, one for each token, so "
            "that it always has the shape of the logits.",
        ),
        Mistake(
            "another order of the tokens",
            _legal_alphabetical,
            "The right truth values are there, in another order. The order is that of TOKENS: 2 3 5 + * END. Whoever "
            "uses the mask looks at places, not at names.",
            symptom=_in_another_order,
        ),
        Mistake(
            "0 and -inf",
            _legal_added_mask,
            "These are the numbers that one adds to logits. That is the next exercise; asked for are truth values.",
        ),
        Mistake(
            "no turns",
            _legal_everything,
            "Numbers and operators do not alternate: the only rule in force is that a number comes once.",
        ),
    ),
    alternatives=(
        Alternative("by enumeration of all expressions", _legal_by_enumeration),
        Alternative("by the last token, as 0 and 1", _legal_by_last_token),
        Alternative("a tuple, by the kind of token", _legal_as_tuple),
    ),
    hint="Is it a number's turn? The length of the beginning tells.",
)
