"""A finished function notes that it ran, whoever called it by whatever name, and is otherwise as it was."""

import functools
import importlib.util
import inspect
import sys
from types import ModuleType

import pytest

from grader.exercise import Call
from grader.judge import finished
from grader.judge.inside import _answer
from grader.judge.wire import encode_calls


@pytest.fixture
def course(monkeypatch):
    """A module of grpo's with functions of several kinds, as a kernel has it."""
    module = ModuleType("grpo.trial")
    source = """
import functools

def plain(x, /, y=2, *rest, z=3, **more) -> int:
    "A sum."
    return x + y + sum(rest) + z + sum(more.values())

def through(x):
    return plain(x)

@functools.lru_cache
def wrapped(x):
    return plain(x)

def enclosed():
    inner = 1
    def closure(x):
        return x + inner
    return closure

closure = enclosed()
number = 7
"""
    exec(compile(source, "trial.py", "exec"), module.__dict__)
    monkeypatch.setitem(sys.modules, "grpo.trial", module)
    monkeypatch.setattr(finished, "CALLED", set())
    return module


def test_a_call_is_noted_under_whatever_name(course):
    kept, table, bound = course.plain, {"f": course.plain}, functools.partial(course.plain, 1)
    finished.note_calls(["plain", "number", "nowhere"])
    for call in (kept, table["f"], lambda x: bound(), lambda x: course.through(x), lambda x: course.wrapped(x)):
        finished.CALLED.clear()
        assert call(1) == 6 and finished.CALLED == {"plain"}
    assert course.number == 7


def test_nothing_else_about_it_changes(course):
    before = inspect.signature(course.plain), course.plain.__doc__, course.plain.__name__, course.plain.__annotations__
    finished.note_calls(["plain"])
    finished.note_calls(["plain"])  # once more changes nothing
    assert course.plain(1, 1, 1, 1, z=1, w=1) == 6 and course.plain(0) == 5
    after = inspect.signature(course.plain), course.plain.__doc__, course.plain.__name__, course.plain.__annotations__
    assert after == before and not hasattr(course.plain.__wrapped__, "__wrapped__")
    with pytest.raises(TypeError, match="plain"):
        course.plain()


def test_wrapped_ones_are_noted_and_what_does_not_fit_is_left(course):
    finished.note_calls(["wrapped", "closure"])
    assert course.wrapped(1) == 6 and course.closure(1) == 2 and finished.CALLED == {"wrapped"}


def test_functions_that_are_not_the_course_s_are_left(monkeypatch, course):
    def mine(x):
        return x

    course.mine = mine
    finished.note_calls(["mine"])
    assert mine(1) == 1 and not finished.CALLED


def test_the_judge_is_told_of_the_exercise_s_own_function_alone(course):
    spec = importlib.util.find_spec("grpo.logprobs")  # a copy, so that this process stays as it is
    copy = importlib.util.module_from_spec(spec)
    sys.modules["grpo.trial"] = copy
    spec.loader.exec_module(copy)
    calls = encode_calls([Call(([[1.0, 2.0]],))])
    names = {"log_softmax": lambda logits: copy.__dict__["log_softmax"](logits)}
    said = _answer("log_softmax", calls, names)
    assert said["finished"] is True
    assert "finished" not in _answer("log_softmax", calls, {"log_softmax": lambda logits: logits})
