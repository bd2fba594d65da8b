"""`grpo train qwen3`: from options to a run, with everything a person wants to see of it."""

from __future__ import annotations

import signal
import sys
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import torch
import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column, Table

from grpo.qwen3.arithmetic import load_arithmetic
from grpo.qwen3.checkpoint import CheckpointError, RunFolder
from grpo.qwen3.evaluate import evaluate
from grpo.qwen3.fit import fit_to_memory, parse_bytes
from grpo.qwen3.guards import NotFiniteError, OutOfMemoryError
from grpo.qwen3.health import sicknesses
from grpo.qwen3.memory import memory_plan, memory_table, readable_bytes
from grpo.qwen3.model import load_model, real_shape_config, tiny_model
from grpo.qwen3.plot import plot_health
from grpo.qwen3.precision import native_half
from grpo.qwen3.problems import read_problems
from grpo.qwen3.prompts import encode_prompt
from grpo.qwen3.recipes import RECIPES, cold_started
from grpo.qwen3.rewards import RandomReward, boxed_reward
from grpo.qwen3.settings import GRPOSettings
from grpo.qwen3.tokenizer import tiny_tokenizer
from grpo.qwen3.trainer import Trainer

TINY = "tiny"
# A rehearsal without a download: the shape of Qwen3-0.6B with random weights.
REAL_SHAPE = "real-shape"
# Where to start from with a published model; the tiny one has the defaults of GRPOSettings.
PUBLISHED = {
    "steps": 50,
    "prompts_per_step": 8,
    "group_size": 8,
    "max_new_tokens": 512,
    "prompt_style": "base",
    "learning_rate": 2e-6,
    "warmup_steps": 5,
    "kl_coef": 0.0,
    "micro_batch_size": 4,
    "checkpoint_layers": True,
    "checkpoint_every": 10,
}
# Its random weights can learn nothing, so coins are thrown for the rewards; its tokenizer is the tiny one.
REHEARSAL = {**PUBLISHED, "prompt_style": "plain"}
REWARDS = ("strict", "math")
# Test problems for the tiny model, a rehearsal and a published model, unless told otherwise.
EVALUATE = {TINY: 1000, REAL_SHAPE: 0, None: 200}
PLOT_EVERY = 5
LINE = {
    "reward": "reward",
    "zero_variance_share": "dead",
    "entropy": "H",
    "kl": "KL",
    "clip_fraction": "clip",
    "gradient_norm": "|g|",
    "length": "len",
    "truncation_rate": "cut",
}
LABELS = {
    "zero_variance_share": "zero-variance share",
    "entropy": "entropy, nats",
    "kl": "KL to the reference, nats",
    "clip_fraction": "clip fraction",
    "gradient_norm": "gradient norm",
    "length": "length, tokens",
    "truncation_rate": "truncation rate",
}


@dataclass(frozen=True)
class RunOptions:
    """What the command line says beside the settings of GRPO. None: what suits the model, or what the run has.

    model: "tiny" (default), a hub name, a folder, or "real-shape" for a rehearsal: the shape of Qwen3-0.6B with random
        weights, and coins for rewards.
    out: folder for metrics and checkpoints.
    resume: go on with the run in `out`.
    device: "cpu" or "cuda".
    data, test_data: JSON-lines files; without them, the arithmetic set.
    reward: "strict" (default) or "math".
    cold_start: whether a tiny model is taught the form of the answers first (default: yes).
    evaluate: test problems answered before and after; 0 for none.
    plot_file: file for the picture of the run's health.
    max_memory: such as "15GB": waves, micro-batches, checkpointing and, on a GPU, half precision are chosen to fit.
    plan: show the memory plan, and stop before any weights are loaded onto the device.
    dry_run: show the memory plan, take one step, and keep nothing.
    """

    model: str | None = None
    out: Path | None = None
    resume: bool = False
    device: str = "cpu"
    data: Path | None = None
    test_data: Path | None = None
    reward: str | None = None
    cold_start: bool | None = None
    evaluate: int | None = None
    plot_file: Path | None = None
    max_memory: str | None = None
    plan: bool = False
    dry_run: bool = False

    def __post_init__(self):
        if self.max_memory is not None:
            parse_bytes(self.max_memory)
        if self.reward not in (None, *REWARDS):
            raise ValueError(f"reward is {self.reward!r}: choose {' or '.join(map(repr, REWARDS))}")

    def notes(self):
        """What a run remembers of them, defaults filled in: plain data."""
        model = self.model or TINY
        return {
            "model": model,
            "data": None if self.data is None else str(self.data),
            "test_data": None if self.test_data is None else str(self.test_data),
            "reward": self.reward or REWARDS[0],
            "evaluate": EVALUATE.get(model, EVALUATE[None]) if self.evaluate is None else self.evaluate,
        }


