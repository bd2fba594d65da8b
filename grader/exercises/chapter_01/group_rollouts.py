"""The exercise `group_rollouts`: its parts, its known mistakes, and correct alternatives."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict

import numpy as np

import grpo
from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.exercises.chapter_01.common import CHAPTER, returns_its_errors


def _checked_groups(prompt_ids, completions, group_size):
    """The course's own errors, for mistakes that are about the groups only. Returns the ids, each once."""
    return list(grpo.group_rollouts(prompt_ids, completions, group_size))


def _group_reshape(prompt_ids, completions, group_size):
    ids = _checked_groups(prompt_ids, completions, group_size)
    return {p: completions[i * group_size : (i + 1) * group_size] for i, p in enumerate(ids)}


def _group_alternating(prompt_ids, completions, group_size):
    ids = _checked_groups(prompt_ids, completions, group_size)
    return {p: completions[i :: len(ids)] for i, p in enumerate(ids)}


def _group_runs(prompt_ids, completions, group_size):
    _checked_groups(prompt_ids, completions, group_size)
    runs = itertools.groupby(zip(prompt_ids, completions, strict=True), key=lambda row: row[0])
    return {p: [completion for _, completion in rows] for p, rows in runs}


def _group_sorted(prompt_ids, completions, group_size):
    _checked_groups(prompt_ids, completions, group_size)
    runs = itertools.groupby(sorted(zip(prompt_ids, completions, strict=True)), key=lambda row: row[0])
    return {p: [completion for _, completion in rows] for p, rows in runs}


def _group_merged(prompt_ids, completions, group_size):
    _checked_groups(prompt_ids, completions, group_size)
    groups = {}
    for p, completion in zip(prompt_ids, completions, strict=True):
        group = groups.setdefault(p, [])
        if completion not in group:
            group.append(completion)
    return groups


def _group_last_only(prompt_ids, completions, group_size):
    _checked_groups(prompt_ids, completions, group_size)
    return {p: [completion] for p, completion in zip(prompt_ids, completions, strict=True)}


def _collect(prompt_ids, completions, group_size):
    """The right groups; the two errors that have nothing to do with the size of a group."""
    if len(prompt_ids) != len(completions) or group_size < 1:
        raise ValueError("one completion for each id, please")
    return _zipped(prompt_ids, completions)


def _zipped(prompt_ids, completions):
    groups = defaultdict(list)
    for p, completion in zip(prompt_ids, completions, strict=False):
        groups[p].append(completion)
    return dict(groups)


def _group_short_accepted(prompt_ids, completions, group_size):
    groups = _collect(prompt_ids, completions, group_size)
    if any(len(group) > group_size for group in groups.values()):
        raise ValueError("a group is too large")
    return groups


def _group_first_g(prompt_ids, completions, group_size):
    groups = _collect(prompt_ids, completions, group_size)
    if any(len(group) < group_size for group in groups.values()):
        raise ValueError("a group is too small")
    return {p: group[:group_size] for p, group in groups.items()}


def _group_any_size(prompt_ids, completions, group_size):
    if len(prompt_ids) != len(completions):
        raise ValueError("one completion for each id, please")
    return _zipped(prompt_ids, completions)


def _group_total_only(prompt_ids, completions, group_size):
    groups = _collect(prompt_ids, completions, group_size)
    if len(prompt_ids) % group_size != 0:
        raise ValueError("the batch does not divide into groups")
    return groups


def _group_sorted_chunks(prompt_ids, completions, group_size):
    if len(prompt_ids) != len(completions):
        raise ValueError("one completion for each id, please")
    rows = sorted(range(len(prompt_ids)), key=lambda row: prompt_ids[row])
    chunks = [rows[i : i + group_size] for i in range(0, len(rows), group_size)]
    return {prompt_ids[chunk[0]]: [completions[row] for row in chunk] for chunk in chunks}


def _group_first_group_checked(prompt_ids, completions, group_size):
    groups = _collect(prompt_ids, completions, group_size)
    if len(next(iter(groups.values()))) != group_size:
        raise ValueError("a group has another size")
    return groups


def _group_text_keys(prompt_ids, completions, group_size):
    return {str(p): group for p, group in grpo.group_rollouts(prompt_ids, completions, group_size).items()}


def _group_list(prompt_ids, completions, group_size):
    return list(grpo.group_rollouts(prompt_ids, completions, group_size).values())


def _group_return_in_loop(prompt_ids, completions, group_size):
    ids = _checked_groups(prompt_ids, completions, group_size)
    return {ids[0]: [completions[0]]}


def _group_joined(prompt_ids, completions, group_size):
    _checked_groups(prompt_ids, completions, group_size)
    return {p: "".join(group) for p, group in _zipped(prompt_ids, completions).items()}


def _group_error_returned(prompt_ids, completions, group_size):
    try:
        return grpo.group_rollouts(prompt_ids, completions, group_size)
    except ValueError as error:
        return error


def _group_misaligned(prompt_ids, completions, group_size):
    groups = _zipped(prompt_ids, completions)
    if group_size < 1 or any(len(group) != group_size for group in groups.values()):
        raise ValueError("a group has another size")
    return groups


