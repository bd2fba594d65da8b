"""The verifier: what a response earns. Pure functions of tokens; they know no policy and keep no state."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from grpo.checks import as_floats, as_integers, require_same_length
from grpo.expressions.game import END, NUMBERS, evaluate, explain_malformed


@dataclass(frozen=True)
class Verdict:
    """What the verifier found.

    well_formed: the response is an expression followed by one end token.
    correct: it is, and its value is the target.
    value: its value, None if it is malformed.
    reason: why it is malformed, "" if it is not.
    """

    well_formed: bool
    correct: bool
    value: int | None
    reason: str


@dataclass(frozen=True)
class RewardWeights:
    """The weights of the three reward terms, in units of reward, each >= 0.

    format: for a well-formed response. Under a grammar mask every response earns it, so it cancels in the group.
    accuracy: for the right value.
    length: of the Kimi k1.5 length term. 0 switches it off.
    gated: the length term counts only in a group with at least one right answer.
    """

    format: float = 0.1
    accuracy: float = 1.0
    length: float = 0.0
    gated: bool = False

    def __post_init__(self):
        for name in ("format", "accuracy", "length"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.0 <= value < np.inf:
                raise ValueError(f"the {name} weight is {value!r}: pass a finite number that is 0 or more")


def verify(response, target, numbers=NUMBERS):
    """Read one response.

    Args:
        response: sequence of strings, the end token included: ["2", "+", "3", "END"].
        target: int, the value asked for.
        numbers: the number tokens that may be used, each at most once.

    Returns: Verdict. A malformed response is never an error: it is rejected, with a reason.
    """
    response = list(response)
    if END not in response:
        return Verdict(False, False, None, "the end token is missing: the response was cut off")
    first_end = response.index(END)
    if first_end != len(response) - 1:
        return Verdict(False, False, None, f"token {response[first_end + 1]!r} comes after the end token")
    reason = explain_malformed(response[:first_end], numbers)
    if reason is not None:
        return Verdict(False, False, None, reason)
    value = evaluate(response[:first_end], numbers)
    return Verdict(True, value == target, value, "")


def length_terms(lengths, correct, gated=False):
    """The length term of one group: short right answers earn, long answers pay.

    lambda = .5 - (length - min) / (max - min) over the group; a right answer gets lambda, a wrong one min(0, lambda);
    all get 0 if all lengths are equal.

    Args:
        lengths: (G,) integers, tokens per response.
        correct: (G,) bools.
        gated: give 0 to a group without a right answer.

    Returns: (G,) float64 in [-.5, .5].

    Raises: ValueError if the two are not flat, differ in length, or are empty.

    Source: Kimi k1.5 (arXiv 2501.12599), section 2.3.3. The gate is not in the paper.
    """
    lengths, correct = as_integers(lengths, "lengths"), np.asarray(correct, dtype=bool)
    if lengths.ndim != 1 or correct.ndim != 1 or lengths.size == 0:
        raise ValueError(f"lengths has shape {lengths.shape}, correct {correct.shape}: pass (G,) and (G,), G >= 1")
    require_same_length(lengths=lengths, correct=correct)
    return batched_length_terms(lengths, correct, gated)


def batched_length_terms(lengths, correct, gated=False):
    """`length_terms` for any number of groups at once: the group is the last axis.

    Args:
        lengths: (..., G).
        correct: (..., G) bool.
        gated: as in `length_terms`.

    Returns: (..., G) float64.
    """
    shortest = lengths.min(axis=-1, keepdims=True)
    spread = lengths.max(axis=-1, keepdims=True) - shortest
    term = 0.5 - (lengths - shortest) / np.maximum(spread, 1)
    term = np.where(correct, term, np.minimum(term, 0.0))
    counts = spread > 0
    if gated:
        counts = counts & correct.any(axis=-1, keepdims=True)
    return np.where(counts, term, 0.0)


def group_rewards(responses, target, weights=RewardWeights(), numbers=NUMBERS):
    """The rewards of one group: format, accuracy and length term, weighted and added.

    Args:
        responses: G sequences of strings, each with its end token.
        target: int.
        weights: RewardWeights.
        numbers: the number tokens that may be used.

    Returns: (G,) float64.

    Raises: ValueError if there are no responses.
    """
    if len(responses) == 0:
        raise ValueError("responses is empty: there is nothing to reward")
    verdicts = [verify(response, target, numbers) for response in responses]
    correct = np.array([verdict.correct for verdict in verdicts])
    rewards = as_floats([weights.format * verdict.well_formed for verdict in verdicts], "rewards")
    rewards = rewards + weights.accuracy * correct
    if weights.length:
        lengths = np.array([len(response) for response in responses])
        rewards = rewards + weights.length * length_terms(lengths, correct, weights.gated)
    return rewards
