"""Trigonometric and hyperbolic functions, and the hypotenuse."""

from __future__ import annotations

import math

from pullback._dispatch import op
from pullback.dtypes import float32, floating, is_complex, real_floating
from pullback.ops import complex_trigonometry, late, rounding
from pullback.ops.arithmetic import abs, maximum, minimum, sign
from pullback.ops.calculus import over, where
from pullback.ops.exponential import exp, expm1, log, log1p, sqrt
from pullback.ops.precision import narrowed, widened
from pullback.shapes import broadcast
from pullback.spec import FEW_ULP
from pullback.tensor import Tensor

__all__ = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cos",
    "cosh",
    "hypot",
    "sin",
    "sinh",
    "tan",
    "tanh",
]


@op(
    shape=broadcast,
    dtype=floating,
    accuracy=FEW_ULP,
    primitive="Reducing a large angle needs more digits of pi than any dtype has.",
)
def sin(x: Tensor, /) -> Tensor:
    """The sine of x in radians.

    >>> pb.sin(0.0)
    Tensor(0., shape=(), dtype=float32, device=cpu:0)
    """


@op(
    shape=broadcast,
    dtype=floating,
    accuracy=FEW_ULP,
    primitive="As for sin; sin(x + pi / 2) loses digits of x, and all of them near zeros of cos.",
)
def cos(x: Tensor, /) -> Tensor:
    """The cosine of x in radians.

    >>> pb.cos(0.0)
    Tensor(1., shape=(), dtype=float32, device=cpu:0)
    """


sin.vjp(x=lambda g, x: g * cos(x))
cos.vjp(x=lambda g, x: -g * sin(x))


@op(shape=broadcast, dtype=floating, accuracy=FEW_ULP)
def tan(x: Tensor, /) -> Tensor:
    """The tangent of x in radians.

    >>> pb.tan(0.0)
    Tensor(0., shape=(), dtype=float32, device=cpu:0)
    """
    if is_complex(x.dtype):
        return complex_trigonometry.tan(x)
    wide = widened(x)
    return narrowed(sin(wide) / cos(wide), x)


tan.vjp(x=lambda g, out: g * (1 + out * out))


@op(shape=broadcast, dtype=floating, accuracy=FEW_ULP)
def asin(x: Tensor, /) -> Tensor:
    """The angle in [-pi/2, pi/2] whose sine is x; NaN outside [-1, 1].

    >>> pb.asin([0.0, 1.0]).tolist()
    [0.0, 1.5707963705062866]
    """
    if is_complex(x.dtype):
        return complex_trigonometry.asin(x)
    wide = widened(x)
    return narrowed(atan2(wide, sqrt((1 - wide) * (1 + wide))), x)


asin.vjp(x=lambda g, x: over(g, sqrt(1 - x) * sqrt(1 + x)))


@op(shape=broadcast, dtype=floating, accuracy=FEW_ULP)
def acos(x: Tensor, /) -> Tensor:
    """The angle in [0, pi] whose cosine is x; NaN outside [-1, 1].

    >>> pb.acos([1.0, 0.0]).tolist()
    [0.0, 1.5707963705062866]
    """
    if is_complex(x.dtype):
        return complex_trigonometry.acos(x)
    wide = widened(x)
    return narrowed(2 * atan2(sqrt(1 - wide), sqrt(1 + wide)), x)


acos.vjp(x=lambda g, x: over(-g, sqrt(1 - x) * sqrt(1 + x)))


@op(shape=broadcast, dtype=floating, accuracy=FEW_ULP)
def atan(x: Tensor, /) -> Tensor:
    """The angle in [-pi/2, pi/2] whose tangent is x.

    >>> pb.atan([0.0, 1.0]).tolist()
    [0.0, 0.7853981852531433]
    """
    if is_complex(x.dtype):
        return complex_trigonometry.atan(x)
    return late.atan2(x, 1)


@atan.vjp("x")
def _(g: Tensor, x: Tensor) -> Tensor:
    if is_complex(x.dtype):
        return over(g, 1 + x * x)
    radius = late.hypot(1, x)
    return g / radius / radius


