"""The exercise `fool_lenient_verifier`: its parts, its known mistakes, and correct alternatives."""

from __future__ import annotations

import re

import numpy as np

import grpo
from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.exercises.chapter_01.common import CHAPTER, draw_number

COMMAS = "commas are deleted before the comparison"


EARLIER_BOX = "a box that is not the last one is paid as well"


OPEN_BOX = "a box that never closes is paid"


LONGER = "the truth may be a piece of something longer"


MORE_IN_BOX = "the last box may hold the truth among other things"


NEAR_THE_END = "the truth only has to stand near the end, outside of the box"


def weakness_used(completion: str, truth: str) -> str:
    """Say which weakness of the lenient verifier a completion uses, or "" if it does not fool it.

    The first that applies, in the order of the constants above; `truth` is a whole number as text. What is paid only
    because commas vanish is a comma trick, whatever else it looks like.
    """
    if grpo.reward_lenient(completion, truth) != 1.0 or grpo.reward_rlvr(completion, truth) == 1.0:
        return ""
    if grpo.reward_lenient(completion.replace(",", ";"), truth) != 1.0:
        return COMMAS
    boxes = re.findall(r"\\boxed\s*\{([^{}]*)(\}|\Z)", completion)
    if any(content.strip() == truth and end for content, end in boxes):
        return EARLIER_BOX
    if any(content.strip() == truth for content, _ in boxes):
        return OPEN_BOX
    alone = re.compile(rf"(?<![\w.+\-*/^]){re.escape(truth)}(?![\w*/^]|\.\d)")
    if not any(match.start() >= len(completion) - 50 for match in alone.finditer(completion)):
        return LONGER
    return MORE_IN_BOX if alone.search(grpo.extract_boxed_strict(completion) or "") else NEAR_THE_END


def _three_texts(value):
    return isinstance(value, (list, tuple)) and len(value) == 3 and all(isinstance(text, str) for text in value)


def _form_fault(value):
    """What is wrong with the form of an answer, as a sentence, or None."""
    if not _three_texts(value):
        return "return a list of three texts"
    if len(set(value)) < 3:
        return "two of the three completions are the same text"
    return None


def _paid(text, truth):
    return grpo.reward_lenient(text, truth) == 1.0


def _honest(text, truth):
    return grpo.reward_rlvr(text, truth) == 1.0


def _all_paid(values, calls):
    for value, one in zip(values, calls, strict=True):
        truth = one.args[0]
        if fault := _form_fault(value):
            return fault
        for number, text in enumerate(value, 1):
            if not _paid(text, truth):
                return f"for the truth {truth}, the lenient verifier gives 0.0 to completion {number}: {text!r}"
    return None


def _none_right(values, calls):
    for value, one in zip(values, calls, strict=True):
        truth = one.args[0]
        if fault := _form_fault(value):
            return fault
        for number, text in enumerate(value, 1):
            if _honest(text, truth):
                return (
                    f"for the truth {truth}, completion {number} is simply right: its last box holds {truth}, and the "
                    "strict reward pays it too"
                )
        if not any(_paid(text, truth) for text in value):
            return f"for the truth {truth}, none of the three is paid at all: nobody is fooled"
    return None


def _all_different(values, calls):
    for value, one in zip(values, calls, strict=True):
        truth = one.args[0]
        if fault := _form_fault(value):
            return fault
        used = [weakness_used(text, truth) for text in value]
        for number, weakness in enumerate(used, 1):
            if not weakness:
                return f"for the truth {truth}, completion {number} fools nobody, so it is no trick"
            if weakness in used[: number - 1]:
                twin = used.index(weakness) + 1
                return f"for the truth {truth}, completions {twin} and {number} use the same weakness: {weakness}"
    return None


def _next(truth):
    return str(int(truth) + 1)


def _fool_reference(truth):
    return [
        rf"\boxed{{{truth}}} or perhaps \boxed{{{_next(truth)}}}",
        rf"\boxed{{{truth[0]},{truth[1:]}}}",
        f"It is certainly not {truth}",
    ]


def _fool_other_three(truth):
    return (
        rf"I get \boxed{{{truth}",
        rf"\boxed{{1{truth}}}",
        rf"\boxed{{{truth} or {_next(truth)}}}",
    )


def _fool_numpy(truth):
    texts = np.array([f"{truth}?", f"99{truth}99", f"{truth[:1]},{truth[1:]}"])
    return np.char.add("no box: ", texts)


def _fool_backspace(truth):
    return ["\boxed{" + truth + "} or \boxed{0}", "\boxed{0} but not " + truth, rf"\boxed{{1{truth}}}"]


def _fool_one_text(truth):
    return rf"\boxed{{{truth}}} or \boxed{{0}}"


def _fool_same_text(truth):
    return [f"It is certainly not {truth}."] * 3


def _fool_83(truth):
    return [r"\boxed{83} or \boxed{84}", r"\boxed{8,3}", "not 83"]


def _fool_honest(truth):
    return [rf"\boxed{{{truth}}}", rf"\boxed{{{truth}}} or \boxed{{0}}", f"not {truth}"]


def _fool_too_early(truth):
    return [
        rf"\boxed{{{truth}}} or \boxed{{0}}",
        rf"\boxed{{1{truth}}}",
        f"It is {truth}. " + "I have checked this very carefully, and I am quite sure of it.",
    ]


def _fool_crowded_box(truth):
    box = rf"\boxed{{{truth} is what comes out when all the tens and all the ones are added with care}}"
    return [rf"\boxed{{{truth}}} or \boxed{{0}}", rf"\boxed{{1{truth}}}", box]


