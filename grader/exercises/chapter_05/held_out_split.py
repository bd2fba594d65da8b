"""The exercise `held_out_split`: its parts, its known mistakes, and correct alternatives."""

from __future__ import annotations

import itertools

import numpy as np

from grader.compare import as_numbers
from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.exercises.chapter_05.common import CHAPTER, draw_seed
from grader.plain import Rng

_FORM, _LEAK, _FRESH = slice(0, 3), slice(3, 5), slice(5, 8)  # the calls of the three parts


def held_out_split(numbers, share, rng):
    """(N,) bool, true for rows to be held out; rows with the same numbers, in any order, stay together."""
    keys = [tuple(sorted(row)) for row in numbers]
    groups = sorted(set(keys))
    chosen = rng.permutation(len(groups))[: _how_many(len(groups), share)]
    held_out = {groups[i] for i in chosen}
    return np.array([key in held_out for key in keys])


def _how_many(groups, share):
    return min(max(round(share * groups), 1), groups - 1)


def _keys(numbers, in_order=False):
    return [tuple(row) if in_order else tuple(sorted(row)) for row in numbers]


def _by_row(numbers, share, rng):
    held = np.zeros(len(numbers), dtype=bool)
    held[rng.permutation(len(numbers))[: _how_many(len(numbers), share)]] = True
    return held


def _order_matters(numbers, share, rng):
    keys = _keys(numbers, in_order=True)
    groups = sorted(set(keys))
    held = {groups[i] for i in rng.permutation(len(groups))[: _how_many(len(groups), share)]}
    return np.array([key in held for key in keys])


def _kept_for_held(numbers, share, rng):
    return ~held_out_split(numbers, share, rng)


def _first_groups(numbers, share, rng):
    keys = _keys(numbers)
    groups = sorted(set(keys))
    held = set(groups[: _how_many(len(groups), share)])
    return np.array([key in held for key in keys])


def _part_of_each_group(numbers, share, rng):
    keys, held = _keys(numbers), np.zeros(len(numbers), dtype=bool)
    for group in sorted(set(keys)):
        rows = [i for i, key in enumerate(keys) if key == group]
        held[rng.permutation(rows)[: _how_many(len(rows), share)]] = True
    return held


def _own_generator(numbers, share, rng):
    return held_out_split(numbers, share, np.random.default_rng(0))


def _global_state(numbers, share, rng):
    return held_out_split(numbers, share, np.random)  # numpy's legacy global generator


def _row_numbers(numbers, share, rng):
    return np.flatnonzero(held_out_split(numbers, share, rng))


def _nothing_held_out(numbers, share, rng):
    keys = _keys(numbers)
    groups = sorted(set(keys))
    chosen = rng.permutation(len(groups))[: int(share * len(groups))]
    held = {groups[i] for i in chosen}
    return np.array([key in held for key in keys])


def _rows_until_full(numbers, share, rng):
    keys = _keys(numbers)
    order, held, wanted = rng.permutation(len(keys)), np.zeros(len(keys), dtype=bool), round(share * len(keys))
    held[order[: max(wanted, 1)]] = True
    touched = {keys[i] for i in order[: max(wanted, 1)]}
    return np.array([key in touched for key in keys])


def _with_lists(numbers, share, rng):
    names = []
    for row in numbers:
        name = "-".join(str(n) for n in sorted(row))
        if name not in names:
            names.append(name)
    count = max(1, min(len(names) - 1, int(share * len(names) + 0.5)))
    held = rng.choice(names, size=count, replace=False).tolist()
    return ["-".join(str(n) for n in sorted(row)) in held for row in numbers]


def _with_unique(numbers, share, rng):
    _, which = np.unique(np.sort(np.array(numbers), axis=1), axis=0, return_inverse=True)
    which = which.ravel()
    order = np.argsort(rng.random(which.max() + 1))
    return np.isin(which, order[: _how_many(len(order), share)])


def _prompts(rng, groups, rows):
    """`rows` rows for each of so many number triples, mixed, the numbers of a row in any order."""
    triples = list(itertools.combinations(range(1, 10), 3))
    chosen = [triples[i] for i in rng.permutation(len(triples))[:groups]]
    table = [rng.permutation(triple).tolist() for triple in chosen for _ in range(rows)]
    return [table[i] for i in rng.permutation(len(table))]


def _form_calls(rng):
    four = [[2, 3, 5], [1, 4, 6], [5, 3, 2], [2, 7, 9], [6, 1, 4], [3, 4, 8]]
    return [
        call(four, 0.5, Rng(draw_seed(rng))),
        call(_prompts(rng, 20, 4), 0.2, Rng(draw_seed(rng))),
        call(_prompts(rng, 6, 3), 0.05, Rng(draw_seed(rng)), note="a small share: still one group at least"),
    ]


