"""Taking submissions in: folders, zip files and the downloads of Moodle and Canvas, honest and hostile."""

import errno
import json
import os
import stat
import struct
import sys
import unicodedata
import zipfile

import nbformat
import pytest
import students
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output, new_raw_cell

from grader.classroom import intake, intake_work
from grader.classroom.intake import IntakeError, safe_id, take_in
from grader.classroom.intake_files import files_in_folder
from grader.classroom.seeds import check_seed, content_digest
from grader.paths import chapters

CHAPTER, OTHER = students.CHAPTER, students.OTHER_CHAPTER
NAME = f"{CHAPTER}.ipynb"


def text(extra="", chapter=CHAPTER):
    """A released notebook as bytes; with `extra`, one that differs from others."""
    base = (
        students.with_answers({})
        if chapter == CHAPTER
        else nbformat.read(intake.notebook_path(intake.NOTEBOOKS, chapter), 4)
    )
    if extra:
        base.cells.append(new_code_cell(extra))
    return nbformat.writes(base).encode()


RELEASED = text()


class Class:
    """A folder to hand in to, and what take_in makes of it."""

    def __init__(self, folder):
        self.folder, self.submitted = folder, folder / "submitted"
        self.submitted.mkdir()

    def put(self, path, data=RELEASED):
        target = self.submitted / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        return target

    def take(self, only=(CHAPTER,), roster=(), names=None, source=None):
        found = take_in(source or self.submitted, self.folder / "staging", chapters(), list(only), list(roster), names)
        return {one.student: one for one in found} if len(only) == 1 else found

    def one(self, **more):
        (found,) = self.take(**more).values()
        return found

    def staged(self, one):
        return nbformat.read(self.folder / "staging" / one.student_id / one.chapter / f"{one.chapter}.ipynb", 4)

    def said(self, one):
        """The last cell's text, by which tests tell versions apart."""
        return self.staged(one).cells[-1].source


@pytest.fixture
def klass(tmp_path):
    return Class(tmp_path)


def packed(files, path=None, method=zipfile.ZIP_DEFLATED):
    """A zip file of {name or ZipInfo: bytes}, written to `path` or returned as bytes."""
    import io

    target = path or io.BytesIO()
    with zipfile.ZipFile(target, "w", method) as archive:
        for name, data in files.items() if isinstance(files, dict) else files:
            archive.writestr(name, data, method)
    return path or target.getvalue()


# Folders


def test_nbgraders_tree_with_its_time(klass):
    klass.put(f"ana/{CHAPTER}/{NAME}")
    klass.put(f"ana/{CHAPTER}/timestamp.txt", b"2026-03-01 12:00:00 +0100\n")
    one = klass.one()
    assert (one.state, one.reason, one.flags, one.late) == ("found", "", (), None)
    assert one.timestamp == "2026-03-01 11:00:00 UTC"
    staged = klass.folder / "staging" / "ana" / CHAPTER
    assert sorted(p.name for p in staged.iterdir()) == [NAME, "timestamp.txt"]
    assert (staged / "timestamp.txt").read_text().strip() == one.timestamp


ZOE, ZOE_APART = (unicodedata.normalize(form, "Zoë") for form in ("NFC", "NFD"))
TWO_WAYS = f"{ZOE_APART!a} and {ZOE!a} are one name, written in two ways"
TWO_NAMES = pytest.mark.parametrize(
    "one, two, name", [(ZOE, ZOE_APART, ZOE), ("ana", "ana ", "ana")], ids=["accents", "spaces"]
)


@pytest.mark.skipif(sys.platform != "linux", reason="such names cannot stand beside each other there")
@TWO_NAMES
@pytest.mark.parametrize("packing", ["folders", "one zip file", "a zip file each"])
def test_of_two_folders_with_one_name_neither_is_taken_for_the_other(klass, one, two, name, packing):
    works = {one: {f"{CHAPTER}/{NAME}": text("x = 1")}, two: {f"{CHAPTER}/{NAME}": text("x = 2"), "y.txt": b"y"}}
    source = None
    for folder, files in works.items():
        if packing == "a zip file each":
            klass.put(f"{folder}.zip", packed(files))
        for path, data in files.items() if packing == "folders" else ():
            klass.put(f"{folder}/{path}", data)
    klass.put(f"ben/{CHAPTER}/{NAME}")
    if packing == "one zip file":
        files = {f"{folder}/{path}": data for folder, files in works.items() for path, data in files.items()}
        source = packed({**files, f"ben/{CHAPTER}/{NAME}": RELEASED}, klass.folder / "all.zip")
    found = klass.take(source=source)
    assert set(found) == {"ben", name} and found["ben"].state == "found" and found["ben"].flags == ()
    assert found[name].state == "failed"
    if packing == "a zip file each" and two.endswith(" "):  # the names of the files differ in their middle
        assert all(f"{each}.zip/{CHAPTER}" in found[name].reason for each in (one, two))
        return
    assert "hold different notebooks of this chapter" in found[name].reason
    assert all(ascii(each)[:-1] in found[name].reason for each in (one, two))
    both = klass.take(only=(CHAPTER, OTHER), source=source)
    (other,) = [row for row in both if (row.student, row.chapter) == (name, OTHER)]
    assert other.state == "missing" and "are one name, written in two ways" in other.reason


def test_two_folders_with_one_name_and_one_work_are_graded_and_said(klass):
    source = packed(
        {f"{ZOE}/{CHAPTER}/{NAME}": RELEASED, f"{ZOE_APART}/{CHAPTER}/{NAME}": RELEASED}, klass.folder / "z.zip"
    )
    found = klass.one(source=source)
    assert found.state == "found" and found.flags[0].startswith(TWO_WAYS) and found.reason.count(TWO_WAYS) == 1
    source = packed({f"{ZOE}/a.ipynb": text("1"), f"{ZOE_APART}/x.ipynb": text(chapter=OTHER)}, klass.folder / "z.zip")
    both = klass.take(only=(CHAPTER, OTHER), source=source)
    assert [one.state for one in both] == ["found", "found"] and all(TWO_WAYS in one.reason for one in both)
    source = packed({f"{ZOE}/a.ipynb": b"", f"{ZOE_APART}/a.ipynb": b"1"}, klass.folder / "z.zip")
    assert klass.one(source=source).state == "failed"


def test_two_zip_files_with_one_name_stop_nobody(klass):
    klass.put(f"{ZOE}.zip", packed({f"Ana_1_assignsubmission_file_/{NAME}": RELEASED}))
    klass.put(f"{ZOE_APART}.zip", packed({f"Ana_1_assignsubmission_file_/{NAME}": RELEASED}))
    assert set(klass.take()) == {ZOE}


