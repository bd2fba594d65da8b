"""Plain data: what goes into a student's function and what is believed of what comes out.

Nothing of the student's own classes survives `to_plain`: subclasses lose their methods, arrays and tensors become
numpy arrays, everything else becomes a `NotPlain` that only carries its type's name. So an object that claims to
equal anything is compared as what it is, and a check can run in another process than the function it checks.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

MAX_ITEMS = 200_000
MAX_DEPTH = 20
MAX_BITS = 4_000  # of a whole number; longer ones cannot even be printed


@dataclass(frozen=True)
class Rng:
    """Stands for a random generator in the arguments of a call: every use makes a fresh one from the seed."""

    seed: int

    def __repr__(self) -> str:
        return f"np.random.default_rng({self.seed})"


@dataclass(frozen=True)
class TorchRng:
    """Stands for a torch.Generator on the CPU: an exercise's adapter makes a fresh one from the seed for every use."""

    seed: int

    def __repr__(self) -> str:
        return f"torch.Generator().manual_seed({self.seed})"


@dataclass(frozen=True)
class SameTensor:
    """Stands for the very tensor that is passed as another argument, with its graph."""

    name: str

    def __repr__(self) -> str:
        return f"{self.name} (the same tensor)"


@dataclass(frozen=True)
class SmoothFunction:
    """A differentiable function of a vector, as data: f(x) = sum_i (linear_i x_i + bend_i sin x_i) + twist x_0 x_1.

    It stands in for "any objective" where an exercise takes a function, since a function itself cannot be sent
    to another process.
    """

    linear: tuple[float, ...]
    bend: tuple[float, ...]
    twist: float = 0.0

    def __str__(self) -> str:
        terms = [f"{a:g} x[{i}]" for i, a in enumerate(self.linear) if a]
        terms += [f"{b:g} sin(x[{i}])" for i, b in enumerate(self.bend) if b]
        terms += [f"{self.twist:g} x[0] x[1]"] if self.twist else []
        return " + ".join(terms).replace("+ -", "- ") or "0"

    def __call__(self, x) -> float:
        x = np.asarray(x, dtype=float).ravel()
        cross = self.twist * x[0] * x[1] if x.size > 1 else 0.0
        return float(np.dot(self.linear, x) + np.dot(self.bend, np.sin(x)) + cross)


@dataclass(frozen=True)
class TinyLanguageModel:
    """A language model as data: the logits after n tokens, the last of them x, are table[x] + drift[n % len(drift)].

    So they depend on how many tokens the model believes to have read: a cache used wrongly shows.
    """

    table: tuple[tuple[float, ...], ...]
    drift: tuple[tuple[float, ...], ...]

    def __repr__(self) -> str:
        return f"a tiny model with {len(self.table)} tokens"

    def logits(self, last, read: int) -> np.ndarray:
        """Logits (..., V) after `read` tokens whose last are the ids `last` (...)."""
        return np.asarray(self.table)[last] + np.asarray(self.drift)[read % len(self.drift)]


@dataclass(frozen=True)
class Shown:
    """Stands for an object that an exercise's adapter makes of `data`; a report shows `text` in its place."""

    text: str
    data: Any = None

    def __repr__(self) -> str:
        return self.text


# What may stand in the arguments of a call beside plain data: dataclasses whose fields are plain data.
STAND_INS = {kind.__name__: kind for kind in (Rng, TorchRng, SameTensor, SmoothFunction, TinyLanguageModel, Shown)}


@dataclass(frozen=True)
class NotPlain:
    """What is left of a returned object that is no plain data: the name of its type, and why it was refused."""

    type_name: str
    why: str = ""


def materialise(value: Any) -> Any:
    """Return a fresh copy of an argument, with each `Rng` turned into a generator.

    Every call gets its own copy, so a function that changes its input changes nobody else's.
    """
    if isinstance(value, Rng):
        return np.random.default_rng(value.seed)
    if isinstance(value, tuple):
        return tuple(materialise(item) for item in value)
    if isinstance(value, list):
        return [materialise(item) for item in value]
    if isinstance(value, dict):
        return {key: materialise(item) for key, item in value.items()}
    return copy.deepcopy(value)


