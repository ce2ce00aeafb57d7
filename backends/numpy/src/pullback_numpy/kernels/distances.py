"""Gradients of distances in NumPy: by products, or by the differences of some rows at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pullback.plugins.records import Kernel
from pullback_numpy.half import narrowed, widened
from pullback_numpy.kernels.linalg import quiet, vector_norm
from pullback_numpy.typing import Array

#: So many differences, or pairs of rows, are in memory at a time.
_AT_ONCE, _PAIRS = 1 << 15, 1 << 18
#: Products lose digits of a pair whose squared distance is a smaller part of the squared lengths
#: than this. In float64 the others keep those of float32.
_NEAR = 1e-6


def _cdist_gradient(x1: Array, x2: Array, g: Array, *, p: float) -> tuple[Any, Any]:
    *first, rows, size = x1.shape
    *second, columns, other = x2.shape
    front = np.broadcast_shapes(tuple(first), tuple(second))
    if size != other or g.shape != (*front, rows, columns):
        raise ValueError("rows must have one length, and g an element for each pair")
    a, b = (np.broadcast_to(x, (*front, *x.shape[-2:])) for x in (widened(x1), widened(x2)))
    found = None
    if p == 2 and a.dtype.char == "f" and rows * columns > _AT_ONCE // 8:
        found = _by_products(a, b, widened(g))
    if found is None:
        found = _by_differences(a, b, widened(g), p)
    return tuple(
        narrowed(_summed(part, x.shape), x) for part, x in zip(found, (x1, x2), strict=True)
    )  # type: ignore[return-value]


def _summed(x: Array, shape: tuple[int, ...]) -> Any:
    """The sum over the axes along which an input of `shape` was broadcast."""
    x = x.sum(axis=tuple(range(x.ndim - len(shape))))
    axes = tuple(i for i, n in enumerate(shape) if n == 1 and x.shape[i] != 1)
    return x.sum(axis=axes, keepdims=True) if axes else x


def _by_products(x1: Array, x2: Array, g: Array) -> tuple[Array, Array] | None:
    """Those of Euclidean distances, or None where too many rows are near each other.

    With w = g / distance they are the sums of w (a - b), which products take apart. The pairs that
    are near each other are added one by one.
    """
    if not np.isfinite(g).all():
        return None
    b = x2.astype(np.float64)
    middle = b.mean(axis=-2, keepdims=True)
    b -= middle
    lengths = np.square(b).sum(axis=-1)
    g1, g2 = np.empty(x1.shape), np.zeros(x2.shape)
    step = max(1, _PAIRS // max(1, x2.shape[-2]))
    for i in range(0, x1.shape[-2], step):
        rows = slice(i, i + step)
        a = x1[..., rows, :] - middle
        both = np.square(a).sum(axis=-1)[..., None] + lengths[..., None, :]
        squares = a @ np.swapaxes(b, -2, -1)
        squares *= -2
        squares += both
        both *= _NEAR
        far = squares > both
        near = ~far
        count = np.count_nonzero(near)
        if count > far.size // 16 or not np.isfinite(squares).all():
            return None
        weights = np.divide(
            g[..., rows, :],
            np.sqrt(squares, out=squares, where=far),
            where=far,
            out=np.zeros(far.shape),
        )
        g1[..., rows, :] = a * weights.sum(axis=-1)[..., None] - weights @ b
        g2 += b * weights.sum(axis=-2)[..., None] - np.swapaxes(weights, -2, -1) @ a
        if count:
            *front, row, column = np.nonzero(near)
            away = np.subtract(x1[(*front, row + i)], x2[(*front, column)], dtype=np.float64)
            distance = np.sqrt(np.square(away).sum(axis=-1))
            share = g[..., rows, :][near] / np.where(distance == 0, 1, distance)
            away *= share[:, None]
            np.add.at(g1, (*front, row + i), away)
            np.subtract.at(g2, (*front, column), away)
    return g1, g2


def _by_differences(x1: Array, x2: Array, g: Array, p: float) -> tuple[Array, Array]:
    g1, g2 = np.zeros(x1.shape, x1.dtype), np.zeros(x2.shape, x2.dtype)
    if p == 0 or not x1.shape[-1]:
        return g1, g2
    step = max(1, _AT_ONCE // max(1, math.prod(x2.shape[-2:])))
    for i in range(0, x1.shape[-2], step):
        rows = slice(i, i + step)
        away = x1[..., rows, None, :] - x2[..., None, :, :]
        slopes = _slopes(away, p)
        slopes *= g[..., rows, :, None]
        g1[..., rows, :] = slopes.sum(axis=-2)
        g2 -= slopes.sum(axis=-3)
    return g1, g2


def _slopes(away: Array, p: float) -> Any:
    """The derivatives of the norms of vectors."""
    if p == 1:
        return np.sign(away)
    norm = vector_norm(away, axis=(away.ndim - 1,), keepdims=True, ord=p)
    if p == 2:
        return _direction(away, norm)
    size = np.abs(away)
    if p == math.inf:
        extreme = (size == norm).astype(away.dtype)
        extreme /= extreme.sum(axis=-1, keepdims=True)
        extreme *= np.sign(away)
        return extreme
    zero = size == 0
    ratio = _direction(size, norm)
    ratio[zero] = 1
    ratio **= p - 1
    ratio[zero] = 0
    ratio *= np.sign(away)
    return ratio


def _direction(x: Array, norm: Array) -> Any:
    """x / norm: 0 at the origin; for an infinite norm 0, or the sign of an infinite x."""
    infinite = np.isinf(norm)
    if np.any(infinite):
        x = np.where(infinite, np.where(np.isinf(x), np.sign(x), 0), x).astype(x.dtype)
    return x / np.where((norm == 0) | infinite, 1, norm).astype(x.dtype)


KERNELS: dict[str, Kernel] = {"cdist_gradient": quiet(_cdist_gradient)}
