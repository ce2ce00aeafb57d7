"""Changes of the shape or the order of axes."""

from __future__ import annotations

from typing import Any

from pullback import errors
from pullback._dispatch import Copy, op
from pullback._dispatch.convert import as_tensors
from pullback._dispatch.symbolic import takes_symbols
from pullback._dispatch.vjp_code import unbroadcast
from pullback._once import remembered
from pullback.dtypes import same
from pullback.ops.slicing import strided_slice
from pullback.shapes import (
    Axes,
    Shape,
    ShapeLike,
    as_shape,
    broadcast_shapes,
    canonical_axes,
    canonical_axis,
    first,
    permuted,
    size_of,
)
from pullback.spec import EXACT
from pullback.tensor import Tensor, TensorLike

__all__ = [
    "broadcast_arrays",
    "broadcast_to",
    "expand_dims",
    "flip",
    "matrix_transpose",
    "moveaxis",
    "permute_dims",
    "reshape",
    "squeeze",
]


@remembered
def _one_unknown(shapes: tuple[Shape, ...], *, shape: Any) -> dict[str, object]:
    if type(shape) is not tuple:
        shape = tuple(shape) if isinstance(shape, list) else (shape,)
    if None in shape:
        raise errors.InputTypeError(
            f"a size of the shape {shape} is None, as that of a batch is in pb.Input; write -1 for "
            f"one size that follows from the others, or pb.layers.Flatten() for all but the batch"
        )
    if -1 in shape:
        total = size_of(shapes[0])
        known = size_of(size for size in shape if size != -1)
        if shape.count(-1) > 1:
            raise errors.ShapeError(f"at most one size of a shape may be -1, got {shape}")
        if known == 0 or total % known:
            raise errors.ShapeError(f"{total} elements of shape {shapes[0]} do not fill {shape}")
        shape = tuple([total // known if size == -1 else size for size in shape])
    # Negative sizes are refused here, since NumPy takes any for -1.
    return {"shape": as_shape(shape)}


def _is_own(x: Shape, *, shape: Shape) -> bool:
    """True if the requested shape is that of x."""
    return shape == x


def _same_size(x: Shape, *, shape: Shape) -> Shape:
    """The requested shape, which has as many elements as x."""
    if size_of(x) != size_of(shape):
        raise errors.ShapeError(
            f"shape {x} has {size_of(x)} elements and shape {shape} {size_of(shape)}"
        )
    return shape


@op(
    shape=_same_size,
    dtype=same,
    accuracy=EXACT,
    view=True,
    normalize=_one_unknown,
    identity_when=_is_own,
    copies_elements=True,
    primitive="It is a view: no op on values changes their layout.",
)
def reshape(x: Tensor, /, shape: int | tuple[int, ...], *, copy: Copy = None) -> Tensor:
    """The elements of x, in C order, in another shape (array API standard).

    Args:
        x: a tensor of any shape and dtype.
        shape: the new sizes; one of them may be -1, which is inferred.
        copy: has no effect: buffers are immutable, so sharing is invisible.

    Raises:
        ShapeError: if the shape has another number of elements.

    >>> pb.reshape([1, 2, 3, 4], (2, -1)).tolist()
    [[1, 2], [3, 4]]
    """


reshape.vjp(x=lambda g, x_shape: reshape(g, tuple(x_shape)))


@remembered
def _permutation(shapes: tuple[Shape, ...], *, axes: Any) -> dict[str, object]:
    ndim = len(shapes[0])
    canonical = tuple(
        [
            axis if type(axis) is int and 0 <= axis < ndim else canonical_axis(axis, ndim)
            for axis in axes
        ]
    )
    if len(canonical) != ndim or len(set(canonical)) != ndim:
        raise errors.AxisError(
            f"axes {tuple(axes)} are not a permutation of {ndim} axes; name every axis once; "
            f"x.swapaxes(a, b) exchanges two"
        )
    return {"axes": canonical}


def _permuted(x: Shape, *, axes: Shape) -> Shape:
    """The sizes in the requested order of axes."""
    return permuted(x, axes)


@op(
    shape=_permuted,
    dtype=same,
    accuracy=EXACT,
    view=True,
    normalize=_permutation,
    copies_elements=True,
    primitive="It is a view: no op on values changes their layout.",
)
def permute_dims(x: Tensor, /, axes: tuple[int, ...]) -> Tensor:
    """x with its axes in another order (array API standard).

    Args:
        x: a tensor of any shape and dtype.
        axes: for each axis of the result, the axis of x.

    Raises:
        AxisError: if axes is not a permutation.

    >>> pb.permute_dims(pb.zeros((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """


@permute_dims.vjp("x")
def _(g: Tensor, axes: Shape) -> Tensor:
    return permute_dims(g, tuple(sorted(range(len(axes)), key=axes.__getitem__)))


def _broadcasts(x: Shape, *, shape: Shape) -> Shape:
    """The requested shape, to which that of x broadcasts."""
    if broadcast_shapes(x, shape) != shape:
        raise errors.ShapeError(f"shape {x} does not broadcast to {shape}")
    return shape


@op(
    shape=_broadcasts,
    dtype=same,
    accuracy=EXACT,
    view=True,
    identity_when=_is_own,
    copies_elements=True,
    primitive="It is a view; adding zeros copies, and changes -0.",
)
def broadcast_to(x: Tensor, /, shape: ShapeLike) -> Tensor:
    """x broadcast to a shape (array API standard).

    Args:
        x: a tensor of any shape and dtype.
        shape: the shape of the result.

    Raises:
        ShapeError: if x does not broadcast to the shape.

    >>> pb.broadcast_to([1, 2], (2, 2)).tolist()
    [[1, 2], [1, 2]]
    """


broadcast_to.vjp(x=lambda g, x_shape: unbroadcast(g, x_shape))


@takes_symbols
def broadcast_arrays(*arrays: TensorLike) -> tuple[Tensor, ...]:
    """All arrays broadcast to one shape (array API standard).

    Raises:
        ShapeError: for shapes that do not broadcast.

    >>> [x.tolist() for x in pb.broadcast_arrays([1, 2], [[3]])]
    [[[1, 2]], [[3, 3]]]
    """
    tensors = as_tensors(arrays)
    shape = broadcast_shapes(*[tensor.shape for tensor in tensors])
    return tuple([broadcast_to(tensor, shape) for tensor in tensors])


# ---------------------------------------------------------------------------------------------
# Special cases.


def _transposed(x: Shape) -> Shape:
    """The shape with the last two sizes exchanged."""
    if len(x) < 2:
        raise errors.ShapeError(f"a transpose needs at least two axes, got shape {x}")
    return (*x[:-2], x[-1], x[-2])


@op(shape=_transposed, dtype=same, accuracy=EXACT, view=True, copies_elements=True)
def matrix_transpose(x: Tensor, /) -> Tensor:
    """The transpose of the last two axes (array API standard).

    Raises:
        ShapeError: for fewer than two axes.

    >>> pb.matrix_transpose([[1, 2], [3, 4]]).tolist()
    [[1, 3], [2, 4]]
    """
    n = x.ndim
    return permute_dims(x, (*range(n - 2), n - 1, n - 2))


matrix_transpose.vjp(x=lambda g: matrix_transpose(g))


def _sources(axis: Any) -> tuple[int, ...]:
    return tuple(axis) if isinstance(axis, tuple | list) else (axis,)


@remembered
def _moves(shapes: tuple[Shape, ...], *, source: object, destination: object) -> dict[str, object]:
    ndim = len(shapes[0])
    canonical = []
    for axes in (source, destination):
        named = tuple([canonical_axis(axis, ndim) for axis in _sources(axes)])
        canonical_axes(named, ndim)
        canonical.append(named)
    if len(canonical[0]) != len(canonical[1]):
        raise errors.AxisError(f"{source} and {destination} must have the same length")
    return {"source": canonical[0], "destination": canonical[1]}


def _move(ndim: int, source: Shape, destination: Shape) -> Shape:
    order = [axis for axis in range(ndim) if axis not in source]
    for place, axis in sorted(zip(destination, source, strict=True)):
        order.insert(place, axis)
    return tuple(order)


def _moved(x: Shape, *, source: Shape, destination: Shape) -> Shape:
    """The sizes in the new order of the axes."""
    return permuted(x, _move(len(x), source, destination))


@op(shape=_moved, dtype=same, accuracy=EXACT, view=True, copies_elements=True, normalize=_moves)
def moveaxis(
    x: Tensor, /, source: int | tuple[int, ...], destination: int | tuple[int, ...]
) -> Tensor:
    """x with some axes moved, the others in their order (array API standard).

    Args:
        x: a tensor of any shape and dtype.
        source: the axes to move.
        destination: their positions in the result.

    Raises:
        AxisError: for axes that are out of range, or repeated.

    >>> pb.moveaxis(pb.zeros((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    return permute_dims(x, _move(x.ndim, source, destination))  # type: ignore[arg-type]


moveaxis.vjp(x=lambda g, source, destination: moveaxis(g, destination, source))


@remembered
def _new_axes(shapes: tuple[Shape, ...], *, axis: Any) -> dict[str, object]:
    axes = _sources(axis)
    return {"axis": canonical_axes(axes, len(shapes[0]) + len(axes))}


def _expanded(x: Shape, *, axis: Shape) -> Shape:
    """The shape with size 1 at the new axes."""
    sizes = iter(x)
    return tuple([1 if i in axis else next(sizes) for i in range(len(x) + len(axis))])


@op(
    shape=_expanded,
    dtype=same,
    accuracy=EXACT,
    view=True,
    copies_elements=True,
    normalize=_new_axes,
)
def expand_dims(x: Tensor, /, axis: int | tuple[int, ...] = 0) -> Tensor:
    """x with new axes of size 1 (array API standard).

    Args:
        x: a tensor of any shape and dtype.
        axis: the positions of the new axes in the result.

    Raises:
        AxisError: for a position out of range.

    >>> pb.expand_dims([1, 2], axis=1).tolist()
    [[1], [2]]
    """
    return reshape(x, _expanded(x.shape, axis=axis))  # type: ignore[arg-type]


expand_dims.vjp(x=lambda g, x_shape: reshape(g, tuple(x_shape)))


def _squeezed(x: Shape, *, axis: Shape | None) -> Shape:
    """The shape without the named axes of size 1, or without all of them."""
    if axis is None:
        return tuple([size for size in x if size != 1])
    for removed in axis:
        if x[removed] != 1:
            raise errors.ShapeError(f"axis {removed} of shape {x} has size {x[removed]}, not 1")
    return tuple([size for i, size in enumerate(x) if i not in axis])


@op(shape=_squeezed, dtype=same, accuracy=EXACT, view=True, copies_elements=True)
def squeeze(x: Tensor, /, axis: Axes = None) -> Tensor:
    """x without axes of size 1 (array API standard).

    Args:
        x: a tensor of any shape and dtype.
        axis: the axes to remove; all axes of size 1 if None.

    Raises:
        ShapeError: for an axis of another size.
        AxisError: for an axis out of range.

    >>> pb.squeeze([[[1], [2]]], axis=2).tolist()
    [[1, 2]]
    """
    return reshape(x, _squeezed(x.shape, axis=axis))  # type: ignore[arg-type]


squeeze.vjp(x=lambda g, x_shape: reshape(g, tuple(x_shape)))


@op(shape=first, dtype=same, accuracy=EXACT, view=True, copies_elements=True)
def flip(x: Tensor, /, axis: Axes = None) -> Tensor:
    """x with the order of elements along axes reversed (array API standard).

    Args:
        x: a tensor of any shape and dtype.
        axis: the axes; all of them if None.

    Raises:
        AxisError: for an axis out of range.

    >>> pb.flip([[1, 2], [3, 4]], axis=1).tolist()
    [[2, 1], [4, 3]]
    """
    key = [
        slice(size - 1, None, -1)
        if size and (axis is None or i in axis)  # type: ignore[operator]
        else slice(0, size, 1)
        for i, size in enumerate(x.shape)
    ]
    return strided_slice(x, key=(*key, ...))


flip.vjp(x=lambda g, axis: flip(g, axis=axis))
