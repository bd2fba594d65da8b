"""What a report may show when grades are given: inputs that every check has in common, none that a seed has drawn.

A student can call `check()` as often as they like and see its inputs. What the grading has drawn stays with it: the
report then names the property and the mistake, and what the student's own code printed or raised there is left out,
since it could be the input.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from grader.calling import Outcome
from grader.exercise import Call, Exercise
from grader.plain import same_data
from grader.report import Evidence

OTHER_SEEDS = (1, 2, 3)  # an input is common if it comes out under each of these too


def drawn_calls(exercise: Exercise, calls: Sequence[Call]) -> frozenset[int]:
    """Return the indices of the calls whose inputs depend on the seed."""
    common = set(range(len(calls)))
    for seed in OTHER_SEEDS:
        rng = np.random.default_rng(seed)
        others = [one for part in exercise.parts for one in part.calls(rng)]
        # Parts may draw how many calls they make: then their places tell nothing, and only equal inputs count.
        common &= {i for i, one in enumerate(calls) if any(_same(one, other) for other in others[i : i + 1])}
    return frozenset(range(len(calls))) - common


def scrubbed(outcomes: Sequence[Outcome], drawn: frozenset[int]) -> list[Outcome]:
    """Return the outcomes without the words that the student's code said about inputs that were drawn."""
    return [_without_words(one) if i in drawn else one for i, one in enumerate(outcomes)]


def evidence_withheld(name: str) -> Evidence:
    """Return what stands in place of an input that is not shown."""
    return Evidence(
        "",
        sentence=f"This fails for an input that was drawn for the grading and is not shown. `check({name})` in your "
        "own notebook draws new ones each time, and shows the one that fails.",
    )


def _same(one: Call, other: Call) -> bool:
    return same_data(tuple(one.args), tuple(other.args)) and same_data(dict(one.kwargs), dict(other.kwargs))


def _without_words(one: Outcome) -> Outcome:
    raised = one.raised and replace(one.raised, message="(what it said is not shown)")
    return replace(one, printed="", warned=(), raised=raised)
