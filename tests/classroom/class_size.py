"""Grade a class of strangers with ours and with stock nbgrader: wall-clock time, CPU time, memory.

    python -m tests.classroom.class_size --students 100 --chapters 3
    python -m tests.classroom.class_size --growth 10,30,100,300 --stock-students 0

Both grade the same submissions on this machine, one after the other. Ours has its sandbox on where there is one and
makes the feedback pages; `nbgrader generate_feedback` is timed apart. CPU time is that of all processes, kernels in
boxes included (those are asked for before they are ended); memory is what all processes hold at once, shared pages
counted once, looked at twice a second.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import nbformat
from nbgrader.api import Gradebook
from rich.console import Console
from rich.table import Table

from grader.classroom.nbgrader_api import COURSE_ID, course_api
from grader.classroom.release import generate
from grader.exercises import EXERCISES
from grader.judge.sandbox import why_not
from grader.judge.watch import processes_of, use_of
from grader.paths import NOTEBOOKS, SOLUTIONS, chapters, notebook_path

STOCK = """
c = get_config()
c.CourseDirectory.course_id = "{course}"
c.CourseDirectory.source_directory = "source"
c.Execute.timeout = 60
"""
WRONG = "def {name}(*args, **kwargs):\n    return None"
NOISY = "import sys, warnings\nprint('here we go')\nwarnings.warn('careful')\nprint('to stderr', file=sys.stderr)\n"


def hand_in(folder: Path, students: int, due: list[str], draw: int = 0) -> None:
    """Write a varied class: half of the work is right, the rest is wrong, unfinished, untouched or noisy."""
    for chapter in due:
        released = nbformat.read(notebook_path(NOTEBOOKS, chapter), as_version=4)
        solved = nbformat.read(notebook_path(SOLUTIONS, chapter), as_version=4)
        marked = {c.metadata.nbgrader.grade_id: c.source for c in solved.cells if "nbgrader" in c.metadata}
        for number in range(students):
            rng = random.Random(f"{draw} {chapter} {number}")
            notebook = nbformat.from_dict(json.loads(json.dumps(released)))
            kind = rng.choices(["right", "one wrong", "half", "untouched", "noisy"], [50, 20, 15, 5, 10])[0]
            names = [name for name, one in EXERCISES.items() if one.chapter == chapter]
            wrong = rng.choice(names)
            done = {"untouched": [], "half": names[: len(names) // 2]}.get(kind, names)
            for cell in notebook.cells:
                grade_id = cell.metadata.get("nbgrader", {}).get("grade_id", "")
                name = grade_id.removesuffix("_answer")
                if grade_id.endswith("_answer") and name in done:
                    cell.source = marked[grade_id]
                    if name == wrong and kind == "one wrong":
                        cell.source = WRONG.format(name=name)
                    if name == wrong and kind == "noisy":
                        cell.source = NOISY + cell.source
            path = folder / f"student{number:03}" / chapter / f"{chapter}.ipynb"
            path.parent.mkdir(parents=True, exist_ok=True)
            nbformat.write(notebook, path)


class Cost:
    """What a command and all its processes take: seconds of wall-clock and CPU time, bytes at the peak."""

    def __init__(self, commands: list[list[str]], folder: Path):
        self.peak, self._over = 0, threading.Event()
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        began = time.perf_counter()
        watcher = threading.Thread(target=self._look_on)
        watcher.start()
        self.log = folder / "output.log"
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        with self.log.open("w") as log:
            for command in commands:
                subprocess.run(command, cwd=folder, stdout=log, stderr=log, env=environment, check=False)
        self.wall = time.perf_counter() - began
        self._over.set()
        watcher.join()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def _look_on(self) -> None:
        while not self._over.wait(0.5):
            mine = [pid for pid in processes_of(os.getpid()) if pid != os.getpid()]
            self.peak = max(self.peak, use_of(mine).memory)


def ours(folder: Path, submitted: Path, workers: int, pictures: bool) -> tuple[Cost, dict]:
    """Grade with this course's command; return what it cost and how many submissions ended in which state."""
    unprotected = ["--no-sandbox"] if why_not() else []
    command = [
        sys.executable, "-m", "grader", "grade", str(submitted), "--work", "grading", "--out", "report", "--seed", "1",
        *(["--workers", str(workers)] if workers else []), *(["--pictures"] if pictures else []), *unprotected,
    ]  # fmt: skip
    folder.mkdir()
    cost = Cost([command], folder)
    kernels = [json.loads(path.read_text())["cpu_seconds"] for path in (folder / "grading" / "judged").rglob("*.json")]
    cost.cpu += sum(kernels)  # a box's processes are nobody's children when it ends
    states: dict[str, int] = {}
    lines = (folder / "report" / "submissions.csv").read_text().splitlines()[1:]
    for line in lines:
        state = line.split(",")[2]
        states[state] = states.get(state, 0) + 1
    return cost, states


