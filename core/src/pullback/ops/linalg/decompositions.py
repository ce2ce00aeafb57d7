"""QR, singular values, ranks and pseudoinverses.

All ops take stacks of matrices, in the last two axes. The remarks of
`pullback.ops.linalg.eigenvalues` on gradients of vectors hold here too.
"""

from __future__ import annotations

from pullback import dtypes, errors
from pullback._dispatch import op
from pullback.dtypes import DTypeRule, Operands, Resolution, is_complex
from pullback.ops.complex import imag
from pullback.ops.data_types import finfo
from pullback.ops.joining import concat
from pullback.ops.linalg.eigenvalues import (
    diagonals,
    differences,
    matrices,
    outputs,
    safe_inverse,
    tiny,
)
from pullback.ops.linalg.linear_algebra import diagonal, matmul
from pullback.ops.linalg.solvers import adjoint, conjugate, identity, mirrored, solve_triangular
from pullback.ops.manipulation import reshape
from pullback.ops.precision import places_on
from pullback.ops.reductions import sum
from pullback.shapes import Shape, broadcast_shapes, checked
from pullback.spec import BACKWARD_STABLE, EXACT, Tier
from pullback.tensor import Tensor

__all__ = ["matrix_rank", "pinv", "qr", "svd", "svdvals"]


# ---------------------------------------------------------------------------------------------
# QR.


def _known_mode(shapes: tuple[Shape, ...], *, mode: str) -> dict[str, str]:
    if mode not in ("reduced", "complete"):
        raise errors.InputValueError(f'mode must be "reduced" or "complete", got {mode!r}')
    return {"mode": mode}


def _factors(x: Shape, *, mode: str, **_: object) -> list[Shape]:
    """The shapes of Q and R for the mode."""
    stack, rows, columns = matrices(x)
    inner = rows if mode == "complete" else min(rows, columns)
    return [(*stack, rows, inner), (*stack, inner, columns)]


@op(
    shape=_factors,
    dtype=outputs("same", "same"),
    accuracy=BACKWARD_STABLE,
    tier=Tier.LINALG,
    outputs=("Q", "R"),
    normalize=_known_mode,
    primitive="Reflections go column by column; each step depends on the one before.",
)
def qr(x: Tensor, /, *, mode: str = "reduced") -> tuple[Tensor, Tensor]:
    """The QR decomposition x = Q @ R, with orthonormal columns in Q and R upper triangular.

    For (..., m, n) matrices "reduced" gives Q with min(m, n) columns, "complete" a square Q.

    Raises:
        ShapeError: for an x of fewer than two axes.
        InputValueError: for an unknown mode.

    >>> q, r = pb.linalg.qr([[3.0, 1.0], [4.0, 2.0]])
    >>> pb.linalg.diagonal(abs(r)).numpy().round(3).tolist()
    [5.0, 0.4]
    """


@qr.vjp("x")
def _(g: tuple[Tensor, Tensor], Q: Tensor, R: Tensor, x_shape: Shape) -> Tensor:
    # Walter and Lehmann, "Algorithmic differentiation of linear algebra functions" (2010); for
    # wide matrices Roberts and Roberts, "QR and LQ decomposition matrix backpropagation
    # algorithms for square, wide, and deep matrices" (2020).
    by_q, by_r = conjugate(g[0]), conjugate(g[1])
    rows, columns = tuple(x_shape)[-2:]
    if Q.shape[-1] > columns:
        # The columns that complete Q rotate against the others: dQ2 = -Q1 dQ1^H Q2.
        rest, by_rest = Q[..., columns:], by_q[..., columns:]
        Q, R, by_r = Q[..., :columns], R[..., :columns, :], by_r[..., :columns, :]
        by_q = by_q[..., :columns] - matmul(rest, matmul(adjoint(by_rest), Q))
    if rows >= columns:
        return conjugate(_qr_tall(by_q, by_r, Q, R))
    # x = [X | Y] with Q, U = qr(X) and R = [U | Q^H Y].
    by_right = by_r[..., rows:]
    by_q = by_q + matmul(matmul(Q, R[..., rows:]), adjoint(by_right))
    by_left = _qr_tall(by_q, by_r[..., :rows], Q, R[..., :rows])
    return conjugate(concat([by_left, matmul(Q, by_right)], axis=-1))


def _qr_tall(by_q: Tensor, by_r: Tensor, q: Tensor, r: Tensor) -> Tensor:
    """(G_Q + Q M) R^-H with M the Hermitian matrix of the lower triangle of R G_R^H - G_Q^H Q."""
    m = mirrored(matmul(r, adjoint(by_r)) - matmul(adjoint(by_q), q))
    return adjoint(solve_triangular(r, adjoint(by_q + matmul(q, m)), upper=True))


