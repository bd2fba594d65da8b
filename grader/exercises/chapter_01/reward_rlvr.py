"""The exercise `reward_rlvr`: its parts, its known mistakes, and correct alternatives."""

from __future__ import annotations

import re

import numpy as np

import grpo
from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.exercises.chapter_01.common import (
    CHAPTER,
    draw_number,
    draw_two_numbers,
    extract_by_splitting,
    returns_its_errors,
)


def _checked_truth(truth):
    """The truth, stripped; a ValueError if there is none (the course's own error)."""
    grpo.reward_rlvr("", truth)
    return truth.strip()


def _answer(text):
    """The stripped content of the box, or None."""
    content = grpo.extract_boxed_strict(text)
    return None if content is None else content.strip()


def _reward_substring(text, truth):
    answer = _answer(text)
    return float(answer is not None and _checked_truth(truth) in answer)


def _reward_no_commas(text, truth):
    answer, truth = _answer(text), _checked_truth(truth)
    return float(answer is not None and answer.replace(",", "") == truth.replace(",", ""))


def _reward_no_strip(text, truth):
    _checked_truth(truth)
    return float(grpo.extract_boxed_strict(text) == truth)


def _reward_truth_not_stripped(text, truth):
    _checked_truth(truth)
    return float(_answer(text) == truth)


def _reward_all_space_deleted(text, truth):
    answer, truth = _answer(text), _checked_truth(truth)
    return float(answer is not None and "".join(answer.split()) == "".join(truth.split()))


def _reward_case_ignored(text, truth):
    answer, truth = _answer(text), _checked_truth(truth)
    return float(answer is not None and answer.lower() == truth.lower())


def _reward_numeric(text, truth):
    answer, truth = _answer(text), _checked_truth(truth)
    if answer is None:
        return 0.0
    try:
        return float(float(answer) == float(truth))
    except ValueError:
        return float(answer == truth)


def _reward_float_crash(text, truth):
    answer, truth = _answer(text), _checked_truth(truth)
    return float(answer is not None and float(answer) == float(truth))


def _evaluated(text):
    """What `eval` makes of a text. It only ever sees the inputs of this file, and no import gets through."""
    return eval(text, {"__builtins__": {"__import__": lambda name: None}})


def _reward_evaluated(text, truth):
    answer, truth = _answer(text), _checked_truth(truth)
    if answer is None:
        return 0.0
    try:
        return float(_evaluated(answer) == _evaluated(truth))
    except Exception:
        return float(answer == truth)


def _reward_evaluated_or_zero(text, truth):
    answer, truth = _answer(text), _checked_truth(truth)
    try:
        return float(answer is not None and _evaluated(answer) == _evaluated(truth))
    except Exception:
        return 0.0


def _reward_evaluated_crash(text, truth):
    answer, truth = _answer(text), _checked_truth(truth)
    return float(answer is not None and _evaluated(answer) == _evaluated(truth))


def _reward_extracted_twice(text, truth):
    answer, truth = _answer(text), _checked_truth(truth)
    return float(answer is not None and _answer(answer) == truth)


def _reward_tail(text, truth):
    return float(_checked_truth(truth) in text[-50:])


def _reward_whole_text(text, truth):
    _checked_truth(truth)
    return float(truth in text)


def _reward_unboxed(text, truth):
    answer, truth = _answer(text), _checked_truth(truth)
    if answer is None:
        numbers = re.findall(r"\d+", text)
        answer = numbers[-1] if numbers else None
    return float(answer == truth)


def _reward_signs_stripped(text, truth):
    answer, truth = _answer(text), _checked_truth(truth)
    return float(answer is not None and answer.strip(" {}$.") == truth)


def _reward_signs_stripped_twice(text, truth):
    answer, truth = _answer(text), _checked_truth(truth)
    return float(answer is not None and answer.strip(" {}$.") == truth.strip(" {}$."))


def _reward_blanks_deleted(text, truth):
    _checked_truth(truth)
    answer = grpo.extract_boxed_strict(text)
    return float(answer is not None and answer.replace(" ", "") == truth.replace(" ", ""))


def _reward_blanks_stripped(text, truth):
    _checked_truth(truth)
    answer = grpo.extract_boxed_strict(text)
    return float(answer is not None and answer.strip(" ") == truth.strip(" "))


def _reward_box_of_truth(text, truth):
    _checked_truth(truth)
    return float(r"\boxed{" + truth + "}" in text)


