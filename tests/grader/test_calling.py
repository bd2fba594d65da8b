"""Calling a student's function: nothing it does may get out."""

import builtins
import os
import random
import signal
import sys
import time
import warnings

import numpy as np
import pytest

from grader.calling import MAX_PRINTED, call_all, call_once
from grader.exercise import call
from grader.plain import NotPlain, Rng

posix = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no interval timer on this system")


def test_a_value_comes_back_as_plain_data():
    outcome = call_once(lambda a, b=0: np.float32(a + b), call(1, b=2))
    assert outcome.kind == "value" and outcome.value == 3 and outcome.value.dtype == np.float32


def test_an_exception_brings_the_students_own_line():
    def f(x):
        y = x + 1
        return y.missing

    raised = call_once(f, call(1)).raised
    assert raised.type_name == "AttributeError" and "y.missing" in raised.where and not raised.is_value_error
    line = f.__code__.co_firstlineno + 2
    assert raised.where.startswith(f"line {line}:")


def test_the_students_line_is_shown_when_a_library_raises():
    def f(x):
        return np.reshape(x, (2, 3))

    raised = call_once(f, call([1, 2])).raised
    assert raised.is_value_error and "np.reshape" in raised.where


def test_a_line_of_compiled_code_is_not_the_students():
    def f(rng):
        return rng.choice(3, size=6, replace=False)

    assert "rng.choice" in call_once(f, call(Rng(0))).raised.where


@pytest.mark.parametrize("error", [SystemExit(0), GeneratorExit(), RecursionError("deep"), KeyError("k")])
def test_every_kind_of_exception_is_caught(error):
    def f():
        raise error

    assert call_once(f, call()).raised.type_name == type(error).__name__


def test_an_exception_whose_message_cannot_be_read():
    class Odd(Exception):
        def __str__(self):
            raise SystemExit

    def f():
        raise Odd

    assert "could not be read" in call_once(f, call()).raised.message


def test_the_untouched_stub_is_not_attempted_and_ends_the_calls():
    seen = []

    def f(x):
        seen.append(x)
        raise NotImplementedError()

    outcomes = call_all(f, [call(1), call(2)])
    assert [o.kind for o in outcomes] == ["not attempted", "not run"] and seen == [1]


@posix
def test_an_endless_loop_is_stopped_and_later_calls_are_not_made():
    def f(x):
        while x:
            pass
        return x

    outcomes = call_all(f, [call(0), call(1), call(0)], seconds=0.2)
    assert [o.kind for o in outcomes] == ["value", "timeout", "not run"]


@posix
@pytest.mark.parametrize("swallow", [Exception, BaseException])
def test_an_endless_loop_that_swallows_exceptions_is_stopped(swallow):
    def f():
        while True:
            try:
                while True:
                    pass
            except swallow:
                pass

    tracer = sys.gettrace()
    assert call_all(f, [call()], seconds=0.2)[0].kind == "timeout"
    assert sys.gettrace() is tracer


@posix
def test_the_timer_and_its_handler_are_put_back():
    before = signal.getsignal(signal.SIGALRM)
    call_all(lambda: 1, [call()])
    assert signal.getsignal(signal.SIGALRM) is before and signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_the_stop_button_ends_the_check():
    def f(x):
        raise KeyboardInterrupt

    assert [o.kind for o in call_all(f, [call(1), call(2)])] == ["interrupted", "not run"]


def test_output_is_kept_short_and_off_the_screen(capfd):
    def f():
        print("x" * 10 * MAX_PRINTED)
        print("to stderr", file=sys.stderr)
        return 1

    outcome = call_once(f, call())
    assert len(outcome.printed) == MAX_PRINTED and capfd.readouterr() == ("", "")


def test_warnings_are_noted_and_do_not_get_out():
    def f():
        for _ in range(3):
            warnings.warn("careful", stacklevel=1)
        return np.float64(1) / np.float64(0)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        outcome = call_once(f, call())
    assert outcome.kind == "value" and outcome.warned[0] == "careful" and len(outcome.warned) == 2


def test_changed_arguments_are_named_and_the_callers_data_is_untouched():
    def f(rewards, other):
        rewards[0] = 5
        other.append(1)

    one = call(np.zeros(2), other=[])
    assert call_once(f, one).changed_arguments == ("rewards", "other")
    assert one.args[0].tolist() == [0, 0] and one.kwargs["other"] == []
    assert call_once(lambda rewards, other: None, one).changed_arguments == ()


def test_global_state_is_as_before():
    torch = pytest.importorskip("torch")
    np.random.seed(1), random.seed(1), torch.manual_seed(1)  # noqa: NPY002
    expected = (np.random.rand(), random.random(), torch.rand(1).item())  # noqa: NPY002

    def f():
        np.random.seed(7), random.seed(7), torch.manual_seed(7)  # noqa: NPY002
        np.seterr(all="raise")
        np.set_printoptions(precision=1)
        builtins.input = None

    np.random.seed(1), random.seed(1), torch.manual_seed(1)  # noqa: NPY002
    errors, printing, reads = np.geterr(), np.get_printoptions(), builtins.input
    assert call_all(f, [call()])[0].kind == "value"
    assert (np.random.rand(), random.random(), torch.rand(1).item()) == expected  # noqa: NPY002
    assert np.geterr() == errors and np.get_printoptions() == printing and builtins.input is reads


