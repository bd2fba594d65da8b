"""The exercise `toy_grpo_step`: its parts, its known mistakes, and correct alternatives."""

from __future__ import annotations

import math

import numpy as np

import grpo
from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.exercises.chapter_03.common import CHAPTER, as_floats, toy_gradient_by_loop


def _step_mistake(advantages_of=None, gradient_of=None, update=None):
    """Make a wrong `toy_grpo_step` that differs from the right one in one of its three stages."""

    def wrong(logits, ref_logits, old_logits, actions, rewards, learning_rate=0.1, clip_eps=0.2, kl_coef=0.0,
              advantage_eps=1e-4):  # fmt: skip
        logits, ref, old, rewards = as_floats(logits, ref_logits, old_logits, rewards)
        actions = np.asarray(actions)
        if advantages_of is None:
            a = grpo.group_relative_advantage(rewards, len(rewards), advantage_eps).ravel()
        else:
            a = advantages_of(rewards, advantage_eps)
        settings = (clip_eps, kl_coef)
        gradient = (gradient_of or _step_gradient)(logits, ref, old, actions, a, *settings)
        if update is None:
            return logits - learning_rate * gradient
        return update(logits, old, learning_rate, gradient)

    return wrong


def _step_gradient(logits, ref, old, actions, a, clip_eps, kl_coef):
    log_softmax = grpo.log_softmax
    return grpo.toy_loss_gradient(
        logits, actions, a, log_softmax(old)[actions], log_softmax(ref)[actions], clip_eps, kl_coef
    )


def _step_logits_as_logps(logits, ref, old, actions, a, clip_eps, kl_coef):
    """Ratio and delta from raw logits: they agree with the right ones only while all policies are equal."""
    new, gate_of = logits[actions], grpo.clip_gate
    rho = np.exp(new - old[actions])
    slope = gate_of(rho, a, clip_eps) * a * rho + kl_coef * np.expm1(ref[actions] - new)
    return -grpo.policy_gradient_analytic(logits, actions, slope)


def _step_others_as_logps(logits, ref, old, actions, a, clip_eps, kl_coef):
    return grpo.toy_loss_gradient(logits, actions, a, old[actions], ref[actions], clip_eps, kl_coef)


def _with_ddof_0(rewards, eps):
    return (rewards - rewards.mean()) / (rewards.std() + eps)


def _step_by_loop(logits, ref_logits, old_logits, actions, rewards, learning_rate=0.1, clip_eps=0.2, kl_coef=0.0,
                  advantage_eps=1e-4):  # fmt: skip
    n = len(rewards)
    mean = sum(rewards) / n
    std = math.sqrt(sum((r - mean) ** 2 for r in rewards) / (n - 1))
    a = [(r - mean) / (std + advantage_eps) if std > 0 else 0.0 for r in rewards]
    old, ref = (np.log(grpo.softmax(x))[np.asarray(actions)] for x in (old_logits, ref_logits))
    gradient = toy_gradient_by_loop(list(logits), actions, a, old, ref, clip_eps, kl_coef)
    return [x - learning_rate * g for x, g in zip(logits, gradient, strict=True)]


def _step_by_differences(logits, ref_logits, old_logits, actions, rewards, learning_rate=0.1, clip_eps=0.2,
                         kl_coef=0.0, advantage_eps=1e-4):  # fmt: skip
    a = grpo.rollout_advantages([0] * len(rewards), rewards, len(rewards), advantage_eps)

    def loss(x):
        new, old, ref = (grpo.log_softmax(z)[actions] for z in (x, old_logits, ref_logits))
        return grpo.grpo_loss(np.exp(new - old), a, ref - new, clip_eps, kl_coef)

    return logits - learning_rate * grpo.finite_diff_gradient(loss, logits)


_GROUP = [0, 1, 2, 3, 0, 1, 2, 0]
_GROUP_REWARDS = [1.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]  # one answer is paid once and once not: a noisy verifier


def _step_group(rng):
    order = rng.permutation(8)
    return np.array(_GROUP)[order], np.array(_GROUP_REWARDS)[order]


def _three_policies(rng, moved=0.6):
    """Current, reference and old logits; the current policy has moved so far that the clip acts."""
    old = rng.uniform(-0.3, 0.3, 4)
    logits = old + moved * rng.permutation([1.0, 0.5, -0.6, -1.0])
    return logits, old + rng.permutation([0.5, -0.4, 0.3, -0.5]), old