def _reward_box_of_stripped_truth(text, truth):
    return float(r"\boxed{" + _checked_truth(truth) + "}" in text)


def _reward_nothing_for_wrong(text, truth):
    return grpo.reward_rlvr(text, truth) or None


def _reward_swapped(text, truth):
    return grpo.reward_rlvr(truth, text)


def _reward_box_in_truth(text, truth):
    _checked_truth(truth)
    return grpo.reward_rlvr(truth, text)


def _reward_minus_one(text, truth):
    return 1.0 if grpo.reward_rlvr(text, truth) else -1.0


def _reward_format_bonus(text, truth):
    return grpo.reward_rlvr(text, truth) or (0.1 if _answer(text) is not None else 0.0)


def _reward_empty_truth(text, truth):
    answer = _answer(text)
    return float((answer or "") == truth.strip())


def _reward_blank_truth(text, truth):
    if not truth:
        raise ValueError("no truth")
    answer = _answer(text)
    return float(answer is not None and answer == truth.strip())


def _reward_error_returned(text, truth):
    try:
        return grpo.reward_rlvr(text, truth)
    except ValueError as error:
        return error


def _reward_missing_truth(text, truth):
    if truth is not None:
        truth = _checked_truth(truth)
    return float(_answer(text) == truth)


def _reward_silent_zero(text, truth):
    if not truth or not truth.strip():
        return 0.0
    return grpo.reward_rlvr(text, truth)


def _reward_by_steps(text, truth):
    if not isinstance(truth, str) or truth.strip() == "":
        raise ValueError("no truth")
    content = extract_by_splitting(text)
    if content is None:
        return 0
    return 1 if content.strip() == truth.strip() else 0


def _reward_as_bool(text, truth):
    if truth is None or not truth.split():
        raise ValueError("no truth")
    return np.bool_(grpo.extract_boxed_strict(text) is not None and _answer(text) == truth.strip())


def _right_and_wrong(rng):
    a, b = draw_two_numbers(rng)
    return [
        call(r"\boxed{83}", "83"),
        call(r"\boxed{38}", "83"),
        call("The answer is 83.", "83"),
        call(r"37 + 46 is 70 + 13, so the answer is \boxed{83}", "83"),
        call(rf"First \boxed{{{a}}}, then \boxed{{{b}}}", b),
        call(rf"First \boxed{{{a}}}, then \boxed{{{b}}}", a),
        call(rf"I get \boxed{{{a}}}. Restating: \boxed{{", a),
    ]


def _outer_space(rng):
    a, b = draw_two_numbers(rng)
    return [
        call(r"\boxed{ 83 }", "83"),
        call(r"\boxed{83}", " 83\n"),
        call(rf"\boxed{{ {a} }}", b),
        call(rf"\boxed{{{b} }}", f"{b} "),
    ]


def _equal_texts(rng):
    a = draw_number(rng)
    return [
        call(r"\boxed{12,345}", "12,345"),
        call(r"\boxed{12,345}", "12345"),
        call(r"\boxed{2,5}", "25"),
        call(r"\boxed{12{,}345}", "12345"),
        call(r"\boxed{183}", "83"),
        call(r"\boxed{83.0}", "83"),
        call(r"\boxed{8 3}", "83"),
        call(r"\boxed{83.}", "83"),
        call(r"\boxed{$83$}", "83"),
        call("83", r"\boxed{83}", note="the text has no box"),
        call(r"\boxed{b}", "B"),
        call(r"\boxed{80+3}", "83"),
        call(rf"\boxed{{{a}}}", a),
        call(rf"\boxed{{x = {a}}}", a),
    ]


