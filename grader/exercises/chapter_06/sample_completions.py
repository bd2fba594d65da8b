"""The exercise `sample_completions`: its parts, its known mistakes, and correct alternatives.

Random answers are judged by what must hold for them, and known mistakes by their symptoms.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.exercises.chapter_06.common import CHAPTER, draw_seed, numpy_log_softmax, rounded
from grader.plain import TinyLanguageModel, TorchRng
from grader.torch_calls import Adapter, Tensors, kind_of, to_torch, torch

_VOCABULARY = 6
_MANY = 700
# The calls of the five parts, one after another.
_ENDS, _LOGPS, _SHARES, _FRESH, _CACHE = slice(0, 3), slice(3, 6), slice(6, 7), slice(7, 10), slice(10, 12)


@dataclass(frozen=True)
class Decoding(Adapter):
    """Hands the student's function a `step` made of the model's data, and notes how many tokens each call reads.

    Plain value: {"ids", "logps", "read", "moved"}; read has one number per call of step, and moved says whether the
    generator stands elsewhere afterwards, as it must for the next batch.
    """

    def run(self, fn, names, args, kwargs):
        model, *rest = args
        table, drift = (torch.tensor(rows, dtype=torch.float32) for rows in (model.table, model.drift))
        read = []

        def step(token_ids, cache=None):
            if not isinstance(token_ids, torch.Tensor) or token_ids.ndim != 2:
                raise TypeError(f"step reads token ids of shape (N, K), and got {kind_of(token_ids)}")
            seen = 0 if cache is None else cache["tokens read"]
            read.append(token_ids.shape[1])
            seen = seen + token_ids.shape[1]
            return table[token_ids[:, -1]] + drift[seen % len(drift)], {"tokens read": seen}

        rest = to_torch(rest)
        before = rest[-1].get_state()
        result = fn(step, *rest)
        if result is None:
            return None
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            return f"two tensors are due, ids and log-probs, and {kind_of(result)} came back"
        ids, logps = Tensors._read(result[0], "int"), Tensors._read(result[1], "float")
        return {"ids": ids, "logps": logps, "read": read, "moved": not torch.equal(before, rest[-1].get_state())}


def _sample(step, prompt_ids, max_new_tokens, temperature, stop_ids, pad_id, generator):
    """The reference, in numpy, on the model's data: any sample will do that has the right distribution."""
    model, rng = step, np.random.default_rng(generator.seed)
    rows = len(prompt_ids)
    ids, logps = np.full((rows, max_new_tokens), pad_id), np.zeros((rows, max_new_tokens))
    last, running, read = prompt_ids[:, -1], np.ones(rows, dtype=bool), []
    for t in range(max_new_tokens):
        read.append(prompt_ids.shape[1] if t == 0 else 1)
        table = numpy_log_softmax(model.logits(last, prompt_ids.shape[1] + t) / temperature)
        last = np.argmax(table + rng.gumbel(size=table.shape), axis=1)
        ids[running, t] = last[running]
        logps[running, t] = table[np.arange(rows), last][running]
        running = running & ~np.isin(last, list(stop_ids))
        if not running.any():
            break
    return {"ids": ids, "logps": logps, "read": read, "moved": True}


# --- calls -----------------------------------------------------------------------------------------------------------


def _model(rng, scale=0.7, stops=(), stop_bonus=0.0, never=()):
    table = rounded(scale * rng.standard_normal((_VOCABULARY, _VOCABULARY)), 1)
    table[:, list(stops)] += stop_bonus
    drift = rounded(1.5 * rng.standard_normal((3, _VOCABULARY)), 1)
    drift[:, list(stops)] = 0.0
    table[:, list(never)] = -30.0
    return TinyLanguageModel(tuple(map(tuple, table.tolist())), tuple(map(tuple, drift.tolist())))


def _prompts(rng, rows, width):
    return rng.integers(0, 3, (rows, width))


