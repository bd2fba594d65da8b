"""The exercise `tabular_update`: its parts, its known mistakes, and correct alternatives."""

from __future__ import annotations

import functools
import math

import numpy as np

from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.exercises.chapter_04.common import (
    CHAPTER,
    END,
    ID,
    TARGETS,
    TOKENS,
    draw,
    draw_response,
    judged_after,
    plain_softmax,
    read_table,
    unchanged,
)
from grpo.expressions import tables


def _onehot(token):
    return np.eye(len(TOKENS))[ID[token]]


def _walk(targets, rollouts, coefficients):
    """Every token of a batch with its state and its coefficient."""
    for target, tokens, row in zip(targets, rollouts, coefficients, strict=True):
        for position, token in enumerate(tokens):
            yield (target, *tokens[:position]), token, row[position]


def _slope_mistake(step, add=None):
    """A wrong update whose single steps, or their sum, are wrong."""

    def wrong(table, targets, rollouts, coefficients, learning_rate):
        slope = {}
        for state, token, c in _walk(targets, rollouts, coefficients):
            one = step(c, token, table[state], tables.legal_tokens(state[1:]))
            slope[state] = one if add == "overwrite" or state not in slope else slope[state] + one
        return {state: logits + learning_rate * slope.get(state, 0.0) for state, logits in table.items()}

    return wrong


def _right_step(c, token, logits, legal):
    return c * (_onehot(token) - tables.masked_probs(logits, legal))


def _probability_step(c, token, logits, legal):
    probs = tables.masked_probs(logits, legal)
    return c * probs[ID[token]] * (_onehot(token) - probs)


def _scaled(factor_of):
    """The right step with another learning rate."""

    def wrong(table, targets, rollouts, coefficients, learning_rate):
        return tables.tabular_update(table, targets, rollouts, coefficients, factor_of(learning_rate))

    return wrong


def _update_gradient_returned(table, targets, rollouts, coefficients, learning_rate):
    new = tables.tabular_update(table, targets, rollouts, coefficients, 1.0)
    return {state: new[state] - logits for state, logits in table.items()}


def _update_step_returned(table, targets, rollouts, coefficients, learning_rate):
    new = tables.tabular_update(table, targets, rollouts, coefficients, learning_rate)
    return {state: new[state] - logits for state, logits in table.items()}


def _update_one_by_one(table, targets, rollouts, coefficients, learning_rate):
    new = {state: np.array(logits, dtype=float) for state, logits in table.items()}
    for state, token, c in _walk(targets, rollouts, coefficients):
        new[state] = new[state] + learning_rate * _right_step(c, token, new[state], tables.legal_tokens(state[1:]))
    return new


def _update_mean(table, targets, rollouts, coefficients, learning_rate):
    visits = {}
    for state, _, _ in _walk(targets, rollouts, coefficients):
        visits[state] = visits.get(state, 0) + 1
    new = tables.tabular_update(table, targets, rollouts, coefficients, learning_rate)
    return {state: logits + (new[state] - logits) / visits.get(state, 1) for state, logits in table.items()}


def _update_end_skipped(table, targets, rollouts, coefficients, learning_rate):
    shorter = [tokens[:-1] for tokens in rollouts]
    return tables.tabular_update(table, targets, shorter, coefficients, learning_rate)


def _update_state_after(table, targets, rollouts, coefficients, learning_rate):
    """The state already holds the token that was chosen in it."""
    slope = {}
    for state, token, c in _walk(targets, rollouts, coefficients):
        after = (*state, token)
        if after in table:
            one = _right_step(c, token, table[after], tables.legal_tokens(after[1:]))
            slope[after] = slope.get(after, 0.0) + one
    return {state: logits + learning_rate * slope.get(state, 0.0) for state, logits in table.items()}


