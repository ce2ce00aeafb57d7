"""Rolling, tiling and repeating."""

from __future__ import annotations

import sys
from typing import Any

from pullback import dtypes, errors
from pullback._dispatch import op
from pullback._dispatch.convert import from_any
from pullback._dispatch.symbolic import takes_symbols
from pullback._hints import answer_calls
from pullback._once import remembered
from pullback.dtypes import same
from pullback.ops.indexing import take
from pullback.ops.joining import concat, part
from pullback.ops.manipulation import broadcast_to, reshape
from pullback.ops.slicing import strided_slice
from pullback.shapes import Shape, as_int, canonical_axis, first
from pullback.spec import EXACT
from pullback.tensor import Tensor, TensorLike

__all__ = ["repeat", "roll", "tile"]


@remembered
def _shifts(shapes: tuple[Shape, ...], *, shift: object, axis: object) -> dict[str, object]:
    if axis is None:
        return {"shift": as_int(shift, "an integer shift"), "axis": None}
    shifts = tuple(shift) if isinstance(shift, tuple | list) else (shift,)
    axes = tuple(axis) if isinstance(axis, tuple | list) else (axis,)
    if len(shifts) == 1:
        shifts *= len(axes)
    if len(axes) == 1:
        axes *= len(shifts)
    if len(shifts) != len(axes):
        raise errors.InputValueError(
            f"{len(shifts)} shifts for {len(axes)} axes; give one shift per axis"
        )
    return {
        "shift": tuple([as_int(distance, "an integer shift") for distance in shifts]),
        "axis": tuple([canonical_axis(each, len(shapes[0])) for each in axes]),
    }


@op(shape=first, dtype=same, accuracy=EXACT, normalize=_shifts)
def roll(
    x: Tensor, /, shift: int | tuple[int, ...], axis: int | tuple[int, ...] | None = None
) -> Tensor:
    """x with its elements shifted cyclically along axes (array API standard).

    Args:
        x: a tensor of any shape and dtype.
        shift: the number of places towards larger indices, one number or one per axis; several
            for one axis add up.
        axis: the axes; the flattened x is rolled if None.

    Raises:
        AxisError: for an axis out of range.
        InputValueError: if the numbers of shifts and axes differ.

    >>> pb.roll([1, 2, 3, 4], 1).tolist()
    [4, 1, 2, 3]
    """
    if axis is None:
        return reshape(roll(reshape(x, (-1,)), shift, axis=0), x.shape)
    for distance, along in zip(shift, axis, strict=True):  # type: ignore[arg-type]
        size = x.shape[along]
        cut = -distance % size if size else 0
        if cut:
            tail = strided_slice(x, key=part(along, cut, size))
            x = concat([tail, strided_slice(x, key=part(along, 0, cut))], axis=along)
    return x


@roll.vjp("x")
def _(g: Tensor, shift: Shape, axis: Shape) -> Tensor:
    return roll(g, -shift if axis is None else tuple([-distance for distance in shift]), axis=axis)


def _repetitions(shapes: tuple[Shape, ...], *, repetitions: Any) -> dict[str, object]:
    if not isinstance(repetitions, tuple | list):
        repetitions = (repetitions,)
    counts = tuple([as_int(count, "an integer number of repetitions") for count in repetitions])
    if counts and min(counts) < 0:
        raise errors.InputValueError(f"repetitions must not be negative, got {counts}")
    return {"repetitions": (1,) * (len(shapes[0]) - len(counts)) + counts}


def _tiled(x: Shape, *, repetitions: Shape) -> Shape:
    """Each size times its number of repetitions."""
    sizes = (1,) * (len(repetitions) - len(x)) + x
    return tuple([size * times for size, times in zip(sizes, repetitions, strict=True)])


@op(shape=_tiled, dtype=same, accuracy=EXACT, normalize=_repetitions)
def tile(x: Tensor, /, repetitions: tuple[int, ...]) -> Tensor:
    """Copies of x joined along its axes (array API standard).

    Args:
        x: a tensor of any shape and dtype.
        repetitions: the number of copies along each axis; the shorter of it and the shape of x
            gets ones in front.

    Raises:
        InputValueError: for negative numbers.

    >>> pb.tile([1, 2], (2, 2)).tolist()
    [[1, 2, 1, 2], [1, 2, 1, 2]]
    """
    sizes = (1,) * (len(repetitions) - x.ndim) + x.shape
    apart = reshape(x, tuple([n for size in sizes for n in (1, size)]))
    spread = [n for pair in zip(repetitions, sizes, strict=True) for n in pair]
    return reshape(broadcast_to(apart, spread), _tiled(x.shape, repetitions=repetitions))


@tile.vjp("x")
def _(g: Tensor, x_shape: Shape, repetitions: Shape) -> Tensor:
    sizes = (1,) * (len(repetitions) - len(x_shape)) + tuple(x_shape)
    apart = reshape(g, tuple([n for pair in zip(repetitions, sizes, strict=True) for n in pair]))
    return reshape(apart.sum(tuple(range(0, 2 * len(sizes), 2))), tuple(x_shape))


@takes_symbols
def repeat(x: TensorLike, repeats: int | TensorLike, /, axis: int | None = None) -> Tensor:
    """x with each element (or slice along an axis) repeated in place (array API standard).

    Args:
        x: a tensor of any shape and dtype.
        repeats: the number of times: an integer, or a 1-d integer tensor with one per slice.
        axis: the axis; the flattened x is repeated if None.

    Raises:
        InputValueError: for negative numbers.
        ShapeError: if the number of repeats is not the number of slices.
        AxisError: for an axis out of range.

    >>> pb.repeat([1, 2], 2).tolist(), pb.repeat([1, 2], [3, 1]).tolist()
    ([1, 1, 2, 2], [1, 1, 1, 2])
    """
    x = from_any(x)
    if isinstance(repeats, int):
        return _repeated_alike(x, repeats, axis)
    if axis is None:
        x, axis = reshape(x, (-1,)), 0
    axis = canonical_axis(axis, x.ndim)
    size = x.shape[axis]
    times = from_any(repeats, None, x.device)
    if times.size and not dtypes.kind(times.dtype) <= dtypes.INT:
        raise errors.DTypeError(f"repeat: repeats must be integers, got {times.dtype}")
    if times.size == 1:
        return _repeated_alike(x, int(times), axis)
    if times.shape != (size,):
        raise errors.ShapeError(
            f"repeat: repeats of shape {times.shape} for axis {axis} of shape {x.shape}; "
            f"give one number, or {size} of them"
        )
    counts = times.tolist()
    if any(count < 0 for count in counts):
        raise errors.InputValueError(f"repeat: repeats must not be negative, got {counts}")
    positions = [i for i, count in enumerate(counts) for _ in range(count)]
    indices = from_any(positions) if positions else from_any(positions).astype("int32")
    return take(x, indices.to(x.device), axis=axis)


def _repeated_alike(x: Tensor, count: int, axis: int | None) -> Tensor:
    """x with every slice along the axis repeated `count` times; every element for None."""
    before: Shape = ()
    size, after = x.size, before
    if axis is not None:
        shape = x.shape
        axis = canonical_axis(axis, len(shape))
        before, size, after = shape[:axis], shape[axis], shape[axis + 1 :]
    if count < 0:
        raise errors.InputValueError(f"repeat: repeats must not be negative, got {count}")
    apart = broadcast_to(reshape(x, (*before, size, 1, *after)), (*before, size, count, *after))
    # A copy even of all slices once, which may be written into.
    return reshape(apart, (*before, size * count, *after)).__copy__()


answer_calls(sys.modules[__name__])