# Right triangles ----------------------------------------------------------------------------------


@op(shape=broadcast, dtype=real_floating, accuracy=FEW_ULP)
def hypot(x1: Tensor, x2: Tensor, /) -> Tensor:
    """sqrt(x1**2 + x2**2) without overflow. The gradient at the origin is 0.

    >>> pb.hypot(3.0, 4.0)
    Tensor(5., shape=(), dtype=float32, device=cpu:0)
    """
    x1, x2 = abs(x1), abs(x2)
    longer, shorter = maximum(x1, x2), minimum(x1, x2)
    # If one side is infinite, or both are 0, the ratio would be NaN.
    plain = (longer > 0) & (longer < math.inf)
    ratio = where(plain, shorter, 0) / where(plain, longer, 1)
    infinite = (x1 == math.inf) | (x2 == math.inf)
    return where(infinite, math.inf, longer * sqrt(1 + ratio * ratio))


def _cosine(x: Tensor, radius: Tensor) -> Tensor:
    """x / radius: 0 at the origin; at infinity 0, or the sign of an infinite x."""
    special = (radius == 0) | (radius == math.inf)
    at_infinity = where(abs(x) == math.inf, sign(x), 0)
    return where(special, at_infinity, x) / where(special, 1, radius)


hypot.vjp(x1=lambda g, x1, out: g * _cosine(x1, out), x2=lambda g, x2, out: g * _cosine(x2, out))


