"""Elementwise kernels of 16-bit floats, which compute large arrays in float32, piece by piece."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.dtypes import DType, bfloat16, float16
from pullback.plugins.records import Kernel
from pullback_numpy.half import by_float32
from pullback_numpy.typing import Array

_MAGNITUDE, _SIGN = np.uint16(0x7FFF), np.uint16(0x8000)

_COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
_OTHERS = (
    *("add", "subtract", "multiply", "divide", "reciprocal", "sqrt", "square", "maximum"),
    *("minimum", "clip", "floor", "ceil", "trunc", "round", "remainder", "fmod", "pow", "hypot"),
    *("fixed_power", "hard_tanh", "relu6", "sign", "slope_quotient"),
    *("atan2", "logaddexp", "logaddexp2"),
)
#: NumPy has loops of its own for float16, which convert vectors where the processor can.
_FUNCTIONS = (
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "cos", "cosh", "exp", "exp2"),
    *("expm1", "log", "log10", "log1p", "log2", "sin", "sinh", "tan", "tanh"),
)


def _abs(x: Array) -> Any:
    return (x.view(np.uint16) & _MAGNITUDE).view(x.dtype)


def _negative(x: Array) -> Any:
    return (x.view(np.uint16) ^ _SIGN).view(x.dtype)


def _copysign(x1: Array, x2: Array) -> Any:
    size, sign = x1.view(np.uint16) & _MAGNITUDE, x2.view(np.uint16) & _SIGN
    if size.shape == sign.shape:
        size |= sign
    else:
        size = size | sign
    return size.view(x1.dtype)


def kernels(table: dict[str, Kernel]) -> dict[tuple[str, frozenset[DType]], Kernel]:
    """By op and dtypes of its first input, kernels made of those in `table`."""
    both = frozenset((float16, bfloat16))
    return {
        **{(name, both): by_float32(table[name]) for name in _OTHERS},
        **{(name, both): by_float32(table[name], np.bool_) for name in _COMPARISONS},
        **{(name, frozenset((bfloat16,))): by_float32(table[name]) for name in _FUNCTIONS},
        ("abs", both): _abs,
        ("negative", both): _negative,
        ("copysign", both): _copysign,
    }
