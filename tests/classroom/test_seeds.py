"""The inputs of the checks: what they are drawn from, and what does not count."""

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from grader.classroom.seeds import BESIDE, check_seed, content_digest

MARK = {"nbgrader": {"grade_id": "log_softmax"}}


def notebook(*cells, **metadata):
    return new_notebook(cells=list(cells), metadata=metadata)


def digest(*cells, **metadata):
    return content_digest(notebook(*cells, **metadata))


def test_texts_kinds_marks_order_and_files_count():
    one, two = new_code_cell("1"), new_markdown_cell("2")
    others = [
        digest(one, two), digest(two, one), digest(one), digest(one, new_markdown_cell("3")),
        digest(new_markdown_cell("1"), two), digest(new_code_cell("1", metadata=MARK), two),
        digest(one, two, **{BESIDE: {"a": "1"}}), digest(one, two, **{BESIDE: {"a": "2"}}),
    ]  # fmt: skip
    assert len(set(others)) == len(others)


def test_what_the_judge_takes_from_no_student_does_not_count():
    shown = new_code_cell("1", outputs=[new_output("stream", text="x")], execution_count=5, metadata={"tags": ["x"]})
    assert digest(shown, title="x") == digest(new_code_cell("1", id="another"))


def test_a_seed_depends_on_each_of_its_parts_and_on_where_one_ends():
    words = ("a", "b", "c", "d")
    changed = [tuple("x" if i == j else word for j, word in enumerate(words)) for i in range(4)]
    moved = [("ab", "", "c", "d"), ("a", "bc", "", "d"), ("a|b", "c", "d", ""), ("a", "b", "c", "")]
    assert len({check_seed(*one) for one in [words, *changed, *moved]}) == 9
    assert check_seed(*words) == check_seed(*words) and check_seed("a", "b", "c") == check_seed("a", "b", "c", "")


@pytest.mark.parametrize("bound", [2**24, 2**31])
def test_seeds_have_32_bits(bound):
    seeds = [check_seed("a", "b", str(number)) for number in range(50)]
    assert max(seeds) >= bound and all(0 <= seed < 2**32 for seed in seeds)