def _update_by_slice(shift, mask_shift=None):
    """The state of a token is one token too long or too short: tokens[:t+shift]; its mask may be right all the same."""

    def wrong(table, targets, rollouts, coefficients, learning_rate):
        slope = {}
        for target, tokens, row in zip(targets, rollouts, coefficients, strict=True):
            for t, token in enumerate(tokens):
                state = (target, *tokens[: t + shift])
                logits = table[state]
                legal = tables.legal_tokens(tokens[: t + (shift if mask_shift is None else mask_shift)])
                slope[state] = slope.get(state, 0.0) + _right_step(row[t], token, logits, legal)
        return {state: logits + learning_rate * slope.get(state, 0.0) for state, logits in table.items()}

    return wrong


def _update_first_prompt_for_all(table, targets, rollouts, coefficients, learning_rate):
    slope = {}
    for state, token, c in _walk(targets, rollouts, coefficients):
        first = (targets[0], *state[1:])
        if first in table:
            one = _right_step(c, token, table[first], tables.legal_tokens(first[1:]))
            slope[first] = slope.get(first, 0.0) + one
    return {state: logits + learning_rate * slope.get(state, 0.0) for state, logits in table.items()}


def _update_unvisited_dropped(table, targets, rollouts, coefficients, learning_rate):
    new = tables.tabular_update(table, targets, rollouts, coefficients, learning_rate)
    return {state: new[state] for state, _, _ in _walk(targets, rollouts, coefficients)}


def _update_first_coefficient(table, targets, rollouts, coefficients, learning_rate):
    spread = [[row[0]] * len(row) for row in np.asarray(coefficients, dtype=float)]
    return tables.tabular_update(table, targets, rollouts, spread, learning_rate)


def _update_divided_by_rollouts(table, targets, rollouts, coefficients, learning_rate):
    return tables.tabular_update(table, targets, rollouts, coefficients, learning_rate / len(rollouts))


def _update_first_rollout_only(table, targets, rollouts, coefficients, learning_rate):
    return tables.tabular_update(table, targets[:1], rollouts[:1], coefficients[:1], learning_rate)


def _update_probabilities(table, targets, rollouts, coefficients, learning_rate):
    new = tables.tabular_update(table, targets, rollouts, coefficients, learning_rate)
    return {state: tables.masked_probs(logits, tables.legal_tokens(state[1:])) for state, logits in new.items()}


def _update_forbidden_at_minus_infinity(table, targets, rollouts, coefficients, learning_rate):
    new = tables.tabular_update(table, targets, rollouts, coefficients, learning_rate)
    return {state: np.where(tables.legal_tokens(state[1:]), logits, -np.inf) for state, logits in new.items()}


def _update_without_prompt(table, targets, rollouts, coefficients, learning_rate):
    new = tables.tabular_update(table, targets, rollouts, coefficients, learning_rate)
    return {state[1:]: logits for state, logits in new.items()}


def _update_coefficients_shifted(table, targets, rollouts, coefficients, learning_rate):
    return tables.tabular_update(table, targets, rollouts, np.roll(coefficients, 1, axis=1), learning_rate)


def _update_by_matrix(table, targets, rollouts, coefficients, learning_rate):
    """All states at once: counts per state and token, then one softmax over all rows."""
    states = list(table)
    place = {state: i for i, state in enumerate(states)}
    pushes = np.zeros((len(states), len(TOKENS)))
    for state, token, c in _walk(targets, rollouts, coefficients):
        np.add.at(pushes, (place[state], ID[token]), c)
    logits = np.array([table[state] for state in states])
    legal = np.array([tables.legal_tokens(state[1:]) for state in states])
    weights = np.where(legal, np.exp(logits - logits.max(axis=1, keepdims=True)), 0)
    probs = weights / weights.sum(axis=1, keepdims=True)
    new = logits + learning_rate * (pushes - pushes.sum(axis=1, keepdims=True) * probs)
    return dict(zip(states, new, strict=True))


def _update_in_place(table, targets, rollouts, coefficients, learning_rate):
    """All numbers are right, and the table that came in is gone: what was kept as the reference moves along."""
    steps = []
    for state, token, c in _walk(targets, rollouts, coefficients):
        steps.append((state, learning_rate * _right_step(c, token, table[state], tables.legal_tokens(state[1:]))))
    for state, step in steps:
        table[state] += step
    return table


