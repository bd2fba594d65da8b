"""Rebuild a notebook to be graded: the released one's marked cells, and around them what the student wrote.

What a student's file says about points, marks, tags or locked cells counts for nothing; only texts are taken from it.
The rules, each said in the submission's reason where it was needed:

1. The setup cell of the release runs first, whatever became of the student's own (which runs after it).
2. The student's other cells keep their order and run as ordinary cells, without metadata.
3. An answer is the cell with the exercise's mark. Of several, it is the last one that defines the function and is not
   the untouched stub; untouched copies are left out, the others run in their places. Parts of a split cell that make
   Python only together, and stand next to each other, are joined, whichever of them kept the mark.
4. Where the marked cell holds no answer but another cell defines the function, that one is the answer. Where that is
   the answer to another exercise already (cells were merged), it answers both: the untouched cell is left out.
5. A check is always the released one. It stands where the student's stood, but never before the answer.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from nbformat import NotebookNode

from grader.classroom.repair_cells import (
    checked_name,
    defines,
    ends_in_return,
    is_as_released,
    parses,
    without_an_answer,
)

MAX_PRINTED = 20_000  # characters kept of one output: a page with megabytes of print helps nobody
MARKS = ("grade", "solution", "points")
MAX_PARTS, MAX_JOINED = 50, 60_000  # parts of a split cell that are joined, and the characters they may come to


@dataclass(frozen=True)
class _Spot:
    """A place in the notebook to be: a student's text, or a released cell with (for answers) the student's text."""

    kind: str
    source: str
    of: str = ""  # the grade_id of the released cell that stands here


def rebuild(cells: Sequence, release: NotebookNode) -> tuple[NotebookNode, list[str]]:
    """Return the notebook to be graded, and what was put right in it.

    Args:
        cells: what was read of the student's notebook (`intake_notebook.Cell`).
        release: the chapter as it was released.
    """
    remarks: list[str] = []
    due = {grade_id_of(cell): cell for cell in release.cells if grade_id_of(cell)}
    answers = [grade_id for grade_id, cell in due.items() if cell.metadata.nbgrader.get("solution")]
    checks = [grade_id for grade_id in due if grade_id not in answers]
    for cell in cells:
        ours = due.get(cell.grade_id)
        if ours is not None and any(cell.marks.get(mark) != ours.metadata.nbgrader.get(mark) for mark in MARKS):
            remarks.append(f"the marks of the cell {cell.grade_id} were changed")
    spots = [_spot(cell, due, checks) for cell in cells]
    together: dict[str, list[str]] = {}
    for grade_id in answers:
        spots = _settle_answer(spots, grade_id, due[grade_id].source, remarks, together)
    for first, names in together.items():
        was, are = ("was", "is") if len(names) == 1 else ("were", "are")
        remarks.append(f"{', '.join(names)} {was} written in the cell of {first}, and {are} graded there")
    for grade_id in checks:
        spots = _settle_check(spots, grade_id, due[grade_id].source, remarks)
    for grade_id in due:  # in the order of the release, so that an exercise stands whole at the end
        if all(spot.of != grade_id for spot in spots):
            spots = _put_back(spots, grade_id, due[grade_id].source, remarks)
    setup = next((cell for cell in release.cells if cell.cell_type == "code" and not grade_id_of(cell)), None)
    return _notebook(spots, due, setup, release), list(dict.fromkeys(remarks))


def _spot(cell, due: dict, checks: list[str]) -> _Spot:
    """A cell of the student's. One with the mark of a check that defines functions was merged with answers: it is an
    ordinary cell, and the check comes back."""
    merged = cell.grade_id in checks and any(defines(cell.source, name) for name in checks)
    mark = cell.grade_id if cell.grade_id in due and not merged else ""
    return _Spot("code" if cell.grade_id in due else cell.kind, cell.source, mark)


def is_untouched(cells: Sequence, release: NotebookNode) -> bool:
    """Tell whether none of a chapter's answers was begun in a student's cells (`intake_notebook.Cell`)."""
    stubs = {
        grade_id_of(cell).removesuffix("_answer"): cell.source
        for cell in release.cells
        if grade_id_of(cell) and cell.metadata.nbgrader.get("solution")
    }
    return all(
        is_as_released(cell.source, name, stub)
        for cell in cells
        for name, stub in stubs.items()
        if cell.grade_id == f"{name}_answer" or (cell.kind == "code" and defines(cell.source, name))
    )


def _settle_answer(
    spots: list[_Spot], grade_id: str, stub: str, remarks: list[str], together: dict[str, list[str]]
) -> list[_Spot]:
    """Leave one spot for the answer, and say how it was chosen.

    `together` takes the exercises whose functions stand in the answer to another: {that one: their names}.
    """
    name = grade_id.removesuffix("_answer")
    before = sum(spot.of == grade_id for spot in spots)
    spots, joined = _joined(spots, grade_id)
    marked = [i for i, spot in enumerate(spots) if spot.of == grade_id]
    if before > 1:
        remarks.append(f"the cell {grade_id} stands there more than once")
    if joined:
        remarks.append(f"the parts of the split cell {grade_id} were joined")
    written = [i for i in marked if not is_as_released(spots[i].source, name, stub)]
    able = [i for i in written if defines(spots[i].source, name)]
    elsewhere = [
        i
        for i, spot in enumerate(spots)
        if spot.kind == "code"
        and not spot.of
        and defines(spot.source, name)
        and not is_as_released(spot.source, name, stub)
    ]
    other = None if able else _other_answer(spots, name, stub)
    if elsewhere and able:
        remarks.append(f"{name} is defined in another cell, too, than {grade_id}")
    elif other is not None and other > max(elsewhere, default=-1):  # the later one counts, as in Python
        together.setdefault(spots[other].of.removesuffix("_answer"), []).append(name)
        return _answered_by(other, spots, grade_id, name, stub)
    elif elsewhere:
        able = elsewhere
        remarks.append(f"{name} was written in another cell than {grade_id}, and is graded there")
    chosen = (able or written or [None])[-1]
    if len(able) > 1 and set(able) <= set(marked):
        remarks.append(f"{name} is defined in {len(able)} cells marked {grade_id}; the last one counts")
    if chosen is None:  # only untouched ones: the last stays
        chosen = marked[-1] if marked else None
    kept = []
    for i, spot in enumerate(spots):
        if i == chosen:
            kept.append(replace(spot, of=grade_id, source=spot.source if spot.source.strip() else stub))
        elif i not in marked:
            kept.append(spot)
        elif i in written:
            kept.append(replace(spot, of=""))
    return kept


def _other_answer(spots: list[_Spot], name: str, stub: str) -> int | None:
    """Return the place of the last answer to another exercise that defines this one's function too, if there is one."""
    found = [
        i
        for i, spot in enumerate(spots)
        if spot.of.endswith("_answer") and defines(spot.source, name) and not is_as_released(spot.source, name, stub)
    ]
    return found[-1] if found else None


