"""What is handed in as a file: broken, renamed, linked, too large, of another format; and cells that are not as due."""

from __future__ import annotations

import copy
import io
import json
import struct
import zipfile
from pathlib import Path

from nbformat.v4 import new_code_cell, new_markdown_cell

from grader.classroom.repair import grade_id_of
from grader.paths import NOTEBOOKS, SOLUTIONS, notebook_path

from .making import CHAPTER_1, CHAPTER_2, EVERYTHING, Submission, cell_of, nothing, solutions

ANY = ("graded", "needs review")
REFUSED = ("failed",)
ALL = {EVERYTHING: 1.0}
FILE = f"{CHAPTER_2}.ipynb"


def changed(change):
    """Return a change of the file's bytes made from a change of the notebook as plain JSON."""

    def apply(data: bytes) -> bytes:
        notebook = json.loads(data)
        notebook = change(notebook) or notebook
        return json.dumps(notebook).encode()

    return apply


def cells_of(notebook):
    """Return the notebook's cells that have a grade_id, by it (of the file as plain JSON)."""
    return {c["metadata"]["nbgrader"]["grade_id"]: c for c in notebook["cells"] if "nbgrader" in c["metadata"]}


def format_3(notebook):
    """The notebook as nbformat 3 wrote it."""
    cells = [{"cell_type": "code", "input": c["source"], "language": "python", "outputs": [], "collapsed": False,
              "metadata": c["metadata"]} for c in notebook["cells"]]  # fmt: skip
    return {"nbformat": 3, "nbformat_minor": 0, "metadata": {"name": ""}, "worksheets": [{"cells": cells}]}


def format_5(notebook):
    notebook["nbformat"] = 5


def without_ids(notebook):
    for cell in notebook["cells"]:
        cell.pop("id", None)
    notebook["nbformat_minor"] = 4


def same_ids(notebook):
    for cell in notebook["cells"]:
        cell["id"] = "same"


def metadata_of_other_types(notebook):
    """Every kind of metadata that is not what it should be, on the cells between the exercises."""
    for number, value in enumerate(("text", 5, [1], None, {"grade_id": 5}, {"grade_id": ["log_softmax"]}, {})):
        notebook["cells"].insert(1, {"cell_type": "code", "id": f"odd{number}", "source": "", "outputs": [],
                                     "execution_count": None, "metadata": {"nbgrader": value}})  # fmt: skip


def more_points(notebook):
    """All marks changed in the student's favour."""
    for name, cell in cells_of(notebook).items():
        marks = {"points": 1000, "grade": True, "solution": not name.endswith("_answer"), "locked": False}
        cell["metadata"]["nbgrader"].update(marks)
        cell["metadata"]["editable"] = True


def skipped(notebook):
    """Tags that other tools obey."""
    for cell in notebook["cells"]:
        cell["metadata"]["tags"] = ["skip-execution", "raises-exception", "remove-cell", "nbgrader-skip", "hide-input"]


def checks_replaced(notebook):
    """Check cells whose source gives points."""
    for name, cell in cells_of(notebook).items():
        if not name.endswith("_answer"):
            cell["source"] = "5"


def new_task(notebook):
    """Exercises of its own making, worth points."""
    for name in ("my_exercise", "log_softmax_bonus", "../../log_softmax", "<script>alert(1)</script>"):
        marks = {"grade": True, "grade_id": name, "locked": False, "points": 100, "schema_version": 3,
                 "solution": True, "task": False}  # fmt: skip
        cell = new_code_cell("5", metadata={"nbgrader": marks})
        notebook["cells"].append(dict(cell))


def kernel_of_its_own(notebook):
    """Metadata that name another kernel and another language."""
    notebook["metadata"]["kernelspec"] = {"name": "../../x", "display_name": "x", "language": "bash"}
    notebook["metadata"]["language_info"] = {"name": "bash", "version": 3}
    notebook["metadata"]["celltoolbar"] = "Create Assignment"


def attachments(notebook):
    """Attachments and raw cells with paths that lead elsewhere."""
    notebook["cells"].insert(0, {"cell_type": "markdown", "id": "picture", "metadata": {},
        "source": "![x](attachment:../../../../x) <img src='file:///etc/passwd'> <script>alert(1)</script>",
        "attachments": {"../../../../x": {"image/png": "AAAA"}}})  # fmt: skip
    notebook["cells"].insert(0, {"cell_type": "raw", "id": "raw", "metadata": {"raw_mimetype": "text/latex"},
                                 "source": "\\input{/etc/passwd}"})  # fmt: skip


