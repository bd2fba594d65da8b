"""What a person sees of a run: a progress bar while it trains, tables and curves afterwards."""

from __future__ import annotations

import numpy as np
from rich.table import Column, Table

from grpo.expressions.compare import paired_difference
from grpo.expressions.experiment import run_experiment
from grpo.progress import SHORT, signals_bar

# signal -> what the tables and panels call it
SIGNALS = {
    "reward": "reward",
    "exact_success": "exact success",
    "greedy_success": "greedy success",
    "zero_variance_share": "zero-variance share",
    "entropy": "entropy, nats",
    "kl": "KL to the start, nats",
    "clip_fraction": "clip fraction",
    "gradient_norm": "gradient norm",
    "length": "length, tokens",
}
COMPARED = {"exact_success": "exact success", "greedy_success": "greedy success", "kl": "KL", "entropy": "entropy"}


def live_training(console, policy, name, settings, seeds):
    """`run_experiment` under a progress bar that shows the signals of the current iteration, averaged over seeds.

    Args:
        console: rich Console.
        policy, settings, seeds: as in `run_experiment`.
        name: what the bar is called.

    Returns: Run.
    """
    with signals_bar(console) as progress:
        task = progress.add_task(f"{policy}, {name}", total=settings.steps, signals="")

        def show(iteration, signals, evaluation):
            progress.update(task, completed=iteration, signals=_one_line(signals, evaluation))

        return run_experiment(policy, settings, seeds, on_step=show)


def result_table(name, run):
    """rich Table: each signal at the first and the last iteration; exact scores before training and after it."""
    title = f"{run.policy}, {name}: {len(run.seeds)} seeds, {run.settings.steps} steps"
    table = Table("", "start", "end", "min", "max", title=title)
    for signal, label in SIGNALS.items():
        exact = hasattr(run.end, signal)
        start = getattr(run.start, signal) if exact else run.curves[signal][0]
        end = getattr(run.end, signal) if exact else run.curves[signal][-1]
        table.add_row(label, *(f"{value:.3f}" for value in (start.mean(), end.mean(), end.min(), end.max())))
    better = (run.end.exact_success > run.start.exact_success).mean()
    table.add_row("seeds above their start", "", f"{better:.0%}", "", "")
    return table


def comparison_table(runs):
    """rich Table: the arms against the first one, seed by seed, with the 95 % interval of the mean difference."""
    (standard, baseline), *others = runs.items()
    interval = Column("95 % interval", no_wrap=True)
    table = Table("", "signal", "difference", interval, "seeds above", title=f"Against {standard}, same seeds")
    for name, run in others:
        for signal, label in COMPARED.items():
            difference = paired_difference(getattr(run.end, signal), getattr(baseline.end, signal))
            interval = f"{difference.low:+.3f} .. {difference.high:+.3f}" if difference.n > 1 else "needs 2 seeds"
            table.add_row(name, label, f"{difference.mean:+.3f}", interval, f"{difference.share_above:.0%}")
    return table


def plot_runs(runs, path):
    """Draw every signal over the iterations: the mean over seeds, and a band from the lowest to the highest.

    Args:
        runs: dict, name -> Run.
        path: file to write; its ending chooses the format.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 9), layout="constrained")
    axes = figure.subplots(3, 3, sharex=True)
    for axis, (signal, label) in zip(axes.flat, SIGNALS.items(), strict=True):
        for name, run in runs.items():
            curve = run.curves[signal]
            iterations = np.arange(1, len(curve) + 1)
            (line,) = axis.plot(iterations, curve.mean(axis=1), label=name)
            axis.fill_between(iterations, curve.min(axis=1), curve.max(axis=1), color=line.get_color(), alpha=0.15)
        axis.set_title(label)
        axis.grid(alpha=0.3)
    for axis in axes[-1]:
        axis.set_xlabel("iteration")
    axes[0, 0].legend()
    first = next(iter(runs.values()))
    figure.suptitle(f"{first.policy}: mean and range of {len(first.seeds)} seeds")
    figure.savefig(path, dpi=110)


def _one_line(signals, evaluation):
    values = {name: getattr(evaluation, name, None) for name in SIGNALS}
    values = {name: getattr(signals, name) if value is None else value for name, value in values.items()}
    short = {"reward": "reward", "exact_success": "exact", "greedy_success": "greedy", **SHORT}
    return " ".join(f"{label} {values[name].mean():.2f}" for name, label in short.items())
