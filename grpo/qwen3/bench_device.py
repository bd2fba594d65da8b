"""`grpo bench qwen3 --device cuda`: decode speed, one training step and recipe a on a device, within a time budget.

Each part runs in a process of its own (`bench_device_parts`) and reports every number as soon as it has it. When its
share of the time is up the process is ended, and what is missing is shown as left out: the command never overruns.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time

from rich.console import Console
from rich.table import Table

from grpo.qwen3.bench import _one_thread, _tail
from grpo.qwen3.bench_device_sizes import SIZES
from grpo.qwen3.memory import readable_bytes

SECONDS = 540.0
# What a part may use of the whole budget; what it does not need goes to the next ones.
SHARES = {"decode": 0.4, "training": 0.35, "recipe": 0.25}
LEFT_OUT = "left out: no time"
MISSING = "-"
# What issue and README ask for, where there is a GPU.
FLOOR_AIM, GENERATE_AIM, TRAINING_AIM = 2.5, 5.0, 12e9


def bench_device(
    console: Console | None = None,
    device: str = "cuda",
    tiny: bool = False,
    seconds: float = SECONDS,
    parts: tuple[str, ...] = tuple(SHARES),
) -> dict[str, float | str]:
    """Print and return what decoding, one training step and recipe a take on a device.

    The model has the shape of Qwen3-0.6B and random weights. Sampling is in half precision, training under autocast
    over float32 weights (bfloat16, or float16 on a GPU without it). Decoding is timed as the difference between a long
    and a short run; the floor is the time that reading weights, keys and values takes at the bandwidth of a plain copy,
    which is measured first.

    Args:
        console: where to print.
        device: "cuda" or "cpu".
        tiny: the tiny model and small batches instead: every line of it in seconds.
        seconds: of everything together.
        parts: names in SHARES.

    Returns: dict, name -> number; a part that failed also has "PART, error" -> its last words, one that ran out of time
        "PART, left out" -> 1.0.

    Raises: ValueError if the device is not there, or seconds is not above 0.
    """
    from grpo.qwen3.model import load_model

    console = console or Console()
    if seconds <= 0:
        raise ValueError(f"seconds is {seconds}: the budget must be above 0")
    load_model("tiny", device=device)  # says if the device is not there
    size = "tiny" if tiny else "real"
    console.print(f"{_name(device)}: {size} size, at most {seconds:.0f} s", highlight=False)
    start, found = time.monotonic(), {}
    for part in parts:
        used = time.monotonic() - start
        share = sum(SHARES[name] for name in parts[: parts.index(part) + 1]) / sum(SHARES[name] for name in parts)
        found |= run_part(part, size, device, max(0.0, min(seconds - used, share * seconds - used)))
        console.print(TABLES[part](found, SIZES[size]))
        if f"{part}, left out" in found:
            console.print(f"{part}: what is {MISSING} was {LEFT_OUT}", style="yellow", highlight=False)
        if f"{part}, error" in found:
            console.print(f"{part} failed: {found[f'{part}, error']}", style="red", markup=False, highlight=False)
    found["seconds"] = time.monotonic() - start
    console.print(f"{found['seconds']:.0f} s in all", highlight=False)
    return found


def run_part(part, size, device, limit):
    """What a part has measured within `limit` seconds.

    Returns: dict as in `bench_device`; incomplete if the time was up or the part failed.
    """
    if limit <= 0:
        return {f"{part}, left out": 1.0}
    due, found = time.monotonic() + limit, {}
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "grpo.qwen3.bench_device_parts", part, size, device, str(limit)],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=_environment(device),
        )
        lines = queue.SimpleQueue()
        reader = threading.Thread(target=_read, args=(process.stdout, lines), daemon=True)
        reader.start()
        try:
            while True:
                line = lines.get(timeout=max(0.0, due - time.monotonic()))
                if line is None:
                    break
                found |= json.loads(line)
            if process.wait():
                errors.seek(0)
                found[f"{part}, error"] = _tail(errors.read())
        except queue.Empty:
            found[f"{part}, left out"] = 1.0
        finally:
            process.kill()
            process.wait()
            reader.join()
            process.stdout.close()
    return found


def decode_table(found, size):
    """rich Table: ms per decoded token, ours and transformers', and how far above the floor."""
    bandwidth = found.get("bandwidth")
    title = "one more token for every rollout, ms"
    if bandwidth:
        title += f" (a copy moves {bandwidth / 1e9:,.0f} GB/s)"
    table = Table(
        title=title,
        caption="HF: generate of transformers; step: ours without drawing tokens. Aim at batch 64: at most "
        f"{FLOOR_AIM} x floor, HF at least {GENERATE_AIM:.0f} x ours",
    )
    for name in ("batch", "floor", "ours", "step", "HF", "ours/floor", "HF/ours", "tokens/s"):
        table.add_column(name, justify="right", no_wrap=True)
    for prompts, group in size.batches:
        rows = prompts * group
        name = f"decode, batch {rows}"
        ours, alone, theirs = (found.get(f"{name}, {what}") for what in ("ours", "the step alone", "HF generate"))
        floor = floor_seconds(found, rows)
        quotients = _divide(ours, floor), _divide(theirs, ours)
        if ours is not None:
            found[f"{name}, tokens per second"] = rows / ours
        for what, value in zip(("floor", "ours / floor", "HF generate / ours"), (floor, *quotients), strict=True):
            if value is not None:
                found[f"{name}, {what}"] = value
        table.add_row(
            str(rows),
            *(_show(value, 1e3, ".3f") for value in (floor, ours, alone, theirs)),
            *(_show(value, 1, ".1f") for value in quotients),
            _show(_divide(rows, ours), 1, ",.0f"),
        )
    return table


