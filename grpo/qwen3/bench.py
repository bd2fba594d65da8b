"""`grpo bench qwen3`: one training iteration against TRL, transformers' generate, a plain loop, the bare products.

Every contestant runs in a process of its own, for its own peak memory. They take turns, so that a busy machine slows
all of them and the quotients stay.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

from rich.console import Console
from rich.table import Table

from grpo.qwen3.bench_contestants import SIZES, TRL

OURS, ROUNDED, FLOOR, SLOW = "ours", "ours, bf16 rollouts", "matmul floor", "one by one"
ORDER = [OURS, ROUNDED, TRL, "HF generate, our loss", SLOW, FLOOR]
PARTS = ("prefill", "decode", "rest of sampling", "log-probs, forward", "backward", "optimizer", "rest")
PEAK_TOKENS, PEAK_HIDDEN, PEAK_VOCABULARY = 2048, 64, 151_936


def bench_qwen3(
    console: Console | None = None, repeats: int = 2, sizes: tuple[str, ...] = ("small", "mid"), memory: bool = True
) -> dict[str, float]:
    """Print and return the CPU seconds and the peak memory of one GRPO iteration, done in several ways.

    An iteration samples a group for each of 4 prompts, scores the rollouts, and takes one AdamW step. Nobody stops
    early: all do the same work. Each is timed `repeats` times after one iteration to warm up; the plain loop, which
    takes longest, once.

    Args:
        console: where to print.
        repeats: timed iterations; the median counts.
        sizes: names in `SIZES`.
        memory: also measure the peak of the log-probs in pieces and all at once.

    Returns: dict, "size, contestant" -> CPU seconds, "..., peak" -> bytes, "..., part" -> CPU seconds, "size, a / b" ->
        quotient.

    Raises: RuntimeError with the end of its error output if a contestant fails.
    """
    console = console or Console()
    found = {}
    for size in sizes:
        found |= {f"{size}, {name}": value for name, value in _measure_size(console, size, repeats).items()}
        _print_size(console, size, found)
    if memory:
        found |= _measure_peaks()
        _print_peaks(console, found)
    return found


def measure_peak(
    kind: str, tokens: int = PEAK_TOKENS, vocabulary: int = PEAK_VOCABULARY, hidden: int = PEAK_HIDDEN
) -> float:
    """Bytes by which the log-probs of `tokens` tokens, forward and backward, raise the peak memory of a new process.

    Args:
        kind: "full" (log_softmax of all logits), "chunked" (`chunked_logprobs`), "kept" (the same, keeping the
            probabilities), or "checkpointed" (each piece under torch.utils.checkpoint).
    """
    code = f"from grpo.qwen3.bench import _peak_here; _peak_here({kind!r}, {tokens}, {vocabulary}, {hidden})"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=_one_thread())
    if output.returncode:
        raise RuntimeError(f"measuring {kind!r} failed: {_tail(output.stderr)}")
    return float(output.stdout)


def _measure_size(console, size, repeats):
    found, absent = {}, None
    names = list(ORDER)
    missing = [name for name in ("trl", "datasets") if importlib.util.find_spec(name) is None]
    if missing:
        names.remove(TRL)
        absent = f"TRL is left out: {' and '.join(missing)} not installed (pip install 'grpo-from-scratch[trl]')"
        console.print(absent, markup=False)
    runners = {}
    try:
        for name in names:
            runners[name] = _Runner(name, size)
        answers = {name: [] for name in names}
        for turn in range(repeats + 1):
            for name in names:
                if name == SLOW and turn:
                    continue  # nothing to warm up in a loop of a thousand steps: its first turn counts
                console.print(f"{size}: {name}, turn {turn + 1} of {repeats + 1}", style="dim")
                answer = runners[name].iteration()
                if turn or name == SLOW:
                    answers[name].append(answer)
    finally:
        for runner in runners.values():
            runner.close()
    for name, several in answers.items():
        found[name] = statistics.median(answer["seconds"] for answer in several)
        found[f"{name}, peak"] = several[-1]["peak"]
        for part in several[-1].get("split", {}):
            found[f"{name}, {part}"] = statistics.median(answer["split"][part] for answer in several)
        if "mismatch" in several[-1]:
            found[f"{name}, mismatch"] = statistics.mean(answer["mismatch"] for answer in several)
            found[f"{name}, largest mismatch"] = max(answer["largest mismatch"] for answer in several)
            low, high = zip(*(answer["importance weights, smallest and largest"] for answer in several), strict=True)
            found[f"{name}, smallest importance weight"] = min(low)
            found[f"{name}, largest importance weight"] = max(high)
    for name in (OURS, ROUNDED):
        counted = found[f"{name}, prefill"] + found[f"{name}, decode"]
        found[f"{name}, rest of sampling"] = found[f"{name}, sampling"] - counted
        known = ("sampling", "log-probs, forward", "backward", "optimizer")
        found[f"{name}, rest"] = found[name] - sum(found[f"{name}, {part}"] for part in known)
        for other in names:
            if other != name:
                found[f"{other} / {name}"] = found[other] / found[name]
    return found


class _Runner:
    """A contestant's process."""

    def __init__(self, name, size):
        self.name = name
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "grpo.qwen3.bench_contestants", name, size],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            env=_one_thread(),
        )

    def iteration(self):
        try:
            self.process.stdin.write("go\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            self.process.wait()
            self.errors.seek(0)
            raise RuntimeError(f"the contestant {self.name!r} failed: {_tail(self.errors.read())}")
        return json.loads(line)

    def close(self):
        if self.process.poll() is None:
            try:
                self.process.communicate("\n", timeout=60)  # an empty line is the end
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.errors):
            stream.close()


