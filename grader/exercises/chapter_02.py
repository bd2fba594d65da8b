"""Chapter 02, advantages and log-probs: its exercises as data."""

from __future__ import annotations

import math
import warnings
from itertools import groupby
from statistics import fmean, stdev

import numpy as np

import grpo
from grader.exercise import Alternative, Exercise, Mistake, Part, call

CHAPTER = "02_advantages_and_logprobs"


# --- group_relative_advantage -------------------------------------------------------------------------------


def _groups(rewards, group_size):
    return np.asarray(rewards, dtype=float).reshape(-1, group_size)


def _checked(rewards, group_size):
    """The course's own errors, for mistakes that are about the numbers only."""
    grpo.group_relative_advantage(rewards, group_size)
    return _groups(rewards, group_size)


def _advantage_ddof_0(rewards, group_size, eps=1e-4):
    r = _checked(rewards, group_size)
    return (r - r.mean(axis=1, keepdims=True)) / (r.std(axis=1, keepdims=True) + eps)


def _advantage_no_eps(rewards, group_size, eps=1e-4):
    r = _checked(rewards, group_size)
    with np.errstate(all="ignore"):
        return (r - r.mean(axis=1, keepdims=True)) / r.std(axis=1, ddof=1, keepdims=True)


def _advantage_eps_in_root(rewards, group_size, eps=1e-4):
    r = _checked(rewards, group_size)
    return (r - r.mean(axis=1, keepdims=True)) / np.sqrt(r.var(axis=1, ddof=1, keepdims=True) + eps)


def _advantage_tiny_eps(rewards, group_size, eps=1e-4):
    r = _checked(rewards, group_size)
    return (r - r.mean(axis=1, keepdims=True)) / (r.std(axis=1, ddof=1, keepdims=True) + 1e-8)


def _advantage_batch_statistics(rewards, group_size, eps=1e-4):
    r = _checked(rewards, group_size)
    return (r - r.mean()) / (r.std(ddof=1) + eps)


def _advantage_not_centred(rewards, group_size, eps=1e-4):
    r = _checked(rewards, group_size)
    return r / (r.std(axis=1, ddof=1, keepdims=True) + eps)


def _advantage_sign(rewards, group_size, eps=1e-4):
    return -grpo.group_relative_advantage(rewards, group_size, eps)


def _advantage_no_std(rewards, group_size, eps=1e-4):
    r = _checked(rewards, group_size)
    return r - r.mean(axis=1, keepdims=True)


def _advantage_whitened_twice(rewards, group_size, eps=1e-4):
    once = grpo.group_relative_advantage(rewards, group_size, eps)
    return grpo.group_relative_advantage(once.ravel(), group_size, eps)


def _advantage_batch_std(rewards, group_size, eps=1e-4):
    r = _checked(rewards, group_size)
    return (r - r.mean(axis=1, keepdims=True)) / (r.std(ddof=1) + eps)


def _advantage_wrong_axis(rewards, group_size, eps=1e-4):
    r = _checked(rewards, group_size)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one group only: a std over a single row
        return (r - r.mean(axis=0)) / (r.std(axis=0, ddof=1) + eps)


def _advantage_keepdims_forgotten(rewards, group_size, eps=1e-4):
    r = _checked(rewards, group_size)
    return (r - r.mean(axis=1)) / (r.std(axis=1, ddof=1) + eps)


def _advantage_cut_to_integers(rewards, group_size, eps=1e-4):
    _checked(rewards, group_size)
    groups = np.asarray(rewards).reshape(-1, group_size)
    advantages = np.zeros_like(groups)
    for i, group in enumerate(groups):
        advantages[i] = (group - group.mean()) / (group.std(ddof=1) + eps)
    return advantages


def _advantage_eps_as_floor(rewards, group_size, eps=1e-4):
    r = _checked(rewards, group_size)
    return (r - r.mean(axis=1, keepdims=True)) / np.maximum(r.std(axis=1, ddof=1, keepdims=True), eps)


def _advantage_only_exact_ties(rewards, group_size, eps=1e-4):
    r = _checked(rewards, group_size)
    std = r.std(axis=1, ddof=1, keepdims=True)
    return np.where(std == 0, 0.0, (r - r.mean(axis=1, keepdims=True)) / np.where(std == 0, 1.0, std))


def _advantage_accepts_one(rewards, group_size, eps=1e-4):
    r = _groups(rewards, group_size)
    with np.errstate(all="ignore"):
        return (r - r.mean(axis=1, keepdims=True)) / (np.nan_to_num(r.std(axis=1, ddof=1, keepdims=True)) + eps)


def _advantage_by_loop(rewards, group_size, eps=1e-4):
    rewards = [float(x) for x in rewards]
    if group_size < 2 or not rewards or len(rewards) % group_size or any(not np.isfinite(x) for x in rewards):
        raise ValueError("no groups of this size")
    rows = []
    for start in range(0, len(rewards), group_size):
        group = rewards[start : start + group_size]
        mean = sum(group) / group_size
        std = (sum((x - mean) ** 2 for x in group) / (group_size - 1)) ** 0.5
        rows.append([(x - mean) / (std + eps) for x in group])
    return rows


def _advantage_in_float32(rewards, group_size, eps=1e-4):
    if group_size < 2 or len(rewards) % group_size or np.isnan(rewards).any():
        raise ValueError("no groups of this size")
    columns = np.array(rewards, dtype=np.float32).reshape(-1, group_size).T
    centred = columns - columns.sum(axis=0) / np.float32(group_size)
    std = np.sqrt((centred * centred).sum(axis=0) / np.float32(group_size - 1))
    return (centred / (std + np.float32(eps))).T


def _advantage_with_statistics(rewards, group_size, eps=1e-4):
    groups = [list(map(float, group)) for group in np.reshape(rewards, (-1, group_size))]
    if group_size < 2 or any(math.isnan(r) for group in groups for r in group):
        raise ValueError("no groups of this size")
    return np.array([[(r - fmean(group)) / (stdev(group) + eps) for r in group] for group in groups])


