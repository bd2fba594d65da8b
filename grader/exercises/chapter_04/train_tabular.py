"""The exercise `train_tabular`: its parts, its known mistakes, and correct alternatives.

A trained policy is judged by its exact success, its exact KL, and by how far it moved: sums over all 39 expressions,
never by a lucky sample. No two programs need to draw the same random numbers.
"""

from __future__ import annotations

import functools

import numpy as np

import grpo
from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.exercises.chapter_04.common import (
    CHAPTER,
    END,
    EXPRESSIONS,
    ID,
    TARGETS,
    TOKENS,
    draw,
    draw_seed,
    judged_after,
    read_table,
    unchanged,
)
from grader.plain import Rng
from grpo.expressions import tables
from grpo.expressions.game import evaluate

# the calls of the five parts
_LEARN, _GROUP, _CLIP, _KL, _AGAIN = slice(0, 3), slice(3, 7), slice(7, 10), slice(10, 12), slice(12, 17)
_PAIR, _LONG_RUN, _SOON_SOLVED = slice(0, 1), 1, 2  # ten iterations on two prompts, many on one, and six large ones
_IMPOSSIBLE = 4  # no expression has this value
_WIDE = 1e6  # a clip range that nothing leaves
_VALUES = np.array([evaluate(one) for one in EXPRESSIONS])
# The learning part asks whether a run learns, not how fast: steps that are too short (no std, another learning rate)
# have parts of their own, and whether they reach a high goal in time would be luck.
_GAIN = 0.1  # what exact success has to gain in ten iterations; the reference gains .37 and more
_GOAL = 0.25  # exact success after the long run; the reference has .84 and more, one update or iteration at most .14
_CHOICES = 22  # states of one prompt in which more than one token is legal
_REACHED = 19  # rows that the long run has to move; the reference moves 21 or 22, a single batch of eight at most 17
_SURE = 12.0  # a logit that leaves the other tokens of its row next to nothing
# Without the std a step of the two ways has at most half its length, and with it .62 and more (1 right of 8, 3 of 24).
_SHORT = 0.55
_MANY = 8  # updates on one batch
_STRONG = 1.0  # the penalty of the run that has to stay near its start
_FAR = 0.012  # exact KL to the start after the run without a penalty; one update alone stays below .007
_CHANGED = "the start was changed; a new table is due, and the start stays as it is: it is the reference"


def _start(rng, targets):
    """A policy that solves each target in a third of its tries, so that groups have something to compare."""
    table = {state: 0.2 * rng.standard_normal(len(TOKENS)) for state in tables.zero_table(targets)}
    for target in targets:
        solutions = [one for one in EXPRESSIONS if evaluate(one) == target]
        if solutions:
            response = (*draw(rng, solutions), END)
            while tables.exact_success(table, target) < 0.35:
                for position, token in enumerate(response):
                    table[target, *response[:position]][ID[token]] += 0.5
    return table


def _two_ways(rng, right):
    """A policy that writes one of two responses of the same length, each half of the time, and its target.

    The first response is right, and of the second `right` says it. The start alone decides between the two, and an
    advantage that is divided by the std has one size only: near 1, whatever the sample.
    """
    pairs = [
        (one, other)
        for one in EXPRESSIONS
        for other in EXPRESSIONS
        if len(one) == len(other) == 3 and one[0] != other[0] and evaluate(one) in TARGETS
        and (evaluate(one) == evaluate(other)) == right
    ]  # fmt: skip
    responses = draw(rng, pairs)
    target = evaluate(responses[0])
    table = tables.zero_table([target])
    for one in responses:
        for position, token in enumerate((*one, END)):
            table[target, *one[:position]][ID[token]] = _SURE
    return table, target


def _one_step(one):
    """How far one update moves the logits at the start of a policy with two ways: A is 1, shared by four tokens."""
    return one.kwargs.get("learning_rate", 3.0) * 0.5 / 4


def _targets(rng):
    return [int(target) for target in draw(rng, [t for t in TARGETS if t != 30], 2)]


def _learn_calls(rng):
    targets, (table, target) = _targets(rng), _two_ways(rng, right=False)
    note = "half of its responses are right, and after one step nearly all"
    return [
        call(_start(rng, targets), targets, 10, Rng(draw_seed(rng)), learning_rate=12.0, kl_coef=0.01),
        # With the two settings equal it does not matter here whether they are exchanged.
        call(tables.zero_table([30]), [30], 40, Rng(draw_seed(rng)), learning_rate=6.0, clip_eps=0.04, kl_coef=0.04),
        call(table, [target], 6, Rng(draw_seed(rng)), group_size=16, learning_rate=120.0, kl_coef=0.0, note=note),
    ]


