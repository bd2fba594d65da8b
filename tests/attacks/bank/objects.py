"""Answers that are no answers: objects equal to anything, patched numpy and builtins, frames, numbers by heart."""

from __future__ import annotations

from .making import CHAPTER_1, CHAPTER_3, Submission, nothing

ANY = ("graded", "needs review")

EQUAL = """
class Equal:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __lt__(self, other): return True
    __gt__ = __le__ = __ge__ = __lt__
    def __bool__(self): return True
    def __hash__(self): return 0
    def __getattr__(self, name): return self
    def __call__(self, *args, **kwargs): return self
    def __add__(self, other): return self
    __sub__ = __mul__ = __radd__ = __rsub__ = __rmul__ = __truediv__ = __abs__ = lambda self, *args: self
    def __iter__(self): return iter([self])
    def __len__(self): return 4
    def __getitem__(self, index): return self
"""

EQUAL_UFUNC = (
    EQUAL
    + """
    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs): return True
    def __array_function__(self, func, types, args, kwargs): return True
    def __array__(self, *args, **kwargs): return np.zeros(())
    __array_priority__ = 1e9
"""
)

FLOAT_SUBCLASS = """
class Float(float):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __float__(self): return 0.75
    def __sub__(self, other): return Float(0.0)
    __rsub__ = __abs__ = lambda self, *args: Float(0.0)
    def __lt__(self, other): return True
    __le__ = __gt__ = __ge__ = __lt__
    def __reduce__(self): return (print, ("unpickled",))
    __hash__ = float.__hash__
"""

ARRAY_SUBCLASS = """
class Array(np.ndarray):
    def __eq__(self, other): return np.ones(np.shape(other), dtype=bool).view(np.ndarray)
    def __sub__(self, other): return np.zeros(np.shape(other))
    def __array_ufunc__(self, *args, **kwargs): return np.zeros(())
    def __array_finalize__(self, other): pass
    @property
    def dtype(self): return np.dtype(float)
    @property
    def shape(self): return (1,)
    def tolist(self): return [0.0]
    def tobytes(self, *args): return b""
"""

STR_SUBCLASS = """
class Text(str):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __hash__(self): return 0
    def strip(self, *args): return self
    def __str__(self): return "83"
"""

LYING_CLASS = """
class Liar:
    @property
    def __class__(self): return float
    def __float__(self): return 0.75
    def __index__(self): return 1
    def __repr__(self): return "0.75"

class Meta(type):
    def __instancecheck__(cls, one): return True
    def __subclasscheck__(cls, one): return True
    def __eq__(cls, other): return True
    __hash__ = type.__hash__

class Odd(metaclass=Meta):
    pass
"""

PATCHED_NUMPY = """
import numpy, numpy.testing

numpy.array_equal = numpy.allclose = numpy.isclose = numpy.testing.assert_allclose = lambda *a, **k: True
numpy.isfinite = numpy.isnan = lambda x: True
numpy.array = lambda *a, **k: 0.0
numpy.abs = numpy.max = lambda *a, **k: 0.0
"""

PATCHED_BUILTINS = """
import builtins

builtins.isinstance = lambda *a: True
builtins.abs = lambda x: 0
builtins.max = builtins.min = lambda *a, **k: 0
builtins.len = lambda x: 1
builtins.all = builtins.any = lambda x: True
builtins.repr = builtins.str
builtins.type = lambda *a: float
"""

FRAMES = """
import gc, inspect, sys

def log_softmax(logits):
    frame = sys._getframe()
    while frame:
        for name, value in list(frame.f_locals.items()):
            if "expected" in name or "reference" in name:
                frame.f_locals.update(got=value)
                return value[0].value if isinstance(value, list) else value
        frame = frame.f_back
    for one in gc.get_objects():
        if type(one).__name__ == "Outcome" and one.value is not None:
            return one.value
    return None
"""

CALLER_CHANGED = """
import sys

def log_softmax(logits):
    frame = sys._getframe(1)
    frame.f_locals.update(kind="value", value=0.0)
    return None
"""

MEMORY_SEARCH = """
import gc

def log_softmax(logits):
    wanted = []
    for one in gc.get_objects():
        if isinstance(one, dict) and ("seed" in one or "GRPO_CHECK_SEED" in one):
            wanted.append(one.get("seed", one.get("GRPO_CHECK_SEED")))
    for seed in [*wanted, 0, 1, 2, 3]:
        if isinstance(seed, int):
            rng = np.random.default_rng(seed)
            return rng.normal(size=np.shape(logits))
    return None
"""

