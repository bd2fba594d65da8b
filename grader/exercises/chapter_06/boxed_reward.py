r"""The exercise `boxed_reward`: its parts, its known mistakes, and correct alternatives."""

from __future__ import annotations

import re

import grpo
from grader.exercise import Alternative, Exercise, Mistake, Part, call
from grader.exercises.chapter_06.common import CHAPTER


def _boxed_reward(completion, truth, finished):
    """The reference."""
    reward = grpo.reward_reasoning(completion, truth)
    return reward if finished else 0.0


def _number(rng):
    return str(rng.integers(10, 100))


def _other(rng, number):
    return str((int(number) + int(rng.integers(1, 40))) % 100 + 100)


def _answers(rng):
    a, b = _number(rng), _number(rng)
    wrong = _other(rng, a)
    thought = f"{a[0]}+{b[0]}={int(a[0]) + int(b[0])}"
    return [
        call(r"<think>7+8+0=15,3+4+1=8</think>\boxed{85}", "85", True),
        call(r"<think>7+8+0=15,3+4+1=8</think>\boxed{58}", "85", True),
        call(rf"<think>{thought}</think>The answer is \boxed{{ {a} }}.", a, True),
        call(rf"<think>{thought}</think>The answer is {a}.", a, True, note="no box"),
        call(rf"\boxed{{{a}}}", a, True, note="no thinking at all"),
        call(rf"<think>{thought}</think>\boxed{{{wrong}}}", a, True),
        call(rf"<think>{thought}</think>\boxed{{{wrong}}}, no: \boxed{{{a}}}", a, True, note="two boxes"),
        call(rf"<think>{thought}</think>\boxed{{{a}}}, no: \boxed{{{wrong}}}", a, True, note="two boxes"),
    ]


def _thoughts(rng):
    a = _number(rng)
    wrong = _other(rng, a)
    return [
        call(r"<think>\boxed{3}</think>\boxed{9}", "9", True),
        call(r"<think>\boxed{3}</think>\boxed{9}", "3", True, note="the guess, not the answer"),
        call(r"<think>maybe \boxed{9}? let me check", "9", True, note="the thought never closes"),
        call(rf"<think>\boxed{{{a}}}</think>I do not know.", a, True),
        call(rf"<think>1</think>\boxed{{{wrong}}}<think>no</think>\boxed{{{a}}}", a, True, note="thought twice"),
        call(rf"<think>1</think>Hm.<think>\boxed{{{a}}}</think>I do not know.", a, True, note="thought twice"),
        call(rf"<think>1</think>\boxed{{{a}}}<think>or \boxed{{{a}}}?", a, True, note="a second thought, still open"),
        call(rf"so it is 8</think>\boxed{{{a}}}", a, True, note="the prompt ended in <think>"),
        call(rf"so it is \boxed{{{a}}}</think>I do not know.", a, True, note="the prompt ended in <think>"),
    ]


def _cut_off(rng):
    a = _number(rng)
    return [
        call(r"<think>2</think>\boxed{9}", "9", False, note="the limit came before the end token"),
        call(rf"<think>2</think>\boxed{{{a}}}", a, False),
        call(rf"<think>2</think>\boxed{{{a}}}", a, True),
    ]


def _errors(rng):
    a = _number(rng)
    return [
        call(r"<think>1</think>\boxed{}", "", True, note="an empty truth"),
        call(r"<think>1", "", False, note="an empty truth"),
        call(r"<think>1</think>\boxed{ }", "  ", True, note="a blank truth"),
        call(r"<think>1", "  ", False, note="a blank truth"),
        call(rf"<think>1</think>\boxed{{{a}}}", a, True),
    ]


def _of(strip, reward=grpo.reward_rlvr, finished_matters=True, check=True):
    def solution(completion, truth, finished):
        if check and not truth.strip():
            raise ValueError("truth is empty: give the known answer")
        if finished_matters and not finished:
            return 0.0
        return reward(strip(completion), truth)

    return solution


def _not_at_all(text):
    return text


def _first_close(text):
    return text.partition("</think>")[2] if "</think>" in text else text


def _last_close(text):
    return text.rpartition("</think>")[2]


def _closed_thoughts_cut_out(text):
    return re.sub(r"<think>.*?</think>", "", text, flags=re.DOTALL)


def _needs_a_thought(text):
    return grpo.strip_reasoning(text) if "</think>" in text else ""


def _needs_an_opening(text):
    return grpo.strip_reasoning(text) if text.startswith(("<think>", r"\boxed")) else ""


def _lenient(text, truth):
    return float(truth.strip() in text)


def _first_box(text, truth):
    found = re.search(r"\\boxed\{([^}]*)\}", text)
    return float(found is not None and found.group(1).strip() == truth.strip())


def _any_box(text, truth):
    return float(truth.strip() in [found.strip() for found in re.findall(r"\\boxed\{([^}]*)\}", text)])


def _unstripped(text, truth):
    return float(grpo.extract_boxed_strict(text) == truth)


def _empty_is_equal(completion, truth, finished):
    answer = grpo.extract_boxed_strict(grpo.strip_reasoning(completion)) or ""
    return float(finished and answer.strip() == truth.strip())


def _truth_of_finished_only(completion, truth, finished):
    """The truth is looked at by `grpo.reward_rlvr` alone, which a cut-off rollout never reaches."""
    return grpo.reward_rlvr(grpo.strip_reasoning(completion), truth) if finished else 0.0


def _blank_truth_of_finished_only(completion, truth, finished):
    if truth == "":
        raise ValueError("truth is empty")
    return _truth_of_finished_only(completion, truth, finished)


