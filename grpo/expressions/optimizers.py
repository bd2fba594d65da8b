"""Steps along a gradient. Parameters are dicts of arrays and are changed in place."""

from __future__ import annotations

import numpy as np

from grpo.checks import as_positive


class SGD:
    """parameter -= learning_rate * gradient."""

    def __init__(self, learning_rate):
        self.learning_rate = as_positive(learning_rate, "learning_rate")

    def step(self, parameters, gradient):
        """Change the parameters in place. gradient: dict with the same names and shapes."""
        for name, value in parameters.items():
            value -= self.learning_rate * gradient[name]


class Adam:
    """Adam (arXiv 1412.6980), algorithm 1, with bias correction and no weight decay."""

    def __init__(self, learning_rate, beta1=0.9, beta2=0.999, eps=1e-8):
        self.learning_rate = as_positive(learning_rate, "learning_rate")
        self.beta1, self.beta2, self.eps = beta1, beta2, eps
        self._moments, self._steps = {}, 0

    def step(self, parameters, gradient):
        """Change the parameters in place. gradient: dict with the same names and shapes."""
        self._steps += 1
        rate = self.learning_rate * np.sqrt(1.0 - self.beta2**self._steps) / (1.0 - self.beta1**self._steps)
        eps = self.eps * np.sqrt(1.0 - self.beta2**self._steps)
        for name, value in parameters.items():
            slope = gradient[name]
            mean, square = self._moments.setdefault(name, (np.zeros_like(value), np.zeros_like(value)))
            mean += (1.0 - self.beta1) * (slope - mean)
            square += (1.0 - self.beta2) * (slope * slope - square)
            value -= rate * mean / (np.sqrt(square) + eps)
