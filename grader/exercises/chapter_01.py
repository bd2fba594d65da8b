r"""Chapter 01, rollouts and rewards: its exercises as data."""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict

import numpy as np

import grpo
from grader.exercise import Alternative, Exercise, Mistake, Part, call

CHAPTER = "01_rollouts_and_rewards"


# --- group_rollouts -----------------------------------------------------------------------------------------


def _checked_groups(prompt_ids, completions, group_size):
    """The course's own errors, for mistakes that are about the groups only. Returns the ids, each once."""
    return list(grpo.group_rollouts(prompt_ids, completions, group_size))


def _group_reshape(prompt_ids, completions, group_size):
    ids = _checked_groups(prompt_ids, completions, group_size)
    return {p: completions[i * group_size : (i + 1) * group_size] for i, p in enumerate(ids)}


def _group_alternating(prompt_ids, completions, group_size):
    ids = _checked_groups(prompt_ids, completions, group_size)
    return {p: completions[i :: len(ids)] for i, p in enumerate(ids)}


def _group_runs(prompt_ids, completions, group_size):
    _checked_groups(prompt_ids, completions, group_size)
    runs = itertools.groupby(zip(prompt_ids, completions, strict=True), key=lambda row: row[0])
    return {p: [completion for _, completion in rows] for p, rows in runs}


def _group_sorted(prompt_ids, completions, group_size):
    _checked_groups(prompt_ids, completions, group_size)
    runs = itertools.groupby(sorted(zip(prompt_ids, completions, strict=True)), key=lambda row: row[0])
    return {p: [completion for _, completion in rows] for p, rows in runs}


def _group_merged(prompt_ids, completions, group_size):
    _checked_groups(prompt_ids, completions, group_size)
    groups = {}
    for p, completion in zip(prompt_ids, completions, strict=True):
        group = groups.setdefault(p, [])
        if completion not in group:
            group.append(completion)
    return groups


def _group_last_only(prompt_ids, completions, group_size):
    _checked_groups(prompt_ids, completions, group_size)
    return {p: [completion] for p, completion in zip(prompt_ids, completions, strict=True)}


def _collect(prompt_ids, completions, group_size):
    """The right groups; the two errors that have nothing to do with the size of a group."""
    if len(prompt_ids) != len(completions) or group_size < 1:
        raise ValueError("one completion for each id, please")
    return _zipped(prompt_ids, completions)


def _zipped(prompt_ids, completions):
    groups = defaultdict(list)
    for p, completion in zip(prompt_ids, completions, strict=False):
        groups[p].append(completion)
    return dict(groups)


def _group_short_accepted(prompt_ids, completions, group_size):
    groups = _collect(prompt_ids, completions, group_size)
    if any(len(group) > group_size for group in groups.values()):
        raise ValueError("a group is too large")
    return groups


def _group_first_g(prompt_ids, completions, group_size):
    groups = _collect(prompt_ids, completions, group_size)
    if any(len(group) < group_size for group in groups.values()):
        raise ValueError("a group is too small")
    return {p: group[:group_size] for p, group in groups.items()}


def _group_any_size(prompt_ids, completions, group_size):
    if len(prompt_ids) != len(completions):
        raise ValueError("one completion for each id, please")
    return _zipped(prompt_ids, completions)


def _group_total_only(prompt_ids, completions, group_size):
    groups = _collect(prompt_ids, completions, group_size)
    if len(prompt_ids) % group_size != 0:
        raise ValueError("the batch does not divide into groups")
    return groups


def _group_misaligned(prompt_ids, completions, group_size):
    groups = _zipped(prompt_ids, completions)
    if group_size < 1 or any(len(group) != group_size for group in groups.values()):
        raise ValueError("a group has another size")
    return groups


def _group_size_zero(prompt_ids, completions, group_size):
    if len(prompt_ids) != len(completions):
        raise ValueError("one completion for each id, please")
    groups = _zipped(prompt_ids, completions)
    if any(len(group) != group_size for group in groups.values()):
        raise ValueError("a group has another size")
    return groups


def _group_by_selection(prompt_ids, completions, group_size):
    if group_size < 1 or len(prompt_ids) != len(completions):
        raise ValueError("bad input")
    if any(count != group_size for count in Counter(prompt_ids).values()):
        raise ValueError("bad group")
    return {p: [completions[i] for i, other in enumerate(prompt_ids) if other == p] for p in set(prompt_ids)}


