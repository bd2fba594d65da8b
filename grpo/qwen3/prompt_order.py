"""In which order the problems of a run come."""

from __future__ import annotations

import numpy as np


class PromptOrder:
    """Which problems come next: every epoch takes each once, in an order of its own that depends on the seed only.

    Args:
        count: number of problems.
        seed: int.
        drawn: how many have been taken so far; all there is to save.
    """

    def __init__(self, count, seed, drawn=0):
        self.count, self.seed, self.drawn = count, seed, drawn

    def take(self, wanted):
        """list of `wanted` indices; at the end of an epoch the next one goes on in the same batch."""
        positions = range(self.drawn, self.drawn + wanted)
        orders = {epoch: self._order(epoch) for epoch in {position // self.count for position in positions}}
        self.drawn += wanted
        return [int(orders[position // self.count][position % self.count]) for position in positions]

    def _order(self, epoch):
        return np.random.default_rng([self.seed, epoch]).permutation(self.count)