def _first_steps(rng):
    zero = np.zeros(2)
    start = rng.uniform(-0.5, 0.5, 4)
    return [
        call(zero, zero, zero, np.array([0, 1]), np.array([1.0, 0.0]), learning_rate=1.0, advantage_eps=0.0),
        call(np.zeros(4), np.zeros(4), np.zeros(4), np.arange(4), np.array([1.0, 1.0, 0.0, 0.0])),
        call(start, start, start, *_step_group(rng), learning_rate=0.5),
    ]


def _later_steps(rng):
    zero, moved = np.zeros(2), np.array([0.35355, -0.35355])
    pair = np.array([0, 1]), np.array([1.0, 0.0])
    first, second = _three_policies(rng), _three_policies(rng)
    return [
        call(moved, zero, zero, *pair, learning_rate=1.0, advantage_eps=0.0, note="both ratios are clipped"),
        call(*first, *_step_group(rng), learning_rate=1.0),
        call(*second, *_step_group(rng), learning_rate=1.0, clip_eps=0.9),
    ]


def _step_kl_calls(rng):
    logits, ref, old = _three_policies(rng)
    zero, away = np.zeros(2), np.array([1.0, -1.0])
    equal = np.ones(8)
    return [
        call(away, zero, away, np.array([0, 1]), np.array([1.0, 1.0]), kl_coef=1.0, note="equal rewards: penalty only"),
        call(logits, ref, old, _step_group(rng)[0], equal, learning_rate=1.0, kl_coef=0.5),
    ]


def _step_sizes(rng):
    policies = _three_policies(rng, moved=0.1)
    group = _step_group(rng)
    return [call(*policies, *group, learning_rate=rate) for rate in (0.0, 0.1, 0.3)]


def _step_grows_with_rate(values, calls):
    start = np.asarray(calls[0].args[0], dtype=float)
    none, small, large = (np.asarray(value, dtype=float) - start for value in values)
    if not np.abs(none).max() < 1e-6:
        return "with learning rate 0 the logits still change"
    if not np.abs(small).max() > 1e-3:
        return "with learning rate .1 the logits do not change"
    if not np.allclose(large, 3 * small, rtol=1e-3, atol=1e-5):
        return "three times the learning rate does not make three times the step"
    return None


