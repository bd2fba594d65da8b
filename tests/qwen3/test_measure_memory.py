"""The plan against the memory that a process really takes, and the instrument that measures it."""

import json
import os
import sys

import pytest
from rich.console import Console

from grpo.qwen3 import measure_memory
from grpo.qwen3.measure_memory import SIZES, comparison_table, main, measure_apart, size_config
from grpo.qwen3.memory import MOMENTS, memory_plan

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="resident memory is read from Linux's /proc")
MB = 10**6


def planned(name):
    size = SIZES[name]
    return memory_plan(size_config(size), measure_memory.size_settings(size), size.prompt_width)


@LINUX
@pytest.mark.parametrize("name", ["small", "recomputed"])
def test_the_plan_is_within_a_fifth_of_the_measured_peak(name, record_property):
    """In a process of its own; the sizes that take longer are compared by `python -m grpo.qwen3.measure_memory`."""
    found = measure_apart(name)
    plan = planned(name)
    assert found["planned"] == {"sampling": plan.sampling, "training": plan.training}
    for phase in ("sampling", "training"):
        ratio = found["measured"][phase] / found["planned"][phase]
        record_property(f"{name}, {phase}: measured / planned", ratio)
        assert 1 / 1.2 < ratio < 1.2, (phase, found)


def test_the_sizes_cover_what_a_plan_has():
    """From 100 MB to 3 GB; every item of a plan is a good part of a peak somewhere, so that a wrong one would show."""
    peaks = [planned(name).peak for name in SIZES]
    assert min(peaks) < 200 * MB and max(peaks) > 3000 * MB and len(peaks) >= 6
    largest = {}
    for name in SIZES:
        plan = planned(name)
        for phase, moments in (("sampling", MOMENTS[:2]), ("training", MOMENTS[2:])):
            moment = max(moments, key=plan.at)
            for item in plan.items:
                share = item.at(moment) / getattr(plan, phase)
                largest[item.name] = max(largest.get(item.name, 0.0), share)
    expected = ["weights", "AdamW's two averages", "reference", "gradients", "weights for sampling", "KV cache"]
    expected += ["drawing a token", "activations", "logits", "gradient of the output matrix"]
    assert {name: share for name, share in largest.items() if name in expected and share < 0.08} == {}


def test_the_table_has_both_phases_and_their_ratio():
    found = {
        "small": {
            "planned": {"sampling": 100 * MB, "training": 200 * MB},
            "measured": {"sampling": 110 * MB, "training": 190 * MB},
        }
    }
    console = Console(width=160, record=True, file=open(os.devnull, "w"))
    console.print(comparison_table(found))
    text = console.export_text()
    assert "1.10" in text and "0.95" in text and "190.0 MB" in text and SIZES["small"].about in text


def test_the_command_measures_each_size_apart_and_writes_numbers(monkeypatch, tmp_path, capsys):
    row = {"planned": {"sampling": 1, "training": 2}, "measured": {"sampling": 3, "training": 4}}
    asked = []
    monkeypatch.setattr(measure_memory, "measure_apart", lambda *asked_for: asked.append(asked_for) or row)
    found = main(["--sizes", "small,wave", "--device", "cuda", "--json", str(tmp_path / "m.json")])
    assert asked == [("small", "cuda", False), ("wave", "cuda", False)] and found == {"small": row, "wave": row}
    assert json.loads((tmp_path / "m.json").read_text()) == found
    assert "measured / planned" in " ".join(capsys.readouterr().out.split())
    with pytest.raises(SystemExit):
        main(["--sizes", "giant"])
    assert "unknown sizes giant: choose from small, parameters" in capsys.readouterr().err


def test_a_size_that_fails_is_named():
    with pytest.raises(RuntimeError, match=r"size no such could not be measured: .*invalid choice"):
        measure_apart("no such")
