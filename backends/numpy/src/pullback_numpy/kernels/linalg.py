"""Linear algebra in NumPy; LAPACK and BLAS lack 16-bit floats, which go through float32."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pullback.plugins.records import Kernel
from pullback_numpy import products
from pullback_numpy.half import narrowed, widened
from pullback_numpy.kernels.reductions import KERNELS as REDUCTIONS
from pullback_numpy.kernels.reductions import tree_sum
from pullback_numpy.typing import Array, DType, Sizes


def _is_half(x: Array) -> bool:
    return x.dtype.itemsize == 2 and x.dtype.kind not in "iu"


def _matmul(x1: Array, x2: Array) -> Any:
    if _is_half(x1):
        return narrowed(_matmul(widened(x1), widened(x2)), x1)
    return products.matmul(x1, x2)


def _linear(x: Array, weight: Any, bias: Array | None) -> Any:
    if weight.ndim != 2 or (bias is not None and bias.shape != weight.shape[1:]):
        raise ValueError("the weight must be a matrix, and the bias have its number of columns")
    if _is_half(x):
        wide = None if bias is None else widened(bias)
        return narrowed(_linear(widened(x), widened(weight), wide), x)
    y = products.matmul(x, weight)
    # In place: y belongs to this call.
    return y if bias is None else np.add(y, bias, y)


def in_float32(function: Callable[..., Any]) -> Kernel:
    """The kernel for 16-bit floats too: in float32, and rounded once."""

    @functools.wraps(function)
    def kernel(*arrays: Any, **attributes: Any) -> Any:
        x = arrays[0]
        if not _is_half(x):
            return function(*arrays, **attributes)
        result = function(*map(widened, arrays), **attributes)
        if result is NotImplemented:
            return result
        if isinstance(result, tuple):
            return tuple(narrowed(one, x) for one in result)
        return narrowed(result, x)

    return kernel


def quiet(kernel: Kernel) -> Kernel:
    """The kernel without the floating-point warnings of NumPy's own Python code.

    That costs a microsecond, little beside such kernels.
    """

    @functools.wraps(kernel)
    def silent(*arrays: Any, **attributes: Any) -> Any:
        with np.errstate(all="ignore"):
            return kernel(*arrays, **attributes)

    return silent


def _det(x: Array) -> Any:
    return np.linalg.det(x)


def _eigvalsh(x: Array) -> Array:
    return np.linalg.eigvalsh((x + np.conj(x.mT)) * 0.5)


def _svdvals(x: Array) -> Array:
    # For infinities LAPACK prints to the terminal and returns NaN, which would hide the rank.
    if not np.isfinite(x).all():
        raise ValueError("matrices must not contain infinities or NaN")
    return np.linalg.svdvals(x)


def _eigvals(x: Array) -> Array:
    x = widened(x)
    wide = np.complex64 if x.dtype in (np.float32, np.complex64) else np.complex128
    return np.linalg.eigvals(x).astype(wide, copy=False)


def _diagonal(x: Array, *, offset: int) -> Array:
    return x.diagonal(offset, -2, -1)


def _trace(x: Array, *, offset: int, dtype: DType) -> Any:
    line = x.diagonal(offset, -2, -1)
    return REDUCTIONS["sum"](line, axis=(line.ndim - 1,), dtype=dtype, keepdims=False)


def _outer(x1: Array, x2: Array) -> Array:
    if x1.ndim != 1 or x2.ndim != 1:
        raise ValueError("needs two vectors")
    return np.multiply.outer(x1, x2)


def _vecdot(x1: Array, x2: Array, *, axis: int) -> Any:
    if axis >= 0 or x1.shape[axis] != x2.shape[axis]:
        raise ValueError("vectors must have one length")
    if _is_half(x1):
        return narrowed(_vecdot(widened(x1), widened(x2), axis=axis), x1)
    x1 = np.conj(x1) if x1.dtype.kind == "c" else x1
    if axis != -1:
        x1, x2 = np.moveaxis(x1, axis, -1), np.moveaxis(x2, axis, -1)
    return np.matmul(x1[..., None, :], x2[..., None])[..., 0, 0]


#: Elements of vectors up to which copies of their components take less time than more calls.
_FEW_IN_VECTORS = 16384


def _cross_of_few(x1: Array, x2: Array, axis: int) -> Array:
    rank = x1.ndim
    first = (axis, *range(axis), *range(axis + 1, rank))
    # Two components again behind the third: what is multiplied lies side by side.
    rows = []
    for x in (x1.transpose(first), x2.transpose(first)):
        repeated = np.empty((5, *x.shape[1:]), x.dtype)
        repeated[:3] = x
        repeated[3:] = repeated[:2]
        rows.append(repeated)
    a, b = rows
    y: Array = a[1:4] * b[2:]
    y -= a[2:] * b[1:4]
    return np.ascontiguousarray(y.transpose(*range(1, axis + 1), 0, *range(axis + 1, rank)))


def _cross(x1: Array, x2: Array, *, axis: int) -> Any:
    if axis >= 0 or x1.shape[axis] != 3 or x2.shape[axis] != 3:
        raise ValueError("vectors must have 3 elements along a negative axis")
    if _is_half(x1):
        return narrowed(_cross(widened(x1), widened(x2), axis=axis), x1)
    if x1.shape == x2.shape and x1.size <= _FEW_IN_VECTORS:
        return _cross_of_few(x1, x2, axis + x1.ndim)
    shape = np.broadcast_shapes(x1.shape, x2.shape)
    y = np.empty(shape, x1.dtype)
    behind = (slice(None),) * (-1 - axis)
    keys: list[Any] = [(..., i, *behind) for i in range(3)]
    first, second, target = ([x[key] for key in keys] for x in (x1, x2, y))
    for i, part in enumerate(target):
        j, k = (i + 1) % 3, (i + 2) % 3
        np.multiply(first[j], second[k], out=part)
        np.subtract(part, first[k] * second[j], out=part)
    return y


def _tensordot(x1: Array, x2: Array, *, axes: tuple[Sizes, Sizes]) -> Array:
    if _is_half(x1):
        return narrowed(np.tensordot(widened(x1), widened(x2), axes), x1)
    return np.tensordot(x1, x2, axes)


#: Squares are summed unscaled where their sum lies in this range: none over- or underflowed.
_SAFE = {"f": (1e-20, 1e37), "d": (1e-270, 1e300)}


def vector_norm(x: Array, *, axis: Any, keepdims: bool, ord: float) -> Any:
    """The norms of the vectors along axes, without overflow."""
    wide = widened(x)
    result = wide.real.dtype
    if ord == 2:
        square = wide.real**2 + wide.imag**2 if wide.dtype.kind == "c" else wide * wide
        total = tree_sum(square, axis, keepdims)
        least, most = _SAFE[result.char]
        if np.all((total > least) & (total < most)):
            return np.sqrt(total).astype(x.real.dtype, copy=False)
    return _norm(np.abs(wide), axis, keepdims, ord).astype(x.real.dtype, copy=False)


def _norm(size: Any, axis: Any, keepdims: bool, ord: float) -> Any:
    if ord == 0:
        return np.count_nonzero(size, axis=axis, keepdims=keepdims).astype(size.dtype)
    extreme = np.max if ord > 0 else np.min
    if np.isinf(ord):
        return extreme(size, axis=axis, keepdims=keepdims)
    if ord == 1 or (ord > 0 and not size.size):
        return tree_sum(size, axis, keepdims)
    # In float64, in units of the largest element (the smallest, for ord < 0).
    unit = np.asarray(extreme(size, axis=axis, keepdims=True), np.float64)
    unit = np.where((unit == 0) | np.isinf(unit), 1.0, unit)
    norm = tree_sum((size / unit) ** ord, axis, keepdims) ** (1 / ord)
    return np.asarray(norm * unit.reshape(np.shape(norm))).astype(size.dtype)


#: Distances are added element by element of rows up to this length, some of them at a time.
_SHORT, _AT_ONCE = 256, 1 << 14


def _cdist(x1: Array, x2: Array, *, p: float) -> Any:
    *first, rows, size = x1.shape
    *second, columns, other = x2.shape
    if size != other:
        raise ValueError("rows must have one length")
    a, b = widened(x1), widened(x2)
    y = np.zeros((*np.broadcast_shapes(tuple(first), tuple(second)), rows, columns), a.dtype)
    is_short = size <= _SHORT and p in (1, 2, math.inf)
    step = max(1, _AT_ONCE // max(1, columns * (1 if is_short else size)))
    for i in range(0, rows if size else 0, step):
        _distances(y[..., i : i + step, :], a[..., i : i + step, :], b, p, is_short)
    return narrowed(y, x1)


def _distances(y: Array, x1: Array, x2: Array, p: float, is_short: bool) -> None:
    """Adds distances to zeros."""
    if not is_short:
        away = x1[..., None, :] - x2[..., None, :, :]
        y[...] = vector_norm(away, axis=(away.ndim - 1,), keepdims=False, ord=p)
        return
    away = np.empty_like(y)
    add: Any = np.maximum if p == math.inf else np.add
    for j in range(x1.shape[-1]):
        np.subtract(x1[..., j, None], x2[..., None, :, j], out=away)
        np.multiply(away, away, out=away) if p == 2 else np.abs(away, out=away)
        add(y, away, out=y)
    if p == 2:
        least, most = _SAFE[y.dtype.char]
        other = ~((y > least) & (y < most))
        np.sqrt(y, out=y)
        if np.any(other):
            *front, row, column = np.nonzero(other)
            shape = y.shape[:-2]
            one, two = (np.broadcast_to(x, (*shape, *x.shape[-2:])) for x in (x1, x2))
            far = one[(*front, row)] - two[(*front, column)]
            y[other] = vector_norm(far, axis=(1,), keepdims=False, ord=p)


KERNELS: dict[str, Kernel] = {
    "cdist": quiet(_cdist),
    "cross": _cross,
    "det": in_float32(_det),
    "diagonal": _diagonal,
    "eigvals": _eigvals,
    "eigvalsh": in_float32(_eigvalsh),
    "linear": _linear,
    "matmul": _matmul,
    "outer": _outer,
    "svdvals": in_float32(_svdvals),
    "tensordot": _tensordot,
    "trace": _trace,
    "vecdot": _vecdot,
    "vector_norm": vector_norm,
}
