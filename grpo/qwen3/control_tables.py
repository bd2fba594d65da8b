"""The rows of `grpo.qwen3.controls` side by side: paired differences, and tables to look at."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from grpo.expressions.compare import paired_difference


@dataclass(frozen=True)
class PairedRows:
    """Two ways of asking, compared on the same problems.

    first, second: their names. difference: accuracy of the second minus that of the first. low, high: its 95 % interval
    from the paired differences (`grpo.expressions.paired_difference`).
    only_first, only_second: number of problems that only one of them got right.
    """

    first: str
    second: str
    difference: float
    low: float
    high: float
    only_first: int
    only_second: int


def compare_rows(rows):
    """Every two rows on the same problems.

    Returns: list of PairedRows, the earlier row first.
    """
    pairs = []
    for first, second in combinations(rows, 2):
        found = paired_difference(second.rewards, first.rewards)
        better = [new - old for old, new in zip(first.rewards, second.rewards, strict=True)]
        only = sum(value < 0 for value in better), sum(value > 0 for value in better)
        pairs.append(PairedRows(first.name, second.name, found.mean, found.low, found.high, *only))
    return pairs


def controls_table(rows, title=""):
    """rich Table of the rows: accuracy with its interval, tokens, time."""
    from rich.table import Table

    table = Table(
        title=title or f"{rows[0].problems} problems, measured here",
        caption="tokens: per answer, a majority of K takes K of them; ended: share of answers that were not cut off",
    )
    table.add_column("asked with")
    for name in ("accuracy", "95 % Wilson", "tokens", "ended", "s", "tokens/s"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            row.name,
            f"{row.accuracy:.3f}",
            f"{row.low:.3f}..{row.high:.3f}",
            f"{row.mean_length:.1f}",
            f"{row.finished_share:.3f}",
            f"{row.seconds:.1f}",
            f"{row.tokens_per_second:,.0f}",
        )
    return table


def comparison_table(pairs):
    """rich Table of `compare_rows`; only 1st: number of problems that only the first got right."""
    from rich.table import Table

    table = Table(title="the same problems, paired: second - first")
    for name in ("first", "second"):
        table.add_column(name)
    for name in ("difference", "95 %", "only 1st", "only 2nd"):
        table.add_column(name, justify="right", no_wrap=True)
    for pair in pairs:
        interval = f"{pair.low:+.3f}..{pair.high:+.3f}"
        only = str(pair.only_first), str(pair.only_second)
        table.add_row(pair.first, pair.second, f"{pair.difference:+.3f}", interval, *only)
    return table
