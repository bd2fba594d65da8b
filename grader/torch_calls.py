"""Exercises in torch: arrays go in, and a value and its gradient come out, as plain data.

A check passes numpy arrays and compares numpy arrays. What lies between belongs to the student's side: an
adapter (named in the Exercise, and no more than a few names itself, so that it can be sent to another process)
makes tensors of the arrays, calls the student's function, and reads what came back. Where something is missing
that a number cannot say (no tensor came back, no gradient arrives) the adapter puts a sentence in its place.

torch is imported when the first adapter is used, so that chapters 01 to 05 neither need it nor wait for it.
"""

from __future__ import annotations

import functools
import importlib
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from grader.plain import SameTensor, TorchRng


class _Torch:
    """The module torch, imported on first use."""

    def __getattr__(self, name: str) -> Any:
        return getattr(_import_torch(), name)


@functools.cache
def _import_torch():
    try:
        return importlib.import_module("torch")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "this exercise needs torch, which is not installed here: `make lab EXTRAS=qwen3` installs it"
        ) from error


torch = _Torch()


def to_torch(value: Any) -> Any:
    """Make tensors of the arrays in an argument; lists, tuples and dicts are searched.

    A tensor shares the memory of its array, so that the caller sees it when a function changes its argument.
    """
    if isinstance(value, np.ndarray):
        return torch.from_numpy(np.ascontiguousarray(value)) if value.ndim else torch.tensor(value)
    if isinstance(value, TorchRng):
        return torch.Generator().manual_seed(value.seed)
    if isinstance(value, (list, tuple)):
        items = [to_torch(item) for item in value]
        # A list without arrays stays the list it is, so that the caller sees a change in it as well.
        return value if all(map(operator.is_, items, value)) else type(value)(items)
    if isinstance(value, dict):
        return {key: to_torch(item) for key, item in value.items()}
    return value


def upstream(shape: Sequence[int]) -> np.ndarray:
    """Weights of the sum whose gradient is taken where a function returns an array; no two are equal."""
    size = int(np.prod(shape))
    if not len(shape):
        return np.ones(())
    return (1.0 + np.sin(1.0 + np.arange(size)) / 2.0).reshape(tuple(shape))


@dataclass(frozen=True)
class Adapter:
    """Turns a function of tensors into a function of plain data. Subclasses say in `run` how.

    `names` are the names of the arguments in the exercise: those of the student's function may be others.
    """

    def __call__(self, fn: Callable, names: Sequence[str]) -> Callable:
        self.prepare()

        @functools.wraps(fn)
        def plain(*args, **kwargs):
            # Gradients may be switched off somewhere in the notebook. For tensors as small as these, several threads
            # take five times as long as one.
            threads = torch.get_num_threads()
            torch.set_num_threads(1)
            try:
                with torch.enable_grad():
                    return self.run(fn, list(names), args, kwargs)
            finally:
                torch.set_num_threads(threads)

        return plain

    def prepare(self) -> None:
        """Import what the calls need: they have a time limit, and a first import can take longer."""
        _import_torch()

    def run(self, fn: Callable, names: list[str], args: tuple, kwargs: dict) -> Any:
        """Make one call of `fn` with plain arguments and return plain data."""
        raise AssertionError("an adapter says how it calls")


def kind_of(value: Any) -> str:
    """What came back, in words: the first half of a sentence."""
    if isinstance(value, torch.Tensor):
        return f"a tensor of {str(value.dtype).removeprefix('torch.')} with shape {tuple(value.shape)}"
    if isinstance(value, np.ndarray):
        return "a numpy array"
    if isinstance(value, (bool, int, float, np.generic)):
        return "a plain number"
    return "None" if value is None else f"a {type(value).__name__}"


