"""NumPy's window functions."""

from __future__ import annotations

from math import pi
from typing import Any

from pullback import dtypes
from pullback._numpy.table import Function, routed
from pullback.devices import default_device
from pullback.ops.arithmetic import abs
from pullback.ops.creation import arange, ones, zeros
from pullback.ops.data_types import astype
from pullback.ops.precision import widest
from pullback.ops.trigonometric import cos


def _window(values: Function) -> Function:
    """A window from its values at the places of M points, from -1 to 1."""

    def window(M: int) -> Any:
        if M <= 1:
            return ones(M) if M == 1 else zeros(0)
        # In double precision where the device has it, and rounded once.
        wide = widest(default_device())
        places = (2 * arange(M, dtype=wide) - (M - 1)) / (M - 1)
        return astype(values(places), dtypes.DEFAULT_FLOAT)

    return window


routed("bartlett")(_window(lambda x: 1 - abs(x)))
routed("hanning")(_window(lambda x: 0.5 + 0.5 * cos(pi * x)))
routed("hamming")(_window(lambda x: 0.54 + 0.46 * cos(pi * x)))
routed("blackman")(_window(lambda x: 0.42 + 0.5 * cos(pi * x) + 0.08 * cos(2 * pi * x)))
