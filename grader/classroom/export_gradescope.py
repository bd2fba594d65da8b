"""Write results.json, what an autograder of Gradescope leaves in /autograder/results.

Gradescope wants a score in it, a number. What was refused, or never came, gets a 0 that says in its first line what to
hand in. Where the grader has no result, or the instructor must settle something before there can be one, there is no
results.json at all: Gradescope then shows the student that the autograder failed and takes no score, and what the
command prints is shown to the instructor alone. Notes for the instructor go into a test that students never see.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.classroom.export import ExportError, Line, Result, of_student
from grader.classroom.export_files import Files
from grader.classroom.export_words import extra_in, points_said
from grader.classroom.intake import OFF_ROSTER
from grader.classroom.intake_names import safe_id
from grader.exercises import EXERCISES

LOOK = "Something came up in the grading of this that is not decided yet; your instructor will look at it."
NOTES = "Notes for the instructor (students do not see this test)"


@dataclass(frozen=True)
class Written:
    """What became of each student: a file; a file with a 0 for what is to be handed in again; no file, and why."""

    paths: tuple[Path, ...]
    zeros: tuple[tuple[str, str], ...]  # (name, why)
    left: tuple[tuple[str, str], ...]  # (name, why)


def gradescope_results(result: Result) -> dict:
    """Return what Gradescope reads about one submission: one that was refused, or that has points."""
    if result.refused:
        score, output, tests = 0.0, _hand_in(result), []
    else:
        score, tests = result.points, [_test(line, result) for line in result.lines]
        output = [LOOK] if result.state == "needs review" else []
        output += [f"late: {result.penalty:g} points taken off"] if result.penalty else []
    flags = (flag for flag in result.flags.split("; ") if flag not in result.reason)
    notes = [f"{result.state}: {result.reason}" if result.reason else "", *flags]
    if any(notes):
        hidden = {"name": NOTES, "output": "\n".join(filter(None, notes)), "output_format": "text"}
        tests.append({**hidden, "visibility": "hidden"})
    return {
        "score": round(score, 4),
        "output": "\n".join(output),
        "output_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": tests,
    }


def _hand_in(result: Result) -> list[str]:
    """What to do comes first; then why, as far as it is about the file."""
    first = f"Not graded: hand in your notebook of this chapter, {result.chapter}.ipynb."
    about_the_file = "; ".join(part for part in result.reason.split("; ") if part != OFF_ROSTER)
    if not about_the_file or result.intake == "missing":
        return [first]
    # A reason asks the instructor to ask for something.
    about_the_file = re.sub(r"\bask for it again\b", "hand it in again", about_the_file)
    about_the_file = re.sub(r"\bask for the\b", "hand in the", about_the_file)
    return [first, f"What was handed in could not be used: {about_the_file}"]


def _test(line: Line, result: Result) -> dict:
    exercise = EXERCISES.get(line.exercise)
    mistake = next((m.says for m in exercise.mistakes if m.name == line.mistake), "") if exercise else ""
    what, extra = extra_in(line)
    words = [what, points_said(line) if extra else "", f"{line.mistake}: {mistake}" if line.mistake else ""]
    words += [f"Comment: {line.comment}"] if line.comment else []
    return {
        "name": f"{result.chapter}: {line.exercise}",
        "max_score": line.max_points,
        "score": line.points,
        "status": "passed" if line.points - extra >= line.max_points else "failed",
        "output": "\n".join(filter(None, words)),
        "output_format": "text",
        "visibility": "visible",
    }


def write_gradescope(results: Sequence[Result], out: Path, files: Files, student: str = "") -> Written:
    """Write results.json for one student to the file `out`, or, for several, to the folder `out`/STUDENT/.

    A results.json that an earlier export of this chapter wrote for somebody goes where there is no score any more.

    Args:
        results: of one chapter.
        out: a file's name that ends in .json, or a folder.
        files: what may be written.
        student: only this one; "": all.

    Raises:
        ExportError: nobody of this name is in the report, `out` is a file's name and there are several, or a file is
            there that this export has not made.
    """
    chosen = of_student(results, student)
    one_file = out.suffix.casefold() == ".json"
    if len(chosen) > 1 and one_file:
        raise ExportError(
            f"the report has {len(chosen)} students and --out {out} is one file; name a folder, or say which student "
            "with --student"
        )
    places = [out if one_file else out / safe_id(result.student) / "results.json" for result in chosen]
    files.claim(places)
    paths, zeros, left = [], [], []
    for result, path in zip(chosen, places, strict=True):
        if result.points is None and not result.refused:
            path.unlink(missing_ok=True)  # else an older result would be taken for this one's
            left.append((result.student, result.why_not))
            continue
        files.write(path, json.dumps(gradescope_results(result), ensure_ascii=False, indent=1) + "\n")
        paths.append(path)
        if result.refused:
            zeros.append((result.student, result.why_not))
    return Written(tuple(paths), tuple(zeros), tuple(left))
