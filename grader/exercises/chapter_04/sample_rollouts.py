"""The exercise `sample_rollouts`: its parts, its known mistakes, and correct alternatives.

Random answers are judged by what must hold for them, and known mistakes by their symptoms.
"""

from __future__ import annotations

import math

import numpy as np

from grader.compare import as_numbers
from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.exercises.chapter_04.common import (
    CHAPTER,
    END,
    EXPRESSIONS,
    ID,
    PREFIXES,
    TARGETS,
    TOKENS,
    UnreadableError,
    draw,
    draw_seed,
    judged_after,
    kind_error,
    plain_softmax,
)
from grader.plain import NotPlain, Rng
from grpo.expressions import tables
from grpo.expressions.game import explain_malformed

_LONG = 600
_SMALL, _SHARES, _LOGPS, _FRESH = slice(0, 3), slice(3, 4), slice(4, 6), slice(6, 9)  # the calls of the four parts
_WELL_FORMED = {(*one, END) for one in EXPRESSIONS}


def _table(rng, scale, target=None):
    """A table for one prompt. Forbidden tokens get high logits: who forgets the mask draws them."""
    target = int(draw(rng, TARGETS) if target is None else target)
    table = {}
    for prefix in PREFIXES:
        logits = scale * rng.standard_normal(len(TOKENS))
        logits[~tables.legal_tokens(prefix)] += 1.5
        table[target, *prefix] = logits
    return table, target


def _small_calls(rng):
    return [call(*_table(rng, 0.3), size, Rng(draw_seed(rng))) for size in (4, 7, 8)]


def _share_calls(rng):
    first, target, last = (int(one) for one in draw(rng, TARGETS, 3))
    (before, _), (table, _), (after, _) = _table(rng, 1.0, first), _table(rng, 0.3, target), _table(rng, 1.0, last)
    # The start and what follows it are skewed, so that a policy that is ignored or turned round shows.
    for prefix in PREFIXES[:10]:
        legal = np.flatnonzero(tables.legal_tokens(prefix))
        table[target, *prefix][legal] = rng.permutation([1.2, 0.0, -0.8, -1.6, 0.5, 0.3][: len(legal)])
    # Rows of other prompts stand before and behind: the target says which ones are meant.
    return [call({**before, **table, **after}, target, _LONG, Rng(draw_seed(rng)), note="rows of three prompts")]


def _fresh_calls(rng):
    table, target = _table(rng, 0.2)
    first, second = draw_seed(rng), draw_seed(rng)
    return [call(table, target, 20, Rng(seed)) for seed in (first, second, first)]


def _read(value, one=None):
    """A group as a list of (tuple of tokens, array of log-probs). Raises where it has another form."""
    if not isinstance(value, (list, tuple)):
        raise kind_error([], value)
    size = len(value) if one is None else one.args[2]
    if len(value) != size:
        raise UnreadableError(
            f"{size} rollouts were asked for, so a list of {size} pairs (tokens, log-probs) is due; yours has "
            f"{len(value)} items"
        )
    return [_read_pair(pair) for pair in value]


def _read_pair(pair):
    if not isinstance(pair, (list, tuple)) or len(pair) != 2:
        raise UnreadableError("each rollout is a pair: the list of its tokens, and the list of their log-probs")
    tokens, logps = pair
    if isinstance(tokens, str):
        raise UnreadableError(f"the tokens of a rollout are a list of texts; yours are the one text {tokens!r}")
    if not isinstance(tokens, (list, tuple)):
        raise UnreadableError("the first entry of a pair is the list of the tokens, as texts")
    for token in tokens:
        if not isinstance(token, str):
            shown = f"something of type {token.type_name}" if isinstance(token, NotPlain) else repr(token)
            raise UnreadableError(f"tokens are texts such as '5' or 'END'; among yours is {shown}")
    numbers = as_numbers(logps) if not isinstance(logps, list) or logps else np.array([])
    if numbers is None:
        raise UnreadableError("the second entry of a pair is the list of the log-probs, one number for each token")
    return tuple(tokens), numbers.astype(float)


