"""Trigonometric and hyperbolic functions of complex numbers, from those of real numbers.

Most formulas are those of W. Kahan, Branch cuts for complex elementary functions, or much ado about
nothing's sign bit, in: The State of the Art in Numerical Analysis, Oxford 1987. There are no ops
here. The signs of zeros select the sides of branch cuts, so real and imaginary parts are kept apart
where 1 - z would lose them.
"""

from __future__ import annotations

import math

from pullback.ops import arithmetic, late
from pullback.ops.arithmetic import sign
from pullback.ops.calculus import where
from pullback.ops.comparison import isinf, isnan
from pullback.ops.exponential import exp, log1p, sqrt
from pullback.ops.rounding import copysign
from pullback.tensor import Tensor

__all__: list[str] = []

#: tanh(x) is 1 from here on, and exp(4 x) is still far from overflow.
_WIDE = 20.0


def _parts(z: Tensor) -> tuple[Tensor, Tensor]:
    return late.real(z), late.imag(z)


def _roots(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The real and imaginary parts of sqrt(1 - z) and of sqrt(1 + z)."""
    minus, plus = (_parts(sqrt(late.complex(*z))) for z in ((1 - x, -y), (1 + x, y)))
    return (*minus, *plus)


def asin(z: Tensor) -> Tensor:
    """The arcsine."""
    x, y = _parts(z)
    a, b, c, d = _roots(x, y)
    infinite = isinf(z)
    across = where(infinite, arithmetic.abs(y), a * c - b * d)
    imag = where(infinite, copysign(math.inf, y), late.asinh(a * d - b * c))
    return late.complex(late.atan2(x, across), imag)


def acos(z: Tensor) -> Tensor:
    """The arccosine."""
    a, b, c, d = _roots(*_parts(z))
    return late.complex(2 * late.atan2(a, c), late.asinh(b * c - a * d))


def acosh(z: Tensor) -> Tensor:
    """The inverse of cosh."""
    x, y = _parts(z)
    a, b = _parts(sqrt(late.complex(x - 1, y)))
    c, d = _parts(sqrt(late.complex(x + 1, y)))
    return late.complex(late.asinh(a * c + b * d), 2 * late.atan2(b, c))


def asinh(z: Tensor) -> Tensor:
    """The inverse of sinh: i asin(-i z)."""
    x, y = _parts(z)
    rotated = asin(late.complex(y, -x))
    return late.complex(-late.imag(rotated), late.real(rotated))


def atanh(z: Tensor) -> Tensor:
    """The inverse of tanh."""
    return late.complex(*_atanh(*_parts(z)))


def atan(z: Tensor) -> Tensor:
    """The arctangent: -i atanh(i z)."""
    x, y = _parts(z)
    real, imag = _atanh(-y, x)
    return late.complex(imag, -real)


def _atanh(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    size = arithmetic.abs(x)
    away = 1 - size
    real = log1p(4 * size / (away * away + y * y)) * 0.25
    imag = late.atan2(2 * y, away * (1 + size) - y * y) * 0.5
    # At infinity the real part is 0, whatever y is, and the other a right angle.
    infinite = isinf(x) | isinf(y)
    real = where(infinite | (size == 0), 0, real)
    right = where(isnan(y), y, copysign(math.pi / 2, y))
    return copysign(real, x), where(infinite, right, imag)


def sinh(z: Tensor) -> Tensor:
    """sinh(x) cos(y) + i cosh(x) sin(y)."""
    x, y = _parts(z)
    imag = where(y == 0, y, late.cosh(x) * late.sin(y))
    return late.complex(late.sinh(x) * late.cos(y), imag)


def cosh(z: Tensor) -> Tensor:
    """cosh(x) cos(y) + i sinh(x) sin(y)."""
    x, y = _parts(z)
    finite = where(isinf(x), sign(x), x)
    imag = where((x == 0) | (y == 0), finite * y, late.sinh(x) * late.sin(y))
    return late.complex(late.cosh(x) * late.cos(y), imag)


def tan(z: Tensor) -> Tensor:
    """The tangent: -i tanh(i z)."""
    x, y = _parts(z)
    real, imag = _tanh(-y, x)
    return late.complex(imag, -real)


def tanh(z: Tensor) -> Tensor:
    """The hyperbolic tangent."""
    return late.complex(*_tanh(*_parts(z)))


def _tanh(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    size = arithmetic.abs(x)
    far = size > _WIDE
    inner = where(far, 0, x)
    t, s = late.tan(y), late.sinh(inner)
    slope = 1 + t * t
    below = 1 + slope * s * s
    real = where(far, sign(x), slope * late.cosh(inner) * s / below)
    tail = 4 * late.sin(y) * late.cos(y) * exp(-2 * size)
    return real, where(far & (size < math.inf), tail, where(far, copysign(0 * inner, y), t / below))