def _group_by_stable_sort(prompt_ids, completions, group_size):
    if group_size < 1 or len(prompt_ids) != len(completions):
        raise ValueError("bad input")
    rows = sorted(range(len(prompt_ids)), key=lambda row: prompt_ids[row])
    groups = {
        p: tuple(completions[row] for row in run) for p, run in itertools.groupby(rows, key=lambda row: prompt_ids[row])
    }
    if {len(group) for group in groups.values()} - {group_size}:
        raise ValueError("bad group")
    return groups


def _rising_texts(n):
    """Different texts in alphabetical order, so that sorting them changes nothing."""
    return [f"answer {10 + i}" for i in range(n)]


def _shuffled_ids(rng):
    size = int(rng.integers(3, 5))
    ids = [int(i) for i in rng.choice(np.arange(10, 99), size=3, replace=False)]
    mixed = rng.permutation(ids * size).tolist()
    # New ids that rise in the order in which they first appear: so it does not matter to a wrong answer whether it
    # lists the ids as they appear or sorted, and both are recognised.
    renamed = dict(zip(dict.fromkeys(mixed), sorted(ids), strict=True))
    return call([f"p{renamed[i]}" for i in mixed], _rising_texts(len(mixed)), size)


def _numbers_in_disorder(rng):
    first, second = sorted(int(i) for i in rng.choice(np.arange(1, 9), size=2, replace=False))
    texts = [rf"\boxed{{{n}}}" for n in rng.permutation(np.arange(20, 28))]
    return call([first] * 4 + [second] * 4, [*texts[:3], texts[0], *texts[4:7], texts[4]], 4)


GROUP_ROLLOUTS = Exercise(
    name="group_rollouts",
    chapter=CHAPTER,
    difficulty=1,
    minutes=10,
    reference=grpo.group_rollouts,
    parts=(
        Part(
            says="every completion goes to the prompt it answers, in whatever order the rows come",
            points=2,
            calls=lambda rng: [
                call(["a", "b", "a", "b"], ["a1", "b1", "a2", "b2"], 2),
                call(["p2", "p7", "p7", "p2"], ["w", "x", "y", "z"], 2),
                call([3, 5, 5, 3, 5, 3], _rising_texts(6), 3),
                _shuffled_ids(rng),
            ],
            hint="Which prompt does row i belong to? Only `prompt_ids[i]` knows; its place in the list does not.",
        ),
        Part(
            says="inside a group the order of the input stays, and equal completions stay apart",
            points=1,
            calls=lambda rng: [
                call(["a", "a", "a", "b", "b", "b"], ["no", "yes", "no", "7", "2", "5"], 3),
                _numbers_in_disorder(rng),
            ],
            hint="Two rollouts may be the same text and are still two rollouts. Nothing is sorted, nothing is merged.",
        ),
        Part(
            says="more ids than completions, or fewer, raise a ValueError",
            points=1,
            calls=lambda rng: [
                call(["a", "a"], ["x", "y"], 2),
                call(["a", "a"], ["x", "y", "z"], 2, note="three completions, two ids"),
                call(["a", "a", "b"], ["x", "y"], 2, note="two completions, three ids"),
            ],
            only_errors=True,
            hint="Compare the two lengths first. What does `zip` do when one list is longer?",
        ),
        Part(
            says="a prompt with another number of completions, or a group_size below 1, raises a ValueError",
            points=1,
            calls=lambda rng: [
                call(["a", "a"], ["x", "y"], 2),
                call(["a", "a", "b"], ["x", "y", "z"], 2, note="b has one"),
                call(["a", "a", "a", "b", "b"], ["v", "w", "x", "y", "z"], 2, note="a has three"),
                call(["a", "a", "a", "b"], ["w", "x", "y", "z"], 2, note="three and one: the total looks right"),
                call([], [], 0, note="groups of 0"),
            ],
            only_errors=True,
            hint="Look at every group by itself once all rows are placed, and at `group_size` before that.",
        ),
    ),
    mistakes=(
        Mistake(
            "reshape without looking at ids",
            _group_reshape,
            "The rows were cut into neighbouring chunks, and the ids were not looked at. That is right only if the "
            "rows of a prompt stand side by side; else two prompts are mixed, without any error.",
        ),
        Mistake(
            "ids taken to alternate",
            _group_alternating,
            "Every n-th row was taken, as if the ids came in turn: a b a b. Rows may come in any order; look at the "
            "id of each row.",
        ),
        Mistake(
            "groupby on unsorted ids",
            _group_runs,
            "Only the last run of neighbouring ids is left of each prompt. `itertools.groupby` starts a new group "
            "each time the id changes, and a later run replaces an earlier one.",
        ),
        Mistake(
            "order lost",
            _group_sorted,
            "The groups are right, their order is not: the completions were sorted. Rewards and log-probs come in the "
            "order of the input and would now belong to other rollouts.",
        ),
        Mistake(
            "equal completions merged",
            _group_merged,
            "Equal completions were merged into one. A policy may write the same text twice; those are two rollouts, "
            "and the group's mean counts both.",
        ),
        Mistake(
            "only the last one kept",
            _group_last_only,
            "Each prompt has only its last completion: a new one replaces the one before. What must happen when the "
            "id is in the dict already?",
        ),
        Mistake(
            "short group accepted",
            _group_short_accepted,
            "A group with too few completions was accepted. A crashed sampler would go unnoticed, and the statistics "
            "of that group would be those of fewer rollouts.",
        ),
        Mistake(
            "surplus thrown away",
            _group_first_g,
            "A group with too many completions was cut to size without a word. The extra rollouts point to an error "
            "before this function (the same prompt drawn twice?), and it should be heard.",
        ),
        Mistake(
            "any group size accepted",
            _group_any_size,
            "`group_size` is not used: groups of any size were accepted.",
        ),
        Mistake(
            "only the total checked",
            _group_total_only,
            "Only the total number of rows was checked. Three rows for one prompt and one for another also make two "
            "groups of two, by the total.",
        ),
        Mistake(
            "misalignment accepted",
            _group_misaligned,
            "Ids and completions of different lengths were accepted. `zip` stops at the shorter list and says "
            "nothing: rows are lost, or belong to the wrong prompt.",
        ),
        Mistake(
            "group size 0 accepted",
            _group_size_zero,
            "A `group_size` of 0 was accepted. With no rows there is no group that could be of the wrong size, so "
            "the number itself has to be looked at.",
        ),
    ),
    alternatives=(
        Alternative("one selection for each id", _group_by_selection),
        Alternative("a stable sort of row numbers, tuples", _group_by_stable_sort),
    ),
    hint="One pass over the rows with a dict of lists; then one look at each list.",
)


