"""`grader export canvas|moodle|gradescope|github`: take a grading's report to where the grades are kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from grader.paths import GRADING

export = typer.Typer(
    no_args_is_help=True, help="Take the grades of a report to Canvas, Moodle, Gradescope or GitHub Classroom."
)

Report = Annotated[Path, typer.Option(help="The report of `grader grade`.")]
Chapter = Annotated[str, typer.Option(help="The chapter; needed where the report has several.")]
Names = Annotated[Path | None, typer.Option(help="CSV: name or number on the platform, name in the report.")]
REPORT = GRADING / "report"


@export.command()
def canvas(
    gradebook: Annotated[Path, typer.Argument(help="The gradebook as exported from Canvas (CSV).")],
    out: Annotated[Path, typer.Option(help="The file to import into Canvas.")] = Path("canvas.csv"),
    report: Report = REPORT,
    chapter: Chapter = "",
    column: Annotated[str, typer.Option(help="The assignment's column: its title or its number.")] = "",
    names: Names = None,
) -> None:
    """Fill the points of one chapter into one column of a Canvas gradebook; nothing else changes."""
    from grader.classroom.export import of_chapter, read_report
    from grader.classroom.export_canvas import fill_canvas

    _fill(lambda: fill_canvas(of_chapter(read_report(report), chapter), gradebook, out, column, _names(names)), out)


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
) -> None:
    """Fill grades and feedback comments of one chapter into a Moodle grading worksheet; nothing else changes."""
    from grader.classroom.export import of_chapter, read_report
    from grader.classroom.export_moodle import fill_moodle

    _fill(
        lambda: fill_moodle(
            of_chapter(read_report(report), chapter),
            worksheet,
            out,
            _names(names),
            grade_column,
            feedback_column,
            max_grade,
        ),
        out,
    )


@export.command()
def gradescope(
    out: Annotated[Path, typer.Option(help="results.json for one student, or a folder for all.")] = Path("gradescope"),
    report: Report = REPORT,
    student: Annotated[str, typer.Option(help="Only this student.")] = "",
    chapter: Chapter = "",
) -> None:
    """Write results.json as a Gradescope autograder leaves it, one a student."""
    from grader.classroom.export import of_chapter, read_report
    from grader.classroom.export_gradescope import write_gradescope

    def write() -> list[Path]:
        results = read_report(report)
        return write_gradescope(of_chapter(results, chapter) if chapter else results, out, student)

    written = _or_exit(write)
    _say(f"{len(written)} written: {out}")


@export.command()
def github(report: Report = REPORT) -> None:
    """Print the points as GitHub Classroom reads them off the log of a workflow."""
    from grader.classroom.export import read_report
    from grader.classroom.export_github import notices

    for line in _or_exit(lambda: notices(read_report(report))):
        print(line)


def _fill(fill: Callable, out: Path) -> None:
    done = _or_exit(fill)
    if done.note:
        _say(f"Note: {done.note}.")
    for name, why in done.left:
        _say(f"left as it was: {name} ({why})")
    for name in done.unknown:
        _say(f"in the report, but not found in the file: {name} (--names says who is who)")
    _say(f"{len(done.written)} filled in: {out}")
    if not done.written:
        raise typer.Exit(1)


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
