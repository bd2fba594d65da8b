"""The exercise `backward_in_micro_batches`: its parts, its known mistakes, and correct alternatives."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np

from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.exercises.chapter_06.common import CHAPTER, draw_lengths, kept, mask_of, rounded
from grader.torch_calls import Adapter, kind_of, to_torch, torch
from grpo.token_loss import token_weights

PADDING = 90.0  # what token losses are at the padding: who counts them sees it


@dataclass(eq=False)
class _Saved:
    """What a graph keeps of a tensor; it dies when the graph lets go of it."""

    tensor: Any


@dataclass(frozen=True)
class MicroBatches(Adapter):
    """Makes a small model of a table of token losses, lets the student's function run backward on it, and looks.

    token_losses_of(rows) is a * table[rows] + b * table[rows]**2 / 10 with the parameters a = 1, b = 0, and NaN where
    the table is. Plain value: what came back, the gradient of the two parameters, and two numbers of rows: the most
    whose graph was alive at one time, and the most that were asked for at once.

    A graph is alive as long as it holds what it saved for its backward pass: until that has run, unless it is told to
    keep its graph, or until nobody can reach it any more. A call under torch.no_grad() has no graph.
    """

    def run(self, fn, names, args, kwargs):
        table, *rest = (to_torch(value) for value in args)
        parameters = torch.tensor([1.0, 0.0], dtype=torch.float64, requires_grad=True)
        alive, calls, rows_seen = {}, [0], np.zeros(2, dtype=int)

        def token_losses_of(rows):
            part = table[rows]
            if part.ndim != 2:
                raise TypeError(f"rows is {rows}: pass a slice or a list of row numbers")
            missing = torch.isnan(part)
            real, number = part.masked_fill(missing, 0.0), calls.pop()
            calls.append(number + 1)

            def pack(tensor):
                saved = _Saved(tensor)
                alive[number] = len(part)
                weakref.finalize(saved, alive.pop, number, None)
                return saved

            with torch.autograd.graph.saved_tensors_hooks(pack, lambda saved: saved.tensor):
                losses = parameters[0] * real + parameters[1] * (real**2 / 10)
            rows_seen[:] = np.maximum(rows_seen, [sum(alive.values()), len(part)])
            return losses.masked_fill(missing, torch.nan)

        result = fn(token_losses_of, *rest)
        if result is None:
            return None
        if not isinstance(result, (torch.Tensor, np.generic, int, float)):
            result = f"a number is due, and {kind_of(result)} came back"
        elif isinstance(result, torch.Tensor) and result.requires_grad:
            result = "what came back still hangs on its graph. `.item()` makes a number of it, and the graph can go"
        gradient = parameters.grad
        if gradient is None:
            gradient = "no gradient arrives: `.backward()` was never called on something that depends on the losses"
        return {"value": result, "gradient": gradient, "rows": rows_seen}


def _reference(token_losses_of, mask, size, aggregate):
    """The reference, in numpy; a table stands for the function."""
    weights, losses = token_weights(mask, aggregate), np.where(mask, token_losses_of, 0.0)
    value = float((weights * losses).sum())
    gradient = np.array([value, (weights * losses**2).sum() / 10])
    return {"value": value, "gradient": gradient, "rows": np.full(2, min(size, len(mask)))}


_NOTE = "token_losses_of(rows) gives rows of this table"


def _lesson():
    """Two rollouts of 2 and 4 tokens with the losses 1 and 4."""
    mask = mask_of([2, 4], 4)
    return np.where(mask, np.array([[1.0], [4.0]]), PADDING), mask


def _batch(rng, rows=5, width=4, padding=PADDING):
    mask = mask_of(draw_lengths(rng, rows, width), width)
    return np.where(mask, rounded(rng.uniform(-1.0, 3.0, mask.shape), 1), padding), mask


def _of(aggregate):
    def calls(rng):
        return [
            call(*_lesson(), 1, aggregate, note=_NOTE),
            call(*_batch(rng), 2, aggregate, note=_NOTE),
            call(*_batch(rng, rows=4, width=3), 3, aggregate, note=_NOTE),
        ]

    return calls


def _both(rng):
    return [*_of("rollout_mean")(rng)[:2], *_of("token_mean")(rng)[:2]]


def _large_batch(rng):
    return [call(*_batch(rng, rows=rows), size, "token_mean", note=_NOTE) for rows, size in ((4, 1), (7, 3))]


def _nan_calls(rng):
    mask = mask_of([1, 2], 2)
    return [
        call(np.where(mask, 1.0, np.nan), mask, 1, "rollout_mean", note=_NOTE),
        call(*_batch(rng, padding=np.nan), 2, "token_mean", note=_NOTE),
    ]


def _untouched_by_nan(values, calls):
    for i, value in enumerate(values):
        for name in ("value", "gradient"):
            if not isinstance(value[name], str) and not np.isfinite(np.asarray(value[name], dtype=float)).all():
                what = "the loss that came back" if name == "value" else "the gradient of the parameters"
                return i, f"{what} is NaN"
        if isinstance(value["gradient"], str):
            return i, value["gradient"]
    return None


def _few_rows_alive(values, calls):
    for i, (rows, one) in enumerate(zip(values, calls, strict=True)):
        alive, asked, size = int(rows[0]), int(rows[1]), one.args[2]
        if asked == 0:
            return i, "`token_losses_of` was never called"
        if alive == 0:
            return i, "`token_losses_of` was called without a graph only, as under torch.no_grad()"
        if alive > size:
            return i, f"the graphs of {alive} rollouts were in memory at one time; there is room for {size}"
    return None


def _weights(mask, aggregate):
    if aggregate == "token_mean":
        return mask / mask.sum()
    return mask / (len(mask) * mask.sum(dim=1, keepdim=True))


def _chunks(rows, size):
    return [slice(start, start + size) for start in range(0, rows, size)]


def _loss(losses, weights, mask):
    return (weights * kept(losses, mask)).sum()


def _run(token_losses_of, mask, size, aggregate, loss_of=None, chunks_of=_chunks, last_only=False):
    """The right loop, with the loss of a micro-batch made otherwise."""
    weights, total = _weights(mask, aggregate), 0.0
    for rows in chunks_of(len(mask), size):
        losses = token_losses_of(rows)
        if loss_of is None:
            loss = _loss(losses, weights[rows], mask[rows])
        else:
            loss = loss_of(losses, mask[rows], mask, aggregate, len(chunks_of(len(mask), size)))
        loss.backward()
        total = loss.item() if last_only else total + loss.item()
    return total


def _changed(**places):
    def wrong(token_losses_of, mask, size, aggregate):
        return _run(token_losses_of, mask, size, aggregate, **places)

    return wrong


def _own_mean(losses, here, mask, aggregate, count):
    return _loss(losses, _weights(here, aggregate), here)


def _mean_of_means(losses, here, mask, aggregate, count):
    return _loss(losses, _weights(here, aggregate), here) / count


def _padding_counted(losses, here, mask, aggregate, count):
    return losses.sum() / mask.numel()


def _padding_in_the_divisor(losses, here, mask, aggregate, count):
    return kept(losses, here).sum() / mask.numel()


def _always(aggregate):
    def loss_of(losses, here, mask, _, count):
        if aggregate == "token_mean":
            return kept(losses, here).sum() / mask.sum()
        return (kept(losses, here).sum(dim=1) / here.sum(dim=1)).sum() / len(mask)

    return loss_of


def _token_sum(losses, here, mask, aggregate, count):
    return kept(losses, here).sum() / len(mask)


def _whole_chunks_only(rows, size):
    return [rows_ for rows_ in _chunks(rows, size) if rows_.stop <= rows]


def _first_chunk_only(rows, size):
    return _chunks(rows, size)[:1]


def _whole_batch(rows, size):
    return [slice(0, rows)]


def _backward_at_the_end(token_losses_of, mask, size, aggregate):
    weights, total = _weights(mask, aggregate), 0.0
    for rows in _chunks(len(mask), size):
        total = total + _loss(token_losses_of(rows), weights[rows], mask[rows])
    total.backward()
    return total.item()


def _backward_of_the_sum_each_time(token_losses_of, mask, size, aggregate):
    weights, total = _weights(mask, aggregate), 0.0
    for rows in _chunks(len(mask), size):
        total = total + _loss(token_losses_of(rows), weights[rows], mask[rows])
        total.backward(retain_graph=True)
    return total.item()


def _graphs_kept(token_losses_of, mask, size, aggregate):
    weights, losses = _weights(mask, aggregate), []
    for rows in _chunks(len(mask), size):
        losses.append(_loss(token_losses_of(rows), weights[rows], mask[rows]))
        losses[-1].backward(retain_graph=True)
    return sum(losses)


def _total_with_its_graph(token_losses_of, mask, size, aggregate):
    weights, total = _weights(mask, aggregate), 0.0
    for rows in _chunks(len(mask), size):
        loss = _loss(token_losses_of(rows), weights[rows], mask[rows])
        loss.backward()
        total = total + loss
    return total


def _nan_times_0(token_losses_of, mask, size, aggregate):
    weights, total = _weights(mask, aggregate), 0.0
    for rows in _chunks(len(mask), size):
        loss = (weights[rows] * token_losses_of(rows)).sum()
        loss.backward()
        total += loss.item()
    return total


def _value_first(token_losses_of, mask, size, aggregate):
    """The value in a pass of its own, without a graph, and a look at one row that is thrown away."""
    weights = _weights(mask, aggregate)
    with torch.no_grad():
        total = sum(_loss(token_losses_of([row]), weights[[row]], mask[[row]]).item() for row in range(len(mask)))
    kind = token_losses_of([0]).detach().dtype
    for rows in _chunks(len(mask), size):
        _loss(token_losses_of(rows), weights[rows].to(kind), mask[rows]).backward()
    return total


def _no_backward(token_losses_of, mask, size, aggregate):
    weights = _weights(mask, aggregate)
    losses = [_loss(token_losses_of(rows), weights[rows], mask[rows]) for rows in _chunks(len(mask), size)]
    return sum(loss.item() for loss in losses)


def _row_by_row(token_losses_of, mask, size, aggregate):
    total, tokens = 0.0, int(mask.sum())
    for row in range(len(mask)):
        losses = token_losses_of([row])[0][mask[row]]
        share = losses.sum() / tokens if aggregate == "token_mean" else losses.mean() / len(mask)
        share.backward()
        total += float(share.detach())
    return total


def _split_weights(token_losses_of, mask, size, aggregate):
    total = torch.zeros((), dtype=torch.float64)
    numbers = torch.arange(len(mask)).split(size)
    for rows, weights in zip(numbers, _weights(mask, aggregate).split(size), strict=True):
        losses = token_losses_of(rows)
        part = torch.where(weights > 0, losses * weights, 0.0).sum()
        part.backward()
        total += part.detach()
    return total


BACKWARD_IN_MICRO_BATCHES = Exercise(
    name="backward_in_micro_batches",
    chapter=CHAPTER,
    difficulty=2,
    minutes=20,
    reference=_reference,
    adapter=MicroBatches(),
    rtol=2e-5,
    atol=1e-6,
    parts=(
        Part(
            says="rollout_mean: the gradient of the full batch",
            points=1,
            calls=_of("rollout_mean"),
            entry="gradient",
            hint="Gradients of several `.backward()` calls add up. Each rollout has the same weight in the full "
            "batch; which one is it, and does it depend on the micro-batch?",
        ),
        Part(
            says="token_mean: the gradient of the full batch",
            points=1,
            calls=_of("token_mean"),
            entry="gradient",
            hint="By what is a token's loss divided in the full batch? A micro-batch does not know that number by "
            "itself.",
        ),
        Part(
            says="the loss of the full batch comes back",
            points=1,
            calls=_both,
            entry="value",
            hint="The losses of the micro-batches add up to it, if their gradients do.",
        ),
        Part(
            says="NaN at the padding touches neither the gradient nor the loss",
            points=1,
            calls=_nan_calls,
            holds=_untouched_by_nan,
            hint="A weight of 0 does not help: 0 times NaN is NaN. Choose the zeros, as in exercise 4.",
        ),
        Part(
            says="never more than `size` rollouts in memory",
            points=1,
            calls=_large_batch,
            holds=_few_rows_alive,
            entry="rows",
            hint="A graph lives until its backward pass has run, or until nobody can reach it any more.",
        ),
    ),
    mistakes=(
        Mistake(
            "each micro-batch with a mean of its own",
            _changed(loss_of=_own_mean),
            "Each micro-batch was averaged by itself, and the gradients added up: the result is about as many times "
            "too long as there are micro-batches, so halving the memory doubles the step.",
        ),
        Mistake(
            "mean of means",
            _changed(loss_of=_mean_of_means),
            "The means of the micro-batches were averaged. That is right only where all of them hold equally many "
            "tokens (or rollouts), and they do not: for the losses 1 1 and 4 4 4 4 the mean of means is 2.5, the "
            "mean 3.",
        ),
        Mistake(
            "always rollout_mean",
            _changed(loss_of=_always("rollout_mean")),
            "`aggregate` changes nothing: it is always the mean over rollouts.",
        ),
        Mistake(
            "always token_mean",
            _changed(loss_of=_always("token_mean")),
            "`aggregate` changes nothing: it is always the mean over all tokens.",
        ),
        Mistake(
            "token sum",
            _changed(loss_of=_token_sum),
            "The tokens of a rollout were added up, whatever `aggregate` says: long rollouts weigh more.",
        ),
        Mistake(
            "padding counted",
            _changed(loss_of=_padding_counted),
            "The losses at the padding are in the sum. They belong to tokens that nobody sampled.",
        ),
        Mistake(
            "padding in the divisor",
            _changed(loss_of=_padding_in_the_divisor),
            "The sum was divided by rows times width. What counts are the tokens of the mask.",
        ),
        Mistake(
            "last rollouts dropped",
            _changed(chunks_of=_whole_chunks_only),
            "When the batch is no multiple of `size`, the rollouts at its end are left out.",
        ),
        Mistake(
            "first micro-batch only",
            _changed(chunks_of=_first_chunk_only),
            "Only the first micro-batch was used. Does a `return` stand inside the loop?",
        ),
        Mistake(
            "the whole batch at once",
            _changed(chunks_of=_whole_batch),
            "All numbers are right, but the whole batch was in memory at one time: `size` plays no part.",
        ),
        Mistake(
            "one backward pass at the end",
            _backward_at_the_end,
            "The batch was cut, but the losses were collected and sent back together: until then all graphs are in "
            "memory, and nothing is gained.",
        ),
        Mistake(
            "backward pass of the running sum",
            _backward_of_the_sum_each_time,
            "The running sum was sent back each time: the first micro-batch counts as often as there are "
            "micro-batches. (`retain_graph=True` is nearly always a sign of such a slip.)",
        ),
        Mistake(
            "graphs kept",
            _graphs_kept,
            "The numbers are right, but with `retain_graph=True` and the losses in a list every graph stays in "
            "memory to the end: nothing is gained.",
        ),
        Mistake(
            "loss with its graph",
            _total_with_its_graph,
            "The numbers are right, but the losses were added up with their graphs, and a tensor came back that still "
            "hangs on them. A plain number is asked for.",
        ),
        Mistake(
            "NaN times 0",
            _nan_times_0,
            "The padding was given the weight 0, and NaN times 0 is NaN: one such place, and the loss and all "
            "weights of the model are NaN. Choose between two values instead.",
        ),
        Mistake(
            "no backward pass",
            _no_backward,
            "The loss is right, and no backward pass has run: the parameters have no gradient.",
        ),
        Mistake(
            "loss of the last micro-batch",
            _changed(last_only=True),
            "The gradients are right, but the number that came back is the loss of the last micro-batch alone.",
        ),
    ),
    alternatives=(
        Alternative("row by row", _row_by_row),
        Alternative("weights split like the rows", _split_weights),
        Alternative("slices", _changed()),
        Alternative("the value first, without a graph", _value_first),
    ),
    shortcuts=("token_weights",),
    hint="Compute the weight of every token from the mask of the full batch, before the loop.",
)
