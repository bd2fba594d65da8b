"""A kernel in the box: what nbclient starts instead of an ordinary one, so that nothing else has to know."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import zmq
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from traitlets import Bool, List, Unicode

from grader.judge import sandbox
from grader.judge.start import USUAL

# Sockets have names of at most some 100 bytes, whatever TMPDIR says.
SHORT_FOLDER = "/tmp"
PREFIX = "judge-"
MAX_MESSAGE = 64_000_000
INLINE = "module://matplotlib_inline.backend_inline"
NO_PICTURES = "module://grader.judge.no_pictures"
JUST_MADE = 60  # seconds in which a folder may belong to a process that has not locked it yet


class SandboxedKernelManager(AsyncKernelManager):
    """Starts the kernel inside `grader.judge.sandbox`; judge and kernel meet at sockets in a folder of their own.

    Raises (when started): sandbox.NoSandbox where this machine cannot shut a kernel in.
    """

    limits = sandbox.Limits()
    pictures = Bool(True, help="draw the notebook's plots").tag(config=True)
    container = Unicode(help="a command that starts a container, in place of bubblewrap").tag(config=True)
    preload = List(Unicode(), list(USUAL), help="modules that are there before the student's code").tag(config=True)

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.private = Path(tempfile.mkdtemp(prefix=PREFIX, dir=SHORT_FOLDER))
        self._hold = _lock(self.private)
        uid = sandbox.owner()
        if uid is not None:
            os.chown(self.private, uid, uid)
        # A message larger than this cuts the connection instead of filling the judge's memory.
        self.context.setsockopt(zmq.MAXMSGSIZE, MAX_MESSAGE)
        self.transport = "ipc"
        self.ip = str(self.private / "socket")
        self.connection_file = str(self.private / "kernel.json")

    def _command(self) -> list[str]:
        backend = INLINE if self.pictures else NO_PICTURES
        return [
            sys.executable, "-m", "grader.judge.start", backend, ",".join(self.preload), "-f", "{connection_file}"
        ]  # fmt: skip

    @property
    def kernel_spec(self):
        """The course's own kernel, whatever kernels are installed. Interrupts go as messages: a signal would stop at
        the box and never reach the kernel in it."""
        return KernelSpec(argv=self._command(), display_name="Python 3", language="python", interrupt_mode="message")

    def format_kernel_cmd(self, extra_arguments=None):
        words = self._command() + list(extra_arguments or [])
        command = [word.format(connection_file=self.connection_file) for word in words]
        owner = self.private.stat()
        if os.geteuid() == 0:
            os.chown(self.connection_file, owner.st_uid, owner.st_gid)
        return sandbox.wrap(command, self.private, self.limits, self.container)

    async def _async_start_kernel(self, **options):
        # What the process says before there is a channel for it (a greeting, a traceback of its own) is no output
        # of the notebook, and the judge's terminal is not the student's.
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "stdin": subprocess.DEVNULL}
        await super()._async_start_kernel(**{**options, **quiet})

    start_kernel = _async_start_kernel

    async def _async_cleanup_resources(self, restart=False):
        await super()._async_cleanup_resources(restart=restart)
        if not restart:
            self.leave_nothing()

    cleanup_resources = _async_cleanup_resources

    def leave_nothing(self) -> None:
        """Kill the box, if it is still there, and remove its folder."""
        process = getattr(self.provisioner, "process", None)
        if process is not None and process.poll() is None:
            process.kill()
        remove(self.private)
        if self._hold is not None:
            os.close(self._hold)
            self._hold = None


def remove(folder: Path) -> None:
    """Remove a folder that a student's code could write to, whatever is in it; what cannot be removed stays."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except RecursionError:  # it goes as deep as the folders do; the system's own programs do not
        pass
    if folder.is_dir() and not folder.is_symlink():
        for command in (["chmod", "-R", "u+rwX"], ["rm", "-rf"]):
            subprocess.run([*command, "--", str(folder)], capture_output=True, timeout=600, check=False)


def _lock(folder: Path) -> int | None:
    """Mark a folder as in use for as long as this process lives, or return None where another one has."""
    import fcntl

    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle


def sweep(folder: Path = Path(SHORT_FOLDER)) -> int:
    """Remove what judges that were killed have left there, and return how many folders that were."""
    if sys.platform != "linux":
        return 0
    swept = 0
    for left in folder.glob(f"{PREFIX}*"):
        try:
            if left.is_symlink() or time.time() - left.stat().st_mtime < JUST_MADE:
                continue
            handle = _lock(left)
        except OSError:  # another user's, or gone by now
            continue
        if handle is not None:
            remove(left)
            os.close(handle)
            swept += 1
    return swept
