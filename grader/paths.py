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


def chapter_called(text: str) -> str:
    """Return the chapter whose name is `text`, or the only one whose name begins with it ("02", or "2").

    Raises:
        ValueError: there is none, or several; the message lists the chapters.
    """
    known = chapters()
    text = text.zfill(2) if text.isdecimal() else text
    fits = [text] if text in known else [name for name in known if text and name.startswith(text)]
    if len(fits) != 1:
        what = f"{len(fits)} chapters begin with {text!r}" if fits else f"no chapter is called {text!r}"
        raise ValueError(f"{what}; the chapters are: {', '.join(known)}")
    return fits[0]


def notebook_path(folder: Path, chapter: str) -> Path:
    """Return folder/chapter/chapter.ipynb."""
    return folder / chapter / f"{chapter}.ipynb"
