"""Bombs: memory, processes, threads, files, output, recursion. All are bounded, so that they are safe without a box."""

from __future__ import annotations

from .making import Submission, nothing

ANY = ("graded", "needs review")
LAST = "sequence_logprob"

MEMORY = """
def sequence_logprob(logits, token_ids, prompt_len, temperature=1.0):
    return bytearray(10**13)
"""

MEMORY_STEPS = """
kept = []

def sequence_logprob(logits, token_ids, prompt_len, temperature=1.0):
    for _ in range(6):
        kept.append(bytearray(100_000_000))
    return np.zeros((10**6, 10**6))
"""

MEMORY_CELL = """
import numpy as np

big = [np.ones(10_000_000) for _ in range(5)]
np.zeros((10**7, 10**7)) + 1
"""

MEMORY_CHILDREN = """
import os, time

def sequence_logprob(logits, token_ids, prompt_len, temperature=1.0):
    for _ in range(4):
        if os.fork() == 0:
            kept = bytearray(100_000_000)
            time.sleep(4)
            os._exit(0)
    return None
"""

FORKS = """
import os, time

def sequence_logprob(logits, token_ids, prompt_len, temperature=1.0):
    for _ in range(400):
        try:
            if os.fork() == 0:
                time.sleep(4)
                os._exit(0)
        except OSError:
            break
    return None
"""

THREADS = """
import threading, time

def sequence_logprob(logits, token_ids, prompt_len, temperature=1.0):
    for _ in range(400):
        threading.Thread(target=time.sleep, args=(4,), daemon=True).start()
    return None
"""

FILES = """
import os

for folder in (".", "/tmp", "/dev/shm"):
    try:
        for number in range(5):
            with open(os.path.join(folder, f"big{number}"), "wb") as file:
                file.write(bytes(30_000_000))
    except OSError as error:
        print(type(error).__name__)
kept = []
try:
    for _ in range(2_000):
        kept.append(open("/dev/null"))
except OSError as error:
    print(type(error).__name__)
del kept
"""

MANY_FILES = """
import os

try:
    for number in range(20_000):
        os.mkdir(f"/tmp/{number:0200d}")
except OSError as error:
    print(number, type(error).__name__)
"""

SOCKETS_FULL = """
import pathlib, sys, time

folder = pathlib.Path(sys.argv[sys.argv.index("-f") + 1]).parent
for number in range(300):
    (folder / f"big{number}").write_bytes(bytes(1_000_000))
    time.sleep(0.02)
"""

FOLDERS = """
import os, sys, time

at = os.open(os.path.dirname(sys.argv[sys.argv.index("-f") + 1]), os.O_RDONLY)
for number in range(1500):
    os.mkdir("x" * 60, dir_fd=at)
    below = os.open("x" * 60, os.O_RDONLY, dir_fd=at)
    os.close(at)
    at = below
time.sleep(2)
"""

LONG_ERROR = """
raise FileNotFoundError("No such file or directory: " + "not found, not found, " * 60_000 + "nothing.csv")
"""

# Each name before a dot was looked up once a dot.
CHAINS = "x = 1\nif x > 1:\n    " + "x" + ".a" * 700 + "\n"

OUTPUT = """
for _ in range(100):
    print("5 of 5 points " * 70_000)
"""

OUTPUT_LINES = """
import sys

for number in range(30_000):
    print(number)
    print(number, file=sys.stderr)
"""

DISPLAYS = """
from IPython.display import HTML, display

for number in range(3_000):
    display(HTML("<script>document.title = 'x'</script>" + "x" * 3_000))
"""

ONE_MESSAGE = """
from IPython.display import publish_display_data

publish_display_data({"text/plain": "x" * 100_000_000})
"""

OUTPUT_IN_FUNCTION = """
import os, sys

def sequence_logprob(logits, token_ids, prompt_len, temperature=1.0):
    for _ in range(50):
        print("x" * 100_000)
        print("x" * 100_000, file=sys.__stdout__)
        os.write(1, b"x" * 100_000)
    return None
"""