# --- extract_boxed_strict -----------------------------------------------------------------------------------

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
    start = text.rfind(r"\boxed")
    return _content(text, start + len(r"\boxed")) if start >= 0 else None


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


def _extract_by_splitting(text):
    _, box, after = text.rpartition(r"\boxed")
    after = after.lstrip()
    if not box or not after.startswith("{"):
        return None
    content, depth = [], 0
    for character in after:
        content.append(character)
        depth += {"{": 1, "}": -1}.get(character, 0)
        if depth == 0:
            return "".join(content[1:-1])
    return None


def _extract_by_recursion(text):
    opening = re.compile(r"\\boxed\s*\{")

    def end_of_group(i):
        while i < len(text):
            if text[i] == "}":
                return i
            i = end_of_group(i + 1) + 1 if text[i] == "{" else i + 1
        raise EOFError

    last = text.rfind(r"\boxed")
    match = opening.match(text, last) if last >= 0 else None
    try:
        return text[match.end() : end_of_group(match.end())] if match else None
    except EOFError:
        return None


def _draw(rng, low=20, high=999):
    return str(int(rng.integers(low, high)))


def _two(rng):
    """Two different numbers as text."""
    first, second = rng.choice(np.arange(20, 999), size=2, replace=False)
    return str(first), str(second)


def _boxes_and_none(rng):
    n = _draw(rng)
    return [
        call(r"\boxed{83}"),
        call("The answer is 83."),
        call("Final: **42**"),
        call(rf"3 + 4 is 7, so I get \boxed{{{n}}}"),
        call(f"I think it is {n}, and I am sure"),
    ]


