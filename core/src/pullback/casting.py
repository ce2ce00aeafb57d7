"""Conversion between dtypes with one rounding, and computing on 16-bit floats in float32.

`cast` and `number` convert values on the host. ml_dtypes converts to bfloat16 by way of float32,
which may round a value to the midpoint between two bfloat16 numbers and then to the wrong one.
Python integers are converted to the narrow floats by way of float64.

`widened` and `narrowed` are for bodies of ops and for kernels: 16-bit floats are too coarse for
sums, exponentials and differences, so these are computed in float32 and rounded once at the end.
`casts_to_float32` makes the same two functions for arrays whose dtypes are their library's own.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from pullback.dtypes import FLOATING, DType, bfloat16, complex128, float16, float32, float64, uint32

#: The 16-bit floats.
HALF: frozenset[DType] = frozenset((float16, bfloat16))

#: The largest magnitude up to which float64 holds every integer.
EXACT = 2**53
#: More bits than rounding to a narrow float needs; the last one is set if any bit after it is.
_ENOUGH = 40


def cast(array: Any, dtype: DType) -> np.ndarray[Any, Any]:
    """A new array with the values as `dtype`: to the nearest, ties to even, in one step.

    >>> cast(np.array([1 + 2**-8 + 2**-40]), bfloat16).tolist()
    [1.0078125]
    """
    array = np.asarray(array)
    result: np.ndarray[Any, Any]
    if dtype != bfloat16 or array.dtype.itemsize <= 2 or array.dtype == float32:
        result = array.astype(dtype)
        return result
    single = array.astype(float32)
    bits = single.view(uint32)
    # bfloat16 is the upper half of a float32.
    halfway = (bits & 0xFFFF) == 0x8000
    if halfway.any():
        rounded, exact = single[halfway], array[halfway]
        back = rounded.astype(array.dtype)
        inexact = exact != back
        outward = (exact > back) == (rounded > 0)
        bits[halfway] = rounded.view(uint32) + (inexact & outward) - (inexact & ~outward)
    result = single.astype(dtype)
    return result


def number(value: Any, dtype: DType) -> np.ndarray[Any, Any]:
    """A Python number as a 0-d array, rounded once.

    Raises:
        OverflowError: for an integer out of the range of an integer dtype, or of float64.
        ValueError: for NaN and an integer dtype.
        TypeError: for a complex number and a real dtype.

    >>> number(2**60 + 2**36 + 1, float32).item() == 2**60 + 2**37
    True
    """
    if (
        type(value) is int
        and not -EXACT <= value <= EXACT
        and dtype in FLOATING
        and dtype not in (float64, complex128)
    ):
        magnitude = abs(value)
        shift = magnitude.bit_length() - _ENOUGH
        leading = magnitude >> shift
        magnitude = (leading | (leading << shift != magnitude)) << shift
        value = magnitude if value > 0 else -magnitude
    if dtype == bfloat16:
        return cast(np.asarray(value, float64), dtype)
    return np.asarray(value, dtype)


class _Castable(Protocol):
    """An array that converts itself: `pullback.Tensor`, NumPy's and CuPy's."""

    @property
    def dtype(self) -> Any: ...

    def astype(self, dtype: Any, /) -> Self: ...


class _HasDType(Protocol):
    @property
    def dtype(self) -> Any: ...


_A = TypeVar("_A", bound=_Castable)
_T = TypeVar("_T", bound=_HasDType)


def compute_dtype(dtype: DType) -> DType:
    """The dtype to compute in: float32 for 16-bit floats, `dtype` itself for all others.

    >>> compute_dtype(bfloat16)
    dtype('float32')
    """
    return float32 if dtype in HALF else dtype


def widened(x: _A) -> _A:
    """x, as float32 if it holds 16-bit floats.

    >>> widened(np.ones(2, float16)).dtype
    dtype('float32')
    """
    return x.astype(float32) if x.dtype in HALF else x


def narrowed(y: _A, like: _HasDType) -> _A:
    """y in the dtype of `like`: the inverse of `widened`, with one rounding.

    >>> x = np.asarray([1.0, 2.0], float16)
    >>> narrowed(np.exp(widened(x)), x).dtype
    dtype('float16')
    """
    return y if y.dtype == like.dtype else y.astype(like.dtype)


def casts_to_float32(
    half: Container[Any], float32: Any, astype: Callable[[_T, Any], _T]
) -> tuple[Callable[[_T], _T], Callable[[_T, _HasDType], _T]]:
    """`widened` and `narrowed` for arrays of another library.

    >>> widened, narrowed = casts_to_float32({np.dtype("float16")}, np.float32, np.astype)
    >>> widened(np.ones(2, "float16")).dtype
    dtype('float32')

    Args:
        half: the library's 16-bit floats.
        float32: its float32.
        astype: `astype(x, dtype)`, an array with the values of x in that dtype.
    """

    def widened(x: _T) -> _T:
        return astype(x, float32) if x.dtype in half else x

    def narrowed(y: _T, like: _HasDType) -> _T:
        return y if y.dtype == like.dtype else astype(y, like.dtype)

    return widened, narrowed
