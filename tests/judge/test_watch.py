"""What a whole box takes is added up, and a box that takes too much is killed with all that runs in it."""

import os
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from grader.judge import sandbox
from grader.judge import watch as module
from grader.judge.kernel import remove
from grader.judge.sandbox import MB, Limits, wrap
from grader.judge.watch import MAX_DEPTH, Use, Watch, kill, processes_of, size_of, too_deep, too_much, unlinked, use_of

needs_box = pytest.mark.skipif(bool(sandbox.why_not()), reason=f"no sandbox here: {sandbox.why_not()}")
needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
ROOMY = Limits()

# Three children with 60 MB each: no process is large, all together are.
FAMILY = """
import os, time
for _ in range(3):
    if os.fork() == 0:
        kept = bytearray(60_000_000)
        time.sleep(60)
        os._exit(0)
print("ready", flush=True)
time.sleep(60)
"""


def in_box(tmp_path, code, limits=ROOMY):
    uid = sandbox.owner()
    if uid is not None:
        os.chown(tmp_path, uid, uid)
    command = wrap([sys.executable, "-I", "-S", "-c", code], tmp_path, limits)
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_each_limit_has_words_of_its_own():
    limits = replace(ROOMY, box_memory=1_000 * MB, box_cpu_seconds=100)
    assert too_much(Use(1_000 * MB, 100, 5), limits) == ""
    assert too_much(Use(1_001 * MB, 0, 5), limits) == (
        "its 5 processes together took 1,001 MB of memory, more than 1,000 MB"
    )
    assert too_much(Use(0, 100.6, 2), limits) == "it took 101 s of CPU time, more than 100 s"
    assert too_much(Use(0, 0, 2, 65 * MB), limits) == "it put 65 MB beside the kernel's sockets, more than 64 MB"


@needs_box
def test_a_box_of_many_small_processes_is_killed_as_a_whole(tmp_path):
    box = in_box(tmp_path, FAMILY)
    assert box.stdout.readline() == "ready\n"
    inside = processes_of(box.pid)
    with Watch(box.pid, replace(ROOMY, box_memory=150 * MB), pause=0.02) as watch:
        box.wait(timeout=20)
    assert "together took" in watch.reason and "more than 150 MB" in watch.reason
    assert len(inside) >= 5  # the box, its first process, and four of ours
    end = time.monotonic() + 5
    while any(os.path.exists(f"/proc/{pid}/exe") for pid in inside) and time.monotonic() < end:
        time.sleep(0.02)
    assert processes_of(box.pid) == []


@needs_box
def test_a_box_within_its_limits_is_left_alone(tmp_path):
    box = in_box(tmp_path, FAMILY.replace("time.sleep(60)\n", "time.sleep(0.3)\n"))
    with Watch(box.pid, ROOMY, pause=0.02) as watch:
        assert box.wait(timeout=20) == 0
    assert watch.reason == ""


@needs_box
def test_cpu_time_of_all_processes_counts(tmp_path):
    code = "import os\nos.fork()\nwhile True: pass"
    box = in_box(tmp_path, code)
    with Watch(box.pid, replace(ROOMY, box_cpu_seconds=1), pause=0.02) as watch:
        box.wait(timeout=60)
    assert "s of CPU time, more than 1 s" in watch.reason


