"""The folder of a run, and checkpoints that are complete or not there at all, whenever the process dies.

    OUT/run.json                          settings, and what the run was made of
    OUT/metrics.jsonl                     the signals, one line per step
    OUT/reference/                        the frozen start of the run, if there is a KL penalty
    OUT/checkpoints/step-000025/policy/   model and tokenizer, as `load_model` and transformers read them
                               /optimizer.safetensors, state.json, manifest.json
    OUT/checkpoints/latest                name of the newest checkpoint
    OUT/.lock                             held by the process that trains (`folder_lock`)

A folder is filled under a temporary name, flushed to the disk, and renamed: the rename is the moment at which it
exists. Its manifest holds size and SHA-256 of every file, so what a dying disk leaves behind is found when it is read.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
from pathlib import Path

from grpo.qwen3.folder_lock import LOCK_FILE, hold_folder

MANIFEST = "manifest.json"
RUN_FILE = "run.json"
METRICS_FILE = "metrics.jsonl"
REFERENCE = "reference"
CHECKPOINTS = "checkpoints"
LATEST = "latest"
UNFINISHED = ".unfinished-"
_STEP = re.compile(r"step-(\d{6,})")
# What the operating system says when a file cannot be written, and what to do about it.
_DISK_REMEDIES = {
    errno.ENOSPC: "the disk is full: free some space or choose another --out",
    errno.EDQUOT: "your quota is used up: free some space or choose another --out",
    errno.EACCES: "writing is not permitted there: choose another --out",
    errno.EPERM: "writing is not permitted there: choose another --out",
    errno.EROFS: "that file system is read-only: choose another --out",
}


class CheckpointError(RuntimeError):
    """A checkpoint cannot be written or read; the message says why, what is still there, and what to do."""


def write_folder(target, fill):
    """Make a folder that is complete from the first moment at which it can be seen.

    Args:
        target: path of the folder; its parent exists. One that is there already is replaced.
        fill: callable (path of an empty folder) -> None, which writes the files.

    Returns: Path, the target.

    Raises: whatever `fill` raises; then there is no trace of the new folder, and an older one is as it was.
    """
    target = Path(target)
    temporary = target.parent / f"{UNFINISHED}{target.name}"
    _remove(temporary)
    try:
        temporary.mkdir()
        fill(temporary)
        names = sorted(path.relative_to(temporary).as_posix() for path in temporary.rglob("*") if path.is_file())
        manifest = {
            name: {"bytes": (temporary / name).stat().st_size, "sha256": _sha256(temporary / name)} for name in names
        }
        (temporary / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
        for path in [*temporary.rglob("*"), temporary]:
            _flush_to_disk(path)
        if target.exists():
            old = target.parent / f"{UNFINISHED}old-{target.name}"
            _remove(old)
            target.rename(old)
            temporary.rename(target)
            _remove(old)
        else:
            temporary.rename(target)
        _flush_to_disk(target.parent)
    except BaseException:
        _remove(temporary)
        raise
    return target


def verify_folder(folder):
    """Check a folder of `write_folder` against its manifest.

    Raises: CheckpointError that names the file which is missing, cut short or changed.
    """
    folder = Path(folder)
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        entries = {name: (entry["bytes"], entry["sha256"]) for name, entry in manifest.items()}
    except (OSError, ValueError, AttributeError, KeyError, TypeError) as error:
        raise CheckpointError(f"{folder} is not complete: its {MANIFEST} is missing or unreadable") from error
    for name, (size, digest) in entries.items():
        path = folder / name
        if not path.is_file():
            raise CheckpointError(f"{path} is missing")
        if path.stat().st_size != size:
            raise CheckpointError(f"{path} has {path.stat().st_size} bytes where {size} were written")
        if _sha256(path) != digest:
            raise CheckpointError(f"{path} has changed since it was written: its checksum is another one")


def write_file(path, text):
    """Replace a small text file in one go: a reader, or a kill in the middle, finds the old text or the new one."""
    path = Path(path)
    temporary = path.parent / f"{UNFINISHED}{path.name}"
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    _flush_to_disk(path.parent)


class RunFolder:
    """The folder of one run: claimed once, then filled with checkpoints.

    Args:
        path: the folder. It is neither read nor written yet: see `claim` and `require_run`.
        keep: how many of the newest checkpoints stay.
    """

    def __init__(self, path, keep=2):
        self.path = Path(path)
        self.keep = keep

    @property
    def metrics(self):
        """Path of metrics.jsonl."""
        return self.path / METRICS_FILE

    @property
    def reference(self):
        """Path of the frozen start's folder."""
        return self.path / REFERENCE

    def require_free(self):
        """Raise unless a new run may start here: the folder is empty, missing, or a start of ours that never got far.

        Raises: CheckpointError for a file, a folder that holds anything else, or one that cannot be written.
        """
        if self.path.exists() and not self.path.is_dir():
            raise CheckpointError(f"{self.path} is a file: choose another --out")
        if self.path.is_dir() and not self._is_abandoned_start():
            what = "a run already: add --resume to go on with it," if self.is_run() else "files already:"
            raise CheckpointError(f"{self.path} holds {what} or choose another --out")

    def claim(self, about):
        """Start a run here.

        Args:
            about: plain data for run.json.

        Raises: CheckpointError as in `require_free`, or if the folder cannot be written; FolderInUse as in `hold`.
        """
        self.require_free()
        with self.hold(), self.disk_errors():
            self.require_free()  # once more: another process may have been faster
            for child in self.path.iterdir():
                if child.name != LOCK_FILE:
                    _remove(child)
            # First of all, so that a start which is killed from here on can be told from somebody else's folder.
            self.write_about(about)
            (self.path / CHECKPOINTS).mkdir()

    def hold(self):
        """Keep other processes out from now on: `with folder.hold(): ...`. The folder is made if there is none.

        Returns: a context manager (`grpo.qwen3.folder_lock.hold_folder`).

        Raises: FolderInUse if another process holds the folder; CheckpointError if it cannot be written.
        """
        with self.disk_errors():
            return hold_folder(self.path)

    def write_about(self, about):
        """Replace run.json."""
        write_file(self.path / RUN_FILE, json.dumps(about, indent=1) + "\n")

    def about(self):
        """The plain data of run.json. Raises CheckpointError if there is none."""
        try:
            return json.loads((self.path / RUN_FILE).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{self.path} holds no run: its {RUN_FILE} is missing or unreadable") from error

    def is_run(self):
        """Whether a run was started here."""
        return (self.path / RUN_FILE).is_file()

    def save(self, step, fill):
        """Write the checkpoint of a step, point to it, and drop the oldest ones.

        Args:
            step: int, iterations done.
            fill: as in `write_folder`.

        Returns: Path.

        Raises: CheckpointError if the disk refuses; the checkpoints before it are as they were.
        """
        parent = self.path / CHECKPOINTS
        with self.disk_errors():
            target = write_folder(parent / f"step-{step:06d}", fill)
            write_file(parent / LATEST, target.name + "\n")
        for old in self.steps()[: -self.keep]:
            _remove(self._folder(old))
        return target

    def steps(self):
        """list of int, ascending: the steps of which a checkpoint folder exists (verified or not)."""
        parent = self.path / CHECKPOINTS
        names = [path.name for path in parent.iterdir()] if parent.is_dir() else []
        return sorted(int(match.group(1)) for match in map(_STEP.fullmatch, names) if match)

    def newest(self):
        """Path of the newest checkpoint that is complete and unchanged; damaged ones are passed over.

        Returns: (Path, list of str: what is wrong with those that were passed over).

        Raises: CheckpointError if there is none.
        """
        faults = []
        for step in reversed(self.steps()):
            try:
                verify_folder(self._folder(step))
            except CheckpointError as error:
                faults.append(str(error))
                continue
            return self._folder(step), faults
        if not self.is_run():
            raise CheckpointError(f"{self.path} holds no run to resume: check --out, or leave out --resume")
        reason = f" ({'; '.join(faults)})" if faults else ""
        raise CheckpointError(f"{self.path} holds no complete checkpoint{reason}: start anew without --resume")

    @contextlib.contextmanager
    def disk_errors(self):
        """Turn what a full or forbidden disk raises into one CheckpointError that says what is left."""
        try:
            yield
        except Exception as error:
            code = _error_number(error)
            if code is None:
                raise
            remedy = _DISK_REMEDIES.get(code, f"{os.strerror(code)}: choose another --out")
            steps = self.steps()
            left = f" The checkpoint of step {steps[-1]} is complete: --resume goes on from it." if steps else ""
            raise CheckpointError(f"cannot write to {self.path}: {remedy}.{left}") from error

    def _folder(self, step):
        return self.path / CHECKPOINTS / f"step-{step:06d}"

    def _is_abandoned_start(self):
        """Empty, or what `claim` and the steps before the first checkpoint leave when they are killed."""
        names = {path.name for path in self.path.iterdir()} - {f"{UNFINISHED}{RUN_FILE}", LOCK_FILE}
        if not self.is_run():
            return not names
        ours = {RUN_FILE, CHECKPOINTS, REFERENCE, f"{UNFINISHED}{REFERENCE}"}
        return names <= ours and not self.steps()


def _error_number(error):
    """The errno behind an exception, or None. safetensors reports it inside its own message only."""
    if isinstance(error, OSError):
        return error.errno
    found = re.search(r"\(os error (\d+)\)", str(error))
    return int(found.group(1)) if found and type(error).__name__ == "SafetensorError" else None


def _remove(path):
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _sha256(path):
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _flush_to_disk(path):
    """fsync a file or a folder; Windows cannot open folders and needs no such call."""
    if os.name == "nt" and path.is_dir():
        return
    handle = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
