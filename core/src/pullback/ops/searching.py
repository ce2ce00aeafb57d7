"""Indices of extreme, nonzero and matching elements."""

from __future__ import annotations

from pullback import dtypes, errors
from pullback._dispatch import op
from pullback.dtypes import Operands, Resolution, position, promoting
from pullback.ops import late
from pullback.ops.creation import arange
from pullback.ops.manipulation import reshape
from pullback.ops.precision import places_on
from pullback.ops.reductions import max, min, reduce_some
from pullback.ops.selection import where
from pullback.ops.slicing import strided_slice
from pullback.shapes import Axis, Shape, data_dependent
from pullback.spec import EXACT
from pullback.tensor import Tensor, TensorLike

__all__ = ["argmax", "argmin", "argwhere", "nonzero", "searchsorted"]


@op(shape=reduce_some, dtype=position, accuracy=EXACT, differentiable=False)
def argmax(x: Tensor, /, axis: Axis | None = None, *, keepdims: bool = False) -> Tensor:
    """The index of the maximum along `axis`, as int64; in C order over all axes if None.

    The first of several equal ones; that of the first NaN if there is one.

    Raises:
        InputValueError: if there are no elements.

    >>> pb.argmax([[1.0, 5.0, 2.0], [7.0, 0.0, 7.0]], axis=1).tolist()
    [1, 0]
    """
    if axis is None:
        index = argmax(reshape(x, (-1,)), axis=0)
        return reshape(index, (1,) * x.ndim) if keepdims else index
    size = x.shape[axis]
    indices = arange(size, dtype=places_on(x.device), device=x.device)
    indices = reshape(indices, (size, *(1,) * (x.ndim - 1 - axis)))
    # A NaN is the maximum, but not equal to itself.
    is_maximum = (x == max(x, axis=axis, keepdims=True)) | (x != x)
    return min(where(is_maximum, indices, size), axis=axis, keepdims=keepdims)


@op(shape=reduce_some, dtype=position, accuracy=EXACT, differentiable=False)
def argmin(x: Tensor, /, axis: Axis | None = None, *, keepdims: bool = False) -> Tensor:
    """The index of the minimum along `axis`, as int64; in C order over all axes if None.

    The first of several equal ones; that of the first NaN if there is one.

    Raises:
        InputValueError: if there are no elements.

    >>> pb.argmin([[1.0, 5.0, 2.0], [7.0, 0.0, 7.0]], axis=1).tolist()
    [0, 1]
    """
    # Both reverse the order exactly.
    return argmax(-x if dtypes.is_floating(x.dtype) else ~x, axis=axis, keepdims=keepdims)


# ---------------------------------------------------------------------------------------------


@op(
    shape=data_dependent,
    dtype=promoting("any", to=dtypes.int64),
    accuracy=EXACT,
    differentiable=False,
    primitive="The size of the result depends on the values, which only kernels read.",
)
def argwhere(x: Tensor, /) -> Tensor:
    """The indices of elements that are not 0, one per row, in C order, as int64.

    >>> pb.argwhere([[0, 7], [8, 0]]).tolist()
    [[0, 1], [1, 0]]
    """


def nonzero(x: TensorLike, /) -> tuple[Tensor, ...]:
    """The indices of elements that are not 0, one vector per axis, in C order.

    Raises:
        ShapeError: for a 0-d x.

    >>> [indices.tolist() for indices in pb.nonzero([[0, 7], [8, 0]])]
    [[0, 1], [1, 0]]
    """
    rows = late.argwhere(x)
    axes = rows.shape[1]
    if not axes:
        raise errors.ShapeError("nonzero: a 0-d tensor has no indices; use x != 0")
    return tuple([strided_slice(rows, key=(slice(None), axis, ...)) for axis in range(axes)])


def _searched(x1: Shape, x2: Shape, sorter: Shape | None = None, **_: object) -> Shape:
    """The shape of x2; x1 is a vector."""
    if len(x1) != 1:
        raise errors.ShapeError(f"x1 must be a vector in ascending order, got shape {x1}")
    if sorter is not None and sorter != x1:
        raise errors.ShapeError(f"sorter must have the shape {x1} of x1, got {sorter}")
    return x2


def _sides(shapes: tuple[Shape, ...], *, side: str) -> dict[str, str]:
    if side not in ("left", "right"):
        raise errors.InputValueError(f'side must be "left" or "right", got {side!r}')
    return {"side": side}


def _values_and_order(operands: Operands, **_: object) -> Resolution:
    """x1 and x2 promoted to one real dtype, the sorter integers; the result is int64."""
    inputs = position(operands[:2]).inputs
    sorter = operands[2] if len(operands) > 2 else None
    order = None if sorter is None else dtypes.integer((sorter,)).inputs[0]
    return Resolution((*inputs, order), (dtypes.int64,))


@op(
    shape=_searched,
    dtype=_values_and_order,
    accuracy=EXACT,
    differentiable=False,
    normalize=_sides,
    primitive="A binary search reads log2(n) values; a body would sort, or compare all pairs.",
)
def searchsorted(
    x1: Tensor, x2: Tensor, /, sorter: Tensor | None = None, *, side: str = "left"
) -> Tensor:
    """The indices at which to insert elements of x2 into a sorted vector x1, as int64.

    Args:
        x1: a vector in ascending order, or in any order with `sorter`; NaN comes last.
        x2: values, of any shape.
        sorter: the indices that sort x1, as from `argsort`.
        side: "left" for the index before equal elements, "right" for the one after them.

    Raises:
        ShapeError: if x1 is not a vector.
        InputValueError: for an unknown side.

    >>> pb.searchsorted([10, 20, 30], [20, 25]).tolist()
    [1, 2]
    >>> pb.searchsorted([10, 20, 30], [20, 25], side="right").tolist()
    [2, 2]
    """
