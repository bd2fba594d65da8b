"""What a process in the box can and cannot do. Each line of code here runs inside."""

import os
import subprocess
import sys

import pytest

from grader.judge import sandbox
from grader.judge.sandbox import MB, Limits, NoSandbox, wrap
from grader.paths import ROOT

needs_box = pytest.mark.skipif(bool(sandbox.why_not()), reason=f"no sandbox here: {sandbox.why_not()}")
SMALL = Limits(memory=2_000 * MB, cpu_seconds=2, disk=4 * MB, file=2 * MB, open_files=64, processes=30)


def inside(tmp_path, code, limits=SMALL):
    """Run Python code in a box that shares `tmp_path`; return the completed process."""
    uid = sandbox.owner()
    if uid is not None:
        os.chown(tmp_path, uid, uid)
    command = wrap([sys.executable, "-I", "-c", code], tmp_path, limits)
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@needs_box
@pytest.mark.parametrize(
    "code, words",
    [
        ("import socket; socket.create_connection(('127.0.0.1', 22), 2)", "Error"),
        ("import socket; socket.create_connection(('192.0.2.1', 80), 2)", "unreachable"),
        (f"open({str(ROOT / 'README.md')!r})", "No such file"),
        (f"import os; os.listdir({str(ROOT / 'solutions')!r})", "No such file"),
        (f"open({str(ROOT / 'grader' / 'x.py')!r}, 'w')", "Read-only file system"),
        ("open('/x', 'w')", "Read-only file system"),
        ("open('/dev/x', 'w')", "Read-only file system"),
        ("open('/etc/x', 'w')", "Read-only file system"),
        ("open('/etc/shadow')", "Error"),
        ("open('big', 'wb').write(bytes(3_000_000))", "File too large"),
        ("[open(f'f{i}', 'wb').write(bytes(1_900_000)) for i in range(9)]", "No space left"),
        ("[open('/dev/null') for _ in range(100)]", "Too many open files"),
        ("bytearray(3_000_000_000)", "MemoryError"),
        ("import os; os.setuid(0)", "not permitted"),
        ("import os; os.kill(os.getppid(), 9) if os.getppid() > 1 else os.kill(1, 9); print('alive')", ""),
        ("import os; os.chroot('/tmp')", "not permitted"),
        ("import ctypes; r = ctypes.CDLL(None, use_errno=True).mount(b'a', b'/tmp', b'tmpfs', 0, 0); "
         "raise OSError(f'mount gave {r}')", "mount gave -1"),
    ],
)  # fmt: skip
def test_it_cannot(tmp_path, code, words):
    done = inside(tmp_path, code)
    assert words in done.stderr and (done.returncode != 0 or not words)


@needs_box
def test_processes_are_counted_and_end_with_the_box(tmp_path):
    fork = (
        "import os, time\nn = 0\ntry:\n    while n < 500:\n        if os.fork() == 0:\n            time.sleep(600)\n"
        "        n += 1\nexcept OSError as error:\n    print(n, error)"
    )
    done = inside(tmp_path, fork)
    assert "Resource temporarily unavailable" in done.stdout
    assert int(done.stdout.split()[0]) < SMALL.processes


@needs_box
def test_a_loop_is_ended_by_the_limit_on_cpu_time(tmp_path):
    assert inside(tmp_path, "while True: pass").returncode != 0


@needs_box
def test_what_it_can(tmp_path):
    code = (
        "import os, tempfile, numpy, grpo, grader\n"
        "open('here.txt', 'w').write('x'); tempfile.NamedTemporaryFile().write(b'x')\n"
        f"open({str(tmp_path / 'shared.txt')!r}, 'w').write('hello')\n"
        "print(os.getuid() != 0, os.getcwd(), sorted(os.environ))"
    )
    done = inside(tmp_path, code)
    assert done.stderr == "" and done.stdout.startswith(f"True {sandbox.HOME} ")
    assert (tmp_path / "shared.txt").read_text() == "hello"
    assert "GRPO_CHECK_SEED" not in done.stdout


@needs_box
def test_the_environment_of_the_judge_stays_outside(tmp_path, monkeypatch):
    monkeypatch.setenv("GRPO_CHECK_SEED", "17")
    monkeypatch.setenv("SECRET_TOKEN", "abc")
    done = inside(tmp_path, "import os; print(sorted(os.environ))")
    assert "GRPO_CHECK_SEED" not in done.stdout and "SECRET_TOKEN" not in done.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="the other reasons come first elsewhere")
def test_a_missing_program_is_named_with_its_remedy(tmp_path, monkeypatch):
    sandbox.why_not.cache_clear()
    monkeypatch.setattr(sandbox.shutil, "which", lambda name: None if name == "bwrap" else f"/usr/bin/{name}")
    try:
        with pytest.raises(NoSandbox, match="bwrap not found: apt-get install bubblewrap"):
            wrap(["true"], tmp_path)
    finally:
        sandbox.why_not.cache_clear()


def test_other_systems_are_told_what_to_do(monkeypatch):
    sandbox.why_not.cache_clear()
    monkeypatch.setattr(sandbox.sys, "platform", "darwin")
    try:
        assert "in a Linux container" in sandbox.why_not() and "GitHub Classroom" in sandbox.why_not()
    finally:
        sandbox.why_not.cache_clear()


@needs_box
def test_sets_have_one_order_in_every_box(tmp_path):
    command = [sys.executable, "-S", "-c", "print(hash('abc'))"]  # not -I, which reads no environment
    said = {subprocess.run(wrap(command, tmp_path), capture_output=True, text=True).stdout for _ in range(2)}
    assert len(said) == 1 and said != {""}


@pytest.mark.parametrize(
    "printed, error, words",
    [
        ("in the box\nand all is there\n", "", ""),
        (
            "in the box\n",
            "x\nModuleNotFoundError: No module named 'grader'",
            "the sandbox works, but what the kernel needs",
        ),
        ("", "bwrap: execvp /x/python: No such file or directory", "does not start in the sandbox"),
        ("", "bwrap: setting up uid map: Permission denied", "it needs the right to make namespaces"),
        ("", "", "exit status 1"),
    ],
)
def test_what_went_wrong_in_the_trial_is_told_apart(printed, error, words):
    said = sandbox._verdict(subprocess.CompletedProcess([], 1, printed, error))
    assert words in said and bool(said) == bool(words)
    if "ModuleNotFoundError" in error:
        assert "No module named 'grader'" in said and str(ROOT / "grader") in said and "namespaces" not in said


@needs_box
def test_a_foreign_environment_without_the_course_is_told_so(tmp_path):
    """As with a Python that finds the course over PYTHONPATH alone: the box hands no such thing on."""
    places = [str(ROOT), *(p for p in sys.path if p)]
    program = (
        f"import sys; sys.path[:0] = {places!r}; from grader.judge import sandbox; "
        "sandbox.TRIAL = sandbox.TRIAL.replace('numpy', 'numpy_that_is_not_there'); print(sandbox.why_not())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert "the sandbox works, but" in done.stdout and "numpy_that_is_not_there" in done.stdout
    assert "virtual environment" in done.stdout and "namespaces" not in done.stdout
