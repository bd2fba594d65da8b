"""The health of a run as a picture, redrawn while it trains."""

from __future__ import annotations

import math
import os
from pathlib import Path

# signal -> the title of its panel
PANELS = {
    "reward": "reward",
    "zero_variance_share": "zero-variance share",
    "entropy": "entropy, nats",
    "kl": "KL to the reference, nats",
    "clip_fraction": "clip fraction",
    "gradient_norm": "gradient norm, before the clip",
    "length": "length, tokens",
    "truncation_rate": "truncation rate",
    "ratio_max": "largest ratio",
}
SHARES = ("zero_variance_share", "clip_fraction", "truncation_rate")
SMOOTH = 10


def plot_health(history, path, title="GRPO"):
    """Draw every signal over the steps, with its running mean. Whoever looks at the file finds a whole picture.

    Args:
        history: list of dicts with the names of `grpo.qwen3.health.SIGNALS`; what is None or missing is left out.
        path: file to write, ending in .png, .svg or .pdf.
        title: str.
    """
    from matplotlib.figure import Figure

    path = Path(path)
    figure = Figure(figsize=(12, 8), layout="constrained")
    for axis, (signal, label) in zip(figure.subplots(3, 3, sharex=True).flat, PANELS.items(), strict=True):
        points = [(row["step"], row[signal]) for row in history if _drawable(row.get(signal))]
        axis.set_title(label)
        axis.grid(alpha=0.3)
        if signal in SHARES:
            axis.set_ylim(-0.03, 1.03)
        if not points:
            axis.text(0.5, 0.5, "not measured", ha="center", va="center", transform=axis.transAxes)
            continue
        steps, values = zip(*points, strict=True)
        axis.plot(steps, values, color="tab:blue", alpha=0.35)
        axis.plot(steps, running_mean(values, SMOOTH), color="tab:blue")
    for axis in figure.axes[-3:]:
        axis.set_xlabel("step")
    figure.suptitle(title)
    temporary = path.with_name(f".{path.stem}-unfinished{path.suffix}")
    figure.savefig(temporary, dpi=100)
    os.replace(temporary, path)


def running_mean(values, window):
    """The mean of each value and up to window - 1 values before it."""
    parts = (values[max(0, end - window) : end] for end in range(1, len(values) + 1))
    return [sum(part) / len(part) for part in parts]


def _drawable(value):
    return isinstance(value, int | float) and math.isfinite(value)
