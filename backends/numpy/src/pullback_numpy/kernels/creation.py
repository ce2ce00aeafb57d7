"""Creation and conversion in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.casting import EXACT, cast, number
from pullback.dtypes import bfloat16
from pullback.plugins.records import Kernel
from pullback_numpy import half
from pullback_numpy.typing import Array, DType

#: Elements that stay in the cache through all passes.
_BLOCK = 8192


def _astype(x: Array, *, dtype: DType) -> Array:
    return cast(x, dtype) if dtype is bfloat16 else half.astype(x, dtype)


def _full(*, shape: tuple[int, ...], fill_value: Any, dtype: DType, device: None) -> Array:
    if not fill_value and type(fill_value) is not float:
        return np.zeros(shape, dtype)  # pages that are never touched cost nothing
    if dtype is bfloat16 or (type(fill_value) is int and not -EXACT <= fill_value <= EXACT):
        fill_value = number(fill_value, dtype)
    result = np.empty(shape, dtype)
    if dtype is bfloat16:
        # NumPy fills a dtype that is not its own element by element.
        result.view(np.uint16).fill(np.asarray(fill_value, dtype).view(np.uint16))
        return result
    result.fill(fill_value)  # `np.full` takes twice as long for few elements
    return result


def _arange(*, start: Any, stop: Any, step: Any, dtype: DType, device: None) -> Array:
    if type(start) is type(stop) is type(step) is int:
        # Integers that float32 has, and so their differences from the first one.
        exact = dtype.char == "f" and max(abs(start), abs(stop), abs(stop - start)) <= 1 << 24
        if dtype.kind in "iu" or dtype.itemsize == 8 or exact:
            return np.arange(start, stop, step, dtype=dtype)
        return cast(np.arange(start, stop, step), dtype)
    # The length as in the op's rule; start + i * step is nearer than adding steps up.
    length = max(0, -int((start - stop) / step // 1))
    moves = bool(start or step < 0)  # else the sum changes nothing
    if length <= 2 * _BLOCK or dtype.char not in "fd":
        counts = np.arange(length, dtype=np.float64)
        counts *= step
        if moves:
            counts += start
        return counts.astype(dtype, copy=False) if dtype.char in "fd" else cast(counts, dtype)
    y, first = np.empty(length, dtype), np.arange(_BLOCK, dtype=np.float64)
    room = np.empty(_BLOCK)
    for begin in range(0, length, _BLOCK):
        part = y[begin : begin + _BLOCK]
        counts = part if dtype.char == "d" else room[: part.size]
        np.add(first[: part.size], begin, out=counts)
        counts *= step
        if moves:
            counts += start
        if counts is not part:
            part[...] = counts
    return y


def _bitcast(x: Array, *, dtype: DType, parts: int, whole: int) -> Array:
    if x.itemsize * whole != dtype.itemsize * parts:
        # `view` would have a last axis of another length.
        raise ValueError(f"{whole} of {x.dtype} do not make {parts} of {dtype}")
    if whole > 1:
        found: Array = np.ascontiguousarray(x).view(dtype)[..., 0]
        return found
    return (x[..., None] if parts > 1 else x).view(dtype)


KERNELS: dict[str, Kernel] = {
    "arange": _arange,
    "astype": _astype,
    "bitcast": _bitcast,
    "full": _full,
}