def _finished_turned_round(completion, truth, finished):
    return 0.0 if finished else grpo.reward_reasoning(completion, truth)


def _bonus_for_finishing(completion, truth, finished):
    return grpo.reward_reasoning(completion, truth) + 0.1 * bool(finished)


def _half_for_cut_off(completion, truth, finished):
    return grpo.reward_reasoning(completion, truth) * (1.0 if finished else 0.5)


def _by_hand(completion, truth, finished):
    if not truth.strip():
        raise ValueError("no truth")
    end = completion.rfind("</think>")
    answer = completion if end < 0 else completion[end + len("</think>") :]
    found = None if "<think>" in answer else grpo.extract_boxed_strict(answer)
    return 1 if finished and found is not None and found.strip() == truth.strip() else 0


BOXED_REWARD = Exercise(
    name="boxed_reward",
    chapter=CHAPTER,
    difficulty=1,
    minutes=10,
    reference=_boxed_reward,
    parts=(
        Part(
            says="the last box behind the thinking decides",
            points=1,
            calls=_answers,
            hint="Two functions of the library do the two steps: one drops the thinking, one pays for the box.",
        ),
        Part(
            says="nothing inside a thought is an answer, whether it closes or not",
            points=2,
            calls=_thoughts,
            hint="What is left of a completion whose thought never closes?",
        ),
        Part(
            says="a rollout that was cut off earns nothing",
            points=1,
            calls=_cut_off,
            hint="`finished` is False where the limit came before the end token.",
        ),
        Part(
            says="an empty truth is a ValueError",
            points=1,
            calls=_errors,
            only_errors=True,
            hint="The truth must be looked at for every rollout, also for one that was cut off.",
        ),
    ),
    mistakes=(
        Mistake(
            "thinking not dropped",
            _of(_not_at_all),
            "The text was taken as it is, thinking included. A guess inside a thought that never closes is paid then, "
            "and the policy learns to guess early and to think on until it is cut off.",
        ),
        Mistake(
            "dropped up to the first closing tag",
            _of(_first_close),
            "The text was cut at the first `</think>`. Where the policy thinks twice, the second thought is taken for "
            "the answer.",
        ),
        Mistake(
            "open thought left in",
            _of(_last_close),
            "A thought that never closes is still in the text: its guess is paid. Cutting at the last `</think>` does "
            "nothing where there is none, and nothing about a thought that opens behind it.",
        ),
        Mistake(
            "closed thoughts cut out by a pattern",
            _of(_closed_thoughts_cut_out),
            "Pairs of tags were cut out. What has no partner stays in: a thought that never closes.",
        ),
        Mistake(
            "no thought, no reward",
            _of(_needs_a_thought),
            "A right answer without any thinking earns nothing. The reward asks for the answer; whether to think is "
            "the policy's own choice.",
        ),
        Mistake(
            "opening tag demanded",
            _of(_needs_an_opening),
            "A completion whose `<think>` stands at the end of the prompt earns nothing, although it closes its "
            "thought and boxes the answer.",
        ),
        Mistake(
            "the number anywhere",
            _of(grpo.strip_reasoning, _lenient),
            "The truth anywhere in the answer is paid, without a box, or as a part of a longer number. Such a reward "
            "is soon found out.",
        ),
        Mistake(
            "first box",
            _of(grpo.strip_reasoning, _first_box),
            "The first box behind the thinking was taken. Where an answer corrects itself, the last one counts.",
        ),
        Mistake(
            "any box",
            _of(grpo.strip_reasoning, _any_box),
            "The truth in any of the boxes is paid. A policy that boxes every number from 0 to 99 is then always "
            "right: only the last box counts.",
        ),
        Mistake(
            "no stripping of white space",
            _of(grpo.strip_reasoning, _unstripped),
            "White space inside the box was compared along: `{ 12 }` is not `12` then.",
        ),
        Mistake(
            "finished ignored",
            _of(grpo.strip_reasoning, finished_matters=False),
            "`finished` changes nothing. A policy that boxes its answer and then never stops is paid in full.",
        ),
        Mistake(
            "finished turned round",
            _finished_turned_round,
            "Only rollouts that were cut off are paid: `finished` is used the wrong way round.",
        ),
        Mistake(
            "half the reward when cut off",
            _half_for_cut_off,
            "A rollout that was cut off still earns a part. The course pays 1 or 0.",
        ),
        Mistake(
            "a bonus for finishing",
            _bonus_for_finishing,
            "Stopping is paid by itself, right or wrong. In an all-wrong group that is then the only difference, and "
            "the policy learns to stop at once.",
        ),
        Mistake(
            "empty counts as equal",
            _empty_is_equal,
            "With an empty truth an empty box is right: accuracy made of missing data. Stop with a ValueError.",
        ),
        Mistake(
            "truth not checked where the rollout was cut off",
            _truth_of_finished_only,
            "An empty truth goes unnoticed where the rollout was cut off. Look at it first.",
        ),
        Mistake(
            "blank truth where the rollout was cut off",
            _blank_truth_of_finished_only,
            "A truth of white space alone goes unnoticed where the rollout was cut off. It is as good as empty.",
        ),
    ),
    alternatives=(
        Alternative("by hand", _by_hand),
        Alternative("reward_reasoning and finished", lambda c, t, f: grpo.reward_reasoning(c, t) * float(f)),
    ),
    shortcuts=("reward_reasoning",),
    hint="`grpo.strip_reasoning`, then `grpo.reward_rlvr`.",
)
