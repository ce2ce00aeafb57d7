"""Sorting in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback import dtypes
from pullback.plugins.records import Kernel
from pullback_numpy.typing import Array


def _argsort(x: Array, *, axis: int, descending: bool, stable: bool) -> Any:
    if x.dtype == dtypes.bfloat16:
        x = x.astype(np.float32)
    kind: Any = "stable" if stable else None
    if not descending:
        return np.argsort(x, axis, kind)
    # Backwards, so that equal elements keep their order when the result is reversed again.
    order = np.argsort(np.flip(x, axis), axis, kind)
    return x.shape[axis] - 1 - np.flip(order, axis)


def _sort(x: Array, *, axis: int, descending: bool, stable: bool) -> Array:
    # Elements that compare equal are equal: the sort need not be stable.
    wide = x.astype(np.float32) if x.dtype == dtypes.bfloat16 else x
    ordered = np.sort(wide, axis).astype(x.dtype, copy=False)
    return np.flip(ordered, axis) if descending else ordered


KERNELS: dict[str, Kernel] = {"argsort": _argsort, "sort": _sort}
