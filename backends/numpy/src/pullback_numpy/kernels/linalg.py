"""Linear algebra in NumPy; LAPACK and BLAS know no 16-bit floats, so those go through float32."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from pullback.backend import Kernel
from pullback_numpy.kernels.reductions import tree_sum


def _is_half(x: Any) -> bool:
    return x.dtype.itemsize == 2 and x.dtype.kind not in "iu"


def _matmul(x1: Any, x2: Any) -> Any:
    if _is_half(x1):
        return _matmul(x1.astype(np.float32), x2.astype(np.float32)).astype(x1.dtype)
    if x1.ndim > 2 and x2.ndim == 2 and x1.size:
        # One product over all rows of the stack instead of one a matrix.
        return np.matmul(x1.reshape(-1, x1.shape[-1]), x2).reshape(*x1.shape[:-1], x2.shape[1])
    return np.matmul(x1, x2)


def _in_float32(function: Callable[[Any], Any]) -> Kernel:
    @functools.wraps(function)
    def kernel(x: Any) -> Any:
        return function(x.astype(np.float32)).astype(x.dtype) if _is_half(x) else function(x)

    return kernel


def _inv(x: Any) -> Any:
    return np.linalg.inv(x)


def _det(x: Any) -> Any:
    return np.linalg.det(x)


def _eigvalsh(x: Any) -> Any:
    return np.linalg.eigvalsh((x + np.conj(x.mT)) * 0.5)


def _svdvals(x: Any) -> Any:
    return np.linalg.svdvals(x)


def _eigvals(x: Any) -> Any:
    x = x.astype(np.float32) if _is_half(x) else x
    wide = np.complex64 if x.dtype in (np.float32, np.complex64) else np.complex128
    return np.linalg.eigvals(x).astype(wide, copy=False)


def _diagonal(x: Any, *, offset: int) -> Any:
    return np.diagonal(x, offset, -2, -1)


def _outer(x1: Any, x2: Any) -> Any:
    if x1.ndim != 1 or x2.ndim != 1:
        raise ValueError("needs two vectors")
    return np.multiply.outer(x1, x2)


# float64 squares are summed as they are where their sum lies in here: nothing was lost.
_LEAST, _MOST = 1e-280, 1e280


def _vector_norm(x: Any, *, axis: Any, keepdims: bool, ord: float) -> Any:
    size = np.abs(x)
    result = size.dtype
    if ord == 0:
        return np.count_nonzero(x, axis=axis, keepdims=keepdims).astype(result)
    if ord == np.inf:
        return size.max(axis, keepdims=keepdims)
    if ord == -np.inf:
        return size.min(axis, keepdims=keepdims)
    if ord == 1:
        wide = size.astype(np.float32) if _is_half(size) else size
        return tree_sum(wide, axis, keepdims).astype(result, copy=False)
    # float64 holds the squares of all smaller dtypes.
    size = np.asarray(size, np.float64)
    if ord == 2:
        total = tree_sum(size * size, axis, keepdims)
        if result != np.float64 or ((total > _LEAST) & (total < _MOST)).all():
            return np.sqrt(total).astype(result, copy=False)
    if not size.size:
        return tree_sum(size, axis, keepdims).astype(result)
    unit = (np.max if ord > 0 else np.min)(size, axis=axis, keepdims=True)
    unit = np.where((unit == 0) | np.isinf(unit), 1, unit)
    scaled = size / unit
    if ord == 2:
        found = np.sqrt(tree_sum(scaled * scaled, axis, keepdims))
    else:
        found = tree_sum(scaled**ord, axis, keepdims) ** (1 / ord)
    return (found * unit.reshape(np.shape(found))).astype(result, copy=False)


KERNELS: dict[str, Kernel] = {
    "det": _in_float32(_det),
    "diagonal": _diagonal,
    "eigvals": _eigvals,
    "eigvalsh": _in_float32(_eigvalsh),
    "inv": _in_float32(_inv),
    "matmul": _matmul,
    "outer": _outer,
    "svdvals": _in_float32(_svdvals),
    "vector_norm": _vector_norm,
}
