"""Files that appear whole: a reader, or a process killed meanwhile, sees the old one or the new one and no half."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def write_whole(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a text in UTF-8 as it is (line ends included); folders that are not there are made.

    Raises:
        OSError: it cannot be written; what was there stays.
    """
    with _in_its_place(path) as temporary, open(temporary, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())  # else the new name may outlive a power cut, and what is in it not
        os.chmod(temporary, mode)


def copy_whole(source: Path, path: Path) -> None:
    """Copy a file with its time, unless the copy is there: a file of this size and this time.

    Raises:
        OSError: it cannot be copied; what was there stays.
    """
    there = path.stat() if path.exists() else None
    new = source.stat()
    if there is not None and (there.st_size, there.st_mtime_ns) == (new.st_size, new.st_mtime_ns):
        return
    with _in_its_place(path) as temporary:
        shutil.copyfile(source, temporary)
        shutil.copystat(source, temporary)
        os.chmod(temporary, 0o644)


@contextmanager
def _in_its_place(path: Path) -> Iterator[str]:
    """Give out a temporary name beside `path`, which takes its place at the end of the block, or goes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:80]}-", suffix=".part")
    os.close(handle)
    try:
        yield temporary
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