def _random_groups(rng, groups, size):
    """Rewards of which every group has at least one 0 and one 1, so that no std is 0."""
    rewards = rng.integers(0, 2, size=(groups, size)).astype(float)
    rewards[:, 0], rewards[:, 1] = 0.0, 1.0
    return rng.permuted(rewards, axis=1).ravel().tolist()


def _two_groups_and_each_alone(rng):
    easy, hard = [1, 1, 1, 0], [0, 0, 0, 1]
    drawn = _random_groups(rng, 2, 4)
    return [call(hard + easy, 4), call(hard, 4), call(easy, 4), call(drawn, 4), call(drawn[:4], 4), call(drawn[4:], 4)]


def _rows_as_if_alone(values, calls):
    for start in (0, 3):
        both, first, second = values[start : start + 3]
        if np.allclose(np.ravel(both), calls[start].args[0]):
            return "the rewards come back as they went in"
        both, alone = np.asarray(both, float), np.concatenate([np.ravel(first), np.ravel(second)])
        if both.size != 8 or not np.allclose(both.ravel(), alone, rtol=1e-4, atol=1e-5) or not np.ptp(alone) > 0.1:
            return "two groups in one call get other advantages than each group in a call of its own"
    return None


_ULP = float(np.spacing(np.float32(0.3)))  # two rewards that differ in the last bit of a float32


def _near_ties(rng):
    return [
        call([1, 1, 1, 1, 0, 1, 1, 0], 4),
        call([0.3, 0.3000001, 0.3, 0.3000001, 1, 0, 0, 0], 4),
        call([0.3, 0.3 + _ULP, 0.3, 0.3 + _ULP, 1, 0, 0, 0], 4, note="0.3 twice with one float32 bit more"),
        call([0.7] * 7 + [1, 0, 0, 0, 0, 0, 0], 7),
    ]


def _first_row_near_zero(values, calls):
    for value, one in zip(values, calls, strict=True):
        size = one.args[1]
        tie, rest = np.ravel(np.asarray(value, float))[:size], np.ravel(np.asarray(value, float))[size:]
        if not np.all(np.abs(tie) < 2e-3):
            group = ", ".join(f"{x:.8g}" for x in one.args[0][:size])
            return f"the group {group} has no signal, and yet gets {', '.join(f'{x:.4g}' for x in tie)}"
        if not (rest.size == size and np.ptp(rest) > 0.1):
            return "the second group has a signal, and its advantages do not show it"
    return None


GROUP_RELATIVE_ADVANTAGE = Exercise(
    name="group_relative_advantage",
    chapter=CHAPTER,
    difficulty=1,
    minutes=12,
    reference=grpo.group_relative_advantage,
    parts=(
        Part(
            says="right and wrong answers of one group, in units of the group's own std",
            points=2,
            calls=lambda rng: [
                call([1, 1, 0, 0], 4),
                call([1.0, 0, 0, 1, 0, 0, 0, 1], 8),
                call([True, False, False], 3, note="right or wrong as truth values"),
                call(_random_groups(rng, 1, 6), 6),
                call([0.5, 0.6, 0.5, 0.7], 4, eps=0.1),
            ],
            hint="Subtract the mean of the group, then divide by its standard deviation plus `eps`.",
        ),
        Part(
            says="each group is normalised by itself",
            points=1,
            calls=_two_groups_and_each_alone,
            holds=_rows_as_if_alone,
            hint="Make one row per group, then take mean and std along the rows.",
        ),
        Part(
            says="equal or nearly equal rewards give advantages near 0, never NaN",
            points=1,
            calls=_near_ties,
            holds=_first_row_near_zero,
            hint="What does `eps` do when the std is 0? It is added to the std, outside the root.",
        ),
        Part(
            says="a group of one, a broken group and a NaN reward raise a ValueError",
            points=1,
            calls=lambda rng: [
                call([1, 0], 2),
                call([1, 0, 1], 1, note="one rollout has no std"),
                call([1, 0, 1], 2, note="three rewards, groups of two"),
                call([1.0], 4, note="one reward where four were due"),
                call([1, 0, float("nan"), 1], 2),
            ],
            only_errors=True,
            hint="Raise a ValueError before computing anything: numpy would only give NaN.",
        ),
    ),
    mistakes=(
        Mistake(
            "ddof 0",
            _advantage_ddof_0,
            "These are the numbers of the population standard deviation (divide by G). The course, torch and TRL "
            "divide by G-1. Both are legitimate; they are not the same. Look again at the `ddof` of `np.std`.",
        ),
        Mistake(
            "no eps",
            _advantage_no_eps,
            "Nothing was added to the std. In a group of equal rewards that is 0/0. Where does `eps` belong?",
        ),
        Mistake(
            "eps inside the root",
            _advantage_eps_in_root,
            "These are the numbers of sqrt(variance + eps). The course adds `eps` to the std itself; the two differ "
            "when rewards lie close together.",
        ),
        Mistake(
            "eps 1e-8",
            _advantage_tiny_eps,
            "The eps in use is about 1e-8: rewards that differ by rounding alone still get large advantages. Use the "
            "`eps` of the argument.",
        ),
        Mistake(
            "batch statistics",
            _advantage_batch_statistics,
            "Mean and std were taken over the whole batch. An easy and a hard prompt then look alike; every group has "
            "its own mean. Which `axis` runs along a group?",
        ),
        Mistake(
            "not centred",
            _advantage_not_centred,
            "The mean was not subtracted: every rewarded rollout looks good, however easy the prompt was.",
        ),
        Mistake("sign", _advantage_sign, "All signs are turned round: a better reward must give a larger advantage."),
        Mistake(
            "std not divided (Dr. GRPO)",
            _advantage_no_std,
            "This is the advantage of Dr. GRPO, which leaves out the division by the std. It is a real method, and "
            "another one.",
        ),
        Mistake(
            "whitened twice",
            _advantage_whitened_twice,
            "The normalisation was applied to rewards that were normalised already.",
        ),
        Mistake(
            "batch std",
            _advantage_batch_std,
            "The mean is the group's, the std is the whole batch's. Some trainers offer this as an option; here each "
            "group is measured with its own std.",
        ),
        Mistake(
            "wrong axis",
            _advantage_wrong_axis,
            "Mean and std were taken down the columns: the first rollouts of all groups were compared with each other. "
            "With a single group there is nothing to compare, hence NaN.",
        ),
        Mistake(
            "keepdims forgotten",
            _advantage_keepdims_forgotten,
            "One group works, several do not: the means have shape (P,), the groups (P, G), and they do not line up. "
            "Worse, with P = G numpy would subtract the mean of the wrong group without an error.",
        ),
        Mistake(
            "cut to whole numbers",
            _advantage_cut_to_integers,
            "The numbers lost their fractions: the array that collects the results has the integer type of the "
            "rewards, and numpy cuts 0.87 down to 0 when it is stored there.",
        ),
        Mistake(
            "eps as a lower limit",
            _advantage_eps_as_floor,
            "`eps` is used as the smallest std allowed. That is safe as well, and gives slightly other numbers: the "
            "course adds it to every std.",
        ),
        Mistake(
            "only exact ties handled",
            _advantage_only_exact_ties,
            "A std of exactly 0 is caught, and `eps` is not used elsewhere. Rewards that differ by rounding alone then "
            "still get advantages as large as real ones.",
        ),
        Mistake(
            "bad group accepted",
            _advantage_accepts_one,
            "A group of one rollout has no standard deviation, and a NaN reward no meaning. Both must stop the run "
            "with a ValueError instead of giving a silent 0 or NaN.",
        ),
    ),
    alternatives=(
        Alternative("a loop over lists", _advantage_by_loop),
        Alternative("float32 inside", _advantage_in_float32),
        Alternative("statistics.stdev", _advantage_with_statistics),
    ),
    hint="`np.reshape` makes the groups, `keepdims=True` keeps them subtractable.",
)