def _group_calls(rng):
    tied = [_targets(rng)[0], _IMPOSSIBLE]
    (half, first), (equal, other) = _two_ways(rng, right=False), _two_ways(rng, right=True)
    both, second = _two_ways(rng, right=False)
    while second == first:
        both, second = _two_ways(rng, right=False)
    settings, seed = {"group_size": 32, "kl_coef": 0.0}, draw_seed(rng)
    faster = {"group_size": 24, "learning_rate": 12.0, "kl_coef": 0.0}
    return [
        call(_start(rng, tied), tied, 1, Rng(draw_seed(rng)), note="no expression has the value 4", **faster),
        call({**half, **both}, [first, second], 1, Rng(seed), note="half of all responses are right", **settings),
        call(half, [first], 1, Rng(seed), note="one prompt of the two", **settings),
        # An odd group: one half cannot cancel the other where equal rewards push.
        call(equal, [other], 1, Rng(seed), group_size=25, kl_coef=0.0, note="all its responses are right"),
    ]


def _clip_calls(rng):
    (start, target), seed = _two_ways(rng, right=False), draw_seed(rng)
    return [
        call(start, [target], 1, Rng(seed), group_size=24, inner_updates=updates, clip_eps=eps, kl_coef=0.0)
        for updates, eps in ((1, _WIDE), (_MANY, _WIDE), (_MANY, 0.2))
    ]


def _kl_calls(rng):
    targets = _targets(rng)[:1]
    start, seed = _start(rng, targets), draw_seed(rng)
    return [
        call(start, targets, 16, Rng(seed), group_size=12, learning_rate=1.5, kl_coef=kl_coef)
        for kl_coef in (0.0, _STRONG)
    ]


def _again_calls(rng):
    targets = _targets(rng)[:1]
    start, first, second = _start(rng, targets), draw_seed(rng), draw_seed(rng)
    return [
        call(start, targets, 1, Rng(seed), group_size=size, learning_rate=rate, kl_coef=0.0)
        for seed, size, rate in (
            (first, 24, 6.0),
            (second, 24, 6.0),
            (first, 24, 6.0),
            (first, 24, 3.0),
            (first, 2, 6.0),
        )
    ]


def _read(value, one):
    return read_table(value, one.args[0])


def _moved(value, one, target=None):
    """The largest change of a logit, over all rows or over those of one prompt."""
    policy, start = _read(value, one), one.args[0]
    return max(float(np.abs(policy[s] - start[s]).max()) for s in start if target is None or s[0] == target)


def _gains(value, one):
    """For each target: exact success at the start and afterwards."""
    policy = _read(value, one)
    return [(tables.exact_success(one.args[0], t), tables.exact_success(policy, t)) for t in one.args[1]]


def _drift(value, one):
    policy = _read(value, one)
    return sum(tables.exact_kl(policy, one.args[0], target) for target in one.args[1])


@judged_after(_read)
def _it_learns(values, calls):
    for i, (value, one) in enumerate(zip(values, calls, strict=True)):
        for target, (before, after) in zip(one.args[1], _gains(value, one), strict=True):
            if i != _SOON_SOLVED and after < (_GOAL if i == _LONG_RUN else before + _GAIN):
                return i, (
                    f"target {target}: the probability of a right response is {before:.2f} at the start and "
                    f"{after:.2f} after {one.args[2]} iterations; it should have gained much more"
                )
    moved = _rows_moved(values[_LONG_RUN], calls[_LONG_RUN])
    if moved < _REACHED:
        return _LONG_RUN, (
            f"in {calls[_LONG_RUN].args[2]} iterations only {moved} rows moved, of {_CHOICES} in which there is a "
            f"choice: new rollouts come through nearly all of them sooner or later"
        )
    solved, one = values[_SOON_SOLVED], calls[_SOON_SOLVED]
    if _goes_on(solved, one):
        return _SOON_SOLVED, (
            f"after the first step nearly all responses are right, so the rollouts that follow are equal and move "
            f"nothing; and yet the logits moved by up to {_moved(solved, one):.1f}, where one step makes "
            f"{_one_step(one):.1f}"
        )
    return None


def _goes_on(value, one):
    """Whether a policy moves much further than the one step after which all its rollouts are right."""
    return _moved(value, one) > 1.8 * _one_step(one)


def _rows_moved(value, one):
    policy, start = _read(value, one), one.args[0]
    return sum(bool(np.abs(policy[state] - start[state]).max() > 1e-9) for state in start)


