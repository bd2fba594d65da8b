"""The finished pieces of chapter 04: a policy that is a plain dict, and GRPO on it, token by token.

A policy is a table {state: logits}. A state is the prompt (a target value) followed by the tokens written so far:
(13, "2", "*") has the prompt 13 and the beginning 2 *. The logits are an array of six numbers, in the order of TOKENS.
`grpo.expressions` holds the same algorithm vectorised; the tests of chapter 04 compare the two.
"""

from __future__ import annotations

import math

import numpy as np

import grpo
from grpo.expressions.game import END, EXPRESSIONS, LENGTHS, NUMBERS, PREFIXES, TOKENS, evaluate, grammar_mask
from grpo.expressions.verifier import batched_length_terms, verify

_ID = {token: number for number, token in enumerate(TOKENS)}
_VALUES = np.array([evaluate(one) for one in EXPRESSIONS])
_MASKS = {prefix: grammar_mask(prefix) for prefix in PREFIXES}


def legal_tokens(prefix):
    """Which of the six tokens may follow a beginning: (6,) bool, in the order of TOKENS."""
    return _MASKS[tuple(prefix)].copy()


def masked_probs(logits, mask):
    """(V,) softmax over the tokens that the mask allows; exactly 0 for the others.

    Raises: ValueError if the shapes differ or nothing is allowed.
    """
    logits, mask = np.asarray(logits, dtype=float), np.asarray(mask, dtype=bool)
    if logits.shape != mask.shape or not mask.any():
        raise ValueError(f"logits {logits.shape}, mask {mask.shape}: pass two of one shape that allow something")
    masked = np.where(mask, logits, -np.inf)
    weights = np.exp(masked - masked.max())
    return weights / weights.sum()


class _Probs(dict):
    """{state: probabilities of the next token} of one table, computed when a state is first asked for."""

    def __init__(self, table):
        self.table = table

    def __missing__(self, state):
        self[state] = masked_probs(self.table[state], _MASKS[state[1:]])
        return self[state]


def verify_expression(tokens, target, numbers=NUMBERS):
    """(value, reward, reason) of one response: .1 for the format and 1 for the right value.

    A malformed response has the value None, the reward 0 and a reason; the reason of a well-formed one is "".
    """
    verdict = verify(tokens, target, numbers)
    return verdict.value, 0.1 * verdict.well_formed + 1.0 * verdict.correct, verdict.reason


def length_term(lengths, correct, gated=False):
    """(P, G) length terms of Kimi k1.5, each group (row) by itself."""
    return batched_length_terms(np.asarray(lengths), np.asarray(correct, dtype=bool), gated)


def zero_table(targets):
    """A policy that knows nothing: a row of zeros for each of the 70 states of every target."""
    return {(target, *prefix): np.zeros(len(TOKENS)) for target in targets for prefix in PREFIXES}


def sample_rollouts(table, target, group_size, rng):
    """A group for one prompt: list of G pairs (tokens with the end token, their log-probs under the table)."""
    group, probs_of = [], _Probs(table)
    for _ in range(group_size):
        tokens, logps = [], []
        while END not in tokens:
            probs = probs_of[target, *tokens]
            cumulative = probs.cumsum()
            choice = int(cumulative.searchsorted(rng.random() * cumulative[-1], side="right"))
            tokens.append(TOKENS[choice])
            logps.append(math.log(probs[choice]))
        group.append((tokens, logps))
    return group


def score_rollouts(table, targets, rollouts):
    """Log-probs of given rollouts under a table.

    Args:
        table: {state: (6,) logits}.
        targets: N prompts.
        rollouts: N lists of tokens, each with its end token.

    Returns: (N, T) float64 and (N, T) bool: log-probs, 0 behind the end token, and the mask of the tokens that exist.
        T is the length of the longest rollout.
    """
    longest, probs_of = max(map(len, rollouts)), _Probs(table)
    logps, mask = np.zeros((len(rollouts), longest)), np.zeros((len(rollouts), longest), dtype=bool)
    for row, (target, tokens) in enumerate(zip(targets, rollouts, strict=True)):
        mask[row, : len(tokens)] = True
        for position, token in enumerate(tokens):
            logps[row, position] = math.log(probs_of[target, *tokens[:position]][_ID[token]])
    return logps, mask


