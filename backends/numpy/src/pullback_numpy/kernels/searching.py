"""Searching in NumPy: positions of elements, and distinct elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback import dtypes
from pullback.plugins.records import Kernel
from pullback_numpy.kernels.sorting import groups
from pullback_numpy.typing import Array


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
    return np.searchsorted(_comparable(x1), _comparable(x2), side, order)


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
    "searchsorted": _searchsorted,
    "unique_all": groups,
    "unique_counts": _unique_counts,
    "unique_inverse": _unique_inverse,
    "unique_values": _unique_values,
}