def _leak_calls(rng):
    return [call(_prompts(rng, 20, 5), 0.3, Rng(draw_seed(rng))), call(_prompts(rng, 30, 4), 0.25, Rng(draw_seed(rng)))]


def _fresh_calls(rng):
    table, first, second = _prompts(rng, 30, 3), draw_seed(rng), draw_seed(rng)
    return [call(table, 0.4, Rng(first)), call(table, 0.4, Rng(second)), call(table, 0.4, Rng(first))]


def _flags(value, rows):
    """A (rows,) bool array, or None."""
    flags = as_numbers(value)
    if flags is None or flags.shape != (rows,) or not np.isin(flags, (0, 1)).all():
        return None
    return flags.astype(bool)


def _sides(flags, numbers):
    """{triple: share of its rows that are held out}."""
    keys = _keys(numbers)
    return {group: float(np.mean([f for f, key in zip(flags, keys, strict=True) if key == group])) for group in keys}


def _right_form(values, calls):
    for i, (value, one) in enumerate(zip(values, calls, strict=True)):
        numbers, share, _ = one.args
        flags = _flags(value, len(numbers))
        if flags is None:
            return i, f"a flat list of {len(numbers)} truth values is due, true for a row that is held out"
        if flags.all() or not flags.any():
            return i, f"{'everything' if flags.all() else 'nothing'} is held out: both sides need a group"
        groups = len(set(_keys(numbers)))
        count, due = float(np.sum(list(_sides(flags, numbers).values()))), _how_many(groups, share)
        if abs(count - due) > 1.01:
            return i, f"of {groups} groups of numbers about {due} were to be held out, not {count:.1f}"
    return None


def _no_leak(values, calls):
    for i, (value, one) in enumerate(zip(values, calls, strict=True)):
        numbers = one.args[0]
        flags = _flags(value, len(numbers))
        if flags is None or flags.all() or not flags.any():
            return i, "a list with one truth value per row, with both values in it, is due"
        torn = [group for group, share in _sides(flags, numbers).items() if 0.0 < share < 1.0]
        if torn:
            numbers_shown = ", ".join(map(str, torn[0]))
            return i, (
                f"{len(torn)} of {len(set(_keys(numbers)))} groups are on both sides; rows with the numbers "
                f"{numbers_shown} are in training and are held out, too"
            )
    return None


def _generator_decides(values, calls):
    first, second, again = (_flags(value, len(one.args[0])) for value, one in zip(values, calls, strict=True))
    if first is None or second is None or again is None or first.all() or not first.any():
        return "a list with one truth value per row, with both values in it, is due"
    if np.array_equal(first, second):
        return 1, "two generators with different seeds give the very same split"
    if not np.array_equal(first, again):
        return 2, "two generators with the same seed give different splits, so nobody could repeat this"
    return None


def _all_flags(values, calls):
    flags = [_flags(value, len(one.args[0])) for value, one in zip(values, calls, strict=True)]
    if any(one is None for one in flags):
        raise ValueError("not flags")
    return flags


def _torn_groups(values, calls, in_order=False):
    """Shares of groups on both sides in the calls about leaks; with in_order, of groups of rows in the same order."""
    flags = _all_flags(values, calls)
    shares = []
    for one_flags, one in zip(flags[_LEAK], calls[_LEAK], strict=True):
        keys = _keys(one.args[0], in_order)
        torn = [
            0.0 < np.mean([f for f, key in zip(one_flags, keys, strict=True) if key == group]) < 1.0
            for group in set(keys)
        ]
        shares.append(float(np.mean(torn)))
    return max(shares)


def _looks_by_row(values, calls):
    return 0.2 < _torn_groups(values, calls) < 0.99 and _torn_groups(values, calls, True) > 0.0


def _looks_ordered(values, calls):
    return _torn_groups(values, calls) > 0.1 and _torn_groups(values, calls, True) == 0.0


def _looks_stratified(values, calls):
    return _torn_groups(values, calls) == 1.0


def _looks_kept(values, calls):
    flags = _all_flags(values, calls)
    if _torn_groups(values, calls) > 0.0:
        return False
    return all(
        abs(sum(_sides(~f, one.args[0]).values()) - _how_many(len(set(_keys(one.args[0]))), one.args[1])) <= 1
        for f, one in zip(flags, calls, strict=True)
    )


def _looks_sorted(values, calls):
    for flags, one in zip(_all_flags(values, calls)[_LEAK], calls[_LEAK], strict=True):
        sides = _sides(flags, one.args[0])
        held = {group for group, share in sides.items() if share == 1.0}
        if not held or held != set(sorted(sides)[: len(held)]):
            return False
    return True


