"""One grading from its first submission to its last: what is done already, what goes to a worker, what is settled.

A submission passes through three steps, each of which leaves its result on disk before the next begins: a worker
judges it (`judged/`), this process lets nbgrader write the grades (gradebook, `autograded/`), a worker makes its page
(`feedback/`). The record, written last, says that all three are done and from what. A grading that is killed finds
the files again and goes on after the last step that is on disk.
"""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from nbformat import NotebookNode
from nbgrader.apps.api import NbGraderAPI
from sqlalchemy.exc import SQLAlchemyError

from grader.classroom.engine import by_hand, gradebook
from grader.classroom.engine.gradebook import Entry
from grader.classroom.engine.pool import Pool, Task
from grader.classroom.engine.records import (
    Settings,
    has_text,
    judged_path,
    judging_key,
    read_json,
    read_notebook,
    record_path,
    told,
)
from grader.classroom.engine.results import due_in, leaks_in, left_out_in, no_scores, read_scores, trouble_in
from grader.classroom.engine.trouble import Unusable, is_full, trouble_with
from grader.classroom.intake import STAMP, Submission
from grader.classroom.preprocessors import content_digest
from grader.classroom.same_student import doubles, former_ids, take_along
from grader.classroom.states import NOT_YET, Graded
from grader.classroom.unscored import leave_no_zero
from grader.classroom.whole import write_whole
from grader.judge.flags import flags
from grader.judge.start import USUAL

TRIES = 2  # what fails for a reason of the machine's (a kernel that does not start) may work the second time
Progress = Callable[[int, int, str], None]


