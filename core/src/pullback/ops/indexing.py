"""Gathering of elements by their indices, and scattering of values to indices.

In `take` and the scatter family, an integer tensor of any shape holds indices along one axis of x:
the axes of the indices replace axis `axis`. Negative indices count from the end; an index outside
the axis raises on every backend.
"""

from __future__ import annotations

from collections.abc import Sequence

from pullback import dtypes, errors
from pullback._dispatch import op
from pullback._dispatch.symbolic import takes_symbols
from pullback._dispatch.vjp_code import unbroadcast
from pullback.dtypes import DType, Operand, Operands, Resolution, uniform
from pullback.ops import late, reductions
from pullback.ops.comparison import equal
from pullback.ops.creation import arange, full
from pullback.ops.manipulation import broadcast_to, reshape
from pullback.ops.precision import places_on
from pullback.ops.selection import where
from pullback.ops.slicing import into_first
from pullback.shapes import (
    Axis,
    Shape,
    ShapeLike,
    as_int,
    as_shape,
    broadcast,
    broadcast_shapes,
    canonical_axis,
    first,
    size_of,
)
from pullback.spec import ACCUMULATED, EXACT
from pullback.tensor import Tensor, TensorLike

__all__ = [
    "embedding",
    "put_along_axis",
    "ravel_index",
    "scatter_add",
    "scatter_update",
    "segment_sum",
    "take",
    "take_along_axis",
]


# Not every device has int64: only what int32 does not hold is converted to it.
_INDEX_DTYPES: dict[DType, DType] = {
    **dict.fromkeys((*dtypes.SIGNED[:3], *dtypes.UNSIGNED[:2]), dtypes.int32),
    **dict.fromkeys((dtypes.int64, dtypes.uint32), dtypes.int64),
}


def index_dtype(operand: Operand) -> DType:
    """The dtype that indices are converted to: int32, or int64 for that and uint32.

    Raises:
        DTypeError: for other dtypes, and for uint64, which does not fit into int64.
    """
    dtype = dtypes.promote([operand]) if isinstance(operand, type) else operand
    converted = _INDEX_DTYPES.get(dtype)
    if converted is None:
        raise errors.DTypeError(
            f"indices must be of an integer dtype that fits into int64, got {dtype}; "
            f"convert them with x.astype('int64')"
        )
    return converted


def _indexed(operands: Operands, **_: object) -> Resolution:
    """The dtype of x; indices in an integer dtype."""
    x, index = operands
    assert x is not None
    assert index is not None
    dtype = dtypes.promote([x])
    return Resolution((dtype, index_dtype(index)), (dtype,))


def positions_and_data(operands: Operands, **_: object) -> Resolution:
    """The dtype of x, to which updates are converted; indices in an integer dtype."""
    x, index, updates = operands
    assert index is not None
    (dtype, _same), outputs = into_first((x, updates))
    return Resolution((dtype, index_dtype(index), dtype), outputs)


def taken_shape(x: Shape, indices: Shape, *, axis: int) -> Shape:
    """The shape of x with the axes of the indices in place of `axis`."""
    return (*x[:axis], *indices, *x[axis + 1 :])


@op(
    shape=taken_shape,
    dtype=_indexed,
    accuracy=EXACT,
    primitive="No other op reads at positions that are data.",
)
def take(x: Tensor, indices: Tensor, /, axis: Axis = 0) -> Tensor:
    """The slices of x at indices along an axis (array API standard).

    Args:
        x: a tensor of at least one axis.
        indices: integers in [-size, size), of any shape; the result has their axes in place of
            `axis`.
        axis: the axis of the indices.

    Raises:
        IndexingError: for an index outside the axis.
        DTypeError: for indices that are not integers.

    >>> pb.take([10, 20, 30], [2, 0, -1]).tolist()
    [30, 10, 30]
    """


take.vjp(indices=None)


