"""The exercise `extract_boxed_strict`: its parts, its known mistakes, and correct alternatives."""

from __future__ import annotations

import re

import grpo
from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.exercises.chapter_01.common import CHAPTER, draw_number, draw_two_numbers, extract_by_splitting

_BOX = re.compile(r"\\boxed(?![A-Za-z])\s*")


def _matching_brace(text, start):
    """Index of the brace that closes the one at `start`, or -1."""
    depth = 0
    for i in range(start, len(text)):
        depth += (text[i] == "{") - (text[i] == "}")
        if depth == 0:
            return i
    return -1


def _content(text, start):
    """What stands between the brace at `start` and its partner, or None."""
    if text[start : start + 1] != "{":
        return None
    end = _matching_brace(text, start)
    return None if end < 0 else text[start + 1 : end]


def _box_ends(text):
    return [match.end() for match in _BOX.finditer(text)]


def _extract_first(text):
    starts = _box_ends(text)
    return _content(text, starts[0]) if starts else None


def _extract_to_first_brace(text):
    starts = _box_ends(text)
    if not starts or text[starts[-1] : starts[-1] + 1] != "{":
        return None
    end = text.find("}", starts[-1])
    return None if end < 0 else text[starts[-1] + 1 : end]


def _extract_greedy(text):
    found = re.search(r"\\boxed\s*\{(.*)\}", text, re.DOTALL)
    return found[1] if found else None


def _extract_to_last_brace(text):
    starts = _box_ends(text)
    if not starts or text[starts[-1] : starts[-1] + 1] != "{":
        return None
    end = text.rfind("}")
    return text[starts[-1] + 1 : end] if end > starts[-1] else None


def _extract_fallback(text):
    for start in reversed(_box_ends(text)):
        content = _content(text, start)
        if content is not None:
            return content
    return None


def _extract_number(text):
    content = grpo.extract_boxed_strict(text)
    if content is None:
        numbers = re.findall(r"-?\d+(?:\.\d+)?", text)
        content = numbers[-1] if numbers and r"\boxed" not in text else None
    return content


def _extract_whole_text(text):
    return grpo.extract_boxed_strict(text) if r"\boxed" in text else text


def _extract_fbox(text):
    start = text.rfind(r"\boxed")
    if start < 0 and r"\fbox" in text:
        return _content(text, text.rfind(r"\fbox") + len(r"\fbox"))
    return grpo.extract_boxed_strict(text)


def _extract_next_brace(text):
    start = text.rfind(r"\boxed")
    brace = text.find("{", start) if start >= 0 else -1
    return _content(text, brace) if brace >= 0 else None


def _extract_no_space(text):
    starts = [match.end() for match in re.finditer(r"\\boxed(?![A-Za-z])", text)]
    return _content(text, starts[-1]) if starts else None


def _extract_one_piece(text):
    start = text.rfind(r"\boxed{")
    return _content(text, start + len(r"\boxed")) if start >= 0 else None


def _extract_runs_off(text):
    starts = _box_ends(text)
    if not starts or text[starts[-1] : starts[-1] + 1] != "{":
        return None
    depth, end = 1, starts[-1]
    while depth > 0:
        end += 1
        depth += (text[end] == "{") - (text[end] == "}")
    return text[starts[-1] + 1 : end]


def _extract_with_braces(text):
    content = grpo.extract_boxed_strict(text)
    return None if content is None else "{" + content + "}"


def _extract_with_command(text):
    content = grpo.extract_boxed_strict(text)
    return None if content is None else r"\boxed{" + content + "}"


def _extract_empty_text(text):
    return grpo.extract_boxed_strict(text) or ""


def _extract_crash(text):
    return _content(text, _box_ends(text)[-1])


def _extract_joined(text):
    contents = [_content(text, start) for start in _box_ends(text)]
    return None if not contents or None in contents else "".join(contents)


def _extract_unclosed(text):
    starts = _box_ends(text)
    if not starts or text[starts[-1] : starts[-1] + 1] != "{":
        return None
    end = _matching_brace(text, starts[-1])
    return text[starts[-1] + 1 : end if end >= 0 else len(text)]


def _extract_backspace(text):
    start = text.rfind("\boxed{")
    return None if start < 0 else _content(text, start + len("\boxed"))


def _extract_opening_brace(text):
    content = grpo.extract_boxed_strict(text)
    return None if content is None else "{" + content


def _extract_closing_brace(text):
    content = grpo.extract_boxed_strict(text)
    return None if content is None else content + "}"


def _extract_first_lost(text):
    content = grpo.extract_boxed_strict(text)
    return None if content is None else content[1:]


def _extract_last_lost(text):
    content = grpo.extract_boxed_strict(text)
    return None if content is None else content[:-1]


def _extract_empty_is_none(text):
    return grpo.extract_boxed_strict(text) or None


def _extract_stripped(text):
    content = grpo.extract_boxed_strict(text)
    return None if content is None else content.strip()


def _extract_no_backslash(text):
    starts = [match.end() for match in re.finditer(r"boxed(?![A-Za-z])\s*", text)]
    return _content(text, starts[-1]) if starts else None


