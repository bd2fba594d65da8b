"""The exercise `nucleus_logprobs`: its parts, its known mistakes, and correct alternatives."""

from __future__ import annotations

import math

import numpy as np

import grpo
from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.exercises.chapter_07.common_torch import CHAPTER, numpy_log_softmax

NAN = float("nan")
TIED = 4
FAR_APART = [[1000.0, 999.5], [0.0, 0.5]]
MARGIN = 0.01  # how far a running sum stays away from top_p, so that rounding decides nothing


def _checked(top_p, temperature):
    if not 0 <= top_p <= 1:
        raise ValueError(f"top_p is {top_p}: a probability is due, 0 to 1")
    if not 0 < temperature < math.inf:
        raise ValueError(f"temperature is {temperature}: a positive number is due")


def _stable(rows):
    return np.argsort(-rows, axis=-1, kind="stable")


def _crossing_kept(chances, top_p):
    """Which of the sorted tokens are kept: those before which less than top_p has been gathered."""
    if top_p >= 1:
        return np.ones(chances.shape, dtype=bool)
    return (np.cumsum(chances, axis=-1) - chances < top_p) | (np.arange(chances.shape[-1]) == 0)


def _put_back(kept, order):
    back = np.zeros(kept.shape, dtype=bool)
    np.put_along_axis(back, order, kept, axis=-1)
    return back


def _renormalised(logps, kept):
    with np.errstate(divide="ignore"):
        return np.where(kept, logps - np.log(np.where(kept, np.exp(logps), 0.0).sum(axis=-1, keepdims=True)), -np.inf)


def _nucleus(
    logits, top_p, temperature=1.0, check=_checked, scale=lambda logits, t: logits / t, order_of=_stable,
    chances_of=np.exp, keep=_crossing_kept, back=_put_back, finish=_renormalised, table_of=numpy_log_softmax,
):  # fmt: skip
    """The right way, with every place that can go wrong as an argument."""
    check(top_p, temperature)
    given = np.asarray(logits, dtype=float)
    rows = np.atleast_2d(given)
    logps = table_of(scale(rows, temperature))
    order = order_of(rows)
    kept = back(keep(chances_of(np.take_along_axis(logps, order, axis=-1)), top_p), order)
    return finish(logps, kept).reshape(given.shape)


def _changed(**places):
    def wrong(logits, top_p, temperature=1.0):
        return _nucleus(logits, top_p, temperature, **places)

    return wrong


# --- calls -----------------------------------------------------------------------------------------------------------


def _kept(logits, top_p, temperature=1.0):
    return np.isfinite(_nucleus(logits, top_p, temperature))


def _clear(logits, top_p, temperature=1.0):
    """Tell whether no running sum lies near top_p."""
    chances = np.sort(np.exp(numpy_log_softmax(np.asarray(logits) / temperature)))[::-1]
    return np.abs(np.cumsum(chances) - top_p).min() > MARGIN


def _row(rng, top_p, temperature=1.0, tokens=6):
    """Logits of which some are kept and some are not, and others without the temperature."""
    while True:
        logits = np.round(1.5 * rng.standard_normal(tokens), 1) + 0.0  # no -0.0
        kept, without = _kept(logits, top_p, temperature), _kept(logits, top_p)
        multiplied = _kept(logits, top_p, 1.0 / temperature)
        if not _clear(logits, top_p, temperature) or not 2 <= kept.sum() <= tokens - 2 or len(set(logits)) < tokens:
            continue
        if temperature == 1.0 or len({kept.sum(), without.sum(), multiplied.sum()}) == 3:
            return logits


def _filter_calls(rng):
    return [
        call(np.log([0.15, 0.5, 0.05, 0.3]).round(4), 0.9),
        call(_row(rng, 0.8), 0.8),
        call(_row(rng, 0.6, tokens=8), 0.6),
        call([0.0, 4.0, 1.0], 0.5, note="the most likely token alone reaches top_p"),
    ]


