"""Whose file is it? Folders per student, zip files per student, and the downloads of Moodle and Canvas.

Moodle (mod/assign/classes/downloader.php) names "Full Name_1234567_assignsubmission_file" (older versions with one more
"_"): a folder, or, where folders are switched off, the beginning of the file's name. The number belongs to this
student in this assignment.

Canvas (lib/content_zipper.rb) puts all files side by side: "leeana_LATE_12345_678901_work-1.ipynb" is the sortable name
in small letters without spaces, LATE if it was late, the student's number, the number of this upload, and the name
of the file, with -1, -2, ... if an earlier attempt had a file of that name. Without names it begins with "anon_AbCdE_".

The times that both write into a zip file are those of the download, so nothing is read off them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from grader.classroom.intake_files import File, files_in_folder, files_in_zip, readable
from grader.classroom.intake_names import Person, tidy
from grader.classroom.intake_notebook import IntakeError
from grader.exercises import EXERCISES

_MOODLE = re.compile(
    r"(?:(?P<name>.*?)_)?(?P<number>\d+)_assignsubmission_(?P<kind>[a-z]+)(?:_(?P<rest>.*))?", re.DOTALL
)
_CANVAS = re.compile(
    r"(?:(?P<name>.+?)_)?(?:(?P<late>LATE|late)_)?(?P<number>\d+|anon_[A-Za-z0-9]+)_(?:(?P<upload>\d+)_)(?P<rest>.+)",
    re.DOTALL,
)
_CANVAS_TEXT = re.compile(r"(?:(?P<name>.+?)_)?(?:(?P<late>LATE|late)_)?(?P<number>\d+|anon_\w+?)_(?:text|link)\.html")
_ATTEMPT = re.compile(r"(?P<base>.*?)(?:-(?P<count>\d{1,3}))?(?P<end>\.[^.]*)?", re.DOTALL)


@dataclass
class HandedIn:
    """What one person handed in at one place. Paths count from the person's own folder."""

    person: Person
    files: list[File] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    late: bool | None = None
    uploads: dict[PurePosixPath, tuple[int, int]] = field(default_factory=dict)  # path: (attempt, upload's number)
    other_work: str = ""  # what was handed in instead of files
    folder: str = ""  # as it is written, where two that differ in that alone stand for one name


def handed_in(submitted: Path) -> list[HandedIn]:
    """Return what everybody handed in.

    Args:
        submitted: a folder that holds a folder or a zip file per student, or downloads of a learning platform (as
            zip files or unpacked); or one such download, or a zip file of folders per student.

    Raises:
        IntakeError: `submitted` is no folder and no zip file that can be read.
    """
    if submitted.is_file() and submitted.suffix.lower() == ".zip":
        tops = _tops(files_in_zip(submitted, submitted.name, trusted=True))
        only = next(iter(tops)) if len(tops) == 1 else ""
        if only in ("submitted", submitted.stem) and all(len(file.path.parts) > 1 for file in tops[only]):
            tops = _tops([file.below(1) for file in tops[only]])
        return list(_people(_by_student(tops), ""))
    if not submitted.exists():
        raise IntakeError(f"{submitted} is not there; name the folder or the zip file with the submissions")
    if not submitted.is_dir():
        raise IntakeError(
            f"{submitted} is no folder and no .zip file; name a folder with the submissions in STUDENT/CHAPTER/, or a "
            "zip file"
        )
    tops = _tops(list(files_in_folder(submitted)))
    times = {}
    for path in submitted.iterdir():
        if path.name[0] != "." and not path.is_symlink():  # (of hidden ones those count that hold a notebook)
            name = tidy(readable(path.name))
            times[name] = path.stat().st_mtime_ns
            if path.is_dir():
                tops.setdefault(name, [])  # somebody's empty folder counts
    downloads = {top: _inside(submitted, top, files) for top, files in tops.items() if not _is_no_submission(files)}
    if downloads and all(_from_platform(inner) for inner in downloads.values()):
        # Only if everything is: a student's own zip file must not speak for others. Later downloads come later.
        order = sorted(downloads, key=lambda top: (times.get(top, 0), top))
        return [one for n, top in enumerate(order) for one in _people(_tops(downloads[top]), f"{n:06d} {top}")]
    return list(_people(dict(sorted(_by_student(tops).items())), ""))


def _by_student(tops: dict[str, list[File]]) -> dict[str, list[File]]:
    """Return the files by students, also where they lie by chapters (CHAPTER/STUDENT/...): no student is called so."""
    known = {exercise.chapter for exercise in EXERCISES.values()}
    if not known & set(tops):
        return tops
    return _tops([_turned(file) if top in known else file for top, files in tops.items() for file in files])


def _turned(file: File) -> File:
    if len(file.path.parts) < 3:  # a zip file or a notebook that is called by its student
        return file.below(len(file.path.parts) - 1)
    chapter, student, *rest = file.path.parts
    return File(PurePosixPath(student, chapter, *rest), file.read, file.problem)


