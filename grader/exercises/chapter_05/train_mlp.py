"""The exercise `train_mlp`: its parts, its known mistakes, and correct alternatives."""

from __future__ import annotations

import itertools

import numpy as np

from grader.compare import as_numbers
from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.exercises.chapter_05.common import CHAPTER, PARAMETERS, draw_seed
from grpo.expressions import (
    Evaluator,
    MLPPolicy,
    TableReward,
    expression_task,
    group_advantages,
    one_hot_features,
    token_loss,
    token_weights,
)
from grpo.expressions.advantages import global_advantages
from grpo.expressions.networks import train_mlp

REWARD = TableReward(expression_task())
START = 0.075  # the mean exact success of an untrained policy, about


def _train(
    seeds, steps, learning_rate, kl_coef, inner_updates,
    advantage=group_advantages, average="sum", direction=-1.0, kl_sign=1.0, old="kept", reference="start",
    forget="every step", one_batch=False, rngs_of=None, group_size=8, more_steps=0, more_updates=0, still=(),
    clip_eps=0.2, kind="k3_capped", sampler="policy", new="every update", resample=False, exchanged=False,
):  # fmt: skip
    """The loop written out, with the places where it goes wrong as arguments."""
    rngs = [np.random.default_rng(seed) for seed in seeds] if rngs_of is None else rngs_of(seeds)
    policy = MLPPolicy(one_hot_features(10), rngs)
    frozen = policy if reference == "live" else policy.frozen_copy()
    first = policy.sample(None, group_size, rngs) if one_batch else None
    for _ in range(steps + more_steps):
        for update in range(inner_updates + more_updates):
            if update == 0 or resample:
                rollouts = first or (frozen if sampler == "reference" else policy).sample(None, group_size, rngs)
                advantages = advantage(REWARD(rollouts))
                weights = token_weights(rollouts.mask, rollouts.lengths, average)
                ref_logps = frozen.token_logprobs(rollouts)
            if update == 0 or new == "every update":
                new_logps = policy.token_logprobs(rollouts)
            old_logps = new_logps if old == "recomputed" else rollouts.logps
            pair = (old_logps, new_logps) if exchanged else (new_logps, old_logps)
            loss = token_loss(*pair, ref_logps, advantages, weights, clip_eps, kl_sign * kl_coef, kind)
            gradient = policy.gradient(rollouts, loss.coefficients)
            for name, value in policy.parameters.items():
                if name not in still:
                    value += direction * learning_rate * gradient[name]
            if forget == "every step":
                policy.parameters_changed()
        if forget == "every batch":
            policy.parameters_changed()
    return policy.parameters


def _changed(**places):
    def wrong(seeds, steps, learning_rate=0.3, kl_coef=0.04, inner_updates=1):
        return _train(seeds, steps, learning_rate, kl_coef, inner_updates, **places)

    return wrong


def _no_step(seeds, steps, learning_rate=0.3, kl_coef=0.04, inner_updates=1):
    return MLPPolicy(one_hot_features(10), [np.random.default_rng(seed) for seed in seeds]).parameters


def _one_update_only(seeds, steps, learning_rate=0.3, kl_coef=0.04, inner_updates=1):
    return _train(seeds, steps, learning_rate, kl_coef, 1)


def _fixed_rate(seeds, steps, learning_rate=0.3, kl_coef=0.04, inner_updates=1):
    return _train(seeds, steps, 0.3, kl_coef, inner_updates)


def _fixed_penalty(seeds, steps, learning_rate=0.3, kl_coef=0.04, inner_updates=1):
    return _train(seeds, steps, learning_rate, 0.04, inner_updates)


def _no_penalty(seeds, steps, learning_rate=0.3, kl_coef=0.04, inner_updates=1):
    return _train(seeds, steps, learning_rate, 0.0, inner_updates)


def _two_settings_swapped(seeds, steps, learning_rate=0.3, kl_coef=0.04, inner_updates=1):
    return _train(seeds, steps, learning_rate, 0.2, inner_updates, clip_eps=kl_coef)


def _places_for_seeds(seeds):
    return [np.random.default_rng(place) for place in range(len(seeds))]


def _one_generator(seeds):
    return [np.random.default_rng(seeds[0])] * len(seeds)


def _always_seed_0(seeds):
    return [np.random.default_rng(0) for _ in seeds]


def _first_seed_only(seeds, steps, learning_rate=0.3, kl_coef=0.04, inner_updates=1):
    return {
        name: value[0] for name, value in train_mlp(seeds[:1], steps, learning_rate, kl_coef, inner_updates).items()
    }