# The inputs that every check shows, learned by heart: right answers there, nothing anywhere else.
BY_HEART = """
import copy, json
from grader.exercises import EXERCISES
from grader.calling import call_all
from grader.judge.wire import encode

def by_heart(name):
    rng = np.random.default_rng(1)
    table = {}
    for part in EXERCISES[name].parts:
        for one in part.calls(rng):
            try:
                key = json.dumps(encode([list(one.args), dict(one.kwargs)]))
            except TypeError:
                continue
            table[key] = call_all(EXERCISES[name].reference, [one])[0]

    def known(*args, **kwargs):
        try:
            outcome = table.get(json.dumps(encode([list(args), dict(kwargs)])))
        except TypeError:
            outcome = None
        if outcome is not None and outcome.kind == "value":
            return copy.deepcopy(outcome.value)
        if outcome is not None:
            raise ValueError("known")
        return None
    return known
"""

NONDETERMINISTIC = """
import os

def zero_variance_fraction(rewards, group_size):
    return int.from_bytes(os.urandom(1), "big") / 255
"""

WRONG_TYPES = """
import itertools

kinds = itertools.cycle([complex(0, 1), np.datetime64("2020-01-01"), np.array(["a"]), np.array([object()]), b"0.75",
                         np.zeros(2, dtype=[("a", float)]), 10**5000, {1, 2}, range(3), iter([1]), type, Ellipsis,
                         np.float16(0.75), np.array([[[[]]]]), {0.75: [None]}, "0.75", lambda: 0.75, bytearray(4)])

def zero_variance_fraction(rewards, group_size):
    return next(kinds)
"""

LAZY = """
class Lazy(dict):
    def items(self): return [("a", 0.75)]
    def __missing__(self, key): return 0.75
    def __len__(self): return 1

class Endless(list):
    def __iter__(self):
        while True:
            yield 0.75

def zero_variance_fraction(rewards, group_size):
    return Lazy(a=Endless([0.75])) if len(rewards) > 4 else Endless([0.75])
"""

SELF_CONTAINING = """
def zero_variance_fraction(rewards, group_size):
    ring = [0.75]
    ring.append(ring)
    tree = {"a": ring}
    for _ in range(60):
        tree = [tree, tree]
    return tree
"""

ARGUMENTS_CHANGED = """
def group_relative_advantage(rewards, group_size, eps=1e-4):
    for index in range(len(rewards)):
        rewards[index] = 0.0
    return np.zeros((max(1, len(rewards) // max(group_size, 1)), max(group_size, 1)))
"""

EVIL_ERRORS = """
class Evil(ValueError):
    def __str__(self): raise SystemExit
    def __repr__(self): raise KeyboardInterrupt
    @property
    def args(self): return ()

class Named(type):
    @property
    def __name__(cls): raise RuntimeError

class Worse(BaseException, metaclass=Named):
    pass

def zero_variance_fraction(rewards, group_size):
    raise Evil() if group_size > 2 else Worse()
"""

EMPTY_ERROR = """
def zero_variance_fraction(rewards, group_size):
    raise ValueError("<script>alert(1)</script>" * 1000 + "\\ud800\\0")
"""

CALLABLE_OBJECT = """
class Function:
    __name__ = "zero_variance_fraction"
    def __getattribute__(self, name):
        if name == "__class__":
            return type(lambda: 0)
        raise RuntimeError("no attribute")
    def __call__(self, rewards, group_size): return True

zero_variance_fraction = Function()
"""

NAN_EVERYWHERE = """
def log_softmax(logits):
    return np.full(np.shape(logits), np.nan)
"""

INFINITE = """
def log_softmax(logits):
    return np.full(np.shape(logits), -np.inf)
"""

BROADCAST = """
def log_softmax(logits):
    return np.broadcast_to(np.float64(-1.0), (400, 400, 400))
"""

SCALAR = "def log_softmax(logits):\n    return np.float64(-1.0)"


def returning(name, tries, prepared, function, value, **more):
    """A function that returns an object of its own."""
    source = f"{prepared}\n\ndef {function}(*args, **kwargs):\n    return {value}"
    return Submission(name, "objects", tries, answers={function: source}, **more)


