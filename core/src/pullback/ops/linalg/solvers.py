"""Linear systems, inverses, determinants and Cholesky factors.

All ops take stacks of matrices, in the last two axes. Gradient rules without another reference
are from Giles, "Collected matrix derivative results for forward and reverse mode algorithmic
differentiation" (2008).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pullback import dtypes, errors
from pullback._dispatch import op
from pullback._dispatch.vjp_code import unbroadcast
from pullback.dtypes import Operands, Resolution, floating, is_complex, numeric, uniform
from pullback.ops import late
from pullback.ops.calculus import where, zeros
from pullback.ops.complex import conj, imag
from pullback.ops.data_types import finfo
from pullback.ops.exponential import exp
from pullback.ops.joining import concat
from pullback.ops.linalg.linear_algebra import diagonal, matmul, trace
from pullback.ops.manipulation import broadcast_to, reshape
from pullback.ops.patterns import eye, tril, triu
from pullback.ops.precision import narrowed, widened
from pullback.ops.reductions import prod, sum
from pullback.shapes import Shape, broadcast_shapes, checked
from pullback.spec import BACKWARD_STABLE, Tier
from pullback.tensor import Tensor

__all__ = ["cholesky", "det", "inv", "matrix_power", "slogdet", "solve", "solve_triangular"]


def square(x: Shape, **_: object) -> Shape:
    """The shape of square matrices, unchanged."""
    if len(x) < 2 or x[-1] != x[-2]:
        raise errors.ShapeError(f"x must be square in the last two axes, got shape {x}")
    return x


def scalar_each(x: Shape, **_: object) -> Shape:
    """One number per square matrix."""
    return square(x)[:-2]


def conjugate(x: Tensor) -> Tensor:
    """conj(x), without an op for a real x."""
    return conj(x) if is_complex(x.dtype) else x


def adjoint(x: Tensor) -> Tensor:
    """The conjugate transpose of each matrix."""
    return conjugate(x.mT)


def identity(like: Tensor, n: int) -> Tensor:
    """The identity matrix in the dtype and on the device of a tensor."""
    return eye(n, dtype=like.dtype, device=like.device)


def mirrored(x: Tensor) -> Tensor:
    """The Hermitian matrix of the lower triangle of x and of the real part of its diagonal."""
    lower = tril(x)
    if not is_complex(x.dtype):
        return lower + tril(x, k=-1).mT
    half = lower * (1 - identity(x, x.shape[-1]) / 2)
    return half + adjoint(half)


# ---------------------------------------------------------------------------------------------


def solved(x1: Shape, x2: Shape, **_: object) -> Shape:
    """The shape of the right sides, with the stacks of both inputs broadcast."""
    n = square(x1)[-1]
    if len(x2) == 1:
        if x2[0] != n:
            raise errors.ShapeError(f"{n} equations need {n} right sides, got shape {x2}")
        return (*x1[:-2], n)
    if len(x2) < 2 or x2[-2] != n:
        raise errors.ShapeError(
            f"for matrices of shape {x1} the right side must be a vector of {n} elements or "
            f"matrices of {n} rows, got shape {x2}"
        )
    return (*broadcast_shapes(x1[:-2], x2[:-2]), n, x2[-1])


@op(
    shape=solved,
    dtype=floating,
    accuracy=BACKWARD_STABLE,
    tier=Tier.LINALG,
    primitive="Elimination goes column by column; each step depends on the one before.",
)
def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The solution x of x1 @ x = x2, for square x1 of full rank.

    x2 is a vector if it has one axis, else a stack of matrices (..., n, k); stacks broadcast.

    Raises:
        ShapeError: for matrices that are not square, and right sides that do not fit.
        InputValueError: for a singular matrix.

    >>> pb.linalg.solve([[2.0, 0.0], [0.0, 4.0]], [2.0, 2.0]).tolist()
    [1.0, 0.5]
    """


@solve.vjp("x1", "x2")
def _(
    g: Tensor,
    x1: Tensor,
    out: Tensor,
    x2_shape: Shape,
    wanted: tuple[bool, bool],
) -> tuple[Tensor | None, Tensor | None]:
    return _of_sides(partial(solve, x1.mT), g, x1, out, tuple(x2_shape), wanted)


