"""The exercise `length_term`: its parts, its known mistakes, and correct alternatives."""

from __future__ import annotations

import numpy as np

from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.exercises.chapter_04.common import CHAPTER, draw, judged_after, read_numbers
from grpo.expressions import tables


def _arrays(lengths, correct):
    return np.asarray(lengths, dtype=float), np.asarray(correct, dtype=bool)


def _counts(lengths, correct, gated, axis=1):
    """Which groups have a length term at all."""
    lengths, correct = _arrays(lengths, correct)
    counts = np.ptp(lengths, axis=axis, keepdims=True) > 0
    return counts & correct.any(axis=axis, keepdims=True) if gated else counts


def _term(lengths, low, high):
    return 0.5 - (lengths - low) / np.maximum(high - low, 1)


def _from_lambda(rule):
    """A wrong `length_term` that differs in what it makes of lambda and `correct`."""

    def wrong(lengths, correct, gated=False):
        numbers, right = _arrays(lengths, correct)
        lam = _term(numbers, numbers.min(axis=1, keepdims=True), numbers.max(axis=1, keepdims=True))
        return np.where(_counts(lengths, correct, gated), rule(lam, right), 0.0)

    return wrong


def _of_range(lam_of):
    """A wrong `length_term` that makes something else of length, shortest and longest; ties and gate are right."""

    def wrong(lengths, correct, gated=False):
        numbers, right = _arrays(lengths, correct)
        low, high = numbers.min(axis=1, keepdims=True), numbers.max(axis=1, keepdims=True)
        with np.errstate(all="ignore"):
            lam = lam_of(numbers, low, high)
        return np.where(_counts(lengths, correct, gated), np.where(right, lam, np.minimum(lam, 0.0)), 0.0)

    return wrong


def _length_whole_numbers(lengths, correct, gated=False):
    return np.trunc(tables.length_term(lengths, correct, gated))


def _length_tie_rule_for_the_batch(lengths, correct, gated=False):
    if np.ptp(lengths) == 0:
        return np.zeros(np.shape(lengths))
    return _length_no_tie_rule(lengths, correct, gated)


def _length_down_the_columns(lengths, correct, gated=False):
    numbers, right = _arrays(lengths, correct)
    term = tables.length_term(numbers.T, right.T).T
    return np.where(right.any(axis=1, keepdims=True), term, 0.0) if gated else term


def _length_gate_turned(lengths, correct, gated=False):
    return tables.length_term(lengths, correct, not gated)


def _length_gate_open_for_the_hopeless(lengths, correct, gated=False):
    term = tables.length_term(lengths, correct)
    return np.where(np.any(correct, axis=1, keepdims=True), 0.0, term) if gated else term


def _length_gate_shut_by_one_group(lengths, correct, gated=False):
    term = tables.length_term(lengths, correct)
    return term if not gated or np.all(np.any(correct, axis=1)) else np.zeros(term.shape)


def _length_no_tie_rule(lengths, correct, gated=False):
    numbers, right = _arrays(lengths, correct)
    low, high = numbers.min(axis=1, keepdims=True), numbers.max(axis=1, keepdims=True)
    with np.errstate(all="ignore"):
        lam = 0.5 - (numbers - low) / (high - low)
    term = np.where(right, lam, np.minimum(lam, 0.0))
    return np.where(right.any(axis=1, keepdims=True), term, 0.0) if gated else term


def _length_ties_get_half(lengths, correct, gated=False):
    numbers, right = _arrays(lengths, correct)
    lam = _term(numbers, numbers.min(axis=1, keepdims=True), numbers.max(axis=1, keepdims=True))
    term = np.where(right, lam, np.minimum(lam, 0.0))
    return np.where(right.any(axis=1, keepdims=True), term, 0.0) if gated else term


def _length_over_batch(lengths, correct, gated=False):
    numbers, right = _arrays(lengths, correct)
    flat = tables.length_term(numbers.reshape(1, -1), right.reshape(1, -1)).reshape(numbers.shape)
    return np.where(right.any(axis=1, keepdims=True), flat, 0.0) if gated else flat


