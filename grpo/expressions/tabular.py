"""The tabular policy: one logits vector per prompt and prefix. It has nothing to say about a state it never saw."""

from __future__ import annotations

import numpy as np

from grpo.checks import as_count, as_nonnegative
from grpo.expressions.game import HAS_CHOICE, TOKENS
from grpo.expressions.policy import TreePolicy

N_CHOICES = int(HAS_CHOICE.sum())


class TabularPolicy(TreePolicy):
    """logits[seed, token, prompt, column], each a parameter of its own; a column for every prefix with a choice.

    Args:
        n_prompts: P.
        rngs: S numpy Generators, one per seed, for the start.
        scale: standard deviation of the start. It is small: the start is all but uniform over the legal tokens, and
            the noise only decides ties, so that greedy success at the start is no artefact of the token order.
    """

    def __init__(self, n_prompts, rngs, scale=0.01):
        n_prompts, scale = as_count(n_prompts, "n_prompts", minimum=1), as_nonnegative(scale, "scale")
        shape = (len(TOKENS), n_prompts, N_CHOICES + 1)
        start = np.stack([scale * rng.standard_normal(shape) for rng in rngs])
        super().__init__({"logits": start}, n_prompts, np.arange(N_CHOICES))

    def logits(self, prompts=None):
        """(S, V, P, K) logits, before the grammar mask."""
        table = self.parameters["logits"]
        if prompts is None:
            return table
        return np.take_along_axis(table, prompts[:, np.newaxis, :, np.newaxis], axis=2)

    def backward(self, logit_gradient, prompts=None):
        """{"logits": (S, V, P, K)}: the gradient is the table's own; a prompt that was not asked gets 0."""
        if prompts is None:
            return {"logits": logit_gradient}
        gradient = np.zeros_like(self.parameters["logits"])
        for seed, row in enumerate(prompts):
            np.add.at(gradient[seed], (slice(None), row), logit_gradient[seed])
        return {"logits": gradient}

    def frozen_copy(self):
        """An independent copy with the same parameters."""
        copy = object.__new__(TabularPolicy)
        TreePolicy.__init__(copy, {"logits": self.parameters["logits"].copy()}, self.n_prompts, np.arange(N_CHOICES))
        return copy
