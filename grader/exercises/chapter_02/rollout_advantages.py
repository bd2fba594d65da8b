"""The exercise `rollout_advantages`: its parts, its known mistakes, and correct alternatives."""

from __future__ import annotations

import warnings
from itertools import groupby

import numpy as np

import grpo
from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.exercises.chapter_02.common import CHAPTER


def _rows_by_prompt(prompt_ids):
    """{id: [row numbers]}, in the order in which the ids first appear; no group is checked."""
    rows = {}
    for row, prompt_id in enumerate(prompt_ids):
        rows.setdefault(prompt_id, []).append(row)
    return rows


def _normalised(group, eps, ddof=1):
    group = np.asarray(group, dtype=float)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a group of one under ddof 1
        return (group - group.mean()) / (group.std(ddof=ddof) + eps)


def _rollouts_checked(prompt_ids, rewards, group_size):
    """The course's own errors, for mistakes that are about the numbers only."""
    grpo.rollout_advantages(prompt_ids, rewards, group_size)
    return _rows_by_prompt(prompt_ids), np.asarray(rewards, dtype=float)


def _rollouts_reshape(prompt_ids, rewards, group_size, eps=1e-4):
    return grpo.group_relative_advantage(rewards, group_size, eps).ravel()


def _rollouts_order_lost(prompt_ids, rewards, group_size, eps=1e-4):
    rows, r = _rollouts_checked(prompt_ids, rewards, group_size)
    return np.concatenate([_normalised(r[group], eps) for group in rows.values()])


def _rollouts_sorted_by_id(prompt_ids, rewards, group_size, eps=1e-4):
    rows, r = _rollouts_checked(prompt_ids, rewards, group_size)
    return np.concatenate([_normalised(r[rows[key]], eps) for key in sorted(rows)])


def _rollouts_sort_undone_wrongly(prompt_ids, rewards, group_size, eps=1e-4):
    _, r = _rollouts_checked(prompt_ids, rewards, group_size)
    order = np.argsort(np.asarray(prompt_ids), kind="stable")
    return grpo.group_relative_advantage(r[order], group_size, eps).ravel()[order]


def _rollouts_one_row_per_prompt(prompt_ids, rewards, group_size, eps=1e-4):
    rows, r = _rollouts_checked(prompt_ids, rewards, group_size)
    return np.array([_normalised(r[group], eps) for group in rows.values()])


def _rollouts_batch_statistics(prompt_ids, rewards, group_size, eps=1e-4):
    _, r = _rollouts_checked(prompt_ids, rewards, group_size)
    return _normalised(r, eps)


def _rollouts_in_place(prompt_ids, rewards, group_size, eps=1e-4, ddof=1, dtype=float):
    """The right algorithm, with the two places where it goes wrong as arguments."""
    rows, r = _rollouts_checked(prompt_ids, rewards, group_size)
    advantages = np.zeros(len(r), dtype)
    for group in rows.values():
        advantages[group] = _normalised(r[group], eps, ddof)
    return advantages


def _rollouts_ddof_0(prompt_ids, rewards, group_size, eps=1e-4):
    return _rollouts_in_place(prompt_ids, rewards, group_size, eps, ddof=0)


def _rollouts_cut_to_integers(prompt_ids, rewards, group_size, eps=1e-4):
    return _rollouts_in_place(prompt_ids, rewards, group_size, eps, dtype=np.asarray(rewards).dtype)


def _rollouts_eps_ignored(prompt_ids, rewards, group_size, eps=1e-4):
    return grpo.rollout_advantages(prompt_ids, rewards, group_size)


def _rollouts_reversed_queue(prompt_ids, rewards, group_size, eps=1e-4):
    rows, r = _rollouts_checked(prompt_ids, rewards, group_size)
    queues = {key: _normalised(r[group], eps).tolist() for key, group in rows.items()}
    return np.array([queues[key].pop() for key in prompt_ids])


def _rollouts_leave_one_out(prompt_ids, rewards, group_size, eps=1e-4):
    return grpo.rollout_advantages(prompt_ids, rewards, group_size, eps) * group_size / (group_size - 1)


