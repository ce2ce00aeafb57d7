"""LU factors, which solve many systems of one matrix."""

from __future__ import annotations

from pullback import errors
from pullback._dispatch import op
from pullback._dispatch.vjp_code import unbroadcast
from pullback.dtypes import Operands, Resolution, bool_, each, floating, int32, int64, uniform
from pullback.ops.arithmetic import abs
from pullback.ops.creation import arange
from pullback.ops.indexing import place_along_axis, take_along_axis
from pullback.ops.joining import concat
from pullback.ops.linalg.linear_algebra import matmul
from pullback.ops.linalg.solvers import solve_triangular, solved, square
from pullback.ops.manipulation import broadcast_to, expand_dims, reshape
from pullback.ops.padding import pad
from pullback.ops.patterns import eye, tril, triu
from pullback.ops.precision import narrowed, places_on, widened
from pullback.ops.searching import argmax
from pullback.ops.selection import where
from pullback.shapes import Shape
from pullback.spec import BACKWARD_STABLE, EXACT, Tier
from pullback.tensor import Tensor

__all__ = ["lu_factor", "lu_solve"]


def _ordered(pivots: Shape, *, rows: int) -> Shape:
    """A place for each of the rows."""
    if not pivots or pivots[-1] > rows:
        raise errors.ShapeError(f"pivots of {rows} rows must be (..., k <= {rows}), got {pivots}")
    return (*pivots[:-1], rows)


@op(
    shape=_ordered,
    dtype=each("integer", result=int64),
    accuracy=EXACT,
    differentiable=False,
    public=False,
)
def row_order(pivots: Tensor, /, *, rows: int) -> Tensor:
    """The order of rows in which exchanges leave them: row j with row pivots[j], one by one.

    >>> pb.ops.row_order([2, 2], rows=3).tolist()
    [2, 0, 1]
    """
    pivots = pivots.astype(places_on(pivots.device))
    places = arange(rows, dtype=pivots.dtype, device=pivots.device)
    order = broadcast_to(places, (*pivots.shape[:-1], rows))
    for j in range(pivots.shape[-1]):
        other = pivots[..., j : j + 1]
        there, here = take_along_axis(order, other, axis=-1), order[..., j : j + 1]
        order = where(places == j, there, where(places == other, here, order))
    return order


def _factored(x: Shape) -> list[Shape]:
    """The shapes of the matrix and of its pivots."""
    if len(x) < 2:
        raise errors.ShapeError(f"x must be a matrix or a stack of them, got shape {x}")
    return [x, (*x[:-2], min(x[-2:]))]


@uniform
def _with_pivots(operands: Operands, **_: object) -> Resolution:
    """The factors in the dtype of x, the pivots in int32."""
    inputs, outputs = floating(operands)
    return Resolution(inputs, (*outputs, int32))


@op(
    shape=_factored,
    dtype=_with_pivots,
    accuracy=BACKWARD_STABLE,
    tier=Tier.LINALG,
    outputs=("lu", "pivots"),
)
def lu_factor(x: Tensor, /) -> tuple[Tensor, Tensor]:
    """The factors L and U of x with its rows in another order, by partial pivoting.

    Both are in one matrix: U is its upper triangle, L has ones on the diagonal and the rest below
    it. Row j was exchanged with row pivots[j], which counts from 0, one after the other. A singular
    matrix has factors, too, with a 0 on the diagonal of U, and then no gradient.

    Toledo, "Locality of reference in LU decomposition with partial pivoting" (1997).

    Args:
        x: matrices (..., m, n).

    Returns:
        lu (..., m, n), and pivots (..., min(m, n)) in int32.

    Raises:
        ShapeError: for an x of fewer than two axes.

    >>> lu, pivots = pb.linalg.lu_factor([[1.0, 3.0], [2.0, 4.0]])
    >>> lu.tolist(), pivots.tolist()
    ([[2.0, 4.0], [0.5, 1.0]], [1, 1])
    """
    _factored(x.shape)
    lu, pivots, _ = _eliminated(widened(x))
    return narrowed(lu, x), pivots.astype(int32)