# --- rollout_advantages -------------------------------------------------------------------------------------


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


def _rollouts_runs_only(prompt_ids, rewards, group_size, eps=1e-4):
    _, r = _rollouts_checked(prompt_ids, rewards, group_size)
    runs = [[row for row, _ in run] for _, run in groupby(enumerate(prompt_ids), key=lambda pair: pair[1])]
    return np.concatenate([_normalised(r[run], eps) for run in runs])


def _rollouts_short_group_accepted(prompt_ids, rewards, group_size, eps=1e-4):
    if group_size < 2 or len(prompt_ids) != len(rewards) or not np.isfinite(rewards).all():
        raise ValueError("these rollouts cannot be compared")
    r = np.asarray(rewards, dtype=float)
    advantages = np.zeros(len(r))
    for group in _rows_by_prompt(prompt_ids).values():
        advantages[group] = _normalised(r[group], eps)
    return advantages


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
    while not _tangled([ids[i] for i in order]) or [ids[i] for i in order[:1]] != ["u"]:
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
                call(["a", "b", "a", "b", "c", "c"], [1, 0, 1, 0], 2, note="6 ids, 4 rewards"),
                call(["a", "b", "a", "b"], [1, 0, 1, 0, 1, 1], 2, note="4 ids, 6 rewards"),
                call(["a", "b", "a", "b"], [1, 0, float("nan"), 0], 2),
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
            "consecutive runs only",
            _rollouts_runs_only,
            "Only neighbours with equal ids were put together. When prompts alternate, each run is a group of one, and "
            "that has no std: hence NaN.",
        ),
        Mistake(
            "short group accepted",
            _rollouts_short_group_accepted,
            "A prompt with more or fewer than `group_size` rollouts was accepted. Somewhere rollouts were lost or "
            "doubled; the run should stop there and say so.",
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


# --- zero_variance_fraction ---------------------------------------------------------------------------------


def _zero_checked(rewards, group_size):
    grpo.zero_variance_fraction(rewards, group_size)
    return _groups(rewards, group_size)


def _zero_all_wrong_only(rewards, group_size):
    return float((_zero_checked(rewards, group_size).max(axis=1) == 0).mean())


def _zero_all_right_only(rewards, group_size):
    return float((_zero_checked(rewards, group_size).min(axis=1) == 1).mean())


def _zero_right_or_wrong_only(rewards, group_size):
    share_right = _zero_checked(rewards, group_size).mean(axis=1)
    return float(((share_right == 0) | (share_right == 1)).mean())


def _zero_std_is_zero(rewards, group_size):
    return float((_zero_checked(rewards, group_size).std(axis=1, ddof=1) == 0).mean())


def _zero_count(rewards, group_size):
    return int(np.ptp(_zero_checked(rewards, group_size), axis=1).tolist().count(0))


def _zero_complement(rewards, group_size):
    return float((np.ptp(_zero_checked(rewards, group_size), axis=1) > 0).mean())


def _zero_percent(rewards, group_size):
    return 100 * grpo.zero_variance_fraction(rewards, group_size)


def _zero_over_rollouts(rewards, group_size):
    return _zero_count(rewards, group_size) / len(rewards)


def _zero_wrong_axis(rewards, group_size):
    return float((np.ptp(_zero_checked(rewards, group_size), axis=0) == 0).mean())


def _zero_whole_batch(rewards, group_size):
    return float(np.ptp(_zero_checked(rewards, group_size)) == 0)


def _zero_bad_group_accepted(rewards, group_size):
    rewards = list(rewards)
    groups = [rewards[i : i + group_size] for i in range(0, len(rewards), group_size)]
    return sum(max(group) == min(group) for group in groups) / len(groups)


def _zero_rest_dropped(rewards, group_size):
    whole = len(rewards) // group_size * group_size
    return grpo.zero_variance_fraction(rewards[:whole], group_size)


def _require_groups(rewards, group_size):
    if group_size < 2 or len(rewards) == 0 or len(rewards) % group_size or not np.isfinite(rewards).all():
        raise ValueError("no whole groups")


def _zero_by_sets(rewards, group_size):
    _require_groups(rewards, group_size)
    sets = [set(rewards[i : i + group_size]) for i in range(0, len(rewards), group_size)]
    return [len(one) for one in sets].count(1) / len(sets)


def _zero_by_small_std(rewards, group_size):
    _require_groups(rewards, group_size)
    return np.isclose(_groups(rewards, group_size).std(axis=1), 0).mean()


def _zero_by_first_reward(rewards, group_size):
    _require_groups(rewards, group_size)
    groups = np.asarray(rewards, dtype=np.float32).reshape(-1, group_size)
    return np.mean(np.all(groups == groups[:, :1], axis=1))


def _shares(rng):
    """A small batch, then two in which all-wrong, all-right, dead and mixed groups have four different shares."""
    calls = [call([1, 1, 0, 0] + [1, 1, 1, 1] + [0, 0, 0, 0] * 2, 4)]
    for size, (wrong, right, mixed) in ((3, (1, 2, 4)), (8, (4, 1, 2))):
        groups = [[0.0] * size] * wrong + [[1.0] * size] * right
        groups += [_random_groups(rng, 1, size) for _ in range(mixed)]
        calls.append(call([r for i in rng.permutation(len(groups)) for r in groups[i]], size))
    return calls


def _a_tie_at_each_level(rng):
    mixed = [0, 1, 0.5, 0, 0.51, 0.5, 0.5]
    return [call([level] * 7 + mixed, 7) for level in (0.1, 0.7, 0.5, 0, 1)] + [call(mixed * 2, 7)]


def _levels_count_alike(values, calls):
    *ties, none = (float(np.asarray(value, float).reshape(())) for value in values)
    if not max(ties) - none > 1e-3:
        return "a group of equal rewards and a group of different ones give the same share"
    for tie, one in zip(ties[1:], calls[1:], strict=False):
        if abs(tie - ties[0]) > 1e-6:
            return f"seven rewards of 0.1 give {ties[0]:.4g}, seven rewards of {one.args[0][0]:g} give {tie:.4g}"
    return None


ZERO_VARIANCE_FRACTION = Exercise(
    name="zero_variance_fraction",
    chapter=CHAPTER,
    difficulty=1,
    minutes=8,
    reference=grpo.zero_variance_fraction,
    parts=(
        Part(
            says="the share of groups in which all rewards are equal",
            points=2,
            calls=_shares,
            hint="Decide for each group whether it has a signal; then take the share of those that have none.",
        ),
        Part(
            says="equal rewards count at any level: 0, 1, and what lies between",
            points=1,
            calls=_a_tie_at_each_level,
            holds=_levels_count_alike,
            hint="Equal is a statement about the rewards themselves, whatever their value.",
        ),
        Part(
            says="a group of one, a broken group and a NaN reward raise a ValueError",
            points=1,
            calls=lambda rng: [
                call([0, 0, 1, 0], 2),
                call([0, 1, 1], 1, note="a group of one"),
                call([1, 1, 0, 0, 0], 2, note="five rewards, groups of two"),
                call([1, 0, float("nan"), 1], 2),
            ],
            only_errors=True,
            hint="The same three checks as for the advantages.",
        ),
    ),
    mistakes=(
        Mistake(
            "all-wrong groups only",
            _zero_all_wrong_only,
            "Only groups without any right answer were counted. A group in which every answer is right has nothing to "
            "compare either.",
        ),
        Mistake(
            "all-right groups only",
            _zero_all_right_only,
            "Only groups in which every answer is right were counted. A group without any right answer has nothing to "
            "compare either.",
        ),
        Mistake(
            "only rewards 0 and 1",
            _zero_right_or_wrong_only,
            "All-wrong and all-right groups are counted, other ties are not. With partial credit a whole group can "
            "stand at 0.5 or 0.1; then there is no signal either.",
        ),
        Mistake(
            "computed std is exactly 0",
            _zero_std_is_zero,
            "Your test asks whether the computed std is exactly 0. For seven rewards of 0.1 the mean is rounded, and "
            "the std comes out near 1e-17. Ask a question that rounding cannot change.",
        ),
        Mistake("count instead of share", _zero_count, "This is a number of groups. A share lies between 0 and 1."),
        Mistake(
            "complement",
            _zero_complement,
            "This is the share of groups that do have a signal. Asked for is the rest.",
        ),
        Mistake("percent", _zero_percent, "This is a percentage. Asked for is a share between 0 and 1."),
        Mistake(
            "divided by rollouts",
            _zero_over_rollouts,
            "The number of groups was divided by the number of rollouts. With groups of G the result is G times too "
            "small.",
        ),
        Mistake(
            "wrong axis",
            _zero_wrong_axis,
            "Rollouts with the same place in different groups were compared. Which axis runs along one group?",
        ),
        Mistake(
            "whole batch",
            _zero_whole_batch,
            "The batch was looked at as a whole. The question has to be asked for each group.",
        ),
        Mistake(
            "bad group accepted",
            _zero_bad_group_accepted,
            "A group of one, a broken group or a NaN was counted like any other. A group of one is always 'equal', and "
            "NaN never is: both make the share say something untrue about the run.",
        ),
        Mistake(
            "rest dropped",
            _zero_rest_dropped,
            "The rewards that do not fill a group were dropped silently. They are a sign that something is wrong "
            "upstream; stop there.",
        ),
    ),
    alternatives=(
        Alternative("sets", _zero_by_sets),
        Alternative("a std below a small limit", _zero_by_small_std),
        Alternative("everyone equals the first, float32", _zero_by_first_reward),
    ),
    hint="Compare within a row, then take a mean of truth values.",
)


# --- log_softmax --------------------------------------------------------------------------------------------


def _float_rows(logits):
    return np.asarray(logits, dtype=float)


def _logsm_naive(logits):
    x = _float_rows(logits)
    with np.errstate(all="ignore"):
        return np.log(np.exp(x) / np.exp(x).sum(axis=-1, keepdims=True))


def _logsm_overflowing_sum(logits):
    x = _float_rows(logits)
    with np.errstate(all="ignore"):
        return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def _softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def _logsm_underflow(logits):
    with np.errstate(all="ignore"):
        return np.log(_softmax(_float_rows(logits)))


def _logsm_eps_inside(logits):
    return np.log(_softmax(_float_rows(logits)) + 1e-9)


def _logsm_wrong_axis(logits):
    x = _float_rows(logits)
    shifted = x - x.max(axis=0, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=0, keepdims=True))


