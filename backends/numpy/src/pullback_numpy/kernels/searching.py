"""Searching in NumPy: positions of elements, and distinct elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback import dtypes
from pullback.plugins.records import Kernel
from pullback_numpy.kernels.sorting import by_digits, groups
from pullback_numpy.typing import Array

#: From this many elements on, a search reads memory that no near cache holds.
_CACHED = 1 << 17
#: So many values are compared one by one.
_COMPARED = 8


def _argmax(x: Array, *, axis: int | None, keepdims: bool) -> Any:
    return _comparable(x).argmax(axis, keepdims=keepdims)


def _argmin(x: Array, *, axis: int | None, keepdims: bool) -> Any:
    return _comparable(x).argmin(axis, keepdims=keepdims)


def _comparable(x: Array) -> Any:
    """bfloat16 as float32, which NumPy's own searches can order."""
    return x.astype(np.float32) if x.dtype == dtypes.bfloat16 else x


def _argwhere(x: Array) -> Array:
    if not x.ndim:
        return np.zeros((int(x != 0), 0), np.int64)
    found = x.nonzero()
    return found[0][:, None] if len(found) == 1 else np.stack(found, 1)


def _searchsorted(x1: Array, x2: Array, sorter: Array | None, *, side: Any) -> Any:
    order = None if sorter is None else sorter.astype(np.intp, copy=False)  # not of uint64
    x1, x2 = _comparable(x1), _comparable(x2)
    if x1.size > _CACHED and x2.size > _CACHED and x2.dtype.itemsize <= 4:
        # In order: neighbors are found by the same elements of x1, which the cache still holds.
        flat = x2.reshape(-1)
        turns = by_digits(flat)
        if turns is not None:
            places = np.empty(flat.size, np.intp)
            places[turns] = np.searchsorted(x1, flat[turns], side, order)
            return places.reshape(x2.shape)
    return np.searchsorted(x1, x2, side, order)


def _isin(x1: Array, x2: Array, *, invert: bool) -> Any:
    if x2.size <= _COMPARED:
        found = np.zeros(x1.shape, np.bool_)
        for one in x2.reshape(-1):
            found |= x1 == one
        return ~found if invert else found
    values = np.sort(_comparable(x2), axis=None)
    x1 = _comparable(x1)
    places = np.minimum(_searchsorted(values, x1, None, side="left"), values.size - 1)
    found = values[places] == x1
    return ~found if invert else found


def _unique_values(x: Array) -> Array:
    return np.unique(_comparable(x), equal_nan=False).astype(x.dtype, copy=False)


def _unique_counts(x: Array) -> tuple[Array, ...]:
    values, counts = np.unique(_comparable(x), return_counts=True, equal_nan=False)
    return values.astype(x.dtype, copy=False), counts


def _unique_inverse(x: Array) -> tuple[Array, ...]:
    return groups(x)[::2]


KERNELS: dict[str, Kernel] = {
    "argmax": _argmax,
    "argmin": _argmin,
    "argwhere": _argwhere,
    "isin": _isin,
    "searchsorted": _searchsorted,
    "unique_all": groups,
    "unique_counts": _unique_counts,
    "unique_inverse": _unique_inverse,
    "unique_values": _unique_values,
}
