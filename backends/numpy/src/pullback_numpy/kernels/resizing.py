"""Resizing of images in NumPy, one axis after the other, with the gradient.

An axis that grows by a whole factor has phases: every factor-th pixel of the result is made of the
same two neighbors with the same weights, so that the work is a few passes over parts of the
arrays. Other sizes take neighbors by index.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from pullback.casting import compute_dtype
from pullback.plugins.records import Kernel
from pullback_numpy.typing import Array, Sizes


@lru_cache(maxsize=256)
def neighbors(old: int, count: int, method: str) -> tuple[Array, Array, Array]:
    """The pixels below and above the center of each pixel of the result, and the latter's share."""
    place = np.arange(count)
    if method == "nearest":
        nearest = (2 * place + 1) * old // (2 * count)
        return nearest, nearest, np.zeros(count)
    center = np.maximum((place + 0.5) * old / count - 0.5, 0.0)
    below = np.minimum(center.astype(np.int64), old - 1)
    return below, np.minimum(below + 1, old - 1), center - below


#: Pixels of the result, the neighbors below and above them, and the share of the latter.
Run: TypeAlias = tuple[slice, slice, slice, float]


@lru_cache(maxsize=256)
def _runs(old: int, count: int, method: str) -> tuple[Run, ...]:
    """The phases of an axis that grows by a whole factor; its ends are on their own. Else none."""
    factor, rest = divmod(count, old)
    if rest:
        return ()
    below, above, shares = neighbors(old, count, method)
    runs: list[Run] = []
    for phase in range(factor):
        share = 0.0 if method == "nearest" else ((phase + 0.5) / factor + 0.5) % 1
        places = np.arange(phase, count, factor)
        # An end has the same neighbor twice.
        alone = (below == above)[places] | (shares[places] == 0)
        cuts = [0, *(np.flatnonzero(np.diff(alone)) + 1).tolist(), old]
        for first, last in pairwise(cuts):
            start, size = int(places[first]), last - first
            low, high = int(below[start]), int(above[start])
            runs.append((
                slice(start, start + (size - 1) * factor + 1, factor),
                slice(low, low + size),
                slice(high, high + size),
                0.0 if alone[first] else share,
            ))  # fmt: skip
    return tuple(runs)


def _grown(x: Array, axis: int, count: int, method: str) -> Array:
    """x resized along an axis."""
    old, before = x.shape[axis], (slice(None),) * axis
    runs = _runs(old, count, method)
    y: Array = np.empty((*x.shape[:axis], count, *x.shape[axis + 1 :]), x.dtype)
    for out, low, high, share in runs:
        if share:
            part = y[(*before, out)]
            np.multiply(x[(*before, low)], x.dtype.type(1 - share), out=part)
            part += x[(*before, high)] * x.dtype.type(share)
        else:
            y[(*before, out)] = x[(*before, low)]
    if runs:
        return y
    below, above, shares = neighbors(old, count, method)
    np.take(x, below, axis, out=y, mode="clip")
    if method != "nearest":
        weight = shares.astype(x.dtype).reshape(-1, *[1] * (x.ndim - axis - 1))
        y *= 1 - weight
        y += x.take(above, axis) * weight
    return y


def _shrunk(g: Array, axis: int, old: int, method: str) -> Array:
    """The transpose of `_grown`: g added up along an axis, at the pixels that it was made of."""
    count, before = g.shape[axis], (slice(None),) * axis
    runs = _runs(old, count, method)
    dx: Array = np.zeros((*g.shape[:axis], old, *g.shape[axis + 1 :]), g.dtype)
    for out, low, high, share in runs:
        part = g[(*before, out)]
        if share:
            dx[(*before, low)] += part * g.dtype.type(1 - share)
            dx[(*before, high)] += part * g.dtype.type(share)
        else:
            dx[(*before, low)] += part
    if runs:
        return dx
    below, above, shares = neighbors(old, count, method)
    weight = shares.astype(g.dtype).reshape(-1, *[1] * (g.ndim - axis - 1))
    terms = [(below, g if method == "nearest" else g * (1 - weight))]
    if method != "nearest":
        terms.append((above, g * weight))
    for neighbor, term in terms:
        # Neighbors are in order: those of one pixel follow each other.
        found, begins = np.unique(neighbor, return_index=True)
        key: Any = (*before, found)
        dx[key] += np.add.reduceat(term, begins, axis)
    return dx


def _resize(x: Array, *, size: Sizes, method: str, data_format: str) -> Array:
    y = x.astype(compute_dtype(x.dtype), copy=False)
    first = 1 if data_format == "channels_last" else 2
    # The last axis first: it has the fewest neighbors in memory, and the array is still small.
    for axis in range(first + len(size) - 1, first - 1, -1):
        if y.shape[axis] != size[axis - first]:
            y = _grown(y, axis, size[axis - first], method)
    return y.astype(x.dtype, copy=False)


def _resize_gradient(
    g: Array, *, size: Sizes, input_shape: Sizes, method: str, data_format: str
) -> Array:
    dx = g.astype(compute_dtype(g.dtype), copy=False)
    first = 1 if data_format == "channels_last" else 2
    for axis in range(first, first + len(size)):
        if dx.shape[axis] != input_shape[axis]:
            dx = _shrunk(dx, axis, input_shape[axis], method)
    return dx.astype(g.dtype, copy=False)


KERNELS: dict[str, Kernel] = {"resize": _resize, "resize_gradient": _resize_gradient}