def _ties():
    """Twenty likely tokens and twenty unlikely ones; ten of the likely ones are enough."""
    return np.tile([0.0, 1.0], 20), 0.35


def _row_calls(rng):
    """TIED calls with equal logits, then batches, each with its rows alone behind it."""
    while True:
        rows = np.array([_row(rng, 0.75, tokens=5) for _ in range(3)])
        if len({int(row.sum()) for row in _kept(rows, 0.75)}) > 1:
            break
    tied = np.insert([2.0, 2.0, 2.0, 0.0], int(rng.integers(0, 4)), 0.5)
    return [
        call([0.0, 0.0], 0.5, note="the first token reaches top_p exactly"),
        call([1.0, 1.0, 1.0], 0.3, note="equal logits: the smaller id comes first"),
        call(tied, 0.4, note="equal logits"),
        call(*_ties(), note="twenty equal logits, and ten of them are enough"),
        *(one for batch in (rows, FAR_APART) for one in (call(batch, 0.75), *(call(row, 0.75) for row in batch))),
    ]


def _temperature_calls(rng):
    """In threes: with a temperature, with the logits divided by it, and without."""
    first = np.array([2.0, 0.0, 1.0, -1.0])
    drawn = [(first, 0.8, 2.0), (_row(rng, 0.7, 1.8, tokens=8), 0.7, 1.8), (_row(rng, 0.8, 0.6, tokens=8), 0.8, 0.6)]
    return [
        one
        for logits, top_p, t in drawn
        for one in (call(logits, top_p, temperature=t), call(logits / t, top_p), call(logits, top_p))
    ]


def _edge_calls(rng):
    return [
        call([1.0, 2.0, 0.0], 1.0, note="every token is kept"),
        call([0.0, -40.0, -50.0], 1.0, note="every token is kept"),
        # The log of the sum is the largest logit: no rounding, in float32 neither.
        call([0.0, 1000.0, -1000.0], 1.0, note="large logits: every token is kept"),
        call(_row(rng, 0.9), 0.0, note="the most likely token is kept"),
    ]


def _error_calls(rng):
    logits = _row(rng, 0.9)
    return [
        call(logits, 0.9, note="no error"),
        call(logits, 1.5),
        call(logits, -0.1),
        call(logits, 90, note="percent"),
        call(logits, NAN),
        call(logits, 0.9, temperature=0.0),
        call(logits, 0.9, temperature=-1.0),
        call(logits, 0.9, temperature=NAN),
    ]


# --- properties ------------------------------------------------------------------------------------------------------


def _same(a, b):
    return a.shape == b.shape and np.allclose(a, b, rtol=2e-5, atol=1e-5)


def _rows_and_ties(values, calls):
    found = [np.asarray(value, dtype=float) for value in values]
    for i, one in enumerate(calls):
        logits = np.asarray(one.args[0])
        if found[i].shape != logits.shape:
            return i, f"the shape is {found[i].shape}, not {logits.shape}"
        if logits.ndim == 1 and np.isnan(found[i]).any():
            return i, "there is NaN"
    for i in range(TIED):
        logits = np.asarray(calls[i].args[0])
        kept = np.exp(found[i][logits == logits.max()]) > 0
        if kept.all():
            return i, f"all {kept.size} equal logits are kept; fewer of them reach top_p"
        if not kept.any() or np.any(np.diff(kept.astype(int)) > 0):
            places = ", ".join(map(str, np.flatnonzero((np.exp(found[i]) > 0) & (logits == logits.max()))))
            return i, f"of the equal logits those with the ids {places or 'none'} are kept, not the smallest ids"
    start = TIED
    while start < len(calls):
        end = start + 1 + len(found[start])
        broken = np.flatnonzero(~np.isfinite(found[start]).any(axis=1))
        if broken.size:
            row = int(broken[0])
            return start, f"row {row} holds no finite number, alone it does: what is subtracted before exp is taken?"
        if not _same(found[start], np.stack(found[start + 1 : end])):
            return start, "a row gets other log-probs in a batch than alone"
        start = end
    return None