def _update_by_lists(table, targets, rollouts, coefficients, learning_rate):
    new = {state: [float(x) for x in logits] for state, logits in table.items()}
    for i, tokens in enumerate(rollouts):
        for t in range(len(tokens)):
            state = (targets[i], *tokens[:t])
            legal = tables.legal_tokens(tokens[:t])
            weights = [math.exp(x) if ok else 0.0 for x, ok in zip(table[state], legal, strict=True)]
            for k in range(6):
                direction = (1.0 if TOKENS[k] == tokens[t] else 0.0) - weights[k] / sum(weights)
                new[state][k] += learning_rate * coefficients[i][t] * direction
    return new


def _watched(fn, names):
    """An adapter: where the learning rate comes by name, a table that was changed in place is told in a sentence."""

    @functools.wraps(fn)
    def calls_and_looks(table, *args, **kwargs):
        before = {state: np.array(logits) for state, logits in table.items()}
        new = fn(table, *args, **kwargs)
        if kwargs and not unchanged(before, table):
            return "the table that came in was changed; a new one is due, and the old one stays as it is"
        return new

    return calls_and_looks


def _rows(rng, targets, rollouts, scale=1.0):
    """Logits for all states along some rollouts, in the order in which they are met."""
    states = dict.fromkeys((target, *tokens[:t]) for target, tokens in zip(targets, rollouts, strict=True)
                           for t in range(len(tokens)))  # fmt: skip
    return {state: scale * rng.standard_normal(len(TOKENS)) for state in states}


def _padded(rng, rollouts):
    out = np.zeros((len(rollouts), max(map(len, rollouts))))
    for row, tokens in zip(out, rollouts, strict=True):
        row[: len(tokens)] = rng.permutation([0.4, -0.3, 0.2, 0.5, -0.6, 0.3])[: len(tokens)]
    return out


def _single(rng):
    target = int(draw(rng, TARGETS))
    rollout = draw_response(rng, 3)
    zeros = {(5,): np.zeros(6), (5, "5"): np.zeros(6)}
    return [
        call(zeros, [5], [["5", END]], np.array([[0.3, 0.3]]), 1.0),
        call(_rows(rng, [target], [rollout]), [target], [rollout], _padded(rng, [rollout]), 0.7),
    ]


def _shared_states(rng):
    target = int(draw(rng, TARGETS))
    a, b, c = draw(rng, ["2", "3", "5"], 3)
    rollouts = [[a, "*", b, END], [a, "*", c, END], [a, END], [a, "*", b, "+", c, END]]
    targets = [target] * 4
    zeros = {(5,): np.zeros(6), (5, "5"): np.zeros(6)}
    return [
        call(zeros, [5, 5], [["5", END]] * 2, np.array([[0.3, 0.3], [0.1, -0.2]]), 1.0),
        call(_rows(rng, targets, rollouts), targets, rollouts, _padded(rng, rollouts), 2.0),
    ]


def _two_prompts(rng):
    first, second = (int(x) for x in draw(rng, TARGETS, 2))
    response = draw_response(rng, 3)
    targets, rollouts = [first, second], [response, response]
    return [call(_rows(rng, targets, rollouts), targets, rollouts, _padded(rng, rollouts), 1.5)]


def _untouched(rng):
    target = int(draw(rng, TARGETS))
    rollout, other = draw_response(rng, 2), draw_response(rng, 3)
    # Forbidden tokens with high logits: who takes the softmax over all of them moves them a lot.
    table = _rows(rng, [target, target], [rollout, other], scale=0.3)
    for state, logits in table.items():
        logits[~tables.legal_tokens(state[1:])] += 1.0
    zeros = {(5,): np.zeros(6), (5, "5"): np.zeros(6)}
    return [
        call(table, [target], [rollout], _padded(rng, [rollout]) + 0.9, 1.0),
        call(zeros, [5], [["5", END]], np.array([[0.3, 0.3]]), learning_rate=1.0, note="is `table` still zero?"),
    ]