@pytest.mark.parametrize("order", [1, -1])
def test_a_folder_and_a_zip_file_of_one_name_are_one_persons(klass, order):
    """Whichever comes first in a zip file: of either, the other must not be lost."""
    files = [(f"ana/{CHAPTER}/{NAME}", RELEASED), ("ana.zip", packed({f"{OTHER}/x.ipynb": text(chapter=OTHER)}))]
    found = klass.take(only=(CHAPTER, OTHER), source=packed(files[::order], klass.folder / "all.zip"))
    assert [(one.student, one.state) for one in found] == [("ana", "found")] * 2


def test_names_that_differ_in_capital_letters_alone_stay_apart_and_are_said(klass, monkeypatch):
    source = packed(
        {f"Ana/{NAME}": text("1"), f"ana/{NAME}": text("2"), f"ben/{NAME}": RELEASED}, klass.folder / "a.zip"
    )
    found = klass.take(source=source)
    told = "the names Ana and ana differ in capital letters alone: look whether they are one person"
    assert [found[name].flags for name in ("Ana", "ana", "ben")] == [(told,), (told,), ()]
    assert (klass.said(found["Ana"]), klass.said(found["ana"])) == ("1", "2")
    known = klass.take(source=source, roster=["Ana", "ana"])
    assert [known[name].flags for name in ("Ana", "ana")] == [(), ()] and set(known) == {"Ana", "ana", "ben"}
    monkeypatch.setattr(intake, "folds_case", lambda folder: True)
    lost = klass.take(source=source, roster=["Ana", "ana"])
    assert {name: one.state for name, one in lost.items()} == {"Ana": "failed", "ana": "failed", "ben": "found"}
    assert all(lost[name].reason.startswith("Ana and ana would share a folder here") for name in ("Ana", "ana"))
    assert not (klass.folder / "staging" / "ana").exists()
    known = klass.take(source=source, roster=["Ana"])
    assert {name: one.state for name, one in known.items()} == {"Ana": "found", "ana": "failed", "ben": "found"}


def test_nobody_gets_the_folder_of_another_by_calling_himself_like_its_id(klass):
    theirs = safe_id("Ana Lee")
    klass.put(f"Ana Lee/{CHAPTER}/{NAME}", text("hers"))
    klass.put(f"{theirs}/{CHAPTER}/{NAME}", text("his"))
    klass.put(f"Bo/{CHAPTER}/{NAME}")
    found = klass.take(roster=["Ana Lee", "Bo"])
    assert {name: one.state for name, one in found.items()} == {"Ana Lee": "found", "Bo": "found", theirs: "failed"}
    assert klass.said(found["Ana Lee"]) == "hers" and "Ana Lee and" in found[theirs].reason
    assert {one.state for name, one in klass.take().items() if name != "Bo"} == {"failed"}


def test_a_folder_called_by_an_id_is_the_students_on_the_roster(klass):
    klass.put(f"{safe_id('Ana Lee')}/{CHAPTER}/{NAME}")
    assert (klass.one(roster=["Ana Lee"]).student, klass.one(roster=["Ana Lee"]).reason) == ("Ana Lee", "")


def test_a_roster_written_with_separate_accents_is_the_same(klass):
    klass.put(f"{ZOE}/{CHAPTER}/{NAME}")
    assert klass.one(roster=[ZOE_APART]).reason == ""


def test_a_time_that_is_none_is_flagged_and_left(klass):
    klass.put(f"ana/{CHAPTER}/{NAME}")
    klass.put(f"ana/{CHAPTER}/timestamp.txt", b"yesterday, I think")
    one = klass.one()
    assert (one.state, one.timestamp) == ("found", "") and "holds no time: 'yesterday" in one.flags[0]


def test_a_notebook_anywhere_in_the_folder_is_found_by_its_exercises(klass):
    klass.put("ana/homework/week 2/Copy of my work.ipynb")
    assert (klass.one().state, klass.one().reason) == ("found", "handed in as homework/week 2/Copy of my work.ipynb")


def test_a_notebook_without_marks_is_found_by_what_it_defines(klass):
    notebook = students.solved()
    for cell in notebook.cells:
        cell.metadata = {}
    klass.put("ana/mine.ipynb", nbformat.writes(notebook).encode())
    one = klass.one()
    assert one.state == "found" and sum("written in another cell" in flag for flag in one.flags) == len(students.NAMES)
    marked = {c.metadata.nbgrader.grade_id: c.source for c in klass.staged(one).cells if "nbgrader" in c.metadata}
    assert "raise NotImplementedError" not in marked["log_softmax_answer"]


def test_the_digest_changes_with_the_notebook_and_only_with_it(klass):
    klass.put(f"ana/{CHAPTER}/{NAME}")
    klass.put("ben/renamed.ipynb")
    klass.put(f"cleo/{CHAPTER}/{NAME}", text("1"))
    found = klass.take()
    assert found["ana"].digest == found["ben"].digest != found["cleo"].digest and len(found["ana"].digest) == 64
    assert klass.take() == found


def test_files_beside_the_notebook_stay_behind_unless_the_chapter_wants_them(klass, monkeypatch):
    klass.put(f"ana/{CHAPTER}/{NAME}")
    for name in ("helpers.py", "run.json", ".hidden", "utils/helpers.py"):
        klass.put(f"ana/{CHAPTER}/{name}", b"mine")
    klass.put("ana/elsewhere.txt", b"mine")
    folder = klass.folder / "staging" / "ana" / CHAPTER
    one = klass.one()
    assert one.left == ("helpers.py", "run.json", "utils/helpers.py")
    assert one.flags == ("files beside the notebook were left behind: helpers.py, run.json, utils/helpers.py",)
    assert [p.name for p in folder.iterdir()] == [NAME]
    monkeypatch.setitem(intake.WANTED, CHAPTER, ("run.json", "utils/helpers.py"))
    assert klass.one().left == ("helpers.py",) and klass.one().flags[0].endswith("left behind: helpers.py")
    assert (folder / "run.json").read_bytes() == (folder / "utils" / "helpers.py").read_bytes() == b"mine"
    monkeypatch.setattr(intake, "MAX_BYTES", 3)
    assert "run.json is larger than" in klass.one().reason and not (folder / "run.json").exists()


def test_many_files_beside_the_notebook_are_not_all_told_but_all_known(klass):
    klass.put("ana/x.ipynb")
    for number in range(8):
        klass.put(f"ana/{number}.txt", b"mine")
    one = klass.one()
    assert len(one.left) == 8 and one.flags[0].endswith("left behind: 0.txt, 1.txt, 2.txt, 3.txt, 4.txt and 3 more")


# What the inputs of the checks depend on


def inputs_of(klass, one, student="ana"):
    """The seeds of all checks of a submission, were it this student's."""
    content = content_digest(klass.staged(one))
    return {check_seed("secret", content, name, student) for name in students.NAMES}


def changed(change):
    notebook = students.solved()
    change({cell.metadata.get("nbgrader", {}).get("grade_id"): cell for cell in notebook.cells}, notebook.cells)
    return nbformat.writes(notebook).encode()