def _temperature_first(values, calls):
    found = [np.asarray(value, dtype=float) for value in values]
    for i in range(0, len(found), 3):
        warm, divided, without = found[i : i + 3]
        if warm.size != np.size(calls[i].args[0]):  # a table of one row has cost its points already
            return i, f"{warm.size} numbers came back for {np.size(calls[i].args[0])} logits"
        if _same(warm, without):
            return i, "the answer is the same as without the temperature"
        if not _same(warm, divided):
            return i, "the answer is another one than for logits that were divided by the temperature beforehand"
    return None


# --- mistakes --------------------------------------------------------------------------------------------------------


def _with_the_first(kept):
    kept[..., 0] = True
    return kept


def _crossing_dropped(chances, top_p):
    return _with_the_first(np.cumsum(chances, axis=-1) <= (top_p if top_p < 1 else 2))


def _one_more(chances, top_p):
    kept = _crossing_kept(chances, top_p)
    kept[..., 1:] |= kept[..., :-1].copy()
    return kept


def _reached_goes_on(chances, top_p):
    return _with_the_first(np.cumsum(chances, axis=-1) - chances <= (top_p if top_p < 1 else 2))


def _own_chance(chances, top_p):
    return _with_the_first(chances >= 1 - top_p)


def _at_least_top_p(chances, top_p):
    return _with_the_first(chances >= top_p) if top_p < 1 else np.ones(chances.shape, dtype=bool)


def _no_token(chances, top_p):
    return np.ones(chances.shape, dtype=bool) if top_p >= 1 else np.cumsum(chances, axis=-1) - chances < top_p


def _ends_by_the_rule(chances, top_p):
    return np.cumsum(chances, axis=-1) - chances < top_p


def _tail_dropped(chances, top_p):
    return _with_the_first(np.cumsum(chances, axis=-1) - chances < top_p)


def _rows_as_one(chances, top_p):
    running = np.cumsum(chances).reshape(chances.shape)
    return _with_the_first(running - chances < top_p) if top_p < 1 else np.ones(chances.shape, dtype=bool)


def _first_row_for_all(kept, order):
    back = _put_back(kept, order)
    return np.broadcast_to(back[:1], back.shape)


def _renormalised_over_the_batch(logps, kept):
    with np.errstate(divide="ignore"):
        return np.where(kept, logps - np.log(np.exp(logps)[kept].sum()), -np.inf)


def _first_list_in_order(kept, order):
    """The order as if it said where each token goes: right only where the permutation is its own inverse."""
    return np.take_along_axis(kept, order, axis=-1)


def _sorted_order(logits, top_p, temperature=1.0):
    right = _nucleus(logits, top_p, temperature)
    return np.take_along_axis(right, _stable(np.asarray(logits, dtype=float)), axis=-1)


def _ties_all_kept(logits, top_p, temperature=1.0):
    def back(kept, order):
        rows = np.atleast_2d(np.asarray(logits, dtype=float))
        return rows >= np.where(_put_back(kept, order), rows, np.inf).min(axis=-1, keepdims=True)

    return _nucleus(logits, top_p, temperature, back=back)


def _filter_first(logits, top_p, temperature=1.0):
    _checked(top_p, temperature)
    logits = np.asarray(logits, dtype=float)
    return numpy_log_softmax(np.where(np.isfinite(_nucleus(logits, top_p)), logits / temperature, -np.inf))


def _running_sum_of_logits(logits, top_p, temperature=1.0):
    def keep(chances, top_p):
        rows = -np.sort(-np.atleast_2d(np.asarray(logits, dtype=float)) / temperature, axis=-1)
        return _crossing_kept(rows, top_p)

    return _nucleus(logits, top_p, temperature, keep=keep)


