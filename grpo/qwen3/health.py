"""The signals of a run on disk, one line per step, and what they say about its health, in words."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

from grpo.qwen3.checkpoint import write_file

# What a step reports. None stands for "not measured": kl without a reference.
SIGNALS = {
    "step": "iterations done, this one included",
    "reward": "mean reward of the rollouts, before any KL is taken off it",
    "zero_variance_share": "share of groups whose rewards are all equal: they teach nothing",
    "entropy": "mean over the sampled tokens of -log p, in nats: an unbiased estimate of the policy's entropy",
    "kl": "mean k3 per token against the reference, in nats",
    "clip_fraction": "share of tokens whose gradient the clip switched off, over all inner updates",
    "gradient_norm": "Euclidean norm over all parameters before it is clipped, mean over the inner updates; None if "
    "all were skipped",
    "length": "mean tokens per rollout, the stop token included",
    "truncation_rate": "share of rollouts cut off by max_new_tokens",
    "ratio_max": "largest ratio of all inner updates",
    "loss": "of the last inner update; no measure of progress",
    "learning_rate": "of this step",
    "sampler_gap": "mean |log p(training) - log p(sampling)| per token; only where the two compute differently",
    "tokens": "tokens sampled",
    "trained_rollouts": "rollouts that went through the backward pass",
    "skipped_updates": "inner updates left out because a float16 gradient overflowed",
    "loss_scale": "what the loss is multiplied by before the next backward pass; only with precision float16",
    "cpu_seconds": "processor time of this step, this process",
    "wall_seconds": "time on the clock of this step",
    "sampling_seconds": "the part of wall_seconds before the rewards",
}

WINDOW = 5
# The thresholds of `diagnose`; recorded runs of the tiny model, healthy and sick, hold them in place (the tests).
ALL = 0.999
ENTROPY_LEFT = 0.1
KL_LIMIT = 1.0
KL_JUMP = 10.0
REWARD_LEFT = 0.5
MOSTLY_CLIPPED = 0.5


class SignalLog:
    """metrics.jsonl: one JSON object per step, on the disk as soon as the step is done.

    A process that dies while it writes leaves half a line at the end: it is dropped when the file is read or resumed.
    """

    def __init__(self, path):
        self.path = Path(path)

    def append(self, signals):
        """Add one step. NaN and infinity, which JSON does not know, become null."""
        line = json.dumps({name: _plain(value) for name, value in signals.items()}, allow_nan=False)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())

    def resume(self, step):
        """Drop what was written after the checkpoint that the run goes on from, so that no step is there twice.

        Args:
            step: int, the last step to keep.

        Returns: list of dict, the steps that stay.
        """
        rows = [row for row in read_signals(self.path) if row["step"] <= step] if self.path.exists() else []
        write_file(self.path, "".join(json.dumps(row) + "\n" for row in rows))
        return rows


def read_signals(path):
    """The steps in a metrics.jsonl.

    Returns: list of dict, in the order of the file; an unfinished last line is left out.

    Raises: ValueError that numbers the line, if one before the last is no JSON object with a step.
    """
    path = Path(path)
    lines = path.read_text(encoding="utf-8").split("\n")
    rows = []
    for number, line in enumerate(lines, start=1):
        if not line:
            continue
        try:
            row = json.loads(line)
            row["step"]
        except (ValueError, TypeError, KeyError) as error:
            # The line feed is written last: without it a line may be cut anywhere.
            if number == len(lines):
                continue
            raise ValueError(f"{path}, line {number} is no JSON object with a step: repair or delete it") from error
        rows.append(row)
    return rows


def diagnose(history):
    """What is wrong with a run, judged by its signals so far.

    Args:
        history: list of dicts with the names of `SIGNALS`, oldest first.

    Returns: list of str, the gravest first, each naming the signal, its value and what to look at; empty while nothing
        is wrong (or nothing has been measured).
    """
    return list(sicknesses(history).values())


def sicknesses(history):
    """`diagnose` with a name for each sickness, so that a program can tell a new one from one it has shown.

    Returns: dict, name -> str.
    """
    if not history:
        return {}
    # The row of a step that was not taken holds nothing else.
    if (warning := _not_finite(history)) is not None:
        return {"not_finite": warning}
    checks = {
        "skipped": _skipped,
        "truncated": _truncated,
        "no_variance": _no_variance,
        "entropy_collapse": _entropy_collapse,
        "kl_runaway": _kl_runaway,
        "reward_collapse": _reward_collapse,
        "mostly_clipped": _mostly_clipped,
    }
    found = {name: check(history) for name, check in checks.items()}
    return {name: warning for name, warning in found.items() if warning is not None}


def _not_finite(history):
    last = history[-1]
    if last.get("skipped_updates"):  # a gradient that overflowed in float16 has no norm, and was not used
        return None
    bad = [name for name in ("loss", "gradient_norm") if name in last and not _finite(last[name])]
    if bad:
        return (
            f"not finite in step {last['step']}: {' and '.join(bad)}. Lower learning_rate, look for an extreme "
            "ratio_max or kl in the steps before, and go on from the last checkpoint"
        )
    return None


def _skipped(history):
    if len(history) < WINDOW or not _all_recent(history, "skipped_updates", lambda skipped: skipped > 0):
        return None
    return (
        f"updates were skipped in each of the last {WINDOW} steps: float16 gradients overflow, and the loss scale is "
        f"down to {history[-1]['loss_scale']:g}. The first steps of a run may skip some; if it goes on, lower "
        "learning_rate, or set precision to bfloat16 where the GPU has it, else to float32"
    )


def _truncated(history):
    if not _all_recent(history, "truncation_rate", lambda rate: rate >= ALL):
        return None
    groups = ""
    if _all_recent(history, "zero_variance_share", lambda share: share >= ALL):
        groups = ", and all groups have zero variance: there is nothing to learn from"
    return (
        f"100% of the rollouts are truncated at {history[-1]['length']:.0f} tokens{groups}. No rollout reaches its "
        "end: raise max_new_tokens before reading any other signal, and check the stop ids"
    )


def _no_variance(history):
    if not _all_recent(history, "zero_variance_share", lambda share: share >= ALL):
        return None
    if _all_recent(history, "truncation_rate", lambda rate: rate >= ALL):
        return None  # said already
    reward = _mean(history[-WINDOW:], "reward")
    return (
        f"all groups have zero variance (mean reward {reward:.2f}): every advantage is 0 and nothing is learned. The "
        "prompts are too hard or too easy for this policy, the group is too small, or the reward never differs: print "
        "a few completions with their rewards"
    )


def _entropy_collapse(history):
    if len(history) < 2 * WINDOW:
        return None
    start, now = _mean(history[:WINDOW], "entropy"), _mean(history[-WINDOW:], "entropy")
    if not now < ENTROPY_LEFT * start:
        return None
    # A policy that has learned the task is sure of itself, and rightly so.
    if _mean(history[-WINDOW:], "reward") > _mean(history[:WINDOW], "reward"):
        return None
    return (
        f"the entropy has collapsed from {start:.3f} to {now:.4f} nats and the reward is no better than at the start: "
        "all rollouts are alike. Lower learning_rate, raise clip_high or kl_coef, and go back to an earlier checkpoint"
    )


def _kl_runaway(history):
    recent = [row["kl"] for row in history[-WINDOW:] if _finite(row.get("kl"))]
    if len(recent) < min(WINDOW, len(history)) or not recent:
        return None
    now = sum(recent) / len(recent)
    before = [row["kl"] for row in history[-4 * WINDOW : -WINDOW] if _finite(row.get("kl"))]
    jump = bool(before) and now > KL_JUMP * max(sum(before) / len(before), KL_LIMIT / 100)
    if now <= KL_LIMIT and not jump:
        return None
    return (
        f"the KL to the reference runs away: {now:.2f} nats per token over the last {len(recent)} steps. "
        "Lower learning_rate or raise kl_coef, and look at the completions: they may have left the language"
    )


def _reward_collapse(history):
    if len(history) < 3 * WINDOW:
        return None
    rewards = [row["reward"] for row in history]
    means = [sum(rewards[i : i + WINDOW]) / WINDOW for i in range(len(rewards) - WINDOW + 1)]
    best, now = max(means), means[-1]
    if best <= 0 or now >= REWARD_LEFT * best:
        return None
    step = history[means.index(best) + WINDOW - 1]["step"]
    return (
        f"the reward has collapsed: {now:.2f} over the last {WINDOW} steps, {best:.2f} around step {step}. Go back to "
        "a checkpoint before the fall with a lower learning_rate; if the reward can be gamed, read completions first"
    )


def _mostly_clipped(history):
    if not _all_recent(history, "clip_fraction", lambda share: share > MOSTLY_CLIPPED):
        return None
    return (
        f"the clip switches off {history[-1]['clip_fraction']:.0%} of the tokens: the steps are too large or too many "
        "per batch. Lower learning_rate or inner_updates; level 'rollout' does this on long completions by itself"
    )


def _all_recent(history, name, holds):
    """Whether it holds for each of the last WINDOW steps (all of them, at the start of a run)."""
    values = [row.get(name) for row in history[-WINDOW:]]
    return all(_finite(value) and holds(value) for value in values)


def _mean(rows, name):
    values = [row[name] for row in rows]
    return sum(values) / len(values)


def _finite(value):
    return isinstance(value, int | float) and math.isfinite(value)


def _plain(value):
    return None if isinstance(value, float) and not math.isfinite(value) else value