# ---------------------------------------------------------------------------------------------
# Singular values.


def _singular(x: Shape, *, full_matrices: bool, **_: object) -> list[Shape]:
    """The shapes of U, of the vector of singular values, and of Vh."""
    stack, rows, columns = matrices(x)
    least = min(rows, columns)
    left, right = (rows, columns) if full_matrices else (least, least)
    return [(*stack, rows, left), (*stack, least), (*stack, right, columns)]


@op(
    shape=_singular,
    dtype=outputs("same", "real", "same"),
    accuracy=BACKWARD_STABLE,
    tier=Tier.LINALG,
    outputs=("U", "S", "Vh"),
    primitive="It iterates until it converges; eigh of x^H x loses the small singular values.",
)
def svd(x: Tensor, /, *, full_matrices: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """The singular value decomposition x = U @ diag(S) @ Vh, with S in descending order.

    For (..., m, n) matrices U is (m, m) and Vh (n, n); with `full_matrices=False` they have only
    the min(m, n) columns and rows that belong to S.

    Singular vectors of equal singular values, and of 0, have no derivative: the part of the
    gradient that would rotate them into each other is defined as 0. Gradients of symmetric
    functions of the singular values are correct there too.

    Raises:
        ShapeError: for an x of fewer than two axes.
        InputValueError: for NaN and infinities.

    >>> pb.linalg.svd([[0.0, 2.0], [1.0, 0.0]]).S.tolist()
    [2.0, 1.0]
    """


@svd.vjp("x")
def _(g: tuple[Tensor, Tensor, Tensor], U: Tensor, S: Tensor, Vh: Tensor) -> Tensor:
    # Townsend, "Differentiating the singular value decomposition" (2016), for complex matrices and
    # for the vectors beyond S as well. With dP = U^H dX V, U rotates by F o (dP S + S dP^H) and V
    # by F o (S dP + dP^H S), F_ij = 1 / (S_j^2 - S_i^2).
    by_u, by_s, by_v = conjugate(g[0]), g[1], g[2].mT
    k = S.shape[-1]
    left, by_left = U[..., :k], by_u[..., :k]
    right, by_right = adjoint(Vh)[..., :k], by_v[..., :k]
    turn_u, turn_v = matmul(adjoint(left), by_left), matmul(adjoint(right), by_right)

    row, column = reshape(S, (*S.shape[:-1], 1, k)), reshape(S, (*S.shape, 1))
    gaps, equal = differences(S)
    factor = safe_inverse(gaps * (row + column), equal)
    inner = (
        factor * (turn_u - adjoint(turn_u)) * row
        + column * factor * (turn_v - adjoint(turn_v))
        + diagonals(by_s)
    )
    null = reshape(tiny(S), (*S.shape[:-1], 1)) >= S
    inverse = safe_inverse(S, null)
    if is_complex(U.dtype):
        # Phases: each vector of a pair rotates by half the angle of dP_ii / S_i.
        phase = (imag(diagonal(turn_u)) - imag(diagonal(turn_v))) * inverse / 2
        inner = inner + 1j * diagonals(phase)
    inverse = reshape(inverse, (*S.shape[:-1], 1, k))
    result = matmul(matmul(left, inner), adjoint(right))
    if U.shape[-2] > k:
        outside = by_left - matmul(left, turn_u) - _beyond(U, by_u, left)
        result = result + matmul(outside * inverse, adjoint(right))
    if Vh.shape[-1] > k:
        outside = by_right - matmul(right, turn_v) - _beyond(adjoint(Vh), by_v, right)
        result = result + matmul(left * inverse, adjoint(outside))
    return conjugate(result)


def _beyond(vectors: Tensor, cotangent: Tensor, first: Tensor) -> Tensor | float:
    """The cotangent of the vectors beyond the first ones, which rotate by dW2 = -W1 dW1^H W2."""
    k = first.shape[-1]
    if vectors.shape[-1] == k:
        return 0.0
    return matmul(vectors[..., k:], matmul(adjoint(cotangent[..., k:]), first))


def _singular_values(x: Shape, **_: object) -> Shape:
    """The smaller number of rows and columns in place of both axes."""
    stack, rows, columns = matrices(x)
    return (*stack, min(rows, columns))


@op(shape=_singular_values, dtype=outputs("real"), accuracy=BACKWARD_STABLE, tier=Tier.LINALG)
def svdvals(x: Tensor, /) -> Tensor:
    """The singular values of each matrix, in descending order.

    Raises:
        ShapeError: for an x of fewer than two axes.
        InputValueError: for NaN and infinities.

    >>> pb.linalg.svdvals([[0.0, 2.0], [1.0, 0.0]]).tolist()
    [2.0, 1.0]
    """
    return svd(x, full_matrices=False)[1]


# ---------------------------------------------------------------------------------------------


def _with_tolerance(*kinds: str) -> DTypeRule:
    """A dtype rule for matrices and a relative tolerance in the dtype of their singular values."""
    of_matrices = outputs(*kinds)

    @DTypeRule
    def rule(operands: Operands, **_: object) -> Resolution:
        """Floating matrices, the tolerance in their real dtype; the result has theirs."""
        (dtype,), outputs = of_matrices(operands[:1])
        assert dtype is not None
        tolerance = operands[1] if len(operands) > 1 else None
        return Resolution((dtype, None if tolerance is None else dtypes.real_of(dtype)), outputs)

    return rule


def _cutoff(s: Tensor, shape: Shape, rtol: Tensor | None) -> Tensor:
    """The size up to which singular values count as 0, one per matrix."""
    if not s.shape[-1]:
        return s
    if rtol is None:
        return s[..., :1] * (sorted(shape[-2:])[-1] * finfo(s.dtype).eps)
    return s[..., :1] * reshape(rtol, (*rtol.shape, 1))


def _each(x: Shape, rtol: Shape | None, **_: object) -> Shape:
    """One number per matrix."""
    stack = matrices(x)[0]
    if rtol is not None and broadcast_shapes(stack, rtol) != stack:
        raise errors.ShapeError(
            f"rtol must be one number, or one for each of {stack}; got shape {rtol}"
        )
    return stack


def _rank_dtype(operands: Operands, **_: object) -> Resolution:
    """Floating matrices, the tolerance in their real dtype; the result is int64."""
    return Resolution(_with_tolerance("same")(operands).inputs, (dtypes.int64,))


@op(
    shape=_each,
    dtype=_rank_dtype,
    accuracy=EXACT,
    tier=Tier.LINALG,
    differentiable=False,
    normalize=checked(_each),
)
def matrix_rank(x: Tensor, /, rtol: Tensor | None = None) -> Tensor:
    """The number of singular values above `rtol` times the largest, as int64.

    Args:
        x: matrices (..., m, n).
        rtol: one tolerance for all matrices or one per matrix; by default max(m, n) times the
            distance from 1 to the next number.

    Raises:
        ShapeError: for an x of fewer than two axes.

    >>> pb.linalg.matrix_rank([[1.0, 2.0], [2.0, 4.0]]).item()
    1
    """
    s = svdvals(x)
    return sum(s > _cutoff(s, x.shape, rtol), axis=-1, dtype=places_on(x.device))


def _transposed(x: Shape, rtol: Shape | None, **_: object) -> Shape:
    """The shape of the transposed matrices."""
    _each(x, rtol)
    stack, rows, columns = matrices(x)
    return (*stack, columns, rows)


@op(
    shape=_transposed,
    dtype=_with_tolerance("same"),
    accuracy=BACKWARD_STABLE,
    tier=Tier.LINALG,
    normalize=checked(_transposed),
)
def pinv(x: Tensor, /, rtol: Tensor | None = None) -> Tensor:
    """The Moore-Penrose pseudoinverse, which gives the shortest least-squares solution.

    Args:
        x: matrices (..., m, n).
        rtol: singular values up to `rtol` times the largest count as 0; one tolerance for all
            matrices or one per matrix; by default max(m, n) times the distance from 1 to the next
            number.

    Raises:
        ShapeError: for an x of fewer than two axes.

    >>> pb.linalg.pinv([[2.0, 0.0], [0.0, 0.0]]).tolist()
    [[0.5, 0.0], [0.0, 0.0]]
    """
    u, s, vh = svd(x, full_matrices=False)
    inverse = safe_inverse(s, s <= _cutoff(s, x.shape, rtol))
    weighted = adjoint(vh) * reshape(inverse, (*s.shape[:-1], 1, s.shape[-1]))
    return matmul(weighted, adjoint(u))


@pinv.vjp("x")
def _(g: Tensor, x: Tensor, out: Tensor) -> Tensor:
    # Golub and Pereyra, "The differentiation of pseudo-inverses and nonlinear least squares
    # problems whose variables separate" (1973), (4.12), for matrices of constant rank.
    adjoint_out, g_t = adjoint(out), g.mT
    rows, columns = x.shape[-2:]
    outside = identity(x, rows) - matmul(x, out)
    inside = identity(x, columns) - matmul(out, x)
    result = matmul(matmul(outside, g_t), matmul(out, adjoint_out))
    result = result + matmul(matmul(adjoint_out, out), matmul(g_t, inside))
    return conjugate(result - matmul(matmul(adjoint_out, conjugate(g)), adjoint_out))


pinv.vjp(rtol=None)
