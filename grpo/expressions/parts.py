"""Adapters: functions for one rollout, one group or one table of inputs as parts of the vectorised trainer.

With them `train` runs on what a chapter asks its reader to write. One seed at a time is enough for that.
"""

from __future__ import annotations

import numpy as np

from grpo.expressions.game import HAS_CHOICE, TOKENS
from grpo.expressions.mlp import count_features
from grpo.expressions.objective import TokenLoss, token_loss
from grpo.expressions.policy import TreePolicy


def batched_advantage(function):
    """An advantage function for `train` from one like `grpo.group_relative_advantage`.

    Args:
        function: callable (flat rewards (P * G,), group_size) -> P * G advantages, flat or (P, G).

    Returns: callable, (S, P, G) rewards -> (S, P, G).
    """

    def advantages(rewards):
        size = rewards.shape[-1]
        return np.stack([np.asarray(function(one.ravel(), size), dtype=float).reshape(one.shape) for one in rewards])

    return advantages


def batched_coefficient(function):
    """A loss function for `train` from the coefficient of one token.

    Args:
        function: callable (new_logp, old_logp, ref_logp, advantage, clip_eps, kl_coef) -> float: what multiplies
            onehot - probs in the ascent direction, gate * A * ratio - kl_coef * (1 - exp(ref - new)).

    Returns: callable with the arguments of `token_loss`. Its loss and gate are the library's; only the coefficients,
        and so the training, are the function's.
    """

    def loss(new_logps, old_logps, ref_logps, advantages, weights, clip_eps=0.2, kl_coef=0.04, kl_kind="k3"):
        library = token_loss(new_logps, old_logps, ref_logps, advantages, weights, clip_eps, kl_coef, kl_kind)
        ref = new_logps if ref_logps is None else ref_logps
        spread = np.broadcast_to(advantages[..., np.newaxis], new_logps.shape)
        coefficients = np.zeros(new_logps.shape)
        for place in zip(*np.nonzero(weights), strict=True):
            parts = (float(array[place]) for array in (new_logps, old_logps, ref, spread))
            coefficients[place] = -weights[place] * function(*parts, clip_eps, kl_coef)
        return TokenLoss(library.loss, coefficients, library.open_gate)

    return loss


class FunctionPolicy(TreePolicy):
    """An MLP policy whose forward and backward pass are functions of a plain (N, D) table of inputs.

    Args:
        parameters: dict of arrays, without a seed axis; copied.
        forward: callable (parameters, x (N, D)) -> (logits (N, V), hidden): hidden is whatever backward needs.
        backward: callable (parameters, x, hidden, logit_gradient (N, V)) -> dict like parameters.
        prompt_features: (P, C).
        prefix_features: (70, C'), default `count_features()`. A row of x is (prefix features, prompt features).
    """

    def __init__(self, parameters, forward, backward, prompt_features, prefix_features=None):
        features = count_features() if prefix_features is None else prefix_features
        # The last column is that of the forced tokens: no gradient ever reaches it.
        self._prefix_rows = np.concatenate([features[HAS_CHOICE], np.zeros((1, features.shape[1]))])
        self._functions, self._features = (forward, backward), (prompt_features, features)
        self._seen = None
        with_seed_axis = {name: np.array(value, dtype=float)[np.newaxis] for name, value in parameters.items()}
        super().__init__(with_seed_axis, len(prompt_features), np.arange(HAS_CHOICE.sum()))

    def logits(self, prompts=None):
        """(1, V, P, K) logits, before the grammar mask."""
        asked = self._features[0] if prompts is None else self._features[0][prompts[0]]
        n_prompts, n_columns = len(asked), len(self._prefix_rows)
        x = np.concatenate([np.tile(self._prefix_rows, (n_prompts, 1)), np.repeat(asked, n_columns, axis=0)], axis=1)
        logits, hidden = self._functions[0](self._plain(), x)
        self._seen = x, hidden
        return np.moveaxis(np.asarray(logits).reshape(1, n_prompts, n_columns, len(TOKENS)), -1, 1)

    def backward(self, logit_gradient, prompts=None):
        """Gradients with a seed axis of 1, by the function given."""
        rows = np.moveaxis(logit_gradient, 1, -1).reshape(-1, len(TOKENS))
        gradient = self._functions[1](self._plain(), *self._seen, rows)
        return {name: np.asarray(gradient[name])[np.newaxis] for name in self.parameters}

    def frozen_copy(self):
        """An independent copy with the same parameters."""
        return FunctionPolicy(self._plain(), *self._functions, *self._features)

    def _plain(self):
        return {name: value[0] for name, value in self.parameters.items()}
