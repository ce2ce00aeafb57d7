"""Tensors put together and taken apart."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from pullback import errors
from pullback.dispatch import op, primitive
from pullback.dispatch.convert import from_any
from pullback.dtypes import same
from pullback.ops.manipulation import expand_dims, reshape
from pullback.ops.slicing import strided_slice
from pullback.shapes import Axis, Shape, as_int, normal_axis, size_of
from pullback.spec import EXACT
from pullback.tensor import Tensor, TensorLike

__all__ = ["concat", "split", "stack", "unstack"]


def part(axis: int, start: int, stop: int) -> tuple[Any, ...]:
    """The key of start:stop along `axis`; both within it."""
    return (*[slice(None)] * axis, slice(start, stop, 1), ...)


# ---------------------------------------------------------------------------------------------
# Joining.


def _joined(arrays: list[Shape], *, axis: int | None) -> Shape:
    """The sizes along the axis added up, the others equal; a vector without an axis."""
    if not arrays:
        raise errors.InputValueError("needs at least one tensor, got an empty sequence")
    if axis is None:
        return (sum(size_of(shape) for shape in arrays),)
    head = arrays[0]
    for shape in arrays[1:]:
        if len(shape) != len(head) or any(
            a != b for i, (a, b) in enumerate(zip(head, shape, strict=True)) if i != axis
        ):
            raise errors.ShapeError(
                f"shapes {head} and {shape} differ elsewhere than along axis {axis}"
            )
    if not head:
        raise errors.ShapeError("0-d tensors have no axis to be joined along; use stack")
    return (*head[:axis], sum(shape[axis] for shape in arrays), *head[axis + 1 :])


@op(shape=_joined, dtype=same, accuracy=EXACT)
def concat(arrays: Sequence[TensorLike], /, *, axis: Axis | None = 0) -> Tensor:
    """The arrays one after the other along an axis that they have (array API standard).

    Args:
        arrays: tensors of one shape but for their sizes along `axis`; dtypes are promoted.
        axis: the axis; None joins the flattened arrays.

    Raises:
        ShapeError: for shapes that differ elsewhere.
        AxisError: for an axis that is not there.

    >>> pb.concat([[[1, 2]], [[3, 4]]]).tolist()
    [[1, 2], [3, 4]]
    """
    return primitive(
        "Written part by part into a new array, the whole would be copied once for each part."
    )


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


def _new_axis(shapes: tuple[list[Shape], ...], *, axis: Any) -> dict[str, Any]:
    if not shapes[0]:
        raise errors.InputValueError("needs at least one tensor, got an empty sequence")
    return {"axis": normal_axis(axis, len(shapes[0][0]) + 1)}


def _stacked(arrays: list[Shape], *, axis: int) -> Shape:
    """A new axis with the number of inputs, which have one shape."""
    head = arrays[0]
    for shape in arrays[1:]:
        if shape != head:
            raise errors.ShapeError(f"shapes {head} and {shape} differ")
    return (*head[:axis], len(arrays), *head[axis:])


@op(shape=_stacked, dtype=same, accuracy=EXACT, normalize=_new_axis)
def stack(arrays: Sequence[TensorLike], /, *, axis: int = 0) -> Tensor:
    """The arrays side by side along a new axis (array API standard).

    Args:
        arrays: tensors of one shape; dtypes are promoted.
        axis: where the new axis is in the result.

    Raises:
        ShapeError: for shapes that differ.
        AxisError: for a place outside the result.

    >>> pb.stack([[1, 2], [3, 4]], axis=1).tolist()
    [[1, 3], [2, 4]]
    """
    return concat([expand_dims(array, axis) for array in arrays], axis=axis)


stack.vjp(arrays=lambda g, axis: unstack(g, axis=axis))


# ---------------------------------------------------------------------------------------------
# Taking apart.


def unstack(x: TensorLike, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices of x along an axis, without it (array API standard).

    Args:
        x: a tensor of at least one axis.
        axis: the axis that the slices are taken along.

    Raises:
        AxisError: for an axis that is not there.

    >>> [row.tolist() for row in pb.unstack([[1, 2], [3, 4]])]
    [[1, 2], [3, 4]]
    """
    x = from_any(x)
    axis = normal_axis(axis, x.ndim)
    before = (slice(None),) * axis
    return tuple([strided_slice(x, key=(*before, i, ...)) for i in range(x.shape[axis])])


def split(
    x: TensorLike, /, indices_or_sections: int | Sequence[int], *, axis: int = 0
) -> list[Tensor]:
    """x cut into consecutive parts along an axis, as by NumPy's function.

    Args:
        x: a tensor of at least one axis.
        indices_or_sections: the number of equal parts, or the positions to cut at.
        axis: the axis to cut.

    Raises:
        ShapeError: when the axis does not divide into that many parts.
        AxisError: for an axis that is not there.

    >>> [part.tolist() for part in pb.split([1, 2, 3, 4], 2)]
    [[1, 2], [3, 4]]
    >>> [part.tolist() for part in pb.split([1, 2, 3, 4], [1])]
    [[1], [2, 3, 4]]
    """
    x = from_any(x)
    axis = normal_axis(axis, x.ndim)
    size = x.shape[axis]
    if isinstance(indices_or_sections, Sequence):
        cuts = [slice(as_int(cut, "an integer position")) for cut in indices_or_sections]
        bounds = [0, *[cut.indices(size)[1] for cut in cuts], size]
    else:
        sections = as_int(indices_or_sections, "an integer number of parts")
        if sections <= 0 or size % sections:
            raise errors.ShapeError(
                f"split: axis {axis} of shape {x.shape} does not divide into {sections} equal "
                f"parts; give the positions to cut at"
            )
        bounds = [i * (size // sections) for i in range(sections + 1)]
    return [strided_slice(x, key=part(axis, low, max(low, high))) for low, high in pairwise(bounds)]
