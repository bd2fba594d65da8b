r"""Rewards that a rule can verify: is the text in the last \boxed{...} the known answer?"""

import re

import numpy as np

from grpo.checks import as_floats, require_same_length

# TeX reads the longest run of letters as the name of a command, so \boxedfoo is another command.
_BOX = re.compile(r"\\boxed(?![A-Za-z])\s*")
# A backslash takes the next character with it: \{ and \} are printed braces and enclose nothing.
_ESCAPE_OR_BRACE = re.compile(r"\\.|[{}]")


def extract_boxed_strict(text):
    r"""The content of the last \boxed{...}, exactly as written, or None if that box is missing or broken.

    - Only the last \boxed counts. If it is broken there is no answer: paying an earlier box would teach the
      policy to box early and then run on until it is cut off.
    - White space may stand between \boxed and its opening brace; anything else there, as in \boxed 5, means
      no answer.
    - Braces are counted: \boxed{\frac{3}{7}} gives \frac{3}{7}. Escaped ones, \{ and \}, do not count.
    - \boxedfoo{5} and \fbox{5} are other commands: they hold no answer and do not hide an earlier box.

    Args:
        text: str, one completion.

    Returns: str (it may be empty or have outer white space), or None.

    Raises: ValueError if text is not a string.
    """
    _require_text(text, "text")
    boxes = list(_BOX.finditer(text))
    if not boxes:
        return None
    start = boxes[-1].end()
    if not text.startswith("{", start):
        return None

    depth = 0
    for token in _ESCAPE_OR_BRACE.finditer(text, start):
        depth += {"{": 1, "}": -1}.get(token.group(), 0)
        if depth == 0:
            return text[start + 1 : token.start()]
    return None


def strip_reasoning(completion):
    """The part of a completion that is meant as the answer: everything after the last </think>.

    A <think> that is still open at the end leaves nothing at all: the rollout was cut off in mid-thought, and
    a guess inside the thinking is not an answer. If the prompt already ends in <think>, put that tag in front
    of the completion first; without it a cut-off thought cannot be told from an answer.

    Args:
        completion: str.

    Returns: str, possibly empty.

    Raises: ValueError if completion is not a string.
    """
    _require_text(completion, "completion")
    answer = completion.rpartition("</think>")[2]
    return "" if "<think>" in answer else answer


def reward_rlvr(text, truth):
    """1.0 if the last box of the text holds the truth, else 0.0 (a verifiable reward).

    Outer white space is stripped on both sides; then the strings must be equal. No eval and no algebra: an
    odd answer can neither hang nor crash a run.

    Args:
        text: str, one completion, with its box.
        truth: str, the known answer, not blank.

    Returns: float, 0.0 or 1.0.

    Raises: ValueError if text is not a string, or if truth is not a string or is blank.

    Source: the rule-based outcome reward of DeepSeek-R1 (arXiv 2501.12948), section 2.2.2.
    """
    truth = _clean_truth(truth, "truth")
    answer = extract_boxed_strict(text)
    return float(answer is not None and answer.strip() == truth)


def reward_reasoning(completion, truth):
    """`reward_rlvr` of what `strip_reasoning` leaves: boxes inside the thinking do not count.

    Args, returns and errors: as in `reward_rlvr`.
    """
    return reward_rlvr(strip_reasoning(completion), truth)


def reward_lenient(text, truth):
    r"""A verifier that is lenient ON PURPOSE, for chapter 01 to break. Never train with it.

    It pays 1.0 in exactly two cases, after all commas are deleted from the text and the truth:

    1. Any \boxed{ in the text, the last or not, is followed by the truth and then by a } or the end of the
       text. The content is read up to the first }, and its outer white space is stripped. So boxing every
       candidate pays, and so does a box that never closes.
    2. The truth appears anywhere in the last 50 characters of the text (cut before the commas are deleted),
       even as part of a longer number or word. So "not 83" pays for 83, and so does a list of all numbers.

    Args:
        text: str, one completion.
        truth: str, the known answer, not blank.

    Returns: float, 0.0 or 1.0.

    Raises: ValueError as in `reward_rlvr`, and if the truth consists of commas only.
    """
    _require_text(text, "text")
    truth = _clean_truth(_clean_truth(truth, "truth").replace(",", ""), "truth without commas")
    boxes = re.findall(r"\\boxed\s*\{([^}]*)", text.replace(",", ""))
    if truth in [box.strip() for box in boxes]:
        return 1.0
    return float(truth in text[-50:].replace(",", ""))


def score_completions(reward_fn, completions, truths):
    """Call a batch reward function and check what it gives back.

    Args:
        reward_fn: callable (list of N completions, list of N truths) -> N numbers.
        completions: N completions.
        truths: N truths.

    Returns: (N,) float64 rewards, in the order of the completions. Ints and bools are cast.

    Raises: ValueError if the lengths differ, if there is nothing to score, if reward_fn returns another
        number of rewards (a single one would be broadcast to the whole batch), or if a reward is NaN, None or
        infinite (the row is named).
    """
    require_same_length(completions=completions, truths=truths)
    expected = len(completions)
    if expected == 0:
        raise ValueError("completions is empty: there is nothing to score")

    rewards = as_floats(reward_fn(list(completions), list(truths)), "the result of reward_fn")
    if rewards.shape != (expected,):
        raise ValueError(
            f"rewards: {expected} expected, {rewards.size} received, in an array of shape {rewards.shape}: "
            f"reward_fn must return one number per completion, shape ({expected},)"
        )
    bad_rows = np.flatnonzero(~np.isfinite(rewards))
    if bad_rows.size:
        row = bad_rows[0]
        raise ValueError(f"rewards[{row}] is {rewards[row]}: make reward_fn return a finite number for row {row}")
    return rewards


def checkpoint_accuracy(predictions, truths):
    """Share of problems that a checkpoint gets right.

    Args:
        predictions: N extracted answers, each a str, or None for "no answer" (always wrong). These are the
            results of `extract_boxed_strict`, not whole completions.
        truths: N known answers, each a str that is not blank.

    Returns: float in [0, 1].

    Raises: ValueError if the lengths differ, if there are no problems, if a prediction is neither a str nor
        None, or if a truth is not a str or is blank (the row is named).
    """
    require_same_length(predictions=predictions, truths=truths)
    if len(predictions) == 0:
        raise ValueError("predictions is empty: an accuracy needs at least one problem")

    correct = 0
    for row, (prediction, truth) in enumerate(zip(predictions, truths, strict=True)):
        truth = _clean_truth(truth, f"truths[{row}]")
        if prediction is not None:
            _require_text(prediction, f"predictions[{row}]")
            correct += prediction.strip() == truth
    return correct / len(predictions)


def _require_text(value, name):
    if not isinstance(value, str):
        raise ValueError(f"{name} is {value!r} ({type(value).__name__}): pass a string")


def _clean_truth(truth, name):
    _require_text(truth, name)
    # With an empty truth an empty answer would count as right: accuracy made of missing data.
    if not truth.strip():
        raise ValueError(f"{name} is {truth!r}: pass the known answer; an empty one must never count as right")
    return truth.strip()
