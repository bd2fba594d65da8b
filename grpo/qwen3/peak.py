"""The most memory that something has taken: this process, as the operating system counts it, or torch on a GPU."""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
import time
from pathlib import Path

import torch

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def read_peak(device="cpu"):
    """Bytes (float): the most that torch has held on a GPU, or this process in RAM, so far or since `reset_peak`.

    NaN where nobody counts: on Windows, and for a GPU that is not here.
    """
    if _on_gpu(device):
        return float(torch.cuda.max_memory_allocated(device)) if torch.cuda.is_available() else float("nan")
    if _STATUS.exists():
        # Not getrusage, whose value a child inherits from its parent.
        return float(resident_bytes("VmHWM"))
    try:
        import resource
    except ImportError:  # Windows
        return float("nan")
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024))


def reset_peak(device="cpu"):
    """Start to count the peak anew: torch's on a GPU, the process's on Linux.

    Returns: bool, False where that is not to be had: the peak stays that of the whole process.
    """
    if _on_gpu(device):
        torch.cuda.reset_peak_memory_stats(device)
        return True
    try:
        _CLEAR.write_text("5")
    except OSError:
        return False
    return True


def resident_bytes(name="VmRSS"):
    """Bytes of the resident memory, as Linux counts it: now ("VmRSS"), or at its peak ("VmHWM").

    Raises: RuntimeError where there is no such count.
    """
    if not _STATUS.exists():
        raise RuntimeError(f"there is no {_STATUS}: the resident memory can be measured on Linux only")
    for line in _STATUS.read_text().splitlines():
        if line.startswith(f"{name}:"):
            return 1024 * int(line.split()[1])
    raise RuntimeError(f"{_STATUS} has no line {name}: the resident memory cannot be measured here")


class CudaMeter:
    """torch's own account of the memory of one GPU."""

    def __init__(self, device):
        self.device = device

    def start(self):
        """From here on a new peak counts; what is not in use any more goes back to the GPU."""
        gc.collect()
        torch.cuda.empty_cache()
        reset_peak(self.device)

    def now(self):
        """Bytes in use."""
        return torch.cuda.memory_allocated(self.device)

    def peak(self):
        """Bytes, the most since `start`."""
        torch.cuda.synchronize(self.device)
        return torch.cuda.max_memory_allocated(self.device)


class ResidentMeter:
    """The resident memory of this process. Raises RuntimeError where it cannot be read (Linux only)."""

    def __init__(self):
        resident_bytes()
        self.watcher = None

    def start(self):
        """From here on a new peak counts; the C library is asked for what it holds of freed memory."""
        gc.collect()
        try:
            ctypes.CDLL("libc.so.6").malloc_trim(0)
        except (OSError, AttributeError):  # another C library: what it holds is part of what is measured
            pass
        if self.watcher is not None:
            self.watcher.stop()
        self.watcher = None if reset_peak() else _Watcher(self.now)

    def now(self):
        """Bytes in use."""
        return resident_bytes("VmRSS")

    def peak(self):
        """Bytes, the most since `start`."""
        return resident_bytes("VmHWM") if self.watcher is None else self.watcher.stop()


class _Watcher:
    """Looks at a number every millisecond and keeps the largest."""

    def __init__(self, read):
        self.read, self.largest, self.going = read, read(), True
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()

    def _watch(self):
        while self.going:
            self.largest = max(self.largest, self.read())
            time.sleep(0.001)

    def stop(self):
        self.going = False
        self.thread.join()
        return max(self.largest, self.read())


def _on_gpu(device):
    return str(device).startswith("cuda")
