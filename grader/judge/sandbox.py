"""The box a student's code runs in: no network, no files but what it needs, and limits on everything it can use up.

bubblewrap builds it out of Linux namespaces, and prlimit sets what one process may take. What is in the box: the
system's programs and this Python, read-only; the packages `grpo` and `grader` and the folder `data`, read-only; an
empty home and an empty /tmp of limited size, gone with the process. Not in it: solutions, submissions, the
gradebook, anybody's home.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.judge.container import container_command
from grader.paths import ROOT

HOME = "/home/student"
MB = 1_000_000
# A user id of its own for every box, where the judge runs as root: the limit on processes counts per user.
FIRST_UID, UIDS = 2_000_000, 60_000


@dataclass(frozen=True)
class Limits:
    """What one kernel may use. Bytes and seconds; `processes` counts threads too.

    `memory` and `cpu_seconds` hold for each process by itself, `box_memory` and `box_cpu_seconds` for all that run in
    the box together (see `grader.judge.watch`).
    """

    memory: int = 6_000 * MB  # of address space; importing torch alone takes 3 GB of it, most of it never touched
    cpu_seconds: int = 900
    box_memory: int = 4_000 * MB  # of what is really there
    box_cpu_seconds: int = 1_800
    disk: int = 64 * MB  # for each of home and /tmp
    file: int = 32 * MB
    open_files: int = 256
    processes: int = 256


class NoSandbox(Exception):
    """There is no way to shut a kernel in on this machine; the message says why and what to do."""


def wrap(argv: Sequence[str], private: Path, limits: Limits | None = None, container: str = "") -> list[str]:
    """Return the command that runs `argv` in a box of its own.

    Args:
        argv: the command; its paths must lie in what the box shows (this Python, grpo, grader, data, `private`).
        private: a folder that is seen, read and written, at the same path on both sides: for the kernel's sockets.
        limits: what it may use.
        container: the beginning of a command that starts a container, its image last, in place of bubblewrap (see
            `grader.judge.container`).

    Raises: NoSandbox where `why_not()` has a reason.
    """
    reason = why_not(container)
    if reason:
        raise NoSandbox(reason)
    if container:
        return container_command(container, argv, private, limits or Limits(), environment())
    return _command(argv, private, limits or Limits())


# The word comes before and after the imports, so that what fails can be told apart: the box, or what it shows.
TRIAL = "print('in the box', flush=True); import grader.paths, numpy; print('and all is there')"
# An image may be the whole course: its environment lies in the course's folder, as `make lab` makes it, or at the top.
TELL_SOLUTIONS = """
import sys
from pathlib import Path
for folder in {Path(sys.prefix).parent, Path(sys.prefix), Path('/')}:
    if (folder / 'solutions').is_dir():
        print('solutions in', folder / 'solutions')
"""


@functools.cache
def why_not(container: str = "") -> str:
    """Return "" if kernels can be shut in here, else the reason and the remedy. Tried out once, with a real process."""
    if container:
        return _why_no_container(container)
    if sys.platform != "linux":
        return (
            "the sandbox needs Linux. On macOS and Windows run the whole grading in a Linux container or in the "
            "GitHub Classroom workflow"
        )
    missing = [name for name in ("bwrap", "prlimit", "setpriv") if shutil.which(name) is None]
    if missing:
        packages = "bubblewrap" if missing == ["bwrap"] else "bubblewrap util-linux"
        return f"{', '.join(missing)} not found: apt-get install {packages} (or your system's packages of these names)"
    try:
        done = subprocess.run(
            _command([sys.executable, "-I", "-c", TRIAL], None, Limits()), capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap does not work here ({error})"
    return _verdict(done)


def _verdict(done: subprocess.CompletedProcess) -> str:
    """Say what went wrong in the trial, or ""."""
    said = (done.stderr or done.stdout).strip().splitlines() or [f"exit status {done.returncode}"]
    if "and all is there" in done.stdout:
        return ""
    if "in the box" in done.stdout:  # so the box works
        shown = ", ".join(map(str, _needed()))
        return (
            f"the sandbox works, but what the kernel needs cannot be imported in it ({said[-1][:200]}). It shows "
            f"{shown} and the system's /usr, and no PYTHONPATH: install the course into a virtual environment of its "
            "own (`make lab` makes .venv) and run its grader"
        )
    if any(word in said[-1] for word in ("No such file", "execvp", "cannot execute")):
        return f"the Python of this environment does not start in the sandbox ({sys.executable}: {said[-1][:200]})"
    return f"bubblewrap does not work here ({said[-1][:200]}); in a container it needs the right to make namespaces"


def _why_no_container(container: str) -> str:
    try:
        with tempfile.TemporaryDirectory(prefix="judge-", dir="/tmp") as folder:
            argv = [sys.executable, "-P", "-c", TRIAL + TELL_SOLUTIONS]
            command = container_command(container, argv, Path(folder), Limits(), environment())
            done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return f"the container command does not work here ({error})"
    if "solutions in" in done.stdout:
        return (
            f"the container's image shows the students' code the {done.stdout.strip().splitlines()[-1]}: use one "
            "without them (docs/Containerfile, --target kernel)"
        )
    if "and all is there" in done.stdout:
        return ""
    said = (done.stderr or done.stdout).strip().splitlines() or [f"exit status {done.returncode}"]
    if "in the box" in done.stdout:
        return f"the container's image lacks what the kernel needs ({said[-1][:200]}): install the course into it"
    return f"the container does not start ({said[-1][:200]})"


def owner() -> int | None:
    """Return a user id for one box where the judge runs as root, else None: the box then has the judge's own."""
    return FIRST_UID + int.from_bytes(os.urandom(4), "big") % UIDS if os.geteuid() == 0 else None