def _answered_by(other: int, spots: list[_Spot], grade_id: str, name: str, stub: str) -> list[_Spot]:
    """Put a cell that says where the answer is behind the one that answers both, in place of the untouched ones."""
    kept = []
    for i, spot in enumerate(spots):
        if spot.of != grade_id:
            kept.append(spot)
        elif not is_as_released(spot.source, name, stub):
            kept.append(replace(spot, of=""))
        if i == other:
            kept.append(
                _Spot("code", f"# {name} is written in the cell of {spot.of.removesuffix('_answer')}", grade_id)
            )
    return kept


def _joined(spots: list[_Spot], grade_id: str) -> tuple[list[_Spot], bool]:
    """Join neighbouring parts of an answer cell that make Python only together.

    One of them has the mark; whether the other kept it when the cell was split depends on the editor.
    """
    made: list[_Spot] = []
    joined = 0
    for spot in spots:
        last = next((i for i in range(len(made) - 1, -1, -1) if made[i].kind == "code"), None)
        many = joined >= MAX_PARTS or last is None or len(made[last].source) + len(spot.source) > MAX_JOINED
        if spot.kind == "code" and not many and _one_answer({made[last].of, spot.of}, grade_id):
            both = made[last].source.rstrip("\n") + "\n" + spot.source
            name = grade_id.removesuffix("_answer")
            apart = parses(made[last].source) and (parses(spot.source) or ends_in_return(made[last].source, name))
            if not apart and parses(both) and defines(both, name):
                made[last] = replace(made[last], source=both, of=grade_id)
                joined += 1
                continue
        made.append(spot)
    return made, joined > 0