LOOK_ALIKE = {
    "a comment": lambda marked, cells: marked["log_softmax_answer"].update(
        source=marked["log_softmax_answer"].source + "#"
    ),
    "another exercise": lambda marked, cells: marked["zero_variance_fraction_answer"].update(source="table = 'Zm9v'"),
    "text": lambda marked, cells: cells.insert(1, new_markdown_cell("Zm9v")),
    "text changed": lambda marked, cells: cells[0].update(source="Zm9v"),
    "raw text": lambda marked, cells: cells.append(new_raw_cell("Zm9v")),
    "a cell": lambda marked, cells: cells.append(new_code_cell("table = 'Zm9v'")),
    "order": lambda marked, cells: cells.append(cells.pop(2)),
    "a check": lambda marked, cells: marked["log_softmax"].update(source="table = 'Zm9v'"),
}
CANNOT_BE_READ = {
    "outputs": lambda marked, cells: cells[-1].update(outputs=[new_output("stream", text="Zm9v")], execution_count=5),
    "metadata": lambda marked, cells: [cell.metadata.update(tags=["Zm9v"], table="Zm9v") for cell in cells],
    "ids": lambda marked, cells: [cell.update(id=f"Zm9v-{number}") for number, cell in enumerate(cells)],
}


def test_leaked_inputs_are_worth_nothing_whatever_they_are_put_into(klass):
    """Whoever learns what a function was called with must change something to use it, and then gets other inputs."""
    klass.put(f"as it was/{CHAPTER}/{NAME}", changed(lambda marked, cells: None))
    for name, change in [*LOOK_ALIKE.items(), *CANNOT_BE_READ.items()]:
        klass.put(f"{name}/{CHAPTER}/{NAME}", changed(change))
    found = klass.take()
    first = inputs_of(klass, found["as it was"])
    assert len(first) == len(students.NAMES)
    assert not first & inputs_of(klass, found["as it was"], "ben"), "a classmate's inputs are others"
    assert [name for name in LOOK_ALIKE if first & inputs_of(klass, found[name])] == []
    assert [name for name in CANNOT_BE_READ if first != inputs_of(klass, found[name])] == []
    assert first == inputs_of(klass, klass.take()["as it was"]), "graded again, the same"


def test_a_file_beside_the_notebook_that_it_may_read_counts_too(klass, monkeypatch):
    monkeypatch.setitem(intake.WANTED, CHAPTER, ("run.json",))
    found = {}
    for content in (None, b"1", b"2"):
        klass.put(f"ana/{CHAPTER}/{NAME}")
        if content:
            klass.put(f"ana/{CHAPTER}/run.json", content)
        one = klass.one()
        found[content] = (content_digest(klass.staged(one)), one.digest)
    assert len({digest for pair in found.values() for digest in pair}) == 6


def test_copies_of_one_notebook_are_one_and_others_are_not(klass):
    klass.put("ana/a.ipynb")
    klass.put("ana/b.ipynb")
    assert klass.one().state == "found"
    klass.put("ana/b.ipynb", text("1"))
    assert (klass.one().state, klass.one().reason[:33]) == ("failed", "several notebooks (a.ipynb, b.ipy")


def test_of_many_notebooks_only_a_few_are_named(klass):
    for number in range(8):
        klass.put(f"ana/{number:02d}.ipynb", text(str(number)))
        klass.put(f"ben/{number:02d}.ipynb", b"%PDF-1")
        klass.put(f"cy/{CHAPTER}/{number:02d}.ipynb", text(str(number)))
    klass.put(f"cy/{CHAPTER}/{NAME}")
    found = klass.take()
    assert found["ana"].reason.startswith(
        "several notebooks (00.ipynb, 01.ipynb, 02.ipynb, 03.ipynb, 04.ipynb and 3 more)"
    )
    assert found["ben"].reason.count("PDF") == 5 and found["ben"].reason.endswith("; and so for 3 more notebooks")
    assert found["cy"].reason.endswith("04.ipynb and 3 more") and found["cy"].state == "found"


def test_the_file_with_the_right_name_is_taken_and_the_others_are_named(klass):
    klass.put(f"ana/{CHAPTER}/{NAME}", text("final"))
    klass.put(f"ana/{CHAPTER}/draft.ipynb", text("draft"))
    one = klass.one()
    assert one.reason == "not graded: draft.ipynb" and klass.said(one) == "final"


# What cannot be read


@pytest.mark.parametrize(
    "data, words",
    [
        (b"", "is not a readable Jupyter notebook: it is empty"),
        (b"\xff\xfe{\x00", "written in UTF-16"),
        (b"%PDF-1.7", "it is a PDF document"),
        (b"[1]", "it holds a list"),
        (b"[" * 100_000, "no program writes a notebook like this"),
        (b'{"nbformat": 4, "cells": [' + b"9" * 5000 + b"]}", "no program writes a notebook like this"),
        (b'{"nbformat": 3, "worksheets": []}', "in nbformat 3"),
        (b'{"nbformat": 5, "cells": []}', "in nbformat 5"),
        (b'{"nbformat": true, "cells": []}', "in nbformat True"),
        (b'{"cells": []}', "without a number of its nbformat"),
        (b'{"nbformat": 4}', "no list of cells"),
        (b'{"nbformat": 4, "cells": [7]}', "cell 1, is no cell"),
        (b'{"nbformat": 4, "cells": [{"cell_type": "heading", "source": ""}]}', "'heading'"),
        (b'{"nbformat": 4, "cells": [{"cell_type": "code", "source": [1]}]}', "cell 1, has no text"),
        (b'{"nbformat": 4, "cells": [{"cell_type": "code"}]}', "cell 1, has no text"),
        (
            b'{"nbformat": 4, "cells": [], "metadata": {"x": [' + b"[],{}," * 250_000 + b"1]}}",
            "500,000 lists and objects",
        ),
        (
            b'{"nbformat": 4, "cells": [{"cell_type": "code", "source": "' + b"1" * 500_001 + b'"}]}',
            "characters of code",
        ),
        (json.dumps({"nbformat": 4, "cells": [{"cell_type": "raw", "source": ""}] * 3001}).encode(), "3,001 cells"),
    ],
    ids=lambda value: None if isinstance(value, bytes) else value[-20:],
)
@pytest.mark.parametrize("place", [f"ana/{CHAPTER}/{NAME}", "ana/x.ipynb"])
def test_what_is_no_notebook_of_ours_fails_with_a_reason_and_harms_nobody(klass, data, words, place):
    klass.put(place, data)
    klass.put(f"ben/{CHAPTER}/{NAME}")
    found = klass.take()
    assert found["ana"].state == "failed" and words in found["ana"].reason and found["ben"].state == "found"


