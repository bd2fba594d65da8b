"""One process at a time writes into a folder.

The operating system keeps the lock and drops it when the process ends, however it ends: a killed one leaves nothing
behind that has to be cleared away. The file ".lock" stays in the folder and says nothing by being there.
"""

from __future__ import annotations

from pathlib import Path

from filelock import FileLock, Timeout

LOCK_FILE = ".lock"


class FolderInUse(ValueError):
    """Another process writes into the folder. The message names it, and says what to do."""


def hold_folder(folder):
    """Keep other processes out of a folder, from this call on.

    Args:
        folder: path; the folder is made if there is none.

    Returns: a context manager; with the end of its `with` block the folder is free again. The same process may hold a
    folder several times: it is free when the last block has ended.

    Raises: FolderInUse if another process holds it; OSError if the folder cannot be written.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    # One lock object for all spellings of a path: a second one would be kept out by the first.
    lock = FileLock(folder.resolve() / LOCK_FILE, timeout=0, thread_local=False, is_singleton=True)
    try:
        return lock.acquire()
    except Timeout as error:
        raise FolderInUse(
            f"another process writes into {folder}, and two would spoil each other's work: wait until it has ended, or "
            "end it, then try again; or choose another --out"
        ) from error
