"""Assignment to parts of a tensor: into its array where nobody else has that, else by a copy."""

from __future__ import annotations

from typing import Any

from pullback.plugins.records import Kernel
from pullback_native import _native
from pullback_native.loops import Array
from pullback_numpy.kernels import KERNELS as NUMPY_KERNELS

#: NumPy's, which copy.
KERNELS: dict[str, Kernel] = {
    name: NUMPY_KERNELS[name] for name in ("scatter_update", "strided_update")
}


def _strided_update(x: Any, value: Array, *, key: Any) -> None:
    if not _native.write_part(x, value, key):
        x._array = KERNELS["strided_update"](x._array, value, key=key)


def _scatter_update(x: Any, indices: Array, updates: Array, *, axis: int) -> None:
    if axis or not _native.write_rows(x, indices, updates):
        x._array = KERNELS["scatter_update"](x._array, indices, updates, axis=axis)


IN_PLACE: dict[str, Kernel] = {
    "scatter_update": _scatter_update,
    "strided_update": _strided_update,
}
