"""`grpo train qwen3`: from options to a run, with everything a person wants to see of it."""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import asdict, fields

import torch
import typer
from rich.progress import Progress

from grpo.qwen3.arithmetic import load_arithmetic
from grpo.qwen3.checkpoint import CheckpointError, RunFolder
from grpo.qwen3.evaluate import evaluate
from grpo.qwen3.fit import fit_to_memory, parse_bytes
from grpo.qwen3.guards import NotFiniteError, OutOfMemoryError
from grpo.qwen3.live import RunStopped, headline, readable_seconds, result_table, train_live
from grpo.qwen3.memory import memory_plan, memory_table, readable_bytes
from grpo.qwen3.model import REAL_SHAPE, TINY, load_model, real_shape_config
from grpo.qwen3.peak import read_peak
from grpo.qwen3.precision import native_half
from grpo.qwen3.problems import read_problems
from grpo.qwen3.prompts import encode_prompt
from grpo.qwen3.recipes import RECIPES, cold_started
from grpo.qwen3.rewards import RandomReward, named_reward
from grpo.qwen3.run_options import RunOptions, prepare
from grpo.qwen3.run_options import default_settings as default_settings  # chapter 07 has it from here
from grpo.qwen3.settings import GRPOSettings
from grpo.qwen3.tokenizer import tiny_tokenizer
from grpo.qwen3.trainer import Trainer


class TrainingFailed(RuntimeError):
    """The training could not go on, for a reason that the message gives."""


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
    # From before the checkpoint is read: whoever else goes on from it must not do so at the same time.
    with RunFolder(options.out).hold() if options.resume else nullcontext():
        if options.resume:
            trainer, test = resume(console, options, changes)
        else:
            trainer, test = start(console, options, settings, keep=tuple(changes))
        console.print(headline(trainer), highlight=False)
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
        model, tokenizer = load_model(notes["model"], device=options.device, seed=settings.seed)
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


def dry_run(console, options, settings, keep=()):
    """The memory plan and, unless only that is asked for, one step, without a cold start; nothing is kept.

    keep: as in `start`.

    Returns: dict of all numbers.
    """
    notes = options.notes()
    problems, _ = _problems(notes)
    idle = read_peak(options.device)
    if options.plan and notes["model"] == REAL_SHAPE:
        model, config, tokenizer = None, real_shape_config(), tiny_tokenizer()
    else:
        device = "cpu" if options.plan else options.device
        model, tokenizer = load_model(notes["model"], device=device, seed=settings.seed)
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
    peak = read_peak(options.device)
    if not math.isnan(peak):
        what = "on the GPU" if torch.device(options.device).type == "cuda" else "of this process"
        console.print(
            f"peak memory {what}: {readable_bytes(peak)}, {readable_bytes(idle)} of them before the model was loaded",
            highlight=False,
        )
    return {**result, "signals": [signals], "peak_bytes": peak, "idle_bytes": idle}


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
    return named_reward(notes["reward"])


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
