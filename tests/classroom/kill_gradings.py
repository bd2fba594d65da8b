"""Kill a grading at random moments and let it go on: the gradebook and the report must be as if nothing had happened.

    python -m tests.classroom.kill_gradings --times 20

In each round a fresh grading of a small class is started as a process of its own and killed (SIGKILL, with all its
workers) after a random time, several times if that fits, and then left to end.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import gradebooks
import students

from grader.judge.sandbox import why_not

SEED = "5"


def hand_in(folder: Path, size: int) -> None:
    """Write a class of `size` students: right, wrong, untouched and crashing work in turn."""
    right = students.solved()
    kinds = [
        right,
        students.with_answers({"group_relative_advantage": students.DDOF_0}, right),
        students.with_answers({}),
        students.with_answers({"zero_variance_fraction": students.CRASH}, right),
    ]
    for number in range(size):
        students._write(folder, f"s{number:02}", kinds[number % len(kinds)])


def command(folder: Path, place: Path, *more: str) -> list[str]:
    """Return the command that grades `folder`/submitted into `place`."""
    unprotected = ["--no-sandbox"] if why_not() else []
    return [
        sys.executable, "-m", "grader", "grade", str(folder / "submitted"), "--work", str(place / "grading"),
        "--out", str(place / "report"), "--seed", SEED, *unprotected, *more,
    ]  # fmt: skip


def start(arguments: list[str]) -> subprocess.Popen:
    """Start a grading in a process group of its own, without its words."""
    return subprocess.Popen(
        arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True, cwd=Path.cwd()
    )


def kill_after(arguments: list[str], seconds: float) -> bool:
    """Start a grading and kill its process group after `seconds`; return False if it had ended by then."""
    process = start(arguments)
    try:
        process.wait(timeout=seconds)
        return False
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return True


def kill_where(arguments: list[str], there: Path) -> bool:
    """Start a grading and kill its process group as soon as a path exists."""
    process = start(arguments)
    while process.poll() is None and not there.exists():
        time.sleep(0.01)
    killed = process.poll() is None
    if killed:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return killed


def left_behind(place: Path) -> dict:
    """Return what a grading left: gradebook, report, and whose feedback pages there are."""
    pages = sorted(str(page.relative_to(place)) for page in (place / "report" / "feedback").rglob("*.html"))
    return {**gradebooks.gradebook_in(place / "grading"), **gradebooks.report_in(place / "report"), "pages": pages}


def main() -> int:
    """Run the measure; exit status 1 if any round differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=20, help="kills in all")
    parser.add_argument("--students", type=int, default=6)
    parser.add_argument("--draw", type=int, default=0, help="draws the moments")
    options = parser.parse_args()
    rng = random.Random(options.draw)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        hand_in(folder / "submitted", options.students)
        began = time.perf_counter()
        subprocess.run(command(folder, folder / "whole"), check=True, stdout=subprocess.DEVNULL)
        whole, length = left_behind(folder / "whole"), time.perf_counter() - began
        kills = rounds = different = 0
        while kills < options.times:
            rounds += 1
            place, moments = folder / f"round{rounds}", []
            while kills < options.times and len(moments) < 4:
                moment, began = rng.uniform(0.1, 1.0) * length, time.perf_counter()
                if not kill_after(command(folder, place), moment):
                    if not moments:  # the machine is less busy than it was
                        length = time.perf_counter() - began
                    break
                kills += 1
                moments.append(round(moment, 1))
            subprocess.run(command(folder, place), check=True, stdout=subprocess.DEVNULL)
            same = left_behind(place) == whole
            different += not same
            print(f"round {rounds}: killed after {moments} s of {length:.1f} s: {'same' if same else 'DIFFERENT'}")
            if same:
                shutil.rmtree(place)
    found = {"kills": kills, "rounds": rounds, "different": different, "undisturbed_seconds": round(length, 1)}
    print(json.dumps(found))
    return 1 if different else 0


if __name__ == "__main__":
    raise SystemExit(main())
