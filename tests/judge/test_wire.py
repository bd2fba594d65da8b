"""Plain data survives the way to the kernel and back unchanged, and whatever else comes back is refused in words."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from grader.calling import Outcome, Raised
from grader.exercise import call
from grader.judge.wire import (
    WireError,
    decode,
    decode_calls,
    decode_outcomes,
    encode,
    encode_calls,
    encode_outcomes,
)
from grader.plain import NotPlain, Rng, SmoothFunction, same_data

NUMBERS = st.integers(-(2**70), 2**70) | st.floats() | st.booleans()
KEYS = st.text(max_size=5) | st.integers(-5, 5) | st.tuples(st.integers(0, 3), st.text(max_size=2))
ARRAYS = arrays.arrays(
    st.sampled_from(["<f8", "<f4", "<f2", ">f8", "<i8", "|u1", "|b1"]), arrays.array_shapes(min_dims=0, min_side=0)
)
PLAIN = st.recursive(
    st.none() | NUMBERS | st.text(max_size=8) | ARRAYS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.lists(inner, max_size=4).map(tuple) | st.dictionaries(KEYS, inner, max_size=3)
    ),
    max_leaves=8,
)


@given(PLAIN)
def test_plain_data_comes_back_the_same(value):
    assert same_data(decode(json.loads(json.dumps(encode(value)))), value)


def test_negative_zero_nan_and_infinity_keep_their_bits():
    back = decode(json.loads(json.dumps(encode([-0.0, float("inf"), float("nan")]))))
    assert str(back) == "[-0.0, inf, nan]"


def test_calls_come_back_with_their_stand_ins():
    smooth = SmoothFunction((1.0, 2.0), (0.5, 0.0), 0.25)
    calls = [call([1, 2], {"a": (1,)}, eps=0.1, stop={2, 1}), call(Rng(7), smooth, np.arange(3.0)), call()]
    text = encode_calls(calls)
    assert text.isascii() and "\n" not in text
    back = decode_calls(text)
    assert [one.kwargs for one in back] == [{"eps": 0.1, "stop": {1, 2}}, {}, {}]
    assert back[0].args == ([1, 2], {"a": (1,)})
    assert back[1].args[:2] == (Rng(7), smooth)
    assert same_data(back[1].args[2], np.arange(3.0))


def test_no_answer_holds_a_stand_in():
    for value, tag in ((Rng(3), "stand-in"), ({1}, "set"), (frozenset({1}), "frozenset")):
        with pytest.raises(WireError, match=f"unknown tag '{tag}'"):
            decode_outcomes(json.dumps([{**GOOD, "value": encode(value)}]), 1)


def test_what_is_no_plain_data_is_not_sent():
    with pytest.raises(TypeError, match="complex is no plain data"):
        encode([1, 2j])
    with pytest.raises(TypeError, match="ndarray is no plain data"):
        encode(np.array([object()]))


def test_outcomes_come_back_the_same():
    single = np.array(1.5, dtype=np.float32)
    sent = [
        Outcome("value", (1, single), printed="hello", warned=("careful",), changed_arguments=("x",)),
        Outcome("value", [NotPlain("Evil", "no")]),
        Outcome("raised", raised=Raised("ValueError", "bad", "line 3: `x`", True)),
        Outcome("timeout"),
        Outcome("not run"),
    ]
    back = decode_outcomes(encode_outcomes(sent), len(sent))
    assert back[1:] == sent[1:]
    assert same_data(back[0].value, sent[0].value)
    assert (back[0].printed, back[0].warned, back[0].changed_arguments) == ("hello", ("careful",), ("x",))


GOOD = {"kind": "value", "value": 1, "raised": None, "printed": "", "warned": [], "changed": []}


@pytest.mark.parametrize(
    "sent, words",
    [
        (None, "NoneType where text"),
        (b"[]", "bytes where text"),
        ("", "no JSON"),
        ("[", "no JSON"),
        ("{}", "the outcomes: dict"),
        ("[]", "0 long, 1 expected"),
        (json.dumps([GOOD, GOOD]), "2 long, 1 expected"),
        (json.dumps([{**GOOD, "points": 5}]), "other fields"),
        (json.dumps([{**GOOD, "kind": "full marks"}]), "kind 'full marks'"),
        (json.dumps([{**GOOD, "kind": ["value"]}]), "kind"),
        (json.dumps([{**GOOD, "value": {"pickle": "gASVAAAA"}}]), "unknown tag 'pickle'"),
        (json.dumps([{**GOOD, "value": {"tuple": [], "list": []}}]), "exactly one tag"),
        (json.dumps([{**GOOD, "value": {"tuple": 5}}]), "a tuple's items: int"),
        (json.dumps([{**GOOD, "value": {"dict": [[[1], 2]]}}]), "cannot be one"),
        (json.dumps([{**GOOD, "value": {"array": ["|O", [1], "AAAA"]}}]), "type '|O'"),
        (json.dumps([{**GOOD, "value": {"array": ["<f8", [2], "AAAAAAAAAAA="]}}]), "8 bytes"),
        (json.dumps([{**GOOD, "value": {"array": ["<f8", [-1], "AAAAAAAAAAA="]}}]), "length is -1"),
        (json.dumps([{**GOOD, "value": {"array": ["<f8", [10**12], "AAAAAAAAAAA="]}}]), "8 bytes"),
        (json.dumps([{**GOOD, "value": {"array": ["<f8", [1] * 40, "AAAAAAAAAAA="]}}]), "40 axes"),
        (json.dumps([{**GOOD, "value": {"array": ["<f8", [1], "not base64!"]}}]), "no base64"),
        (json.dumps([{**GOOD, "kind": "raised"}]), "an exception: NoneType"),
        (json.dumps([{**GOOD, "printed": 7}]), "int where text"),
        ("[" * 100_000 + "]" * 100_000, "nested too deep|no JSON"),
        ("x" * 40_000_000, "more than 32,000,000"),
    ],
)
def test_anything_else_is_refused_in_words(sent, words):
    with pytest.raises(WireError, match=words.replace("|O", r"\|O") if "|O" in words else words):
        decode_outcomes(sent, 1)


def test_a_value_deeper_than_plain_data_may_be_is_no_answer():
    deep = 1
    for _ in range(60):
        deep = [deep]
    (outcome,) = decode_outcomes(json.dumps([{**GOOD, "value": deep}]), 1)
    assert isinstance(outcome.value, NotPlain) and "deep" in outcome.value.why


@pytest.mark.parametrize("value", [[0] * 200_001, encode(np.zeros(200_001, dtype=np.uint8))])
def test_more_than_plain_data_may_hold_is_no_answer(value):
    (outcome,) = decode_outcomes(json.dumps([{**GOOD, "value": value}]), 1)
    assert isinstance(outcome.value, NotPlain) and "more than 200,000" in outcome.value.why


def test_long_texts_are_cut_and_lone_surrogates_replaced():
    sent = {**GOOD, "printed": "a" * 10_000, "warned": ["\ud800" * 3] * 50, "changed": ["b" * 9_000]}
    (outcome,) = decode_outcomes(json.dumps([sent]), 1)
    assert len(outcome.printed) == 2_000 and len(outcome.changed_arguments[0]) == 2_000
    assert outcome.warned == ("???",) * 10


def test_a_claimed_value_error_must_be_a_real_true():
    sent = {**GOOD, "kind": "raised", "raised": ["ValueError", "m", "", 1]}
    (outcome,) = decode_outcomes(json.dumps([sent]), 1)
    assert outcome.raised.is_value_error is False