def token_coefficients(new_logps, old_logps, ref_logps, mask, advantages, clip_eps=0.2, kl_coef=0.04):
    """(N, T): how hard the objective (minus the loss) pulls at the log-prob of each token; 0 where the mask is false.

    1/N * 1/|o| * [ gate * A * ratio - kl_coef * (1 - exp(ref - new)) ], the gate being 0 where the clip is active.
    """
    mask = np.asarray(mask, dtype=bool)
    new, old, ref = (np.where(mask, x, 0.0) for x in (new_logps, old_logps, ref_logps))
    advantage = np.asarray(advantages, dtype=float)[:, np.newaxis]
    ratio = np.exp(new - old)
    gate = grpo.clip_gate(ratio, np.broadcast_to(advantage, ratio.shape), clip_eps)
    push = gate * advantage * ratio - kl_coef * (1.0 - np.exp(ref - new))
    return np.where(mask, push / (len(mask) * mask.sum(axis=1, keepdims=True)), 0.0)


def tabular_update(table, targets, rollouts, coefficients, learning_rate):
    """A new table, one step uphill: every token adds coefficient * (onehot - probs) to the slope of its state."""
    pushes, probs_of = {}, _Probs(table)
    for target, tokens, row in zip(targets, rollouts, coefficients, strict=True):
        for position, token in enumerate(tokens):
            state = (target, *tokens[:position])
            pushes.setdefault(state, np.zeros(len(TOKENS)))[_ID[token]] += row[position]
    # c1 (onehot1 - p) + c2 (onehot2 - p) + ... = (all pushes) - (their sum) p
    new = {state: np.array(logits, dtype=float) for state, logits in table.items()}
    for state, push in pushes.items():
        new[state] += learning_rate * (push - push.sum() * probs_of[state])
    return new


def train_tabular(
    start, targets, steps, rng, group_size=8, inner_updates=1, learning_rate=3.0, clip_eps=0.2, kl_coef=0.04
):
    """GRPO from a start, which stays as the reference; returns the trained table."""
    policy = start
    for _ in range(steps):
        prompts, rollouts, rewards = [], [], []
        for target in targets:
            for tokens, _ in sample_rollouts(policy, target, group_size, rng):
                prompts.append(target)
                rollouts.append(tokens)
                rewards.append(verify_expression(tokens, target)[1])
        advantages = grpo.rollout_advantages(prompts, rewards, group_size)
        old_logps, mask = score_rollouts(policy, prompts, rollouts)
        ref_logps, _ = score_rollouts(start, prompts, rollouts)
        for _ in range(inner_updates):
            new_logps, _ = score_rollouts(policy, prompts, rollouts)
            pulls = token_coefficients(new_logps, old_logps, ref_logps, mask, advantages, clip_eps, kl_coef)
            policy = tabular_update(policy, prompts, rollouts, pulls, learning_rate)
    return policy


def expression_probs(table, target):
    """(39,) probability of each expression as the response to one prompt: exact, by going through the tree."""
    probs_of = _Probs(table)
    return np.array(
        [
            math.prod(probs_of[target, *one[:position]][_ID[token]] for position, token in enumerate((*one, END)))
            for one in EXPRESSIONS
        ]
    )


def exact_success(table, target):
    """The probability that a sampled response has the value of the target: a sum over 39 expressions."""
    return float(expression_probs(table, target)[_VALUES == target].sum())


def exact_kl(table, reference, target):
    """KL(table || reference) between the two distributions over whole responses, in nats."""
    p, q = expression_probs(table, target), expression_probs(reference, target)
    return float(np.sum(p * np.log(p / q)))


def mean_length(table, target):
    """Expected number of tokens of a response, the end token included."""
    return float(expression_probs(table, target) @ LENGTHS)
