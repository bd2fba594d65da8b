"""The files of one place where submissions lie, a folder or a zip file, read as if nobody could be trusted.

Nothing is unpacked to the disk and no link is followed: a file is its path, and a function that returns its bytes.
What cannot be taken (a link, a path that leads out, an encrypted entry, a bomb) is listed all the same, with the
reason in place of the bytes, so that a report can say it.
"""

from __future__ import annotations

import errno
import io
import os
import re
import stat
import struct
import unicodedata
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from grader.classroom.intake_kinds import kind_of
from grader.classroom.intake_notebook import IntakeError

MAX_ZIP = 100_000_000  # bytes of a zip file that a student handed in
MAX_DIRECTORY = 1_000_000  # bytes of its list of contents: about ten thousand files
MAX_TRUSTED_DIRECTORY = 20_000_000  # the same of a download for the instructor
MAX_ENTRIES = 2_000  # files looked at of one student
MAX_UNPACKED = 200_000_000  # bytes read out of one student's zip file
MAX_RATIO, RATIO_FROM = 500, 1_000_000  # how many times its packed size a file of more than so many bytes may have
MAX_DEPTH = 12  # folders in folders
MAX_NAME = 200  # characters
_LARGE = re.compile(rb"PK\x06\x06(?=[\s\S]{44})")
_TAIL = 22 + 65_535 + 76  # bytes at the end of a zip file in which its last record lies
_SKIPPED = ("__MACOSX", "__pycache__", ".ipynb_checkpoints", ".git", ".Trash")


@dataclass(frozen=True)
class File:
    """One file: where it lies, and `read(limit)`, which returns its bytes or raises an IntakeError.

    `problem` says why it cannot be taken; then `read` is not called.
    """

    path: PurePosixPath
    read: Callable[[int], bytes]
    problem: str = ""

    def below(self, count: int) -> File:
        """The same file, its path without the first `count` folders."""
        return File(PurePosixPath(*self.path.parts[count:]), self.read, self.problem)


def files_in_folder(folder: Path) -> Iterator[File]:
    """Yield the files under a folder in the order of their names, but for hidden ones below its own folders."""
    yield from _walk(folder, PurePosixPath())


def _walk(folder: Path, place: PurePosixPath) -> Iterator[File]:
    try:
        found = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        yield _refused(place, f"the folder {place.name or folder} cannot be read ({error.strerror})")
        return
    for entry in found:
        here = place / readable(entry.name)
        if hidden(here, first=len(here.parts) == 1 and not entry.is_dir()):
            continue
        if entry.is_symlink():
            what = "the files themselves" if entry.is_dir() else "the file itself"
            yield _refused(here, f"{here.name} is a symbolic link; hand in {what}")
        elif entry.is_dir(follow_symlinks=False):
            if len(here.parts) > MAX_DEPTH:
                yield _refused(here, f"{here.name} lies more than {MAX_DEPTH} folders deep")
            else:
                yield from _walk(Path(entry.path), here)
        elif entry.is_file(follow_symlinks=False):
            yield File(here, lambda limit, path=entry.path, name=here.name: _read_file(path, name, limit))
        else:
            yield _refused(here, f"{here.name} is no ordinary file")


