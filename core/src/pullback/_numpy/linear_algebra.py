"""NumPy's products and its `linalg`, but for norms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback._numpy.table import Unsupported, routed
from pullback.dtypes import DTypeLike
from pullback.ops.complex import conj
from pullback.ops.conversion import asarray
from pullback.ops.linalg import decompositions, eigenvalues, einsum, linear_algebra, solvers
from pullback.ops.linalg.linear_algebra import matmul, tensordot
from pullback.ops.manipulation import matrix_transpose, moveaxis, permute_dims, reshape
from pullback.ops.patterns import tril, triu
from pullback.ops.reductions import sum
from pullback.shapes import check_choice, size_of
from pullback.tensor import TensorLike

# Products.


@routed("dot")
def _(a: TensorLike, b: TensorLike) -> Any:
    a, b = asarray(a), asarray(b)
    if not a.ndim or not b.ndim:
        return a * b
    if max(a.ndim, b.ndim) <= 2:
        return matmul(a, b)
    return tensordot(a, b, axes=((a.ndim - 1,), (max(b.ndim - 2, 0),)))


@routed("vdot")
def _(a: TensorLike, b: TensorLike) -> Any:
    return sum(conj(reshape(a, -1)) * reshape(b, -1))


@routed("inner")
def _(a: TensorLike, b: TensorLike) -> Any:
    a, b = asarray(a), asarray(b)
    if not a.ndim or not b.ndim:
        return a * b
    return tensordot(a, b, axes=((a.ndim - 1,), (b.ndim - 1,)))


@routed("outer")
def _(a: TensorLike, b: TensorLike) -> Any:
    return linear_algebra.outer(reshape(a, -1), reshape(b, -1))


@routed("linalg.outer")
def _(x1: TensorLike, x2: TensorLike) -> Any:
    return linear_algebra.outer(x1, x2)


@routed("kron")
def _(a: TensorLike, b: TensorLike) -> Any:
    a, b = asarray(a), asarray(b)
    ndim = max(a.ndim, b.ndim)
    sizes, others = (1,) * (ndim - a.ndim) + a.shape, (1,) * (ndim - b.ndim) + b.shape
    left = reshape(a, tuple([part for size in sizes for part in (size, 1)]))
    right = reshape(b, tuple([part for size in others for part in (1, size)]))
    return reshape(left * right, tuple([m * n for m, n in zip(sizes, others, strict=True)]))


@routed("tensordot", "linalg.tensordot")
def _(a: TensorLike, b: TensorLike, axes: Any = 2) -> Any:
    if not isinstance(axes, int):
        axes = tuple([(one,) if isinstance(one, int) else tuple(one) for one in axes])
    return tensordot(a, b, axes=axes)


@routed("linalg.matmul")
def _(x1: TensorLike, x2: TensorLike) -> Any:
    return matmul(x1, x2)


@routed("linalg.vecdot")
def _(x1: TensorLike, x2: TensorLike, axis: int = -1) -> Any:
    return linear_algebra.vecdot(x1, x2, axis=axis)


@routed("linalg.multi_dot")
def _(arrays: Sequence[TensorLike]) -> Any:
    first, *others = arrays
    for other in others:
        first = matmul(first, other)
    return first


@routed("cross")
def _(
    a: TensorLike,
    b: TensorLike,
    axisa: int = -1,
    axisb: int = -1,
    axisc: int = -1,
    axis: int | None = None,
) -> Any:
    if axis is not None:
        axisa = axisb = axisc = axis
    product = linear_algebra.cross(moveaxis(a, axisa, -1), moveaxis(b, axisb, -1))
    return moveaxis(product, -1, axisc)


@routed("linalg.cross")
def _(x1: TensorLike, x2: TensorLike, axis: int = -1) -> Any:
    return linear_algebra.cross(x1, x2, axis=axis)


@routed("einsum")
def _(*operands: Any) -> Any:
    if not isinstance(operands[0], str):
        raise Unsupported("lists of axes in place of an equation")
    return einsum.einsum(*operands)


@routed("linalg.diagonal")
def _(x: TensorLike, offset: int = 0) -> Any:
    return linear_algebra.diagonal(x, offset=offset)


@routed("linalg.trace")
def _(x: TensorLike, offset: int = 0, dtype: DTypeLike | None = None) -> Any:
    return linear_algebra.trace(x, offset=offset, dtype=dtype)


# Systems of equations.


@routed("linalg.solve")
def _(a: TensorLike, b: TensorLike) -> Any:
    return solvers.solve(a, b)


@routed("linalg.inv")
def _(a: TensorLike) -> Any:
    return solvers.inv(a)


@routed("linalg.det")
def _(a: TensorLike) -> Any:
    return solvers.det(a)


@routed("linalg.slogdet")
def _(a: TensorLike) -> Any:
    return solvers.slogdet(a)


@routed("linalg.matrix_power")
def _(a: TensorLike, n: int) -> Any:
    return solvers.matrix_power(a, n)


@routed("linalg.cholesky")
def _(a: TensorLike, upper: bool = False) -> Any:
    return solvers.cholesky(a, upper=upper)


@routed("linalg.pinv")
def _(a: TensorLike, rcond: float | None = None, rtol: float | None = None) -> Any:
    return decompositions.pinv(a, rcond if rtol is None else rtol)


@routed("linalg.tensorinv")
def _(a: TensorLike, ind: int = 2) -> Any:
    a = asarray(a)
    rows, columns = a.shape[:ind], a.shape[ind:]
    return reshape(solvers.inv(reshape(a, (size_of(rows), -1))), (*columns, *rows))


@routed("linalg.tensorsolve")
def _(a: TensorLike, b: TensorLike, axes: Sequence[int] | None = None) -> Any:
    a, b = asarray(a), asarray(b)
    if axes is not None:
        kept = [axis for axis in range(a.ndim) if axis not in axes]
        a = permute_dims(a, (*kept, *axes))
    unknown = a.shape[b.ndim :]
    matrix = reshape(a, (-1, size_of(unknown)))
    return reshape(solvers.solve(matrix, reshape(b, -1)), unknown)


@routed("linalg.lstsq")
def _(a: TensorLike, b: TensorLike, rcond: float | None = None) -> Any:
    a, b = asarray(a), asarray(b)
    x = matmul(decompositions.pinv(a, rcond), b)
    rank, values = decompositions.matrix_rank(a, rcond), decompositions.svdvals(a)
    m, n = a.shape
    if int(rank) < n or m <= n:
        return x, reshape(b, -1)[:0], rank, values
    residual = b - matmul(a, x)
    squares = sum(residual * conj(residual), axis=0)
    return x, reshape(squares, -1), rank, values


# Decompositions.


@routed("linalg.svd")
def _(a: TensorLike, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    if not compute_uv:
        return decompositions.svdvals(a)
    return decompositions.svd(a, full_matrices=full_matrices)


@routed("linalg.svdvals")
def _(x: TensorLike) -> Any:
    return decompositions.svdvals(x)


@routed("linalg.qr")
def _(a: TensorLike, mode: str = "reduced") -> Any:
    if mode == "raw":
        raise Unsupported("mode='raw'")
    if mode == "r":
        return decompositions.qr(a)[1]
    return decompositions.qr(a, mode=mode)


def _triangle(a: TensorLike, UPLO: str) -> Any:
    """Hermitian matrices of one triangle: the op takes the mean of both."""
    check_choice(UPLO, "UPLO", ("L", "U"))
    part, beyond = (tril(a), tril(a, k=-1)) if UPLO == "L" else (triu(a), triu(a, k=1))
    return part + conj(matrix_transpose(beyond))


@routed("linalg.eigh")
def _(a: TensorLike, UPLO: str = "L") -> Any:
    return eigenvalues.eigh(_triangle(a, UPLO))


@routed("linalg.eigvalsh")
def _(a: TensorLike, UPLO: str = "L") -> Any:
    return eigenvalues.eigvalsh(_triangle(a, UPLO))


@routed("linalg.eig")
def _(a: TensorLike) -> Any:
    return eigenvalues.eig(a)


@routed("linalg.eigvals")
def _(a: TensorLike) -> Any:
    return eigenvalues.eigvals(a)
