r"""Chapter 01: what students write and what a check says of it, with the inputs that broke other systems."""

import re

import numpy as np
import pytest

import grpo
from grader import check
from grader.exercises import chapter_01
from grader.exercises.chapter_01 import fool_lenient_verifier as fool
from grader.exercises.chapter_01.fool_lenient_verifier import weakness_used

SEEDS = (0, 7)


def states(report):
    return [part.passed for part in report.parts]


# --- group_rollouts: rows of two prompts that alternate (case B1) -------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_a_numpy_reshape_is_named_and_keeps_the_point_for_the_order(seed):
    def group_rollouts(prompt_ids, completions, group_size):
        if len(prompt_ids) != len(completions) or group_size < 1:
            raise ValueError
        if any(prompt_ids.count(p) != group_size for p in prompt_ids):
            raise ValueError
        chunks = np.array(completions).reshape(-1, group_size)
        return dict(zip(np.unique(prompt_ids).tolist(), chunks.tolist(), strict=True))

    report = check(group_rollouts, seed=seed)
    assert (report.points, report.max_points) == (3, 5)
    assert report.mistake == "reshape without looking at ids"


def test_right_groups_without_any_check_earn_3_of_5_and_hear_two_reasons():
    def group_rollouts(prompt_ids, completions, group_size):
        groups = {}
        for p, c in zip(prompt_ids, completions, strict=False):
            groups.setdefault(p, []).append(c)
        return groups

    report = check(group_rollouts, seed=1)
    assert states(report) == [True, True, False, False]
    assert [part.mistake for part in report.parts[2:]] == ["misalignment accepted", "any group size accepted"]


def grouped(prompt_ids, completions):
    groups = {}
    for p, c in zip(prompt_ids, completions, strict=False):
        groups.setdefault(p, []).append(c)
    return groups


def first_g(ids, completions, size):
    return {p: group[:size] for p, group in grouped(ids, completions).items()}


def chunks_of_sorted_rows(ids, completions, size):
    rows = sorted(range(len(ids)), key=ids.__getitem__)
    chunks = [rows[i : i + size] for i in range(0, len(rows), size)]
    return {ids[chunk[0]]: [completions[row] for row in chunk] for chunk in chunks}


@pytest.mark.parametrize(
    ("answer", "passed", "mistake"),
    [
        (chunks_of_sorted_rows, [True, True, True, False], "sorted and cut into chunks"),
        (first_g, [True, True, True, False], "any group size accepted"),
        (
            lambda ids, texts, size: {str(p): g for p, g in grouped(ids, texts).items()},
            [False, False, True, False],
            "ids turned into texts",
        ),
        (
            lambda ids, texts, size: list(grouped(ids, texts).values()),
            [False, False, True, False],
            "list instead of a dict",
        ),
        (lambda ids, texts, size: {ids[0]: texts[:1]}, [False, False, True, False], "return inside the loop"),
    ],
)
def test_forms_of_a_group_and_forgotten_sizes_are_told_apart(answer, passed, mistake):
    def group_rollouts(prompt_ids, completions, group_size):
        if len(prompt_ids) != len(completions):
            raise ValueError
        return answer(prompt_ids, completions, group_size)

    report = check(group_rollouts, seed=2)
    assert (states(report), report.mistake) == (passed, mistake)


def test_an_error_that_is_returned_is_named():
    def group_rollouts(prompt_ids, completions, group_size):
        groups = grouped(prompt_ids, completions)
        if len(prompt_ids) != len(completions) or group_size < 1 or any(len(g) != group_size for g in groups.values()):
            return ValueError("no groups")
        return groups

    report = check(group_rollouts, seed=2)
    assert (report.points, report.mistake) == (3, "error returned, not raised")