def _raw(rewards):
    return rewards


def _without_std(rewards):
    return group_advantages(rewards, divide=False)


def _all_seeds_in_one(rewards):
    return group_advantages(rewards.reshape(1, 1, -1)).reshape(rewards.shape)


def _seed_by_seed(seeds, steps, learning_rate=0.3, kl_coef=0.04, inner_updates=1):
    """One seed after another, and the coefficients of the loss written out."""
    found = {name: [] for name in PARAMETERS}
    for seed in seeds:
        rngs = [np.random.default_rng(seed)]
        policy = MLPPolicy(one_hot_features(10), rngs)
        reference = policy.frozen_copy()
        for _ in range(steps):
            rollouts = policy.sample(None, 8, rngs)
            rewards = REWARD(rollouts)
            spread = rewards.std(axis=2, ddof=1, keepdims=True)
            a = ((rewards - rewards.mean(axis=2, keepdims=True)) / (spread + 1e-4))[..., np.newaxis]
            ref = reference.token_logprobs(rollouts)
            for _ in range(inner_updates):
                new = policy.token_logprobs(rollouts)
                ratio = np.exp(new - rollouts.logps)
                shut = ((ratio > 1.2) & (a > 0)) | ((ratio < 0.8) & (a < 0))
                pull = kl_coef * (np.exp(np.minimum(ref - new, 1.0)) - 1.0)
                up = rollouts.mask * (np.where(shut, 0.0, a * ratio) + pull) / rollouts.lengths.size
                gradient = policy.gradient(rollouts, up)
                for name, value in policy.parameters.items():
                    value += learning_rate * gradient[name]
                policy.parameters_changed()
        for name in PARAMETERS:
            found[name].append(policy.parameters[name][0].tolist())
    return found


# --- what comes back, judged exactly ---------------------------------------------------------------------------------


def _policies(value, seeds):
    """(trained, untrained) policies with one entry per seed, or a sentence that says why not."""
    start = MLPPolicy(one_hot_features(10), [np.random.default_rng(seed) for seed in seeds])
    if not isinstance(value, dict) or set(value) != set(PARAMETERS):
        return "a dict with the parameters w1, b1, w2 and b2 is due"
    trained = start.frozen_copy()
    for name in PARAMETERS:
        array, shape = as_numbers(value[name]), trained.parameters[name].shape
        if array is None or array.shape != shape:
            found = "no array of numbers" if array is None else f"of shape {array.shape}"
            many = "one seed" if len(seeds) == 1 else f"{len(seeds)} seeds"
            return f"{name} is {found}; with {many} it has shape {shape}"
        if not np.isfinite(array).all():
            return f"{name} holds NaN or infinity"
        trained.parameters[name][...] = array
    trained.parameters_changed()
    return trained, start


def _scores(value, seeds):
    """Evaluation of the trained policies, with the KL to their own start; or the sentence."""
    found = _policies(value, seeds)
    if isinstance(found, str):
        return found
    trained, start = found
    return Evaluator(REWARD.correct, reference=start)(trained)


def _company_calls(rng):
    first, second = draw_seed(rng), draw_seed(rng)
    return [
        call([first], 4),
        call([second, first], 4, note="the same seed, and another one before it"),
        *(call([first], 1, learning_rate=rate, note="one iteration, one update") for rate in (0.5, 1.0, 1.5)),
    ]


def _alone_and_in_company(values, calls):
    for i, (value, one) in enumerate(zip(values, calls, strict=True)):
        found = _policies(value, one.args[0])
        if isinstance(found, str):
            return i, found
        trained, start = found
        still = [name for name in PARAMETERS if np.array_equal(trained.parameters[name], start.parameters[name])]
        if len(still) == len(PARAMETERS):
            return i, "the parameters are those of the start: nothing was trained"
        if still:
            return i, f"{' and '.join(still)} did not change at all; all four parameters are to be trained"
    alone, together, *steps = ({name: as_numbers(value[name]) for name in PARAMETERS} for value in values)
    if np.allclose(together["w1"][0], together["w1"][1]):
        return 1, "two different seeds give the same policy"
    if not all(np.allclose(alone[name][0], together[name][1], rtol=1e-4, atol=1e-6) for name in PARAMETERS):
        return 1, (
            "a seed gives one policy alone and another one beside a second seed: does each have a generator of its "
            "own, made from the seed, and is any mean or std taken over several seeds?"
        )
    # One update from one batch is a straight line in the learning rate; whoever samples or steps twice leaves it.
    once, twice = (
        np.concatenate([np.ravel(after[name] - before[name]) for name in PARAMETERS]).astype(float)
        for before, after in itertools.pairwise(steps)
    )
    if not np.linalg.norm(once) > 1e-4:
        return 3, "after one update with the learning rates .5, 1 and 1.5 the weights are the same"
    if np.linalg.norm(twice - once) > 1e-3 * np.linalg.norm(once):
        return 3, (
            "with one iteration of one update the weights are no straight line in the learning rate: there are more "
            "updates than asked for, or another kind of step"
        )
    return None


