"""A training run so small that a check can stop it, go on with it, and compare the last bit."""

from __future__ import annotations

import functools

import numpy as np

from grader.torch_calls import torch

BATCH, DECAY = 4, 0.7
FORGET = 0.3  # how much of the running mean each batch replaces
BETAS, WEIGHT_DECAY, EPS = (0.9, 0.99), 0.1, 1e-8
SPAN = 2**16  # batches are whole numbers below it, brought to -2 .. 2


class MicroRun:
    """A model with parameters and a buffer, AdamW, a generator that draws the batches, and the steps done so far.

    The learning rate falls with the step, and the buffer (a running mean of the batches, as a batch norm keeps one)
    goes into the loss: whoever loses one of the four parts gets other losses from the next steps on.

    Args:
        weights: (H,) array, the model's parameters at the start.
        learning_rate: of step 0.
        seed: of the generator.
    """

    def __init__(self, weights, learning_rate, seed):
        self.model = _model_class()(torch.from_numpy(weights).clone())
        self.learning_rate = learning_rate
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=learning_rate, betas=BETAS, eps=EPS, weight_decay=WEIGHT_DECAY
        )
        self.generator = torch.Generator().manual_seed(seed)
        self.step = 0

    def train(self, steps):
        """Make `steps` steps and return their losses."""
        losses = []
        for _ in range(steps):
            shape = BATCH, len(self.model.weights)
            batch = torch.randint(0, SPAN, shape, generator=self.generator).double() / (SPAN / 4) - 2
            self.optimizer.param_groups[0]["lr"] = self.learning_rate * DECAY**self.step
            loss = self.model(batch)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            losses.append(loss.item())
            self.step += 1
        return losses

    @property
    def numbers(self):
        """(2 H,) tensor: weights, running mean."""
        with torch.no_grad():
            return torch.cat([self.model.weights, self.model.running_mean])


@functools.cache
def _model_class():
    class Model(torch.nn.Module):
        """Mean over a batch of (weights . (x - running mean) - sin(sum x))**2."""

        def __init__(self, weights):
            super().__init__()
            self.weights = torch.nn.Parameter(weights)
            self.register_buffer("running_mean", torch.zeros_like(weights))

        def forward(self, batch):
            with torch.no_grad():
                self.running_mean.lerp_(batch.mean(dim=0), FORGET)
            target = torch.sin(batch.sum(dim=1))
            return (((batch - self.running_mean) @ self.weights - target) ** 2).mean()

    return Model


def numpy_run(weights, learning_rate, seed, steps):
    """The same run without torch: the losses of `steps` steps, and the numbers after each of them."""
    state = np.random.RandomState(seed)  # torch's generator on the CPU: the same Mersenne twister, seeded the same way
    size = len(weights)
    mean, average, square = np.zeros((3, size))
    losses, numbers = [], []
    for step in range(steps):
        words = np.frombuffer(state.bytes(4 * BATCH * size), dtype="<u4").reshape(BATCH, size)
        batch = words % SPAN / (SPAN / 4) - 2
        mean = mean + FORGET * (batch.mean(axis=0) - mean)
        error = (batch - mean) @ weights - np.sin(batch.sum(axis=1))
        gradient = 2 * error @ (batch - mean) / BATCH
        average = BETAS[0] * average + (1 - BETAS[0]) * gradient
        square = BETAS[1] * square + (1 - BETAS[1]) * gradient**2
        rate = learning_rate * DECAY**step
        first, second = average / (1 - BETAS[0] ** (step + 1)), square / (1 - BETAS[1] ** (step + 1))
        weights = weights * (1 - rate * WEIGHT_DECAY) - rate * first / (np.sqrt(second) + EPS)
        losses.append(float((error**2).mean()))
        numbers.append(np.concatenate([weights, mean]))
    return losses, numbers
