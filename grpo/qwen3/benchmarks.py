r"""Problems of a benchmark that the user has: a file, or the name of a data set on the Hugging Face hub.

No text of any benchmark is part of the course. Every row of such a file has a question and a known answer; the fields
are recognised by their names.
"""

from __future__ import annotations

import csv
import json
import math
import re
from pathlib import Path
from reprlib import repr as shown

from grpo.qwen3.problems import TextProblem, is_whole, json_lines
from grpo.rewards import extract_boxed_strict

QUESTIONS = ("problem", "question", "prompt")
# MATH has both a solution (a text that ends in a box) and an answer, so the latter comes first.
ANSWERS = ("answer", "truth", "final_answer", "expected_answer", "ground_truth", "solution")
KINDS = (".jsonl", ".json", ".csv", ".parquet")
SPLIT = "test"
_AFTER_HASHES = re.compile(r"####\s*(.+?)\s*$")
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")


class BenchmarkError(ValueError):
    """A benchmark cannot be had or read; one sentence says why and what to do."""


def load_benchmark(source, split=SPLIT):
    r"""Problems from a file or from the hub.

    Args:
        source: path of a .jsonl, .json, .csv or .parquet file, or a hub name such as "HuggingFaceH4/MATH-500".
        split: of a data set on the hub.

    Returns: list of TextProblem. An answer that is a whole solution is cut down to its last \boxed{...}, or to what
        stands behind its last ####.

    Raises: BenchmarkError that names the file and the row at fault, the fields that were found instead, the library
        that is missing, or the hub that does not answer.
    """
    try:
        path = Path(source).expanduser()
        is_file, is_folder = path.is_file(), path.is_dir()
    except (OSError, RuntimeError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise BenchmarkError(f"{str(source)[:60]!r} is no path of a file: {why}") from error
    if is_file:
        return read_benchmark(path)
    if is_folder:
        raise BenchmarkError(f"{source} is a folder: pass the file with the problems")
    if path.suffix in KINDS or not _HUB_NAME.fullmatch(str(source)):
        raise BenchmarkError(
            f"there is no file {source}: check the path, or pass a hub name such as HuggingFaceH4/MATH-500"
        )
    return read_benchmark(download(str(source), split))


def read_benchmark(path):
    """Problems from a file. Args, returns and errors: as in `load_benchmark`."""
    path = Path(path)
    readers = {".jsonl": _json_lines, ".json": _json, ".csv": _csv, ".parquet": _parquet}
    if path.suffix not in readers:
        raise BenchmarkError(f"{path}: a file of problems ends in {', '.join(KINDS)}")
    try:
        rows = readers[path.suffix](path)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise BenchmarkError(f"{path} cannot be read: {reason}") from error
    problems = [_problem(row, place) for place, row in rows]
    if not problems:
        raise BenchmarkError(f"{path} holds no problems")
    return problems


def download(name, split=SPLIT):
    """Path of the file of a split, fetched from the hub or found where an earlier call left it.

    Raises: BenchmarkError if huggingface_hub is missing, the hub does not answer and nothing was fetched earlier, there
        is no such data set, or none of its files is the split's.
    """
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise BenchmarkError(
            f"{name} is no file here, and data sets of the hub need huggingface_hub: pip install huggingface_hub, or "
            "pass a file"
        ) from error
    patterns = [f"*{split}*{kind}" for kind in KINDS]
    try:
        folder = Path(snapshot_download(name, repo_type="dataset", allow_patterns=patterns))
    except Exception as error:
        raise BenchmarkError(
            f"{name} is neither a file here nor to be had from the Hugging Face hub ({type(error).__name__}): "
            "check the name and the network, or pass a file with the problems"
        ) from error
    found = [path for kind in KINDS for path in sorted(folder.rglob(f"*{split}*{kind}"))]
    if not found:
        raise BenchmarkError(
            f"{name} has no file *{split}* of the kinds {', '.join(KINDS)}: pass another split or a file"
        )
    if len(found) > 1 and found[0].suffix == found[1].suffix:
        names = ", ".join(path.relative_to(folder).as_posix() for path in found[:4])
        raise BenchmarkError(f"{name} has several files of the split {split!r} ({names}): pass one of them as a file")
    return found[0]


def is_math_500(source, problems):
    """Whether this is MATH-500: 500 problems (or the beginning of them) from something of that name."""
    return "math500" in re.sub(r"[^a-z0-9]", "", str(source).lower()) and len(problems) <= 500


def final_answer(text):
    r"""What a solution comes to: its last \boxed{...}, what stands behind its last ####, or the text itself."""
    boxed = extract_boxed_strict(text)
    if boxed is not None and boxed.strip():
        return boxed.strip()
    after = _AFTER_HASHES.search(text)
    return after[1] if after else text.strip()


def _problem(row, place):
    if not isinstance(row, dict):
        raise BenchmarkError(f"{place} is {type(row).__name__}, not an object with fields")
    texts = []
    for names in (QUESTIONS, ANSWERS):
        name = next((name for name in names if row.get(name) is not None), None)
        if name is None:
            found = ", ".join(map(str, row)) or "none"
            raise BenchmarkError(f"{place}: none of the fields {', '.join(names)}; found: {found}")
        value = row[name]
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if number and names is ANSWERS and math.isfinite(value):
            value = str(value)
        if not isinstance(value, str) or not value.strip():
            raise BenchmarkError(f"{place}: {name} is {shown(value)}, not a text")
        if not is_whole(value):
            raise BenchmarkError(f"{place}: {name} holds half a character (a lone surrogate): mend it or take it out")
        texts.append(value)
    question, answer = texts
    return TextProblem(question, final_answer(answer))


def _json_lines(path):
    return [(f"{path}, line {number}", _parse(line, f"{path}, line {number}")) for number, line in json_lines(path)]


def _json(path):
    data = _parse(path.read_text(encoding="utf-8-sig"), path)
    if isinstance(data, dict):
        # {"test": [...]} or {"data": [...]}: the one list in it.
        lists = [value for value in data.values() if isinstance(value, list)]
        if len(lists) != 1:
            raise BenchmarkError(f"{path} is an object with the fields {', '.join(data) or '(none)'}: pass a list")
        data = lists[0]
    if not isinstance(data, list):
        raise BenchmarkError(f"{path} holds {type(data).__name__}: pass a list of objects")
    return [(f"{path}, entry {number}", row) for number, row in enumerate(data, 1)]


def _csv(path):
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = []
        try:
            for row in csv.DictReader(file, strict=True):
                rows.append((f"{path}, row {len(rows) + 1}", row))
        except csv.Error as error:
            raise BenchmarkError(
                f"{path}, row {len(rows) + 1} is not CSV ({error}): mend it, or pass the problems as .jsonl"
            ) from error
        return rows


def _parquet(path):
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as error:
        raise BenchmarkError(f"{path} needs pyarrow: pip install pyarrow, or pass it as .jsonl") from error
    try:
        rows = parquet.read_table(path).to_pylist()
    except ArrowException as error:
        raise BenchmarkError(f"{path} is no parquet file: {str(error).splitlines()[0]}") from error
    return [(f"{path}, row {number}", row) for number, row in enumerate(rows, 1)]


def _parse(text, place):
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BenchmarkError(f"{place} is not JSON: {error}") from error