def _looks_reseeded(values, calls):
    first, second, again = _all_flags(values, calls)[_FRESH]
    return np.array_equal(first, second) and np.array_equal(first, again) and not _looks_sorted(values, calls)


def _looks_global(values, calls):
    first, _, again = _all_flags(values, calls)[_FRESH]
    return not np.array_equal(first, again)


def _looks_like_numbers_of_rows(values, calls):
    for value, one in zip(values, calls, strict=True):
        rows = as_numbers(value)
        if rows is None or rows.ndim != 1 or rows.dtype.kind not in "iu" or len(set(rows.tolist())) != rows.size:
            return False
        if rows.size >= len(one.args[0]) or rows.max() >= len(one.args[0]):
            return False
    return True


def _looks_empty(values, calls):
    flags = _all_flags(values, calls)
    return not flags[2].any() and flags[1].any() and _torn_groups(values, calls) == 0.0


def _looks_grown(values, calls):
    flags = _all_flags(values, calls)
    counts = [
        (sum(_sides(f, one.args[0]).values()), _how_many(len(set(_keys(one.args[0]))), one.args[1]))
        for f, one in zip(flags[_LEAK], calls[_LEAK], strict=True)
    ]
    return _torn_groups(values, calls) == 0.0 and all(count > 1.5 * due for count, due in counts)


HELD_OUT_SPLIT = Exercise(
    name="held_out_split",
    chapter=CHAPTER,
    difficulty=2,
    minutes=15,
    reference=held_out_split,
    parts=(
        Part(
            says="one truth value per row, and about the right share of number groups held out",
            points=1,
            calls=_form_calls,
            holds=_right_form,
            hint="Count groups, not rows, and leave neither side empty.",
        ),
        Part(
            says="no leak: rows with the same numbers, in whatever order, are on the same side",
            points=2,
            calls=_leak_calls,
            holds=_no_leak,
            hint="Which name could you give to both [5, 2, 3] and [2, 3, 5]? Draw names, not rows.",
        ),
        Part(
            says="the generator decides: other seeds give other splits, the same seed the same one",
            points=1,
            calls=_fresh_calls,
            holds=_generator_decides,
            hint="Draw from the `rng` that is handed in. Beware of the order of a `set`: sort it before you draw.",
        ),
    ),
    mistakes=(
        Mistake(
            "split by row",
            _by_row,
            "Single rows were drawn, so most number groups are on both sides. The test then asks about numbers that "
            "were trained on, and the score says less than it seems to.",
            symptom=_looks_by_row,
        ),
        Mistake(
            "order of the numbers matters",
            _order_matters,
            "[2, 3, 5] and [5, 2, 3] were taken for different prompts. They are the same three numbers, and they ended "
            "up on both sides.",
            symptom=_looks_ordered,
        ),
        Mistake(
            "a part of each group",
            _part_of_each_group,
            "A share of the rows of *each* group is held out, so every group is on both sides. That is the split for "
            "another question.",
            symptom=_looks_stratified,
        ),
        Mistake(
            "kept and held out exchanged",
            _kept_for_held,
            "The two sides are exchanged: `share` is the share to be held out, and true means held out.",
            symptom=_looks_kept,
        ),
        Mistake(
            "the first groups",
            _first_groups,
            "The smallest number groups are held out, whatever the generator says. They are not like the others (they "
            "hold all the ones), so the test would ask something else.",
            symptom=_looks_sorted,
        ),
        Mistake(
            "own generator",
            _own_generator,
            "Two generators with different seeds give the same split: the function makes its own. Use the `rng` of the "
            "argument.",
            symptom=_looks_reseeded,
        ),
        Mistake(
            "global random state",
            _global_state,
            "The same seed gives different splits. The draws do not come from the `rng` of the argument (or they come "
            "from a set, whose order may change).",
            symptom=_looks_global,
        ),
        Mistake(
            "numbers of rows",
            _row_numbers,
            "These are the numbers of the rows that are held out. One truth value per row is asked for.",
            symptom=_looks_like_numbers_of_rows,
        ),
        Mistake(
            "nothing held out",
            _nothing_held_out,
            "A small share was cut down to no group at all. A test without prompts gives NaN, or a cheerful 0 of 0.",
            symptom=_looks_empty,
        ),
        Mistake(
            "groups of the drawn rows",
            _rows_until_full,
            "Rows were drawn, and then their whole groups were held out: no leak, but far more than the share that was "
            "asked for.",
            symptom=_looks_grown,
        ),
    ),
    alternatives=(
        Alternative("names in a list, rng.choice", _with_lists),
        Alternative("np.unique and a random order", _with_unique),
    ),
    hint="Three steps: name the group of each row, draw groups, look each row up.",
)
