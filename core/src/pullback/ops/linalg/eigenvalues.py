"""Eigenvalues and eigenvectors.

All ops take stacks of matrices, in the last two axes. Eigenvectors, and the singular vectors of the
next family, are defined up to a sign (a phase, for complex ones); gradients are correct for results
that do not depend on that choice. Vectors of equal values are defined up to a rotation among them,
and have no derivative: where two values are equal to working precision, the part of the gradient
that would rotate their vectors into each other is defined as 0, so that it stays finite.

The rules are written with adjoints, for cotangents G with dL = Re trace(G^H dX); the cotangents of
the tape are their conjugates.
"""

from __future__ import annotations

from pullback import dtypes, errors
from pullback._dispatch import op
from pullback.dtypes import DType, DTypeRule, Operands, Resolution, floating, is_complex, uniform
from pullback.ops.arithmetic import abs
from pullback.ops.complex import real
from pullback.ops.data_types import finfo
from pullback.ops.linalg.linear_algebra import diagonal, matmul
from pullback.ops.linalg.solvers import adjoint, conjugate, identity, solve, square
from pullback.ops.manipulation import reshape
from pullback.ops.reductions import max
from pullback.ops.selection import where
from pullback.shapes import Shape, checked
from pullback.spec import BACKWARD_STABLE, Tier
from pullback.tensor import Tensor

__all__ = ["eig", "eigh", "eigvals", "eigvalsh"]


def matrices(x: Shape) -> tuple[Shape, int, int]:
    """The shape of a stack of matrices, and their numbers of rows and columns."""
    if len(x) < 2:
        raise errors.ShapeError(f"x must be a matrix or a stack of matrices, got shape {x}")
    return x[:-2], x[-2], x[-1]


def outputs(*kinds: str) -> DTypeRule:
    """A dtype rule: floating inputs, and results that are "same", "real" or "complex"."""

    @uniform
    def rule(operands: Operands, **_: object) -> Resolution:
        """Floating inputs; each result has their dtype, or the real or the complex one."""
        (dtype,) = floating(operands).outputs
        if "complex" in kinds and dtype.itemsize == 2:
            dtype = dtypes.float32
        by_kind = {
            "same": dtype,
            "real": dtypes.real_of(dtype),
            "complex": dtypes.complex_of(dtype),
        }
        return Resolution((dtype,), tuple(by_kind[kind] for kind in kinds))

    return rule


def safe_inverse(x: Tensor, zero: Tensor) -> Tensor:
    """1 / x, and 0 where `zero` is true; its derivatives are finite there too."""
    return where(zero, 0, 1 / where(zero, 1, x))


def differences(values: Tensor) -> tuple[Tensor, Tensor]:
    """values_j - values_i in row i and column j, and True where it is 0 to working precision."""
    n = values.shape[-1]
    gaps = reshape(values, (*values.shape[:-1], 1, n)) - reshape(values, (*values.shape, 1))
    return gaps, abs(gaps) <= tiny(values)


def tiny(values: Tensor) -> Tensor:
    """The size below which values count as equal, one number per matrix."""
    n = values.shape[-1]
    eps = finfo(values.dtype).eps
    if not n:
        return reshape(values, (*values.shape, 1))
    return reshape(max(abs(values), axis=-1), (*values.shape[:-1], 1, 1)) * (n * eps)


def diagonals(values: Tensor) -> Tensor:
    """Diagonal matrices from the vectors in the last axis."""
    return reshape(values, (*values.shape, 1)) * identity(values, values.shape[-1])


# ---------------------------------------------------------------------------------------------
# Eigenvalues.


def _pairs(x: Shape, **_: object) -> list[Shape]:
    """The eigenvalues of each square matrix as a vector; matrices like x."""
    return [square(x)[:-1], x]


def _values(x: Shape, **_: object) -> Shape:
    """The eigenvalues of each square matrix as a vector."""
    return square(x)[:-1]