def _logsm_whole_array(logits):
    x = _float_rows(logits)
    return x - x.max() - np.log(np.exp(x - x.max()).sum())


def _logsm_one_max(logits):
    x = _float_rows(logits)
    with np.errstate(all="ignore"):
        return x - x.max() - np.log(np.exp(x - x.max()).sum(axis=-1, keepdims=True))


def _logsm_keepdims_forgotten(logits):
    x = _float_rows(logits)
    shifted = x - x.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1))


def _logsm_max_not_put_back(logits):
    x = _float_rows(logits)
    return x - np.log(np.exp(x - x.max(axis=-1, keepdims=True)).sum(axis=-1, keepdims=True))


def _logsm_base_2(logits):
    return grpo.log_softmax(logits) / np.log(2)


def _logsm_probabilities(logits):
    return _softmax(_float_rows(logits))


def _logsm_sign(logits):
    return -grpo.log_softmax(logits)


def _logsm_with_logaddexp(logits):
    x = _float_rows(logits)
    return x - np.logaddexp.reduce(x, axis=-1, keepdims=True)


def _logsm_row_by_row(logits):
    def one(row):
        top = max(row)
        total = math.log(sum(math.exp(v - top) for v in row)) + top
        return [v - total for v in row]

    def rows(x):
        return one(x) if not isinstance(x[0], list) else [rows(part) for part in x]

    return rows(np.asarray(logits).tolist())


