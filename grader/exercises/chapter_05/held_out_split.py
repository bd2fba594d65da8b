"""The exercise `held_out_split`: its parts, its known mistakes, and correct alternatives."""

from __future__ import annotations

import itertools
import math

import numpy as np

from grader.compare import as_numbers
from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.exercises.chapter_05.common import CHAPTER, draw_seed
from grader.plain import Rng
from grpo.expressions.networks import held_out_split

_LEAK, _FRESH = slice(13, 15), slice(15, 19)  # the calls of the second and the third part
_SMALL, _LARGE, _KIN, _UNEVEN = 4, 5, (8, 9, 10), (11, 12)  # places of calls of the first part


def _how_many(groups, share):
    return min(max(round(share * groups), 1), groups - 1)


def _keys(numbers, in_order=False):
    return [tuple(row) if in_order else tuple(sorted(row)) for row in numbers]


def _split(numbers, share, rng, key=None, count=None, draw=None):
    """The split with one place changed, for mistakes.

    key: numbers of a row -> its group; count: share * groups -> how many, within no bounds; draw: (rng, sorted groups,
    how many) -> the groups that are held out.
    """
    keys = [(key or (lambda row: tuple(sorted(row))))(row) for row in numbers]
    groups = sorted(set(keys))
    wanted = count(share * len(groups)) if count else _how_many(len(groups), share)
    if draw is None:
        held = {groups[i] for i in rng.permutation(len(groups))[: max(wanted, 0)]}
    else:
        held = set(draw(rng, groups, wanted))
    return np.array([one in held for one in keys])


def _changed(**places):
    def wrong(numbers, share, rng):
        return _split(numbers, share, rng, **places)

    return wrong


def _bounded(count):
    def wrong(numbers, share, rng):
        groups = len(set(_keys(numbers)))
        wanted = min(max(count(share * groups), 1), groups - 1)
        return _split(numbers, share, rng, count=lambda _: wanted)

    return wrong


def _with_replacement(rng, groups, wanted):
    return [groups[i] for i in rng.integers(len(groups), size=wanted)]


def _block(rng, groups, wanted):
    start = int(rng.integers(len(groups) - wanted + 1))
    return groups[start : start + wanted]


def _by_row(numbers, share, rng):
    held = np.zeros(len(numbers), dtype=bool)
    held[rng.permutation(len(numbers))[: _how_many(len(numbers), share)]] = True
    return held


def _in_an_array(numbers, share, rng):
    keys = _keys(numbers)
    groups = sorted(set(keys))
    held = rng.choice(groups, _how_many(len(groups), share), replace=False)
    return [key in held for key in keys]


def _coin_per_group(numbers, share, rng):
    keys = _keys(numbers)
    held = {group: rng.random() < share for group in sorted(set(keys))}
    return [held[key] for key in keys]


def _kept_for_held(numbers, share, rng):
    return ~held_out_split(numbers, share, rng)


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


def _rows_until_full(numbers, share, rng):
    keys = _keys(numbers)
    order, wanted = rng.permutation(len(keys)), _how_many(len(keys), share)
    touched = {keys[i] for i in order[:wanted]}
    return np.array([key in touched for key in keys])


def _share_of_the_rows(numbers, share, rng):
    keys = _keys(numbers)
    groups, held = sorted(set(keys)), set()
    for i in rng.permutation(len(groups))[:-1]:
        held.add(groups[i])
        if sum(key in held for key in keys) >= share * len(keys):
            break
    return np.array([key in held for key in keys])


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


def _mixed(rng, triples, rows):
    """Rows of these number triples in any order, the numbers of a row, too. rows: how many for each triple."""
    table = [rng.permutation(triple).tolist() for triple, n in zip(triples, rows, strict=True) for _ in range(n)]
    return [table[i] for i in rng.permutation(len(table))]


def _triples(rng, groups):
    triples = list(itertools.combinations(range(1, 10), 3))
    return [triples[i] for i in rng.permutation(len(triples))[:groups]]


def _prompts(rng, groups, rows):
    """`rows` rows for each of so many number triples."""
    return _mixed(rng, _triples(rng, groups), [rows] * groups)