def _spelled(tokens):
    return " ".join(tokens)


@judged_after(_read)
def _well_formed(values, calls):
    for i, value in enumerate(values):
        for tokens, logps in _read(value):
            if not tokens or tokens[-1] != END:
                return i, f"`{_spelled(tokens)}` does not end with the end token"
            if END in tokens[:-1]:
                return i, f"`{_spelled(tokens)}` goes on after its end token"
            if tokens not in _WELL_FORMED:
                return i, f"`{_spelled(tokens)}` breaks the grammar: {explain_malformed(tokens[:-1])}"
            if logps.shape != (len(tokens),):
                kind = {0: "a single number", 1: f"{logps.size} log-probs"}
                came = kind.get(logps.ndim, f"numbers of shape {logps.shape}")
                return i, f"`{_spelled(tokens)}` has {len(tokens)} tokens, and comes with {came}"
    return None


def _due_probs(table, target, before, kind=None):
    """The distribution of the next token under a table, or under one of its known misreadings."""
    logits, legal = table[target, *before], tables.legal_tokens(before)
    if kind == "uniform":
        return legal / legal.sum()
    if kind == "sign":
        return tables.masked_probs(-logits, legal)
    if kind == "unmasked":
        return plain_softmax(logits)
    if kind == "survivors":
        return _survivors(table, target, tuple(before))[0]
    if kind == "first row":
        return tables.masked_probs(table[(target,)], legal)
    return tables.masked_probs(logits, legal)


def _survivors(table, target, before):
    """Draws without a mask of which only the legal rollouts are kept: the next token, and the share that is kept."""
    drawn, legal = plain_softmax(table[target, *before]), tables.legal_tokens(before)
    kept = np.zeros(len(TOKENS))
    for k in np.flatnonzero(legal):
        rest = 1.0 if TOKENS[k] == END else _survivors(table, target, (*before, TOKENS[k]))[1]
        kept[k] = drawn[k] * rest
    return kept / kept.sum(), kept.sum()


def _far_off(group, table, target, kind=None):
    """The first state and token whose share in a long sample cannot be chance, with both numbers; or None."""
    counts = {}
    for tokens, _ in group:
        for position, token in enumerate(tokens):
            counts.setdefault(tokens[:position], np.zeros(len(TOKENS)))[ID[token]] += 1
    for before, seen in sorted(counts.items(), key=lambda pair: len(pair[0])):
        n, probs = seen.sum(), _due_probs(table, target, before, kind)
        if n < 40:
            continue
        errors = np.sqrt(probs * (1 - probs) / n)
        bad = np.flatnonzero(np.abs(seen / n - probs) > 5.5 * errors + 1e-9)
        if bad.size:
            return before, TOKENS[bad[0]], seen[bad[0]] / n, probs[bad[0]], int(n)
    return None


@judged_after(_read)
def _shares_follow_table(values, calls):
    for i, (value, one) in enumerate(zip(values, calls, strict=True)):
        table, target, *_ = one.args
        far = _far_off(_read(value), table, target)
        if far:
            before, token, share, prob, n = far
            where = f"after `{_spelled(before)}`" if before else "at the start"
            return i, f"{where} the token {token} is {share:.0%} of {n} draws; the policy gives it {prob:.0%}"
    return None


def _due_logps(table, target, tokens, kind=None):
    probs = [_due_probs(table, target, tokens[:t], kind)[ID[token]] for t, token in enumerate(tokens)]
    with np.errstate(divide="ignore"):  # an illegal token has probability 0
        return np.log(probs)


