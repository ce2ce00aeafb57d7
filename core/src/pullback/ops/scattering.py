"""Scattering by maximum and minimum."""

from __future__ import annotations

from pullback import dtypes
from pullback._dispatch import op
from pullback.dtypes import Operands, Resolution
from pullback.ops.arithmetic import maximum, positive
from pullback.ops.creation import arange, full
from pullback.ops.indexing import (
    fitting_updates,
    index_dtype,
    ravel_index,
    scatter_add,
    scatter_update,
    take,
)
from pullback.ops.joining import concat
from pullback.ops.manipulation import reshape
from pullback.ops.selection import where
from pullback.ops.slicing import into_first
from pullback.ops.sorting import argsort
from pullback.shapes import first, size_of
from pullback.spec import EXACT
from pullback.tensor import Tensor

__all__ = ["scatter_max", "scatter_min"]


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
    outer = arange(size_of(x.shape[:axis]), dtype=dtypes.int64, device=x.device)
    along = ravel_index(0 * indices, indices, sizes=(1, size))
    places = reshape(outer, (-1, 1, 1)) * size + reshape(along, (1, -1, 1))
    return reshape(places * inner + arange(inner, dtype=dtypes.int64, device=x.device), (-1,))


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