def _logsm_float32(logits):
    x = np.asarray(logits, dtype=np.float32)
    x = x - x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def _drawn_logits(rng, *shape):
    """Logits with two decimals in which every row has a level of its own, so that rows cannot share a normaliser."""
    level = np.round(rng.permutation(int(np.prod(shape[:-1], dtype=int))).reshape(*shape[:-1], 1) * 1.5, 1)
    return np.round(rng.normal(0.0, 1.5, size=shape), 2) + level


def _arrays_and_their_rows(rng):
    wide, square, deep = _drawn_logits(rng, 2, 5), _drawn_logits(rng, 3, 3), _drawn_logits(rng, 2, 2, 3)
    calls = []
    for array in (wide, square, deep):
        calls += [call(array), *(call(row) for row in array.reshape(-1, array.shape[-1]))]
    return calls


def _rows_alone_give_the_same(values, calls):
    place = 0
    while place < len(calls):
        x = calls[place].args[0]
        rows = int(np.prod(x.shape[:-1]))
        whole, alone = np.asarray(values[place], float), np.array(values[place + 1 : place + 1 + rows], float)
        place += 1 + rows
        if whole.shape != x.shape:
            return f"logits of shape {x.shape} came in, and an answer of shape {whole.shape} came out"
        if np.allclose(whole, x) or not np.ptp(alone) > 0.01:
            return "the logits come back as they are, or all alike"
        if not np.allclose(whole.reshape(rows, -1), alone, rtol=1e-4, atol=1e-5):
            return f"a row of an array of shape {x.shape} gives other numbers than the same row alone"
    return None


def _huge(rng):
    small = np.array([2.0, 1.0, 0.0])
    return [
        call(np.array([1e4, 0.0, -1e4])),
        call(np.array([small + 1e4, small - 1e4]), note="the same differences at another level"),
        call(small),
    ]


def _same_at_any_level(values, calls):
    apart, moved, small = (np.asarray(value, float) for value in values)
    for one, got in zip(calls, (apart, moved, small), strict=True):
        if not np.all(np.isfinite(got)):
            return f"there is {got[~np.isfinite(got)][0]:.0f} in the answer for {one.args[0].ravel()[:3].tolist()}"
    if not np.allclose(moved, small, rtol=1e-4, atol=1e-5):
        return "a constant added to all logits of a row changes the answer; probabilities would not change"
    steps = -np.diff(apart)
    if not np.isclose(steps[0], steps[1], rtol=1e-4) or not abs(steps[0]) > 1.0:
        return f"the logits fall by 1e4 twice, the answer by {steps[0]:.4g} and then by {steps[1]:.4g}"
    return None


def _flat_bottom(values, calls):
    """Something was added inside the logarithm: two very unlikely tokens get the same, finite, value."""
    first, second, third = np.asarray(values[-3], float)  # of the logits 1e4, 0, -1e4
    return bool(np.isfinite([first, second, third]).all() and second < -3 and abs(second - third) < 1e-6)


