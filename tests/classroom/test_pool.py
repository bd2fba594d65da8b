"""Workers that take too long, and workers whose grader is gone."""

import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from grader.classroom.engine import pool as module
from grader.classroom.engine.pool import MARGIN, PAGE, Pool


@pytest.mark.parametrize(
    "what, ready, seconds, given_up",
    [
        ("page", True, PAGE - 5, False),
        ("page", True, PAGE + 1, True),
        ("page", False, PAGE + 1, False),  # it is still starting
        ("judge", True, PAGE + 1, False),
        ("judge", True, 100 + MARGIN + 1, True),
    ],
)
def test_a_page_is_given_up_sooner_than_a_notebook(what, ready, seconds, given_up):
    ended = []
    worker = SimpleNamespace(
        task={"do": what, "number": 0},
        ready=ready,
        since=time.monotonic() - seconds,
        end=lambda wait: ended.append(wait),
    )
    workers = Pool(SimpleNamespace(notebook_seconds=100), 1)
    workers.processes.append(worker)
    back = workers.wait(0.0)
    assert bool(back) == bool(ended) == given_up
    if given_up:
        limit = PAGE if what == "page" else 100 + MARGIN
        assert back[0]["lost"] and back[0]["problem"] == module.GAVE_UP.format(limit) and not workers.processes


BUSY = """
import re
from grader.classroom.engine.worker import die_with_parent
{call}
print("busy", flush=True)
re.match("(a|aa)+$", "a" * 60 + "b")  # holds on to the interpreter for longer than anybody waits
"""
PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE, text=True)
child.stdout.readline()
print(child.pid, flush=True)
child.wait()
"""


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="the system call is Linux's")
def test_a_worker_that_hears_nothing_ends_with_the_one_that_grades():
    code = BUSY.format(call="die_with_parent()")
    parent = subprocess.Popen([sys.executable, "-c", PARENT, code], stdout=subprocess.PIPE, text=True)
    pid = int(parent.stdout.readline())
    assert alive(pid)
    parent.kill()
    parent.wait()
    try:
        until = time.monotonic() + 20
        while alive(pid) and time.monotonic() < until:
            time.sleep(0.05)
        assert not alive(pid)
    finally:
        if alive(pid):
            os.kill(pid, signal.SIGKILL)
