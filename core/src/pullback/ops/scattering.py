"""Scattering by maximum, minimum and products."""

from __future__ import annotations

from pullback import dtypes
from pullback._dispatch import op
from pullback.dtypes import Operands, Resolution
from pullback.ops.arithmetic import maximum, positive
from pullback.ops.creation import arange, full
from pullback.ops.indexing import (
    fitting_updates,
    index_dtype,
    positions_and_data,
    ravel_index,
    scatter_add,
    scatter_update,
    take,
)
from pullback.ops.joining import concat
from pullback.ops.manipulation import reshape
from pullback.ops.precision import narrowed, places_on, widened
from pullback.ops.selection import where
from pullback.ops.slicing import into_first
from pullback.ops.sorting import argsort
from pullback.shapes import first, size_of
from pullback.spec import ACCUMULATED, EXACT
from pullback.tensor import Tensor

__all__ = ["scatter_max", "scatter_min", "scatter_multiply"]


def _compared(operands: Operands, **_: object) -> Resolution:
    """x and the updates in the real dtype of x; the indices keep their dtype."""
    x, index, updates = operands
    assert index is not None
    dtypes.real((x,))
    (dtype, _same), outputs = into_first((x, updates))
    return Resolution((dtype, index_dtype(index), dtype), outputs)


def _places(x: Tensor, indices: Tensor, axis: int) -> Tensor:
    """The position of each update among the elements of x in C order, as a vector."""
    size, inner = x.shape[axis], size_of(x.shape[axis + 1 :])
    dtype = places_on(x.device)
    outer = arange(size_of(x.shape[:axis]), dtype=dtype, device=x.device)
    along = ravel_index(0 * indices, indices, sizes=(1, size))
    places = reshape(outer, (-1, 1, 1)) * size + reshape(along, (1, -1, 1))
    return reshape(places * inner + arange(inner, dtype=dtype, device=x.device), (-1,))


@op(shape=first, dtype=_compared, accuracy=EXACT, normalize=fitting_updates)
def scatter_max(x: Tensor, indices: Tensor, updates: Tensor, /, *, axis: int = 0) -> Tensor:
    """The maximum of x and of the updates at indices along an axis.

    NaN counts as the largest. Ties share the gradient.

    Args:
        x: a tensor of at least one axis, of real numbers.
        indices: integers in [-size, size), of any shape.
        updates: the shape of x, with the axes of the indices in place of `axis`.
        axis: the axis of the indices.

    Raises:
        IndexingError: for an index outside the axis.
        ShapeError: for updates of the wrong shape.

    >>> pb.scatter_max([1, 1, 1], [0, 2, 0], [5, -3, 7]).tolist()
    [7, 1, 1]
    """
    if not indices.size or not x.size:
        return positive(x)
    places, values = _places(x, indices, axis), reshape(updates, (-1,))
    # Sorted by position, then by value: the last update at a position is the largest.
    order = argsort(values)
    order = take(order, argsort(take(places, order)))
    places, values = take(places, order), take(values, order)
    end = full((1,), True, device=x.device)
    is_last = concat([places[1:] != places[:-1], end])
    # All other updates go to an extra position behind the end.
    places = where(is_last, places, x.size)
    flat = reshape(x, (-1,))
    extended = concat([flat, flat[:1]])
    updated = scatter_update(extended, places, maximum(take(extended, places), values))
    return reshape(updated[:-1], x.shape)


@op(shape=first, dtype=_compared, accuracy=EXACT, normalize=fitting_updates)
def scatter_min(x: Tensor, indices: Tensor, updates: Tensor, /, *, axis: int = 0) -> Tensor:
    """The minimum of x and of the updates at indices along an axis.

    NaN counts as the smallest. Ties share the gradient.

    Args:
        x: a tensor of at least one axis, of real numbers.
        indices: integers in [-size, size), of any shape.
        updates: the shape of x, with the axes of the indices in place of `axis`.
        axis: the axis of the indices.

    Raises:
        IndexingError: for an index outside the axis.
        ShapeError: for updates of the wrong shape.

    >>> pb.scatter_min([1, 1, 1], [0, 2, 0], [5, -3, -7]).tolist()
    [-7, 1, -3]
    """
    # Both reverse the order exactly.
    if dtypes.is_floating(x.dtype):
        return -scatter_max(-x, indices, -updates, axis=axis)
    return ~scatter_max(~x, indices, ~updates, axis=axis)


def _share_among_ties(
    g: Tensor, x: Tensor, indices: Tensor, updates: Tensor, out: Tensor, axis: int
) -> tuple[Tensor, Tensor]:
    x_won = (x == out).astype(g.dtype)
    updates_won = (updates == take(out, indices, axis=axis)).astype(g.dtype)
    ties = scatter_add(x_won, indices, updates_won, axis=axis)
    # A NaN result has no ties.
    share = g / where(ties == 0, 1, ties)
    return share * x_won, take(share, indices, axis=axis) * updates_won


for _op in (scatter_max, scatter_min):
    _op.vjp("x", "updates")(_share_among_ties)
    _op.vjp(indices=None)


@op(shape=first, dtype=positions_and_data, accuracy=ACCUMULATED, normalize=fitting_updates)
def scatter_multiply(x: Tensor, indices: Tensor, updates: Tensor, /, *, axis: int = 0) -> Tensor:
    """x multiplied by updates at indices along an axis; by all of those of a repeated index.

    Args:
        x: a tensor of at least one axis.
        indices: integers in [-size, size), of any shape.
        updates: factors, in the shape of x with the axes of the indices in place of `axis`.
        axis: the axis of the indices.

    Raises:
        IndexingError: for an index outside the axis.
        ShapeError: for updates of the wrong shape.

    >>> pb.scatter_multiply([1, 1, 2], [0, 2, 0], [10, 20, 30]).tolist()
    [300, 1, 40]
    """
    if not indices.size or not x.size:
        return scatter_update(x, indices, updates, axis=axis)
    size, wide = x.shape[axis], widened(x)
    places = reshape(ravel_index(0 * indices, indices, sizes=(1, size)), (-1,))
    order = argsort(places)
    places = take(places, order)
    line = reshape(widened(updates), (*x.shape[:axis], indices.size, *x.shape[axis + 1 :]))
    line = take(line, order, axis=axis)
    before, behind = (slice(None),) * axis, (1,) * (x.ndim - 1 - axis)
    # After each step a factor has been multiplied by twice as many of those before it that go to
    # its place (Hillis and Steele, "Data parallel algorithms", 1986).
    step, count = 1, indices.size
    while step < count:
        together = reshape(places[step:] == places[:-step], (count - step, *behind))
        begin, end = line[(*before, slice(step))], line[(*before, slice(step, None))]
        factors = where(together, line[(*before, slice(-step))], 1)
        line = concat([begin, end * factors], axis=axis)
        step *= 2
    is_last = concat([places[1:] != places[:-1], full((1,), True, device=x.device)])
    # All but the last of a place go to an extra position behind the end.
    ones = full(
        (*x.shape[:axis], size + 1, *x.shape[axis + 1 :]), 1, dtype=wide.dtype, device=x.device
    )
    product = scatter_update(ones, where(is_last, places, size), line, axis=axis)
    return narrowed(wide * product[(*before, slice(size))], x)