def _alike(value_of, *values):
    """All triples whose sum (or product, ...) is one of the values."""
    return [triple for triple in itertools.combinations(range(1, 10), 3) if value_of(triple) in values]


def _evenly_calls(rng):
    four = [[2, 3, 5], [1, 4, 6], [5, 3, 2], [2, 7, 9], [6, 1, 4], [3, 4, 8]]
    same_sum, same_product = _alike(sum, 15), _alike(math.prod, 24, 48, 72)
    # Seven triples each that have two of their numbers in common: the smaller two, the outer two, the larger two.
    kin = [[(1, 2, n) for n in range(3, 10)], [(1, n, 9) for n in range(2, 9)], [(n, 8, 9) for n in range(1, 8)]]
    uneven = [60] + [1] * 39
    return [
        call(four, 0.5, Rng(draw_seed(rng))),
        call(_prompts(rng, 7, 2), 0.4, Rng(draw_seed(rng)), note="7 different groups"),
        call(_prompts(rng, 7, 2), 0.3, Rng(draw_seed(rng)), note="7 different groups"),
        call(_prompts(rng, 20, 4), 0.2, Rng(draw_seed(rng)), note="20 different groups"),
        call(_prompts(rng, 6, 3), 0.05, Rng(draw_seed(rng)), note="a small share of 6 groups: still one at least"),
        call(_prompts(rng, 6, 3), 0.97, Rng(draw_seed(rng)), note="a large share of 6 groups: one is left at least"),
        call(_mixed(rng, same_sum, [2] * 8), 0.4, Rng(draw_seed(rng)), note="8 different groups, all with the sum 15"),
        call(_mixed(rng, same_product, [2] * 9), 0.4, Rng(draw_seed(rng)), note="9 different groups"),
        *(call(_mixed(rng, family, [2] * 7), 0.4, Rng(draw_seed(rng)), note="7 different groups") for family in kin),
        *(call(_mixed(rng, _triples(rng, 40), uneven), 0.9, Rng(draw_seed(rng)),
               note="40 different groups, one of them with 60 rows") for _ in _UNEVEN),
    ]  # fmt: skip


def _leak_calls(rng):
    return [call(_prompts(rng, 20, 5), 0.3, Rng(draw_seed(rng))), call(_prompts(rng, 30, 4), 0.25, Rng(draw_seed(rng)))]


def _fresh_calls(rng):
    table, first, second, third = _prompts(rng, 30, 3), *(draw_seed(rng) for _ in range(3))
    return [call(table, 0.4, Rng(seed)) for seed in (first, second, third, first)]


# --- judging ---------------------------------------------------------------------------------------------------------


def _flags(value, rows):
    """A (rows,) bool array, or None."""
    flags = as_numbers(value)
    if flags is None or flags.shape != (rows,) or not np.isin(flags, (0, 1)).all():
        return None
    return flags.astype(bool)


def _sides(flags, numbers, key=None):
    """{group: share of its rows that are held out}; key: numbers of a row -> its group."""
    found = {}
    for flag, name in zip(flags, _keys(numbers) if key is None else map(key, numbers), strict=True):
        found.setdefault(name, []).append(flag)
    return {name: sum(flags) / len(flags) for name, flags in found.items()}


def _due(one):
    """(groups, how many of them are to be held out) of a call."""
    groups = len(set(_keys(one.args[0])))
    return groups, _how_many(groups, one.args[1])


def _as_many_as_asked(values, calls):
    tears = _tears_groups(values, calls)
    for i, (value, one) in enumerate(zip(values, calls, strict=True)):
        numbers = one.args[0]
        flags = _flags(value, len(numbers))
        if flags is None:
            return i, f"a flat list of {len(numbers)} truth values is due, true for a row that is held out"
        if flags.all() or not flags.any():
            return i, f"{'everything' if flags.all() else 'nothing'} is held out: both sides need a group"
        (groups, due), sides = _due(one), _sides(flags, numbers)
        count, torn = sum(sides.values()), any(0 < part < 1 for part in sides.values())
        if tears and (abs(count - due) <= 1.01 or _share_is_right(flags, one)):
            continue  # what a part of a group counts is a matter of taste
        if torn:
            return i, (
                f"of {groups} groups of numbers {due} {_was(due)} to be held out whole; you hold out parts of groups, "
                f"which add up to {count:.1f} of them"
            )
        if count != due:
            return i, f"of {groups} groups of numbers {due} {_was(due)} to be held out, not {count:.0f}"
    return None


