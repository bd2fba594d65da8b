r"""General answers: is what stands in the last \boxed{...} worth the same as the truth?

The box is cut out first, exactly as the strict reward does it (grpo.rewards); only its content is compared. Equal texts
are equal, whatever they mean. Everything else is math-verify's work, in processes that can be killed (math_pool,
math_worker), after a cheap look that keeps the well-known bombs out.

What this reward pays for, and the strict one does not, is a value written otherwise: also one that is not worked out.
For the truth 85 it accepts \boxed{37+48}, a copy of the question. Where the question is itself such a sum, train with
the strict reward.
"""

import importlib.util
import math
import re
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from grpo.checks import require_same_length
from grpo.qwen3.math_pool import WorkerPool
from grpo.rewards import extract_boxed_strict, strip_reasoning

MAX_CHARS = 400
MAX_DEPTH = 12
MAX_DIGITS = 4000  # of a number that a power makes
MAX_FACTORIAL = 1000

_WORKER = Path(__file__).with_name("math_worker.py")
_RIGHT = frozenset({"equal text", "equal value"})

_NUMBER_IN_PARENTHESES = re.compile(
    r"(?:\\left\s*)?\(\s*(\d+)\s*(?:\\right\s*)?\)|(?<![\^\w}])\{\s*(\d+)\s*\}(?=\s*[\^!])"
)
_NUMBER_IN_BRACES = re.compile(r"\{\s*\((\d+)\)\s*\}")
_POWER = re.compile(r"(?<!\d)(\d+)\s*(?:\^|\*\*)\s*(?:\{\s*[+-]?\s*(\d+)\s*\}|[+-]?(\d+))(?!\s*(?:\^|\*\*|!|\d))")
_FACTORIAL = re.compile(r"(?<!\d)(\d+)\s*!")
_HEAVY = re.compile(r"\^|!|\*\*|\\(?:sum|prod|int|binom|lim|log|ln|sin|cos|tan)")


@dataclass(frozen=True)
class Judged:
    """A verdict on one completion.

    score: float, 1.0 or 0.0.
    reason: str. Right: "equal text", "equal value". Wrong: "no box" (none, a broken one, or the thinking never ended),
        "empty box", "different", "answer not parsed", "truth not parsed" (then only equal text counts), "too long",
        "too deep", "too big". Not judged, and so 0.0: "timeout", "worker died", "worker error" (an exception while
        comparing), "batch budget", "no worker".
    """

    score: float
    reason: str


class MathVerifier:
    """Scores completions against known answers, whatever the completions hold.

    A context manager; the workers start at the first need, stay for the next batch, and end with `close()`. Usable
    from a notebook, a script or a thread, on Linux, macOS and Windows.

    Args:
        workers: processes that compare side by side. Most answers take milliseconds: one is enough.
        seconds_per_answer: an answer that takes longer gets 0.0 and costs its worker (a second for a new one).
        seconds_per_batch: what is not judged by then gets 0.0. Starting the first worker does not count.
        clock: a function that gives seconds; a test passes its own.

    Attributes:
        counts: Counter of the reasons of all verdicts so far.
        pool: the WorkerPool, with the numbers of its starts, kills and deaths.

    Raises: ModuleNotFoundError if math-verify is not installed; ValueError for budgets that are not above 0.
    """

    def __init__(self, workers=1, seconds_per_answer=5.0, seconds_per_batch=60.0, clock=time.monotonic):
        if importlib.util.find_spec("math_verify") is None:
            raise ModuleNotFoundError(
                "math-verify is not installed: run  pip install math-verify==0.9.0  or use the strict reward"
            )
        # -P: the folder of the worker's file, with modules named like others, does not come before the libraries.
        command = [sys.executable, "-P", _WORKER]
        self.pool = WorkerPool(command, workers, seconds_per_answer, seconds_per_batch, clock=clock)
        self.counts = Counter()
        self._started = False

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def close(self):
        """End the workers. The verifier stays usable: the next need starts new ones."""
        self.pool.close()

    def scores(self, completions, truths):
        r"""Judge a batch.

        Args:
            completions: N str, whole completions with their thinking and their box.
            truths: N str, the known answers, without a box.

        Returns: list of N Judged, in the order of the completions.

        Raises: ValueError if the lengths differ, if a completion is not a str, or if a truth is not a str or is blank
            (the row is named): slips of the caller. RuntimeError if math-verify does not run at all, at the first
            need. Nothing that a completion holds can raise.
        """
        require_same_length(completions=completions, truths=truths)
        judged = [None] * len(completions)
        questions = {}  # (answer, truth) -> its rows: a group often gives one answer many times
        for row, (completion, truth) in enumerate(zip(completions, truths, strict=True)):
            judged[row], pair = _judge_here(completion, truth, row)
            if pair is not None:
                questions.setdefault(pair, []).append(row)

        # Plain answers first: if the time of the batch runs out, it is the odd ones that have to do without.
        pairs = sorted(questions, key=_weight)
        if pairs and not self._started:
            self.pool.start()
            self._started = True
        for pair, outcome in zip(pairs, self.pool.run([{"answer": a, "truth": t} for a, t in pairs]), strict=True):
            reason = outcome.trouble or outcome.reply.get("reason", "worker error")
            for row in questions[pair]:
                judged[row] = Judged(float(reason in _RIGHT), reason)
        self.counts.update(verdict.reason for verdict in judged)
        return judged


