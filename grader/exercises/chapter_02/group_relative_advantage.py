"""The exercise `group_relative_advantage`: its parts, its known mistakes, and correct alternatives."""

from __future__ import annotations

import math
import warnings
from statistics import fmean, stdev

import numpy as np

import grpo
from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.exercises.chapter_02.common import CHAPTER, as_groups, random_groups


def _checked(rewards, group_size):
    """The course's own errors, for mistakes that are about the numbers only."""
    grpo.group_relative_advantage(rewards, group_size)
    return as_groups(rewards, group_size)


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


def _advantage_mixed_groups(rewards, group_size, eps=1e-4):
    _checked(rewards, group_size)
    mixed = np.asarray(rewards, dtype=float).reshape(group_size, -1).T
    return grpo.group_relative_advantage(mixed.ravel(), group_size, eps)


def _advantage_first_group_only(rewards, group_size, eps=1e-4):
    return grpo.group_relative_advantage(rewards, group_size, eps)[:1]


def _advantage_variance(rewards, group_size, eps=1e-4):
    r = _checked(rewards, group_size)
    return (r - r.mean(axis=1, keepdims=True)) / (r.var(axis=1, ddof=1, keepdims=True) + eps)


def _advantage_rounded(rewards, group_size, eps=1e-4):
    return grpo.group_relative_advantage(rewards, group_size, eps).round(4)


def _advantage_eps_ignored(rewards, group_size, eps=1e-4):
    return grpo.group_relative_advantage(rewards, group_size, 1e-4)


def _advantage_leave_one_out(rewards, group_size, eps=1e-4):
    r = _checked(rewards, group_size)
    others = (r.sum(axis=1, keepdims=True) - r) / (group_size - 1)
    return (r - others) / (r.std(axis=1, ddof=1, keepdims=True) + eps)


def _advantage_accepts_one(rewards, group_size, eps=1e-4):
    r = as_groups(rewards, group_size)
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


def _two_groups_and_each_alone(rng):
    easy, hard = [1, 1, 1, 0], [0, 0, 0, 1]
    drawn = random_groups(rng, 2, 4)
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
        # Drawn: the level, and which of the two groups has a signal.
        call(np.concatenate(rng.permutation([[float(rng.integers(11, 99)) / 100] * 4, [1, 0, 0, 0]])).tolist(), 4),
    ]


def _first_row_near_zero(values, calls):
    for value, one in zip(values, calls, strict=True):
        size = one.args[1]
        groups = np.reshape(one.args[0], (2, size))
        order = [0, 1] if np.ptp(groups[0]) < 1e-3 else [1, 0]
        halves = np.ravel(np.asarray(value, float))[:size], np.ravel(np.asarray(value, float))[size:]
        tie, rest = (halves[i] for i in order)
        if not np.all(np.abs(tie) < 2e-3):
            group = ", ".join(f"{x:.8g}" for x in groups[order[0]])
            return f"the group {group} has no signal, and yet gets {', '.join(f'{x:.4g}' for x in tie)}"
        if not (rest.size == tie.size == size and np.ptp(rest) > 0.1):
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
                call(random_groups(rng, 1, 6), 6),
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
                call(random_groups(rng, 2, 3), 3),
                call(random_groups(rng, 2, 3)[:-1], 3, note="five rewards, groups of three"),
                call([*random_groups(rng, 1, 5), float("nan")], 3),
            ],
            only_errors=True,
            hint="Raise a ValueError before computing anything: numpy would only give NaN.",
        ),
    ),
    shortcuts=("rollout_advantages",),
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
            "groups mixed by the reshape",
            _advantage_mixed_groups,
            "One group works, several are mixed: the reshape made G rows of P, and turning it round afterwards does "
            "not put the neighbours together again. Print the array after the reshape: does one row hold one prompt?",
        ),
        Mistake(
            "only the first group returned",
            _advantage_first_group_only,
            "Only the first group came back. If you have a loop over the groups: does its `return` stand inside it?",
        ),
        Mistake(
            "divided by the variance",
            _advantage_variance,
            "The centred rewards were divided by the variance. The std is its square root, and only the std has the "
            "unit of the rewards.",
        ),
        Mistake(
            "rounded",
            _advantage_rounded,
            "The numbers were rounded to four places. Round when you print; what others compute with keeps its digits.",
        ),
        Mistake(
            "eps of the argument ignored",
            _advantage_eps_ignored,
            "The eps in use is always 0.0001, whatever the caller passes. The default value of an argument is not the "
            "argument.",
        ),
        Mistake(
            "leave-one-out mean",
            _advantage_leave_one_out,
            "Each reward was compared with the mean of the other rollouts. That is a real method (leave-one-out), and "
            "another one: all numbers are G/(G-1) times as large. The course takes the mean of the whole group.",
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