def _end_calls(rng):
    # A width that is no multiple of 3, so that a model that has lost count of its tokens shows it.
    return [
        call(_model(rng), _prompts(rng, 4, 2), 4, 1.0, {5}, 5, TorchRng(draw_seed(rng)), note="padded with the end"),
        call(_model(rng, 0.7, (4, 5), 0.8, (3,)), _prompts(rng, 12, 2), 7, 1.0, {4, 5}, 3, TorchRng(draw_seed(rng))),
        call(_model(rng, 0.7, (4, 5), 0.4), _prompts(rng, 12, 4), 9, 0.8, {4, 5}, 5, TorchRng(draw_seed(rng))),
    ]


def _logp_calls(rng):
    return [
        call(_model(rng), _prompts(rng, 3, 2), 3, 1.0, {5}, 5, TorchRng(draw_seed(rng))),
        call(_model(rng), _prompts(rng, 8, 4), 6, 0.6, {4, 5}, 5, TorchRng(draw_seed(rng))),
        call(_model(rng, 0.7, (4, 5), 0.5, (3,)), _prompts(rng, 8, 2), 8, 1.7, {4, 5}, 3, TorchRng(draw_seed(rng))),
    ]


def _share_calls(rng):
    start = rng.permutation([1.0, 0.4, 0.0, -0.3, -0.8, 0.1]).round(1)
    table = [start.tolist()] * _VOCABULARY
    model = TinyLanguageModel(tuple(map(tuple, table)), ((0.0,) * _VOCABULARY,))
    return [call(model, np.zeros((_MANY, 2), dtype=int), 1, 0.5, {5}, 5, TorchRng(draw_seed(rng)))]


def _fresh_calls(rng):
    model, first, second = _model(rng, 0.4), draw_seed(rng), draw_seed(rng)
    prompt = np.tile(_prompts(rng, 1, 2), (24, 1))
    return [call(model, prompt, 5, 1.0, {5}, 5, TorchRng(seed)) for seed in (first, second, first)]


def _cache_calls(rng):
    return [
        call(_model(rng), _prompts(rng, 3, 4), 4, 1.0, {5}, 5, TorchRng(draw_seed(rng))),
        call(_model(rng, 0.2, (4, 5), 3.0), _prompts(rng, 3, 2), 40, 1.0, {4, 5}, 5, TorchRng(draw_seed(rng)),
             note="all rows stop early"),
    ]  # fmt: skip


# --- what must hold --------------------------------------------------------------------------------------------------


def _lengths(ids, stops):
    is_stop = np.isin(ids, list(stops))
    return np.where(is_stop.any(axis=1), is_stop.argmax(axis=1) + 1, ids.shape[1])


def _due_logps(one, ids, temperature=None, forgets=False, kind="own"):
    """Log-probs (N, C) of each id given what stands before it, or one of their misreadings; 0 behind the end."""
    model, prompts, _, given, stops, _ = one.args[:6]
    temperature = given if temperature is None else temperature
    logps = np.zeros(ids.shape)
    for t in range(ids.shape[1]):
        before = prompts[:, -1] if t == 0 else ids[:, t - 1]
        if kind == "next":
            before = ids[:, t]
        read = 1 if forgets and t else prompts.shape[1] + t + (kind == "next")
        logits = model.logits(before, read) / temperature
        table = logits if kind == "logits" else numpy_log_softmax(logits)
        own = table.max(axis=1) if kind == "likeliest" else table[np.arange(len(ids)), ids[:, t]]
        logps[:, t] = np.exp(own) if kind == "probabilities" else own
    return np.where(np.arange(ids.shape[1]) < _lengths(ids, stops)[:, np.newaxis], logps, 0.0)


def _form(value, one):
    """What is wrong with ids as such, or None."""
    prompts, width = one.args[1:3]
    if not isinstance(value, dict):
        return value
    for name in ("ids", "logps"):
        if isinstance(value[name], str):
            return f"{name}: {value[name]}"
        if value[name].shape != (len(prompts), width):
            return f"{name} of shape {(len(prompts), width)} are due, and shape {value[name].shape} came back"
    if value["ids"].min() < 0 or value["ids"].max() >= _VOCABULARY:
        return f"the ids go from 0 to {_VOCABULARY - 1}, and {value['ids'].max()} came back"
    return None


def _spelled(row):
    return " ".join(str(int(x)) for x in row)


