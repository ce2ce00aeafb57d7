"""Elementwise kernels: the namespace's functions of the same name, and the ops that it lacks."""

from __future__ import annotations

import math
from typing import Any

from pullback import errors
from pullback._numerics import ArrayNamespace, division
from pullback.plugins.compiling import require
from pullback.plugins.records import Kernel

_SAME_NAME = (
    "abs",
    "acos",
    "acosh",
    "add",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "ceil",
    "conj",
    "copysign",
    "cos",
    "cosh",
    "divide",
    "equal",
    "exp",
    "floor",
    "greater",
    "greater_equal",
    "hypot",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "log",
    "log10",
    "log2",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "not_equal",
    "reciprocal",
    "remainder",
    "round",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "trunc",
    "where",
)

#: Added to a complex number, it turns a real part of -0 into 0 and changes nothing else.
POSITIVE_ZERO = complex(0.0, -0.0)


def kernels(xp: ArrayNamespace) -> dict[str, Kernel]:
    """Elementwise kernels over `xp`."""
    widest = getattr(xp, "float64", xp.float32)

    def is_complex(x: Any) -> bool:
        return bool(xp.isdtype(x.dtype, "complex floating"))

    def positive(x: Any) -> Any:
        return x

    def floor_divide(x1: Any, x2: Any) -> Any:
        if xp.isdtype(x1.dtype, "integral"):
            return xp.floor_divide(x1, x2)
        digits = 24 if widest == xp.float32 else 53
        if x1.dtype == widest:
            return division.floor_divide(xp, x1, x2, digits)
        wide1, wide2 = xp.astype(x1, widest), xp.astype(x2, widest)
        # In float64 the quotient has all digits that matter. In float32 one of bfloat16 may be 0.
        whole = (
            xp.floor(wide1 / wide2)
            if digits == 53
            else division.floor_divide(xp, wide1, wide2, digits)
        )
        return xp.astype(whole, x1.dtype)

    def expm1(x: Any) -> Any:
        result = xp.expm1(x)
        if not is_complex(x):
            return result
        # Parts that are infinite or NaN, which namespaces do not treat as the standard says.
        return xp.where(xp.isfinite(x), result, xp.exp(x) - 1) + POSITIVE_ZERO

    def pow(x1: Any, x2: Any) -> Any:
        if xp.isdtype(x2.dtype, "signed integer"):
            require(~xp.any(x2 < 0), negative_power(x2.dtype))
        if is_complex(x1) and hasattr(xp, "complex128"):
            # An error of the logarithm grows with the exponent.
            wide = [xp.astype(x, xp.complex128, copy=False) for x in (x1, x2)]
            return xp.astype(xp.pow(*wide), x1.dtype, copy=False)
        return xp.pow(x1, x2)

    def nextafter(x1: Any, x2: Any) -> Any:
        # Of equal zeros it is the second; NumPy's of float16 is the first.
        return xp.where(x1 == x2, x2, xp.nextafter(x1, x2))

    def real(x: Any) -> Any:
        return xp.real(x) if is_complex(x) else x

    def imag(x: Any) -> Any:
        return xp.imag(x) if is_complex(x) else xp.zeros_like(x)

    def conj(x: Any) -> Any:
        return xp.conj(x) if is_complex(x) else x

    def complex_parts(x: Any) -> Any:
        return xp.real(x), xp.imag(x)

    def complex_(real: Any, imag: Any) -> Any:
        # From the first quadrant: a sum of parts would lose the signs of zeros.
        dtype = xp.complex64 if real.dtype == xp.float32 else xp.complex128
        height = xp.abs(imag)
        # Infinity times 1j would have a real part of NaN.
        upwards = xp.astype(xp.where(xp.isfinite(height), height, 0.0), dtype) * 1j
        for value in (math.inf, math.nan):
            there = xp.isinf(height) if value == math.inf else xp.isnan(height)
            upwards = xp.where(there, xp.asarray(complex(0, value), dtype=dtype), upwards)
        found = xp.astype(xp.abs(real), dtype) + upwards
        found = xp.where(xp.signbit(imag), xp.conj(found), found)
        return xp.where(xp.signbit(real), -xp.conj(found), found)

    def log1p(x: Any) -> Any:
        if not is_complex(x):
            return xp.log1p(x)
        # Namespaces compute log|1 + x|, where 1 + x loses the digits of a small x.
        a, b = xp.real(x), xp.imag(x)
        near = 0.5 * xp.log1p(a * (2 + a) + b * b)
        far = xp.log(xp.abs(1 + x))
        return complex_(xp.where(xp.abs(x) < 0.5, near, far), xp.atan2(b, 1 + a))

    def with_booleans(name: str, of_booleans: str) -> Kernel:
        numbers, truths = getattr(xp, name), getattr(xp, of_booleans)

        def kernel(x1: Any, x2: Any) -> Any:
            # The standard has neither an order nor products of booleans.
            return (truths if x1.dtype == xp.bool else numbers)(x1, x2)

        return kernel

    table: dict[str, Kernel] = {name: getattr(xp, name) for name in _SAME_NAME if hasattr(xp, name)}
    table |= {"expm1": expm1, "floor_divide": floor_divide, "log1p": log1p}
    table |= {"positive": positive, "pow": pow}
    if hasattr(xp, "nextafter"):
        table["nextafter"] = nextafter
    truths = {"maximum": "logical_or", "minimum": "logical_and", "multiply": "logical_and"}
    for name, other in truths.items():
        if name in table:
            table[name] = with_booleans(name, other)
    if hasattr(xp, "floor_divide"):
        table["integer_floor_divide"] = xp.floor_divide
    if hasattr(xp, "complex64"):
        table |= {"complex": complex_, "complex_parts": complex_parts}
        table |= {"conj": conj, "imag": imag, "real": real}
    return table


def negative_power(dtype: Any) -> Exception:
    """The error for an integer to a negative integer power."""
    return errors.InputValueError(
        f"an integer to a negative power cannot be {dtype}; "
        f"convert the base to a floating dtype with x.astype(...)"
    )