def _tears_groups(values, calls):
    split = [(_flags(value, len(one.args[0])), one.args[0]) for value, one in zip(values, calls, strict=True)]
    return any(0 < share < 1 for f, numbers in split if f is not None for share in _sides(f, numbers).values())


def _share_is_right(flags, one):
    """Whoever tears groups may have the right share of the rows, or of the rows that differ in order: the leak is
    another part's business."""
    numbers, share = one.args[:2]
    different = {tuple(row): flag for row, flag in zip(numbers, flags, strict=True)}
    return any(
        sum(held) == _how_many(len(held), share)
        for held in (flags.tolist(), [bool(flag) for flag in different.values()])
    )


def _was(count):
    return "was" if count == 1 else "were"


def _no_leak(values, calls):
    for i, (value, one) in enumerate(zip(values, calls, strict=True)):
        numbers = one.args[0]
        flags = _flags(value, len(numbers))
        if flags is None or flags.all() or not flags.any():
            return i, "a list with one truth value per row, with both values in it, is due"
        sides = _sides(flags, numbers)
        torn = [group for group, share in sides.items() if 0.0 < share < 1.0]
        if torn:
            numbers_shown = ", ".join(map(str, torn[0]))
            return i, (
                f"{len(torn)} of {len(sides)} groups {'is' if len(torn) == 1 else 'are'} on both sides; rows with the "
                f"numbers {numbers_shown} are in training and are held out, too"
            )
    return None


def _generator_decides(values, calls):
    flags = [_flags(value, len(one.args[0])) for value, one in zip(values, calls, strict=True)]
    if any(one is None or one.all() or not one.any() for one in flags):
        return "a list with one truth value per row, with both values in it, is due"
    first, second, third, again = flags
    if np.array_equal(first, second) and np.array_equal(first, third):
        return 1, "three generators with different seeds give the very same split"
    if not np.array_equal(first, again):
        return 3, "two generators with the same seed give different splits, so nobody could repeat this"
    for i, one in enumerate(flags):
        if _neighbours(one, calls[i].args[0]):
            return i, "the groups that are held out are neighbours in a list; each is to be drawn by itself"
    return None


def _neighbours(flags, numbers):
    """Tell whether the held-out groups stand side by side among the groups, sorted or as they first appear.

    With 12 of 30 groups, drawn at random, that happens once in a million times.
    """
    sides = _sides(flags, numbers)
    if any(0.0 < share < 1.0 for share in sides.values()):  # no groups were drawn
        return False
    for groups in (sorted(sides), list(sides)):
        held = np.array([sides[group] == 1.0 for group in groups])
        if 0 < held.sum() < len(held) and np.sum(held != np.roll(held, 1)) == 2:  # one run, round the end if need be
            return True
    return False


# --- symptoms --------------------------------------------------------------------------------------------------------


def _all_flags(values, calls):
    """The flags of all calls. In those about leaks and about the generator nobody is left with an empty side."""
    flags = [_flags(value, len(one.args[0])) for value, one in zip(values, calls, strict=True)]
    if any(one is None for one in flags) or any(one.all() or not one.any() for one in flags[_LEAK] + flags[_FRESH]):
        raise ValueError("no split")  # which is no symptom
    return flags


def _torn_groups(values, calls, in_order=False):
    """Share of groups on both sides in the calls about leaks; with in_order, of groups of rows in the same order."""
    shares = []
    for flags, one in zip(_all_flags(values, calls)[_LEAK], calls[_LEAK], strict=True):
        sides = _sides(flags, one.args[0], tuple if in_order else None)
        shares.append(float(np.mean([0.0 < share < 1.0 for share in sides.values()])))
    return max(shares)