@judged_after(_read)
def _logps_belong(values, calls):
    for i, (value, one) in enumerate(zip(values, calls, strict=True)):
        table, target, *_ = one.args
        for tokens, logps in _read(value):
            due = _due_logps(table, target, tokens)
            if logps.shape != due.shape or not np.allclose(logps, due, rtol=1e-4, atol=1e-5):
                shown, right = (", ".join(f"{x:.3f}" for x in numbers.ravel()) for numbers in (logps, due))
                return i, f"`{_spelled(tokens)}` was drawn with the log-probs {right}; yours are {shown}"
    return None


@judged_after(lambda value, one: _read(value))
def _draws_are_fresh(values, calls):
    first, second, again = ([tokens for tokens, _ in _read(value)] for value in values)
    if not first or not second:
        return "there are no rollouts"
    if len(set(first)) == 1 and len(set(second)) == 1:
        return f"all 20 rollouts of a group are the same: `{_spelled(first[0])}`"
    if first == second:
        return "two generators with different seeds give the very same group"
    if first != again:
        return "two generators with the same seed give different groups, so a run cannot be repeated"
    return None


def _draw_one(probs, rng):
    return rng.choice(len(probs), p=probs)


def _log_prob(probs, place, table, target, tokens):
    return np.log(probs[place])


def _sample(table, target, group_size, rng, probs_of=_due_probs, choose=_draw_one, logp_of=_log_prob, finish=None):
    """The right sampler with one of its pieces exchanged."""
    group = []
    for _ in range(group_size):
        tokens, logps = [], []
        while END not in tokens and len(tokens) < 8:
            probs = probs_of(table, target, tokens)
            place = choose(probs, rng)
            logps.append(float(logp_of(probs, place, table, target, tokens)))
            tokens.append(TOKENS[place])
        group.append((finish or (lambda t, x: (t, x)))(tokens, logps))
    return group


def _sample_argmax(table, target, group_size, rng):
    return _sample(table, target, group_size, rng, choose=lambda p, r: int(np.argmax(p)))


def _sample_reseeded_in_loop(table, target, group_size, rng):
    return [_sample(table, target, 1, np.random.default_rng(0))[0] for _ in range(group_size)]


def _sample_reseeded(table, target, group_size, rng):
    return _sample(table, target, group_size, np.random.default_rng(0))


def _sample_global_state(table, target, group_size, rng):
    return _sample(table, target, group_size, rng, choose=lambda p, r: np.random.choice(len(p), p=p))  # noqa: NPY002


def _sample_uniform(table, target, group_size, rng):
    return _sample(table, target, group_size, rng, probs_of=lambda *a: _due_probs(*a, kind="uniform"))


def _sample_first_prompt(table, target, group_size, rng):
    return _sample(table, next(iter(table))[0], group_size, rng)


def _sample_sign(table, target, group_size, rng):
    return _sample(table, target, group_size, rng, probs_of=lambda *a: _due_probs(*a, kind="sign"))


def _sample_without_mask(table, target, group_size, rng):
    def probs_of(table, target, tokens):
        return plain_softmax(table.get((target, *tokens), np.zeros(len(TOKENS))))

    return _sample(table, target, group_size, rng, probs_of=probs_of)


def _sample_unmasked_logps(table, target, group_size, rng):
    def logp_of(probs, place, table, target, tokens):
        return np.log(plain_softmax(table[target, *tokens])[place])

    return _sample(table, target, group_size, rng, logp_of=logp_of)


def _sample_survivors(table, target, group_size, rng):
    """What is left when rollouts drawn without a mask are thrown away as soon as they break the grammar."""
    kept = {prefix: _survivors(table, target, prefix)[0] for prefix in PREFIXES}

    def logp_of(probs, place, table, target, tokens):
        return np.log(plain_softmax(table[target, *tokens])[place])

    return _sample(
        table, target, group_size, rng, probs_of=lambda table, target, tokens: kept[tuple(tokens)], logp_of=logp_of
    )


def _sample_probabilities(table, target, group_size, rng):
    return _sample(table, target, group_size, rng, logp_of=lambda probs, place, *rest: probs[place])