def _group_size_zero(prompt_ids, completions, group_size):
    if len(prompt_ids) != len(completions):
        raise ValueError("one completion for each id, please")
    groups = _zipped(prompt_ids, completions)
    if any(len(group) != group_size for group in groups.values()):
        raise ValueError("a group has another size")
    return groups


def _group_by_selection(prompt_ids, completions, group_size):
    if group_size < 1 or len(prompt_ids) != len(completions):
        raise ValueError("bad input")
    if any(count != group_size for count in Counter(prompt_ids).values()):
        raise ValueError("bad group")
    return {p: [completions[i] for i, other in enumerate(prompt_ids) if other == p] for p in set(prompt_ids)}


def _group_by_stable_sort(prompt_ids, completions, group_size):
    if group_size < 1 or len(prompt_ids) != len(completions):
        raise ValueError("bad input")
    rows = sorted(range(len(prompt_ids)), key=lambda row: prompt_ids[row])
    groups = {
        p: tuple(completions[row] for row in run) for p, run in itertools.groupby(rows, key=lambda row: prompt_ids[row])
    }
    if {len(group) for group in groups.values()} - {group_size}:
        raise ValueError("bad group")
    return groups


def _rising_texts(n):
    """Different texts in alphabetical order, so that sorting them changes nothing."""
    return [f"answer {10 + i}" for i in range(n)]


def _shuffled_ids(rng):
    size = int(rng.integers(3, 5))
    ids = [int(i) for i in rng.choice(np.arange(10, 99), size=3, replace=False)]
    mixed = rng.permutation(ids * size).tolist()
    # New ids that rise in the order in which they first appear: so it does not matter to a wrong answer whether it
    # lists the ids as they appear or sorted, and both are recognised.
    renamed = dict(zip(dict.fromkeys(mixed), sorted(ids), strict=True))
    return call([f"p{renamed[i]}" for i in mixed], _rising_texts(len(mixed)), size)


def _numbers_in_disorder(rng):
    first, second = sorted(int(i) for i in rng.choice(np.arange(1, 9), size=2, replace=False))
    texts = [rf"\boxed{{{n}}}" for n in rng.permutation(np.arange(20, 28))]
    return call([first] * 4 + [second] * 4, [*texts[:3], texts[0], *texts[4:7], texts[4]], 4)


def _a_drawn_pair(rng):
    """Two prompts with two completions each: a good call and its pieces, for errors that nobody knows by heart."""
    first, second = (f"p{i}" for i in rng.choice(np.arange(10, 99), size=2, replace=False))
    return [first, second, second, first], _rising_texts(4)


def _other_lengths(rng):
    ids, texts = _a_drawn_pair(rng)
    return [
        call(["a", "a"], ["x", "y"], 2),
        call(["a", "a"], ["x", "y", "z"], 2, note="three completions, two ids"),
        call(["a", "a", "b"], ["x", "y"], 2, note="two completions, three ids"),
        call(ids, texts, 2),
        call(ids, [*texts, "one more"], 2, note="five completions, four ids"),
        call([*ids, *ids[:2]], texts, 2, note="four completions, six ids"),
    ]


def _other_sizes(rng):
    ids, texts = _a_drawn_pair(rng)
    return [
        call(["a", "a"], ["x", "y"], 2),
        call(["a", "a", "b"], ["x", "y", "z"], 2, note="b has one"),
        call(["a", "b", "b"], ["x", "y", "z"], 2, note="a has one"),
        call(["a", "a", "a", "b", "b"], ["v", "w", "x", "y", "z"], 2, note="a has three"),
        call(["a", "a", "b", "b", "b"], ["v", "w", "x", "y", "z"], 2, note="b has three"),
        call(["a", "a", "a", "b"], ["w", "x", "y", "z"], 2, note="three and one: the total looks right"),
        call([], [], 0, note="groups of 0"),
        call(ids, texts, 2),
        call([*ids[:3], ids[1]], texts, 2, note="one and three: the total looks right"),
    ]


