"""The most memory that was taken: of this process, as Linux counts it, and where nobody counts."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from grpo.qwen3 import peak
from grpo.qwen3.peak import CudaMeter, ResidentMeter, read_peak, reset_peak, resident_bytes

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="resident memory is read from Linux's /proc")
MB = 10**6


@LINUX
@pytest.mark.parametrize("refused", [False, True])
def test_the_meter_sees_a_peak_that_is_gone_again(monkeypatch, refused):
    if refused:
        write = Path.write_text

        def refuse(path, *arguments):
            if str(path).endswith("clear_refs"):
                raise PermissionError(1, "Operation not permitted")
            return write(path, *arguments)

        monkeypatch.setattr(Path, "write_text", refuse)
    meter = ResidentMeter()
    meter.start()
    start = meter.now()
    block = np.ones(10 * MB)  # 80 MB
    held = meter.now() - start
    del block
    assert 76 * MB < held < 84 * MB
    assert 76 * MB < meter.peak() - start < 90 * MB
    meter.start()
    assert meter.peak() - start < 20 * MB


@LINUX
def test_the_peak_of_this_process():
    assert reset_peak() is True
    start = read_peak()
    block = np.ones(10 * MB)  # 80 MB
    del block
    assert isinstance(start, float) and 76 * MB < read_peak() - start < 90 * MB
    assert 0 < resident_bytes() <= resident_bytes("VmHWM") == read_peak()
    with pytest.raises(RuntimeError, match="has no line VmNothing: the resident memory cannot be measured here"):
        resident_bytes("VmNothing")


def test_where_linux_does_not_count(tmp_path, monkeypatch):
    monkeypatch.setattr(peak, "_STATUS", tmp_path / "status")
    monkeypatch.setattr(peak, "_CLEAR", tmp_path / "no folder" / "clear_refs")
    assert reset_peak() is False
    with pytest.raises(RuntimeError, match="can be measured on Linux only"):
        ResidentMeter()
    usage = type("resource", (), {"RUSAGE_SELF": 0, "getrusage": lambda who: type("usage", (), {"ru_maxrss": 7})})
    monkeypatch.setitem(sys.modules, "resource", usage)
    for system, due in (("linux", 7 * 1024), ("darwin", 7)):
        monkeypatch.setattr(sys, "platform", system)
        assert read_peak() == due
    monkeypatch.setitem(sys.modules, "resource", None)  # Windows has none
    assert math.isnan(read_peak())


def test_a_gpu_is_asked_through_torch(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert math.isnan(read_peak("cuda"))
    calls = []

    def stand_in(name, answer=None):
        monkeypatch.setattr(torch.cuda, name, lambda *device: calls.append((name, *device)) or answer)

    for name in ("empty_cache", "reset_peak_memory_stats", "synchronize"):
        stand_in(name)
    stand_in("is_available", True)
    stand_in("max_memory_allocated", 9)
    stand_in("memory_allocated", 4)
    assert read_peak("cuda:1") == 9.0 and reset_peak(torch.device("cuda:1")) is True
    assert calls == [
        ("is_available",),
        ("max_memory_allocated", "cuda:1"),
        ("reset_peak_memory_stats", torch.device("cuda:1")),
    ]
    calls.clear()
    meter = CudaMeter("cuda:1")
    meter.start()
    assert (meter.now(), meter.peak()) == (4, 9)
    assert calls == [
        ("empty_cache",),
        ("reset_peak_memory_stats", "cuda:1"),
        ("memory_allocated", "cuda:1"),
        ("synchronize", "cuda:1"),
        ("max_memory_allocated", "cuda:1"),
    ]