def _extract_hidden(text):
    start = text.rfind(r"\boxed")
    if start < 0:
        return None
    start += len(r"\boxed")
    while text[start : start + 1].isspace():
        start += 1
    return _content(text, start)


def _extract_by_recursion(text):
    opening = re.compile(r"\\boxed\s*\{")

    def end_of_group(i):
        while i < len(text):
            if text[i] == "}":
                return i
            i = end_of_group(i + 1) + 1 if text[i] == "{" else i + 1
        raise EOFError

    last = -1
    for i in range(len(text)):
        if text.startswith(r"\boxed", i) and not text[i + 6 : i + 7].isalpha():
            last = i
    match = opening.match(text, last) if last >= 0 else None
    try:
        return text[match.end() : end_of_group(match.end())] if match else None
    except EOFError:
        return None


def _boxes_and_none(rng):
    n = draw_number(rng)
    return [
        call(r"\boxed{83}"),
        call("The answer is 83."),
        call("Final: **42**"),
        call(rf"3 + 4 is 7, so I get \boxed{{{n}}}"),
        call(r"\boxed{}", note="a box that holds the empty text"),
        call(f"I think it is {n}, and I am sure"),
    ]


def _nested(rng):
    a, b = draw_two_numbers(rng)
    return [
        call(r"So \boxed{\frac{3}{7}}."),
        call(r"\boxed{x^{2^{n}}+1}"),
        call(rf"\boxed{{\frac{{{a}}}{{{b}}}}} of the set {{1, 2}}"),
        call(rf"I get \boxed{{\frac{{{a}}}{{{b}}}", note="the box never closes"),
    ]


def _several(rng):
    a, b = draw_two_numbers(rng)
    return [
        call(r"Guess \boxed{3}; corrected: \boxed{5}"),
        call(r"Thus \boxed{12}, i.e. \boxed{12}"),
        call(r"\boxed{3} \boxedfoo{5}", note="two commands, one box"),
        call(rf"\boxed{{{a}}}? No, \boxed{{7}}. Or rather \boxed{{{b}}}"),
    ]


def _broken(rng):
    a, b = draw_two_numbers(rng)
    return [
        call(r"\boxed{1}, so \boxed{2}", note="nothing is broken here"),
        call(r"I get \boxed{8}. Restating: \boxed{"),
        call(rf"It is \boxed{{{a}}}, that is \boxed{{{b}"),
        call(rf"\boxed{{{a}}} or rather \boxed {b}"),
        call(rf"\boxed{{{a}}} or rather \boxed{{{b}}}", note="nothing is broken here"),
    ]


def _other_commands(rng):
    a, b = draw_two_numbers(rng)
    return [
        call(r"\boxed {5}"),
        call("\\boxed\n  {" + a + "}"),
        call(r"\fbox{5}"),
        call(r"\boxedfoo{5}"),
        call(r"\boxed 5"),
        call("Put it in a boxed{5}", note="no backslash"),
        call(r"\boxed{ 83 }"),
        call(rf"\boxed{{{a}}}, not \fbox{{{b}}}"),
    ]


