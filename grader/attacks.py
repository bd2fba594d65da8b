"""Grade the bank of hostile, faulty and honest submissions as one class, and say what any of them gained or broke.

The bank is data in tests/attacks/bank. All of it is handed in together, so that a submission could reach the others if
anything let it. What is looked for afterwards: points that nobody earned, honest points that are gone, a batch that
stopped, and whatever happened outside the sandboxes (see `grader.attack_effects`).
"""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from rich.table import Column, Table
from rich.text import Text

from grader.attack_effects import Outside, hidden_in_page
from grader.paths import ROOT

BANK = ROOT / "tests" / "attacks" / "bank"
SEED = 20_260
CELL_SECONDS = 8
HONEST, MATE = "honest", "honest-solution"  # a kind, and the classmate whose answers others would like to have


class NoBank(Exception):
    """The bank is not there; the message says what to do."""


@dataclass(frozen=True)
class Row:
    """What became of one submission of the bank.

    `gained` and `lost` are points above and below what it deserves; `effects` says what it did outside its sandbox or
    showed on its page. `fault` says what else is not as the bank states: another state, a flag that is missing.
    """

    name: str
    kind: str
    tries: str
    state: str
    reason: str
    gained: float = 0.0
    lost: float = 0.0
    effects: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    fault: str = ""

    @property
    def ok(self) -> bool:
        """Whether all is as it should be."""
        return not (self.gained or self.lost or self.effects or self.fault)


@dataclass(frozen=True)
class Result:
    """All rows, the reason why the batch stopped ("" if it did not), effects nobody owns, and the time it took."""

    rows: tuple[Row, ...]
    stopped: str = ""
    effects: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def attacks(self) -> list[Row]:
        """The rows of the hostile and the faulty."""
        return [row for row in self.rows if row.kind != HONEST]

    @property
    def honest(self) -> list[Row]:
        """The rows of the honest."""
        return [row for row in self.rows if row.kind == HONEST]

    @property
    def ok(self) -> bool:
        """Whether nothing was gained, lost, stopped or reached."""
        return not self.stopped and not self.effects and all(row.ok for row in self.rows)


def load_bank(folder: Path = BANK) -> ModuleType:
    """Import the bank from a source checkout.

    Raises: NoBank where the folder is not there.
    """
    if not (folder / "__init__.py").is_file():
        raise NoBank(
            f"the bank of submissions is not at {folder}: `grader attacks` needs a checkout of the course with its "
            "tests (git clone), not an installed package alone"
        )
    name = "grader_attack_bank"
    if name not in sys.modules:
        found = importlib.util.spec_from_file_location(
            name, folder / "__init__.py", submodule_search_locations=[str(folder)]
        )
        module = importlib.util.module_from_spec(found)
        sys.modules[name] = module
        try:
            found.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]


def grade_bank(
    submissions: Sequence[Any],
    folder: Path,
    cell_seconds: int = CELL_SECONDS,
    progress: Callable[[int, int, str], None] = lambda done, total, what: None,
    **options: Any,
) -> Result:
    """Grade submissions of the bank as one class and look at what they did.

    Args:
        submissions: some of the bank's, the classmate among them.
        folder: an empty folder for everything.
        cell_seconds: time limit for one cell.
        progress: as in `grade_class`.
        options: further ones of `grade_class`.
    """
    from grader.classroom.grading import GradingError, grade_class
    from grader.classroom.intake import IntakeError

    bank, start = load_bank(), time.perf_counter()
    with Outside(folder) as outside:
        mate = folder / "submitted" / MATE
        for one in sorted(submissions, key=lambda one: one.name != MATE):  # whose file must be there to be looked for
            one.write(folder / "submitted", bank.Places(**outside.places(mate, one.name)))
        try:
            graded = grade_class(
                folder / "submitted", outside.work, seed=SEED, cell_seconds=cell_seconds, progress=progress, **options
            )
        except (GradingError, IntakeError):
            raise
        except Exception as error:  # the batch stopped: that is a result of this run
            return Result((), f"{type(error).__name__}: {error}"[:300], seconds=time.perf_counter() - start)
        effects = outside.effects()
    found = {(one.submission.student, one.submission.chapter): one for one in graded}
    rows = []
    for one in submissions:
        mine = found.get((one.name, one.chapter))
        more = (*effects.pop(one.name, ()), *(outside.on_page(mine) if mine else ()))
        rows.append(_row(one, mine, (*more, *hidden_in_page(mine, outside, one, SEED))))
    unowned = tuple(text for texts in effects.values() for text in texts)
    return Result(tuple(rows), effects=unowned, seconds=time.perf_counter() - start)


