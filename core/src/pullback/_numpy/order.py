"""NumPy's functions of order: sorting, searching, sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback import dtypes
from pullback._numpy.table import Function, Unsupported, flattened, routed
from pullback.ops import searching, sets, sorting
from pullback.ops.arithmetic import minimum
from pullback.ops.comparison import isnan
from pullback.ops.conversion import asarray
from pullback.ops.creation import arange, full
from pullback.ops.cumulative import cumulative_sum
from pullback.ops.data_types import astype
from pullback.ops.indexing import take
from pullback.ops.joining import concat
from pullback.ops.manipulation import moveaxis, reshape
from pullback.ops.reductions import any, sum
from pullback.tensor import TensorLike


def _ordering(op: Function) -> Function:
    def order(a: TensorLike, axis: int | None = -1) -> Any:
        a, axis = flattened(a, axis)
        return op(a, axis=axis)

    return order


def _partition(op: Function) -> Function:
    def partition(a: TensorLike, kth: int | Sequence[int], axis: int | None = -1) -> Any:
        # A sorted array is partitioned at every element.
        a, axis = flattened(a, axis)
        return op(a, axis=axis)

    return partition


routed("sort")(_ordering(sorting.sort))
routed("argsort")(_ordering(sorting.argsort))
routed("partition")(_partition(sorting.sort))
routed("argpartition")(_partition(sorting.argsort))


@routed("searchsorted")
def _(a: TensorLike, v: TensorLike, side: str = "left", sorter: TensorLike | None = None) -> Any:
    return searching.searchsorted(a, v, sorter, side=side)


@routed("nonzero")
def _(a: TensorLike) -> Any:
    return searching.nonzero(a)


@routed("flatnonzero")
def _(a: TensorLike) -> Any:
    return searching.nonzero(reshape(a, -1))[0]


@routed("argwhere")
def _(a: TensorLike) -> Any:
    return searching.argwhere(a)


@routed("isin")
def _(element: TensorLike, test_elements: TensorLike, invert: bool = False) -> Any:
    return sets.isin(element, test_elements, invert=invert)


@routed("in1d")
def _(ar1: TensorLike, ar2: TensorLike, invert: bool = False) -> Any:
    return sets.isin(reshape(ar1, -1), reshape(ar2, -1), invert=invert)


# Sets.


@routed("unique")
def _(
    ar: TensorLike,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    equal_nan: bool = True,
) -> Any:
    ar = asarray(ar)
    found = sets.unique_all(ar) if axis is None else _unique_slices(ar, axis)
    if equal_nan and axis is None and dtypes.is_floating(ar.dtype):
        found = _one_nan(*found)
    wanted = (True, return_index, return_inverse, return_counts)
    parts = tuple([part for part, want in zip(found, wanted, strict=True) if want])
    return parts if len(parts) > 1 else parts[0]


def _one_nan(values: Any, indices: Any, inverse: Any, counts: Any) -> tuple[Any, ...]:
    """The parts of `unique_all`, to which every NaN is another one, with one NaN at the end."""
    several = int(sum(isnan(values), dtype=dtypes.int64))
    if several < 2:
        return values, indices, inverse, counts
    size = values.shape[0] - several + 1
    counts = concat([counts[: size - 1], sum(counts[size - 1 :], axis=0, keepdims=True)])
    return values[:size], indices[:size], minimum(inverse, size - 1), counts


def _unique_slices(ar: Any, axis: int) -> tuple[Any, ...]:
    """The distinct slices along an axis in lexicographic order, as `unique_all`."""
    lines = moveaxis(ar, axis, 0)
    rows = reshape(lines, (lines.shape[0], -1))
    count, width = rows.shape
    order = arange(count, dtype=dtypes.int64, device=ar.device)
    for column in range(width - 1, -1, -1):
        order = take(order, sorting.argsort(take(rows[:, column], order)))
    ordered = take(rows, order, axis=0)
    is_first = concat([full((min(count, 1),), True), any(ordered[1:] != ordered[:-1], axis=1)])
    starts = searching.nonzero(is_first)[0]
    ends = concat([starts[1:], full((min(count, 1),), count, dtype=dtypes.int64)])
    group = cumulative_sum(astype(is_first, dtypes.int64), axis=0) - 1
    inverse = take(group, sorting.argsort(order))
    indices = take(order, starts)
    return moveaxis(take(lines, indices, axis=0), 0, axis), indices, inverse, ends - starts


@routed("unique_values")
def _(x: TensorLike) -> Any:
    return sets.unique_values(x)


@routed("unique_all")
def _(x: TensorLike) -> Any:
    return sets.unique_all(x)


@routed("unique_counts")
def _(x: TensorLike) -> Any:
    return sets.unique_counts(x)


@routed("unique_inverse")
def _(x: TensorLike) -> Any:
    return sets.unique_inverse(x)


@routed("union1d")
def _(ar1: TensorLike, ar2: TensorLike) -> Any:
    return sets.unique_values(concat([reshape(ar1, -1), reshape(ar2, -1)]))


def _kept(values: TensorLike, mask: TensorLike) -> Any:
    return take(values, searching.nonzero(mask)[0], axis=0)


@routed("intersect1d")
def _(ar1: TensorLike, ar2: TensorLike, return_indices: bool = False) -> Any:
    if return_indices:
        raise Unsupported("return_indices=")
    values = sets.unique_values(ar1)
    return _kept(values, sets.isin(values, ar2))


@routed("setdiff1d")
def _(ar1: TensorLike, ar2: TensorLike) -> Any:
    values = sets.unique_values(ar1)
    return _kept(values, sets.isin(values, ar2, invert=True))


@routed("setxor1d")
def _(ar1: TensorLike, ar2: TensorLike) -> Any:
    ar1, ar2 = sets.unique_values(ar1), sets.unique_values(ar2)
    first = _kept(ar1, sets.isin(ar1, ar2, invert=True))
    second = _kept(ar2, sets.isin(ar2, ar1, invert=True))
    return sorting.sort(concat([asarray(first), asarray(second)]))