@op(
    shape=broadcast,
    dtype=real_floating,
    accuracy=FEW_ULP,
    primitive="No other op gives angles: all inverse functions are made of it.",
)
def atan2(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The angle in [-pi, pi] of the point with ordinate x1 and abscissa x2.

    The gradient at the origin and at infinity is 0.

    >>> pb.atan2([0.0, 1.0], [1.0, 0.0]).tolist()
    [0.0, 1.5707963705062866]
    """


def _per_radius(x: Tensor, x1: Tensor, x2: Tensor) -> Tensor:
    """x / (x1**2 + x2**2), and 0 at the origin and at infinity."""
    radius = hypot(x1, x2)
    off = (radius == 0) | (radius == math.inf)
    radius = where(off, 1, radius)
    return where(off, 0, x) / radius / radius


atan2.vjp(
    x1=lambda g, x1, x2: g * _per_radius(x2, x1, x2),
    x2=lambda g, x1, x2: -g * _per_radius(x1, x1, x2),
)


# Hyperbolic functions -----------------------------------------------------------------------------


_LOG_2 = math.log(2)
#: From here on exp(x) + exp(-x) rounds to exp(x), in float64 too.
_WIDE = 22.0
#: From here on x**2 + 1 rounds to x**2, in float64 too.
_HUGE = 1e9


def copysign(size: Tensor, x: Tensor) -> Tensor:
    """`size` with the sign of x: the op, for families before its own."""
    return rounding.copysign(size, x.astype(size.dtype))


def _half_exp(size: Tensor) -> Tensor:
    """exp(size) / 2 for large sizes, for which exp(size) may overflow."""
    shift = 64 if size.dtype == float32 else 512
    far = size > shift
    # The difference is exact.
    part = exp(where(far, size - shift, size))
    return where(far, part * (math.exp(shift) / 2), part * 0.5)


@op(shape=broadcast, dtype=floating, accuracy=FEW_ULP)
def sinh(x: Tensor, /) -> Tensor:
    """The hyperbolic sine.

    >>> pb.sinh(0.0)
    Tensor(0., shape=(), dtype=float32, device=cpu:0)
    """
    if is_complex(x.dtype):
        return complex_trigonometry.sinh(x)
    size = abs(widened(x))
    e = expm1(where(size > _WIDE, _WIDE, size))
    near = (e + e / (1 + e)) * 0.5
    return narrowed(copysign(where(size > _WIDE, _half_exp(size), near), x), x)


@op(shape=broadcast, dtype=floating, accuracy=FEW_ULP)
def cosh(x: Tensor, /) -> Tensor:
    """The hyperbolic cosine.

    >>> pb.cosh(0.0)
    Tensor(1., shape=(), dtype=float32, device=cpu:0)
    """
    if is_complex(x.dtype):
        return complex_trigonometry.cosh(x)
    size = abs(widened(x))
    e = exp(where(size > _WIDE, _WIDE, size))
    near = (e + 1 / e) * 0.5
    return narrowed(where(size > _WIDE, _half_exp(size), near), x)


sinh.vjp(x=lambda g, x: g * cosh(x))
cosh.vjp(x=lambda g, x: g * sinh(x))


@op(shape=broadcast, dtype=floating, accuracy=FEW_ULP)
def tanh(x: Tensor, /) -> Tensor:
    """The hyperbolic tangent.

    >>> pb.tanh([0.0, 100.0]).tolist()
    [0.0, 1.0]
    """
    if is_complex(x.dtype):
        return complex_trigonometry.tanh(x)
    size = abs(widened(x))
    e = expm1(2 * where(size > _WIDE, _WIDE, size))
    return narrowed(copysign(e / (e + 2), x), x)


@op(shape=broadcast, dtype=floating, accuracy=FEW_ULP, public=False)
def tanh_gradient(g: Tensor, out: Tensor, /) -> Tensor:
    """The gradient of `tanh`, g * (1 - out**2), from its result `out`.

    >>> pb.ops.tanh_gradient([2.0, 2.0], [0.5, 1.0]).tolist()
    [1.5, 0.0]
    """
    g, y = widened(g), widened(out)
    # Both differences are exact where they are small; 1 - y * y loses digits there.
    return narrowed(g * ((1 - y) * (1 + y)), out)


tanh.vjp(x=lambda g, out: tanh_gradient(g, out))
tanh_gradient.vjp(
    g=lambda h, out: tanh_gradient(h, out), out=lambda h, g, out: h * (g * (out * -2))
)


@op(shape=broadcast, dtype=floating, accuracy=FEW_ULP)
def asinh(x: Tensor, /) -> Tensor:
    """The inverse hyperbolic sine.

    >>> pb.asinh([0.0, -3000.0]).tolist()
    [0.0, -8.699514389038086]
    """
    if is_complex(x.dtype):
        return complex_trigonometry.asinh(x)
    size = abs(widened(x))
    far = size > _HUGE
    near = where(far, 1, size)
    near = log1p(near + near * near / (1 + late.hypot(1, near)))
    return narrowed(copysign(where(far, log(where(far, size, 1)) + _LOG_2, near), x), x)


@asinh.vjp("x")
def _(g: Tensor, x: Tensor) -> Tensor:
    return over(g, sqrt(1 + x * x) if is_complex(x.dtype) else late.hypot(1, x))


@op(shape=broadcast, dtype=floating, accuracy=FEW_ULP)
def acosh(x: Tensor, /) -> Tensor:
    """The inverse hyperbolic cosine; NaN below 1.

    >>> pb.acosh(1.0)
    Tensor(0., shape=(), dtype=float32, device=cpu:0)
    """
    if is_complex(x.dtype):
        return complex_trigonometry.acosh(x)
    wide = widened(x)
    far = wide > _HUGE
    above = where(far, 2, wide) - 1
    near = log1p(above + sqrt(above) * sqrt(above + 2))
    return narrowed(where(far, log(where(far, wide, 1)) + _LOG_2, near), x)


acosh.vjp(x=lambda g, x: over(over(g, sqrt(x - 1)), sqrt(x + 1)))


@op(shape=broadcast, dtype=floating, accuracy=FEW_ULP)
def atanh(x: Tensor, /) -> Tensor:
    """The inverse hyperbolic tangent: infinite at -1 and 1, NaN beyond.

    >>> pb.atanh([0.0, 0.5]).tolist()
    [0.0, 0.5493061542510986]
    """
    if is_complex(x.dtype):
        return complex_trigonometry.atanh(x)
    size = abs(widened(x))
    return narrowed(copysign(log1p(2 * size / (1 - size)) * 0.5, x), x)


atanh.vjp(x=lambda g, x: over(g, (1 - x) * (1 + x)))
