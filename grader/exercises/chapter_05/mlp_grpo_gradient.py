"""The exercise `mlp_grpo_gradient`: its parts, its known mistakes, and correct alternatives."""

from __future__ import annotations

import numpy as np

import grpo
from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.exercises.chapter_05.common import (
    CHAPTER,
    PARAMETERS,
    gradients_match,
    random_weights,
    right_but_for_an_axis,
    rounded,
)
from grpo.expressions.game import END, EXPRESSIONS, LEGAL, TOKENS, state_of
from grpo.expressions.mlp import count_features
from grpo.expressions.networks import mlp_backward, mlp_forward, mlp_grpo_gradient

# --- the same for all tokens at once, with every place that can go wrong as an argument ------------------------------


def _table(n_prompts, prompts, responses):
    """Inputs (T, D), legal tokens (T, V), tokens (T,) and rollout numbers (T,) of all tokens of a batch."""
    prefixes = [state_of(response[:t]) for response in responses for t in range(len(response))]
    rollout = np.repeat(np.arange(len(responses)), [len(response) for response in responses])
    tokens = np.array([TOKENS.index(token) for response in responses for token in response])
    x = np.concatenate([count_features()[prefixes], np.eye(n_prompts)[np.asarray(prompts)[rollout]]], axis=1)
    return x, LEGAL[prefixes], tokens, rollout


def _logprobs(weights, x, legal):
    return grpo.log_softmax(np.where(legal, mlp_forward(weights, x), -1e30))


def _right(a, rho, gate, delta, eps, beta):
    return gate * a * rho - beta * (1.0 - np.exp(delta))


def _per_rollout_mean(lengths, rollout):
    return 1.0 / (len(lengths) * lengths[rollout])


def _gradient(
    weights, ref_weights, prompts, responses, old_logps, advantages, clip_eps, kl_coef,
    coefficient=_right, weight=_per_rollout_mean, masked=True, minus_p=True, by_rollout=False, end_counts=True,
    old_is_new=False, ref_is_old=False,
):  # fmt: skip
    x, legal, tokens, rollout = _table(weights["w1"].shape[1] - 5, prompts, responses)
    if not masked:
        legal = np.ones_like(legal)
    table = _logprobs(weights, x, legal)
    row = np.arange(len(tokens))
    new, ref = table[row, tokens], _logprobs(ref_weights, x, legal)[row, tokens]
    old = new if old_is_new else np.concatenate(old_logps)
    if ref_is_old:
        ref = old
    a, moved = np.asarray(advantages, dtype=float)[rollout], new - old
    if by_rollout:
        moved = np.bincount(rollout, moved)[rollout]
    rho = np.exp(moved)
    c = coefficient(a, rho, grpo.clip_gate(rho, a, clip_eps), ref - new, clip_eps, kl_coef)
    c = -c * weight(np.bincount(rollout), rollout)
    if not end_counts:
        c = c * (tokens != TOKENS.index(END))
    slopes = c[:, np.newaxis] * (np.eye(len(TOKENS))[tokens] - minus_p * np.exp(table))
    return mlp_backward(weights, x, slopes)


def _changed(**places):
    def wrong(weights, ref_weights, prompts, responses, old_logps, advantages, clip_eps=0.2, kl_coef=0.04):
        return _gradient(
            weights, ref_weights, prompts, responses, old_logps, advantages, clip_eps, kl_coef, **places
        )  # fmt: skip

    return wrong


def _rule(coefficient):
    return _changed(coefficient=coefficient)


_GATE_REVERSED = _rule(lambda a, rho, gate, delta, eps, beta: ~gate * a * rho - beta * (1.0 - np.exp(delta)))


def _gate_for_good_only(a, rho, gate, delta, eps, beta):
    return ~((rho > 1 + eps) & (a > 0)) * a * rho - beta * (1.0 - np.exp(delta))


def _gate_blind(a, rho, gate, delta, eps, beta):
    return (np.abs(rho - 1.0) <= eps) * a * rho - beta * (1.0 - np.exp(delta))