def _shares(values, calls):
    """The length of the step of the first of two prompts, beside the step that it makes alone; and the second's."""
    (both, pair), (alone, single) = zip(values[1:3], calls[1:3], strict=True)
    first, second = pair.args[1]
    together, other, whole = (
        float(np.sqrt(sum(((new[s] - one.args[0][s]) ** 2).sum() for s in new if s[0] == target)))
        for new, one, target in (
            (_read(both, pair), pair, first),
            (_read(both, pair), pair, second),
            (_read(alone, single), single, first),
        )
    )
    return together, other, whole


@judged_after(_read)
def _prompts_share_a_step(values, calls):
    value, one = values[0], calls[0]
    solvable = one.args[1][0]
    if not _moved(value, one, solvable) > 0.01:
        return f"the rows of target {solvable}, which can be solved, did not move"
    moved = _moved(value, one, _IMPOSSIBLE)
    if moved > 1e-6:
        return (
            f"no response is right for the target 4, so all rewards of its groups are equal; and yet its rows moved, "
            f"by up to {moved:.2f}"
        )
    moved = _moved(values[3], calls[3])
    if moved > 1e-6:
        return 3, f"all rollouts earn the same here, so all advantages are 0; and yet the logits moved by {moved:.3f}"
    moved, due = _moved(values[2], calls[2]), _one_step(calls[2])
    if moved < _SHORT * due:
        return 2, (
            f"half of the rollouts are right here, so that all advantages are near 1 or -1, and the logits at the "
            f"start move by about {due:.3f}; yours move by {moved:.3f}"
        )
    first, second = calls[1].args[1]
    together, other, whole = _shares(values, calls)
    if not min(together, other) > 0:
        still = first if together == 0 else second
        return 1, f"one iteration on the prompts {first} and {second}, and the rows of {still} did not move"
    if not 0.2 * whole < together < 0.8 * whole:
        return 1, (
            f"a step on the prompts {first} and {second} moves the rows of {first} {together / whole:.2f} times as far "
            f"as a step on {first} alone; each rollout counts one part in N, so about half is due"
        )
    return None


@judged_after(_read)
def _clip_limits(values, calls):
    once, free, clipped = (_moved(value, one) for value, one in zip(values, calls, strict=True))
    if not free > 1.5 * once > 0:
        return 1, f"the logits move by up to {once:.2f} in one update, and by {free:.2f} in {_MANY} without a clip"
    if not clipped < 0.9 * free:
        return 2, (
            f"in {_MANY} updates on one batch the logits move by up to {free:.2f} without a clip, and by {clipped:.2f} "
            f"with a clip of .2: the clip should have stopped them much earlier"
        )
    return None


@judged_after(_read)
def _penalty_holds(values, calls):
    free, held = (_drift(value, one) for value, one in zip(values, calls, strict=True))
    if not free > _FAR:
        return f"the policy hardly moved in {calls[0].args[2]} iterations: its exact KL to the start is {free:.4f}"
    if not held < 0.85 * free:
        return 1, (
            f"the exact KL to the start is {free:.3f} without a penalty and {held:.3f} with `kl_coef` 1: the penalty "
            f"should have held the policy back"
        )
    return None


def _steps_of(value, one):
    policy, start = _read(value, one), one.args[0]
    return np.concatenate([policy[state] - start[state] for state in start])


def _same_step(a, b):
    return bool(np.allclose(a, b, rtol=1e-4, atol=1e-5))


@judged_after(_read)
def _run_can_be_repeated(values, calls):
    first, second, again, half, small = map(_steps_of, values, calls)
    if not np.abs(first).max() > 0.01:
        return "one iteration with a group of 24 did not move the policy"
    if _same_step(first, second):
        return 1, "two generators with different seeds give the very same policy"
    if not _same_step(first, again):
        return 2, "two generators with the same seed give different policies, so a run cannot be repeated"
    if _same_step(first, half):
        return 3, "half the learning rate gives the very same policy"
    if not _same_step(first, 2 * half):
        return 3, "one update with half the learning rate should change the table by half as much, and it does not"
    if _same_step(first, small):
        return 4, "groups of 2 and of 24 rollouts give the very same policy"
    return None


