"""Published accuracies on MATH-500, to be set beside measured ones and never mixed with them."""

from __future__ import annotations

from dataclasses import dataclass

SOURCE = "S. Raschka, Build a Reasoning Model (From Scratch), github.com/rasbt/reasoning-from-scratch"
CAVEAT = "published, one run each, standard error up to 2.2 points, not measured here"


@dataclass(frozen=True)
class Published:
    """One figure somebody else has published.

    name: how the model was made or asked. value: accuracy in percent. problems: number of them.
    source: who published it. note: what it was made with, and that it was not measured here.
    """

    name: str
    value: float
    problems: int
    source: str
    note: str

    @property
    def standard_error(self):
        """In percentage points, of the problems alone: how the model was trained varies on top."""
        share = self.value / 100
        return 100 * (share * (1 - share) / self.problems) ** 0.5


def _figure(name, value, note):
    return Published(name, value, 500, SOURCE, f"{note}; {CAVEAT}")


# All of Qwen3-0.6B; a row without "reasoning model" is the base model, or comes from it.
PUBLISHED = (
    _figure("base model", 15.2, "greedy"),
    _figure("base model, step-by-step prompt", 40.6, "greedy, 'Explain step by step.' added to the prompt"),
    _figure("base model, step-by-step prompt, majority of 10", 52.0, "temperature 0.9, top-p 0.9"),
    _figure("reasoning model", 48.2, "greedy"),
    _figure("GRPO without KL, step 50", 47.4, "8 rollouts of 512 tokens, one problem a step"),
    _figure("GRPO without KL, step 100", 44.0, "the same run, 50 steps later"),
    _figure("GRPO with k1 as KL, step 50", 33.4, "8 rollouts of 512 tokens; k1 as a loss is no penalty"),
    _figure("GRPO with k1 as KL, step 100", 0.4, "the same run, 50 steps later"),
)


def published_table():
    """rich Table of PUBLISHED, with a title that says what these figures are not."""
    from rich.table import Table

    table = Table(title="MATH-500, Qwen3-0.6B: PUBLISHED figures, not measured here", caption=f"{CAVEAT}. {SOURCE}")
    table.add_column("published")
    table.add_column("accuracy", justify="right")
    table.add_column("std. error", justify="right")
    for figure in PUBLISHED:
        table.add_row(figure.name, f"{figure.value:.1f} %", f"{figure.standard_error:.1f}")
    return table
