"""The expression game: write an expression with the numbers 2, 3, 5 that has the value the prompt asks for.

A response is number, operator, number, ... and an end token; no number twice; * binds tighter than +. The tree of all
responses is so small (70 prefixes, 39 complete expressions) that success, entropy and KL of any policy are sums over
it, not estimates.

Tokens are strings in everything that a reader meets and small integers (their place in TOKENS) in the arrays.
"""

from __future__ import annotations

import numpy as np

NUMBERS = ("2", "3", "5")
OPERATORS = ("+", "*")
END = "END"
TOKENS = (*NUMBERS, *OPERATORS, END)
END_ID = TOKENS.index(END)

TARGETS = (5, 6, 7, 8, 10, 11, 13, 15, 17, 30)


def explain_malformed(tokens, numbers=NUMBERS):
    """Why a token sequence is no expression, or None if it is one.

    Args:
        tokens: sequence of strings, without the end token.
        numbers: the number tokens that may be used, each at most once.

    Returns: None, or one clause such as "the number 2 is used twice".
    """
    if len(tokens) == 0:
        return "it is empty"
    used = set()
    for position, token in enumerate(tokens):
        if token not in numbers and token not in OPERATORS:
            return f"token {token!r} at position {position} is neither one of the numbers nor an operator"
        wants_number = position % 2 == 0
        if wants_number and token in OPERATORS:
            before = "it starts with" if position == 0 else f"after {tokens[position - 1]!r} comes"
            return f"{before} the operator {token!r}, where a number belongs"
        if not wants_number and token in numbers:
            return f"after the number {tokens[position - 1]} comes the number {token}, where an operator belongs"
        if token in used:
            return f"the number {token} is used twice"
        if wants_number:
            used.add(token)
    if len(tokens) % 2 == 0:
        return f"it stops after the operator {tokens[-1]!r}"
    return None


def evaluate(tokens, numbers=NUMBERS):
    """The value of an expression, products before sums.

    Args:
        tokens: sequence of strings, without the end token; ["2", "+", "3", "*", "5"] is 17, not 25.
        numbers: the number tokens that may be used, each at most once.

    Returns: int.

    Raises: ValueError with the reason if the tokens are no expression.
    """
    reason = explain_malformed(tokens, numbers)
    if reason is not None:
        raise ValueError(f"{list(tokens)} is no expression: {reason}")
    total, product = 0, int(tokens[0])
    for operator, number in zip(tokens[1::2], tokens[2::2], strict=True):
        if operator == "*":
            product *= int(number)
        else:
            total, product = total + product, int(number)
    return total + product


def grammar_mask(prefix, numbers=NUMBERS):
    """Which tokens may come next. It is added to the logits before the softmax, as 0 or -inf.

    Args:
        prefix: sequence of strings, a beginning of an expression, without the end token.
        numbers: the three number tokens, in the order of their ids.

    Returns: (6,) bool, in the order of TOKENS: the three numbers, the two operators, the end token.

    Raises: ValueError if the prefix is no beginning of an expression.
    """
    free = [number not in prefix for number in numbers]
    wants_number = len(prefix) % 2 == 0
    whole = [*prefix, *[number for number, is_free in zip(numbers, free, strict=True) if is_free][:wants_number]]
    reason = explain_malformed(whole, numbers)
    if reason is not None:
        raise ValueError(f"{list(prefix)} is no beginning of an expression: {reason}")
    if wants_number:
        return np.array([*free, False, False, False])
    return np.array([False, False, False, any(free), any(free), True])


def _enumerate():
    """All prefixes breadth first, and all expressions in the order of their prefixes."""
    prefixes = [()]
    for prefix in prefixes:
        legal = grammar_mask(prefix)
        prefixes.extend((*prefix, token) for token, ok in zip(TOKENS[:END_ID], legal, strict=False) if ok)
    return tuple(prefixes), tuple(prefix for prefix in prefixes if len(prefix) % 2 == 1)


PREFIXES, EXPRESSIONS = _enumerate()
MAX_TOKENS = max(map(len, EXPRESSIONS)) + 1

_ID = {token: number for number, token in enumerate(TOKENS)}
_STATE = {prefix: number for number, prefix in enumerate(PREFIXES)}

# (70, 6) bool: the grammar, for all prefixes at once.
LEGAL = np.array([grammar_mask(prefix) for prefix in PREFIXES])
# (70, 6) int: the prefix that a token leads to; -1 for the end token and for illegal tokens.
NEXT_STATE = np.array([[_STATE.get((*prefix, token), -1) for token in TOKENS] for prefix in PREFIXES])
# (70,) int: the expression that the end token completes here; -1 where it is illegal.
EXPRESSION_OF_STATE = np.array([EXPRESSIONS.index(p) if p in EXPRESSIONS else -1 for p in PREFIXES])
# (39,) int: tokens of a response, the end token included: 2, 4 or 6.
LENGTHS = np.array([len(expression) + 1 for expression in EXPRESSIONS])
# (39, 6) bool: the tokens that exist.
TOKEN_MASK = np.arange(MAX_TOKENS) < LENGTHS[:, np.newaxis]
# (70,) bool: 22 prefixes leave a choice; in the others one token is forced, with log-prob 0 and gradient 0.
HAS_CHOICE = LEGAL.sum(axis=1) > 1


def _paths():
    """(39, 6) int, twice: the state in which each token of a response is chosen, and the token."""
    # Padding repeats a forced end token.
    states = np.full(TOKEN_MASK.shape, int(np.flatnonzero(~HAS_CHOICE & LEGAL[:, END_ID])[0]))
    tokens = np.full(TOKEN_MASK.shape, END_ID)
    for row, expression in enumerate(EXPRESSIONS):
        for position in range(len(expression) + 1):
            states[row, position] = _STATE[expression[:position]]
        tokens[row, : len(expression)] = [_ID[token] for token in expression]
    return states, tokens


PATH_STATES, PATH_TOKENS = _paths()


def state_of(prefix):
    """The number of a prefix (a sequence of strings) in PREFIXES. Raises ValueError if the grammar has no such one."""
    try:
        return _STATE[tuple(prefix)]
    except KeyError:
        raise ValueError(f"{list(prefix)} is no beginning of an expression in {', '.join(NUMBERS)}") from None


def response_tokens(expression):
    """The tokens of expression number 0 .. 38 as strings, with the end token: what a verifier reads."""
    return (*EXPRESSIONS[expression], END)