def _length_wrong_axis(lengths, correct, gated=False):
    numbers, right = _arrays(lengths, correct)
    return tables.length_term(numbers.T, right.T, gated).T


def _length_divided_by_longest(lengths, correct, gated=False):
    numbers, right = _arrays(lengths, correct)
    low, high = numbers.min(axis=1, keepdims=True), numbers.max(axis=1, keepdims=True)
    lam = 0.5 - (numbers - low) / high
    return np.where(_counts(lengths, correct, gated), np.where(right, lam, np.minimum(lam, 0.0)), 0.0)


def _length_among_right_ones(lengths, correct, gated=False):
    numbers, right = _arrays(lengths, correct)
    out = np.zeros(numbers.shape)
    for row, ok, place in zip(numbers, right, out, strict=True):
        pool = row[ok] if ok.any() else row
        if np.ptp(row) > 0 and (ok.any() or not gated):
            lam = _term(row, pool.min(), pool.max())
            place[:] = np.where(ok, lam, np.minimum(lam, 0.0))
    return out


def _length_one_tie_for_all(lengths, correct, gated=False):
    term = tables.length_term(lengths, correct, gated)
    return np.zeros(term.shape) if np.any(np.ptp(lengths, axis=1) == 0) else term


def _length_among_right_ones_alone_is_tied(lengths, correct, gated=False):
    numbers, right = _arrays(lengths, correct)
    out = np.zeros(numbers.shape)
    for row, ok, place in zip(numbers, right, out, strict=True):
        pool = row[ok] if ok.any() else row
        if np.ptp(pool) > 0 and (ok.any() or not gated):
            lam = _term(row, pool.min(), pool.max())
            place[:] = np.where(ok, lam, np.minimum(lam, 0.0))
    return out


def _length_gate_missing(lengths, correct, gated=False):
    return tables.length_term(lengths, correct)


def _length_gate_always(lengths, correct, gated=False):
    return tables.length_term(lengths, correct, gated=True)


def _length_gate_over_batch(lengths, correct, gated=False):
    term = tables.length_term(lengths, correct)
    return term if not gated or np.any(correct) else np.zeros(term.shape)


def _length_gate_per_rollout(lengths, correct, gated=False):
    term = tables.length_term(lengths, correct)
    return np.where(correct, term, 0.0) if gated else term


def _length_gate_wants_all(lengths, correct, gated=False):
    term = tables.length_term(lengths, correct)
    return np.where(np.all(correct, axis=1, keepdims=True), term, 0.0) if gated else term


def _length_from_the_mean(lengths, correct, gated=False):
    numbers, right = _arrays(lengths, correct)
    lam = (numbers.mean(axis=1, keepdims=True) - numbers) / np.maximum(np.ptp(numbers, axis=1, keepdims=True), 1)
    return np.where(_counts(lengths, correct, gated), np.where(right, lam, np.minimum(lam, 0.0)), 0.0)


def _ends_among(low=False, high=False):
    """A wrong `length_term` whose shortest (low) or longest (high) is that of the right answers."""

    def wrong(lengths, correct, gated=False):
        numbers, right = _arrays(lengths, correct)
        some = right | ~right.any(axis=1, keepdims=True)
        least = np.where(some | (not low), numbers, np.inf).min(axis=1, keepdims=True)
        most = np.where(some | (not high), numbers, -np.inf).max(axis=1, keepdims=True)
        lam = 0.5 - (numbers - least) / np.where(most == least, 1, most - least)
        return np.where(_counts(lengths, correct, gated), np.where(right, lam, np.minimum(lam, 0.0)), 0.0)

    return wrong


_length_shortest_right = _ends_among(low=True)
_length_longest_right = _ends_among(high=True)


def _length_gate_asks_shortest(lengths, correct, gated=False):
    numbers, right = _arrays(lengths, correct)
    term = tables.length_term(lengths, correct)
    shortest = np.take_along_axis(right, numbers.argmin(axis=1)[:, np.newaxis], axis=1)
    return np.where(shortest, term, 0.0) if gated else term