def _loop(batch_old=True, ref="start", advantages_of=None, reward_of=None, step_from="policy", sign=1.0,
          inner=None, targets_of=None, keep=True, rng_of=None, rate=None, fewer=0, stop=None,
          exchanged=False, size=None, drawn_from=None, one_batch=False, settings=None, new_again=True):  # fmt: skip
    """The right training loop with one of its pieces exchanged."""

    def wrong(start, targets, steps, rng, group_size=8, inner_updates=1, learning_rate=3.0, clip_eps=0.2, kl_coef=0.04):
        policy, prompts = start, []
        learning_rate, rng, group_size = rate or learning_rate, rng_of() if rng_of else rng, size or group_size
        clip_eps, kl_coef = settings(clip_eps, kl_coef) if settings else (clip_eps, kl_coef)
        for _ in range(steps - fewer):
            drawn = (targets_of or _every)(targets, rng) if not (one_batch and prompts) else []
            if drawn:
                prompts, rollouts, rewards = [], [], []
            for target in drawn:
                for tokens, _ in tables.sample_rollouts(start if drawn_from else policy, target, group_size, rng):
                    verdict = tables.verify_expression(tokens, target)
                    prompts.append(target)
                    rollouts.append(tokens)
                    rewards.append(reward_of(verdict) if reward_of else verdict[1])
            find = advantages_of or (lambda p, r, g: grpo.rollout_advantages(p, r, g))
            advantages = find(prompts, rewards, group_size)
            new, mask = old, mask = tables.score_rollouts(policy, prompts, rollouts)
            for _ in range(inner or inner_updates):
                if new_again:
                    new, _ = tables.score_rollouts(policy, prompts, rollouts)
                frozen = {"start": start, "policy": policy}[ref]
                ref_logps, _ = tables.score_rollouts(frozen, prompts, rollouts)
                pair = (new, old if batch_old else new)
                pair = pair[::-1] if exchanged else pair
                pulls = tables.token_coefficients(*pair, ref_logps, mask, advantages, clip_eps, kl_coef)
                base = policy if step_from == "policy" else start
                policy = tables.tabular_update(base, prompts, rollouts, pulls, sign * learning_rate)
                if stop == "update":
                    return policy
            if stop == "iteration":
                return policy
        return policy if keep else start

    return wrong


def _every(targets, rng):
    return targets


def _train_in_turn(start, targets, steps, rng, **settings):
    """One prompt after another, each with updates of its own: a right loop, but for the division by all prompts."""
    policy = start
    for target in targets:
        policy = {**policy, **tables.train_tabular(_rows_of(start, target), [target], steps, rng, **settings)}
    return policy


def _rows_of(table, target):
    return {state: logits for state, logits in table.items() if state[0] == target}


def _batch_advantages(prompts, rewards, group_size):
    return grpo.group_relative_advantage(rewards, len(rewards)).ravel()


def _centred(prompts, rewards, group_size):
    groups = np.reshape(rewards, (-1, group_size))
    return (groups - groups.mean(axis=1, keepdims=True)).ravel()


def _unlearns(values, calls):
    pairs = [pair for value, one in zip(values[_LEARN], calls[_LEARN], strict=True) for pair in _gains(value, one)]
    return all(after < before - 0.05 for before, after in pairs)


def _never_moves(values, calls):
    return all(_moved(value, one) == 0 for value, one in zip(values, calls, strict=True))


def _one_prompt_only(values, calls):
    pairs = list(zip(values[_PAIR], calls[_PAIR], strict=True))
    return all(_moved(value, one, one.args[1][0]) > 0 == _moved(value, one, one.args[1][1]) for value, one in pairs)


def _clip_moves(values, calls):
    return [_moved(value, one) for value, one in zip(values[_CLIP], calls[_CLIP], strict=True)]


def _same(a, b):
    return abs(a - b) <= 1e-6 * max(abs(a), abs(b))


def _clip_never_acts(values, calls):
    once, free, clipped = _clip_moves(values, calls)
    return not _same(once, free) and _same(free, clipped) and not _runs_away(values, calls)


def _runs_away(values, calls):
    """Several updates without a clip move further than any learning would, or out of all numbers."""
    once, free = _moved(values[_CLIP][0], calls[_CLIP][0]), values[_CLIP][1]
    largest = max(np.abs(np.asarray(row, dtype=float)).max() for row in free.values())
    return once > 0 and not largest < 1000 * once


def _settings_lost(values, calls):
    """Neither of the two settings changes anything, and yet several updates do more than one."""
    return _clip_never_acts(values, calls) and _penalty_without_effect(values, calls) and _learns(values, calls)


def _only_the_penalty_is_lost(values, calls):
    return _penalty_without_effect(values, calls) and _clip_limits(values[_CLIP], calls[_CLIP]) is None


def _group_size_ignored(values, calls):
    first, second, *_, small = map(_steps_of, values[_AGAIN], calls[_AGAIN])
    # A small group may be tied and move nothing; two of them hardly are.
    return max(np.abs(first).max(), np.abs(second).max()) > 0 and _same_step(first, small)


