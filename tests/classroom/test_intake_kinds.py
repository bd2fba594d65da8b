"""What is handed in under the name of a notebook is said in words that a student understands."""

import io
import tarfile
import zipfile

import pytest

from grader.classroom.intake_kinds import what_it_is

NOTEBOOK = '{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []}'


def packed(*names):
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name in names:
            archive.writestr(name, b"x" * 1000)
    return target.getvalue()


def tar():
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("x.ipynb"))
    return target.getvalue()


KINDS = {
    "empty": (b"", "it is empty: the upload may have failed"),
    "zeros": (b"\0" * 5000, "nothing but zeros"),
    "pdf": (b"%PDF-1.7\n%\xe2\xe3", "a PDF document"),
    "word": (packed("[Content_Types].xml", "word/document.xml"), "a Word document"),
    "excel": (packed("xl/workbook.xml"), "an Excel table"),
    "powerpoint": (packed("ppt/slides.xml"), "a PowerPoint presentation"),
    "libreoffice": (
        packed("mimetype").replace(b"x" * 40, b"application/vnd.oasis.opendocument.text "), "a LibreOffice document"),
    "zipped": (packed("x.ipynb"), "a zip file with a notebook in it"),
    "zip": (packed("x.txt"), "a zip file under"),
    "empty zip": (packed(), "a zip file under"),
    "old word": (b"\xd0\xcf\x11\xe0\xa1\xb1", "an old version of Word"),
    "rich text": (b"{\\rtf1\\ansi}", "(RTF)"),
    "png": (b"\x89PNG\r\n\x1a\n", "a picture (PNG)"),
    "jpeg": (b"\xff\xd8\xff\xe0", "a picture (JPEG)"),
    "gif": (b"GIF89a", "a picture (GIF)"),
    "webp": (b"RIFF1234WEBPVP8 ", "a picture (WebP)"),
    "heic": (b"\0\0\0\x18ftypheic", "a picture or a film"),
    "7z": (b"7z\xbc\xaf\x27\x1c\0", "an archive (7z)"),
    "rar": (b"Rar!\x1a\x07", "an archive (RAR)"),
    "tar": (tar(), "an archive (tar)"),
    "gzip": (b"\x1f\x8b\x08", "a compressed file (gzip)"),
    "git": (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "Git LFS"),
    "utf-16": (NOTEBOOK.encode("utf-16"), "it is written in UTF-16"),
    "utf-16 big": (b"\xfe\xff" + NOTEBOOK.encode("utf-16-be"), "it is written in UTF-16"),
    "utf-16 unmarked": (NOTEBOOK.encode("utf-16-le"), "it is written in UTF-16"),
    "utf-16 big unmarked": (NOTEBOOK.encode("utf-16-be"), "it is written in UTF-16"),
    "utf-32": (NOTEBOOK.encode("utf-32"), "it is written in UTF-32"),
    "latin-1": ('{"a":\n"Übung"}'.encode("latin-1"), "its line 2 is not written in UTF-8"),
    "bytes": (b"\x07\x9c\0\0\x01", "it is no text, and no kind of file"),
    "page": (b"\n<!DOCTYPE html>\n<html>", "it is a web page"),
    "xml": (b'<?xml version="1.0"?>', "it is a web page"),
    "merged": (b'{"cells": [\n<<<<<<< HEAD\n1\n=======\n2\n>>>>>>> x\n]}', "merged by Git"),
    "program": (b"# homework\nimport numpy as np\n", "it is a Python program under"),
    "text": (b"see my mail", "it is a text under"),
    "cut off": (NOTEBOOK[:40].encode(), "it breaks off in the middle"),
    "cut off in a text": (NOTEBOOK[:-2].encode() + b'"abc', "it breaks off in the middle"),
    "cut off behind a brace": (b'{"metadata": {}', "it breaks off in the middle"),
    "zeros in front": (b"\0" * 2000 + NOTEBOOK.encode(), "there are zeros in it"),
    "cut off in a word": (NOTEBOOK[:-2].encode() + b"fal", "it breaks off in the middle"),
    "edited": (b'{"a": 1,\n "b": 2,,\n "c": 3}', "its line 2 was changed in an editor"),
    "zeros inside": (NOTEBOOK[:20].encode() + b"\0\0" + NOTEBOOK[20:].encode(), "there are zeros in it"),
    "deep": (b"[" * 100_000, "no program writes a notebook like this"),
    "number": (b"[" + b"9" * 5000 + b"]", "no program writes a notebook like this"),
}  # fmt: skip


@pytest.mark.parametrize("data, words", KINDS.values(), ids=list(KINDS))
def test_what_a_file_is(data, words):
    said = what_it_is(data)
    assert words in said and "ask for" in said
    assert not any(word in said for word in ("Error", "codec", "0x", "char ", "delimiter"))


def test_a_mark_at_the_beginning_is_no_fault():
    assert what_it_is(b"\xef\xbb\xbf" + b'{"a": 1,\n "b": 2,,}').startswith("its line 2")
    assert "UTF-16" not in what_it_is(b"abc\0\0\0") and "UTF-16" not in what_it_is(b"a\0")