def _rows_end(values, calls):
    for i, (value, one) in enumerate(zip(values, calls, strict=True)):
        wrong = _form(value, one)
        if wrong:
            return i, wrong
        width, stops, pad = one.args[2], one.args[4], one.args[5]
        for row, length in zip(value["ids"], _lengths(value["ids"], stops), strict=True):
            if np.any(row[length:] != pad):
                return i, f"the row {_spelled(row)} has an end token at place {length - 1}, and text behind it"
            if length == width and row[-1] not in stops and row[-1] == pad:
                return i, f"the row {_spelled(row)} is padded, although it has no end token and the limit is {width}"
    return None


def _logps_belong(values, calls):
    for i, (value, one) in enumerate(zip(values, calls, strict=True)):
        wrong = _form(value, one)
        if wrong:
            return i, wrong
        due = _due_logps(one, value["ids"])
        for ids, found, right in zip(value["ids"], value["logps"], due, strict=True):
            if not np.allclose(found, right, rtol=1e-4, atol=1e-4):
                shown, wanted = (" ".join(f"{x:.3f}" for x in row) for row in (found, right))
                return i, f"the row {_spelled(ids)} was drawn with the log-probs {wanted}; yours are {shown}"
    return None


def _shares(value):
    return np.bincount(value["ids"][:, 0].astype(int), minlength=_VOCABULARY)[:_VOCABULARY] / len(value["ids"])


def _follows(value, one, temperature):
    probs = np.exp(numpy_log_softmax(one.args[0].logits(0, 2) / temperature))
    return bool(np.all(np.abs(_shares(value) - probs) <= 5 * np.sqrt(probs * (1 - probs) / _MANY) + 1e-9)), probs


def _shares_follow(values, calls):
    for i, (value, one) in enumerate(zip(values, calls, strict=True)):
        wrong = _form(value, one)
        if wrong:
            return i, wrong
        fits, probs = _follows(value, one, one.args[3])
        if not fits:
            shown, due = (", ".join(f"{x:.3f}" for x in row) for row in (_shares(value), probs))
            return i, f"in {_MANY} rows the first token has the shares {shown}; the policy's are {due}"
    return None


def _draws_are_fresh(values, calls):
    for i, (value, one) in enumerate(zip(values, calls, strict=True)):
        wrong = _form(value, one)
        if wrong:
            return i, wrong
    first, second, again = (value["ids"] for value in values)
    if all(len(np.unique(ids, axis=0)) == 1 for ids in (first, second)):
        return "all 24 rollouts of the prompt are the same"
    if np.array_equal(first, second):
        return "two generators with different seeds give the very same rollouts"
    if not np.array_equal(first, again):
        return "two generators with the same seed give different rollouts, so a run cannot be repeated"
    if not all(value["moved"] for value in values):
        return "the generator stands where it stood before: a second call with it gives the very same rollouts"
    return None


def _reads_once(values, calls):
    for i, (value, one) in enumerate(zip(values, calls, strict=True)):
        wrong = _form(value, one)
        if wrong:
            return i, wrong
        prompts, stops = one.args[1], one.args[4]
        read, longest = [int(n) for n in value["read"]], int(_lengths(value["ids"], stops).max())
        if not read or read[0] != prompts.shape[1]:
            return i, f"the first call of `step` should read the whole prompt, {prompts.shape[1]} tokens a row"
        if any(n != 1 for n in read[1:]):
            return i, (
                f"after the prompt one new token per call is due; your calls read {' '.join(map(str, read))} tokens a "
                "row"
            )
        if len(read) > longest:
            return i, f"`step` was called {len(read)} times; the longest rollout has {longest} tokens"
    return None


# --- the loop, with every place that can go wrong as an argument -----------------------------------------------------


def _draw(logps, generator):
    return torch.multinomial(torch.exp(logps), 1, generator=generator)[:, 0]


def _log_softmax(logits, temperature):
    return torch.log_softmax(logits / temperature, dim=-1)


def _at(table, tokens):
    return table.gather(1, tokens[:, None])[:, 0]