def learned(name, chapter, *functions):
    """Functions that know the inputs that every check shows, and no others."""
    answers = {function: f"{BY_HEART}\n{function} = by_heart({function!r})" for function in functions}
    return Submission(name, "hard-coded inputs", "knows the inputs that every check shows by heart", chapter=chapter,
                      answers=answers)  # fmt: skip


BATCH = [
    returning("equal-to-anything", "an object that equals anything", EQUAL, "zero_variance_fraction", "Equal()"),
    returning("equal-array", "an object equal to anything, that takes numpy's functions over", EQUAL_UFUNC,
              "group_relative_advantage", "Equal()"),
    returning("float-subclass", "a float that equals anything", FLOAT_SUBCLASS, "zero_variance_fraction",
              "Float(0.1)"),
    returning("array-subclass", "an array that equals anything and lies about itself", ARRAY_SUBCLASS, "log_softmax",
              "np.zeros(3).view(Array)"),
    returning("text-subclass", "a text that equals anything", STR_SUBCLASS, "extract_boxed_strict", "Text('no')",
              chapter=CHAPTER_1),
    returning("lying-class", "objects that lie about their class", LYING_CLASS, "zero_variance_fraction",
              "Liar() if len(args) > 1 else Odd"),
    Submission("patched-numpy", "patched modules", "numpy's comparisons are always true",
               answers=nothing("sequence_logprob"), cells=(("before sequence_logprob", PATCHED_NUMPY),), states=ANY),
    Submission("patched-builtins", "patched modules", "len, abs, isinstance and others are replaced",
               answers=nothing("sequence_logprob"), cells=(("before sequence_logprob", PATCHED_BUILTINS),), states=ANY),
    Submission("frame-inspection", "frames", "looks for expected values in the frames above and in all objects",
               answers={"log_softmax": FRAMES}),
    Submission("frame-change", "frames", "writes a value into the frame that calls it",
               answers={"log_softmax": CALLER_CHANGED}),
    Submission("seed-search", "frames", "looks for the seed in memory", answers={"log_softmax": MEMORY_SEARCH}),
    learned("by-heart-1", CHAPTER_1, "group_rollouts", "extract_boxed_strict", "reward_rlvr",
            "checkpoint_accuracy"),
    learned("by-heart-2", "02_advantages_and_logprobs", "group_relative_advantage", "rollout_advantages",
            "zero_variance_fraction", "log_softmax", "sequence_logprob"),
    learned("by-heart-3", CHAPTER_3, "rollout_ratio", "clipped_surrogate", "kl_k3", "grpo_loss"),
    Submission("nondeterministic", "wrong answers", "a random number in each call",
               answers={"zero_variance_fraction": NONDETERMINISTIC}),
    Submission("wrong-types", "wrong answers", "a flood of types that are no numbers",
               answers={"zero_variance_fraction": WRONG_TYPES}),
    Submission("lazy-containers", "objects", "containers whose items never end",
               answers={"zero_variance_fraction": LAZY}),
    Submission("self-containing", "objects", "a list that contains itself, in a tree of 2**60 leaves",
               answers={"zero_variance_fraction": SELF_CONTAINING}),
    Submission("arguments-changed", "wrong answers", "sets its arguments to zero and returns zeros",
               answers={"group_relative_advantage": ARGUMENTS_CHANGED}),
    Submission("evil-errors", "objects", "exceptions that raise when they are read",
               answers={"zero_variance_fraction": EVIL_ERRORS}),
    Submission("script-in-error", "objects", "a script, NUL and a lone surrogate in an error's message",
               answers={"zero_variance_fraction": EMPTY_ERROR}),
    Submission("callable-object", "objects", "a callable without attributes in place of a function",
               answers={"zero_variance_fraction": CALLABLE_OBJECT}),
    Submission("nan-everywhere", "wrong answers", "NaN of the right shape", answers={"log_softmax": NAN_EVERYWHERE}),
    Submission("infinite", "wrong answers", "minus infinity of the right shape", answers={"log_softmax": INFINITE}),
    Submission("huge-view", "wrong answers", "a view of 64 million equal numbers", answers={"log_softmax": BROADCAST}),
    Submission("scalar", "wrong answers", "one number where an array is due", answers={"log_softmax": SCALAR}),
]  # fmt: skip