def _naive(scaled):
    with np.errstate(all="ignore"):
        weights = np.exp(scaled)
        return np.log(weights / weights.sum(axis=-1, keepdims=True))


def _log_of_zero(scaled):
    weights = np.exp(scaled - scaled.max(axis=-1, keepdims=True))
    with np.errstate(divide="ignore"):
        return np.log(weights / weights.sum(axis=-1, keepdims=True))


def _largest_of_the_batch(scaled):
    shifted = scaled - scaled.max()
    with np.errstate(divide="ignore"):
        return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def _probabilities(logits, top_p, temperature=1.0):
    return np.exp(_nucleus(logits, top_p, temperature))


def _plain(logits, top_p, temperature=1.0):
    _checked(top_p, temperature)
    return numpy_log_softmax(np.asarray(logits, dtype=float) / temperature)


def _kept_only(logits, top_p, temperature=1.0):
    right = _nucleus(logits, top_p, temperature)
    return right[np.isfinite(right)]


def _always_two_axes(logits, top_p, temperature=1.0):
    return np.atleast_2d(_nucleus(logits, top_p, temperature))


def _nothing_checked(top_p, temperature):
    pass


def _top_p_not_checked(top_p, temperature):
    _checked(0.5, temperature)


def _temperature_not_checked(top_p, temperature):
    _checked(top_p, 1.0)


def _nan_passes(top_p, temperature):
    if top_p < 0 or top_p > 1 or temperature <= 0:
        raise ValueError("out of range")


def _temperature_zero_passes(top_p, temperature):
    _checked(top_p, temperature or 1.0)


def _temperature_below_zero_only(top_p, temperature):
    _checked(top_p, -1.0 if temperature < 0 else 1.0)


def _zero_refused(top_p, temperature):
    _checked(top_p, temperature)
    if top_p == 0:
        raise ValueError("top_p is 0")


# --- alternatives ----------------------------------------------------------------------------------------------------


def _by_loop(logits, top_p, temperature=1.0):
    if not (0 <= top_p <= 1 and temperature > 0):
        raise ValueError("top_p or temperature out of range")
    if np.ndim(logits) == 2:
        return [_by_loop(row, top_p, temperature) for row in logits]
    scaled = [float(z) / temperature for z in logits]
    largest = max(scaled)
    weights = [math.exp(z - largest) for z in scaled]
    kept, gathered = [], 0.0
    for token in sorted(range(len(scaled)), key=lambda i: -scaled[i]):  # Python's sort is stable
        kept.append(token)
        gathered += weights[token] / sum(weights)
        if gathered >= top_p and top_p < 1:
            break
    total = math.log(sum(weights[token] for token in kept))
    return [scaled[i] - largest - total if i in kept else -math.inf for i in range(len(scaled))]


def _without_sorting(logits, top_p, temperature=1.0):
    """A token is kept if those that come before it have not reached top_p; before it come larger logits and, of equal
    ones, the smaller ids."""
    if not 0 <= top_p <= 1 or not temperature > 0:
        raise ValueError("top_p or temperature out of range")
    z = np.asarray(logits, dtype=np.float64)
    chances = np.exp(numpy_log_softmax(z / temperature))
    ids = np.arange(z.shape[-1])
    first = (z[..., None, :] > z[..., None]) | ((z[..., None, :] == z[..., None]) & (ids < ids[:, None]))
    before = (first * chances[..., None, :]).sum(axis=-1)
    keep = (before < top_p) | ~first.any(axis=-1) | (top_p == 1)
    return numpy_log_softmax(np.where(keep, z / temperature, -np.inf))


