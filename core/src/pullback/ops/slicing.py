"""Parts cut out of a tensor by positions that are known without looking at the data.

The key of these ops is in normal form: a tuple with, for each axis in order, an int in [0, size) or
a slice whose bounds lie in the axis (stop None where a negative step runs to the front), None for
each new axis, and the ellipsis at the end, for all axes not named. Python, NumPy and every array
API namespace read such a key the same way.
"""

from __future__ import annotations

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

#: An entry of a key in normal form; the ellipsis is the last one of every key.
Entry = Any
Key = tuple[Entry, ...]


def sliced_shape(shape: Shape, key: Key) -> Shape:
    """The shape of x[key] for an x of `shape` and a key in normal form."""
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


def _sliced(x: Shape, *, key: Key, **_: object) -> Shape:
    """What the key leaves of the shape."""
    return sliced_shape(x, key)


def _updated(x: Shape, value: Shape, *, key: Key, **_: object) -> Shape:
    """The shape of x; the value broadcasts to the part that the key names."""
    target = sliced_shape(x, key)
    if broadcast_shapes(target, value) != target:
        raise errors.ShapeError(
            f"a value of shape {value} does not broadcast to the part of shape {target} "
            f"that it is to replace"
        )
    return x


@uniform
def into_first(operands: Operands, **_: object) -> Resolution:
    """A dtype rule: the first input keeps its dtype; every other one must go into it.

    Narrower and wider dtypes of one kind do; a float does not go into integers, nor a complex
    number into floats.
    """
    head = operands[0]
    assert head is not None
    dtype: DType = dtypes.promote([head])
    for operand in operands[1:]:
        if operand is not None and dtypes.kind(operand) > dtypes.kind(dtype):
            given = operand.__name__ if isinstance(operand, type) else operand
            raise errors.DTypeError(
                f"a {given} value does not go into a {dtype} tensor; "
                f"convert one with x.astype(...) first"
            )
    return Resolution(tuple(None if one is None else dtype for one in operands), (dtype,))


@op(
    shape=_sliced,
    dtype=dtypes.same,
    accuracy=EXACT,
    primitive="It is a view; take would read an index for every element, and copy.",
    public=False,
)
def strided_slice(x: Tensor, /, *, key: Key) -> Tensor:
    """The part of x that a key in normal form names: what x[key] is made of.

    Args:
        x: a tensor of any shape and dtype.
        key: ints, slices and None in order, the ellipsis last.

    >>> pb.ops.strided_slice([[1, 2, 3], [4, 5, 6]], key=(1, slice(0, 3, 2), ...)).tolist()
    [4, 6]
    """


@strided_slice.vjp("x")
def _(g: Tensor, x_shape: Shape, key: Key) -> Tensor:
    return strided_place(g, shape=tuple(x_shape), key=key)


@op(
    shape=_updated,
    dtype=into_first,
    accuracy=EXACT,
    primitive="It writes one part of a copy; where would ask at every element, and need a mask.",
    public=False,
)
def strided_update(x: Tensor, value: Tensor, /, *, key: Key) -> Tensor:
    """x with the part that a key in normal form names replaced: what x[key] = value is made of.

    Args:
        x: a tensor of any shape and dtype.
        value: what goes there; broadcasts to the part, and takes x's dtype.
        key: ints, slices and None in order, the ellipsis last.

    Raises:
        ShapeError: for a value that does not broadcast to the part.
        DTypeError: for a value of a kind that x's dtype does not hold.

    >>> pb.ops.strided_update([1, 2, 3], 0, key=(slice(0, 2, 1), ...)).tolist()
    [0, 0, 3]
    """


strided_update.vjp(
    x=lambda g, key: late.strided_update(g, 0, key=key),
    value=lambda g, value_shape, key: unbroadcast(strided_slice(g, key=key), value_shape),
)


def _placed(value: Shape, *, shape: Shape, key: Key) -> Shape:
    """The shape that is asked for; the value has that of the part that the key names."""
    target = sliced_shape(shape, key)
    if value != target:
        raise errors.ShapeError(f"a value of shape {value} is no part of shape {target}")
    return shape


@op(shape=_placed, dtype=dtypes.same, accuracy=EXACT, public=False)
def strided_place(value: Tensor, /, *, shape: ShapeLike, key: Key) -> Tensor:
    """Zeros of `shape` with `value` in the part that a key in normal form names.

    It is the transpose of `strided_slice`: the gradient of x[key].

    Args:
        value: what goes there, of the part's shape.
        shape: the shape of the result.
        key: ints, slices and None in order, the ellipsis last.

    Raises:
        ShapeError: for a value of another shape than the part's.

    >>> pb.ops.strided_place([1, 2], shape=4, key=(slice(0, 4, 2), ...)).tolist()
    [1, 0, 2, 0]
    """
    return strided_update(full(shape, 0, dtype=value.dtype, device=value.device), value, key=key)


strided_place.vjp(value=lambda g, key: strided_slice(g, key=key))
