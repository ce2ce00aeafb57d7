"""Values on the host as another dtype, rounded once.

ml_dtypes goes to bfloat16 by way of float32: what float32 rounds to the middle between two of
bfloat16 may lie on the wrong side of it. Python integers go to the narrow floats by way of float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.dtypes import FLOATING, DType, bfloat16, complex128, float32, float64, uint32

#: Integers beyond this a float64 may not hold.
EXACT = 2**53
#: More bits than a narrow float and its rounding look at; the last stands for all that follow.
_ENOUGH = 40


def cast(array: Any, dtype: DType) -> np.ndarray[Any, Any]:
    """A new array with the values as `dtype`: to the nearest, ties to even, in one step.

    >>> cast(np.array([1 + 2**-8 + 2**-40]), bfloat16).tolist()
    [1.0078125]
    """
    array = np.asarray(array)
    found: np.ndarray[Any, Any]
    if dtype != bfloat16 or array.dtype.itemsize <= 2 or array.dtype == float32:
        found = array.astype(dtype)
        return found
    single = array.astype(float32)
    bits = single.view(uint32)
    # bfloat16 is the upper half of a float32.
    halfway = (bits & 0xFFFF) == 0x8000
    if halfway.any():
        near, wide = single[halfway], array[halfway]
        exact = near.astype(array.dtype)
        moved = wide != exact
        outward = (wide > exact) == (near > 0)
        bits[halfway] = near.view(uint32) + (moved & outward) - (moved & ~outward)
    found = single.astype(dtype)
    return found


def number(value: Any, dtype: DType) -> np.ndarray[Any, Any]:
    """A Python number as a 0-d array, rounded once.

    Raises:
        OverflowError: for an integer out of the range of an integer dtype, or of float64.
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
        size = abs(value)
        shift = size.bit_length() - _ENOUGH
        top = size >> shift
        size = (top | (top << shift != size)) << shift
        value = size if value > 0 else -size
    if dtype == bfloat16:
        return cast(np.asarray(value, float64), dtype)
    return np.asarray(value, dtype)