def test_strange_but_readable_cells_are_taken_as_far_as_they_are_texts(klass):
    cells = json.loads(RELEASED)["cells"]
    cells += [
        {"cell_type": "code", "source": ["a\n", "b"], "metadata": 7, "outputs": "none", "id": 5},
        {"cell_type": "markdown", "source": None},
        {"cell_type": "code", "source": "'\ud800'", "metadata": {"nbgrader": {"grade_id": ["x"]}}},
    ]
    klass.put("ana/x.ipynb", json.dumps({"nbformat": 4, "cells": cells, "metadata": []}).encode())
    one = klass.one()
    assert one.state == "found" and klass.said(one) == "'?'" and klass.staged(one).cells[-2].source == "a\nb"


def test_oversize_files_are_refused(klass, monkeypatch):
    monkeypatch.setattr("grader.classroom.intake_work.MAX_BYTES", 10)
    klass.put(f"ana/{CHAPTER}/{NAME}")
    assert klass.one().state == "failed" and "larger than" in klass.one().reason


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_links_are_refused_wherever_they_stand(klass):
    secret = klass.folder / "secret" / CHAPTER
    secret.mkdir(parents=True)
    (secret / NAME).write_bytes(RELEASED)
    (klass.submitted / "ana" / CHAPTER).mkdir(parents=True)
    (klass.submitted / "ana" / CHAPTER / NAME).symlink_to(secret / NAME)
    (klass.submitted / "ben").mkdir()
    (klass.submitted / "ben" / CHAPTER).symlink_to(secret)
    (klass.submitted / "cleo.d").symlink_to(secret.parent)
    (klass.submitted / "dev.zip").symlink_to(secret / NAME)
    os.mkfifo(klass.submitted / "ben" / "pipe.ipynb")
    found = klass.take()
    assert set(found) == {"ana", "ben", "cleo.d", "dev"}
    assert all(one.state == "failed" and "symbolic link" in one.reason for one in found.values())
    assert "pipe.ipynb is no ordinary file" in found["ben"].reason


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_a_link_that_was_put_there_after_the_listing_is_not_followed(klass):
    path = klass.put("ana/x.ipynb")
    (file,) = files_in_folder(klass.submitted)
    assert file.read(5) == RELEASED[:6]
    path.unlink()
    path.symlink_to(klass.put("ben/secret"))
    with pytest.raises(IntakeError, match="symbolic link"):
        file.read(5)


def test_folders_in_folders_without_end_are_left(klass):
    klass.put("ana/" + "d/" * 11 + "x.ipynb")
    klass.put("ben/" + "d/" * 12 + "x.ipynb")
    found = klass.take()
    assert found["ana"].state == "found" and "12 folders deep" in found["ben"].reason


@pytest.mark.skipif(os.name == "nt", reason="such names cannot be made there")
@pytest.mark.parametrize(
    "name, student", [(" .zip", "(no name)"), (" /x.ipynb", "(no name)"), (" _7_assignsubmission_file_x.ipynb", "7")]
)
def test_somebody_without_a_name_gets_a_row(klass, name, student):
    klass.put(name, packed({"x.ipynb": RELEASED}) if name.endswith("zip") else RELEASED)
    assert (klass.one().student, klass.one().state) == (student, "found")


@pytest.mark.skipif(os.name == "nt", reason="such names cannot be made there")
def test_names_that_are_no_text_get_a_row(klass):
    os.mkdir(os.fsencode(klass.submitted) + b"/an\xe9")
    with open(os.fsencode(klass.submitted) + b"/an\xe9/x.ipynb", "wb") as file:
        file.write(RELEASED)
    one = klass.one()
    assert one.student == "an\\udce9" and one.state == "found"


def test_something_else_than_a_notebook_is_said(klass):
    klass.put("ana/report.pdf", b"%PDF")
    klass.put("ben.ipynb")
    klass.put("list.csv", b"ana,ben")
    (klass.submitted / "cleo").mkdir()
    found = klass.take()
    assert {name: one.state for name, one in found.items()} == {"ana": "failed", "ben": "failed", "cleo": "missing"}
    assert "but report.pdf" in found["ana"].reason and "outside a student's folder" in found["ben"].reason


def test_nothing_to_take_in_is_said(klass):
    with pytest.raises(IntakeError, match="holds no submission"):
        klass.take(only=())
    klass.put("ana/x.ipynb", b"junk")
    with pytest.raises(IntakeError, match=r"Found: x\.ipynb is not a readable"):
        klass.take(only=())
    (klass.folder / "class.rar").write_bytes(b"x")
    with pytest.raises(IntakeError, match=r"is no folder and no \.zip file"):
        klass.take(source=klass.folder / "class.rar")


# Zip files


def test_a_zip_file_that_windows_made(klass):
    klass.put("ana.zip", packed({f"{CHAPTER}\\{NAME}": RELEASED, f"{OTHER}\\{NAME}": RELEASED}))
    assert klass.one().state == "found"


def test_a_zip_file_per_student(klass):
    klass.put(
        "ana.zip", packed({f"my_course/{CHAPTER}/{NAME}": RELEASED, "__MACOSX/x.ipynb": b"junk", "._y.ipynb": b"junk"})
    )
    klass.put("ben/work.zip", packed({NAME: RELEASED}))
    found = klass.take()
    assert {name: one.state for name, one in found.items()} == {"ana": "found", "ben": "found"}
    assert found["ana"].reason == "" and found["ben"].flags == ()


def test_one_zip_file_of_folders(klass):
    path = klass.folder / "all.zip"
    packed({f"submitted/ana/{CHAPTER}/{NAME}": RELEASED, "submitted/ben/x.ipynb": RELEASED}, path)
    assert set(klass.take(source=path)) == {"ana", "ben"}
    packed({f"ana/{CHAPTER}/{NAME}": RELEASED}, path)
    assert set(klass.take(source=path)) == {"ana"}
    packed({f"all/ana/{CHAPTER}/{NAME}": RELEASED}, path)
    assert set(klass.take(source=path)) == {"ana"}


def special(name, mode=0, **more):
    entry = zipfile.ZipInfo(name)
    entry.external_attr = mode << 16
    for key, value in more.items():
        setattr(entry, key, value)
    return entry


def encrypted(data):
    """Set the mark of encryption in both places where a zip file has it."""
    data = bytearray(data)
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    return bytes(data)


def claims_utf8(data):
    """Turn the name into bytes that are not UTF-8, and say that they are."""
    data = bytearray(data.replace(b"xxxx", b"\xff\xfe\xff\xfe"))
    data[7] |= 8
    data[data.index(b"PK\x01\x02") + 9] |= 8
    return bytes(data)


def central(data, at, new):
    """Write bytes into the record of the first file in a zip file's list of contents."""
    start = data.index(b"PK\x01\x02") + at
    return data[:start] + new + data[start + len(new) :]


def hides_its_list(data, count):
    """Say in the old last record that the list of contents is short, and in the newer one how long it is."""
    end = data.rfind(b"PK\x05\x06")
    size, offset = struct.unpack_from("<2L", data, end + 12)
    large = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, count, count, size, offset)
    small = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 1, 1, 100, offset, 0)
    return data[:end] + large + struct.pack("<4sLQL", b"PK\x06\x07", 0, end, 1) + small