LOG_SOFTMAX = Exercise(
    name="log_softmax",
    chapter=CHAPTER,
    difficulty=2,
    minutes=12,
    reference=grpo.log_softmax,
    parts=(
        Part(
            says="one row of logits: the natural logs of its probabilities",
            points=2,
            calls=lambda rng: [call(np.array([2.0, 1.0, 0.0])), call(_drawn_logits(rng, 6)), call(np.zeros(4))],
            hint="Write down the probability of one token, take its logarithm on paper, and see what becomes of the "
            "fraction.",
        ),
        Part(
            says="any shape: every row along the last axis by itself",
            points=1,
            calls=_arrays_and_their_rows,
            holds=_rows_alone_give_the_same,
            hint="Which axis do maximum and sum run over, and do their results still line up with the logits?",
        ),
        Part(
            says="finite and right for logits of ten thousand",
            points=1,
            calls=_huge,
            holds=_same_at_any_level,
            hint="exp overflows above 709. Which number may you subtract from a whole row without changing its "
            "probabilities?",
        ),
    ),
    mistakes=(
        Mistake(
            "naive softmax",
            _logsm_naive,
            "Fine for small logits; at 1e4 exp overflows to infinity, and inf/inf is NaN. Nothing keeps the "
            "logits of a model small, and one NaN spoils the whole training step.",
        ),
        Mistake(
            "overflow in the sum",
            _logsm_overflowing_sum,
            "The fraction was taken apart, as it should be; but exp of a large logit still overflows inside the sum.",
        ),
        Mistake(
            "probability underflows",
            _logsm_underflow,
            "The overflow is gone. But a very unlikely token has a probability that rounds to 0, and its log is -inf. "
            "Do not go through the probability at all.",
        ),
        Mistake(
            "floor inside the log",
            _logsm_eps_inside,
            "Very unlikely tokens all get the same value: a small number was added to the probability, or it was cut "
            "off from below. That hides the problem: below that floor the gradient is 0 and the value is wrong.",
            symptom=_flat_bottom,
        ),
        Mistake(
            "wrong axis",
            _logsm_wrong_axis,
            "A single row is right. In an array you normalise over the first axis: tokens of different positions "
            "compete with each other.",
        ),
        Mistake(
            "whole-array normaliser",
            _logsm_whole_array,
            "A single row is right. In an array the probabilities of all rows together sum to 1; each row must do so "
            "by itself.",
        ),
        Mistake(
            "one maximum for all rows",
            _logsm_one_max,
            "The largest logit of the whole array was subtracted. A row far below it underflows. Each row needs its "
            "own maximum.",
        ),
        Mistake(
            "keepdims forgotten",
            _logsm_keepdims_forgotten,
            "A single row works, an array does not: the sums have one axis less than the logits. With a square array "
            "numpy would even subtract the sum of the wrong row without an error.",
        ),
        Mistake(
            "maximum not put back",
            _logsm_max_not_put_back,
            "The maximum was subtracted in one of two places only: your numbers are too large by exactly the maximum "
            "of the row, some are even positive. A log-probability never is.",
        ),
        Mistake("log base 2", _logsm_base_2, "These are logs to base 2 (bits). The course uses natural logs."),
        Mistake(
            "probabilities, no log",
            _logsm_probabilities,
            "These are the probabilities themselves. The logarithm is missing.",
        ),
        Mistake(
            "sign",
            _logsm_sign,
            "These are the right numbers with the wrong sign: a loss (cross-entropy) is minus a log-probability.",
        ),
    ),
    alternatives=(
        Alternative("np.logaddexp", _logsm_with_logaddexp),
        Alternative("pure Python, row by row", _logsm_row_by_row),
        Alternative("float32 inside", _logsm_float32),
    ),
    hint="Two steps: move each row so that its largest logit is 0; then subtract the log of the sum of exps.",
)


# --- sequence_logprob ---------------------------------------------------------------------------------------


def _scores_checked(logits, token_ids, prompt_len, temperature=1.0):
    """The course's own errors, then (log-probs of all rows, ids), for mistakes that are about the numbers only."""
    grpo.sequence_logprob(logits, token_ids, prompt_len, temperature)
    return grpo.log_softmax(np.asarray(logits, dtype=float) / temperature), np.asarray(token_ids)


def _picked(rows, ids):
    n = min(len(rows), len(ids))
    return rows[np.arange(n), ids[:n]]


def _seq_own_position(logits, token_ids, prompt_len, temperature=1.0):
    logps, ids = _scores_checked(logits, token_ids, prompt_len, temperature)
    return float(_picked(logps, ids[:-1])[prompt_len - 1 :].sum())


def _seq_own_position_cut(logits, token_ids, prompt_len, temperature=1.0):
    logps, ids = _scores_checked(logits, token_ids, prompt_len, temperature)
    return float(_picked(logps[prompt_len:], ids[prompt_len:]).sum())


def _seq_past_the_last_row(logits, token_ids, prompt_len, temperature=1.0):
    logps = grpo.log_softmax(np.asarray(logits, dtype=float) / temperature)
    return float(sum(logps[t, token_ids[t]] for t in range(prompt_len, len(token_ids))))


def _seq_mask_shifted(logits, token_ids, prompt_len, temperature=1.0):
    logps, ids = _scores_checked(logits, token_ids, prompt_len, temperature)
    return float(_picked(logps, ids[1:])[prompt_len:].sum())


def _seq_prompt_counted(logits, token_ids, prompt_len, temperature=1.0):
    logps, ids = _scores_checked(logits, token_ids, prompt_len, temperature)
    return float(_picked(logps, ids[1:]).sum())


def _answer_logps(logits, token_ids, prompt_len, temperature=1.0):
    return grpo.token_logprobs(logits, token_ids, prompt_len, temperature)


def _seq_last_dropped(logits, token_ids, prompt_len, temperature=1.0):
    return float(_answer_logps(logits, token_ids, prompt_len, temperature)[:-1].sum())


def _seq_mean(logits, token_ids, prompt_len, temperature=1.0):
    return float(_answer_logps(logits, token_ids, prompt_len, temperature).mean())


def _seq_no_temperature(logits, token_ids, prompt_len, temperature=1.0):
    return float(_answer_logps(logits, token_ids, prompt_len).sum())


def _seq_temperature_multiplied(logits, token_ids, prompt_len, temperature=1.0):
    return float(_answer_logps(logits, token_ids, prompt_len, 1.0 / temperature).sum())


def _seq_temperature_after(logits, token_ids, prompt_len, temperature=1.0):
    return float(_answer_logps(logits, token_ids, prompt_len).sum() / temperature)