def _one_thread():
    one = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "OPENBLAS")}
    return {**os.environ, **one, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "PYTHONWARNINGS": "ignore"}


def _tail(text):
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no message"


def _print_size(console, size, found):
    shape = SIZES[size]
    title = (
        f"{size}: {shape.layers} layers, hidden {shape.hidden}, vocabulary {shape.vocabulary}; {shape.rollouts} "
        f"rollouts of {shape.new_tokens} tokens, prompts of {min(shape.prompt_lengths)}-{max(shape.prompt_lengths)}"
    )
    table = Table("one iteration", "CPU s", "peak MB", f"/ {OURS}", "/ with bf16 rollouts", title=title)
    for name in ORDER:
        if f"{size}, {name}" in found:
            ratios = (found.get(f"{size}, {name} / {other}", 1.0) for other in (OURS, ROUNDED))
            peak = found[f"{size}, {name}, peak"] / 1e6
            table.add_row(name, f"{found[f'{size}, {name}']:.3f}", f"{peak:.0f}", *(f"{ratio:.2f}" for ratio in ratios))
    console.print(table)

    table = Table("where it goes, CPU s", OURS, ROUNDED, FLOOR, title=f"{size}: the parts of our iteration")
    for part in PARTS:
        table.add_row(part, *(f"{found[f'{size}, {name}, {part}']:.3f}" for name in (OURS, ROUNDED)), "")
    table.add_section()
    for label, parts in {"sampling": ("sampling",), "training": PARTS[3:]}.items():
        ours = (sum(found[f"{size}, {name}, {part}"] for part in parts) for name in (OURS, ROUNDED))
        table.add_row(label, *(f"{seconds:.3f}" for seconds in ours), f"{found[f'{size}, {FLOOR}, {label}']:.3f}")
    console.print(table)
    name = f"{size}, {ROUNDED}"
    console.print(
        f"bf16 rollouts: mean |captured - recomputed| {found[f'{name}, mismatch']:.4f}, largest "
        f"{found[f'{name}, largest mismatch']:.3f}; importance weights from "
        f"{found[f'{name}, smallest importance weight']:.3f} to {found[f'{name}, largest importance weight']:.3f}",
        highlight=False,
    )


def _measure_peaks():
    return {f"peak, {kind}": measure_peak(kind) for kind in ("full", "checkpointed", "chunked")}


def _print_peaks(console, found):
    title = f"log-probs of {PEAK_TOKENS} tokens, vocabulary {PEAK_VOCABULARY}, forward and backward"
    table = Table("way", "extra peak, GiB", title=title)
    for kind, label in {
        "full": "log_softmax of all logits",
        "checkpointed": "in pieces, each under torch.utils.checkpoint",
        "chunked": "in pieces, backward written out",
    }.items():
        table.add_row(label, f"{found[f'peak, {kind}'] / 2**30:.2f}")
    console.print(table)


def _peak_here(kind, tokens, vocabulary, hidden_size):
    """Print how far this process' peak memory rises."""
    import torch
    from torch.utils.checkpoint import checkpoint

    from grpo.qwen3.logprobs import chunked_logprobs
    from grpo.qwen3.peak import read_peak

    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(tokens, hidden_size, generator=generator).requires_grad_()
    weight = (torch.randn(vocabulary, hidden_size, generator=generator) / math.sqrt(hidden_size)).requires_grad_()
    targets = torch.randint(vocabulary, (tokens,), generator=generator)
    few = chunked_logprobs(hidden[:2], weight[:5], targets[:2] % 5)  # loads what any product needs
    few[0].sum().backward()

    def full(hidden, targets):
        return (hidden @ weight.T).log_softmax(-1).gather(-1, targets[:, None])[:, 0]

    before = read_peak()
    if kind == "full":
        logps = full(hidden, targets)
    elif kind == "checkpointed":
        pieces = zip(hidden.split(128), targets.split(128), strict=True)
        logps = torch.cat([checkpoint(full, *piece, use_reentrant=False) for piece in pieces])
    else:
        logps, _ = chunked_logprobs(hidden, weight, targets, keep_bytes=2**40 if kind == "kept" else 0)
    logps.sum().backward()
    print(read_peak() - before)
