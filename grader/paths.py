"""Where things are in a checkout of the course."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOLUTIONS = ROOT / "solutions"
NOTEBOOKS = ROOT / "notebooks"
GRADING = ROOT / "grading"


def chapters(folder: Path = SOLUTIONS) -> list[str]:
    """Return the names of the chapters in a folder that holds NAME/NAME.ipynb, in order.

    Raises:
        FileNotFoundError: the folder does not exist or holds no chapter.
    """
    names = sorted(path.parent.name for path in folder.glob("*/*.ipynb") if path.stem == path.parent.name)
    if not names:
        raise FileNotFoundError(
            f"{folder} holds no chapter (NAME/NAME.ipynb); run this inside a checkout of the course"
        )
    return names


def notebook_path(folder: Path, chapter: str) -> Path:
    """Return folder/chapter/chapter.ipynb."""
    return folder / chapter / f"{chapter}.ipynb"
