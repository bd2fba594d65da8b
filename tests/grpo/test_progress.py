"""The bar shows how far a run is, and its signals as they are, however long."""

import io

from rich.console import Console

from grpo.progress import signals_bar


def test_the_signals_stand_behind_the_bar_in_full():
    console = Console(file=io.StringIO(), width=70)
    bar = signals_bar(console)
    assert bar.console is console
    bar.add_task("tabular, no-kl", total=40, completed=13, signals="H [0.50] " * 12)
    console.print(bar.get_renderable())
    text = console.file.getvalue()
    assert "tabular, no-kl" in text and "13/40" in text
    assert text.count("H") == 12 and text.count("0.50") == 12
