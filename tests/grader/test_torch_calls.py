"""Arrays in, value and gradient out: what an adapter makes of a student's tensors, and what it says when they fail."""

import pickle
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the adapters call functions of tensors")

from grader import check, torch_calls  # noqa: E402
from grader.calling import call_all  # noqa: E402
from grader.checking import run_check  # noqa: E402
from grader.exercise import Exercise, Part, call  # noqa: E402
from grader.exercises import EXERCISES  # noqa: E402
from grader.plain import SameTensor, TorchRng  # noqa: E402

WITH_ADAPTER = [one for one in EXERCISES.values() if one.adapter is not None]


def _scaled_sum(x, scale):
    """The reference of the small exercise of this file: sum of scale * x**2."""
    return {"value": float(scale * np.sum(x**2)), "gradient": 2 * scale * x, "others": []}


SCALED_SUM = Exercise(
    name="scaled_sum",
    chapter="00_test",
    difficulty=1,
    minutes=1,
    reference=_scaled_sum,
    adapter=torch_calls.value_and_gradient("x", constants=("scale",), scalar=True),
    parts=tuple(
        Part(entry, 1, lambda rng: [call(np.array([1.0, 2.0]), np.array(3.0))], hint="h", entry=entry)
        for entry in ("value", "gradient", "others")
    ),
    mistakes=(),
)


def graded(fn, exercise=SCALED_SUM):
    report = run_check(exercise, fn, 0)
    return {part.says: part.passed for part in report.parts}, report


def right(x, scale):
    return (scale.detach() * x**2).sum()


def test_value_gradient_and_constants_are_judged_apart():
    assert graded(right)[0] == {"value": True, "gradient": True, "others": True}
    assert graded(lambda x, scale: (scale * x**2).sum())[0] == {"value": True, "gradient": True, "others": False}
    halved = graded(lambda x, scale: (scale.detach() * x**2).sum() / 2)[0]
    assert halved == {"value": False, "gradient": False, "others": True}


@pytest.mark.parametrize(
    "fn, words",
    [
        (lambda x, scale: right(x, scale).detach(), "the result has no graph"),
        (lambda x, scale: right(x, scale).item(), "a plain number came back where a tensor is due"),
        (lambda x, scale: right(x, scale).detach().numpy(), "a numpy array came back where a tensor is due"),
        (lambda x, scale: torch.tensor(right(x, scale).item()), "Was .detach(), .item(), torch.no_grad() or numpy"),
        (lambda x, scale: right(x.detach(), scale) + 0 * scale, "the way to it is cut"),
    ],
)
def test_a_missing_gradient_is_said_in_words_and_the_value_still_counts(fn, words):
    passed, report = graded(fn)
    assert passed["value"] and not passed["gradient"] and words in str(report).replace("\n   ", "").replace("  ", " ")


def test_a_loss_with_an_axis_is_refused_as_backward_does():
    passed, report = graded(lambda x, scale: scale.detach() * x**2)
    assert not passed["value"] and not passed["gradient"] and "shape (2,), not a single number" in str(report)
    found = SCALED_SUM.on_plain_data(lambda x, scale: x)(np.array([1.0, 2.0]), np.array(3.0))
    assert found["gradient"].startswith("a loss is a single number, and a tensor of float64 with shape (2,) came back")


def test_a_loss_of_one_number_may_have_any_axes():
    for shape in ((1,), (1, 1)):
        passed, _ = graded(lambda x, scale, shape=shape: right(x, scale).reshape(shape))
        assert passed["value"] and passed["gradient"]


def test_no_gradient_mode_of_the_notebook_does_not_matter():
    with torch.no_grad():
        assert all(graded(right)[0].values())


@pytest.mark.parametrize("value", [None, "text", [1.0], {"value": 14.0}])
def test_what_is_no_tensor_earns_nothing(value):
    passed, report = graded(lambda x, scale: value)
    assert not any(passed.values())
    if value is None:
        assert "returned None" in str(report)