def _run(
    step, prompt_ids, max_new_tokens, temperature, stop_ids, pad_id, generator,
    draw=_draw, table_of=_log_softmax, logp_of=None, feed="token", logp_after=False, goes_on=False, keeps_stop=True,
    together=False, late_logps=False, to_the_end=False, one_more=False, scores_stop=True,
):  # fmt: skip
    rows, stops = len(prompt_ids), torch.tensor(sorted(stop_ids))
    ids = torch.full((rows, max_new_tokens), pad_id)
    logps = torch.zeros(rows, max_new_tokens)
    running, everything = torch.ones(rows, dtype=torch.bool), prompt_ids
    logits, cache = step(prompt_ids, None)
    for t in range(max_new_tokens):
        table = table_of(logits, temperature)
        tokens = draw(table, generator)
        own = _at(table, tokens) if logp_of is None else logp_of(logits, temperature, tokens)
        stopped = torch.isin(tokens, stops)
        wanted = running if keeps_stop else running & ~stopped
        ids[:, t] = torch.where(wanted | goes_on, tokens, pad_id)
        logps[:, t] = torch.where((wanted & (scores_stop | ~stopped)) | goes_on | logp_after, own, 0.0)
        running = running & ~stopped
        everything = torch.cat([everything, tokens[:, None]], dim=1)
        if together and not running.all():
            break
        if not to_the_end and (t + 1 == max_new_tokens or not running.any()):
            if one_more:
                step(tokens[:, None], cache)
            break
        if feed == "token":
            logits, cache = step(tokens[:, None], cache)
        elif feed == "everything again":
            logits, cache = step(everything, cache)
        elif feed == "no cache":
            logits, cache = step(everything, None)
        else:
            logits, cache = step(tokens[:, None], None)
        if late_logps:
            logps[:, t] = torch.where(wanted, _at(table_of(logits, temperature), tokens), 0.0)
    return ids, logps


def _changed(**places):
    def wrong(step, prompt_ids, max_new_tokens, temperature, stop_ids, pad_id, generator):
        return _run(step, prompt_ids, max_new_tokens, temperature, stop_ids, pad_id, generator, **places)

    return wrong


def _own_generator(step, prompt_ids, max_new_tokens, temperature, stop_ids, pad_id, generator):
    copy = torch.Generator().manual_seed(generator.initial_seed())
    return _run(step, prompt_ids, max_new_tokens, temperature, stop_ids, pad_id, copy)


def _one_row_at_a_time(step, prompt_ids, max_new_tokens, temperature, stop_ids, pad_id, generator):
    settings = max_new_tokens, temperature, stop_ids, pad_id, generator
    pairs = [_run(step, prompt_ids[row : row + 1], *settings) for row in range(len(prompt_ids))]
    return tuple(torch.cat(parts) for parts in zip(*pairs, strict=True))


def _draw_argmax(logps, generator):
    return logps.argmax(dim=1)


def _draw_reseeded(logps, generator):
    return _draw(logps, torch.Generator().manual_seed(0))


def _draw_global(logps, generator):
    return torch.multinomial(torch.exp(logps), 1)[:, 0]


def _draw_one_for_all(logps, generator):
    """The same random number for every row; with one prompt all rows are then the same."""
    number = torch.rand(1, generator=generator)
    return (torch.exp(logps).cumsum(dim=1) < number).sum(dim=1).clamp(max=logps.shape[1] - 1)


def _draw_at_temperature_1(step, prompt_ids, max_new_tokens, temperature, stop_ids, pad_id, generator):
    def draw(logps, generator):
        return _draw(torch.log_softmax(logps * temperature, dim=1), generator)

    return _run(step, prompt_ids, max_new_tokens, temperature, stop_ids, pad_id, generator, draw=draw)


def _top_two(logits, temperature):
    smallest_kept = logits.topk(2, dim=-1).values[:, -1:]
    return torch.log_softmax(logits.masked_fill(logits < smallest_kept, -torch.inf) / temperature, dim=-1)


def _trimmed(step, prompt_ids, max_new_tokens, temperature, stop_ids, pad_id, generator):
    ids, logps = _run(step, prompt_ids, max_new_tokens, temperature, stop_ids, pad_id, generator)
    width = int((logps != 0).any(dim=0).sum())
    return torch.cat([prompt_ids, ids[:, :width]], dim=1), logps[:, :width]


# --- symptoms --------------------------------------------------------------------------------------------------------


