"""Worker processes that can be killed: jobs that may hang, crash or eat memory, with a budget each and one for all.

Nothing inside a process can end every computation: a thread cannot, and a signal is not looked at while a big power is
being taken. Killing the process always works, on every system. So a job that takes too long costs its worker, and a
new worker is started in its place.

The workers are fresh interpreters that talk over pipes (`subprocess`, not `multiprocessing`: that runs the main program
again in each worker, or fails where the main program is no file).
"""

import json
import os
import queue
import subprocess
import threading
import time
import weakref
from dataclasses import dataclass, field

from grpo.checks import as_count, as_positive

# In one batch. A worker that dies while it starts will mostly do so again: an endless row of starts is a hang too.
FAILED_STARTS_ALLOWED = 3


@dataclass(frozen=True)
class Outcome:
    """What became of a job: the worker's reply, or the trouble instead of one.

    trouble is None or one of "timeout", "worker died", "batch budget" (not begun, or not ended, when the batch's time
    was up) and "no worker" (none could be started).
    """

    reply: dict | None = None
    trouble: str | None = None


@dataclass(eq=False)
class _Worker:
    process: subprocess.Popen
    due: float  # when it will be killed: for not being ready, or for the job it has
    ready: bool = False
    job: int | None = None
    reader: threading.Thread | None = field(default=None, repr=False)

    @property
    def idle(self):
        return self.ready and self.job is None