def _row(one: Any, graded: Any, effects: tuple[str, ...]) -> Row:
    if graded is None:
        return Row(one.name, one.kind, one.tries, "no row", "", effects=effects, fault="it has no row in the report")
    due = one.due()
    excused = set(due) if "everything" in one.may_lose else set(one.may_lose)
    points = {score.exercise: score.points or 0.0 for score in graded.scores}
    gained = sum(max(0.0, points.get(name, 0.0) - due[name]) for name in due)
    lost = sum(max(0.0, due[name] - points.get(name, 0.0)) for name in due if name not in excused)
    fault = "" if graded.state in one.states else f"state {graded.state!r}, expected {' or '.join(one.states)}"
    if one.flagged and not graded.flags:
        fault = "; ".join(filter(None, [fault, "nobody is told of it"]))
    return Row(
        one.name, one.kind, one.tries, graded.state, graded.reason, gained, lost, effects, tuple(graded.flags), fault
    )


def chosen(only: str = "") -> list[Any]:
    """Return the submissions to grade: all, or those of one kind (or name) and the classmate that others look for.

    Raises:
        NoBank: the bank is not there, or nothing in it is called so.
    """
    bank = load_bank()
    everything = [*bank.ATTACKS, *bank.HONEST]
    if not only:
        return everything
    found = [one for one in everything if only in (one.kind, one.name)]
    if not found:
        kinds = ", ".join(sorted({one.kind for one in everything}))
        raise NoBank(f"the bank has no kind and no submission called {only!r}; the kinds are: {kinds}")
    return found if any(one.name == MATE for one in found) else [*found, *(o for o in everything if o.name == MATE)]


def attack_table(result: Result, everything: bool = True) -> Table:
    """Return one line for each attack; `everything` False: only those with which something is wrong."""
    table = Table(
        _names("attack", result.attacks),
        "kind",
        "what it tries",
        "state",
        "gained",
        "lost",
        "effects",
        title="Hostile and faulty",
    )
    for row in result.attacks:
        if everything or not row.ok:
            table.add_row(
                row.name, row.kind, Text(row.tries), row.state, f"{row.gained:g}", f"{row.lost:g}", _told(row)
            )
    return table


def honest_table(result: Result, everything: bool = True) -> Table:
    """Return one line for each honest submission; `everything` False: only those with which something is wrong."""
    table = Table(
        _names("honest", result.honest),
        "how it is written",
        "state",
        "lost",
        "effects",
        title="Right, written in other ways",
    )
    for row in result.honest:
        if everything or not row.ok:
            table.add_row(row.name, Text(row.tries), row.state, f"{row.lost:g}", _told(row))
    return table


def _names(title: str, rows: Sequence[Row]) -> Column:
    """A column that never cuts a name: `--only NAME` needs it whole."""
    return Column(title, min_width=max((len(row.name) for row in rows), default=0))


def _told(row: Row) -> Text:
    told = "; ".join(filter(None, [*row.effects, row.fault]))
    return Text(told or "none", style="" if row.ok else "red")


def totals(result: Result) -> str:
    """Return the run in one sentence."""
    outside = sum(len(row.effects) for row in result.rows) + len(result.effects)
    faults = sum(bool(row.fault) for row in result.rows)
    text = (
        f"{len(result.attacks)} attacks: {sum(row.gained for row in result.rows):g} points gained, "
        f"{sum(row.lost for row in result.rows):g} honest points lost, {1 if result.stopped else 0} batches stopped, "
        f"{outside} effects outside the sandbox"
    )
    if result.honest:
        text += f" · honest {sum(row.ok for row in result.honest)}/{len(result.honest)}"
    return text + (f" · {faults} not as the bank states" if faults else "")
