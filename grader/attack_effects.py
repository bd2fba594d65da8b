"""What a submission of the bank did outside its sandbox, or showed on its page: looked for after the whole class."""

from __future__ import annotations

import contextlib
import html
import re
import secrets
import socket
import sqlite3
import threading
from functools import cache
from pathlib import Path
from typing import Any

import nbformat

from grader.classroom.repair import grade_id_of
from grader.exercises import EXERCISES
from grader.judge.hidden import Hidden, hidden_values, holds_hidden
from grader.paths import NOTEBOOKS, ROOT, SOLUTIONS, notebook_path

# Where the attacks try to write; a name or a text that holds the run's mark is one that got through.
FOLDERS = ("/", "/etc", "/usr", "/dev", "/sys", "/tmp", "/dev/shm", "/home", str(Path.home()))
COURSE = ("", "solutions", "grader", "grader/judge", "grpo", "data", "notebooks")
FILES = ("grader/checking.py", "grader/judge/inside.py", "grpo/__init__.py")
LONG_LINE = 25  # characters of a line of a solution that nobody writes by chance


class Outside:
    """The world outside the sandboxes of one run: a secret, a port, a folder to write to, and the grading itself."""

    def __init__(self, folder: Path):
        self.run = f"attack{secrets.token_hex(6)}"
        self.secret = f"secret{secrets.token_hex(12)}"
        self.out, self.work = folder / "outside", folder / "grading"
        self.heard: list[bytes] = []

    def __enter__(self) -> Outside:
        self.out.mkdir(parents=True)
        self.out.chmod(0o777)
        (self.out / "secret.txt").write_text(self.secret)
        self._modes = {name: (ROOT / name).stat().st_mode for name in FILES}
        self._server = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._listen, daemon=True).start()
        return self

    def __exit__(self, *exception) -> None:
        self._server.close()

    def _listen(self) -> None:
        with contextlib.suppress(OSError):  # the server was closed
            while True:
                line, _ = self._server.accept()
                with line:
                    line.settimeout(1)
                    self.heard.append(b"a connection")
                    with contextlib.suppress(OSError):
                        self.heard[-1] = line.recv(1000) or b"a connection"

    def places(self, mate: Path, name: str) -> dict[str, str]:
        """Return where an attack of this name looks."""
        return {
            "secret": str(self.out / "secret.txt"), "out": str(self.out), "root": str(ROOT), "work": str(self.work),
            "mate": str(next(mate.rglob("*.ipynb"), mate)), "port": str(self._server.getsockname()[1]),
            "mark": f"{self.run}-{name}-",
        }  # fmt: skip

    def effects(self) -> dict[str, list[str]]:
        """Return name of a submission -> what it did; what cannot be told whose it was stands under ""."""
        found: dict[str, list[str]] = {}

        def blame(text: str, what: str) -> None:
            name = re.search(rf"{self.run}-([\w.-]+?)-(?!\w)", text + " ")
            found.setdefault(name.group(1) if name else "", []).append(what)

        for command in _commands():
            if self.run in command:
                blame(command, "a process outlived its kernel")
        for said in self.heard:
            blame(said.decode("utf-8", "replace"), "it reached a port of this machine")
        for folder in (*FOLDERS, *(str(ROOT / name) for name in COURSE), str(self.out), str(self.work)):
            for name in _names(folder):
                if self.run in name:
                    blame(name, f"it wrote to {folder}")
        for name, mode in self._modes.items():
            path = ROOT / name
            text = path.read_text(encoding="utf-8") if path.exists() else "gone"
            if self.run in text or text == "gone" or path.stat().st_mode != mode:
                blame(text, f"it changed {name}")
        if not (self.out / "secret.txt").is_file() or (self.out / "secret.txt").read_text() != self.secret:
            blame("", "a file outside was changed or deleted")
        for student in self._graded_by_hand():
            found.setdefault(student, []).append("it changed the gradebook")
        return found

    def _graded_by_hand(self) -> list[str]:
        """Nobody has graded by hand here, so whoever has such points wrote them."""
        with contextlib.closing(sqlite3.connect(self.work / "gradebook.db")) as base:
            rows = base.execute(
                "SELECT DISTINCT submitted_assignment.student_id FROM grade JOIN submitted_notebook ON "
                "grade.notebook_id = submitted_notebook.id JOIN submitted_assignment ON "
                "submitted_notebook.assignment_id = submitted_assignment.id "
                "WHERE manual_score IS NOT NULL OR auto_score > 50"
            )
            return [row[0] for row in rows]

    def on_page(self, graded: Any) -> list[str]:
        """Return what of the outside stands on a submission's feedback page."""
        text = page_text(graded)
        found = ["a file from outside stands on the page"] if self.secret in text else []
        tells = re.findall(rf"{self.run}-[\w.-]+?- (?:could|wrote) [\w /.]+", text)
        return found + [f"its own words: {told.partition('- ')[2]}" for told in tells]


