"""The grader of *GRPO from scratch*: exercises as data, and `check(fn)`, which names the mistake.

Importing this package costs nothing: `check` is loaded on first use, so that `python -m grader lab` also
runs on a machine where numpy is not installed yet.
"""

__all__ = ["check"]


def __getattr__(name: str):
    if name == "check":
        from grader.checking import check

        return check
    raise AttributeError(f"module 'grader' has no attribute {name!r}")