def _nested(rng):
    a, b = _two(rng)
    return [
        call(r"So \boxed{\frac{3}{7}}."),
        call(r"\boxed{x^{2^{n}}+1}"),
        call(rf"\boxed{{\frac{{{a}}}{{{b}}}}} of the set {{1, 2}}"),
        call(rf"I get \boxed{{\frac{{{a}}}{{{b}}}", note="the box never closes"),
    ]


def _several(rng):
    a, b = _two(rng)
    return [
        call(r"Guess \boxed{3}; corrected: \boxed{5}"),
        call(r"Thus \boxed{12}, i.e. \boxed{12}"),
        call(rf"\boxed{{{a}}}? No, \boxed{{7}}. Or rather \boxed{{{b}}}"),
    ]


def _broken(rng):
    a, b = _two(rng)
    return [
        call(r"\boxed{1}, so \boxed{2}", note="nothing is broken here"),
        call(r"I get \boxed{8}. Restating: \boxed{"),
        call(rf"It is \boxed{{{a}}}, that is \boxed{{{b}"),
        call(rf"\boxed{{{a}}} or rather \boxed {b}"),
    ]


def _other_commands(rng):
    a, b = _two(rng)
    return [
        call(r"\boxed {5}"),
        call("\\boxed\n  {" + a + "}"),
        call(r"\fbox{5}"),
        call(r"\boxedfoo{5}"),
        call(r"\boxed 5"),
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
            says="the content of a box, and None where there is no box",
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
            says="of several boxes, the last one counts",
            points=1,
            calls=_several,
            hint="`str.rfind` searches from the end of a text.",
        ),
        Part(
            says="if the last box is broken there is no answer, whatever was boxed before",
            points=1,
            calls=_broken,
            hint=r"Decide which `\boxed` counts before you look whether it is a good one.",
        ),
        Part(
            says="white space may stand before the brace; other commands and a missing brace make no box",
            points=1,
            calls=_other_commands,
            hint=r"What may stand between `\boxed` and `{`? White space, and nothing else.",
        ),
    ),
    mistakes=(
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
        Alternative("rpartition and a list of characters", _extract_by_splitting),
        Alternative("recursion over groups", _extract_by_recursion),
    ),
    hint=r"Three steps: where is the last `\boxed`, is a `{` next, and where does that brace close?",
)


# --- reward_rlvr --------------------------------------------------------------------------------------------


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


def _value_of(text):
    """What `eval` would make of a number or of one +, -, * or / of two numbers; other text stays as it is."""
    parts = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(?:([-+*/])\s*(\d+(?:\.\d+)?)\s*)?", text)
    if not parts:
        return text
    left, sign, right = float(parts[1]), parts[2], float(parts[3] or 1)
    return {None: left, "+": left + right, "-": left - right, "*": left * right, "/": left / right}[sign]


def _reward_evaluated(text, truth):
    answer, truth = _answer(text), _checked_truth(truth)
    return float(answer is not None and _value_of(answer) == _value_of(truth))


def _reward_extracted_twice(text, truth):
    answer, truth = _answer(text), _checked_truth(truth)
    return float(answer is not None and _answer(answer) == truth)


def _reward_tail(text, truth):
    return float(_checked_truth(truth) in text[-50:])


def _reward_unboxed(text, truth):
    answer, truth = _answer(text), _checked_truth(truth)
    if answer is None:
        numbers = re.findall(r"\d+", text)
        answer = numbers[-1] if numbers else None
    return float(answer == truth)


def _reward_minus_one(text, truth):
    return 1.0 if grpo.reward_rlvr(text, truth) else -1.0


def _reward_format_bonus(text, truth):
    return grpo.reward_rlvr(text, truth) or (0.1 if _answer(text) is not None else 0.0)


def _reward_empty_truth(text, truth):
    answer = _answer(text)
    return float((answer or "") == truth.strip())


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
    content = _extract_by_splitting(text)
    if content is None:
        return 0
    return 1 if content.strip() == truth.strip() else 0


def _reward_as_bool(text, truth):
    if truth is None or not truth.split():
        raise ValueError("no truth")
    return np.bool_(grpo.extract_boxed_strict(text) is not None and _answer(text) == truth.strip())


def _right_and_wrong(rng):
    a, b = _two(rng)
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
    a, b = _two(rng)
    return [
        call(r"\boxed{ 83 }", "83"),
        call(r"\boxed{83}", " 83\n"),
        call(rf"\boxed{{ {a} }}", b),
        call(rf"\boxed{{{b} }}", f"{b} "),
    ]