def _every(values, calls, holds):
    """Whether `holds` for each call's value, all of them in the right form."""
    pairs = list(zip(values, calls, strict=True))
    return all(_form(value, one) is None for value, one in pairs) and all(holds(value, one) for value, one in pairs)


def _as_due(value, one, **misreading):
    return np.allclose(value["logps"], _due_logps(one, value["ids"], **misreading), rtol=1e-4, atol=1e-4)


def _right_logps(values, calls):
    return _every(values[_LOGPS], calls[_LOGPS], _as_due)


def _scored(**misreading):
    """Whether the log-probs are those of this misreading everywhere, and not the right ones."""

    def symptom(values, calls):
        return not _right_logps(values, calls) and _every(
            values[_LOGPS], calls[_LOGPS], lambda value, one: _as_due(value, one, **misreading)
        )

    return symptom


def _shares_at_1(values, calls):
    return _follows(values[_SHARES][0], calls[_SHARES][0], 1.0)[0]


def _is_greedy(values, calls):
    def greedy(value, one):
        model, prompts, stops = one.args[0], one.args[1], one.args[4]
        ids = value["ids"]
        for t in range(ids.shape[1]):
            live = t < _lengths(ids, stops)
            before = prompts[:, -1] if t == 0 else ids[:, t - 1]
            best = model.logits(before, prompts.shape[1] + t).argmax(axis=1)
            if np.any(live & (best != ids[:, t])):
                return False
        return True

    return _every(values, calls, greedy)


def _fresh_ids(values):
    return [value["ids"] for value in values[_FRESH]]


def _looks_reseeded(values, calls):
    first, second, again = _fresh_ids(values)
    return len(np.unique(first, axis=0)) > 1 and np.array_equal(first, second) and np.array_equal(first, again)


def _looks_copied(values, calls):
    first, second, again = _fresh_ids(values)
    stands = not any(value["moved"] for value in values[_FRESH])
    return stands and np.array_equal(first, again) and not np.array_equal(first, second) and not _looks_the_same(
        values, calls
    ) and not _is_greedy(values, calls)  # fmt: skip


def _looks_global(values, calls):
    first, _, again = _fresh_ids(values)
    return len(np.unique(first, axis=0)) > 1 and not np.array_equal(first, again)


def _looks_the_same(values, calls):
    return all(len(np.unique(ids, axis=0)) == 1 for ids in _fresh_ids(values)) and not np.array_equal(
        *_fresh_ids(values)[:2]
    )


def _end_has_no_logp(values, calls):
    def without(value, one):
        return np.allclose(value["logps"], np.where(np.isin(value["ids"], list(one.args[4])), 0.0, due(value, one)),
                           rtol=1e-4, atol=1e-4)  # fmt: skip

    def due(value, one):
        return _due_logps(one, value["ids"])

    return not _right_logps(values, calls) and _every(values[_LOGPS], calls[_LOGPS], without)


def _text_behind_the_end(values, calls):
    def runs_on(value, one):
        ids, length = value["ids"], _lengths(value["ids"], one.args[4])
        return np.any((ids != one.args[5]) & (np.arange(ids.shape[1]) >= length[:, np.newaxis]))

    return _every(values, calls, lambda v, c: True) and any(
        runs_on(value, one) for value, one in zip(values[_ENDS], calls[_ENDS], strict=True)
    )


def _logps_behind_the_end(values, calls):
    def some(value, one):
        behind = np.arange(value["ids"].shape[1]) >= _lengths(value["ids"], one.args[4])[:, np.newaxis]
        return bool(np.any(value["logps"][behind] != 0))

    pairs = list(zip(values[_LOGPS], calls[_LOGPS], strict=True))
    return not _text_behind_the_end(values, calls) and any(some(value, one) for value, one in pairs)


def _end_is_missing(values, calls):
    """Where padding is no end token, there is no end token at all, and the log-probs before are right."""
    value, one = values[_ENDS][1], calls[_ENDS][1]
    ended = np.isin(value["ids"], list(one.args[4])).any()
    return not ended and bool((value["logps"] == 0).any()) and not _all_stop_together(values, calls)