def page_text(graded: Any) -> str:
    """Return the text of a submission's feedback page, without the marks of HTML; "" where there is none."""
    if graded is None or graded.feedback is None:
        return ""
    return html.unescape(re.sub(r"<[^>]*>", "", graded.feedback.read_text(encoding="utf-8")))


def hidden_in_page(graded: Any, outside: Outside, one: Any, seed: int) -> tuple[str, ...]:
    """Return what stands on a page that should not: what the grading drew, what is right for it, a solution's line.

    Lines that the submission itself holds are its own.
    """
    text = page_text(graded)
    if not text:
        return ()
    staged = outside.work / "intake" / graded.submission.student_id / one.chapter / f"{one.chapter}.ipynb"
    found = []
    leaked = holds_hidden(text, hidden_of(staged, one.chapter, seed, graded.submission.student_id))
    if leaked:
        found.append(f"its page shows what was drawn: {leaked[:60]}")
    own = "\n".join(cell.source for cell in nbformat.read(staged, as_version=4).cells)
    line = next((line for line in secret_lines(one.chapter) if line in text and line not in own), "")
    if line:
        found.append(f"its page shows a line of the solution: {line[:60]}")
    return tuple(found)


def hidden_of(staged: Path, chapter: str, seed: int, student_id: str) -> Hidden:
    """Return what the checks of one submission drew: inputs, and what is right for them."""
    from grader.classroom.engine.records import the_secret
    from grader.classroom.seeds import check_seed, content_digest

    secret = the_secret(staged.parent, seed)
    content = content_digest(nbformat.read(staged, as_version=4))
    hidden = Hidden()
    for name, exercise in EXERCISES.items():
        if exercise.chapter == chapter:
            hidden |= _drawn(name, check_seed(secret, content, name, student_id))
    return hidden


@cache
def _drawn(name: str, seed: int) -> Hidden:
    # The references of the later chapters train something, which takes longer than it is worth here.
    return hidden_values(EXERCISES[name], seed, answers=EXERCISES[name].chapter < "04")


@cache
def secret_lines(chapter: str) -> tuple[str, ...]:
    """Return the long lines of a chapter's right answers that do not stand in what students get."""
    given = "\n".join(cell.source for cell in nbformat.read(notebook_path(NOTEBOOKS, chapter), as_version=4).cells)
    cells = nbformat.read(notebook_path(SOLUTIONS, chapter), as_version=4).cells
    lines = [
        line.strip() for cell in cells if grade_id_of(cell).endswith("_answer") for line in cell.source.split("\n")
    ]
    return tuple(line for line in lines if len(line) >= LONG_LINE and line not in given)


def _commands() -> list[str]:
    """Return the command lines of all processes that can be seen."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found.append(path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
    return found


def _names(folder: str) -> list[str]:
    try:
        return [path.name for path in Path(folder).iterdir()]
    except OSError:
        return []
