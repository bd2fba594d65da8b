"""Turn solved chapters into what students get: annotate, execute if asked, and let nbgrader cut the solutions out."""

from __future__ import annotations

import copy
import filecmp
import shutil
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

from grader.classroom.annotate import annotate
from grader.classroom.nbgrader_api import course_api
from grader.execution import CELL_SECONDS, kernel_config, quiet_kernel, verify
from grader.paths import NOTEBOOKS, SOLUTIONS, chapters, notebook_path

# A chapter kept as text beside its notebook (jupytext) holds the solutions.
NOT_FOR_STUDENTS = ("*.py", "*.md", ".*", "__pycache__")


class ReleaseError(Exception):
    """A chapter cannot be released; the message says why and what to do."""


def prepare(chapter: str, solutions: Path = SOLUTIONS, execute: bool = False) -> bool:
    """Annotate a solved chapter on disk and, if asked, execute it and store its outputs. Return whether it changed."""
    path = notebook_path(solutions, chapter)
    before = path.read_text(encoding="utf-8")
    notebook = nbformat.reads(before, as_version=4)
    annotate(notebook, chapter)
    if execute:
        execute_in_place(notebook, path.parent)
    after = nbformat.writes(notebook) + "\n"
    if after != before:
        path.write_text(after, encoding="utf-8", newline="\n")
    return after != before


def execute_in_place(notebook: NotebookNode, folder: Path) -> None:
    """Run all cells in a fresh kernel and keep their outputs, without timestamps or other traces of this machine."""
    client = NotebookClient(
        notebook,
        timeout=CELL_SECONDS,
        kernel_name="python3",
        record_timing=False,
        coalesce_streams=True,  # else a cell's text may be stored in pieces that depend on timing
        config=kernel_config(),
        resources={"metadata": {"path": str(folder)}},
    )
    metadata = copy.deepcopy(notebook.metadata)
    with quiet_kernel():
        client.execute()
    notebook.metadata = metadata  # execution adds the version of this machine's Python
    verify(notebook, folder.name)


def generate(chapter: str, solutions: Path, target: Path, db_url: str) -> None:
    """Write the students' version of one chapter to target/chapter (replaced if it is there).

    Raises:
        ReleaseError: nbgrader refused; the message carries its log.
    """
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "source"
        shutil.copytree(solutions / chapter, source / chapter, ignore=shutil.ignore_patterns(*NOT_FOR_STUDENTS))
        api = course_api(Path(scratch), source_directory="source", release_directory="release", db_url=db_url)
        result = api.generate_assignment(chapter, force=True, create=True)
        if not result["success"]:
            raise ReleaseError(
                f"nbgrader could not release {chapter}:\n{result.get('log', '')}{result.get('error', '')}"
            )
        made = Path(scratch) / "release" / chapter
        notebook = nbformat.read(notebook_path(made.parent, chapter), as_version=4)
        nbformat.write(notebook, notebook_path(made.parent, chapter))
        target.mkdir(parents=True, exist_ok=True)
        if (target / chapter).exists():
            shutil.rmtree(target / chapter)
        shutil.copytree(made, target / chapter)


def release(names: list[str] | None = None, execute: bool = False, target: Path = NOTEBOOKS) -> dict[str, str]:
    """Bring `notebooks/` up to date with `solutions/`; return {chapter: "unchanged" | "released"}.

    The new release is made beside the old one and replaces it only when it differs. A throw-away gradebook is used,
    so that a release never touches a class's grades.
    """
    states = {}
    for chapter in names or chapters():
        prepare(chapter, execute=execute)
        with tempfile.TemporaryDirectory() as scratch:
            generate(chapter, SOLUTIONS, Path(scratch), f"sqlite:///{scratch}/release.db")
            if _same_tree(Path(scratch) / chapter, target / chapter):
                states[chapter] = "unchanged"
                continue
            if (target / chapter).exists():
                shutil.rmtree(target / chapter)
            shutil.copytree(Path(scratch) / chapter, target / chapter)
            states[chapter] = "released"
    return states


def _same_tree(a: Path, b: Path) -> bool:
    files = [sorted(p.relative_to(top) for p in top.rglob("*") if p.is_file()) for top in (a, b)]
    return files[0] == files[1] and all(filecmp.cmp(a / name, b / name, shallow=False) for name in files[0])