def to_plain(value: Any) -> Any:
    """Reduce a returned value to plain data: None, bool, int, float, str, list, tuple, dict or numpy array.

    numpy scalars become 0-d arrays, so that float32 stays visible. Never raises; what cannot be reduced comes
    back as `NotPlain`.
    """
    try:
        return _to_plain(value, MAX_DEPTH, [MAX_ITEMS])
    except _TooMuch as limit:
        return NotPlain(_type_name(value), str(limit))
    except Exception as error:  # a hostile object may raise anything from any of its methods
        return NotPlain(_type_name(value), f"it could not be read ({type(error).__name__})")


class _TooMuch(Exception):
    """A returned object is larger than anything that an exercise asks for."""


def _to_plain(value: Any, depth: int, budget: list[int]) -> Any:
    budget[0] -= 1
    if budget[0] < 0:
        raise _TooMuch(f"it holds more than {MAX_ITEMS:,} items")
    if depth == 0:
        raise _TooMuch(f"it is nested more than {MAX_DEPTH} deep")
    kind = type(value)
    if issubclass(kind, int) and int.bit_length(value) > MAX_BITS:
        raise _TooMuch("it is a whole number with thousands of digits")
    if value is None or kind in (bool, int, float, str):
        return value
    if issubclass(kind, np.ndarray) and np.ndarray.size.__get__(value) > MAX_ITEMS:  # a view can be larger than memory
        return _too_large(np.ndarray.size.__get__(value))
    if issubclass(kind, (np.ndarray, np.generic)):
        return _plain_array(np.array(value, subok=False), depth, budget)
    if _is_tensor(value):
        tensor = value.detach().cpu()
        if str(tensor.dtype) == "torch.bfloat16":  # numpy has no bfloat16
            tensor = tensor.float()
        return _plain_array(np.array(tensor.numpy(), subok=False), depth, budget)
    # Subclasses of the builtin types: read through the builtin's own methods, not through overridden ones.
    if issubclass(kind, str):
        return str.__str__(value)
    if issubclass(kind, int):
        return int.__int__(value)
    if issubclass(kind, float):
        return float.__float__(value)
    if issubclass(kind, list):
        return [_to_plain(item, depth - 1, budget) for item in list.__iter__(value)]
    if issubclass(kind, tuple):
        return tuple(_to_plain(item, depth - 1, budget) for item in tuple.__iter__(value))
    if issubclass(kind, dict):
        return {_plain_key(key, depth, budget): _to_plain(item, depth - 1, budget) for key, item in dict.items(value)}
    return NotPlain(_type_name(value))


def _plain_array(array: np.ndarray, depth: int, budget: list[int]) -> Any:
    if array.size > MAX_ITEMS:
        return _too_large(array.size)
    if array.dtype.kind in "biuf":
        return array
    if array.dtype.kind in "OUS":
        return _to_plain(array.tolist(), depth, budget)
    return NotPlain(f"array of {array.dtype}")


def _too_large(size: int) -> NotPlain:
    return NotPlain("array", f"it holds {size:,} numbers, more than {MAX_ITEMS:,}")


def _plain_key(key: Any, depth: int, budget: list[int]) -> Any:
    return _hashable(_to_plain(key, depth - 1, budget))


def _hashable(plain: Any) -> Any:
    """Arrays in a dict's key become numbers and tuples: (np.int64(13), "2") is the key (13, "2")."""
    if isinstance(plain, np.ndarray):
        return plain.item() if plain.ndim == 0 else tuple(plain.ravel().tolist())
    return tuple(map(_hashable, plain)) if isinstance(plain, (list, tuple)) else plain


def _is_tensor(value: Any) -> bool:
    kind = type(value)
    return kind.__module__.partition(".")[0] == "torch" and all(
        hasattr(kind, name) for name in ("detach", "cpu", "numpy")
    )


def _type_name(value: Any) -> str:
    return name_of(type(value))


def name_of(kind: type) -> str:
    """Return a class's name, whatever its metaclass says about it."""
    return type.__dict__["__name__"].__get__(kind)


def same_data(a: Any, b: Any) -> bool:
    """Tell whether two plain values are identical (NaN equals NaN; the type of a container counts)."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return a.shape == b.shape and a.dtype == b.dtype and bool(np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same_data, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same_data(a[key], b[key]) for key in a)
    return a == b or (isinstance(a, float) and a != a and b != b)