def as_markdown(notebook):
    """An answer cell that became markdown, with its source."""
    cell = cell_of(notebook, "log_softmax_answer")
    index = notebook.cells.index(cell)
    notebook.cells[index] = new_markdown_cell(cell.source, metadata=cell.metadata)


def split(notebook):
    """An answer cell split in two as JupyterLab does it: both halves keep the metadata."""
    cell = cell_of(notebook, "sequence_logprob_answer")
    index = notebook.cells.index(cell)
    second = copy.deepcopy(cell)
    second.id = "second-half"
    cell.source = "def rows_of(logits):\n    return np.asarray(logits, dtype=float)"
    second.source = second.source.replace("np.asarray(logits, dtype=float)", "rows_of(logits)")
    notebook.cells.insert(index + 1, second)


def copied_below(notebook):
    """An answer cell copied, the copy left as an old and wrong try below the good one, without its marks."""
    notebook.cells.insert(1, new_code_cell(nothing("log_softmax")["log_softmax"]))


def copied_stub(notebook):
    """The stub was copied before it was filled in: the first copy is the answer, the last one the stub."""
    cell = cell_of(notebook, "log_softmax_answer")
    stub = copy.deepcopy(cell)
    stub.id = "the-stub"
    stub.source = "def log_softmax(logits):\n    raise NotImplementedError()"
    notebook.cells.insert(notebook.cells.index(cell), stub)


def duplicate_checks(notebook):
    """Check cells copied many times, in the hope that each counts."""
    for _ in range(5):
        cell = copy.deepcopy(cell_of(notebook, "group_relative_advantage"))
        cell.id = f"copy{len(notebook.cells)}"
        notebook.cells.append(cell)


def swapped_ids(notebook):
    """The answer cell of an easy exercise under the marks of a hard one."""
    easy, hard = cell_of(notebook, "log_softmax_answer"), cell_of(notebook, "sequence_logprob_answer")
    easy.metadata.nbgrader.grade_id, hard.metadata.nbgrader.grade_id = "sequence_logprob_answer", "log_softmax_answer"


def exercises_deleted(notebook):
    """Two exercises deleted, answers and checks."""
    notebook.cells = [cell for cell in notebook.cells if "log" not in grade_id_of(cell)]


def checks_deleted(notebook):
    notebook.cells = [cell for cell in notebook.cells if not cell.source.startswith("check(")]


def in_a_folder(*names):
    """Return a layout that puts the notebook under the student's folder at this path."""

    def write(student: Path, data: bytes) -> None:
        path = student.joinpath(*names)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    return write


def link_to_solution(student: Path, data: bytes) -> None:
    (student / CHAPTER_2).mkdir()
    (student / CHAPTER_2 / FILE).symlink_to(notebook_path(SOLUTIONS, CHAPTER_2))


def linked_folder(student: Path, data: bytes) -> None:
    (student / CHAPTER_2).symlink_to(SOLUTIONS / CHAPTER_2)


def helpers_beside(student: Path, data: bytes) -> None:
    """Files beside the notebook that would be imported instead of the course's own."""
    folder = student / CHAPTER_2
    folder.mkdir()
    (folder / FILE).write_bytes(data)
    for name in ("numpy.py", "grpo.py", "grader.py", "sitecustomize.py", "conftest.py", "nbgrader_config.py"):
        (folder / name).write_text("raise SystemExit('full marks')")
    (folder / "grader").mkdir()
    (folder / "grader" / "__init__.py").write_text("check = lambda *a, **k: 5")
    (folder / "timestamp.txt").write_text("never\0")
    (folder / "gradebook.db").write_bytes(b"\0" * 100)


def odd_names(student: Path, data: bytes) -> None:
    """Names that end a line, start an option or match as a pattern, beside the notebook under a new name."""
    folder = student / CHAPTER_2
    folder.mkdir()
    (folder / "--config=x [1]*?'; rm -rf $HOME #.ipynb").write_bytes(data)
    for name in ("a\nb.txt", "..txt", "%2e%2e", "\u202egpj.txt"):
        (folder / name).write_text("x")