TOY_GRPO_STEP = Exercise(
    name="toy_grpo_step",
    chapter=CHAPTER,
    difficulty=2,
    minutes=15,
    reference=grpo.toy_grpo_step,
    parts=(
        Part(
            says="the first update of a group: three equal policies",
            points=2,
            calls=_first_steps,
            hint="Rewards become advantages, advantages a gradient, the gradient a step downhill.",
        ),
        Part(
            says="a later update of the same group: the old policy stays behind, the clip acts",
            points=2,
            calls=_later_steps,
            hint="Each of the three policies is an argument of its own. From which one do the old log-probs "
            "come, and from which one does the step start?",
        ),
        Part(
            says="the penalty compares with the reference",
            points=1,
            calls=_step_kl_calls,
            hint="With equal rewards every advantage is 0, and only the penalty moves the policy.",
        ),
        Part(
            says="the learning rate scales the step",
            points=1,
            calls=_step_sizes,
            holds=_step_grows_with_rate,
            hint="Learning rate 0 must leave everything as it was.",
        ),
    ),
    mistakes=(
        Mistake(
            "ascent instead of descent",
            _step_mistake(update=lambda logits, old, rate, gradient: logits + rate * gradient),
            "The step goes uphill on the loss: right answers become less likely with every update.",
        ),
        Mistake(
            "learning rate ignored",
            _step_mistake(update=lambda logits, old, rate, gradient: logits - gradient),
            "The step is the whole gradient: the learning rate plays no part.",
        ),
        Mistake(
            "gradient returned",
            _step_mistake(update=lambda logits, old, rate, gradient: gradient),
            "The gradient came back. The new logits are asked for.",
        ),
        Mistake(
            "step taken from the old policy",
            _step_mistake(update=lambda logits, old, rate, gradient: old - rate * gradient),
            "The step starts at the old policy, so every update undoes the one before. It is the current "
            "policy that is trained.",
        ),
        Mistake(
            "reference = old",
            _step_mistake(
                gradient_of=lambda logits, ref, old, actions, a, *rest: _step_gradient(
                    logits, old, old, actions, a, *rest
                )
            ),
            "The penalty compares with the old policy. That one follows the training, so the distance to "
            "the start can grow unnoticed.",
        ),
        Mistake(
            "no penalty (reference trained along, or KL forgotten)",
            _step_mistake(
                gradient_of=lambda logits, ref, old, actions, a, *rest: _step_gradient(
                    logits, logits, old, actions, a, *rest
                )
            ),
            "`kl_coef` changes nothing. Either the penalty is missing, or it compares the current policy "
            "with itself, which is always 0: the reference must stay where it was.",
        ),
        Mistake(
            "old refreshed (ratio always 1)",
            _step_mistake(
                gradient_of=lambda logits, ref, old, actions, a, *rest: _step_gradient(
                    logits, ref, logits, actions, a, *rest
                )
            ),
            "The old log-probs come from the current policy: the ratio is always 1 and the clip never acts, "
            "so one group can push the policy without an end.",
        ),
        Mistake(
            "old and reference swapped",
            _step_mistake(
                gradient_of=lambda logits, ref, old, actions, a, *rest: _step_gradient(
                    logits, old, ref, actions, a, *rest
                )
            ),
            "Old and reference are exchanged: the ratio needs the policy that sampled, the penalty the frozen one.",
        ),
        Mistake(
            "clip_eps not passed on",
            _step_mistake(
                gradient_of=lambda logits, ref, old, actions, a, eps, beta: _step_gradient(
                    logits, ref, old, actions, a, 0.2, beta
                )
            ),
            "The clip range is .2, whatever `clip_eps` is passed in.",
        ),
        Mistake(
            "clip_eps and kl_coef exchanged",
            _step_mistake(
                gradient_of=lambda logits, ref, old, actions, a, eps, beta: _step_gradient(
                    logits, ref, old, actions, a, beta, eps
                )
            ),
            "`clip_eps` and `kl_coef` have changed places: the clip closes at once, and a penalty acts where none "
            "was asked for. In which order does the gradient take them? Names are safer than places.",
        ),
        Mistake(
            "step times the group size",
            _step_mistake(
                gradient_of=lambda logits, ref, old, actions, a, *rest: (
                    len(actions) * _step_gradient(logits, ref, old, actions, a, *rest)
                )
            ),
            "The step is as many times too long as the group has rollouts. The gradient of the loss is a mean over "
            "the rollouts already; with a sum, the step would grow with the group.",
        ),
        Mistake(
            "old and reference logits taken for log-probs",
            _step_mistake(gradient_of=_step_others_as_logps),
            "The raw logits of the old policy and of the reference were used as log-probs. Even with three equal "
            "policies the ratios are then not 1. Logits become log-probs by log-softmax.",
        ),
        Mistake(
            "logits taken for log-probs",
            _step_mistake(gradient_of=_step_logits_as_logps),
            "Raw logits were used as log-probs. As long as all policies are equal nobody notices; then the "
            "ratios are wrong. Only after log-softmax are they log-probs.",
        ),
        Mistake(
            "ddof 0",
            _step_mistake(advantages_of=_with_ddof_0),
            "The step is a little too large: the advantages were divided by the population standard "
            "deviation. The course uses the sample standard deviation.",
        ),
        Mistake(
            "std not divided (Dr. GRPO)",
            _step_mistake(advantages_of=lambda rewards, eps: rewards - rewards.mean()),
            "The rewards were centred, but not divided by their standard deviation. That is Dr. GRPO: a "
            "real method, and another one.",
        ),
        Mistake(
            "rewards used as advantages",
            _step_mistake(advantages_of=lambda rewards, eps: rewards),
            "The raw rewards were used as advantages. Then wrong answers get no push at all, and a group of "
            "equal rewards still moves the policy.",
        ),
        Mistake(
            "advantage_eps not passed on",
            _step_mistake(
                advantages_of=lambda rewards, eps: grpo.group_relative_advantage(rewards, len(rewards)).ravel()
            ),
            "The advantages use the default eps, whatever `advantage_eps` is passed in.",
        ),
    ),
    alternatives=(
        Alternative("loops over lists", _step_by_loop),
        Alternative("finite differences of the loss", _step_by_differences),
    ),
    hint="`grpo.group_relative_advantage`, `grpo.log_softmax` and `grpo.toy_loss_gradient` are there: the "
    "work is to hand each policy to the right place.",
)
