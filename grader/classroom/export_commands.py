"""`grader export canvas|moodle|gradescope|github`: take a grading's report to where the grades are kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from grader.paths import GRADING

if TYPE_CHECKING:
    from grader.classroom.export import Result

export = typer.Typer(
    no_args_is_help=True, help="Take the grades of a report to Canvas, Moodle, Gradescope or GitHub Classroom."
)

Report = Annotated[Path, typer.Option(help="The folder with the report of `grader grade`.")]
Chapter = Annotated[str, typer.Option(help="Only this chapter; needed where the report has several.")]
Names = Annotated[Path | None, typer.Option(help="CSV: name or number on the platform, name in the report.")]
Force = Annotated[
    bool, typer.Option("--force", help="Replace whatever file is there. What this export made it replaces anyway.")
]
REPORT = GRADING / "report"


@export.command()
def canvas(
    gradebook: Annotated[Path, typer.Argument(help="The gradebook as exported from Canvas (CSV).")],
    out: Annotated[Path, typer.Option(help="The file to import into Canvas.")] = Path("canvas.csv"),
    report: Report = REPORT,
    chapter: Chapter = "",
    column: Annotated[str, typer.Option(help="The assignment's column: its title or its number.")] = "",
    names: Names = None,
    force: Force = False,
) -> None:
    """Fill the points of one chapter into one column of a Canvas gradebook; nothing else changes."""
    from grader.classroom.export_canvas import fill_canvas

    _fill("canvas", report, chapter, out, force, lambda results: fill_canvas(results, gradebook, column, _names(names)))


@export.command()
def moodle(
    worksheet: Annotated[Path, typer.Argument(help="The grading worksheet as downloaded from Moodle (CSV).")],
    out: Annotated[Path, typer.Option(help="The file to upload to Moodle.")] = Path("moodle.csv"),
    report: Report = REPORT,
    chapter: Chapter = "",
    names: Names = None,
    max_grade: Annotated[
        float | None, typer.Option(min=0, help="The assignment's maximum grade, if not given.")
    ] = None,
    grade_column: Annotated[str, typer.Option(help="What Moodle calls it in your language.")] = "Grade",
    feedback_column: Annotated[str, typer.Option(help="The same.")] = "Feedback comments",
    name_column: Annotated[str, typer.Option(help="The same.")] = "Full name",
    maximum_column: Annotated[str, typer.Option(help="The same.")] = "Maximum grade",
    force: Force = False,
) -> None:
    """Fill grades and feedback comments of one chapter into a Moodle grading worksheet; nothing else changes."""
    from grader.classroom.export_moodle import fill_moodle

    def fill(results):
        columns = (grade_column, feedback_column, max_grade, name_column, maximum_column)
        return fill_moodle(results, worksheet, _names(names), *columns)

    _fill("moodle", report, chapter, out, force, fill)


@export.command()
def gradescope(
    out: Annotated[
        Path, typer.Option(help="results.json for one student (a name that ends in .json), or a folder for all.")
    ] = Path("gradescope"),
    report: Report = REPORT,
    student: Annotated[str, typer.Option(help="Only this student.")] = "",
    chapter: Chapter = "",
    force: Force = False,
) -> None:
    """Write results.json as a Gradescope autograder leaves it, one a student; none where the grader has no result.

    Who handed in nothing that can be graded gets 0 there, and is told what to hand in.
    """
    from grader.classroom.export import of_student
    from grader.classroom.export_gradescope import write_gradescope

    results, files = _or_exit(lambda: _begin("gradescope", report, chapter, force))
    done = _or_exit(lambda: write_gradescope(results, out, files, student))
    for name, why in done.zeros:
        _say(f"0 points, and told what to hand in: {name} ({why})")
    for name, why in done.left:
        _say(f"no results.json: {name} ({why}). Gradescope will show that the autograder failed")
    _tell_reviews(of_student(results, student))
    _say(f"{len(done.paths)} written: {out}")
    if done.left:
        raise typer.Exit(1)


@export.command()
def github(
    report: Report = REPORT,
    student: Annotated[str, typer.Option(help="This student, where the report has several.")] = "",
) -> None:
    """Print one student's points, over all chapters, as GitHub Classroom reads them off the log of a workflow."""
    from grader.classroom.export import read_report
    from grader.classroom.export_github import notices, of_repository

    lines = _or_exit(lambda: notices(of_repository(read_report(report), student)))
    for line in lines:
        print(line)
    if lines[0].startswith("::error"):
        raise typer.Exit(1)


def _begin(platform: str, report: Path, chapter: str, force: bool):
    """Return the results of one chapter, and what writes the files of this export."""
    from grader.classroom.export import of_chapter, read_report
    from grader.classroom.export_files import Files

    results = of_chapter(read_report(report), chapter)
    return results, Files(report, f"{platform} {results[0].chapter}", force)


def _fill(platform: str, report: Path, chapter: str, out: Path, force: bool, fill: Callable) -> None:
    def work():
        results, files = _begin(platform, report, chapter, force)
        done = fill(results)  # first: what is wrong with what was given comes before what is wrong with the place
        if done.written:
            files.claim([out])
            files.write(out, done.text)
        return results, done

    results, done = _or_exit(work)
    if done.note:
        _say(f"Note: {done.note}.")
    for name, why in done.left:
        _say(f"left as it was: {name} ({why})")
    for name in done.unknown:
        _say(f"in the report, but not found in the file: {name} (--names says who is who)")
    if not done.written:
        _say("nobody could be filled in, and nothing was written", style="red")
        raise typer.Exit(1)
    _tell_reviews([one for one in results if one.student not in done.unknown])
    _say(f"{len(done.written)} filled in: {out}")


def _tell_reviews(results: Sequence[Result]) -> None:
    """Say whose points go out although something about them is still to be looked at."""
    for result in results:
        if result.state == "needs review" and result.points is not None:
            _say(f"points as they are, but it needs review: {result.student} ({result.reason})")


def _names(path: Path | None) -> dict[str, str]:
    from grader.classroom.intake import read_names

    return read_names(path) if path else {}


def _or_exit(work: Callable):
    from grader.classroom.export import ExportError
    from grader.classroom.intake import IntakeError

    try:
        return work()
    except (ExportError, IntakeError, OSError) as error:
        _say(str(error), style="red")
        raise typer.Exit(1) from None


def _say(text: str, style: str | None = None) -> None:
    from rich.console import Console

    Console().print(text, style=style, markup=False, soft_wrap=True, highlight=False)
