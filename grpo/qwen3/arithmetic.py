r"""The task of the tiny model: sums of two numbers of 0 .. 99, made from nothing but arithmetic.

    python -m grpo.qwen3.arithmetic [FOLDER]     writes FOLDER (default data/arithmetic) anew

All 10,000 pairs are there once: 37+48 and 48+37 are two problems, but always of the same split, because the answer to
one gives away the other. A hash of the pair decides, so the splits are the same on every machine:

    train 8,080     cold start and GRPO
    validation 960  when to stop, which settings
    test 960        the figures that are reported, and nothing else
"""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SPLITS = ("train", "validation", "test")
LIMIT = 100
# Of the unordered pairs. The numbers of problems in the docstring follow from it and from the hash.
HELD_OUT_SHARE = 0.1
FOLDER = "data/arithmetic"


@dataclass(frozen=True)
class Problem:
    r"""One problem, and two ways of answering it.

    id: str, such as "37+48".
    prompt: str, `What is 37+48?` and a line feed.
    truth: str, "85".
    direct: str, `\boxed{85}`.
    reasoning: str, `<think>7+8+0=15,3+4+1=8</think>\boxed{85}`: units, then tens with the carry as third summand.
    """

    id: str
    prompt: str
    truth: str
    direct: str
    reasoning: str


def make_problem(a, b):
    """The problem a + b.

    Args:
        a, b: ints of 0 .. 99.

    Returns: Problem.

    Raises: ValueError if a number is outside 0 .. 99.
    """
    for name, value in (("a", a), ("b", b)):
        if not 0 <= value < LIMIT:
            raise ValueError(f"{name} is {value}: the task has sums of two numbers of 0 to {LIMIT - 1}")
    units = a % 10 + b % 10
    carry = units // 10
    tens = a // 10 + b // 10 + carry
    steps = f"{a % 10}+{b % 10}+0={units},{a // 10}+{b // 10}+{carry}={tens}"
    direct = rf"\boxed{{{a + b}}}"
    return Problem(f"{a}+{b}", f"What is {a}+{b}?\n", str(a + b), direct, f"<think>{steps}</think>{direct}")


@cache
def make_problems(split):
    """All problems of a split, ordered by the first number, then by the second.

    Args:
        split: "train", "validation" or "test".

    Returns: tuple of Problem.

    Raises: ValueError if there is no such split.
    """
    if split not in SPLITS:
        raise ValueError(f"split is {split!r}: choose one of {', '.join(SPLITS)}")
    return tuple(make_problem(a, b) for a in range(LIMIT) for b in range(LIMIT) if _split_of(a, b) == split)


def load_arithmetic(split, folder=None):
    """The problems of a split, from the files if a folder is given, else made on the spot (a test holds them equal).

    Args:
        split: "train", "validation" or "test".
        folder: where `write_arithmetic` put the files.

    Returns: list of Problem.

    Raises: ValueError if there is no such split, or if the file is missing or a line of it is no sum (it is named).
    """
    if folder is None or split not in SPLITS:
        return list(make_problems(split))
    path = Path(folder) / f"{split}.jsonl"
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ValueError(f"{path} cannot be read: make it with `python -m grpo.qwen3.arithmetic {folder}`") from error
    return [_read_line(line, path, number) for number, line in enumerate(lines, start=1)]


def write_arithmetic(folder=FOLDER):
    """Write the three splits and their checksums into a folder.

    Returns: list of the paths written.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    sums = ""
    for split in SPLITS:
        lines = "".join(
            json.dumps({"id": problem.id, "prompt": problem.prompt, "truth": problem.truth}) + "\n"
            for problem in make_problems(split)
        ).encode()
        (folder / f"{split}.jsonl").write_bytes(lines)
        sums += f"{hashlib.sha256(lines).hexdigest()}  {split}.jsonl\n"
    (folder / "SHA256SUMS").write_bytes(sums.encode())
    return [folder / name for name in (*(f"{split}.jsonl" for split in SPLITS), "SHA256SUMS")]


@cache
def _ranks():
    """Unordered pair -> its rank in (0, 1] when all pairs are sorted by their hash."""
    pairs = [(a, b) for a in range(LIMIT) for b in range(a, LIMIT)]
    pairs.sort(key=lambda pair: hashlib.sha256(f"{pair[0]}+{pair[1]}".encode()).hexdigest())
    return {pair: rank / len(pairs) for rank, pair in enumerate(pairs, start=1)}


def _split_of(a, b):
    rank = _ranks()[min(a, b), max(a, b)]
    if rank <= HELD_OUT_SHARE:
        return "test"
    return "validation" if rank <= 2 * HELD_OUT_SHARE else "train"


def _read_line(line, path, number):
    try:
        fields = json.loads(line)
        problem = make_problem(*map(int, fields["id"].split("+")))
        same = {name: getattr(problem, name) for name in ("id", "prompt", "truth")} == fields
    except (ValueError, TypeError, KeyError, AttributeError):
        same = False
    if not same:
        raise ValueError(f"{path}, line {number} is no sum of this task: make the file anew with `write_arithmetic`")
    return problem


if __name__ == "__main__":
    for path in write_arithmetic(*sys.argv[1:2]):
        print(f"wrote {path}")