# --- extract_boxed_strict ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("pattern", [r"\\boxed\{(.*?)\}", r"\\boxed\{([^}]*)\}"])
def test_the_usual_patterns_lose_what_they_cannot_do_and_hear_why(pattern, seed):
    def extract_boxed_strict(text):
        found = re.findall(pattern, text)
        return found[-1] if found else None

    report = check(extract_boxed_strict, seed=seed)
    assert states(report) == [True, False, True, False, False]
    assert [part.mistake for part in report.parts if not part.passed] == [
        "stops at the first }",
        "earlier box when the last is broken",
        r"\boxed{ searched as one piece",
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_greedy_pattern_without_white_space_is_recognised(seed):
    def extract_boxed_strict(text):
        found = re.search(r"\\boxed\{(.*)\}", text)
        return found.group(1) if found else None

    report = check(extract_boxed_strict, seed=seed)
    assert report.points == 1
    assert report.parts[2].mistake == "greedy pattern"


def test_a_nested_pattern_of_fixed_depth_earns_all_but_the_deep_braces():
    def extract_boxed_strict(text):
        last = [m.start() for m in re.finditer(r"\\boxed(?![A-Za-z])", text)][-1:]
        found = re.match(r"\\boxed\s*\{((?:[^{}]|\{[^{}]*\})*)\}", text[last[0] :]) if last else None
        return found and found.group(1)

    report = check(extract_boxed_strict, seed=3)
    assert (report.points, report.state) == (4, "partly right")
    assert states(report) == [True, False, True, True, True]


@pytest.mark.parametrize("pattern", ["\boxed{", r"\Boxed{"])
def test_a_search_text_that_never_occurs_is_explained_by_the_backspace(pattern):
    def extract_boxed_strict(text):
        start = text.rfind(pattern)
        return text[start + len(pattern) : text.find("}", start)] if start >= 0 else None

    report = check(extract_boxed_strict, seed=0)
    assert (report.points, report.mistake) == (0, r"\b is a backspace, or no return")
    assert "backspace" in str(report)


def extract_by_rfind(text, command, result):
    start = text.rfind(command)
    rest = text[start + len(command) :].lstrip() if start >= 0 else ""
    depth = 0
    for i, character in enumerate(rest):
        depth += (character == "{") - (character == "}")
        if depth == 0:
            return result(rest, i) if i else None
    return None


@pytest.mark.parametrize(
    ("command", "result", "mistakes"),
    [
        (r"\boxed", lambda rest, i: rest[1:i], ["", "", "another command hides the box", "", ""]),
        (
            r"\boxed",
            lambda rest, i: rest[1:i] or None,
            ["empty box taken for no answer", "", "another command hides the box", "", ""],
        ),
        (
            r"\boxed",
            lambda rest, i: rest[1:i].strip(),
            ["", "", "another command hides the box", "", "content stripped"],
        ),
        (
            "boxed",
            lambda rest, i: rest[1:i],
            ["", "", "another command hides the box", "", "searched without the backslash"],
        ),
    ],
)
def test_what_earned_full_points_once_is_caught(command, result, mistakes):
    report = check(lambda text: extract_by_rfind(text, command, result), exercise="extract_boxed_strict", seed=4)
    assert [part.mistake for part in report.parts] == mistakes


@pytest.mark.parametrize(
    ("cut", "mistake"),
    [
        (lambda answer: "{" + answer, "opening brace returned along"),
        (lambda answer: answer + "}", "closing brace returned along"),
        (lambda answer: answer[:-1], "last character lost"),
    ],
)
def test_off_by_one_is_named(cut, mistake):
    def extract_boxed_strict(text):
        answer = grpo.extract_boxed_strict(text)
        return None if answer is None else cut(answer)

    assert check(extract_boxed_strict, seed=0).mistake == mistake


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"So \boxed{\frac{3}{7}}.", r"\frac{3}{7}"),
        (r"\boxed{x^{2^{n}}+1}", "x^{2^{n}}+1"),
        (r"Thus \boxed{12}, i.e. \boxed{12}", "12"),
        (r"Guess \boxed{3}; corrected: \boxed{5}", "5"),
        (r"I get \boxed{8}. Restating: \boxed{", None),
        ("Final: **42**", None),
    ],
)
def test_each_public_fault_of_extraction_is_among_the_inputs(text, answer):
    rng = np.random.default_rng(0)
    parts = chapter_01.EXTRACT_BOXED_STRICT.parts
    assert text in [one.args[0] for part in parts for one in part.calls(rng)]
    assert grpo.extract_boxed_strict(text) == answer


# --- reward_rlvr -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_equality_without_strip_or_checks_is_named_part_by_part(seed):
    def reward_rlvr(text, truth):
        return 1.0 if grpo.extract_boxed_strict(text) == truth else 0.0

    report = check(reward_rlvr, seed=seed)
    assert states(report) == [True, False, True, True, False]
    assert report.parts[1].mistake == "no strip"
    assert report.parts[4].mistake == "no truth, no error"


@pytest.mark.parametrize("seed", SEEDS)
def test_commas_deleted_from_the_whole_text_are_named(seed):
    def reward_rlvr(text, truth):
        return grpo.reward_rlvr(text.replace(",", ""), truth.replace(",", "") if truth else truth)

    report = check(reward_rlvr, seed=seed)
    assert (report.points, report.mistake) == (4, "commas deleted")


@pytest.mark.parametrize("seed", SEEDS)
def test_float_without_a_net_loses_the_odd_answers(seed):
    def reward_rlvr(text, truth):
        answer = grpo.extract_boxed_strict(text)
        if not truth or not truth.strip():
            raise ValueError
        return float(answer is not None and float(answer) == float(truth))

    report = check(reward_rlvr, seed=seed)
    assert states(report) == [True, True, False, False, True]
    assert report.mistake == "crash on an answer that is no number"