class Run:
    """The grading of the submissions in `found`; `again` judges also what has not changed."""

    def __init__(self, found: Sequence[Submission], settings: Settings, again: bool, roster: Sequence[str] = ()):
        self.found, self.settings, self.again, self.roster = list(found), settings, again, list(roster)
        self.work = Path(settings.work)
        self.rows: dict[int, Graded] = {}
        self.keys: dict[int, str] = {}
        self.tries: dict[tuple[str, int], int] = {}
        self.fresh: set[int] = set()
        self.to_judge: deque[int] = deque()
        self.to_settle: deque[int] = deque()
        self.to_show: deque[int] = deque()
        self.shown: dict[int, tuple[Entry, str]] = {}  # what the page that is being made shows
        self._plan()

    def begin(self, pool: Pool) -> None:
        """Let the workers start on what there is to judge; the gradebook is not needed for that."""
        pool.start(len(self.to_judge))
        self._give(pool)

    def go(self, pool: Pool, api: NbGraderAPI, progress: Progress, stopped: Callable[[], bool]) -> None:
        """Grade until everything has its row, or until `stopped` says so. `api` knows the chapters."""
        self.api = api
        with api.gradebook as self.book:
            self.moved = take_along(self.book, self.found, self.work, self.roster)
            self.formerly = former_ids(self.work)
            self.doubles = doubles([student.id for student in self.book.students], self.found, self.work)
            while len(self.rows) < len(self.found) and not stopped():
                self._give(pool)
                if self.to_settle:
                    self._settle(self.to_settle.popleft())
                for answer in pool.wait(0.0 if self.to_settle else 0.2) if pool.busy() else ():
                    self._take(answer)
                progress(len(self.rows), len(self.found), self._now(pool))
            # Only where it was stopped: what an earlier grading did is no less done for that.
            self.to_settle += [n for n in range(len(self.found)) if n not in self.rows and n not in self.to_settle]
            while self.to_settle:
                number = self.to_settle.popleft()
                if self._judged(number).get("key") == self.keys.get(number):
                    self.fresh.discard(number)
                    self._settle(number, known_only=True)
            for row in self.rows.values():
                if row.state in ("failed", "missing"):
                    leave_no_zero(self.book, row.submission.chapter, row.submission.student_id)
        if not stopped():
            progress(len(self.found), len(self.found), "done")

    def result(self) -> list[Graded]:
        """Return a row for every submission; those that were not reached are "not graded yet"."""
        return [
            self.rows.get(number) or Graded(one, NOT_YET, one.reason, no_scores(one, NOT_YET), flags=one.flags)
            for number, one in enumerate(self.found)
        ]

    def _plan(self) -> None:
        for number, one in enumerate(self.found):
            if one.state != "found":
                self.rows[number] = Graded(one, one.state, one.reason, no_scores(one, one.state), flags=one.flags)
                continue
            staged = self.work / "intake" / one.student_id / one.chapter / f"{one.chapter}.ipynb"
            with self._costs_this_row_only(number):
                content = content_digest(read_notebook(staged))
                self.keys[number] = judging_key(content, one.chapter, self.settings)
                if self.again or self._judged(number).get("key") != self.keys[number]:
                    self.fresh.add(number)
                    self.to_judge.append(number)
                else:
                    self.to_settle.append(number)

    def _judged(self, number: int) -> dict:
        """Return what a worker has stored; {} where there is nothing, or not all of it."""
        one = self.found[number]
        judged = read_json(judged_path(self.work, one.student_id, one.chapter))
        notebook = judged.get("notebook")
        whole = isinstance(notebook, dict) and isinstance(notebook.get("cells"), list)
        return judged if whole and isinstance(judged.get("seconds"), int | float) else {}

    @contextmanager
    def _costs_this_row_only(self, number: int) -> Iterator[None]:
        """Let an error cost the submission at hand its row, and nobody else. A gradebook that fails is everybody's,
        and so is a full disk."""
        try:
            yield
        except (SQLAlchemyError, Unusable):
            raise
        except Exception as error:
            if is_full(error):
                raise
            self._fail(number, f"its result could not be read: {told(error, self.work)}")

    def _give(self, pool: Pool) -> None:
        while pool.idle() and (self.to_show or self.to_judge):
            what, number = ("page", self.to_show.popleft()) if self.to_show else ("judge", self.to_judge.popleft())
            one = self.found[number]
            task = {"do": what, "number": number, "chapter": one.chapter}
            task |= {"student": one.student_id, "name": one.student, "left": one.left}
            if what == "judge":
                last = self.tries.get((what, number), 0) == TRIES - 1
                task |= {"key": self.keys[number], "preload": preload(one.chapter), "last": last}
                # As many kernels start ahead as there will be notebooks for.
                if len(self.to_judge) >= pool.size:
                    task["next"] = preload(self.found[self.to_judge[pool.size - 1]].chapter)
            pool.give(task)

    def _take(self, answer: Task) -> None:
        what, number, problem = answer["do"], answer["number"], answer.get("problem", "")
        if answer.get("full") and (trouble := trouble_with(self.work)):
            raise Unusable(trouble)
        self.tries[what, number] = self.tries.get((what, number), 0) + 1
        if problem and self.tries[what, number] < TRIES:
            (self.to_judge if what == "judge" else self.to_show).append(number)
            return
        if what == "judge":
            if problem:
                self._fail(number, problem)
            else:
                self.to_settle.append(number)
            return
        entry, shown = self.shown.pop(number)
        with self._costs_this_row_only(number):
            if not problem:
                self._record(number, entry, shown)
            self._row(number, entry, page=None if problem else self._page(number))

    def _settle(self, number: int, known_only: bool = False) -> None:
        """Bring a judged submission into the gradebook, unless it is there, and see whether its page is due."""
        with self._costs_this_row_only(number):
            self._settle_row(number, known_only)

    def _settle_row(self, number: int, known_only: bool) -> None:
        one, judged = self.found[number], self._judged(number)
        path = record_path(self.work, one.student_id, one.chapter)
        record, entry = read_json(path), gradebook.entry_of(self.book, one)
        there = entry is not None and record.get("graded") == self._graded(number, entry)
        if number in self.fresh or not there or self._notebook(number) is None:
            if known_only:
                return
            self.fresh.add(number)
            known = by_hand.settled(entry, record, one.digest)
            # It would be believed if nbgrader got no further than half its way; what was given by hand stays known.
            if known:
                write_whole(path, json.dumps({"content": one.digest, by_hand.RECORDED: known}) + "\n")
            else:
                path.unlink(missing_ok=True)
            problem = gradebook.autograde(self.api, one, self.work)
            if problem:
                self._fail(number, problem)
                return
            by_hand.mark(self.book, one, known)
            entry = gradebook.entry_of(self.book, one)
        elif by_hand.mark(self.book, one, by_hand.settled(entry, record, one.digest)):  # nbgrader graded meanwhile
            entry = gradebook.entry_of(self.book, one)
        shows = json.dumps([one.student, judged.get("key"), entry.shown(), one.left], sort_keys=True)
        shown = hashlib.sha256(shows.encode()).hexdigest()
        if record.get("shown") == shown and has_text(self._page(number)) and number not in self.fresh:
            if record.get(by_hand.RECORDED) != by_hand.given(entry):
                self._record(number, entry, shown)
            self._row(number, entry, page=self._page(number))
        else:
            self.shown[number] = (entry, shown)
            self.to_show.append(number)

    def _graded(self, number: int, entry: Entry | None) -> dict | None:
        """Return what, unchanged, spares a submission nbgrader's grading: what goes in, and what came out."""
        if entry is None:
            return None
        one = self.found[number]
        try:
            stamp = (self.work / "intake" / one.student_id / one.chapter / STAMP).read_text(encoding="utf-8").strip()
        except OSError:
            stamp = ""
        grades, costly = sorted(entry.grades.items()), entry.late and self.settings.late_policy != "none"
        return {
            "key": self.keys[number],
            "stamp": stamp,
            "handed in": entry.handed_in,
            "due": entry.due,
            "policy": self.settings.late_policy,
            "penalty": entry.penalty,
            "auto": {name: grade.auto for name, grade in grades},
            # What lateness costs may hang on the points, those by hand too, and nbgrader counts it when it grades.
            "late points": [grade.score for _, grade in grades] if costly else [],
        }

    def _record(self, number: int, entry: Entry, shown: str) -> None:
        one = self.found[number]
        data = {"graded": self._graded(number, entry), "shown": shown, "content": one.digest}
        data[by_hand.RECORDED] = by_hand.given(entry)
        write_whole(record_path(self.work, one.student_id, one.chapter), json.dumps(data, indent=1) + "\n")

    def _fail(self, number: int, problem: str) -> None:
        one = self.found[number]
        reason = "; ".join(filter(None, [one.reason, problem]))
        self.rows[number] = Graded(one, "failed", reason, no_scores(one, "failed"), flags=one.flags)

    def _row(self, number: int, entry: Entry, page: Path | None) -> None:
        one, judged = self.found[number], self._judged(number)
        notebook = self._notebook(number)
        if notebook is None:
            raise OSError(f"the graded notebook of {one.student_id} cannot be read")
        read = read_scores(one, notebook, entry)
        # Points by hand for all that it cost: somebody has seen it. What a missing file cost is not known so well.
        stopped, left_out = [*filter(None, [trouble_in(notebook)])], left_out_in(notebook, one.left)
        seen = (stopped if read.settled else []) + (left_out if read.all_seen else [])
        review = [*(said for said in (*stopped, *left_out) if said not in seen), *read.review]
        review += [] if page else ["no feedback page could be made"]
        late = one.late and not entry.late and "the learning platform says that it came in late"
        twice = self.doubles.get(one.student_id, ())
        remarks = [*one.flags, *twice, *review, *filter(None, [late]), *leaks_in(notebook)]
        found, unseen = self._flags(notebook, remarks)
        _, called = self.moved.get(one.student_id, ("", ""))
        came = f"called {called!r} in earlier gradings, whose grades came along" if called else ""
        review += [unseen] if unseen else []
        self.rows[number] = Graded(
            one,
            "needs review" if review else "graded",
            "; ".join(filter(None, [one.reason, *review, *seen, *read.notes, came])),
            read.scores,
            page,
            late=entry.late,
            penalty=entry.penalty,
            seconds=judged.get("seconds", 0.0),
            flags=found,
            fresh=number in self.fresh,
            formerly=tuple(self.formerly.get(one.student_id, ())),
        )

    def _flags(self, notebook: NotebookNode, remarks: list[str]) -> tuple[tuple[str, ...], str]:
        """Return the flags, and why there are none but `remarks`: no point hangs on them, so none is lost either."""
        try:
            return flags(notebook, remarks), ""
        except Exception as error:
            unseen = f"what stands out in its cells could not be looked for: {told(error, self.work)}"
            return (*remarks, unseen), unseen

    def _notebook(self, number: int) -> NotebookNode | None:
        """Return the notebook with its grades, or None where there is none, or not all of it."""
        one = self.found[number]
        try:
            path = self.work / "autograded" / one.student_id / one.chapter / f"{one.chapter}.ipynb"
            notebook = read_notebook(path)
        except Exception:  # a damaged file may hold anything
            return None
        return notebook if isinstance(notebook.get("cells"), list) else None

    def _page(self, number: int) -> Path:
        one = self.found[number]
        return self.work / "feedback" / one.student_id / one.chapter / f"{one.chapter}.html"

    def _now(self, pool: Pool) -> str:
        out = [process.task for process in pool.processes if process.task is not None]
        return ", ".join(f"{task['student']} {task['chapter'].partition('_')[0]}" for task in out) or "…"


def preload(chapter: str) -> list[str]:
    """Return the modules that a kernel for this chapter imports before its notebook comes."""
    needs_torch = any("torch" in type(exercise.adapter).__module__ for exercise in due_in(chapter))
    return [*USUAL, *(["torch"] if needs_torch else [])]
