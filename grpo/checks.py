"""Input checks of the library: each returns clean data or raises a ValueError that says how to repair it."""

import operator

import numpy as np


def as_count(value, name, minimum):
    """A whole number of things, at least `minimum`.

    Returns: int.
    Raises: ValueError for a float, a bool, a string, None, or a number below `minimum`.
    """
    try:
        count = operator.index(value)
    except TypeError:
        count = None
    # True is an int in Python, but "a group of True" is always a slip.
    if count is None or isinstance(value, bool):
        raise ValueError(f"{name} is {value!r}: pass a whole number of at least {minimum}")
    if count < minimum:
        raise ValueError(f"{name} is {count}: it must be at least {minimum}")
    return count


def as_nonnegative(value, name):
    """A finite number that is zero or more, such as a clip range or a coefficient.

    Returns: float.
    Raises: ValueError for NaN, infinity, a negative number, or something that is no number.
    """
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = np.nan
    if not 0.0 <= number < np.inf:
        raise ValueError(f"{name} is {value!r}: pass a finite number that is 0 or more")
    return number


def as_positive(value, name):
    """A finite number above zero, such as a temperature or a step of finite differences.

    Returns: float.
    Raises: ValueError for NaN, infinity, zero, a negative number, or something that is no number.
    """
    number = as_nonnegative(value, name)
    if number == 0.0:
        raise ValueError(f"{name} is {value!r}: pass a number above 0")
    return number


def as_floats(values, name):
    """Numbers of any shape (ints and bools are cast, None becomes NaN) as float64.

    Returns: float64 array of the same shape.
    Raises: ValueError if the values are no numbers or form no rectangle.
    """
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be an array of numbers, all rows equally long: {error}") from error


def as_integers(values, name):
    """Whole numbers of any shape, such as token ids.

    Returns: integer array of the same shape.
    Raises: ValueError for floats, bools, strings, and for an empty list (whose dtype is float).
    """
    integers = np.asarray(values)
    if integers.dtype.kind not in "iu":
        raise ValueError(f"{name} has dtype {integers.dtype}: pass integers, for example with .astype(int)")
    return integers


def as_finite_vector(values, name):
    """One finite number per row.

    Returns: (N,) float64 array, N >= 1.
    Raises: ValueError if the array is not 1-D, is empty, or holds NaN or infinity (the row is named).
    """
    vector = as_floats(values, name)
    # A (G, 1) column would broadcast against a (G,) row to G x G without any error.
    if vector.ndim != 1:
        raise ValueError(f"{name} has shape {vector.shape}: pass a flat 1-D array, for example with .ravel()")
    if vector.size == 0:
        raise ValueError(f"{name} is empty: pass at least one number")
    bad_rows = np.flatnonzero(~np.isfinite(vector))
    if bad_rows.size:
        row = bad_rows[0]
        raise ValueError(f"{name}[{row}] is {vector[row]}: repair or drop row {row} before this call")
    return vector


def as_mask(mask, shape):
    """A 0/1 or bool mask as bool, of exactly the given shape, with at least one axis.

    Returns: bool array.
    Raises: ValueError if the shape is another one (nothing is broadcast) or an entry is neither 0 nor 1.
    """
    mask = np.asarray(mask)
    if mask.shape != shape or mask.ndim == 0:
        raise ValueError(f"mask has shape {mask.shape}, the values {shape}: pass one entry per token")
    if not np.all((mask == 0) | (mask == 1)):
        raise ValueError("mask holds an entry that is neither 0 nor 1: pass bools, or weight the values yourself")
    return mask.astype(bool)


def require_same_length(**arrays):
    """Raise a ValueError that lists the lengths unless all the named sequences are equally long."""
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name}: {length}" for name, length in lengths.items())
        raise ValueError(f"lengths differ ({listed}): pass one entry per row in each of them")


def require_choice(value, name, choices):
    """Raise a ValueError that lists the choices unless the value is one of them."""
    if value not in choices:
        raise ValueError(f"{name} is {value!r}: choose {', '.join(map(repr, choices))}")