def _odd_answers(rng):
    a, b = draw_two_numbers(rng)
    return [
        call(r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        call(r"\boxed{9^{9^{9^{9}}}}", "83"),
        call(r"\boxed{\text{(B) } 4 \text{ or (C) } 5}", "B"),
        call(r'\boxed{__import__("os")}', "83"),
        call(r"\boxed{}", a),
        call(rf"\boxed{{\sqrt{{{a}}}}}", rf"\sqrt{{{a}}}"),
        call(rf"\boxed{{\sqrt{{{a}}}}}", rf"\sqrt{{{b}}}"),
    ]


REWARD_RLVR = Exercise(
    name="reward_rlvr",
    chapter=CHAPTER,
    difficulty=1,
    minutes=10,
    reference=grpo.reward_rlvr,
    parts=(
        Part(
            says="1.0 if the last box holds the truth, else 0.0",
            points=1,
            calls=_right_and_wrong,
            hint="Extract first, then compare. What does the extraction give where there is no box?",
        ),
        Part(
            says="outer white space does not matter, in the box and in the truth",
            points=1,
            calls=_outer_space,
            hint="Which method of a text removes blanks at both ends? It is needed twice.",
        ),
        Part(
            says="apart from that, only the same text is right",
            points=2,
            calls=_equal_texts,
            hint="No repair of what the policy wrote: two texts are equal, or the reward is 0.",
        ),
        Part(
            says="odd answers earn their 0.0 like any other, without an error",
            points=1,
            calls=_odd_answers,
            hint="Compare texts. Nothing that a policy writes should be converted or calculated.",
        ),
        Part(
            says="an empty or missing truth raises a ValueError",
            points=1,
            calls=lambda rng: [
                call(r"\boxed{83}", "83"),
                call(r"\boxed{}", ""),
                call("no box here", "  "),
                call("no box here", None),
                call(rf"I get \boxed{{{rng.integers(100, 999)}}}", "83"),
                call(rf"I get \boxed{{{rng.integers(100, 999)}}}", " \n"),
                call(f"I get {rng.integers(100, 999)}", None),
            ],
            only_errors=True,
            hint="Look at `truth` before anything else. Blanks alone are no truth either.",
        ),
    ),
    shortcuts=("reward_reasoning",),
    mistakes=(
        Mistake(
            "error returned, not raised",
            _reward_error_returned,
            "The error came back as if it were a reward. It is handed over like any value, and the run goes on "
            "with it; an error has to be raised to stop anything.",
            symptom=returns_its_errors(grpo.reward_rlvr),
        ),
        Mistake(
            "substring match",
            _reward_substring,
            r"It was enough that the truth is a part of the answer: `\boxed{183}` was paid for the truth 83.",
        ),
        Mistake(
            "commas deleted",
            _reward_no_commas,
            r"Commas were deleted before the comparison. That makes one number of a pair: `\boxed{2,5}` was paid for "
            "the truth 25.",
        ),
        Mistake(
            "no strip",
            _reward_no_strip,
            r"`\boxed{ 83 }` was not paid for 83. Blanks at the outside are not part of the answer.",
        ),
        Mistake(
            "truth not stripped",
            _reward_truth_not_stripped,
            "The answer was stripped, the truth was not. A data file with a line end behind each truth would give 0 "
            "to every rollout.",
        ),
        Mistake(
            "all white space deleted",
            _reward_all_space_deleted,
            r"White space inside the answer was deleted too: `\boxed{8 3}` was paid for 83. Only the outer one goes.",
        ),
        Mistake(
            "blanks deleted, line ends kept",
            _reward_blanks_deleted,
            r"`replace` deletes the blanks everywhere, so `\boxed{8 3}` was paid for 83, and leaves a line end where "
            "it is. Asked for is the opposite: all kinds of white space, and only at the two ends.",
        ),
        Mistake(
            "only blanks stripped",
            _reward_blanks_stripped,
            "Blanks were stripped, and a line end was not. White space is also what ends a line; a data file with a "
            "line end behind each truth would give 0 to every rollout.",
        ),
        Mistake(
            "signs stripped off the answer",
            _reward_signs_stripped,
            r"More than white space was stripped off the answer: `\boxed{83.}` and `\boxed{$83$}` were paid for 83. "
            r"The last brace of `\frac{1}{2}` is gone then, too, and a right fraction gets 0.",
        ),
        Mistake(
            "signs stripped off both",
            _reward_signs_stripped_twice,
            r"More than white space was stripped: `\boxed{83.}` and `\boxed{$83$}` were paid for 83. What else a text "
            "has around its answer belongs to the answer, in the strict rule.",
        ),
        Mistake(
            "truth searched in any box",
            _reward_box_of_truth,
            "It was enough that the truth stands in some box: an earlier one was paid, also before a broken last one. "
            "And a blank inside the box hides a right answer. Extract what the last box holds, then compare.",
        ),
        Mistake(
            "stripped truth searched in any box",
            _reward_box_of_stripped_truth,
            "It was enough that the truth stands in some box: an earlier one was paid, also before a broken last one. "
            "And a blank inside the box hides a right answer. Extract what the last box holds, then compare.",
        ),
        Mistake(
            "nothing returned for a wrong answer",
            _reward_nothing_for_wrong,
            "For a wrong answer `None` came back: one path through your function ends without giving anything back. "
            "A mean over such rewards stops the run.",
        ),
        Mistake(
            "text and truth swapped",
            _reward_swapped,
            "The two arguments are swapped: the box was searched for in the truth, and the text was taken for the "
            "known answer. The order is text first, truth second.",
        ),
        Mistake(
            "box searched for in the truth",
            _reward_box_in_truth,
            "The box was searched for in the truth instead of the text. The truth is the bare answer, so hardly "
            "anything is ever paid.",
        ),
        Mistake(
            "case ignored",
            _reward_case_ignored,
            "Capital and small letters were treated as equal. In mathematics b and B are two names.",
        ),
        Mistake(
            "numeric comparison",
            _reward_numeric,
            r"The values were compared, not the texts: `\boxed{83.0}` was paid for 83. That is a legitimate verifier, "
            "and another one; the strict rule is equality of texts.",
        ),
        Mistake(
            "crash on an answer that is no number",
            _reward_float_crash,
            "An answer that is no number raised an error. One odd rollout among thousands would end the run.",
        ),
        Mistake(
            "expression evaluated",
            _reward_evaluated,
            r"The answer was calculated: `\boxed{80+3}` was paid for 83. With `eval`, whatever a policy writes runs "
            "as a program on your machine, and `9**9**9**9` never ends.",
        ),
        Mistake(
            "expression evaluated, else 0",
            _reward_evaluated_or_zero,
            r"The answer was calculated: `\boxed{80+3}` was paid for 83, and right answers that are no calculation, "
            r"such as `\frac{1}{2}`, got 0. And with `eval`, whatever a policy writes runs as a program on your "
            "machine.",
        ),
        Mistake(
            "expression evaluated, with a crash",
            _reward_evaluated_crash,
            r"The answer was calculated: `\boxed{80+3}` was paid for 83, and an answer that is no calculation raised "
            "an error, which would end the run. And with `eval`, whatever a policy writes runs as a program on your "
            "machine.",
        ),
        Mistake(
            "extraction applied twice",
            _reward_extracted_twice,
            "Every reward is 0.0. One way to get there: the box is searched for once more, inside of what came out of "
            "it.",
        ),
        Mistake(
            "whole-tail window",
            _reward_tail,
            "The truth was searched for in the text itself or in its last characters, boxed or not. A text of many "
            'numbers, or "not 83", is paid as well.',
        ),
        Mistake(
            "truth anywhere in the text",
            _reward_whole_text,
            'The truth was searched for in the text itself, boxed or not. A text of many numbers, or "not 83", is '
            "paid as well.",
        ),
        Mistake(
            "unboxed number accepted",
            _reward_unboxed,
            "A number without a box was paid. The prompt asks for a box, and only the box is an answer.",
        ),
        Mistake(
            "-1 for a wrong answer",
            _reward_minus_one,
            "Wrong answers got -1. Some recipes do that; this course pays 1.0 or 0.0, so that the mean reward is the "
            "share of right answers.",
        ),
        Mistake(
            "bonus for any box",
            _reward_format_bonus,
            "A wrong answer in a box still got a little. Such a format reward is used in practice; this exercise asks "
            "for 1.0 or 0.0 only.",
        ),
        Mistake(
            "empty = empty counted right",
            _reward_empty_truth,
            "A truth without anything in it was accepted. An answer that is empty or not there is equal to it, and "
            "rows with missing data would be counted as right.",
        ),
        Mistake(
            "blank truth accepted",
            _reward_blank_truth,
            "A truth of blanks alone went through. It is not empty before it is stripped, and empty after that: a hole "
            "in the data like the others.",
        ),
        Mistake(
            "missing truth accepted",
            _reward_missing_truth,
            "A truth of `None` was accepted, and `None`, the answer of a text without a box, is equal to it. Two "
            "missing things are no match.",
        ),
        Mistake(
            "no truth, no error",
            _reward_silent_zero,
            "A truth that is not there gave a reward like any other. A hole in the data then looks like a hard "
            "question, and nobody will search for it.",
        ),
    ),
    alternatives=(
        Alternative("step by step, with an extractor of its own, ints", _reward_by_steps),
        Alternative("a numpy truth value", _reward_as_bool),
    ),
    hint="`grpo.extract_boxed_strict` does the first half.",
)
