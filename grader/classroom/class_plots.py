"""The two pictures of a chapter on the class page, as SVG that stands in the page: points, and running times."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence

import matplotlib
import numpy as np
from matplotlib.figure import Figure

INK, BAR, LATE = "#333333", "#3b82c4", "#d18b1f"
SIZE = (4.6, 1.9)  # inches
BINS = 12


def points_plot(points: Sequence[tuple[float | None, int]], name: str) -> str:
    """Draw how many have how many of a chapter's points; `points` holds (points or None, most points)."""
    known = [mine for mine, _ in points if mine is not None]
    most = max((most for _, most in points), default=0)
    if not known or not most:
        return ""
    figure, axes = _axes()
    top = max(most, *known)  # extra credit goes beyond
    edges = np.linspace(0, top, min(BINS, most) + 1)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.hist(known, bins=edges, color=BAR, rwidth=0.88)
    median = float(np.median(known))
    axes.axvline(median, color=INK, linewidth=1, linestyle=(0, (3, 2)))
    axes.set(xlim=(0, top), xlabel=f"points (of {most}); dashed: the median, {median:g}", ylabel="submissions")
    return _svg(figure, f"points-{name}", f"Points in {name}: median {median:g} of {most}")


def duration_plot(seconds: Sequence[float], name: str) -> str:
    """Draw how long the notebooks of a chapter took to run, in seconds of wall time; those never run are left out."""
    ran = [one for one in seconds if one > 0]
    if not ran:
        return ""
    figure, axes = _axes()
    axes.hist(ran, bins=np.linspace(0, max(ran) * 1.02, BINS + 1), color=BAR, rwidth=0.88)
    median, longest = float(np.median(ran)), max(ran)
    axes.axvline(median, color=INK, linewidth=1, linestyle=(0, (3, 2)))
    axes.set(xlim=(0, longest * 1.02), ylabel="submissions")
    axes.set_xlabel(f"seconds to grade; dashed: the median, {median:.1f}; longest {longest:.1f}")
    return _svg(figure, f"time-{name}", f"Seconds to grade a submission of {name}: median {median:.1f}")


def _axes():
    figure = Figure(figsize=SIZE, layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    axes.yaxis.get_major_locator().set_params(integer=True)
    return figure, axes


def _svg(figure: Figure, salt: str, label: str) -> str:
    """Return a figure as an SVG element: the same for the same numbers, its letters left to the page's font."""
    file = io.StringIO()
    settings = {"svg.fonttype": "none", "svg.hashsalt": salt, "font.size": 8.5, "font.family": "sans-serif"}
    with matplotlib.rc_context(settings):
        for text in figure.findobj(matplotlib.text.Text):
            text.set_fontsize(8.5)
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = file.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    # Two pictures in one page must not share names.
    prefix = re.sub(r"\W", "", salt)
    svg = re.sub(r'(\bid=")|(url\(#)|(href="#)', lambda found: f"{found.group(0)}{prefix}-", svg)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1).strip()
