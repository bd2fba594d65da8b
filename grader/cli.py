"""The command line `grader`: for students, instructors and the people who keep the course."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from grader.paths import GRADING

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="GRPO from scratch: open the course, release it, grade it, and test the grader.",
)
console = Console()


# `python -m grader` runs these three before anything is installed; here they go the same way.
_PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


@app.command(context_settings=_PASS_ON)
def lab(context: typer.Context) -> None:
    """Open the course in JupyterLab, on your own copies of the chapters (my_course/)."""
    _bootstrap("lab", context)


@app.command(context_settings=_PASS_ON)
def test(context: typer.Context) -> None:
    """Run all tests; arguments go to pytest."""
    _bootstrap("test", context)


@app.command(context_settings=_PASS_ON)
def bench(context: typer.Context) -> None:
    """Measure on this machine (the same as `grpo bench`)."""
    _bootstrap("bench", context)


def _bootstrap(command: str, context: typer.Context) -> None:
    from grader import bootstrap

    raise typer.Exit(bootstrap.main([command, *context.args]))


@app.command()
def mistakes(
    exercise: Annotated[str, typer.Option(help="Only this exercise.")] = "",
    quiet: Annotated[bool, typer.Option(help="Only rows that fail, and the totals.")] = False,
) -> None:
    """Run every known mistake and every right answer against its check. Exit status 1 if the grader errs."""
    from grader.exercises import EXERCISES
    from grader.self_test import examine

    if exercise and exercise not in EXERCISES:
        raise typer.BadParameter(f"no exercise is called {exercise!r}; the exercises are: {', '.join(EXERCISES)}")
    chosen = [EXERCISES[exercise]] if exercise else list(EXERCISES.values())
    rows = [row for one in chosen for row in examine(one)]
    table = Table("exercise", "kind", "implementation", "points", "verdict")
    for row in rows:
        if quiet and row.ok:
            continue
        verdict = "ok" if row.ok else "survives" if not row.killed else f"named: {row.said}"
        verdict = (
            verdict if row.kind == "mistake" or row.ok else {"correct": "loses points"}.get(row.kind, "earns points")
        )
        table.add_row(row.exercise, row.kind, row.name, f"{row.points}/{row.max_points}", verdict)
    if table.row_count:
        console.print(table)
    for row in rows:
        if not row.ok and row.kind != "mistake":
            console.print(f"\n{row.kind}, {row.name}:\n{row.said}", markup=False)
    known = [row for row in rows if row.kind == "mistake"]
    correct = [row for row in rows if row.kind == "correct"]
    empty = [row for row in rows if row.kind == "knows nothing"]
    n = len(known)
    console.print(
        f"mistakes: killed {sum(r.killed for r in known)}/{n}, named {sum(r.named for r in known)}/{n}"
        f" · right answers with full points: {sum(r.ok for r in correct)}/{len(correct)}"
        f" · answers that know nothing, 0 points: {sum(r.ok for r in empty)}/{len(empty)}"
    )
    if not all(row.ok for row in rows):
        raise typer.Exit(1)


@app.command()
def release(
    chapter: Annotated[
        list[str] | None, typer.Argument(help="Chapters, e.g. 01_rollouts_and_rewards; default all.")
    ] = None,
    execute: Annotated[bool, typer.Option(help="Run the solutions first and store their outputs.")] = False,
) -> None:
    """Regenerate notebooks/ from solutions/ (metadata is derived, solutions are cut out)."""
    from nbclient.exceptions import CellExecutionError

    from grader.classroom.release import ReleaseError
    from grader.classroom.release import release as make
    from grader.execution import NotebookFailed
    from grader.paths import chapters

    known = chapters()
    for name in chapter or []:
        if name not in known:
            raise typer.BadParameter(f"no chapter is called {name!r}; the chapters are: {', '.join(known)}")
    for name in chapter or known:
        start = time.perf_counter()
        try:
            state = make([name], execute=execute)[name]
        except (ReleaseError, NotebookFailed, CellExecutionError, ValueError) as error:
            console.print(f"{name}: {error}", style="red", markup=False, soft_wrap=True)
            raise typer.Exit(1) from None
        console.print(f"{name}: {state} ({time.perf_counter() - start:.0f} s)")


@app.command()
def grade(
    submitted: Annotated[Path, typer.Argument(help="Holds STUDENT/CHAPTER/CHAPTER.ipynb.")] = GRADING / "submitted",
    out: Annotated[Path, typer.Option(help="Where the report goes.")] = GRADING / "report",
    chapter: Annotated[list[str] | None, typer.Option(help="Only this chapter (may be repeated).")] = None,
    roster: Annotated[Path | None, typer.Option(help="A file with one student a line: all get a row.")] = None,
    work: Annotated[Path, typer.Option(help="Where the gradebook and the graded notebooks live.")] = GRADING,
    seed: Annotated[int | None, typer.Option(min=0, help="Draws the inputs of the checks; default: new ones.")] = None,
    cell_seconds: Annotated[int, typer.Option(min=1, help="Time limit for one cell.")] = 60,
    sandbox: Annotated[
        bool,
        typer.Option(
            help="Shut every kernel in (Linux with bubblewrap). Without it the students' code runs with your rights: "
            "it can read and delete your files, other submissions and the gradebook."
        ),
    ] = True,
) -> None:
    """Grade a folder of submissions: scores.csv, submissions.csv, feedback pages and a table of the class."""
    from grader.classroom.grading import GradingError, grade_class
    from grader.classroom.intake import IntakeError, read_roster
    from grader.classroom.reports import class_tables, exercise_table, write_report
    from grader.paths import chapters

    for name in chapter or []:
        if name not in chapters():
            raise typer.BadParameter(f"no chapter is called {name!r}; the chapters are: {', '.join(chapters())}")
    if not sandbox:
        console.print(
            "Note: without the sandbox the students' code runs with your rights: it can read and delete your files, "
            "other submissions and the gradebook. Grade only the work of people you trust this way.",
            style="yellow",
        )
    if out.exists() and not out.is_dir():
        raise typer.BadParameter(f"--out {out} is a file; name a folder")
    try:
        names = read_roster(roster) if roster else []
        with Progress(console=console) as bar:
            task = bar.add_task("grading", total=None)
            graded = grade_class(
                submitted, work, chapter, names, seed, cell_seconds, sandbox,
                progress=lambda done, total, what: bar.update(task, completed=done, total=total, description=what),
            )  # fmt: skip
        write_report(graded, out)
    except (IntakeError, GradingError, OSError) as error:
        console.print(str(error), style="red", markup=False, soft_wrap=True)
        raise typer.Exit(1) from None
    console.print(*class_tables(graded), exercise_table(graded))
    console.print(f"Report: {out} (scores.csv, submissions.csv, feedback/)", markup=False, soft_wrap=True)
    if not any(one.state in ("graded", "needs review") for one in graded):
        raise typer.Exit(1)


def main() -> None:
    """Run the command line (the console script `grader`)."""
    app(prog_name="grader")


if __name__ == "__main__":
    main()