def _clipped_ratio(a, rho, gate, delta, eps, beta):
    return np.clip(rho, 1 - eps, 1 + eps) * a - beta * (1.0 - np.exp(delta))


def _surrogate_for_slope(a, rho, gate, delta, eps, beta):
    return np.minimum(a * rho, a * np.clip(rho, 1 - eps, 1 + eps)) - beta * (1.0 - np.exp(delta))


def _kl_for_good_only(a, rho, gate, delta, eps, beta):
    return gate * a * rho - (a > 0) * beta * (1.0 - np.exp(delta))


def _sign(*args, **kwargs):
    return {name: -value for name, value in mlp_grpo_gradient(*args, **kwargs).items()}


def _clip_fixed(weights, ref_weights, prompts, responses, old_logps, advantages, clip_eps=0.2, kl_coef=0.04):
    return _gradient(weights, ref_weights, prompts, responses, old_logps, advantages, 0.2, kl_coef)


def _kl_fixed(weights, ref_weights, prompts, responses, old_logps, advantages, clip_eps=0.2, kl_coef=0.04):
    return _gradient(weights, ref_weights, prompts, responses, old_logps, advantages, clip_eps, 0.04)


def _exchanged(weights, ref_weights, prompts, responses, old_logps, advantages, clip_eps=0.2, kl_coef=0.04):
    return _gradient(ref_weights, weights, prompts, responses, old_logps, advantages, clip_eps, kl_coef)


def _last_rollout_only(weights, ref_weights, prompts, responses, old_logps, advantages, clip_eps=0.2, kl_coef=0.04):
    last = [one[-1:] for one in (prompts, responses, old_logps, advantages)]
    found = _gradient(weights, ref_weights, *last, clip_eps, kl_coef)
    return {name: value / len(prompts) for name, value in found.items()}


def _biases_in_rows(weights, ref_weights, prompts, responses, old_logps, advantages, clip_eps=0.2, kl_coef=0.04):
    found = _gradient(weights, ref_weights, prompts, responses, old_logps, advantages, clip_eps, kl_coef)
    return {name: np.atleast_2d(value) for name, value in found.items()}


def _one_table(weights, ref_weights, prompts, responses, old_logps, advantages, clip_eps=0.2, kl_coef=0.04):
    return _gradient(weights, ref_weights, prompts, responses, old_logps, advantages, clip_eps, kl_coef)


def _by_differences(weights, ref_weights, prompts, responses, old_logps, advantages, clip_eps=0.2, kl_coef=0.04):
    """Central differences of the loss, from the chapter 03 functions."""
    x, legal, tokens, rollout = _table(weights["w1"].shape[1] - 5, prompts, responses)
    row, old = np.arange(len(tokens)), np.concatenate(old_logps)
    ref = _logprobs(ref_weights, x, legal)[row, tokens]
    counts = _per_rollout_mean(np.bincount(rollout), rollout)
    a = np.asarray(advantages, dtype=float)[rollout]

    def loss(changed):
        new = _logprobs(changed, x, legal)[row, tokens]
        gained = grpo.clipped_surrogate(np.exp(new - old), a, clip_eps)
        return -float(np.sum(counts * (gained - kl_coef * grpo.kl_k3(ref - new))))

    found = {}
    for name, value in weights.items():
        slopes = np.zeros_like(value)
        for place in np.ndindex(*value.shape):
            up, down = value.copy(), value.copy()
            up[place] += 1e-5
            down[place] -= 1e-5
            slopes[place] = (loss({**weights, name: up}) - loss({**weights, name: down})) / 2e-5
        found[name] = slopes
    return found


# --- batches ---------------------------------------------------------------------------------------------------------