def floor_seconds(found, rows):
    """Seconds to read what a decode step must read, at the bandwidth measured; None if one of them is missing."""
    return _divide(found.get(f"decode, batch {rows}, bytes"), found.get("bandwidth"))


def training_table(found, size):
    """rich Table: seconds of an iteration and the peaks of its phases, beside the memory plan's."""
    settings = size.training
    rollouts = settings["prompts_per_step"] * settings["group_size"]
    # The second step, or the first one if there was no time for another.
    step = "step" if "training, step" in found else "first step"
    get = lambda what: found.get(f"training, {step}{what}")  # noqa: E731
    whole, sampling, tokens = get(""), get(", sampling"), get(", tokens")
    table = Table(
        title=f"one iteration: {rollouts} rollouts x {settings['max_new_tokens']} tokens, prompts of "
        f"{size.prompt_width}, {settings['micro_batch_size']} rollouts per backward pass"
        + (", first iteration" if step == "first step" and whole else ""),
        caption=f"aim: a training phase below {readable_bytes(TRAINING_AIM)}; on a CPU the peak holds libraries too",
    )
    table.add_column("")
    for name in ("seconds", "tokens/s", "peak", "memory plan"):
        table.add_column(name, justify="right")
    rest = None if whole is None else whole - sampling
    for label, seconds in {"sampling": sampling, "training": rest}.items():
        peak, planned = get(f", peak of {label}"), found.get(f"training, plan, {label}")
        table.add_row(
            label,
            _show(seconds, 1, ".2f"),
            _show(_divide(tokens, seconds), 1, ",.0f"),
            MISSING if peak is None else readable_bytes(max(peak, 0.0)),
            MISSING if planned is None else readable_bytes(planned),
        )
    table.add_row("together", _show(whole, 1, ".2f"), _show(_divide(tokens, whole), 1, ",.0f"), "", "")
    if whole is not None:
        found["training, tokens per second"] = tokens / whole
    return table


def recipe_table(found, size):
    """rich Table: recipe a, how far it came and how well it answers."""
    steps, asked = found.get("recipe, steps"), size.recipe_steps
    table = Table(title=f"recipe a, seed 0, {size.test} test problems, float32")
    for name in ("cold start, s", "steps", "s/step", "greedy before", "greedy after"):
        table.add_column(name, justify="right")
    done = MISSING if steps is None else f"{steps:.0f} of {asked}"
    table.add_row(
        _show(found.get("recipe, cold start"), 1, ".1f"),
        done,
        _show(found.get("recipe, step"), 1, ".3f"),
        *(_show(found.get(f"recipe, {when}"), 1, ".3f") for when in ("before", "after")),
    )
    return table


TABLES = {"decode": decode_table, "training": training_table, "recipe": recipe_table}


def _environment(device):
    one = _one_thread()
    # On a GPU the threads of the CPU have next to nothing to do, but the cold start of recipe a runs there.
    return one if device == "cpu" else {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "ignore"}


def _name(device):
    import torch

    where = torch.device(device)
    return torch.cuda.get_device_name(where) if where.type == "cuda" else f"{where}, one thread"


def _read(stream, lines):
    for line in stream:
        lines.put(line)
    lines.put(None)


def _divide(top, bottom):
    return None if top is None or not bottom else top / bottom


def _show(value, factor, form):
    return MISSING if value is None else format(value * factor, form)