def lies_beyond(data):
    """Say that the file begins at byte 2^63."""
    start, end = data.index(b"PK\x01\x02"), data.rfind(b"PK\x05\x06")
    record = bytearray(data[start:end])
    record[20:24] = record[24:28] = record[42:46] = b"\xff" * 4
    extra = struct.pack("<HH3Q", 1, 24, len(RELEASED), 200, 2**63)
    record[30:32] = struct.pack("<H", len(extra))
    record += extra
    return data[:start] + bytes(record) + struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 1, 1, len(record), start, 0)


ONE_FILE = packed({"x.ipynb": RELEASED})
HOSTILE = {
    "leads out": (packed({"../../evil.ipynb": RELEASED}), "leads out of the zip file"),
    "leads out in Windows": (packed({"..\\..\\evil.ipynb": RELEASED}), "leads out of the zip file"),
    "another packing": (packed([("x.ipynb", RELEASED)], method=zipfile.ZIP_BZIP2), "packed in a way"),
    "absolute": (packed({"/etc/evil.ipynb": RELEASED}), "leads out of the zip file"),
    "drive": (packed({"C:\\evil.ipynb": RELEASED}), "leads out of the zip file"),
    "link": (packed([(special("x.ipynb", stat.S_IFLNK | 0o777), b"/etc/passwd")]), "symbolic link"),
    "pipe": (packed([(special("x.ipynb", stat.S_IFIFO | 0o666), b"")]), "no ordinary file"),
    "bomb": (packed({"x.ipynb": b" " * 15_000_000}), "times its size"),
    "large": (packed({"x.ipynb": os.urandom(1000) * 21_000}), "larger than 20 MB"),
    "encrypted": (encrypted(packed({"x.ipynb": RELEASED})), "is encrypted"),
    "names": (claims_utf8(packed({"xxxx.ipynb": RELEASED})), "cannot be opened as a zip file"),
    "in a zip": (packed({"inner.zip": packed({NAME: RELEASED})}), "a zip file inside work.zip"),
    "no zip": (b"PK\x03\x04 and then nothing", "cannot be opened as a zip file"),
    "many": (packed({f"f{n}": b"" for n in range(2_001)}), "2,001 files"),
    "deep": (packed({"d/" * 20 + "x.ipynb": RELEASED}), "12 folders deep"),
    "cut": (ONE_FILE[:200] + ONE_FILE[-200:], "cannot be"),
    "cut off": (ONE_FILE[:-30], "may not have been copied whole"),
    "nothing": (b"", "work.zip is empty"),
    "rar": (b"Rar!\x1a\x07\x01\x00 and more", "work.zip is an archive (RAR), and no zip file"),
    "a notebook": (RELEASED, "work.zip is no zip file; hand in the notebook itself"),
    "without files": (packed({"a/": b"", "__MACOSX/._x.ipynb": b"x", ".DS_Store": b"x"}), "work.zip holds no file"),
    "zip in a zip in a zip": (
        packed({"b.zip": packed({"c.zip": packed({NAME: RELEASED})})}),
        "b.zip is a zip file inside",
    ),
    "hidden list": (hides_its_list(packed({f"{n:05d}": b"" for n in range(20_000)}), 20_000), "holds too many files"),
    "begins far away": (lies_beyond(ONE_FILE), "cannot be unpacked"),
    "begins behind the end": (central(ONE_FILE, 42, b"\xff\xff\xff\x7f"), "cannot be unpacked"),
    "version of the future": (central(ONE_FILE, 6, b"\xff\x00"), "cannot be opened as a zip file"),
    "another sum": (central(ONE_FILE, 16, b"abcd"), "cannot be unpacked"),
    "shorter than it is": (central(ONE_FILE, 24, b"\x0a\x00\x00\x00"), "cannot be unpacked"),
    "two names": (ONE_FILE.replace(b"x.ipynb", b"y.ipynb", 1), "cannot be unpacked"),
    "two of one chapter": (
        packed({"a.ipynb": RELEASED, "b.ipynb": text("1")}),
        "several notebooks (work.zip/a.ipynb, ",
    ),
    "big and small": (packed({"X.ipynb": RELEASED, "x.ipynb": text("1")}), "several notebooks (work.zip/X.ipynb, "),
}


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_zip_files_are_refused_with_a_reason_and_harm_nobody(klass, case):
    data, words = HOSTILE[case]
    klass.put("ana/work.zip", data)
    klass.put(f"ben/{CHAPTER}/{NAME}")
    before = sorted(klass.folder.parent.rglob("*"))
    found = klass.take()
    assert found["ana"].state == "failed" and words in found["ana"].reason, found["ana"].reason
    assert found["ben"].state == "found"
    made = {p for p in klass.folder.parent.rglob("*") if p not in before}
    assert all((klass.folder / "staging") in (p, *p.parents) for p in made)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_files_of_one_name_in_a_zip_file_are_refused(klass):
    klass.put("ana/work.zip", packed([("x.ipynb", RELEASED), ("x.ipynb", text("1"))]))
    assert klass.one().state == "failed" and "2 files called x.ipynb" in klass.one().reason


def test_a_good_notebook_beside_something_hostile_is_graded_and_flagged(klass):
    klass.put("ana/work.zip", packed({NAME: RELEASED, "../evil": b"x"}))
    one = klass.one()
    assert one.state == "found" and "leads out of the zip file" in one.flags[0]


def test_a_zip_file_may_hold_only_so_much_in_all(klass, monkeypatch):
    monkeypatch.setattr("grader.classroom.intake_files.MAX_UNPACKED", 2 * len(RELEASED))
    klass.put("ana/work.zip", packed({f"{n}.ipynb": RELEASED for n in range(3)}))
    one = klass.one()
    assert one.state == "found" and "unpacks to more than" in one.flags[0]


def test_a_zip_file_may_be_only_so_large(klass, monkeypatch):
    monkeypatch.setattr("grader.classroom.intake_files.MAX_ZIP", 500)
    klass.put("ana/work.zip", packed({NAME: RELEASED}))
    assert klass.one().state == "failed" and "work.zip is larger than" in klass.one().reason


def test_the_list_of_contents_is_measured_before_it_is_read(klass, monkeypatch):
    monkeypatch.setattr("grader.classroom.intake_files.MAX_DIRECTORY", 1000)
    klass.put("ana/work.zip", packed({f"{n}.ipynb": b"" for n in range(100)}))
    assert "holds too many files" in klass.one().reason