def _rollouts_runs_only(prompt_ids, rewards, group_size, eps=1e-4):
    _, r = _rollouts_checked(prompt_ids, rewards, group_size)
    runs = [[row for row, _ in run] for _, run in groupby(enumerate(prompt_ids), key=lambda pair: pair[1])]
    return np.concatenate([_normalised(r[run], eps) for run in runs])


def _rollouts_any_group_accepted(prompt_ids, rewards, group_size, eps=1e-4, least=0):
    if group_size < 2 or len(prompt_ids) != len(rewards) or not np.isfinite(rewards).all():
        raise ValueError("these rollouts cannot be compared")
    r = np.asarray(rewards, dtype=float)
    advantages = np.zeros(len(r))
    for group in _rows_by_prompt(prompt_ids).values():
        if len(group) < least:
            raise ValueError("a group is too small")
        advantages[group] = _normalised(r[group], eps)
    return advantages


def _rollouts_long_group_accepted(prompt_ids, rewards, group_size, eps=1e-4):
    return _rollouts_any_group_accepted(prompt_ids, rewards, group_size, eps, least=group_size)


def _rollouts_lengths_not_compared(prompt_ids, rewards, group_size, eps=1e-4):
    n = min(len(prompt_ids), len(rewards))  # what zip does
    return grpo.rollout_advantages(prompt_ids[:n], rewards[:n], group_size, eps)


def _rollouts_nan_accepted(prompt_ids, rewards, group_size, eps=1e-4):
    bad = ~np.isfinite(np.asarray(rewards, dtype=float))
    clean = grpo.rollout_advantages(prompt_ids, np.where(bad, 0.0, rewards), group_size, eps)
    return np.where(bad, np.nan, clean)


def _require_rollouts(prompt_ids, rewards, group_size):
    counts = [list(prompt_ids).count(one) for one in prompt_ids]
    if len(prompt_ids) != len(rewards) or group_size < 2 or set(counts) != {group_size}:
        raise ValueError("no whole groups")
    if not np.isfinite(rewards).all():
        raise ValueError("a reward is no number")


def _rollouts_pure_python(prompt_ids, rewards, group_size, eps=1e-4):
    _require_rollouts(prompt_ids, rewards, group_size)
    out = []
    for mine, reward in zip(prompt_ids, rewards, strict=True):
        group = [r for other, r in zip(prompt_ids, rewards, strict=True) if other == mine]
        mean = sum(group) / len(group)
        std = (sum((r - mean) ** 2 for r in group) / (len(group) - 1)) ** 0.5
        out.append((reward - mean) / (std + eps))
    return out


def _rollouts_by_counting(prompt_ids, rewards, group_size, eps=1e-4):
    _require_rollouts(prompt_ids, rewards, group_size)
    r = np.asarray(rewards, dtype=float)
    _, which = np.unique(np.asarray(prompt_ids), return_inverse=True)
    centred = r - (np.bincount(which, weights=r) / group_size)[which]
    std = np.sqrt(np.bincount(which, weights=centred**2) / (group_size - 1))
    return centred / (std[which] + eps)


def _rollouts_sort_and_unsort(prompt_ids, rewards, group_size, eps=1e-4):
    _require_rollouts(prompt_ids, rewards, group_size)
    order = np.argsort(np.asarray(prompt_ids), kind="stable")
    groups = np.asarray(rewards, dtype=np.float32)[order].reshape(-1, group_size)
    groups = (groups - groups.mean(1, keepdims=True)) / (groups.std(1, ddof=1, keepdims=True) + np.float32(eps))
    return groups.ravel()[np.argsort(order, kind="stable")]


def _tangled(ids):
    """Whether sorting, first appearance, position and an unsort in the wrong direction all give other rows."""
    order = np.argsort(np.asarray(ids), kind="stable").tolist()
    first_seen = list(dict.fromkeys(ids))
    size = len(ids) // len(first_seen)
    return (
        first_seen != sorted(first_seen)
        and any(order[order[i]] != i for i in range(len(order)))
        and all(len(set(ids[i : i + size])) > 1 for i in range(0, len(ids), size))
    )


def _tangled_ids(rng, names, group_size):
    ids = [name for name in names for _ in range(group_size)]
    while not _tangled(ids):
        ids = [ids[i] for i in rng.permutation(len(ids))]
    return ids