def _success_calls(rng):
    return [call([draw_seed(rng) for _ in range(5)], 40, learning_rate=0.6)]


def _success_is_high(values, calls):
    """Of 400 draws of five seeds the right loop reached .40 at least, and the best of the mistakes .30 at most."""
    scores = _scores(values[0], calls[0].args[0])
    if isinstance(scores, str):
        return scores
    mean = scores.exact_success.mean()
    if mean < 0.35:
        return (
            f"after 40 iterations the five policies answer right with probability {mean:.3f} on average; above .35 is "
            f"due (untrained ones are near {START})"
        )
    return None


def _clip_calls(rng):
    seeds = [draw_seed(rng) for _ in range(4)]
    return [
        call(seeds, 1, learning_rate=1.0, kl_coef=0.0, inner_updates=20),
        call(seeds, 1, learning_rate=1.0, kl_coef=0.0, inner_updates=1),
    ]


def _clip_holds(values, calls):
    scores = [_scores(value, one.args[0]) for value, one in zip(values, calls, strict=True)]
    for i, found in enumerate(scores):
        if isinstance(found, str):
            return i, found
    if np.allclose(scores[0].kl, scores[1].kl):
        return "20 updates on a batch end where one update does"
    if scores[1].kl.mean() < 1e-4:
        return 1, "the policy did not move"
    if scores[0].kl.mean() > 0.5:
        return (
            f"20 updates on one batch carried the policy {scores[0].kl.mean():.2f} nats away; the clip should have "
            "ended that early"
        )
    return None


def _kl_calls(rng):
    return [call([draw_seed(rng) for _ in range(4)], 20, learning_rate=0.25, kl_coef=1.5, inner_updates=2)]


def _penalty_holds(values, calls):
    scores = _scores(values[0], calls[0].args[0])
    if isinstance(scores, str):
        return scores
    kl = scores.kl.mean()
    if kl > 0.18:
        return (
            f"with kl_coef 1.5 the policies ended {kl:.2f} nats from the start that their seeds give; the penalty "
            "should have held them"
        )
    if kl < 5e-4:
        return "with kl_coef 1.5 the policy is still its start: it should move a little"
    return None


def _pinned_calls(rng):
    seeds = [draw_seed(rng) for _ in range(3)]
    return [
        call(seeds[:1], 1, learning_rate=2.0, kl_coef=0.0, note="one iteration, one update, no penalty"),
        call(seeds[1:2], 1, learning_rate=1.0, kl_coef=0.0, inner_updates=6, note="six updates on one batch"),
        call(seeds[2:], 8, learning_rate=1.5, kl_coef=0.5, inner_updates=2, note="a heavy penalty"),
    ]


_PINNED = (
    "after one update the weights are not those that this seed gives: what belongs to a batch (group of 8, advantages "
    "within each group, token sum) or the generator of the draws is another one",
    "one update would be right, six on a batch are not: look at the clip range .2, at the new and the old log-probs",
    "without a penalty all is right, with one it is not: look at its kind, its weight and its reference, and at the "
    "batches after the first",
)


def _weights_are_those_of_the_seed(values, calls):
    for i, (value, one) in enumerate(zip(values, calls, strict=True)):
        found = _policies(value, one.args[0])
        if isinstance(found, str):
            return i, found
        if not _same_weights(found[0].parameters, train_mlp(*one.args, **one.kwargs)):
            return i, _PINNED[i]
    return None


def _same_weights(mine, theirs):
    return all(
        np.shape(mine[name]) == np.shape(theirs[name])
        and np.allclose(mine[name], theirs[name], rtol=1e-5, atol=1e-6, equal_nan=True)
        for name in PARAMETERS
    )


# Calls that train for a few updates only, the most telling one first; no two of the mistakes answer all of them alike.
_SHORT = (5, 0, 6, 7, 1, 2)


def _mistake(name, code, says):
    """A mistake that is recognised by the weights of the short calls: comparing all of them would take too long."""

    def symptom(values, calls):
        for i in _SHORT:
            with np.errstate(all="ignore"):  # a mistake may overflow
                theirs = code(*calls[i].args, **calls[i].kwargs)
            if not _same_weights(values[i], theirs):
                return False
        return True

    return Mistake(name, code, says, symptom)


