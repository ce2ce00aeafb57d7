"""Exponentials, logarithms and roots."""

from __future__ import annotations

import math

from pullback._dispatch import op
from pullback.dtypes import (
    Operands,
    Resolution,
    each,
    float16,
    float64,
    floating,
    int32,
    is_complex,
    real_floating,
)
from pullback.ops import late
from pullback.ops.arithmetic import abs, clip, maximum, minimum, pow
from pullback.ops.calculus import over, where
from pullback.ops.comparison import isfinite
from pullback.ops.creation import full, full_like
from pullback.ops.precision import narrowed, widened
from pullback.shapes import Shape, broadcast
from pullback.spec import ACCUMULATED, EXACT, FEW_ULP, ROUNDED
from pullback.tensor import Tensor

__all__ = [
    "cbrt",
    "exp",
    "exp2",
    "expm1",
    "frexp",
    "ldexp",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logaddexp2",
    "rsqrt",
    "sqrt",
]


@op(
    shape=broadcast,
    dtype=floating,
    accuracy=FEW_ULP,
    primitive="Powers of a rounded e magnify its error, and a polynomial must set exponent bits.",
)
def exp(x: Tensor, /) -> Tensor:
    """e to the power of x.

    >>> pb.exp([0.0, 1.0]).tolist()
    [1.0, 2.7182817459106445]
    """


exp.vjp(x=lambda g, out: g * out)


@op(shape=broadcast, dtype=real_floating, accuracy=FEW_ULP)
def exp2(x: Tensor, /) -> Tensor:
    """2 to the power of x.

    >>> pb.exp2([-1.0, 0.0, 3.0]).tolist()
    [0.5, 1.0, 8.0]
    """
    return pow(full((), 2, dtype=x.dtype, device=x.device), x)


exp2.vjp(x=lambda g, out: g * (out * math.log(2)))


@op(shape=broadcast, dtype=floating, accuracy=FEW_ULP)
def expm1(x: Tensor, /) -> Tensor:
    """exp(x) - 1, accurate for small x.

    W. Kahan's method; see N. J. Higham, Accuracy and Stability of Numerical Algorithms, 1.14.1.

    >>> pb.expm1(1e-10)
    Tensor(1.e-10, shape=(), dtype=float32, device=cpu:0)
    """
    if is_complex(x.dtype):
        a, b = late.real(x), late.imag(x)
        # exp(a) cos(b) - 1, without subtracting numbers near 1.
        half = late.sin(b * 0.5)
        real = expm1(a) * late.cos(b) - 2 * half * half
        accurate = late.complex(real, exp(a) * late.sin(b))
        return where(isfinite(x), accurate, exp(x) - 1)
    wide = widened(x)
    near = abs(wide) < 8
    # (u - 1) / log(u) varies slowly, so the error of exp does not matter.
    small = where(near, wide, 1)
    u = exp(small)
    is_one = u == 1
    small = where(is_one, small, (u - 1) * (small / log(where(is_one, 2, u))))
    return narrowed(where(near, small, exp(wide) - 1), x)


expm1.vjp(x=lambda g, x: g * exp(x))


@op(
    shape=broadcast,
    dtype=floating,
    accuracy=FEW_ULP,
    primitive="A polynomial for it must read the exponent bits of x.",
)
def log(x: Tensor, /) -> Tensor:
    """The natural logarithm: -inf at 0, NaN for negative numbers.

    The branch cut for complex numbers is the negative real axis.

    >>> pb.log([1.0, 10.0]).tolist()
    [0.0, 2.3025851249694824]
    """


log.vjp(x=lambda g, x: over(g, x))


@op(shape=broadcast, dtype=floating, accuracy=FEW_ULP)
def log1p(x: Tensor, /) -> Tensor:
    """log(1 + x), accurate for small x.

    D. Goldberg, What every computer scientist should know about floating-point arithmetic, ACM
    Computing Surveys 23 (1991), theorem 4.

    >>> pb.log1p(1e-10)
    Tensor(1.e-10, shape=(), dtype=float32, device=cpu:0)
    """
    if is_complex(x.dtype):
        a, b = late.real(x), late.imag(x)
        small = 0.5 * log1p(a * (2 + a) + b * b)
        size = where(abs(x) < 0.5, small, log(late.hypot(1 + a, b)))
        return late.complex(size, late.atan2(b, 1 + a))
    wide = widened(x)
    near = abs(wide) < 1
    small = where(near, wide, 1)
    u = 1 + small
    exact = u - 1  # the part of x that is in u
    is_zero = exact == 0
    small = where(is_zero, small, log(u) * (small / where(is_zero, 1, exact)))
    return narrowed(where(near, small, log(1 + wide)), x)


