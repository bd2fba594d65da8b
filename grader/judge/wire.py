"""Calls on their way into the kernel, and what came of them on the way back: JSON that holds plain data only.

A student's code has the whole kernel to itself, so what comes back may be any bytes at all. `decode_outcomes` believes
none of them: every field is checked, an array must have as many bytes as its shape says, and what does not fit is an
outcome that earns nothing. Nothing is unpickled or evaluated.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from grader.calling import MAX_PRINTED, Outcome, Raised
from grader.exercise import Call
from grader.plain import MAX_DEPTH, MAX_ITEMS, STAND_INS, NotPlain

MAX_BYTES = 32_000_000  # of one answer: 200,000 items, the most that plain data may hold, come to far less
MAX_TEXT = 2_000
KINDS = ("value", "raised", "not attempted", "timeout", "interrupted", "not run")


class TooLarge(ValueError):
    """What came over the wire is more than plain data may hold."""


class WireError(ValueError):
    """What came over the wire is not what the other side writes; the message says where it breaks off."""


def encode(value: Any) -> Any:
    """Turn plain data into what JSON can hold without loss: containers and arrays become one-key objects.

    Raises: TypeError for anything that is no plain data (see `grader.plain`).
    """
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if kind is list:
        return [encode(item) for item in value]
    if kind is tuple:
        return {"tuple": [encode(item) for item in value]}
    if kind is dict:
        return {"dict": [[encode(key), encode(item)] for key, item in value.items()]}
    if kind in (set, frozenset):
        return {kind.__name__: [encode(item) for item in sorted(value)]}
    if kind is np.ndarray and value.dtype.kind in "biuf":
        data = np.ascontiguousarray(value).reshape(value.shape)
        return {"array": [data.dtype.str, list(data.shape), base64.b64encode(data.tobytes()).decode("ascii")]}
    if kind is NotPlain:
        return {"not plain": [value.type_name, value.why]}
    if kind.__name__ in STAND_INS and kind is STAND_INS[kind.__name__]:
        return {"stand-in": [kind.__name__, *(encode(getattr(value, field.name)) for field in fields(value))]}
    raise TypeError(f"{kind.__name__} is no plain data: {value!r:.200}")


def decode(data: Any, depth: int = MAX_DEPTH, budget: list[int] | None = None, stand_ins: bool = False) -> Any:
    """Undo `encode`, within the limits of plain data: `depth` levels, and as many items as `budget` holds.

    `stand_ins` allows what only the arguments of a call hold: sets, and what stands for a generator or a model.

    Raises: WireError for anything that `encode` does not write, TooLarge for more than plain data may hold.
    """
    budget = [MAX_ITEMS] if budget is None else budget
    budget[0] -= 1
    if budget[0] < 0:
        raise TooLarge(f"it holds more than {MAX_ITEMS:,} items")
    if depth < 0:
        raise TooLarge(f"it is nested more than {MAX_DEPTH} deep")
    if data is None or type(data) in (bool, int, float, str):
        return data
    if type(data) is list:
        return [decode(item, depth - 1, budget, stand_ins) for item in data]
    if type(data) is not dict or len(data) != 1:
        raise WireError(f"a {type(data).__name__} without exactly one tag")
    ((tag, body),) = data.items()
    if tag == "tuple":
        return tuple(decode(item, depth - 1, budget, stand_ins) for item in _list(body, "a tuple's items"))
    if tag == "dict":
        return _decode_dict(body, depth - 1, budget, stand_ins)
    if tag == "array":
        return _decode_array(body)
    if tag == "not plain":
        return NotPlain(*(_text(word) for word in _list(body, "a refused object", 2)))
    if tag in ("set", "frozenset") and stand_ins:
        return (set if tag == "set" else frozenset)(decode(item, depth - 1, budget) for item in body)
    if tag == "stand-in" and stand_ins:
        name, *values = body
        return STAND_INS[name](*(decode(value, depth - 1, budget) for value in values))
    raise WireError(f"unknown tag {tag!r:.40}")


def _decode_dict(body: Any, depth: int, budget: list[int], stand_ins: bool) -> dict:
    pairs = [_list(pair, "a dict's item", 2) for pair in _list(body, "a dict's items")]
    try:
        return {decode(k, depth, budget, stand_ins): decode(v, depth, budget, stand_ins) for k, v in pairs}
    except TypeError:
        raise WireError("a dict with a key that cannot be one") from None


def _decode_array(body: Any) -> np.ndarray:
    name, shape, data = _list(body, "an array", 3)
    if type(name) is not str or name not in _DTYPES:
        raise WireError(f"an array of type {name!r:.40}")
    shape = [_whole(length, "an array's length") for length in _list(shape, "an array's shape")]
    if len(shape) > 32:
        raise WireError(f"an array with {len(shape)} axes")
    try:
        raw = base64.b64decode(_text(data, MAX_BYTES), validate=True)
    except (binascii.Error, ValueError):
        raise WireError("an array whose bytes are no base64") from None
    dtype = np.dtype(name)
    if math.prod(shape) * dtype.itemsize != len(raw):
        raise WireError(f"an array of shape {shape} with {len(raw)} bytes of {name}")
    array = np.frombuffer(raw, dtype=dtype).reshape(shape).copy()
    if array.size > MAX_ITEMS:
        raise TooLarge(f"it holds {array.size:,} numbers, more than {MAX_ITEMS:,}")
    return array


_DTYPES = {np.dtype(code).newbyteorder(order).str for code in "?bBhHiIlLqQefdg" for order in "<>"}


def encode_calls(calls: Sequence[Call]) -> str:
    """Write calls as one line of JSON, ASCII only, so that it can stand in a line of Python between quotation marks."""
    data = [{"args": encode(tuple(one.args)), "kwargs": encode(dict(one.kwargs))} for one in calls]
    return json.dumps(data, separators=(",", ":"))


def decode_calls(text: str) -> list[Call]:
    """Undo `encode_calls` (on the student's side; notes stay behind)."""
    return [Call(*(decode(one[part], stand_ins=True) for part in ("args", "kwargs"))) for one in json.loads(text)]


def encode_outcomes(outcomes: Sequence[Outcome]) -> str:
    """Write outcomes as JSON."""
    data = []
    for one in outcomes:
        raised = one.raised and [one.raised.type_name, one.raised.message, one.raised.where, one.raised.is_value_error]
        data.append(
            {
                "kind": one.kind,
                "value": encode(one.value),
                "raised": raised,
                "printed": one.printed,
                "warned": list(one.warned),
                "changed": list(one.changed_arguments),
            }
        )
    return json.dumps(data, separators=(",", ":"))


def decode_outcomes(text: Any, count: int) -> list[Outcome]:
    """Read the outcomes of `count` calls from whatever the kernel sent.

    Raises: WireError, which says in what it is no list of `count` outcomes.
    """
    text = _text(text, MAX_BYTES)
    try:
        data = json.loads(text)
    except RecursionError:
        raise WireError("nested too deep to be read") from None
    except ValueError as error:
        raise WireError(f"no JSON ({error!s:.80})") from None
    try:
        return [_outcome(one) for one in _list(data, "the outcomes", count)]
    except RecursionError:
        raise WireError("nested too deep to be read") from None


def _outcome(data: Any) -> Outcome:
    if type(data) is not dict or set(data) != {"kind", "value", "raised", "printed", "warned", "changed"}:
        raise WireError("an outcome with other fields than it should have")
    kind = data["kind"]
    if kind not in KINDS:
        raise WireError(f"an outcome of kind {kind!r:.40}")
    try:
        value = decode(data["value"]) if kind == "value" else None
    except TooLarge as limit:
        value = NotPlain("object", str(limit))
    raised = None
    if kind == "raised":
        type_name, message, where, is_value_error = _list(data["raised"], "an exception", 4)
        raised = Raised(_text(type_name), _text(message), _text(where), is_value_error is True)
    return Outcome(
        kind,
        value,
        raised,
        _text(data["printed"], MAX_PRINTED),
        tuple(_text(item) for item in _list(data["warned"], "the warnings")[:10]),
        tuple(_text(item) for item in _list(data["changed"], "the changed arguments")[:20]),
    )


def _list(data: Any, what: str, length: int | None = None) -> list:
    if type(data) is not list or (length is not None and len(data) != length):
        size = f", {len(data)} long" if type(data) is list else ""
        raise WireError(f"{what}: {type(data).__name__}{size}" + (f", {length} expected" if length is not None else ""))
    return data


def _text(data: Any, most: int = MAX_TEXT) -> str:
    if type(data) is not str:
        raise WireError(f"{type(data).__name__} where text should be")
    if len(data) > most:
        if most == MAX_BYTES:
            raise WireError(f"{len(data):,} characters, more than {most:,}")
        data = data[:most]
    # A lone surrogate is legal in JSON, but in no file, page or database afterwards.
    return data.encode("utf-8", "replace").decode("utf-8")


def _whole(data: Any, what: str) -> int:
    if type(data) is not int or data < 0:
        raise WireError(f"{what} is {data!r:.40}")
    return data
