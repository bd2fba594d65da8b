"""What a policy is for the trainer, and what the tabular and the MLP policy share: the walk through the tree.

Axes, in this order everywhere: S seeds (independent runs side by side), V tokens, P prompts, K columns (the states a
policy tells apart), G rollouts of a group, T tokens of a rollout.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from grpo.checks import as_count
from grpo.expressions.game import (
    END_ID,
    EXPRESSION_OF_STATE,
    EXPRESSIONS,
    HAS_CHOICE,
    LEGAL,
    LENGTHS,
    MAX_TOKENS,
    NEXT_STATE,
    PATH_STATES,
    PATH_TOKENS,
    PREFIXES,
    TOKEN_MASK,
    TOKENS,
)


@dataclass(frozen=True)
class Rollouts:
    """The rollouts of one iteration.

    prompts: (S, P) int, or None for "every prompt in order".
    prompt_index: (S or 1, P) int, the same with None spelled out.
    expressions: (S, P, G) int, which of the 39 expressions was written. The trainer does not look inside.
    logps: (S, P, G, T) log-probs under the policy that sampled them, captured while sampling; 0 at padding.
    mask: (S, P, G, T) bool, true for tokens that exist; the end token exists.
    lengths: (S, P, G) int, tokens per rollout, the end token included.
    index, n_columns: (S, P, G, T) int and int, where the tokens stand in the raveled log-prob table of a policy with so
        many columns. It saves looking them up again; a policy with another table ignores it.
    """

    prompts: np.ndarray | None
    prompt_index: np.ndarray
    expressions: np.ndarray
    logps: np.ndarray
    mask: np.ndarray
    lengths: np.ndarray
    index: np.ndarray
    n_columns: int

    @property
    def tokens(self):
        """(S, P, G, T) int, places in TOKENS; padded with the end token."""
        return PATH_TOKENS[self.expressions]


class Policy(Protocol):
    """The three things that a trainer asks of a policy, and two for bookkeeping."""

    parameters: dict[str, np.ndarray]

    def sample(self, prompts, group_size, rngs) -> Rollouts:
        """Draw a group for each prompt. rngs: one numpy Generator per seed."""

    def token_logprobs(self, rollouts) -> np.ndarray:
        """(S, P, G, T) log-probs of the rollouts' tokens under the current parameters; 0 at padding."""

    def gradient(self, rollouts, coefficients) -> dict[str, np.ndarray]:
        """sum over tokens of coefficient * d log-prob / d parameter. coefficients: (S, P, G, T), 0 at padding."""

    def parameters_changed(self) -> None:
        """Forget what was computed from the old parameters."""

    def frozen_copy(self) -> Policy:
        """An independent copy, for the reference."""