def _length_by_loop(lengths, correct, gated=False):
    rows = []
    for row, right in zip(np.asarray(lengths).tolist(), np.asarray(correct).tolist(), strict=True):
        low, high = min(row), max(row)
        if low == high or (gated and not any(right)):
            rows.append([0] * len(row))
            continue
        lams = [0.5 - (n - low) / (high - low) for n in row]
        rows.append([lam if ok else min(0, lam) for lam, ok in zip(lams, right, strict=True)])
    return rows


def _length_with_errstate(lengths, correct, gated=False):
    numbers = np.asarray(lengths, dtype=np.float32)
    with np.errstate(all="ignore"):
        lam = np.float32(0.5) - (numbers - numbers.min(1, keepdims=True)) / np.ptp(numbers, axis=1, keepdims=True)
    term = np.nan_to_num(np.where(correct, lam, np.minimum(0, lam)))
    return term * np.any(correct, axis=1, keepdims=True) if gated else term


def _length_by_interpolation(lengths, correct, gated=False):
    out = np.zeros(np.shape(lengths))
    for place, row, ok in zip(out, lengths, correct, strict=True):
        if len(set(row.tolist())) > 1 and not (gated and sum(ok) == 0):
            place[:] = np.interp(row, [row.min(), row.max()], [0.5, -0.5])
            place[~ok] = place[~ok].clip(max=0)
    return out


def _group(rng, size):
    """Lengths with one shortest, one longest, and a mean and a median that are not halfway between the two."""
    return rng.permutation([2, 14, 3, 6, *rng.integers(3, 7, size - 4)]) + int(rng.integers(0, 4))


def _all_right(rng):
    return [
        call(np.array([[2, 4, 6]]), np.array([[True, True, True]])),
        call(_group(rng, 6)[np.newaxis], np.ones((1, 6), dtype=bool)),
    ]


def _some_wrong(rng):
    lengths = _group(rng, 8)
    # A wrong answer is the shortest, another one the longest, or right ones are: the range is that of the whole group.
    ends = np.isin(lengths, [lengths.min(), lengths.max()])
    return [
        call(np.array([[2, 4, 6]]), np.array([[False, False, False]])),
        call(np.array([[2, 4, 6, 6]]), np.array([[False, True, True, False]])),
        call(lengths[np.newaxis], ~ends[np.newaxis]),
        call(lengths[np.newaxis], ends[np.newaxis]),
    ]


def _ties(rng):
    n = int(rng.integers(2, 9))
    return [
        call(np.array([[4, 4, 4]]), np.array([[True, False, True]])),
        call(np.full((1, 5), n), np.array([[True, True, True, True, False]])),
        call(np.array([[n, n + 2, n + 5]]), np.array([[True, True, True]]), note="not equal"),
        call(np.array([[n + 2] * 3, [n, n + 2, n + 4]]), np.ones((2, 3), dtype=bool), note="only the first row"),
    ]


@judged_after(lambda value, one: read_numbers(value))
def _ties_are_zero(values, calls):
    terms = [read_numbers(value) for value in values]
    if not np.ptp(terms[2]) > 1e-3:
        return 2, "the lengths differ, and all terms are equal"
    both = np.ravel(terms[3])
    if both.size == 6 and not np.ptp(both[3:]) > 1e-3:
        return 3, "the lengths of the second row differ, and all its terms are equal: only the first row is tied"
    terms[3] = both[:3]
    for i in (0, 1, 3):
        size = calls[i].args[0][0].size
        if terms[i].size != size or not np.all(np.abs(terms[i]) < 1e-6):
            where = "all lengths of the first row" if i == 3 else "all lengths"
            return i, f"{where} are equal: 0 for everyone; yours is {', '.join(f'{x:.3g}' for x in terms[i].ravel())}"
    return None


