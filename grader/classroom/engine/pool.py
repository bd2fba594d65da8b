"""Worker processes, and what passes between them and the one that grades."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from grader.checking import SEED_VARIABLE
from grader.classroom.engine.records import Settings

# -P: the current folder may be that of the submissions, and nothing in it is ever imported.
COMMAND = [sys.executable, "-P", "-m", "grader.classroom.engine.worker"]
GRACE = 5.0  # seconds for a worker to end by itself
MARGIN = 180.0  # seconds that a task may take beyond the notebook's own limit: kernels start, pages are written
PAGE = 60.0  # seconds for a page: usually a fraction of one
DIED, GAVE_UP = "the process that graded it ended ({})", "it did not end within {:.0f} seconds, and was given up"

Task = dict[str, Any]


class Pool:
    """Up to `size` workers. `give` a task to an idle one, `wait` for what comes back; leaving ends them all."""

    def __init__(self, settings: Settings, size: int):
        self.settings, self.size = settings, size
        self.answers: queue.Queue[tuple[_Process, dict | None]] = queue.Queue()
        self.processes: list[_Process] = []

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *exc) -> None:
        self.end()

    def idle(self) -> bool:
        """Tell whether `give` has somebody to give a task to."""
        return len(self.processes) < self.size or any(process.task is None for process in self.processes)

    def busy(self) -> bool:
        """Tell whether any task is out."""
        return any(process.task is not None for process in self.processes)

    def start(self, number: int) -> None:
        """Start workers ahead of their tasks."""
        while len(self.processes) < min(number, self.size):
            self.processes.append(_Process(self.settings, self.answers))

    def give(self, task: Task) -> None:
        """Give a task to an idle worker, started if need be."""
        free = next((process for process in self.processes if process.task is None), None)
        if free is None:
            free = _Process(self.settings, self.answers)
            self.processes.append(free)
        free.give(task)

    def wait(self, seconds: float) -> list[Task]:
        """Return the tasks that came back, with their answers, after at most `seconds`.

        A worker that died, or that took far longer than a notebook may, is ended, and its task comes back with a
        "problem" and with "lost" set.
        """
        back: list[Task] = []
        with suppress(queue.Empty):
            back += self._take(*self.answers.get(timeout=seconds))
            while True:
                back += self._take(*self.answers.get_nowait())
        for process in list(self.processes):
            page = process.task is not None and process.ready and process.task["do"] == "page"
            limit = PAGE if page else self.settings.notebook_seconds + MARGIN
            if process.task is not None and time.monotonic() - process.since > limit:
                back.append({**process.task, "lost": True, "problem": GAVE_UP.format(limit)})
                self._drop(process)
        return back

    def _take(self, process: _Process, answer: dict | None) -> list[Task]:
        if process not in self.processes:
            return []
        if (answer or {}).get("ready"):
            process.ready = True
            return []
        if answer is not None:
            process.task = None
            return [answer]
        task, status = process.task, self._drop(process)
        how = f"signal {-status}" if status is not None and status < 0 else f"exit status {status}"
        return [{**task, "lost": True, "problem": DIED.format(how)}] if task is not None else []

    def _drop(self, process: _Process) -> int | None:
        self.processes.remove(process)
        return process.end(1.0)

    def end(self) -> None:
        """End all workers and their kernels, whatever they are at."""
        for process in self.processes:
            process.hang_up()
        until = time.monotonic() + GRACE
        for process in self.processes:
            process.end(max(0.0, until - time.monotonic()))
        self.processes.clear()


class _Process:
    def __init__(self, settings: Settings, answers: queue.Queue):
        self.task: Task | None = None
        self.ready = False
        self.since = time.monotonic()
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
        environment.pop(SEED_VARIABLE, None)
        log = Path(settings.work) / "grading.log"
        with log.open("a", encoding="utf-8") as noise:
            self.process = subprocess.Popen(
                COMMAND,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=noise,
                env=environment,
                encoding="utf-8",
                start_new_session=True,  # Ctrl-C in a terminal reaches the whole group, and would end kernels halfway
            )
        self._write(asdict(settings))
        threading.Thread(target=self._listen, args=(answers,), daemon=True).start()

    def _listen(self, answers: queue.Queue) -> None:
        with suppress(ValueError):  # half a line of one that was killed
            for line in self.process.stdout:
                answers.put((self, json.loads(line)))
        answers.put((self, None))

    def give(self, task: Task) -> None:
        self.task, self.since = task, time.monotonic()
        self._write(task)

    def _write(self, data: dict) -> None:
        with suppress(OSError):  # it has died: `_listen` finds that out
            self.process.stdin.write(json.dumps(data) + "\n")
            self.process.stdin.flush()

    def hang_up(self) -> None:
        with suppress(OSError):
            self.process.stdin.close()

    def end(self, seconds: float) -> int | None:
        self.hang_up()
        if not self.ready:  # it hears nothing yet, and has no kernel to take down
            self.process.kill()
        try:
            self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        return self.process.returncode
