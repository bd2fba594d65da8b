"""What a grading leaves on disk as it goes, so that the next one can go on from there.

In the work folder: `secret` (the seed of this class's gradings), `judged/STUDENT/CHAPTER.json` (the executed and
judged notebook, with the key of everything that it depends on), `records/STUDENT/CHAPTER.json` (what has reached the
gradebook and the feedback folder), `entered/CHAPTER.json` (which version of a chapter the gradebook knows),
`students.json` (who is called what), and `grading.log` (what the workers' libraries had to say). Every file appears
whole or not at all.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import json
import secrets
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from grader.classroom.whole import write_whole
from grader.paths import ROOT, SOLUTIONS

LIBRARIES = (
    "numpy", "matplotlib", "ipython", "ipykernel", "nbclient", "nbconvert", "nbformat", "nbgrader", "torch",
    "transformers",
)  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """What one grading holds for every submission; seconds are wall-clock time."""

    work: str
    secret: str
    cell_seconds: int
    notebook_seconds: int
    sandbox: bool
    pictures: bool
    late_policy: str
    container: str = ""


def read_json(path: Path) -> dict[str, Any]:
    """Return what a file of ours holds, or {} where there is none that can be read."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def read_notebook(path: Path) -> NotebookNode:
    """Return a notebook that we have written; it is valid, and to find that out again takes longer than to read it."""
    return nbformat.v4.reads(path.read_text(encoding="utf-8"))


def has_text(page: Path) -> bool:
    """Tell whether a file is there and not empty."""
    try:
        return page.stat().st_size > 0
    except OSError:
        return False


def told(error: Exception, work: Path) -> str:
    """Say an error in a line, without the places of this machine."""
    text = str(error).strip().partition("\n")[0].replace(str(work.resolve()), "").replace(str(work), "")
    return f"{type(error).__name__}: {text}"[:300]


def the_secret(work: Path, seed: int | None) -> str:
    """Return what the inputs of this grading's checks are drawn from: `seed`, else what the folder has kept."""
    if seed is not None:
        return f"seed {seed}"
    path = work / "secret"
    try:
        kept = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        kept = ""
    if not kept:
        kept = secrets.token_hex(16)
        write_whole(path, kept + "\n", mode=0o600)
    return kept


def judged_path(work: Path, student_id: str, chapter: str) -> Path:
    """Return where the judged notebook of a submission lies."""
    return work / "judged" / student_id / f"{chapter}.json"


def record_path(work: Path, student_id: str, chapter: str) -> Path:
    """Return where the record of a submission lies."""
    return work / "records" / student_id / f"{chapter}.json"


def judging_key(content: str, chapter: str, settings: Settings) -> str:
    """Return a digest of all that the result of one submission depends on."""
    depends = {**asdict(settings), "content": content, "chapter": chapter_digest(chapter), "judge": judge_version()}
    for name in ("work", "late_policy"):
        del depends[name]
    return hashlib.sha256(json.dumps(depends, sort_keys=True).encode()).hexdigest()


@functools.cache
def chapter_digest(chapter: str) -> str:
    """Return a digest of a chapter as it stands in the course, its extra files included."""
    return _digest_of(path for path in sorted((SOLUTIONS / chapter).rglob("*")) if path.is_file())


@functools.cache
def judge_version() -> str:
    """Return a digest of what judges: our own sources, the libraries' versions, Python's."""
    sources = [path for name in ("grader", "grpo") for path in sorted((ROOT / name).rglob("*.py"))]
    versions = [f"{name} {_version(name)}" for name in LIBRARIES] + [sys.version]
    return hashlib.sha256("\n".join([_digest_of(sources), *versions]).encode()).hexdigest()


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "none"


def _digest_of(paths) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(f"{path.relative_to(ROOT).as_posix()}\n".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
