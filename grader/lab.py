"""`make lab`: bring the student's copies of the chapters up to date, never over their work, and open JupyterLab."""

from __future__ import annotations

import argparse
import errno
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from grader import bootstrap
from grader.paths import NOTEBOOKS, ROOT

RECORD = ".course.json"

# Defaults only: what a student sets in JupyterLab's settings stands.
SETTINGS = {"@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False}}


class SyncError(bootstrap.Stop):
    """The student's folder cannot be used. The text says why and what to do."""


@dataclass
class SyncReport:
    """What `sync_course` did, as paths relative to the student's folder, with / on every system."""

    target: Path
    first: bool = False
    """Nothing had been delivered to this folder before."""
    added: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    restored: list[str] = field(default_factory=list)
    offered: list[tuple[str, str]] = field(default_factory=list)
    """(the student's own file, the new version put beside it)"""
    problems: list[str] = field(default_factory=list)
    record_lost: bool = False

    def lines(self) -> list[str]:
        """The report for the terminal, empty when nothing happened."""
        out = []
        if self.record_lost:
            out.append(f"{RECORD} could not be read, so every file that differs from the course counts as your work.")
        if self.added:
            out.append(f"New: {_listed(self.added)}.")
        if self.updated:
            out.append(f"Updated, since you had not changed them: {_listed(self.updated)}.")
        if self.restored:
            out.append(f"Missing, so copied again: {_listed(self.restored)}.")
        for mine, new in self.offered:
            out.append(f"The course changed {mine}, and so did you: yours stays, the new version is beside it: {new}.")
        return out + self.problems


def _listed(names: list[str]) -> str:
    """Names of a few files; of many, the folders they are in."""
    if len(names) > 4:
        names = list(dict.fromkeys(name.split("/")[0] for name in names))
    return ", ".join(names)


# ---- the student's copies ----------------------------------------------------------------------------------------


def sync_course(source: Path, target: Path) -> SyncReport:
    """Bring the student's folder `target` up to date with the chapters in `source`, never over a student's work.

    A file is the student's work when it differs from what was delivered last. Notebooks are compared by their cells
    (type, id, source, nbgrader's metadata), not by bytes: opening, running and saving one changes the bytes only.

    - not there yet: copied; deleted by the student: copied again, and said
    - not the student's work: replaced when the course's file changed
    - the student's work: stays. A changed course's file is put beside it as NAME.new.ipynb, once per change
    - not in `source` any more: stays

    Raises:
        SyncError: `source` has no notebook, or `target` cannot be a folder to write in, or the disk is full.
    """
    if not any(source.glob("*/*.ipynb")):
        raise SyncError(f"There are no chapters in {source}.\nNext: git checkout notebooks, or clone the course again.")
    if os.path.lexists(target) and not target.is_dir():
        raise SyncError(f"{target} is not a folder, and your chapters go there.\nNext: rename it, then start again.")
    if source.resolve() in (target.resolve(), *target.resolve().parents):
        raise SyncError(f"{target} is inside {source}, the course's own files.\nNext: choose another folder.")
    report = SyncReport(target)
    try:
        target.mkdir(parents=True, exist_ok=True)
        record = _read_record(target, report)
        try:
            for name in _files(source):
                try:
                    _sync_file(name, source / name, target / name, record, report)
                except OSError as error:
                    if error.errno in (errno.ENOSPC, getattr(errno, "EDQUOT", -1), errno.EROFS):
                        raise
                    report.problems.append(f"{name} was not copied: {error.strerror or error} ({error.filename}).")
        finally:
            _write(target / RECORD, json.dumps({"version": 1, "files": record}, indent=1, sort_keys=True).encode())
    except OSError as error:
        raise SyncError(bootstrap.describe(error, target)) from None
    return report


def _files(source: Path) -> Iterator[str]:
    """Relative paths of everything that students get, in order; nothing hidden, no caches."""
    for folder, folders, files in os.walk(source):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__pycache__")))
        for name in sorted(files):
            if not name.startswith("."):
                yield (Path(folder) / name).relative_to(source).as_posix()


def _sync_file(name: str, source: Path, mine: Path, record: dict[str, dict], report: SyncReport) -> None:
    data = source.read_bytes()
    new = _fingerprint(name, data)
    entry = record.get(name)
    if not os.path.lexists(mine):
        mine.parent.mkdir(parents=True, exist_ok=True)
        _write(mine, data)
        (report.added if entry is None else report.restored).append(name)
        record[name] = new
        return
    if mine.is_dir():
        report.problems.append(f"{name} was not copied: a folder of that name is in its place.")
        return
    have = _fingerprint(name, mine.read_bytes()) if mine.exists() else {}
    if _same(have, new):
        record[name] = new
    elif entry is not None and _same(have, entry) and not mine.is_symlink():
        _write(mine, data)
        report.updated.append(name)
        record[name] = new
    elif entry is None or not (_same(new, entry) or _same(new, entry.get("offered", {}))):
        beside = _offer(name, data, new, mine, (entry or {}).get("offered", {}))
        report.offered.append((name, beside.relative_to(report.target).as_posix()))
        record[name] = {**(entry or {}), "offered": new}


def _offer(name: str, data: bytes, new: dict, mine: Path, offered: dict) -> Path:
    """Put a new version beside the student's file, in a free name or in place of an older offer left as it was."""
    number = 1
    while True:
        beside = mine.with_name(f"{mine.stem}.new{f'-{number}' if number > 1 else ''}{mine.suffix}")
        if not os.path.lexists(beside):
            break
        if beside.is_file() and not beside.is_symlink():
            there = _fingerprint(name, beside.read_bytes())
            if _same(there, new):
                return beside
            if _same(there, offered):
                break
        number += 1
    _write(beside, data)
    return beside


def _fingerprint(name: str, data: bytes) -> dict[str, str]:
    """What a file is compared by: the hash of its bytes and, for a notebook, of what a person can change in it."""
    prints = {"sha256": hashlib.sha256(data).hexdigest()}
    if name.endswith(".ipynb"):
        try:
            cells = [
                (cell["cell_type"], cell.get("id"), "".join(cell["source"]), cell["metadata"].get("nbgrader"))
                for cell in json.loads(data)["cells"]
                if "".join(cell["source"]).strip()  # running the last cell adds an empty one
            ]
        except (ValueError, KeyError, TypeError, AttributeError):
            return prints  # not a notebook that can be read; its bytes decide
        prints["cells"] = hashlib.sha256(json.dumps(cells, sort_keys=True).encode()).hexdigest()
    return prints


def _same(one: dict, other: dict) -> bool:
    return any(key in one and one[key] == other.get(key) for key in ("sha256", "cells"))


def _read_record(target: Path, report: SyncReport) -> dict[str, dict]:
    """What was delivered, by file; empty when unknown, which makes every file that differs the student's work."""
    try:
        files = json.loads((target / RECORD).read_bytes())["files"]
        if all(isinstance(e, dict) and isinstance(e.get("offered", {}), dict) for e in files.values()):
            return dict(files)
    except FileNotFoundError:
        report.first = True
        return {}
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    report.record_lost = True
    return {}


def _write(path: Path, data: bytes) -> None:
    """Write a file so that at any moment the old one or the new one is there, whole."""
    part = path.with_name(f".{path.name}.part-{os.getpid()}")
    try:
        part.write_bytes(data)
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


# ---- JupyterLab --------------------------------------------------------------------------------------------------


def lab(
    extras: Sequence[str] = (),
    course_dir: Path | str | None = None,
    no_browser: bool = False,
    port: int | None = None,
    jupyter_args: Sequence[str] = (),
) -> int:
    """Open the course in JupyterLab and stay until it ends. Returns JupyterLab's exit status.

    Args:
        extras: extras of pyproject.toml that have to be installed, e.g. ["qwen3"].
        course_dir: the student's folder; my_course/ in the course's folder if None.
        no_browser: do not open a browser, only print the address.
        port: the first port to try; JupyterLab's default if None.
        jupyter_args: more arguments for `jupyter lab`.

    Raises:
        grader.bootstrap.Stop: something is in the way; the text is for the user.
    """
    python = bootstrap.ensure(list(extras))
    target = Path(course_dir).expanduser().absolute() if course_dir else ROOT / "my_course"
    report = sync_course(NOTEBOOKS, target)
    for line in report.lines():
        print(line)
    print(f"Your copies of the chapters are in {target}.")
    print("JupyterLab starts on them. To stop it: Ctrl-C in this window, twice. To come back: make lab.", flush=True)
    command = [python, "-m", "jupyterlab", f"--ServerApp.root_dir={target}", "--Application.log_level=ERROR"]
    command += _encrypted_kernels()
    if report.first:
        chapter = next(name for name in _files(NOTEBOOKS) if name.endswith(".ipynb"))
        command.append(f"--LabApp.default_url=/lab/tree/{quote(chapter)}")
    if no_browser:
        command.append("--no-browser")
    if port is not None:
        command.append(f"--ServerApp.port={port}")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")  # a container; JupyterLab would refuse to start
    with tempfile.TemporaryDirectory(prefix="grpo-lab-", ignore_cleanup_errors=True) as config:
        overrides = Path(config) / "labconfig" / "default_setting_overrides.json"
        overrides.parent.mkdir()
        overrides.write_text(json.dumps(SETTINGS), encoding="utf-8")
        status = bootstrap.attached([*command, *jupyter_args], env=_environment(python, config))
    print(f"\nJupyterLab has ended. Your work is in {target}; make lab brings you back.")
    return status


def _encrypted_kernels() -> list[str]:
    """Options that encrypt the traffic with kernels, where possible; without it ipykernel 7.4 warns at each start."""
    try:
        import zmq
        from jupyter_client.manager import KernelManager
    except ImportError:  # started from a Python that is not the course's
        return []
    can = zmq.has("curve") and hasattr(KernelManager, "transport_encryption")
    return ["--KernelManager.transport_encryption=auto"] if can else []


def _environment(python: str, config: str) -> dict[str, str]:
    """The environment in which a notebook's kernel `python3` is `python`, whatever kernels the user has installed."""
    env = bootstrap.own_environment()
    folder = Path(python).parent  # of .venv/bin/python, not of what that links to
    prefix = Path(sys.prefix) if python == sys.executable else bootstrap.venv_folder()
    firsts = {"JUPYTER_PATH": prefix / "share" / "jupyter", "JUPYTER_CONFIG_PATH": config, "PATH": folder}
    for name, first in firsts.items():
        env[name] = os.pathsep.join([str(first), *filter(None, [env.get(name)])])
    return env


def main(argv: list[str]) -> int:
    """`grader lab ARGS`. What is not an option here goes to JupyterLab. Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="grader lab",
        allow_abbrev=False,
        description="Copy the chapters to my_course/, never over your work, and open them in JupyterLab.",
        epilog="Other options go to JupyterLab as they are.",
    )
    parser.add_argument("--extras", default="", help="also install these, e.g. qwen3 (torch, from chapter 06 on)")
    parser.add_argument("--course-dir", help="folder for your copies (default: my_course)")
    parser.add_argument("--no-browser", action="store_true", help="only print the address")
    parser.add_argument("--port", type=int, help="first port to try")
    options, rest = parser.parse_known_args(argv)
    extras = bootstrap.extras_option([f"--extras={options.extras}"])
    return lab(extras, options.course_dir, options.no_browser, options.port, [arg for arg in rest if arg != "--"])
