"""Joining and splitting of tensors."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from pullback import errors
from pullback._dispatch import op
from pullback._dispatch.convert import from_any
from pullback._dispatch.recording import may_record
from pullback._dispatch.symbolic import takes_symbols
from pullback._hints import answer_calls
from pullback.dtypes import Operands, Resolution, same
from pullback.ops.manipulation import expand_dims, reshape, squeeze
from pullback.ops.slicing import strided_slice
from pullback.shapes import Axis, Shape, as_int, canonical_axis, size_of
from pullback.spec import EXACT
from pullback.tensor import Tensor, TensorLike

__all__ = ["concat", "split", "split_at", "stack", "unstack"]


def part(axis: int, start: int, stop: int) -> tuple[Any, ...]:
    """The canonical key of start:stop along `axis`."""
    return (*[slice(None)] * axis, slice(start, stop, 1), ...)


# ---------------------------------------------------------------------------------------------
# Joining.


def _joined(arrays: list[Shape], *, axis: int | None) -> Shape:
    """The sum of the sizes along the axis, and the common other sizes; a vector for axis None."""
    if not arrays:
        raise errors.InputValueError("needs at least one tensor, got an empty sequence")
    if axis is None:
        return (sum(size_of(shape) for shape in arrays),)
    head = arrays[0]
    for shape in arrays[1:]:
        if len(shape) != len(head) or any(
            a != b for i, (a, b) in enumerate(zip(head, shape, strict=True)) if i != axis
        ):
            raise errors.ShapeError(f"shapes {head} and {shape} differ outside axis {axis}")
    if not head:
        raise errors.ShapeError("0-d tensors have no axis to join along; use stack")
    return (*head[:axis], sum(shape[axis] for shape in arrays), *head[axis + 1 :])


@op(
    shape=_joined,
    dtype=same,
    accuracy=EXACT,
    primitive="Writing the parts one by one into a new array copies the whole once per part.",
)
def concat(arrays: Sequence[Tensor], /, axis: Axis | None = 0) -> Tensor:
    """The arrays joined along an existing axis (array API standard).

    Args:
        arrays: tensors of one shape except for the sizes along `axis`; dtypes are promoted.
        axis: the axis; None joins the flattened arrays.

    Raises:
        ShapeError: for shapes that differ outside the axis.
        AxisError: for an axis out of range.

    >>> pb.concat([[[1, 2]], [[3, 4]]]).tolist()
    [[1, 2], [3, 4]]
    """


@concat.vjp("arrays")
def _(g: Tensor, arrays_shape: list[Shape], axis: int | None) -> list[Tensor]:
    parts = []
    start = 0
    for shape in arrays_shape:
        stop = start + (size_of(shape) if axis is None else shape[axis])
        piece = strided_slice(g, key=part(axis or 0, start, stop))
        parts.append(reshape(piece, tuple(shape)) if axis is None else piece)
        start = stop
    return parts


def _new_axis(shapes: tuple[list[Shape], ...], *, axis: object) -> dict[str, object]:
    if not shapes[0]:
        raise errors.InputValueError("needs at least one tensor, got an empty sequence")
    return {"axis": canonical_axis(axis, len(shapes[0][0]) + 1)}


def _stacked(arrays: list[Shape], *, axis: int) -> Shape:
    """The common shape with a new axis of the number of inputs."""
    head = arrays[0]
    for shape in arrays[1:]:
        if shape != head:
            raise errors.ShapeError(f"shapes {head} and {shape} differ")
    return (*head[:axis], len(arrays), *head[axis:])


@op(shape=_stacked, dtype=same, accuracy=EXACT, normalize=_new_axis)
def stack(arrays: Sequence[Tensor], /, axis: int = 0) -> Tensor:
    """The arrays joined along a new axis (array API standard).

    Args:
        arrays: tensors of one shape; dtypes are promoted.
        axis: the position of the new axis in the result.

    Raises:
        ShapeError: for shapes that differ.
        AxisError: for a position out of range.

    >>> pb.stack([[1, 2], [3, 4]], axis=1).tolist()
    [[1, 3], [2, 4]]
    """
    return concat([expand_dims(array, axis) for array in arrays], axis=axis)


# ---------------------------------------------------------------------------------------------
# Splitting.


def _position(shapes: tuple[Shape, ...], *, position: object, axis: object) -> dict[str, object]:
    axis = canonical_axis(axis, len(shapes[0]))
    at, size = as_int(position, "an integer position"), shapes[0][axis]
    if not -size <= at <= size:
        raise errors.ShapeError(f"position {at} is outside axis {axis} of shape {shapes[0]}")
    return {"position": at + size if at < 0 else at, "axis": axis}


def _in_two(x: Shape, *, position: int, axis: int) -> list[Shape]:
    """The shapes of the part before the position and of the rest."""
    sizes = (position, x[axis] - position)
    return [(*x[:axis], size, *x[axis + 1 :]) for size in sizes]


def _both(operands: Operands, **_: object) -> Resolution:
    """The dtype of x, twice."""
    inputs, outputs = same(operands)
    return Resolution(inputs, outputs * 2)


@op(
    shape=_in_two,
    dtype=_both,
    accuracy=EXACT,
    view=True,
    outputs=("before", "behind"),
    normalize=_position,
)
def split_at(x: Tensor, /, position: int, axis: int = 0) -> tuple[Tensor, Tensor]:
    """x split in two along an axis: the part before a position, and the rest.

    When recorded, `split` and `unstack` halve a large x repeatedly: the gradient joins two
    neighboring parts by a copy, instead of placing every slice among zeros.

    Args:
        x: a tensor of at least one axis.
        position: the size of the first part; a negative one counts from the end.
        axis: the axis to split.

    Raises:
        ShapeError: for a position outside the axis.
        AxisError: for an axis out of range.

    >>> before, behind = pb.split_at([1, 2, 3, 4], 1)
    >>> before.tolist(), behind.tolist()
    ([1], [2, 3, 4])
    """
    return (
        strided_slice(x, key=part(axis, 0, position)),
        strided_slice(x, key=part(axis, position, x.shape[axis])),
    )


split_at.vjp(x=lambda g, axis: concat(list(g), axis=axis))


#: From this number of elements on, zeros for each part cost more than two more ops.
_LARGE = 1 << 14


def _is_halved(x: Tensor, parts: int) -> bool:
    return parts > 1 and x.size >= _LARGE and may_record(x._node)


def _halves(x: Tensor, bounds: Sequence[int], axis: int) -> list[Tensor]:
    """The slices of x between neighboring bounds, which ascend and span the axis."""
    if len(bounds) == 2:
        return [x]
    middle = len(bounds) // 2
    before, behind = split_at(x, bounds[middle] - bounds[0], axis=axis)
    return _halves(before, bounds[: middle + 1], axis) + _halves(behind, bounds[middle:], axis)


@takes_symbols
def unstack(x: TensorLike, /, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices of x along an axis, which is removed (array API standard).

    Args:
        x: a tensor of at least one axis.
        axis: the axis to take slices along.

    Raises:
        AxisError: for an axis out of range.

    >>> [row.tolist() for row in pb.unstack([[1, 2], [3, 4]])]
    [[1, 2], [3, 4]]
    """
    x = from_any(x)
    axis = canonical_axis(axis, x.ndim)
    size = x.shape[axis]
    if _is_halved(x, size):
        return tuple([squeeze(row, axis) for row in _halves(x, range(size + 1), axis)])
    before = (slice(None),) * axis
    return tuple([strided_slice(x, key=(*before, i, ...)) for i in range(size)])