@dataclass(frozen=True)
class Tensors(Adapter):
    """Tensors in, tensors out. `kinds` says what is due: (name, "bool" | "int" | "float"), one for each result.

    With one of them the plain value is an array, with several it is a dict of arrays.
    """

    kinds: tuple[tuple[str, str], ...]

    def run(self, fn, names, args, kwargs):
        result = fn(*to_torch(args), **to_torch(kwargs))
        if result is None:
            return None
        if len(self.kinds) == 1:
            return self._read(result, self.kinds[0][1])
        if not isinstance(result, (tuple, list)) or len(result) != len(self.kinds):
            due = ", ".join(name for name, _ in self.kinds)
            found = f"{kind_of(result)} of {len(result)}" if isinstance(result, (tuple, list)) else kind_of(result)
            return {name: f"{len(self.kinds)} tensors are due ({due}), and {found} came back" for name, _ in self.kinds}
        return {name: self._read(item, kind) for item, (name, kind) in zip(result, self.kinds, strict=True)}

    @staticmethod
    def _read(item, kind):
        if not isinstance(item, torch.Tensor):
            return f"a tensor is due, and {kind_of(item)} came back"
        fits = {
            "bool": item.dtype == torch.bool,
            "int": item.dtype in (torch.int64, torch.int32),
            "float": item.dtype.is_floating_point,
        }
        return item if fits[kind] else f"a tensor of {kind} is due, and {kind_of(item)} came back"


@dataclass(frozen=True)
class ValueAndGradient(Adapter):
    """The value that a function returns, and its gradient along the argument `wrt`.

    Plain value: {"value": ..., "gradient": ...}, and with `constants` also "others": the names of those arguments
    that a gradient reached although it should not. They are handed in with requires_grad, as if they came straight
    from a model. The gradient of a result with several numbers is that of their sum with the weights `upstream`;
    with `scalar` the result must be a single number, a loss; a shape of ones, such as (1, 1), is no matter.
    """

    wrt: str
    constants: tuple[str, ...] = ()
    scalar: bool = False

    def run(self, fn, names, args, kwargs):
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        tensors = {name: to_torch(value) for name, value in given.items()}
        for name in (self.wrt, *self.constants):
            if isinstance(tensors.get(name), torch.Tensor):
                tensors[name].requires_grad_()
        for name, value in tensors.items():
            if isinstance(value, SameTensor):
                tensors[name] = tensors[value.name]
        args = [tensors[name] for name in names[: len(args)]]
        result = fn(*args, **{name: tensors[name] for name in kwargs})
        if result is None:
            return None
        if not isinstance(result, (torch.Tensor, np.ndarray, np.generic, int, float)):
            return f"a tensor is due, and {kind_of(result)} came back"
        if self.scalar and isinstance(result, torch.Tensor) and result.numel() == 1:
            result = result.reshape(())
        leaf = tensors[self.wrt]
        others = {
            name: tensors[name]
            for name in self.constants
            if isinstance(tensors.get(name), torch.Tensor) and tensors[name] is not leaf
        }
        gradient, reached = self._gradient(result, leaf, others)
        plain = {"value": result, "gradient": gradient}
        return {**plain, "others": reached} if self.constants else plain

    def _gradient(self, result, leaf, others):
        """The gradient, and the names of `others` that a gradient reached; twice the sentence where there is none."""
        advice = "Was .detach(), .item(), torch.no_grad() or numpy used on the way?"
        why = ""
        if not isinstance(result, torch.Tensor):
            why = f"no gradient arrives: {kind_of(result)} came back where a tensor is due. {advice}"
        elif self.scalar and result.ndim:
            why = f"a loss is a single number, and {kind_of(result)} came back: `.backward()` refuses it"
        elif not result.requires_grad:
            why = f"no gradient arrives at `{self.wrt}`: the result has no graph. {advice}"
        if why:
            return why, why
        weights = torch.tensor(upstream(result.shape), dtype=result.dtype)
        try:
            gradients = torch.autograd.grad((result * weights).sum(), [leaf, *others.values()], allow_unused=True)
        except RuntimeError as error:
            why = f"the backward pass failed: {str(error).partition(chr(10))[0][:160]}"
            return why, why
        reached = [
            name
            for name, found in zip(others, gradients[1:], strict=True)
            if found is not None and bool((found != 0).any())
        ]
        if gradients[0] is None:
            return f"no gradient arrives at `{self.wrt}`: the way to it is cut. {advice}", reached
        return gradients[0], reached


def value_and_gradient(wrt: str, *, constants: Sequence[str] = (), scalar: bool = False) -> ValueAndGradient:
    """The adapter for a function whose value and gradient along `wrt` are compared (see `ValueAndGradient`)."""
    return ValueAndGradient(wrt, tuple(constants), scalar)


def tensors(**kinds: str) -> Tensors:
    """The adapter for a function that returns tensors: their names and kinds, `tensors(ids="int", mask="bool")`."""
    return Tensors(tuple(kinds.items()))