def wrong_chapter(student: Path, data: bytes) -> None:
    (student / CHAPTER_2).mkdir()
    (student / CHAPTER_2 / FILE).write_bytes(notebook_path(NOTEBOOKS, CHAPTER_1).read_bytes())


def a_folder_called_so(student: Path, data: bytes) -> None:
    (student / CHAPTER_2 / FILE).mkdir(parents=True)


def many_notebooks(student: Path, data: bytes) -> None:
    folder = student / CHAPTER_2
    folder.mkdir()
    for number in range(300):
        (folder / f"{number}.ipynb").write_bytes(b"{}")


def zip_far_away(student: Path, data: bytes) -> None:
    packed = zipped({FILE: data})
    start, end = packed.index(b"PK\x01\x02"), packed.rfind(b"PK\x05\x06")
    record = bytearray(packed[start:end])
    record[20:28] = b"\xff" * 8
    record[42:46] = b"\xff" * 4
    extra = struct.pack("<HH3Q", 1, 24, len(data), len(data), 2**63)
    record[30:32] = struct.pack("<H", len(extra))
    last = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 1, 1, len(record) + len(extra), start, 0)
    (student / "work.zip").write_bytes(packed[:start] + record + extra + last)


def zip_with_a_hidden_list(student: Path, data: bytes) -> None:
    """The old last record says that the list of contents is short; a newer one, which counts, says how long it is."""
    packed = zipped({FILE: data, **{f"{number:05d}": b"" for number in range(20_000)}})
    end = packed.rfind(b"PK\x05\x06")
    size, offset = struct.unpack_from("<2L", packed, end + 12)
    large = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, 20_001, 20_001, size, offset)
    small = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 1, 1, 100, offset, 0)
    whole = packed[:end] + large + struct.pack("<4sLQL", b"PK\x06\x07", 0, end, 1) + small
    (student / "work.zip").write_bytes(whole)


def zip_without_files(student: Path, data: bytes) -> None:
    packed = zipped({f"{CHAPTER_2}/": b"", f"__MACOSX/._{FILE}": data, ".DS_Store": b"x"})
    (student / "work.zip").write_bytes(packed)