stack.vjp(arrays=lambda g, axis: unstack(g, axis=axis))


@takes_symbols
def split(
    x: TensorLike, /, indices_or_sections: int | Sequence[int], axis: int = 0
) -> list[Tensor]:
    """x split into consecutive parts along an axis, as by `numpy.split`.

    Args:
        x: a tensor of at least one axis.
        indices_or_sections: the number of equal parts, or the positions to split at.
        axis: the axis to split.

    Raises:
        ShapeError: if the axis does not divide into that many parts.
        AxisError: for an axis out of range.

    >>> [part.tolist() for part in pb.split([1, 2, 3, 4], 2)]
    [[1, 2], [3, 4]]
    >>> [part.tolist() for part in pb.split([1, 2, 3, 4], [1])]
    [[1], [2, 3, 4]]
    """
    x = from_any(x)
    axis = canonical_axis(axis, x.ndim)
    size = x.shape[axis]
    if isinstance(indices_or_sections, Sequence):
        cuts = [slice(as_int(cut, "an integer position")) for cut in indices_or_sections]
        bounds = [0, *[cut.indices(size)[1] for cut in cuts], size]
    else:
        sections = as_int(indices_or_sections, "an integer number of parts")
        # An axis of size 0 has any number of parts, but no list is that long.
        if sections <= 0 or size % sections or sections > sys.maxsize:
            raise errors.ShapeError(
                f"split: axis {axis} of shape {x.shape} does not divide into {sections} equal "
                f"parts; give the positions to split at"
            )
        bounds = [i * (size // sections) for i in range(sections + 1)]
    if _is_halved(x, len(bounds) - 1) and bounds == sorted(bounds):
        return _halves(x, bounds, axis)
    return [strided_slice(x, key=part(axis, low, max(low, high))) for low, high in pairwise(bounds)]


answer_calls(sys.modules[__name__])