def test_the_notebooks_of_one_student_may_hold_only_so_much_in_all(klass, monkeypatch):
    """Else 200 notebooks of 20 MB each would fill the judge's memory."""
    notebook = {"nbformat": 4, "cells": [{"cell_type": "markdown", "source": "x" * 1000}]}
    released = sum(len(cell.source) for cell in students.with_answers({}).cells)
    monkeypatch.setattr("grader.classroom.intake_work.MAX_CHARACTERS", released + 2500)
    for number in range(3):
        klass.put(f"ana/{number}.ipynb", json.dumps(notebook).encode())
    klass.put(f"ana/{CHAPTER}/{NAME}")
    klass.put("ben/1.ipynb", json.dumps(notebook).encode())
    klass.put(f"ben/{CHAPTER}/{NAME}")
    found = klass.take()
    assert "million characters in all" in found["ana"].reason and found["ben"].reason == ""


def test_of_one_student_only_so_many_bytes_of_notebooks_are_read(klass, monkeypatch):
    """Reading 200 notebooks of 20 MB each would take the better part of an hour."""
    small = json.dumps({"nbformat": 4, "cells": [], "metadata": {"x": "y" * 1000}}).encode()
    monkeypatch.setattr(intake_work, "MAX_READ", len(RELEASED) + 2 * len(small))
    read, real = [], intake_work.read_cells
    monkeypatch.setattr(intake_work, "read_cells", lambda data, name: read.append(name) or real(data, name))
    klass.put(f"ana/{CHAPTER}/{NAME}")
    klass.put("ana/more.zip", packed({f"{number}.ipynb": small for number in range(5)}))
    klass.put(f"ben/{CHAPTER}/{NAME}")
    found = klass.take()
    assert "4.ipynb was not looked at" in found["ana"].reason and "hand in fewer" in found["ana"].reason
    assert found["ana"].state == found["ben"].state == "found" and found["ben"].reason == "" and len(read) == 4


def test_names_that_a_terminal_would_obey_are_written_out(klass):
    klass.put("ana/work.zip", packed({"\x1b[2J\r\nx.ipynb": RELEASED}))
    klass.put("b\x07en/x\x1b[31m.ipynb")
    found = klass.take()
    assert found["ana"].reason == "handed in as work.zip/\\x1b[2J\\x0d\\x0ax.ipynb"
    assert found["b\\x07en"].reason == "handed in as x\\x1b[31m.ipynb"


def test_long_names_and_names_with_a_zero_in_them(klass):
    klass.put("ana/work.zip", packed({"y" * 60_000 + ".ipynb": RELEASED}))
    klass.put("ben/work.zip", packed({"x.ipynbyevil": RELEASED}).replace(b"x.ipynbyevil", b"x.ipynb\0evil"))
    found = klass.take()
    assert found["ana"].state == "found" and len(found["ana"].reason) < 250
    assert found["ben"].reason == "handed in as work.zip/x.ipynb"


def test_utf_8_names_that_do_not_say_so_are_read(klass):
    klass.put("ana/work.zip", packed({"xxbung.ipynb": RELEASED}).replace(b"xxbung", "Übung".encode()))
    assert klass.one().reason == "handed in as work.zip/Übung.ipynb"


def test_old_names_in_zip_files_are_read(klass):
    data = bytearray(packed({"xbung.ipynb": RELEASED}).replace(b"xbung", b"\x9abung"))
    klass.put("ana/work.zip", bytes(data))
    assert (klass.one().state, klass.one().reason) == ("found", "handed in as work.zip/Übung.ipynb")


# Moodle


def test_moodle_in_folders(klass):
    path = klass.folder / "course-hw2-77.zip"
    packed(
        {
            f"Ana Lee_101_assignsubmission_file_/{NAME}": RELEASED,
            "Ben Öz_102_assignsubmission_file/sub/x.ipynb": RELEASED,  # without the last _, as newer ones write
            "Ben Öz_102_assignsubmission_onlinetext/onlinetext.html": b"<p>",
            "Cleo_103_assignsubmission_onlinetext_/onlinetext.html": b"<p>see my mail",
            "Participant_104_assignsubmission_file_/x.zip": packed({"y.ipynb": RELEASED}),
        },
        path,
    )
    found = klass.take(source=path)
    assert {n: o.state for n, o in found.items()} == {
        "Ana Lee": "found",
        "Ben Öz": "found",
        "Cleo": "failed",
        "Participant": "found",
    }
    assert "onlinetext of Moodle" in found["Cleo"].reason and all(one.late is None for one in found.values())


def test_moodle_without_folders_and_unpacked(klass):
    klass.put(f"Ana Lee_101_assignsubmission_file_{NAME}")
    klass.put("Ben_102_assignsubmission_file_my_work_3_4_.ipynb")
    found = klass.take()
    assert found["Ana Lee"].reason == "" and found["Ben"].reason == "handed in as my_work_3_4_.ipynb"


def test_two_people_of_one_name_stay_apart(klass):
    klass.put(f"Ana Lee_101_assignsubmission_file_/{NAME}", text("first"))
    klass.put(f"Ana Lee_102_assignsubmission_file_/{NAME}", text("second"))
    found = klass.take(roster=["Ana Lee"])
    assert found["Ana Lee (101)"].state == found["Ana Lee (102)"].state == "found"
    assert "who is who" in found["Ana Lee (101)"].flags[0] and set(found) == {"Ana Lee (101)", "Ana Lee (102)"}
    assert all("roster" not in one.reason for one in found.values())
    assert [one.number for one in found.values()] == ["101", "102"]
    assert "not on the roster" in klass.take(roster=["Bo"])["Ana Lee (101)"].reason
    found = klass.take(roster=["Ana Lee", "Ana J. Lee"], names={"101": "Ana Lee", "102": "Ana J. Lee"})
    assert klass.said(found["Ana Lee"]) == "first" and klass.said(found["Ana J. Lee"]) == "second"
    assert found["Ana Lee"].reason == ""


def test_namesakes_have_as_many_rows_in_each_chapter_as_there_are_of_them(klass):
    """Moodle numbers them anew in each assignment."""
    first = {f"Ana Lee_{n}_assignsubmission_file_/{NAME}": text(str(n)) for n in (101, 102)}
    second = {f"Ana Lee_{n}_assignsubmission_file_/x.ipynb": text(f"# {n}", OTHER) for n in (201, 202)}
    klass.put("hw2.zip", packed(first))
    klass.put("hw1.zip", packed(second))

    def rows():
        found = klass.take(only=(OTHER, CHAPTER), roster=["Ana Lee", "Bo"])
        return [(one.student, one.chapter[:2], one.state) for one in found if one.student != "Bo"]

    assert rows() == [
        ("Ana Lee (101)", "02", "found"), ("Ana Lee (102)", "02", "found"),
        ("Ana Lee (201)", "01", "found"), ("Ana Lee (202)", "01", "found"),
    ]  # fmt: skip
    second.popitem()
    klass.put("hw1.zip", packed(second))  # one of the two handed in nothing, and nobody knows which
    assert rows() == [
        ("Ana Lee", "01", "found"), ("Ana Lee (101)", "01", "missing"),
        ("Ana Lee (101)", "02", "found"), ("Ana Lee (102)", "02", "found"),
    ]  # fmt: skip