def _sample_likeliest_logp(table, target, group_size, rng):
    return _sample(table, target, group_size, rng, logp_of=lambda probs, *rest: np.log(probs.max()))


def _sample_logits(table, target, group_size, rng):
    def logp_of(probs, place, table, target, tokens):
        return table[target, *tokens][place]

    return _sample(table, target, group_size, rng, logp_of=logp_of)


def _sample_summed(table, target, group_size, rng):
    return _sample(table, target, group_size, rng, finish=lambda tokens, logps: (tokens, sum(logps)))


def _sample_first_row(table, target, group_size, rng):
    return _sample(table, target, group_size, rng, probs_of=lambda *a: _due_probs(*a, kind="first row"))


def _scored_as(logps_of):
    """The right sampler whose log-probs are changed at the end of each rollout: logps_of(list of the right ones)."""

    def wrong(table, target, group_size, rng):
        return _sample(table, target, group_size, rng, finish=lambda tokens, logps: (tokens, logps_of(logps)))

    return wrong


def _sample_all_six(table, target, group_size, rng):
    def finish(tokens, logps):
        with np.errstate(divide="ignore"):
            return tokens, [np.log(_due_probs(table, target, tokens[:t])) for t in range(len(tokens))]

    return _sample(table, target, group_size, rng, finish=finish)


def _sample_two_lists(table, target, group_size, rng):
    group = _sample(table, target, group_size, rng)
    return [tokens for tokens, _ in group], [logps for _, logps in group]


def _sample_swapped(table, target, group_size, rng):
    return _sample(table, target, group_size, rng, finish=lambda tokens, logps: (logps, tokens))


def _sample_pair_per_token(table, target, group_size, rng):
    return _sample(table, target, group_size, rng, finish=lambda tokens, logps: list(zip(tokens, logps, strict=True)))


def _sample_with_prompt(table, target, group_size, rng):
    return _sample(table, target, group_size, rng, finish=lambda tokens, logps: ([target, *tokens], logps))


def _sample_one_text(table, target, group_size, rng):
    return _sample(table, target, group_size, rng, finish=lambda tokens, logps: (_spelled(tokens), logps))


def _sample_one_list_for_all(table, target, group_size, rng):
    tokens, logps = [], []
    for more, numbers in _sample(table, target, group_size, rng):
        tokens += more
        logps += numbers
    return [(tokens, logps)] * group_size


def _sample_one_rollout(table, target, group_size, rng):
    return _sample(table, target, 1, rng)


def _sample_no_end_token(table, target, group_size, rng):
    return _sample(table, target, group_size, rng, finish=lambda tokens, logps: (tokens[:-1], logps[:-1]))


def _sample_end_not_scored(table, target, group_size, rng):
    return _sample(table, target, group_size, rng, finish=lambda tokens, logps: (tokens, logps[:-1]))


def _sample_ids(table, target, group_size, rng):
    return _sample(table, target, group_size, rng, finish=lambda tokens, logps: ([ID[t] for t in tokens], logps))


def _sample_one_long(table, target, group_size, rng):
    return _sample(table, target, group_size, rng, finish=lambda tokens, logps: tokens)


def _groups(values):
    return [_read(value) for value in values]


def _all_equal_in_each(values, calls):
    return all(len({tokens for tokens, _ in group}) == 1 for group in _groups(values))


def _looks_greedy(values, calls):
    def greedy(one):
        table, target, *_ = one.args
        tokens = []
        while END not in tokens:
            tokens.append(TOKENS[int(np.argmax(_due_probs(table, target, tokens)))])
        return tuple(tokens)

    pairs = zip(_groups(values), calls, strict=True)
    return all({tokens for tokens, _ in group} == {greedy(one)} for group, one in pairs)


def _looks_reseeded(values, calls):
    first, second, again = ([tokens for tokens, _ in group] for group in _groups(values[_FRESH]))
    return len(set(first)) > 1 and first == second == again


