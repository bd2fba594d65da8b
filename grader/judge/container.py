"""A container in place of bubblewrap, where there is none: podman or docker, with an image that holds the course.

The instructor gives the beginning of the command, its image last: `podman run grpo-course`. What shuts the student's
code in is put behind `run`: no network, a read-only file system, an unknown user without rights, and the limits.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from grader.paths import ROOT

if TYPE_CHECKING:
    from grader.judge.sandbox import Limits


def container_command(
    template: str, argv: Sequence[str], private: Path, limits: Limits, environment: Mapping[str, str]
) -> list[str]:
    """Return the command that runs `argv` in a container.

    Args:
        template: as given: program, options, `run`, options, image. Options of its own come last, so they win.
        argv: the command; where it begins with this Python, the image's `python` takes its place.
        private: a folder that is seen, read and written, at the same path on both sides.
        limits: what it may use. All hold for the container as a whole, but `cpu_seconds` and `file`.
        environment: its variables; PATH is the image's own.

    Raises: ValueError if the template has no `run` or no image.
    """
    words = shlex.split(template)
    if "run" not in words or words[-1] == "run" or words[-1].startswith("-"):
        raise ValueError(f"{template!r} is no container command: write it like `podman run IMAGE`, the image last")
    place = words.index("run") + 1
    owner = private.stat()
    home = environment["HOME"]
    options = ["--rm", "--init", "--network=none", "--read-only", "--cap-drop=ALL", "--ipc=private"]
    options += ["--security-opt=no-new-privileges", f"--user={owner.st_uid}:{owner.st_gid}"]
    options += [f"--memory={limits.box_memory}", f"--memory-swap={limits.box_memory}"]
    options += [f"--pids-limit={limits.processes}", f"--ulimit=cpu={limits.cpu_seconds}", "--ulimit=core=0"]
    options += [f"--ulimit=fsize={limits.file}", f"--ulimit=nofile={limits.open_files}"]
    options += [f"--tmpfs={folder}:rw,mode=1777,size={limits.disk}" for folder in (home, "/tmp")]
    options += [f"--shm-size={limits.disk}", f"--volume={private}:{private}"]
    options += [f"--volume={ROOT / name}:{ROOT / name}:ro" for name in ("grpo", "grader", "data")]
    kept = {name: value for name, value in environment.items() if name != "PATH"} | {"PYTHONPATH": str(ROOT)}
    options += [f"--env={name}={value}" for name, value in kept.items()]
    options += [f"--workdir={home}"]
    inner = ["python", *argv[1:]] if argv and os.path.realpath(argv[0]) == os.path.realpath(sys.executable) else argv
    return [*words[:place], *options, *words[place:], *inner]
