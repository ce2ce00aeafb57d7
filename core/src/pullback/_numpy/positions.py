"""NumPy's functions of positions: indices, places in order, bins."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, prod
from typing import Any

from pullback import dtypes, errors
from pullback._numpy.table import FUNCTIONS, Function, Unsupported, routed
from pullback.dtypes import DTypeLike
from pullback.ops import creation, searching
from pullback.ops.arithmetic import minimum
from pullback.ops.comparison import isnan
from pullback.ops.conversion import asarray
from pullback.ops.data_types import astype
from pullback.ops.indexing import ravel_indices, segment_sum, take_along_axis
from pullback.ops.joining import concat
from pullback.ops.manipulation import broadcast_to, flip, reshape
from pullback.ops.patterns import tril, triu
from pullback.ops.reductions import all, any
from pullback.ops.searching import nonzero, searchsorted
from pullback.ops.selection import where
from pullback.ops.sorting import argsort
from pullback.shapes import as_shape
from pullback.tensor import TensorLike


@routed("arange")
def _(start: float, stop: float | None = None, step: float = 1, dtype: Any = None) -> Any:
    return creation.arange(start, stop, step, dtype=dtype)


@routed("indices")
def _(dimensions: Sequence[int], dtype: DTypeLike = dtypes.int64, sparse: bool = False) -> Any:
    sizes = as_shape(dimensions)
    lines = [
        reshape(creation.arange(size, dtype=dtype), (*[1] * i, size, *[1] * (len(sizes) - 1 - i)))
        for i, size in enumerate(sizes)
    ]
    if sparse:
        return tuple(lines)
    full = [broadcast_to(line, sizes)[None] for line in lines]
    return concat(full) if full else creation.zeros((0,), dtype=dtype)


@routed("ix_")
def _(*args: TensorLike) -> Any:
    vectors = [asarray(one) for one in args]
    if any_ := [one for one in vectors if one.ndim != 1]:
        raise errors.ShapeError(f"np.ix_ takes vectors, got one of shape {any_[0].shape}")
    lines = [nonzero(one)[0] if one.dtype == dtypes.bool_ else one for one in vectors]
    return tuple(
        reshape(line, (*[1] * i, line.size, *[1] * (len(lines) - 1 - i)))
        for i, line in enumerate(lines)
    )


@routed("tri")
def _(N: int, M: int | None = None, k: int = 0, dtype: DTypeLike | None = None) -> Any:
    return tril(creation.ones((N, N if M is None else M), dtype=dtype), k=k)


def _triangle(part: Function) -> Function:
    def indices(n: int, k: int = 0, m: int | None = None) -> Any:
        return nonzero(part(creation.ones((n, n if m is None else m), dtype=dtypes.bool_), k=k))

    return indices


routed("tril_indices")(_triangle(tril))
routed("triu_indices")(_triangle(triu))


@routed("diag_indices")
def _(n: int, ndim: int = 2) -> Any:
    return (creation.arange(n, dtype=dtypes.int64),) * ndim


@routed("unravel_index")
def _(indices: TensorLike, shape: Any) -> Any:
    indices, sizes = asarray(indices), as_shape(shape)
    count = prod(sizes)
    if bool(any((indices < 0) | (indices >= count))):
        raise errors.IndexingError(f"an index is outside an array of {count} elements")
    found = []
    for size in reversed(sizes):
        found.append(astype(indices % size, dtypes.int64))
        indices = indices // size
    return tuple(reversed(found))


@routed("ravel_multi_index")
def _(multi_index: Any, dims: Any) -> Any:
    several, sizes = [asarray(one) for one in multi_index], as_shape(dims)
    if any_ := [one for one in several if bool(any(one < 0))]:
        raise errors.IndexingError(f"an index is negative: {any_[0].min().item()}")
    if len(several) == 1:
        several, sizes = [creation.zeros_like(several[0]), *several], (1, *sizes)
    return ravel_indices(several, sizes)


@routed("lexsort")
def _(keys: Any, axis: int = -1) -> Any:
    first, *others = [asarray(one) for one in keys]
    order = argsort(first, axis=axis)
    for key in others:
        again = argsort(take_along_axis(key, order, axis=axis), axis=axis)
        order = take_along_axis(order, again, axis=axis)
    return order


def _place(op: Function, worst: float) -> Function:
    def place(a: TensorLike, axis: int | None = None, keepdims: bool = False) -> Any:
        a = asarray(a)
        if not dtypes.is_floating(a.dtype):
            return op(a, axis=axis, keepdims=keepdims)
        missing = isnan(a)
        if bool(any(all(missing, axis=axis))):
            raise errors.InputValueError("all elements of a slice are NaN: none is the largest")
        return op(where(missing, worst, a), axis=axis, keepdims=keepdims)

    return place


routed("nanargmax")(_place(searching.argmax, -inf))
routed("nanargmin")(_place(searching.argmin, inf))


@routed("digitize")
def _(x: TensorLike, bins: TensorLike, right: bool = False) -> Any:
    bins = asarray(bins)
    steps = bins[1:] - bins[:-1]
    side = "left" if right else "right"
    if bool(all(steps >= 0)):
        return searchsorted(bins, x, side=side)
    if not bool(all(steps <= 0)):
        raise errors.InputValueError("np.digitize: bins must rise or fall throughout")
    return bins.shape[0] - searchsorted(flip(bins), x, side=side)


def _edges(a: Any, bins: Any, bounds: Any) -> Any:
    if isinstance(bins, str):
        raise Unsupported(f"bins={bins!r}")
    if getattr(bins, "ndim", 1 if isinstance(bins, (list, tuple)) else 0):
        return asarray(bins)
    low, high = bounds if bounds is not None else (a.min(), a.max()) if a.size else (0.0, 1.0)
    if bool(asarray(low) > high):
        raise errors.InputValueError(f"the range of a histogram must rise, got {low} to {high}")
    if bool(asarray(low) == high):
        low, high = low - 0.5, high + 0.5
    return FUNCTIONS["linspace"](low, high, int(bins) + 1)


@routed("histogram")
def _(
    a: TensorLike,
    bins: Any = 10,
    range: Any = None,
    density: bool | None = None,
    weights: TensorLike | None = None,
) -> Any:
    a = reshape(a, -1)
    edges = _edges(a, bins, range)
    count = edges.shape[0] - 1
    # The last bin has both of its ends; what is outside goes to a bin behind it.
    place = searchsorted(edges, a, side="right") - 1
    place = where(a == edges[-1], count - 1, where((place < 0) | isnan(a), count, place))
    each = creation.ones(a.shape, dtype=dtypes.int64) if weights is None else reshape(weights, -1)
    found = segment_sum(each, minimum(place, count), count + 1)[:-1]
    if density:
        found = astype(found, edges.dtype) / (edges[1:] - edges[:-1])
        found = found / (found * (edges[1:] - edges[:-1])).sum()
    return found, edges


@routed("histogram_bin_edges")
def _(a: TensorLike, bins: Any = 10, range: Any = None, weights: Any = None) -> Any:
    return _edges(reshape(a, -1), bins, range)
