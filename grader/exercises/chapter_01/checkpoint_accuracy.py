"""The exercise `checkpoint_accuracy`: its parts, its known mistakes, and correct alternatives."""

from __future__ import annotations

import numpy as np

import grpo
from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.exercises.chapter_01.common import CHAPTER, returns_its_errors


def _checked_rows(predictions, truths):
    """The course's own errors; then the rows, with outer white space gone."""
    grpo.checkpoint_accuracy(predictions, truths)
    return [(None if p is None else p.strip(), t.strip()) for p, t in zip(predictions, truths, strict=True)]


def _count(rows):
    return sum(p == t for p, t in rows)


def _accuracy_answered_only(predictions, truths):
    rows = _checked_rows(predictions, truths)
    return _count(rows) / sum(p is not None for p, _ in rows)


def _accuracy_percent(predictions, truths):
    return 100 * grpo.checkpoint_accuracy(predictions, truths)


def _accuracy_count(predictions, truths):
    return _count(_checked_rows(predictions, truths))


def _accuracy_integer_division(predictions, truths):
    rows = _checked_rows(predictions, truths)
    return _count(rows) // len(rows)


def _accuracy_rounded(predictions, truths):
    return round(grpo.checkpoint_accuracy(predictions, truths), 2)


def _accuracy_any_answer(predictions, truths):
    rows = _checked_rows(predictions, truths)
    return sum(p is not None for p, _ in rows) / len(rows)


def _accuracy_any_order(predictions, truths):
    rows = _checked_rows(predictions, truths)
    return sum(p in [t for _, t in rows] for p, _ in rows) / len(rows)


def _accuracy_no_strip(predictions, truths):
    rows = _checked_rows(predictions, truths)
    return sum(p == t for p, t in zip(predictions, truths, strict=True)) / len(rows)


def _accuracy_extracted_twice(predictions, truths):
    rows = _checked_rows(predictions, truths)
    return sum(grpo.extract_boxed_strict(p or "") == t for p, t in rows) / len(rows)


def _accuracy_crash_on_none(predictions, truths):
    grpo.checkpoint_accuracy(predictions, truths)
    return sum(p.strip() == t.strip() for p, t in zip(predictions, truths, strict=True)) / len(truths)


def _accuracy_empty_0(predictions, truths):
    if len(predictions) == 0 and len(truths) == 0:
        return 0.0
    return grpo.checkpoint_accuracy(predictions, truths)


def _accuracy_empty_crash(predictions, truths):
    if len(predictions) != len(truths) or any(not t or not t.strip() for t in truths):
        raise ValueError("bad input")
    return sum(p is not None and p.strip() == t.strip() for p, t in zip(predictions, truths, strict=True)) / len(truths)


def _accuracy_zip(predictions, truths):
    rows = min(len(predictions), len(truths))
    return grpo.checkpoint_accuracy(predictions[:rows], truths[:rows])


def _accuracy_none_equals_none(predictions, truths):
    if len(predictions) != len(truths) or len(truths) == 0:
        raise ValueError("bad input")
    clean = [(p and p.strip(), t and t.strip()) for p, t in zip(predictions, truths, strict=True)]
    return _count(clean) / len(clean)


def _accuracy_nothing_checked(predictions, truths):
    rows = [(p and p.strip(), t and t.strip()) for p, t in zip(predictions, truths, strict=False)]
    return _count(rows) / len(predictions)


def _accuracy_missing_truth_skipped(predictions, truths):
    if len(predictions) != len(truths) or len(truths) == 0:
        raise ValueError("bad input")
    rows = [(p, t) for p, t in zip(predictions, truths, strict=True) if t is not None]
    if any(not t.strip() for _, t in rows):
        raise ValueError("empty truth")
    return sum(p is not None and p.strip() == t.strip() for p, t in rows) / len(rows) if rows else 0.0


def _accuracy_error_is_0(predictions, truths):
    try:
        return sum(p.strip() == t.strip() for p, t in zip(predictions, truths, strict=False)) / len(predictions)
    except Exception:
        return 0.0


def _accuracy_missing_answer_is_0(predictions, truths):
    grpo.checkpoint_accuracy(predictions, truths)
    return 0.0 if None in predictions else grpo.checkpoint_accuracy(predictions, truths)


def _accuracy_truth_inside(predictions, truths):
    rows = _checked_rows(predictions, truths)
    return sum(p is not None and t in p for p, t in rows) / len(rows)


