"""Elementwise ops for which CuPy's function of the same name is not enough."""

from __future__ import annotations

import cupy

from pullback.plugins.records import Kernel
from pullback_cupy import faults
from pullback_cupy.compile import elementwise
from pullback_cupy.typing import Array

_W = "typedef typename wide_of<T>::type W; const W a = W(x1), b = W(x2);"

# CuPy's remainder of floats is x1 - x1 // x2 * x2, which loses all digits for a large quotient.
_REMAINDER = (
    "W rest = fmod(a, b);"
    " if (rest != 0) { if ((rest < 0) != (b < 0)) rest += b; } else { rest = copysign(W(0), b); }"
)
_remainder_of = elementwise(
    "remainder", "T x1, T x2", "T y",
    f"{_W} {_REMAINDER} y = T(isinf(b) && !isinf(a) && rest != rest ? a : rest);",
)  # fmt: skip
# In double: each digit of a large float32 quotient counts.
_floor_divided = elementwise(
    "floor_divide", "T x1, T x2", "T y",
    f"{_W} const double n = a, d = b; double whole = n / d;"
    # The standard says floor(x1 / x2) where an operand is infinite.
    " if (d != 0 && !isinf(n) && !isinf(d)) {"
    "   const double rest = fmod(n, d); double exact = (n - rest) / d;"
    "   if (rest != 0 && (rest < 0) != (d < 0)) exact -= 1;"
    "   whole = exact == 0 ? copysign(0.0, n / d) : floor(exact);"
    "   if (exact - whole > 0.5) whole += 1;"
    " } y = T(whole);",
)  # fmt: skip
_power = elementwise(
    "pow", "I x1, I x2, uint64 fault", "I y",
    "I base = x1, left = x2, power = 1;"
    " if (left < 0) { *(long long*)fault = 1; left = 0; }"
    " for (; left > 0; left /= 2) { if (left % 2 == 1) power *= base; base *= base; } y = power;",
)  # fmt: skip
_rounded = elementwise("round", "T x", "T y", "y = T(rint(typename wide_of<T>::type(x)));")


def _remainder(x1: Array, x2: Array) -> Array:
    return (cupy.remainder if x1.dtype.kind in "iu" else _remainder_of)(x1, x2)


def _floor_divide(x1: Array, x2: Array) -> Array:
    return (cupy.floor_divide if x1.dtype.kind in "iu" else _floor_divided)(x1, x2)


def _pow(x1: Array, x2: Array) -> Array:
    if x1.dtype.kind not in "iu":
        return cupy.power(x1, x2)
    y = _power(x1, x2, faults.address("pow"))
    faults.after_call()
    return y


def _round(x: Array) -> Array:
    if x.dtype.kind == "c":
        return cupy.rint(x)
    return x if x.dtype.kind in "iu" else _rounded(x)


# CUDA's own, in one pass; the other special functions are those of `pullback.array_api`.
_erf_of, _erfc_of = (
    elementwise(name, "T x", "T y", f"y = T({name}(typename wide_of<T>::type(x)));")
    for name in ("erf", "erfc")
)


def _erf(x: Array) -> Array:
    return _erf_of(x)


def _erfc(x: Array) -> Array:
    return _erfc_of(x)


KERNELS: dict[str, Kernel] = {
    "erf": _erf,
    "erfc": _erfc,
    "floor_divide": _floor_divide,
    "pow": _pow,
    "remainder": _remainder,
    "round": _round,
}
