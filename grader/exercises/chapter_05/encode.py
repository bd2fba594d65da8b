"""The exercise `encode`: its parts, its known mistakes, and correct alternatives."""

from __future__ import annotations

from collections import Counter

import numpy as np

from grader.compare import as_numbers
from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.exercises.chapter_05.common import CHAPTER
from grpo.expressions.game import EXPRESSIONS, PREFIXES, TARGETS, TOKENS
from grpo.expressions.networks import COUNTED, encode


def _one_hot(index, size):
    return [float(i == index) for i in range(size)]


def _counts(prefix):
    return [float(prefix.count(token)) for token in COUNTED]


def _presence(prefix, target, targets):
    encode(prefix, target, targets)
    return np.array([float(token in prefix) for token in COUNTED] + _one_hot(targets.index(target), len(targets)))


def _ordered(prefix, target, targets):
    encode(prefix, target, targets)
    rows = np.zeros((5, len(COUNTED)))
    for position, token in enumerate(prefix):
        rows[position, COUNTED.index(token)] = 1.0
    return np.concatenate([rows.ravel(), _one_hot(targets.index(target), len(targets))])


def _last_token_only(prefix, target, targets):
    encode(prefix, target, targets)
    return np.array(_counts(prefix[-1:]) + _one_hot(targets.index(target), len(targets)))


def _shares(prefix, target, targets):
    encode(prefix, target, targets)
    counts = np.array(_counts(prefix)) / max(len(prefix), 1)
    return np.concatenate([counts, _one_hot(targets.index(target), len(targets))])


def _target_as_number(prefix, target, targets):
    encode(prefix, target, targets)
    return np.array([*_counts(prefix), float(target)])


def _index_as_number(prefix, target, targets):
    encode(prefix, target, targets)
    return np.array([*_counts(prefix), float(targets.index(target))])


def _value_in_place_of_one(prefix, target, targets):
    row = encode(prefix, target, targets)
    row[len(COUNTED) :] *= target
    return row


def _end_counted(prefix, target, targets):
    encode(prefix, target, targets)
    counts = [float(list(prefix).count(token)) for token in TOKENS]
    return np.array(counts + _one_hot(targets.index(target), len(targets)))


def _target_first(prefix, target, targets):
    row = encode(prefix, target, targets)
    return np.concatenate([row[len(COUNTED) :], row[: len(COUNTED)]])


def _targets_sorted(prefix, target, targets):
    return encode(prefix, target, sorted(targets))


def _counted_from_one(prefix, target, targets):
    row = encode(prefix, target, targets)
    row[len(COUNTED) :] = np.roll(row[len(COUNTED) :], 1)
    return row


def _course_targets(prefix, target, targets):
    encode(prefix, target, targets)
    return np.array(_counts(prefix) + [float(one == target) for one in TARGETS])


def _unknown_target_accepted(prefix, target, targets):
    if set(prefix) - set(COUNTED):
        raise ValueError("unknown token")
    return np.array(_counts(prefix) + [float(one == target) for one in targets])


def _unknown_token_accepted(prefix, target, targets):
    if target not in targets:
        raise ValueError("unknown target")
    return np.array(_counts(prefix) + [float(one == target) for one in targets])


def _end_accepted(prefix, target, targets):
    if target not in targets or set(prefix) - set(TOKENS):
        raise ValueError("unknown")
    return np.array(_counts(prefix) + [float(one == target) for one in targets])


def _everything_accepted(prefix, target, targets):
    return np.array(_counts(prefix) + [float(one == target) for one in targets])


def _by_loop(prefix, target, targets):
    row = [0.0] * (len(COUNTED) + len(targets))
    for token in prefix:
        row[COUNTED.index(token)] += 1.0
    row[len(COUNTED) + targets.index(target)] = 1.0
    return row


def _with_counter(prefix, target, targets):
    counts = Counter(prefix)
    if target not in targets or set(counts) - set(COUNTED):
        raise ValueError("unknown")
    hot = np.asarray(targets) == target
    return np.concatenate([np.array([counts[token] for token in COUNTED], dtype=np.float32), hot.astype(np.float32)])


def _random_targets(rng, size=6):
    """Targets in no order, none of them where it stands when sorted."""
    drawn = sorted(rng.choice(np.arange(11, 60), size=size, replace=False).tolist())
    return drawn[3:] + drawn[:3]


def _encode_calls(rng):
    targets = _random_targets(rng)
    long = [list(expression) for expression in EXPRESSIONS if len(set(expression)) == 4 and len(expression) == 5]
    short = [list(prefix) for prefix in PREFIXES if len(prefix) in (3, 4) and prefix[-2] != prefix[-1]]
    return [
        call(["2", "+"], 17, [5, 17, 30]),
        call([], 30, [5, 17, 30], note="nothing written yet"),
        call(long[int(rng.integers(len(long)))], targets[1], targets, note="one operator stands in it twice"),
        call(short[int(rng.integers(len(short)))], targets[4], targets),
        call(short[int(rng.integers(len(short)))], 13, list(TARGETS)),
    ]


def _order_calls(rng):
    targets = _random_targets(rng)
    first, second = rng.permutation(["2", "3", "5"])[:2].tolist()
    return [
        call([first, "*", second, "+"], targets[0], targets),
        call([second, "*", first, "+"], targets[0], targets, note="the same tokens in another order"),
        call([first, "*", second], targets[0], targets, note="one token less"),
        call([first, "*", second, "+"], targets[2], targets, note="another target"),
    ]