@take.vjp("x")
def _(g: Tensor, indices: Tensor, x_shape: Shape, axis: int) -> Tensor:
    return segment_sum(g, indices, x_shape[axis], axis=axis)


@takes_symbols
def embedding(table: TensorLike, indices: TensorLike, /) -> Tensor:
    """The rows of a table at indices: `take` along the first axis.

    Args:
        table: one row per symbol, (symbols, ...).
        indices: integers in [-symbols, symbols), of any shape.

    Returns:
        A tensor of shape (*indices.shape, *table.shape[1:]).

    Raises:
        IndexingError: for an index outside the table.

    >>> pb.embedding([[1.0, 2.0], [3.0, 4.0]], [1, 0, 1]).tolist()
    [[3.0, 4.0], [1.0, 2.0], [3.0, 4.0]]
    """
    return late.take(table, indices, axis=0)


# ---------------------------------------------------------------------------------------------
# Scattering.


def fitting_updates(shapes: tuple[Shape, ...], *, axis: object) -> dict[str, object]:
    x, indices, updates = shapes
    axis = canonical_axis(axis, len(x))
    wanted = taken_shape(x, indices, axis=axis)
    if updates != wanted:
        raise errors.ShapeError(
            f"updates have shape {updates}; indices of shape {indices} along axis {axis} of shape "
            f"{x} need {wanted}"
        )
    return {"axis": axis}


@op(
    shape=first,
    dtype=positions_and_data,
    accuracy=ACCUMULATED,
    normalize=fitting_updates,
    primitive="No other op adds at positions that are data.",
)
def scatter_add(x: Tensor, indices: Tensor, updates: Tensor, /, *, axis: int = 0) -> Tensor:
    """x with updates added at indices along an axis; those of a repeated index are all added.

    Args:
        x: a tensor of at least one axis.
        indices: integers in [-size, size), of any shape.
        updates: values to add, in the shape of x with the axes of the indices in place of `axis`.
        axis: the axis of the indices.

    Raises:
        IndexingError: for an index outside the axis.
        ShapeError: for updates of the wrong shape.

    >>> pb.scatter_add([1, 1, 1], [0, 2, 0], [10, 20, 30]).tolist()
    [41, 1, 21]
    """


scatter_add.vjp(
    x=lambda g: g, indices=None, updates=lambda g, indices, axis: take(g, indices, axis=axis)
)


@op(
    shape=first,
    dtype=positions_and_data,
    accuracy=EXACT,
    normalize=fitting_updates,
    primitive="When a position repeats, one update must win; a sum cannot choose one.",
)
def scatter_update(x: Tensor, indices: Tensor, updates: Tensor, /, *, axis: int = 0) -> Tensor:
    """x with the slices at indices along an axis replaced by updates.

    If an index repeats, one of its updates is kept; the backend chooses which.

    Args:
        x: a tensor of at least one axis.
        indices: integers in [-size, size), of any shape.
        updates: the new values, in the shape of x with the axes of the indices in place of `axis`.
        axis: the axis of the indices.

    Raises:
        IndexingError: for an index outside the axis.
        ShapeError: for updates of the wrong shape.

    >>> pb.scatter_update([1, 1, 1], [0, 2], [10, 20]).tolist()
    [10, 1, 20]
    """


scatter_update.vjp(indices=None)


@scatter_update.vjp("x")
def _(g: Tensor, indices: Tensor, updates_shape: Shape, axis: int) -> Tensor:
    zero = full(tuple(updates_shape), 0, dtype=g.dtype, device=g.device)
    return scatter_update(g, indices, zero, axis=axis)


