"""NumPy's reductions and cumulative functions."""

from __future__ import annotations

from math import inf, nan
from typing import Any

from pullback import dtypes
from pullback._numpy.table import Function, Unsupported, flattened, routed
from pullback.dtypes import DTypeLike
from pullback.ops import cumulative, reductions, searching
from pullback.ops.arithmetic import add, maximum, minimum, multiply, positive
from pullback.ops.comparison import isnan
from pullback.ops.complex import conj
from pullback.ops.conversion import asarray
from pullback.ops.creation import full
from pullback.ops.data_types import astype
from pullback.ops.exponential import sqrt
from pullback.ops.manipulation import broadcast_to
from pullback.ops.selection import where
from pullback.shapes import Axes, canonical_axes, reduced
from pullback.tensor import TensorLike

#: The op `where`, for functions that have a parameter of this name.
select = where


def _as(a: TensorLike, dtype: DTypeLike | None) -> Any:
    return asarray(a) if dtype is None else astype(asarray(a), dtype)


def _chosen(a: TensorLike, mask: TensorLike, instead: float) -> Any:
    """The array with `instead` where the mask, NumPy's `where=`, is False."""
    a = asarray(a)
    if mask is True:
        return a
    return where(mask, a, full((), instead, dtype=a.dtype, device=a.device))


def _reduction(op: Function) -> Function:
    def reduce(a: TensorLike, axis: Axes = None, keepdims: bool = False) -> Any:
        return op(a, axis=axis, keepdims=keepdims)

    return reduce


def _logic(op: Function, instead: bool) -> Function:
    def reduce(
        a: TensorLike, axis: Axes = None, keepdims: bool = False, where: TensorLike = True
    ) -> Any:
        return op(_chosen(a, where, instead), axis=axis, keepdims=keepdims)

    return reduce


def _extremum(op: Function, combine: Function) -> Function:
    def reduce(
        a: TensorLike,
        axis: Axes = None,
        keepdims: bool = False,
        initial: TensorLike | None = None,
        where: TensorLike = True,
    ) -> Any:
        a = asarray(a)
        if initial is None:
            if where is not True:
                raise Unsupported("where= without initial=")
            return op(a, axis=axis, keepdims=keepdims)
        first = asarray(initial, dtype=a.dtype, device=a.device)
        if where is not True:
            a = select(where, a, first)
        axes = canonical_axes(axis, a.ndim)
        if not reductions.count(a.shape, axes):
            return broadcast_to(first, reduced(a.shape, axes, keepdims))
        return combine(op(a, axis=axis, keepdims=keepdims), first)

    return reduce


def _accumulation(
    op: Function, combine: Function, nothing: int, prepare: Function = asarray
) -> Function:
    def reduce(
        a: TensorLike,
        axis: Axes = None,
        dtype: DTypeLike | None = None,
        keepdims: bool = False,
        initial: TensorLike | None = None,
        where: TensorLike = True,
    ) -> Any:
        total = op(_chosen(prepare(a), where, nothing), axis=axis, dtype=dtype, keepdims=keepdims)
        return total if initial is None else combine(total, initial)

    return reduce


routed("max", "amax")(_extremum(reductions.max, maximum))
routed("min", "amin")(_extremum(reductions.min, minimum))
routed("any")(_logic(reductions.any, False))
routed("all")(_logic(reductions.all, True))
routed("count_nonzero")(_reduction(reductions.count_nonzero))
routed("argmax")(_reduction(searching.argmax))
routed("argmin")(_reduction(searching.argmin))
routed("sum")(_accumulation(reductions.sum, add, 0))
routed("prod")(_accumulation(reductions.prod, multiply, 1))


@routed("ptp")
def _(a: TensorLike, axis: Axes = None, keepdims: bool = False) -> Any:
    high = reductions.max(a, axis=axis, keepdims=keepdims)
    return high - reductions.min(a, axis=axis, keepdims=keepdims)


# Of those elements alone that are no NaN, or that `where=` chooses.


def _present(a: TensorLike, instead: float) -> tuple[Any, Any]:
    """The array with `instead` in place of NaN, and where it has numbers."""
    a = asarray(a)
    if not dtypes.is_floating(a.dtype):
        return a, reductions.all(a == a, axis=()) if a.shape else a == a
    missing = isnan(a)
    return where(missing, instead, a), ~missing


