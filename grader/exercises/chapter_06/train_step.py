"""The exercise `train_step`: its parts, its known mistakes, and correct alternatives."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.exercises.chapter_06.common import (
    CHAPTER,
    draw_advantages,
    draw_lengths,
    mask_of,
    numpy_log_softmax,
    rounded,
)
from grader.exercises.chapter_06.token_grpo_loss import loss_with, torch_loss
from grader.torch_calls import Adapter, kind_of, to_torch, torch
from grpo import token_loss

_STATES, _VOCABULARY = 4, 3
SMALL = 1e-6  # torch.nn.utils.clip_grad_norm_ divides by the norm plus this


@dataclass(frozen=True)
class Training(Adapter):
    """Makes a policy of a table of logits and an SGD optimizer, and lets the student's function make its steps.

    The optimizer comes as {"learning_rate", "momentum", "updates", "left_over"}: how many steps are made on the batch,
    and the size of a gradient that lies there from before. Plain value: the weights after the last step, and for each
    step the loss and the norm that came back.
    """

    def prepare(self):
        super().prepare()
        torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)  # the first optimizer imports half of torch

    def run(self, fn, names, args, kwargs):
        table, optimizer, batch, *rest = args
        policy = _policy_class()(torch.from_numpy(table).clone())
        sgd = torch.optim.SGD(policy.parameters(), lr=optimizer["learning_rate"], momentum=optimizer["momentum"])
        if optimizer["left_over"]:
            left_over = torch.full(table.shape, optimizer["left_over"], dtype=torch.float64).tril()
            policy.first.grad, policy.others.grad = left_over[:, :1].clone(), left_over[:, 1:].clone()
        losses, norms, tensors = [], [], to_torch(batch)
        for _ in range(optimizer["updates"]):
            result = fn(policy, sgd, tensors, *rest, **kwargs)
            if result is None:
                return None
            loss, norm = self._signals(result)
            losses.append(loss)
            norms.append(norm)
        word = next((one for one in (*losses, *norms) if isinstance(one, str)), "")
        return {"weights": policy.logits, "signals": word or [losses, norms]}

    @staticmethod
    def _signals(result):
        if not isinstance(result, dict):
            word = f'a dict with the keys "loss" and "grad_norm" is due, and {kind_of(result)} came back'
            return word, word
        missing = [f'"{name}"' for name in ("loss", "grad_norm") if name not in result]
        if missing:
            found = ", ".join(f'"{name}"' for name in result) or "none"
            word = f"the dict that came back has no key {' and no key '.join(missing)}; its keys are: {found}"
            return word, word
        if any(isinstance(one, torch.Tensor) and one.requires_grad for one in result.values()):
            word = (
                "what came back still hangs on its graph: whoever keeps it for a log keeps the graphs of all steps in "
                "memory. `.item()` makes a number of it"
            )
            return word, word
        return float(result["loss"]), float(result["grad_norm"])


@functools.cache
def _policy_class():
    class Policy(torch.nn.Module):
        """A table of logits, one row for each state, in two parameters: the first column and the others."""

        def __init__(self, logits):
            super().__init__()
            self.first, self.others = (torch.nn.Parameter(part.clone()) for part in (logits[:, :1], logits[:, 1:]))

        @property
        def logits(self):
            return torch.cat([self.first, self.others], dim=1)

        def forward(self, states):
            return self.logits[states]

    return Policy


def _train_step(policy, optimizer, batch, max_norm=1.0, clip_eps=0.2, kl_coef=0.0):
    """The reference, in numpy: the same steps with the hand-written gradient."""
    table, velocity, losses, norms = policy.copy(), 0.0, [], []
    states, tokens, mask = batch["states"], batch["tokens"], batch["mask"]
    settings = {"ref_logps": batch["ref_logps"], "clip_low": clip_eps, "clip_high": clip_eps, "kl_coef": kl_coef}
    one_hot = np.arange(_VOCABULARY) == tokens[..., np.newaxis]
    for _ in range(optimizer["updates"]):
        logps = numpy_log_softmax(table)[states]
        new = np.where(mask, logps[one_hot].reshape(mask.shape), 0.0)
        args = (new, batch["old_logps"], batch["advantages"], mask)
        slopes = token_loss.token_grpo_gradient(*args, **settings)[..., np.newaxis] * (one_hot - np.exp(logps))
        gradient = np.zeros_like(table)
        np.add.at(gradient, states, slopes)
        norm = float(np.sqrt((gradient**2).sum()))
        losses.append(token_loss.token_grpo_loss(*args, **settings))
        norms.append(norm)
        velocity = optimizer["momentum"] * velocity + min(1.0, max_norm / (norm + SMALL)) * gradient
        table = table - optimizer["learning_rate"] * velocity
    return {"weights": table, "signals": [losses, norms]}


# --- batches ---------------------------------------------------------------------------------------------------------


def _optimizer(learning_rate=0.5, updates=1, left_over=0.0, momentum=0.0):
    return {"learning_rate": learning_rate, "momentum": momentum, "updates": updates, "left_over": left_over}


def _two_coins():
    """One state, two actions of probability .5, each sampled once, the first one right."""
    half = np.log([[0.5], [0.5]]).round(6)
    ones = np.ones((2, 1), dtype=bool)
    batch = {"states": np.zeros((2, 1), dtype=int), "tokens": np.array([[0], [1]]), "mask": ones, "old_logps": half,
             "ref_logps": half, "advantages": np.array([0.7071, -0.7071])}  # fmt: skip
    return np.zeros((1, _VOCABULARY)) + np.array([0.0, 0.0, -30.0]), batch


def _batch(rng, rollouts=4, width=4, moved=0.0):
    """A table, and a batch that it sampled; `moved` is how far the reference lies from it."""
    table = rounded(rng.standard_normal((_STATES, _VOCABULARY)), 1)
    mask = mask_of(draw_lengths(rng, rollouts, width), width)
    states = rng.integers(0, _STATES, mask.shape)
    tokens = rng.integers(0, _VOCABULARY, mask.shape)
    old = numpy_log_softmax(table)[states, tokens]
    ref = numpy_log_softmax(table + moved * rng.standard_normal(table.shape))[states, tokens]
    batch = {"states": states, "tokens": tokens, "mask": mask, "old_logps": np.where(mask, old, 0.0),
             "ref_logps": np.where(mask, ref, 0.0), "advantages": draw_advantages(rng, rollouts)}  # fmt: skip
    return table, batch


def _with(policy_and_batch, optimizer, note="", **settings):
    table, batch = policy_and_batch
    return call(table, optimizer, batch, note=note, **settings)


def _first_calls(rng):
    return [_with(_two_coins(), _optimizer(1.0), max_norm=9.0), _with(_batch(rng), _optimizer(), max_norm=9.0)]


def _left_over_calls(rng):
    note = "a gradient lies there from before"
    return [_with(_batch(rng, 3, 3), _optimizer(0.5, 1, 0.3), note, max_norm=9.0)]


def _norm_calls(rng):
    table, batch = _batch(rng)
    steep = {**batch, "advantages": 20.0 * batch["advantages"]}
    return [
        _with(_two_coins(), _optimizer(1.0), max_norm=0.1),
        _with((table, steep), _optimizer(), max_norm=float(rng.choice([0.02, 0.03]))),
    ]


def _later_calls(rng):
    note = "three steps on one batch"
    return [
        _with(_two_coins(), _optimizer(1.0, 2), "two steps on one batch", max_norm=9.0),
        _with(_batch(rng), _optimizer(2.5, 3), note, max_norm=9.0, clip_eps=0.3),
        _with(_batch(rng, moved=0.7), _optimizer(1.5, 3), note, max_norm=9.0, kl_coef=0.4),
        _with(_batch(rng), _optimizer(0.4, 3, momentum=0.8), f"{note}, with momentum", max_norm=9.0),
    ]


def _signal_calls(rng):
    return [
        _with(_two_coins(), _optimizer(1.0), max_norm=0.1),
        _with(_batch(rng, moved=0.6), _optimizer(0.8, 2), "two steps on one batch", max_norm=0.1, kl_coef=0.3),
    ]


# --- the step, with every place that can go wrong as an argument -----------------------------------------------------


def _token_logps(policy, batch):
    table = torch.log_softmax(policy(batch["states"]), dim=-1)
    return table.gather(-1, batch["tokens"][..., None])[..., 0]


def _token_logits(policy, batch):
    return policy(batch["states"]).gather(-1, batch["tokens"][..., None])[..., 0]


def _norm_of(policy):
    return torch.linalg.vector_norm(torch.cat([parameter.grad for parameter in policy.parameters()], dim=1))


def _clip(policy, max_norm):
    return torch.nn.utils.clip_grad_norm_(policy.parameters(), max_norm)


def _step(
    policy, optimizer, batch, max_norm, clip_eps, kl_coef,
    order="zero backward clip step", logps_of=_token_logps, clip=_clip, old=None, ref=None, sign=1.0, mask=None,
    loss_of=torch_loss,
    report=lambda loss, norm, policy: {"loss": loss.item(), "grad_norm": norm.item()},
):  # fmt: skip
    new = logps_of(policy, batch)
    loss = sign * loss_of(
        new,
        new.detach() if old == "recomputed" else batch["old_logps"],
        batch["advantages"],
        batch["mask"] if mask is None else mask(batch["mask"]),
        batch["old_logps"] if ref == "old" else batch["ref_logps"],
        clip_eps,
        kl_coef,
    )
    norm = torch.zeros(())
    for what in order.split():
        if what == "zero":
            optimizer.zero_grad()
        elif what == "backward":
            loss.backward()
            norm = _norm_of(policy)
        elif what == "clip":
            norm = clip(policy, max_norm)
        else:
            optimizer.step()
    return report(loss, norm, policy)


def _changed(**places):
    def wrong(policy, optimizer, batch, max_norm=1.0, clip_eps=0.2, kl_coef=0.0):
        return _step(policy, optimizer, batch, max_norm, clip_eps, kl_coef, **places)

    return wrong


def _clip_values(policy, max_norm):
    norm = _norm_of(policy)
    torch.nn.utils.clip_grad_value_(policy.parameters(), max_norm)
    return norm


def _clip_to_length(policy, max_norm):
    """Every gradient gets the length max_norm, short ones too."""
    norm = _norm_of(policy)
    for parameter in policy.parameters():
        parameter.grad *= max_norm / (norm + SMALL)
    return norm


def _clip_one_by_one(policy, max_norm):
    norm = _norm_of(policy)
    for parameter in policy.parameters():
        torch.nn.utils.clip_grad_norm_([parameter], max_norm)
    return norm


def _new_optimizer(policy, optimizer, batch, max_norm=1.0, clip_eps=0.2, kl_coef=0.0):
    settings = optimizer.param_groups[0]
    optimizer.zero_grad()
    fresh = torch.optim.SGD(policy.parameters(), lr=settings["lr"], momentum=settings["momentum"])
    return _step(policy, fresh, batch, max_norm, clip_eps, kl_coef)


def _bounds_for_widths(policy, optimizer, batch, max_norm=1.0, clip_eps=0.2, kl_coef=0.0):
    """clip_low = 1 - eps and clip_high = 1 + eps, passed to a loss that asks for widths."""

    def surrogate(ratio, a, eps):
        return torch.minimum(ratio * a, ratio.clamp(1 - (1 - eps), 1 + (1 + eps)) * a)

    return _step(policy, optimizer, batch, max_norm, clip_eps, kl_coef, loss_of=loss_with(surrogate=surrogate))


def _loss_after_the_step(policy, optimizer, batch, max_norm=1.0, clip_eps=0.2, kl_coef=0.0):
    norm = _step(policy, optimizer, batch, max_norm, clip_eps, kl_coef)["grad_norm"]
    fixed = (batch[name] for name in ("old_logps", "advantages", "mask", "ref_logps"))
    return {"loss": torch_loss(_token_logps(policy, batch), *fixed, clip_eps, kl_coef).item(), "grad_norm": norm}


def _token_probabilities(policy, batch):
    return torch.exp(_token_logps(policy, batch))


def _clip_at_1(policy, max_norm):
    return _clip(policy, 1.0)


def _clip_eps_fixed(policy, optimizer, batch, max_norm=1.0, clip_eps=0.2, kl_coef=0.0):
    return _step(policy, optimizer, batch, max_norm, 0.2, kl_coef)


def _kl_forgotten(policy, optimizer, batch, max_norm=1.0, clip_eps=0.2, kl_coef=0.0):
    return _step(policy, optimizer, batch, max_norm, clip_eps, 0.0)


def _by_hand(policy, optimizer, batch, max_norm=1.0, clip_eps=0.2, kl_coef=0.0):
    """Gradients by autograd.grad, handed to the optimizer; the clip norm written out."""
    logits = policy(batch["states"])
    logps = (logits - logits.logsumexp(-1, keepdim=True)).gather(-1, batch["tokens"].unsqueeze(-1)).squeeze(-1)
    args = (batch["old_logps"], batch["advantages"], batch["mask"], batch["ref_logps"], clip_eps, kl_coef)
    loss = torch_loss(logps, *args)
    parameters = list(policy.parameters())
    gradients = torch.autograd.grad(loss, parameters)
    norm = sum((gradient**2).sum() for gradient in gradients).sqrt()
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient * min(1.0, max_norm / (float(norm) + SMALL))
    optimizer.step()
    return {"loss": float(loss.detach()), "grad_norm": float(norm)}


TRAIN_STEP = Exercise(
    name="train_step",
    chapter=CHAPTER,
    difficulty=2,
    minutes=20,
    reference=_train_step,
    adapter=Training(),
    rtol=2e-5,
    atol=2e-6,
    parts=(
        Part(
            says="one step downhill on a fresh batch",
            points=1,
            calls=_first_calls,
            entry="weights",
            hint="Log-probs of the tokens under the policy as it is now, the loss, a backward pass, a step.",
        ),
        Part(
            says="what lies there from an earlier step plays no part",
            points=1,
            calls=_left_over_calls,
            entry="weights",
            hint="`.backward()` adds to the gradient that is there. When must it be emptied?",
        ),
        Part(
            says="a gradient that is too long is shortened to `max_norm`",
            points=1,
            calls=_norm_calls,
            entry="weights",
            hint="torch.nn.utils has a function for it. It must see the gradient before the optimizer does.",
        ),
        Part(
            says="several steps on one batch: old, reference and optimizer stay what they are",
            points=2,
            calls=_later_calls,
            entry="weights",
            hint="The old log-probs were captured while sampling, those of the reference computed once. Both are in "
            "the batch. The optimizer remembers earlier steps, too.",
        ),
        Part(
            says="the loss before the step, and the gradient's length before it is shortened",
            points=1,
            calls=_signal_calls,
            entry="signals",
            hint="Two plain numbers. What does the function that shortens the gradient return?",
        ),
    ),
    mistakes=(
        Mistake(
            "no zero_grad",
            _changed(order="backward clip step"),
            "The gradients of earlier steps were never emptied, so each step repeats all the ones before it.",
        ),
        Mistake(
            "zero_grad before the step",
            _changed(order="backward zero step"),
            "The weights do not move: the gradient was emptied between the backward pass and the step.",
        ),
        Mistake(
            "zero_grad between backward and shortening",
            _changed(order="backward zero clip step"),
            "The weights do not move: the gradient was emptied right after the backward pass, before anybody used it.",
        ),
        Mistake(
            "no step",
            _changed(order="zero backward clip"),
            "The weights do not move: the gradient is there, and nobody made the step.",
        ),
        Mistake(
            "step before the backward pass",
            _changed(order="step zero backward clip"),
            "The optimizer made its step before the new gradient was there: it used that of the step before.",
        ),
        Mistake(
            "uphill",
            _changed(sign=-1.0, report=lambda loss, norm, policy: {"loss": -loss.item(), "grad_norm": norm.item()}),
            "The step goes up the loss. An optimizer goes down by itself; the loss is the negative surrogate already.",
        ),
        Mistake(
            "gradient not shortened, or too late",
            _changed(order="zero backward step"),
            "`max_norm` changes nothing: the gradient was not shortened, or only after the step had used it. A single "
            "odd batch can then throw the policy far away.",
        ),
        Mistake(
            "values clipped, not the norm",
            _changed(clip=_clip_values),
            "Each number of the gradient was clipped by itself. That changes its direction; shortening the whole "
            "gradient does not.",
        ),
        Mistake(
            "short gradients lengthened",
            _changed(clip=_clip_to_length),
            "Every gradient got the length `max_norm`, also the short ones. Where the groups say little, the policy "
            "would move as far as ever.",
        ),
        Mistake(
            "each parameter shortened by itself",
            _changed(clip=_clip_one_by_one),
            "Each parameter's gradient was shortened by itself. The length is that of all of them together, and so the "
            "direction of the step stays what it is.",
        ),
        Mistake(
            "max_norm fixed",
            _changed(clip=_clip_at_1),
            "The gradient is shortened to 1, whatever `max_norm` says.",
        ),
        Mistake(
            "old recomputed (ratio always 1)",
            _changed(old="recomputed"),
            "The old log-probs were computed anew in every step: the ratio is always 1, the clip never acts, and one "
            "batch can carry the policy as far as it likes.",
        ),
        Mistake(
            "reference = old",
            _changed(ref="old"),
            "The penalty compares with the old policy, which follows the training: over a long run nothing holds it.",
        ),
        Mistake(
            "a new optimizer in each step",
            _new_optimizer,
            "Each step was made by an optimizer of its own. What the one that was handed in remembers of earlier steps "
            "(momentum, Adam's running means) is lost then.",
        ),
        Mistake(
            "kl_coef not passed on",
            _kl_forgotten,
            "The penalty is missing: `kl_coef` changes nothing.",
        ),
        Mistake(
            "clip_eps not passed on",
            _clip_eps_fixed,
            "The clip range is .2, whatever `clip_eps` is passed in.",
        ),
        Mistake(
            "clip bounds for clip widths",
            _bounds_for_widths,
            "The clip hardly ever acts: `clip_low` and `clip_high` are widths, the distances from 1, and got the "
            "bounds.",
        ),
        Mistake(
            "probabilities for log-probs",
            _changed(logps_of=_token_probabilities),
            "The probabilities of the tokens were used as log-probs: softmax where log-softmax is due.",
        ),
        Mistake(
            "logits taken for log-probs",
            _changed(logps_of=_token_logits),
            "The logits of the tokens were used as log-probs. They become log-probs by a log-softmax.",
        ),
        Mistake(
            "padding trained along",
            _changed(mask=lambda mask: torch.ones_like(mask)),
            "The mask plays no part: what stands at the padding is trained along.",
        ),
        Mistake(
            "length after the shortening",
            _changed(report=lambda loss, norm, policy: {"loss": loss.item(), "grad_norm": _norm_of(policy).item()}),
            "The step is right. The length that came back is that of the shortened gradient: it never says more than "
            "`max_norm`, and hides just the steps that one should know about.",
        ),
        Mistake(
            "loss after the step",
            _loss_after_the_step,
            "The step is right. The loss that came back is that of the policy after it; the one before the step is "
            "asked for.",
        ),
        Mistake(
            "graph kept",
            _changed(report=lambda loss, norm, policy: {"loss": loss, "grad_norm": norm}),
            "The step is right, but the loss came back with its graph. Collected in a list for the learning curve, "
            "the graphs of all steps stay in memory until it is full.",
        ),
    ),
    alternatives=(
        Alternative("gradients handed over, norm by hand", _by_hand),
        Alternative("the usual five lines", _changed()),
    ),
    hint="The order is: log-probs, loss, empty the gradient, backward, shorten, step.",
)