@scatter_update.vjp("updates")
def _(g: Tensor, indices: Tensor, x_shape: Shape, axis: int) -> Tensor:
    taken = take(g, indices, axis=axis)
    if indices.size < 2:
        return taken
    # Only the update that was kept has a gradient: scatter running numbers to find it.
    numbers = reshape(arange(indices.size, device=g.device), indices.shape)
    nowhere = full((x_shape[axis],), -1, dtype=numbers.dtype, device=g.device)
    stayed = equal(take(scatter_update(nowhere, indices, numbers), indices), numbers)
    behind = (1,) * (len(x_shape) - 1 - axis)
    stayed = reshape(stayed, (*indices.shape, *behind))
    return where(stayed, taken, full((), 0, dtype=g.dtype, device=g.device))


def segments(shapes: tuple[Shape, ...], *, num_segments: object, axis: object) -> dict[str, object]:
    data, ids = shapes
    axis = canonical_axis(axis, len(data) - len(ids) + 1) if len(ids) <= len(data) else 0
    if data[axis : axis + len(ids)] != ids:
        raise errors.ShapeError(
            f"segment ids of shape {ids} do not fit data of shape {data} from axis {axis} on"
        )
    size = as_int(num_segments, "an integer number of segments")
    if size < 0:
        raise errors.ShapeError(f"the number of segments must not be negative, got {size}")
    return {"num_segments": size, "axis": axis}


def segment_shape(data: Shape, segment_ids: Shape, *, num_segments: int, axis: int) -> Shape:
    """The number of segments in place of the axes of the ids."""
    return (*data[:axis], num_segments, *data[axis + len(segment_ids) :])


@op(shape=segment_shape, dtype=_indexed, accuracy=ACCUMULATED, normalize=segments)
def segment_sum(
    data: Tensor, segment_ids: Tensor, /, num_segments: int, *, axis: int = 0
) -> Tensor:
    """The sum over the slices of each segment.

    It is the transpose of `take`, and so the gradient of an embedding.

    Args:
        data: a tensor that has the axes of `segment_ids` from `axis` on.
        segment_ids: the segment of each slice, integers in [-num_segments, num_segments).
        num_segments: the number of segments: the size of the axis that replaces those of the ids.
        axis: the first axis of the ids in data.

    Raises:
        IndexingError: for an id outside the segments.
        ShapeError: if the data does not have the axes of the ids.

    >>> pb.segment_sum([1.0, 2.0, 3.0], [0, 2, 0], 3).tolist()
    [4.0, 0.0, 2.0]
    """
    shape = segment_shape(data.shape, segment_ids.shape, num_segments=num_segments, axis=axis)
    zeros = full(shape, 0, dtype=data.dtype, device=data.device)
    return scatter_add(zeros, segment_ids, data, axis=axis)


segment_sum.vjp(data=lambda g, segment_ids, axis: take(g, segment_ids, axis=axis), segment_ids=None)


# ---------------------------------------------------------------------------------------------
# Several axes.


@uniform
def _indices(operands: Operands, **_: object) -> Resolution:
    """Integers, promoted to int32 or int64; the result is int64."""
    x1, x2 = operands
    assert x1 is not None
    assert x2 is not None
    dtype = dtypes.promote_types(index_dtype(x1), index_dtype(x2))
    return Resolution((dtype, dtype), (dtypes.int64,))


@op(shape=broadcast, dtype=_indices, accuracy=EXACT, differentiable=False)
def ravel_index(x1: Tensor, x2: Tensor, /, *, sizes: tuple[int, int]) -> Tensor:
    """The indices along two axes as indices along both axes merged into one.

    Args:
        x1: indices along the first axis, integers in [-sizes[0], sizes[0]).
        x2: indices along the second axis; broadcasts with x1.
        sizes: the sizes of the two axes.

    Raises:
        IndexingError: for an index outside its axis.
        ShapeError: for shapes that do not broadcast.

    >>> pb.ravel_index([0, -1], [1, 2], sizes=(2, 3)).tolist()
    [1, 5]
    """
    merged = []
    for index, size in zip((x1, x2), sizes, strict=True):
        if bool(reductions.any((index < -size) | (index >= size))):
            raise errors.IndexingError(f"an index is outside an axis of size {size}")
        index = index.astype(places_on(index.device))
        merged.append(where(index < 0, index + size, index))
    return merged[0] * sizes[1] + merged[1]