def zipped(files: dict[str, bytes]) -> bytes:
    """Return a zip file of these."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return target.getvalue()


def one(name, tries, kind="broken file", states=REFUSED, **more):
    """A file of which nothing can be graded, so that nothing is due."""
    return Submission(name, kind, tries, states=states, deserves={EVERYTHING: 0.0}, **more)


def honest(name, kind, tries, **more):
    """What happens to honest people: all is right, and all points are due."""
    return Submission(name, kind, tries, deserves=ALL, **{"states": ANY, **more})


RENAMED = "renamed files"
CELLS = "cells"

BATCH = [
    one("empty-file", "a file of no bytes", raw=lambda data: b""),
    one("not-json", "a Word document's first bytes", raw=lambda data: b"PK\x03\x04" + data[:500]),
    one("pdf", "a PDF document under the notebook's name", raw=lambda data: b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n" + data),
    one("web-page", "a web page under the notebook's name", raw=lambda data: b"<!DOCTYPE html><html>" + data),
    one("zip-far-away", "a zip file that says its notebook begins at byte 2^63", layout=zip_far_away),
    one("zip-hidden-list", "a zip file of 20,000 files that says it has one", layout=zip_with_a_hidden_list),
    one("zip-without-files", "a zip file with folders and litter in it", layout=zip_without_files),
    one("cut-off", "the file breaks off in the middle", raw=lambda data: data[: len(data) // 2]),
    one("not-utf-8", "bytes that are no UTF-8", raw=lambda data: data.replace(b"def ", b"\xff\xfe ", 1)),
    one("utf-16", "the whole file in UTF-16", raw=lambda data: data.decode().encode("utf-16")),
    one("nul-bytes", "NUL bytes in the file", raw=lambda data: data[:100] + b"\0" * 10 + data[100:]),
    one("json-list", "a list where a notebook is due", raw=lambda data: b"[1, 2, 3]"),
    one("deep-json", "JSON nested a million deep", raw=lambda data: b"[" * 1_000_000),
    one("no-cells", "a notebook without cells", raw=changed(lambda nb: nb.update(cells=[]))),
    one("other-cells", "a notebook without the chapter's exercises",
        change=lambda nb: setattr(nb, "cells", [new_code_cell("5")])),
    one("format-5", "nbformat 5", raw=changed(format_5)),
    one("too-large", "a file of 25 MB", raw=changed(lambda nb: nb["metadata"].update(x="x" * 25_000_000))),
    one("link-to-solution", "a symbolic link to the solution", "links", layout=link_to_solution),
    one("linked-folder", "the chapter's folder is a symbolic link to the solutions", "links", layout=linked_folder,
        states=("failed", "missing")),
    one("folder-for-a-file", "a folder with the notebook's name", layout=a_folder_called_so,
        states=("failed", "missing")),
    one("many-notebooks", "300 notebooks in one folder", layout=many_notebooks),
    one("wrong-chapter", "another chapter's notebook in the chapter's folder, under its name", layout=wrong_chapter),
    honest("format-3", "formats", "the notebook in nbformat 3, as very old programs write it",
           raw=changed(format_3), states=(*ANY, "failed"), may_lose=(EVERYTHING,)),
    honest("byte-order-mark", "formats", "a byte order mark in front", raw=lambda data: b"\xef\xbb\xbf" + data),
    honest("windows-line-ends", "formats", "line ends of Windows", raw=lambda data: data.replace(b"\n", b"\r\n")),
    honest("format-4.4", "formats", "nbformat 4.4: cells without ids", raw=changed(without_ids)),
    honest("duplicate-cell-ids", "duplicate ids", "all cells have one id", raw=changed(same_ids)),
    honest("renamed", RENAMED, "another name", layout=in_a_folder(CHAPTER_2, "chapter two (final).ipynb")),
    honest("upper-case", RENAMED, "an upper-case suffix", layout=in_a_folder(CHAPTER_2, "Two.IPYNB")),
    honest("without-folder", RENAMED, "no folder for the chapter", layout=in_a_folder("my notebook.ipynb")),
    honest("deep-folder", RENAMED, "a folder in a folder", layout=in_a_folder("a", "b", CHAPTER_2, "n.ipynb")),
    honest("odd-names", RENAMED, "names that look like options, patterns and commands", layout=odd_names),
    honest("helpers-beside", RENAMED, "numpy.py, grader.py and a gradebook beside the notebook",
           layout=helpers_beside),
    honest("split-answer", CELLS, "an answer cell split in two, both halves with its marks", change=split),
    honest("copied-stub", CELLS, "a copy of the stub stands above the answer", change=copied_stub),
    honest("wrong-try-above", CELLS, "an old wrong try above the answer, without marks", change=copied_below),
    honest("checks-deleted", CELLS, "all check cells deleted", change=checks_deleted),
    Submission("exercises-deleted", CELLS, "two exercises deleted", change=exercises_deleted, states=ANY,
               deserves={"log_softmax": 0.0, "sequence_logprob": 0.0}),
    Submission("answer-as-markdown", CELLS, "an answer cell turned into markdown", change=as_markdown, states=ANY,
               may_lose=("log_softmax",), deserves={"log_softmax": 4.0}),
    Submission("duplicate-checks", "duplicate ids", "a check cell five times more", solved=False, states=ANY,
               answers={"group_relative_advantage": solutions(CHAPTER_2)["group_relative_advantage"]},
               deserves={"group_relative_advantage": 5.0}, change=duplicate_checks),
    Submission("swapped-ids", "duplicate ids", "two answer cells under each other's marks", change=swapped_ids,
               states=ANY, may_lose=("log_softmax", "sequence_logprob")),
    Submission("skip-tags", "skip tags", "tags that make other tools skip a cell, on every cell", raw=changed(skipped),
               answers=nothing("log_softmax"), states=ANY),
    Submission("more-points", "metadata", "1,000 points for each cell", raw=changed(more_points),
               answers=nothing("log_softmax"), states=ANY),
    Submission("checks-replaced", "metadata", "check cells that read 5", raw=changed(checks_replaced), solved=False,
               states=ANY),
    Submission("own-exercises", "metadata", "exercises of its own, one named like a path", raw=changed(new_task),
               answers=nothing("log_softmax"), states=ANY),
    honest("odd-metadata", "metadata", "metadata of other types", raw=changed(metadata_of_other_types)),
    honest("other-kernel", "metadata", "a kernel and a language of its own", raw=changed(kernel_of_its_own)),
    honest("attachments", "metadata", "attachments and raw cells with paths", raw=changed(attachments)),
]  # fmt: skip