def _same_for_same_counts(values, calls):
    rows = [as_numbers(value) for value in values]
    if any(row is None or row.size < 2 or row.size > max(row.shape) for row in rows):
        return "a flat row of numbers is due"
    rows = [row.ravel() for row in rows]  # an axis too many is another part's business
    if rows[0].shape != rows[1].shape or not np.allclose(rows[0], rows[1]):
        return 1, "two prefixes with the same tokens in another order give different rows; only counts are to be seen"
    for i in (2, 3):
        if rows[0].shape == rows[i].shape and np.allclose(rows[0], rows[i]):
            return i, "this row is the same as that of the first call, so the network could not tell the two apart"
    return None


ENCODE = Exercise(
    name="encode",
    chapter=CHAPTER,
    difficulty=1,
    minutes=8,
    reference=encode,
    parts=(
        Part(
            says="how often each of the five tokens stands in the prefix, then a 1 at the place of the target",
            points=2,
            calls=_encode_calls,
            hint="Five numbers for the tokens 2 3 5 + *, in this order, then one number for each entry of `targets`.",
        ),
        Part(
            says="the order of the tokens does not matter, their counts and the target do",
            points=1,
            calls=_order_calls,
            holds=_same_for_same_counts,
            hint="Count; do not look at positions.",
        ),
        Part(
            says="a target that is not in the list, and a token that no prefix can hold, raise a ValueError",
            points=1,
            calls=lambda rng: [
                call(["3", "*"], 15, [15, 8]),
                call(["3", "*"], 9, [15, 8], note="9 is not in the list"),
                call(["3", "-"], 15, [15, 8], note="there is no minus"),
                call(["3", "END"], 15, [15, 8], note="the end token ends a response; it is in no prefix"),
                call(["5", "+"], int(target := rng.integers(20, 99)), [int(target), 8, 15]),
                call(["5", "+"], int(target), [8, 15], note=f"{target} is not in the list"),
                call(["5", "/"], int(target), [int(target), 8, 15], note="there is no division"),
            ],
            only_errors=True,
            hint="Whatever is left out without a word gives a row that looks like another state. Say no to an unknown "
            "target and to every token that is none of the five, the end token included.",
        ),
    ),
    mistakes=(
        Mistake(
            "presence for count",
            _presence,
            "A token that stands twice in the prefix is entered as 1. In `2 + 3 + 5` there are two plus signs.",
        ),
        Mistake(
            "order kept",
            _ordered,
            "Every position has columns of its own. That is a fine encoding, and another one: this network is to see "
            "counts only, five numbers.",
        ),
        Mistake(
            "last token only",
            _last_token_only,
            "Only the last token of the prefix is counted. The network could not know which numbers are used up.",
        ),
        Mistake(
            "shares for counts",
            _shares,
            "The counts are divided by the length of the prefix. Then a prefix of one token and a longer one can look "
            "alike.",
        ),
        Mistake(
            "target as a number",
            _target_as_number,
            "The target itself stands in the row, as one number. The exercise asks for one column per target, with "
            "a single 1.",
        ),
        Mistake(
            "place of the target as a number",
            _index_as_number,
            "The place of the target in the list stands in the row, as one number. As a number, place 4 is twice place "
            "2; but targets are names here, none is twice another.",
        ),
        Mistake(
            "value where the 1 belongs",
            _value_in_place_of_one,
            "The right column is used, and the value of the target is written into it. A one-hot row holds a 1.",
        ),
        Mistake(
            "column for the end token",
            _end_counted,
            "There are six count columns. The end token never stands in a prefix: its column would always be 0.",
        ),
        Mistake(
            "target first",
            _target_first,
            "The two pieces are in the wrong order. The prefix comes first; else each weight would meet another input.",
        ),
        Mistake(
            "targets sorted",
            _targets_sorted,
            "The columns follow the sorted targets. They are to stand in the order of the list that is passed in.",
        ),
        Mistake(
            "one column too far",
            _counted_from_one,
            "The 1 stands one column too far to the right. Places are counted from 0.",
        ),
        Mistake(
            "always the ten targets",
            _course_targets,
            "There are always ten target columns. The list of targets is an argument, and it may be longer or shorter.",
        ),
        Mistake(
            "unknown target accepted",
            _unknown_target_accepted,
            "A target that is not in the list got a row without any 1. The network would take it for a prompt and "
            "answer; a wrong prompt should stop the run.",
        ),
        Mistake(
            "unknown token accepted",
            _unknown_token_accepted,
            "A token that no prefix can hold was dropped without a word. The row then describes another prefix.",
        ),
        Mistake(
            "end token accepted",
            _end_accepted,
            "The end token was dropped without a word. It is one of the six tokens of the game, and no token of a "
            "prefix: after it nothing is written any more.",
        ),
        Mistake(
            "everything accepted",
            _everything_accepted,
            "Neither an unknown target nor an unknown token is refused: the one leaves a row without any 1 for the "
            "prompt, the other is not counted. Both rows look like those of another state.",
        ),
    ),
    alternatives=(
        Alternative("a loop over lists", _by_loop),
        Alternative("Counter and float32", _with_counter),
    ),
    hint="`list.count` counts, a comparison with every target gives the one-hot row.",
)
