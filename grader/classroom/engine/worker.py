"""A worker: runs and judges one notebook after another, and makes feedback pages. It never writes the gradebook.

Started by `grader.classroom.engine.pool` as `python -m grader.classroom.engine.worker`. Settings and tasks come in as
lines of JSON, and one line goes back for each task. When the other end falls silent for good (its process ended or
was killed) the worker takes its kernels down and ends at once: what it had not finished is done again another time.
"""

from __future__ import annotations

import ctypes
import json
import os
import queue
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from jupyter_core.utils import run_sync

from grader.classroom.engine.feedback import feedback_config, with_name, without_places
from grader.classroom.engine.records import Settings, judged_path, read_notebook
from grader.classroom.engine.results import left_out_in
from grader.classroom.engine.trouble import is_full
from grader.classroom.nbgrader_api import course_api, course_config, in_work_folder
from grader.classroom.preprocessors import CourseExecute
from grader.classroom.whole import write_whole
from grader.judge.kernel import NO_PICTURES, SandboxedKernelManager
from grader.judge.sandbox import HOME
from grader.paths import ROOT

# Folders of this machine that tracebacks name.
PLACES = (sys.prefix, sys.base_prefix, str(ROOT), os.path.expanduser("~"), HOME)
PR_SET_PDEATHSIG = 1  # of <linux/prctl.h>
NO_HISTORY = "--HistoryManager.hist_file=:memory:"


class Kernels:
    """The kernels of one worker: each serves one notebook, and the next is starting while the present one works."""

    def __init__(self, config):
        self.config = config
        self.alive: list[SandboxedKernelManager] = []
        self.spare: SandboxedKernelManager | None = None

    def take(self, preload: list[str]) -> SandboxedKernelManager:
        """Return a kernel that nobody has used, started ahead if it has what `preload` names."""
        spare, self.spare = self.spare, None
        if spare is not None and list(spare.preload) == preload:
            return spare
        if spare is not None:
            self.end(spare)
        return self._start(preload)

    def start_ahead(self, preload: list[str]) -> None:
        """Begin to start the kernel that `take` will return next."""
        if self.spare is None:
            self.spare = self._start(preload)

    def end(self, kernel: SandboxedKernelManager) -> None:
        """Stop a kernel for good. Nothing that it could still say matters, so it is not asked to."""
        try:
            with suppress(Exception):  # a container ends by itself: to kill the command that started it is not enough
                run_sync(kernel.shutdown_kernel)(now=not kernel.container)
        finally:
            kernel.leave_nothing()
            if kernel in self.alive:
                self.alive.remove(kernel)

    def end_all(self) -> None:
        """Kill what is left, from any thread and without waiting."""
        for kernel in list(self.alive):
            kernel.leave_nothing()

    def _start(self, preload: list[str]) -> SandboxedKernelManager:
        kernel = SandboxedKernelManager(config=self.config, preload=preload)
        self.alive.append(kernel)
        try:
            run_sync(kernel.start_kernel)(extra_arguments=[NO_HISTORY])
        except BaseException:
            self.end(kernel)
            raise
        return kernel


