"""Trigonometric and hyperbolic functions of complex numbers, made of those of real ones.

Most formulas are those of W. Kahan, Branch cuts for complex elementary functions, or much ado about
nothing's sign bit, in: The State of the Art in Numerical Analysis, Oxford 1987. There are no ops
here. Signs of zeros tell the sides of the cuts: parts are kept apart where 1 - z would lose them.
"""

from __future__ import annotations

import math

from pullback.ops.calculus import where
from pullback.tensor import CALL, Tensor

__all__: list[str] = []

#: tanh(x) is 1 from here on, and exp(4 x) still far from overflow.
_WIDE = 20.0


def _parts(z: Tensor) -> tuple[Tensor, Tensor]:
    return CALL["real"](z), CALL["imag"](z)


def _roots(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The real and imaginary parts of sqrt(1 - z) and of sqrt(1 + z)."""
    minus, plus = (
        _parts(CALL["sqrt"](CALL["complex"](one, two))) for one, two in ((1 - x, -y), (1 + x, y))
    )
    return (*minus, *plus)


def asin(z: Tensor) -> Tensor:
    """The arcsine."""
    x, y = _parts(z)
    a, b, c, d = _roots(x, y)
    return CALL["complex"](CALL["atan2"](x, a * c - b * d), CALL["asinh"](a * d - b * c))


def acos(z: Tensor) -> Tensor:
    """The arccosine."""
    a, b, c, d = _roots(*_parts(z))
    return CALL["complex"](2 * CALL["atan2"](a, c), CALL["asinh"](b * c - a * d))


def acosh(z: Tensor) -> Tensor:
    """The inverse of cosh."""
    x, y = _parts(z)
    a, b = _parts(CALL["sqrt"](CALL["complex"](x - 1, y)))
    c, d = _parts(CALL["sqrt"](CALL["complex"](x + 1, y)))
    return CALL["complex"](CALL["asinh"](a * c + b * d), 2 * CALL["atan2"](b, c))


def asinh(z: Tensor) -> Tensor:
    """The inverse of sinh: i asin(-i z)."""
    x, y = _parts(z)
    turned = asin(CALL["complex"](y, -x))
    return CALL["complex"](-CALL["imag"](turned), CALL["real"](turned))


def atanh(z: Tensor) -> Tensor:
    """The inverse of tanh."""
    return CALL["complex"](*_atanh(*_parts(z)))


def atan(z: Tensor) -> Tensor:
    """The arctangent: -i atanh(i z)."""
    x, y = _parts(z)
    real, imag = _atanh(-y, x)
    return CALL["complex"](imag, -real)


def _atanh(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    size = CALL["abs"](x)
    away = 1 - size
    real = CALL["log1p"](4 * size / (away * away + y * y)) * 0.25
    imag = CALL["atan2"](2 * y, away * (1 + size) - y * y) * 0.5
    return CALL["copysign"](real, x), imag


def sinh(z: Tensor) -> Tensor:
    """sinh(x) cos(y) + i cosh(x) sin(y)."""
    x, y = _parts(z)
    imag = where(y == 0, y, CALL["cosh"](x) * CALL["sin"](y))
    return CALL["complex"](CALL["sinh"](x) * CALL["cos"](y), imag)


def cosh(z: Tensor) -> Tensor:
    """cosh(x) cos(y) + i sinh(x) sin(y)."""
    x, y = _parts(z)
    imag = where((x == 0) | (y == 0), x * y, CALL["sinh"](x) * CALL["sin"](y))
    return CALL["complex"](CALL["cosh"](x) * CALL["cos"](y), imag)


def tan(z: Tensor) -> Tensor:
    """The tangent: -i tanh(i z)."""
    x, y = _parts(z)
    real, imag = _tanh(-y, x)
    return CALL["complex"](imag, -real)


def tanh(z: Tensor) -> Tensor:
    """The hyperbolic tangent."""
    return CALL["complex"](*_tanh(*_parts(z)))


def _tanh(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    size = CALL["abs"](x)
    far = size > _WIDE
    inner = where(far, 0, x)
    t, s = CALL["tan"](y), CALL["sinh"](inner)
    slope = 1 + t * t
    below = 1 + slope * s * s
    real = where(far, CALL["sign"](x), slope * CALL["cosh"](inner) * s / below)
    tail = 4 * CALL["sin"](y) * CALL["cos"](y) * CALL["exp"](-2 * size)
    return real, where(far & (size < math.inf), tail, where(far, 0 * y, t / below))