def _equal_texts(rng):
    a = _draw(rng)
    return [
        call(r"\boxed{12,345}", "12,345"),
        call(r"\boxed{12,345}", "12345"),
        call(r"\boxed{2,5}", "25"),
        call(r"\boxed{12{,}345}", "12345"),
        call(r"\boxed{183}", "83"),
        call(r"\boxed{83.0}", "83"),
        call(r"\boxed{8 3}", "83"),
        call(r"\boxed{b}", "B"),
        call(r"\boxed{80+3}", "83"),
        call(rf"\boxed{{{a}}}", a),
        call(rf"\boxed{{x = {a}}}", a),
    ]


def _odd_answers(rng):
    a, b = _two(rng)
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
            ],
            only_errors=True,
            hint="Look at `truth` before anything else. Blanks alone are no truth either.",
        ),
    ),
    mistakes=(
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
            "extraction applied twice",
            _reward_extracted_twice,
            "Every reward is 0.0. It looks as if the box was searched for again inside of what came out of the box.",
        ),
        Mistake(
            "whole-tail window",
            _reward_tail,
            "The truth was searched for in the last characters of the text. A text that ends in many numbers, or in "
            '"not 83", is paid as well.',
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
            "An empty truth was accepted, and an answer that is not there was equal to it. Rows with missing data "
            "would be counted as right.",
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


# --- fool_lenient_verifier ----------------------------------------------------------------------------------

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


def _paid(text, truth):
    return grpo.reward_lenient(text, truth) == 1.0


def _honest(text, truth):
    return grpo.reward_rlvr(text, truth) == 1.0


def _all_paid(values, calls):
    for value, one in zip(values, calls, strict=True):
        truth = one.args[0]
        if not _three_texts(value):
            return "return a list of three texts"
        for number, text in enumerate(value, 1):
            if not _paid(text, truth):
                return f"for the truth {truth}, the lenient verifier gives 0.0 to completion {number}: {text!r}"
    return None


def _none_right(values, calls):
    for value, one in zip(values, calls, strict=True):
        truth = one.args[0]
        if not _three_texts(value):
            return "return a list of three texts"
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
        if not _three_texts(value):
            return "return a list of three texts"
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
    return any(_honest(text, truth) for text, truth in _pairs(values, calls))


def _has_too_early(values, calls):
    return any(not _paid(text, truth) and truth in text for text, truth in _pairs(values, calls))


def _has_unpaid(values, calls):
    return any(not _paid(text, truth) for text, truth in _pairs(values, calls))


def _has_twins(values, calls):
    pairs = _pairs(values, calls)
    used = [weakness_used(text, truth) for text, truth in pairs]
    return bool(pairs) and all(used) and any(len(set(used[i : i + 3])) < 3 for i in range(0, len(used), 3))


def _truths(rng):
    return [call("83"), call(_draw(rng, 120, 980)), call(_draw(rng, 1200, 9800))]


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
            "83 hard-coded",
            _fool_83,
            "The completions are the same for every truth. Build them from the argument `truth`.",
            symptom=_is_the_same_for_all,
        ),
        Mistake(
            "an honest answer",
            _fool_honest,
            "One of the completions is simply right: its last box holds the truth. Both verifiers pay it, and "
            "rightly so. A trick is paid by the lenient one alone.",
            symptom=_has_honest,
        ),
        Mistake(
            "truth too far from the end",
            _fool_too_early,
            "One of the completions names the truth, and the lenient verifier does not see it. How many characters "
            "does its second rule read?",
            symptom=_has_too_early,
        ),
        Mistake(
            "a plain wrong answer",
            _fool_wrong,
            "One of the completions is a plain wrong answer: the truth is not in it, and not even the lenient "
            "verifier pays for that.",
            symptom=_has_unpaid,
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


# --- checkpoint_accuracy ------------------------------------------------------------------------------------


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
            ],
            only_errors=True,
            hint="Two missing things must not be counted as a match. Look at each truth as in `reward_rlvr`.",
        ),
    ),
    mistakes=(
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

EXERCISES = (
    GROUP_ROLLOUTS,
    EXTRACT_BOXED_STRICT,
    REWARD_RLVR,
    FOOL_LENIENT_VERIFIER,
    CHECKPOINT_ACCURACY,
)