def _accuracy_inside_truth(predictions, truths):
    rows = _checked_rows(predictions, truths)
    return sum(p is not None and p in t for p, t in rows) / len(rows)


def _accuracy_first_skipped(predictions, truths):
    rows = _checked_rows(predictions, truths)
    return _count(rows[1:]) / len(rows)


def _accuracy_last_skipped(predictions, truths):
    rows = _checked_rows(predictions, truths)
    return _count(rows[:-1]) / len(rows)


def _accuracy_error_returned(predictions, truths):
    try:
        return grpo.checkpoint_accuracy(predictions, truths)
    except ValueError as error:
        return error


def _accuracy_by_loop(predictions, truths):
    if not truths or len(predictions) != len(truths):
        raise ValueError("nothing to measure")
    right = 0
    for i in range(len(truths)):
        if truths[i] is None or truths[i].strip() == "":
            raise ValueError("a truth is missing")
        if predictions[i] is not None and predictions[i].strip() == truths[i].strip():
            right += 1
    return right / len(truths)


def _accuracy_by_rewards(predictions, truths):
    if len(predictions) != len(truths) or len(truths) == 0:
        raise ValueError("nothing to measure")
    boxed = ["" if p is None else r"\boxed{" + p + "}" for p in predictions]
    return np.mean([grpo.reward_rlvr(text, truth) for text, truth in zip(boxed, truths, strict=True)])


def _random_problems(rng):
    """Three problems of seven right; the wrong ones answer another problem of the set, or none."""
    truths = [str(n) for n in rng.choice(np.arange(20, 99), size=7, replace=False)]
    predictions = [truths[1], truths[1], None, truths[4], truths[4], truths[5], truths[0]]
    order = rng.permutation(7)
    return call([predictions[i] for i in order], [truths[i] for i in order])


def _answers(rng):
    """Two right answers of four, and the truths."""
    truths = [str(n) for n in rng.choice(np.arange(20, 99), size=4, replace=False)]
    return [truths[0], truths[0], truths[2], truths[1]], truths