def _in_float32(logits, top_p, temperature=1.0):
    """Computed in float32, and handed back as float64."""
    _checked(top_p, temperature)
    scaled = np.atleast_2d(np.asarray(logits, dtype=np.float32)) / np.float32(temperature)
    logps = scaled - np.logaddexp.reduce(scaled, axis=-1, keepdims=True)
    order = np.argsort(-scaled, axis=-1, kind="stable")
    kept = _put_back(_crossing_kept(np.exp(np.take_along_axis(logps, order, axis=-1)), top_p), order)
    mass = np.logaddexp.reduce(np.where(kept, logps, -np.inf), axis=-1, keepdims=True)
    return np.where(kept, logps - mass, -np.inf).astype(float).reshape(np.shape(logits))


def _by_count(logits, top_p, temperature=1.0):
    """How many tokens are needed, row by row, by searchsorted; a list of rows comes back as an array."""
    _checked(top_p, temperature)
    rows = np.atleast_2d(np.array(logits, dtype=float)) / temperature
    out = np.full(rows.shape, -np.inf)
    for row, target in zip(rows, out, strict=True):
        order = np.argsort(-row, kind="mergesort")
        running = np.cumsum(np.exp(row[order] - row.max()))
        count = len(row) if top_p == 1 else int(np.searchsorted(running / running[-1], top_p)) + 1
        best = order[:count]
        target[best] = row[best] - row.max() - np.log(running[min(count, len(row)) - 1])
    return out if np.ndim(logits) == 2 else out[0]


