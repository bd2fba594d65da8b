"""The command line `grader`: for students, instructors and the people who keep the course."""

from __future__ import annotations

import time
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="GRPO from scratch: open the course, release it, grade it, and test the grader.",
)
console = Console()


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
        verdict = verdict if row.kind == "mistake" or row.ok else {"correct": "loses points"}.get(row.kind, "earns points")
        table.add_row(row.exercise, row.kind, row.name, f"{row.points}/{row.max_points}", verdict)
    if table.row_count:
        console.print(table)
    for row in rows:
        if not row.ok and row.kind != "mistake":
            console.print(f"\n{row.kind}, {row.name}:\n{row.said}", markup=False)
    known = [row for row in rows if row.kind == "mistake"]
    correct = [row for row in rows if row.kind == "correct"]
    empty = [row for row in rows if row.kind == "knows nothing"]
    console.print(
        f"mistakes: killed {sum(r.killed for r in known)}/{len(known)}, named {sum(r.named for r in known)}/{len(known)}"
        f" · right answers with full points: {sum(r.ok for r in correct)}/{len(correct)}"
        f" · answers that know nothing, 0 points: {sum(r.ok for r in empty)}/{len(empty)}"
    )
    if not all(row.ok for row in rows):
        raise typer.Exit(1)


@app.command()
def release(
    chapter: Annotated[list[str] | None, typer.Argument(help="Chapters, e.g. 01_rollouts_and_rewards; default all.")] = None,
    execute: Annotated[bool, typer.Option(help="Run the solutions first and store their outputs.")] = False,
) -> None:
    """Regenerate notebooks/ from solutions/ (metadata is derived, solutions are cut out)."""
    from grader.classroom.release import ReleaseError
    from grader.classroom.release import release as make
    from grader.paths import chapters

    known = chapters()
    for name in chapter or []:
        if name not in known:
            raise typer.BadParameter(f"no chapter is called {name!r}; the chapters are: {', '.join(known)}")
    for name in chapter or known:
        start = time.perf_counter()
        try:
            state = make([name], execute=execute)[name]
        except (ReleaseError, ValueError) as error:
            console.print(f"{name}: {error}", style="red", markup=False)
            raise typer.Exit(1) from None
        console.print(f"{name}: {state} ({time.perf_counter() - start:.0f} s)")


def main() -> None:
    """Run the command line (the console script `grader`)."""
    app()


if __name__ == "__main__":
    main()