class Worker:
    """Does tasks as they come. A task is {"do": "judge" or "page", "student": id, "chapter": name, ...}."""

    def __init__(self, settings: Settings):
        self.settings = settings
        self.work = Path(settings.work)
        self.config = course_config(settings.cell_seconds, settings.sandbox)
        self.config.merge(feedback_config())
        self.config.CourseExecute.notebook_seconds = settings.notebook_seconds
        self.config.CourseExecute.secret = settings.secret
        self.config.CourseExecute.shutdown_kernel = "immediate"
        self.config.CourseExecute.startup_timeout = 180
        self.config.SandboxedKernelManager.pictures = settings.pictures
        self.config.SandboxedKernelManager.container = settings.container
        if not settings.pictures and not settings.sandbox:
            os.environ["MPLBACKEND"] = NO_PICTURES
        self.kernels = Kernels(self.config)
        self.api = course_api(self.work, self.config, **in_work_folder(self.work))

    def do(self, task: dict[str, Any]) -> dict[str, Any]:
        """Do one task. The answer holds "problem" where it could not be done, and "full" where the disk is."""
        try:
            return self.judge(task) if task["do"] == "judge" else self.page(task)
        except Exception as error:
            text = str(error).strip().partition("\n")[0]
            problem = f"{type(error).__name__}: {text}"[:300].replace(str(self.work), "")
            return {"problem": problem, **({"full": True} if is_full(error) else {})}

    def judge(self, task: dict[str, Any]) -> dict[str, Any]:
        """Execute and judge the staged notebook of a submission, and store it with what that took."""
        staged = self.work / "intake" / task["student"] / task["chapter"] / f"{task['chapter']}.ipynb"
        notebook = read_notebook(staged)
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = [], None
        began = time.monotonic()
        step = self._execute(notebook, staged.parent, task)
        done = {
            "key": task["key"],
            "seconds": round(time.monotonic() - began, 2),
            "cpu_seconds": round(step.cpu_seconds, 2),
        }
        path = judged_path(self.work, task["student"], task["chapter"])
        write_whole(path, json.dumps({**done, "notebook": notebook}))
        return done

    def _execute(self, notebook, folder: Path, task: dict[str, Any]) -> CourseExecute:
        resources = {"metadata": {"path": str(folder)}, "nbgrader": {"student": task["student"]}}
        step = CourseExecute(config=self.config, parent=self.api)
        step.may_repeat = not task.get("last")
        if not self.settings.sandbox:
            step.preprocess(notebook, resources)
            return step
        kernel = self.kernels.take(task["preload"])
        try:
            if task.get("next"):
                self.kernels.start_ahead(task["next"])
            step.preprocess(notebook, resources, kernel)
            return step
        finally:
            if step.kc is not None:
                step.kc.stop_channels()
            self.kernels.end(kernel)

    def page(self, task: dict[str, Any]) -> dict[str, Any]:
        """Make the feedback page of a submission from the graded notebook and the gradebook."""
        outcome = self.api.generate_feedback(task["chapter"], task["student"], force=True)
        page = self.work / "feedback" / task["student"] / task["chapter"] / f"{task['chapter']}.html"
        if not outcome["success"] or not page.is_file():
            return {"problem": f"no feedback page could be made: {outcome.get('error', '').strip()[-200:]}"}
        graded = self.work / "autograded" / task["student"] / task["chapter"] / f"{task['chapter']}.ipynb"
        left_out = left_out_in(read_notebook(graded), task["left"]) if task["left"] else []
        text = without_places(page.read_text(encoding="utf-8"), PLACES)
        text = with_name(text, task["student"], task["name"], left_out)
        write_whole(page, text)
        return {}


def serve(lines: TextIO, answer: Callable[[dict], None]) -> None:
    """Read settings and then tasks from `lines` and answer each, until they end."""
    settings = Settings(**json.loads(lines.readline()))
    if not settings.container:  # a container ends by a command of ours, a box of bubblewrap's with this process
        die_with_parent()
    worker = Worker(settings)
    tasks: queue.Queue = queue.Queue()

    def read():
        for line in lines:
            tasks.put(json.loads(line))
        # Nobody is there any more who would take an answer.
        worker.kernels.end_all()
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    answer({"ready": True})
    while True:
        task = tasks.get()
        answer({**task, **worker.do(task)})


def die_with_parent() -> None:
    """Let Linux kill this process when the one that gives out the tasks is killed.

    To hear that nobody is there any more takes Python code to run, and one call into a library may keep it waiting.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def main() -> None:
    """Be a worker: tasks from standard input, answers to standard output, everything else to standard error."""
    if hasattr(signal, "SIGINT"):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that gives out the tasks
    warnings.simplefilter("ignore")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
    os.dup2(2, 1)  # what a library prints is no answer

    def answer(data: dict) -> None:
        answers.write(json.dumps(data) + "\n")
        answers.flush()

    with suppress(BrokenPipeError):
        serve(sys.stdin, answer)


if __name__ == "__main__":
    main()
