"""A JupyterLab of a test's own, and Chromium to look at it with."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

TOKEN = "course"


@contextmanager
def jupyterlab(
    cwd: Path, home: Path, variables: Mapping[str, str] = {}, options: tuple[str, ...] = ()
) -> Iterator[str]:
    """Start JupyterLab in the folder `cwd`, with its log and its configuration in `home`; give its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    env = {**os.environ, "JUPYTER_CONFIG_DIR": str(home / "config"), "OMP_NUM_THREADS": "1", **variables}
    env.pop("MPLBACKEND", None)
    log = home / "lab.log"
    with log.open("w") as file:
        server = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", "--no-browser", f"--port={port}", "--ip=127.0.0.1",
             f"--IdentityProvider.token={TOKEN}", "--allow-root", *options],
            cwd=cwd, env=env, stdout=file, stderr=subprocess.STDOUT,
        )  # fmt: skip
        address = f"http://127.0.0.1:{port}"
        try:
            for _ in range(240):
                try:
                    urllib.request.urlopen(f"{address}/api?token={TOKEN}", timeout=2)
                    break
                except OSError:
                    assert server.poll() is None, log.read_text()
                    time.sleep(0.25)
            else:
                pytest.fail("JupyterLab did not answer: " + log.read_text())
            yield address
        finally:
            server.terminate()
            server.wait(20)


def start_chromium(playwright, path: str):
    """Start a Chromium that asks nobody outside for anything."""
    return playwright.chromium.launch(
        executable_path=path,
        args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--disable-quic", "--no-first-run",
              "--disable-background-networking", "--disable-component-update", "--disable-sync"],
    )  # fmt: skip