GROUP_ROLLOUTS = Exercise(
    name="group_rollouts",
    chapter=CHAPTER,
    difficulty=1,
    minutes=10,
    reference=grpo.group_rollouts,
    parts=(
        Part(
            says="every completion goes to the prompt it answers, in whatever order the rows come",
            points=2,
            calls=lambda rng: [
                call(["a", "b", "a", "b"], ["a1", "b1", "a2", "b2"], 2),
                call(["p2", "p7", "p7", "p2"], ["w", "x", "y", "z"], 2),
                call([3, 5, 5, 3, 5, 3], _rising_texts(6), 3),
                _shuffled_ids(rng),
            ],
            hint="Which prompt does row i belong to? Only `prompt_ids[i]` knows; its place in the list does not. Under "
            "each id stands a list.",
        ),
        Part(
            says="inside a group the order of the input stays, and equal completions stay apart",
            points=1,
            calls=lambda rng: [
                call(["a", "a", "a", "b", "b", "b"], ["no", "yes", "no", "7", "2", "5"], 3),
                _numbers_in_disorder(rng),
            ],
            hint="Two rollouts may be the same text and are still two rollouts. Nothing is sorted, nothing is merged.",
        ),
        Part(
            says="more ids than completions, or fewer, raise a ValueError",
            points=1,
            calls=_other_lengths,
            only_errors=True,
            hint="Compare the two lengths first. What does `zip` do when one list is longer?",
        ),
        Part(
            says="a prompt with another number of completions, or a group_size below 1, raises a ValueError",
            points=1,
            calls=_other_sizes,
            only_errors=True,
            hint="Look at every group by itself once all rows are placed, and at `group_size` before that.",
        ),
    ),
    mistakes=(
        Mistake(
            "error returned, not raised",
            _group_error_returned,
            "The error came back as if it were the groups. It is handed over like any value, and nothing stops; "
            "an error has to be raised.",
            symptom=returns_its_errors(grpo.group_rollouts),
        ),
        Mistake(
            "reshape without looking at ids",
            _group_reshape,
            "The rows were cut into neighbouring chunks, and the ids were not looked at. That is right only if the "
            "rows of a prompt stand side by side; else two prompts are mixed, without any error.",
        ),
        Mistake(
            "ids taken to alternate",
            _group_alternating,
            "Every n-th row was taken, as if the ids came in turn: a b a b. Rows may come in any order; look at the "
            "id of each row.",
        ),
        Mistake(
            "groupby on unsorted ids",
            _group_runs,
            "Only the last run of neighbouring ids is left of each prompt. `itertools.groupby` starts a new group "
            "each time the id changes, and a later run replaces an earlier one.",
        ),
        Mistake(
            "order lost",
            _group_sorted,
            "The groups are right, their order is not: the completions were sorted. Rewards and log-probs come in the "
            "order of the input and would now belong to other rollouts.",
        ),
        Mistake(
            "equal completions merged",
            _group_merged,
            "Equal completions were merged into one. A policy may write the same text twice; those are two rollouts, "
            "and the group's mean counts both.",
        ),
        Mistake(
            "only the last one kept",
            _group_last_only,
            "Each prompt has only its last completion: a new one replaces the one before. What must happen when the "
            "id is in the dict already?",
        ),
        Mistake(
            "short group accepted",
            _group_short_accepted,
            "A group with too few completions was accepted. A crashed sampler would go unnoticed, and the statistics "
            "of that group would be those of fewer rollouts.",
        ),
        Mistake(
            "surplus thrown away",
            _group_first_g,
            "A group with too many completions was cut to size without a word. The extra rollouts point to an error "
            "before this function (the same prompt drawn twice?), and it should be heard.",
        ),
        Mistake(
            "any group size accepted",
            _group_any_size,
            "Groups of any size went through without an error. `group_size` says how many completions each prompt "
            "must have: with fewer, or with more (kept or cut off), somebody has to hear about it.",
        ),
        Mistake(
            "sorted and cut into chunks",
            _group_sorted_chunks,
            "It looks as if the rows were sorted by id and cut into chunks of `group_size`. That is right as long as "
            "each prompt has exactly so many. With one too few or too many, a chunk holds two prompts, and no error "
            "says so.",
        ),
        Mistake(
            "only the first group checked",
            _group_first_group_checked,
            "Only the first group was looked at; a later one of another size was accepted. Does a `return` stand "
            "inside the loop that checks?",
        ),
        Mistake(
            "ids turned into texts",
            _group_text_keys,
            "The ids that came in are numbers, the keys of your dict are texts. Whoever looks for prompt 3 finds only "
            "'3'. Use the ids as they are.",
        ),
        Mistake(
            "list instead of a dict",
            _group_list,
            "A list of groups came back. Nobody can tell from it which group belongs to which prompt; a dict says so.",
        ),
        Mistake(
            "return inside the loop",
            _group_return_in_loop,
            "Only the first row was placed. A `return` inside the loop ends the function in its first round.",
        ),
        Mistake(
            "completions joined into one text",
            _group_joined,
            "The completions of a prompt were joined into one long text. Each rollout gets a reward of its own, so "
            "they have to stay apart, in a list.",
        ),
        Mistake(
            "only the total checked",
            _group_total_only,
            "Only the total number of rows was checked. Three rows for one prompt and one for another also make two "
            "groups of two, by the total.",
        ),
        Mistake(
            "misalignment accepted",
            _group_misaligned,
            "Ids and completions of different lengths were accepted. `zip` stops at the shorter list and says "
            "nothing: rows are lost, or belong to the wrong prompt.",
        ),
        Mistake(
            "group size 0 accepted",
            _group_size_zero,
            "A `group_size` of 0 was accepted. With no rows there is no group that could be of the wrong size, so "
            "the number itself has to be looked at.",
        ),
    ),
    alternatives=(
        Alternative("one selection for each id", _group_by_selection),
        Alternative("a stable sort of row numbers, tuples", _group_by_stable_sort),
    ),
    hint="One pass over the rows with a dict of lists; then one look at each list.",
)