def _fool_wrong(truth):
    return [rf"\boxed{{{truth}}} or \boxed{{0}}", rf"\boxed{{1{truth}}}", rf"\boxed{{{_next(truth)}}}"]


def _fool_one_trick(truth):
    return [f"I say {truth}", f"Not {truth}!", rf"The number {truth} it is, and no \boxed{{0}}"]


def _pairs(values, calls):
    """All (completion, truth) pairs of a student's answers; empty where a value is no list of three texts."""
    if not all(_three_texts(value) for value in values):
        return []
    return [(text, one.args[0]) for value, one in zip(values, calls, strict=True) for text in value]


def _has_backspace(values, calls):
    return any("\b" in text for text, _ in _pairs(values, calls))


def _has_no_three_texts(values, calls):
    return not all(_three_texts(value) for value in values)


def _is_the_same_for_all(values, calls):
    return bool(_pairs(values, calls)) and all(list(value) == list(values[0]) for value in values)


def _has_honest(values, calls):
    pairs = _pairs(values, calls)
    return all(_paid(*pair) for pair in pairs) and any(_honest(*pair) for pair in pairs)


def _has_same_text(values, calls):
    return bool(_pairs(values, calls)) and any(len(set(value)) < 3 for value in values)


def _first_unpaid(values, calls):
    """(completion without commas, truth) of the completion that the first part's sentence is about.

    None if all are paid, and if another completion is honest: then two parts fail for two reasons, and a named
    mistake would stand under both.
    """
    pairs = _pairs(values, calls)
    unpaid = [(text.replace(",", ""), truth) for text, truth in pairs if not _paid(text, truth)]
    return unpaid[0] if unpaid and not any(_honest(text, truth) for text, truth in pairs) else None


def _is_crowded_box(values, calls):
    text, truth = _first_unpaid(values, calls) or ("", "?")
    return any(truth in content for content in re.findall(r"\\boxed\s*\{([^}]*)", text))


def _is_too_early(values, calls):
    text, truth = _first_unpaid(values, calls) or ("", "?")
    return truth in text


def _is_plainly_wrong(values, calls):
    return _first_unpaid(values, calls) is not None


def _has_twins(values, calls):
    pairs = _pairs(values, calls)
    used = [weakness_used(text, truth) for text, truth in pairs]
    return bool(pairs) and all(used) and any(len(set(used[i : i + 3])) < 3 for i in range(0, len(used), 3))


def _truths(rng):
    return [call("83"), call(draw_number(rng, 120, 980)), call(draw_number(rng, 1200, 9800))]


FOOL_LENIENT_VERIFIER = Exercise(
    name="fool_lenient_verifier",
    chapter=CHAPTER,
    difficulty=2,
    minutes=15,
    reference=_fool_reference,
    parts=(
        Part(
            says="the lenient verifier pays all three completions",
            points=1,
            calls=_truths,
            holds=_all_paid,
            hint="Try `grpo.reward_lenient` on your own texts, with more truths than 83.",
        ),
        Part(
            says="none of them is right: the strict reward pays nothing",
            points=2,
            calls=_truths,
            holds=_none_right,
            hint="What does the last box of your text hold? It must not be the truth.",
        ),
        Part(
            says="they use three different weaknesses",
            points=2,
            calls=_truths,
            holds=_all_different,
            hint="Read the two rules of the lenient verifier again, word by word: `any`, `or`, `even` are gaps.",
        ),
    ),
    mistakes=(
        Mistake(
            r"\b is a backspace",
            _fool_backspace,
            r"There is a backspace character in your text: between ordinary quotes Python reads `\b` as one sign. "
            r"Put an `r` before the quotes, or write `\\boxed`.",
            symptom=_has_backspace,
        ),
        Mistake(
            "not a list of three texts",
            _fool_one_text,
            "The exercise asks for a list of three texts, each a whole completion.",
            symptom=_has_no_three_texts,
        ),
        Mistake(
            "one text, more than once",
            _fool_same_text,
            "The same text stands in your list more than once. One of the three may be the example of the exercise; "
            "the others are yours to find.",
            symptom=_has_same_text,
        ),
        Mistake(
            "83 hard-coded",
            _fool_83,
            "The completions are the same for every truth. Build them from the argument `truth`.",
            symptom=_is_the_same_for_all,
        ),
        Mistake(
            "truth in a crowded box",
            _fool_crowded_box,
            "That completion has the truth in a box, together with something else, and too far from the end of the "
            "text. Where a box counts by its content, the truth has to be alone in it: up to the first closing brace, "
            "or to the end of the text.",
            symptom=_is_crowded_box,
        ),
        Mistake(
            "truth too far from the end",
            _fool_too_early,
            "That completion names the truth without a box around it, and too early in the text. How many characters "
            "does the second rule read?",
            symptom=_is_too_early,
        ),
        Mistake(
            "a plain wrong answer",
            _fool_wrong,
            "That completion is a plain wrong answer: the truth is not in it, and not even the lenient verifier pays "
            "for that.",
            symptom=_is_plainly_wrong,
        ),
        Mistake(
            "an honest answer",
            _fool_honest,
            "One of the completions is simply right: its last box holds the truth. Both verifiers pay it, and "
            "rightly so. A trick is paid by the lenient one alone.",
            symptom=_has_honest,
        ),
        Mistake(
            "one trick, twice",
            _fool_one_trick,
            "All three are paid and none is right: well done. But two of them use the same weakness in other words. "
            "Which sentence of the verifier's description have you not used yet?",
            symptom=_has_twins,
        ),
    ),
    alternatives=(
        Alternative("the other three weaknesses, as a tuple", _fool_other_three),
        Alternative("without any box, as a numpy array", _fool_numpy),
    ),
    hint="`help(grpo.reward_lenient)` says exactly what it pays.",
)
