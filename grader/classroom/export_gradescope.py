"""Write results.json, what an autograder of Gradescope leaves in /autograder/results."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from grader.classroom.export import ExportError, Line, Result
from grader.classroom.intake_names import safe_id
from grader.classroom.reports import write_whole
from grader.exercises import EXERCISES


def gradescope_results(results: Sequence[Result]) -> dict:
    """Return what Gradescope reads about one submission: the chapters of one student.

    A submission that could not be graded says so in large letters and gets the score 0 that Gradescope asks for; an
    exercise without a result is a test without points. Nothing of the inputs is in it that the report does not show.
    """
    tests = [_test(line, result) for result in results for line in result.lines if result.state != "failed"]
    failed = [result for result in results if result.state in ("failed", "missing")]
    output = [f"{result.chapter}: NOT GRADED, {result.reason}. This is no result: hand in again." for result in failed]
    output += [f"{r.chapter}: needs review: {r.reason}" for r in results if r.state == "needs review"]
    output += [f"{r.chapter}: late, {r.penalty:g} points taken off" for r in results if r.penalty]
    score = sum(max(0.0, sum(line.points or 0 for line in r.lines) - r.penalty) for r in results)
    return {
        "score": round(score, 4),
        "output": "\n".join(output),
        "output_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": tests,
    }


def _test(line: Line, result: Result) -> dict:
    exercise = EXERCISES.get(line.exercise)
    mistake = next((m.says for m in exercise.mistakes if m.name == line.mistake), "") if exercise else ""
    says = "no result; this is not your doing" if line.points is None else line.result
    test = {
        "name": f"{result.chapter}: {line.exercise}",
        "max_score": line.max_points,
        "output": f"{says}\n{line.mistake}: {mistake}" if line.mistake else says,
        "output_format": "text",
        "visibility": "visible",
    }
    if line.points is not None:
        test |= {"score": line.points, "status": "passed" if line.points >= line.max_points else "failed"}
    return test


def write_gradescope(results: Sequence[Result], out: Path, student: str = "") -> list[Path]:
    """Write results.json for one student to the file `out`, or, for several, to the folder `out`/STUDENT/.

    Raises:
        ExportError: nobody of this name is in the report, or `out` is a file's name and there are several.
    """
    names = list(dict.fromkeys(result.student for result in results))
    if student and student not in names:
        raise ExportError(f"the report has nobody called {student!r}; it has {', '.join(names[:10])}")
    chosen = [student] if student else names
    if len(chosen) > 1 and out.suffix == ".json":
        raise ExportError(f"the report has {len(chosen)} students; name a folder, or say which one with --student")
    written = []
    for name in chosen:
        path = out if out.suffix == ".json" else out / safe_id(name) / "results.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        mine = [result for result in results if result.student == name]
        write_whole(path, json.dumps(gradescope_results(mine), ensure_ascii=False, indent=1) + "\n")
        written.append(path)
    return written
