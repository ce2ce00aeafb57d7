"""NumPy's window functions."""

from __future__ import annotations

from math import pi
from typing import Any

from pullback import dtypes
from pullback._numpy.table import Function, routed
from pullback.devices import default_device
from pullback.ops.arithmetic import abs
from pullback.ops.bessel import i0, i0e
from pullback.ops.conversion import asarray
from pullback.ops.creation import arange
from pullback.ops.data_types import astype
from pullback.ops.exponential import exp, sqrt
from pullback.ops.precision import widest
from pullback.ops.trigonometric import cos


def _window(values: Function) -> Function:
    """A window from its values at the places of M points, from -1 to 1."""

    def window(M: int) -> Any:
        return astype(values(_places(M)), dtypes.DEFAULT_FLOAT)

    return window


def _places(count: int) -> Any:
    """Places from -1 to 1, in double precision where the device has it; one is in the middle."""
    wide = widest(default_device())
    return (2 * arange(count, dtype=wide) - max(count - 1, 0)) / max(count - 1, 1)


routed("bartlett")(_window(lambda x: 1 - abs(x)))
routed("hanning")(_window(lambda x: 0.5 + 0.5 * cos(pi * x)))
routed("hamming")(_window(lambda x: 0.54 + 0.46 * cos(pi * x)))
routed("blackman")(_window(lambda x: 0.42 + 0.5 * cos(pi * x) + 0.08 * cos(2 * pi * x)))


@routed("kaiser")
def _(M: int, beta: float) -> Any:
    # The quotient of two scaled functions, with the difference of their scales.
    bend = abs(beta * sqrt(1 - _places(M) ** 2))
    heights = i0e(bend) / i0e(asarray(beta, dtype=bend.dtype)) * exp(bend - abs(beta))
    return astype(heights, dtypes.DEFAULT_FLOAT)


routed("i0")(lambda x: i0(x))
