"""NumPy's reductions and cumulative functions."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan
from typing import Any

from pullback import dtypes
from pullback._numpy.table import routed
from pullback.ops import cumulative, reductions, searching
from pullback.ops.comparison import isnan
from pullback.ops.conversion import asarray
from pullback.ops.data_types import astype
from pullback.ops.exponential import sqrt
from pullback.ops.manipulation import reshape
from pullback.ops.selection import where


def _as(a: Any, dtype: Any) -> Any:
    return asarray(a) if dtype is None else astype(asarray(a), dtype)


def _flat(a: Any, axis: Any) -> tuple[Any, Any]:
    """The array and the axis; NumPy flattens where there is none."""
    return (reshape(a, -1), 0) if axis is None else (a, axis)


@routed("sum")
def _(a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
    return reductions.sum(a, axis=axis, dtype=dtype, keepdims=keepdims)


@routed("prod")
def _(a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
    return reductions.prod(a, axis=axis, dtype=dtype, keepdims=keepdims)


@routed("mean")
def _(a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
    return reductions.mean(_as(a, dtype), axis=axis, keepdims=keepdims)


@routed("max", "amax")
def _(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return reductions.max(a, axis=axis, keepdims=keepdims)


@routed("min", "amin")
def _(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return reductions.min(a, axis=axis, keepdims=keepdims)


@routed("ptp")
def _(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    high = reductions.max(a, axis=axis, keepdims=keepdims)
    return high - reductions.min(a, axis=axis, keepdims=keepdims)


@routed("any")
def _(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return reductions.any(a, axis=axis, keepdims=keepdims)


@routed("all")
def _(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return reductions.all(a, axis=axis, keepdims=keepdims)


@routed("count_nonzero")
def _(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return reductions.count_nonzero(a, axis=axis, keepdims=keepdims)


@routed("argmax")
def _(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return searching.argmax(a, axis=axis, keepdims=keepdims)


@routed("argmin")
def _(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return searching.argmin(a, axis=axis, keepdims=keepdims)


@routed("var")
def _(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
    correction: float | None = None,
) -> Any:
    freedom = ddof if correction is None else correction
    return reductions.var(_as(a, dtype), axis=axis, correction=freedom, keepdims=keepdims)


@routed("std")
def _(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
    correction: float | None = None,
) -> Any:
    freedom = ddof if correction is None else correction
    return reductions.std(_as(a, dtype), axis=axis, correction=freedom, keepdims=keepdims)


# Without NaN.


def _present(a: Any, instead: float) -> tuple[Any, Any]:
    """The array with `instead` in place of NaN, and where it has numbers."""
    a = asarray(a)
    if not dtypes.is_floating(a.dtype):
        return a, reductions.all(a == a, axis=()) if a.shape else a == a
    missing = isnan(a)
    return where(missing, instead, a), ~missing


@routed("nansum")
def _(a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
    return reductions.sum(_present(a, 0)[0], axis=axis, dtype=dtype, keepdims=keepdims)


@routed("nanprod")
def _(a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
    return reductions.prod(_present(a, 1)[0], axis=axis, dtype=dtype, keepdims=keepdims)


def _nan_extremum(
    reduce: Callable[..., Any], a: Any, worst: float, axis: Any, keepdims: bool
) -> Any:
    values, present = _present(a, worst)
    best = reduce(values, axis=axis, keepdims=keepdims)
    if not dtypes.is_floating(values.dtype):
        return best
    return where(reductions.any(present, axis=axis, keepdims=keepdims), best, nan)


@routed("nanmax")
def _(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return _nan_extremum(reductions.max, a, -inf, axis, keepdims)


@routed("nanmin")
def _(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return _nan_extremum(reductions.min, a, inf, axis, keepdims)


def _nan_mean(a: Any, axis: Any, keepdims: bool) -> tuple[Any, Any]:
    """The mean without NaN, and the number of elements that it is of."""
    values, present = _present(a, 0)
    total = reductions.sum(values, axis=axis, keepdims=keepdims)
    dtype = total.dtype if dtypes.is_floating(total.dtype) else None
    count = reductions.count_nonzero(present, axis=axis, keepdims=keepdims)
    count = astype(count, dtypes.DEFAULT_FLOAT if dtype is None else dtype)
    return total / count, count


@routed("nanmean")
def _(a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
    return _nan_mean(_as(a, dtype), axis, keepdims)[0]


def _nan_var(a: Any, axis: Any, ddof: float, keepdims: bool) -> Any:
    mean, _ = _nan_mean(a, axis, True)
    away = _present(a - mean, 0)[0]
    _, count = _nan_mean(a, axis, keepdims)
    return reductions.sum(away * away, axis=axis, keepdims=keepdims) / (count - ddof)


@routed("nanvar")
def _(a: Any, axis: Any = None, dtype: Any = None, ddof: float = 0, keepdims: bool = False) -> Any:
    return _nan_var(_as(a, dtype), axis, ddof, keepdims)


@routed("nanstd")
def _(a: Any, axis: Any = None, dtype: Any = None, ddof: float = 0, keepdims: bool = False) -> Any:
    return sqrt(_nan_var(_as(a, dtype), axis, ddof, keepdims))


# Cumulative.


@routed("cumsum")
def _(a: Any, axis: Any = None, dtype: Any = None) -> Any:
    a, axis = _flat(a, axis)
    return cumulative.cumulative_sum(a, axis=axis, dtype=dtype)


@routed("cumprod")
def _(a: Any, axis: Any = None, dtype: Any = None) -> Any:
    a, axis = _flat(a, axis)
    return cumulative.cumulative_prod(a, axis=axis, dtype=dtype)


@routed("nancumsum")
def _(a: Any, axis: Any = None, dtype: Any = None) -> Any:
    a, axis = _flat(_present(a, 0)[0], axis)
    return cumulative.cumulative_sum(a, axis=axis, dtype=dtype)


@routed("nancumprod")
def _(a: Any, axis: Any = None, dtype: Any = None) -> Any:
    a, axis = _flat(_present(a, 1)[0], axis)
    return cumulative.cumulative_prod(a, axis=axis, dtype=dtype)


@routed("cumulative_sum")
def _(x: Any, axis: Any = None, dtype: Any = None, include_initial: bool = False) -> Any:
    return cumulative.cumulative_sum(x, axis=axis, dtype=dtype, include_initial=include_initial)


@routed("cumulative_prod")
def _(x: Any, axis: Any = None, dtype: Any = None, include_initial: bool = False) -> Any:
    return cumulative.cumulative_prod(x, axis=axis, dtype=dtype, include_initial=include_initial)
