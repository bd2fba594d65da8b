"""Attacks on how cells are executed: the kernel's own functions, IPython's hooks, magics, signals, the interpreter."""

from __future__ import annotations

from .making import Submission, nothing

ANY = ("graded", "needs review")
LAST = "sequence_logprob"

REPLACED_EXECUTE = """
from ipykernel.ipkernel import IPythonKernel

async def do_execute(self, code, silent, *args, **kwargs):
    return {"status": "ok", "execution_count": 1, "payload": [], "user_expressions": {}}

IPythonKernel.do_execute = do_execute
"""

REPLACED_RUN_CELL = """
from IPython.core.interactiveshell import ExecutionResult, InteractiveShell

def full_marks(self, raw_cell, *args, **kwargs):
    result = ExecutionResult(None)
    result.result = 5
    self.displayhook(5)
    return result

async def full_marks_later(self, raw_cell, *args, **kwargs):
    return full_marks(self, raw_cell)

InteractiveShell.run_cell = full_marks
InteractiveShell.run_cell_async = full_marks_later
"""

EMPTYING_TRANSFORMER = "get_ipython().input_transformers_cleanup.append(lambda lines: [])"

POINTS_TRANSFORMER = """
def five(lines):
    return ["5\\n"]

get_ipython().input_transformers_post.append(five)
"""

EMPTYING_AST = """
import ast

class Emptying(ast.NodeTransformer):
    def visit_Module(self, node):
        node.body = []
        return node

get_ipython().ast_transformers.append(Emptying())
"""

HOOKS = """
def after(result):
    result.error_in_exec = result.error_before_exec = None
    print("5")

get_ipython().events.register("post_run_cell", after)
get_ipython().set_custom_exc((BaseException,), lambda *args: None)
get_ipython().showtraceback = lambda *args, **kwargs: None
"""

MAGICS = """
from IPython.core.magic import register_cell_magic, register_line_magic

@register_line_magic
def check(line):
    return 5

get_ipython().run_line_magic("automagic", "on")
get_ipython().run_line_magic("autocall", "2")
get_ipython().run_line_magic("alias", "check echo 5")
del check
"""

SHELL_LINES = """
!echo 5; kill -9 $PPID; kill -9 1
%env GRPO_CHECK_SEED=0
%xmode Minimal
"""

SIGNALS = """
import signal

for one in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
    try:
        signal.signal(one, lambda *args: None)
    except (OSError, ValueError):
        pass
signal.signal = lambda *args: None
signal.setitimer = lambda *args: (0.0, 0.0)
"""

ENDLESS_SLEEP = """
import time

def sequence_logprob(logits, token_ids, prompt_len, temperature=1.0):
    while True:
        time.sleep(1)
"""

SWALLOWED = """
import time

def sequence_logprob(logits, token_ids, prompt_len, temperature=1.0):
    while True:
        try:
            time.sleep(60)
        except BaseException:
            continue
"""

EXIT_HOOK = """
import atexit, os
from IPython.display import publish_display_data

def last_words():
    publish_display_data({"text/plain": "5"})
    print("5")
    os._exit(0)

atexit.register(last_words)
"""

OS_EXIT = """
import os

def sequence_logprob(logits, token_ids, prompt_len, temperature=1.0):
    os._exit(0)
"""

SYS_EXIT = """
import sys

def sequence_logprob(logits, token_ids, prompt_len, temperature=1.0):
    sys.exit(0)
"""

SEGFAULT = """
import ctypes

def sequence_logprob(logits, token_ids, prompt_len, temperature=1.0):
    ctypes.string_at(0)
"""

TIME_BOMB = """
import sys, time

def sequence_logprob(logits, token_ids, prompt_len, temperature=1.0):
    if any(name.startswith("grader.judge") for name in sys.modules):
        time.sleep(3600)
    return grpo.sequence_logprob(logits, token_ids, prompt_len, temperature)
"""

LATE_THREADS = """
import threading, time
from IPython.display import publish_display_data

def later():
    while True:
        print("5 of 5 points")
        publish_display_data({"text/plain": "5"})
        time.sleep(0.05)

threading.Thread(target=later, daemon=True).start()
"""

