"""Plain data: what survives of a returned object."""

import collections

import numpy as np
import pytest

from grader.exercise import call
from grader.judge.wire import decode_calls, encode_calls
from grader.plain import MAX_ITEMS, NotPlain, Rng, Shown, SmoothFunction, materialise, same_data, to_plain


class EqualToAnything:
    def __eq__(self, other):
        return True

    __lt__ = __gt__ = __le__ = __ge__ = __eq__

    def __abs__(self):
        return 0.0

    def __float__(self):
        return 1.0

    __hash__ = None


class SlyFloat(float):
    def __eq__(self, other):
        return True

    def __sub__(self, other):
        return 0.0

    __hash__ = float.__hash__


class SlyArray(np.ndarray):
    def __eq__(self, other):
        return np.ones(self.shape, bool)

    def __array_function__(self, *args, **kwargs):
        return True


class SlyDict(dict):
    def items(self):
        return [("right", 1)]

    def __getitem__(self, key):
        return 1


class Unreadable:
    @property
    def __class__(self):
        raise RuntimeError("no")


@pytest.mark.parametrize("value", [None, True, 3, 2.5, "text", [1, "a", None], (1, 2), {"a": [1.0], 3: (2,)}])
def test_plain_values_pass_unchanged(value):
    plain = to_plain(value)
    assert plain == value and type(plain) is type(value)


def test_numpy_scalars_keep_their_dtype_visible():
    plain = to_plain(np.float32(0.1))
    assert plain.dtype == np.float32 and plain.shape == ()


def test_subclasses_lose_their_methods():
    number = to_plain(SlyFloat(2.0))
    assert type(number) is float and number == 2.0 and number != 3.0
    array = to_plain(np.array([1.0, 2.0]).view(SlyArray))
    assert type(array) is np.ndarray and not (array == np.array([5.0, 6.0])).any()
    assert to_plain(SlyDict(wrong=0)) == {"wrong": 0}
    assert type(to_plain(collections.OrderedDict(a=1))) is dict


def test_an_object_equal_to_anything_is_no_plain_data():
    assert to_plain(EqualToAnything()) == NotPlain("EqualToAnything")
    assert to_plain([EqualToAnything()]) == [NotPlain("EqualToAnything")]
    assert isinstance(to_plain(np.array([EqualToAnything()], dtype=object))[0], NotPlain)


def test_generators_sets_and_unreadable_objects_are_named():
    assert to_plain(x for x in [1]).type_name == "generator"
    assert to_plain({1, 2}).type_name == "set"
    assert isinstance(to_plain(Unreadable()), NotPlain)
    assert to_plain(1j).type_name == "complex"
    assert isinstance(to_plain(np.array([1j])), NotPlain)


def test_endless_and_huge_containers_end():
    loop = []
    loop.append(loop)
    assert "nested" in repr(to_plain(loop))
    assert "more than" in to_plain([0] * (MAX_ITEMS + 10)).why
    assert "thousands of digits" in to_plain(10**10_000).why
    shared = [0]
    for _ in range(15):
        shared = [shared] * 10
    assert "more than" in to_plain(shared).why
    assert "more than" in to_plain(np.zeros(MAX_ITEMS + 1)).why


def test_tensors_become_arrays():
    torch = pytest.importorskip("torch")
    plain = to_plain(torch.tensor([1.0, 2.0], requires_grad=True) * 2)
    assert type(plain) is np.ndarray and plain.tolist() == [2.0, 4.0]
    assert to_plain(torch.tensor(1.5, dtype=torch.bfloat16)).item() == 1.5


def test_each_call_gets_its_own_copy_and_its_own_generator():
    argument = {"rewards": [np.array([1.0])], "rng": Rng(3)}
    one, two = materialise(argument), materialise(argument)
    one["rewards"][0][0] = 9
    assert argument["rewards"][0][0] == 1.0 and two["rewards"][0][0] == 1.0
    assert one["rng"].random() == two["rng"].random() == np.random.default_rng(3).random()
    assert isinstance(materialise((1, Rng(0)))[1], np.random.Generator)


def test_same_data_tells_types_shapes_and_nan():
    assert same_data(np.array([np.nan]), np.array([np.nan])) and same_data(float("nan"), float("nan"))
    assert not same_data(np.array([1.0]), np.array([1])) and not same_data([1], (1,))
    assert not same_data(np.zeros((2, 1)), np.zeros(2)) and not same_data({"a": 1}, {"b": 1})
    assert not same_data([1, 2], [1]) and not same_data([1, 2], [1, 3])
    assert not same_data({"a": 1, "b": 2}, {"b": 2, "a": 1})


def test_smooth_function_is_its_formula():
    f = SmoothFunction((1.0, -2.0), (0.5, 0.0), twist=3.0)
    assert f([0.3, 2.0]) == pytest.approx(0.3 - 4.0 + 0.5 * np.sin(0.3) + 3 * 0.6)
    assert SmoothFunction((2.0,), (0.0,), twist=3.0)(np.array([1.5])) == 3.0


def test_numpy_numbers_in_the_key_of_a_dict_are_numbers():
    made = to_plain({(np.int64(13), np.str_("2")): 1.0, np.float64(0.5): 2, (1, (np.int32(2),)): 3})
    assert made == {(13, "2"): 1.0, 0.5: 2, (1, (2,)): 3}
    assert [type(part) for part in next(iter(made))] == [int, str]


def test_a_view_larger_than_memory_is_refused_without_being_copied():
    huge = np.broadcast_to(np.float64(1.0), (10**5, 10**5, 10**3))
    assert to_plain(huge) == NotPlain("array", "it holds 10,000,000,000,000 numbers, more than 200,000")
    assert to_plain([huge, 1]) == [NotPlain("array", "it holds 10,000,000,000,000 numbers, more than 200,000"), 1]


def test_what_an_adapter_makes_is_shown_by_its_text():
    model = Shown("a model of 2 weights", (0.5, -1.0))
    assert repr(model) == "a model of 2 weights" and materialise(model) == model
    assert model != Shown("a model of 2 weights", (0.5, 1.0))
    assert decode_calls(encode_calls([call(model)]))[0].args == (model,)