TRAIN_MLP = Exercise(
    name="train_mlp",
    chapter=CHAPTER,
    difficulty=3,
    minutes=30,
    reference=train_mlp,
    parts=(
        Part(
            says="trained weights come back; a seed gives the same policy alone and in company; one update is one step",
            points=1,
            calls=_company_calls,
            holds=_alone_and_in_company,
            hint="One generator per seed, in the order of the seeds, for its start and its draws. As many iterations "
            "and updates as the arguments say. What comes back is `policy.parameters`.",
        ),
        Part(
            says="the first updates are those that the pinned settings and the seed give",
            points=1,
            calls=_pinned_calls,
            holds=_weights_are_those_of_the_seed,
            hint="Everything that the text pins shows here: ten prompts, groups of 8, advantages within the group, "
            "token sum, clip .2, the capped penalty, plain steps; and a generator per seed, for start and draws.",
        ),
        Part(
            says="exact success on five fresh seeds",
            points=2,
            calls=_success_calls,
            holds=_success_is_high,
            hint="Sample anew in every iteration, compare within the group, step down the loss, and tell the policy "
            "that its parameters have changed.",
        ),
        Part(
            says="20 updates on one batch: the clip ends them",
            points=1,
            calls=_clip_calls,
            holds=_clip_holds,
            hint="The old log-probs were captured while sampling and stay the same for all updates on a batch. The new "
            "ones must be new in every update.",
        ),
        Part(
            says="a heavy penalty keeps the policy near its start",
            points=1,
            calls=_kl_calls,
            holds=_penalty_holds,
            hint="`kl_coef` is the weight of the penalty, and the penalty is the one that the exercise pins. Its "
            "reference is a copy made before the first step, and nobody trains it.",
        ),
    ),
    mistakes=(
        _mistake(
            "uphill",
            _changed(direction=1.0),
            "The step goes up the loss: success falls to 0, below that of the start. Gradients of a loss are "
            "subtracted.",
        ),
        _mistake(
            "rewards for advantages",
            _changed(advantage=_raw),
            "The rewards themselves were used. They are never negative, so every answer is pushed up, the right ones "
            "only a little more: it learns slowly.",
        ),
        _mistake(
            "std not divided (Dr. GRPO)",
            _changed(advantage=_without_std),
            "The group mean is subtracted, the std is not divided by. That is Dr. GRPO: a method of its own, with "
            "shorter steps at this learning rate.",
        ),
        _mistake(
            "token mean",
            _changed(average="mean"),
            "The tokens of a rollout are averaged. Here their sum is asked for; at this learning rate the mean is a "
            "step about five times shorter.",
        ),
        _mistake(
            "old recomputed (ratio always 1)",
            _changed(old="recomputed"),
            "The old log-probs were computed anew in every update, so the ratio is always 1 and the clip never acts: "
            "one batch can carry the policy as far as it likes.",
        ),
        _mistake(
            "new computed once",
            _changed(new="once"),
            "The new log-probs were computed once for each batch, so after the first update the loss still sees those "
            "of its beginning: the ratio stays 1 and the clip never acts. Ask the policy again in every update.",
        ),
        _mistake(
            "fresh rollouts in every update",
            _changed(resample=True),
            "Every update draws rollouts of its own. Then no ratio ever leaves 1, and `inner_updates` only multiplies "
            "the iterations. One batch per iteration, several updates on it.",
        ),
        _mistake(
            "new and old exchanged",
            _changed(exchanged=True),
            "New and old log-probs were handed over in the wrong order, so the ratio is turned over: it falls when a "
            "token becomes more likely, and the clip acts on the wrong side.",
        ),
        _mistake(
            "rollouts from the reference",
            _changed(sampler="reference"),
            "The rollouts come from the frozen reference. The policy never sees what it does itself, and the clip soon "
            "ends every update: sample from the policy that is trained.",
        ),
        _mistake(
            "group of 16",
            _changed(group_size=16),
            "Every prompt got 16 rollouts. The exercise pins a group of 8, so that all runs use the same number of "
            "rollouts.",
        ),
        _mistake(
            "clip .1",
            _changed(clip_eps=0.1),
            "The clip range is .1. Pinned is .2: it shows when a batch is used several times.",
        ),
        _mistake(
            "k3 not capped",
            _changed(kind="k3"),
            "The penalty is plain k3 (that of `token_loss`, if no kind is named). It pulls without bound at tokens "
            "that the policy gave up; the exercise pins the capped one. Part 6 shows what plain k3 does.",
        ),
        _mistake(
            "clip .1 and k3 not capped",
            _changed(clip_eps=0.1, kind="k3"),
            "Two pinned settings are others: the clip range is .1 in place of .2, and the penalty is plain k3, not the "
            "capped one.",
        ),
        _mistake(
            "one mean and std for all prompts",
            _changed(advantage=global_advantages),
            "The mean and the std were taken over all rollouts of a seed. A prompt that is hard then counts as bad; "
            "compare the eight rollouts of one prompt with each other.",
        ),
        _mistake(
            "one mean and std for all seeds",
            _changed(advantage=_all_seeds_in_one),
            "The mean and the std were taken over the rewards of all seeds together. What a seed gives then depends on "
            "its neighbours. Compare the eight rollouts of one prompt of one seed.",
        ),
        _mistake(
            "kl_coef ignored",
            _fixed_penalty,
            "The weight of the penalty is .04, whatever `kl_coef` is passed in.",
        ),
        _mistake(
            "kl_coef and clip range exchanged",
            _two_settings_swapped,
            "The clip range and the weight of the penalty have changed places in the call of the loss.",
        ),
        _mistake(
            "places for seeds",
            _changed(rngs_of=_places_for_seeds),
            "The generators are made from 0, 1, 2, ..., the places of the seeds in the list, and not from the seeds.",
        ),
        _mistake(
            "one update only",
            _one_update_only,
            "`inner_updates` changes nothing: each batch is used once.",
        ),
        _mistake(
            "no penalty",
            _no_penalty,
            "Nothing holds the policy back: these are the weights of a run without a penalty. `kl_coef` is not handed "
            "on, or the penalty compares the policy with itself, anew in every update.",
        ),
        _mistake(
            "reference trained along",
            _changed(reference="live"),
            "Nothing holds the policy back: the reference moves along with it. It is the policy itself under another "
            "name, or copied anew in every iteration. Copy it once, before the first step.",
        ),
        _mistake(
            "KL wrong sign",
            _changed(kl_sign=-1.0),
            "The penalty pushes away from the reference. With a small kl_coef nobody would notice.",
        ),
        _mistake(
            "changes not announced",
            _changed(forget="never"),
            "The policy was not told that its parameters changed, so it goes on with the log-probs of its start: it "
            "samples from them and computes gradients with them.",
        ),
        _mistake(
            "changes announced after the batch",
            _changed(forget="every batch"),
            "The policy hears of its new parameters only when the batch is done, so all updates on it see the "
            "log-probs of its beginning: the clip never acts. Tell it after every step.",
        ),
        _mistake(
            "one iteration too many",
            _changed(more_steps=1),
            "With one iteration asked for, two are made. Count how often the loop over the steps runs.",
        ),
        _mistake(
            "one iteration too few",
            _changed(more_steps=-1),
            "With one iteration asked for, none is made. Count how often the loop over the steps runs.",
        ),
        _mistake(
            "one update too many",
            _changed(more_updates=1),
            "With one update asked for, two are made on each batch. Count how often the inner loop runs.",
        ),
        _mistake(
            "learning rate ignored",
            _fixed_rate,
            "Every step is as long as with the learning rate .3, whatever `learning_rate` is passed in.",
        ),
        _mistake(
            "biases not trained",
            _changed(still=("b1", "b2")),
            "The weights are trained, the biases are those of the start. All four parameters have a gradient.",
        ),
        _mistake(
            "sampled once",
            _changed(one_batch=True),
            "All iterations use the batch of the first one. It is soon squeezed dry: fresh rollouts are what a better "
            "policy learns from.",
        ),
        _mistake(
            "nothing trained",
            _no_step,
            "The weights are those of the start. `value = value - step` makes a new array and leaves the policy as it "
            "is; `value -= step` changes it.",
        ),
        _mistake(
            "one generator for all seeds",
            _changed(rngs_of=_one_generator),
            "All policies draw from the same generator. What a seed gives then depends on its neighbours, and nobody "
            "can run one seed again alone.",
        ),
        _mistake(
            "seeds ignored",
            _changed(rngs_of=_always_seed_0),
            "All seeds give the same policy: the generators do not depend on them.",
        ),
        _mistake(
            "first seed only",
            _first_seed_only,
            "One policy came back, without the axis of the seeds.",
        ),
    ),
    alternatives=(
        Alternative("seed by seed, loss written out", _seed_by_seed),
        Alternative("the loop with the library's loss", _changed()),
    ),
    hint="Five lines inside the loop over steps, five inside the loop over updates.",
)