def _eliminated(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Both factors, the pivots, and the order of the rows: by halves of the columns."""
    *stack, m, n = x.shape
    places = broadcast_to(arange(m, dtype=places_on(x.device), device=x.device), (*stack, m))
    if not m or not n:
        return x, places[..., :0], places
    if n == 1:
        column = x[..., 0]
        pivot = argmax(abs(column), axis=-1, keepdims=True)
        order = where(places == 0, pivot, where(places == pivot, 0, places))
        column = take_along_axis(column, order, axis=-1)
        top = column[..., :1]
        below = column[..., 1:] / where(top == 0, 1, top)
        return expand_dims(concat([top, below], axis=-1), -1), pivot, order
    half = min(n // 2, m) if n <= m else m
    left, pivots, order = _eliminated(x[..., :half])
    right = _in_order(x[..., half:], order)
    above = solve_triangular(left[..., :half, :], right[..., :half, :], unit_diagonal=True)
    rest = right[..., half:, :] - matmul(left[..., half:, :], above)
    rest, more, after = _eliminated(rest)
    lower = _in_order(left[..., half:, :], after)
    top = concat([left[..., :half, :], above], axis=-1)
    lu = concat([top, concat([lower, rest], axis=-1)], axis=-2)
    after = concat([places[..., :half], after + half], axis=-1)
    return lu, concat([pivots, more + half], axis=-1), take_along_axis(order, after, axis=-1)


def _in_order(x: Tensor, order: Tensor) -> Tensor:
    return take_along_axis(x, broadcast_to(expand_dims(order, -1), x.shape), axis=-2)


@lu_factor.vjp("x")
def _(g: tuple[Tensor, Tensor], lu: Tensor, pivots: Tensor) -> Tensor:
    # With x = L U in the order of the pivots, and M = L^-1 dx U^-1: dL = L tril(M, -1) and
    # dU = triu(M) U. Where one is not square, the identity completes it.
    *_, m, n = lu.shape
    lower = upper = lu
    if m > n:
        lower, upper = pad(lu, [(0, 0)] * (lu.ndim - 1) + [(0, m - n)]), lu[..., :n, :]
    if n > m:
        lower = lu[..., :m]
        upper = pad(lu, [(0, 0)] * (lu.ndim - 2) + [(0, n - m), (0, 0)])
        rows = arange(n, device=lu.device)
        added = eye(n, dtype=bool_, device=lu.device) & expand_dims(rows >= m, -1)
        upper = where(added, 1, upper)
    below = matmul(tril(lower, k=-1).mT, g[0]) + g[0]
    middle = tril(below, k=-1) + triu(matmul(g[0], triu(upper).mT))
    left = solve_triangular(lower.mT, middle, upper=True, unit_diagonal=True)
    both = solve_triangular(upper, left.mT, upper=True).mT
    return _back_in_order(both, row_order(pivots, rows=m))


def _back_in_order(x: Tensor, order: Tensor) -> Tensor:
    """The inverse of `_in_order`."""
    order = broadcast_to(expand_dims(order, -1), x.shape)
    return place_along_axis(x, order, shape=x.shape, axis=x.ndim - 2)


def _of_factors(lu: Shape, pivots: Shape, x2: Shape) -> Shape:
    """The shape of the right sides, as for `solve`."""
    if pivots != square(lu)[:-1]:
        raise errors.ShapeError(f"factors of shape {lu} have pivots {lu[:-1]}, got {pivots}")
    return solved(lu, x2)


def _sides(operands: Operands, **_: object) -> Resolution:
    """Factors and right sides in one floating dtype, pivots in theirs."""
    lu, pivots, x2 = operands
    (one, other), outputs = floating((lu, x2))
    return Resolution((one, each("integer")((pivots,)).inputs[0], other), outputs)


@op(shape=_of_factors, dtype=_sides, accuracy=BACKWARD_STABLE, tier=Tier.LINALG)
def lu_solve(lu: Tensor, pivots: Tensor, x2: Tensor, /) -> Tensor:
    """The solution x of x1 @ x = x2, from lu, pivots = lu_factor(x1).

    Args:
        lu: the factors of square matrices (..., n, n).
        pivots: their pivots (..., n).
        x2: (..., n, k), or a vector (n,); stacks broadcast.

    Raises:
        ShapeError: for shapes that do not fit.
        InputValueError: for a 0 on the diagonal of U.

    >>> lu, pivots = pb.linalg.lu_factor([[1.0, 3.0], [2.0, 4.0]])
    >>> pb.linalg.lu_solve(lu, pivots, [7.0, 10.0]).tolist()
    [1.0, 2.0]
    """
    shape = _of_factors(lu.shape, pivots.shape, x2.shape)
    columns = reshape(x2, (*x2.shape, 1)) if x2.ndim == 1 else x2
    n = lu.shape[-1]
    right = broadcast_to(columns, (*shape, 1) if x2.ndim == 1 else shape)
    ordered = _in_order(widened(right), row_order(pivots, rows=n))
    lower = solve_triangular(widened(lu), ordered, unit_diagonal=True)
    return narrowed(reshape(solve_triangular(widened(lu), lower, upper=True), shape), x2)


@lu_solve.vjp("lu", "x2")
def _(
    g: Tensor,
    lu: Tensor,
    pivots: Tensor,
    out: Tensor,
    x2_shape: Shape,
    wanted: tuple[bool, bool],
) -> tuple[Tensor | None, Tensor | None]:
    # L y = x2 in the order of the pivots, and U x = y: the rule of triangular systems, twice.
    shape = columns = tuple(x2_shape)
    if len(shape) == 1:
        g, out, columns = expand_dims(g, -1), expand_dims(out, -1), (*shape, 1)
    by_y = solve_triangular(lu.mT, g)
    by_ordered = solve_triangular(lu.mT, by_y, upper=True, unit_diagonal=True)
    by_lu = by_x2 = None
    if wanted[0]:
        y = matmul(triu(lu), out)
        both = tril(matmul(by_ordered, y.mT), k=-1) + triu(matmul(by_y, out.mT))
        by_lu = unbroadcast(-both, lu.shape)
    if wanted[1]:
        whole = _back_in_order(by_ordered, row_order(pivots, rows=lu.shape[-1]))
        by_x2 = reshape(unbroadcast(whole, columns), shape)
    return by_lu, by_x2


lu_solve.vjp(pivots=None)