def _one_prompt_at_a_time(values, calls):
    together, other, _ = _shares(values[_GROUP], calls[_GROUP])
    return (together == 0) != (other == 0)


def _a_step_for_each_prompt(values, calls):
    together, other, whole = _shares(values[_GROUP], calls[_GROUP])
    return other > 0 and 0.8 * whole < together < 1.5 * whole


def _learns_again_what_is_solved(values, calls):
    """All runs learn, the long one moves everywhere, and rollouts of the start are still there at the end."""
    pairs = [pair for value, one in zip(values[_LEARN], calls[_LEARN], strict=True) for pair in _gains(value, one)]
    wide = _rows_moved(values[_LONG_RUN], calls[_LONG_RUN]) >= _REACHED
    solved = _goes_on(values[_SOON_SOLVED], calls[_SOON_SOLVED])
    return wide and solved and all(after > before for before, after in pairs)


def _changes_the_start(values, calls):
    return _CHANGED in [value for value in values if isinstance(value, str)]


def _equal_rewards_move(values, calls):
    return _moved(values[_GROUP][3], calls[_GROUP][3]) > 1e-6


def _steps_without_std(values, calls):
    """Only groups that differ move, each learning rate counts, and a step is as long as the std and not 1."""
    value, one = values[_GROUP][2], calls[_GROUP][2]
    short = 0.2 < _moved(value, one) / _one_step(one) < _SHORT
    return short and not (_moves_without_signal(values, calls) or _learning_rate_fixed(values, calls))


def _few_rows(values, calls):
    if _clip_limits(values[_CLIP], calls[_CLIP]) is not None:
        return False
    return _rows_moved(values[_LONG_RUN], calls[_LONG_RUN]) < _REACHED and all(
        _moved(value, one) > 0 for value, one in zip(values[_PAIR], calls[_PAIR], strict=True)
    )


def _one_update_only(values, calls):
    once, free, clipped = _clip_moves(values, calls)
    return once > 0 and _same(once, free) and _same(once, clipped)


def _one_iteration_only(values, calls):
    """A penalty cannot act in the first update: the policy is still its reference."""
    if _learning_rate_fixed(values, calls):
        return False
    free, held = map(_steps_of, values[_KL], calls[_KL])
    return np.abs(free).max() > 0 and _same_step(free, held) and not _learns(values, calls)


def _learns(values, calls):
    return _it_learns(values[_LEARN], calls[_LEARN]) is None


def _first_update_only(values, calls):
    return _one_update_only(values, calls) and _one_iteration_only(values, calls)


def _one_iteration_too_few(values, calls):
    several, one_step = (*_LEARN_AND_KL,), (_GROUP, _CLIP, _AGAIN)
    moved = [[_moved(v, c) > 0 for s in some for v, c in zip(values[s], calls[s], strict=True)]
             for some in (several, one_step)]  # fmt: skip
    return all(moved[0]) and not any(moved[1])


_LEARN_AND_KL = (_LEARN, _KL)


def _again(values, calls):
    """Whether one update moves; whether another seed, the same seed and half the rate give the same; two steps."""
    first, second, again, half, _ = map(_steps_of, values[_AGAIN], calls[_AGAIN])
    moves = np.abs(first).max() > 0
    return moves, _same_step(first, second), _same_step(first, again), _same_step(first, half), first, half


def _learning_rate_fixed(values, calls):
    moves, _, again, half_is_same, *_ = _again(values, calls)
    return moves and again and half_is_same


def _own_generator(values, calls):
    moves, another, *_ = _again(values, calls)
    return moves and another


def _no_generator(values, calls):
    _, another, again, half_is_same, *_ = _again(values, calls)
    return not (another or again or half_is_same) and _learns(values, calls)


def _more_than_one_step(values, calls):
    moves, another, again, half_is_same, first, half = _again(values, calls)
    return moves and again and not another and not half_is_same and not _same_step(first, 2 * half)


def _starts_again(values, calls):
    """Ten iterations move the policy no further than one could."""
    once, free, _ = _clip_moves(values, calls)
    return free < 1.6 * once and not _same(once, free) and not _learns(values, calls)


def _moves_without_signal(values, calls):
    return _moved(values[_GROUP][0], calls[_GROUP][0], _IMPOSSIBLE) > 1e-6


def _penalty_without_effect(values, calls):
    free, held = (_drift(value, one) for value, one in zip(values[_KL], calls[_KL], strict=True))
    return free > 1e-4 and held > 0.9 * free


