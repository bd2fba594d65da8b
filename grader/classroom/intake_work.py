"""What one student handed in, wherever it was found, and which of their notebooks is the one to grade."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import PurePosixPath

from grader.classroom.intake_files import MAX_ENTRIES, MAX_ZIP, File, files_in_zip
from grader.classroom.intake_lms import HandedIn, base_name
from grader.classroom.intake_notebook import MAX_BYTES, Cell, IntakeError, chapters_in, read_cells, too_large
from grader.exercises import EXERCISES

MAX_NOTEBOOKS = 200  # looked at of one student
MAX_TOLD = 5  # names in a sentence
MAX_CHARACTERS = 40_000_000  # kept of all notebooks of one student
MAX_READ = 100_000_000  # bytes read of them
STAMP = "timestamp.txt"
_NOT_READ = "cannot be read ("  # so begins in `intake_files` what the system says where it refuses


@dataclass(frozen=True)
class Notebook:
    """One notebook of a student: `cells` is None where it cannot be read, and `problem` says why."""

    path: PurePosixPath
    place: str
    cells: tuple[Cell, ...] | None
    problem: str = ""
    late: bool | None = None
    upload: tuple[int, int] | None = None
    number: str = ""
    folder: str = ""  # see `HandedIn`

    @property
    def text(self) -> object:
        """What two copies of one notebook have in common."""
        return None if self.cells is None else tuple((cell.kind, cell.source, cell.grade_id) for cell in self.cells)

    @property
    def called(self) -> str:
        """The file's name, without what Canvas adds to it."""
        return base_name(self.path.name) if self.upload else self.path.name

    @cached_property
    def chapters(self) -> set[str]:
        """The chapters it belongs to: the one its folder is called, else those whose exercises are in it."""
        known = {exercise.chapter for exercise in EXERCISES.values()}
        if self.path.parent.name in known:
            return {self.path.parent.name}
        if self.cells is None:
            return {chapter for chapter in known if chapter in self.path.name}
        return chapters_in(self.cells)


@dataclass
class Work:
    """All that one student handed in, wherever it was found."""

    notebooks: list[Notebook] = field(default_factory=list)
    others: list[File] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    stamps: dict[PurePosixPath, str] = field(default_factory=dict)
    characters: int = 0  # in all cells of all notebooks
    read: int = 0  # bytes of all notebooks
    numbers: list[str] = field(default_factory=list)  # of the student on the learning platforms
    misplaced: bool = False  # something lies where nobody's folder is

    @property
    def number(self) -> str:
        """The student's number, "" where there is none, or several (Moodle gives one for each assignment)."""
        return self.numbers[0] if len(set(self.numbers)) == 1 else ""

    @property
    def in_doubt(self) -> bool:
        """Whether it is the instructor who must see why something of it cannot be graded: whose it is (that is what
        remarks are about), where it was put, or what the system does not let this process read."""
        said = (*self.problems, *(one.problem for one in self.notebooks))
        return self.misplaced or bool(self.remarks) or any(_NOT_READ in problem for problem in said)


def look_through(one: HandedIn, work: Work) -> None:
    """Sort one person's files, having opened their zip files (but none inside those)."""
    work.problems += one.problems
    work.misplaced |= bool(one.problems)
    work.numbers += [one.person.number] if one.person.number else []
    if one.other_work:
        work.problems.append(f"{one.other_work} was handed in, which is not graded")
    for file in one.files[:MAX_ENTRIES]:
        if file.path.suffix.lower() == ".zip" and not file.problem:
            _look_into(file, one, work)
        else:
            _sort_in(file, one, work)
    if len(one.files) > MAX_ENTRIES:
        work.problems.append(f"{len(one.files):,} files were handed in; the first {MAX_ENTRIES:,} were looked at")


def _look_into(packed: File, one: HandedIn, work: Work) -> None:
    name = packed.path.name
    try:
        inside = files_in_zip(packed.read(MAX_ZIP), name)
    except IntakeError as error:
        work.problems.append(str(error))
        return
    if not inside:
        work.problems.append(f"{name} holds no file; hand in the notebook itself")
    for file in inside:
        path = packed.path / file.path
        if path.suffix.lower() == ".zip" and not file.problem:
            problem = f"{file.path.name} is a zip file inside {name}; hand in the notebook itself"
            file = File(path, file.read, problem)
        _sort_in(File(path, file.read, file.problem), one, work, one.uploads.get(packed.path))


