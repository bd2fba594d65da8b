"""The exercise `logit_gradient`: its parts, its known mistakes, and correct alternatives."""

from __future__ import annotations

import numpy as np

from grader.compare import as_numbers
from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.exercises.chapter_05.common import CHAPTER
from grpo.expressions.networks import logit_gradient


def _pieces(coefficients, tokens, probs):
    probs = np.asarray(probs, dtype=float)
    return np.asarray(coefficients, dtype=float)[:, np.newaxis], np.eye(probs.shape[1])[tokens], probs


def _made_of(rule):
    def wrong(coefficients, tokens, probs):
        return rule(*_pieces(coefficients, tokens, probs))

    return wrong


def _with_uniform(c, hot, p):
    return c * (hot - 1.0 / p.shape[1])


def _with_uniform_over_legal(c, hot, p):
    legal = p > 0.0
    return c * (hot - legal / legal.sum(axis=1, keepdims=True))


def _softmax_again(c, hot, p):
    again = np.exp(p)
    return c * (hot - again / again.sum(axis=1, keepdims=True))


def _log_probs(c, hot, p):
    return c * (hot - np.log(np.maximum(p, 1e-12)))


def _masked_again(coefficients, tokens, probs):
    return np.where(np.asarray(probs) > 0.0, logit_gradient(coefficients, tokens, probs), -np.inf)


def _lifted(c, hot, p):
    return c * (hot - np.where(p > 0.0, p, 1e-3))


def _ones_everywhere(c, hot, p):
    return c * (hot.max(axis=0) - p)


def _own_overwritten(c, hot, p):
    return c * np.where(hot > 0.0, 1.0, -p)


def _own_column(c, hot, p):
    return c * hot * (1.0 - p)


def _likeliest(coefficients, tokens, probs):
    return logit_gradient(coefficients, np.argmax(probs, axis=1), probs)


def _one_row(c, hot, p):
    return (c * (hot - p)).sum(axis=0)


def _broadcast(coefficients, tokens, probs):
    return np.asarray(coefficients) * (np.eye(np.shape(probs)[1])[tokens] - probs)


def _by_loop(coefficients, tokens, probs):
    rows = []
    for c, token, row in zip(coefficients, tokens, probs, strict=True):
        rows.append([float(c) * (float(k == token) - float(p)) for k, p in enumerate(row)])
    return rows


def _in_place_on_a_copy(coefficients, tokens, probs):
    out = -np.array(probs, dtype=np.float32)
    out[np.arange(len(out)), tokens] += 1.0
    out *= np.asarray(coefficients, dtype=np.float32)[:, None]
    return out


def _transposed_inside(coefficients, tokens, probs):
    p = np.asarray(probs).T
    return (np.asarray(coefficients) * ((np.arange(len(p))[:, None] == np.asarray(tokens)) - p)).T


def _rows(rng, n, v, illegal=0):
    """Probabilities, a token in each row, and coefficients of both signs. The first `illegal` columns have 0."""
    probs = rng.uniform(0.15, 1.0, size=(n, v))
    probs[:, :illegal] = 0.0
    probs = np.round(probs / probs.sum(axis=1, keepdims=True), 3)
    probs[:, -1] = 1.0 - probs[:, :-1].sum(axis=1)
    # Never the last column, and not always the likeliest one.
    tokens = illegal + (np.arange(n) + int(rng.integers(0, 9))) % (v - illegal - 1)
    signs = np.where(np.arange(n) % 2, -1.0, 1.0)
    return np.round(signs * rng.uniform(0.3, 1.5, size=n), 3), tokens, probs


def _one_token_calls(rng):
    (c,), (token,), (row,) = _rows(rng, 1, 3)
    return [
        call(np.array([1.0]), np.array([0]), np.array([[0.5, 0.3, 0.2]])),
        call(np.array([-2.0]), np.array([2]), np.array([[0.5, 0.3, 0.2]])),
        call(np.array([c]), np.array([token]), np.array([row])),
    ]


def _many_token_calls(rng):
    return [call(*_rows(rng, 4, 4)), call(*_rows(rng, 7, 6)), call(*_rows(rng, 6, 6))]


def _mask_calls(rng):
    return [call(*_rows(rng, 4, 6, illegal=3), note="the first three tokens are illegal"),
            call(*_rows(rng, 5, 6, illegal=2), note="the first two tokens are illegal")]  # fmt: skip


def _illegal_untouched(values, calls):
    for i, (value, one) in enumerate(zip(values, calls, strict=True)):
        rows, probs = as_numbers(value), one.args[2]
        if rows is None or rows.shape != probs.shape:
            return i, f"a table of shape {probs.shape} is due, one row per token"
        rows, illegal = rows.astype(float), probs == 0.0
        if not np.all(np.abs(rows[illegal]) <= 1e-7):
            row, column = (int(k) for k in np.argwhere(illegal & ~(np.abs(rows) <= 1e-7))[0])
            return (
                i,
                f"token {column} is illegal; in row {row} its logit gets {rows[row, column]:.4g}, and 0 is due",
            )
        if not np.all(np.abs(rows.sum(axis=1)) <= 1e-5):
            return i, "the entries of a row do not sum to 0: probability is to be moved, not made"
        own = rows[np.arange(len(rows)), one.args[1]]
        if not np.all(np.abs(own) > 1e-3):
            return i, "the logit of the token itself gets no gradient"
    return None