def _command(argv: Sequence[str], private: Path | None, limits: Limits) -> list[str]:
    uid = private.stat().st_uid if private and os.geteuid() == 0 else owner()
    bwrap = ["bwrap", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    if os.geteuid() == 0:
        # Real root must be given up for real: as "root without capabilities" it would still own root's files, and no
        # limit on processes would hold.
        bwrap += ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
        for capability in ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"):
            bwrap += ["--cap-add", capability]
        inner = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--no-new-privs"]
        inner += ["--bounding-set=-all", "--inh-caps=-all"]
    else:
        bwrap += ["--unshare-all", "--unshare-user", "--uid", "1000", "--gid", "1000"]
        inner = []
    inner += [
        "prlimit",
        f"--as={limits.memory}",
        f"--cpu={limits.cpu_seconds}",
        f"--fsize={limits.file}",
        f"--nofile={limits.open_files}",
        f"--nproc={limits.processes}",
        "--core=0",
    ]
    kept = [word for name, value in environment().items() for word in ("--setenv", name, value)]
    return [*bwrap, *_files(private, limits), "--clearenv", *kept, *inner, *argv]


def _files(private: Path | None, limits: Limits) -> list[str]:
    args = ["--ro-bind", "/usr", "/usr"]
    for name in ("/bin", "/sbin", "/lib", "/lib64"):
        if os.path.islink(name):
            args += ["--symlink", os.readlink(name), name]
        elif os.path.isdir(name):
            args += ["--ro-bind", name, name]
    args += ["--perms", "0755", "--dir", "/etc"]
    for name in ("/etc/ld.so.cache", "/etc/fonts", "/etc/localtime", "/etc/alternatives"):
        args += ["--ro-bind-try", name, name]
    args += ["--proc", "/proc", "--dev", "/dev"]
    for folder in (HOME, "/tmp", "/dev/shm"):
        args += ["--perms", "1777", "--size", str(limits.disk), "--tmpfs", folder]
    shown = [*_needed(), *([private] if private else [])]
    # The folders above a bound one must let another user through; left alone, bubblewrap makes them root's own.
    above = {parent for folder in shown for parent in folder.parents if parent not in (Path("/"), Path("/tmp"))}
    for parent in sorted(above - {Path("/usr"), Path("/etc"), *shown}):
        args += ["--perms", "0755", "--dir", str(parent)]
    for folder in _needed():
        args += ["--ro-bind", str(folder), str(folder)]
    if private:
        args += ["--bind", str(private), str(private)]
    # bubblewrap's own root and /dev are small file systems in memory, and could be written without this.
    return [*args, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", HOME]


def _needed() -> list[Path]:
    """The folders of this Python and of the course, each once, none below another."""
    pythons = {Path(sys.prefix), Path(sys.base_prefix), Path(sys.executable).resolve().parent.parent}
    course = {ROOT / "grpo", ROOT / "grader", ROOT / "data"}
    folders = {p for path in pythons | course for p in (path, path.resolve()) if p.exists()} | {Path("/usr")}
    outer = {f for f in folders if not any(f != other and f.is_relative_to(other) for other in folders)}
    return sorted(outer - {Path("/usr")})


def environment() -> dict[str, str]:
    """Return the environment variables of a box; there are no others in it."""
    return {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), "/usr/bin", "/bin"]),
        "HOME": HOME,
        "USER": "student",
        "LOGNAME": "student",
        "TMPDIR": "/tmp",
        "IPYTHONDIR": f"{HOME}/.ipython",
        "MPLCONFIGDIR": f"{HOME}/.matplotlib",
        "OMP_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",  # the order of a set, say, is no reason for another score
        "LANG": "C.UTF-8",
        "HF_HUB_OFFLINE": "1",
    }