def stock(folder: Path, submitted: Path, due: list[str]) -> tuple[Cost, Cost, int]:
    """Grade with nbgrader as it comes, in a course of its own; return grading, feedback, and how many got a score."""
    folder.mkdir()
    (folder / "nbgrader_config.py").write_text(STOCK.format(course=COURSE_ID))
    url = f"sqlite:///{folder}/gradebook.db"
    for chapter in due:
        course_api(folder)  # nbgrader calls programs of this environment by their names
        generate(chapter, SOLUTIONS, folder / "release", url)
        shutil.copytree(SOLUTIONS / chapter, folder / "source" / chapter, ignore=shutil.ignore_patterns("*.ipynb"))
    shutil.copytree(submitted, folder / "submitted")
    nbgrader = [sys.executable, "-m", "nbgrader"]
    grading = Cost([[*nbgrader, "autograde", chapter, "--create"] for chapter in due], folder)
    (folder / "output.log").rename(folder / "autograde.log")
    feedback = Cost([[*nbgrader, "generate_feedback", chapter] for chapter in due], folder)
    with Gradebook(url) as gradebook:
        scored = sum(len(gradebook.assignment_submissions(chapter)) for chapter in due)
    return grading, feedback, scored


def row(table: Table, name: str, cost: Cost, count: int) -> None:
    """Add a line: in all, and per submission."""
    table.add_row(
        name, str(count), f"{cost.wall:.1f}", f"{cost.cpu:.1f}", f"{cost.wall / count:.2f}", f"{cost.cpu / count:.2f}",
        f"{cost.peak / 1e6:,.0f}",
    )  # fmt: skip


def main() -> int:
    """Run the measure and print a table and a line of JSON; exit status 1 if anybody was lost."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--students", type=int, default=100)
    parser.add_argument("--chapters", type=int, default=3, help="how many, from the first")
    parser.add_argument("--workers", type=int, default=0, help="default: one a core")
    parser.add_argument("--stock-students", type=int, default=-1, help="the first N go to stock; default: all; 0: none")
    parser.add_argument("--growth", default="", help="class sizes with commas between them, ours only")
    parser.add_argument("--pictures", action="store_true", help="draw the plots, as stock does")
    parser.add_argument("--folder", type=Path, help="keep everything there")
    options = parser.parse_args()
    due = chapters()[: options.chapters]
    sizes = [int(word) for word in options.growth.split(",") if word] or [options.students]
    table = Table("what", "submissions", "wall s", "CPU s", "wall s each", "CPU s each", "peak MB")
    found: dict = {"cores": os.cpu_count(), "chapters": due, "sandbox": not why_not(), "pictures": options.pictures}
    lost = 0
    with tempfile.TemporaryDirectory() as name:
        folder = options.folder or Path(name)
        folder.mkdir(exist_ok=True)
        for size in sizes:
            hand_in(folder / f"submitted{size}", size, due)
            cost, states = ours(folder / f"ours{size}", folder / f"submitted{size}", options.workers, options.pictures)
            count = size * len(due)
            lost += count - sum(states.values())
            row(table, f"ours, {size} students", cost, count)
            found[f"ours {size}"] = {"wall": cost.wall, "cpu": cost.cpu, "peak": cost.peak, "states": states}
        first = options.students if options.stock_students < 0 else options.stock_students
        if first:
            hand_in(folder / "submitted_stock", first, due)
            grading, feedback, scored = stock(folder / "stock", folder / "submitted_stock", due)
            row(table, f"stock autograde, {first} students", grading, first * len(due))
            row(table, "stock generate_feedback", feedback, first * len(due))
            found["stock"] = {"wall": grading.wall, "cpu": grading.cpu, "peak": grading.peak, "entered": scored}
            found["stock feedback"] = {"wall": feedback.wall, "cpu": feedback.cpu}
            each = grading.wall / (first * len(due))
            found["times the throughput of stock autograde"] = each / (cost.wall / count)
    Console(width=120).print(table)
    print(json.dumps(found))
    return 1 if lost else 0


if __name__ == "__main__":
    raise SystemExit(main())