class RunStopped(RuntimeError):
    """Ctrl-C: the step was finished and saved. The message says how to go on."""


class TrainingFailed(RuntimeError):
    """The training could not go on, for a reason that the message gives."""


def default_settings(model, **changes):
    """The settings for a model, with some changed. Raises ValueError for a bad one."""
    return GRPOSettings(**{**{TINY: {}, REAL_SHAPE: REHEARSAL}.get(model, PUBLISHED), **changes})


def prepare(options, changes):
    """Check everything that can be checked before a model is loaded.

    Args:
        options: RunOptions.
        changes: dict, the settings given on the command line.

    Returns: GRPOSettings, or None for a run that goes on with its own.

    Raises: ValueError or CheckpointError, one sentence.
    """
    if options.test_data is not None and options.data is None:
        raise ValueError("--test-data without --data: problems of your own to be tested on need some to be trained on")
    if not options.resume:
        model = options.model or TINY
        if options.cold_start and (model != TINY or options.data is not None):
            raise ValueError("--cold-start is for --model tiny and its own problems: leave it out")
        if options.out is not None and not (options.dry_run or options.plan):
            RunFolder(options.out).require_free()
        return default_settings(model, **changes)

    if options.out is None:
        raise ValueError("--resume needs --out: the folder of the run to go on with")
    if options.dry_run or options.plan:
        raise ValueError("--dry-run and --plan keep nothing and resume nothing: leave out one of the two")
    if options.max_memory is not None:
        raise ValueError(
            "--max-memory chooses for a new run: to go on in less memory, give --wave, --micro-batch or "
            "--checkpoint-layers"
        )
    notes = RunFolder(options.out).about()["notes"]
    for name, value in options.notes().items():
        if getattr(options, name) is not None and value != notes[name]:
            raise ValueError(
                f"the run in {options.out} has {name} {notes[name]!r}, not {value!r}: leave the option out"
            )
    return None


def run_from_command_line(console, values):
    """`run_command` for the options of `grpo train qwen3`: what goes wrong becomes one message and an exit status.

    Args:
        console: rich Console.
        values: dict, name of the option -> value, None for one that was not given.

    Returns: dict as `run_command`.

    Raises: typer.BadParameter (status 2) for what can be put right on the command line; typer.Exit (status 1) for a
        run that had to stop, (130) after Ctrl-C.
    """
    given = {name: value for name, value in values.items() if value is not None}
    changes = {field.name: given[field.name] for field in fields(GRPOSettings) if field.name in given}
    options = {field.name: given[field.name] for field in fields(RunOptions) if field.name in given}
    try:
        return run_command(console, RunOptions(**options), changes)
    except (NotFiniteError, OutOfMemoryError, TrainingFailed) as error:
        console.print(str(error), style="red", highlight=False, soft_wrap=True)
        raise typer.Exit(1) from error
    except (ValueError, CheckpointError) as error:
        raise typer.BadParameter(str(error)) from error
    except RunStopped as error:
        console.print(str(error), highlight=False, soft_wrap=True)
        raise typer.Exit(130) from error
    except KeyboardInterrupt as error:
        console.print("stopped at once. What --out holds is complete: --resume goes on from there", highlight=False)
        raise typer.Exit(130) from error