class WorkerPool:
    """A few worker processes, started once.

    Args:
        command: list of str, the program of a worker. It writes one JSON object a line: {"ready": true} when it can
            take jobs (or {"fatal": why}), then one reply for each line it reads.
        workers: how many run side by side, at least 1.
        seconds_per_job: a job that takes longer costs its worker.
        seconds_per_batch: the same for one call of `run`, whatever the number of jobs.
        seconds_to_start: a worker that is not ready by then is killed.
        clock: a function that gives seconds; a test passes its own.

    Attributes (ints, since the pool was made): starts, processes started; kills, those killed because a job or their
        start took too long; deaths, those that ended by themselves or talked nonsense.
    """

    def __init__(
        self, command, workers, seconds_per_job, seconds_per_batch, seconds_to_start=60.0, clock=time.monotonic
    ):
        self.command = [os.fspath(part) for part in command]
        self.size = as_count(workers, "workers", 1)
        self.seconds_per_job = as_positive(seconds_per_job, "seconds_per_job")
        self.seconds_per_batch = as_positive(seconds_per_batch, "seconds_per_batch")
        self.seconds_to_start = as_positive(seconds_to_start, "seconds_to_start")
        self.starts = self.kills = self.deaths = 0
        self._clock = clock
        self._workers = []
        self._events = queue.SimpleQueue()  # (worker, a line it wrote; None: its pipe is closed)
        self._lock = threading.RLock()
        self._failed_starts, self._why = 0, ""
        # Also ends the workers of a pool that nobody closed, when it is collected and at the end of the program.
        self._finalizer = weakref.finalize(self, _kill_all, self._workers)

    def start(self):
        """Start the workers, and wait until one of them is ready. A second call does nothing.

        Raises: RuntimeError, with the worker's own words, if none can be started: an installation that cannot judge
            must not look like a policy that is always wrong.
        """
        with self._lock:
            self._failed_starts, self._why = 0, "it ended without a word"
            self._fill_up()
            while not any(worker.ready for worker in self._workers):
                if self._failed_starts >= FAILED_STARTS_ALLOWED:
                    self.close()
                    raise RuntimeError(f"no worker could be started with {' '.join(self.command)}: {self._why}")
                _, message = self._next_event(float("inf"))
                self._why = (message or {}).get("fatal", self._why)

    def run(self, jobs):
        """Do the jobs, in the order given, as workers become free.

        Args:
            jobs: list of dicts that JSON can hold.

        Returns: list of Outcome, one per job, in the order of the jobs. It never raises because of a job.
        """
        with self._lock:
            outcomes = [None] * len(jobs)
            if not jobs:
                return outcomes
            self._failed_starts = 0
            self._fill_up()
            batch_due = self._clock() + self.seconds_per_batch
            next_job = 0
            try:
                while None in outcomes and self._clock() < batch_due:
                    if not self._workers:
                        return [outcome or Outcome(trouble="no worker") for outcome in outcomes]
                    for worker in self._workers:
                        if worker.idle and next_job < len(jobs):
                            next_job += self._hand_out(worker, next_job, jobs[next_job])
                    job, message = self._next_event(batch_due)
                    if job is not None:
                        outcomes[job] = message if isinstance(message, Outcome) else Outcome(reply=message)
            finally:
                # Also on Ctrl-C: an answer that comes late must not be taken for the reply to another job.
                for worker in [worker for worker in self._workers if worker.job is not None]:
                    self.kills += 1
                    self._replace(worker)
            return [outcome or Outcome(trouble="batch budget") for outcome in outcomes]

    def close(self):
        """End all workers. A later `run` or `start` starts new ones."""
        with self._lock:
            _kill_all(self._workers)

    def _fill_up(self):
        while len(self._workers) < self.size and self._failed_starts < FAILED_STARTS_ALLOWED:
            try:
                self._workers.append(self._start_one())
            except OSError as error:  # no such program, or no memory for another one
                self._failed_starts, self._why = self._failed_starts + 1, str(error)

    def _start_one(self):
        self.starts += 1
        process = subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            # Windows would open a console window for each worker of a program that has none.
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
        worker = _Worker(process, due=self._clock() + self.seconds_to_start)
        # A pipe cannot be read with a time limit on Windows; a thread per worker puts its lines into one queue.
        worker.reader = threading.Thread(target=_read, args=(worker, process.stdout, self._events), daemon=True)
        worker.reader.start()
        return worker

    def _hand_out(self, worker, job, content):
        """Give the worker a job. Returns: False if it turns out to be dead, and somebody else must do the job."""
        try:
            worker.process.stdin.write(json.dumps({**content, "seconds": self.seconds_per_job}).encode() + b"\n")
            worker.process.stdin.flush()
        except OSError:
            return False  # that its pipe is closed is one of the next events, and replaces it
        worker.job, worker.due = job, self._clock() + self.seconds_per_job
        return True

    def _next_event(self, batch_due):
        """Wait for one event and deal with it.

        Returns: (the job that is done or None, its reply or an Outcome with the trouble; {"fatal": why} without job).
        """
        # What has already arrived counts, even if the main program was asleep since (a laptop with its lid closed).
        if self._events.empty():
            for worker in self._workers:
                if self._clock() >= worker.due:
                    job = worker.job
                    self.kills += 1
                    self._replace(worker)
                    return job, {"fatal": "it was not ready in time"} if job is None else Outcome(trouble="timeout")

        wait = min([worker.due for worker in self._workers] + [batch_due]) - self._clock()
        try:
            worker, line = self._events.get(timeout=max(wait, 0.0))
        except queue.Empty:
            return None, None
        if worker not in self._workers:
            return None, None  # the last words of one that was killed

        message = _as_dict(line)
        if message is None or "fatal" in message:
            job = worker.job
            self.deaths += 1
            self._replace(worker)
            return job, message if job is None else Outcome(trouble="worker died")
        job, worker.job, worker.due = worker.job, None, float("inf")
        worker.ready = True
        return job, message

    def _replace(self, worker):
        self._failed_starts += not worker.ready
        _kill(worker)
        self._workers.remove(worker)
        self._fill_up()


def _read(worker, stdout, events):
    try:
        for line in stdout:
            events.put((worker, line))
    except (OSError, ValueError):
        pass
    events.put((worker, None))


def _as_dict(line):
    try:
        message = json.loads(line or b"null")
    except ValueError:
        return None
    return message if isinstance(message, dict) else None


def _kill(worker):
    worker.process.kill()
    worker.process.wait()
    worker.reader.join()  # the pipe is closed at the other end, so its loop is over
    for pipe in (worker.process.stdin, worker.process.stdout):
        try:
            pipe.close()
        except OSError:
            pass  # what was still to be written to it is of no interest


def _kill_all(workers):
    while workers:
        _kill(workers.pop())