def _seq_raw_logits(logits, token_ids, prompt_len, temperature=1.0):
    _, ids = _scores_checked(logits, token_ids, prompt_len, temperature)
    rows = np.asarray(logits, dtype=float) / temperature
    return float(_picked(rows[prompt_len - 1 :], ids[prompt_len:]).sum())


def _seq_log_of_product(logits, token_ids, prompt_len, temperature=1.0):
    with np.errstate(all="ignore"):
        return float(np.log(np.prod(np.exp(_answer_logps(logits, token_ids, prompt_len, temperature)))))


def _seq_probability(logits, token_ids, prompt_len, temperature=1.0):
    return float(np.exp(_answer_logps(logits, token_ids, prompt_len, temperature).sum()))


def _seq_per_token(logits, token_ids, prompt_len, temperature=1.0):
    return _answer_logps(logits, token_ids, prompt_len, temperature)


def _seq_sign(logits, token_ids, prompt_len, temperature=1.0):
    return -grpo.sequence_logprob(logits, token_ids, prompt_len, temperature)


def _seq_bad_input_accepted(logits, token_ids, prompt_len, temperature=1.0):
    logps = grpo.log_softmax(np.asarray(logits, dtype=float) / temperature)
    return float(sum(logps[t - 1, token_ids[t]] for t in range(prompt_len, len(token_ids))))


def _require_scores(logits, token_ids, prompt_len):
    logits = np.asarray(logits)
    if logits.ndim != 2 or len(logits) != len(token_ids) - 1 or not 1 <= prompt_len < len(token_ids):
        raise ValueError("the shapes do not fit")
    if any(not 0 <= t < logits.shape[1] for t in token_ids):
        raise ValueError("a token is not in the vocabulary")


def _seq_pure_python(logits, token_ids, prompt_len, temperature=1.0):
    _require_scores(logits, token_ids, prompt_len)
    total = 0.0
    for t in range(prompt_len, len(token_ids)):
        row = [float(x) / temperature for x in logits[t - 1]]
        top = max(row)
        total += row[int(token_ids[t])] - top - math.log(sum(math.exp(x - top) for x in row))
    return total


def _seq_from_the_end(logits, token_ids, prompt_len, temperature=1.0):
    _require_scores(logits, token_ids, prompt_len)
    n = len(token_ids) - prompt_len
    logps = _logsm_with_logaddexp(np.asarray(logits)[-n:] / temperature)
    return np.take_along_axis(logps, np.asarray(token_ids)[-n:, None], axis=1).sum()


def _seq_with_a_mask(logits, token_ids, prompt_len, temperature=1.0):
    _require_scores(logits, token_ids, prompt_len)
    targets = np.asarray(token_ids)[1:]
    logps = grpo.log_softmax(np.asarray(logits) / temperature)
    one_hot = targets[:, None] == np.arange(logps.shape[1])
    is_answer = np.arange(1, len(token_ids)) >= prompt_len
    return np.float64((logps * one_hot).sum(axis=1)[is_answer].sum())


# Softmax gives .9 to (t+1) mod 3 after token t, and .05 to each of the two others.
_LN_18 = float(np.log(18.0))
_NEXT_TOKEN = np.array([[0.0, _LN_18, 0.0], [0.0, 0.0, _LN_18], [_LN_18, 0.0, 0.0]])
_WORKED = (_NEXT_TOKEN[[0, 1]], np.array([0, 1, 2]), 1)


def _drawn_sequence(rng, length, vocabulary, prompt_len, spread=1.5):
    logits = np.round(rng.normal(0.0, spread, size=(length - 1, vocabulary)), 2)
    return logits, rng.integers(0, vocabulary, size=length), prompt_len


def _answers(rng):
    return [
        call(*_WORKED, note="a model that gives 0.9 to the next number"),
        call(*_drawn_sequence(rng, 7, 4, 3)),
        call(*_drawn_sequence(rng, 9, 5, 2)),
        call(*_drawn_sequence(rng, 600, 5, 4, spread=3.0), note="a long answer"),
    ]


def _other_prompts(rng):
    logits, ids, prompt_len = _drawn_sequence(rng, 8, 4, 4)
    other_prompt, other_answer = logits.copy(), logits.copy()
    other_prompt[: prompt_len - 1] = np.round(rng.normal(0.0, 4.0, size=(prompt_len - 1, 4)), 2)
    other_answer[prompt_len - 1 :, 0] += np.array([2.0, 3.0, 4.0, 5.0])
    return [
        call(logits, ids, prompt_len),
        call(other_prompt, ids, prompt_len, note="other logits inside the prompt"),
        call(other_answer, ids, prompt_len, note="other logits in the answer"),
    ]


def _one_number(value):
    return float(np.asarray(value, float).reshape(()))


def _prompt_does_not_matter(values, calls):
    base, other_prompt, other_answer = map(_one_number, values)
    if not abs(base - other_prompt) < 1e-5 * max(1.0, abs(base)):
        return f"only rows inside the prompt were changed, and the answer went from {base:.4f} to {other_prompt:.4f}"
    if not abs(base - other_answer) > 1e-3:
        return "the logits of the answer were changed, and the value did not follow"
    return None


def _temperatures(rng):
    calls = []
    drawn, warm = _drawn_sequence(rng, 6, 4, 2), float(np.round(rng.uniform(0.5, 0.8), 2))
    for (logits, ids, prompt_len), t in (((np.array([[2.0, 0.0]]), np.array([1, 0]), 1), 2.0), (drawn, warm)):
        calls += [
            call(logits, ids, prompt_len, temperature=t),
            call(logits / t, ids, prompt_len, note="the same logits, divided by hand"),
        ]
    return [*calls, call(*drawn)]


