"""Elements by position in NumPy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from pullback import errors
from pullback.plugins.records import Kernel
from pullback_numpy.typing import Array, DType, Key

Shape = tuple[int, ...]


def _at(indices: Array, axis: int) -> Any:
    """The key of these indices along an axis."""
    return *[slice(None)] * axis, indices


def _take(x: Array, indices: Array, *, axis: int) -> Array:
    if not x.size:
        _in_range(indices, x.shape[axis])  # NumPy does not check indices of an empty array
    elif indices.ndim and not x.flags.c_contiguous and indices.size < x.shape[axis]:
        picked: Array = x[_at(indices, axis)]  # `take` copies the whole array first
        return picked
    return x.take(indices, axis)


def along(shape: Shape, indices: Array, axis: int) -> Any:
    """The key of what `take_along_axis` takes: `np.take_along_axis` makes it in twice the time."""
    key: list[Any] = [
        np.arange(size).reshape(-1, *[1] * (len(shape) - other - 1))
        for other, size in enumerate(shape)
    ]
    key[axis] = indices
    return tuple(key)


def _take_along_axis(x: Array, indices: Array, *, axis: int) -> Array:
    taken: Array = x[along(x.shape, indices, axis)]
    return taken


def _gather_nd(x: Array, indices: Array) -> Array:
    count = indices.shape[-1]
    if not count:
        raise ValueError("no positions")
    if not x.size:
        for axis in range(count):
            _in_range(indices[..., axis], x.shape[axis])  # as in `take`
    return np.asarray(x[tuple([indices[..., i] for i in range(count)])])


_least, _greatest = np.minimum.reduce, np.maximum.reduce


def _in_range(index: Array, size: int) -> Array:
    """The indices, none negative; raises IndexError for an index out of range."""
    if index.size:
        low = _least(index, axis=None)
        if low < -size or _greatest(index, axis=None) >= size:
            raise IndexError(f"an index is outside an axis of size {size}")
        if low < 0:
            return np.where(index < 0, index + size, index)
    return index


def _ravel_index(x1: Array, x2: Array, *, sizes: tuple[int, int]) -> Any:
    try:
        return np.ravel_multi_index((x1, x2), sizes)
    except ValueError:
        # Negative indices, an axis of size 0, or an index that is outside.
        return _in_range(x1, sizes[0]).astype(np.int64) * sizes[1] + _in_range(x2, sizes[1])


def _wide(dtype: DType) -> DType:
    """The dtype of sums: float32 and narrower are added in double precision and rounded once."""
    if dtype.kind in "iub":
        return dtype
    return np.dtype(np.complex128 if dtype.kind == "c" else np.float64)


def _added(start: Array, indices: Array, updates: Array, axis: int, dtype: DType) -> Any:
    """start, a new array of the wide dtype, with the updates added along an axis."""
    shape = start.shape
    size = shape[axis]
    outer, inner = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    positions = _in_range(indices, size).reshape(-1).astype(np.int64, copy=False)
    start = start.reshape(outer, size, inner)
    updates = updates.reshape(outer, positions.size, inner).astype(start.dtype, copy=False)
    if start.dtype == dtype and dtype.kind in "fc" and positions.size > _FEW:
        positions, updates = _add_crowds(start, positions, updates)
    np.add.at(start.reshape(-1), _flat(positions, outer, size, inner), updates.reshape(-1))
    return start.reshape(shape).astype(dtype, copy=False)


def _flat(positions: Array, outer: int, size: int, inner: int) -> Array:
    """The positions along the middle of three axes as those of all elements.

    On flat arrays of one dtype `ufunc.at` runs at 3 ns an element, else at ten times that.
    """
    if outer != 1:
        positions = (np.arange(outer)[:, None] * size + positions).reshape(-1)
    if inner != 1:
        positions = (positions[:, None] * inner + np.arange(inner)).reshape(-1)
    return positions


#: Up to this many sums, making all of them is faster than finding those that are not 0.
_SMALL = 1 << 15
#: A sum of at most this many numbers, one after the other, loses no more than the last digits.
_FEW = 32


def _add_crowds(start: Any, positions: Array, updates: Array) -> tuple[Array, ...]:
    """Adds the updates of positions with many updates, in pairs; returns the other updates.

    Without a wider dtype, the error of a plain sum would grow with the number of its terms.
    """
    crowds = np.flatnonzero(np.bincount(positions) > _FEW)
    if not crowds.size:
        return positions, updates
    # NumPy sorts 16 bits by their digits, eight times as fast.
    short = positions.astype(np.uint16) if start.shape[1] <= 1 << 16 else positions
    order = short.argsort(kind="stable")
    ordered = positions[order]
    begins, ends = ordered.searchsorted(crowds), ordered.searchsorted(crowds, "right")
    others = np.ones(positions.size, np.bool_)
    for position, begin, end in zip(crowds, begins, ends, strict=True):
        members = order[begin:end]
        others[members] = False
        # NumPy adds in pairs along an axis that is contiguous.
        rows = np.ascontiguousarray(updates[:, members].swapaxes(1, 2))
        start[:, position] += np.add.reduce(rows, axis=2)
    return positions[others], updates[:, others]


def _scatter_add(x: Array, indices: Array, updates: Array, *, axis: int) -> Any:
    start = np.array(x, _wide(x.dtype), order="C")
    return _added(start, indices, updates, axis, x.dtype)


def _segment_sum(data: Array, segment_ids: Array, *, num_segments: int, axis: int) -> Any:
    shape = (*data.shape[:axis], num_segments, *data.shape[axis + segment_ids.ndim :])
    if 8 * segment_ids.size < num_segments and math.prod(shape) > _SMALL:
        # Many zeros that nobody touches cost nothing: only what is added to is looked at.
        positions = _in_range(segment_ids, num_segments)
        found, own = np.unique(positions, return_inverse=True)
        own = own.reshape(positions.shape)
        sums = _segment_sum(data, own, num_segments=found.size, axis=axis)
        y = np.zeros(shape, data.dtype)
        y[_at(found, axis)] = sums
        return y
    start = np.zeros(shape, _wide(data.dtype))
    return _added(start, segment_ids, data, axis, data.dtype)


def _multiplied(start: Array, indices: Array, factors: Array, axis: int, dtype: DType) -> Any:
    """start, a new array of the wide dtype, with factors multiplied in along an axis."""
    size = start.shape[axis]
    outer, inner = math.prod(start.shape[:axis]), math.prod(start.shape[axis + 1 :])
    positions = _in_range(indices, size).reshape(-1).astype(np.int64, copy=False)
    factors = factors.reshape(-1).astype(start.dtype, copy=False)
    np.multiply.at(start.reshape(-1), _flat(positions, outer, size, inner), factors)
    return start.astype(dtype, copy=False)


def _scatter_multiply(x: Array, indices: Array, updates: Array, *, axis: int) -> Any:
    start = np.array(x, _wide(x.dtype), order="C")
    return _multiplied(start, indices, updates, axis, x.dtype)


def _segment_prod(data: Array, segment_ids: Array, *, num_segments: int, axis: int) -> Any:
    shape = (*data.shape[:axis], num_segments, *data.shape[axis + segment_ids.ndim :])
    return _multiplied(np.ones(shape, _wide(data.dtype)), segment_ids, data, axis, data.dtype)


def _place_along_axis(values: Array, indices: Array, *, shape: Shape, axis: int) -> Any:
    key = along(shape, _in_range(indices, shape[axis]), axis)
    strides = [math.prod(shape[other + 1 :]) for other in range(len(shape))]
    places = sum([index * step for index, step in zip(key, strides, strict=True)])
    places = np.broadcast_to(places, values.shape).reshape(-1)
    if values.dtype.kind == "f" and (values.dtype.itemsize < 8 or places.size <= _FEW):
        # It adds in the order of `add.at`, in double precision, and is one call.
        sums = np.bincount(places, values.reshape(-1), math.prod(shape))
        return sums.astype(values.dtype, copy=False).reshape(shape)
    start = np.zeros(math.prod(shape), _wide(values.dtype))
    return _added(start, places, values.reshape(-1), 0, values.dtype).reshape(shape)


def _scatter_update(x: Array, indices: Array, updates: Array, *, axis: int) -> Array:
    result = x.copy()
    before: Key = (slice(None),) * axis
    result[(*before, indices)] = updates
    return result


def _put_along_axis(x: Array, indices: Array, values: Array, *, axis: int) -> Array:
    beside = zip(x.shape, indices.shape, range(x.ndim), strict=True)
    if values.ndim > x.ndim or any(n not in (1, m) for m, n, other in beside if other != axis):
        raise ValueError("indices or values that do not broadcast")
    result = np.array(x, order="C")
    # In C order, so that the last of the values whose index repeats is kept: of arrays that lie in
    # another order, such as reversed ones, NumPy would write another one last.
    result[along(x.shape, np.ascontiguousarray(indices), axis)] = values
    return result


def _extreme(ufunc: Any) -> Kernel:
    """Makes a scatter kernel that combines elements and updates by a ufunc."""

    def scatter(x: Array, indices: Array, updates: Array, *, axis: int) -> Array:
        result = np.array(x, order="C")
        size = x.shape[axis]
        outer, inner = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
        positions = _in_range(indices, size).reshape(-1).astype(np.int64, copy=False)
        ufunc.at(result.reshape(-1), _flat(positions, outer, size, inner), updates.reshape(-1))
        return result

    return scatter


def scatter_nd_by(scatters: Mapping[str, Kernel]) -> Kernel:
    """The kernel of `scatter_nd`, by those of its modes along one axis."""

    def kernel(x: Array, indices: Array, updates: Array, *, mode: str) -> Any:
        if mode in ("max", "min") and x.dtype.kind in "bc":
            # A kernel is found by dtypes alone, and whether they have an order is asked by a mode.
            raise errors.DTypeError(f"mode={mode!r} needs real inputs, got {x.dtype}")
        count = indices.shape[-1]
        shape = x.shape
        if not 0 < count <= x.ndim or updates.shape != (*indices.shape[:-1], *shape[count:]):
            raise ValueError("positions or updates that do not fit")
        places, size = indices[..., 0], shape[0]
        for axis in range(1, count):
            places = _ravel_index(places, indices[..., axis], sizes=(size, shape[axis]))
            size *= shape[axis]
        rows = x.reshape(size, *shape[count:])
        return scatters[mode](rows, places, updates, axis=0).reshape(shape)

    return kernel


_SCATTERS: dict[str, Kernel] = {
    "add": _scatter_add,
    "max": _extreme(np.maximum),
    "min": _extreme(np.minimum),
    "multiply": _scatter_multiply,
    "update": _scatter_update,
}

KERNELS: dict[str, Kernel] = {
    "gather_nd": _gather_nd,
    "place_along_axis": _place_along_axis,
    "put_along_axis": _put_along_axis,
    "ravel_index": _ravel_index,
    "scatter_add": _scatter_add,
    "scatter_max": _SCATTERS["max"],
    "scatter_min": _SCATTERS["min"],
    "scatter_multiply": _scatter_multiply,
    "scatter_nd": scatter_nd_by(_SCATTERS),
    "scatter_update": _scatter_update,
    "segment_prod": _segment_prod,
    "segment_sum": _segment_sum,
    "take": _take,
    "take_along_axis": _take_along_axis,
}