NUCLEUS_LOGPROBS = Exercise(
    name="nucleus_logprobs",
    chapter=CHAPTER,
    difficulty=2,
    minutes=20,
    reference=grpo.nucleus_logprobs,
    rtol=2e-5,  # the text leaves the dtype open, and float32 may be computed in and float64 returned
    atol=1e-5,
    parts=(
        Part(
            says="the shortest list that reaches top_p, renormalised; -inf outside",
            points=1,
            calls=_filter_calls,
            hint="Sort from likely to unlikely and look at the running sum. What has been gathered BEFORE a token says "
            "whether it is still needed. Then put the answers back where the tokens came from.",
        ),
        Part(
            says="each row by itself, and of equal logits the smaller id first",
            points=1,
            calls=_row_calls,
            holds=_rows_and_ties,
            hint="Along which axis do you sort, add up and normalise? And numpy has several ways of sorting: one of "
            "them keeps equal items in their order.",
        ),
        Part(
            says="the temperature comes before the filter",
            points=1,
            calls=_temperature_calls,
            holds=_temperature_first,
            hint="The temperature changes the probabilities, and so which tokens are kept.",
        ),
        Part(
            says="top_p 1 keeps all, also where logits are far apart, and 0 the most likely token",
            points=1,
            calls=_edge_calls,
            hint="A running sum of floats can reach 1 before the last token. One token must always be left. And the "
            "probability of a token that is far behind is 0 in floats, but its log-prob is not minus infinity.",
        ),
        Part(
            says="a top_p outside 0 .. 1, or a temperature that is not positive, is a ValueError",
            points=1,
            calls=_error_calls,
            only_errors=True,
            hint="Ask what must hold, and raise where it does not: every comparison with NaN is false.",
        ),
    ),
    mistakes=(
        Mistake(
            "crossing token dropped",
            _changed(keep=_crossing_dropped),
            "The token that crosses top_p was left out, so that what is kept has less than top_p. Samplers keep it: "
            "the list must REACH top_p.",
        ),
        Mistake(
            "one token too many",
            _changed(keep=_one_more),
            "One token more than needed was kept: the list had reached top_p already.",
        ),
        Mistake(
            "one more where top_p is reached exactly",
            _changed(keep=_reached_goes_on),
            "Where the list reaches top_p exactly one token more is kept. Reached is enough: is it `<` or `<=`?",
        ),
        Mistake(
            "not renormalised",
            _changed(finish=lambda logps, kept: np.where(kept, logps, -np.inf)),
            "The right tokens are left, but their probabilities do not sum to 1: they are still those of the full "
            "softmax. The sampler draws from the kept tokens alone, so each is as much more likely as mass was cut.",
        ),
        Mistake(
            "from unlikely to likely",
            _changed(order_of=lambda rows: np.argsort(rows, axis=-1, kind="stable")),
            "The list was filled from the least likely token up: np.argsort sorts upwards.",
        ),
        Mistake(
            "filter before the temperature",
            _filter_first,
            "The tokens were chosen at temperature 1, and the temperature came afterwards. Above 1 the sampler keeps "
            "more tokens than that, below 1 fewer: then old log-probs are -inf for tokens that were drawn.",
        ),
        Mistake(
            "temperature left out",
            _changed(scale=lambda logits, t: logits),
            "`temperature` plays no part: these are the tokens, and the log-probs, of temperature 1.",
        ),
        Mistake(
            "multiplied by the temperature",
            _changed(scale=lambda logits, t: logits * t),
            "The logits were multiplied by the temperature. Above 1 it must flatten the distribution.",
        ),
        Mistake(
            "running sum of the logits",
            _running_sum_of_logits,
            "The running sum is that of the logits. They are no probabilities, and adding a number to all of them "
            "would change which tokens are kept.",
        ),
        Mistake(
            "each probability compared with top_p",
            _changed(keep=_at_least_top_p),
            "A token was kept if its own probability is top_p or more. It is the running sum that must reach top_p.",
        ),
        Mistake(
            "each probability compared with 1 - top_p",
            _changed(keep=_own_chance),
            "A token was kept if its own probability is at least 1 - top_p. Such filters exist (min-p is one), and "
            "they keep other tokens.",
        ),
        Mistake(
            "no filter",
            _plain,
            "`top_p` changes nothing: these are the log-probs of the full softmax.",
        ),
        Mistake(
            "-1e9 for -inf",
            _changed(finish=lambda logps, kept: np.where(kept, _renormalised(logps, kept), -1e9)),
            "What is never drawn has a large negative number instead of -inf. It looks the same after exp, but a mean "
            "or a ratio made of it is an enormous number that nothing warns of.",
        ),
        Mistake(
            "0 for -inf",
            _changed(finish=lambda logps, kept: np.where(kept, _renormalised(logps, kept), 0.0)),
            "What is never drawn has the log-prob 0, which means certainty. The log of 0 is -inf.",
        ),
        Mistake(
            "left in sorted order",
            _sorted_order,
            "The log-probs came back from likely to unlikely. Each belongs to a token id: put it back where that token "
            "stood.",
        ),
        Mistake(
            "sorted order undone with the wrong permutation",
            _changed(back=_first_list_in_order),
            "The kept tokens were put back to wrong places: indexing by `order` a second time is not the way back. "
            "`order[0]` says where the most likely token came from; assign to that place.",
        ),
        Mistake(
            "kept tokens only",
            _kept_only,
            "Only the kept tokens came back. Without the others a log-prob no longer stands at its token's id.",
        ),
        Mistake(
            "a row became a table",
            _always_two_axes,
            "A single row came back as a table with one row. The shape of the logits is due.",
        ),
        Mistake(
            "rows added up together",
            _changed(keep=_rows_as_one),
            "The running sum goes on from one row into the next, so that later rows keep one token only. Which axis is "
            "it to run along?",
        ),
        Mistake(
            "the first row's tokens for all",
            _changed(back=_first_row_for_all),
            "All rows keep the tokens of the first. Each row has an order of its own.",
        ),
        Mistake(
            "normalised over the whole batch",
            _changed(finish=_renormalised_over_the_batch),
            "The rows were normalised together: each of them must sum to 1.",
        ),
        Mistake(
            "equal logits turned round",
            _changed(order_of=lambda rows: np.argsort(rows, axis=-1, kind="stable")[..., ::-1]),
            "Of equal logits the larger id came first: sorting upwards and turning the list round turns ties round "
            "too.",
        ),
        Mistake(
            "equal logits in any order",
            _changed(order_of=lambda rows: np.argsort(-rows, axis=-1)),
            "Of equal logits sometimes one, sometimes another came first: numpy's default sort is not stable. Another "
            "machine then keeps other tokens.",
        ),
        Mistake(
            "all equal logits kept",
            _ties_all_kept,
            "With the token that crosses top_p all that are equal to it were kept, by a threshold on the value. The "
            "list is then longer than needed.",
        ),
        Mistake(
            "top_p 0 keeps none",
            _changed(keep=_no_token),
            "With top_p 0 no token is left, and nothing can be drawn. The most likely one is always kept.",
        ),
        Mistake(
            "top_p 0 refused",
            _changed(check=_zero_refused),
            "top_p 0 raised an error. In this course it is allowed and keeps the most likely token.",
        ),
        Mistake(
            "top_p 1 drops the tail",
            _changed(keep=_tail_dropped),
            "With top_p 1 very unlikely tokens are gone: in floats the running sum is 1 before it comes to them. Yet "
            "they can be drawn, and their ratio would be infinite.",
        ),
        Mistake(
            "log of a softmax by hand",
            _changed(table_of=_naive),
            "exp of a large logit is infinite. Subtract the largest logit of the row first.",
        ),
        Mistake(
            "log of a probability of 0",
            _changed(table_of=_log_of_zero),
            "A token that is kept got minus infinity: it is so far behind that its probability is 0 in floats, and the "
            "log of 0 was taken. Log-probs are finite there: shift and subtract instead of dividing, and the "
            "probabilities are only needed for the running sum.",
        ),
        Mistake(
            "both ends left to the running sum",
            _changed(keep=_ends_by_the_rule),
            "At the ends, what has been gathered before a token is not enough to decide. With top_p 0 nothing is left, "
            "where the most likely token is always kept. And with top_p 1 very unlikely tokens are gone: in floats the "
            "running sum is 1 before it comes to them.",
        ),
        Mistake(
            "the largest logit of the whole batch subtracted",
            _changed(table_of=_largest_of_the_batch),
            "The largest logit of the whole batch was subtracted from every row. A row whose logits are all much "
            "smaller then has nothing but zeros after exp. Each row needs its own.",
        ),
        Mistake(
            "probabilities, no logs",
            _probabilities,
            "Probabilities came back. Their logs are asked for.",
        ),
        Mistake(
            "nothing checked",
            _changed(check=_nothing_checked),
            "Impossible values of top_p and temperature go through. 90 instead of .9 then quietly keeps everything.",
        ),
        Mistake(
            "top_p not checked",
            _changed(check=_top_p_not_checked),
            "Impossible values of top_p go through. 90 instead of .9 then quietly keeps everything.",
        ),
        Mistake(
            "temperature not checked",
            _changed(check=_temperature_not_checked),
            "A temperature of 0, below 0 or NaN goes through.",
        ),
        Mistake(
            "temperature 0 not refused",
            _changed(check=_temperature_zero_passes),
            "A temperature of exactly 0 goes through, and the logits are divided by it. Positive means above 0.",
        ),
        Mistake(
            "temperatures below 0 refused, 0 and NaN not",
            _changed(check=_temperature_below_zero_only),
            "Only temperatures below 0 are refused. 0 is not positive either, and with NaN every comparison is false: "
            "ask whether it is positive, and refuse what is not.",
        ),
        Mistake(
            "NaN passes the comparison",
            _changed(check=_nan_passes),
            "NaN goes through, as `x < 0 or x > 1` is false for it.",
        ),
    ),
    alternatives=(
        Alternative("a loop over the sorted tokens", _by_loop),
        Alternative("without sorting", _without_sorting),
        Alternative("counted with searchsorted", _by_count),
        Alternative("in float32", _in_float32),
    ),
    hint="Temperature, log-softmax, a stable order from likely to unlikely, the running sum, and back to the ids.",
)
