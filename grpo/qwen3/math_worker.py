r"""One worker of the math verifier: a program of its own that compares answers until somebody kills it.

It is started by its path, with a fresh interpreter (see math_pool), and imports nothing but math-verify. So a start
costs a second and not the import of torch, and nothing of the main program is run again: not a notebook, not a script
without an `if __name__ == "__main__"`.

Protocol, one JSON object a line: first the worker says {"ready": true}, or {"fatal": why}. Then for each
{"answer": str, "truth": str, "seconds": float} on its standard input it writes {"reason": str}.
"""

import json
import logging
import os
import queue
import re
import sys
import threading
import time

MEMORY_LIMIT = 2 * 1024**3  # bytes of address space; math-verify itself needs about 0.2 GiB

_DELIMITERS = re.compile(r"\\?\$|(?<!\\)\\[()\[\]]|\n")
_SPACE = r"(?:\s|~|\\[,;:!> ]|\\quad)"
_THOUSANDS = re.compile(r"(?<![\d.])\d{1,3}(?:(?:\\,|\\ |~|\s|\{,\}|\\!,|,\\!)\d{3})+(?![\d/])")
_MIXED_NUMBER = re.compile(rf"(?<![\d.^_])(\d+){_SPACE}+(\d+)\s*/\s*(\d+)(?!\d)")
# Two numbers with only space between them would be multiplied; after _, ^ and \frac they are what TeX makes of them.
_TWO_NUMBERS = re.compile(rf"(?<![_^\d.])(?<!frac )\d[\d.]*{_SPACE}+[\d.]")
_PERCENT = re.compile(r"\\text\s*\{\s*percent\s*\}|\s*\bpercent\b")
_BASE = re.compile(r"(?<=\d)_\s*\{?\s*(\d+)\s*\}?")
_TEXT = re.compile(r"\\(?:text(?:bf|it|rm|normal)?|mathrm|mbox)\s*\{([^{}]*)\}")
_WORDS = re.compile(r"[A-Za-z][A-Za-z' -]*[A-Za-z]")
_UNIT_NAMES = (
    r"mm|cm|dm|m|km|in|ft|yd|mi|inch(?:es)?|foot|feet|yards?|miles?|(?:centi|milli|kilo)?met(?:er|re)s?"
    r"|mg|g|kg|grams?|lbs?|pounds?|ml|l|lit(?:er|re)s?|mph|km/h|m/s"
    r"|s|sec(?:ond)?s?|min(?:ute)?s?|h|hr|hours?|days?|weeks?|months?|years?|dollars?|cents?|degrees?|radians?"
    r"|units?|(?:sq(?:uare)?|cubic) (?:units|mm|cm|m|km|in|ft|inches|feet|yards|meters|miles)"
)
# In \text{...} any of them is a unit; bare only those of two letters or more: 5m and 5 s may be products.
_UNIT = re.compile(
    rf"(?:{_SPACE}|(?<=[\d}}]))*(?:\\(?:text|mathrm|mbox)\s*\{{\s*(?:{_UNIT_NAMES})\s*\}}|(?<=[\d\s}}])(?!\w(?!\w))(?:{_UNIT_NAMES}))"
    r"(?:\s*\^\s*\{?[23]\}?)?$"
)


def judge(answer, truth):
    """Is the answer worth the same as the truth? math-verify's verdict, after what it is known to misread.

    Args:
        answer, truth: str, the contents of the box and the known answer, both without a box.

    Returns: str, "equal value", "different", "answer not parsed" or "truth not parsed".

    Raises: whatever sympy raises; the worker reports it.
    """
    import math_verify

    answer, truth = _tidy(answer), _tidy(truth)
    # Without this, letters are factors, and "even" equals every anagram of itself.
    answer_words, truth_words = _as_words(answer), _as_words(truth)
    if truth_words is not None and answer_words is not None:
        return "equal value" if truth_words == answer_words else "different"

    # math-verify drops the base of a number. One may leave it out; two that differ are two numbers.
    bases = set(_BASE.findall(answer)), set(_BASE.findall(truth))
    if all(bases) and bases[0] != bases[1]:
        return "different"

    # A unit may be missing on one side; where both have one, it belongs to the answer.
    answer_bare, answer_unit = _cut_unit(answer)
    truth_bare, truth_unit = _cut_unit(truth)
    if not answer_unit or not truth_unit or answer_unit == truth_unit:
        answer, truth = answer_bare, truth_bare

    gold = _parse(truth)
    if not gold:
        return "truth not parsed"
    given = None if _TWO_NUMBERS.search(answer) else _parse(answer)
    if not given:
        return "answer not parsed"
    equal = math_verify.verify(gold, given, allow_set_relation_comp=True, timeout_seconds=None)
    return "equal value" if equal else "different"