def run_command(console, options, changes):
    """Train as the command line says.

    Args:
        console: rich Console.
        options: RunOptions.
        changes: dict, settings given on the command line.

    Returns: dict of all numbers, for --json.

    Raises: ValueError or CheckpointError before the training; RunStopped, NotFiniteError, OutOfMemoryError or
        TrainingFailed in it.
    """
    settings = prepare(options, changes)
    if options.dry_run or options.plan:
        return dry_run(console, options, settings, keep=tuple(changes))
    if options.resume:
        trainer, test = resume(console, options, changes)
    else:
        trainer, test = start(console, options, settings, keep=tuple(changes))
    console.print(_headline(trainer), highlight=False)
    try:
        train_live(console, trainer, options.plot_file)
    except (CheckpointError, ValueError) as error:  # a disk or a reward, not an option
        raise TrainingFailed(str(error)) from error
    after = _accuracy(console, trainer.model, trainer.tokenizer, test, trainer.settings, trainer.reward)
    console.print(result_table(trainer, after))
    if trainer.record is not None:
        console.print(f"the trained policy: {trainer.record.newest_policy()}", highlight=False, soft_wrap=True)
    return {
        "settings": asdict(trainer.settings),
        "notes": trainer.notes,
        "signals": trainer.history,
        "after": after,
    }


def start(console, options, settings, keep=()):
    """A trainer at step 0: model, cold start for a tiny one, and what it can do before.

    keep: names of the settings given on the command line, which --max-memory leaves as they are.

    Returns: (Trainer, list of test problems, empty if there are none).
    """
    notes = options.notes()
    problems, test = _problems(notes)
    reward = _reward(notes, settings.seed)
    if notes["model"] == TINY and options.cold_start is not False and options.data is None:
        load_model(TINY, device=options.device)  # a device that is not there is said before the cold start
        model, tokenizer, notes["cold_start"] = _cold_start(console, settings)
        model.to(options.device)
    else:
        model, tokenizer = _load(options, settings)
    settings, notes["memory"] = _fitted(console, options, settings, keep, model.config, tokenizer, problems)
    notes["before"] = _accuracy(console, model, tokenizer, test, settings, reward)
    return Trainer(model, tokenizer, problems, reward, settings, out_dir=options.out, notes=notes), test


def resume(console, options, changes):
    """The trainer of the run in options.out. Returns and raises as `start`, and as `Trainer.resume`."""
    notes = RunFolder(options.out).about()["notes"]
    problems, test = _problems(notes)
    trainer = Trainer.resume(options.out, problems, _reward(notes), device=options.device, **changes)
    for fault in trainer.record.faults:
        console.print(f"passed over a damaged checkpoint: {fault}", style="yellow", highlight=False, soft_wrap=True)
    if trainer.steps_done > trainer.settings.steps:
        raise ValueError(
            f"the run in {options.out} has taken {trainer.steps_done} steps: --steps must be at least that"
        )
    return trainer, test


def train_live(console, trainer, plot=None):
    """Train up to settings.steps under a progress bar with the signals; warnings appear as soon as they hold.

    Raises: RunStopped after Ctrl-C, with the step finished and saved; whatever `Trainer.step` raises.
    """
    columns = (
        TextColumn("{task.description}", table_column=Column(no_wrap=True)),
        BarColumn(bar_width=10),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[signals]}", table_column=Column(overflow="fold", no_wrap=False, ratio=1)),
    )
    said = set()
    with stop_request(console) as stop, Progress(*columns, console=console, refresh_per_second=5) as progress:
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


def dry_run(console, options, settings, keep=()):
    """The memory plan and, unless only that is asked for, one step, without a cold start; nothing is kept.

    keep: as in `start`.

    Returns: dict of all numbers.
    """
    notes = options.notes()
    problems, _ = _problems(notes)
    idle = _peak_memory(options.device)
    if options.plan and notes["model"] == REAL_SHAPE:
        model, config, tokenizer = None, real_shape_config(), tiny_tokenizer()
    else:
        model, tokenizer = _load(options, settings, "cpu" if options.plan else options.device)
        config = model.config
    settings, choices = _fitted(console, options, settings, keep, config, tokenizer, problems)
    plan = memory_plan(config, settings, _prompt_width(tokenizer, problems, settings), options.device)
    console.print(memory_table(plan))
    items = {item.name: {"sampling": item.sampling, "training": item.training} for item in plan.items}
    peaks = {"sampling": plan.sampling, "training": plan.training}
    result = {"settings": asdict(settings), "plan": items, "planned_peaks": peaks, "choices": choices}
    if options.plan:
        return result
    trainer = Trainer(model, tokenizer, problems, _reward(notes, settings.seed), settings)
    signals = trainer.step()
    console.print(
        f"one step: {signals['wall_seconds']:.1f} s, {signals['sampling_seconds']:.1f} s of them sampling; "
        f"{settings.steps} steps take about {readable_seconds(signals['wall_seconds'] * settings.steps)}",
        highlight=False,
    )
    peak = _peak_memory(options.device)
    if peak is not None:
        what = "on the GPU" if torch.device(options.device).type == "cuda" else "of this process"
        console.print(
            f"peak memory {what}: {readable_bytes(peak)}, {readable_bytes(idle)} of them before the model was loaded",
            highlight=False,
        )
    return {**result, "signals": [signals], "peak_bytes": peak, "idle_bytes": idle}


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


