"""The command line `grader`: for students, instructors and the people who keep the course."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from grader.classroom.export_commands import export
from grader.paths import GRADING, chapter_called

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="GRPO from scratch: open the course, release it, grade it, and test the grader.",
)
console = Console()
app.add_typer(export, name="export")


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


def _chapters(given: list[str] | None) -> list[str]:
    try:
        return list(dict.fromkeys(map(chapter_called, given or [])))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


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
def attacks(
    only: Annotated[str, typer.Option(metavar="KIND", help="Only this kind, or this one submission.")] = "",
    json_file: Annotated[Path | None, typer.Option("--json", help="Also write every row to this file.")] = None,
    quiet: Annotated[bool, typer.Option(help="Only rows that are not as they should be, and the totals.")] = False,
    cell_seconds: Annotated[int, typer.Option(min=1, help="Time limit for one cell.")] = 8,
) -> None:
    """Grade the bank of hostile, faulty and honest submissions as one class. Exit status 1 if any gained anything."""
    import json
    import tempfile
    from dataclasses import asdict

    from grader.attacks import NoBank, attack_table, chosen, grade_bank, honest_table, totals
    from grader.classroom.grading import GradingError

    try:
        submissions = chosen(only)
        with tempfile.TemporaryDirectory(prefix="attacks-") as folder, Progress(console=console) as bar:
            task = bar.add_task("grading", total=None)
            result = grade_bank(
                submissions, Path(folder), cell_seconds,
                progress=lambda done, total, what: bar.update(task, completed=done, total=total, description=what),
            )  # fmt: skip
    except (NoBank, GradingError) as error:
        console.print(str(error), style="red", markup=False, soft_wrap=True)
        raise typer.Exit(1) from None
    console.print(attack_table(result, not quiet), honest_table(result, not quiet))
    if json_file:
        made = {**asdict(result), "ok": result.ok, "totals": totals(result)}
        json_file.write_text(json.dumps(made, indent=1), encoding="utf-8")
    if result.stopped:
        console.print(f"The batch stopped: {result.stopped}", style="red", markup=False, soft_wrap=True)
    for effect in result.effects:
        console.print(f"Nobody's: {effect}", style="red", markup=False, soft_wrap=True)
    console.print(totals(result), markup=False, soft_wrap=True)
    if not result.ok:
        raise typer.Exit(1)


@app.command()
def release(
    chapter: Annotated[
        list[str] | None, typer.Argument(help="Chapters, e.g. 01 or 01_rollouts_and_rewards; default all.")
    ] = None,
    execute: Annotated[bool, typer.Option(help="Run the solutions first and store their outputs.")] = False,
) -> None:
    """Regenerate notebooks/ from solutions/ (metadata is derived, solutions are cut out)."""
    from nbclient.exceptions import CellExecutionError

    from grader.classroom.release import ReleaseError
    from grader.classroom.release import release as make
    from grader.execution import NotebookFailed
    from grader.paths import chapters

    for name in _chapters(chapter) or chapters():
        start = time.perf_counter()
        try:
            state = make([name], execute=execute)[name]
        except (ReleaseError, NotebookFailed, CellExecutionError, ValueError) as error:
            console.print(f"{name}: {error}", style="red", markup=False, soft_wrap=True)
            raise typer.Exit(1) from None
        console.print(f"{name}: {state} ({time.perf_counter() - start:.0f} s)")


@app.command()
def grade(
    submitted: Annotated[
        Path, typer.Argument(help="A folder STUDENT/CHAPTER/CHAPTER.ipynb, or what Moodle or Canvas gives out.")
    ] = GRADING / "submitted",
    out: Annotated[Path, typer.Option(help="Where the report goes.")] = GRADING / "report",
    chapter: Annotated[list[str] | None, typer.Option(help="Only this chapter, e.g. 02 (may be repeated).")] = None,
    roster: Annotated[Path | None, typer.Option(help="A file with one student a line: all get a row.")] = None,
    names: Annotated[
        Path | None, typer.Option(help="A CSV file: a name or id of the learning platform, the name on the roster.")
    ] = None,
    work: Annotated[Path, typer.Option(help="Where the gradebook and the graded notebooks live.")] = GRADING,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Draws the inputs of the checks; default: a secret kept in --work.")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Grade also what has not changed since.")] = False,
    workers: Annotated[int | None, typer.Option(min=1, help="Notebooks at a time; default: one a core.")] = None,
    due: Annotated[
        str,
        typer.Option(
            help="When it was due: 2026-12-01T23:59+01:00, a date (its end, in UTC), or a CSV file with chapter,time."
        ),
    ] = "",
    late: Annotated[
        str | None,
        typer.Option(
            help="What lateness costs: none, zero (all points), or MODULE.CLASS, a plugin of nbgrader's. "
            "Default: as in the last grading in --work; none in the first."
        ),
    ] = None,
    cell_seconds: Annotated[int, typer.Option(min=1, help="Time limit for one cell.")] = 60,
    notebook_seconds: Annotated[int, typer.Option(min=1, help="Time limit for all cells of a notebook.")] = 900,
    pictures: Annotated[bool, typer.Option(help="Draw the plots, too: no points, twice the time.")] = False,
    container: Annotated[
        str, typer.Option(help='Shut kernels into containers, not into bubblewrap\'s boxes: "podman run IMAGE".')
    ] = "",
    sandbox: Annotated[
        bool,
        typer.Option(
            help="Shut every kernel in (Linux with bubblewrap). Without it the students' code runs with your rights: "
            "it can read and delete your files, other submissions and the gradebook."
        ),
    ] = True,
) -> None:
    """Grade a folder of submissions: scores.csv, submissions.csv, feedback pages and a table of the class.

    What has not changed since an earlier run in the same --work is taken over, so the same command goes on where one
    was stopped.
    """
    from grader.classroom import engine  # noqa: F401  (first: it makes the imports below quicker)
    from grader.classroom.class_tables import summary_line
    from grader.classroom.grading import GradingError, GradingStopped, grade_class
    from grader.classroom.intake import IntakeError, read_names, read_roster
    from grader.classroom.lateness import keep_policy, last_policy, untimed
    from grader.classroom.reports import class_tables, exercise_table, write_report

    chapter = _chapters(chapter)
    if late is None and (late := last_policy(work)) != "none":
        console.print(f"Late work: {late}, as in the last grading here (--late none ends that).", highlight=False)
    if not sandbox:
        console.print(
            "Note: without the sandbox the students' code runs with your rights: it can read and delete your files, "
            "other submissions and the gradebook. Grade only the work of people you trust this way.",
            style="yellow",
        )
    if out.exists() and not out.is_dir():
        raise typer.BadParameter(f"--out {out} is a file; name a folder")
    if out.resolve() == submitted.resolve():
        raise typer.BadParameter(f"--out {out} is the folder with the submissions; name another")
    if submitted.is_dir() and out.resolve().is_relative_to(submitted.resolve()):
        raise typer.BadParameter(f"--out {out} lies in the folder with the submissions, where folders are students")
    stopped = ""
    try:
        with Progress(console=console) as bar:
            task = bar.add_task("getting ready", total=None)
            try:
                graded = grade_class(
                    submitted, work, chapter, read_roster(roster) if roster else [], seed, cell_seconds, sandbox,
                    progress=lambda done, total, what: bar.update(task, completed=done, total=total, description=what),
                    workers=workers, again=again, pictures=pictures, notebook_seconds=notebook_seconds,
                    due=due, late_policy=late, names=read_names(names) if names else None, container=container,
                )  # fmt: skip
            except GradingStopped as stop:
                graded, stopped = stop.graded, str(stop)
        keep_policy(work, late)
    except (IntakeError, GradingError, OSError) as error:
        console.print(str(error), style="red", markup=False, soft_wrap=True)
        raise typer.Exit(1) from None
    try:
        write_report(graded, out)
    except OSError as error:
        said = f"the grading is kept, but its report could not be written into {out} ({error})"
        console.print(f"{said}; the same command tries again", style="red", markup=False, soft_wrap=True)
        raise typer.Exit(1) from None
    console.print(*class_tables(graded), exercise_table(graded))
    console.print(summary_line(graded), markup=False, highlight=False, soft_wrap=True)
    console.print(f"Report: {out} (scores.csv, submissions.csv, class.html, feedback/)", markup=False, soft_wrap=True)
    came = [one.submission.timestamp for one in graded if one.submission.state == "found"]
    if said := untimed(came, due, late):
        console.print(said, style="yellow", markup=False, highlight=False, soft_wrap=True)
    if stopped:
        console.print(f"{stopped[0].upper()}{stopped[1:]}.", style="yellow", markup=False, soft_wrap=True)
        raise typer.Exit(130)
    if not any(one.state in ("graded", "needs review") for one in graded):
        raise typer.Exit(1)


def main() -> None:
    """Run the command line (the console script `grader`)."""
    app(prog_name="grader")


if __name__ == "__main__":
    main()
