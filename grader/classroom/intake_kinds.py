"""What a file is that is no notebook, in words for whoever has to ask the student for another one."""

from __future__ import annotations

import codecs
import json
import re

ASK = "ask for the file that ends in .ipynb, as JupyterLab saves it"
# First bytes -> what the file is, in words that follow "it is".
BEGINNINGS = {
    b"%PDF-": "a PDF document",
    b"\x89PNG": "a picture (PNG)",
    b"\xff\xd8\xff": "a picture (JPEG)",
    b"GIF8": "a picture (GIF)",
    b"{\\rtf": "a text document (RTF)",
    b"\xd0\xcf\x11\xe0": "a document of an old version of Word, Excel or PowerPoint",
    b"7z\xbc\xaf\x27\x1c": "an archive (7z)",
    b"Rar!": "an archive (RAR)",
    b"\x1f\x8b": "a compressed file (gzip)",
    b"BZh": "a compressed file (bzip2)",
    b"\xfd7zXZ": "a compressed file (xz)",
    b"SQLite format 3": "a database",
    b"version https://git-lfs": "only the place of a file that Git keeps elsewhere (Git LFS)",
    b"MZ\x90": "a program",
    b"\x7fELF": "a program",
}
INSIDE_ZIP = {  # a name inside -> what the file is
    b"word/": "a Word document",
    b"xl/": "an Excel table",
    b"ppt/": "a PowerPoint presentation",
    b"opendocument.": "a LibreOffice document",
    b".ipynb": "a zip file with a notebook in it",
}
UTF_32 = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
LOOKED_AT = 100_000  # bytes from the beginning, and from the end
CONFLICT = re.compile(r"^(<<<<<<< |>>>>>>> )", re.MULTILINE)
PYTHON = re.compile(r"^(import \w|from \w[\w.]* import |def \w+\(|# %%|#!.*python)", re.MULTILINE)
PAGE = re.compile(r"\s*(<!doctype html|<html|<\?xml|<head|<body)", re.IGNORECASE)


def what_it_is(data: bytes) -> str:
    """Say what bytes are that hold no notebook, and what to do about it: "it is a PDF document …; ask for …"."""
    return _binary(data) or _text(data)


def _binary(data: bytes) -> str:
    if not data:
        return f"it is empty: the upload may have failed; {ASK}"
    if not data.strip(b"\0"):
        return f"it holds nothing but zeros: it was not saved or not copied whole; {ASK}"
    kind = kind_of(data)
    return f"it is {kind} under the name of a notebook; {ASK}" if kind else ""


def kind_of(data: bytes) -> str:
    """Return what kind of file these bytes are, in words that follow "it is", or "" for texts and what is not known."""
    kind = next((kind for first, kind in BEGINNINGS.items() if data.startswith(first)), "")
    if data.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        looked_at = data[:LOOKED_AT] + data[-LOOKED_AT:]
        kind = next((kind for name, kind in INSIDE_ZIP.items() if name in looked_at), "a zip file")
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        kind = "a picture (WebP)"
    if data[4:8] == b"ftyp":
        kind = "a picture or a film (HEIC, MP4)"
    if data[257:262] == b"ustar":
        kind = "an archive (tar)"
    return kind


def _text(data: bytes) -> str:
    wide = "UTF-32" if data.startswith(UTF_32) else "UTF-16" if data.startswith(UTF_16) or _every_other(data) else ""
    if wide:
        return f"it is written in {wide}, as Windows' PowerShell and some editors write texts, and not in UTF-8; {ASK}"
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if b"\0" in data:
            return f"it is no text, and no kind of file that is known here; {ASK}"
        line = data.count(b"\n", 0, error.start) + 1
        return (
            f"its line {line} is not written in UTF-8: an editor for texts seems to have saved it; ask for it as "
            "JupyterLab saves it, with the menu File, Save Notebook"
        )
    if PAGE.match(text):
        return f"it is a web page, such as an exported notebook or the page of a login; {ASK}"
    if CONFLICT.search(text):
        return "two versions of it were merged by Git and left as they are (<<<<<<<); ask for one of them"
    return _no_json(text)


def _no_json(text: str) -> str:
    if "\0" in text:
        return f"there are zeros in it: it was not saved or not copied whole; {ASK}"
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        if not text.lstrip().startswith(("{", "[")):
            kind = "a Python program" if PYTHON.search(text) else "a text"
            return f"it is {kind} under the name of a notebook; {ASK}"
        if not text[error.pos :].strip() or not text.rstrip().endswith(("}", "]")):
            return "it breaks off in the middle: it was not saved or not copied whole; ask for it again"
        return f"its line {error.lineno} was changed in an editor and is no JSON any more; ask for it again, {ASK[8:]}"
    except (ValueError, RecursionError, MemoryError):
        pass
    return f"no program writes a notebook like this one; {ASK}"


def _every_other(data: bytes) -> bool:
    """Tell whether this is UTF-16 without its mark: of a text in Latin letters, every other byte is zero."""
    first = data[:1000]
    return len(first) > 3 and (set(first[::2]) == {0} or set(first[1::2]) == {0}) and set(first) != {0}
