"""The progress bar of a training run in the terminal."""

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column

# signal -> what it is called in the bar
SHORT = {
    "zero_variance_share": "dead",
    "entropy": "H",
    "kl": "KL",
    "clip_fraction": "clip",
    "gradient_norm": "|g|",
    "length": "len",
}


def signals_bar(console):
    """A bar with the latest signals behind it: the field `signals` (str) of its tasks, on more lines where it is long.

    Args:
        console: rich Console.

    Returns: rich Progress.
    """
    return Progress(
        TextColumn("{task.description}", table_column=Column(no_wrap=True)),
        BarColumn(bar_width=10),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[signals]}", table_column=Column(overflow="fold", no_wrap=False, ratio=1)),
        console=console,
        refresh_per_second=5,
    )
