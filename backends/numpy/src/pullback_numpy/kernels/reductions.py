"""Reductions in NumPy.

`np.add.reduce` adds pairwise along the axis of the smallest stride only; along every other axis it
adds row to row, and the error grows with the number of rows. Large sums along those axes go through
partial sums of a few rows each, level by level, which bounds the error and takes no longer.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pullback import dtypes
from pullback.plugins.records import Kernel
from pullback_numpy.half import narrowed, widened
from pullback_numpy.products import row_totals
from pullback_numpy.typing import Array, DType, Sizes

_add: Any = np.add.reduce
_multiply: Any = np.multiply.reduce
_maximum: Any = np.maximum.reduce
_or: Any = np.logical_or.reduce
_and: Any = np.logical_and.reduce

#: Up to this many terms a sum of equal numbers that adds one by one is within its accuracy.
_FEW = 64
#: Up to this many elements, a copy whose summed axes are the last costs less than partial sums.
_SMALL = 4096
#: Up to this many elements, NumPy's loop over short rows costs less than a call of BLAS.
_FEW_ROWS = 1024
#: Rows per partial sum, and the elements of a row that stays in the first-level cache.
_ROWS = 32
_ROW = 4096

#: By a dtype's character: the dtype in which sums are taken, and that of the result.
_WIDE: dict[str, tuple[Any, Any]] = {
    **{dtype.char: (dtypes.accumulated(dtype, dtypes.int32),) * 2 for dtype in dtypes.ALL},
    # The same as int64 and uint64, under another name.
    **{char: (np.dtype(char), np.dtype(char)) for char in "qQ"},
    **{dtype.char: (dtypes.float32, dtype) for dtype in (dtypes.float16, dtypes.bfloat16)},
}
#: The characters of the dtypes that NumPy sums in their own dtype by default.
_PLAIN = frozenset("fdFDlLqQ")


def _sum(x: Array, *, axis: Any, dtype: DType, keepdims: bool) -> Any:
    if dtype is None and x.dtype.char in _PLAIN:
        if (axis is None and x.base is None) or x.ndim == 1 or x.size <= _FEW:
            return _add(x, axis, None, None, keepdims)
        return tree_sum(x, axis, keepdims)
    wide, result = accumulation(x, dtype)
    few = x.size <= _FEW or (axis is None and wide is dtypes.float64 and x.size <= _SMALL)
    if few and wide is result and x.dtype.char in _PLAIN:
        return _add(x, axis, wide, None, keepdims)
    return tree_sum(converted(x, wide), axis, keepdims).astype(result, copy=False)


def converted(x: Array, wide: Any) -> Any:
    """x in the dtype of its sum, by way of float32 if it holds 16-bit floats."""
    return widened(x).astype(wide, copy=False)


def accumulation(x: Array, dtype: DType | None) -> tuple[Any, Any]:
    """The dtype in which a sum over x is taken, and that of the result."""
    if dtype is None:
        return _WIDE[x.dtype.char]
    return (dtype if dtype.itemsize > 2 or dtype.kind in "iu" else _WIDE[dtype.char][0]), dtype


def tree_sum(x: Array, axis: Any, keepdims: bool) -> Any:
    """The sum over `axis` with an error that grows with the logarithm of the number of terms."""
    ndim = x.ndim
    if axis is not None and len(axis) == ndim:
        axis = None
    few = axis == (0,) and ndim > 1 and len(x) <= _FEW  # as the gradient of a bias
    if few or x.size <= _FEW or x.dtype.kind in "iu":
        return _add(x, axis, None, None, keepdims)
    if x.flags.c_contiguous and (axis is None or axis == (ndim - 1,)):
        if axis is None or x.shape[-1] > _ROWS or x.size <= _FEW_ROWS:
            return _add(x, axis, None, None, keepdims)
        # Many short rows: BLAS adds them several times faster than a loop that starts for each.
        total = row_totals(x.reshape(-1, x.shape[-1]))
        return total.reshape((*x.shape[:-1], 1) if keepdims else x.shape[:-1])
    if _count(x, axis) <= _FEW:
        return _add(x, axis, None, None, keepdims)
    axes = tuple(range(ndim)) if axis is None else axis
    if x.size <= _SMALL:
        last = x.transpose(*(a for a in range(ndim) if a not in axes), *axes).copy("C")
        y = _add(last.reshape(*last.shape[: ndim - len(axes)], -1), -1)
        return y.reshape([1 if a in axes else n for a, n in enumerate(x.shape)]) if keepdims else y
    y, order = _by_stride(x, axes)
    left = [a in axes for a in order]
    kept = [a for a in order if a not in axes]
    y, left = _merged(y, left)
    if left[-1] and y.shape[-1] >= _ROWS:
        y = _add(y, y.ndim - 1)
        left.pop()
    while True in left:
        position = left.index(True)
        y = _rows_sum(y, position) if position < y.ndim - 1 else _add(y, position)
        del left[position]
    if kept != sorted(kept):
        y = y.transpose(sorted(range(len(kept)), key=kept.__getitem__))
    if keepdims:
        return y.reshape([1 if a in axes else n for a, n in enumerate(x.shape)])
    return y.reshape([n for a, n in enumerate(x.shape) if a not in axes])


def _by_stride(x: Array, axes: Sizes) -> tuple[Any, list[int]]:
    """A view with the axes by stride, largest first and none of size 1; and those axes.

    The order of the terms along a summed axis is free, so negative strides are reversed.
    """
    order = [a for a in range(x.ndim) if x.shape[a] > 1]
    order.sort(key=lambda a: -abs(x.strides[a]))
    turned = tuple(
        slice(None, None, -1) if a in axes and x.strides[a] < 0 else slice(None)
        for a in range(x.ndim)
    )
    rest = [a for a in range(x.ndim) if x.shape[a] <= 1]
    y = x[turned].transpose([*order, *rest])
    return y.reshape(y.shape[: len(order)]), order


def _merged(y: Array, left: list[bool]) -> tuple[Any, list[bool]]:
    """Merges adjacent axes that are both summed, where that needs no copy."""
    shape, kinds, step = [y.shape[0]], [left[0]], y.strides[0]
    for size, stride, summed in zip(y.shape[1:], y.strides[1:], left[1:], strict=True):
        if summed and kinds[-1] and step == size * stride:
            shape[-1] *= size
        else:
            shape.append(size)
            kinds.append(summed)
        step = stride
    return y.reshape(shape), kinds


def _rows_sum(y: Array, axis: int) -> Any:
    """The sum over an axis that is not the one of the smallest stride."""
    while y.shape[axis] > _ROWS:
        before, n, after = y.shape[:axis], y.shape[axis], y.shape[axis + 1 :]
        # Short rows are taken several at a time.
        group = max(1, min(_ROW // max(1, int(np.prod(after))), n // _ROWS))
        blocks = n // (group * _ROWS)
        whole = blocks * group * _ROWS
        index = (slice(None),) * axis
        split = y[(*index, slice(whole))].reshape((*before, blocks, _ROWS, group, *after))
        partial = _add(split, axis + 1).reshape((*before, blocks * group, *after))
        if whole < n:
            # Less than a block, which is still as many as group * _ROWS rows.
            rest = _rows_sum(y[(*index, slice(whole, n))], axis)
            partial = np.concatenate([partial, np.expand_dims(rest, axis)], axis)
        y = partial
    return _add(y, axis)


def _prod(x: Array, *, axis: Any, dtype: DType, keepdims: bool) -> Any:
    wide, result = accumulation(x, dtype)
    return _multiply(converted(x, wide), axis, wide, None, keepdims).astype(result, copy=False)


def _mean(x: Array, *, axis: Any, keepdims: bool) -> Any:
    if x.dtype.char in _PLAIN:
        if (axis is None and x.base is None) or x.ndim == 1 or x.size <= _FEW:
            total = _add(x, axis, None, None, keepdims)
        else:
            total = tree_sum(x, axis, keepdims)
        return total / _count(x, axis)
    total = tree_sum(widened(x), axis, keepdims)
    return narrowed(total / _count(x, axis), x)


def _count(x: Array, axis: Any) -> int:
    if axis is None:
        return int(x.size)
    count = 1
    for a in axis:
        count *= x.shape[a]
    return count


#: Rows up to this long are taken column by column, and rows of an axis in front of so few elements
#: many at a time: NumPy starts a loop for each row.
_SHORT = 32
_LANES = 1024


def _extremum(ufunc: Any) -> Kernel:
    """max or min."""

    def kernel(x: Array, *, axis: Any, keepdims: bool) -> Any:
        if x.size < 4 * _LANES and x.itemsize > 2:
            return ufunc.reduce(x, axis, None, None, keepdims)
        x, narrow = widened(x), x
        if x.size >= 4 * _LANES and axis is not None and len(axis) == 1 and x.flags.c_contiguous:
            (along,) = axis
            n, inner = x.shape[along], math.prod(x.shape[along + 1 :])
            rows = x.reshape(-1, n, inner)
            y = None
            if inner == 1 and n <= _SHORT:
                y = rows[:, 0].copy()
                for column in range(1, n):
                    ufunc(y, rows[:, column], out=y)
            elif 1 < inner <= _SHORT and n:
                y = (_by_lanes if n * inner >= 4 * _LANES else _by_halves)(ufunc, rows)
            if y is not None:
                kept = (1,) if keepdims else ()
                y = y.reshape((*x.shape[:along], *kept, *x.shape[along + 1 :]))
                return narrowed(y, narrow)
        return narrowed(ufunc.reduce(x, axis, None, None, keepdims), narrow)

    return kernel


def _by_lanes(ufunc: Any, rows: Array) -> Any:
    """The extrema over the axis in the middle, of few elements each."""
    group = _LANES // rows.shape[2]
    whole = rows.shape[1] - rows.shape[1] % group
    lanes = rows[:, :whole].reshape(len(rows), -1, group * rows.shape[2])
    best = ufunc.reduce(lanes, 1).reshape(len(rows), group, rows.shape[2])
    return ufunc.reduce(np.concatenate([best, rows[:, whole:]], 1), 1)


def _by_halves(ufunc: Any, rows: Array) -> Any:
    """The extrema over an axis of few elements in the middle, with few behind it."""
    while (n := rows.shape[1]) > 1:
        half = n // 2
        best = ufunc(rows[:, :half], rows[:, half : 2 * half])
        if n % 2:
            ufunc(best[:, :1], rows[:, -1:], out=best[:, :1])
        rows = best
    return rows[:, 0]


def _any(x: Array, *, axis: Any, keepdims: bool) -> Any:
    return _or(x, axis, None, None, keepdims)


def _all(x: Array, *, axis: Any, keepdims: bool) -> Any:
    return _and(x, axis, None, None, keepdims)


def _count_nonzero(x: Array, *, axis: Any, keepdims: bool) -> Any:
    return np.count_nonzero(x, axis=axis, keepdims=keepdims)


def _squares(x: Array, axis: Any, keepdims: bool) -> Any:
    """The sum of squared distances from the mean of few elements, in double precision.

    So the mean of narrower ones is as good as exact, and needs no correction.
    """
    count = _count(x, axis)
    away = x.astype(np.float64)
    away -= _add(away, axis, None, None, True) / count
    if x.itemsize == 8:
        # The mean is rounded to a digit of x, which may be large beside the distances.
        away -= _add(away, axis, None, None, True) / count
    np.multiply(away, away, out=away)
    return _add(away, axis, None, None, keepdims)


def _is_few(x: Array, axis: Any, correction: float) -> bool:
    most = _SMALL if x.itemsize < 8 else _FEW
    few = x.ndim > 0 and 0 < x.size <= most and x.dtype.kind != "c"
    return few and _count(x, axis) > correction


def _var(x: Array, *, axis: Any, correction: float, keepdims: bool) -> Any:
    if _is_few(x, axis, correction):
        left = _count(x, axis) - correction
        return (_squares(x, axis, keepdims) / left).astype(x.dtype)
    wide = widened(x)
    away = np.asarray(wide - _mean(wide, axis=axis, keepdims=True))
    # The mean is rounded to a digit of x, which may be large beside the distances.
    away -= _mean(away, axis=axis, keepdims=True)
    np.multiply(away, away, out=away)
    left = _count(x, axis) - correction
    variance = tree_sum(away, axis, keepdims) / (left if left > 0 else 0)
    return variance if wide is x else variance.astype(x.dtype)


def _std(x: Array, *, axis: Any, correction: float, keepdims: bool) -> Any:
    if _is_few(x, axis, correction):
        left = _count(x, axis) - correction
        return np.sqrt(_squares(x, axis, keepdims) / left).astype(x.dtype)
    wide = widened(x)
    deviation = np.sqrt(_var(wide, axis=axis, correction=correction, keepdims=keepdims))
    return deviation if wide is x else deviation.astype(x.dtype)


def _logsumexp(x: Array, *, axis: Any, keepdims: bool) -> Any:
    if not _count(x, axis):
        nothing = _add(x, axis, None, None, keepdims)
        return np.full_like(nothing, -np.inf)
    wide = widened(x)
    top = _maximum(wide, axis, None, None, True)
    # An infinite maximum is its own result: nothing is subtracted, for inf - inf is NaN.
    top = np.where(np.isinf(top), 0, top)
    power = np.exp(np.subtract(wide, top))
    total = np.log(tree_sum(power, axis, keepdims))
    return (total + top.reshape(np.shape(total))).astype(x.dtype, copy=False)


KERNELS: dict[str, Kernel] = {
    "all": _all,
    "any": _any,
    "count_nonzero": _count_nonzero,
    "logsumexp": _logsumexp,
    "max": _extremum(np.maximum),
    "mean": _mean,
    "min": _extremum(np.minimum),
    "prod": _prod,
    "std": _std,
    "sum": _sum,
    "var": _var,
}