def _tidy(text):
    text = _DELIMITERS.sub(" ", text).strip().rstrip(".,; ").replace(r"\varnothing", r"\emptyset")
    text = _PERCENT.sub(r"\\%", text)
    text = _THOUSANDS.sub(lambda match: re.sub(r"\D", "", match.group()), text)
    return _MIXED_NUMBER.sub(r"\1\\frac{\2}{\3}", text)


def _as_words(text):
    """The words of an answer in words (lower case, single spaces), or None if it is mathematics."""
    bare = _TEXT.sub(r"\1", text).strip()
    if not _WORDS.fullmatch(bare):
        return None
    # ab and xyz are products; four letters and more without a sign between them are taken for a word.
    if bare == text.strip() and len(bare) < 4:
        return None
    return " ".join(bare.lower().split())


def _cut_unit(text):
    """Returns: (the text without its unit, the unit's bare letters and power; "" if there is none)."""
    match = _UNIT.search(text)
    if match is None:
        return text, ""
    return text[: match.start()], re.sub(r"\\text|\\mathrm|\\mbox|[^A-Za-z0-9/]", "", match.group())


def _parse(text):
    from math_verify import LatexExtractionConfig, LatexNormalizationConfig, parse

    # Behind this word math-verify looks for a piece that it can read, and takes it alone: "answer: [3] or 4" is 3.
    if "answer" in text.lower():
        return []
    # boxed="none": the box is already open, and an inner \fbox must not replace the answer around it. units=False:
    # it drops a last letter, so that 5t, 5m and 5 would be equal. The dollars make it all of the text or nothing;
    # without them a fraction in the middle of nonsense would be taken for the answer.
    normalization = LatexNormalizationConfig(
        basic_latex=True, units=False, malformed_operators=True, nits=True, boxed="none"
    )
    target = LatexExtractionConfig(boxed_match_priority=-1, normalization_config=normalization)
    return parse(f"$ {text} $", [target], fallback_mode="no_fallback", parsing_timeout=None)


def _limit_memory():
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    except (ImportError, OSError, ValueError):
        pass  # Windows has no such limit, macOS may refuse it: there the time limit has to do


def _limit_processor_time(seconds):
    # The pool kills a worker that takes too long. This is for the worker whose pool was killed itself.
    try:
        import resource

        soft = int(time.process_time() + seconds) + 2
        resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.getrlimit(resource.RLIMIT_CPU)[1]))
    except (ImportError, OSError, ValueError):
        pass


def main():
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the main program, which ends its workers
    requests, replies = os.fdopen(os.dup(0), "r"), os.fdopen(os.dup(1), "w")
    # Whatever a library prints or asks for goes nowhere and cannot disturb the protocol.
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)

    def reply(**message):
        replies.write(json.dumps(message) + "\n")
        replies.flush()

    logging.disable(logging.CRITICAL)
    try:
        judge("0.5", r"\frac{1}{2}")  # builds math-verify's tables
    except Exception as error:
        reply(fatal=f"{type(error).__name__}: {error}")
        return
    _limit_memory()
    reply(ready=True)

    jobs = queue.SimpleQueue()

    def listen():
        for line in requests:
            jobs.put(line)
        os._exit(0)  # the other end is closed or dead

    threading.Thread(target=listen, daemon=True).start()
    while True:
        job = json.loads(jobs.get())
        _limit_processor_time(job["seconds"])
        try:
            reason = judge(job["answer"], job["truth"])
        except Exception:  # MemoryError and RecursionError too
            reason = "worker error"
        reply(reason=reason)


if __name__ == "__main__":
    sys.exit(main())