def _tops(files: list[File]) -> dict[str, list[File]]:
    """Sort files by the first part of their paths. A hidden folder is somebody's only if there is a notebook in it."""
    tops: dict[str, list[File]] = {}
    for file in files:
        tops.setdefault(tidy(file.path.parts[0]), []).append(file)
    return {top: inside for top, inside in tops.items() if top[0] != "." or _alone(inside) or _has_notebook(inside)}


def _has_notebook(files: list[File]) -> bool:
    return any(file.path.suffix.lower() == ".ipynb" for file in files)


def _alone(files: list[File]) -> bool:
    return len(files) == 1 and len(files[0].path.parts) == 1


def _is_no_submission(files: list[File]) -> bool:
    """Tell whether this is a list of names, a text or the like, which nobody handed in."""
    return _alone(files) and not files[0].problem and files[0].path.suffix.lower() not in (".zip", ".ipynb")


def _inside(folder: Path, top: str, files: list[File]) -> list[File]:
    """Return what lies in a folder or a zip file that may be a platform's download."""
    if not _alone(files):
        return [] if any(len(file.path.parts) == 1 for file in files) else [file.below(1) for file in files]
    if files[0].problem or not top.lower().endswith(".zip"):
        return []
    path = next((path for path in folder.iterdir() if tidy(readable(path.name)) == top), folder / top)
    try:
        return files_in_zip(path, top, trusted=True)
    except IntakeError:
        return []


def _from_platform(files: list[File]) -> bool:
    """Tell whether every file there lies under a name that a learning platform gave."""
    return bool(files) and all(_moodle(top) or _canvas(top) for top in _tops(files))


def _moodle(top: str) -> re.Match | None:
    return _MOODLE.fullmatch(top)


def _canvas(top: str) -> re.Match | None:
    return _CANVAS.fullmatch(top) or _CANVAS_TEXT.fullmatch(top)


def _people(tops: dict[str, list[File]], place: str) -> Iterator[HandedIn]:
    """Sort what lies at one place by whose it is."""
    made: dict[tuple[Person, str], HandedIn] = {}
    for top, together in tops.items():
        written = _as_written(together, top)
        for folder, files in written.items():
            alone = _alone(files)
            found = _moodle(top) or (_canvas(top) if alone else None)
            if not found and _is_no_submission(files):
                continue
            kind = files[0].path.suffix.lower() if alone else ""
            name, number = files[0].path.stem if kind in (".zip", ".ipynb") else top, ""
            if found:
                name, number = found["name"] or found["number"], found["number"]
            person = Person(tidy(name), number, place)
            folder = folder if len(written) > 1 else ""
            one = made.setdefault((person, folder), HandedIn(person, folder=folder))
            if folder:
                one.remarks.append(_two_of_one_name(written))
            if found:
                _add(one, found, files, alone)
            elif not alone:
                one.files += [file.below(1) for file in files]
            elif kind == ".zip" or files[0].problem:
                if packed := [file.path.name for file in one.files if file.path.suffix.lower() == ".zip"]:
                    one.remarks.append(_two_of_one_name([top, *packed]))
                one.files.append(files[0])
            else:
                one.problems.append(f"{top} lies outside a student's folder; put it into STUDENT/CHAPTER/")
    yield from made.values()


def _as_written(files: list[File], top: str) -> dict[str, list[File]]:
    """Sort files that lie under one name by how that is written there: accents may be part of a letter or follow it,
    and spaces may stand at its ends."""
    if not files:
        return {top: []}
    written: dict[str, list[File]] = {}
    for file in files:
        written.setdefault(file.path.parts[0], []).append(file)
    return written


def _two_of_one_name(written: Iterable[str]) -> str:
    return (
        f"{' and '.join(map(ascii, sorted(written)))} are one name, written in two ways (accents as part of a letter "
        "or behind it, spaces at the ends): look at both, and rename one if they are two people"
    )


def _add(one: HandedIn, found: re.Match, files: list[File], alone: bool) -> None:
    """Enter what lies under a name that a learning platform gave."""
    parts = found.groupdict()
    if "kind" in parts and parts["kind"] != "file":
        one.other_work = f"an {parts['kind']} of Moodle"
    elif "rest" not in parts:
        one.other_work = "a text or a link in Canvas"
    elif "upload" in parts:
        rest = PurePosixPath(parts["rest"])
        attempt = _ATTEMPT.fullmatch(rest.name)
        # Two uploads of one name stay apart.
        path = rest if rest not in one.uploads else PurePosixPath(f"upload {parts['upload']}") / rest
        one.files.append(File(path, files[0].read, files[0].problem))
        one.uploads[path] = (int(attempt["count"] or 0), int(parts["upload"]))
    elif alone:
        path = PurePosixPath(parts["rest"] or files[0].path.name)
        one.files.append(File(path, files[0].read, files[0].problem))
    else:
        one.files += [file.below(1) for file in files]
    if "late" in parts:
        one.late = bool(parts["late"]) or bool(one.late)


def base_name(name: str) -> str:
    """Return a file's name without the -1, -2, ... by which Canvas tells attempts apart."""
    found = _ATTEMPT.fullmatch(name)
    return found["base"] + (found["end"] or "")
