"""What a person sees of a run of `grpo train qwen3`: the progress bar, warnings, Ctrl-C, and the table at the end."""

from __future__ import annotations

import signal
from contextlib import contextmanager

from rich.table import Table

from grpo.progress import SHORT, signals_bar
from grpo.qwen3.health import sicknesses
from grpo.qwen3.plot import PANELS, plot_health

PLOT_EVERY = 5
LINE = {"reward": "reward", **SHORT, "truncation_rate": "cut"}
LABELS = {**PANELS, "gradient_norm": "gradient norm"}


class RunStopped(RuntimeError):
    """Ctrl-C: the step was finished and saved. The message says how to go on."""


def train_live(console, trainer, plot=None):
    """Train up to settings.steps under a progress bar with the signals; warnings appear as soon as they hold.

    Raises: RunStopped after Ctrl-C, with the step finished and saved; whatever `Trainer.step` raises.
    """
    said = set()
    with stop_request(console) as stop, signals_bar(console) as progress:
        task = progress.add_task("grpo", total=trainer.settings.steps, completed=trainer.steps_done, signals="")

        def show(trainer, signals):
            if signals["skipped_updates"]:
                console.print(_skipped(trainer.steps_done, signals), style="yellow", highlight=False)
            progress.update(task, completed=trainer.steps_done, signals=_one_line(signals))
            for kind, warning in sicknesses(trainer.history).items():
                if kind not in said:
                    console.print(f"step {trainer.steps_done}: {warning}", style="yellow", highlight=False)
                said.add(kind)
            if plot is not None and trainer.steps_done % PLOT_EVERY == 0:
                plot_health(trainer.history, plot)
            return stop.asked

        trainer.train(callback=show)
    if plot is not None:
        plot_health(trainer.history, plot)
    if trainer.steps_done < trainer.settings.steps:
        raise RunStopped(_how_to_go_on(trainer))


@contextmanager
def stop_request(console):
    """Inside, Ctrl-C (or SIGTERM) only asks: the step that runs is finished and saved. A second Ctrl-C stops at once.

    Yields: an object whose `asked` becomes True.
    """
    stop = _Stop()

    def ask(number, frame):
        if stop.asked:
            raise KeyboardInterrupt
        stop.asked = True
        console.print("finishing this step, then saving; Ctrl-C again stops at once", highlight=False)

    try:
        old = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not the main thread: no signal arrives here
        old = {}
    try:
        yield stop
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def result_table(trainer, after):
    """rich Table: what the policy could do before and can do now.

    Args:
        trainer: Trainer, at least one step old.
        after: dict as in trainer.notes["before"], or None without test problems.
    """
    history = trainer.history
    few = min(10, len(history))
    table = Table("", "before", "after", title=f"{trainer.notes['model']}: {trainer.steps_done} steps")
    before = trainer.notes.get("before")
    if before is not None and after is not None:
        table.add_row(f"greedy accuracy, {after['problems']} test problems", _interval(before), _interval(after))
    table.add_section()
    table.add_row("sampled, mean of", f"first {few} steps", f"last {few} steps")
    for name, label in LINE.items():
        ends = [_mean(rows, name) for rows in (history[:few], history[-few:])]
        if None not in ends:
            table.add_row(LABELS.get(name, label), *(f"{value:.3f}" for value in ends))
    table.caption = (
        f"{readable_seconds(sum(row['wall_seconds'] for row in history))}, "
        f"{sum(row['tokens'] for row in history):,} tokens sampled"
    )
    return table


def readable_seconds(seconds):
    """12 s, 3 min 20 s or 4 h 5 min."""
    seconds = round(seconds)
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60} min"


class _Stop:
    asked = False


def headline(trainer):
    """One line: what is trained, from where to where, and where it is kept."""
    settings = trainer.settings
    kept = f"in {trainer.record.folder.path}" if trainer.record else "nothing is kept (--out DIR keeps it)"
    start = f"from step {trainer.steps_done} of {settings.steps}" if trainer.steps_done else f"{settings.steps} steps"
    return (
        f"GRPO on {trainer.notes['model']}: {start} of {settings.prompts_per_step} prompts x {settings.group_size} "
        f"rollouts, {kept}"
    )


def _skipped(step, signals):
    skipped = signals["skipped_updates"]
    updates = "its update was" if skipped == 1 else f"{skipped} of its updates were"
    return (
        f"step {step}: {updates} skipped, because a float16 gradient overflowed; the next loss is scaled by "
        f"{signals['loss_scale']:g}. In the first steps of a run that is the search for the right scale"
    )


def _how_to_go_on(trainer):
    if trainer.record is None:
        return f"stopped after step {trainer.steps_done}; nothing was kept, because there was no --out"
    return (
        f"stopped and saved after step {trainer.steps_done}. Go on with: "
        f"grpo train qwen3 --out {trainer.record.folder.path} --resume"
    )


def _one_line(signals):
    shown = ((label, signals.get(name)) for name, label in LINE.items())
    return " ".join(f"{label} {value:.2f}" for label, value in shown if value is not None)


def _interval(accuracy):
    return f"{accuracy['accuracy']:.3f} ({accuracy['low']:.3f} .. {accuracy['high']:.3f})"


def _mean(rows, name):
    values = [row[name] for row in rows if row.get(name) is not None]
    return sum(values) / len(values) if values else None
