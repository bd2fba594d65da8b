"""How long a check takes: what a student waits for after running a check cell."""

from __future__ import annotations

import statistics
import time

from rich.console import Console
from rich.table import Table

from grader.checking import run_check
from grader.exercises import EXERCISES

REPEATS = 15


def bench_checks(console: Console | None = None) -> dict[str, float]:
    """Print and return the median seconds of one check, per exercise, for a right and for a wrong answer.

    A wrong answer takes longer, since every known mistake is tried on its inputs; its share is given as a ratio.
    """
    console = console or Console()
    table = Table("exercise", "right, ms", "wrong, ms", "wrong / right", title=f"One check, median of {REPEATS}")
    seconds = {}
    for name, exercise in EXERCISES.items():
        right = _median(lambda seed, e=exercise: run_check(e, e.reference, seed))
        wrong = max(
            _median(lambda seed, e=exercise, m=mistake: run_check(e, m.code, seed)) for mistake in exercise.mistakes
        )
        seconds[name] = max(right, wrong)
        table.add_row(name, f"{right * 1e3:.1f}", f"{wrong * 1e3:.1f}", f"{wrong / right:.1f}")
    console.print(table)
    console.print(
        f"slowest: {max(seconds.values()) * 1e3:.0f} ms, median: {statistics.median(seconds.values()) * 1e3:.0f} ms"
    )
    return seconds


def _median(check) -> float:
    times = []
    for seed in range(REPEATS):
        start = time.perf_counter()
        check(seed)
        times.append(time.perf_counter() - start)
    return statistics.median(times)
