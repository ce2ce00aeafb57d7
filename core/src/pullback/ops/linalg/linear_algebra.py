"""Products of matrices and vectors, diagonals and traces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, cast

from pullback import errors, shapes
from pullback._dispatch import op
from pullback._dispatch.vjp_code import unbroadcast
from pullback._once import remembered
from pullback.dtypes import DTypeLike, accumulating, is_complex, numeric, same
from pullback.ops.complex import conj
from pullback.ops.joining import stack, unstack
from pullback.ops.manipulation import expand_dims, moveaxis, permute_dims, reshape
from pullback.ops.reductions import sum
from pullback.ops.slicing import diagonal_key, diagonal_span, strided_place
from pullback.shapes import Shape, broadcast_shapes, size_of
from pullback.spec import ACCUMULATED, EXACT, ROUNDED
from pullback.tensor import Tensor

#: `cross`, `diagonal`, `outer` and `trace` are in `pullback.linalg`, as in the standard.
__all__ = ["linear", "matmul", "tensordot", "vecdot"]


@op(
    shape=shapes.matmul,
    dtype=numeric,
    accuracy=ACCUMULATED,
    primitive="A sum of products needs memory for all n * k * m of them.",
)
def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The matrix product of x1 (..., n, k) and x2 (..., k, m); the axes in front broadcast.

    A vector x1 is a row, and a vector x2 a column; the result does not have that axis.

    Raises:
        ShapeError: for 0-d inputs, inner sizes that differ, stacks that do not broadcast.

    >>> pb.matmul([[1.0, 2.0], [3.0, 4.0]], [1.0, 1.0]).tolist()
    [3.0, 7.0]
    """


# With Y = A B: dA = dY B^T and dB = A^T dY, summed over the stacks along which A or B was broadcast
# (Giles, "Collected matrix derivative results for forward and reverse mode AD", 2008, section 2.2).


@matmul.vjp("x1")
def _(g: Tensor, x2: Tensor, x1_shape: Shape) -> Tensor:
    shape = tuple(x1_shape)
    if x2.ndim == 1:
        return g * x2 if len(shape) == 1 else reshape(g, (*g.shape, 1)) * x2
    if len(shape) == 1:
        return unbroadcast(_vector(matmul(x2, reshape(g, (*g.shape, 1)))), shape)
    return unbroadcast(matmul(g, x2.mT), shape)


@matmul.vjp("x2")
def _(g: Tensor, x1: Tensor, x2_shape: Shape) -> Tensor:
    shape = tuple(x2_shape)
    if x1.ndim == 1:
        if len(shape) == 1:
            return g * x1
        return reshape(x1, (x1.shape[0], 1)) * reshape(g, (*g.shape[:-1], 1, g.shape[-1]))
    if len(shape) == 1:
        return unbroadcast(_vector(matmul(x1.mT, reshape(g, (*g.shape, 1)))), shape)
    if len(shape) == 2 and x1.ndim > 2:
        # One product over all rows of the stack, instead of the sum of a stack of products.
        rows = size_of(x1.shape[:-1])
        x1, g = reshape(x1, (rows, shape[0])), reshape(g, (rows, shape[1]))
    return unbroadcast(matmul(x1.mT, g), shape)


def _vector(column: Tensor) -> Tensor:
    return reshape(column, column.shape[:-1])


# ---------------------------------------------------------------------------------------------


def _linear_shape(x: Shape, weight: Shape, bias: Shape | None = None) -> Shape:
    """The shape of x with the outputs in place of the last axis."""
    if not x:
        raise errors.ShapeError("x needs at least one axis, the inputs, got shape ()")
    if len(weight) != 2:
        raise errors.ShapeError(f"weight must be a matrix (inputs, outputs), got shape {weight}")
    if x[-1] != weight[0]:
        raise errors.ShapeError(
            f"x of shape {x} has {x[-1]} inputs along its last axis, and weight of shape {weight} "
            f"takes {weight[0]}; weight is (inputs, outputs), so transpose it if it is the other "
            f"way round"
        )
    if bias is not None and bias != weight[1:]:
        raise errors.ShapeError(
            f"bias of shape {bias} is not one number for each of the {weight[1]} outputs of "
            f"weight {weight}"
        )
    return (*x[:-1], weight[1])


