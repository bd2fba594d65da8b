"""What is asked: a list of prompts, each with its three numbers and its target."""

from __future__ import annotations

import numpy as np

from grpo.checks import as_integers
from grpo.expressions.game import EXPRESSIONS, NUMBERS, TARGETS, evaluate


class Task:
    """Prompts and, by enumeration, the value of every expression for each of them.

    Args:
        targets: (P,) integers.
        numbers: (P, 3) integers, the numbers of each prompt, distinct within a row; default 2, 3, 5 for all.

    Attributes:
        targets: (P,) int.
        numbers: (P, 3) int.
        values: (P, 39) int, the value of each expression when its number tokens stand for this prompt's numbers.
        correct: (P, 39) bool, values equal to the target.

    Raises: ValueError if the shapes do not fit, nothing is asked, or a prompt has a number twice.
    """

    def __init__(self, targets, numbers=None):
        self.targets = as_integers(targets, "targets")
        if self.targets.ndim != 1 or self.targets.size == 0:
            raise ValueError(f"targets has shape {self.targets.shape}: pass (P,), one target per prompt, at least one")
        if numbers is None:
            numbers = np.tile([int(number) for number in NUMBERS], (len(self.targets), 1))
        self.numbers = as_integers(numbers, "numbers")
        if self.numbers.shape != (len(self.targets), len(NUMBERS)):
            raise ValueError(f"numbers has shape {self.numbers.shape}: pass ({len(self.targets)}, {len(NUMBERS)})")
        for row, triple in enumerate(self.numbers.tolist()):
            if len(set(triple)) < len(triple):
                raise ValueError(f"numbers[{row}] is {triple}: the numbers of a prompt must differ")

        values_of = {triple: _all_values(triple) for triple in set(map(tuple, self.numbers.tolist()))}
        self.values = np.array([values_of[tuple(triple)] for triple in self.numbers.tolist()])
        self.correct = self.values == self.targets[:, np.newaxis]

    def __len__(self):
        return len(self.targets)


def expression_task():
    """The ten prompts of the course: the numbers 2, 3, 5 and the targets 5 6 7 8 10 11 13 15 17 30."""
    return Task(TARGETS)


def spell(expression, numbers):
    """The tokens of an expression with a prompt's own numbers in place of 2, 3, 5.

    Args:
        expression: tuple of strings, one of EXPRESSIONS (or a response with its end token).
        numbers: three integers.

    Returns: tuple of strings.
    """
    names = dict(zip(NUMBERS, map(str, numbers), strict=True))
    return tuple(names.get(token, token) for token in expression)


def _all_values(triple):
    allowed = tuple(map(str, triple))
    return [evaluate(spell(expression, triple), allowed) for expression in EXPRESSIONS]