def _one_answer(marks: set[str], grade_id: str) -> bool:
    return grade_id in marks and marks <= {grade_id, ""}


def _settle_check(spots: list[_Spot], grade_id: str, source: str, remarks: list[str]) -> list[_Spot]:
    """Leave one spot for the check, after its answer; what the student wrote into it stays as an ordinary cell."""
    answer = next((i for i, spot in enumerate(spots) if spot.of == f"{grade_id}_answer"), None)
    mine = [i for i, spot in enumerate(spots) if spot.of == grade_id]
    if not mine:
        return spots
    if len(mine) > 1:
        remarks.append(f"the cell {grade_id} stands there more than once")
    place = mine[-1]
    if answer is not None and answer > place:
        remarks.append(f"the check of {grade_id} stood before its answer, and was moved behind it")
        place = answer
    checked = next((name for i in mine if (name := checked_name(spots[i].source, grade_id))), "")
    if checked and (answer is None or without_an_answer(spots[answer].source, grade_id)):
        remarks.append(f"{grade_id} is graded under the name {checked}, as its check was called")
    else:
        checked = ""
    made = []
    for i, spot in enumerate(spots):
        if i in mine:
            if spot.source.strip() != source.strip():
                remarks.append(f"the check of {grade_id} was edited; the released one is used")
                made.append(replace(spot, of=""))
        else:
            made.append(spot)
        if i == place:
            made += [_Spot("code", f"{grade_id} = {checked}")] if checked else []
            made.append(_Spot("code", source, grade_id))
    return made


def _put_back(spots: list[_Spot], grade_id: str, source: str, remarks: list[str]) -> list[_Spot]:
    """Put a released cell that is missing where it belongs: an answer before its check, else at the end; a check behind
    its answer."""
    what = "answer cell" if grade_id.endswith("_answer") else "check"
    remarks.append(f"the {what} of {grade_id.removesuffix('_answer')} was missing")
    marks = [spot.of for spot in spots]
    check = grade_id.removesuffix("_answer")
    if f"{grade_id}_answer" in marks:
        place = marks.index(f"{grade_id}_answer") + 1
    else:
        place = marks.index(check) if check != grade_id and check in marks else len(spots)
    return [*spots[:place], _Spot("code", source, grade_id), *spots[place:]]


def _notebook(spots: list[_Spot], due: dict, setup: NotebookNode | None, release: NotebookNode) -> NotebookNode:
    made = NotebookNode({**release, "metadata": copy.deepcopy(release.metadata)})
    taken = {cell.get("id") for cell in release.cells}
    made.cells = []
    first = next((i for i, spot in enumerate(spots) if spot.kind == "code"), len(spots))
    for i, (spot, cell_id) in enumerate(zip(spots, _ids(taken), strict=False)):
        if i == first and setup:
            made.cells.append(copy.deepcopy(setup))
        if spot.of:
            cell = copy.deepcopy(due[spot.of])
            cell.source = spot.source
        elif setup and spot.kind == "code" and spot.source.strip() == setup.source.strip():
            continue
        elif not spot.source.strip():
            continue
        else:
            cell = _plain_cell(spot, cell_id)
        made.cells.append(cell)
    return made


def _plain_cell(spot: _Spot, cell_id: str) -> NotebookNode:
    """Make a cell as nbformat does, which would check each of them against its schema (the whole is checked once)."""
    cell = NotebookNode(id=cell_id, cell_type=spot.kind, metadata=NotebookNode(), source=spot.source)
    return NotebookNode(cell, outputs=[], execution_count=None) if spot.kind == "code" else cell


def _ids(taken: set) -> Iterator[str]:
    number = 0
    while True:
        number += 1
        if f"student-{number}" not in taken:
            yield f"student-{number}"


def grade_id_of(cell: NotebookNode) -> str:
    """Return a cell's grade_id, or "" where it has none that can be read."""
    meta = cell.metadata.get("nbgrader")
    grade_id = meta.get("grade_id") if isinstance(meta, dict) else None
    return grade_id if isinstance(grade_id, str) else ""


def shorten_prints(cell: NotebookNode) -> None:
    """Cut printed output that nobody would read."""
    for output in cell.get("outputs", []):
        if output.output_type == "stream" and len(output.text) > MAX_PRINTED:
            output.text = output.text[:MAX_PRINTED] + f"\n… {len(output.text) - MAX_PRINTED:,} characters more"