def _looks_global(values, calls):
    first, _, again = ([tokens for tokens, _ in group] for group in _groups(values[_FRESH]))
    return len(set(first)) > 1 and first != again


def _looks_like_another_prompt(values, calls):
    ((group, one),) = zip(_groups(values[_SHARES]), calls[_SHARES], strict=True)
    table, target, *_ = one.args
    others = {state[0] for state in table} - {target}
    return len(group) == _LONG and any(_far_off(group, table, other) is None for other in others)


def _looks_distributed(kind):
    def symptom(values, calls):
        ((group, one),) = zip(_groups(values[_SHARES]), calls[_SHARES], strict=True)
        return len(group) == _LONG and _far_off(group, *one.args[:2], kind) is None

    return symptom


def _breaks_the_grammar(values, calls):
    groups = _groups(values)
    ended = [tokens for group in groups for tokens, _ in group if tokens and tokens[-1] == END]
    return bool(ended) and any(tokens not in _WELL_FORMED for tokens in ended)


def _looks_scored(logps_of):
    """Whether all log-probs are those of a known misreading, and not the right ones everywhere."""

    def symptom(values, calls):
        different = False
        for group, one in zip(_groups(values[_LOGPS]), calls[_LOGPS], strict=True):
            for tokens, logps in group:
                wrong = np.asarray(logps_of(*one.args[:2], tokens), dtype=float)
                if wrong.shape != logps.shape or not np.allclose(wrong, logps, rtol=1e-4, atol=1e-5):
                    return False
                right = _due_logps(*one.args[:2], tokens)
                different |= wrong.shape != right.shape or not np.allclose(wrong, right, rtol=1e-3, atol=1e-4)
        return different

    return symptom


def _likeliest_logps(table, target, tokens):
    return [np.log(_due_probs(table, target, tokens[:t]).max()) for t in range(len(tokens))]


def _logits_of(table, target, tokens):
    return [table[target, *tokens[:t]][ID[token]] for t, token in enumerate(tokens)]


def _scored_by_base(base):
    return _looks_scored(lambda *a: _due_logps(*a) / math.log(base))


def _first_of(tests):
    return lambda values, calls: any(test(values, calls) for test in tests)


def _all_of(tests):
    return lambda values, calls: all(test(values, calls) for test in tests)


def _in_every_pair(test):
    """Whether all answers are lists of pairs, and the test holds for the two entries of each."""

    def symptom(values, calls):
        pairs = [pair for value in values for pair in value]
        return all(isinstance(pair, (list, tuple)) and test(*pair) for pair in pairs)

    return symptom


def _two_lists(values, calls):
    def is_one(value, one):
        tokens, logps = value
        return len(tokens) == len(logps) == one.args[2] and not isinstance(tokens[0], str)

    return all(is_one(value, one) for value, one in zip(values, calls, strict=True))


def _is_pairs(one):
    return all(isinstance(pair, (list, tuple)) and len(pair) == 2 and isinstance(pair[0], str) for pair in one)


def _all_in_one_list(values, calls):
    pairs = zip(_groups(values[_SMALL]), calls[_SMALL], strict=True)  # a large group repeated is too much to read
    return all({tokens.count(END) for tokens, _ in group} == {one.args[2]} for group, one in pairs)


def _another_number(values, calls):
    return all(len(group) != one.args[2] for group, one in zip(_groups(values[3:]), calls[3:], strict=True))


def _without_end_token(values, calls):
    return all(tokens and END not in tokens for group in _groups(values) for tokens, _ in group)


def _numbers_as_tokens(values, calls):
    return all(isinstance(token, (int, np.ndarray)) for value in values for tokens, _ in value for token in tokens)


def _tokens_only(values, calls):
    return all(
        all(isinstance(item, (list, tuple)) and all(isinstance(t, str) for t in item) for item in value)
        for value in values
    )