def _all_stop_together(values, calls):
    value, one = values[_ENDS][1], calls[_ENDS][1]
    counted = (value["logps"] != 0).sum(axis=1)
    stops = np.isin(value["ids"], list(one.args[4])).any(axis=1)
    return len(set(counted.tolist())) == 1 and counted[0] < one.args[2] and bool(stops.any()) and not stops.all()


def _grows(values):
    value = values[_CACHE][0]
    return len(value["read"]) > 1 and value["read"][1] == value["read"][0] + 1


def _each_row_reads_its_prompt(values, calls):
    value, one = values[_CACHE][0], calls[_CACHE][0]
    rows, width = one.args[1].shape
    return list(value["read"]).count(width) == rows and set(value["read"]) <= {1, width}


def _two_tokens_only(values, calls):
    return int((_shares(values[_SHARES][0]) > 0).sum()) == 2


def _steps_too_many(values, calls):
    """How many calls of step there are too many, and whether they go on to the limit; None where all is not right."""
    right = _right_logps(values, calls) and _rows_end(values[_ENDS], calls[_ENDS]) is None
    value, one = values[_CACHE][1], calls[_CACHE][1]
    if not right or any(n != 1 for n in value["read"][1:]):
        return None
    return len(value["read"]) - int(_lengths(value["ids"], one.args[4]).max()), len(value["read"]) >= one.args[2]


def _reads_after_the_end(values, calls):
    found = _steps_too_many(values, calls)
    return found is not None and found[0] > 1 and found[1]


def _one_step_too_many(values, calls):
    found = _steps_too_many(values, calls)
    return found is not None and found[0] == 1


# --- alternatives ----------------------------------------------------------------------------------------------------


def _row_by_row(step, prompt_ids, max_new_tokens, temperature, stop_ids, pad_id, generator):
    """Lists for the rows, Gumbel noise for the draws."""
    rows = len(prompt_ids)
    ids, logps, done = [[] for _ in range(rows)], [[] for _ in range(rows)], [False] * rows
    fed, cache = prompt_ids, None
    while not all(done) and len(ids[0]) < max_new_tokens:
        logits, cache = step(fed, cache)
        scaled = logits.double() / temperature
        noise = -torch.log(-torch.log(torch.rand(scaled.shape, generator=generator, dtype=torch.float64)))
        tokens = (scaled + noise).argmax(dim=1).tolist()
        table = scaled - scaled.logsumexp(dim=1, keepdim=True)
        for row, token in enumerate(tokens):
            ids[row].append(pad_id if done[row] else token)
            logps[row].append(0.0 if done[row] else table[row, token].item())
            done[row] = done[row] or token in stop_ids
        fed = torch.tensor(tokens)[:, None]
    missing = max_new_tokens - len(ids[0])
    return (
        torch.tensor([row + [pad_id] * missing for row in ids]),
        torch.tensor([row + [0.0] * missing for row in logps]),
    )


def _by_distribution(step, prompt_ids, max_new_tokens, temperature, stop_ids, pad_id, generator):
    """One random number per row and place, drawn beforehand, and the inverse of the cumulative sum."""
    rows = len(prompt_ids)
    numbers = torch.rand(rows, max_new_tokens, generator=generator, dtype=torch.float64)
    ids, logps = torch.full((rows, max_new_tokens), pad_id), torch.zeros(rows, max_new_tokens)
    running, fed, cache = torch.ones(rows, dtype=torch.bool), prompt_ids, None
    for t in range(max_new_tokens):
        if not running.any():
            break
        logits, cache = step(fed, cache)
        table = torch.log_softmax(logits.double() / temperature, dim=1)
        edges = table.exp().cumsum(dim=1)
        tokens = torch.searchsorted(edges, numbers[:, t, None] * edges[:, -1:], right=True)[:, 0]
        ids[running, t] = tokens[running]
        logps[running, t] = _at(table, tokens)[running].float()
        running &= ~sum(tokens == stop for stop in stop_ids).bool()
        fed = tokens[:, None]
    return ids, logps