def _distinct_rewards(rng, n):
    """n different rewards between 0 and 1, so that no two rollouts can be taken for one another."""
    return [float(r) / 20 for r in rng.permutation(21)[:n]]


def _interleaved(rng):
    numbers = [int(i) for i in rng.permutation(90)[:4] + 10]
    return [
        call(["a", "b", "a", "b"], [1, 1, 0, 0], 2),
        call(_tangled_ids(rng, ["p7", "p2", "p5"], 3), _distinct_rewards(rng, 9), 3),
        call(_tangled_ids(rng, numbers, 4), _distinct_rewards(rng, 16), 4, eps=0.01),
    ]


def _shuffled_together(rng):
    ids, rewards = ["u"] * 3 + ["s"] * 3, _distinct_rewards(rng, 6)
    order = list(range(6))
    # In neither group does the middle rollout stay the middle one: who fills a group from its end is seen each time.
    while (
        not _tangled([ids[i] for i in order])
        or ids[order[0]] != "u"
        or [i for i in order if i < 3][1] == 1
        or [i for i in order if i >= 3][1] == 4
    ):
        order = rng.permutation(6).tolist()
    return [
        call(ids, rewards, 3),
        call([ids[i] for i in order], [rewards[i] for i in order], 3, note="the same rollouts, shuffled"),
    ]


def _follow_their_rollouts(values, calls):
    tidy, shuffled = (np.asarray(value, float) for value in values)
    before, after = calls[0].args[1], calls[1].args[1]
    if tidy.shape != (len(before),) or shuffled.shape != (len(before),):
        return f"{len(before)} rollouts came in, and an answer of shape {shuffled.shape} came out"
    if np.allclose(tidy, before) or not np.ptp(tidy) > 0.1:
        return "the answer does not compare the rollouts with each other"
    for row, reward in enumerate(after):
        was = tidy[before.index(reward)]
        if not abs(shuffled[row] - was) < 1e-4:
            return (
                f"the rollout with reward {reward:g} gets {was:.4f} when the prompts come one after the other, and "
                f"{shuffled[row]:.4f} when the same rollouts come shuffled"
            )
    return None


def _drawn_pairs(rng):
    """Three prompts with two rollouts each: ids and rewards."""
    ids = [int(i) for i in rng.choice(np.arange(10, 99), size=3, replace=False)]
    return [*ids, *ids[::-1]], rng.permutation([1, 1, 1, 0, 0, 0]).tolist()


