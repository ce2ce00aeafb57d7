"""Elementwise arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable

from pullback._dispatch import op
from pullback._numerics import division
from pullback.dtypes import (
    INTEGER,
    DType,
    Operands,
    Resolution,
    float32,
    floating,
    integer,
    is_complex,
    is_floating,
    numeric,
    ordered,
    real,
    real_of,
    same,
    uniform,
)
from pullback.ops import late
from pullback.ops.calculus import NAMESPACE, over, where, zeros
from pullback.ops.precision import narrowed, widened
from pullback.shapes import broadcast
from pullback.spec import EXACT, FEW_ULP, ROUNDED, NumberForm
from pullback.tensor import Tensor

__all__ = [
    "abs",
    "add",
    "clip",
    "divide",
    "floor_divide",
    "fmod",
    "heaviside",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "positive",
    "pow",
    "reciprocal",
    "remainder",
    "sign",
    "square",
    "subtract",
]


@op(shape=broadcast, dtype=numeric, accuracy=ROUNDED, primitive="No other op adds two numbers.")
def add(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The elementwise sum of x1 and x2.

    >>> pb.add([1, 2], 3).tolist()
    [4, 5]
    """


add.vjp(x1=lambda g: g, x2=lambda g: g)


@op(shape=broadcast, dtype=numeric, accuracy=ROUNDED)
def subtract(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The elementwise difference x1 - x2.

    >>> pb.subtract([1, 2], 3).tolist()
    [-2, -1]
    """
    return x1 + -x2


subtract.vjp(x1=lambda g: g, x2=lambda g: -g)


@op(
    shape=broadcast,
    dtype=same,
    accuracy=ROUNDED,
    identity_element=1,
    primitive="exp(log(x1) + log(x2)) rounds more than once and takes neither signs nor integers.",
)
def multiply(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The elementwise product of x1 and x2; of two booleans, whether both are True.

    >>> pb.multiply([1, 2], 3).tolist()
    [3, 6]
    >>> pb.multiply([True, True], [True, False]).tolist()
    [True, False]
    """


multiply.vjp(x1=lambda g, x2: g * x2, x2=lambda g, x1: g * x1)


@op(
    shape=broadcast,
    dtype=floating,
    accuracy=ROUNDED,
    primitive="A product with a reciprocal rounds twice, and a reciprocal is itself a quotient.",
)
def divide(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The elementwise quotient x1 / x2; integers give the default floating dtype.

    >>> pb.divide(6, 4)
    Tensor(1.5, shape=(), dtype=float32, device=cpu:0)
    """


divide.vjp(x1=lambda g, x2: g / x2, x2=lambda g, x2, out: -(g * out) / x2)


def _is_undefined(g: Tensor, slope: Tensor) -> Tensor:
    undefined: Tensor = (g == 0) & ((slope == 0) | (slope != slope))
    return undefined


@op(shape=broadcast, dtype=floating, accuracy=ROUNDED, public=False)
def slope_quotient(g: Tensor, slope: Tensor, /) -> Tensor:
    """g / slope, and 0 where g is 0 and the slope is 0 or NaN: gradients of inverse functions.

    >>> pb.ops.slope_quotient([0.0, 1.0], [0.0, 2.0]).tolist()
    [0.0, 0.5]
    """
    return g / where(_is_undefined(g, slope), 1, slope)


@slope_quotient.vjp("g")
def _(h: Tensor, g: Tensor, slope: Tensor) -> Tensor:
    return h / where(_is_undefined(g, slope), 1, slope)


@slope_quotient.vjp("slope")
def _(h: Tensor, g: Tensor, slope: Tensor, out: Tensor) -> Tensor:
    undefined = _is_undefined(g, slope)
    return where(undefined, 0, -(h * out) / where(undefined, 1, slope))


@op(
    shape=broadcast,
    dtype=numeric,
    accuracy=EXACT,
    primitive="0 - x is 0, not -0, at x = 0; a product with -1 takes no unsigned integers.",
)
def negative(x: Tensor, /) -> Tensor:
    """The elementwise negation -x.

    >>> pb.negative([1, -2]).tolist()
    [-1, 2]
    """


negative.vjp(x=lambda g: -g)


@op(shape=broadcast, dtype=numeric, accuracy=EXACT)
def positive(x: Tensor, /) -> Tensor:
    """The values of x: +x.

    >>> pb.positive([1, -2]).tolist()
    [1, -2]
    """
    # A second handle on the same buffer: assigning to one does not change the other.
    return x.__copy__()


positive.vjp(x=lambda g: g)


# Integer quotients -----------------------------------------------------------------


@op(
    shape=broadcast,
    dtype=integer,
    accuracy=EXACT,
    differentiable=False,
    primitive="No other op divides integers, and floats cannot represent all 64-bit integers.",
    public=False,
)
def integer_floor_divide(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The floor of the quotient of integers; 0 where x2 is 0.

    >>> pb.ops.integer_floor_divide([7, -7], 2).tolist()
    [3, -4]
    """


def _of_floats(form: Callable[[Tensor], Tensor]) -> NumberForm:
    """A form for a number on the right of a tensor of floats."""
    return lambda kind, dtype, left: (
        form if is_floating(dtype) and not left and kind in (int, float) else None
    )


# The floor of a quotient by 1 is exact, also of infinities and zeros.
@op(
    shape=broadcast,
    dtype=real,
    accuracy=EXACT,
    number_forms={1: _of_floats(lambda x: late.floor(x))},
)
def floor_divide(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The floor of x1 / x2, rounded once if it has more digits than the dtype.

    Infinite operands give floor(x1 / x2), where the quotient of a finite number by an infinite one
    is a zero (array API standard). An integer divided by 0 gives 0.

    >>> pb.floor_divide([7, -7], 2).tolist()
    [3, -4]
    """
    if not is_floating(x1.dtype):
        return integer_floor_divide(x1, x2)
    if x1.dtype.itemsize == 2:
        # A float32 quotient has enough digits for an exact floor; one too small for it is not 0.
        wide1, wide2 = widened(x1), widened(x2)
        wide = wide1 / wide2
        vanished = (wide == 0) & (wide1 != 0) & (abs(wide2) != float("inf"))
        below = vanished & ((wide1 < 0) != (wide2 < 0))
        return where(below, -1, late.floor(wide)).astype(x1.dtype)
    digits = 24 if x1.dtype == float32 else 53
    quotient: Tensor = division.floor_divide(NAMESPACE, x1, x2, digits)
    return quotient


floor_divide.vjp(x1=lambda g: zeros(g), x2=lambda g: zeros(g))


@op(
    shape=broadcast,
    dtype=real,
    accuracy=EXACT,
    primitive="It is exact when the quotient has more digits than the dtype; x1 - x2 * q is not.",
)
def remainder(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The exact x1 - x2 * floor(x1 / x2): it has the sign of x2, as in Python.

    The remainder of an integer divided by 0 is 0.

    >>> pb.remainder([7, -7], 3).tolist()
    [1, 2]
    """


remainder.vjp(x1=lambda g: g, x2=lambda g, x1, x2: -g * floor_divide(x1, x2))


@op(shape=broadcast, dtype=real, accuracy=EXACT)
def fmod(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The exact x1 - x2 * trunc(x1 / x2): it has the sign of x1, as in C.

    The remainder of an integer divided by 0 is 0.

    >>> pb.fmod([7, -7], 3).tolist()
    [1, -1]
    """
    if is_floating(x1.dtype):
        return late.copysign(remainder(abs(x1), abs(x2)), x1)
    rest = remainder(x1, x2)
    return where((rest != 0) & ((x1 < 0) != (rest < 0)), rest - x2, rest)


def _whole_quotient(x1: Tensor, x2: Tensor) -> Tensor:
    """trunc(x1 / x2)."""
    size = floor_divide(abs(x1), abs(x2))
    return where((x1 < 0) == (x2 < 0), size, -size)


fmod.vjp(x1=lambda g: g, x2=lambda g, x1, x2: -g * _whole_quotient(x1, x2))


# Powers -------------------------------------------------------------------------------------------


def _power(number: float, form: Callable[[Tensor], Tensor]) -> NumberForm:
    """The form of x ** number, and of 2 ** x."""

    def find(kind: type, dtype: DType, left: bool) -> Callable[[Tensor], Tensor] | None:
        if kind not in (int, float) or is_complex(dtype):
            return None
        if left:
            return late.exp2 if number == 2 and is_floating(dtype) else None
        whole = kind is int and number > 0 and dtype in INTEGER
        return form if whole or is_floating(dtype) else None

    return find


def _square(x: Tensor) -> Tensor:
    return square(x)


def _fixed(exponent: float) -> Callable[[Tensor], Tensor]:
    def power(x: Tensor) -> Tensor:
        return fixed_power(x, exponent=exponent)

    return power


#: Products of up to five factors round four times at most, which is the accuracy of `pow`. A part
#: that is infinite, or too small to have all digits, has the result beside it infinite or 0.
_POWERS = {
    1: _power(1, lambda x: positive(x)),
    2: _power(2, _square),
    -1: _power(-1, lambda x: 1 / x),
    **{number: _power(number, _fixed(float(number))) for number in (3, 4, 5, -2, 0.5, -0.5)},
}


@op(
    shape=broadcast,
    dtype=numeric,
    accuracy=FEW_ULP,
    number_forms=_POWERS,
    primitive="exp(x2 * log(x1)) magnifies the rounding of x2 * log(x1) and takes no integers.",
)
def pow(x1: Tensor, x2: Tensor, /) -> Tensor:
    """x1 to the power of x2. Anything to the power of 0 is 1.

    The gradient with respect to x2 is taken as 0 where x1 is 0.

    Raises:
        InputValueError: for an integer to a negative integer power, which is not an integer.

    >>> pb.pow([1.0, 2.0, 3.0], 2).tolist()
    [1.0, 4.0, 9.0]
    """


@pow.vjp("x1")
def _(g: Tensor, x1: Tensor, x2: Tensor) -> Tensor:
    # x2 x1^(x2 - 1), where 0 times 0^-1 is the slope of the constant 1. One exponent stays one
    # number, for which kernels have products and roots.
    constant = (x1 == 0) & (x2 == 0)
    return g * x2 * where(constant, 1, x1) ** (x2 - 1)


@pow.vjp("x2")
def _(g: Tensor, x1: Tensor, x2: Tensor, out: Tensor) -> Tensor:
    # out log(x1), which goes to 0 with out even if log(x1) is infinite.
    flat = (x1 == 0) | (out == 0)
    return g * where(flat, 0, out) * late.log(where(flat, 1, x1))


@op(shape=broadcast, dtype=numeric, accuracy=ROUNDED)
def square(x: Tensor, /) -> Tensor:
    """The square x * x.

    >>> pb.square([1, -2, 3]).tolist()
    [1, 4, 9]
    """
    return x * x


# Times 2 is exact, and g is often one number, repeated.
square.vjp(x=lambda g, x: x * (g * 2))


@op(shape=broadcast, dtype=numeric, accuracy=FEW_ULP, public=False)
def fixed_power(x: Tensor, /, *, exponent: float) -> Tensor:
    """x to the power of one of 3, 4, 5, -2, 0.5 and -0.5, as products, roots and reciprocals.

    >>> pb.ops.fixed_power([1.0, 2.0], exponent=3.0).tolist()
    [1.0, 8.0]
    """
    wide = widened(x)
    if exponent == 3:
        power = square(wide) * wide
    elif exponent == 4:
        power = square(square(wide))
    elif exponent == 5:
        power = square(square(wide)) * wide
    elif exponent == -2:
        # Not 1 / x**2: the square may be infinite where its reciprocal is a number.
        power = square(1 / wide)
    elif exponent in (0.5, -0.5):
        # The power of -0 is that of 0, and the power of -inf that of inf, unlike the root.
        root = where(wide == -math.inf, math.inf, late.sqrt(wide) + 0.0)
        power = root if exponent == 0.5 else 1 / root
    else:
        raise ValueError(f"exponent is {exponent}, which has no form; write x ** {exponent}")
    return narrowed(power, x)


@fixed_power.vjp("x")
def _(g: Tensor, x: Tensor, out: Tensor, exponent: float) -> Tensor:
    if exponent == 0.5:
        return over(g * 0.5, out)
    if exponent == -0.5:
        return g * (-0.5 * out**3)
    if exponent == -2:
        return g * (-2 * out / x)
    return g * (exponent * x ** (exponent - 1))


@op(shape=broadcast, dtype=floating, accuracy=ROUNDED)
def reciprocal(x: Tensor, /) -> Tensor:
    """The reciprocal 1 / x; integers give the default floating dtype.

    >>> pb.reciprocal([1.0, 2.0, 4.0]).tolist()
    [1.0, 0.5, 0.25]
    """
    return 1 / x


reciprocal.vjp(x=lambda g, out: -(g * out) * out)


# Size and sign ------------------------------------------------------------------------------------


@uniform
def _modulus(operands: Operands, **_: object) -> Resolution:
    """Numeric inputs; the result has the real dtype of their parts."""
    inputs, (dtype,) = numeric(operands)
    return Resolution(inputs, (real_of(dtype),))


# FEW_ULP for complex numbers, whose modulus is a hypot; it is exact for real ones.
@op(shape=broadcast, dtype=_modulus, accuracy=FEW_ULP)
def abs(x: Tensor, /) -> Tensor:
    """The absolute value; of complex numbers the modulus, in the real dtype of their parts.

    The gradient at 0 is 0.

    >>> pb.abs([-1.0, 2.0]).tolist()
    [1.0, 2.0]
    """
    if is_complex(x.dtype):
        return late.hypot(late.real(x), late.imag(x))
    return where(late.signbit(x) if is_floating(x.dtype) else x < 0, -x, x)


@abs.vjp("x")
def _(g: Tensor, x: Tensor) -> Tensor:
    direction = sign(x)
    return g * (late.conj(direction) if is_complex(x.dtype) else direction)


@op(shape=broadcast, dtype=numeric, accuracy=ROUNDED)
def sign(x: Tensor, /) -> Tensor:
    """-1, 0 or 1 by the sign of x; for complex numbers x / |x|, and 0 at 0.

    The sign of -0.0 is 0.0, without its minus; that of NaN is NaN.

    >>> pb.sign([-3.0, -0.0, 2.0]).tolist()
    [-1.0, 0.0, 1.0]
    """
    if is_complex(x.dtype):
        radius = abs(x)
        size = where(radius == 0, 1, radius)
        return late.complex(late.real(x) / size, late.imag(x) / size)
    signs = (x > 0).astype(x.dtype) - (x < 0).astype(x.dtype)
    return where(x == x, signs, x)


@sign.vjp("x")
def _(g: Tensor, x: Tensor, out: Tensor) -> Tensor:
    if not is_complex(x.dtype):
        return zeros(g)
    # Only the part of dz that turns z around 0 changes the direction:
    # d out = (dz - out Re(conj(out) dz)) / |z|.
    radius = abs(x)
    around = g - late.real(g * out) * late.conj(out)
    return where(radius == 0, 0, around / where(radius == 0, 1, radius))


@op(shape=broadcast, dtype=real, accuracy=EXACT)
def heaviside(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The step function: 0 where x1 is negative, 1 where it is positive, and x2 where it is 0.

    >>> pb.heaviside([-2.0, 0.0, 3.0], 0.5).tolist()
    [0.0, 0.5, 1.0]
    """
    step = where(x1 == x1, (x1 > 0).astype(x1.dtype), x1)
    return where(x1 == 0, x2, step)


heaviside.vjp(x1=lambda g: zeros(g), x2=lambda g, x1: where(x1 == 0, g, 0))


# Maximum and minimum -----------------------------------------------------------------------


def _winner_gradient(g: Tensor, loses: Tensor, tied: Tensor) -> Tensor:
    """The cotangent of one of two inputs: all of g if it is chosen, half of it for a tie."""
    return where(loses, 0, where(tied, g * 0.5, g))


@op(shape=broadcast, dtype=ordered, accuracy=EXACT)
def maximum(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The larger of x1 and x2; NaN where one of them is NaN.

    Where both are equal, each gets half of the gradient.

    >>> pb.maximum([1.0, 5.0], 3.0).tolist()
    [3.0, 5.0]
    """
    return where((x1 < x2) | (x2 != x2), x2, x1)


maximum.vjp(
    x1=lambda g, x1, x2: _winner_gradient(g, x1 < x2, x1 == x2),
    x2=lambda g, x1, x2: _winner_gradient(g, x2 < x1, x1 == x2),
)


@op(shape=broadcast, dtype=ordered, accuracy=EXACT)
def minimum(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The smaller of x1 and x2; NaN where one of them is NaN.

    Where both are equal, each gets half of the gradient.

    >>> pb.minimum([1.0, 5.0], 3.0).tolist()
    [1.0, 3.0]
    """
    return where((x2 < x1) | (x2 != x2), x2, x1)


minimum.vjp(
    x1=lambda g, x1, x2: _winner_gradient(g, x1 > x2, x1 == x2),
    x2=lambda g, x1, x2: _winner_gradient(g, x2 > x1, x1 == x2),
)


@op(shape=broadcast, dtype=real, accuracy=EXACT)
def clip(x: Tensor, /, min: Tensor | None = None, max: Tensor | None = None) -> Tensor:
    """x limited to the interval [min, max].

    The inputs broadcast together and promote to one dtype. None means that there is no bound.
    Where min is above max the result is max; where anything is NaN it is NaN. The gradient passes
    to x inside [min, max], the bounds included.

    >>> pb.clip([-1.0, 0.5, 3.0], 0, 2).tolist()
    [0.0, 0.5, 2.0]
    """
    if min is not None:
        x = maximum(x, min)
    if max is not None:
        x = minimum(x, max)
    return positive(x)


@clip.vjp("x")
def _(g: Tensor, x: Tensor, min: Tensor | None, max: Tensor | None) -> Tensor:
    if min is not None:
        g = where(x < min, 0, g)
    return g if max is None else where(x > max, 0, g)


@clip.vjp("min")
def _(g: Tensor, x: Tensor, min: Tensor, max: Tensor | None) -> Tensor:
    is_result = x < min
    return where(is_result if max is None else is_result & (min <= max), g, 0)


@clip.vjp("max")
def _(g: Tensor, x: Tensor, min: Tensor | None, max: Tensor) -> Tensor:
    is_result = x > max
    return where(is_result if min is None else is_result | (min > max), g, 0)