CHECKPOINT_ACCURACY = Exercise(
    name="checkpoint_accuracy",
    chapter=CHAPTER,
    difficulty=1,
    minutes=8,
    reference=grpo.checkpoint_accuracy,
    parts=(
        Part(
            says="the share of right answers, between 0 and 1",
            points=2,
            calls=lambda rng: [
                call(["38", "21", "64", "90"], ["83", "12", "64", "9"]),
                call(["83", "12", "64", "9"], ["83", "12", "64", "9"]),
                call(["83", "12", "5"], ["83", "9", "12"]),
                call(["183", "712", "9", "5"], ["83", "12", "90", "5"]),
                call(*_answers(rng)),
            ],
            hint="How many are right, divided by how many problems there are.",
        ),
        Part(
            says="a missing answer is wrong and still counts as a problem; outer white space does not matter",
            points=1,
            calls=lambda rng: [
                call([None, "5"], ["7", "5"]),
                call([" 5", None, "8\n"], ["5", "7 ", "8"]),
                call([None, None], ["7", "5"]),
                _random_problems(rng),
            ],
            hint="The number of problems does not depend on the answers. Compare as in `reward_rlvr`.",
        ),
        Part(
            says="no problems at all, or lists of different lengths, raise a ValueError",
            points=1,
            calls=lambda rng: [
                call(["5"], ["5"]),
                call([], []),
                call(["5", "7"], ["5"]),
                call(["5"], ["5", "7"]),
                call(*_answers(rng)),
                call(_answers(rng)[0][:-1], _answers(rng)[1]),
            ],
            only_errors=True,
            hint="Two lines before the counting: are the lists equally long, and is there anything in them?",
        ),
        Part(
            says="a missing or empty truth raises a ValueError",
            points=1,
            calls=lambda rng: [
                call(["5", None], ["5", "7"]),
                call(["5", None], ["5", None]),
                call(["5", ""], ["5", ""]),
                call(*_answers(rng)),
                call(_answers(rng)[0], [*_answers(rng)[1][:-1], None]),
            ],
            only_errors=True,
            hint="Two missing things must not be counted as a match. Look at each truth as in `reward_rlvr`.",
        ),
    ),
    shortcuts=("reward_rlvr",),
    mistakes=(
        Mistake(
            "error returned, not raised",
            _accuracy_error_returned,
            "The error came back as if it were an accuracy. It is handed over like any value; an error has to be "
            "raised to stop anything.",
            symptom=returns_its_errors(grpo.checkpoint_accuracy),
        ),
        Mistake(
            "any error becomes 0.0",
            _accuracy_error_is_0,
            "Whatever goes wrong ends in 0.0: a single missing answer wipes out all right ones, and a wrong file looks "
            "like a checkpoint that can do nothing. A `try` around everything hides what you should hear about.",
        ),
        Mistake(
            "a missing answer makes it 0.0",
            _accuracy_missing_answer_is_0,
            "As soon as one answer is `None`, the accuracy of all problems is 0.0. A missing answer is one wrong "
            "answer; the others still count.",
        ),
        Mistake(
            "truth inside the answer",
            _accuracy_truth_inside,
            "It was enough that the truth is a part of the answer: 183 counted as 83. The two have to be equal.",
        ),
        Mistake(
            "answer inside the truth",
            _accuracy_inside_truth,
            "It was enough that the answer is a part of the truth: 9 counted as 90. The two have to be equal.",
        ),
        Mistake(
            "first problem skipped",
            _accuracy_first_skipped,
            "The first problem was never counted as right. Python counts rows from 0.",
        ),
        Mistake(
            "last problem skipped",
            _accuracy_last_skipped,
            "The last problem was never counted as right. The end of a `range` or of a slice is not part of it.",
        ),
        Mistake(
            "divided by the answers given",
            _accuracy_answered_only,
            "The right answers were divided by the number of answers, not by the number of problems. A checkpoint "
            "that answers only what is easy would look perfect.",
        ),
        Mistake(
            "percent",
            _accuracy_percent,
            "This is a percentage. The course uses shares between 0 and 1 everywhere.",
        ),
        Mistake(
            "number of right answers",
            _accuracy_count,
            "This is the number of right answers. A share can be compared between test sets of different sizes.",
        ),
        Mistake(
            "whole-number division",
            _accuracy_integer_division,
            "Everything below 1 became 0: `//` drops the fraction.",
        ),
        Mistake(
            "rounded",
            _accuracy_rounded,
            "The share was rounded. Round when you print; a result that others compute with keeps its digits.",
        ),
        Mistake(
            "any answer counted right",
            _accuracy_any_answer,
            "This is the share of problems with an answer, right or wrong.",
        ),
        Mistake(
            "truth of any problem",
            _accuracy_any_order,
            "An answer was counted as right when it is the truth of any problem. It must be the truth of its own.",
        ),
        Mistake(
            "no strip",
            _accuracy_no_strip,
            "Outer white space made a right answer wrong. Accuracy and reward must use the same rule, else they "
            "disagree about the same text.",
        ),
        Mistake(
            "extracted twice",
            _accuracy_extracted_twice,
            "Every accuracy is 0. The predictions are extracted answers already, and it looks as if a box was "
            "searched for inside them once more.",
        ),
        Mistake(
            "crash on a missing answer",
            _accuracy_crash_on_none,
            "A prediction of `None` raised an error. It means that a text had no box, which happens in every "
            "evaluation.",
        ),
        Mistake(
            "no problems give 0",
            _accuracy_empty_0,
            "An accuracy came back for no problems at all. A wrong file name then looks like a checkpoint that can "
            "do nothing.",
        ),
        Mistake(
            "no problems, another error",
            _accuracy_empty_crash,
            "With no problems your code divided by 0. Python's own error does not say what is wrong: the test set "
            "is empty. Raise a ValueError that does.",
        ),
        Mistake(
            "lengths not compared",
            _accuracy_zip,
            "Lists of different lengths were accepted. `zip` stops at the shorter one, and the problems without a "
            "partner vanish from the count.",
        ),
        Mistake(
            "input not checked",
            _accuracy_nothing_checked,
            "The input is not checked at all. An empty test set, lists of different lengths and missing truths all "
            "happen in practice (a wrong file, a crashed job), and each would give a number that means nothing.",
        ),
        Mistake(
            "None == None counted",
            _accuracy_none_equals_none,
            "A missing answer was compared with a missing truth, and two missing things are equal. Holes in the data "
            "would raise the accuracy.",
        ),
        Mistake(
            "rows without a truth skipped",
            _accuracy_missing_truth_skipped,
            "A problem whose truth is `None` was left out without a word. Then nobody knows over how many problems "
            "the accuracy was taken.",
        ),
    ),
    alternatives=(
        Alternative("a loop over row numbers", _accuracy_by_loop),
        Alternative("mean of the strict rewards, numpy", _accuracy_by_rewards),
    ),
    hint="Check the input, count, divide.",
)