def _read_file(path: str, name: str, limit: int) -> bytes:
    """Read at most limit + 1 bytes; a link that was put there in the meantime is not followed."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise IntakeError(f"{name} is no ordinary file")
            return file.read(limit + 1)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise IntakeError(f"{name} is a symbolic link; hand in the file itself") from None
        raise IntakeError(f"{name} cannot be read ({error.strerror})") from None


def files_in_zip(source: Path | bytes, name: str, trusted: bool = False) -> list[File]:
    """Return the files in a zip file, hidden ones apart (of a trusted one: those below its first folders).

    Args:
        source: the zip file, or its bytes.
        name: what it is called in messages.
        trusted: no limits on the whole (what a learning platform packed for the instructor may be large); those on
            each file hold all the same.

    Raises:
        IntakeError: no zip file, or one that is over the limits.
    """
    try:
        if not trusted and len(source) > MAX_ZIP:
            raise IntakeError(f"{name} is larger than {MAX_ZIP // 1_000_000} MB; hand in the notebook alone")
        if _directory_bytes(source) > (MAX_TRUSTED_DIRECTORY if trusted else MAX_DIRECTORY):
            raise IntakeError(f"{name} holds too many files; hand in the notebook alone")
        archive = zipfile.ZipFile(io.BytesIO(source) if isinstance(source, bytes) else source)
    except IntakeError:
        raise
    except Exception as error:  # whatever a field may hold: a name that is no UTF-8, a number beyond all bounds
        raise IntakeError(_not_opened(source, name, error)) from None
    entries = [entry for entry in archive.infolist() if not entry.is_dir()]
    if not trusted and len(entries) > MAX_ENTRIES:
        raise IntakeError(f"{name} holds {len(entries):,} files; hand in the notebook alone")
    budget = None if trusted else [MAX_UNPACKED]
    made = [(entry, *_safe_path(entry)) for entry in entries]
    often = Counter(path for _, path, _ in made)
    files = []
    for entry, path, problem in made:
        if hidden(path, first=not trusted or len(path.parts) == 1):
            continue
        problem = problem or _entry_problem(entry, path) or (
            f"{name} holds {often[path]} files called {path}; keep one" if often[path] > 1 else ""
        )  # fmt: skip
        files.append(File(path, lambda limit, e=entry, p=path: _read_entry(archive, e, p.name, limit, budget), problem))
    return files


def _not_opened(source: Path | bytes, name: str, error: Exception) -> str:
    data = source if isinstance(source, bytes) else b"PK"
    if data.startswith(b"PK"):
        return f"{name} cannot be opened as a zip file, and may not have been copied whole ({str(error)[:100]})"
    what = f"is {kind_of(data)}, and" if kind_of(data) else "is" if data else "is empty, and"
    return f"{name} {what} no zip file; hand in the notebook itself"


def _directory_bytes(source: Path | bytes) -> int:
    """Return how long a zip file says its list of contents is, before anything reads that list."""
    if isinstance(source, bytes):
        tail = source[-_TAIL:]
    else:
        with source.open("rb") as file:
            file.seek(max(0, source.stat().st_size - _TAIL))
            tail = file.read()
    end = tail.rfind(b"PK\x05\x06")
    if not 0 <= end <= len(tail) - 22:
        return 0
    told = [struct.unpack_from("<I", tail, end + 12)[0]]
    if tail[max(0, end - 20) : end].startswith(b"PK\x06\x07"):  # what that says counts then, and it lies before
        told += [struct.unpack_from("<Q", tail, at.start() + 40)[0] for at in _LARGE.finditer(tail, 0, end - 20)]
    return max(told)


def _safe_path(entry: zipfile.ZipInfo) -> tuple[PurePosixPath, str]:
    """Return where an entry lies, as a path that leads nowhere else, and what is wrong with the path it asked for."""
    # Names that do not say they are UTF-8 are often UTF-8; else they are what the zip format began with.
    text = entry.orig_filename
    if not entry.flag_bits & 0x800:
        try:
            text = text.encode("cp437").decode("utf-8")
        except UnicodeError:
            pass
    text = readable(text.partition("\0")[0].replace("\\", "/"))
    parts = [part for part in text.split("/") if part not in ("", ".", "..")] or ["(no name)"]
    absolute = text.startswith("/") or parts[0][1:2] == ":"
    path = PurePosixPath(*map(_short, parts[: MAX_DEPTH + 1]))
    if absolute or ".." in text.split("/"):
        return path, f"the path {text[:100]} leads out of the zip file"
    if len(parts) > MAX_DEPTH:
        return path, f"{parts[-1][:100]} lies more than {MAX_DEPTH} folders deep"
    return path, ""


def _short(part: str) -> str:
    """Cut what is too long for a name, but not the end that says what it is."""
    return part if len(part) <= MAX_NAME else part[: MAX_NAME - 20] + PurePosixPath(part).suffix[-20:]


def _entry_problem(entry: zipfile.ZipInfo, path: PurePosixPath) -> str:
    mode = entry.external_attr >> 16
    if stat.S_ISLNK(mode):
        return f"{path.name} is a symbolic link; hand in the file itself"
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        return f"{path.name} is no ordinary file"
    if entry.flag_bits & 0x1:
        return f"{path.name} is encrypted; hand it in without a password"
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return f"{path.name} is packed in a way that is not read here; use an ordinary zip file"
    if entry.file_size > max(RATIO_FROM, MAX_RATIO * entry.compress_size):
        return f"{path.name} unpacks to {entry.file_size / max(entry.compress_size, 1):,.0f} times its size"
    return ""


def _read_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, name: str, limit: int, budget: list | None) -> bytes:
    try:
        with archive.open(entry) as file:
            data = file.read(limit + 1)
    except Exception as error:
        raise IntakeError(f"{name} cannot be unpacked: the zip file is damaged ({str(error)[:100]})") from None
    if budget:
        budget[0] -= len(data)
        if budget[0] < 0:
            raise IntakeError(f"the zip file unpacks to more than {MAX_UNPACKED // 1_000_000} MB")
    return data


def hidden(path: PurePosixPath, first: bool = True) -> bool:
    """Tell whether a file or a folder on its way is hidden, or litter that an operating system or a program leaves.

    With `first` false the first folder may begin with a dot: it may be called by somebody's name.
    """
    return any(part in _SKIPPED for part in path.parts) or any(part[0] == "." for part in path.parts[not first :])


def _refused(path: PurePosixPath, problem: str) -> File:
    return File(path, lambda limit: b"", problem)


def readable(name: str) -> str:
    """Write a name that is no text (bytes that are not UTF-8), or that a terminal would obey, so that it can be
    written down, and stays distinct."""
    plain = name.encode("utf-8", "backslashreplace").decode("utf-8")
    return "".join(f"\\x{ord(one):02x}" if unicodedata.category(one) == "Cc" else one for one in plain)