def _sample_by_enumeration(table, target, group_size, rng):
    """One draw among the 39 expressions stands for all draws among tokens."""
    rows = [(*one, END) for one in EXPRESSIONS]
    logps = [_due_logps(table, target, tokens) for tokens in rows]
    probs = np.exp([x.sum() for x in logps])
    chosen = rng.choice(len(rows), size=group_size, p=probs / probs.sum())
    return [(rows[k], logps[k]) for k in chosen]


def _sample_by_cumsum(table, target, group_size, rng):
    def choose(probs, rng):
        return int(np.searchsorted(np.cumsum(probs), rng.random() * np.cumsum(probs)[-1], side="right"))

    return _sample(table, target, group_size, rng, choose=choose, finish=lambda tokens, logps: [tokens, logps])


def _sample_by_rejection(table, target, group_size, rng):
    """Draw from the unmasked softmax and throw illegal tokens away; score with the masked one."""
    group = []
    while len(group) < group_size:
        tokens, logps = (), []
        while END not in tokens:
            weights = [math.exp(x) for x in table[target, *tokens]]
            legal = tables.legal_tokens(tokens)
            place = int(np.searchsorted(np.cumsum(weights), rng.random() * sum(weights), side="right"))
            if place < len(TOKENS) and legal[place]:
                total = sum(w for w, ok in zip(weights, legal, strict=True) if ok)
                logps.append(np.float32(math.log(weights[place] / total)))
                tokens = (*tokens, TOKENS[place])
        group.append((list(tokens), np.array(logps)))
    return group


