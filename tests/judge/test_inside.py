"""What the judge's hand in the kernel does with the names that it finds there."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
from IPython.core.interactiveshell import InteractiveShell

from grader.exercises import EXERCISES
from grader.judge.inside import ANSWER_MIME, MISSING, NO_FUNCTION, _answer, answer, publish, question
from grader.judge.wire import decode_outcomes, encode_calls


def calls_of(name):
    import numpy as np

    return [one for part in EXERCISES[name].parts for one in part.calls(np.random.default_rng(1))][:2]


def test_the_function_that_bears_the_name_is_called():
    calls = calls_of("log_softmax")
    got = _answer("log_softmax", encode_calls(calls), {"log_softmax": lambda logits: 7.0, "other": None})
    assert set(got) == {"outcomes"}
    assert [one.value for one in decode_outcomes(got["outcomes"], len(calls))] == [7.0, 7.0]


def test_it_is_called_by_way_of_the_exercise_s_adapter(monkeypatch):
    calls = calls_of("log_softmax")
    around = replace(EXERCISES["log_softmax"], adapter=lambda fn, names: lambda logits: (fn(logits), names))
    monkeypatch.setitem(EXERCISES, "log_softmax", around)
    got = _answer("log_softmax", encode_calls(calls), {"log_softmax": lambda logits: 7.0})
    assert decode_outcomes(got["outcomes"], len(calls))[0].value == (7.0, ["logits"])


def test_the_answer_is_shown_by_the_shell_that_runs_the_notebook(monkeypatch):
    sent = []
    publisher = type("Publisher", (), {"publish": lambda self, data, metadata: sent.append((data, metadata))})()
    shell = SimpleNamespace(user_ns={"log_softmax": 3}, display_pub=publisher)
    monkeypatch.setattr(InteractiveShell, "instance", lambda: shell)
    answer("log_softmax", "[]")
    assert sent == [({ANSWER_MIME: {"problem": NO_FUNCTION}, "text/plain": ""}, {})]


@pytest.mark.parametrize(
    "names, problem", [({}, MISSING), ({"log_softmax": 3}, NO_FUNCTION), ({"log_softmax": None}, NO_FUNCTION)]
)
def test_where_there_is_none_the_judge_is_told(names, problem):
    assert _answer("log_softmax", encode_calls(calls_of("log_softmax")), names) == {"problem": problem}


def test_the_question_is_one_line_of_python_that_needs_no_name_of_the_notebook():
    asked = []
    line = question("log_softmax", encode_calls(calls_of("log_softmax")))
    module = type("Module", (), {"answer": staticmethod(lambda *words: asked.append(words))})
    importing = type("Importing", (), {"import_module": staticmethod(lambda name: module)})
    eval(line, {"__builtins__": {"__import__": lambda name: importing}})
    ((name, calls),) = asked
    assert name == "log_softmax" and len(json.loads(calls)) == 2 and "\n" not in line


def test_the_answer_is_published_whatever_stands_in_the_publisher_s_place():
    class Publisher:
        def __init__(self):
            self.sent = []

        def publish(self, data, metadata):
            self.sent.append((data, metadata))

    publisher = Publisher()
    publisher.publish = None  # a student's notebook has put something else there
    publish({ANSWER_MIME: {"outcomes": "[]"}}, publisher)
    assert publisher.sent == [({ANSWER_MIME: {"outcomes": "[]"}}, {})]
