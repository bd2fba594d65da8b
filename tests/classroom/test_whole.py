"""Files that appear whole or not at all, and copies that are made once."""

import os
import stat

import pytest

from grader.classroom import reports
from grader.classroom.engine import records
from grader.classroom.whole import copy_whole, write_whole


def test_files_appear_whole_or_not_at_all(tmp_path):
    path = tmp_path / "a" / "b.csv"
    write_whole(path, "x\r\ny\n")
    with pytest.raises(TypeError):
        write_whole(path, None)
    assert path.read_bytes() == b"x\r\ny\n" and [p.name for p in path.parent.iterdir()] == ["b.csv"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o644 or os.name == "nt"
    write_whole(path, "mine", mode=0o600)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 or os.name == "nt"


def test_a_file_is_on_the_disk_before_it_gets_its_name(tmp_path, monkeypatch):
    done = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: done.append(os.fstat(handle).st_size) or fsync(handle))
    monkeypatch.setattr(os, "replace", lambda *names: done.append("named") or replace(*names))
    write_whole(tmp_path / "x", "twelve bytes")
    assert done == [12, "named"]


def test_a_disk_that_fills_up_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "x"
    write_whole(path, "old")

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(path, "new")
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_there_is_one_of_it():
    assert reports.write_whole is records.write_whole is write_whole


def test_a_copy_is_made_once_and_again_when_its_source_has_changed(tmp_path):
    source, copy = tmp_path / "s.html", tmp_path / "out" / "c.html"
    source.write_text("first")
    copy_whole(source, copy)
    copy.write_text("touch")  # as long as the source
    os.utime(copy, ns=(source.stat().st_mtime_ns,) * 2)
    copy_whole(source, copy)
    assert copy.read_text() == "touch", "nothing to do: same size, same time"
    os.utime(source, ns=(source.stat().st_mtime_ns + 5_000_000_000,) * 2)
    copy_whole(source, copy)
    assert copy.read_text() == "first" and os.listdir(copy.parent) == ["c.html"]
    with pytest.raises(FileNotFoundError):
        copy_whole(tmp_path / "gone", tmp_path / "new")
