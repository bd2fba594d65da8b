"""The MLP policy: one hidden tanh layer, shared by all prompts and prefixes, with its backward pass by hand."""

from __future__ import annotations

import numpy as np

from grpo.checks import as_count, as_floats
from grpo.expressions.game import END_ID, HAS_CHOICE, PREFIXES, TOKENS
from grpo.expressions.policy import TreePolicy

HIDDEN = 48


def count_features():
    """How often each token stands in each prefix. The end token never does, so it has no column.

    Returns: (70, 5) float64. Prefixes that differ in order only have equal rows.
    """
    return np.array([[prefix.count(token) for token in TOKENS[:END_ID]] for prefix in PREFIXES], dtype=float)


def one_hot_features(n_prompts):
    """One column per prompt: no two prompts have anything in common. Returns: (P, P) float64."""
    return np.eye(as_count(n_prompts, "n_prompts", minimum=1))


class MLPPolicy(TreePolicy):
    """logits = w2 tanh(w1 x + b1) + b2, where x = (features of the prefix, features of the prompt).

    The first layer is a sum over inputs, so prefix and prompt are multiplied apart and added: K + P rows instead of
    K * P. Prefixes with equal features share a column.

    Args:
        prompt_features: (P, D) float.
        rngs: S numpy Generators, one per seed, for the start: weights N(0, 1/fan_in), biases 0.
        prefix_features: (70, C) float; default `count_features()`.
        hidden: H.

    Parameters: w1 (S, H, C + D), prefix columns first; b1 (S, H); w2 (S, V, H); b2 (S, V).
    """

    def __init__(self, prompt_features, rngs, prefix_features=None, hidden=HIDDEN):
        prompt_features = as_floats(prompt_features, "prompt_features")
        prefix_features = as_floats(count_features() if prefix_features is None else prefix_features, "prefix_features")
        if prompt_features.ndim != 2 or prompt_features.size == 0:
            raise ValueError(f"prompt_features has shape {prompt_features.shape}: pass (P, D), one row per prompt")
        if prefix_features.ndim != 2 or len(prefix_features) != len(PREFIXES):
            raise ValueError(f"prefix_features has shape {prefix_features.shape}: pass ({len(PREFIXES)}, C)")
        hidden = as_count(hidden, "hidden", minimum=1)

        fan_in = prefix_features.shape[1] + prompt_features.shape[1]
        parameters = {
            "w1": np.stack([rng.standard_normal((hidden, fan_in)) / np.sqrt(fan_in) for rng in rngs]),
            "b1": np.zeros((len(rngs), hidden)),
            "w2": np.stack([rng.standard_normal((len(TOKENS), hidden)) / np.sqrt(hidden) for rng in rngs]),
            "b2": np.zeros((len(rngs), len(TOKENS))),
        }
        rows, self._choice_column = np.unique(prefix_features[HAS_CHOICE], axis=0, return_inverse=True)
        # The last row is the column of the forced tokens; its gradient is always 0.
        self.prefix_rows = np.concatenate([rows, np.zeros((1, rows.shape[1]))])
        self.prompt_features = prompt_features
        self._hidden = self._scratch = None
        super().__init__(parameters, len(prompt_features), self._choice_column.ravel())

    def logits(self, prompts=None):
        """(S, V, P, K) logits, before the grammar mask. Keeps the hidden layer for `backward`."""
        w1, b1, w2, b2 = (self.parameters[name] for name in ("w1", "b1", "w2", "b2"))
        split = self.prefix_rows.shape[1]
        asked = self._asked(prompts)
        of_prefix = w1[:, :, :split] @ self.prefix_rows.T
        of_prompt = w1[:, :, split:] @ np.swapaxes(asked, -1, -2) + b1[:, :, np.newaxis]
        # The one large array. It is reused: fresh memory for it can cost more than the arithmetic.
        shape = (*of_prompt.shape, of_prefix.shape[-1])
        if self._hidden is None or self._hidden.shape != shape:
            self._hidden, self._scratch = np.empty(shape), np.empty(shape)
        hidden = self._hidden
        np.add(of_prompt[:, :, :, np.newaxis], of_prefix[:, :, np.newaxis, :], out=hidden)
        np.tanh(hidden, out=hidden)
        flat = hidden.reshape(*hidden.shape[:2], -1)
        return (w2 @ flat + b2[:, :, np.newaxis]).reshape(*w2.shape[:2], *hidden.shape[2:])

    def backward(self, logit_gradient, prompts=None):
        """Gradients of w1, b1, w2, b2 from (S, V, P, K) gradients of the logits that were just computed."""
        hidden, w2 = self._hidden, self.parameters["w2"]
        flat = hidden.reshape(*hidden.shape[:2], -1)
        above = logit_gradient.reshape(*logit_gradient.shape[:2], -1)
        below = np.swapaxes(w2, 1, 2) @ above
        # d tanh(z) / dz = 1 - tanh(z)^2
        slope = np.multiply(flat, flat, out=self._scratch.reshape(flat.shape))
        np.subtract(1.0, slope, out=slope)
        below = np.multiply(below, slope, out=slope).reshape(hidden.shape)
        per_prompt = below @ np.ones(hidden.shape[3])
        of_prefix = np.einsum("shpk->shk", below) @ self.prefix_rows
        of_prompt = per_prompt @ self._asked(prompts)
        return {
            "w1": np.concatenate([of_prefix, of_prompt], axis=2),
            "b1": per_prompt.sum(axis=2),
            "w2": above @ np.swapaxes(flat, 1, 2),
            "b2": above.sum(axis=2),
        }

    def frozen_copy(self):
        """An independent copy with the same parameters."""
        copy = object.__new__(MLPPolicy)
        copy.prefix_rows, copy.prompt_features = self.prefix_rows, self.prompt_features
        copy._choice_column, copy._hidden, copy._scratch = self._choice_column, None, None
        parameters = {name: value.copy() for name, value in self.parameters.items()}
        TreePolicy.__init__(copy, parameters, self.n_prompts, self._choice_column.ravel())
        return copy

    def _asked(self, prompts):
        return self.prompt_features if prompts is None else self.prompt_features[prompts]