log1p.vjp(x=lambda g, x: over(g, 1 + x))


def _divided(y: Tensor, base: float, x: Tensor) -> Tensor:
    """y / base in the dtype of x, part by part: a complex quotient makes infinite parts NaN."""
    if is_complex(y.dtype):
        return late.complex(late.real(y) / base, late.imag(y) / base)
    return narrowed(y / base, x)


@op(shape=broadcast, dtype=floating, accuracy=FEW_ULP)
def log2(x: Tensor, /) -> Tensor:
    """The logarithm to the base 2.

    >>> pb.log2([1.0, 8.0]).tolist()
    [0.0, 3.0]
    """
    return _divided(log(widened(x)), math.log(2), x)


log2.vjp(x=lambda g, x: over(g, x * math.log(2)))


@op(shape=broadcast, dtype=floating, accuracy=FEW_ULP)
def log10(x: Tensor, /) -> Tensor:
    """The logarithm to the base 10.

    >>> pb.log10([1.0, 100.0]).tolist()
    [0.0, 2.0]
    """
    return _divided(log(widened(x)), math.log(10), x)


log10.vjp(x=lambda g, x: over(g, x * math.log(10)))


def _difference(x1: Tensor, x2: Tensor) -> Tensor:
    """x1 - x2, and 0 for equal infinities."""
    equal_infinities = (x1 == x2) & (abs(x1) == math.inf)
    return where(equal_infinities, 0, x1 - x2)


# ACCUMULATED: a sum of two terms that may cancel; near 0 it has their absolute error.
@op(shape=broadcast, dtype=real_floating, accuracy=ACCUMULATED)
def logaddexp(x1: Tensor, x2: Tensor, /) -> Tensor:
    """log(exp(x1) + exp(x2)), without overflow.

    >>> pb.logaddexp(1000.0, 1000.0)
    Tensor(1000.6931, shape=(), dtype=float32, device=cpu:0)
    """
    return maximum(x1, x2) + log1p(exp(-abs(_difference(x1, x2))))


def share(x1: Tensor, x2: Tensor, out: Tensor) -> Tensor:
    """exp(x1) / (exp(x1) + exp(x2)): at most 1, and 0 where both terms are 0."""
    return where(out == -math.inf, 0, late.sigmoid(_difference(x1, x2)))


logaddexp.vjp(
    x1=lambda g, x1, x2, out: g * share(x1, x2, out),
    x2=lambda g, x1, x2, out: g * share(x2, x1, out),
)


# ACCUMULATED, as logaddexp.
@op(shape=broadcast, dtype=real_floating, accuracy=ACCUMULATED)
def logaddexp2(x1: Tensor, x2: Tensor, /) -> Tensor:
    """log2(2**x1 + 2**x2), without overflow.

    >>> pb.logaddexp2(1000.0, 1000.0)
    Tensor(1001., shape=(), dtype=float32, device=cpu:0)
    """
    smaller = log1p(exp2(-abs(_difference(x1, x2))))
    return maximum(x1, x2) + smaller / math.log(2)


def _binary_share(x1: Tensor, x2: Tensor, out: Tensor) -> Tensor:
    """2**x1 / (2**x1 + 2**x2): at most 1, and 0 where both terms are 0."""
    return where(out == -math.inf, 0, late.sigmoid(_difference(x1, x2) * math.log(2)))


logaddexp2.vjp(
    x1=lambda g, x1, x2, out: g * _binary_share(x1, x2, out),
    x2=lambda g, x1, x2, out: g * _binary_share(x2, x1, out),
)


# Roots --------------------------------------------------------------------------------------------


@op(
    shape=broadcast,
    dtype=floating,
    accuracy=ROUNDED,
    primitive="It is correctly rounded; x ** 0.5 is not.",
)
def sqrt(x: Tensor, /) -> Tensor:
    """The square root: NaN for negative numbers; complex results have no negative real part.

    >>> pb.sqrt([0.0, 4.0, 9.0]).tolist()
    [0.0, 2.0, 3.0]
    """


sqrt.vjp(x=lambda g, out: over(g * 0.5, out))


@op(shape=broadcast, dtype=floating, accuracy=FEW_ULP)
def rsqrt(x: Tensor, /) -> Tensor:
    """The reciprocal square root 1 / sqrt(x): NaN for negative numbers, infinite at 0.

    >>> pb.rsqrt([0.25, 1.0, 4.0]).tolist()
    [2.0, 1.0, 0.5]
    """
    return narrowed(1 / sqrt(widened(x)), x)