def _sort_in(file: File, one: HandedIn, work: Work, upload: tuple[int, int] | None = None) -> None:
    if file.path.suffix.lower() != ".ipynb":
        if file.problem:
            work.problems.append(file.problem)
        elif file.path.name == STAMP and not one.person.place and not one.person.number:
            try:
                work.stamps[file.path.parent] = file.read(1000)[:1000].decode("utf-8", "replace").strip()
            except IntakeError as error:
                work.problems.append(str(error))
        else:
            work.others.append(file)
        return
    if len(work.notebooks) >= MAX_NOTEBOOKS:
        work.problems.append(f"more than {MAX_NOTEBOOKS} notebooks were handed in; the others were not looked at")
        return
    upload = one.uploads.get(file.path) or upload
    known = {"late": one.late, "upload": upload, "number": one.person.number, "folder": one.folder}
    made = partial(Notebook, file.path, one.person.place, **known)
    if file.problem:
        work.notebooks.append(made(None, file.problem))
        return
    try:
        if work.read >= MAX_READ:
            all_of_them = f"after {MAX_READ // 1_000_000} MB of notebooks no more of them is read"
            raise IntakeError(f"{file.path.name} was not looked at: {all_of_them}; hand in fewer of them")
        data = file.read(MAX_BYTES)
        work.read += len(data)
        if len(data) > MAX_BYTES:
            raise IntakeError(too_large(file.path.name))
        cells = read_cells(data, file.path.name)
        work.characters += sum(len(cell.source) for cell in cells)
        if work.characters > MAX_CHARACTERS:
            raise IntakeError(f"the notebooks hold more than {MAX_CHARACTERS // 1_000_000} million characters in all")
        work.notebooks.append(made(cells))
    except IntakeError as error:
        work.notebooks.append(made(None, str(error)))


def unreadable(notebooks: Sequence[Notebook]) -> list[str]:
    """Return why those of the notebooks that cannot be read cannot, each reason once, and not more than a few."""
    problems = list(dict.fromkeys(one.problem for one in notebooks if one.cells is None))
    more = [f"and so for {len(problems) - MAX_TOLD} more notebooks"] if len(problems) > MAX_TOLD else []
    return problems[:MAX_TOLD] + more


def choose(found: list[Notebook], chapter: str) -> tuple[Notebook | None, list[str], str]:
    """Return (the notebook to grade or None, remarks, why none could be chosen)."""
    expected = f"{chapter}.ipynb"
    folders = sorted({one.folder for one in found})
    if len(folders) > 1 and len({one.folder if one.text is None else one.text for one in found}) > 1:
        both = " and ".join(map(ascii, folders))
        return None, [], f"{both} hold different notebooks of this chapter, and are one name: rename or remove one"
    named = [one for one in found if one.path == PurePosixPath(chapter) / expected]
    if named and len({one.place for one in found}) == 1:
        others = [one.path.name for one in found if one is not named[0]]
        return named[0], [f"not graded: {some(others)}"] if others else [], ""
    newest: dict[str, Notebook] = {}
    for one in sorted(found, key=lambda one: (one.upload or (0, 0), one.place)):
        newest[one.called if one.upload else one.path.as_posix()] = one
    left = list(newest.values())
    if len({one.place for one in left}) == len(left) > 1:  # each from another download: the later one counts
        left = [max(left, key=lambda one: ((one.upload or (0, 0))[1], one.place))]
    called = [one for one in left if one.called == expected]
    left = called if len(called) == 1 else left
    if len({one.path if one.text is None else one.text for one in left}) > 1:
        names = some(_short(one.path, chapter) for one in left)
        if len(called) > 1:
            advice = "if these folders are students', grade the folder around them"
            return None, [], f"several notebooks ({names}) are called {expected}; keep one ({advice})"
        return None, [], f"several notebooks ({names}) and none is called {expected}; keep one"
    if not left:
        return None, [], ""
    chosen = left[-1]
    old = [one for one in found if one.called == chosen.called and one is not chosen and one.text != chosen.text]
    others = [one.path.name for one in found if one.called != chosen.called and one.text != chosen.text]
    remarks = [f"the newest of {len(old) + 1} attempts is graded"] if old else []
    return chosen, remarks + ([f"not graded: {some(others)}"] if others else []), ""


def some(names: Iterable[str]) -> str:
    """Write names, or of many the first few and how many there are more."""
    names = list(names)
    more = f" and {len(names) - MAX_TOLD} more" if len(names) > MAX_TOLD else ""
    return ", ".join(names[:MAX_TOLD]) + more


def _short(path: PurePosixPath, chapter: str) -> str:
    return path.name if path.parent == PurePosixPath(chapter) else path.as_posix()
