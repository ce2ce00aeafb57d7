"""The exponential of matrices."""

from __future__ import annotations

import math

from pullback._dispatch import op
from pullback.dtypes import floating
from pullback.ops.arithmetic import abs, clip, negative
from pullback.ops.calculus import where
from pullback.ops.creation import ones_like
from pullback.ops.exponential import frexp, ldexp
from pullback.ops.linalg.linear_algebra import matmul
from pullback.ops.linalg.solvers import identity, solve, square
from pullback.ops.manipulation import reshape
from pullback.ops.precision import narrowed, widened
from pullback.ops.reductions import max, sum
from pullback.spec import BACKWARD_STABLE, Tier
from pullback.tensor import Tensor

__all__ = ["expm"]

#: Up to this norm the approximation has all digits of float64 (Higham's theta 13).
_NEAR = 5.371920351148152
#: A matrix is halved at most so often, and its exponential squared: up to a norm of 352,000.
_MOST = 16
#: The coefficients of the numerator of the approximation to exp(x), those of the even powers first.
_DEGREE = 13
_PADE = [
    math.factorial(2 * _DEGREE - k) * math.comb(_DEGREE, k) / math.factorial(2 * _DEGREE)
    for k in range(_DEGREE + 1)
]


@op(shape=square, dtype=floating, accuracy=BACKWARD_STABLE, tier=Tier.LINALG)
def expm(x: Tensor, /) -> Tensor:
    """The exponential of each matrix, the sum of its powers x**k / k!; not that of the elements.

    Higham, "The scaling and squaring method for the matrix exponential revisited" (2005). Its
    gradient is that of the same steps, as Al-Mohy and Higham, "Computing the Frechet derivative of
    the matrix exponential" (2009), take it.

    Args:
        x: real or complex square matrices (..., n, n). One with an absolute column sum of more than
            352,000, or that is not finite, gives NaN.

    Raises:
        ShapeError: for matrices that are not square.

    >>> pb.linalg.expm([[0.0, 1.0], [0.0, 0.0]]).tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    size = square(x.shape)[-1]
    if not x.size:
        return x
    wide = widened(x)
    one = (*x.shape[:-2], 1, 1)
    norm = reshape(max(sum(abs(wide), axis=-2), axis=-1), one)
    taken = norm <= _NEAR * 2**_MOST
    # Halved by the power of two that brings it near enough.
    _, exponent = frexp(where(taken, norm, 1) / _NEAR)
    halvings = clip(exponent, 0, _MOST)
    near = where(taken, wide, 0) * ldexp(ones_like(norm), negative(halvings))
    result = _near_zero(near, identity(near, size))
    for i in range(_MOST):
        result = where(halvings > i, matmul(result, result), result)
    return narrowed(where(taken, result, math.nan), x)


def _near_zero(x: Tensor, unit: Tensor) -> Tensor:
    """The approximation of Pade: (v - u) y = v + u, with the odd powers in u, the even in v."""
    x2 = matmul(x, x)
    x4 = matmul(x2, x2)
    x6 = matmul(x4, x2)
    v, u = (
        matmul(x6, c[6] * x6 + c[5] * x4 + c[4] * x2)
        + c[3] * x6
        + c[2] * x4
        + c[1] * x2
        + c[0] * unit
        for c in (_PADE[::2], _PADE[1::2])
    )
    u = matmul(x, u)
    return solve(v - u, v + u)