ROLLOUT_ADVANTAGES = Exercise(
    name="rollout_advantages",
    chapter=CHAPTER,
    difficulty=2,
    minutes=15,
    reference=grpo.rollout_advantages,
    parts=(
        Part(
            says="prompts that alternate: each rollout is compared with its own prompt",
            points=2,
            calls=_interleaved,
            hint="Collect the row numbers of each id first. A position alone does not say which prompt a row answers.",
        ),
        Part(
            says="each advantage stays with its rollout, however the rows are shuffled",
            points=1,
            calls=_shuffled_together,
            holds=_follow_their_rollouts,
            hint="The caller matches rollouts and advantages by position: entry i of the answer belongs to entry i of "
            "the input.",
        ),
        Part(
            says="incomplete groups, unequal lengths and a NaN reward raise a ValueError",
            points=1,
            calls=lambda rng: [
                call(["a", "b", "b", "a"], [1, 0, 1, 0], 2),
                call(["a", "a", "a", "b"], [1, 0, 1, 0], 2, note="3 rollouts of a, 1 of b"),
                call(["a", "b", "a", "b"], [1, 0, 1, 0], 4, note="groups of 4 were due"),
                call(["a", "b", "a", "b", "a", "b"], [1, 0, 1, 0, 1, 1], 2, note="3 rollouts of each, 2 were due"),
                call(["a", "b", "a", "b", "c", "c"], [1, 0, 1, 0], 2, note="6 ids, 4 rewards"),
                call(["a", "b", "a", "b"], [1, 0, 1, 0, 1, 1], 2, note="4 ids, 6 rewards"),
                call(["a", "b", "a", "b"], [1, 0, float("nan"), 0], 2),
                call(*_drawn_pairs(rng), 2),
                call(_drawn_pairs(rng)[0], [*_drawn_pairs(rng)[1], 1], 2, note="6 ids, 7 rewards"),
                call([*_drawn_pairs(rng)[0][:5], 100], _drawn_pairs(rng)[1], 2, note="1 rollout of 100"),
            ],
            only_errors=True,
            hint="Compare the two lengths, and count the rollouts of every id, before you compute anything.",
        ),
    ),
    mistakes=(
        Mistake(
            "reshape without ids",
            _rollouts_reshape,
            "The rows were cut into groups by position, and the ids were not looked at. Rollouts of different prompts "
            "are compared with each other: a wrong signal or none at all, and no error to warn you.",
        ),
        Mistake(
            "order lost",
            _rollouts_order_lost,
            "The values are right and stand in the wrong places: they come back prompt after prompt. The trainer would "
            "reward one answer for the merit of another.",
        ),
        Mistake(
            "sorted by id",
            _rollouts_sorted_by_id,
            "The values are right and stand in the wrong places: they come back sorted by id. They must be put back to "
            "where their rollouts were.",
        ),
        Mistake(
            "sort undone in the wrong direction",
            _rollouts_sort_undone_wrongly,
            "The rows were sorted by id, and then the same reordering was applied a second time to go back. That works "
            "for a b a b by luck. Which reordering takes a sorted row to its old place?",
        ),
        Mistake(
            "one row per prompt",
            _rollouts_one_row_per_prompt,
            "One row per prompt came back. Here the answer is flat: one number per rollout, in the order of the input.",
        ),
        Mistake(
            "batch statistics",
            _rollouts_batch_statistics,
            "Mean and std were taken over all rollouts. Each prompt needs its own, else a success on an easy prompt "
            "counts as much as one on a hard prompt.",
        ),
        Mistake(
            "ddof 0",
            _rollouts_ddof_0,
            "The groups are right; the std is the one that divides by G. The course divides by G-1.",
        ),
        Mistake(
            "cut to whole numbers",
            _rollouts_cut_to_integers,
            "The numbers lost their fractions: the array that collects them has the integer type of the rewards.",
        ),
        Mistake(
            "eps not passed on",
            _rollouts_eps_ignored,
            "The eps in use is always 0.0001, whatever the caller passes. Is the argument `eps` used anywhere in your "
            "function?",
        ),
        Mistake(
            "taken from the wrong end",
            _rollouts_reversed_queue,
            "Inside each prompt the advantages stand in reverse: the first rollout got that of the last. `pop()` takes "
            "from the end of a list, not from its beginning.",
        ),
        Mistake(
            "leave-one-out mean",
            _rollouts_leave_one_out,
            "Each reward was compared with the mean of the other rollouts. That is a real method (leave-one-out), and "
            "another one: all numbers are G/(G-1) times as large. The course takes the mean of the whole group.",
        ),
        Mistake(
            "consecutive runs only",
            _rollouts_runs_only,
            "Only neighbours with equal ids were put together. When prompts alternate, each run is a group of one, and "
            "that has no std: hence NaN.",
        ),
        Mistake(
            "short group accepted",
            _rollouts_any_group_accepted,
            "A prompt with more or fewer than `group_size` rollouts was accepted. Somewhere rollouts were lost or "
            "doubled; the run should stop there and say so.",
        ),
        Mistake(
            "long group accepted",
            _rollouts_long_group_accepted,
            "A prompt with more than `group_size` rollouts was accepted. Somewhere rollouts were doubled, or two "
            "prompts have one id; the run should stop there and say so.",
        ),
        Mistake(
            "lengths not compared",
            _rollouts_lengths_not_compared,
            "Six of one and four of the other were accepted. `zip` stops at the shorter one without a word; the rest "
            "of the batch is dropped and nobody notices.",
        ),
        Mistake(
            "NaN accepted",
            _rollouts_nan_accepted,
            "A NaN reward was let through. One NaN in the loss makes every weight of the model NaN in a single step.",
        ),
    ),
    alternatives=(
        Alternative("pure Python, everyone against everyone", _rollouts_pure_python),
        Alternative("np.unique and bincount", _rollouts_by_counting),
        Alternative("sort, normalise in float32, unsort", _rollouts_sort_and_unsort),
    ),
    hint="Let the groups hold row numbers instead of rewards.",
)
