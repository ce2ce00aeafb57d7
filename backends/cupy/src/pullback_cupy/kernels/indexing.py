"""Indexing, without a wait for the device to check the indices.

An index outside its axis is reported through `pullback_cupy.faults`: the next call that waits for
the device raises the error.
"""

from __future__ import annotations

import math

import cupy
import numpy as np

from pullback.dtypes import DType
from pullback.plugins.records import Kernel
from pullback.shapes import Shape
from pullback_cupy import faults
from pullback_cupy.compile import contiguous, elementwise, launch, over_elements
from pullback_cupy.typing import Array

# `place` is the position of `index` on an axis of `axis` elements; an index outside is reported,
# and gives a zero.
_PLACE = (
    "long long place = (long long)index; const bool outside = place < -axis || place >= axis;"
    " if (outside) *(long long*)fault = axis + 1; if (place < 0) place += axis;"
)
_taken = elementwise(
    "take",
    "raw T x, raw I indices, int64 axis, int64 count, int64 inner, uint64 fault",
    "T y",
    f"const long long index = indices[i / inner % count]; {_PLACE}"
    " y = outside ? T(0) : x[(i / (count * inner) * axis + place) * inner + i % inner];",
)
_taken_along = elementwise(
    "take_along_axis",
    "raw T x, I index, int64 axis, int64 count, int64 inner, uint64 fault",
    "T y",
    f"{_PLACE} y = outside ? T(0) : x[(i / (count * inner) * axis + place) * inner + i % inner];",
)
_raveled = elementwise(
    "ravel_index",
    "I x1, I x2, int64 rows, int64 columns, uint64 fault",
    "int64 y",
    "long long row = x1, column = x2;"
    " if (row < -rows || row >= rows) *(long long*)fault = rows + 1;"
    " if (column < -columns || column >= columns) *(long long*)fault = columns + 1;"
    " y = (row < 0 ? row + rows : row) * columns + (column < 0 ? column + columns : column);",
)
_BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def as_bits(x: Array) -> Array:
    """x in C order, with its bits as unsigned integers, for kernels that only move elements.

    Complex128 gets one more axis, of two elements.
    """
    return (
        _halves(x, np.dtype(np.uint64))
        if x.itemsize == 16
        else contiguous(x).view(_BITS[x.itemsize])
    )


def _halves(x: Array, dtype: DType) -> Array:
    """Complex numbers as pairs of a real dtype, along a new last axis."""
    return contiguous(x).reshape(-1).view(dtype).reshape(*x.shape, 2)


def _restored(y: Array, dtype: DType) -> Array:
    return y.view(dtype)[..., 0] if dtype.itemsize == 16 else y.view(dtype)


def _take(x: Array, indices: Array, *, axis: int) -> Array:
    bits, positions = as_bits(x), contiguous(indices)
    y = cupy.empty((*bits.shape[:axis], *indices.shape, *bits.shape[axis + 1 :]), bits.dtype)
    size, inner = bits.shape[axis], math.prod(bits.shape[axis + 1 :])
    if y.size:
        _taken(bits, positions, size, positions.size, inner, faults.address("take"), y)
    else:
        _look_at(positions, size, "take")
    faults.after_call()
    return _restored(y, x.dtype)


_looked_at = elementwise("index", "I index, int64 axis, uint64 fault", "bool y",
                         f"{_PLACE} y = outside;")  # fmt: skip


def _look_at(indices: Array, size: int, op: str) -> None:
    """Reports indices outside the axis where there are no elements to take."""
    if indices.size:
        _looked_at(indices, size, faults.address(op))


def _take_along_axis(x: Array, indices: Array, *, axis: int) -> Array:
    lead = np.broadcast_shapes(
        (*x.shape[:axis], 1, *x.shape[axis + 1 :]),
        (*indices.shape[:axis], 1, *indices.shape[axis + 1 :]),
    )
    size, count = x.shape[axis], indices.shape[axis]
    before, behind = lead[:axis], lead[axis + 1 :]
    bits = as_bits(cupy.broadcast_to(x, (*before, size, *behind)))
    positions = cupy.broadcast_to(indices, (*before, count, *behind))
    if x.itemsize == 16:
        positions = cupy.broadcast_to(positions[..., None], (*positions.shape, 2))
    inner = math.prod(bits.shape[axis + 1 :])
    y = cupy.empty(positions.shape, bits.dtype)
    if y.size:
        positions = contiguous(positions)
        _taken_along(bits, positions, size, count, inner, faults.address("take_along_axis"), y)
    faults.after_call()
    return _restored(y, x.dtype)


def _ravel_index(x1: Array, x2: Array, *, sizes: tuple[int, int]) -> Array:
    y = _raveled(x1, x2, *sizes, faults.address("ravel_index"))
    faults.after_call()
    return y


# Adding: sorted, so that sums have one order --------------------------------------------------

_LARGEST = (1 << 31) - 1


