"""Kernels in C of ops that NumPy has none for, or not for all calls: bodies do the others."""

from __future__ import annotations

from typing import Any

from pullback.plugins.records import Kernel, may_decline
from pullback_native import _native
from pullback_native.loops import Array
from pullback_numpy.kernels import KERNELS as NUMPY_KERNELS


def declining(name: str) -> Kernel:
    """The compiled kernel of an op, with the mark that it may decline calls."""
    return _native.chosen(getattr(_native, name), None, 0, False, True)


def _aligned(name: str) -> Kernel:
    """Calls the kernel again with copies of arrays that are not aligned; declines other calls."""
    kernel = getattr(_native, name)

    def again(*arrays: Array, **attributes: Any) -> Any:
        if all(x.flags.aligned for x in arrays):
            return NotImplemented
        return kernel(*[x if x.flags.aligned else x.copy() for x in arrays], **attributes)

    return again


@may_decline
def _matrix_norm(x: Array, *, keepdims: bool, ord: Any) -> Any:
    """The root of the sum of all squares, which is the norm of a vector."""
    if ord != "fro" or x.ndim < 2:
        return NotImplemented
    return _native.vector_norm(x, axis=(x.ndim - 2, x.ndim - 1), keepdims=keepdims, ord=2)


def _vector_norm(x: Array, *, axis: Any, keepdims: bool, ord: Any) -> Any:
    """The norms that are not one pass over squares: that of order 1 is a sum."""
    if ord == 1 and x.dtype.kind == "f":
        return _native.sum(_native.abs(x), axis=axis, keepdims=keepdims, dtype=None)
    return NUMPY_KERNELS["vector_norm"](x, axis=axis, keepdims=keepdims, ord=ord)


_NAMES = ("log_cosh_loss", "lu_solve", "rsqrt", "soft_shrink", "solve_triangular", "threshold")
#: What the compiled kernels hand calls over to.
FALLBACKS: dict[str, Kernel] = {
    **{name: _aligned(name) for name in _NAMES},
    "vector_norm": _vector_norm,
}
KERNELS: dict[str, Kernel] = {
    "matrix_norm": _matrix_norm,
    **{name: declining(name) for name in (*_NAMES, "celu")},
}
