"""Norms of vectors and matrices."""

from __future__ import annotations

from pullback import dtypes, errors
from pullback._dispatch import op
from pullback._dispatch.convert import as_number
from pullback.dtypes import Operands, Resolution, floating, is_complex, uniform
from pullback.ops.arithmetic import abs, pow, sign
from pullback.ops.comparison import isinf
from pullback.ops.complex import conj
from pullback.ops.creation import zeros_like
from pullback.ops.exponential import sqrt
from pullback.ops.linalg.decompositions import svdvals
from pullback.ops.linalg.eigenvalues import matrices
from pullback.ops.precision import widened
from pullback.ops.reductions import count_nonzero, expand, max, min, reduce_some, sum
from pullback.ops.selection import where
from pullback.shapes import Axes, Shape, reduced
from pullback.spec import ACCUMULATED, BACKWARD_STABLE, Tier
from pullback.tensor import Tensor

__all__ = ["matrix_norm", "vector_norm"]

_INF = float("inf")


@uniform
def _real_result(operands: Operands, **_: object) -> Resolution:
    """Floating inputs; the result has the real dtype of their parts."""
    inputs, (dtype,) = floating(operands)
    return Resolution(inputs, (dtypes.real_of(dtype),))


def _vectors(x: Shape, *, axis: Shape | None, keepdims: bool, ord: float) -> Shape:
    """The shape of the reduction; norms by maximum or minimum need at least one element."""
    if ord < 0 or ord == _INF:
        return reduce_some(x, axis=axis, keepdims=keepdims)
    return reduced(x, axis, keepdims)


def _number(shapes: tuple[Shape, ...], *, ord: object, **rest: object) -> dict[str, object]:
    if not isinstance(ord, (int, float)):
        raise errors.InputTypeError(f"the order of a vector norm must be a number, got {ord!r}")
    return {"ord": ord, **rest}


@op(shape=_vectors, dtype=_real_result, accuracy=ACCUMULATED, normalize=_number)
def vector_norm(
    x: Tensor, /, axis: Axes = None, *, keepdims: bool = False, ord: int | float = 2
) -> Tensor:
    """The norm of x over `axis`, with all elements of several axes as one vector.

    Args:
        x: a real or complex tensor.
        axis: the axes of the vectors.
        keepdims: True to keep reduced axes with size 1.
        ord: p for sum(|x|**p) ** (1 / p), without intermediate overflow; inf for the largest |x|,
            -inf for the smallest; 0 for the number of elements that are not 0.

    The gradient is defined as 0 at 0. For an infinite norm it is the sign of the infinite elements,
    and 0 for all others.

    Raises:
        InputValueError: for a negative or infinite order, if there are no elements.

    >>> pb.linalg.vector_norm([3.0, 4.0]).item()
    5.0
    """
    size = widened(abs(x))
    dtype = dtypes.real_of(x.dtype)
    axes = axis
    if ord == _INF or ord == -_INF:
        extreme = max if ord > 0 else min
        result = extreme(size, axis=axes, keepdims=keepdims)
    elif ord == 0:
        result = count_nonzero(x, axis=axes, keepdims=keepdims)
    elif ord == 1 or (ord > 0 and not size.size):
        result = sum(size, axis=axes, keepdims=keepdims)
    else:
        # In units of the largest element (the smallest, for p < 0), so that powers neither overflow
        # nor all underflow.
        extreme = max if ord > 0 else min
        unit = extreme(size, axis=axes, keepdims=True)
        unit = where((unit == 0) | isinf(unit), 1, unit)
        scaled = size / unit
        if ord == 2:
            result = sqrt(sum(scaled * scaled, axis=axes, keepdims=keepdims))
        else:
            result = pow(sum(pow(scaled, ord), axis=axes, keepdims=keepdims), 1 / ord)
        result = result * unit.reshape(result.shape)
    return result.astype(dtype)


def norm_gradient(
    g: Tensor, x: Tensor, out: Tensor, axis: Shape | None, keepdims: bool, ord: float
) -> Tensor:
    """The gradient of `vector_norm`, whose result is `out`, with respect to x."""
    if ord == 0:
        return zeros_like(x)
    dtype = x.dtype
    g, x, out = widened(g), widened(x), widened(out)  # 16-bit floats are rounded once
    return _slope(g, x, out, axis, keepdims, ord).astype(dtype)