def _rows(rng):
    first, second = rng.permutation([2, 4, 6, 6]), rng.permutation([8, 14, 20, 10])
    right = np.array([True, True, True, False])
    return [
        call(np.stack([first, second]), np.stack([right, right])),
        call(first[np.newaxis], right[np.newaxis]),
        call(second[np.newaxis], right[np.newaxis]),
    ]


@judged_after(lambda value, one: read_numbers(value))
def _rows_as_if_alone(values, calls):
    both, *alone = (read_numbers(value) for value in values)
    if any(one.size != 4 for one in alone):
        return 1, "a group of four came in, and an answer of another size came out"
    alone = np.concatenate([one.reshape(1, -1) for one in alone])
    if both.shape != (2, 4):
        return f"two groups of four came in, and an answer of shape {both.shape} came out"
    if not (np.all(np.isfinite(both)) and np.ptp(alone) > 0.1) or np.allclose(both, calls[0].args[0]):
        return "the answer does not compare the lengths with each other"
    if not np.allclose(both, alone, rtol=1e-4, atol=1e-5):
        return "two groups in one call get other terms than each group in a call of its own"
    return None


def _gates(rng):
    # The one right answer is neither the first nor the shortest, whom a gate could ask instead of the group; and the
    # longest is wrong, so that it has something to pay.
    lengths = _group(rng, 5)
    alone = np.zeros(5, dtype=bool)
    alone[draw(rng, [i for i in range(1, 5) if lengths.min() < lengths[i] < lengths.max()])] = True
    inputs = [
        (np.array([[2, 4, 6]]), np.array([[False, False, False]])),
        (lengths[np.newaxis], alone[np.newaxis]),
        (np.array([[2, 4, 6], [6, 2, 4]]), np.array([[False] * 3, [False, True, True]])),
    ]
    return [call(*one, gated=gated) for one in inputs for gated in (True, False)]


@judged_after(lambda value, one: read_numbers(value, one.args[0].shape))
def _gate_asks_the_group(values, calls):
    """The gate by itself: what it lets through are the answer's own terms without a gate, right or wrong."""
    terms = [read_numbers(value) for value in values]
    for i in range(0, len(terms), 2):
        gated, plain = terms[i], terms[i + 1]
        for row, (mine, due, right) in enumerate(zip(gated, plain, calls[i].args[1], strict=True)):
            shown = ", ".join(f"{x:.3g}" for x in mine)
            if not right.any() and np.any(mine != 0):
                return i, f"nothing is right in row {row}, so it has no length term with `gated=True`; yours is {shown}"
            if right.any() and not np.allclose(mine, due, rtol=1e-4, atol=1e-5):
                without = ", ".join(f"{x:.3g}" for x in due)
                return i, (
                    f"something is right in row {row}, so the gate changes nothing: without it your terms are "
                    f"{without}, and with it {shown}"
                )
    if not all(np.ptp(plain[right.any(axis=1)]) > 0.1 for plain, right in
               ((terms[i], calls[i].args[1]) for i in (3, 5))):  # fmt: skip
        return (
            3,
            "the terms of a group with different lengths are all equal, so there is nothing that a gate could stop",
        )
    return None


