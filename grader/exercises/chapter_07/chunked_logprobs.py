"""The exercise `chunked_logprobs`: its parts, its known mistakes, and correct alternatives."""

from __future__ import annotations

import contextlib
import functools
from dataclasses import dataclass

import numpy as np

from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.exercises.chapter_07.common_torch import CHAPTER, CUT, no_tensor, numpy_log_softmax
from grader.exercises.chapter_07.memory_watch import memory_watch
from grader.torch_calls import Adapter, kind_of, to_torch, torch, upstream

VOCABULARY, CHUNKS = 80, 12  # where memory is looked at: so many chunks that a few copies of one do not matter


@dataclass(frozen=True)
class Chunks(Adapter):
    """Value, both gradients, and what lay in memory meanwhile.

    Plain value: {"value", "hidden", "weight": gradients of the sum with the weights `upstream`, "largest", "alive"}.
    The last two are numbers of rows of logits, and 0 where all is well or nothing is looked at: "largest" is the
    largest tensor where it is larger than a chunk of logits, "alive" is N where as many numbers as N rows of logits
    were in memory at one time.
    """

    def prepare(self):
        super().prepare()
        with memory_watch():  # the first operation in it imports half of torch, and so does the first checkpoint
            torch.ones(1)

    def run(self, fn, names, args, kwargs):
        given = [to_torch(value) for value in args]
        hidden, weight, token_ids, _, chunk_size = given
        count, vocabulary = len(hidden), len(weight)
        watched = vocabulary >= VOCABULARY
        for tensor in (hidden, weight):
            tensor.requires_grad_()
        watch = memory_watch((hidden, weight, token_ids))
        with watch if watched else contextlib.nullcontext():
            result = fn(*given, **kwargs)
            if result is None:
                return None
            word = no_tensor(result)
            if word:
                return word
            plain = {"value": _copy(result), "largest": 0, "alive": 0}
            plain |= self._gradients(result, hidden=hidden, weight=weight)
        if not watched:
            return plain
        words = [plain[name] for name in ("hidden", "weight") if isinstance(plain[name], str)]
        if len(words) == 2:
            return {**plain, "largest": words[0], "alive": words[0]}
        if watch.largest > chunk_size * vocabulary:
            plain["largest"] = -(-watch.largest // vocabulary)
        if watch.peak >= CHUNKS * chunk_size * vocabulary:
            plain["alive"] = count
        return plain

    @staticmethod
    def _gradients(result, **leaves):
        why = ""
        if not isinstance(result, torch.Tensor):
            why = f"no gradient arrives: {kind_of(result)} came back where a tensor is due. {CUT}"
        elif not result.requires_grad:
            why = f"no gradient arrives: the result has no graph. {CUT}"
        else:
            try:
                result.backward(torch.tensor(upstream(result.shape), dtype=result.dtype))
            except RuntimeError as error:
                why = f"the backward pass failed: {str(error).partition(chr(10))[0][:160]}"
        if why:
            return dict.fromkeys(leaves, why)
        cut = {name: f"no gradient arrives at `{name}`: the way to it is cut. {CUT}" for name in leaves}
        return {name: cut[name] if leaf.grad is None else leaf.grad for name, leaf in leaves.items()}


def _copy(result):
    """The values without their graph, which would live as long as they do."""
    return result.detach().clone() if isinstance(result, torch.Tensor) else result


def _reference(hidden, weight, token_ids, temperature, chunk_size):
    """The reference, in numpy and in one piece."""
    h, w = hidden.astype(float), weight.astype(float)
    table = numpy_log_softmax(h @ w.T / temperature)
    value = table[np.arange(len(h)), token_ids]
    one_hot = np.arange(len(w)) == token_ids[:, np.newaxis]
    slopes = upstream(value.shape)[:, np.newaxis] / temperature * (one_hot - np.exp(table))
    return {"value": value, "largest": 0, "alive": 0, "hidden": slopes @ w, "weight": slopes.T @ h}


# --- calls -----------------------------------------------------------------------------------------------------------


def _lesson(temperature):
    hidden, weight = np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([[2.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    return call(hidden, weight, np.array([0, 0]), temperature, 1)


def _batch(rng, tokens, chunk_size, temperature=1.0, vocabulary=5, width=3, note=""):
    hidden, weight = (np.round(1.2 * rng.standard_normal((n, width)), 1) + 0.0 for n in (tokens, vocabulary))  # no -0.0
    return call(hidden, weight, rng.integers(0, vocabulary, tokens), temperature, chunk_size, note=note)


def _value_calls(rng):
    return [
        _lesson(1.0),
        _batch(rng, 5, 2),
        _batch(rng, 6, 3, vocabulary=4),
        _batch(rng, 3, 8, note="one chunk, and not even full"),
    ]


def _temperature_calls(rng):
    return [_lesson(2.0), _batch(rng, 4, 2, float(rng.choice([0.6, 0.7]))), _half(rng, 0.7)]


def _half(rng, temperature=1.0, tokens=6):
    """Numbers in half precision whose products are exact there: multiples of 1/2."""
    hidden, weight = rng.integers(-4, 5, (2, tokens, 3)) / 2
    # No row of zeros: its log-softmax would be the same in any precision.
    hidden[:, 0], weight[:, 0] = rng.choice([-1.5, 1.5], tokens), np.arange(tokens) / 2
    halves = (array.astype(np.float16) for array in (hidden, weight))
    return call(*halves, rng.integers(0, tokens, tokens), temperature, 3, note="half precision")


def _precision_calls(rng):
    """In a row of the large logits the largest is so far ahead that it is the log of the sum, and all are multiples of
    1/2: float32 rounds nothing. Nearer together, at 2000, its rounding alone would exceed the tolerance."""
    weight = np.array([[1000.0, 0.0], [-1000.0, 1.0], [800.0, 1.0]])
    hidden = np.array([[2.0, float(rng.choice([-1.0, 1.0]))], [-1.0, 2.0], [0.5, 0.5]])
    token_ids = np.array([0, 0, rng.integers(0, 3)])
    return [call(hidden, weight, token_ids, 1.0, 3, note="large logits"), _half(rng)]


def _hidden_calls(rng):
    return [_batch(rng, 6, 2)]


def _weight_calls(rng):
    return [_batch(rng, 4, 2, vocabulary=3), _batch(rng, 5, 2, 1.3)]


def _few_rows(rng):
    """Chunks of 3 rows: who takes the 3 for the number of chunks makes them of 5."""
    return [_batch(rng, 15, 3, vocabulary=VOCABULARY, width=2, note="5 chunks")]


def _many_chunks(rng):
    """As many chunks as rows in one, so that this part is about what waits for the backward pass alone."""
    return [_batch(rng, CHUNKS**2, CHUNKS, vocabulary=VOCABULARY, width=2, note=f"{CHUNKS} chunks")]


def _computed(value, one):
    """Tell whether the values have anything to do with log-probs: only then their memory says something."""
    due, found = _reference(*one.args)["value"], np.asarray(value["value"], dtype=float)
    return found.shape == due.shape and np.isfinite(found).all() and abs(np.corrcoef(due, found)[0, 1]) > 0.5


def _memory(entry, sentence):
    def holds(values, calls):
        for i, (value, one) in enumerate(zip(values, calls, strict=True)):
            found, size = value[entry], one.args[4]
            if isinstance(found, str):
                return i, found
            if not _computed(value, one):
                return i, "what came back are no log-probs of these tokens, so the memory that they took says nothing"
            if found:
                return i, sentence.format(rows=int(found), size=size)
        return None

    return holds


# --- the right way, with every place that can go wrong as an argument ------------------------------------------------


def _table(logits, temperature):
    logits = logits if logits.dtype == torch.float64 else logits.float()
    return torch.log_softmax(logits / temperature, dim=-1)


def _chunk(hidden, weight, token_ids, temperature, table_of=_table):
    return table_of(hidden @ weight.T, temperature).gather(-1, token_ids[:, None])[:, 0]


def _checkpointed(*args, **kwargs):
    from torch.utils.checkpoint import checkpoint

    return checkpoint(*args, use_reentrant=False, **kwargs)


def _checkpointed_where_watched(function, hidden, weight, *rest, **kwargs):
    """For the known mistakes: a checkpoint takes longer than all the rest, and its numbers are the same."""
    run = _checkpointed if len(weight) >= VOCABULARY else _graph_kept
    return run(function, hidden, weight, *rest, **kwargs)


def _graph_kept(function, *args, **kwargs):
    return function(*args, **kwargs)


def _loop(hidden, weight, token_ids, temperature, chunk_size, keep=_checkpointed_where_watched, **places):
    pieces = zip(hidden.split(chunk_size), token_ids.split(chunk_size), strict=True)
    return torch.cat([keep(_chunk, h, weight, ids, temperature, **places) for h, ids in pieces])


def _changed(**places):
    def solution(hidden, weight, token_ids, temperature, chunk_size):
        return _loop(hidden, weight, token_ids, temperature, chunk_size, **places)

    return solution


def _whole(hidden, weight, token_ids, temperature, chunk_size):
    return _chunk(hidden, weight, token_ids, temperature)


def _that_many_chunks(hidden, weight, token_ids, temperature, chunk_size):
    pieces = zip(hidden.chunk(chunk_size), token_ids.chunk(chunk_size), strict=True)
    return torch.cat([_checkpointed_where_watched(_chunk, h, weight, ids, temperature) for h, ids in pieces])


def _late(also_hidden):
    """A function made in the loop that takes the loop's variables from outside."""

    def solution(hidden, weight, token_ids, temperature, chunk_size):
        out = []
        for start in range(0, len(hidden), chunk_size):
            rows = slice(start, start + chunk_size)

            def piece(states):
                states = hidden[rows] if also_hidden else states  # noqa: B023
                return _chunk(states, weight, token_ids[rows], temperature)  # noqa: B023

            out.append(_checkpointed(piece, hidden[rows]))
        return torch.cat(out)

    return solution


def _halved(hidden, weight, token_ids, temperature, chunk_size):
    return _loop(hidden, weight, token_ids, temperature, chunk_size).half()


def _back_to_its_dtype(hidden, weight, token_ids, temperature, chunk_size):
    return _loop(hidden, weight, token_ids, temperature, chunk_size).to(hidden.dtype)


def _no_grad(hidden, weight, token_ids, temperature, chunk_size):
    with torch.no_grad():
        return _loop(hidden, weight, token_ids, temperature, chunk_size, keep=_graph_kept)


def _last_chunk_dropped(hidden, weight, token_ids, temperature, chunk_size):
    whole = len(hidden) // chunk_size * chunk_size
    return _loop(hidden[:whole], weight, token_ids[:whole], temperature, chunk_size)


def _ids_not_cut(hidden, weight, token_ids, temperature, chunk_size):
    pieces = hidden.split(chunk_size)
    return torch.cat([_checkpointed(_chunk, h, weight, token_ids[: len(h)], temperature) for h in pieces])


def _weight_detached(hidden, weight, token_ids, temperature, chunk_size):
    return _loop(hidden, weight.detach(), token_ids, temperature, chunk_size)


def _hidden_detached(hidden, weight, token_ids, temperature, chunk_size):
    return _loop(hidden.detach(), weight, token_ids, temperature, chunk_size)


def _summed(hidden, weight, token_ids, temperature, chunk_size):
    return _loop(hidden, weight, token_ids, temperature, chunk_size).sum()


def _first_chunk(hidden, weight, token_ids, temperature, chunk_size):
    return _loop(hidden[:chunk_size], weight, token_ids[:chunk_size], temperature, chunk_size)


def _naive(logits, temperature):
    weights = torch.exp((logits if logits.dtype == torch.float64 else logits.float()) / temperature)
    return torch.log(weights / weights.sum(dim=-1, keepdim=True))


def _log_of_softmax(logits, temperature):
    return torch.log(torch.exp(_table(logits, temperature)))


def _with(function):
    """A table made of the logits in float32 or float64, otherwise than right."""
    return _changed(table_of=lambda logits, t: function(logits if logits.dtype == torch.float64 else logits.float(), t))


@functools.cache
def _function():
    """An autograd.Function that goes through the chunks itself, with what people get wrong in its backward pass."""

    class Chunked(torch.autograd.Function):
        @staticmethod
        def forward(ctx, hidden, weight, token_ids, temperature, chunk_size, flaw):
            ctx.save_for_backward(hidden, weight, token_ids)
            ctx.settings = temperature, chunk_size, flaw
            return _loop(hidden, weight, token_ids, temperature, chunk_size, keep=_graph_kept)

        @staticmethod
        def backward(ctx, arriving):
            hidden, weight, token_ids = ctx.saved_tensors
            temperature, chunk_size, flaw = ctx.settings
            hidden_slope, weight_slope = torch.zeros_like(hidden), torch.zeros_like(weight)
            for start in range(0, len(hidden), chunk_size):
                rows = slice(start, start + chunk_size)
                slope = -torch.exp(_table(hidden[rows] @ weight.T, temperature))
                if flaw != "one-hot":
                    slope[torch.arange(len(slope)), token_ids[rows]] += 1
                slope *= 1 if flaw == "upstream" else arriving[rows, None]
                slope = (slope if flaw == "temperature" else slope / temperature).to(hidden.dtype)
                hidden_slope[rows] = slope @ weight
                part = slope.T @ hidden[rows]
                weight_slope = part if flaw == "overwritten" else weight_slope + part
            return hidden_slope, weight_slope, None, None, None, None

    return Chunked


def _own(flaw=""):
    def solution(hidden, weight, token_ids, temperature, chunk_size):
        return _function().apply(hidden, weight, token_ids, temperature, chunk_size, flaw)

    return solution


def _reentrant(hidden, weight, token_ids, temperature, chunk_size):
    from torch.utils.checkpoint import checkpoint

    parts = []
    for start in range(0, len(hidden), chunk_size):
        rows = slice(start, start + chunk_size)
        parts.append(checkpoint(_chunk, hidden[rows], weight, token_ids[rows], temperature, use_reentrant=True))
    return torch.cat(parts)


def _in_float32(log_prob):
    """Everything in float32, with another way to the log-prob."""

    def solution(hidden, weight, token_ids, temperature, chunk_size):
        def piece(states, matrix, ids):
            return log_prob(states @ matrix.T / temperature, ids)

        hidden, weight = hidden.float(), weight.float()
        pieces = zip(hidden.split(chunk_size), token_ids.split(chunk_size), strict=True)
        return torch.cat([_checkpointed(piece, h, weight, ids) for h, ids in pieces])

    return solution


def _less_its_logsumexp(logits, ids):
    return logits[torch.arange(len(ids)), ids] - torch.logsumexp(logits, dim=-1)


def _of_a_categorical(logits, ids):
    return torch.distributions.Categorical(logits=logits).log_prob(ids)


def _token_by_token(hidden, weight, token_ids, temperature, chunk_size):
    def one(state, matrix, token):
        logits = (matrix @ state).double() / temperature
        return logits[token] - torch.logsumexp(logits, dim=0)

    return torch.stack([_checkpointed(one, h, weight, t) for h, t in zip(hidden, token_ids.tolist(), strict=True)])


def _by_cross_entropy(hidden, weight, token_ids, temperature, chunk_size):
    def piece(states, ids):
        logits = (states.double() @ weight.double().T) / temperature
        return -torch.nn.functional.cross_entropy(logits, ids, reduction="none")

    out = hidden.new_empty(len(hidden), dtype=torch.float64)
    for start in range(0, len(hidden), chunk_size):
        rows = slice(start, start + chunk_size)
        out[rows] = _checkpointed(piece, hidden[rows], token_ids[rows])
    return out


CHUNKED_LOGPROBS = Exercise(
    name="chunked_logprobs",
    chapter=CHAPTER,
    difficulty=3,
    minutes=30,
    reference=_reference,
    adapter=Chunks(),
    rtol=2e-5,
    atol=1e-5,
    parts=(
        Part(
            says="the log-prob of each token, also in a last, shorter chunk",
            points=1,
            calls=_value_calls,
            entry="value",
            hint="Write a function for one chunk first: logits, log-softmax, the token's own entry. Then put the "
            "pieces together in order.",
        ),
        Part(
            says="log-probs of the distribution at this temperature",
            points=1,
            calls=_temperature_calls,
            entry="value",
            hint="The policy sampled from softmax(logits / T): scale the logits, before anything else.",
        ),
        Part(
            says="exact for large logits, and for numbers in half precision",
            points=1,
            calls=_precision_calls,
            entry="value",
            hint="The product may be taken in half precision; what becomes of the logits afterwards may not. And who "
            "knows a log-softmax that does not overflow?",
        ),
        Part(
            says="the gradient of `hidden`",
            points=1,
            calls=_hidden_calls,
            entry="hidden",
            hint="Is every step from `hidden` to the result done by torch, or by a backward pass of your own? And "
            "where something is computed again on the way back: is it the same as the first time?",
        ),
        Part(
            says="the gradient of `weight`",
            points=1,
            calls=_weight_calls,
            entry="weight",
            hint="Every chunk uses the whole of `weight`: what does that mean for its gradient?",
        ),
        Part(
            says="never a tensor larger than the logits of one chunk",
            points=1,
            calls=_few_rows,
            holds=_memory(
                "largest",
                "a tensor as large as {rows} rows of logits was made; a chunk has {size} rows, forward and back",
            ),
            hint="Cut before the product with `weight`, and put together only what has one number for each token.",
        ),
        Part(
            says="the chunks do not wait in memory for the backward pass",
            points=1,
            calls=_many_chunks,
            holds=_memory(
                "alive",
                "as many numbers as {rows} rows of logits were in memory at one time; a chunk has {size} rows",
            ),
            hint="What does the graph of a log-softmax keep? Something must throw it away and compute it again.",
        ),
    ),
    mistakes=(
        Mistake(
            "the logits of all tokens at once",
            _whole,
            "The numbers are right, but a row of the vocabulary for each of all tokens stood in one tensor: made in "
            "one piece, or put together from chunks before the tokens' own entries were taken out. For 64 rollouts of "
            "512 tokens of Qwen3 that is one tensor of 20 GB. Only one number for each token may leave a chunk.",
        ),
        Mistake(
            "the graph keeps every chunk",
            _changed(keep=_graph_kept),
            "The numbers are right and the chunks are small, but nothing is saved: for the backward pass a table of "
            "each chunk is kept, all of them in the end. Without a checkpoint it is the log-softmax, in the graph; "
            "with one that begins behind the product it is the logits; and a Function may save its tables itself. What "
            "a chunk needs on the way back can be computed again there, from its hidden states on.",
        ),
        Mistake(
            "chunk size taken for the number of chunks",
            _that_many_chunks,
            "`chunk_size` says how many tokens a chunk has, not how many chunks there are: with 4096 tokens and 16, "
            "chunks of 16 tokens and not 16 chunks of 256. (torch's functions for cutting differ in just that.)",
        ),
        Mistake(
            "the token ids of the last chunk on the way back",
            _late(also_hidden=False),
            "The values are right, and the gradients are those of other tokens. A checkpoint runs its function again "
            "on the way back, when the loop is over: names that the function takes from outside, such as the token "
            "ids of the chunk, then belong to the last chunk. Hand them in as arguments.",
        ),
        Mistake(
            "everything of the last chunk on the way back",
            _late(also_hidden=True),
            "The values are right, the gradients are not. A checkpoint runs its function again on the way back, when "
            "the loop is over: names that the function takes from outside (hidden states, token ids, where the chunk "
            "starts) then belong to the last chunk. Hand in as arguments whatever changes from chunk to chunk.",
        ),
        Mistake(
            "result in half precision",
            _halved,
            "The result is float16: the log-probs are off in the third or fourth digit. float32 or float64 is due, "
            "whatever `hidden` is.",
        ),
        Mistake(
            "result brought back to the dtype of hidden",
            _back_to_its_dtype,
            "Where `hidden` is float16 the result is float16 as well: computed in float32 and rounded at the end. The "
            "result stays float32.",
        ),
        Mistake(
            "no gradient",
            _no_grad,
            "The values are right and memory is saved, because there is no graph at all: under torch.no_grad() nothing "
            "can be trained with these log-probs.",
        ),
        Mistake(
            "last chunk dropped",
            _last_chunk_dropped,
            "When the number of tokens is no multiple of `chunk_size`, those at the end are missing.",
        ),
        Mistake(
            "first chunk only",
            _first_chunk,
            "Only the first chunk came back. Does a `return` stand inside the loop?",
        ),
        Mistake(
            "token ids not cut along",
            _ids_not_cut,
            "The first chunk is right; the others are scored with the tokens of the first. `token_ids` must be cut at "
            "the same places as `hidden`.",
        ),
        Mistake(
            "temperature left out",
            _with(lambda logits, t: torch.log_softmax(logits, dim=-1)),
            "`temperature` changes nothing. The log-probs belong to another distribution than the one that was "
            "sampled, so the ratio is off from the first update on.",
        ),
        Mistake(
            "multiplied by the temperature",
            _with(lambda logits, t: torch.log_softmax(logits * t, dim=-1)),
            "The logits were multiplied by the temperature. Above 1 it must flatten the distribution.",
        ),
        Mistake(
            "temperature after the log-softmax",
            _with(lambda logits, t: torch.log_softmax(logits, dim=-1) / t),
            "The log-probs were divided by the temperature. Their exp then no longer sums to 1: scale the logits.",
        ),
        Mistake(
            "log-softmax along the tokens",
            _with(lambda logits, t: torch.log_softmax(logits / t, dim=0)),
            "The log-softmax ran along the tokens of a chunk instead of the vocabulary: with one token in a chunk "
            "every log-prob is 0, and another `chunk_size` gives other numbers.",
        ),
        Mistake(
            "raw logits",
            _with(lambda logits, t: logits / t),
            "The logits themselves came back. They say nothing before they are compared with the other tokens'.",
        ),
        Mistake(
            "probabilities, no logs",
            _with(lambda logits, t: torch.softmax(logits / t, dim=-1)),
            "Probabilities came back, between 0 and 1. Their logs are asked for.",
        ),
        Mistake(
            "minus log-probs",
            _with(lambda logits, t: -torch.log_softmax(logits / t, dim=-1)),
            "The sign is turned round: a log-prob is never above 0. (A cross-entropy is minus a log-prob.)",
        ),
        Mistake(
            "log of a softmax by hand",
            _changed(table_of=_naive),
            "exp of a large logit is infinite, and the log of a small probability minus infinity. torch has a "
            "log-softmax in one piece that is not.",
        ),
        Mistake(
            "log of torch's softmax",
            _changed(table_of=_log_of_softmax),
            "The softmax of a token that is far behind is 0, and its log minus infinity. torch has a log-softmax in "
            "one piece that is exact there.",
        ),
        Mistake(
            "log-softmax in half precision",
            _changed(table_of=lambda logits, t: torch.log_softmax(logits / t, dim=-1)),
            "The log-softmax was taken in half precision, and the log-probs are off in the third digit. A ratio made "
            "of them jumps by percents although nothing has moved.",
        ),
        Mistake(
            "divided by the temperature in half precision",
            _changed(table_of=lambda logits, t: _table(logits / t, 1.0)),
            "The logits were divided by the temperature while still in half precision, which rounds them once more. "
            "First float32, then the temperature.",
        ),
        Mistake(
            "weight detached",
            _weight_detached,
            "The values are right, and no gradient arrives at `weight`. In Qwen3-0.6B it is the embedding as well, a "
            "quarter of all parameters: they would be trained without what the loss says of them.",
        ),
        Mistake(
            "hidden detached",
            _hidden_detached,
            "The values are right, and no gradient arrives at `hidden`: all layers of the model lie behind it, and "
            "none of them would learn.",
        ),
        Mistake(
            "gradient of weight from the last chunk only",
            _own("overwritten"),
            "The gradient of `weight` is that of the last chunk: each chunk wrote over the one before it. Every chunk "
            "uses all of `weight`, so their gradients add up.",
        ),
        Mistake(
            "temperature left out of the backward pass",
            _own("temperature"),
            "The values are right, and the gradients are off by the factor of the temperature. The chain rule goes "
            "through the division as well.",
        ),
        Mistake(
            "arriving gradient left out",
            _own("upstream"),
            "The gradients are those of the plain sum of the log-probs. A backward pass is given the gradient that "
            "arrives at each token (in training: its advantage) and must multiply by it.",
        ),
        Mistake(
            "one-hot left out of the backward pass",
            _own("one-hot"),
            "The gradients hold only the part that pushes all tokens down. The one that pushes the sampled token up is "
            "missing.",
        ),
        Mistake(
            "summed",
            _summed,
            "A single number came back, the sum. There is one log-prob for each token.",
        ),
    ),
    alternatives=(
        Alternative("checkpoint", _changed(keep=_checkpointed)),
        Alternative("an autograd.Function", _own()),
        Alternative("reentrant checkpoint", _reentrant),
        Alternative("token by token", _token_by_token),
        Alternative("cross-entropy", _by_cross_entropy),
        Alternative("float32, the logit less the logsumexp", _in_float32(_less_its_logsumexp)),
        Alternative("float32, a Categorical", _in_float32(_of_a_categorical)),
    ),
    shortcuts=("completion_logprobs",),
    hint="`torch.utils.checkpoint.checkpoint` runs a function without keeping its graph, and runs it again on the way "
    "back.",
)
