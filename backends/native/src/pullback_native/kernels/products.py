"""Products that are other kernels' work."""

from __future__ import annotations

from pullback.plugins.records import Kernel
from pullback_native import _native
from pullback_native.loops import Array
from pullback_numpy.kernels import KERNELS as NUMPY_KERNELS


def _outer(x1: Array, x2: Array) -> Array:
    if x1.ndim != 1 or x2.ndim != 1:
        product: Array = NUMPY_KERNELS["outer"](x1, x2)
        return product
    return _native.multiply(x1[:, None], x2)


KERNELS: dict[str, Kernel] = {"outer": _outer}