def _counts(values, calls):
    """How many groups are held out in each call, or None where a group is on both sides."""
    found = []
    for flags, one in zip(_all_flags(values, calls), calls, strict=True):
        sides = _sides(flags, one.args[0]).values()
        found.append(None if any(0 < share < 1 for share in sides) else int(sum(sides)))
    return found


def _looks_by_row(values, calls):
    return 0.2 < _torn_groups(values, calls) < 0.99 and _torn_groups(values, calls, True) > 0.0


def _looks_ordered(values, calls):
    return _torn_groups(values, calls) > 0.1 and _torn_groups(values, calls, True) == 0.0


def _looks_stratified(values, calls):
    return _torn_groups(values, calls) == 1.0


def _looks_named_by(*keys):
    """A symptom: whatever one of these names does not tell apart is on one side, in every call."""

    def symptom(values, calls):
        flags = _all_flags(values, calls)
        return any(
            all(set(_sides(f, one.args[0], key).values()) <= {0.0, 1.0} for f, one in zip(flags, calls, strict=True))
            for key in keys
        )

    return symptom


def _looks_counted(*rules):
    """A symptom: no group is torn, and one of the rules, share * groups -> count, says how many are held out.

    Where a rule leaves the bounds, the count within them will do, too.
    """

    def symptom(values, calls):
        counts = _counts(values, calls)
        for rule in rules:
            wanted = [rule(one.args[1] * _due(one)[0]) for one in calls]
            bounds = [_due(one)[0] for one in calls]
            if all(c in (min(w, n), min(max(w, 1), n - 1)) for c, w, n in zip(counts, wanted, bounds, strict=True)):
                return True
        return False

    return symptom


def _looks_unbounded(place):
    """A symptom: in the call at this place everything is held out, and everywhere else the right number of groups."""

    def symptom(values, calls):
        counts, due = _counts(values, calls), [_due(one) for one in calls]
        others = [i for i in range(len(calls)) if i != place]
        return counts[place] == due[place][0] and all(counts[i] == due[i][1] for i in others)

    return symptom


def _looks_empty(values, calls):
    """Nothing for the small share; the large one may be everything; else the right number of groups."""
    counts, due = _counts(values, calls), [_due(one) for one in calls]
    others = [i for i in range(len(calls)) if i not in (_SMALL, _LARGE)]
    return counts[_SMALL] == 0 and counts[_LARGE] in due[_LARGE] and all(counts[i] == due[i][1] for i in others)


def _looks_tossed(values, calls):
    """No group is torn, and the counts lie round the right ones, on both sides of them."""
    flags = [_flags(value, len(one.args[0])) for value, one in zip(values, calls, strict=True)]
    sides = [_sides(f, one.args[0]).values() for f, one in zip(flags, calls, strict=True)]
    if any(0.0 < share < 1.0 for found in sides for share in found):
        return False
    off = np.array([sum(found) - _due(one)[1] for found, one in zip(sides, calls, strict=True)])
    groups = np.array([_due(one)[0] for one in calls])
    return off.min() < 0 < off.max() and np.sum(off != 0) >= 5 and np.all(np.abs(off) <= 2.5 * np.sqrt(groups))


def _looks_like_any_number(values, calls):
    """Everything is held out where all groups have a number in the same place in common, but not everywhere."""
    flags = [_flags(value, len(one.args[0])) for value, one in zip(values, calls, strict=True)]
    sides = [_sides(f, one.args[0]).values() for f, one in zip(flags, calls, strict=True)]
    whole = [set(found) == {1.0} for found in sides]
    return all(whole[i] for i in _KIN) and not all(whole) and not any(0.0 < s < 1.0 for found in sides for s in found)


def _smaller_two(row):
    return tuple(sorted(row)[:2])


def _larger_two(row):
    return tuple(sorted(row)[1:])


def _outer_two(row):
    return min(row), max(row)


def _looks_kept(values, calls):
    counts, due = _counts(values, calls), [_due(one) for one in calls]
    return all(count == groups - wanted for count, (groups, wanted) in zip(counts, due, strict=True))


