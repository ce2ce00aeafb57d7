"""Host data as NumPy arrays: nested lists, numbers, and arrays of NumPy and of other libraries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from pullback import dtypes, errors
from pullback.casting import EXACT, cast, number
from pullback.dtypes import DType

__all__ = [
    "SCALAR_TYPES",
    "Numbers",
    "cast_host",
    "host_array",
    "leaf_types",
    "leaves",
    "numbers_of",
]

_SCALARS = (bool, int, float, complex)
SCALAR_TYPES = frozenset(_SCALARS)
_FLOATS = {float}


def leaves(value: object) -> Iterable[object]:
    """Yields what nested lists hold."""
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from leaves(item)
    else:
        yield value


def leaf_types(value: object) -> set[type]:
    """The types of what nested lists hold, without a look at each item of a list of numbers."""
    if not isinstance(value, (list, tuple)):
        return {type(value)}
    kinds = set(map(type, value))
    nested = {kind for kind in kinds if issubclass(kind, (list, tuple))}
    if nested:
        kinds -= nested
        kinds.update(*[leaf_types(item) for item in value if type(item) in nested])
    return kinds


def _not_numbers(value: object, dtype: np.dtype[Any]) -> str:
    what = f"{type(value).__name__} of {dtype} is not an array of numbers; "
    if isinstance(value, Mapping):
        return what + "pass one of the arrays that it holds, such as x['name']"
    first = next(np.asarray(value, object).flat, None)
    if dtype.kind in "SUT" or isinstance(first, str):
        # Names of classes, nearly always.
        return what + (
            "make labels of names: `names, labels = np.unique(x, return_inverse=True)`, and "
            "numbers of numerals: `np.asarray(x, 'float32')`"
        )
    return what + f"a tensor holds one of {', '.join(str(d) for d in dtypes.ALL)}"


def host_array(value: object) -> np.ndarray[Any, Any]:
    """A NumPy array from host data: arrays keep their dtype, Python numbers get the defaults.

    Raises:
        ConversionError: for ragged lists, objects, and values that no dtype holds.
    """
    if isinstance(value, range):
        value = list(value)
    sequence = isinstance(value, (list, tuple))
    try:
        array = np.asarray(value)
    except errors.SymbolicError:
        raise
    except (ValueError, TypeError) as error:
        if sequence:
            raise errors.ConversionError(
                "nested lists of unequal lengths cannot be an array; pad them to one length"
            ) from None
        raise errors.ConversionError(
            f"{type(value).__name__} cannot be an array: {error}"
        ) from None
    except OverflowError:
        raise errors.ConversionError(
            "an integer in the data is out of every dtype's range"
        ) from None
    except (RuntimeError, BufferError) as error:
        # Another library does not hand its array over, such as one that records gradients.
        raise errors.ConversionError(
            f"{type(value).__name__} cannot be an array: {error}"
        ) from error
    if array.dtype not in dtypes.ALL:
        if array.dtype in dtypes.STORAGE:
            return array
        if not array.dtype.isnative:
            return host_array(array.astype(array.dtype.newbyteorder("=")))
        raise errors.ConversionError(_not_numbers(value, array.dtype))
    kinds = leaf_types(value)
    if not kinds <= SCALAR_TYPES:
        return array
    if array.size == 0:
        return array.astype(dtypes.DEFAULT_FLOAT)
    if kinds == _FLOATS:
        with np.errstate(over="ignore"):
            return cast(array, dtypes.DEFAULT_FLOAT)
    if dtypes.kind(array.dtype) >= dtypes.FLOAT:
        if kinds == {int}:
            # NumPy takes floats for integers beyond int64 beside others: some would be others.
            try:
                return np.asarray(value, dtypes.uint64)
            except OverflowError:
                raise errors.ConversionError(
                    "no integer dtype holds all integers in the data"
                ) from None
        real = dtypes.kind(array.dtype) == dtypes.FLOAT
        with np.errstate(over="ignore"):
            wanted = dtypes.DEFAULT_FLOAT if real else dtypes.DEFAULT_COMPLEX
            return _rounded(value, array, wanted)
    if dtypes.kind(array.dtype) == dtypes.INT:
        narrow = array.astype(dtypes.DEFAULT_INT)
        # int32 unless a value does not fit: never a wrong number.
        return narrow if (narrow == array).all() else array
    return array


def cast_host(value: object, array: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    """`array`, which `host_array` made of `value`, as another dtype.

    Raises:
        ConversionError: for integers out of range, and complex numbers as real ones.
    """
    stored = next((d for d in (array.dtype, dtype) if dtypes.kind(d) == dtypes.STORED), None)
    if stored is not None and dtypes.float32 not in (array.dtype, dtype):
        raise errors.DTypeError(
            f"{stored} is converted from float32 and back only; write "
            f"pb.asarray(x, dtype=pb.float32).astype(pb.{stored})"
        )
    if not isinstance(value, np.ndarray):
        # From the source again, so that no digit is lost through the default dtype, and a Python
        # integer out of range is an error.
        array = np.asarray(value)
        if array.dtype.kind in "iu" and dtypes.kind(dtype) == dtypes.INT and array.size:
            info = np.iinfo(dtype)
            if array.min() < info.min or array.max() > info.max:
                raise errors.ConversionError(f"a value in the data is out of range for {dtype}")
    if array.dtype.kind == "c" and not dtypes.is_complex(dtype):
        raise errors.ConversionError(
            f"complex data cannot be converted to {dtype}; take pb.real(x) or pb.abs(x)"
        )
    with np.errstate(all="ignore"):
        return _rounded(value, array, dtype)


def _rounded(value: object, array: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    """`array`, which NumPy made of `value`, as `dtype`; each number is rounded once."""
    # Integers beside floats, or beyond int64 beside others, have gone through float64.
    listed = isinstance(value, (list, tuple)) and dtypes.is_floating(dtype)
    large = listed and array.dtype.kind in "fc" and (abs(array) > EXACT).any()
    if large and leaf_types(value) <= SCALAR_TYPES:
        rounded = [number(leaf, dtype) for leaf in leaves(value)]
        return np.asarray(rounded, dtype).reshape(array.shape)
    return cast(array, dtype)


class Numbers:
    """Nested lists of Python numbers, which are weak beside tensors as a single number is."""

    def __init__(self, value: object, array: np.ndarray[Any, Any], kind: type) -> None:
        self.value = value
        #: As NumPy holds them.
        self.array = array
        #: The type of Python's that holds all of them.
        self.type = kind

    def fit(self, dtype: DType) -> bool:
        """Returns whether a dtype that holds such numbers has room for them."""
        if not self.array.size or self.type is not int or dtypes.kind(dtype) != dtypes.INT:
            return True
        info = np.iinfo(dtype)
        return bool(info.min <= self.array.min() and self.array.max() <= info.max)

    def as_dtype(self, dtype: DType) -> np.ndarray[Any, Any]:
        """The numbers as an array of `dtype`; each is rounded once."""
        with np.errstate(all="ignore"):
            return _rounded(self.value, self.array, dtype)


def numbers_of(value: object) -> Numbers | None:
    """Nested lists of Python numbers; None for anything else, and for ragged lists."""
    if not isinstance(value, (list, tuple)):
        return None
    kinds = leaf_types(value)
    if not kinds <= SCALAR_TYPES:
        return None
    try:
        array = np.asarray(value)
    except (ValueError, OverflowError):
        return None
    if array.dtype not in dtypes.ALL:
        return None
    kind = _SCALARS[dtypes.kind(array.dtype)]
    # NumPy takes floats for integers beyond int64 beside others.
    return None if kind is float and kinds == {int} else Numbers(value, array, kind)