@pytest.mark.parametrize(
    ("compare", "mistakes"),
    [
        (lambda a, t: a.strip(" {}$.") == t.strip(), ["", "", *["signs stripped off the answer"] * 2, ""]),
        (lambda a, t: a.replace(" ", "") == t.replace(" ", ""), ["", *["blanks deleted, line ends kept"] * 2, "", ""]),
        (lambda a, t: eval(a) == eval(t), ["", "", *["expression evaluated, with a crash"] * 2, ""]),
    ],
)
def test_sentences_about_a_comparison_are_true_for_it(compare, mistakes):
    def reward_rlvr(text, truth):
        if not truth or not truth.strip():
            raise ValueError
        answer = grpo.extract_boxed_strict(text)
        return float(answer is not None and compare(answer, truth))

    assert [part.mistake for part in check(reward_rlvr, seed=5).parts] == mistakes


def test_a_box_made_from_the_truth_a_blank_truth_and_a_missing_return_are_named():
    def anywhere(text, truth):
        if not truth or not truth.strip():
            raise ValueError
        return 1.0 if r"\boxed{" + truth + "}" in text else 0.0

    def no_return(text, truth):
        if grpo.reward_rlvr(text, truth) == 1.0:
            return 1.0

    def blank(text, truth):
        if not truth:
            raise ValueError
        return grpo.reward_rlvr(text, truth) if truth.strip() else 0.0

    def name(fn):
        return check(fn, exercise="reward_rlvr", seed=1).mistake

    assert name(anywhere) == "truth searched in any box"
    assert name(no_return) == "nothing returned for a wrong answer"
    assert name(blank) == "blank truth accepted"
    assert name(lambda text, truth: grpo.reward_rlvr(truth, text)) == "text and truth swapped"


def test_the_lenient_verifier_is_no_solution():
    report = check(grpo.reward_lenient, exercise="reward_rlvr", seed=0)
    assert states(report) == [False, True, False, False, True]  # it strips, and it wants a truth


def test_ints_and_truth_values_are_as_good_as_floats():
    def reward_rlvr(text, truth):
        return int(grpo.reward_rlvr(text, truth))

    assert check(reward_rlvr, seed=0).state == "right"
    assert check(lambda text, truth: bool(grpo.reward_rlvr(text, truth)), "reward_rlvr", 0).state == "right"


# --- fool_lenient_verifier ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("completion", "weakness"),
    [
        (r"\boxed{8,3}", fool.COMMAS),
        (r"It is 8,3", fool.COMMAS),
        (r"\boxed{83} or \boxed{84}", fool.EARLIER_BOX),
        (r"\boxed{83}, then \boxed{", fool.EARLIER_BOX),
        (r"I get \boxed{83", fool.OPEN_BOX),
        (r"\boxed{183}", fool.LONGER),
        (r"\boxed{83.0}", fool.LONGER),
        ("x83y", fool.LONGER),
        (r"\boxed{-83}", fool.LONGER),
        (r"\boxed{82 or 83}", fool.MORE_IN_BOX),
        (r"\boxed{x = 83}", fool.MORE_IN_BOX),
        ("It is not 83.", fool.NEAR_THE_END),
        (r"\boxed{0} but really 83", fool.NEAR_THE_END),
        ("81 82 83 84", fool.NEAR_THE_END),
        (r"\boxed{83}", ""),
        (r"\boxed{38}", ""),
        ("83" + " and so on" * 6, ""),
        ("", ""),
    ],
)
def test_each_trick_is_put_into_one_class(completion, weakness):
    assert weakness_used(completion, "83") == weakness


def test_an_honest_answer_is_recognised_and_said_so():
    def fool_lenient_verifier(truth):
        return [rf"\boxed{{{truth}}}", rf"The answer is \boxed{{{truth}}}", rf"\boxed{{ {truth} }}"]

    report = check(fool_lenient_verifier, seed=0)
    assert (report.points, report.mistake) == (1, "an honest answer")
    assert "simply right" in str(report)


def test_unpaid_texts_earn_nothing():
    report = check(lambda truth: ["a", "b", "c"], exercise="fool_lenient_verifier", seed=0)
    assert (report.points, report.state) == (0, "wrong")


def test_the_given_example_three_times_earns_nothing():
    report = check(lambda truth: [f"It is certainly not {truth}."] * 3, exercise="fool_lenient_verifier", seed=0)
    assert (report.points, report.mistake) == (0, "one text, more than once")


