"""Keras's `linalg` ops."""

from __future__ import annotations

import math

import pullback as pb
from keras_pullback.src.ops.arrays import moveaxis
from keras_pullback.src.ops.core import convert_to_tensor, floating, name_of, result, same, to


def _tuple(op):
    return lambda x: tuple(op(floating(x)))


def det(x):
    return pb.linalg.det(floating(x))


def inv(x):
    return pb.linalg.inv(floating(x))


eig = _tuple(pb.linalg.eig)
eigh = _tuple(pb.linalg.eigh)


def cholesky(x, upper=False):
    return pb.linalg.cholesky(floating(x), upper=upper)


def cholesky_inverse(x, upper=False):
    x = floating(x)
    inverse = solve_triangular(x, pb.eye(x.shape[-1], dtype=x.dtype), lower=not upper)
    other = pb.matrix_transpose(inverse)
    return inverse @ other if upper else other @ inverse


def solve(a, b):
    a, b = same(a, b, floating=True)
    if b.ndim == a.ndim - 1:
        return pb.linalg.solve(a, b[..., None])[..., 0]
    return pb.linalg.solve(a, b)


def solve_triangular(a, b, lower=False):
    a = floating(a)
    return solve(pb.tril(a) if lower else pb.triu(a), b)


def lu_factor(x):
    # Elimination with the largest pivot, a column at a time.
    x = floating(x)
    rows, columns = x.shape[-2:]
    numbers = pb.arange(rows)
    pivots = []
    for k in range(min(rows, columns)):
        column = pb.where(numbers >= k, pb.abs(x[..., :, k]), -1.0)
        pivot = pb.argmax(column, axis=-1, keepdims=True).astype("int32")
        pivots.append(pivot)
        order = pb.where(numbers == k, pivot, pb.where(numbers == pivot, k, numbers))
        x = pb.take_along_axis(x, pb.broadcast_to(order[..., None], x.shape), axis=-2)
        below = numbers > k
        diagonal = x[..., k : k + 1, k]
        factor = pb.where(below, x[..., :, k] / pb.where(diagonal == 0, 1.0, diagonal), 0.0)
        right = pb.arange(columns) > k
        x = x - factor[..., :, None] * pb.where(right, x[..., k : k + 1, :], 0.0)
        here = pb.logical_and(below[:, None], pb.arange(columns) == k)
        x = pb.where(here, factor[..., :, None], x)
    return x, pb.concat(pivots, axis=-1)


def qr(x, mode="reduced"):
    if mode not in ("reduced", "complete"):
        raise ValueError(
            "`mode` argument value not supported. Expected one of {'reduced', 'complete'}. "
            f"Received: mode={mode}"
        )
    return tuple(pb.linalg.qr(floating(x), mode=mode))


def svd(x, full_matrices=True, compute_uv=True):
    x = floating(x)
    return (
        tuple(pb.linalg.svd(x, full_matrices=full_matrices)) if compute_uv else pb.linalg.svdvals(x)
    )


def lstsq(a, b, rcond=None):
    a, b = same(a, b, floating=True)
    if a.ndim != 2 or b.ndim not in (1, 2) or a.shape[0] != b.shape[0]:
        raise ValueError(
            f"`lstsq` needs matrices with as many rows. Received: {a.shape}, {b.shape}"
        )
    rcond = pb.finfo(a.dtype).eps * max(a.shape) if rcond is None else rcond
    return pb.linalg.pinv(a, rcond) @ b


def matrix_rank(x, tol=None):
    x = floating(x)
    if x.ndim < 2:
        raise ValueError(f"Expected input to have rank >= 2. Received input with shape {x.shape}.")
    if tol is None:
        return pb.linalg.matrix_rank(x).astype("int32")
    return pb.sum(pb.linalg.svdvals(x) > tol, axis=-1).astype("int32")


def matrix_power(a, n):
    return pb.linalg.matrix_power(convert_to_tensor(a), n)


def pinv(x, rcond=None):
    return pb.linalg.pinv(floating(x), rcond)


def norm(x, ord=None, axis=None, keepdims=False):
    x = convert_to_tensor(x)
    name = name_of(x)
    if "float" not in name and "complex" not in name:
        x = to(x, result(name, "float32"))
    axes = (
        (axis,) if isinstance(axis, int) else tuple(range(x.ndim)) if axis is None else tuple(axis)
    )
    if ord is None or (axis is None and ord == "fro" and x.ndim == 2):
        return pb.linalg.vector_norm(x, axis=axes, keepdims=keepdims)
    if len(axes) == 1:
        if isinstance(ord, str):
            raise ValueError(f"Invalid `ord` argument for vector norm. Received: ord={ord}")
        return pb.linalg.vector_norm(x, axis=axes, keepdims=keepdims, ord=ord)
    if len(axes) != 2:
        raise ValueError(f"Improper number of dimensions to norm: {axes}")
    if ord not in ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf):
        raise ValueError(f"Invalid `ord` argument for matrix norm. Received: ord={ord}")
    y = pb.linalg.matrix_norm(moveaxis(x, axes, (-2, -1)), ord=ord)
    return pb.expand_dims(y, tuple(sorted(a % x.ndim for a in axes))) if keepdims else y


def jvp(fun, primals, tangents, has_aux=False):
    primals = tuple(convert_to_tensor(x) for x in primals)
    tangents = tuple(convert_to_tensor(x) for x in tangents)
    if not has_aux:
        return pb.jvp(fun, primals, tangents)
    kept = []

    def function(*xs):
        y, aux = fun(*xs)
        kept[:] = [aux]
        return y

    return *pb.jvp(function, primals, tangents), kept[0]