def _sorted(indices: Array, size: int, op: str) -> tuple[Array, Array]:
    """The sorted indices, as keys below `size`, and their positions before; the sort is stable."""
    count = indices.size
    if size >= _LARGEST or count >= _LARGEST:
        raise ValueError(f"axis and indices must have fewer than {_LARGEST} elements")
    positions = contiguous(indices)
    keys, order = cupy.empty(count, np.uint32), cupy.empty(count, np.int32)
    types = {"T": np.dtype(np.float32), "I": positions.dtype, "A": np.dtype(np.float32)}
    arguments = (positions, count, size, keys, order, faults.address(op))
    over_elements("scatter", "to_keys", count, arguments, **types)
    tiles = -(-count // 256)
    for shift in range(0, size.bit_length(), 8):
        counts = cupy.empty((256, tiles), np.int32)
        launch("scatter", "count_digits", tiles, 256, (keys, count, shift, counts, tiles), **types)
        ends = cupy.cumsum(counts, dtype=np.int32)
        moved, moved_order = cupy.empty_like(keys), cupy.empty_like(order)
        moving = (keys, order, count, shift, counts, ends, moved, moved_order, tiles)
        launch("scatter", "place_digits", tiles, 256, moving, **types)
        keys, order = moved, moved_order
    return keys, order


def _added(
    start: Array | None, indices: Array, updates: Array, shape: Shape, axis: int, op: str
) -> Array:
    """`start` (None: zeros of `shape`) with the updates added along an axis."""
    dtype = updates.dtype
    if dtype.kind == "c":
        real = np.dtype(np.float32 if dtype.itemsize == 8 else np.float64)
        first = None if start is None else _halves(start, real)
        y = _added(first, indices, _halves(updates, real), (*shape, 2), axis, op)
        return y.view(dtype)[..., 0]
    y = cupy.empty(shape, dtype)
    size, count = shape[axis], indices.size
    outer, inner = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    if not count:
        y[...] = 0 if start is None else start
        return y
    keys, order = _sorted(indices, size, op)
    if y.size:
        first = None if start is None else contiguous(start)
        added, wide = contiguous(updates), _accumulator(dtype)
        columns = min(32, 1 << (inner - 1).bit_length())
        lanes = min(256 // columns, max(1, 1 << (count // size).bit_length()))
        launch(
            "scatter", "add_sorted", min(outer * size, _LARGEST), (columns, lanes),
            (first, keys, order, added, y, count, outer, size, inner),
            T=dtype, I=indices.dtype, A=wide,
        )  # fmt: skip
    return y


def _accumulator(dtype: DType) -> DType:
    """The dtype of sums; the kernel keeps the rounding error of each addition as well."""
    if dtype.kind in "iu":
        return np.dtype(np.int64)
    return np.dtype(np.float64 if dtype.itemsize == 8 else np.float32)


def _scatter_add(x: Array, indices: Array, updates: Array, *, axis: int) -> Array:
    y = _added(x, indices, updates, x.shape, axis, "scatter_add")
    faults.after_call()
    return y


def _segment_sum(data: Array, segment_ids: Array, *, num_segments: int, axis: int) -> Array:
    shape = (*data.shape[:axis], num_segments, *data.shape[axis + segment_ids.ndim :])
    y = _added(None, segment_ids, data, shape, axis, "segment_sum")
    faults.after_call()
    return y


def _extreme(op: str, largest: int) -> Kernel:
    def kernel(x: Array, indices: Array, updates: Array, *, axis: int) -> Array:
        if not indices.size or not x.size:
            return x
        x, updates, size = contiguous(x), contiguous(updates), x.shape[axis]
        keys, order = _sorted(indices, size, op)
        y, inner = cupy.empty_like(x), math.prod(x.shape[axis + 1 :])
        counts = indices.size, math.prod(x.shape[:axis]), size, inner
        over_elements(
            "scatter", "most_sorted", y.size, (x, keys, order, updates, y, *counts, largest),
            T=x.dtype, I=indices.dtype, A=_accumulator(x.dtype),
        )  # fmt: skip
        faults.after_call()
        return y

    return kernel


def _scatter_update(x: Array, indices: Array, updates: Array, *, axis: int) -> Array:
    bits, new, positions = as_bits(x), as_bits(updates), contiguous(indices)
    y, count, size = cupy.empty_like(bits), positions.size, bits.shape[axis]
    last = cupy.full(size, -1, np.int32)
    types = {"T": bits.dtype, "I": positions.dtype, "A": np.dtype(np.int64)}
    arguments = (positions, count, size, last, faults.address("scatter_update"))
    over_elements("scatter", "mark_last", count, arguments, **types)
    outer, inner = math.prod(bits.shape[:axis]), math.prod(bits.shape[axis + 1 :])
    putting = (bits, last, new, y, count, outer, size, inner)
    over_elements("scatter", "put_last", y.size, putting, **types)
    faults.after_call()
    return _restored(y, x.dtype)


KERNELS: dict[str, Kernel] = {
    "ravel_index": _ravel_index,
    "scatter_add": _scatter_add,
    "scatter_max": _extreme("scatter_max", 1),
    "scatter_min": _extreme("scatter_min", 0),
    "scatter_update": _scatter_update,
    "segment_sum": _segment_sum,
    "take": _take,
    "take_along_axis": _take_along_axis,
}
