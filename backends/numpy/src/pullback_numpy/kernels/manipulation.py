"""Shapes in NumPy: views wherever NumPy has them."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from pullback.plugins.records import Kernel
from pullback.shapes import PAD_SOURCES, Pads
from pullback_numpy.typing import Array, Key, Sizes

# Below this many elements a copy costs less than what strides of 0 cost each op that reads it: a
# 10x10 product takes 0.5 us on a copy and 1.9 us on a broadcast view.
_WORTH_A_VIEW = 16384
#: Rows up to this length are copied by columns.
_SHORT = 4


def _reshape(x: Array, *, shape: Sizes) -> Array:
    last = x.squeeze(-1) if x.ndim > 2 and x.shape[-1] == 1 else x
    if x.size > _WORTH_A_VIEW and x.ndim > 1 and not last.strides[-1] and last.shape[-1] <= _SHORT:
        # Each element a few times, as `repeat` makes them: NumPy copies so few at a time slowly.
        y = np.empty(last.shape, x.dtype)
        for i in range(last.shape[-1]):
            y[..., i] = last[..., 0]
        return y.reshape(shape)
    return x.reshape(shape)


def _broadcast_to(x: Array, *, shape: Sizes) -> Array:
    if x.shape == shape:
        return x
    if math.prod(shape) > _WORTH_A_VIEW or x.ndim > len(shape):
        # The latter is an error; an assignment would drop axes of size 1 in front.
        return np.broadcast_to(x, shape)
    result = np.empty(shape, x.dtype)
    if x.ndim and x.shape[-1] == 1 < shape[-1] <= _SHORT:
        for i in range(shape[-1]):
            result[..., i] = x[..., 0]
        return result
    result[...] = x
    return result


def _permute_dims(x: Array, *, axes: Sizes) -> Array:
    return x.transpose(axes)


def _matrix_transpose(x: Array) -> Array:
    return x.mT


def _moveaxis(x: Array, *, source: Sizes, destination: Sizes) -> Array:
    order = [axis for axis in range(x.ndim) if axis not in source]
    for position, axis in sorted(zip(destination, source, strict=True)):
        order.insert(position, axis)
    return x.transpose(order)


def _expand_dims(x: Array, *, axis: Sizes) -> Array:
    if len(axis) == 1:
        return x[(*(slice(None),) * axis[0], None)]
    return np.expand_dims(x, axis)


def _squeeze(x: Array, *, axis: Sizes | None) -> Array:
    return x.squeeze(axis)


def _flip(x: Array, *, axis: Sizes | None) -> Array:
    backward = slice(None, None, -1)
    if axis is None:
        return x[(backward,) * x.ndim + (...,)]
    return x[tuple([backward if i in axis else slice(None) for i in range(x.ndim)])]


def _concat(arrays: list[Array], *, axis: int | None) -> Array:
    return np.concatenate(arrays, axis)


def _stack(arrays: list[Array], *, axis: int) -> Array:
    head = arrays[0].shape
    shape = (*head[:axis], len(arrays), *head[axis:])
    if not axis and head and {array.shape for array in arrays} == {head}:
        return np.concatenate(arrays).reshape(shape)
    result = np.empty(shape, arrays[0].dtype)
    before: Key = (slice(None),) * axis
    for i, array in enumerate(arrays):
        if array.shape != head:
            raise ValueError("shapes differ")
        result[(*before, i)] = array
    return result


def _split_at(x: Array, *, position: int, axis: int) -> tuple[Array, ...]:
    before = (slice(None),) * axis
    return x[(*before, slice(position))], x[(*before, slice(position, None))]


def _roll(x: Array, *, shift: Any, axis: Any) -> Array:
    if axis is None:
        return _roll(x.reshape(-1), shift=(shift,), axis=(0,)).reshape(x.shape)
    if len(axis) != 1:
        for one, by in zip(axis, shift, strict=True):
            x = _roll(x, shift=(by,), axis=(one,))
        return x
    # `np.roll` takes four times as long for few elements.
    size, before = x.shape[axis[0]], (slice(None),) * axis[0]
    cut = -shift[0] % size if size else 0
    parts = x[(*before, slice(cut, None))], x[(*before, slice(cut))]
    return np.concatenate(parts, axis[0])


def _tile(x: Array, *, repetitions: Sizes) -> Array:
    return np.tile(x, repetitions)


# An ellipsis in the key makes even one element a 0-d view, not a NumPy scalar.


def _strided_slice(x: Array, *, key: Key) -> Any:
    return x[key]


def _strided_update(x: Array, value: Array, *, key: Key) -> Array:
    result = x.copy()
    part = result[key]
    if value.ndim > part.ndim:
        raise ValueError("more axes than the part has")  # an assignment would drop those of size 1
    part[...] = value
    return result


def _strided_place(value: Array, *, shape: Sizes, key: Key) -> Array:
    result = np.zeros(shape, value.dtype)
    part = result[key]
    if value.shape != part.shape:
        raise ValueError("the value must have the shape of the part")
    part[...] = value
    return result


@lru_cache(maxsize=64)
def _below(rows: int, columns: int, k: int) -> Array:
    """True where the column is at most the row plus k."""
    below: Array = np.tri(rows, columns, max(-rows, min(k, columns)), np.bool_)
    return below


def _tril(x: Array, *, k: int) -> Array:
    return np.where(_triangle(x, k), x, np.zeros((), x.dtype))


def _triu(x: Array, *, k: int) -> Array:
    return np.where(_triangle(x, k - 1), np.zeros((), x.dtype), x)


def _triangle(x: Array, k: int) -> Array:
    """The mask of a triangle, which is kept if it is small."""
    rows, columns = x.shape[-2:]
    small = rows * columns <= _WORTH_A_VIEW
    return (_below if small else _below.__wrapped__)(rows, columns, k)


#: Up to so many places along all axes their sources are looked up one by one.
_FEW_PLACES = 32


def _pad(
    x: Array,
    *,
    pad_width: Pads,
    mode: Literal["constant", "reflect", "symmetric", "edge", "wrap"],
    constant_values: Any,
) -> Array:
    shape = tuple([a + size + b for size, (a, b) in zip(x.shape, pad_width, strict=True)])
    if mode != "constant" and sum(shape) <= _FEW_PLACES and x.size:
        source = PAD_SOURCES[mode]
        for axis, (size, (a, b)) in enumerate(zip(x.shape, pad_width, strict=True)):
            if a or b:
                x = x.take([source(i, size) for i in range(-a, size + b)], axis)
        return x
    result = np.zeros(shape, x.dtype) if mode == "constant" else np.empty(shape, x.dtype)
    if constant_values:
        result.fill(constant_values)
    key: list[Any] = [slice(a, a + n) for n, (a, _) in zip(x.shape, pad_width, strict=True)]
    result[tuple(key)] = x
    if mode == "constant":
        return result
    source = PAD_SOURCES[mode]
    for axis, (size, (a, b)) in enumerate(zip(x.shape, pad_width, strict=True)):
        # Axis by axis: the slices that are repeated are whole along the axes before it.
        for places in (range(a), range(a + size, a + size + b)):
            if places:
                beyond, inside = list(key), list(key)
                beyond[axis] = slice(places[0], places[-1] + 1)
                inside[axis] = [a + source(i - a, size) for i in places]
                result[tuple(beyond)] = result[tuple(inside)]
        key[axis] = slice(None)
    return result


KERNELS: dict[str, Kernel] = {
    "broadcast_to": _broadcast_to,
    "concat": _concat,
    "expand_dims": _expand_dims,
    "flip": _flip,
    "matrix_transpose": _matrix_transpose,
    "moveaxis": _moveaxis,
    "pad": _pad,
    "permute_dims": _permute_dims,
    "reshape": _reshape,
    "roll": _roll,
    "split_at": _split_at,
    "squeeze": _squeeze,
    "stack": _stack,
    "strided_place": _strided_place,
    "strided_slice": _strided_slice,
    "strided_update": _strided_update,
    "tile": _tile,
    "tril": _tril,
    "triu": _triu,
}
