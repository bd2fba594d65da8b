"""The exercise `token_grpo_loss`: its parts, its known mistakes, and correct alternatives."""

from __future__ import annotations

import numpy as np

from grader import torch_calls
from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.exercises.chapter_06.common import CHAPTER, draw_advantages, draw_lengths, draw_logps, kept, mask_of
from grader.plain import SameTensor
from grader.torch_calls import torch
from grpo import token_loss

CONSTANTS = ("old_logps", "advantages", "ref_logps")


def _token_grpo_loss(new_logps, old_logps, advantages, mask, ref_logps, clip_eps=0.2, kl_coef=0.0):
    """The reference, in numpy: value, gradient, and no other argument with a gradient."""
    old_logps = new_logps if isinstance(old_logps, SameTensor) else old_logps
    settings = {"ref_logps": ref_logps, "clip_low": clip_eps, "clip_high": clip_eps, "kl_coef": kl_coef}
    return {
        "value": token_loss.token_grpo_loss(new_logps, old_logps, advantages, mask, **settings),
        "gradient": token_loss.token_grpo_gradient(new_logps, old_logps, advantages, mask, **settings),
        "others": [],
    }


# --- batches ---------------------------------------------------------------------------------------------------------


def _two_coins():
    """Two actions of probability .5, one of each sampled, the first one right: log-probs, advantages, mask."""
    logps = np.full((2, 1), np.log(0.5).round(6))
    return logps, np.array([0.7071, -0.7071]), np.array([[True], [True]])


def _ratios(ratios, advantages):
    """One token per rollout, with these ratios."""
    logps = np.log(np.array(ratios))[:, np.newaxis].round(6)
    return logps, np.zeros_like(logps), np.array(advantages), np.ones(logps.shape, dtype=bool), np.zeros_like(logps)


def _batch(rng, rows=4, width=4, moved=0.5, padding=(-9.0, -5.0, -7.0)):
    """A batch of which tokens of both signs lie above, below and inside the clip range."""
    while True:
        mask = mask_of(draw_lengths(rng, rows, width), width)
        old = draw_logps(rng, mask, padding=padding[1])
        new = draw_logps(rng, mask, moved, old, padding[0])
        advantages = draw_advantages(rng, rows)
        ratio, good = np.exp(np.where(mask, new - old, 0.0)), (advantages > 0)[:, np.newaxis]
        zones = [ratio > 1.25, ratio < 0.75]
        if all((zone & mask & side).any() for zone in zones for side in (good, ~good)):
            return new, old, advantages, mask, draw_logps(rng, mask, 0.6, new, padding[2])


def _first_step(rng):
    new, advantages, mask = _two_coins()
    same = SameTensor("new_logps")
    batch = _batch(rng, rows=3)
    return [
        call(new, same, advantages, mask, new, note="the first update: nothing has moved yet"),
        call(batch[0], same, *batch[2:], note="the first update"),
    ]


def _clip_calls(rng):
    return [
        call(*_ratios([2.0, 0.5], [-1.0, -1.0])),
        call(*_ratios([2.0, 0.5], [1.0, 1.0])),
        call(*_batch(rng, moved=0.7), clip_eps=float(rng.choice([0.3, 0.4]))),
    ]


def _kl_calls(rng):
    half, quarter = np.log([[0.5]]).round(6), np.log([[0.25]]).round(6)
    one = np.array([[True]])
    return [
        call(half, half, np.array([0.0]), one, quarter, kl_coef=1.0, note="advantage 0: the penalty alone"),
        call(*_batch(rng), kl_coef=0.7),
    ]


def _gradient_calls(rng):
    return [
        call(*_ratios([2.0, 0.5], [-1.0, 1.0])),
        call(*_batch(rng, rows=5, width=3), kl_coef=0.5),
    ]


def _nan_calls(rng):
    nan = float("nan")
    new, old, mask = np.array([[-0.6, nan]]), np.array([[-0.5, nan]]), np.array([[True, False]])
    return [
        call(new, old, np.array([1.0]), mask, old, kl_coef=0.1, note="NaN at the padding"),
        call(*_batch(rng, padding=(nan, nan, nan)), kl_coef=0.3, note="NaN at the padding"),
    ]


