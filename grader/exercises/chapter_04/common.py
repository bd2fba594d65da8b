"""What several exercises of chapter 04 share."""

from __future__ import annotations

from functools import wraps

import numpy as np

from grader.compare import Tolerance, as_numbers, value_difference
from grpo.expressions.game import END, EXPRESSIONS, NUMBERS, OPERATORS, PREFIXES, TARGETS, TOKENS

CHAPTER = "04_tabular_grpo"
ID = {token: number for number, token in enumerate(TOKENS)}


def draw_seed(rng):
    return int(rng.integers(1, 2**31))


def draw(rng, items, size=None):
    """One item, or a list of `size` different ones."""
    if size is None:
        return items[rng.integers(len(items))]
    return [items[i] for i in rng.permutation(len(items))[:size]]


def draw_prefix(rng, length):
    """A beginning of an expression with so many tokens, as a list."""
    return list(draw(rng, [prefix for prefix in PREFIXES if len(prefix) == length]))


def draw_response(rng, numbers_used):
    """A well-formed response with so many numbers, as a list of tokens with the end token."""
    return [*draw(rng, [one for one in EXPRESSIONS if len(one) == 2 * numbers_used - 1]), END]


def as_mask(allowed):
    return np.array([token in allowed for token in TOKENS])


def wants_number(prefix):
    return len(prefix) % 2 == 0


def free_numbers(prefix):
    return [number for number in NUMBERS if number not in prefix]


def plain_softmax(logits):
    """Softmax without any mask, for mistakes that have none."""
    weights = np.exp(np.asarray(logits, dtype=float) - np.max(logits))
    return weights / weights.sum()


class UnreadableError(ValueError):
    """An answer has another form than the exercise asks for; the message says in what way."""


def judged_after(read):
    """Make a property say why an answer cannot be read: `read(value, call)` raises UnreadableError where it cannot."""

    def decorate(judge):
        @wraps(judge)
        def judge_readable(values, calls):
            for i, (value, one) in enumerate(zip(values, calls, strict=True)):
                try:
                    read(value, one)
                except UnreadableError as reason:
                    return i, str(reason)
            return judge(values, calls)

        return judge_readable

    return decorate


def kind_error(due, value):
    """What is wrong with the kind of an answer, in the words of any other comparison."""
    return UnreadableError(value_difference(due, value, Tolerance(0, 0)))


def read_numbers(value, shape=None):
    """An answer as an array of floats, of one shape if one is given."""
    numbers = as_numbers(value)
    if numbers is None:
        raise kind_error(np.zeros(shape or (1,)), value)
    if shape is not None and numbers.shape != shape:
        raise UnreadableError(f"numbers of shape {shape} are due; yours have the shape {numbers.shape}")
    return numbers.astype(float)


def read_table(value, table):
    """An answer as a table with the states of another one: a dict of arrays of six finite numbers."""
    if not isinstance(value, dict):
        raise kind_error({}, value)
    for state in table:
        if state not in value:
            sizes = f"the answer has {len(value)} rows, and the table that came in has {len(table)}"
            raise UnreadableError(f"there is no row for the state {state}: {sizes}")
    for state in value:
        if state not in table:
            raise UnreadableError(f"the answer has a row for {state}, a state that the table does not have")
    rows = {state: as_numbers(value[state]) for state in table}
    for state, row in rows.items():
        if row is None or row.shape != (len(TOKENS),):
            raise UnreadableError(f"six numbers are due in the row of the state {state}")
        if not np.all(np.isfinite(row)):
            bad = row[~np.isfinite(row)][0]
            raise UnreadableError(f"there is {bad:.0f} in the row of the state {state}")
    return {state: row.astype(float) for state, row in rows.items()}


def unchanged(before, table):
    """Whether a table still has the states and the numbers of a copy that was made before."""
    return list(before) == list(table) and all(np.array_equal(before[state], table[state]) for state in before)


__all__ = [
    "CHAPTER",
    "END",
    "EXPRESSIONS",
    "ID",
    "NUMBERS",
    "OPERATORS",
    "PREFIXES",
    "TARGETS",
    "TOKENS",
    "UnreadableError",
    "as_mask",
    "draw",
    "draw_prefix",
    "draw_response",
    "draw_seed",
    "free_numbers",
    "judged_after",
    "kind_error",
    "plain_softmax",
    "read_numbers",
    "read_table",
    "unchanged",
    "wants_number",
]