SAMPLE_ROLLOUTS = Exercise(
    name="sample_rollouts",
    chapter=CHAPTER,
    difficulty=2,
    minutes=20,
    reference=tables.sample_rollouts,
    parts=(
        Part(
            says="a group of complete, well-formed responses, one log-prob for each token",
            points=1,
            calls=_small_calls,
            holds=_well_formed,
            hint="Write tokens until the end token is there; it belongs to the response, and it is scored too.",
        ),
        Part(
            says="each token as often as the policy says",
            points=2,
            calls=_share_calls,
            holds=_shares_follow_table,
            hint="At each step: the row of the present state, the mask of the present beginning, the probabilities, "
            "one draw.",
        ),
        Part(
            says="for each token that was drawn, the log-prob that the policy gives it",
            points=2,
            calls=lambda rng: [call(*_table(rng, 0.8), 6, Rng(draw_seed(rng))) for _ in range(2)],
            holds=_logps_belong,
            hint="The number that you write down and the number that you draw with come from the same line.",
        ),
        Part(
            says="the generator decides: other seeds give other groups, the same seed the same group",
            points=1,
            calls=_fresh_calls,
            holds=_draws_are_fresh,
            hint="Draw from the `rng` that is handed in, and make no generator of your own.",
        ),
    ),
    mistakes=(
        Mistake(
            "another number of rollouts",
            _sample_one_rollout,
            "The group has not as many rollouts as `group_size` says.",
            symptom=_another_number,
        ),
        Mistake(
            "argmax",
            _sample_argmax,
            "Every rollout is the likeliest one, so all of a group are equal. Equal rollouts have equal rewards, and a "
            "group of equal rewards teaches nothing: draw at random.",
            symptom=_looks_greedy,
        ),
        Mistake(
            "reseeded in the loop (all rollouts equal)",
            _sample_reseeded_in_loop,
            "All rollouts of a group are equal. Either a generator is made (or a seed set) again for each, so that all "
            "start from the same random numbers; or all of them are one rollout: one list that was used again, or a "
            "copy.",
            symptom=_all_equal_in_each,
        ),
        Mistake(
            "reseeded inside",
            _sample_reseeded,
            "Two generators with different seeds give the same group: the function makes a generator of its own. In a "
            "run every iteration would see the same random numbers.",
            symptom=_looks_reseeded,
        ),
        Mistake(
            "global random state",
            _sample_global_state,
            "The same seed gives different groups: the draws do not come from the `rng` of the argument. Nobody could "
            "repeat such a run.",
            symptom=_looks_global,
        ),
        Mistake(
            "illegal tokens",
            _sample_without_mask,
            "Some rollouts break the grammar. The mask has to be that of the present beginning, made anew at each "
            "step, and it has to act before the draw.",
            symptom=_breaks_the_grammar,
        ),
        Mistake(
            "uniform over the legal tokens",
            _sample_uniform,
            "All legal tokens come up equally often: the table plays no part.",
            symptom=_looks_distributed("uniform"),
        ),
        Mistake(
            "target ignored",
            _sample_first_prompt,
            "The tokens come as often as the rows of another prompt say. A table holds rows of several prompts, and "
            "`target` says which ones are meant: it is the first entry of each state.",
            symptom=_looks_like_another_prompt,
        ),
        Mistake(
            "row of the start for every token",
            _sample_first_row,
            "Every token is drawn by the row of the start. Each state has a row of its own: the prompt, followed by "
            "the tokens written so far.",
            symptom=_looks_distributed("first row"),
        ),
        Mistake(
            "sign of the logits",
            _sample_sign,
            "The least likely tokens come up most often: the logits have the wrong sign.",
            symptom=_looks_distributed("sign"),
        ),
        Mistake(
            "rollouts thrown away",
            _sample_survivors,
            "Short responses come up too often. Were the tokens drawn without the mask, and a rollout thrown away when "
            "it broke the grammar? Long ones have more chances to break it, so what is left is another distribution "
            "than that of the policy. Put the mask before each draw.",
            symptom=_looks_distributed("survivors"),
        ),
        Mistake(
            "log-probs of the unmasked softmax (mask after softmax)",
            _sample_unmasked_logps,
            "The tokens come as often as they should under the mask, and their log-probs are those of a softmax "
            "without it. They belong to a distribution that nobody drew from, so the ratio of the first update will "
            "not be 1.",
            symptom=_all_of([_looks_distributed(None), _looks_scored(lambda *a: _due_logps(*a, kind="unmasked"))]),
        ),
        Mistake(
            "probabilities instead of log-probs",
            _sample_probabilities,
            "These are probabilities. Asked for are their logarithms, which are never above 0.",
            symptom=_looks_scored(lambda *a: np.exp(_due_logps(*a))),
        ),
        Mistake(
            "logarithm of another base",
            _scored_as(lambda logps: np.array(logps) / math.log(2)),
            "All log-probs are wrong by the same factor: the logarithm has another base (2 or 10). A ratio is e to the "
            "difference of two log-probs, so it takes natural logarithms.",
            symptom=_first_of([_scored_by_base(2), _scored_by_base(10)]),
        ),
        Mistake(
            "minus log-probs",
            _scored_as(lambda logps: -np.array(logps)),
            "The log-probs have the wrong sign. A probability is at most 1, so its logarithm is never above 0.",
            symptom=_looks_scored(lambda *a: -_due_logps(*a)),
        ),
        Mistake(
            "cumulative sums",
            _scored_as(np.cumsum),
            "Each number is the sum of all log-probs up to there. Asked for is the log-prob of each token alone: in "
            "this chapter ratio and clip belong to tokens.",
            symptom=_looks_scored(lambda *a: np.cumsum(_due_logps(*a))),
        ),
        Mistake(
            "the sum for every token",
            _scored_as(lambda logps: [sum(logps)] * len(logps)),
            "Every token of a rollout carries the sum of the whole rollout. Asked for is the log-prob of each token "
            "alone.",
            symptom=_looks_scored(lambda *a: np.full(len(a[-1]), _due_logps(*a).sum())),
        ),
        Mistake(
            "order of the log-probs turned round",
            _scored_as(lambda logps: logps[::-1]),
            "The right log-probs are there, in the reverse order. They stand in the order of the tokens.",
            symptom=_looks_scored(lambda *a: _due_logps(*a)[::-1]),
        ),
        Mistake(
            "log-probs of all six tokens",
            _sample_all_six,
            "For each token the log-probs of all six came back. Asked for is the one of the token that was drawn.",
            symptom=_in_every_pair(lambda tokens, logps: np.shape(logps) == (len(tokens), len(TOKENS))),
        ),
        Mistake(
            "two lists instead of pairs",
            _sample_two_lists,
            "Two lists came back, one with all tokens and one with all log-probs. Asked for is one list of pairs.",
            symptom=_two_lists,
        ),
        Mistake(
            "log-probs before tokens",
            _sample_swapped,
            "The two entries of each pair are exchanged. First come the tokens, then their log-probs.",
            symptom=_in_every_pair(lambda logps, tokens: tokens[-1] == END and len(logps) == len(tokens)),
        ),
        Mistake(
            "a pair for each token",
            _sample_pair_per_token,
            "Each rollout came as a list with a pair for every token. Asked for is one pair for each rollout: the list "
            "of its tokens, and the list of their log-probs.",
            symptom=lambda values, calls: all(_is_pairs(one) for value in values for one in value),
        ),
        Mistake(
            "prompt among the tokens",
            _sample_with_prompt,
            "The prompt stands among the tokens. It belongs to the state, not to the response.",
            symptom=_in_every_pair(lambda tokens, logps: tokens[0] not in TOKENS and tokens[-1] == END),
        ),
        Mistake(
            "one text instead of a list of tokens",
            _sample_one_text,
            "The tokens of a rollout were joined to one text. Keep them apart, as a list: each token has a log-prob.",
            symptom=_in_every_pair(lambda tokens, logps: isinstance(tokens, str)),
        ),
        Mistake(
            "one list for all rollouts",
            _sample_one_list_for_all,
            "All rollouts are one and the same list, which holds the tokens of the whole group. Each rollout begins "
            "with a new, empty list.",
            symptom=_all_in_one_list,
        ),
        Mistake(
            "log-prob of the likeliest token",
            _sample_likeliest_logp,
            "The log-prob of the likeliest token was written down. Asked for is that of the token that was drawn.",
            symptom=_looks_scored(_likeliest_logps),
        ),
        Mistake(
            "logits instead of log-probs",
            _sample_logits,
            "These are logits of the table. Only after the (masked) softmax are they log-probs.",
            symptom=_looks_scored(_logits_of),
        ),
        Mistake(
            "one sum for the whole rollout",
            _sample_summed,
            "One number for each rollout came back. In this chapter ratio and clip belong to tokens: keep one log-prob "
            "for each.",
            symptom=_first_of(
                [_looks_scored(lambda *a: _due_logps(*a).sum()), _looks_scored(lambda *a: _due_logps(*a).mean())]
            ),
        ),
        Mistake(
            "end token missing",
            _sample_no_end_token,
            "The end token is not part of the responses. To stop is a choice of the policy like any other; without it "
            "nobody can score that choice, or learn it.",
            symptom=_without_end_token,
        ),
        Mistake(
            "end token not scored",
            _sample_end_not_scored,
            "The log-prob of the end token is missing. To stop is a choice of the policy like any other.",
            symptom=_looks_scored(lambda *a: _due_logps(*a)[:-1]),
        ),
        Mistake(
            "token numbers instead of tokens",
            _sample_ids,
            "The responses hold the places of the tokens in TOKENS. Asked for are the tokens themselves, the strings.",
            symptom=_numbers_as_tokens,
        ),
        Mistake(
            "tokens only",
            _sample_one_long,
            "Only the tokens came back. Their log-probs have to be captured now: after the first update nobody can "
            "know them any more.",
            symptom=_tokens_only,
        ),
    ),
    alternatives=(
        Alternative("one draw among all expressions", _sample_by_enumeration),
        Alternative("cumulative sums, pairs as lists", _sample_by_cumsum),
        Alternative("illegal draws thrown away, float32 log-probs", _sample_by_rejection),
    ),
    hint="`rng.choice(6, p=probs)` draws the place of one token.",
)