def _untouched_by_nan(values, calls):
    """Value and gradient are those of the reference: NaN has touched neither."""
    for i, (value, one) in enumerate(zip(values, calls, strict=True)):
        right = _token_grpo_loss(*one.args, **one.kwargs)
        for entry in ("value", "gradient"):
            found, due = value[entry], right[entry]
            if isinstance(found, str):
                return i, found
            found = np.asarray(found, dtype=float)
            if np.shape(found) != np.shape(due):
                return i, f"the {entry} has the wrong shape"
            if not np.isfinite(found).all():
                return i, f"the {entry} is NaN"
            if not np.allclose(found, due, rtol=1e-4, atol=1e-5):
                return i, f"the {entry} is not what it is without the NaN"
    return None


def _no_gradient_elsewhere(values, calls):
    for i, reached in enumerate(values):
        if isinstance(reached, str):
            return i, reached
        if len(reached):
            return i, f"a gradient arrived at {', '.join(f'`{name}`' for name in reached)}"
    return None


def _constant_calls(rng):
    drawn = _ratios(rng.uniform(0.85, 1.15, 2).round(3).tolist(), [1.0, -1.0])[:4]
    return [
        call(*_ratios([1.1, 0.9], [1.0, -1.0])[:4], np.full((2, 1), -0.2), kl_coef=0.1),
        call(*drawn, np.full((2, 1), -0.3), kl_coef=0.1),
    ]


# --- the loss, with every place that can go wrong as an argument -----------------------------------------------------


def _surrogate(ratio, a, eps):
    return torch.minimum(ratio * a, ratio.clamp(1 - eps, 1 + eps) * a)


def _k3(delta):
    return torch.exp(delta) - delta - 1


def _per_rollout(losses, mask):
    return (losses.sum(dim=1) / mask.sum(dim=1)).mean()


def _subtract(new, old, mask):
    return kept(new - old, mask)


def _detached(value):
    return value.detach()


def _loss(
    new, old, advantages, mask, ref, eps, beta,
    surrogate=_surrogate, penalty=_k3, average=_per_rollout, difference=_subtract, constants=_detached, sign=-1.0,
    masked=True,
):  # fmt: skip
    old, advantages, ref = constants(old), constants(advantages), constants(ref)
    ratio = torch.exp(difference(new, old, mask))
    losses = sign * surrogate(ratio, advantages[:, None], eps) + beta * penalty(difference(ref, new, mask))
    return average(kept(losses, mask) if masked else losses, mask)


def _changed(**places):
    def wrong(new_logps, old_logps, advantages, mask, ref_logps, clip_eps=0.2, kl_coef=0.0):
        return _loss(new_logps, old_logps, advantages, mask, ref_logps, clip_eps, kl_coef, **places)

    return wrong


def _keep_graph(value):
    return value


def _times_mask(losses, mask):
    return ((losses * mask).sum(dim=1) / mask.sum(dim=1)).mean()


def _old_attached(new_logps, old_logps, advantages, mask, ref_logps, clip_eps=0.2, kl_coef=0.0):
    ratio = torch.exp(kept(new_logps - old_logps, mask))
    return _per_rollout(
        kept(
            -_surrogate(ratio, advantages.detach()[:, None], clip_eps)
            + kl_coef * _k3(kept(ref_logps.detach() - new_logps, mask)),
            mask,
        ),
        mask,
    )


def _others_attached(new_logps, old_logps, advantages, mask, ref_logps, clip_eps=0.2, kl_coef=0.0):
    return _loss(
        new_logps, old_logps.detach(), advantages, mask, ref_logps, clip_eps, kl_coef, constants=_keep_graph
    )  # fmt: skip


def _through_exp_first(new_logps, old_logps, advantages, mask, ref_logps, clip_eps=0.2, kl_coef=0.0):
    """The zeros chosen last: the value is right, the gradient is NaN."""
    old, ref = old_logps.detach(), ref_logps.detach()
    ratio, delta = torch.exp(new_logps - old), ref - new_logps
    losses = -_surrogate(ratio, advantages.detach()[:, None], clip_eps) + kl_coef * _k3(delta)
    return _per_rollout(kept(losses, mask), mask)