def _of_sides(
    solved: Callable[[Tensor], Tensor],
    g: Tensor,
    x1: Tensor,
    out: Tensor,
    shape: Shape,
    wanted: tuple[bool, bool],
) -> tuple[Tensor | None, Tensor | None]:
    """The gradients of the matrices and of right sides of a shape, which may be vectors."""
    columns = shape
    if len(shape) == 1:
        g, out = reshape(g, (*g.shape, 1)), reshape(out, (*out.shape, 1))
        columns = (*shape, 1)
    by_x2 = solved(g)
    by_x1 = unbroadcast(-matmul(by_x2, out.mT), x1.shape) if wanted[0] else None
    return by_x1, reshape(unbroadcast(by_x2, columns), shape) if wanted[1] else None


#: Triangles up to this size are solved at once, larger ones by halves.
_BLOCK = 64


@op(shape=solved, dtype=floating, accuracy=BACKWARD_STABLE, tier=Tier.LINALG)
def solve_triangular(
    x1: Tensor, x2: Tensor, /, *, upper: bool = False, unit_diagonal: bool = False
) -> Tensor:
    """The solution x of x1 @ x = x2, for triangular x1, by forward or back substitution.

    Golub and Van Loan, "Matrix computations" (2013), 3.1: half of the unknowns first, then the
    others without what those contribute.

    Args:
        x1: square matrices (..., n, n); one triangle is read.
        x2: (..., n, k), or a vector (n,); stacks broadcast.
        upper: whether the upper triangle is read, or the lower one.
        unit_diagonal: whether ones stand for the diagonal, which is not read then.

    Raises:
        ShapeError: for matrices that are not square, and right sides that do not fit.
        InputValueError: for a 0 on the diagonal.

    >>> pb.linalg.solve_triangular([[2.0, 9.0], [1.0, 4.0]], [2.0, 9.0]).tolist()
    [1.0, 2.0]
    >>> pb.linalg.solve_triangular([[2.0, 1.0], [9.0, 4.0]], [4.0, 8.0], upper=True).tolist()
    [1.0, 2.0]
    """
    shape, n = solved(x1.shape, x2.shape), x1.shape[-1]
    triangle = (triu if upper else tril)(widened(x1))
    if unit_diagonal:
        triangle = where(eye(n, dtype=dtypes.bool_, device=x1.device), 1, triangle)
    right = widened(x2)
    columns = reshape(right, (n, 1)) if x2.ndim == 1 else right
    return narrowed(reshape(_substituted(triangle, columns, upper), shape), x2)


def _substituted(x1: Tensor, x2: Tensor, upper: bool) -> Tensor:
    n = x1.shape[-1]
    if n <= _BLOCK:
        return solve(x1, x2)
    half = n // 2
    ends = (slice(half), slice(half, None))
    first, second = reversed(ends) if upper else ends
    known = _substituted(x1[..., first, first], x2[..., first, :], upper)
    rest = x2[..., second, :] - matmul(x1[..., second, first], known)
    other = _substituted(x1[..., second, second], rest, upper)
    return concat([other, known] if upper else [known, other], axis=-2)


@solve_triangular.vjp("x1", "x2")
def _(
    g: Tensor,
    x1: Tensor,
    out: Tensor,
    x2_shape: Shape,
    upper: bool,
    unit_diagonal: bool,
    wanted: tuple[bool, bool],
) -> tuple[Tensor | None, Tensor | None]:
    how = {"upper": not upper, "unit_diagonal": unit_diagonal}
    solved = partial(solve_triangular, x1.mT, **how)
    by_x1, by_x2 = _of_sides(solved, g, x1, out, tuple(x2_shape), wanted)
    if by_x1 is not None:
        by_x1 = triu(by_x1, int(unit_diagonal)) if upper else tril(by_x1, -int(unit_diagonal))
    return by_x1, by_x2


