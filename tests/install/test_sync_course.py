"""The student's copies: brought up to date, never written over. Every case of `sync_course`, then random histories."""

import errno
import json
import os
import shutil

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grader import lab
from grader.lab import RECORD, SyncError, sync_course

CHAPTER = "01_a/01_a.ipynb"
posix = pytest.mark.skipif(os.name == "nt", reason="symbolic links need rights on Windows")


def notebook(*sources, run=False, **nbgrader):
    cells = [
        {
            "cell_type": "code",
            "id": f"cell{i}",
            "metadata": {"nbgrader": nbgrader} if nbgrader else {},
            "execution_count": 7 if run else None,
            "outputs": [{"output_type": "stream", "name": "stdout", "text": "out"}] if run else [],
            # JupyterLab saves lines, others one string: the same cell
            "source": source.splitlines(keepends=True) if run else source,
        }
        for i, source in enumerate(sources)
    ]
    metadata = {"language_info": {"version": "3.13"}} if run else {}
    return json.dumps({"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}, indent=1).encode()


def put(folder, name, data):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def tree(folder):
    return {
        p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.name != RECORD
    }


@pytest.fixture
def course(tmp_path):
    put(tmp_path / "notebooks", CHAPTER, notebook("x = 1\ny = 2"))
    return tmp_path / "notebooks"


@pytest.fixture
def mine(tmp_path):
    return tmp_path / "my_course"


def test_the_first_start_copies_every_file_but_caches(course, mine):
    put(course, "02_b/02_b.ipynb", notebook("b"))
    put(course, "02_b/images/curve.png", b"\x89PNG")
    put(course, "map.svg", b"<svg/>")
    put(course, "01_a/.ipynb_checkpoints/01_a-checkpoint.ipynb", b"{}")
    put(course, "01_a/__pycache__/x.pyc", b"")
    put(course, "01_a/.DS_Store", b"")
    report = sync_course(course, mine)
    assert report.first
    assert sorted(report.added) == sorted(tree(mine))
    assert set(tree(mine)) == {CHAPTER, "02_b/02_b.ipynb", "02_b/images/curve.png", "map.svg"}
    assert (mine / CHAPTER).read_bytes() == (course / CHAPTER).read_bytes()
    record = json.loads((mine / RECORD).read_text())["files"]
    assert set(record) == set(tree(mine)) and all(len(entry["sha256"]) == 64 for entry in record.values())


def test_a_second_start_does_and_says_nothing(course, mine):
    sync_course(course, mine)
    before = tree(mine)
    report = sync_course(course, mine)
    assert report.lines() == [] and not report.first and tree(mine) == before


@pytest.mark.parametrize(
    "touched",
    [
        notebook("x = 1\ny = 2"),
        notebook("x = 1\ny = 2", run=True),
        notebook("x = 1\ny = 2", "", run=True),
        notebook("x = 1\ny = 2", "  \n", run=True),
    ],
    ids=["not opened", "run and saved", "an empty cell added", "a blank cell added"],
)
def test_a_notebook_without_work_in_it_follows_the_course(course, mine, touched):
    sync_course(course, mine)
    put(mine, CHAPTER, touched)
    assert sync_course(course, mine).lines() == []
    assert (mine / CHAPTER).read_bytes() == touched
    put(course, CHAPTER, notebook("x = 2"))
    report = sync_course(course, mine)
    assert report.updated == [CHAPTER] and (mine / CHAPTER).read_bytes() == notebook("x = 2")


@pytest.mark.parametrize(
    "work",
    [
        notebook("x = 1\ny = 3"),
        notebook("x = 1\ny = 2", "note"),
        notebook(""),
        notebook(),
        b"{ broken",
        b"\xff\xfe",
        b"",
        b"[]",
        b'{"cells": [3]}',
        notebook("x = 1\ny = 2").replace(b'"code"', b'"markdown"'),
    ],
)
def test_work_stays_as_it_is(course, mine, work):
    sync_course(course, mine)
    put(mine, CHAPTER, work)
    assert sync_course(course, mine).lines() == []
    put(course, CHAPTER, notebook("x = 2"))
    report = sync_course(course, mine)
    assert report.offered == [(CHAPTER, "01_a/01_a.new.ipynb")] and len(report.lines()) == 1
    assert tree(mine) == {CHAPTER: work, "01_a/01_a.new.ipynb": notebook("x = 2")}


def test_a_new_version_is_offered_once(course, mine):
    sync_course(course, mine)
    work = put(mine, CHAPTER, notebook("mine"))
    put(course, CHAPTER, notebook("second"))
    sync_course(course, mine)
    assert sync_course(course, mine).lines() == []
    (mine / "01_a/01_a.new.ipynb").unlink()  # looked at it, threw it away
    assert sync_course(course, mine).lines() == []
    assert set(tree(mine)) == {CHAPTER} and work.read_bytes() == notebook("mine")


def test_the_next_version_replaces_an_offer_left_alone_but_not_one_that_was_worked_on(course, mine):
    sync_course(course, mine)
    put(mine, CHAPTER, notebook("mine"))
    put(course, CHAPTER, notebook("second"))
    sync_course(course, mine)
    put(mine, "01_a/01_a.new.ipynb", notebook("second", run=True))
    put(course, CHAPTER, notebook("third"))
    assert sync_course(course, mine).offered == [(CHAPTER, "01_a/01_a.new.ipynb")]
    assert (mine / "01_a/01_a.new.ipynb").read_bytes() == notebook("third")
    put(mine, "01_a/01_a.new.ipynb", notebook("third, with work"))
    put(course, CHAPTER, notebook("fourth"))
    assert sync_course(course, mine).offered == [(CHAPTER, "01_a/01_a.new-2.ipynb")]
    assert tree(mine) == {
        CHAPTER: notebook("mine"),
        "01_a/01_a.new.ipynb": notebook("third, with work"),
        "01_a/01_a.new-2.ipynb": notebook("fourth"),
    }


def test_a_student_who_takes_the_new_version_follows_the_course_again(course, mine):
    sync_course(course, mine)
    put(mine, CHAPTER, notebook("mine"))
    put(course, CHAPTER, notebook("second"))
    sync_course(course, mine)
    (mine / "01_a/01_a.new.ipynb").replace(mine / CHAPTER)
    assert sync_course(course, mine).lines() == []
    put(course, CHAPTER, notebook("third"))
    assert sync_course(course, mine).updated == [CHAPTER]


def test_undoing_every_change_counts_as_no_work(course, mine):
    sync_course(course, mine)
    put(mine, CHAPTER, notebook("mine"))
    put(course, CHAPTER, notebook("second"))
    sync_course(course, mine)
    put(mine, CHAPTER, notebook("x = 1\ny = 2", run=True))
    assert sync_course(course, mine).updated == [CHAPTER]


def test_changed_points_reach_a_notebook_without_work(course, mine):
    put(course, CHAPTER, notebook("x", grade=True, points=2))
    sync_course(course, mine)
    put(course, CHAPTER, notebook("x", grade=True, points=3))
    assert sync_course(course, mine).updated == [CHAPTER]


def test_changed_cell_ids_reach_a_notebook_without_work(course, mine):
    sync_course(course, mine)
    put(course, CHAPTER, notebook("x = 1\ny = 2").replace(b"cell0", b"other"))
    assert sync_course(course, mine).updated == [CHAPTER]


def test_a_file_that_is_no_notebook_is_compared_by_its_bytes(course, mine):
    put(course, "01_a/data.csv", b"1,2\n")
    sync_course(course, mine)
    put(course, "01_a/data.csv", b"1,3\n")
    assert sync_course(course, mine).updated == ["01_a/data.csv"]
    put(mine, "01_a/data.csv", b"9\n")
    put(course, "01_a/data.csv", b"1,4\n")
    assert sync_course(course, mine).offered == [("01_a/data.csv", "01_a/data.new.csv")]
    assert (mine / "01_a/data.csv").read_bytes() == b"9\n"


def test_what_the_student_deleted_comes_back_and_is_named(course, mine):
    sync_course(course, mine)
    shutil.rmtree(mine / "01_a")
    report = sync_course(course, mine)
    assert report.restored == [CHAPTER] and "copied again" in report.lines()[0]
    assert tree(mine) == tree(course)


def test_what_the_course_dropped_or_renamed_stays(course, mine):
    sync_course(course, mine)
    (course / "01_a").rename(course / "01_b")
    assert sync_course(course, mine).added == ["01_b/01_a.ipynb"]
    assert set(tree(mine)) == {CHAPTER, "01_b/01_a.ipynb"}
    put(course, CHAPTER, notebook("back, and changed"))
    assert sync_course(course, mine).updated == [CHAPTER]


def test_files_of_the_students_own_are_left_alone(course, mine):
    put(mine, "01_a/scratch.ipynb", notebook("scratch"))
    put(mine, "notes.txt", b"notes")
    sync_course(course, mine)
    assert tree(mine)["01_a/scratch.ipynb"] == notebook("scratch") and tree(mine)["notes.txt"] == b"notes"


@pytest.mark.parametrize(
    "record",
    [
        b"",
        b"\xff",
        b"[]",
        b"{}",
        b'{"files": []}',
        b'{"files": {"01_a/01_a.ipynb": 3}}',
        b'{"files": {"a": {"offered": 1}}}',
    ],
)
def test_with_a_broken_record_everything_that_differs_is_work(course, mine, record):
    put(course, "02_b/02_b.ipynb", notebook("b"))
    sync_course(course, mine)
    put(course, CHAPTER, notebook("second"))
    (mine / RECORD).write_bytes(record)
    report = sync_course(course, mine)
    assert report.offered == [(CHAPTER, "01_a/01_a.new.ipynb")] and RECORD in report.lines()[0]
    assert (mine / CHAPTER).read_bytes() == notebook("x = 1\ny = 2")
    assert sync_course(course, mine).lines() == []  # the record is whole again
    put(course, "02_b/02_b.ipynb", notebook("b2"))
    assert sync_course(course, mine).updated == ["02_b/02_b.ipynb"]


def test_without_a_record_too(course, mine):
    put(mine, CHAPTER, notebook("work from before"))
    report = sync_course(course, mine)
    assert report.offered and (mine / CHAPTER).read_bytes() == notebook("work from before")


@posix
def test_a_link_is_never_replaced_nor_written_through(course, mine, tmp_path):
    sync_course(course, mine)
    elsewhere = put(tmp_path / "elsewhere", "01_a.ipynb", (mine / CHAPTER).read_bytes())
    (mine / CHAPTER).unlink()
    (mine / CHAPTER).symlink_to(elsewhere)
    put(course, CHAPTER, notebook("second"))
    assert sync_course(course, mine).offered
    assert (mine / CHAPTER).is_symlink() and elsewhere.read_bytes() == notebook("x = 1\ny = 2")
    elsewhere.unlink()  # now it points nowhere
    put(course, CHAPTER, notebook("third"))
    sync_course(course, mine)
    assert (mine / CHAPTER).is_symlink() and not elsewhere.exists()


@posix
def test_a_linked_folder_works_and_a_dangling_one_is_explained(course, mine, tmp_path):
    (tmp_path / "disk2").mkdir()
    mine.symlink_to(tmp_path / "disk2")
    sync_course(course, mine)
    assert (tmp_path / "disk2" / CHAPTER).exists()
    shutil.rmtree(tmp_path / "disk2")
    with pytest.raises(SyncError, match="not a folder"):
        sync_course(course, mine)


def test_a_folder_where_a_file_should_be_is_reported_and_the_rest_goes_on(course, mine):
    put(course, "02_b/02_b.ipynb", notebook("b"))
    put(course, "03_c/03_c.ipynb", notebook("c"))
    (mine / CHAPTER).mkdir(parents=True)
    put(mine, "02_b", b"a file")
    report = sync_course(course, mine)
    assert report.added == ["03_c/03_c.ipynb"] and len(report.problems) == 2
    assert (mine / "02_b").read_bytes() == b"a file"


def test_places_that_cannot_be_used(course, mine, tmp_path):
    with pytest.raises(SyncError, match="no chapters"):
        sync_course(tmp_path / "nothing", mine)
    with pytest.raises(SyncError, match="inside"):
        sync_course(course, course / "mine")
    with pytest.raises(SyncError, match="inside"):
        sync_course(course, course)
    mine.write_text("a file")
    with pytest.raises(SyncError, match="not a folder"):
        sync_course(course, mine)
    assert mine.read_text() == "a file"


@pytest.mark.parametrize(
    "number, says", [(errno.ENOSPC, "disk is full"), (errno.EROFS, "cannot be written"), (errno.EIO, "was not copied")]
)
def test_a_write_that_fails_leaves_the_old_file_whole(course, mine, monkeypatch, number, says):
    sync_course(course, mine)
    put(course, CHAPTER, notebook("second"))
    real = os.replace

    def replace(source, target):
        if str(target).endswith(".ipynb"):
            raise OSError(number, os.strerror(number), str(target))
        real(source, target)

    monkeypatch.setattr(lab.os, "replace", replace)
    if number == errno.EIO:
        assert says in sync_course(course, mine).lines()[0]
    else:
        with pytest.raises(SyncError, match=says):
            sync_course(course, mine)
    monkeypatch.undo()
    assert tree(mine) == {CHAPTER: notebook("x = 1\ny = 2")}
    assert sync_course(course, mine).updated == [CHAPTER]


def test_a_read_only_course_gives_files_that_can_be_written(course, mine):
    (course / CHAPTER).chmod(0o444)
    sync_course(course, mine)
    assert (mine / CHAPTER).stat().st_mode & 0o200


MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("course"), st.integers(0, 3)),
        st.tuples(st.just("work"), st.integers(0, 3)),
        st.tuples(st.just("work on the offer"), st.integers(0, 3)),
        st.tuples(st.sampled_from(["run", "delete", "take the offer", "lose the record", "sync"]), st.just(0)),
    ),
    max_size=14,
)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(moves=MOVES)
def test_no_history_loses_work(tmp_path_factory, moves):
    """Whatever came before: nothing a student wrote changes, the course's version is there, and twice is as once."""
    root = tmp_path_factory.mktemp("history")
    course, mine = root / "notebooks", root / "my_course"
    put(course, CHAPTER, notebook("course 0"))
    sync_course(course, mine)
    first, offer = mine / CHAPTER, mine / "01_a/01_a.new.ipynb"
    for move, number in [*moves, ("sync", 0)]:
        if move == "course":
            put(course, CHAPTER, notebook(f"course {number}"))
        elif move == "work":
            first.write_bytes(notebook(f"work {number}"))
        elif move == "work on the offer" and offer.exists():
            offer.write_bytes(notebook(f"work {number}"))
        elif move == "run" and first.exists():
            cells = [cell["source"] for cell in json.loads(first.read_bytes())["cells"]]
            first.write_bytes(notebook(*("".join(source) for source in cells), run=True))
        elif move == "delete":
            first.unlink(missing_ok=True)
        elif move == "take the offer" and offer.exists():
            offer.replace(first)
        elif move == "lose the record":
            (mine / RECORD).write_bytes(b"{")
        elif move == "sync":
            work = {name: data for name, data in tree(mine).items() if b"work" in data}
            report = sync_course(course, mine)
            after = tree(mine)
            assert work.items() <= after.items()
            if CHAPTER not in work:
                assert b"work" not in after[CHAPTER]
            if report.offered:
                assert after[report.offered[0][1]] == (course / CHAPTER).read_bytes()
            assert sync_course(course, mine).lines() == [] and tree(mine) == after
    shutil.rmtree(root)
