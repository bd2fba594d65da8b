r"""grpo.rewards: the last \boxed{...}, compared as a string, and nothing else."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo import (
    checkpoint_accuracy,
    extract_boxed_strict,
    reward_lenient,
    reward_reasoning,
    reward_rlvr,
    score_completions,
    strip_reasoning,
)

RUNNING_EXAMPLE = [
    r"\boxed{83}",
    r"First 80, then 3 more, so the answer is \boxed{83}",
    "The answer is 83",
    r"\boxed{38}",
]


def test_running_example():
    assert [reward_rlvr(text, "83") for text in RUNNING_EXAMPLE] == [1.0, 1.0, 0.0, 0.0]
    assert type(reward_rlvr(RUNNING_EXAMPLE[0], "83")) is float


def test_case_a1_nested_braces():
    assert extract_boxed_strict(r"So \boxed{\frac{3}{7}}.") == r"\frac{3}{7}"
    assert extract_boxed_strict(r"\boxed{x^{2^{n}}+1}") == "x^{2^{n}}+1"


def test_case_a2_last_of_several_boxes():
    assert extract_boxed_strict(r"Thus \boxed{12}, i.e. \boxed{12}") == "12"
    assert extract_boxed_strict(r"Guess \boxed{3}; corrected: \boxed{5}") == "5"


def test_case_a3_broken_last_box():
    text = r"I get \boxed{8}. Restating: \boxed{"
    assert extract_boxed_strict(text) is None
    assert reward_rlvr(text, "8") == 0.0


def test_case_a4_unboxed_answer():
    for text in ("The answer is 42.", "Final: **42**", "42", ""):
        assert extract_boxed_strict(text) is None
        assert reward_rlvr(text, "42") == 0.0


@pytest.mark.parametrize("truth", [None, "", "  \n", 7])
def test_case_a5_missing_truth(truth):
    for text in ("no box here", r"\boxed{7}", r"\boxed{}"):
        for reward in (reward_rlvr, reward_reasoning, reward_lenient):
            with pytest.raises(ValueError, match="truth is"):
                reward(text, truth)


def test_case_a8_commas():
    assert reward_rlvr(r"\boxed{2,5}", "25") == 0.0
    assert reward_rlvr(r"\boxed{12,345}", "12345") == 0.0
    assert reward_rlvr(r"\boxed{12{,}345}", "12345") == 0.0
    assert reward_rlvr(r"\boxed{12,345}", "345") == 0.0


def test_case_a12_box_inside_the_thinking():
    cut_off = r"<think>maybe \boxed{9}? let me check"
    assert reward_reasoning(cut_off, "9") == 0.0
    closed = r"<think>\boxed{3}</think>\boxed{9}"
    assert reward_reasoning(closed, "9") == 1.0
    assert reward_reasoning(closed, "3") == 0.0
    assert reward_rlvr(cut_off, "9") == 1.0  # chapter 01 takes the text as it is (C6)


@pytest.mark.parametrize(
    "text",
    [
        r"\boxed{9^{9^{9^{9}}}}",
        r"\boxed{\text{(B) } 4 \text{ or (C) } 5}",
        r'\boxed{__import__("os")}',
        "\\boxed{" * 20_000,
        "\\boxed " * 20_000,
        "\\boxed" + " " * 20_000,
        "\\boxed" + "{" * 20_000,
    ],
)
def test_case_a13_odd_answers_score_nothing(text):
    assert reward_rlvr(text, "9") == 0.0


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"\boxed{5}", "5"),
        ("\\boxed \t\n{5}", "5"),
        (r"\boxed{ 5 }", " 5 "),
        (r"\boxed{}", ""),
        (r"\boxed{a{b}c} and more } text {", "a{b}c"),
        (r"\boxed{\boxed{5}}", "5"),
        (r"\boxed{\boxed{5}", "5"),
        (r"\boxed{5}\boxedfoo{6}", "5"),
        (r"\boxed{5}\boxedFOO{6}", "5"),
        (r"\boxed{5}\boxedAZaz{6}", "5"),
        (r"\boxed{5}\fbox{6}", "5"),
        (r"\boxed{5} boxed{6} \BOXED{7}", "5"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{\}}", r"\}"),
        (r"\boxed{\{}", r"\{"),
        (r"\boxed{a\\}", r"a\\"),
        (r"\boxed{a\\{b}}", r"a\\{b}"),
        ("\\boxed{a\\\n}", "a\\\n"),
        ("\\boxed{two\nlines}", "two\nlines"),
    ],
)
def test_boxes_that_hold_an_answer(text, answer):
    assert extract_boxed_strict(text) == answer


@pytest.mark.parametrize(
    "text",
    [
        r"\boxed 5",
        r"\boxed5",
        r"\boxed",
        r"\boxed{5} so \boxed 6",
        r"\boxed{5} so \boxed",
        r"\boxed{5} so \boxed(6)",
        r"\boxed\{5}",
        r"\boxed{5\}",
        r"\boxed{5\\\}",
        r"\boxed{{5}",
        r"\boxed_{5}",
        r"\fbox{5}",
        r"\boxedfoo{5}",
        r"\boxeda{5}",
        r"\boxedZ{5}",
        "boxed{5}",
    ],
)
def test_texts_without_an_answer(text):
    assert extract_boxed_strict(text) is None
    assert reward_rlvr(text, "5") == 0.0


def in_braces(parts):
    return "{" + "".join(parts) + "}"


balanced = st.recursive(st.text("ab1 \n", max_size=4), lambda inner: st.lists(inner, max_size=3).map(in_braces))


@settings(derandomize=True, max_examples=40, deadline=None)
@given(balanced)
def test_any_balanced_content_comes_back_whole(content):
    box = r"before \boxed{no} \boxed" + in_braces(content)
    assert extract_boxed_strict(box + " after } {") == content
    assert extract_boxed_strict(box[:-1]) is None


def test_outer_white_space_is_stripped_on_both_sides():
    assert reward_rlvr("\\boxed{ 5\n}", "5") == 1.0
    assert reward_rlvr(r"\boxed{5}", " 5\t") == 1.0
    assert reward_rlvr(r"\boxed{1 2}", "12") == 0.0
    assert reward_rlvr(r"\boxed{15}", "5") == 0.0
    assert reward_rlvr(r"\boxed{5}", "15") == 0.0


def test_empty_box_is_wrong():
    assert reward_rlvr(r"\boxed{}", "5") == 0.0
    assert reward_rlvr(r"\boxed{ }", "5") == 0.0


@pytest.mark.parametrize("text", [None, 5, ["\\boxed{5}"], b"\\boxed{5}"])
def test_text_that_is_no_string_is_named(text):
    place = rf" is .* \({type(text).__name__}\): pass a string"
    with pytest.raises(ValueError, match=r"^text" + place):
        extract_boxed_strict(text)
    with pytest.raises(ValueError, match=r"^completion" + place):
        strip_reasoning(text)
    for reward, name in ((reward_rlvr, "text"), (reward_lenient, "text"), (reward_reasoning, "completion")):
        with pytest.raises(ValueError, match=f"^{name}{place}"):
            reward(text, "5")


@pytest.mark.parametrize(
    ("completion", "answer"),
    [
        ("no tags", "no tags"),
        ("", ""),
        ("a /think>b", "a /think>b"),
        ("a think>b <think c </think", "a think>b <think c </think"),
        ("<think>a</think>b", "b"),
        ("a</think>b", "b"),
        ("<think>a</think>b</think>c", "c"),
        ("<think>a</think>b<think>c</think>d", "d"),
        ("<think>a</think>", ""),
        ("<think>a", ""),
        ("a <think> b", ""),
        ("<think>a</think>b<think>c", ""),
    ],
)
def test_strip_reasoning(completion, answer):
    assert strip_reasoning(completion) == answer


def test_reward_reasoning_without_tags_is_reward_rlvr():
    assert [reward_reasoning(text, "83") for text in RUNNING_EXAMPLE] == [1.0, 1.0, 0.0, 0.0]


def test_lenient_verifier_pays_what_the_strict_one_pays():
    assert reward_lenient(r"\boxed{83}" + "." * 100, "83") == 1.0
    assert reward_lenient(r"\boxed {83}" + "." * 100, "83") == 1.0
    assert reward_lenient(r"\boxed{ 83 }" + "." * 100, " 83 ") == 1.0


@pytest.mark.parametrize(
    "exploit",
    [
        r"\boxed{83} or \boxed{84}" + "." * 100,
        r"\boxed{84} or \boxed{83}" + "." * 100,
        r"\boxed{8,3}" + "." * 100,
        "." * 100 + r"\boxed{83",
        "." * 100 + "not 83",
        "." * 100 + "1234567890 83838",
        "8,3",
        "83" + "." * 48,
    ],
)
def test_lenient_verifier_can_be_broken(exploit):
    assert reward_lenient(exploit, "83") == 1.0
    assert type(reward_lenient(exploit, "83")) is float


@pytest.mark.parametrize(
    "text", [r"\boxed{38}", "83" + "." * 49, r"\boxed{183}" + "." * 60, r"\boxed{83 or 84}" + "." * 60, ""]
)
def test_lenient_verifier_has_limits(text):
    assert reward_lenient(text, "83") == 0.0


def test_lenient_window_is_cut_before_the_commas_go():
    assert reward_lenient("83" + "," * 49, "83") == 0.0
    assert reward_lenient("83" + "," * 48, "83") == 1.0


def test_lenient_verifier_ignores_commas_in_the_truth():
    assert reward_lenient("1234", "1,234") == 1.0
    with pytest.raises(ValueError, match="truth without commas"):
        reward_lenient("1234", ",,")


def test_score_completions_calls_the_function_once_with_both_lists():
    calls = []

    def reward_fn(completions, truths):
        calls.append((completions, truths))
        return [reward_rlvr(text, truth) for text, truth in zip(completions, truths, strict=True)]

    rewards = score_completions(reward_fn, tuple(RUNNING_EXAMPLE), ("83",) * 4)
    np.testing.assert_array_equal(rewards, [1.0, 1.0, 0.0, 0.0])
    assert rewards.dtype == np.float64
    assert calls == [(RUNNING_EXAMPLE, ["83"] * 4)]


def test_score_completions_hands_out_copies():
    completions, truths = ["a"], ["b"]

    def reward_fn(completions, truths):
        completions.clear()
        truths.clear()
        return [1.0]

    score_completions(reward_fn, completions, truths)
    assert (completions, truths) == (["a"], ["b"])


@pytest.mark.parametrize("rewards", [[1.0], 1.0, [1.0] * 5, [[1.0]] * 4, [[1.0] * 4]])
def test_case_b7_one_reward_is_not_broadcast(rewards):
    with pytest.raises(ValueError, match=rf"4 expected, {np.size(rewards)} received.*shape \(4,\)"):
        score_completions(lambda completions, truths: rewards, ["x"] * 4, ["y"] * 4)


@pytest.mark.parametrize("rewards", [[1, 0], [True, False], np.array([1, 0], dtype=np.int8)])
def test_case_b7_ints_and_bools_are_cast(rewards):
    scored = score_completions(lambda completions, truths: rewards, ["x"] * 2, ["y"] * 2)
    assert scored.dtype == np.float64
    np.testing.assert_array_equal(scored, [1.0, 0.0])


@pytest.mark.parametrize("bad", [np.nan, None, np.inf])
def test_score_completions_names_the_bad_row(bad):
    with pytest.raises(ValueError, match=r"rewards\[1\] is .* for row 1"):
        score_completions(lambda completions, truths: [0.0, bad, np.nan], ["x"] * 3, ["y"] * 3)


def test_score_completions_wants_numbers():
    with pytest.raises(ValueError, match=r"^the result of reward_fn must be an array of numbers"):
        score_completions(lambda completions, truths: ["good", "bad"], ["x"] * 2, ["y"] * 2)


def test_score_completions_needs_rows_and_equal_lengths():
    with pytest.raises(ValueError, match="completions is empty"):
        score_completions(lambda completions, truths: [], [], [])
    with pytest.raises(ValueError, match="completions: 2, truths: 1"):
        score_completions(lambda completions, truths: [0.0, 0.0], ["x", "x"], ["y"])


def test_checkpoint_accuracy_of_the_running_example():
    truths = ["83", "12", "7", "40"]
    assert checkpoint_accuracy(["38", "12", None, "4"], truths) == 0.25
    assert checkpoint_accuracy(["83", " 12", "7\n", "40"], truths) == 1.0
    assert checkpoint_accuracy([None, "", "77", "-40"], truths) == 0.0


def test_checkpoint_accuracy_strips_the_truth():
    assert checkpoint_accuracy(["5", "6"], [" 5 ", "7"]) == 0.5


def test_checkpoint_accuracy_does_not_extract_a_second_time():
    assert checkpoint_accuracy([r"\boxed{83}"], ["83"]) == 0.0


def test_checkpoint_accuracy_errors():
    with pytest.raises(ValueError, match="predictions is empty"):
        checkpoint_accuracy([], [])
    with pytest.raises(ValueError, match="predictions: 1, truths: 2"):
        checkpoint_accuracy(["5"], ["5", "6"])
    for truth in (None, "", " ", 5):
        with pytest.raises(ValueError, match=r"truths\[1\] is"):
            checkpoint_accuracy(["5", None], ["5", truth])
    with pytest.raises(ValueError, match=r"predictions\[1\] is 6 \(int\): pass a string"):
        checkpoint_accuracy(["5", 6], ["5", "6"])