def test_a_number_is_known_whatever_became_of_the_file(klass):
    klass.put("Ana_101_assignsubmission_file_/x.ipynb", b"junk")
    klass.put("Ben_102_assignsubmission_onlinetext_/x.html", b"<p>")
    klass.put("Cy_103_assignsubmission_file_/x.ipynb", text(chapter=OTHER))
    klass.put("Di_104_assignsubmission_file_/report.pdf", b"%PDF")
    found = klass.take()
    assert {name: (one.state, one.number) for name, one in found.items()} == {
        "Ana": ("failed", "101"), "Ben": ("failed", "102"), "Cy": ("missing", "103"), "Di": ("failed", "104"),
    }  # fmt: skip


def test_a_row_has_the_number_of_its_own_assignment(klass):
    klass.put("hw1.zip", packed({"Ana_11_assignsubmission_file_/x.ipynb": text(chapter=OTHER)}))
    klass.put("hw2.zip", packed({f"Ana_22_assignsubmission_file_/{NAME}": RELEASED}))
    assert [(one.chapter, one.number) for one in klass.take(only=(OTHER, CHAPTER))] == [(OTHER, "11"), (CHAPTER, "22")]


def test_names_as_canvas_makes_them_mean_nothing_elsewhere(klass):
    klass.put(f"ana/{CHAPTER}-1.ipynb", text("1"))
    klass.put("ana/x.ipynb", text("2"))
    klass.put(f"ben/{CHAPTER}/a.ipynb", text("1"))
    klass.put(f"ben/{CHAPTER}/b.ipynb", text("2"))
    found = klass.take()
    assert found["ana"].reason.startswith(f"several notebooks ({CHAPTER}-1.ipynb, x.ipynb) and none is called")
    assert found["ben"].reason.startswith("several notebooks (a.ipynb, b.ipynb) and none is called")


# Canvas


def test_canvas(klass):
    path = klass.folder / "submissions.zip"
    packed(
        {
            f"leeana_12345_678901_{NAME}": RELEASED,
            f"özben_LATE_12346_678902_{CHAPTER}-1.ipynb": RELEASED,
            "kimcleo_12347_678903_work.zip": packed({f"{CHAPTER}/{NAME}": RELEASED}),
            "nodev_LATE_12348_text.html": b"<p>",
            "anon_aBcDe_678904_x.ipynb": RELEASED,
        },
        path,
    )
    found = klass.take(source=path, roster=["Ana Lee", "Ben Öz", "Cleo Kim", "Dev No"])
    assert {n: (o.state, o.late) for n, o in found.items()} == {
        "Ana Lee": ("found", False),
        "Ben Öz": ("found", True),
        "Cleo Kim": ("found", False),
        "Dev No": ("failed", None),
        "anon_aBcDe": ("found", False),
    }
    assert sorted(o.number for o in found.values()) == ["12345", "12346", "12347", "12348", "anon_aBcDe"]
    assert list(found)[:2] == ["Ana Lee", "anon_aBcDe"], "capital letters make no order"
    assert found["Ben Öz"].reason == "" and "not on the roster" in found["anon_aBcDe"].reason
    assert found["anon_aBcDe"].flags == ("not on the roster",)


def test_a_later_attempt_supersedes(klass):
    klass.put(f"leeana_1_20_{CHAPTER}.ipynb", text("old"))
    klass.put(f"leeana_1_30_{CHAPTER}-1.ipynb", text("newer"))
    klass.put(f"leeana_1_10_{CHAPTER}-2.ipynb", text("newest"))
    klass.put("bob_2_40_x.ipynb", text("40"))
    klass.put("bob_2_41_x.ipynb", text("41"))
    found = klass.take()
    assert klass.said(found["leeana"]) == "newest" and "the newest of 3 attempts" in found["leeana"].reason
    assert klass.said(found["bob"]) == "41"


def test_downloads_beside_each_other_are_one_class(klass):
    klass.put("hw1.zip", packed({"leeana_1_10_a.ipynb": text(chapter=OTHER)}))
    klass.put("hw2.zip", packed({"leeana_1_20_b.ipynb": text("old")}))
    klass.put("hw2 again.zip", packed({"leeana_LATE_1_31_c.ipynb": text("new"), "bob_2_32_b.ipynb": RELEASED}))
    found = klass.take(only=())
    assert [(o.student, o.chapter, o.state, o.late) for o in found] == [
        ("bob", OTHER, "missing", None),
        ("bob", CHAPTER, "found", False),
        ("leeana", OTHER, "found", False),
        ("leeana", CHAPTER, "found", True),
    ]
    assert klass.said(found[3]) == "new"


def test_of_two_moodle_downloads_the_later_counts(klass):
    for place, (name, when) in enumerate({"a (1).zip": 200, "a.zip": 100}.items()):
        path = klass.put(name, packed({f"Ana_{place}_assignsubmission_file_/{NAME}": text(str(when))}))
        os.utime(path, (when, when))
    assert klass.said(klass.one()) == "200"


def test_a_students_zip_file_does_not_speak_for_others(klass):
    klass.put("mallory.zip", packed({f"Ana_1_assignsubmission_file_/{NAME}": text("a lie")}))
    klass.put(f"Ana/{CHAPTER}/{NAME}", text("the truth"))
    found = klass.take()
    assert set(found) == {"Ana", "mallory"} and klass.said(found["Ana"]) == "the truth"


def test_a_new_notebook_that_cannot_be_read_is_not_replaced_by_the_old_one(klass):
    klass.put(f"leeana_1_20_{CHAPTER}.ipynb", text("old"))
    klass.put(f"leeana_1_30_{CHAPTER}-1.ipynb", b"junk")
    assert klass.one().state == "failed" and "not a readable" in klass.one().reason


def test_a_copy_that_was_worked_in_is_graded_and_not_the_untouched_original(klass):
    worked = nbformat.writes(
        students.with_answers({"log_softmax": "def log_softmax(logits):\n    return 'mine'"})
    ).encode()
    klass.put(f"ana/{CHAPTER}/{NAME}")
    klass.put(f"ana/{CHAPTER}/{CHAPTER}-Copy1.ipynb", worked)
    one = klass.one()
    assert (one.state, one.reason) == (
        "found", f"handed in as {CHAPTER}-Copy1.ipynb; not graded, since nothing is done in it: {NAME}"
    )  # fmt: skip
    assert any("'mine'" in cell.source for cell in klass.staged(one).cells)
    klass.put(f"ana/{CHAPTER}/other.ipynb", worked.replace(b"mine", b"other"))
    assert (
        klass.one().state == "failed" and "several notebooks" in klass.one().reason
    )  # two with work, none of the name
    klass.put(f"ana/{CHAPTER}/{NAME}", worked.replace(b"mine", b"named"))
    assert klass.one().state == "found" and any("'named'" in cell.source for cell in klass.staged(klass.one()).cells)