@op(shape=_linear_shape, dtype=numeric, accuracy=ACCUMULATED)
def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, /) -> Tensor:
    """x @ weight + bias over the last axis of x: a dense layer without its activation.

    Args:
        x: values (..., inputs), of any numeric dtype.
        weight: a matrix (inputs, outputs).
        bias: a vector (outputs,) that is added; nothing if None.

    Returns:
        A tensor (..., outputs), of the dtype that all inputs promote to.

    Raises:
        ShapeError: if the sizes of x, weight and bias do not fit.

    >>> pb.linear([[1.0, 2.0]], [[1.0, 0.0, 2.0], [0.0, 1.0, 2.0]], [10.0, 20.0, 30.0]).tolist()
    [[11.0, 22.0, 36.0]]
    """
    _linear_shape(x.shape, weight.shape, None if bias is None else bias.shape)
    product = matmul(x, weight)
    return product if bias is None else product + bias


# The rules of `matmul`, with all leading axes of x as the rows of one matrix.


@linear.vjp("x")
def _(g: Tensor, weight: Tensor) -> Tensor:
    return matmul(g, weight.mT)


@linear.vjp("weight")
def _(g: Tensor, x: Tensor) -> Tensor:
    rows = size_of(x.shape[:-1])
    return matmul(reshape(x, (rows, x.shape[-1])).mT, reshape(g, (rows, g.shape[-1])))


@linear.vjp("bias")
def _(g: Tensor) -> Tensor:
    return sum(g, axis=tuple(range(g.ndim - 1))) if g.ndim > 1 else g


# ---------------------------------------------------------------------------------------------


def _common_axis(x1: Shape, x2: Shape, axis: int) -> None:
    ndim = min(len(x1), len(x2))
    if not -ndim <= axis <= -1:
        raise errors.AxisError(
            f"axis counts from the end of both inputs: it must be in [-{ndim}, -1], got {axis}"
        )
    if x1[axis] != x2[axis]:
        raise errors.ShapeError(f"sizes along axis {axis} differ: {x1} and {x2}")


def _vecdot_shape(x1: Shape, x2: Shape, axis: int = -1, **_: object) -> Shape:
    """The broadcast shape of the inputs, without the axis of the vectors."""
    _common_axis(x1, x2, axis)
    shape = list(broadcast_shapes(x1, x2))
    del shape[axis]
    return tuple(shape)


@op(shape=_vecdot_shape, dtype=numeric, accuracy=ACCUMULATED)
def vecdot(x1: Tensor, x2: Tensor, /, axis: int = -1) -> Tensor:
    """The dot product of the vectors along `axis`, sum(conj(x1) * x2); other axes broadcast.

    `axis` is negative: it counts from the end in both inputs.

    Raises:
        AxisError: for an axis that is not negative, or out of range.
        ShapeError: for vectors of different lengths.

    >>> pb.vecdot([[1.0, 2.0], [3.0, 4.0]], [1.0, 10.0]).tolist()
    [21.0, 43.0]
    """
    _vecdot_shape(x1.shape, x2.shape, axis)
    if is_complex(x1.dtype):
        x1 = conj(x1)
    if axis != -1:
        x1, x2 = moveaxis(x1, axis, -1), moveaxis(x2, axis, -1)
    product = matmul(reshape(x1, (*x1.shape[:-1], 1, x1.shape[-1])), reshape(x2, (*x2.shape, 1)))
    return reshape(product, product.shape[:-2])


@vecdot.vjp("x1")
def _(g: Tensor, x1_shape: Shape, x2: Tensor, axis: int) -> Tensor:
    product = unbroadcast(expand_dims(g, axis) * x2, x1_shape)
    return conj(product) if is_complex(g.dtype) else product


