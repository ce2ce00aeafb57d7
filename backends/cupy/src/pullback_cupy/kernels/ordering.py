"""Sorting and searching. CuPy's sorts lack bfloat16, which goes through float32."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np

from pullback.casting import compute_dtype
from pullback.dtypes import bfloat16
from pullback.plugins.records import Kernel
from pullback_cupy.typing import Array


def _comparable(x: Array) -> Array:
    return x.astype(compute_dtype(x.dtype)) if x.dtype == bfloat16 else x


def _argsort(x: Array, *, axis: int, descending: bool, stable: bool) -> Array:
    if not x.size:
        return cupy.zeros(x.shape, np.int64)
    w = _comparable(x)
    if not descending:
        return cupy.argsort(w, axis=axis).astype(np.int64, copy=False)
    # Backwards, so that equal elements keep their order when the result is reversed again.
    order = cupy.argsort(cupy.flip(w, axis), axis=axis)
    return x.shape[axis] - 1 - cupy.flip(order, axis).astype(np.int64, copy=False)


def _sort(x: Array, *, axis: int, descending: bool, stable: bool) -> Array:
    # Elements that compare equal are equal: the sort need not be stable.
    if not x.size:
        return x
    ordered = cupy.sort(_comparable(x), axis=axis).astype(x.dtype, copy=False)
    return cupy.flip(ordered, axis) if descending else ordered


def _argmax(x: Array, *, axis: int | None, keepdims: bool) -> Array:
    return cupy.argmax(_comparable(x), axis=axis, keepdims=keepdims).astype(np.int64, copy=False)


def _argmin(x: Array, *, axis: int | None, keepdims: bool) -> Array:
    return cupy.argmin(_comparable(x), axis=axis, keepdims=keepdims).astype(np.int64, copy=False)


def _searchsorted(x1: Array, x2: Array, sorter: Array | None, *, side: Any) -> Array:
    ordered, values = _comparable(x1), _comparable(x2)
    if sorter is not None:
        if sorter.shape != x1.shape:
            raise ValueError("shapes differ")
        ordered = cupy.take(ordered, sorter)
    positions = cupy.searchsorted(ordered, values.reshape(-1), side=side)
    return positions.astype(np.int64, copy=False).reshape(x2.shape)


KERNELS: dict[str, Kernel] = {
    "argmax": _argmax,
    "argmin": _argmin,
    "argsort": _argsort,
    "searchsorted": _searchsorted,
    "sort": _sort,
}
