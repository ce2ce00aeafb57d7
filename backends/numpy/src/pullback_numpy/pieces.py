"""Elementwise functions of several passes, piece by piece: a piece stays in the cache."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pullback.casting import HALF
from pullback.plugins.records import Kernel
from pullback_numpy import threads
from pullback_numpy.half import narrow, widen
from pullback_numpy.typing import Array

#: Two calls for fewer elements take no longer than Python's part of `np.clip`.
_FEW = 4096


def fresh(x: Array) -> Array:
    """An array for the result: without `out` a ufunc returns a scalar if x is 0-d."""
    return np.empty(x.shape, x.dtype)


def bounded(x: Array, y: Array, least: float = -np.inf, most: float = np.inf) -> Array:
    """Writes min(max(x, least), most) to y and returns it; x are floats."""
    if x.size >= _FEW:
        # Beside a number, `np.maximum` takes four times as long as this takes for both bounds.
        return np.clip(x, least, most, out=y)
    if least > -np.inf:
        x = np.maximum(x, x.dtype.type(least), out=y)
    return np.minimum(x, x.dtype.type(most), out=y) if most < np.inf else y


def in_pieces(into: Callable[..., None]) -> Kernel:
    """Makes a kernel of an elementwise function into(*inputs, y), which writes the result to y.

    Large arrays are computed in pieces, so that all passes but the first read from the cache, and
    on all threads; 16-bit floats are computed in float32.
    """

    def run(*inputs: Array) -> Array:
        x = inputs[0]
        if len(inputs) > 1 and x.shape != inputs[1].shape:
            inputs = np.broadcast_arrays(*inputs)
            x = inputs[0]
        y = np.empty(x.shape, x.dtype)
        short = x.dtype in HALF
        if x.size <= threads.PIECE and not short:
            into(*inputs, y)
            return y
        sources, target = [array.reshape(-1) for array in inputs], y.reshape(-1)

        def work(piece: slice) -> None:
            if short:
                rooms = np.empty((len(sources) + 1, target[piece].size), np.float32)
                for array, room in zip(sources, rooms, strict=False):
                    widen(array[piece], room)
                into(*rooms)
                narrow(rooms[-1], target[piece])
            else:
                into(*(array[piece] for array in sources), target[piece])

        threads.over(work, x.size)
        return y

    return run