def test_of_attempts_the_last_counts_even_if_nothing_is_done_in_it(klass):
    worked = nbformat.writes(
        students.with_answers({"log_softmax": "def log_softmax(logits):\n    return 'mine'"})
    ).encode()
    klass.put("leeana_12_345_work.ipynb", worked)
    klass.put("leeana_12_346_work-1.ipynb", RELEASED)
    assert not any("'mine'" in cell.source for cell in klass.staged(klass.one()).cells)


@pytest.mark.parametrize("unit", ["m", "h"])
def test_a_time_that_no_calendar_holds_costs_nobody_else_anything(klass, unit):
    klass.put(f"ana/{CHAPTER}/{NAME}")
    klass.put(f"ben/{CHAPTER}/{NAME}")
    klass.put(f"ana/{CHAPTER}/timestamp.txt", ("9" * 29 + unit).encode())
    found = klass.take()
    assert [one.state for one in found.values()] == ["found", "found"] and "holds no time" in found["ana"].reason


def test_what_nobody_foresaw_costs_one_row(klass, monkeypatch):
    klass.put(f"ana/{CHAPTER}/{NAME}", text("1 / 0"))
    klass.put(f"ben/{CHAPTER}/{NAME}")
    rebuild = intake.rebuild

    def picky(cells, release):
        return 1 / 0 if any(cell.source == "1 / 0" for cell in cells) else rebuild(cells, release)

    monkeypatch.setattr(intake, "rebuild", picky)
    found = klass.take()
    assert (found["ana"].state, found["ben"].state) == ("failed", "found")
    assert "it could not be taken in: ZeroDivisionError: 'division by zero'" in found["ana"].reason
    assert not (klass.folder / "staging" / "ana" / CHAPTER).exists()
    monkeypatch.setattr(intake, "rebuild", lambda *a: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
    with pytest.raises(OSError, match="full"):
        klass.take()


def test_a_chapter_that_nobody_handed_in_is_no_class_of_missing_ones(klass):
    klass.put(f"ana/{OTHER}/{OTHER}.ipynb", text(chapter=OTHER))
    staged = klass.folder / "staging" / "earlier"
    staged.mkdir(parents=True)
    with pytest.raises(IntakeError, match=f"nobody handed in {CHAPTER}: what lies in .* is of {OTHER}"):
        klass.take(roster=["ana", "ben"])
    assert staged.is_dir(), "nothing may be touched"
    klass.put("ben/work.ipynb", b"{no notebook")  # it may be of any chapter
    assert {name: one.state for name, one in klass.take(roster=["ana", "ben"]).items()} == {
        "ana": "missing", "ben": "failed",
    }  # fmt: skip


@pytest.mark.parametrize("packing", ["folders", "zip"])
def test_a_folder_whose_name_begins_with_a_dot_is_somebodys_if_there_is_a_notebook_in_it(klass, packing):
    files = [(f".ana/{CHAPTER}/{NAME}", RELEASED), ("ben/work.ipynb", RELEASED), ("ben/.old/work.ipynb", text("x = 1"))]
    litter = [(".ipynb_checkpoints/work.ipynb", RELEASED), (".settings/a.json", b"{}"), (".DS_Store", b"x")]
    for path, data in files + litter:
        klass.put(path, data)
    source = packed(files + litter, klass.folder / "all.zip") if packing == "zip" else None
    found = klass.take(source=source)
    assert {name: (one.state, one.reason) for name, one in found.items()} == {
        ".ana": ("found", ""),
        "ben": ("found", "handed in as work.ipynb"),
    }
    assert found[".ana"].student_id.startswith("_.ana")


def test_an_answer_that_begins_with_an_invisible_mark_is_python(klass):
    base = students.with_answers({"log_softmax": "\ufeff" + students.NAIVE_LOG_SOFTMAX})
    klass.put(f"ana/{CHAPTER}/{NAME}", nbformat.writes(base).encode())
    assert klass.one().state == "found"
    staged = nbformat.read(klass.folder / "staging" / "ana" / CHAPTER / NAME, 4)
    (answer,) = [cell.source for cell in staged.cells if "np.exp(logits) / np.exp(logits)" in cell.source]
    assert answer.startswith(students.NAIVE_LOG_SOFTMAX[:9])


def test_a_year_that_cannot_be_written_again_is_no_time(klass):
    klass.put(f"ana/{CHAPTER}/{NAME}")
    klass.put(f"ana/{CHAPTER}/timestamp.txt", b"0999-01-01 10:00:00 UTC")
    one = klass.one()
    assert one.timestamp == "" and "timestamp.txt holds no time: '0999" in one.reason


def test_what_is_not_there_is_said_to_be_missing(klass):
    for name in ("hw2.zip", "nowhere"):
        with pytest.raises(IntakeError, match=f"{name} is not there"):
            klass.take(source=klass.folder / name)


@pytest.mark.parametrize("packing", ["folders", "zip"])
def test_a_class_that_lies_by_chapters_is_a_class(klass, packing):
    data = {
        f"{CHAPTER}/ana/{NAME}": text("1"),
        f"{CHAPTER}/ben/work.ipynb": text("2"),
        f"{CHAPTER}/cleo.zip": packed({"x.ipynb": text("3")}),
        f"{CHAPTER}/grades.csv": b"a,b",
        f"{OTHER}/ana/x.ipynb": text(chapter=OTHER),
        "roster.csv": b"ana",
    }
    for place, content in data.items():
        klass.put(place, content)
    source = packed(data, klass.folder / "class.zip") if packing == "zip" else None
    found = klass.take(only=(CHAPTER, OTHER), source=source)
    assert {(one.student, one.chapter[:2]): one.state for one in found} == {
        ("ana", CHAPTER[:2]): "found", ("ben", CHAPTER[:2]): "found", ("cleo", CHAPTER[:2]): "found",
        ("ana", OTHER[:2]): "found", ("ben", OTHER[:2]): "missing", ("cleo", OTHER[:2]): "missing",
    }  # fmt: skip


@pytest.mark.parametrize(
    "places",
    [
        (f"ana/{CHAPTER}/{NAME}", f"ana/{OTHER}/{OTHER}.ipynb"),
        (f"ana/{CHAPTER}/{NAME}", f"ana/backup/{NAME}", f"ana/old/{NAME}"),
        (f"ana/mine/{NAME}", f"ana/old/{NAME}", f"ana/{NAME}"),
    ],
)
def test_folders_of_one_student_are_no_class(klass, places):
    for place in places:
        klass.put(place, text(chapter=OTHER) if OTHER in place else RELEASED)
    assert set(klass.take()) == {"ana"}


def test_a_folder_around_a_class_is_said(klass):
    for name in ("ana", "ben"):
        klass.put(f"Homework/{name}/{NAME}", text(name))
    one = klass.one()
    assert (one.student, one.state) == ("Homework", "failed")
    assert f"are called {NAME}; keep one (if these folders are students', grade the folder around them)" in one.reason
