"""A kernel in the box: what nbclient starts instead of an ordinary one, so that nothing else has to know."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import zmq
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager

from grader.judge import sandbox

KERNEL = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
# Sockets have names of at most some 100 bytes, whatever TMPDIR says.
SHORT_FOLDER = "/tmp"
MAX_MESSAGE = 64_000_000


class SandboxedKernelManager(AsyncKernelManager):
    """Starts the kernel inside `grader.judge.sandbox`; judge and kernel meet at sockets in a folder of their own.

    Raises (when started): sandbox.NoSandbox where this machine cannot shut a kernel in.
    """

    limits = sandbox.Limits()

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.private = Path(tempfile.mkdtemp(prefix="judge-", dir=SHORT_FOLDER))
        uid = sandbox.owner()
        if uid is not None:
            os.chown(self.private, uid, uid)
        # A message larger than this cuts the connection instead of filling the judge's memory.
        self.context.setsockopt(zmq.MAXMSGSIZE, MAX_MESSAGE)
        self.transport = "ipc"
        self.ip = str(self.private / "socket")
        self.connection_file = str(self.private / "kernel.json")

    @property
    def kernel_spec(self):
        """The course's own kernel, whatever kernels are installed. Interrupts go as messages: a signal would stop at
        the box and never reach the kernel in it."""
        return KernelSpec(argv=KERNEL, display_name="Python 3", language="python", interrupt_mode="message")

    def format_kernel_cmd(self, extra_arguments=None):
        command = [part.format(connection_file=self.connection_file) for part in KERNEL + list(extra_arguments or [])]
        owner = self.private.stat()
        if os.geteuid() == 0:
            os.chown(self.connection_file, owner.st_uid, owner.st_gid)
        return sandbox.wrap(command, self.private, self.limits)

    async def _async_start_kernel(self, **options):
        # What the process says before there is a channel for it (a greeting, a traceback of its own) is no output
        # of the notebook, and the judge's terminal is not the student's.
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "stdin": subprocess.DEVNULL}
        await super()._async_start_kernel(**{**options, **quiet})

    start_kernel = _async_start_kernel

    async def _async_cleanup_resources(self, restart=False):
        await super()._async_cleanup_resources(restart=restart)
        if not restart:
            shutil.rmtree(self.private, ignore_errors=True)

    cleanup_resources = _async_cleanup_resources