@vecdot.vjp("x2")
def _(g: Tensor, x1: Tensor, x2_shape: Shape, axis: int) -> Tensor:
    return unbroadcast(expand_dims(g, axis) * (conj(x1) if is_complex(g.dtype) else x1), x2_shape)


def _outer_shape(x1: Shape, x2: Shape, **_: object) -> Shape:
    """The lengths of both vectors."""
    if len(x1) != 1 or len(x2) != 1:
        raise errors.ShapeError(f"x1 and x2 must be vectors, got shapes {x1} and {x2}")
    return (*x1, *x2)


@op(shape=_outer_shape, dtype=numeric, accuracy=ROUNDED)
def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The outer product of two vectors.

    Raises:
        ShapeError: for inputs that are not vectors.

    >>> pb.linalg.outer([1, 2], [3, 4]).tolist()
    [[3, 4], [6, 8]]
    """
    _outer_shape(x1.shape, x2.shape)
    product: Tensor = reshape(x1, (x1.shape[0], 1)) * x2
    return product


# ---------------------------------------------------------------------------------------------


def _cross_shape(x1: Shape, x2: Shape, axis: int = -1, **_: object) -> Shape:
    """The broadcast shape of the inputs, with 3 elements along the axis."""
    _common_axis(x1, x2, axis)
    if x1[axis] != 3:
        raise errors.ShapeError(
            f"the vectors along axis {axis} must have 3 elements, got {x1[axis]}"
        )
    return broadcast_shapes(x1, x2)


@op(shape=_cross_shape, dtype=numeric, accuracy=ACCUMULATED)
def cross(x1: Tensor, x2: Tensor, /, axis: int = -1) -> Tensor:
    """The cross product of the vectors of 3 elements along `axis`; other axes broadcast.

    `axis` is negative: it counts from the end in both inputs.

    Raises:
        AxisError: for an axis that is not negative, or out of range.
        ShapeError: for vectors that do not have 3 elements.

    >>> pb.linalg.cross([1, 0, 0], [0, 1, 0]).tolist()
    [0, 0, 1]
    """
    _cross_shape(x1.shape, x2.shape, axis)
    (a, b, c), (d, e, f) = unstack(x1, axis=axis), unstack(x2, axis=axis)
    return stack([b * f - c * e, c * d - a * f, a * e - b * d], axis=axis)


cross.vjp(
    x1=lambda g, x2, x1_shape, axis: unbroadcast(cross(x2, g, axis=axis), x1_shape),
    x2=lambda g, x1, x2_shape, axis: unbroadcast(cross(g, x1, axis=axis), x2_shape),
)


ContractionAxes: TypeAlias = "int | tuple[Sequence[int] | int, Sequence[int] | int]"


@remembered
def _pairs(inputs: tuple[Shape, Shape], *, axes: ContractionAxes) -> dict[str, tuple[Shape, Shape]]:
    """`axes` as two tuples of non-negative axes of equal sizes."""
    x1, x2 = inputs
    if isinstance(axes, int):
        if not 0 <= axes <= min(len(x1), len(x2)):
            raise errors.AxisError(f"{axes} axes cannot be contracted in shapes {x1} and {x2}")
        left, right = tuple(range(len(x1) - axes, len(x1))), tuple(range(axes))
    else:
        if len(axes) != 2:
            raise errors.InputValueError(
                f"axes must be an int or two sequences of axes, got {axes!r}"
            )
        # One number is one axis, as in NumPy.
        left, right = (
            tuple(
                shapes.canonical_axis(axis, len(shape))
                for axis in ((given,) if isinstance(given, int) else given)
            )
            for given, shape in zip(axes, inputs, strict=True)
        )
    if [x1[a] for a in left] != [x2[a] for a in right]:
        raise errors.ShapeError(
            f"sizes along the contracted axes {left} of {x1} and {right} of {x2} differ"
        )
    for contracted in (left, right):
        if len(set(contracted)) != len(contracted):
            raise errors.AxisError(f"an axis is repeated in {contracted}")
    return {"axes": (left, right)}


def _tensordot_shape(x1: Shape, x2: Shape, axes: tuple[Shape, Shape], **_: object) -> Shape:
    """The remaining axes of x1, then those of x2."""
    left, right = axes
    return (
        *[size for a, size in enumerate(x1) if a not in left],
        *[size for a, size in enumerate(x2) if a not in right],
    )


@op(shape=_tensordot_shape, dtype=numeric, accuracy=ACCUMULATED, normalize=_pairs)
def tensordot(x1: Tensor, x2: Tensor, /, axes: ContractionAxes = 2) -> Tensor:
    """The sum of products over pairs of axes.

    `axes` is a number of axes, the last ones of x1 with the first ones of x2 in order, or a pair:
    the axes of x1 and those of x2, each a sequence or one axis. The result has the other axes of
    x1, then those of x2.

    Raises:
        ShapeError: for pairs of axes of different sizes.
        AxisError: for axes out of range.

    >>> pb.tensordot(pb.ones((2, 3, 4)), pb.ones((4, 3, 5)), axes=([2, 1], [0, 1])).shape
    (2, 5)
    """
    left, right = cast("tuple[Shape, Shape]", axes)
    keep1 = tuple(a for a in range(x1.ndim) if a not in left)
    keep2 = tuple(a for a in range(x2.ndim) if a not in right)
    inner = size_of(x1.shape[a] for a in left)
    outer1 = size_of(x1.shape[a] for a in keep1)
    outer2 = size_of(x2.shape[a] for a in keep2)
    rows = reshape(permute_dims(x1, (*keep1, *left)), (outer1, inner))
    columns = reshape(permute_dims(x2, (*right, *keep2)), (inner, outer2))
    return reshape(matmul(rows, columns), _tensordot_shape(x1.shape, x2.shape, (left, right)))


# ---------------------------------------------------------------------------------------------


def _diagonal_shape(x: Shape, offset: int = 0, **_: object) -> Shape:
    """The shape with the length of the diagonal in place of the last two axes."""
    if len(x) < 2:
        raise errors.ShapeError(f"x must be a matrix or a stack of matrices, got shape {x}")
    return (*x[:-2], diagonal_span(x[-2], x[-1], offset)[1])


@op(shape=_diagonal_shape, dtype=same, accuracy=EXACT, view=True)
def diagonal(x: Tensor, /, offset: int = 0) -> Tensor:
    """The diagonals of the matrices in the last two axes; `offset` > 0 is above the main one.

    Raises:
        ShapeError: for an x of fewer than two axes.

    >>> pb.linalg.diagonal([[1, 2], [3, 4]]).tolist()
    [1, 4]
    """
    _diagonal_shape(x.shape, offset)
    *stacks, rows, columns = x.shape
    start, length = diagonal_span(rows, columns, offset)
    if not length:
        return reshape(x, (*stacks, rows * columns))[..., :0]
    line = reshape(x, (*stacks, rows * columns))
    return line[..., start : start + (length - 1) * (columns + 1) + 1 : columns + 1]


@diagonal.vjp("x")
def _(g: Tensor, x_shape: Shape, offset: int) -> Tensor:
    *stacks, rows, columns = x_shape
    key = (
        *[slice(None)] * len(stacks),
        *diagonal_key(rows, columns, offset),
    )
    placed = strided_place(g, shape=(*stacks, rows * columns), key=key)
    return reshape(placed, tuple(x_shape))


def _trace_shape(x: Shape, offset: int = 0, **_: object) -> Shape:
    """The shape without the last two axes."""
    return _diagonal_shape(x, offset)[:-1]


@op(shape=_trace_shape, dtype=accumulating, accuracy=ACCUMULATED)
def trace(x: Tensor, /, offset: int = 0, *, dtype: DTypeLike | None = None) -> Tensor:
    """The sum of the diagonal of each matrix in the last two axes.

    Raises:
        ShapeError: for an x of fewer than two axes.

    >>> pb.linalg.trace([[1, 2], [3, 4]]).item()
    5
    """
    return sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)