LENGTH_TERM = Exercise(
    name="length_term",
    chapter=CHAPTER,
    difficulty=2,
    minutes=15,
    reference=tables.length_term,
    parts=(
        Part(
            says="right answers: .5 for the shortest, -.5 for the longest",
            points=2,
            calls=_all_right,
            hint="Where does a length stand between the shortest (0) and the longest (1) of its group?",
        ),
        Part(
            says="wrong answers: no prize for being short, the same price for being long",
            points=1,
            calls=_some_wrong,
            hint="Shortest and longest are those of the whole group, right and wrong together. What becomes of a wrong "
            "answer whose lambda is above 0?",
        ),
        Part(
            says="all lengths equal: 0 for everyone",
            points=1,
            calls=_ties,
            holds=_ties_are_zero,
            hint="The longest minus the shortest is 0 here, and must not be divided by.",
        ),
        Part(
            says="each group by itself",
            points=1,
            calls=_rows,
            holds=_rows_as_if_alone,
            hint="One row is one group. Which axis runs along it, and how do you keep it subtractable?",
        ),
        Part(
            says="gated: only a group with a right answer has a length term",
            points=1,
            calls=_gates,
            holds=_gate_asks_the_group,
            hint="Ask each row whether anything in it is right.",
        ),
    ),
    mistakes=(
        Mistake(
            "wrong answers rewarded for being short",
            _from_lambda(lambda lam, right: lam),
            "Short wrong answers earn as much as short right ones. The quickest way to be short is to answer nonsense.",
        ),
        Mistake(
            "wrong answers pay nothing",
            _from_lambda(lambda lam, right: np.where(right, lam, 0.0)),
            "Wrong answers always get 0. A long wrong answer should pay for its length.",
        ),
        Mistake(
            "wrong answers: larger instead of smaller",
            _from_lambda(lambda lam, right: np.where(right, lam, np.maximum(lam, 0.0))),
            "Wrong answers get the larger of 0 and lambda: a prize for being short, and no price for being long. It is "
            "the other way round.",
        ),
        Mistake(
            "right and wrong exchanged",
            _from_lambda(lambda lam, right: np.where(right, np.minimum(lam, 0.0), lam)),
            "Right and wrong answers are exchanged: it is the right ones that may earn something.",
        ),
        Mistake(
            "sign",
            _from_lambda(lambda lam, right: np.where(right, -lam, np.minimum(-lam, 0.0))),
            "Long answers earn and short ones pay: the policy would learn to ramble. The term is a prize for brevity.",
        ),
        Mistake(
            "whole numbers",
            _length_whole_numbers,
            "Only whole numbers came out: every .5 was cut to 0. An array that is made like `lengths` holds whole "
            "numbers and cuts off what you write into it; the result needs room for fractions.",
        ),
        Mistake(
            "whole division",
            _of_range(lambda n, low, high: 0.5 - (n - low) // np.maximum(high - low, 1)),
            "Only .5 and -.5 come out: a whole division cuts off everything between the shortest and the longest.",
        ),
        Mistake(
            "brackets forgotten",
            _of_range(lambda n, low, high: 0.5 - n - low / (high - low)),
            "A division binds tighter than a minus: as it stands, only the shortest length was divided by the range. "
            "The difference has to be complete before it is divided.",
        ),
        Mistake(
            ".5 divided too",
            _of_range(lambda n, low, high: (0.5 - (n - low)) / (high - low)),
            "The .5 was divided by the range as well. Only the distance to the shortest is divided; then it is taken "
            "from .5.",
        ),
        Mistake(
            "1 added to the range",
            _of_range(lambda n, low, high: 0.5 - (n - low) / (high - low + 1)),
            "The range was made larger by 1, perhaps so that it is never 0. Then the longest answer does not get -.5. "
            "Give ties a rule of their own.",
        ),
        Mistake(
            "from 1 to 0",
            _of_range(lambda n, low, high: 1.0 - (n - low) / (high - low)),
            "The values run from 1 to 0: nobody ever pays for a long answer. They should run from .5 to -.5.",
        ),
        Mistake(
            ".5 forgotten",
            _from_lambda(lambda lam, right: np.where(right, lam - 0.5, np.minimum(lam - 0.5, 0.0))),
            "The values run from 0 to -1, so nobody ever earns anything. They should run from .5 to -.5.",
        ),
        Mistake(
            "no tie rule (0/0)",
            _length_no_tie_rule,
            "If all lengths are equal, longest minus shortest is 0, and 0/0 is NaN. One NaN in a reward reaches the "
            "whole policy in one step.",
        ),
        Mistake(
            "tie rule for the whole batch only",
            _length_tie_rule_for_the_batch,
            "If the lengths of one row are equal and those of another are not, the first row is 0/0, which is NaN. "
            "Each group may be tied by itself.",
        ),
        Mistake(
            "one tied group sets the whole batch to 0",
            _length_one_tie_for_all,
            "One group with equal lengths took the length term away from all groups. Each group may be tied by itself; "
            "the others keep their terms.",
        ),
        Mistake(
            "ties get .5",
            _length_ties_get_half,
            "If all lengths are equal, the right ones get .5, as if they were the shortest. There is nothing to "
            "compare: 0 for everyone. Else it is a second reward for being right.",
        ),
        Mistake(
            "batch instead of group",
            _length_over_batch,
            "Shortest and longest were taken over the whole batch. A prompt that needs long answers is then punished "
            "for being what it is.",
        ),
        Mistake(
            "wrong axis",
            _length_wrong_axis,
            "Lengths and right answers were compared down the columns: the first rollouts of all prompts with each "
            "other. One row is one group.",
        ),
        Mistake(
            "lengths down the columns",
            _length_down_the_columns,
            "Lengths were compared down the columns: the first rollouts of all prompts with each other. One row is one "
            "group.",
        ),
        Mistake(
            "divided by the longest",
            _length_divided_by_longest,
            "The distance to the shortest was divided by the longest length, not by the range between the two. Then "
            "the longest answer gets something else than -.5.",
        ),
        Mistake(
            "mean instead of the middle of the range",
            _length_from_the_mean,
            "The values are measured from the mean of the lengths. Then the shortest and the longest do not get .5 "
            "and -.5: the middle is half the way from the shortest to the longest.",
        ),
        Mistake(
            "longest of the right answers only",
            _length_longest_right,
            "The longest was taken among the right answers. The comparison is with the whole group, right and wrong.",
        ),
        Mistake(
            "shortest of the right answers only",
            _length_shortest_right,
            "The shortest was taken among the right answers. The comparison is with the whole group, right and wrong.",
        ),
        Mistake(
            "gate asks the shortest answer",
            _length_gate_asks_shortest,
            "The gate opens only where the shortest answer is right. Any right answer opens it.",
        ),
        Mistake(
            "range of the right answers only",
            _length_among_right_ones,
            "Shortest and longest were taken among the right answers. The comparison is with the whole group.",
        ),
        Mistake(
            "range of the right answers only, one alone is tied",
            _length_among_right_ones_alone_is_tied,
            "Shortest and longest were taken among the right answers. A single right answer then has nobody to be "
            "compared with, and its group lost the term. The comparison is with the whole group, right and wrong.",
        ),
        Mistake(
            "gate missing",
            _length_gate_missing,
            "`gated` changes nothing: a group in which everything is wrong still has a length term.",
        ),
        Mistake(
            "gated turned round",
            _length_gate_turned,
            "The gate acts with `gated=False` and not with `gated=True`.",
        ),
        Mistake(
            "gate open only without a right answer",
            _length_gate_open_for_the_hopeless,
            "The gate is turned round: groups with a right answer lost their length term, and those without kept it.",
        ),
        Mistake(
            "one hopeless group shuts the gate for all",
            _length_gate_shut_by_one_group,
            "One group without a right answer shut the gate for all groups. Each group has its own gate.",
        ),
        Mistake(
            "gate always shut",
            _length_gate_always,
            "A group without a right answer gets no length term even with `gated=False`. The plain term of the paper "
            "has no gate.",
        ),
        Mistake(
            "gate over the batch",
            _length_gate_over_batch,
            "One right answer anywhere opened the gate for all groups. Each group has its own gate.",
        ),
        Mistake(
            "gate on each rollout",
            _length_gate_per_rollout,
            "With the gate, wrong answers get nothing. The gate asks the group, not the rollout: in a group with a "
            "right answer, the wrong ones pay for their length as before.",
        ),
        Mistake(
            "gate wants all right",
            _length_gate_wants_all,
            "The gate opens only if every answer of the group is right. One is enough.",
        ),
    ),
    alternatives=(
        Alternative("loops over lists", _length_by_loop),
        Alternative("float32, NaN replaced afterwards", _length_with_errstate),
        Alternative("interpolation", _length_by_interpolation),
    ),
    hint="lambda = .5 - (length - shortest) / (longest - shortest), row by row.",
)