def _runs_after_large_values(values, calls):
    """Responses become larger, not more right, and the rows of the impossible prompt move too."""
    growth = []
    for value, one in zip(values[:_SOON_SOLVED], calls[:_SOON_SOLVED], strict=True):
        policy = _read(value, one)
        for target in one.args[1]:
            before, after = (tables.expression_probs(x, target) @ _VALUES for x in (one.args[0], policy))
            growth.append(after - before)
    hunts = np.mean(growth) > 3 and not _learns(values, calls) and _moves_without_signal(values, calls)
    return hunts and not _equal_rewards_move(values, calls)


def _train_on_the_start(start, targets, steps, rng, **settings):
    """The right policy comes back, written into the arrays that came in."""
    for state, logits in tables.train_tabular(start, targets, steps, rng, **settings).items():
        start[state][:] = logits
    return start


def _watched(fn, names):
    """An adapter: where the penalty is strong, a start that was changed in place is told in a sentence."""

    @functools.wraps(fn)
    def calls_and_looks(start, *args, **kwargs):
        before = {state: np.array(logits) for state, logits in start.items()}
        policy = fn(start, *args, **kwargs)
        if kwargs.get("kl_coef") == _STRONG and not unchanged(before, start):
            return _CHANGED
        return policy

    return calls_and_looks


def _train_prompt_by_prompt(
    start, targets, steps, rng, group_size=8, inner_updates=1, learning_rate=3.0, clip_eps=0.2, kl_coef=0.04
):
    """Each prompt has rows of its own, so it can be trained by itself; log-probs as captured while sampling."""
    policy = {state: np.array(logits) for state, logits in start.items()}
    for target in targets:
        for _ in range(steps):
            group = tables.sample_rollouts(policy, target, group_size, rng)
            rollouts = [tokens for tokens, _ in group]
            rewards = [tables.verify_expression(tokens, target)[1] for tokens in rollouts]
            advantages = grpo.group_relative_advantage(rewards, group_size)[0]
            ref, mask = tables.score_rollouts(start, [target] * group_size, rollouts)
            old = np.zeros(ref.shape)
            for row, (_, logps) in zip(old, group, strict=True):
                row[: len(logps)] = logps
            for _ in range(inner_updates):
                new, _ = tables.score_rollouts(policy, [target] * group_size, rollouts)
                pulls = tables.token_coefficients(new, old, ref, mask, advantages, clip_eps, kl_coef) / len(targets)
                policy = tables.tabular_update(policy, [target] * group_size, rollouts, pulls, learning_rate)
    return policy


def _train_row_by_row(
    start, targets, steps, rng, group_size=8, inner_updates=1, learning_rate=3.0, clip_eps=0.2, kl_coef=0.04
):
    """One rollout at a time for the coefficients; the gradient is added up over the batch; rows as lists."""
    policy = {state: list(logits) for state, logits in start.items()}
    n = len(targets) * group_size
    for _ in range(steps):
        batch = []
        for target in reversed(targets):
            group = tables.sample_rollouts(policy, target, group_size, rng)
            rewards = np.array([tables.verify_expression(tokens, target)[1] for tokens, _ in group])
            if np.ptp(rewards) == 0:
                centred = np.zeros(group_size)
            else:
                centred = (rewards - rewards.mean()) / (rewards.std(ddof=1) + 1e-4)
            batch += [(target, tokens, np.array([logps]), a) for (tokens, logps), a in zip(group, centred, strict=True)]
        for _ in range(inner_updates):
            prompts, rollouts = [row[0] for row in batch], [row[1] for row in batch]
            rows = []
            for target, tokens, old, a in batch:
                new, mask = tables.score_rollouts(policy, [target], [tokens])
                ref, _ = tables.score_rollouts(start, [target], [tokens])
                rows.append(tables.token_coefficients(new, old, ref, mask, [a], clip_eps, kl_coef)[0] / n)
            updated = tables.tabular_update(
                {state: np.array(row) for state, row in policy.items()}, prompts, rollouts, rows, learning_rate
            )
            policy = {state: row.tolist() for state, row in updated.items()}
    return policy


