"""What an exercise is: one literal that holds everything the course knows about it.

The same literal serves three times: `check(fn)` reads it to grade and to explain, `grader mistakes` reads it to
test the grader itself, and the class report reads it to say which misconceptions a class has.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Call:
    """One call of the student's function, as plain data (see `grader.plain` for what that may hold).

    `note` is shown behind the call in a report, for inputs that need a word ("the two ids alternate").
    """

    args: tuple
    kwargs: dict[str, Any] = field(default_factory=dict)
    note: str = ""


def call(*args, note: str = "", **kwargs) -> Call:
    """Write a `Call` the way the call itself is written."""
    return Call(args, kwargs, note)


# A property looks at what came back from all calls of its part and says what is wrong, or None. Where the sentence
# is about one call, it comes as (index of that call, sentence), and the report shows that call.
Property = Callable[[Sequence[Any], Sequence[Call]], str | tuple[int, str] | None]
# A symptom looks at what came back from all calls of the exercise and says whether this mistake made it.
Symptom = Callable[[Sequence[Any], Sequence[Call]], bool]


@dataclass(frozen=True)
class Part:
    """One thing that must hold, worth some points, with the calls that show it.

    Without `holds`, every call must give what the reference gives: the same value, or a ValueError where the
    reference raises one. With `holds`, the student's own values are judged: a relation between them, or random and
    free answers. With `only_errors`, a call on which the reference raises must raise a ValueError too, and the
    others must merely return something, so that a wrong formula is not punished a second time.

    Parts should fail one by one: who got the formula wrong but kept the groups apart earns the points for that.
    Put the smallest call first: the report shows the smallest that fails. A part about errors also needs a call
    that returns a value, else a function that always raises would earn it (`grader mistakes` tests this).

    Where a dict comes back (a value and its gradient, say), `entry` names the one entry that this part is about.
    """

    says: str
    points: int
    calls: Callable[[np.random.Generator], Sequence[Call]]
    holds: Property | None = None
    only_errors: bool = False
    hint: str = ""
    entry: str = ""


@dataclass(frozen=True)
class Mistake:
    """A wrong implementation that students really write.

    `says` tells the student what the numbers look like and where to look, without giving the answer away.
    `symptom` recognises the mistake where outputs cannot be compared one by one (random or free answers).
    """

    name: str
    code: Callable
    says: str
    symptom: Symptom | None = None


@dataclass(frozen=True)
class Alternative:
    """A correct implementation unlike the reference (another algorithm, other types): it must earn every point."""

    name: str
    code: Callable


@dataclass(frozen=True)
class Exercise:
    """One exercise of the course.

    `name` is the name of the student's function and the grade_id of its check cell. `chapter` is the folder's name.
    `minutes` is an estimate for a student who meets the subject for the first time; `difficulty` runs from 1 to 3.
    `shortcuts` names functions of grpo that would do the work; a report notes their use, as it does for the
    finished function of the exercise's own name.
    `rtol` and `atol` hold for float64 answers; float32 answers get at least 2e-5 and 1e-5.
    `adapter` goes round the student's function, the mistakes and the alternatives where they do not speak plain data
    (functions of tensors, see `grader.torch_calls`) or where a call must be watched; the reference is called as it is.
    """

    name: str
    chapter: str
    difficulty: int
    minutes: int
    reference: Callable
    parts: tuple[Part, ...]
    mistakes: tuple[Mistake, ...]
    alternatives: tuple[Alternative, ...] = ()
    shortcuts: tuple[str, ...] = ()
    hint: str = ""
    rtol: float = 2e-6
    atol: float = 1e-8
    adapter: Callable[[Callable, Sequence[str]], Callable] | None = None

    def on_plain_data(self, fn: Callable) -> Callable:
        """Return `fn` as a function from plain data to plain data."""
        if self.adapter is None or fn is self.reference:
            return fn
        return self.adapter(fn, list(inspect.signature(self.reference).parameters))

    @property
    def points(self) -> int:
        """The most points this exercise gives: the sum over its parts."""
        return sum(part.points for part in self.parts)

    def __post_init__(self):
        names = [mistake.name for mistake in self.mistakes]
        if len(set(names)) != len(names):
            raise ValueError(f"exercise {self.name}: two mistakes share a name in {names}; rename one")
        if self.difficulty not in (1, 2, 3):
            raise ValueError(f"exercise {self.name}: difficulty is {self.difficulty}, use 1, 2 or 3")
        for part in self.parts:
            if part.points < 1:
                raise ValueError(f"exercise {self.name}, part '{part.says}': points is {part.points}, use 1 or more")
