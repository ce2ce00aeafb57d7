"""Rounding, signs, and neighboring floating-point numbers."""

from __future__ import annotations

from pullback import dtypes
from pullback._dispatch import op
from pullback.dtypes import is_complex, is_floating, numeric, promoting, real, real_floating
from pullback.ops import late
from pullback.ops.arithmetic import positive, remainder, sign
from pullback.ops.calculus import where, zeros
from pullback.ops.comparison import isfinite
from pullback.shapes import broadcast
from pullback.spec import EXACT
from pullback.tensor import Tensor

__all__ = ["ceil", "copysign", "floor", "nextafter", "round", "signbit", "trunc"]


@op(shape=broadcast, dtype=real, accuracy=EXACT)
def floor(x: Tensor, /) -> Tensor:
    """The largest integer not above x, in the dtype of x. The gradient is 0.

    >>> pb.floor([-1.5, 1.5]).tolist()
    [-2.0, 1.0]
    """
    if not is_floating(x.dtype):
        return positive(x)
    return where(isfinite(x), x - remainder(x, 1), x)


floor.vjp(x=lambda g: zeros(g))


@op(shape=broadcast, dtype=real, accuracy=EXACT)
def ceil(x: Tensor, /) -> Tensor:
    """The smallest integer not below x, in the dtype of x. The gradient is 0.

    >>> pb.ceil([-1.5, 1.5]).tolist()
    [-1.0, 2.0]
    """
    return -floor(-x)


ceil.vjp(x=lambda g: zeros(g))


@op(shape=broadcast, dtype=real, accuracy=EXACT)
def trunc(x: Tensor, /) -> Tensor:
    """x without its fractional part, in the dtype of x. The gradient is 0.

    >>> pb.trunc([-1.5, 1.5]).tolist()
    [-1.0, 1.0]
    """
    return where(x < 0, ceil(x), floor(x))


trunc.vjp(x=lambda g: zeros(g))


@op(shape=broadcast, dtype=numeric, accuracy=EXACT)
def round(x: Tensor, /) -> Tensor:
    """The nearest integer, with ties to even; complex numbers are rounded part by part.

    The gradient is 0.

    >>> pb.round([0.5, 1.5, 2.4]).tolist()
    [0.0, 2.0, 2.0]
    """
    if is_complex(x.dtype):
        return late.complex(round(late.real(x)), round(late.imag(x)))
    if not is_floating(x.dtype):
        return positive(x)
    below = floor(x)
    fraction = x - below
    half_of_it = below * 0.5
    odd = floor(half_of_it) != half_of_it
    # A result of 0 keeps the sign.
    return copysign(where((fraction > 0.5) | ((fraction == 0.5) & odd), below + 1, below), x)


round.vjp(x=lambda g: zeros(g))


_sign_of_float = promoting("real floating", to=dtypes.bool_)


@op(
    shape=broadcast,
    dtype=_sign_of_float,
    accuracy=EXACT,
    differentiable=False,
    primitive="No comparison and no quotient shows the sign of a NaN.",
)
def signbit(x: Tensor, /) -> Tensor:
    """Returns True where the sign bit of x is set, that of -0.0 and NaN included.

    >>> pb.signbit([1.0, -0.0]).tolist()
    [False, True]
    """


@op(shape=broadcast, dtype=real_floating, accuracy=EXACT)
def copysign(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The absolute value of x1 with the sign of x2, that of -0.0 included.

    >>> pb.copysign([1.0, -2.0], -0.0).tolist()
    [-1.0, -2.0]
    """
    return where(signbit(x1) == signbit(x2), x1, -x1)


copysign.vjp(x1=lambda g, x1, out: g * (sign(x1) * sign(out)), x2=lambda g: zeros(g))


@op(
    shape=broadcast,
    dtype=real_floating,
    accuracy=EXACT,
    primitive="Its result differs from x1 in the last bit, which rounded arithmetic cannot reach.",
)
def nextafter(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The next number of the dtype after x1, towards x2.

    >>> pb.nextafter(1.0, 2.0) - 1
    Tensor(1.1920929e-07, shape=(), dtype=float32, device=cpu:0)
    """


nextafter.vjp(x1=lambda g: g, x2=lambda g: zeros(g))
