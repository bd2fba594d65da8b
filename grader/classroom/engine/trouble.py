"""Trouble that is nobody's work: a gradebook that is locked, read-only or damaged, a disk that is full.

It ends the grading with a sentence instead of failing one row after another; what is done stays done.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from contextlib import closing
from pathlib import Path

from grader.classroom.whole import write_whole

FULL = tuple({errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)})
PROBE = 256_000  # bytes; less than one judged notebook
GO_ON = "what is done is kept: the same command goes on from here"


class Unusable(Exception):
    """The gradebook, or the disk that it lies on, does not work; the message is the database's or the system's."""


def is_full(error: BaseException) -> bool:
    """Tell whether an error says that there is no room left."""
    return isinstance(error, OSError) and error.errno in FULL


def trouble_with(work: Path) -> str:
    """Try whether the gradebook of a work folder, and its disk, can be written; return "" or what is wrong."""
    path, probe = work / "gradebook.db", work / ".probe"
    try:
        if path.exists():
            with closing(sqlite3.connect(path, timeout=1, isolation_level=None)) as database:
                database.execute("BEGIN IMMEDIATE")
                database.execute("CREATE TABLE probe (x)")  # to begin is allowed to whoever may only read
                database.execute("ROLLBACK")
        write_whole(probe, "." * PROBE)
    except (sqlite3.Error, OSError) as error:
        return str(error)
    finally:
        probe.unlink(missing_ok=True)
    return ""


def in_words(error: BaseException, work: Path) -> str:
    """Say what is wrong with the gradebook or the disk of a work folder, and what to do."""
    path, said = work / "gradebook.db", str(error).partition("\n")[0]
    if is_full(error) or any(f"[Errno {number}]" in said for number in FULL) or "disk is full" in said:
        return f"there is no room left for {work} ({said}); make room, then grade again: {GO_ON}"
    if "locked" in said or "busy" in said:
        return (
            f"another program has locked the gradebook {path} ({said}): end the formgrader or database browser that "
            f"is using it; {GO_ON}"
        )
    if "readonly" in said or "read-only" in said or "unable to open" in said or isinstance(error, PermissionError):
        if os.access(path, os.W_OK) and os.access(work, os.W_OK):
            return f"the gradebook {path} cannot be written ({said}); {GO_ON}"
        return (
            f"the gradebook {path} cannot be written ({said}): give yourself the right to write it and its folder, or "
            f"name another --work; {GO_ON}"
        )
    if "disk I/O" in said:
        return f"the gradebook {path} cannot be written ({said}): is the disk full, or gone? {GO_ON}"
    return f"the gradebook {path} cannot be used ({said}); move it away to start a new one, or restore a copy"