def _without(instead: float) -> Function:
    return lambda a: _present(a, instead)[0]


routed("nansum")(_accumulation(reductions.sum, add, 0, _without(0)))
routed("nanprod")(_accumulation(reductions.prod, multiply, 1, _without(1)))


def _nan_extremum(op: Function, combine: Function, worst: float) -> Function:
    bounded = _extremum(op, combine)

    def reduce(
        a: TensorLike,
        axis: Axes = None,
        keepdims: bool = False,
        initial: TensorLike | None = None,
        where: TensorLike = True,
    ) -> Any:
        values, present = _present(a, worst)
        best = bounded(values, axis, keepdims, initial, where)
        if initial is not None or not dtypes.is_floating(values.dtype):
            return best
        return select(reductions.any(present, axis=axis, keepdims=keepdims), best, nan)

    return reduce


routed("nanmax")(_nan_extremum(reductions.max, maximum, -inf))
routed("nanmin")(_nan_extremum(reductions.min, minimum, inf))


def _some_mean(values: Any, present: Any, axis: Axes, keepdims: bool) -> tuple[Any, Any]:
    """The mean of the values that are present, and the number of them; the others are 0."""
    total = reductions.sum(values, axis=axis, keepdims=keepdims)
    dtype = total.dtype if dtypes.is_floating(total.dtype) else None
    count = reductions.count_nonzero(present, axis=axis, keepdims=keepdims)
    count = astype(count, dtypes.DEFAULT_FLOAT if dtype is None else dtype)
    return total / count, count


def _some_var(values: Any, present: Any, axis: Axes, keepdims: bool, correction: float) -> Any:
    mean, _ = _some_mean(values, present, axis, True)
    away = where(present, values - mean, 0)
    size = away * conj(away) if dtypes.is_complex(away.dtype) else away * away
    total = reductions.sum(asarray(size).real, axis=axis, keepdims=keepdims)
    count = reductions.count_nonzero(present, axis=axis, keepdims=keepdims)
    return total / maximum(astype(count, total.dtype) - correction, 0)


def _some(a: TensorLike, mask: TensorLike, *, nan_too: bool) -> tuple[Any, Any]:
    """The array with 0 for what is left out, and where nothing is."""
    a = asarray(a)
    if nan_too:
        values, present = _present(a, 0)
        return (values, present) if mask is True else (where(mask, values, 0), present & mask)
    values = where(mask, a, full((), 0, dtype=a.dtype, device=a.device))
    return values, broadcast_to(asarray(mask), values.shape)


def _mean(op: Function, *, nan_too: bool) -> Function:
    def reduce(
        a: TensorLike,
        axis: Axes = None,
        dtype: DTypeLike | None = None,
        keepdims: bool = False,
        where: TensorLike = True,
    ) -> Any:
        a = _as(a, dtype)
        if where is True and not nan_too:
            return op(a, axis=axis, keepdims=keepdims)
        return _some_mean(*_some(a, where, nan_too=nan_too), axis, keepdims)[0]

    return reduce


def _spread(op: Function, root: Function, *, nan_too: bool) -> Function:
    def reduce(
        a: TensorLike,
        axis: Axes = None,
        dtype: DTypeLike | None = None,
        ddof: float = 0,
        keepdims: bool = False,
        where: TensorLike = True,
        mean: TensorLike | None = None,
        correction: float | None = None,
    ) -> Any:
        if mean is not None:
            raise Unsupported("mean=")
        freedom = ddof if correction is None else correction
        a = _as(a, dtype)
        if where is True and not nan_too:
            return op(a, axis=axis, correction=freedom, keepdims=keepdims)
        return root(_some_var(*_some(a, where, nan_too=nan_too), axis, keepdims, freedom))

    return reduce


routed("mean")(_mean(reductions.mean, nan_too=False))
routed("var")(_spread(reductions.var, positive, nan_too=False))
routed("std")(_spread(reductions.std, sqrt, nan_too=False))
routed("nanmean")(_mean(reductions.mean, nan_too=True))
routed("nanvar")(_spread(reductions.var, positive, nan_too=True))
routed("nanstd")(_spread(reductions.std, sqrt, nan_too=True))


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