@judged_after(lambda value, one: read_table(value, one.args[0]))
def _only_what_was_visited(values, calls):
    table, targets, rollouts, coefficients, _ = calls[0].args
    new = read_table(values[0], table)
    visited = {state for state, _, _ in _walk(targets, rollouts, coefficients)}
    moved = 0.0
    for state, logits in table.items():
        change = new[state] - logits
        legal = tables.legal_tokens(state[1:])
        if state not in visited and np.any(np.abs(change) > 1e-6):
            return f"the row of {state} changed, and no rollout came through that state"
        if np.any(np.abs(change[~legal]) > 1e-6):
            token = TOKENS[int(np.argmax(np.abs(change) * ~legal))]
            return f"in the row of {state} the logit of {token} changed, and {token} is forbidden there"
        moved = max(moved, float(np.abs(change).max()))
    return None if moved > 0.05 else "nothing moved at all"


TABULAR_UPDATE = Exercise(
    name="tabular_update",
    chapter=CHAPTER,
    difficulty=2,
    minutes=20,
    reference=tables.tabular_update,
    parts=(
        Part(
            says="one rollout: each token moves the row of the state in which it was chosen",
            points=2,
            calls=_single,
            hint="The state of a token is the prompt and what was written before it. Its row moves by "
            "learning rate times coefficient times (one-hot minus probabilities).",
        ),
        Part(
            says="a state that occurs several times: the steps are added",
            points=1,
            calls=_shared_states,
            hint="All probabilities are those of the table that came in. Collect first, then move.",
        ),
        Part(
            says="several prompts: each moves its own rows",
            points=1,
            calls=_two_prompts,
            hint="The prompt is the first entry of a state.",
        ),
        Part(
            says="forbidden tokens, states that nobody visited, and the table that came in stay as they are",
            points=1,
            calls=_untouched,
            holds=_only_what_was_visited,
            hint="Which probabilities does a token compete with: those of all tokens, or those of the allowed ones? "
            "And do your steps go into arrays of your own?",
        ),
    ),
    mistakes=(
        Mistake(
            'no "- p"',
            _slope_mistake(lambda c, token, logits, legal: c * _onehot(token)),
            "Only the chosen token moves, by the whole coefficient. The derivative of a log-softmax has a second part: "
            "what the chosen token gains, the others lose.",
        ),
        Mistake(
            '"+ p"',
            _slope_mistake(lambda c, token, logits, legal: c * (_onehot(token) + tables.masked_probs(logits, legal))),
            "The probabilities were added, not subtracted: the other tokens rise with the chosen one.",
        ),
        Mistake(
            "only the chosen token",
            _slope_mistake(
                lambda c, token, logits, legal: c * (1 - tables.masked_probs(logits, legal)) * _onehot(token)
            ),
            "The chosen token moves by the right amount, and the others do not move. Each of the allowed tokens has a "
            "part in the softmax.",
        ),
        Mistake(
            "forbidden tokens moved (mask after softmax)",
            _slope_mistake(lambda c, token, logits, legal: c * (_onehot(token) - plain_softmax(logits))),
            "The probabilities are those of a softmax over all tokens. Forbidden tokens then lose something, and the "
            "allowed ones get the wrong share: the policy that sampled had a mask.",
        ),
        Mistake(
            "probabilities zeroed, not renormalised",
            _slope_mistake(lambda c, token, logits, legal: c * (_onehot(token) - plain_softmax(logits) * legal)),
            "The softmax over all tokens was cut off by the mask, and what is left does not sum to 1. The mask comes "
            "before the softmax.",
        ),
        Mistake(
            "descent instead of ascent",
            _scaled(lambda rate: -rate),
            "The step goes the wrong way: a coefficient above 0 must make its token likelier. (These coefficients "
            "point uphill; the loss has the other sign.)",
        ),
        Mistake(
            "slope of the probability",
            _slope_mistake(_probability_step),
            "Each step is too short by the probability of its token. That is the slope of the probability; the "
            "coefficients belong to the log-prob, whose slope has no such factor. Rare tokens would hardly move.",
        ),
        Mistake(
            "the table changed in place",
            _update_in_place,
            "The numbers are right, but they were written into the table that came in. Whoever still needs it has lost "
            "it: in a training run the reference and the start would move along. Make a new table; note that a copied "
            "dict still holds the same arrays.",
        ),
        Mistake(
            "overwritten instead of added",
            _slope_mistake(_right_step, add="overwrite"),
            "Of a state that occurs several times, only the last occurrence counts. The first token of every rollout "
            "is chosen in the same state: nearly all of the batch is lost.",
        ),
        Mistake(
            "one by one",
            _update_one_by_one,
            "The table moved after each token, and the next token already saw the new probabilities. One gradient is "
            "taken at one place: all probabilities belong to the table that came in.",
        ),
        Mistake(
            "mean per state",
            _update_mean,
            "The steps of a state were averaged. They are added: how often a state was visited is part of the "
            "gradient.",
        ),
        Mistake(
            "divided by the number of rollouts",
            _update_divided_by_rollouts,
            "The step was divided by the number of rollouts. The coefficients have that division already.",
        ),
        Mistake(
            "first rollout only",
            _update_first_rollout_only,
            "Only the first rollout moved the table. Does a `return` stand inside the loop?",
        ),
        Mistake(
            "coefficients of the neighbours",
            _update_coefficients_shifted,
            "The tokens moved by the coefficients of their neighbours: the place in the row is one off.",
        ),
        Mistake(
            "learning rate ignored",
            _scaled(lambda rate: 1.0),
            "`learning_rate` changes nothing: the step is the whole gradient.",
        ),
        Mistake(
            "gradient returned",
            _update_gradient_returned,
            "The gradient came back. Asked for is the new table.",
        ),
        Mistake(
            "step returned",
            _update_step_returned,
            "Only the change came back. Asked for is the new table: the old logits plus the change.",
        ),
        Mistake(
            "probabilities returned",
            _update_probabilities,
            "The rows hold probabilities. A table holds logits: the old ones plus the step.",
        ),
        Mistake(
            "minus infinity written into the table",
            _update_forbidden_at_minus_infinity,
            "The logits of forbidden tokens became minus infinity. The mask is applied each time a row is read; the "
            "table itself keeps its numbers.",
        ),
        Mistake(
            "states without the prompt",
            _update_without_prompt,
            "The keys of the new table have lost the prompt. A state is the prompt, followed by the tokens so far; "
            "without it the rows of different prompts fall together.",
        ),
        Mistake(
            "state after the token",
            _update_state_after,
            "Each token moved the row of the state that it led to. It was chosen in the state before it: the tokens "
            "written so far, without the token itself.",
        ),
        Mistake(
            "state one token too long",
            _update_by_slice(1),
            "The state asked for holds the token that was chosen in it, down to the end token: no row has that name. A "
            "slice `[:n]` holds n entries, and the token at place t was chosen when t tokens stood there.",
        ),
        Mistake(
            "state one token too short",
            _update_by_slice(-1),
            "Each token moved the row of the state before its own: the last token written is missing from it. (And for "
            "the first token a slice that ends at -1 holds nearly all.) At place t, t tokens stand there already.",
        ),
        Mistake(
            "state one token too short, the mask right",
            _update_by_slice(-1, mask_shift=0),
            "Each token moved the row of the state before its own, under the mask of the right one. (For the first "
            "token a slice that ends at -1 holds nearly all.) At place t, t tokens stand there already.",
        ),
        Mistake(
            "end token skipped",
            _update_end_skipped,
            "The end token moved nothing. It is chosen like any other token, and when to stop has to be learned too.",
        ),
        Mistake(
            "first prompt for all",
            _update_first_prompt_for_all,
            "All rollouts moved the rows of one prompt. Each belongs to its own.",
        ),
        Mistake(
            "unvisited rows dropped",
            _update_unvisited_dropped,
            "Rows that no rollout came through are gone. They stay in the table as they were.",
        ),
        Mistake(
            "one coefficient for the whole rollout",
            _update_first_coefficient,
            "Every token of a rollout moved by the coefficient of the first. Each token has its own, since ratio, gate "
            "and penalty are its own.",
        ),
    ),
    alternatives=(
        Alternative("one matrix for all states", _update_by_matrix),
        Alternative("pure Python lists", _update_by_lists),
    ),
    hint="A dict that collects one array per state, then one step.",
    rtol=1e-5,
    adapter=_watched,
)