def _slope(
    g: Tensor, x: Tensor, out: Tensor, axis: Shape | None, keepdims: bool, ord: float
) -> Tensor:
    g, out = expand(g, x.shape, axis, keepdims), expand(out, x.shape, axis, keepdims)
    if ord == 2:
        return g * _conjugate(_direction(x, out))
    # d|x| is Re(direction dx).
    size = abs(x)
    is_zero = size == 0
    direction = _conjugate(x / where(is_zero, 1, size)) if is_complex(x.dtype) else sign(x)
    if ord == 1:
        return g * direction
    if ord == _INF or ord == -_INF:
        is_extreme: Tensor = (size == out).astype(size.dtype)
        return g * direction * (is_extreme / sum(is_extreme, axis=axis, keepdims=True))
    ratio = where(is_zero, 1, _direction(size, out))
    return g * direction * where(is_zero, 0, pow(ratio, ord - 1))


vector_norm.vjp(x=norm_gradient)


def _direction(x: Tensor, norm: Tensor) -> Tensor:
    """x / norm: 0 at the origin; for an infinite norm 0, or the sign of an infinite x."""
    infinite = isinf(norm)
    x = where(infinite, where(isinf(x), sign(x), 0), x)
    return x / where((norm == 0) | infinite, 1, norm)


def _conjugate(x: Tensor) -> Tensor:
    return conj(x) if is_complex(x.dtype) else x


# ---------------------------------------------------------------------------------------------

_ORDERS = ("fro", "nuc", 1, 2, -1, -2, _INF, -_INF)


def _known_order(shapes: tuple[Shape, ...], *, ord: object, **rest: object) -> dict[str, object]:
    ord = as_number(ord, "ord", "a number such as ord=2")
    if ord not in _ORDERS:
        orders = ", ".join(map(repr, _ORDERS))
        raise errors.InputValueError(
            f"the order of a matrix norm must be one of {orders}, got {ord!r}"
        )
    return {"ord": ord, **rest}


def _one_each(x: Shape, *, keepdims: bool, ord: object) -> Shape:
    """One number per matrix."""
    stack, rows, columns = matrices(x)
    if ord not in ("fro", "nuc") and not rows * columns:
        raise errors.InputValueError(f"matrices of shape {x} have no norm of order {ord}")
    return (*stack, 1, 1) if keepdims else stack


@op(
    shape=_one_each,
    dtype=_real_result,
    accuracy=BACKWARD_STABLE,
    tier=Tier.LINALG,
    normalize=_known_order,
)
def matrix_norm(x: Tensor, /, *, keepdims: bool = False, ord: int | float | str = "fro") -> Tensor:
    """The norm of each matrix.

    Args:
        x: matrices (..., m, n).
        keepdims: True to keep the last two axes with size 1.
        ord: "fro" for the root of the sum of the squares, "nuc" for the sum of the singular values,
            2 and -2 for the largest and the smallest singular value; 1 and -1 for the largest and
            the smallest absolute column sum, inf and -inf for row sums.

    Raises:
        ShapeError: for an x of fewer than two axes.
        InputValueError: for an unknown order, and for empty matrices without such a norm.

    >>> pb.linalg.matrix_norm([[3.0, 0.0], [0.0, 4.0]], ord="nuc").item()
    7.0
    """
    shape = _one_each(x.shape, keepdims=keepdims, ord=ord)
    if ord == "fro":
        return vector_norm(x, axis=(-2, -1), keepdims=keepdims)
    if ord in ("nuc", 2, -2):
        sizes = svdvals(widened(x))
    else:
        sizes = sum(widened(abs(x)), axis=-1 if ord in (_INF, -_INF) else -2)
    if ord == "nuc":
        result = sum(sizes, axis=-1)
    else:
        assert not isinstance(ord, str)
        result = max(sizes, axis=-1) if ord > 0 else min(sizes, axis=-1)
    return result.reshape(shape).astype(dtypes.real_of(x.dtype))