RECURSION = """
def sequence_logprob(logits, token_ids, prompt_len, temperature=1.0):
    return sequence_logprob(logits, token_ids, prompt_len, temperature)
"""

RECURSION_IN_C = """
import sys

sys.setrecursionlimit(10**6)

def sequence_logprob(logits, token_ids, prompt_len, temperature=1.0):
    deep = []
    for _ in range(200_000):
        deep = [deep]
    return repr(deep)
"""

DEEP_VALUE = """
def sequence_logprob(logits, token_ids, prompt_len, temperature=1.0):
    deep = 0.0
    for _ in range(100_000):
        deep = (deep,)
    return deep
"""

LONG_NUMBER = """
def sequence_logprob(logits, token_ids, prompt_len, temperature=1.0):
    return -(7**100_000)
"""

REGEX = r"""
import re

def sequence_logprob(logits, token_ids, prompt_len, temperature=1.0):
    return float(bool(re.match(r"(a|aa|aaa)*b", "a" * 60)))
"""

WARNINGS = """
import warnings

def sequence_logprob(logits, token_ids, prompt_len, temperature=1.0):
    for number in range(20_000):
        warnings.warn(f"warning {number} " + "x" * 100)
    return None
"""


def function(name, kind, tries, source, **more):
    """An attack inside the last exercise's function."""
    return Submission(name, kind, tries, answers={LAST: source}, **{"states": ANY, **more})


def cell(name, kind, tries, source, place=f"before {LAST}", **more):
    """An attack in a cell of its own."""
    return Submission(name, kind, tries, answers=nothing(LAST), cells=((place, source),), **{"states": ANY, **more})


BATCH = [
    function("memory", "memory", "asks for ten terabytes", MEMORY),
    function("memory-in-steps", "memory", "takes 600 MB, then asks for eight terabytes", MEMORY_STEPS),
    cell("memory-in-a-cell", "memory", "takes 400 MB, then asks for 800 terabytes", MEMORY_CELL),
    function("memory-of-children", "memory", "four children with 100 MB each", MEMORY_CHILDREN),
    function("fork-bomb", "fork bomb", "400 processes that stay for four seconds", FORKS),
    function("thread-bomb", "fork bomb", "400 threads that stay for four seconds", THREADS),
    cell("disk-full", "disk full", "450 MB in files, and 2,000 open ones", FILES),
    cell("many-files", "disk full", "20,000 folders", MANY_FILES),
    cell("sockets-folder-full", "disk full", "300 MB into the folder that the judge shares with the box", SOCKETS_FULL,
         states=("needs review",)),
    cell("folders-without-end", "disk full", "1,500 folders in folders beside the judge's sockets", FOLDERS,
         states=("needs review",)),
    cell("error-without-end", "output", "an error of a megabyte about a missing file", LONG_ERROR),
    cell("chains-without-end", "time", "chains of dots that take long to follow", CHAINS * 40),
    cell("output-100-mb", "output", "prints 100 MB", OUTPUT, place="start"),
    cell("output-lines", "output", "60,000 lines, half of them to standard error", OUTPUT_LINES),
    cell("output-displays", "output", "3,000 displays with scripts", DISPLAYS),
    cell("output-one-message", "output", "one message of 100 MB", ONE_MESSAGE),
    function("output-in-function", "output", "15 MB from inside the function, past the judge's module",
             OUTPUT_IN_FUNCTION),
    function("recursion", "recursion", "a function that calls itself for ever", RECURSION),
    function("recursion-in-c", "recursion", "the text of a list nested 200,000 deep", RECURSION_IN_C),
    function("deep-value", "recursion", "returns a tuple nested 100,000 deep", DEEP_VALUE),
    function("long-number", "wrong answers", "a whole number of 84,510 digits", LONG_NUMBER),
    function("regular-expression", "time", "a regular expression that takes years, in compiled code", REGEX),
    function("warnings", "output", "20,000 warnings in each call", WARNINGS),
]  # fmt: skip