def test_a_result_with_an_axis_is_weighed_before_its_gradient_is_taken():
    """The gradient of a plain sum would let a permutation of the results pass."""
    fn = torch_calls.value_and_gradient("x")(lambda x: x.flip(0), ["x"])
    found = fn(np.array([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(found["gradient"].numpy(), torch_calls.upstream((3,))[::-1])
    assert len(set(torch_calls.upstream((2, 50)).ravel().round(9))) > 90


def test_the_same_tensor_is_one_tensor_with_one_graph():
    adapter = torch_calls.value_and_gradient("new", constants=("old",))
    x = np.array([0.3, 0.4])
    attached = adapter(lambda new, old: new - old, ["new", "old"])(x, SameTensor("new"))
    detached = adapter(lambda new, old: new - old.detach(), ["new", "old"])(x, SameTensor("new"))
    assert not attached["gradient"].any() and detached["gradient"].all()
    assert attached["others"] == [] == detached["others"]


def test_names_of_the_arguments_are_those_of_the_exercise():
    fn = torch_calls.value_and_gradient("x")(lambda mine, yours: mine * yours, ["x", "scale"])
    np.testing.assert_allclose(fn(np.array([2.0]), np.array([5.0]))["gradient"], [5.0 * torch_calls.upstream((1,))[0]])


def test_an_argument_changed_in_place_is_reported():
    def careless(x, scale):
        with torch.no_grad():
            scale.mul_(2)
        return (scale.detach() * x**2).sum() / 2

    shared = call(np.array([1.0, 2.0]), np.array([3.0]))
    (outcome,) = call_all(SCALED_SUM.on_plain_data(careless), [shared])
    assert outcome.changed_arguments == ("scale",)
    assert call_all(SCALED_SUM.on_plain_data(right), [shared])[0].changed_arguments == ()


def test_a_list_without_arrays_is_the_callers_own():
    rows, arrays = [[1, 2], [3]], [np.ones(2)]
    assert torch_calls.to_torch(rows) is rows and torch_calls.to_torch(arrays) is not arrays


def test_an_error_in_the_student_s_code_names_the_student_s_line():
    def broken(x, scale):
        return x @ scale[:, None, None].nothing

    report = run_check(SCALED_SUM, broken, 0)
    assert report.state == "error in your code" and "IndexError" in str(report) and "x @ scale" in str(report)


# --- tensors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "made, words",
    [
        (lambda x: x.tolist(), "a tensor is due, and a list came back"),
        (lambda x: x.numpy(), "a tensor is due, and a numpy array came back"),
        (lambda x: x.float(), "a tensor of int is due, and a tensor of float32 with shape (2,) came back"),
        (lambda x: x > 0, "a tensor of bool with shape (2,)"),
    ],
)
def test_the_kind_of_a_tensor_is_said_in_words(made, words):
    fn = torch_calls.tensors(ids="int")(made, ["x"])
    assert words in fn(np.array([1, 2]))


def test_several_tensors_come_by_name():
    adapter = torch_calls.tensors(ids="int", mask="bool")
    found = adapter(lambda x: (x, x > 1), ["x"])(np.array([1, 2]))
    assert found["ids"].tolist() == [1, 2] and found["mask"].tolist() == [False, True]
    assert "2 tensors are due (ids, mask)" in adapter(lambda x: x, ["x"])(np.array([1, 2]))["mask"]
    assert adapter(lambda x: None, ["x"])(np.array([1])) is None


def test_arguments_become_tensors_and_generators():
    batch = {"a": np.array([1.5], dtype=np.float16), "b": [np.array([True]), 3], "c": {7}}
    made = torch_calls.to_torch((batch, TorchRng(5), np.array(2)))
    assert made[0]["a"].dtype == torch.float16 and made[0]["b"][0].dtype == torch.bool and made[0]["c"] == {7}
    assert torch.rand(1, generator=made[1]) == torch.rand(1, generator=torch.Generator().manual_seed(5))
    assert made[2].ndim == 0 and repr(TorchRng(5)) == "torch.Generator().manual_seed(5)"


# --- for the judge ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exercise", WITH_ADAPTER, ids=lambda exercise: exercise.name)
def test_an_adapter_can_be_sent_to_another_process(exercise):
    assert pickle.loads(pickle.dumps(exercise.adapter)) == exercise.adapter


def test_a_caller_elsewhere_gets_the_calls_and_gives_plain_data_back():
    exercise = EXERCISES["log_ratios"]
    fn = exercise.alternatives[0].code
    elsewhere = run_check(exercise, None, 3, caller=lambda calls: call_all(exercise.on_plain_data(fn), calls))
    assert elsewhere.points == exercise.points


def test_the_reference_speaks_plain_data_itself():
    exercise = EXERCISES["log_ratios"]
    assert exercise.on_plain_data(exercise.reference) is exercise.reference
    assert check(exercise.reference, exercise="log_ratios", seed=0).points == exercise.points


# --- without torch ---------------------------------------------------------------------------------------------------


def run(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_the_exercises_does_not_import_torch():
    assert run("import sys, grader\nprint('torch' in sys.modules)") == "False\n"


def test_chapters_01_to_05_are_graded_without_torch_and_chapter_06_says_what_is_missing():
    out = run(
        "import sys\n"
        "sys.modules['torch'] = None\n"
        "from grader import check\n"
        "from grader.exercises import EXERCISES\n"
        "print(check(EXERCISES['rollout_ratio'].alternatives[0].code, exercise='rollout_ratio', seed=0).points)\n"
        "try:\n"
        "    check(lambda x: x, exercise='log_ratios')\n"
        "except ModuleNotFoundError as error:\n"
        "    print(error)\n"
    )
    assert out == "5\nthis exercise needs torch, which is not installed here: `make lab EXTRAS=qwen3` installs it\n"
