"""A watch over one box: what all its processes together take of memory, CPU time and the folder of their sockets.

The limits that prlimit sets hold for each process alone, and 256 processes may each take their share. What the whole
box takes is read here from /proc, a few times a second, and a box that takes too much is killed as a whole. So is one
that fills the only folder of this machine that it can write to.
"""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import threading
from dataclasses import dataclass, replace
from pathlib import Path

from grader.judge.sandbox import MB, Limits

PAUSE = 0.25  # seconds between two looks
MAX_DEPTH = 8  # folders in folders, of a folder that should hold some sockets and none
PROC = Path("/proc")
PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


@dataclass(frozen=True)
class Use:
    """What a box takes: bytes of memory (shared pages counted once, where the system tells) and of its folder on
    this machine, and CPU seconds."""

    memory: int
    cpu_seconds: float
    processes: int
    disk: int = 0


class Watch:
    """While the block runs, kill the box whose first process is `pid` once it takes more than `limits` allow.

    `folder` is the one that the box shares with this machine (see `sandbox.wrap`); what is in it counts as `disk`.

    `reason` says afterwards why it was killed, "" if it was not. Where there is no /proc, nothing is watched.

        with Watch(kernel.pid, limits, kernel.private) as watch:
            ...
        if watch.reason: ...
    """

    def __init__(self, pid: int, limits: Limits, folder: Path | None = None, pause: float = PAUSE):
        self.pid, self.limits, self.folder, self.pause = pid, limits, folder, pause
        self.reason = ""
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._look_on, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *exception) -> None:
        self._end.set()
        self._thread.join()

    def _look_on(self) -> None:
        while not self._end.wait(self.pause):
            processes = processes_of(self.pid)
            if not processes:
                return
            try:
                self.reason = self._look(processes)
            except Exception as error:  # a box that cannot be watched has no limits
                self.reason = f"what it takes could not be seen ({type(error).__name__})"
            if self.reason:
                kill(processes)
                return

    def _look(self, processes: list[int]) -> str:
        if self.folder and too_deep(self.folder):
            return f"it made folders more than {MAX_DEPTH} deep, or closed ones, beside the kernel's sockets"
        disk = size_of(self.folder) + unlinked(processes, self.folder) if self.folder else 0
        return too_much(replace(use_of(processes, self.limits.box_memory), disk=disk), self.limits)


def too_much(use: Use, limits: Limits) -> str:
    """Return in which way a box takes more than it may, or ""."""
    many = f"its {use.processes} processes together" if use.processes > 2 else "it"  # the box itself is one
    if use.memory > limits.box_memory:
        return f"{many} took {use.memory // MB:,} MB of memory, more than {limits.box_memory // MB:,} MB"
    if use.cpu_seconds > limits.box_cpu_seconds:
        return f"{many} took {use.cpu_seconds:,.0f} s of CPU time, more than {limits.box_cpu_seconds:,} s"
    if use.disk > limits.disk:
        return f"{many} put {use.disk // MB:,} MB beside the kernel's sockets, more than {limits.disk // MB:,} MB"
    return ""


def processes_of(pid: int) -> list[int]:
    """Return a process and all below it. In a box of its own nobody gets out: who loses his parent gets the box's."""
    found, left = [], [pid]
    while left:
        one = left.pop()
        try:
            threads = os.listdir(PROC / str(one) / "task")
        except OSError:
            continue
        found.append(one)
        for thread in threads:
            with contextlib.suppress(OSError, ValueError):
                left += map(int, (PROC / str(one) / "task" / thread / "children").read_text().split())
    return found


def use_of(processes: list[int], enough: int = 0) -> Use:
    """Add up what processes take.

    Where their resident pages come to `enough` bytes or less, shared pages are counted for each process; else they
    are told apart, which takes longer.
    """
    memory = sum(map(_resident, processes))
    if memory > enough:
        memory = sum(map(_proportional, processes))
    return Use(memory, sum(map(_cpu_seconds, processes)), len(processes))


def too_deep(folder: Path, depth: int = MAX_DEPTH) -> bool:
    """Tell whether there are folders in folders under a folder, more than `depth` of them, or one that is closed."""
    left = [(str(folder), 0)]
    while left:
        place, at = left.pop()
        if at > depth:
            return True
        try:
            with os.scandir(place) as entries:
                left += [(one.path, at + 1) for one in entries if one.is_dir(follow_symlinks=False)]
        except PermissionError:  # who cannot look into it cannot measure it
            return True
        except OSError:  # gone by now
            continue
    return False


def unlinked(processes: list[int], folder: Path) -> int:
    """Return the bytes of files that have no name any more, and that processes hold open where a folder is."""
    device, seen, total = folder.stat().st_dev, set(), 0
    for pid in processes:
        with contextlib.suppress(OSError):
            for name in os.listdir(PROC / str(pid) / "fd"):
                with contextlib.suppress(OSError):
                    it = os.stat(PROC / str(pid) / "fd" / name)
                    if stat.S_ISREG(it.st_mode) and not it.st_nlink and it.st_dev == device and it.st_ino not in seen:
                        seen.add(it.st_ino)
                        total += it.st_blocks * 512
    return total


def size_of(folder: Path) -> int:
    """Return how many bytes lie under a folder, with a page more for each file and folder; links are not followed."""
    total = 0
    for place, folders, files in os.walk(folder):
        total += PAGE * (len(folders) + len(files))
        for name in files:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(place, name)).st_blocks * 512
    return total


def kill(processes: list[int]) -> None:
    """End processes at once; those that ended before are no error."""
    for pid in processes:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def _resident(pid: int) -> int:
    try:
        return int((PROC / str(pid) / "statm").read_text().split()[1]) * PAGE
    except (OSError, ValueError, IndexError):
        return 0


def _proportional(pid: int) -> int:
    """Return the process's pages, each shared one divided by how many share it."""
    try:
        lines = (PROC / str(pid) / "smaps_rollup").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    except (OSError, ValueError, IndexError, StopIteration):
        return _resident(pid)


def _cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process and of its children that have ended."""
    try:
        fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / TICKS
    except (OSError, ValueError):
        return 0.0
