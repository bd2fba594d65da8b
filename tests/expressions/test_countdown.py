"""Countdown-lite: the prompts as shipped, and a network that generalises where a table cannot."""

import hashlib
import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from grpo.expressions import EXPRESSIONS, PREFIXES, Task, paired_difference
from grpo.expressions.countdown import countdown_settings, numeric_features, position_features, run_countdown
from grpo.expressions.countdown_data import SPLITS, countdown_prompts, read_prompts, write_prompts

FOLDER = Path(__file__).parents[2] / "data" / "countdown_lite"


def test_the_shipped_prompts_are_what_the_generator_makes(tmp_path):
    for path in write_prompts(tmp_path / "new"):
        assert path.read_bytes() == (FOLDER / path.name).read_bytes()
    digest, name = (FOLDER / "SHA256SUMS").read_text().split()
    assert hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() == digest
    assert read_prompts(FOLDER / name) == countdown_prompts()


def test_the_prompts_are_all_there_and_reachable_with_all_three_numbers():
    prompts = countdown_prompts()
    assert len(prompts) == 391 == len({prompt["id"] for prompt in prompts})
    keys = [(prompt["numbers"], prompt["target"]) for prompt in prompts]
    assert all(a < b for a, b in pairwise(keys)) and len({tuple(numbers) for numbers, _ in keys}) == 84
    task = Task([prompt["target"] for prompt in prompts], [prompt["numbers"] for prompt in prompts])
    full = np.array([len(expression) == 5 for expression in EXPRESSIONS])
    assert (task.correct & full).any(axis=1).all()
    reachable = {
        (tuple(row), value)
        for row, values in zip(task.numbers.tolist(), task.values[:, full].tolist(), strict=True)
        for value in values
    }
    assert reachable == {(tuple(numbers), target) for numbers, target in keys}


@pytest.mark.parametrize("split", SPLITS)
def test_the_splits_hold_out_a_fifth(split):
    held_out = [prompt[split] == "heldout" for prompt in countdown_prompts()]
    assert 0.18 < np.mean(held_out) < 0.22


def test_the_split_by_numbers_shares_no_triple():
    parts = {"train": set(), "heldout": set()}
    for prompt in countdown_prompts():
        parts[prompt["split_by_numbers"]].add(tuple(prompt["numbers"]))
    assert len(parts["heldout"]) == 17 and not parts["train"] & parts["heldout"]


def test_a_broken_file_is_named(tmp_path):
    file = tmp_path / "prompts.jsonl"
    for line in ("{", "[1]", json.dumps({"id": "1"})):
        file.write_text(json.dumps(countdown_prompts()[0]) + "\n" + line + "\n")
        with pytest.raises(ValueError, match="line 2 is no prompt"):
            read_prompts(file)


def test_features():
    features = position_features()
    assert features.shape == (70, 25) and len(np.unique(features, axis=0)) == 70
    np.testing.assert_array_equal(features.sum(axis=1), [len(prefix) for prefix in PREFIXES])
    fit_on = np.arange(20) < 10
    columns = numeric_features(np.arange(60).reshape(20, 3) + 1, np.arange(20) ** 2 + 1, fit_on)
    assert columns.shape == (20, 8)
    np.testing.assert_allclose(columns[fit_on].mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(columns[fit_on].std(axis=0), 1.0)


def test_numeric_inputs_generalise_and_one_hot_inputs_do_not():
    settings, calls = countdown_settings(steps=200), []
    numeric = run_countdown("numeric", range(4), settings, evaluate_every=100, on_step=calls.append)
    control = run_countdown("one-hot", range(4), settings, evaluate_every=100)
    assert numeric.steps.tolist() == [0, 100, 200] and len(calls) == 200
    assert control.train_greedy[-1].min() > 0.9
    assert numeric.heldout_greedy[-1].min() > 0.6 > 0.4 > control.heldout_greedy[-1].max()
    assert paired_difference(numeric.heldout_exact[-1], control.heldout_exact[-1]).verdict(0.2) == "higher"
    assert np.abs(numeric.train_exact[-1] - numeric.heldout_exact[-1]).max() < 0.15


def test_errors():
    with pytest.raises(ValueError, match="inputs is 'text': choose 'numeric' or 'one-hot'"):
        run_countdown("text")
    with pytest.raises(ValueError, match="split is 'random': choose 'split' or 'split_by_numbers'"):
        run_countdown(split="random")
    with pytest.raises(ValueError, match="seeds is empty"):
        run_countdown(seeds=())