def _looks_replaced(values, calls):
    counts, due = _counts(values, calls), [_due(one)[1] for one in calls]
    return all(1 <= c <= d for c, d in zip(counts, due, strict=True)) and all(counts[i] < due[i] - 3 for i in _UNEVEN)


def _looks_sorted(values, calls):
    for flags, one in zip(_all_flags(values, calls)[_LEAK], calls[_LEAK], strict=True):
        sides = _sides(flags, one.args[0])
        held = {group for group, share in sides.items() if share == 1.0}
        if not held or held != set(sorted(sides)[: len(held)]):
            return False
    return True


def _looks_like_a_block(values, calls):
    split = [*zip(_all_flags(values, calls), calls, strict=True)]
    first, second, third, _ = (flags for flags, _ in split[_FRESH])
    moves = not (np.array_equal(first, second) and np.array_equal(first, third))
    return moves and all(_neighbours(f, one.args[0]) for f, one in split[_LEAK] + split[_FRESH])


def _looks_reseeded(values, calls):
    first, *others = _all_flags(values, calls)[_FRESH]
    return all(np.array_equal(first, one) for one in others) and not _looks_sorted(values, calls)


def _looks_global(values, calls):
    first, _, _, again = _all_flags(values, calls)[_FRESH]
    return not np.array_equal(first, again)


def _looks_like_numbers_of_rows(values, calls):
    for value, one in zip(values, calls, strict=True):
        rows = as_numbers(value)
        if rows is None or rows.ndim != 1 or rows.dtype.kind not in "iu" or len(set(rows.tolist())) != rows.size:
            return False
        if rows.size >= len(one.args[0]) or rows.max() >= len(one.args[0]):
            return False
    return True


def _looks_grown(values, calls):
    counts, due = _counts(values, calls), [_due(one)[1] for one in calls]
    return None not in counts and all(c > 1.5 * d for c, d in zip(counts[_LEAK], due[_LEAK], strict=True))


def _looks_filled(values, calls):
    """Where all groups have the same number of rows the count is right or one off, else it is far off."""
    counts, due = _counts(values, calls), [_due(one)[1] for one in calls]
    off = [abs(c - d) for c, d in zip(counts, due, strict=True)]
    uneven = [off[i] for i in _UNEVEN]
    return max(uneven) > 1 and all(gap <= 1 for i, gap in enumerate(off) if i not in _UNEVEN)