@op(shape=square, dtype=floating, accuracy=BACKWARD_STABLE, tier=Tier.LINALG)
def inv(x: Tensor, /) -> Tensor:
    """The inverse of each matrix.

    Raises:
        ShapeError: for matrices that are not square.
        InputValueError: for a singular matrix.

    >>> pb.linalg.inv([[2.0, 0.0], [0.0, 4.0]]).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    return solve(x, identity(x, square(x.shape)[-1]))


inv.vjp(x=lambda g, out: -matmul(out.mT, matmul(g, out.mT)))


def _whole_power(shapes: tuple[Shape, ...], *, n: object) -> dict[str, int]:
    if not isinstance(n, int):
        raise errors.InputTypeError(f"the power of a matrix must be an int, got {n!r}")
    return {"n": n}


@op(
    shape=square,
    dtype=numeric,
    accuracy=BACKWARD_STABLE,
    tier=Tier.LINALG,
    normalize=_whole_power,
)
def matrix_power(x: Tensor, /, n: int) -> Tensor:
    """The matrix power x ** n: of the inverse for a negative n, the identity for n = 0.

    Raises:
        ShapeError: for matrices that are not square.
        InputValueError: for a negative power of a singular matrix or of integers.

    >>> pb.linalg.matrix_power([[1, 1], [0, 1]], 5).tolist()
    [[1, 5], [0, 1]]
    """
    size = square(x.shape)[-1]
    if n < 0:
        if not dtypes.is_floating(x.dtype):
            raise errors.InputValueError(
                f"a negative power of a matrix of {x.dtype} is not an integer matrix; "
                f"convert it with x.astype(...) first"
            )
        x, n = inv(x), -n
    if n == 0:
        return broadcast_to(identity(x, size), x.shape)
    result = None
    while True:
        if n & 1:
            result = x if result is None else matmul(result, x)
        n >>= 1
        if not n:
            assert isinstance(result, Tensor)
            return result
        x = matmul(x, x)


# ---------------------------------------------------------------------------------------------
# Determinants.


@uniform
def _sign_and_size(operands: Operands, **_: object) -> Resolution:
    """The sign in the dtype of x, the logarithm in its real dtype."""
    inputs, (dtype,) = floating(operands)
    return Resolution(inputs, (dtype, dtypes.real_of(dtype)))


def _two_each(x: Shape, **_: object) -> list[Shape]:
    """One number per square matrix, twice."""
    return [scalar_each(x)] * 2


@op(
    shape=_two_each,
    dtype=_sign_and_size,
    accuracy=BACKWARD_STABLE,
    tier=Tier.LINALG,
    outputs=("sign", "logabsdet"),
    primitive="solve does not show its pivots, and qr does not give the sign of det(Q).",
)
def slogdet(x: Tensor, /) -> tuple[Tensor, Tensor]:
    """The sign of the determinant and the logarithm of its absolute value, without overflow.

    The sign of a complex determinant has absolute value 1. A singular matrix has sign 0 and
    logabsdet -inf. Its gradient is defined as that of the product of its nonzero singular values,
    which is finite: the transposed pseudoinverse.

    Raises:
        ShapeError: for matrices that are not square.

    >>> sign, logabsdet = pb.linalg.slogdet([[0.0, 1.0], [1.0, 0.0]])
    >>> sign.item(), logabsdet.item()
    (-1.0, 0.0)
    """


@slogdet.vjp("x")
def _(g: tuple[Tensor, Tensor], x: Tensor, sign: Tensor) -> Tensor:
    # With t = trace(inv(x) dx): d logabsdet = Re t and d sign = i sign Im t.
    by_sign, by_log = g
    if is_complex(x.dtype):
        by_log = by_log + 1j * imag(by_sign * sign)
    return reshape(by_log, (*by_log.shape, 1, 1)) * _inverse(x, sign == 0).mT


def _inverse(x: Tensor, singular: Tensor) -> Tensor:
    """The inverse of each matrix, or the pseudoinverse of a singular matrix."""
    if not singular.device.holds_anywhere(singular):
        return inv(x)
    singular = reshape(singular, (*singular.shape, 1, 1))
    regular = where(singular, identity(x, x.shape[-1]), x)
    return where(singular, late.pinv(x), inv(regular))


@op(shape=scalar_each, dtype=floating, accuracy=BACKWARD_STABLE, tier=Tier.LINALG)
def det(x: Tensor, /) -> Tensor:
    """The determinant of each matrix. Its gradient is correct for singular matrices too.

    Raises:
        ShapeError: for matrices that are not square.

    >>> pb.linalg.det([[2.0, 0.0], [0.0, 4.0]]).item()
    8.0
    """
    sign, logabsdet = slogdet(x)
    return sign * exp(logabsdet)


@det.vjp("x")
def _(g: Tensor, x: Tensor) -> Tensor:
    return reshape(g, (*g.shape, 1, 1)) * _cofactors(x)


@op(
    shape=square,
    dtype=floating,
    accuracy=BACKWARD_STABLE,
    tier=Tier.LINALG,
    name="_cofactors",
)
def _cofactors(x: Tensor, /) -> Tensor:
    """The derivative of the determinant: det(x) times the transposed inverse, without dividing.

    With x = U diag(s) V^H it is det(U) det(V^H) conj(U) diag(p) conj(V)^H, where p_i is the product
    of all s_j but s_i: finite for singular matrices.

    >>> pb.linalg.det([[1.0, 2.0], [3.0, 4.0]]).item()
    -2.0
    """
    u, s, vh = late.svd(x, full_matrices=False)
    n = square(x.shape)[-1]
    others = s.reshape((*s.shape, 1)) * (1 - identity(s, n)) + identity(s, n)
    sign = turn(u) * turn(vh)
    middle = reshape(sign, (*sign.shape, 1)) * prod(others, axis=-2)
    return matmul(conjugate(u) * reshape(middle, (*middle.shape[:-1], 1, n)), conjugate(vh))


def turn(x: Tensor) -> Tensor:
    """The determinant of each unitary matrix: a number of absolute value 1.

    The columns of a computed U have norms a few eps from 1. In det(U) these errors would add up to
    an error of all cofactors; the sign does not have them.
    """
    sign, _ = slogdet(x)
    return sign


@_cofactors.vjp("x")
def _(g: Tensor, x: Tensor, out: Tensor) -> Tensor:
    n = x.shape[-1]
    if n < 2:
        return zeros(g)
    sizes = late.svdvals(x)
    singular = sizes[..., -1] <= sizes[..., 0] * (n * finfo(sizes.dtype).eps)
    inverse = _inverse(x, singular).mT
    total = trace(matmul(inverse.mT, g))
    regular = reshape(total, (*total.shape, 1, 1)) * out - matmul(matmul(inverse, g.mT), out)
    if not singular.device.holds_anywhere(singular):
        return regular
    return where(reshape(singular, (*singular.shape, 1, 1)), _by_cofactors(g, x), regular)


def _by_cofactors(g: Tensor, x: Tensor) -> Tensor:
    """The cotangent of x from that of its cofactors, without dividing by a possible 0.

    For a diagonal matrix with p_ij the product of all s_k but s_i and s_j, a change E of the matrix
    changes the cofactor (i, j) by -E_ji p_ij, and (i, i) by the sum of E_jj p_ij.
    """
    u, s, vh = late.svd(x, full_matrices=False)
    n = x.shape[-1]
    # Division by all but the two smallest is safe: if one of the others is 0, so are those two.
    large, small = s[..., :-2], s[..., -2:]
    weights = where(large == 0, 0, 1 / where(large == 0, 1, large))
    weights = concat([weights, small * 0 + 1], axis=-1)
    p = reshape(weights, (*s.shape, 1)) * reshape(weights, (*s.shape[:-1], 1, n))
    p = p * reshape(prod(large, axis=-1), (*s.shape[:-1], 1, 1)) * (1 - identity(s, n))
    for k in (n - 2, n - 1):
        others = 1 - identity(s, n)[k]
        is_factor = reshape(others, (n, 1)) * others == 1
        p = p * where(is_factor, reshape(s[..., k], (*s.shape[:-1], 1, 1)), 1)
    h = matmul(adjoint(u), matmul(g, adjoint(vh)))
    on_diagonal = sum(p * reshape(diagonal(h), (*s.shape[:-1], 1, n)), axis=-1)
    inner = reshape(on_diagonal, (*s.shape, 1)) * identity(h, n) - (h * p).mT
    sign = turn(u) * turn(vh)
    inner = inner * reshape(sign, (*sign.shape, 1, 1))
    return matmul(conjugate(u), matmul(inner, conjugate(vh)))


# ---------------------------------------------------------------------------------------------


@op(
    shape=square,
    dtype=floating,
    accuracy=BACKWARD_STABLE,
    tier=Tier.LINALG,
    normalize=checked(square),
    primitive="It goes column by column; each step depends on the one before.",
)
def cholesky(x: Tensor, /, *, upper: bool = False) -> Tensor:
    """The Cholesky factor: the lower triangular L of x = L @ L^H, or L^H if `upper`.

    x is replaced by its Hermitian part (x + x^H) / 2, so its gradient is Hermitian too.

    Raises:
        ShapeError: for matrices that are not square.
        InputValueError: for a matrix that is not positive definite.

    >>> pb.linalg.cholesky([[4.0, 2.0], [2.0, 5.0]]).tolist()
    [[2.0, 0.0], [1.0, 2.0]]
    """


@cholesky.vjp("x")
def _(g: Tensor, out: Tensor, upper: bool) -> Tensor:
    # Murray, "Differentiation of the Cholesky decomposition" (2016), (10): with P the lower
    # triangle of L^H G and half its diagonal, the cotangent is L^-H (P + P^H) L^-1 / 2.
    turned, g = (out, g.mT) if upper else (adjoint(out), conjugate(g))
    middle = mirrored(matmul(turned, g))
    left = solve_triangular(turned, middle, upper=True)
    return conjugate(solve_triangular(turned, adjoint(left), upper=True)) / 2