def _like_divided_logits(values, calls):
    values = [_one_number(value) for value in values]
    for i in (0, 2):
        hot, by_hand = values[i], values[i + 1]
        if not abs(hot - by_hand) < 1e-5 * max(1.0, abs(by_hand)):
            t = calls[i].kwargs["temperature"]
            return f"temperature {t:g} gives {hot:.4f}; the same logits divided by {t:g} by hand give {by_hand:.4f}"
    if not abs(values[2] - values[4]) > 1e-6:
        return "the temperature changes nothing"
    return None


SEQUENCE_LOGPROB = Exercise(
    name="sequence_logprob",
    chapter=CHAPTER,
    difficulty=2,
    minutes=20,
    reference=grpo.sequence_logprob,
    parts=(
        Part(
            says="the sum over all answer tokens, each scored by the row before it",
            points=2,
            calls=_answers,
            hint="Row t-1 was computed before token t was known. Write down, for T = 3 and one prompt token, which row "
            "goes with which token.",
        ),
        Part(
            says="the logits inside the prompt do not matter",
            points=1,
            calls=_other_prompts,
            holds=_prompt_does_not_matter,
            hint="The policy did not choose the prompt. Which row scores the first token that it did choose?",
        ),
        Part(
            says="a temperature acts as if the logits had been divided by it",
            points=1,
            calls=_temperatures,
            holds=_like_divided_logits,
            hint="Sampling divides first and normalises then. The score has to go the same way.",
        ),
        Part(
            says="shapes, lengths and ids that do not fit raise a ValueError",
            points=1,
            calls=lambda rng: [
                call(*_WORKED),
                call(_NEXT_TOKEN, np.array([0, 1, 2]), 1, note="three rows for three ids: one row too many"),
                call(_NEXT_TOKEN[:2], np.array([0, 1, 2]), 0, note="no prompt"),
                call(_NEXT_TOKEN[:2], np.array([0, 1, 2]), 3, note="no answer"),
                call(_NEXT_TOKEN[:2], np.array([0, 1, 3]), 1, note="the vocabulary is 0, 1, 2"),
                call(_NEXT_TOKEN[:2], np.array([0, 1, -1]), 1, note="-1 is no token"),
            ],
            only_errors=True,
            hint="Three questions: does the number of rows fit the number of ids, is there a prompt and an answer, is "
            "every id in the vocabulary?",
        ),
    ),
    mistakes=(
        Mistake(
            "own position",
            _seq_own_position,
            "Each token was looked up in the row of its own position. That row predicts the token after it: you "
            "score how likely a repetition was. On the small example that gives -5.9915.",
        ),
        Mistake(
            "own position, last token lost",
            _seq_own_position_cut,
            "Each token was looked up in the row of its own position, and the last one had no row left. A row predicts "
            "the token after it.",
        ),
        Mistake(
            "own position, past the last row",
            _seq_past_the_last_row,
            "Each token was looked up in the row of its own position, and for the last token there is none. That a row "
            "is missing is no accident: a row predicts the token after it, and nothing comes after the last token.",
        ),
        Mistake(
            "mask shifted",
            _seq_mask_shifted,
            "Rows and tokens are paired correctly, but the sum starts one place too late: the first token of the "
            "answer is missing. After a shift, position i of the targets is position i+1 of the sequence.",
        ),
        Mistake(
            "last token dropped",
            _seq_last_dropped,
            "The last token is missing. It is usually the end token, and choosing to stop is a decision of the policy "
            "like any other: without it, it never learns when to stop.",
        ),
        Mistake(
            "prompt counted",
            _seq_prompt_counted,
            "The tokens of the prompt are in the sum. The policy did not choose them, so they say nothing about how "
            "likely its answer was.",
        ),
        Mistake(
            "mean instead of sum",
            _seq_mean,
            "This is the mean over the tokens. The log-probability of the whole answer is the sum: probabilities of "
            "steps multiply.",
        ),
        Mistake(
            "temperature left out",
            _seq_no_temperature,
            "The argument `temperature` changes nothing. These are log-probs of a distribution that nobody sampled "
            "from.",
        ),
        Mistake(
            "temperature multiplied",
            _seq_temperature_multiplied,
            "The temperature works the wrong way round: a high one must make the distribution flatter, not sharper.",
        ),
        Mistake(
            "temperature after the log-softmax",
            _seq_temperature_after,
            "The log-probs were divided by the temperature. Then their exponentials no longer sum to 1. At which step "
            "did the sampler divide?",
        ),
        Mistake(
            "raw logits summed",
            _seq_raw_logits,
            "These are sums of logits. Logits are scores without a common scale; only the log-softmax turns them into "
            "log-probabilities.",
        ),
        Mistake(
            "log of a product",
            _seq_log_of_product,
            "Correct on paper. But the product of several hundred probabilities is smaller than the smallest float: it "
            "becomes 0, and its log -inf. Stay with logarithms all the way.",
        ),
        Mistake(
            "probability, no log",
            _seq_probability,
            "This is the probability of the answer. Asked for is its logarithm.",
        ),
        Mistake(
            "one value per token",
            _seq_per_token,
            "The log-probs of the single tokens came back. Asked for is one number for the whole answer.",
        ),
        Mistake(
            "sign",
            _seq_sign,
            "The right numbers with the wrong sign: this is a loss. A log-probability is at most 0.",
        ),
        Mistake(
            "bad input accepted",
            _seq_bad_input_accepted,
            "Input that does not fit went through, or ended in an error that does not say what is wrong. numpy reads "
            "index -1 as 'the last one', and a row too many goes unnoticed: the run continues with wrong numbers.",
        ),
    ),
    alternatives=(
        Alternative("pure Python", _seq_pure_python),
        Alternative("counted from the end", _seq_from_the_end),
        Alternative("shifted targets, one-hot and a mask", _seq_with_a_mask),
    ),
    hint="Divide, log-softmax, pick one number per answer token, add up.",
)

EXERCISES = (
    GROUP_RELATIVE_ADVANTAGE,
    ROLLOUT_ADVANTAGES,
    ZERO_VARIANCE_FRACTION,
    LOG_SOFTMAX,
    SEQUENCE_LOGPROB,
)
