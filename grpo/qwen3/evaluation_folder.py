"""The folder of an evaluation: every answer as soon as it is there, so that a kill costs one batch at most.

OUT/evaluation.json   what is asked: model, problems (their checksum), ways of asking, limits, seed
OUT/.lock             held by the process that answers (`folder_lock`)
OUT/answers.jsonl     one line per completion: control, problem, vote, answer, reward, tokens, finished, seconds, text
"""

from __future__ import annotations

import json
import math
import os
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from reprlib import repr as _short

from grpo.qwen3.answers import Answer, problems_per_batch
from grpo.qwen3.checkpoint import write_file
from grpo.qwen3.folder_lock import LOCK_FILE, hold_folder

SETTINGS_FILE, ANSWERS_FILE = "evaluation.json", "answers.jsonl"
# What may differ when an evaluation goes on: on another device only the rounding does.
FREE = ("device",)


def _is_number(value):
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_count(value):
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_text(value):
    return isinstance(value, str)


# What every line of the answers has to hold.
_FIELDS = {
    "control": _is_text,
    "problem": _is_count,
    "vote": _is_count,
    "seconds": lambda value: _is_number(value) and value >= 0,
    "text": _is_text,
    "answer": lambda value: value is None or _is_text(value),
    "reward": _is_number,
    "tokens": _is_count,
    "finished": lambda value: isinstance(value, bool),
}


class EvaluationFolder:
    """Where answers are kept.

    Args:
        path: folder, new or empty, or with an evaluation of the same settings.
        settings: dict of plain data that decides the answers.
        resume: go on with what is there.

    Raises: ValueError if the folder holds something and resume is not set, if there is nothing to resume, or if it was
        made with other settings (the first that differs is named), if another process holds it, or if it cannot be
        written.
    """

    def __init__(self, path, settings, resume=False):
        self.path = Path(path)
        if resume:
            self._require_same(settings)
            return
        self._require_free()
        with self.hold():
            self._require_free()  # once more: another process may have been faster
            with self._disk_errors():
                write_file(self._settings, json.dumps(settings, indent=1) + "\n")
                write_file(self._answers, "")

    def hold(self):
        """Keep other processes out from now on: `with folder.hold(): ...`. The folder is made if there is none.

        Returns: a context manager (`grpo.qwen3.folder_lock.hold_folder`).

        Raises: FolderInUse if another process holds the folder; ValueError if it cannot be written.
        """
        with self._disk_errors():
            return hold_folder(self.path)

    def append(self, control, start, answers, seconds):
        """Keep a batch.

        Args:
            control: str, the name of the way of asking.
            start: int, number of the batch's first problem.
            answers: list of lists of Answer.
            seconds: float, what the batch took.
        """
        share = seconds / sum(map(len, answers))
        lines = [
            {"control": control, "problem": start + row, "vote": vote, "seconds": share, **asdict(answer)}
            for row, several in enumerate(answers)
            for vote, answer in enumerate(several)
        ]
        with self._answers.open("a", encoding="utf-8") as file:
            file.write("".join(json.dumps(line) + "\n" for line in lines))
            file.flush()
            os.fsync(file.fileno())

    def take_back(self, controls, problems, batch_size):
        """What is finished, in whole batches; the rest of the file is cut off.

        Args:
            controls: list of Control, in the order in which they are run.
            problems: int, number of problems of each.
            batch_size: int, completions at a time.

        Returns: dict, name of the control -> (list of lists of Answer, seconds); every control is in it.

        Raises: ValueError that names the first line that is no answer, or not the one that is due there. Then the file
            stays as it is.
        """
        read, kept, found = self._read(controls, problems), [], {}
        for control in controls:
            mine = read[control.name]
            done = len(mine) // control.votes
            size = problems_per_batch(batch_size, control.votes)
            done = done if done == problems else done - done % size
            mine = mine[: done * control.votes]
            kept += mine
            answers = [Answer(**{name: line[name] for name in Answer.__dataclass_fields__}) for line in mine]
            grouped = [answers[row : row + control.votes] for row in range(0, len(answers), control.votes)]
            found[control.name] = grouped, sum(line["seconds"] for line in mine)
        write_file(self._answers, "".join(json.dumps(line) + "\n" for line in kept))
        return found

    def _require_free(self):
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"{self.path} is a file: choose another --out")
        if self.path.is_dir() and any(child.name != LOCK_FILE for child in self.path.iterdir()):
            what = "an evaluation: add --resume to go on with it," if self._settings.is_file() else "files already:"
            raise ValueError(f"{self.path} holds {what} or choose another --out")

    @contextmanager
    def _disk_errors(self):
        try:
            yield
        except OSError as error:
            raise ValueError(f"{self.path} cannot be written: {error.strerror}: choose another --out") from error

    @property
    def _settings(self):
        return self.path / SETTINGS_FILE

    @property
    def _answers(self):
        return self.path / ANSWERS_FILE

    def _read(self, controls, problems):
        """Name of the control -> its lines, each of them the answer that is due at its place."""
        try:
            texts = self._answers.read_text(encoding="utf-8").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "it is not UTF-8 text"
            raise ValueError(
                f"{self._answers} cannot be read ({why}): put it back, make an empty file of this name to answer "
                "everything again, or choose another --out"
            ) from error
        # What stands behind the last line break is empty, or a line in whose middle the process was killed.
        votes, read = {control.name: control.votes for control in controls}, {control.name: [] for control in controls}
        for number, text in enumerate(texts[:-1], 1):
            try:
                line = json.loads(text)
            except (ValueError, RecursionError):
                self._refuse(number, "is not JSON")
            if not isinstance(line, dict):
                self._refuse(number, "is no object with fields")
            wrong = next((name for name, fits in _FIELDS.items() if name not in line or not fits(line[name])), None)
            if wrong is not None:
                self._refuse(number, f"has {wrong} {_short(line[wrong])}" if wrong in line else f"lacks {wrong}")
            name = line["control"]
            if name not in read:
                self._refuse(number, f"belongs to {name!r}, which this evaluation does not ask")
            due = divmod(len(read[name]), votes[name])
            if due[0] >= problems or (line["problem"], line["vote"]) != due:
                expected = "no further one is" if due[0] >= problems else "problem {}, vote {} is".format(*due)
                here = f"problem {line['problem']}, vote {line['vote']}"
                self._refuse(number, f"answers {here} of {name!r}, where {expected} due (a line was lost or doubled)")
            read[name].append(line)
        return read

    def _refuse(self, number, what):
        raise ValueError(
            f"{self._answers}, line {number} {what}: put the file back as it was, or delete this line and all behind "
            "it, and they are answered again"
        )

    def _require_same(self, settings):
        try:
            before = json.loads(self._settings.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise ValueError(f"{self.path} holds no evaluation to resume: leave out --resume") from error
        if not isinstance(before, dict):
            raise ValueError(f"{self._settings} holds no settings but {_short(before)}: choose another --out")
        # As JSON gives them back: tuples are lists there.
        settings = json.loads(json.dumps(settings))
        for name in {**before, **settings}:
            if name not in FREE and before.get(name) != settings.get(name):
                raise ValueError(
                    f"the evaluation in {self.path} has {name} {before.get(name)!r}, not {settings.get(name)!r}: give "
                    "the same options as before, or choose another --out"
                )
