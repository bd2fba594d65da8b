"""The files that exports write: none takes the place of a file that the same export has not made.

`exports.json` in the report's folder keeps, for each file that an export has written, the digest of what it wrote and
what for. A file with that digest is the export's own, as it was left: the same export may write it again, as after
another grading. Anything else may be somebody's gradebook, corrections by hand, or another chapter's points.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from grader.classroom.export import ExportError
from grader.classroom.whole import write_whole

MADE = "exports.json"


@dataclass(frozen=True)
class Files:
    """Writes the files of one export.

    Args:
        report: the folder of the report that is exported.
        purpose: what the files are for, like "canvas 02_advantages_and_logprobs".
        force: put them over whatever is there.
    """

    report: Path
    purpose: str
    force: bool = False

    def claim(self, paths: Iterable[Path]) -> None:
        """See that all of these may be written or taken away.

        Raises:
            ExportError: one is there that this export has not made.
        """
        for path in paths:
            if self.force or not path.exists():
                continue
            if path.is_dir():
                raise ExportError(f"{path} is a folder; give the name of a file with --out")
            made_for = self._made().get(_digest(path.read_bytes()))
            if made_for is None:
                raise ExportError(
                    f"{path} is there already, and this export has not made it, or it was changed since; nothing was "
                    "written. Give another name with --out, or --force to replace it"
                )
            if made_for != self.purpose:
                raise ExportError(
                    f"{path} is there already and holds the export for {made_for}; nothing was written. Give another "
                    "name with --out, or --force to replace it"
                )

    def write(self, path: Path, text: str) -> None:
        """Write a file that was claimed, whole, and remember that it is this export's.

        Raises:
            ExportError: it cannot be written.
        """
        try:
            write_whole(path, text)
        except OSError as error:
            raise ExportError(f"{path} cannot be written ({error.strerror}); give another place with --out") from None
        made = {**self._made(), _digest(path.read_bytes()): self.purpose}
        with suppress(OSError):  # a report that can only be read: the next time asks for --force
            write_whole(self.report / MADE, json.dumps(made, indent=1) + "\n")

    def _made(self) -> dict[str, str]:
        try:
            made = json.loads((self.report / MADE).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        return made if isinstance(made, dict) else {}


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