class TreePolicy:
    """A policy over the tree of expressions. A subclass gives logits and turns their gradient into parameters'.

    Attributes:
        parameters: dict of arrays, each with a leading axis of S seeds. Change them in place, then call
            `parameters_changed`.
        n_seeds, n_prompts: S, and the number of prompts that exist.
        column: (70,) int, the column in which each prefix is looked up. Prefixes that the policy cannot tell apart
            share one, and so do, in the last column, all prefixes whose next token is forced.
    """

    def __init__(self, parameters, n_prompts, choice_column):
        """choice_column: (22,) int, a column for each prefix with a choice (HAS_CHOICE), in their order."""
        self.parameters = parameters
        self.n_prompts = as_count(n_prompts, "n_prompts", minimum=1)
        self.n_seeds = len(next(iter(parameters.values())))
        self.n_columns = int(choice_column.max()) + 2
        self.column = np.full(len(PREFIXES), self.n_columns - 1)
        self.column[HAS_CHOICE] = choice_column
        legal = np.arange(len(TOKENS)) == np.full((self.n_columns, 1), END_ID)
        legal[choice_column] = LEGAL[HAS_CHOICE]
        self.grammar = np.where(legal.T, 0.0, -np.inf)[np.newaxis, :, np.newaxis, :]
        # Whatever token is forced, the last column calls it the end token.
        self._path = np.where(HAS_CHOICE[PATH_STATES], PATH_TOKENS, END_ID), self.column[PATH_STATES]
        self._cache = None
        self._layouts = {}

    # To be written by a subclass -----------------------------------------------------------------------------------

    def logits(self, prompts=None):
        """(S, V, P, K) logits, before the grammar mask. A subclass may keep what `backward` needs."""
        raise NotImplementedError

    def backward(self, logit_gradient, prompts=None):
        """dict of parameter gradients, from (S, V, P, K) gradients of the logits that were just computed."""
        raise NotImplementedError

    def frozen_copy(self):
        """An independent copy with the same parameters."""
        raise NotImplementedError

    # Shared --------------------------------------------------------------------------------------------------------

    def parameters_changed(self):
        """Forget the cached log-probs."""
        self._cache = None

    def logprobs(self, prompts=None):
        """Log-probs of all tokens in all columns.

        Args:
            prompts: (S, P) int, or None for every prompt in order.

        Returns: (S, V, P, K) float64 in nats; -inf where the grammar forbids the token.
        """
        return self._distribution(prompts)[0]

    def _distribution(self, prompts):
        if self._cache is None or self._cache[0] is not prompts:
            # The mask comes before the softmax: what is left must sum to 1.
            logits = self.logits(prompts) + self.grammar
            logits -= logits.max(axis=1, keepdims=True)
            probs = np.exp(logits)
            total = probs.sum(axis=1, keepdims=True)
            probs /= total
            logits -= np.log(total)
            self._cache = prompts, logits, probs
        return self._cache[1:]

    def prefix_logprobs(self, prompts=None):
        """(S, P, 70, 6) log-probs of the next token after every prefix, in nats; -inf where it is illegal."""
        logps = np.moveaxis(self.logprobs(prompts), 1, -1)[:, :, self.column]
        return np.where(HAS_CHOICE[:, np.newaxis], logps, np.where(LEGAL, 0.0, -np.inf))

    def expression_logprobs(self, prompts=None):
        """(S, P, 39) log-probability of each whole response: the sum over its tokens. exp of it sums to 1."""
        logps = self.logprobs(prompts)
        return logps.ravel().take(self._layout(logps.shape)[1]).sum(axis=0)

    def sample(self, prompts, group_size, rngs):
        """Draw a group for each prompt.

        The tree has 39 leaves, so one draw among the leaves replaces six draws among tokens: the same distribution.

        Args:
            prompts: (S, P) int, or None for every prompt in order.
            group_size: G.
            rngs: S numpy Generators. A seed uses only its own, so it gives the same run alone and in company.

        Returns: Rollouts.
        """
        logps = self.logprobs(prompts)
        n_prompts = logps.shape[2]
        base, leaves, rows, first, path = self._layout(logps.shape)
        flat = logps.ravel()
        cumulative = np.cumsum(np.exp(flat.take(leaves).sum(axis=0)), axis=-1)
        cumulative /= cumulative[..., -1:]
        uniform = np.stack([rng.random((n_prompts, group_size)) for rng in rngs])
        # Row r of the flattened table covers r .. r+1, so that one search serves all rows.
        found = np.searchsorted((cumulative + rows).ravel(), (uniform + rows).ravel(), side="right")
        # uniform + r can round up to r + 1, which belongs to the next row.
        expressions = np.minimum(found.reshape(uniform.shape) - first, len(EXPRESSIONS) - 1)
        index = base[:, :, np.newaxis] + path[expressions]
        return Rollouts(
            prompts=prompts,
            prompt_index=np.arange(n_prompts)[np.newaxis] if prompts is None else prompts,
            expressions=expressions,
            logps=flat.take(index),
            mask=TOKEN_MASK[expressions],
            lengths=LENGTHS[expressions],
            index=index,
            n_columns=self.n_columns,
        )

    def token_logprobs(self, rollouts):
        """(S, P, G, T) log-probs of the rollouts' tokens under the current parameters; 0 at padding."""
        logps = self.logprobs(rollouts.prompts)
        return logps.ravel().take(self._index(rollouts, logps.shape))

    def gradient(self, rollouts, coefficients):
        """sum over tokens of coefficient * d log-prob / d parameter.

        A token's log-prob moves the logits of its state by onehot(token) - probs.

        Args:
            rollouts: Rollouts.
            coefficients: (S, P, G, T), d loss / d log-prob of each token; 0 at padding.

        Returns: dict, for each parameter an array of its shape.
        """
        logps, probs = self._distribution(rollouts.prompts)
        index = self._index(rollouts, logps.shape)
        on_token = np.bincount(index.ravel(), coefficients.ravel(), minlength=logps.size).reshape(logps.shape)
        return self.backward(on_token - on_token.sum(axis=1, keepdims=True) * probs, rollouts.prompts)

    def greedy(self, prompts=None):
        """(S, P) int: the expression that the likeliest token at every step leads to."""
        choice = np.argmax(self.logprobs(prompts), axis=1)[:, :, self.column]
        choice = np.where(HAS_CHOICE, choice, np.argmax(LEGAL, axis=1))
        state = np.zeros(choice.shape[:2], dtype=int)
        for _ in range(MAX_TOKENS):
            token = np.take_along_axis(choice, state[..., np.newaxis], axis=-1)[..., 0]
            state = np.where(token == END_ID, state, NEXT_STATE[state, token])
        return EXPRESSION_OF_STATE[state]

    def _layout(self, shape):
        """Where the entries of a raveled (S, V, P, K) table are: offsets per (seed, prompt) and per expression."""
        if shape not in self._layouts:
            n_seeds, n_tokens, n_prompts, n_columns = shape
            base = np.arange(n_seeds)[:, np.newaxis] * (n_tokens * n_prompts * n_columns)
            base = (base + np.arange(n_prompts) * n_columns)[..., np.newaxis]
            path = self._path[0] * (n_prompts * n_columns) + self._path[1]
            # Tokens first: a sum over the first axis is several times faster than one over a short last axis.
            leaves = np.ascontiguousarray(np.moveaxis(base[..., np.newaxis] + path, -1, 0))
            rows = np.arange(n_seeds * n_prompts, dtype=float).reshape(n_seeds, n_prompts, 1)
            self._layouts[shape] = base, leaves, rows, rows.astype(int) * len(EXPRESSIONS), path
        return self._layouts[shape]

    def _index(self, rollouts, shape):
        if rollouts.n_columns == self.n_columns:
            return rollouts.index
        base, _, _, _, path = self._layout(shape)
        return base[:, :, np.newaxis] + path[rollouts.expressions]
