"""Resizing of images, axis by axis, and its gradient: sums of neighbors by their shares."""

from __future__ import annotations

from functools import lru_cache
from math import prod

import numpy as np

from pullback.plugins.records import Kernel
from pullback_native.loops import FLOAT32, LOOPS, Array, empty, plain, run
from pullback_numpy.kernels import KERNELS as NUMPY_KERNELS
from pullback_numpy.kernels.resizing import neighbors
from pullback_numpy.typing import Sizes

_RESAMPLE = {"f": LOOPS["resample"], "d": LOOPS["resample_float64"]}


@lru_cache(maxsize=256)
def _terms(
    old: int, count: int, method: str, transposed: bool, kind: str
) -> tuple[Array, Array, Array]:
    """The beginnings of the terms of each pixel, their pixels, and their shares.

    The pixels of the result have terms in the image, and transposed those of the image in the
    result.
    """
    below, above, shares = neighbors(old, count, method)
    # As NumPy's kernel: a neighbor without a share counts, but not of an axis that grows by a
    # whole factor.
    alone = (below == above) | ((shares == 0) & (count % old == 0))
    others = np.flatnonzero(~alone)
    places = np.concatenate([np.arange(count), others])
    sources = np.concatenate([below, above[others]])
    weights = np.concatenate([np.where(alone, 1, 1 - shares), shares[others]])
    size = count
    if transposed:
        places, sources, size = sources, places, old
    order = np.argsort(places, kind="stable")
    begins = np.searchsorted(places[order], np.arange(size + 1))
    return begins.astype(np.intp), sources[order].astype(np.intp), weights[order].astype(kind)


def _along(x: Array, axis: int, size: int, method: str, transposed: bool) -> Array:
    """x in `size` pixels along an axis; or their gradient, of the pixels that they came from."""
    rows, inner = x.shape[axis], prod(x.shape[axis + 1 :])
    shape = (*x.shape[:axis], size, *x.shape[axis + 1 :])
    y = empty(shape) if x.dtype == FLOAT32 else np.empty(shape, x.dtype)
    if y.size:
        old, count = (size, rows) if transposed else (rows, size)
        begins, sources, shares = _terms(old, count, method, transposed, x.dtype.char)
        unit = max(rows, size) * inner
        run(_RESAMPLE[x.dtype.char], y.size // (size * inner), 1 + 16384 // unit, 10 + 0.6 * unit,
            x=plain(x), y=y.reshape(-1).view(FLOAT32), begins=begins, sources=sources,
            shares=shares, rows=rows, count=size, inner=inner)  # fmt: skip
    return y


def _resize(x: Array, *, size: Sizes, method: str, data_format: str) -> Array:
    if x.dtype.char not in _RESAMPLE:
        resized: Array = NUMPY_KERNELS["resize"](
            x, size=size, method=method, data_format=data_format
        )
        return resized
    y, first = x, 1 if data_format == "channels_last" else 2
    # The last axis first: it has the fewest neighbors in memory, and the array is still small.
    for axis in range(first + len(size) - 1, first - 1, -1):
        if y.shape[axis] != size[axis - first]:
            y = _along(y, axis, size[axis - first], method, transposed=False)
    return y


def _resize_gradient(
    g: Array, *, size: Sizes, input_shape: Sizes, method: str, data_format: str
) -> Array:
    if g.dtype.char not in _RESAMPLE:
        gradient: Array = NUMPY_KERNELS["resize_gradient"](
            g, size=size, input_shape=input_shape, method=method, data_format=data_format
        )
        return gradient
    dx, first = g, 1 if data_format == "channels_last" else 2
    for axis in range(first, first + len(size)):
        if dx.shape[axis] != input_shape[axis]:
            dx = _along(dx, axis, input_shape[axis], method, transposed=True)
    return dx


KERNELS: dict[str, Kernel] = {"resize": _resize, "resize_gradient": _resize_gradient}