@needs_proc
def test_children_that_ended_are_still_counted():
    code = (
        "import os, time\nif os.fork() == 0:\n    end = time.process_time() + 0.3\n"
        "    while time.process_time() < end: pass\n    os._exit(0)\nos.wait()\n"
        "print('done', flush=True)\ntime.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-S", "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert parent.stdout.readline() == "done\n"
        assert processes_of(parent.pid) == [parent.pid]
        assert use_of([parent.pid]).cpu_seconds >= 0.25
    finally:
        kill([parent.pid])
        parent.wait()


@needs_proc
def test_shared_pages_count_once():
    code = (
        "import os, time\nkept = bytearray(b'x' * 100_000_000)\nfor _ in range(4):\n"
        "    if os.fork() == 0:\n        time.sleep(60)\nprint('ready', flush=True)\ntime.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-S", "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert parent.stdout.readline() == "ready\n"
        family = processes_of(parent.pid)
        assert len(family) == 5
        assert use_of(family).memory < 250 * MB < use_of(family, enough=10_000 * MB).memory
    finally:
        kill(processes_of(parent.pid))
        parent.wait()


def test_a_process_that_is_gone_takes_nothing():
    gone = subprocess.Popen([sys.executable, "-S", "-c", ""])
    gone.wait()
    assert processes_of(gone.pid) == [] and use_of([gone.pid]) == Use(0, 0.0, 1)
    with Watch(gone.pid, ROOMY, pause=0.01) as watch:
        time.sleep(0.05)
    assert watch.reason == ""


@needs_box
def test_the_folder_that_a_box_shares_with_this_machine_is_not_filled(tmp_path):
    """No process may write a large file, but 20 of 1 MB each are as bad: the box ends before it has written them."""
    code = (
        f"import time\nfor i in range(400):\n    open({str(tmp_path)!r} + f'/{{i}}', 'wb').write(bytes(1_000_000))\n"
        "    time.sleep(0.02)"
    )
    box = in_box(tmp_path, code)
    with Watch(box.pid, replace(ROOMY, disk=5 * MB), tmp_path, pause=0.02) as watch:
        box.wait(timeout=60)
    assert "beside the kernel's sockets, more than 5 MB" in watch.reason
    assert len(list(tmp_path.iterdir())) < 100


def test_empty_files_and_folders_count_too(tmp_path):
    for number in range(20):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "empty").touch()
    (tmp_path / "link").symlink_to("/usr/bin/python3")
    assert 40 * 4096 <= size_of(tmp_path) < 1 * MB


def fold(folder, depth):
    """Make folders in folders, deeper than a path can be long."""
    at = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("x" * 50, dir_fd=at)
        below = os.open("x" * 50, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)


@needs_proc
def test_folders_in_folders_without_end_are_too_many_and_can_be_removed(tmp_path):
    (tmp_path / "flat").mkdir()
    fold(tmp_path / "flat", MAX_DEPTH)
    assert not too_deep(tmp_path / "flat") and not too_deep(tmp_path / "gone")
    fold(tmp_path, 1200)
    assert too_deep(tmp_path) and too_deep(tmp_path / ("x" * 50))
    (tmp_path / "link").symlink_to(tmp_path / ("x" * 50))
    remove(tmp_path / "link")
    remove(tmp_path / ("x" * 50))
    assert sorted(os.listdir(tmp_path)) == ["flat", "link"], "what a link leads to is none of its business"


@needs_proc
@pytest.mark.parametrize("fault", ["deep", "broken"])
def test_a_box_that_cannot_be_watched_is_killed(tmp_path, monkeypatch, fault):
    box = subprocess.Popen([sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)"])
    if fault == "deep":
        fold(tmp_path, MAX_DEPTH + 1)
    else:
        monkeypatch.setattr(module, "use_of", lambda *words: 1 / 0)
    with Watch(box.pid, ROOMY, tmp_path, pause=0.02) as watch:
        assert box.wait(timeout=20) < 0
    assert (
        "8 deep, or closed ones, beside the kernel's sockets" if fault == "deep" else "(ZeroDivisionError)"
    ) in watch.reason


@needs_proc
def test_files_without_a_name_count_while_they_are_open(tmp_path):
    mine, before = [os.getpid()], unlinked([os.getpid()], tmp_path)
    with (tmp_path / "big").open("wb") as file, (tmp_path / "named").open("wb") as named:
        file.write(bytes(3_000_000))
        named.write(bytes(5_000_000))
        file.flush(), named.flush()
        again = os.dup(file.fileno())
        assert unlinked(mine, tmp_path) == before
        (tmp_path / "big").unlink()
        assert 3_000_000 <= unlinked(mine * 2, tmp_path) - before < 4_000_000
        assert size_of(tmp_path) < 6_000_000
        os.close(again)
    assert unlinked([*mine, 2**22 + 1], tmp_path) == before


def test_a_folder_that_cannot_be_looked_into_is_as_one_that_is_too_deep(tmp_path, monkeypatch):
    def closed(place):
        raise PermissionError(place)

    monkeypatch.setattr(module.os, "scandir", closed)
    assert too_deep(tmp_path)


@needs_proc
def test_closed_folders_are_removed(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c").write_text("x")
    (tmp_path / "a" / "b").chmod(0)
    remove(tmp_path / "a")
    assert not (tmp_path / "a").exists()