def _load(options, settings, device=None):
    """(model, tokenizer) that the options name."""
    name, device = options.notes()["model"], device or options.device
    if name == REAL_SHAPE:
        load_model(TINY, device=device)  # a device that is not there is said before the weights are drawn
        return tiny_model(settings.seed, real_shape_config()).to(device), tiny_tokenizer()
    return load_model(name, device=device, seed=settings.seed)


def _prompt_width(tokenizer, problems, settings):
    return max(len(encode_prompt(tokenizer, problem.prompt, settings.prompt_style)) for problem in problems)


def _fitted(console, options, settings, keep, config, tokenizer, problems):
    """The settings, and what was chosen for --max-memory (list of str, said on the console; None without it)."""
    if options.max_memory is None:
        return settings, None
    width = _prompt_width(tokenizer, problems, settings)
    budget, half = parse_bytes(options.max_memory), native_half(options.device)
    fit = fit_to_memory(config, settings, width, budget, options.device, half=half, keep=keep)
    for choice in fit.choices:
        console.print(f"--max-memory {options.max_memory}: {choice}", highlight=False, soft_wrap=True)
    return fit.settings, list(fit.choices)


def _problems(notes):
    """(training problems, test problems) as the notes of a run name them."""
    if notes["data"] is None:
        return load_arithmetic("train"), load_arithmetic("test")[: notes["evaluate"]]
    test = [] if notes["test_data"] is None else read_problems(notes["test_data"])
    return read_problems(notes["data"]), test[: notes["evaluate"]]


def _reward(notes, seed=0):
    if notes["model"] == REAL_SHAPE:
        return RandomReward(seed)  # of a run that goes on, the checkpoint says where the coin stands
    if notes["reward"] == "strict":
        return boxed_reward
    from grpo.qwen3.math_rewards import MathReward

    reward = MathReward()
    try:
        reward.verifier  # noqa: B018  it is made here, and asks for math-verify
    except ModuleNotFoundError as error:
        raise ValueError(str(error)) from error
    return reward


def _cold_start(console, settings):
    """The tiny model, taught the form of an answer as in recipe a. Returns: (model, tokenizer, dict for the notes)."""
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("cold start", total=RECIPES["a"].cold_start["steps"])

        def show(step, loss):
            progress.update(task, completed=step, description=f"cold start, loss {loss:.2f}")

        model, tokenizer, result = cold_started("a", settings.seed, progress=show)
    reward = result.checks[-1][1]
    console.print(f"cold start: {result.steps} steps on demonstrations, sampled reward {reward:.2f}", highlight=False)
    return model, tokenizer, {"steps": result.steps, "reward": reward}


def _accuracy(console, model, tokenizer, test, settings, reward):
    """Greedy accuracy with its interval as a dict, or None without test problems."""
    if not test:
        return None
    with console.status(f"answering {len(test)} test problems"):
        result = evaluate(
            model,
            tokenizer,
            test,
            reward=reward,
            max_new_tokens=settings.max_new_tokens,
            style=settings.prompt_style,
            batch_size=settings.rollouts_per_step,  # what fits in memory while sampling
        )
    return {"accuracy": result.accuracy, "low": result.low, "high": result.high, "problems": len(test)}


def _peak_memory(device):
    """Bytes: the most that torch has held on a GPU, or this process in RAM; None where nobody counts."""
    if torch.device(device).type == "cuda":
        return torch.cuda.max_memory_allocated() if torch.cuda.is_available() else None
    try:
        import resource
    except ImportError:  # Windows
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _headline(trainer):
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