@op(
    shape=_pairs,
    dtype=outputs("real", "same"),
    accuracy=BACKWARD_STABLE,
    tier=Tier.LINALG,
    outputs=("eigenvalues", "eigenvectors"),
    normalize=checked(_pairs),
    primitive="It iterates until the values converge.",
)
def eigh(x: Tensor, /) -> tuple[Tensor, Tensor]:
    """The eigenvalues in ascending order and the orthonormal eigenvectors of Hermitian matrices.

    x is replaced by its Hermitian part (x + x^H) / 2, so its gradient is Hermitian too. The
    eigenvectors are the columns.

    Eigenvectors of equal eigenvalues have no derivative: the part of the gradient that would rotate
    them into each other is defined as 0. Gradients of symmetric functions of the eigenvalues are
    correct there too.

    Raises:
        ShapeError: for matrices that are not square.
        InputValueError: for NaN and infinities.

    >>> pb.linalg.eigh([[2.0, 0.0], [0.0, 1.0]]).eigenvalues.tolist()
    [1.0, 2.0]
    """


@eigh.vjp("x")
def _(g: tuple[Tensor, Tensor], eigenvalues: Tensor, eigenvectors: Tensor) -> Tensor:
    # Seeger et al., "Auto-differentiating linear algebra" (2017), section 3.2: V (diag(g_w) +
    # F o V^H G_V) V^H with F_ij = 1 / (w_j - w_i).
    by_values, by_vectors = g[0], conjugate(g[1])
    gaps, equal = differences(eigenvalues)
    turn = safe_inverse(gaps, equal) * matmul(adjoint(eigenvectors), by_vectors)
    inner = matmul(eigenvectors, matmul(diagonals(by_values) + turn, adjoint(eigenvectors)))
    return conjugate(inner + adjoint(inner)) / 2


@op(
    shape=_values,
    dtype=outputs("real"),
    accuracy=BACKWARD_STABLE,
    tier=Tier.LINALG,
    normalize=checked(_values),
)
def eigvalsh(x: Tensor, /) -> Tensor:
    """The eigenvalues of Hermitian matrices, in ascending order.

    x is replaced by its Hermitian part (x + x^H) / 2.

    Raises:
        ShapeError: for matrices that are not square.
        InputValueError: for NaN and infinities.

    >>> pb.linalg.eigvalsh([[2.0, 0.0], [0.0, 1.0]]).tolist()
    [1.0, 2.0]
    """
    return eigh(x)[0]


@op(
    shape=_pairs,
    dtype=outputs("complex", "complex"),
    accuracy=BACKWARD_STABLE,
    tier=Tier.LINALG,
    outputs=("eigenvalues", "eigenvectors"),
    primitive="It iterates until the values converge.",
)
def eig(x: Tensor, /) -> tuple[Tensor, Tensor]:
    """The complex eigenvalues, in no order, and eigenvectors of norm 1 of square matrices.

    The eigenvectors are the columns.

    Raises:
        ShapeError: for matrices that are not square.
        InputValueError: for NaN and infinities.

    >>> sorted(pb.linalg.eig([[0.0, 1.0], [-1.0, 0.0]]).eigenvalues.imag.tolist())
    [-1.0, 1.0]
    """


@eig.vjp("x")
def _(
    g: tuple[Tensor, Tensor], eigenvalues: Tensor, eigenvectors: Tensor, x_dtype: DType
) -> Tensor:
    # Boeddeker et al., "On the computation of complex-valued gradients with application to
    # statistically optimum beamforming" (2017), (4.77): as eigh with V^-H for V, and without what
    # would change the norm of an eigenvector.
    by_values, by_vectors = conjugate(g[0]), conjugate(g[1])
    ahead = adjoint(eigenvectors)
    product = matmul(ahead, by_vectors)
    norms = real(diagonal(product))
    product = product - matmul(ahead, eigenvectors) * reshape(
        norms, (*norms.shape[:-1], 1, norms.shape[-1])
    )
    gaps, equal = differences(eigenvalues)
    inner = diagonals(by_values) + conjugate(safe_inverse(gaps, equal)) * product
    result = conjugate(solve(ahead, matmul(inner, ahead)))
    return result if is_complex(x_dtype) else real(result)


@op(shape=_values, dtype=outputs("complex"), accuracy=BACKWARD_STABLE, tier=Tier.LINALG)
def eigvals(x: Tensor, /) -> Tensor:
    """The complex eigenvalues of square matrices, in no order.

    Raises:
        ShapeError: for matrices that are not square.
        InputValueError: for NaN and infinities.

    >>> sorted(pb.linalg.eigvals([[0.0, 1.0], [-1.0, 0.0]]).imag.tolist())
    [-1.0, 1.0]
    """
    return eig(x)[0]
