"""The arithmetic task: the files as shipped, splits that share nothing, demonstrations that are right."""

import hashlib
import json
import re
from pathlib import Path

import pytest

from grpo.qwen3.arithmetic import SPLITS, load_arithmetic, make_problem, make_problems, write_arithmetic

FOLDER = Path(__file__).parents[2] / "data" / "arithmetic"


def test_the_shipped_files_are_what_the_generator_makes(tmp_path):
    written = write_arithmetic(tmp_path / "new")
    assert [path.name for path in written] == [*(f"{split}.jsonl" for split in SPLITS), "SHA256SUMS"]
    for path in written:
        assert path.read_bytes() == (FOLDER / path.name).read_bytes()
    for line in (FOLDER / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split("  ")
        assert hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() == digest


def test_files_and_generator_give_the_same_problems():
    for split in SPLITS:
        assert load_arithmetic(split) == load_arithmetic(split, FOLDER) == list(make_problems(split))


def test_all_pairs_are_there_once_and_the_splits_share_no_sum_in_either_order():
    pairs = {split: [tuple(map(int, problem.id.split("+"))) for problem in make_problems(split)] for split in SPLITS}
    together = sorted(pair for split in SPLITS for pair in pairs[split])
    assert together == [(a, b) for a in range(100) for b in range(100)]
    assert {split: len(pairs[split]) for split in SPLITS} == {"train": 8007, "validation": 993, "test": 1000}
    unordered = {split: {tuple(sorted(pair)) for pair in pairs[split]} for split in SPLITS}
    assert sum(map(len, unordered.values())) == len(set().union(*unordered.values())) == 5050
    for split in SPLITS:
        assert pairs[split] == sorted(pairs[split])


def test_the_splits_are_alike():
    for split in SPLITS:
        truths = [int(problem.truth) for problem in make_problems(split)]
        assert 96 < sum(truths) / len(truths) < 102


def test_demonstrations_are_right():
    problem = make_problem(37, 48)
    assert (problem.id, problem.prompt, problem.truth) == ("37+48", "What is 37+48?\n", "85")
    assert problem.direct == r"\boxed{85}"
    assert problem.reasoning == r"<think>7+8+0=15,3+4+1=8</think>\boxed{85}"
    assert make_problem(5, 0).reasoning == r"<think>5+0+0=5,0+0+0=0</think>\boxed{5}"
    for split in SPLITS:
        for problem in make_problems(split)[::7]:
            a, b = map(int, problem.id.split("+"))
            assert int(problem.truth) == a + b
            steps = re.findall(r"(\d)\+(\d)\+(\d)=(\d+)", problem.reasoning)
            assert len(steps) == 2
            assert all(int(x) + int(y) + int(carry) == int(total) for x, y, carry, total in steps)
            assert int(steps[0][3]) % 10 + 10 * int(steps[1][3]) == a + b and int(steps[0][3]) // 10 == int(steps[1][2])
            assert problem.reasoning.endswith(f"</think>{problem.direct}")


def test_the_checksum_file_names_exactly_the_data_files():
    names = [line.split()[1] for line in (FOLDER / "SHA256SUMS").read_text().splitlines()]
    assert sorted(names) == sorted(path.name for path in FOLDER.glob("*.jsonl"))


def test_errors_name_the_place(tmp_path):
    with pytest.raises(ValueError, match="b is 100"):
        make_problem(1, 100)
    with pytest.raises(ValueError, match="a is -1"):
        make_problem(-1, 1)
    for folder in (None, FOLDER):
        with pytest.raises(ValueError, match="'dev': choose one of train, validation, test"):
            load_arithmetic("dev", folder)
    with pytest.raises(ValueError, match=r"test\.jsonl cannot be read"):
        load_arithmetic("test", tmp_path)
    good = (FOLDER / "test.jsonl").read_text().splitlines()[0]
    wrong_sum = json.dumps(json.loads(good) | {"truth": "7777"})
    for line in ("{", "[]", '{"id": "a+b"}', '{"id": 3}', wrong_sum, json.dumps(json.loads(good) | {"more": 1})):
        (tmp_path / "test.jsonl").write_text(f"{good}\n{line}\n")
        with pytest.raises(ValueError, match="line 2 is no sum"):
            load_arithmetic("test", tmp_path)