def test_advice_is_about_the_completion_that_is_shown():
    def two_reasons(truth):
        return [rf"\boxed{{{truth}}}", f"not {truth}", r"\boxed{7}"]

    def crowded_box(truth):
        return [
            f"not {truth}",
            f"1{truth}",
            rf"\boxed{{{truth}, if none of the many steps that lead here is wrong at all}}",
        ]

    report = check(two_reasons, exercise="fool_lenient_verifier", seed=0)
    assert report.mistake == "" and "completion 3" in str(report) and "simply right" not in str(report)
    assert check(crowded_box, exercise="fool_lenient_verifier", seed=0).mistake == "truth in a crowded box"


def test_forgotten_raw_string_is_named():
    def fool_lenient_verifier(truth):
        return ["\boxed{" + truth + "} or \boxed{1}", f"not {truth}", f"1{truth}"]

    assert check(fool_lenient_verifier, seed=0).mistake == r"\b is a backspace"


@pytest.mark.parametrize("answer", [None, "83", ["x"] * 4, [1, 2, 3], {"a": 1}, ["x", None, "y"]])
def test_whatever_comes_back_is_answered_with_a_report(answer):
    assert check(lambda truth: answer, exercise="fool_lenient_verifier", seed=0).points == 0


def test_naming_a_repeated_trick_gives_no_other_trick_away():
    def fool_lenient_verifier(truth):
        return [f"not {truth}", f"never {truth}", f"1{truth}"]

    report = check(fool_lenient_verifier, seed=0)
    text = re.sub(r"\s+", " ", str(report))
    assert (report.points, report.mistake) == (3, "one trick, twice")
    assert fool.NEAR_THE_END in text
    others = (fool.COMMAS, fool.EARLIER_BOX, fool.OPEN_BOX, fool.MORE_IN_BOX)
    assert not any(weakness in text for weakness in others)


# --- checkpoint_accuracy: nothing on both sides is no match (case A5) ----------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_one_line_accuracy_earns_the_share_and_hears_the_rest(seed):
    def checkpoint_accuracy(predictions, truths):
        return sum(p == t for p, t in zip(predictions, truths, strict=False)) / len(predictions)

    report = check(checkpoint_accuracy, seed=seed)
    assert states(report) == [True, False, False, False]
    assert [part.mistake for part in report.parts[1:]] == ["no strip", "input not checked", "input not checked"]


@pytest.mark.parametrize(
    ("is_right", "mistake"),
    [
        (lambda i, p, t: p is not None and t in p, "truth inside the answer"),
        (lambda i, p, t: i > 0 and p == t, "first problem skipped"),
    ],
)
def test_loose_or_skipped_comparisons_are_named(is_right, mistake):
    def checkpoint_accuracy(predictions, truths):
        grpo.checkpoint_accuracy(predictions, truths)
        rows = [(p and p.strip(), t.strip()) for p, t in zip(predictions, truths, strict=True)]
        return sum(is_right(i, p, t) for i, (p, t) in enumerate(rows)) / len(rows)

    assert check(checkpoint_accuracy, seed=0).mistake == mistake


def test_a_try_around_everything_is_named():
    def checkpoint_accuracy(predictions, truths):
        try:
            return sum(p.strip() == t.strip() for p, t in zip(predictions, truths, strict=False)) / len(truths)
        except (AttributeError, ZeroDivisionError):
            return 0.0

    assert check(checkpoint_accuracy, seed=0).mistake == "any error becomes 0.0"


def test_nan_for_no_problems_is_no_error():
    def checkpoint_accuracy(predictions, truths):
        return grpo.checkpoint_accuracy(predictions, truths) if predictions or truths else float("nan")

    report = check(checkpoint_accuracy, seed=0)
    assert (report.points, report.mistake) == (4, "no problems give 0")


# --- all of them ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exercise", chapter_01.EXERCISES, ids=lambda exercise: exercise.name)
def test_no_sentence_holds_a_solution(exercise):
    """What a student reads names functions at most; it holds no statement that could be pasted."""
    sentences = [m.says for m in exercise.mistakes] + [p.hint for p in exercise.parts] + [exercise.hint]
    assert all(sentences)
    for sentence in sentences:
        for code in re.findall(r"`([^`]*)`", sentence):
            assert not re.search(r"==|!=|\b(return|for|if|raise)\s+\w|\w\(.*\w.*\)\.|strip\(\)", code), sentence


@pytest.mark.parametrize("exercise", chapter_01.EXERCISES, ids=lambda exercise: exercise.name)
def test_inputs_change_with_the_seed(exercise):
    def drawn(seed):
        rng = np.random.default_rng(seed)
        return [[(one.args, one.kwargs) for one in part.calls(rng)] for part in exercise.parts]

    assert drawn(1) == drawn(1) != drawn(2)
