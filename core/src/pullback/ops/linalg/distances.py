"""Distances between the rows of two matrices."""

from __future__ import annotations

from pullback import errors
from pullback._dispatch import op
from pullback._dispatch.convert import as_number
from pullback._dispatch.vjp_code import unbroadcast
from pullback.dtypes import Operands, Resolution, real_floating
from pullback.ops.creation import full
from pullback.ops.linalg.norms import norm_gradient, vector_norm
from pullback.ops.manipulation import expand_dims
from pullback.ops.precision import narrowed, widened
from pullback.ops.reductions import sum
from pullback.shapes import Shape, broadcast_shapes
from pullback.spec import ACCUMULATED
from pullback.tensor import Tensor

__all__ = ["cdist"]


def _between(x1: Shape, x2: Shape, **_: object) -> Shape:
    """A number for each pair of rows; the stacks broadcast."""
    if len(x1) < 2 or len(x2) < 2 or x1[-1] != x2[-1]:
        raise errors.ShapeError(
            f"distances are between rows of one length, (..., n, size) and (..., m, size), got "
            f"shapes {x1} and {x2}"
        )
    return (*broadcast_shapes(x1[:-2], x2[:-2]), x1[-2], x2[-2])


def _order(shapes: tuple[Shape, ...], *, p: object) -> dict[str, object]:
    p = as_number(p, "p", "a number such as p=2")
    if not isinstance(p, int | float):
        raise errors.InputTypeError(f"the order p of a distance must be a number, got {p!r}")
    if not p >= 0:
        raise errors.InputValueError(f"the order p of a distance must be 0 or more, got {p}")
    return {"p": p}


@op(shape=_between, dtype=real_floating, accuracy=ACCUMULATED, normalize=_order)
def cdist(x1: Tensor, x2: Tensor, /, *, p: int | float = 2) -> Tensor:
    """The distance of each row of x1 from each row of x2: the norm of their difference.

    The differences are in memory, all of them, and none is lost: the shorter formula with products,
    |a|**2 - 2 ab + |b|**2, has no digits of small distances. The gradient is 0 between equal rows.

    Args:
        x1: vectors (..., n, size).
        x2: vectors (..., m, size); the axes in front broadcast.
        p: the order of the norm, as of `pb.linalg.vector_norm`: 2 for Euclidean distances, 1 for
            the sum of the sizes, inf for the largest, 0 for the number of elements that differ.

    Returns:
        Distances (..., n, m).

    Raises:
        InputValueError: for a negative p.
        ShapeError: for fewer than two axes, and vectors of different sizes.

    >>> pb.cdist([[0.0, 0.0], [3.0, 0.0]], [[0.0, 4.0]]).tolist()
    [[4.0], [5.0]]
    """
    shape = _between(x1.shape, x2.shape)
    away = expand_dims(widened(x1), -2) - expand_dims(widened(x2), -3)
    if not away.shape[-1]:
        return full(shape, 0, dtype=x1.dtype, device=x1.device)
    return narrowed(vector_norm(away, axis=-1, ord=p), x1)


def _rows_of_both(x1: Shape, x2: Shape, g: Shape, **_: object) -> list[Shape]:
    """The shapes of both matrices."""
    if g != _between(x1, x2):
        raise errors.ShapeError(f"g must have shape {_between(x1, x2)}, got {g}")
    return [x1, x2]


def _one_dtype(operands: Operands, **_: object) -> Resolution:
    """All in one real floating dtype."""
    inputs, (dtype,) = real_floating(operands)
    return Resolution(inputs, (dtype, dtype))


def _order_of_gradient(shapes: tuple[Shape, ...], *, p: object) -> dict[str, object]:
    _rows_of_both(*shapes)
    return _order(shapes, p=p)


@op(
    shape=_rows_of_both,
    dtype=_one_dtype,
    accuracy=ACCUMULATED,
    normalize=_order_of_gradient,
    outputs=("g1", "g2"),
    public=False,
)
def cdist_gradient(
    x1: Tensor, x2: Tensor, g: Tensor, *, p: int | float = 2
) -> tuple[Tensor, Tensor]:
    """The gradients of `cdist` with respect to both inputs.

    Args:
        x1: the input of the op.
        x2: the input of the op.
        g: the gradient with respect to the distances.
        p: the order of the norm.

    >>> [x.tolist() for x in pb.ops.cdist_gradient([[0.0, 3.0]], [[4.0, 0.0]], [[5.0]])]
    [[[-4.0, 3.0]], [[4.0, -3.0]]]
    """
    away = expand_dims(widened(x1), -2) - expand_dims(widened(x2), -3)
    if not away.shape[-1]:
        return x1, x2
    axis = (away.ndim - 1,)
    norm = vector_norm(away, axis=axis, ord=p)
    slopes = norm_gradient(widened(g), away, norm, axis, False, p)
    g1, g2 = sum(slopes, axis=-2), -sum(slopes, axis=-3)
    return narrowed(unbroadcast(g1, x1.shape), x1), narrowed(unbroadcast(g2, x2.shape), x2)


@cdist.vjp("x1", "x2")
def _(g: Tensor, x1: Tensor, x2: Tensor, p: int | float) -> tuple[Tensor, Tensor]:
    return cdist_gradient(x1, x2, g, p=p)
