"""Slicing by keys that do not depend on data.

The key of these ops is canonical: a tuple with, for each axis in order, an int in [0, size) or a
slice whose bounds lie in the axis (stop is None if a negative step runs to the front), None for
each new axis, and the ellipsis at the end, for all other axes. Python, NumPy and every array API
namespace read such a key the same way.
"""

from __future__ import annotations

from math import prod
from typing import Any

from pullback import dtypes, errors
from pullback._dispatch import op
from pullback._dispatch.vjp_code import unbroadcast
from pullback.dtypes import DType, Operands, Resolution, uniform
from pullback.ops import late
from pullback.ops.creation import full
from pullback.shapes import Shape, ShapeLike, broadcast_shapes
from pullback.spec import EXACT
from pullback.tensor import Tensor

__all__: list[str] = []

#: An entry of a canonical key; the ellipsis is the last entry of every key.
Entry = Any
Key = tuple[Entry, ...]


def sliced_shape(shape: Shape, key: Key) -> Shape:
    """The shape of x[key] for an x of `shape` and a canonical key."""
    used = sum(entry is not None for entry in key[:-1])
    if used > len(shape):
        raise errors.IndexingError(f"{used} indices for a tensor of {len(shape)} axes {shape}")
    result: list[int] = []
    axis = 0
    for entry in key[:-1]:
        if entry is None:
            result.append(1)
            continue
        if type(entry) is slice:
            result.append(len(range(*entry.indices(shape[axis]))))
        axis += 1
    return (*result, *shape[axis:])


def diagonal_span(rows: int, columns: int, offset: int) -> tuple[int, int]:
    """The flat index at which a diagonal begins in a matrix, and its length."""
    start = offset if offset >= 0 else -offset * columns
    return start, max(0, min(rows + min(offset, 0), columns - max(offset, 0)))


def diagonal_key(rows: int, columns: int, offset: int) -> Key:
    """The canonical key of a diagonal in the flattened matrix."""
    start, length = diagonal_span(rows, columns, offset)
    if not length:
        return slice(0, 0, 1), ...
    return slice(start, start + (length - 1) * (columns + 1) + 1, columns + 1), ...


def _sliced(x: Shape, *, key: Key, **_: object) -> Shape:
    """The shape of x[key]."""
    return sliced_shape(x, key)


def _updated(x: Shape, value: Shape, *, key: Key, **_: object) -> Shape:
    """The shape of x; the value broadcasts to x[key]."""
    target = sliced_shape(x, key)
    if broadcast_shapes(target, value) != target:
        raise errors.ShapeError(
            f"a value of shape {value} does not broadcast to the part of shape {target} "
            f"that it replaces"
        )
    return x


@uniform
def into_first(operands: Operands, **_: object) -> Resolution:
    """A dtype rule: the first input keeps its dtype; the others are converted to it.

    Dtypes of one kind are converted, narrower or wider. Floats are not converted to integers, nor
    complex numbers to floats.
    """
    head = operands[0]
    assert head is not None
    dtype: DType = dtypes.promote([head])
    for operand in operands[1:]:
        if operand is not None and dtypes.kind(operand) > dtypes.kind(dtype):
            stored = operand.__name__ if isinstance(operand, type) else operand
            raise errors.DTypeError(
                f"values of dtype {stored} cannot be cast to {dtype}, the dtype of x; "
                f"convert one of them with x.astype(...)"
            )
    return Resolution(tuple(None if operand is None else dtype for operand in operands), (dtype,))


@op(
    shape=_sliced,
    dtype=dtypes.same,
    accuracy=EXACT,
    view=True,
    copies_elements=True,
    primitive="It is a view; take reads an index per element, and copies.",
    public=False,
)
def strided_slice(x: Tensor, /, *, key: Key) -> Tensor:
    """x[key] for a canonical key.

    Args:
        x: a tensor of any shape and dtype.
        key: ints, slices and None in order, then the ellipsis.

    >>> pb.ops.strided_slice([[1, 2, 3], [4, 5, 6]], key=(1, slice(0, 3, 2), ...)).tolist()
    [4, 6]
    """


@strided_slice.vjp("x")
def _(g: Tensor, x_shape: Shape, key: Key) -> Tensor:
    shape = tuple(x_shape)
    if prod(g.shape) != prod(shape):
        return strided_place(g, shape=shape, key=key)
    # All elements, as those of x[None] and x[::-1]: in their order but for the axes turned round.
    g = late.reshape(g, shape)
    read = [entry for entry in key[:-1] if entry is not None]
    turned = [type(entry) is slice and (entry.step or 1) < 0 for entry in read]
    if True not in turned or not g.size:
        return g
    back = [
        slice(size - 1, None, -1) if turn else slice(None)
        for size, turn in zip(shape, turned, strict=False)
    ]
    return strided_slice(g, key=(*back, ...))


@op(
    shape=_updated,
    dtype=into_first,
    accuracy=EXACT,
    primitive="It writes one part of a copy; where needs a mask of all elements.",
    public=False,
)
def strided_update(x: Tensor, value: Tensor, /, *, key: Key) -> Tensor:
    """x with x[key] replaced by a value, for a canonical key.

    Args:
        x: a tensor of any shape and dtype.
        value: the new values; broadcasts to x[key], and is converted to the dtype of x.
        key: ints, slices and None in order, then the ellipsis.

    Raises:
        ShapeError: for a value that does not broadcast to x[key].
        DTypeError: for a value of a kind that cannot be converted to the dtype of x.

    >>> pb.ops.strided_update([1, 2, 3], 0, key=(slice(0, 2, 1), ...)).tolist()
    [0, 0, 3]
    """


strided_update.vjp(
    x=lambda g, key: late.strided_update(g, 0, key=key),
    value=lambda g, value_shape, key: unbroadcast(strided_slice(g, key=key), value_shape),
)


def _placed(value: Shape, *, shape: Shape, key: Key) -> Shape:
    """The requested shape; the value has the shape of x[key]."""
    target = sliced_shape(shape, key)
    if value != target:
        raise errors.ShapeError(
            f"a value of shape {value} does not have the shape {target} of x[key]"
        )
    return shape


@op(shape=_placed, dtype=dtypes.same, accuracy=EXACT, public=False)
def strided_place(value: Tensor, /, *, shape: ShapeLike, key: Key) -> Tensor:
    """Zeros of `shape` with `value` at a canonical key.

    It is the transpose of `strided_slice`, and so the gradient of x[key].

    Args:
        value: the values at the key.
        shape: the shape of the result.
        key: ints, slices and None in order, then the ellipsis.

    Raises:
        ShapeError: for a value of the wrong shape.

    >>> pb.ops.strided_place([1, 2], shape=4, key=(slice(0, 4, 2), ...)).tolist()
    [1, 0, 2, 0]
    """
    return strided_update(full(shape, 0, dtype=value.dtype, device=value.device), value, key=key)


strided_place.vjp(value=lambda g, key: strided_slice(g, key=key))