def ravel_indices(indices: Sequence[Tensor], shape: Sequence[int]) -> Tensor:
    """The indices into a flattened tensor of `shape`, from one index tensor per axis.

    Raises:
        IndexingError: for an index outside its axis, and shapes that do not broadcast.
    """
    flat, size = indices[0], shape[0]
    try:
        for index, more in zip(indices[1:], shape[1:], strict=True):
            flat = ravel_index(flat, index, sizes=(size, more))
            size *= more
    except errors.ShapeError as error:
        raise errors.IndexingError(str(error)) from None
    if 0 in flat.shape:
        # Nothing is taken. NumPy checks single indices all the same, as it does integers.
        for index, size in zip(indices, shape, strict=True):
            if not index.shape and not -size <= int(index) < size:
                raise errors.IndexingError(f"index {int(index)} is outside an axis of size {size}")
    return flat


def _along(x: Shape, indices: Shape, *, axis: int) -> Shape:
    """The size of the indices along the axis; other axes broadcast with those of x."""
    if len(x) != len(indices):
        raise errors.ShapeError(
            f"indices of shape {indices} must have as many axes as x of shape {x}"
        )
    beside = broadcast_shapes(*[(*shape[:axis], 1, *shape[axis + 1 :]) for shape in (x, indices)])
    return (*beside[:axis], indices[axis], *beside[axis + 1 :])


@op(shape=_along, dtype=_indexed, accuracy=EXACT)
def take_along_axis(x: Tensor, indices: Tensor, /, axis: Axis = -1) -> Tensor:
    """The elements of x at indices along an axis, one vector of indices per vector of x.

    Args:
        x: a tensor of at least one axis.
        indices: integers in [-size, size), with as many axes as x; other axes than `axis`
            broadcast with those of x.
        axis: the axis of the indices.

    Raises:
        IndexingError: for an index outside the axis.
        ShapeError: for shapes that do not broadcast.

    >>> pb.take_along_axis([[1, 2], [3, 4]], [[1], [0]], axis=1).tolist()
    [[2], [3]]
    """
    return take(reshape(x, (-1,)), _flat_indices(x.shape, indices, axis), axis=0)


def _flat_indices(x_shape: Shape, indices: Tensor, axis: int) -> Tensor:
    """The indices into the flattened x of what `take_along_axis` takes."""
    shape = _along(x_shape, indices.shape, axis=axis)
    by_axis = []
    for other, size in enumerate(shape):
        if other == axis:
            by_axis.append(indices)
            continue
        index = arange(size, device=indices.device)
        if x_shape[other] != size:
            index = index * 0  # one element of x for all indices
        by_axis.append(reshape(index, (*[1] * other, size, *[1] * (len(shape) - other - 1))))
    return ravel_indices(by_axis, x_shape)


take_along_axis.vjp(indices=None)


@take_along_axis.vjp("x")
def _(g: Tensor, indices: Tensor, x_shape: Shape, axis: int) -> Tensor:
    return place_along_axis(g, indices, shape=tuple(x_shape), axis=axis)


def _placed(values: Shape, indices: Shape, *, shape: Shape, axis: int) -> Shape:
    """The requested shape; the values have that of what `take_along_axis` takes from it."""
    if (wanted := _along(shape, indices, axis=axis)) != values:
        raise errors.ShapeError(
            f"values of shape {values} do not have the shape {wanted} of what indices of shape "
            f"{indices} take along axis {axis} of shape {shape}"
        )
    return shape


