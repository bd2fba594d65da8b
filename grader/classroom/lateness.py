"""When work was due, and what lateness costs: nbgrader's own due dates, timestamps and late plugin.

nbgrader keeps times in UTC. It reads when a submission came in from `timestamp.txt` beside the notebook (the intake
writes it where the LMS says when), and when it was due, extensions included, from the gradebook.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, date, datetime, time
from pathlib import Path

from traitlets.config import Config

from grader.classroom.intake_work import STAMP

POLICIES = ("none", "zero")
LAST_POLICY = "late_policy"  # a file in the work folder
PENALTY = "late_submission_penalty"


class LatenessError(Exception):
    """A due date or a policy cannot be read; the message says which and what to write."""


def read_due(given: str, chapters: Iterable[str]) -> dict[str, datetime]:
    """Return when each chapter was due, in UTC and without a time zone.

    Args:
        given: one time for all `chapters` (ISO 8601: 2026-12-01T23:59+01:00; without an offset it is UTC, and a date
            alone means the end of that day), or a CSV
            file with a row `chapter,time` for each chapter that has a due date.
        chapters: the chapters of the course.

    Raises:
        LatenessError: it is neither, a row names no chapter, or a time cannot be read.
    """
    path, known = Path(given), list(chapters)
    if not path.is_file():
        return dict.fromkeys(known, _time(given, "--due"))
    try:
        rows = [row for row in csv.reader(path.read_text(encoding="utf-8-sig").splitlines()) if any(row)]
    except (OSError, UnicodeDecodeError) as error:
        raise LatenessError(f"{path} cannot be read ({error}); give a CSV file in UTF-8") from None
    due = {}
    for number, row in enumerate(rows, 1):
        words = [word.strip() for word in row]
        if number == 1 and words[0].lower() == "chapter":
            continue
        named = [name for name in known if words[0] and name.startswith(words[0])]
        if len(words) < 2 or (len(named) != 1 and words[0] not in known):
            raise LatenessError(
                f"{path}, row {number}: {','.join(row)!r} is no `chapter,time`; the chapters are {', '.join(known)}"
            )
        due[words[0] if words[0] in known else named[0]] = _time(words[1], f"{path}, row {number}")
    return due


def _time(text: str, where: str) -> datetime:
    with suppress(ValueError):
        return datetime.combine(date.fromisoformat(text.strip()), time(23, 59, 59))
    try:
        when = datetime.fromisoformat(text.strip())
    except ValueError:
        raise LatenessError(
            f"{where}: {text!r} is no time (and no file); write it as 2026-12-01T23:59+01:00 (without +01:00: UTC)"
        ) from None
    return when.astimezone(UTC).replace(tzinfo=None) if when.tzinfo else when


def last_policy(work: Path) -> str:
    """Return the late policy of the last grading in this folder, "none" before the first."""
    with suppress(OSError, UnicodeDecodeError):
        return (work / LAST_POLICY).read_text(encoding="utf-8").strip() or "none"
    return "none"


def keep_policy(work: Path, policy: str) -> None:
    """Let the next grading in this folder do as this one, so that "grade again" takes no penalty back."""
    (work / LAST_POLICY).write_text(policy + "\n", encoding="utf-8")


def policy_config(policy: str) -> Config:
    """Return nbgrader's settings for a late policy: "none", "zero" (nothing for late work), or a plugin of one's own.

    A plugin is named like `my_module.MyPlugin`, a subclass of `nbgrader.plugins.BasePlugin` with the method
    `late_submission_penalty(student_id, score, seconds_late)`.

    Raises:
        LatenessError: it is none of these, or cannot be imported.
    """
    made = Config()
    if policy in POLICIES:
        made.LateSubmissionPlugin.penalty_method = policy
        return made
    if "." not in policy:
        raise LatenessError(f"no late policy is called {policy!r}; use {', '.join(POLICIES)} or MODULE.CLASS")
    from traitlets.utils.importstring import import_item

    try:
        plugin = import_item(policy)
    except Exception as error:  # whatever the module itself raises
        raise LatenessError(f"the late policy {policy} cannot be imported ({error})") from None
    from nbgrader.plugins import BasePlugin

    if not (isinstance(plugin, type) and issubclass(plugin, BasePlugin) and hasattr(plugin, PENALTY)):
        raise LatenessError(
            f"the late policy {policy} is no subclass of nbgrader.plugins.BasePlugin with a method {PENALTY}"
        )
    made.AssignLatePenalties.plugin_class = plugin
    return made


def untimed(times: Iterable[str], due: str, policy: str) -> str:
    """Say for how many submissions a due date or a late policy means nothing, since nobody knows when they came.

    Args:
        times: when each came in, "" where that is not known (`Submission.timestamp`).
    """
    times = list(times)
    unknown = sum(not time for time in times)
    if not unknown or not (due or policy != "none"):
        return ""
    which = "None of the submissions says" if unknown == len(times) else f"{unknown} of {len(times)} do not say"
    return f"{which} when it came in (there is no {STAMP}), so nothing is taken off for lateness there."