SAMPLE_COMPLETIONS = Exercise(
    name="sample_completions",
    chapter=CHAPTER,
    difficulty=3,
    minutes=25,
    reference=_sample,
    adapter=Decoding(),
    parts=(
        Part(
            says="every row ends with its own end token, padding behind it",
            points=1,
            calls=_end_calls,
            holds=_rows_end,
            hint="Keep one truth value per row: is it still running? A finished row is fed along, and its tokens are "
            "not written down.",
        ),
        Part(
            says="the log-prob of each sampled token, the end token included, 0 behind it",
            points=2,
            calls=_logp_calls,
            holds=_logps_belong,
            hint="Take it from the very distribution that the token was drawn from, before the model reads the token.",
        ),
        Part(
            says="tokens as often as the policy says at this temperature",
            points=1,
            calls=_share_calls,
            holds=_shares_follow,
            hint="The softmax of logits / T, nothing cut off.",
        ),
        Part(
            says="the generator decides: other seeds, other rollouts; the same seed, the same",
            points=1,
            calls=_fresh_calls,
            holds=_draws_are_fresh,
            hint="Hand the `generator` of the argument to every draw, and make none of your own. Who draws from it "
            "moves it on, so the next batch gets other numbers.",
        ),
        Part(
            says="the prompt is read once, then one token per step, and no step too many",
            points=1,
            calls=_cache_calls,
            holds=_reads_once,
            hint="The cache remembers what was read. Stop when all rows have stopped.",
        ),
    ),
    mistakes=(
        Mistake(
            "argmax",
            _changed(draw=_draw_argmax),
            "Every token is the likeliest one. All rollouts of a prompt are then equal, all advantages 0, and nothing "
            "is learned.",
            symptom=_is_greedy,
        ),
        Mistake(
            "one random number for all rows",
            _changed(draw=_draw_one_for_all),
            "All rollouts of a prompt are the same: the rows share their random numbers, or one row was copied.",
            symptom=_looks_the_same,
        ),
        Mistake(
            "reseeded in the loop",
            _changed(draw=_draw_reseeded),
            "Different seeds give the same rollouts: a generator is made (or a seed set) inside the function. In a "
            "run, every batch would hold the same rollouts.",
            symptom=_looks_reseeded,
        ),
        Mistake(
            "a generator made from the seed of the other",
            _own_generator,
            "A new generator was made from the seed of the one in the argument, which itself never moves on. In a run "
            "with one generator every batch would be drawn with the same random numbers.",
            symptom=_looks_copied,
        ),
        Mistake(
            "global random state",
            _changed(draw=_draw_global),
            "The same seed gives different rollouts: the draws do not come from the `generator` of the argument.",
            symptom=_looks_global,
        ),
        Mistake(
            "everybody stops with the first",
            _changed(together=True),
            "The whole batch stopped when the first row did. The others were cut off in mid-sentence.",
            symptom=_all_stop_together,
        ),
        Mistake(
            "no stop",
            _changed(goes_on=True, to_the_end=True),
            "A row goes on after its end token. What it says there is scored and trained as if it were the answer.",
            symptom=_text_behind_the_end,
        ),
        Mistake(
            "log-probs behind the end",
            _changed(logp_after=True),
            "Behind the end token there are log-probs that are not 0: of tokens that were thrown away. In a sum over "
            "the row they count.",
            symptom=_logps_behind_the_end,
        ),
        Mistake(
            "end token not written down",
            _changed(keeps_stop=False),
            "The end token itself is missing, or its log-prob is. The policy chose to stop there; it must be possible "
            "to train that choice.",
            symptom=_end_is_missing,
        ),
        Mistake(
            "end token without its log-prob",
            _changed(scores_stop=False),
            "The end token is there, and its log-prob is 0. The policy chose to stop; with the log-prob of that choice "
            "it can be trained.",
            symptom=_end_has_no_logp,
        ),
        Mistake(
            "one row at a time",
            _one_row_at_a_time,
            "Every row was sampled by itself: the rollouts are right, and the batch, which makes sampling cheap, is "
            "not used. `step` reads all rows at once.",
            symptom=_each_row_reads_its_prompt,
        ),
        Mistake(
            "everything read again, with the cache",
            _changed(feed="everything again"),
            "From the second step on the whole row is read again, although the cache holds it already. For the model "
            "everything was then said twice.",
            symptom=lambda values, calls: _grows(values) and not _right_logps(values, calls),
        ),
        Mistake(
            "no cache",
            _changed(feed="no cache"),
            "The rollouts are right, but every step reads the whole row again: a rollout of 1000 tokens costs half a "
            "million token steps instead of a thousand.",
            symptom=lambda values, calls: _grows(values) and _right_logps(values, calls),
        ),
        Mistake(
            "cache not handed on",
            _changed(feed="forgotten"),
            "After the first step the model knows nothing but the last token: the cache that came back was not "
            "handed on.",
            symptom=_scored(forgets=True),
        ),
        Mistake(
            "temperature left out",
            _changed(table_of=lambda logits, t: torch.log_softmax(logits, dim=-1)),
            "`temperature` changes nothing, neither the draws nor the log-probs.",
            symptom=lambda values, calls: _shares_at_1(values, calls) and _scored(temperature=1.0)(values, calls),
        ),
        Mistake(
            "log-probs without the temperature",
            _changed(logp_of=lambda logits, t, tokens: _at(torch.log_softmax(logits, dim=-1), tokens)),
            "The tokens were drawn at the temperature, their log-probs are those at 1: not of the distribution that "
            "was sampled. The ratio of the first update is then not 1.",
            symptom=lambda values, calls: not _shares_at_1(values, calls) and _scored(temperature=1.0)(values, calls),
        ),
        Mistake(
            "drawn without the temperature",
            _draw_at_temperature_1,
            "The log-probs are those at the temperature, but the tokens come as often as at temperature 1.",
            symptom=lambda values, calls: _shares_at_1(values, calls) and _right_logps(values, calls),
        ),
        Mistake(
            "log-probs of the next distribution",
            _changed(late_logps=True, to_the_end=True),
            "The log-probs come from the step after: the model had read the token already. Take them before the next "
            "call of `step`.",
            symptom=_scored(kind="next"),
        ),
        Mistake(
            "log-prob of the likeliest token",
            _changed(logp_of=lambda logits, t, tokens: _log_softmax(logits, t).max(dim=1).values),
            "The log-probs are those of the likeliest tokens, not of the ones that were drawn.",
            symptom=_scored(kind="likeliest"),
        ),
        Mistake(
            "probabilities",
            _changed(logp_of=lambda logits, t, tokens: torch.exp(_at(_log_softmax(logits, t), tokens))),
            "Probabilities came back. Their logs are asked for.",
            symptom=_scored(kind="probabilities"),
        ),
        Mistake(
            "raw logits",
            _changed(logp_of=lambda logits, t, tokens: _at(logits / t, tokens)),
            "Logits came back in the place of log-probs.",
            symptom=_scored(kind="logits"),
        ),
        Mistake(
            "top-k",
            _changed(table_of=_top_two),
            "Only the two likeliest tokens are ever drawn. Whatever a filter removes has probability 0 while sampling "
            "and not in training, so the ratio is wrong; and a right answer that is rare is never found.",
            symptom=_two_tokens_only,
        ),
        Mistake(
            "prompt and answer together",
            _trimmed,
            "The ids hold the prompt as well. Only what was sampled is asked for, as wide as `max_new_tokens`.",
            symptom=lambda values, calls: (
                values[0]["ids"].shape[1] > calls[0].args[1].shape[1]
                and np.array_equal(values[0]["ids"][:, : calls[0].args[1].shape[1]], calls[0].args[1])
            ),
        ),
        Mistake(
            "steps after the last row has stopped",
            _changed(to_the_end=True),
            "The model goes on reading when there is nothing left to write, up to the limit. With a limit of 1000 and "
            "answers of 20 tokens that is nearly all of the time.",
            symptom=_reads_after_the_end,
        ),
        Mistake(
            "one step too many",
            _changed(one_more=True),
            "After the last token `step` was called once more, and nobody uses what it says. Look whether all rows "
            "have stopped before the call, not after it.",
            symptom=_one_step_too_many,
        ),
    ),
    alternatives=(
        Alternative("lists and Gumbel noise", _row_by_row),
        Alternative("cumulative sums, numbers drawn beforehand", _by_distribution),
        Alternative("multinomial", _changed()),
    ),
    hint="Before the loop: ids full of padding, log-probs of 0, all rows running, and the prompt read. In the loop: "
    "log-softmax, draw, write down, who has stopped, read on.",
)
