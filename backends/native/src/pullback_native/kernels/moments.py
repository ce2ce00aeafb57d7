"""Variances of all of many float64, piece by piece: NumPy's kernel passes over memory six times."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.plugins.records import Kernel
from pullback_native import _native
from pullback_native.loops import FLOAT64, Array, once
from pullback_numpy import threads
from pullback_numpy.kernels import KERNELS as NUMPY_KERNELS

#: Elements of a piece, whose distances stay in the cache.
_PIECE = 1 << 14


def _variance(x: Array, correction: float) -> float:
    """The variance of all elements."""
    flat = once(x).ravel(order="K")
    mean = _native.mean(flat, axis=None, keepdims=False)
    pieces = range(-(-flat.size // _PIECE))
    sums, squares = np.empty(len(pieces)), np.empty(len(pieces))

    def add(i: int) -> None:
        away = flat[i * _PIECE : (i + 1) * _PIECE] - mean
        sums[i] = away.sum()
        squares[i] = np.vecdot(away, away)

    threads.run(add, pieces, flat.size)
    # The mean is rounded to a digit of x, which may be large beside the distances.
    rest = float(sums.sum())
    variance = max(float(squares.sum()) - rest / flat.size * rest, 0.0) / flat.size
    return variance * (x.size / (x.size - correction))


def _of_all(name: str) -> Kernel:
    """NumPy's kernel of `var` or `std`, but for the variance of all of many float64."""
    numpy = NUMPY_KERNELS[name]

    def kernel(x: Array, *, axis: Any, correction: float, keepdims: bool) -> Any:
        is_all = axis is None or len(axis) == x.ndim
        if x.dtype == FLOAT64 and is_all and x.size > max(2 * _PIECE, correction):
            with np.errstate(all="ignore"):
                variance = _variance(x, correction)
            # Squares out of range, and what is infinite, are NumPy's.
            if np.isfinite(variance):
                value = np.float64(variance if name == "var" else np.sqrt(variance))
                return np.full((1,) * x.ndim, value) if keepdims else np.asarray(value)
        return numpy(x, axis=axis, correction=correction, keepdims=keepdims)

    return kernel


FALLBACKS: dict[str, Kernel] = {name: _of_all(name) for name in ("var", "std")}