def _unmasked(new_logps, old_logps, advantages, mask, ref_logps, clip_eps=0.2, kl_coef=0.0):
    old, ref = old_logps.detach(), ref_logps.detach()
    ratio, delta = torch.exp(new_logps - old), ref - new_logps
    return (-_surrogate(ratio, advantages.detach()[:, None], clip_eps) + kl_coef * _k3(delta)).mean()


def _clip_fixed(new_logps, old_logps, advantages, mask, ref_logps, clip_eps=0.2, kl_coef=0.0):
    return _loss(new_logps, old_logps, advantages, mask, ref_logps, 0.2, kl_coef)


def _kl_ignored(new_logps, old_logps, advantages, mask, ref_logps, clip_eps=0.2, kl_coef=0.0):
    return _loss(new_logps, old_logps, advantages, mask, ref_logps, clip_eps, 0.0)


def _reference_is_old(new_logps, old_logps, advantages, mask, ref_logps, clip_eps=0.2, kl_coef=0.0):
    return _loss(new_logps, old_logps, advantages, mask, old_logps, clip_eps, kl_coef)


def _kl_outside_the_means(new_logps, old_logps, advantages, mask, ref_logps, clip_eps=0.2, kl_coef=0.0):
    """The penalty averaged over all tokens, the surrogate over rollouts."""
    gained = _loss(new_logps, old_logps, advantages, mask, ref_logps, clip_eps, 0.0)
    return gained + kl_coef * _k3(kept(ref_logps.detach() - new_logps, mask)).sum() / mask.sum()


def _rollout_ratio(new, old, mask):
    return kept(new - old, mask).sum(dim=1, keepdim=True).expand(mask.shape)


def _one_ratio(new_logps, old_logps, advantages, mask, ref_logps, clip_eps=0.2, kl_coef=0.0):
    """One ratio per rollout, and k3 per token."""
    ratio = torch.exp(_rollout_ratio(new_logps, old_logps.detach(), mask))
    delta = kept(ref_logps.detach() - new_logps, mask)
    losses = -_surrogate(ratio, advantages.detach()[:, None], clip_eps) + kl_coef * _k3(delta)
    return _per_rollout(kept(losses, mask), mask)


def _advantages_along_tokens(new_logps, old_logps, advantages, mask, ref_logps, clip_eps=0.2, kl_coef=0.0):
    def surrogate(ratio, a, eps):
        return _surrogate(ratio, a[:, 0], eps)

    return _loss(new_logps, old_logps, advantages, mask, ref_logps, clip_eps, kl_coef, surrogate=surrogate)


torch_loss = _changed()  # the right one, for other exercises
loss_with = _changed  # one with a wrong place in it


def _no_graph(new_logps, old_logps, advantages, mask, ref_logps, clip_eps=0.2, kl_coef=0.0):
    return _loss(new_logps.detach(), old_logps, advantages, mask, ref_logps, clip_eps, kl_coef)


def _item(*args, **kwargs):
    return _changed()(*args, **kwargs).item()


def _per_token(*args, **kwargs):
    return _changed(average=lambda losses, mask: losses)(*args, **kwargs)


def _by_loop(new_logps, old_logps, advantages, mask, ref_logps, clip_eps=0.2, kl_coef=0.0):
    of_rollouts = []
    for i in range(len(mask)):
        here = mask[i]
        new, old, ref = new_logps[i][here], old_logps[i][here].detach(), ref_logps[i][here].detach()
        a, ratio = advantages[i].item(), torch.exp(new - old)
        clipped = torch.clamp(ratio, 1 - clip_eps, 1 + clip_eps)
        # -min(x, y) is max(-x, -y), as PPO programs have it.
        loss = torch.maximum(-ratio * a, -clipped * a) + kl_coef * (torch.expm1(ref - new) - (ref - new))
        of_rollouts.append(loss.mean())
    return sum(of_rollouts) / len(of_rollouts)


def _in_float32(new_logps, old_logps, advantages, mask, ref_logps, clip_eps=0.2, kl_coef=0.0):
    args = (new_logps.float(), old_logps.float(), advantages.float(), mask, ref_logps.float())
    return _loss(*args, clip_eps, kl_coef)