HELD_OUT_SPLIT = Exercise(
    name="held_out_split",
    chapter=CHAPTER,
    difficulty=2,
    minutes=15,
    reference=held_out_split,
    parts=(
        Part(
            says="one truth value per row, and exactly as many number groups held out as the share says",
            points=1,
            calls=_evenly_calls,
            holds=_as_many_as_asked,
            hint="How many different groups are there? How many of them does the share make, rounded to the nearest "
            "whole number, with at least one on either side? And are so many really drawn?",
        ),
        Part(
            says="no leak: rows with the same numbers, in whatever order, are on the same side",
            points=2,
            calls=_leak_calls,
            holds=_no_leak,
            hint="Which name could you give to both [5, 2, 3] and [2, 3, 5]? Draw names, not rows.",
        ),
        Part(
            says="the generator draws every group: other seeds give other splits, the same seed the same one",
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
            _changed(key=tuple),
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
            "sum for the key",
            _changed(key=sum),
            "Groups with the same sum always end up on the same side: the sum was taken for the name of a group. "
            "1, 5, 9 and 2, 4, 9 have the same sum, and they are different numbers.",
            symptom=_looks_named_by(sum),
        ),
        Mistake(
            "product for the key",
            _changed(key=math.prod),
            "Groups with the same product always end up on the same side: the product was taken for the name of a "
            "group. 1, 3, 8 and 2, 3, 4 have the same product, and they are different numbers.",
            symptom=_looks_named_by(math.prod),
        ),
        Mistake(
            "a part of the numbers for the key",
            _changed(key=lambda row: tuple(sorted(row)[:2])),
            "Groups that share one or two of their numbers always end up on the same side: the name of a group leaves "
            "something out. All three numbers belong to it.",
            symptom=_looks_named_by(min, max, _smaller_two, _larger_two, _outer_two),
        ),
        Mistake(
            "kept and held out exchanged",
            _kept_for_held,
            "The two sides are exchanged: `share` is the share to be held out, and true means held out.",
            symptom=_looks_kept,
        ),
        Mistake(
            "the first groups",
            _changed(draw=lambda rng, groups, wanted: groups[:wanted]),
            "The smallest number groups are held out, whatever the generator says. They are not like the others (they "
            "hold all the ones), so the test would ask something else.",
            symptom=_looks_sorted,
        ),
        Mistake(
            "a block of groups",
            _changed(draw=_block),
            "The generator chose only where to begin; the groups that are held out stand side by side in the list. "
            "Neighbours are alike, so such a test asks about one kind of numbers. Draw every group by itself.",
            symptom=_looks_like_a_block,
        ),
        Mistake(
            "own generator",
            _own_generator,
            "Generators with different seeds give the same split: nothing is drawn from the `rng` of the argument. "
            "Does the function make a generator of its own?",
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
            "groups of the drawn rows",
            _rows_until_full,
            "Rows were drawn, and then their whole groups were held out: no leak, but far more than the share that was "
            "asked for.",
            symptom=_looks_grown,
        ),
        Mistake(
            "looked up in an array",
            _in_an_array,
            "Far more is held out than was drawn, often everything: the groups were looked up in a numpy array. There "
            "`in` asks whether *any* of its numbers agrees, not whether a whole row does.",
            symptom=_looks_like_any_number,
        ),
        Mistake(
            "nothing held out",
            _changed(count=round),
            "A small share was cut down to no group at all. A test without prompts gives NaN, or a cheerful 0 of 0. "
            "(And does a share near 1 leave a group to train on?)",
            symptom=_looks_empty,
        ),
        Mistake(
            "everything held out",
            _changed(count=lambda wanted: max(round(wanted), 1)),
            "A large share was rounded up to all groups. Nothing would be left to train on: at least one group is to "
            "stay on that side, too.",
            symptom=_looks_unbounded(_LARGE),
        ),
        Mistake(
            "rounded down",
            _bounded(int),
            "Where the share makes 2.8 groups, 2 are held out: `int` and `//` cut off. Round to the nearest whole "
            "number.",
            symptom=_looks_counted(math.floor),
        ),
        Mistake(
            "rounded up",
            _bounded(math.ceil),
            "Where the share makes 2.1 groups, 3 are held out. Round to the nearest whole number.",
            symptom=_looks_counted(math.ceil),
        ),
        Mistake(
            "one group too many",
            _bounded(lambda wanted: math.ceil(wanted) + 1),
            "There is one group too many on the held-out side, even where the share makes a whole number of groups. Is "
            "something added after the rounding?",
            symptom=_looks_counted(
                lambda wanted: math.ceil(wanted) + 1, lambda wanted: round(wanted) + 1, lambda wanted: int(wanted) + 1
            ),
        ),
        Mistake(
            "drawn with replacement",
            _changed(draw=_with_replacement),
            "Some groups were drawn twice, so fewer are held out than were asked for; with a large share far fewer. "
            "Every draw is to give another group.",
            symptom=_looks_replaced,
        ),
        Mistake(
            "share of the rows",
            _share_of_the_rows,
            "`share` was taken of the rows. Where one group has more rows than the others, that makes another number "
            "of groups; the share of the different groups is asked for.",
            symptom=_looks_filled,
        ),
        Mistake(
            "a coin for each group",
            _coin_per_group,
            "The number of groups that are held out is itself a matter of luck, sometimes more and sometimes fewer "
            "than the share says: was a coin tossed for each group? Say how many first, then draw so many.",
            symptom=_looks_tossed,
        ),
    ),
    alternatives=(
        Alternative("names in a list, rng.choice", _with_lists),
        Alternative("np.unique and a random order", _with_unique),
    ),
    hint="Three steps: name the group of each row, draw groups, look each row up.",
)