TRAIN_TABULAR = Exercise(
    name="train_tabular",
    chapter=CHAPTER,
    difficulty=3,
    minutes=30,
    reference=tables.train_tabular,
    parts=(
        Part(
            says="it learns: exact success rises for every prompt, on fresh seeds",
            points=2,
            calls=_learn_calls,
            holds=_it_learns,
            hint="Draw new rollouts in every iteration, from the policy as it is then, and for every prompt. The new "
            "policy of one update is where the next one starts.",
        ),
        Part(
            says="advantages within each group, divided by its std, and one step for all prompts",
            points=1,
            calls=_group_calls,
            holds=_prompts_share_a_step,
            hint="Whom is a rollout compared with, and in which unit? Equal rewards in a group must give advantages 0, "
            "whatever the other prompts did. And the rollouts of all prompts are one batch: one update for all.",
        ),
        Part(
            says="several updates on one batch: the clip stops them",
            points=2,
            calls=_clip_calls,
            holds=_clip_limits,
            hint="Which log-probs belong to the moment of sampling, and which ones to the moment of the update? Only "
            "the second kind is computed inside the inner loop.",
        ),
        Part(
            says="the penalty holds the policy near its start, and the start stays as it is",
            points=1,
            calls=_kl_calls,
            holds=_penalty_holds,
            hint="The reference is the start, from the first iteration to the last.",
        ),
        Part(
            says="seed, learning rate and group size decide: a run can be repeated",
            points=1,
            calls=_again_calls,
            holds=_run_can_be_repeated,
            hint="Draw from the `rng` that is handed in, and from nothing else. `learning_rate` is a factor of each "
            "step, and `group_size` says how many rollouts each prompt gets.",
        ),
    ),
    mistakes=(
        Mistake(
            "value taken for the reward",
            _loop(reward_of=lambda verdict: float(verdict[0])),
            "The policy learns to write large numbers: the value of the expression was taken for its reward.",
            symptom=_runs_after_large_values,
        ),
        Mistake(
            "one iteration too few",
            _loop(fewer=1),
            "With `steps=1` nothing moves: the loop makes one iteration less than `steps` says.",
            symptom=_one_iteration_too_few,
        ),
        Mistake(
            "one iteration too many",
            _loop(fewer=-1),
            "With `steps=1` and one update per batch the policy makes more than one step: half the learning rate does "
            "not give half the change. Does a loop run once too often?",
            symptom=_more_than_one_step,
        ),
        Mistake(
            "return after the first update",
            _loop(stop="update"),
            "One update is all that is ever made, whatever `steps` and `inner_updates` say. Does the `return` stand "
            "inside a loop?",
            symptom=_first_update_only,
        ),
        Mistake(
            "return after the first iteration",
            _loop(stop="iteration"),
            "One iteration is all that is ever made, whatever `steps` says. Does the `return` stand inside the loop?",
            symptom=_one_iteration_only,
        ),
        Mistake(
            "learning rate ignored",
            _loop(rate=3.0),
            "`learning_rate` changes nothing: the steps have the same length whatever it says.",
            symptom=_learning_rate_fixed,
        ),
        Mistake(
            "reseeded inside",
            _loop(rng_of=lambda: np.random.default_rng(0)),
            "Two generators with different seeds give the same policy: the function makes a generator of its own, with "
            "a seed of its own. Then many seeds are one run, many times.",
            symptom=_own_generator,
        ),
        Mistake(
            "rng ignored",
            _loop(rng_of=np.random.default_rng),
            "The same seed gives different rollouts: the draws do not come from the `rng` of the argument. Nobody "
            "could repeat such a run.",
            symptom=_no_generator,
        ),
        Mistake(
            "downhill instead of uphill",
            _loop(sign=-1.0),
            "The policy unlearns: with every iteration right responses become less likely. Somewhere a sign is turned: "
            "these coefficients point uphill.",
            symptom=_unlearns,
        ),
        Mistake(
            "start returned",
            _loop(keep=False),
            "The policy that comes back is the start: what was trained got lost, or nothing ever moved.",
            symptom=_never_moves,
        ),
        Mistake(
            "one prompt only",
            _loop(targets_of=lambda targets, rng: targets[:1]),
            "Only the rows of the first prompt move; the others never get a rollout.",
            symptom=_one_prompt_only,
        ),
        Mistake(
            "advantage not from the group",
            _loop(advantages_of=_batch_advantages),
            "A prompt whose rollouts all earn the same still moves the policy: the rewards were compared with those of "
            "other prompts (the whole batch, say), so that hard prompts are punished for being hard.",
            symptom=lambda values, calls: (
                _moves_without_signal(values, calls) and not _equal_rewards_move(values, calls)
            ),
        ),
        Mistake(
            "rewards taken for advantages (no mean subtracted)",
            _loop(advantages_of=lambda prompts, rewards, size: np.array(rewards)),
            "Rollouts that all earn the same still move the policy: nothing was subtracted from the rewards. Then "
            "every rollout that earns anything is made likelier, right or wrong. An advantage says how much better a "
            "rollout is than the mean of its group.",
            symptom=_equal_rewards_move,
        ),
        Mistake(
            "std left out of the advantages",
            _loop(advantages_of=_centred),
            "Nothing moves where all rewards are equal, and elsewhere the steps are too short, as if the advantages "
            "had not been divided by the std of the rewards. Prompts that are solved rarely, or nearly always, then "
            "learn slowest.",
            symptom=_steps_without_std,
        ),
        Mistake(
            "group_size ignored",
            _loop(size=8),
            "`group_size` changes nothing: each prompt gets the same number of rollouts, whatever it says.",
            symptom=_group_size_ignored,
        ),
        Mistake(
            "one prompt in each iteration",
            _loop(targets_of=lambda targets, rng: [targets[rng.integers(len(targets))]]),
            "An iteration on two prompts moves the rows of one of them only. Each iteration draws a group for every "
            "prompt.",
            symptom=_one_prompt_at_a_time,
        ),
        Mistake(
            "an update of its own for each prompt",
            _train_in_turn,
            "With two prompts each moves as far as it would alone. The rollouts of all prompts are one batch, and its "
            "N counts all of them; here each prompt got an update of its own, with an N that is too small. The step "
            "then grows with the number of prompts.",
            symptom=_a_step_for_each_prompt,
        ),
        Mistake(
            "clip_eps and kl_coef not handed on",
            _loop(settings=lambda clip_eps, kl_coef: (0.2, 0.04)),
            "Neither `clip_eps` nor `kl_coef` changes anything. Do both of them reach the coefficients, or do their "
            "defaults act there, whatever your function was given?",
            symptom=_settings_lost,
        ),
        Mistake(
            "clip_eps and kl_coef swapped",
            _loop(settings=lambda clip_eps, kl_coef: (kl_coef, clip_eps)),
            "With `kl_coef=0` the coefficients complain about a clip range of 0. The two settings arrive in each "
            "other's place: look at the order of the arguments, or pass them by name.",
        ),
        Mistake(
            "old recomputed (the clip never acts)",
            _loop(batch_old=False),
            "The clip changes nothing. Either `clip_eps` does not reach the coefficients, or each ratio is 1 in every "
            "update: the old log-probs follow the policy (or new rollouts are drawn) although they belong to the "
            "moment of sampling, or the new ones are not computed again although the policy has moved.",
            symptom=_clip_never_acts,
        ),
        Mistake(
            "new and old exchanged",
            _loop(exchanged=True),
            "New and old log-probs are exchanged, so every ratio stands on its head: what became likelier counts as "
            "less likely. The clip then shuts the wrong tokens, and several updates run away.",
        ),
        Mistake(
            "one update per batch only",
            _loop(inner=1),
            "`inner_updates` changes nothing: a batch is used the same number of times, whatever it says.",
            symptom=_one_update_only,
        ),
        Mistake(
            "every update starts again from the start",
            _loop(step_from="start"),
            "The policy never gets further than one update away from its start: each update is made on the start, not "
            "on the policy of the update before.",
            symptom=_starts_again,
        ),
        Mistake(
            "reference trained along (or no penalty)",
            _loop(ref="policy"),
            "`kl_coef` changes nothing. The reference follows the policy, so the penalty compares the policy with "
            "itself; or the penalty is missing, or `kl_coef` is not handed on.",
            symptom=_only_the_penalty_is_lost,
        ),
        Mistake(
            "rollouts always drawn from the start",
            _loop(drawn_from="start"),
            "Where all responses have become right, the policy is still moved by wrong ones. Which policy writes the "
            "rollouts of the second iteration? If it is still the start, what was learned is never tried: right "
            "answers stay as rare in the batches as they were.",
            symptom=_learns_again_what_is_solved,
        ),
        Mistake(
            "one batch for the whole run",
            _loop(one_batch=True),
            "In a long run only a few rows move: those that the first rollouts came through. Each iteration needs "
            "rollouts of its own; else the policy learns one batch by heart.",
            symptom=_few_rows,
        ),
        Mistake(
            "the start changed in place",
            _train_on_the_start,
            "The table that came in was changed. It is the start of the run and its reference: whoever calls has lost "
            "the one, and the penalty compares with the other. Make new tables; note that a copied dict still holds "
            "the same arrays.",
            symptom=_changes_the_start,
        ),
    ),
    alternatives=(
        Alternative("prompt by prompt, log-probs as captured", _train_prompt_by_prompt),
        Alternative("row by row, lists", _train_row_by_row),
    ),
    hint="Everything that belongs to the batch is computed before the inner loop, everything that belongs to the "
    "policy inside it.",
    adapter=_watched,
)