def _batch(rng, n_prompts=3, hidden=4, size=6, shift=1.0, prompts=None, responses=None):
    """A batch of which both signs of A meet tokens above, below and inside the clip range.

    Tokens with a choice get, in turn, an old log-prob that makes the ratio large, small or nearly 1.
    """
    weights = random_weights(rng, 5 + n_prompts, hidden)
    noise = random_weights(rng, 5 + n_prompts, hidden)
    ref_weights = {name: rounded(weights[name] + 0.5 * noise[name]) for name in PARAMETERS}
    if responses is None:
        by_length = [[e for e in EXPRESSIONS if len(e) == n] for n in (5, 1, 3, 5, 3, 5)]
        responses = [[*group[int(rng.integers(len(group)))], END] for group in by_length[:size]]
        prompts = rng.integers(0, n_prompts, size=size).tolist()
    x, legal, tokens, rollout = _table(n_prompts, prompts, responses)
    new = _logprobs(weights, x, legal)[np.arange(len(tokens)), tokens]
    choice = legal.sum(axis=1) > 1
    turn = np.array([1.0, -1.0, 0.15, -0.1])[(np.cumsum(choice) + int(rng.integers(4))) % 4]
    old = np.where(choice, new - shift * turn * rng.uniform(0.45, 0.7, len(new)), 0.0)
    old_logps = [rounded(old[rollout == i], 4) for i in range(len(responses))]
    size = len(responses)
    advantages = np.where(np.arange(size) % 2, -1.0, 1.0) * rng.uniform(0.5, 1.5, size) + 0.1
    return weights, ref_weights, prompts, responses, old_logps, rounded(advantages).tolist(), (new, rollout)


def _rollouts(one):
    """How many rollouts a call holds: the factor of a gradient that was added and not averaged."""
    return len(one.args[2])


def _at_sampling(batch):
    """The batch at its first update: the old log-probs are those of the current weights."""
    weights, ref_weights, prompts, responses, _, advantages, (new, rollout) = batch
    return weights, ref_weights, prompts, responses, [new[rollout == i] for i in range(len(responses))], advantages


def _two_short(rng):
    return _batch(rng, 1, 2, prompts=[0, 0], responses=[["5", END], ["3", "+", "2", END]])


def _first_calls(rng):
    small, larger = _at_sampling(_two_short(rng)), _at_sampling(_batch(rng))
    return [call(*small, kl_coef=0.0), call(*larger, kl_coef=0.0)]


def _later_calls(rng):
    return [call(*_two_short(rng)[:6], kl_coef=0.0), *(call(*_batch(rng)[:6], kl_coef=0.0) for _ in range(2))]


def _kl_calls(rng):
    weights, ref_weights, prompts, responses, old, advantages, _ = _batch(rng)
    none = [0.0] * len(advantages)
    return [
        call(weights, ref_weights, prompts, responses, old, none, kl_coef=0.5, note="all advantages are 0"),
        call(weights, weights, prompts, responses, old, none, kl_coef=0.5, note="at the reference, advantages 0"),
    ]