rsqrt.vjp(x=lambda g, x, out: over(g * -0.5, x / out))


@op(shape=broadcast, dtype=real_floating, accuracy=FEW_ULP)
def cbrt(x: Tensor, /) -> Tensor:
    """The real cube root, that of negative numbers negative.

    >>> pb.cbrt([8.0, -27.0]).tolist()
    [2.0, -3.0]
    """
    size = abs(widened(x))
    plain = (size > 0) & (size < math.inf)
    safe = where(plain, size, 1)
    # 1/3 is rounded, by which a power of a large or small number is off. Newton's step mends it.
    root = safe ** (1 / 3)
    root = root - (root - safe / (root * root)) / 3
    return narrowed(late.copysign(where(plain, root, size), widened(x)), x)


cbrt.vjp(x=lambda g, out: over(g, 3 * out * out))


# Powers of two ------------------------------------------------------------------------------------


def _scaled(operands: Operands, **_: object) -> Resolution:
    """A floating x1, integers as the default floating dtype, and an integer x2."""
    inputs, outputs = real_floating(operands[:1])
    return Resolution((*inputs, *each("integer")(operands[1:]).inputs), outputs)


@op(shape=broadcast, dtype=_scaled, accuracy=ROUNDED)
def ldexp(x1: Tensor, x2: Tensor, /) -> Tensor:
    """x1 times 2 to the power of the integer x2, rounded once: the power itself may be infinite.

    >>> pb.ldexp([0.75, -1.0], [2, -1]).tolist()
    [3.0, -0.5]
    """
    # 2 ** -least is the smallest normal number. Three factors reach from any number to any other.
    least = {float16: 14, float64: 1022}.get(x1.dtype, 126)
    limit = 3 * least
    if x2.dtype.itemsize >= 4:
        x2 = minimum(x2, limit) if x2.dtype.kind == "u" else clip(x2, -limit, limit)
    rest = clip(x2.astype(int32), -limit, limit)
    factors = []
    for _ in range(3):
        part = clip(rest, -least, least)
        factors.append(_power_of_two(part, least, x1))
        rest = rest - part
    # The last part comes first: a product that loses digits is the last one, or one before a whole
    # 2 ** -least, which makes 0 of it.
    return x1 * factors[2] * factors[1] * factors[0]


def _power_of_two(exponent: Tensor, least: int, like: Tensor) -> Tensor:
    """2 ** exponent, exactly, for integers from -least to least, in the dtype of `like`."""
    size = abs(exponent)
    power = full((), 1, dtype=like.dtype, device=like.device)
    for bit in range(least.bit_length()):
        power = power * where((size & (1 << bit)) != 0, full_like(power, 2.0 ** (1 << bit)), 1)
    return where(exponent < 0, 1 / power, power)


ldexp.vjp(x1=lambda g, x2: ldexp(g, x2), x2=None)


def _with_exponent(operands: Operands, **_: object) -> Resolution:
    """The mantissa in the floating dtype of x, the exponent in int32."""
    inputs, outputs = real_floating(operands)
    return Resolution(inputs, (*outputs, int32))


def _twice(x: Shape) -> list[Shape]:
    """Two results of the shape of x."""
    return [x, x]


@op(shape=_twice, dtype=_with_exponent, accuracy=EXACT, outputs=("mantissa", "exponent"))
def frexp(x: Tensor, /) -> tuple[Tensor, Tensor]:
    """The mantissa, of a size in [0.5, 1), and the exponent: x = mantissa * 2**exponent.

    Zeros, infinities and NaN are their own mantissa, with the exponent 0.

    >>> mantissa, exponent = pb.frexp([3.0, -0.25])
    >>> mantissa.tolist(), exponent.tolist()
    ([0.75, -0.5], [2, -1])
    """
    wide = widened(x)
    size = abs(wide)
    plain = (size > 0) & (size < math.inf)
    size = where(plain, size, 0.5)
    exponent = full(x.shape, 0, dtype=int32, device=x.device)
    largest = 9 if wide.dtype.itemsize == 8 else 6
    # Twice the largest step, then each half of the one before: as far as the smallest numbers.
    for power in (largest, *range(largest, -1, -1)):
        step = 2**power
        large, small = size >= 2.0**step, size < 2.0**-step
        size = where(large, size * 2.0**-step, where(small, size * 2.0**step, size))
        exponent = exponent + where(large, step, where(small, -step, 0))
    large = size >= 1
    size = where(large, size * 0.5, size)
    exponent = where(plain, exponent + large.astype(int32), 0)
    return where(plain, narrowed(late.copysign(size, wide), x), x), exponent