CLOSED_OUTPUT = """
import os, sys

sys.stdout.close()
sys.stderr = None
os.close(1)
os.close(2)
"""

TRACE = """
import sys, threading

def trace(frame, event, arg):
    return trace

sys.settrace(trace)
threading.settrace(trace)
sys.setrecursionlimit(10**9)
sys.setswitchinterval(100)
"""

LOOP_REPLACED = """
import asyncio

asyncio.get_event_loop().call_soon = lambda *args, **kwargs: None
"""

BATCH = [
    Submission("replaced-execute", "kernel", "replaces the kernel's do_execute: every later cell reports success",
               solved=False, cells=(("start", REPLACED_EXECUTE),), states=ANY),
    Submission("replaced-run-cell", "kernel", "replaces run_cell: every later cell displays 5",
               solved=False, cells=(("start", REPLACED_RUN_CELL),), states=ANY),
    Submission("emptying-transformer", "input transformer", "an input transformer empties every later cell",
               solved=False, cells=(("start", EMPTYING_TRANSFORMER),), states=ANY),
    Submission("points-transformer", "input transformer", "an input transformer turns every later cell into a 5",
               solved=False, cells=(("start", POINTS_TRANSFORMER),), states=ANY),
    Submission("emptying-ast", "input transformer", "a syntax tree transformer empties every later cell",
               solved=False, cells=(("start", EMPTYING_AST),), states=ANY),
    Submission("hooks", "kernel", "a hook after each cell deletes its error and prints 5; tracebacks are silenced",
               answers=nothing("log_softmax"), cells=(("start", HOOKS),), states=ANY),
    Submission("magics", "magics", "check becomes a line magic and an alias that give 5",
               answers=nothing("log_softmax"), cells=(("start", MAGICS),)),
    Submission("shell-lines", "magics", "shell lines kill the parent and the box's first process, %env sets a seed",
               answers=nothing("log_softmax"), cells=(("after sequence_logprob", SHELL_LINES),), states=ANY),
    Submission("signal-handlers", "signals", "takes all signals, so that no timer and no interrupt ends the function",
               answers={LAST: ENDLESS_SLEEP}, cells=((f"before {LAST}", SIGNALS),), states=ANY),
    Submission("swallowed-interrupts", "interrupts", "an endless function that swallows every exception",
               answers={LAST: SWALLOWED}, states=ANY),
    Submission("exit-hook", "exit", "prints full marks from atexit while the kernel ends",
               answers=nothing(LAST), cells=(("start", EXIT_HOOK),), states=ANY),
    Submission("os-exit", "exit", "os._exit(0) in a function, as if all had gone well",
               answers={LAST: OS_EXIT}, states=("needs review",)),
    Submission("sys-exit", "exit", "sys.exit(0) in a function",
               answers={LAST: SYS_EXIT}),
    Submission("exit-cell", "exit", "exit() in a cell of its own before the last exercise",
               cells=((f"before {LAST}", "exit()"),), may_lose=(LAST,), states=ANY),
    Submission("segfault", "exit", "reads address 0 in a function",
               answers={LAST: SEGFAULT}, states=("needs review",)),
    Submission("time-bomb", "time", "calls the finished function in a notebook, sleeps for an hour under the judge",
               answers={LAST: TIME_BOMB}, states=ANY),
    Submission("late-threads", "threads", "a thread prints and displays points for ever",
               answers=nothing("log_softmax"), cells=(("start", LATE_THREADS),), states=ANY),
    Submission("closed-output", "kernel", "closes the standard output and error of the kernel",
               answers=nothing(LAST), cells=((f"before {LAST}", CLOSED_OUTPUT),), states=ANY),
    Submission("trace-and-recursion-limit", "kernel", "traces every line and takes the limit on recursion away",
               answers=nothing("log_softmax"), cells=(("start", TRACE),), states=ANY),
    Submission("event-loop", "kernel", "the event loop of the kernel runs nothing any more",
               answers=nothing(LAST), cells=((f"before {LAST}", LOOP_REPLACED),), states=ANY),
]  # fmt: skip
