"""Countdown-lite: the prompts of the generalisation experiment, made from nothing but arithmetic.

    python -m grpo.expressions.countdown_data [FOLDER]     writes FOLDER (default data/countdown_lite) anew

Three different numbers of 1 .. 9, and every target that an expression of all three with + and * reaches: 391 prompts.
Both splits are decided by a hash of the prompt, so they are the same on every machine and with every numpy.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import sys
from pathlib import Path

from grpo.expressions.game import EXPRESSIONS, evaluate
from grpo.expressions.task import spell

HELD_OUT_SHARE = 0.2
SPLITS = ("split", "split_by_numbers")
FILE = "prompts.jsonl"


def countdown_prompts():
    """All prompts, ordered by numbers and target.

    Returns: list of 391 dicts:
        id: str, such as "2-3-5=17".
        numbers: three increasing integers of 1 .. 9.
        target: int, the value of at least one expression with all three numbers.
        split: "train" or "heldout", 20 % of the prompts, drawn prompt by prompt. The numbers of a held-out prompt may
            appear in training with another target.
        split_by_numbers: the same, but drawn by the three numbers: no held-out triple appears in training.
    """
    full = [expression for expression in EXPRESSIONS if len(expression) == 5]
    prompts = []
    for numbers in itertools.combinations(range(1, 10), 3):
        names = tuple(map(str, numbers))
        for target in sorted({evaluate(spell(expression, numbers), names) for expression in full}):
            prompts.append({"id": f"{'-'.join(names)}={target}", "numbers": list(numbers), "target": target})
    held_out = _lowest([prompt["id"] for prompt in prompts])
    held_out_numbers = _lowest([tuple(prompt["numbers"]) for prompt in prompts])
    for prompt in prompts:
        prompt["split"] = "heldout" if prompt["id"] in held_out else "train"
        prompt["split_by_numbers"] = "heldout" if tuple(prompt["numbers"]) in held_out_numbers else "train"
    return prompts


def read_prompts(path):
    """Prompts from a file that `write_prompts` made.

    Raises: ValueError if a line is not a prompt (the line is named).
    """
    prompts = []
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), start=1):
        try:
            prompt = json.loads(line)
            complete = {"id", "numbers", "target", *SPLITS} <= prompt.keys()
        except (ValueError, AttributeError):
            complete = False
        if not complete:
            raise ValueError(f"{path}, line {number} is no prompt: make the file anew with `write_prompts`")
        prompts.append(prompt)
    return prompts


def write_prompts(folder):
    """Write the prompts and their checksum into a folder.

    Returns: list of the paths written.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(prompt, separators=(", ", ": ")) + "\n" for prompt in countdown_prompts())
    (folder / FILE).write_bytes(lines.encode())
    (folder / "SHA256SUMS").write_bytes(f"{hashlib.sha256(lines.encode()).hexdigest()}  {FILE}\n".encode())
    return [folder / FILE, folder / "SHA256SUMS"]


def _lowest(keys):
    """The held-out share of the distinct keys: those with the lowest hashes."""
    ordered = sorted(set(keys), key=lambda key: hashlib.sha256(repr(key).encode()).hexdigest())
    return set(ordered[: round(HELD_OUT_SHARE * len(ordered))])


if __name__ == "__main__":
    for path in write_prompts(sys.argv[1] if len(sys.argv) > 1 else "data/countdown_lite"):
        print(f"wrote {path}")
