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
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.paths import ROOT

HOME = "/home/student"
MB = 1_000_000
# A user id of its own for every box, where the judge runs as root: the limit on processes counts per user.
FIRST_UID, UIDS = 2_000_000, 60_000


@dataclass(frozen=True)
class Limits:
    """What one kernel may use. Bytes and seconds; `processes` counts threads too."""

    memory: int = 6_000 * MB  # of address space; importing torch alone takes 3 GB of it, most of it never touched
    cpu_seconds: int = 900
    disk: int = 64 * MB  # for each of home and /tmp
    file: int = 32 * MB
    open_files: int = 256
    processes: int = 256


class NoSandbox(Exception):
    """There is no way to shut a kernel in on this machine; the message says why and what to do."""


def wrap(argv: Sequence[str], private: Path, limits: Limits | None = None) -> list[str]:
    """Return the command that runs `argv` in a box of its own.

    Args:
        argv: the command; its paths must lie in what the box shows (this Python, grpo, grader, data, `private`).
        private: a folder that is seen, read and written, at the same path on both sides: for the kernel's sockets.
        limits: what it may use.

    Raises: NoSandbox where `why_not()` has a reason.
    """
    reason = why_not()
    if reason:
        raise NoSandbox(reason)
    return _command(argv, private, limits or Limits())


@functools.cache
def why_not() -> str:
    """Return "" if kernels can be shut in here, else the reason and the remedy. Tried out once, with a real process."""
    if sys.platform != "linux":
        return "the sandbox needs Linux (on macOS and Windows: run the grading in a Linux container)"
    missing = [name for name in ("bwrap", "prlimit", "setpriv") if shutil.which(name) is None]
    if missing:
        packages = "bubblewrap" if missing == ["bwrap"] else "bubblewrap util-linux"
        return f"{', '.join(missing)} not found: apt-get install {packages} (or your system's packages of these names)"
    program = [sys.executable, "-I", "-c", "import grader.paths, numpy; print('in the box')"]
    try:
        done = subprocess.run(_command(program, None, Limits()), capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap does not work here ({error})"
    if done.stdout.strip() != "in the box":
        said = (done.stderr or done.stdout).strip().splitlines() or [f"exit status {done.returncode}"]
        return f"bubblewrap does not work here ({said[-1][:200]}); in a container it needs the right to make namespaces"
    return ""


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
    return [*bwrap, *_files(private, limits), *_environment(), *inner, *argv]


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


def _environment() -> list[str]:
    values = {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), "/usr/bin", "/bin"]),
        "HOME": HOME,
        "USER": "student",
        "LOGNAME": "student",
        "TMPDIR": "/tmp",
        "IPYTHONDIR": f"{HOME}/.ipython",
        "MPLCONFIGDIR": f"{HOME}/.matplotlib",
        "OMP_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "LANG": "C.UTF-8",
        "HF_HUB_OFFLINE": "1",
    }
    return ["--clearenv", *(word for name, value in values.items() for word in ("--setenv", name, value))]