TOKEN_GRPO_LOSS = Exercise(
    name="token_grpo_loss",
    chapter=CHAPTER,
    difficulty=3,
    minutes=20,
    reference=_token_grpo_loss,
    adapter=torch_calls.value_and_gradient("new_logps", constants=CONSTANTS, scalar=True),
    rtol=2e-5,
    atol=2e-6,
    parts=(
        Part(
            says="the first update: old and new are one tensor, and the gradient is not 0",
            points=1,
            calls=_first_step,
            entry="gradient",
            hint="With equal log-probs the ratio is 1, whatever the policy. What must be held fast, so that the "
            "ratio still changes when the policy does?",
        ),
        Part(
            says="ratio and clip per token, mean per rollout, then over rollouts",
            points=1,
            calls=_clip_calls,
            entry="value",
            hint="The smaller of two products, each with the rollout's advantage. Then two means, in this order.",
        ),
        Part(
            says="the penalty: k3 per token, in the same means",
            points=1,
            calls=_kl_calls,
            entry="value",
            hint="d is reference minus new, and k3 is never negative. It is averaged like the surrogate.",
        ),
        Part(
            says="the gradient of all of it",
            points=1,
            calls=_gradient_calls,
            entry="gradient",
            hint="Every step from the new log-probs to the loss must be torch's own.",
        ),
        Part(
            says="NaN at the padding touches neither value nor gradient",
            points=1,
            calls=_nan_calls,
            holds=_untouched_by_nan,
            hint="A gradient flows back through both branches of `torch.where`, and 0 times NaN is NaN. Where must "
            "the zeros be chosen, so that no NaN gets into exp at all?",
        ),
        Part(
            says="old and reference log-probs and advantages are constants",
            points=1,
            calls=_constant_calls,
            holds=_no_gradient_elsewhere,
            entry="others",
            hint="In a real program they may come straight from a model, with a graph. Your loss should not rely on "
            "its caller.",
        ),
    ),
    mistakes=(
        Mistake(
            "old log-probs attached",
            _old_attached,
            "The old log-probs were not detached. Where old and new are one tensor, the two gradients cancel: the "
            "loss is right and the gradient 0.",
        ),
        Mistake(
            "advantages and reference attached",
            _others_attached,
            "A gradient flows into the advantages or into the reference. If they come from a model, that model is "
            "trained along, and nobody asked for it.",
        ),
        Mistake(
            "nothing detached",
            _changed(constants=_keep_graph),
            "Gradients flow into old log-probs, advantages and reference. Where old and new are one tensor, the two "
            "gradients cancel: the loss is right and nothing learns.",
        ),
        Mistake(
            "no gradient (detached, or made by numpy)",
            _no_graph,
            "The loss is right and no gradient arrives: the new log-probs were detached, or numpy did the work.",
        ),
        Mistake(
            "a number instead of a tensor",
            _item,
            "A plain number came back, so there is nothing to call `.backward()` on. `.item()` is for the log.",
        ),
        Mistake(
            "no clip",
            _changed(surrogate=lambda ratio, a, eps: ratio * a),
            "The clip is missing: a token may run as far as it likes.",
        ),
        Mistake(
            "clipped product alone",
            _changed(surrogate=lambda ratio, a, eps: ratio.clamp(1 - eps, 1 + eps) * a),
            "Only the clipped product was used. Then a bad token that became likelier is let off: the smaller of two "
            "products counts.",
        ),
        Mistake(
            "max for min",
            _changed(surrogate=lambda ratio, a, eps: torch.maximum(ratio * a, ratio.clamp(1 - eps, 1 + eps) * a)),
            "The larger of the two products was taken. It rewards what the clip should stop.",
        ),
        Mistake(
            "min before the product",
            _changed(surrogate=lambda ratio, a, eps: torch.minimum(ratio, ratio.clamp(1 - eps, 1 + eps)) * a),
            "The minimum of the ratios was taken, before the advantage. For good rollouts that is the same; for bad "
            "ones it turns the clip round.",
        ),
        Mistake(
            "sign of the loss",
            _changed(sign=1.0),
            "The surrogate has the wrong sign: this loss is high when good tokens become likelier.",
        ),
        Mistake(
            "k3 with the difference turned round",
            _changed(penalty=lambda delta: _k3(-delta)),
            "k3 was computed with new minus reference. It is never negative either, but it is another number.",
        ),
        Mistake(
            "k1 for k3",
            _changed(penalty=lambda delta: -delta),
            "The penalty is new minus reference, k1. As a loss its expected gradient is 0: no penalty at all.",
        ),
        Mistake(
            "k2 for k3",
            _changed(penalty=lambda delta: delta**2 / 2),
            "The penalty is half the square of the difference, k2: a good one, but not the one asked for.",
        ),
        Mistake(
            "KL with the wrong sign",
            _changed(penalty=lambda delta: -_k3(delta)),
            "The penalty is subtracted: the loss falls as the policy leaves the reference.",
        ),
        Mistake(
            "kl_coef ignored",
            _kl_ignored,
            "The penalty is missing: `kl_coef` changes nothing.",
        ),
        Mistake(
            "KL averaged over all tokens",
            _kl_outside_the_means,
            "The surrogate was averaged per rollout, the penalty over all tokens at once. Both belong in the same "
            "means.",
        ),
        Mistake(
            "reference = old",
            _reference_is_old,
            "The penalty compares with the old policy, which moves along. `ref_logps` plays no part.",
        ),
        Mistake(
            "token mean",
            _changed(average=lambda losses, mask: losses.sum() / mask.sum()),
            "All tokens were averaged at once, so a long rollout counts more than a short one. First the mean of each "
            "rollout is asked for. (DAPO averages like this: a method of its own.)",
        ),
        Mistake(
            "token sum",
            _changed(average=lambda losses, mask: losses.sum(dim=1).mean()),
            "The tokens of a rollout were added up. Their mean is asked for: divided by the number of tokens that "
            "count.",
        ),
        Mistake(
            "sum over rollouts",
            _changed(average=lambda losses, mask: (losses.sum(dim=1) / mask.sum(dim=1)).sum()),
            "The rollouts were added up; their mean is asked for. With more rollouts the step would grow.",
        ),
        Mistake(
            "sum over all tokens",
            _changed(average=lambda losses, mask: losses.sum()),
            "All tokens of all rollouts were added up. Two means are asked for: over the tokens of each rollout, then "
            "over rollouts.",
        ),
        Mistake(
            "mean over the padded width",
            _changed(average=lambda losses, mask: losses.mean()),
            "The mean runs over the padding as well: short rollouts are divided by too much.",
        ),
        Mistake(
            "padding in the loss",
            _unmasked,
            "The mask plays no part: tokens that nobody sampled are in the loss and get a gradient.",
        ),
        Mistake(
            "NaN times 0",
            _changed(difference=lambda a, b, mask: a - b, average=_times_mask, masked=False),
            "The mask was multiplied in, and NaN times 0 is NaN. One such token, and the whole loss is NaN.",
        ),
        Mistake(
            "zeros chosen after exp",
            _through_exp_first,
            "The loss is right, its gradient is NaN: the zeros were chosen behind exp, and on the way back the NaN "
            "is multiplied by 0. One step with it, and every weight of the model is NaN.",
        ),
        Mistake(
            "one ratio per rollout",
            _one_ratio,
            "All tokens of a rollout share one ratio, that of their summed log-probs. Here each token has its own.",
        ),
        Mistake(
            "advantages along the tokens",
            _advantages_along_tokens,
            "The flat advantages were laid along the tokens. With as many tokens as rollouts torch does not complain. "
            "One advantage belongs to a whole row: it needs an axis more.",
        ),
        Mistake(
            "clip_eps fixed",
            _clip_fixed,
            "The clip range is .2, whatever `clip_eps` is passed in.",
        ),
        Mistake(
            "one loss per token",
            _per_token,
            "One number per token came back. A loss is a single number.",
        ),
    ),
    alternatives=(
        Alternative("rollout by rollout", _by_loop),
        Alternative("computed in float32", _in_float32),
        Alternative("a tensor of shape (1, 1)", lambda *args, **kwargs: torch_loss(*args, **kwargs).reshape(1, 1)),
        Alternative("masked_fill on all inputs", _changed(difference=lambda a, b, mask: (a - b).masked_fill(~mask, 0))),
    ),
    hint="Line by line as in chapter 03: ratio, two products, their minimum, k3. New are the mask and `.detach()`.",
)
