"""grpo.rollouts: groups are made by prompt id, never by position."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo import group_rollouts


def test_contiguous_groups():
    assert group_rollouts(["a", "a", "b", "b"], [1, 2, 3, 4], 2) == {"a": [1, 2], "b": [3, 4]}


def test_interleaved_ids_keep_both_orders():
    groups = group_rollouts(["b", "a", "b", "a"], ["b0", "a0", "b1", "a1"], 2)
    assert groups == {"b": ["b0", "b1"], "a": ["a0", "a1"]}
    assert list(groups) == ["b", "a"]


def test_equal_completions_are_all_kept():
    assert group_rollouts([7, 7, 7], ["x", "x", "x"], 3) == {7: ["x", "x", "x"]}


def test_groups_of_one_and_no_rollouts_at_all():
    assert group_rollouts(["a", "b"], ["x", "y"], 1) == {"a": ["x"], "b": ["y"]}
    assert group_rollouts([], [], 4) == {}


def test_array_ids_find_the_same_groups():
    assert group_rollouts(np.array([3, 5, 3, 5]), list("wxyz"), 2) == {3: ["w", "y"], 5: ["x", "z"]}


def test_lengths_that_differ():
    with pytest.raises(ValueError, match="prompt_ids: 3, completions: 2"):
        group_rollouts(["a", "a", "a"], ["x", "y"], 2)


@pytest.mark.parametrize(("ids", "size"), [(["a", "a", "b"], 2), (["a", "a", "a", "b"], 2), (["a"] * 4, 2)])
def test_groups_of_another_size(ids, size):
    with pytest.raises(ValueError, match=r"prompt '[ab]' has \d completions, expected 2: sample the missing"):
        group_rollouts(ids, ids, size)


@pytest.mark.parametrize("size", [0, -1, 2.0, True])
def test_group_size_must_be_a_whole_positive_number(size):
    with pytest.raises(ValueError, match="group_size"):
        group_rollouts(["a", "a"], ["x", "y"], size)


def test_an_id_that_cannot_be_hashed_is_named():
    with pytest.raises(ValueError, match=r"prompt_ids\[1\] is \[5\], which cannot be hashed: pass"):
        group_rollouts([5, [5]], ["x", "y"], 1)


@settings(derandomize=True, max_examples=25, deadline=None)
@given(st.permutations([prompt for prompt in "abc" for _ in range(3)]))
def test_any_order_of_the_rows_gives_the_rows_of_each_prompt(ids):
    groups = group_rollouts(ids, range(9), 3)
    assert groups == {prompt: [row for row in range(9) if ids[row] == prompt] for prompt in "abc"}