def test_folder_and_environment_are_as_before(tmp_path):
    before = os.getcwd(), dict(os.environ)

    def f():
        os.chdir(tmp_path)
        os.environ["SOME_VARIABLE"] = "x"
        os.environ.pop("PATH", None)

    call_all(f, [call()])
    assert (os.getcwd(), dict(os.environ)) == before


@pytest.mark.skipif(sys.platform == "win32", reason="a folder in use cannot be removed there")
def test_a_folder_that_is_gone_costs_nothing_and_is_left(tmp_path, monkeypatch):
    """`with TemporaryDirectory() as d: os.chdir(d)` in an earlier cell leaves the kernel in no folder at all."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert [one.value for one in call_all(lambda: os.path.isdir(os.getcwd()), [call()])] == [True]
    assert os.path.isdir(os.getcwd())


@pytest.mark.skipif(sys.platform == "win32", reason="a folder in use cannot be removed there")
def test_a_function_that_removes_the_folder_under_its_feet_is_an_ordinary_one(tmp_path, monkeypatch):
    doomed = tmp_path / "doomed"
    doomed.mkdir()
    monkeypatch.chdir(doomed)
    assert call_all(lambda: doomed.rmdir() or 7, [call()])[0].value == 7
    assert os.path.isdir(os.getcwd())


def test_a_lone_surrogate_can_be_shown():
    def f():
        print("\ud800")
        raise RuntimeError("\ud800")

    outcome = call_once(f, call())
    assert (outcome.printed + outcome.raised.message).encode("utf-8")


@posix
def test_a_check_as_a_whole_has_a_limit(monkeypatch):
    monkeypatch.setattr("grader.calling.SECONDS_PER_CHECK", 0.3)
    monkeypatch.setattr("grader.calling.PATIENCE", 1)
    kinds = [o.kind for o in call_all(lambda: time.sleep(0.2), [call()] * 4)]
    assert kinds == ["value", "timeout", "not run", "not run"]


@posix
def test_who_waits_has_more_time_than_who_computes_but_not_for_ever(monkeypatch):
    monkeypatch.setattr("grader.calling.PATIENCE", 5)
    assert call_all(lambda: time.sleep(0.3), [call()], seconds=0.1)[0].kind == "value"
    assert call_all(lambda: time.sleep(60), [call()], seconds=0.1)[0].kind == "timeout"
    monkeypatch.setattr("grader.calling.PATIENCE", 1000)

    def computes():
        while True:
            pass

    assert call_all(computes, [call()], seconds=0.1)[0].kind == "timeout"


def test_input_is_refused_by_name():
    raised = call_all(lambda: input("value? "), [call()])[0].raised
    assert "input()" in raised.message


def test_only_a_bare_not_implemented_error_is_a_stub():
    def from_a_library(x):
        raise NotImplementedError("softmax is not implemented for 'Long'")

    def stub(x):
        raise NotImplementedError()

    assert call_once(stub, call(1)).kind == "not attempted"
    outcome = call_once(from_a_library, call(1))
    assert (outcome.kind, outcome.raised.type_name) == ("raised", "NotImplementedError")


def test_torch_is_put_back_as_it_was():
    torch = pytest.importorskip("torch")

    def unsettle(x):
        torch.set_default_dtype(torch.float64)
        torch.set_default_device("meta")
        torch.set_grad_enabled(False)
        torch.autograd.set_detect_anomaly(True)
        torch.use_deterministic_algorithms(True)
        torch.set_num_threads(torch.get_num_threads() + 1)
        torch.manual_seed(0)

    before = torch.get_rng_state(), torch.get_num_threads()
    call_all(unsettle, [call(1)])
    assert torch.zeros(1).dtype == torch.float32 and torch.zeros(1).device.type == "cpu"
    assert torch.is_grad_enabled() and not torch.is_anomaly_enabled()
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.equal(torch.get_rng_state(), before[0]) and torch.get_num_threads() == before[1]


def test_a_class_that_hides_its_name_and_a_callable_that_hides_everything_are_called_all_the_same():
    class Hidden(type):
        @property
        def __name__(cls):
            raise RuntimeError

    class Odd(ValueError, metaclass=Hidden):
        pass

    class Shy:
        def __getattribute__(self, name):
            raise RuntimeError(name)

        def __call__(self, x):
            return x + 1

    def raises(x):
        raise Odd("no")

    def returns(x):
        return object.__new__(Hidden("Strange", (), {}))

    outcome = call_once(raises, call(1))
    assert (outcome.raised.type_name, outcome.raised.is_value_error) == ("Odd", True)
    assert call_once(returns, call(1)).value == NotPlain("Strange")
    assert call_once(Shy(), call(1)).value == 2
