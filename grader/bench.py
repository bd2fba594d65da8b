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
    """Print and return the median seconds of one check, per exercise, for a right answer and the slowest wrong one.

    A wrong answer takes longer, since every known mistake is tried on its inputs; its share is given as a ratio.
    """
    console = console or Console()
    table = Table("exercise", "right, ms", "wrong, ms", "wrong / right", title=f"One check, median of {REPEATS}")
    seconds = {}
    for name, exercise in EXERCISES.items():
        right = _median(lambda seed, e=exercise: run_check(e, e.reference, seed))
        # One run of each finds the slowest known mistake; that one is then measured properly.
        slowest = max(exercise.mistakes, key=lambda m, e=exercise: _median(lambda seed: run_check(e, m.code, seed), 1))
        wrong = _median(lambda seed, e=exercise, m=slowest: run_check(e, m.code, seed))
        seconds[name] = max(right, wrong)
        table.add_row(name, f"{right * 1e3:.1f}", f"{wrong * 1e3:.1f}", f"{wrong / right:.1f}")
    console.print(table)
    console.print(
        f"slowest: {max(seconds.values()) * 1e3:.0f} ms, median: {statistics.median(seconds.values()) * 1e3:.0f} ms"
    )
    return seconds


def _median(check, repeats: int = REPEATS) -> float:
    times = []
    for seed in range(repeats):
        start = time.perf_counter()
        check(seed)
        times.append(time.perf_counter() - start)
    return statistics.median(times)
