"""The exercise `zero_variance_fraction`: its parts, its known mistakes, and correct alternatives."""

from __future__ import annotations

import numpy as np

import grpo
from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.exercises.chapter_02.common import CHAPTER, as_groups, random_groups


def _zero_checked(rewards, group_size):
    grpo.zero_variance_fraction(rewards, group_size)
    return as_groups(rewards, group_size)


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
    return np.isclose(as_groups(rewards, group_size).std(axis=1), 0).mean()


def _zero_by_first_reward(rewards, group_size):
    _require_groups(rewards, group_size)
    groups = np.asarray(rewards, dtype=np.float32).reshape(-1, group_size)
    return np.mean(np.all(groups == groups[:, :1], axis=1))


def _shares(rng):
    """A small batch, then two in which all-wrong, all-right, dead and mixed groups have four different shares."""
    calls = [call([1, 1, 0, 0] + [1, 1, 1, 1] + [0, 0, 0, 0] * 2, 4)]
    for size, (wrong, right, mixed) in ((3, (1, 2, 4)), (8, (4, 1, 2))):
        groups = [[0.0] * size] * wrong + [[1.0] * size] * right
        groups += [random_groups(rng, 1, size) for _ in range(mixed)]
        calls.append(call([r for i in rng.permutation(len(groups)) for r in groups[i]], size))
    return calls


def _a_tie_at_each_level(rng):
    mixed = [0, 1, 0.5, 0, 0.51, 0.5, 0.5]
    drawn = float(rng.integers(11, 99)) / 100
    other = [0, 1, drawn, 0, drawn + 0.005, drawn, drawn]
    return [
        *(call([level] * 7 + mixed, 7) for level in (0.1, 0.7, 0.5, 0, 1)),
        call([drawn] * 7 + other, 7),
        call(mixed * 2, 7),
        call(other * 2, 7),
    ]


def _levels_count_alike(values, calls):
    *ties, none, drawn = (float(np.asarray(value, float).reshape(())) for value in values)
    if not max(ties) - max(none, drawn) > 1e-3 or not np.all(np.isfinite([*ties, none, drawn])):
        return "a group of equal rewards and a group of different ones give the same share"
    for tie, one in zip(ties[1:], calls[1:], strict=False):  # the last two calls hold no tie
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
                call([*rng.permutation([1.0, 1, 1, 0, 0]).tolist(), 1], 3),
                call(rng.permutation([1.0, 1, 1, 0, 0]).tolist(), 3, note="five rewards, groups of three"),
                call([*rng.permutation([1.0, 1, 1, 0, 0]).tolist(), float("nan")], 3),
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