@op(shape=_placed, dtype=_indexed, accuracy=ACCUMULATED, public=False)
def place_along_axis(values: Tensor, indices: Tensor, /, *, shape: ShapeLike, axis: Axis) -> Tensor:
    """Zeros of `shape` with values added at indices along an axis.

    It is the transpose of `take_along_axis`, and so its gradient, and that of sorting.

    Args:
        values: the values, in the shape of what `take_along_axis` takes.
        indices: integers in [-size, size), with as many axes as `shape`.
        shape: the shape of the result.
        axis: the axis of the indices.

    Raises:
        IndexingError: for an index outside the axis.
        ShapeError: for values of another shape.

    >>> pb.ops.place_along_axis([[1, 2]], [[2, 0]], shape=(1, 3), axis=1).tolist()
    [[2, 0, 1]]
    """
    shape = as_shape(shape)
    places = reshape(_flat_indices(shape, indices, axis), (-1,))
    return reshape(segment_sum(reshape(values, (-1,)), places, size_of(shape)), shape)


place_along_axis.vjp(
    values=lambda g, indices, axis: take_along_axis(g, indices, axis=axis), indices=None
)


def _put(x: Shape, indices: Shape, values: Shape, *, axis: int) -> Shape:
    """The shape of x; the indices broadcast with its other axes, and the values with theirs."""
    wanted = _along(x, indices, axis=axis)
    if (*wanted[:axis], x[axis], *wanted[axis + 1 :]) != x:
        raise errors.ShapeError(
            f"indices of shape {indices} have other axes than x of shape {x}, beside axis {axis}"
        )
    if broadcast_shapes(values, wanted) != wanted:
        raise errors.ShapeError(f"values of shape {values} do not broadcast to {wanted}")
    return x


@op(shape=_put, dtype=positions_and_data, accuracy=EXACT)
def put_along_axis(x: Tensor, indices: Tensor, values: Tensor, /, axis: Axis = -1) -> Tensor:
    """x with values at indices along an axis, one vector of indices per vector of x.

    It writes where `take_along_axis` reads. If an index repeats in a vector, one of its values is
    kept; the backend chooses which.

    Args:
        x: a tensor of at least one axis.
        indices: integers in [-size, size), with as many axes as x; other axes than `axis`
            broadcast with those of x.
        values: the new values; they broadcast to the shape of what the indices take.
        axis: the axis of the indices.

    Raises:
        IndexingError: for an index outside the axis.
        ShapeError: for shapes that do not broadcast.

    >>> pb.put_along_axis([[1, 2], [3, 4]], [[1], [0]], [[20], [30]], axis=1).tolist()
    [[1, 20], [30, 4]]
    """
    _put(x.shape, indices.shape, values.shape, axis=axis)
    wanted = _along(x.shape, indices.shape, axis=axis)
    places = reshape(_flat_indices(x.shape, indices, axis), (-1,))
    flat = reshape(broadcast_to(values, wanted), (-1,))
    return reshape(scatter_update(reshape(x, (-1,)), places, flat), x.shape)


put_along_axis.vjp(indices=None)


@put_along_axis.vjp("x")
def _(g: Tensor, indices: Tensor, axis: int) -> Tensor:
    zero = full((), 0, dtype=g.dtype, device=g.device)
    return put_along_axis(g, indices, zero, axis=axis)


@put_along_axis.vjp("values")
def _(g: Tensor, indices: Tensor, values_shape: Shape, axis: int) -> Tensor:
    taken = take_along_axis(g, indices, axis=axis)
    if indices.shape[axis] < 2:
        return unbroadcast(taken, values_shape)
    # Only the value that was kept has a gradient: put running numbers to find it.
    numbers = reshape(arange(taken.size, device=g.device), taken.shape)
    nowhere = full(g.shape, -1, dtype=numbers.dtype, device=g.device)
    kept = take_along_axis(put_along_axis(nowhere, indices, numbers, axis=axis), indices, axis=axis)
    zero = full((), 0, dtype=g.dtype, device=g.device)
    return unbroadcast(where(equal(kept, numbers), taken, zero), values_shape)