MLP_GRPO_GRADIENT = Exercise(
    name="mlp_grpo_gradient",
    chapter=CHAPTER,
    difficulty=3,
    minutes=30,
    reference=mlp_grpo_gradient,
    parts=(
        Part(
            says="first update (old = current), no KL",
            points=2,
            calls=_first_calls,
            holds=gradients_match(mlp_grpo_gradient, shapes=False),
            hint="At ratio 1 the coefficient is the advantage. Every token counts 1/N times 1/|o|, and the loss "
            "carries a minus.",
        ),
        Part(
            says="later updates: the ratio of each token, and no push where the clip is active",
            points=2,
            calls=_later_calls,
            holds=gradients_match(mlp_grpo_gradient, shapes=False, factor=_rollouts),
            hint="The ratio compares with `old_logps`, token by token. A token of a good rollout is switched off above "
            "the range, one of a bad rollout below it.",
        ),
        Part(
            says="the KL penalty alone, and 0 at the reference itself",
            points=1,
            calls=_kl_calls,
            holds=gradients_match(mlp_grpo_gradient, shapes=False, factor=_rollouts),
            hint="The penalty is there for every token, whatever its advantage. Its slope is 0 where the two policies "
            "agree.",
        ),
        Part(
            says="everything at once, with another clip range; each gradient has the shape of its parameter",
            points=1,
            calls=lambda rng: [call(*_batch(rng, shift=0.25)[:6], clip_eps=0.11, kl_coef=0.3)],
            holds=gradients_match(mlp_grpo_gradient),
            hint="`clip_eps` and `kl_coef` are arguments. The gate belongs to the surrogate, not to the penalty.",
        ),
    ),
    mistakes=(
        Mistake(
            "clip gate left out",
            _rule(lambda a, rho, gate, delta, eps, beta: a * rho - beta * (1.0 - np.exp(delta))),
            "Tokens that the clip should have switched off still push. They are the ones that moved most, so the "
            "gradient as a whole is far off, not a little.",
        ),
        Mistake(
            "gate only for A > 0",
            _rule(_gate_for_good_only),
            "Good tokens are switched off above the range, but bad ones below it still push.",
        ),
        Mistake(
            "gate blind to the sign of A",
            _rule(_gate_blind),
            "Every token outside the range was switched off. One that moved the wrong way must keep its gradient.",
        ),
        Mistake(
            "surrogate for its slope",
            _rule(_surrogate_for_slope),
            "The coefficient is the value of the clipped surrogate, min and all. Where the clip acts that value stands "
            "still, and what stands still has the slope 0.",
        ),
        Mistake(
            "clipped ratio as coefficient",
            _rule(_clipped_ratio),
            "The coefficient uses the clipped ratio. Where the clip acts, the surrogate is flat: its slope is 0, not "
            "1.2 times A.",
        ),
        Mistake(
            "ratio left out",
            _rule(lambda a, rho, gate, delta, eps, beta: gate * a - beta * (1.0 - np.exp(delta))),
            "The coefficient lacks the ratio. It is 1 in the first update, so the error shows only later.",
        ),
        Mistake(
            "old recomputed (ratio always 1)",
            _changed(old_is_new=True),
            "The ratio is always 1: the old log-probs were computed from the current weights, so the clip never acts. "
            "They come as an argument.",
        ),
        Mistake(
            "one ratio per rollout",
            _changed(by_rollout=True),
            "All tokens of a rollout share one ratio, exp of the summed differences. That is the ratio of chapter 03; "
            "here each token has its own.",
        ),
        Mistake(
            "KL left out",
            _rule(lambda a, rho, gate, delta, eps, beta: gate * a * rho),
            "The penalty has no effect. Either it is missing, or it compares the policy with itself: is the reference "
            "scored with the weights of the reference?",
        ),
        Mistake(
            "KL only on rewarded rollouts",
            _rule(_kl_for_good_only),
            "The penalty acts only where the advantage is above 0. It belongs to every token: most of the drift is in "
            "the others.",
        ),
        Mistake(
            "KL wrong sign",
            _rule(lambda a, rho, gate, delta, eps, beta: gate * a * rho + beta * (1.0 - np.exp(delta))),
            "The penalty pushes away from the reference.",
        ),
        Mistake(
            "delta the wrong way round",
            _rule(lambda a, rho, gate, delta, eps, beta: gate * a * rho - beta * (1.0 - np.exp(-delta))),
            "Inside the exp of the penalty, reference and policy are exchanged.",
        ),
        Mistake(
            "KL pull at the reference",
            _rule(lambda a, rho, gate, delta, eps, beta: gate * a * rho + beta * np.exp(delta)),
            "The penalty pulls even where the policy is the reference. k3 has its minimum there: one term of its slope "
            "is missing.",
        ),
        Mistake(
            "k3 for its slope",
            _rule(lambda a, rho, gate, delta, eps, beta: gate * a * rho - beta * (np.exp(delta) - delta - 1.0)),
            "This is the value of k3, where its slope belongs. The value is never negative, so it would push every "
            "token down, those too that the reference likes better than the policy does.",
        ),
        Mistake(
            "slope of k1",
            _rule(lambda a, rho, gate, delta, eps, beta: gate * a * rho - beta),
            "This is the slope of k1: the same push on every token that was sampled, whatever the reference says. On "
            "average it is none.",
        ),
        Mistake(
            "slope of k2",
            _rule(lambda a, rho, gate, delta, eps, beta: gate * a * rho + beta * delta),
            "This is the slope of k2. A good penalty, as the studies of this chapter show, but not the one asked for.",
        ),
        Mistake(
            "KL behind the gate",
            _rule(lambda a, rho, gate, delta, eps, beta: gate * (a * rho - beta * (1.0 - np.exp(delta)))),
            "Where the clip is active the penalty is switched off, too. The clip belongs to the surrogate only.",
        ),
        Mistake(
            "reference = old",
            _changed(ref_is_old=True),
            "The penalty compares with the policy that sampled. The reference has weights of its own, frozen at the "
            "start.",
        ),
        Mistake(
            "token sum",
            _changed(weight=lambda lengths, rollout: np.full(len(rollout), 1.0 / len(lengths))),
            "The tokens of a rollout are added, not averaged: 1/|o| is missing. Long responses then push harder than "
            "short ones.",
        ),
        Mistake(
            "mean over all tokens",
            _changed(weight=lambda lengths, rollout: np.full(len(rollout), 1.0 / len(rollout))),
            "Every token of the batch counts the same. Asked for is the mean over a rollout's own tokens, then the "
            "mean over rollouts.",
        ),
        Mistake(
            "1/N left out",
            _changed(weight=lambda lengths, rollout: 1.0 / lengths[rollout]),
            "The rollouts were added and not averaged.",
        ),
        Mistake(
            "end token left out",
            _changed(end_counts=False),
            "The end token gets no gradient, so the policy never learns when to stop. It is a token like the others.",
        ),
        Mistake(
            "grammar mask left out",
            _changed(masked=False),
            "The probabilities include illegal tokens. The policy that sampled could not choose them, so these are "
            "log-probs of another policy.",
        ),
        Mistake(
            'no "- p"',
            _changed(minus_p=False),
            "Only the token's own logit gets a gradient: the probabilities are not subtracted.",
        ),
        Mistake(
            "sign",
            _sign,
            "The whole gradient has the wrong sign: this is the way to go, and the gradient of a loss points the other "
            "way.",
        ),
        Mistake(
            "gate reversed",
            _GATE_REVERSED,
            "The gate is open where it should be shut: tokens inside the range do not push, those beyond it do.",
            # At the first update this gives nothing but zeros, and so do other faults.
            symptom=lambda values, calls: gradients_match(_GATE_REVERSED)(values, calls) is None,
        ),
        Mistake(
            "log of the ratio",
            _rule(lambda a, rho, gate, delta, eps, beta: gate * a * np.log(rho) - beta * (1.0 - np.exp(delta))),
            "The advantage is multiplied by the log of the ratio, which is 0 at the first update. An exp is missing.",
        ),
        Mistake("clip_eps ignored", _clip_fixed, "The clip range is .2, whatever `clip_eps` is passed in."),
        Mistake("kl_coef ignored", _kl_fixed, "The weight of the penalty is .04, whatever `kl_coef` is passed in."),
        Mistake(
            "end token not counted",
            _changed(weight=lambda lengths, rollout: 1.0 / (len(lengths) * np.maximum(lengths[rollout] - 1, 1))),
            "The sum over a rollout is divided by the number of its tokens without the end token. The end token is one "
            "of them, here as in the sum.",
        ),
        Mistake(
            "divided by the longest",
            _changed(weight=lambda lengths, rollout: np.full(len(rollout), 1.0 / (len(lengths) * lengths.max()))),
            "All rollouts were divided by the length of the longest one: padding counts. Each has its own |o|.",
        ),
        Mistake(
            "last rollout only",
            _last_rollout_only,
            "Only the last rollout counts: in the loop, each one overwrites the gradient instead of adding to it.",
        ),
        Mistake(
            "policy and reference exchanged",
            _exchanged,
            "This is the gradient at the reference's weights, with the policy as the reference. The first argument is "
            "the policy that is trained.",
        ),
        Mistake(
            "bias gradients with two axes",
            _biases_in_rows,
            "All numbers are right. But the gradient of a bias came back with two axes, and a bias has one.",
            symptom=right_but_for_an_axis(mlp_grpo_gradient),
        ),
    ),
    alternatives=(
        Alternative("one table for all tokens", _one_table),
        Alternative("central differences of the loss", _by_differences),
    ),
    hint="Write the coefficient of one token first. Two loops, rollouts and tokens, do the rest.",
)
