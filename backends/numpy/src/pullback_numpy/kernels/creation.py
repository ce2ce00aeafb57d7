"""Creation and conversion in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.casting import EXACT, cast, number
from pullback.dtypes import bfloat16
from pullback.plugins.records import Kernel
from pullback_numpy import half
from pullback_numpy.typing import Array, DType


def _astype(x: Array, *, dtype: DType) -> Array:
    return cast(x, dtype) if dtype is bfloat16 else half.astype(x, dtype)


def _full(*, shape: tuple[int, ...], fill_value: Any, dtype: DType, device: None) -> Array:
    if not fill_value and type(fill_value) is not float:
        return np.zeros(shape, dtype)  # pages that are never touched cost nothing
    if dtype is bfloat16 or (type(fill_value) is int and not -EXACT <= fill_value <= EXACT):
        fill_value = number(fill_value, dtype)
    result = np.empty(shape, dtype)
    result.fill(fill_value)  # `np.full` takes twice as long for few elements
    return result


def _arange(*, start: Any, stop: Any, step: Any, dtype: DType, device: None) -> Array:
    if type(start) is type(stop) is type(step) is int:
        if dtype.kind in "iu" or dtype.itemsize == 8:
            return np.arange(start, stop, step, dtype=dtype)
        return cast(np.arange(start, stop, step), dtype)
    # The length as in the op's rule; start + i * step is nearer than adding steps up.
    length = max(0, -int((start - stop) / step // 1))
    counts = np.arange(length, dtype=np.float64)
    counts *= step
    if start or step < 0:  # else the sum changes nothing
        counts += start
    if dtype.char in "fd":
        return counts.astype(dtype, copy=False)
    return cast(counts, dtype)


def _bitcast(x: Array, *, dtype: DType, parts: int, whole: int) -> Array:
    y = (x[..., None] if parts > 1 else np.asarray(x, order="C")).view(dtype)
    return y[..., 0] if whole > 1 else y


KERNELS: dict[str, Kernel] = {
    "arange": _arange,
    "astype": _astype,
    "bitcast": _bitcast,
    "full": _full,
}
