"""Elementwise functions of 16-bit floats, computed in float32 and rounded once."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from pullback import errors
from pullback._numerics import ArrayNamespace
from pullback.array_api.narrowing import half_precision
from pullback.casting import casts_to_float32
from pullback.plugins.records import Kernel

#: The elementwise ops whose results are rounded. All others are exact in 16 bits.
ROUNDED = (
    *("acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "cos", "cosh", "divide"),
    *("exp", "expm1", "hypot", "log", "log10", "log1p", "log2", "logaddexp", "multiply", "pow"),
    *("reciprocal", "sin", "sinh", "sqrt", "square", "subtract", "tan", "tanh"),
)


def widened(
    xp: ArrayNamespace, table: dict[str, Kernel], widen: bool | Iterable[str]
) -> dict[str, Kernel]:
    """The kernels of the ops that are to be widened; True for all whose results are rounded.

    Raises:
        InputValueError: for an op whose results are not rounded.
    """
    half = half_precision(xp)
    names = (ROUNDED if widen else ()) if isinstance(widen, bool) else tuple(widen)
    for name in names:
        if name not in ROUNDED:
            raise errors.InputValueError(
                f"widen: {name!r} is not an elementwise op with rounded results; "
                f"use some of {', '.join(ROUNDED)}"
            )
    if not half:
        return {}
    wide, narrow = casts_to_float32(half, xp.float32, xp.astype)

    def in_float32(function: Kernel) -> Kernel:
        @functools.wraps(function)
        def kernel(*inputs: Any) -> Any:
            if inputs[0].dtype not in half:
                return function(*inputs)
            return narrow(function(*map(wide, inputs)), inputs[0])

        return kernel

    return {name: in_float32(table[name]) for name in names if name in table}