EXTRACT_BOXED_STRICT = Exercise(
    name="extract_boxed_strict",
    chapter=CHAPTER,
    difficulty=2,
    minutes=20,
    reference=grpo.extract_boxed_strict,
    parts=(
        Part(
            says="the content of a box (an empty box holds ''), and None where there is no box",
            points=1,
            calls=_boxes_and_none,
            hint=r"Find `\boxed` first. If it is not there, there is no answer, whatever else the text says.",
        ),
        Part(
            says="braces inside the box are counted",
            points=2,
            calls=_nested,
            hint="Walk over the characters and keep a number: how many braces are open right now?",
        ),
        Part(
            says="of several boxes, the last one counts; another command is no box",
            points=1,
            calls=_several,
            hint="`str.rfind` searches from the end of a text. What if it finds the beginning of a longer name there?",
        ),
        Part(
            says="if the last box is broken there is no answer, whatever was boxed before",
            points=1,
            calls=_broken,
            hint=r"Decide which `\boxed` counts before you look whether it is a good one.",
        ),
        Part(
            says="white space may stand before the brace, and inside it stays; another command or no brace is no box",
            points=1,
            calls=_other_commands,
            hint=r"What may stand between `\boxed` and `{`? White space, and nothing else.",
        ),
    ),
    mistakes=(
        Mistake(
            r"\b is a backspace, or no return",
            _extract_backspace,
            r"Every call gave `None`. Either a `return` is missing, or your search text never occurs: between ordinary "
            r"quotes `\b` is one character, the backspace, and in a pattern for `re` it means the edge of a word. Put "
            r"an `r` before the quotes, and in a pattern write two backslashes.",
        ),
        Mistake(
            "opening brace returned along",
            _extract_opening_brace,
            "The opening brace came back together with the answer: the slice starts one place too early.",
        ),
        Mistake(
            "closing brace returned along",
            _extract_closing_brace,
            "The closing brace came back together with the answer: the slice ends one place too late. The end of a "
            "slice is not part of it.",
        ),
        Mistake(
            "first character lost",
            _extract_first_lost,
            "The first character of the answer is missing: the slice starts one place too late.",
        ),
        Mistake(
            "last character lost",
            _extract_last_lost,
            "The last character of the answer is missing: the slice ends one place too early. The end of a slice is "
            "not part of it already.",
        ),
        Mistake(
            "empty box taken for no answer",
            _extract_empty_is_none,
            r"`\boxed{}` holds the empty text, and `None` came back. Python treats `''` as false, so `or` and `if` on "
            "the content confuse an empty box with no box; a pattern with `+` refuses it too.",
        ),
        Mistake(
            "content stripped",
            _extract_stripped,
            "White space inside the box was stripped. Here the content comes back exactly as written; the comparison "
            "of the next exercise strips it, at one place for all.",
        ),
        Mistake(
            "searched without the backslash",
            _extract_no_backslash,
            "The word boxed was enough, without its backslash. A sentence about something boxed is no answer; the "
            "command is.",
        ),
        Mistake(
            "another command hides the box",
            _extract_hidden,
            r"The last command of the text only begins with `\boxed`: it is `\boxedfoo`, and it hid the real box "
            "before it. TeX reads letters as one name, as far as they go. Is the name over where you stop reading?",
        ),
        Mistake(
            "first box",
            _extract_first,
            "The first box was taken. A text that corrects itself has its answer at the end.",
        ),
        Mistake(
            "stops at the first }",
            _extract_to_first_brace,
            r"The answer ends at the first `}`, so `\frac{3}{7}` is cut to `\frac{3`. A pattern like `[^}]*` or `.*?` "
            "cannot count; how do you find the brace that belongs to the opening one?",
        ),
        Mistake(
            "greedy pattern",
            _extract_greedy,
            "The answer runs from the first box to the very last `}` of the text and swallows what stands between. "
            "That is what a greedy `.*` does.",
        ),
        Mistake(
            "up to the last }",
            _extract_to_last_brace,
            "The answer runs on to the last `}` of the text, also when that brace has nothing to do with the box.",
        ),
        Mistake(
            "earlier box when the last is broken",
            _extract_fallback,
            "The last box is broken, and an earlier one was taken instead. A policy that is paid for this learns to "
            "box early and to write on until it is cut off.",
        ),
        Mistake(
            "unboxed number accepted",
            _extract_number,
            "A number without a box was taken as the answer. Then naming many numbers is a way to be right.",
        ),
        Mistake(
            "whole text if no box",
            _extract_whole_text,
            "Without a box the whole text came back. It goes to the comparison next, and nobody there knows that it "
            "is no answer.",
        ),
        Mistake(
            r"\fbox accepted",
            _extract_fbox,
            r"`\fbox` was taken for a box. The course has one way to write an answer, and the prompt asks for it.",
        ),
        Mistake(
            "next brace, wherever it stands",
            _extract_next_brace,
            r"The search went on to the next `{`, however far away. In `\boxedfoo{5}` something else than white "
            "space comes before the brace.",
        ),
        Mistake(
            "white space before { refused",
            _extract_no_space,
            r"`\boxed {5}` gave no answer. TeX ignores white space behind a command, and so does the rule.",
        ),
        Mistake(
            r"\boxed{ searched as one piece",
            _extract_one_piece,
            r"`\boxed{` seems to be searched for as one piece. Then `\boxed {5}` is not found, and a last `\boxed 5` "
            "without a brace is skipped, so that an earlier box counts instead. Search for the command alone.",
        ),
        Mistake(
            "crash on an unclosed box",
            _extract_runs_off,
            "A box that never closes raised an error: the search ran past the end of the text. Every rollout that is "
            "cut off inside its box would stop the run.",
        ),
        Mistake(
            "braces returned along",
            _extract_with_braces,
            "The braces of the box came back together with the answer. An index is off by one at both ends.",
        ),
        Mistake(
            "command returned along",
            _extract_with_command,
            r"The whole `\boxed{...}` came back, not what it holds.",
        ),
        Mistake(
            "empty text instead of None",
            _extract_empty_text,
            "Where there is no answer, an empty text came back. Whoever compares it with another empty text finds "
            "them equal; `None` says clearly that nothing is there.",
        ),
        Mistake(
            "crash without a box",
            _extract_crash,
            "A text without a box raised an error. Early in training most rollouts have none, so the run would stop "
            "at its first step.",
        ),
        Mistake(
            "boxes joined",
            _extract_joined,
            "The contents of all boxes were joined into one text: twice 12 became 1212.",
        ),
        Mistake(
            "unclosed box accepted",
            _extract_unclosed,
            "A box that never closes was read up to the end of the text. Such a rollout was cut off, and nobody "
            "knows what the answer would have been.",
        ),
    ),
    alternatives=(
        Alternative("rpartition and a list of characters", extract_by_splitting),
        Alternative("recursion over groups", _extract_by_recursion),
    ),
    hint=r"Three steps: where is the last `\boxed`, is a `{` next, and where does that brace close?",
)