LOGIT_GRADIENT = Exercise(
    name="logit_gradient",
    chapter=CHAPTER,
    difficulty=2,
    minutes=8,
    reference=logit_gradient,
    parts=(
        Part(
            says="one token: its own logit one way, the others the other way",
            points=1,
            calls=_one_token_calls,
            hint="How does the log-prob of token 0 change when logit 0 grows a little? And when logit 1 does?",
        ),
        Part(
            says="many tokens, each with a coefficient of its own",
            points=1,
            calls=_many_token_calls,
            hint="The coefficients have shape (N,), the rows (N, V): each coefficient belongs to a whole row.",
        ),
        Part(
            says="illegal tokens get nothing, and every row sums to 0",
            points=1,
            calls=_mask_calls,
            holds=_illegal_untouched,
            hint="An illegal token has probability 0, so the right formula leaves it alone by itself: it needs no "
            "lines of its own, and no small number added to the probabilities.",
        ),
    ),
    mistakes=(
        Mistake(
            'no "- p"',
            _made_of(lambda c, hot, p: c * hot),
            "Only the token's own logit gets a gradient. A softmax moves probability between tokens: the others must "
            "give way, each by its own share.",
        ),
        Mistake(
            '"+ p"',
            _made_of(lambda c, hot, p: c * (hot + p)),
            "The probabilities are added, so all logits rise together, and a softmax does not even notice that.",
        ),
        Mistake(
            "sign",
            _made_of(lambda c, hot, p: c * (p - hot)),
            "All signs are turned round. The coefficients are slopes of the loss already; there is no minus to add.",
        ),
        Mistake(
            "coefficient on the token only",
            _made_of(lambda c, hot, p: c * hot - p),
            "The coefficient multiplies the one-hot part only. It belongs to the row as a whole.",
        ),
        Mistake(
            "slope of the probability",
            _made_of(lambda c, hot, p: c * (hot * p).sum(axis=1, keepdims=True) * (hot - p)),
            "Every row is multiplied by the probability of its token once more: that is the slope of the probability. "
            "The slope of its logarithm is asked for.",
        ),
        Mistake(
            "own column only",
            _made_of(_own_column),
            "The token's own logit has the right slope, the others have none. Lower them too: that is where the "
            "probability comes from.",
        ),
        Mistake(
            "uniform for p",
            _made_of(_with_uniform),
            "1/V is subtracted, whatever the policy's probabilities are. Illegal tokens get a gradient, too.",
        ),
        Mistake(
            "uniform over the legal tokens",
            _made_of(_with_uniform_over_legal),
            "From every legal token the same share is subtracted, as if all of them were equally likely. How likely "
            "the policy thinks each of them is stands in `probs`.",
        ),
        Mistake(
            "softmax again",
            _made_of(_softmax_again),
            "The probabilities went through a softmax again. They are probabilities already.",
        ),
        Mistake(
            "log-probs for p",
            _made_of(_log_probs),
            "Log-probs are subtracted where probabilities belong.",
        ),
        Mistake(
            "every row has the ones of all",
            _made_of(_ones_everywhere),
            "In every row the tokens of *all* rows have their 1, not only its own token. `table[:, tokens]` means "
            "whole columns; one place per row needs the number of the row, too.",
        ),
        Mistake(
            "1 for 1 - p",
            _made_of(_own_overwritten),
            "At the token's own logit stands the coefficient, as if its probability were 0: the probability was "
            "overwritten there, and the row does not sum to 0.",
        ),
        Mistake(
            "rows for columns",
            _made_of(lambda c, hot, p: (c * (hot - p)).T),
            "The table is on its side: one column per token of the batch. Like `probs` it has one row for each.",
        ),
        Mistake(
            "likeliest token",
            _likeliest,
            "The 1 stands at the likeliest token of each row. It belongs to the token that was sampled.",
        ),
        Mistake(
            "minus infinity at illegal tokens",
            _masked_again,
            "Illegal tokens get minus infinity. That is what the mask adds to their *logits*; their gradient is 0, "
            "since no change of the network may move them.",
        ),
        Mistake(
            "illegal tokens share the rest",
            _made_of(_lifted),
            "Legal tokens are right (or nearly so), illegal ones are moved: a small number was added to the "
            "probabilities. Nothing is divided and no logarithm taken here, so a probability of 0 does no harm.",
        ),
        Mistake(
            "summed over the tokens",
            _made_of(_one_row),
            "The rows were added up. Every row belongs to another state of the network, so all are needed.",
        ),
        Mistake(
            "averaged over the tokens",
            _made_of(lambda c, hot, p: c * (hot - p) / len(hot)),
            "Everything is divided by the number of rows. The weights of the loss are in the coefficients already.",
        ),
        Mistake(
            "coefficients along the wrong axis",
            _broadcast,
            "The coefficients were spread over the columns: each token of the vocabulary got a coefficient, not each "
            "row. Where N equals V numpy does not complain.",
        ),
    ),
    alternatives=(
        Alternative("two loops", _by_loop),
        Alternative("float32, added in place", _in_place_on_a_copy),
        Alternative("rows as columns", _transposed_inside),
    ),
    hint="Write the derivative of log softmax by one logit first.",
)
