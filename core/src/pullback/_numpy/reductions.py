"""NumPy's reductions and cumulative functions."""

from __future__ import annotations

from math import inf, nan
from typing import Any

from pullback import dtypes
from pullback._numpy.table import Function, flattened, routed
from pullback.dtypes import DTypeLike
from pullback.ops import cumulative, reductions, searching
from pullback.ops.comparison import isnan
from pullback.ops.conversion import asarray
from pullback.ops.data_types import astype
from pullback.ops.exponential import sqrt
from pullback.ops.selection import where
from pullback.shapes import Axes
from pullback.tensor import TensorLike


def _as(a: TensorLike, dtype: DTypeLike | None) -> Any:
    return asarray(a) if dtype is None else astype(asarray(a), dtype)


def _reduction(op: Function) -> Function:
    def reduce(a: TensorLike, axis: Axes = None, keepdims: bool = False) -> Any:
        return op(a, axis=axis, keepdims=keepdims)

    return reduce


def _accumulation(op: Function, prepare: Function = asarray) -> Function:
    def reduce(
        a: TensorLike, axis: Axes = None, dtype: DTypeLike | None = None, keepdims: bool = False
    ) -> Any:
        return op(prepare(a), axis=axis, dtype=dtype, keepdims=keepdims)

    return reduce


def _mean(op: Function) -> Function:
    def reduce(
        a: TensorLike, axis: Axes = None, dtype: DTypeLike | None = None, keepdims: bool = False
    ) -> Any:
        return op(_as(a, dtype), axis=axis, keepdims=keepdims)

    return reduce


def _spread(op: Function) -> Function:
    def reduce(
        a: TensorLike,
        axis: Axes = None,
        dtype: DTypeLike | None = None,
        ddof: float = 0,
        keepdims: bool = False,
        correction: float | None = None,
    ) -> Any:
        freedom = ddof if correction is None else correction
        return op(_as(a, dtype), axis=axis, correction=freedom, keepdims=keepdims)

    return reduce


routed("max", "amax")(_reduction(reductions.max))
routed("min", "amin")(_reduction(reductions.min))
routed("any")(_reduction(reductions.any))
routed("all")(_reduction(reductions.all))
routed("count_nonzero")(_reduction(reductions.count_nonzero))
routed("argmax")(_reduction(searching.argmax))
routed("argmin")(_reduction(searching.argmin))
routed("sum")(_accumulation(reductions.sum))
routed("prod")(_accumulation(reductions.prod))
routed("mean")(_mean(reductions.mean))
routed("var")(_spread(reductions.var))
routed("std")(_spread(reductions.std))


@routed("ptp")
def _(a: TensorLike, axis: Axes = None, keepdims: bool = False) -> Any:
    high = reductions.max(a, axis=axis, keepdims=keepdims)
    return high - reductions.min(a, axis=axis, keepdims=keepdims)


# Without NaN.


def _present(a: TensorLike, instead: float) -> tuple[Any, Any]:
    """The array with `instead` in place of NaN, and where it has numbers."""
    a = asarray(a)
    if not dtypes.is_floating(a.dtype):
        return a, reductions.all(a == a, axis=()) if a.shape else a == a
    missing = isnan(a)
    return where(missing, instead, a), ~missing


def _without(instead: float) -> Function:
    return lambda a: _present(a, instead)[0]


routed("nansum")(_accumulation(reductions.sum, _without(0)))
routed("nanprod")(_accumulation(reductions.prod, _without(1)))


def _extremum(op: Function, worst: float) -> Function:
    def reduce(a: TensorLike, axis: Axes = None, keepdims: bool = False) -> Any:
        values, present = _present(a, worst)
        best = op(values, axis=axis, keepdims=keepdims)
        if not dtypes.is_floating(values.dtype):
            return best
        return where(reductions.any(present, axis=axis, keepdims=keepdims), best, nan)

    return reduce


routed("nanmax")(_extremum(reductions.max, -inf))
routed("nanmin")(_extremum(reductions.min, inf))


def _nan_mean(a: TensorLike, axis: Axes, keepdims: bool) -> tuple[Any, Any]:
    """The mean without NaN, and the number of elements that it is of."""
    values, present = _present(a, 0)
    total = reductions.sum(values, axis=axis, keepdims=keepdims)
    dtype = total.dtype if dtypes.is_floating(total.dtype) else None
    count = reductions.count_nonzero(present, axis=axis, keepdims=keepdims)
    count = astype(count, dtypes.DEFAULT_FLOAT if dtype is None else dtype)
    return total / count, count


def _nan_var(a: TensorLike, *, axis: Axes, correction: float, keepdims: bool) -> Any:
    mean, _ = _nan_mean(a, axis, True)
    away = _present(a - mean, 0)[0]
    _, count = _nan_mean(a, axis, keepdims)
    return reductions.sum(away * away, axis=axis, keepdims=keepdims) / (count - correction)


routed("nanmean")(_mean(lambda a, *, axis, keepdims: _nan_mean(a, axis, keepdims)[0]))
routed("nanvar")(_spread(_nan_var))
routed("nanstd")(_spread(lambda a, **how: sqrt(_nan_var(a, **how))))


# Cumulative.


def _cumulation(op: Function, prepare: Function = asarray) -> Function:
    def accumulate(a: TensorLike, axis: int | None = None, dtype: DTypeLike | None = None) -> Any:
        a, axis = flattened(prepare(a), axis)
        return op(a, axis=axis, dtype=dtype)

    return accumulate


def _standard_cumulation(op: Function) -> Function:
    def accumulate(
        x: TensorLike,
        axis: Axes = None,
        dtype: DTypeLike | None = None,
        include_initial: bool = False,
    ) -> Any:
        return op(x, axis=axis, dtype=dtype, include_initial=include_initial)

    return accumulate


routed("cumsum")(_cumulation(cumulative.cumulative_sum))
routed("cumprod")(_cumulation(cumulative.cumulative_prod))
routed("nancumsum")(_cumulation(cumulative.cumulative_sum, _without(0)))
routed("nancumprod")(_cumulation(cumulative.cumulative_prod, _without(1)))
routed("cumulative_sum")(_standard_cumulation(cumulative.cumulative_sum))
routed("cumulative_prod")(_standard_cumulation(cumulative.cumulative_prod))