class MathReward:
    """`MathVerifier` as a reward of the trainer: one completion, or a batch.

    Args:
        options: the arguments of MathVerifier, which is made at the first call and ends with the program.
    """

    def __init__(self, **options):
        self._options = options
        self._verifier = None
        self._lock = threading.Lock()

    @property
    def verifier(self):
        """The MathVerifier behind it, with the counts of its reasons."""
        with self._lock:
            if self._verifier is None:
                self._verifier = MathVerifier(**self._options)
            return self._verifier

    def __call__(self, completion, truth, finished=True):
        """The reward of one completion. One that was cut off is scored as it stands, so `finished` is not looked at.

        Returns: float, 0.0 or 1.0. Errors: as in `MathVerifier.scores`.
        """
        return self.batch([completion], [truth])[0]

    def batch(self, completions, truths, finished=None):
        """The rewards of N completions under one budget.

        Returns: list of N floats. Errors: as in `MathVerifier.scores`.
        """
        return [judged.score for judged in self.verifier.scores(completions, truths)]

    def close(self):
        """End the workers; the next call starts new ones."""
        if self._verifier is not None:
            self._verifier.close()


math_reward = MathReward()


def screen(text):
    r"""A cheap look at an answer: would reading it cost far too much?

    It knows the usual bombs, such as 9^{9^{9}} and 99999999!, and what is too long or nested too deeply. What it lets
    through may still be too heavy: that is what the workers are killed for.

    Args:
        text: str, an answer without its box.

    Returns: "too long" (over 400 characters), "too deep" (over 12 brackets open at once), "too big" (a power of over
        4,000 digits or the factorial of a number above 1,000), or None.
    """
    if len(text) > MAX_CHARS:
        return "too long"
    if _depth(text) > MAX_DEPTH:
        return "too deep"
    return "too big" if _is_huge(text) else None


def _judge_here(completion, truth, row):
    """What can be said without math-verify. Returns: (Judged or None, the pair that is left to compare or None)."""
    if not isinstance(completion, str):
        raise ValueError(f"completions[{row}] is {completion!r} ({type(completion).__name__}): pass a string")
    if not isinstance(truth, str) or not truth.strip():
        raise ValueError(f"truths[{row}] is {truth!r}: pass the known answer, a string that is not blank")
    answer, truth = extract_boxed_strict(strip_reasoning(completion)), truth.strip()
    if answer is None:
        return Judged(0.0, "no box"), None
    answer = answer.strip()
    if not answer:
        return Judged(0.0, "empty box"), None
    if answer == truth:
        return Judged(1.0, "equal text"), None
    trouble = screen(answer) or ("truth not parsed" if screen(truth) else None)
    if trouble:
        return Judged(0.0, trouble), None
    return None, (answer, truth)


def _weight(pair):
    answer, truth = pair
    return len(_HEAVY.findall(answer)), len(answer), answer, truth


def _depth(text):
    depth = deepest = 0
    for character in text:
        if character in "{([":
            depth += 1
            deepest = max(deepest, depth)
        elif character in "})]":
            depth = max(depth - 1, 0)
    return deepest


def _is_huge(text):
    # Work out the innermost numbers first, one a round; each round removes a bracket, a power or a factorial.
    for _ in range(len(text)):
        before = text
        text = _NUMBER_IN_PARENTHESES.sub(lambda match: match[1] or match[2], text)
        text = _NUMBER_IN_BRACES.sub(r"{\1}", text)
        if match := _FACTORIAL.search(text):
            number = _as_int(match[1])
            if number > MAX_FACTORIAL:
                return True
            value = math.factorial(number)
        elif match := _POWER.search(text):
            base, exponent = _as_int(match[1]), _as_int(match[2] or match[3])
            if base > 1 and exponent * math.log10(base) > MAX_DIGITS:
                return True
            value = base**exponent
        elif text == before:
            return False
        else:
            continue
        # In an exponent everything of 30 digits is too big, so no more of them need to be carried along.
        value = min(value, 10**30)
        text = f"{text[: match.start()]}{value}{text[match.end() :]}"
    return False


def _as_int(digits):
    return int(digits) if len(digits) <= 30 else 10**30
