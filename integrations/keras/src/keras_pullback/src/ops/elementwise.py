"""Functions of each element, with Keras's dtypes."""

from __future__ import annotations

import math

import numpy as np

import pullback as pb
from keras_pullback.src.ops.arrays import nonzero
from keras_pullback.src.ops.core import (
    BOOL,
    FLOATS,
    NUMBERS,
    STABLE,
    cast,
    convert_to_tensor,
    floating,
    name_of,
    numeric,
    result,
    same,
    to,
)

#: The dtypes with which Python's numbers go as they do in pullback.
WEAK = FLOATS


def agree(x1, x2):
    """Returns whether Keras's promotion and pullback's agree, without a look at names."""
    if isinstance(x1, pb.Tensor):
        dtype = x1.dtype
        if isinstance(x2, pb.Tensor):
            return dtype is x2.dtype and dtype.name in STABLE
        return dtype.name in WEAK and type(x2) in (int, float)
    return isinstance(x2, pb.Tensor) and x2.dtype.name in WEAK and type(x1) in (int, float)


def _of_floating(op):
    return lambda x: op(floating(x))


def _of_any(op):
    def function(x):
        x = convert_to_tensor(x)
        return op(x.astype("int32")).astype("bool") if x.dtype is BOOL else op(x)

    return function


def _asking(op):
    return lambda x: op(numeric(x))


def _of_pair(op, of_bool=None):
    def function(x1, x2):
        if not agree(x1, x2):
            x1, x2 = same(x1, x2)
        if getattr(x1, "dtype", None) is BOOL:
            y = op(x1.astype("int32"), x2.astype("int32"))
            return y.astype(of_bool or "bool")
        return op(x1, x2)

    return function


def _of_floating_pair(op):
    def function(x1, x2):
        if not (agree(x1, x2) and (x1 if isinstance(x1, pb.Tensor) else x2).dtype.name in WEAK):
            x1, x2 = same(x1, x2, floating=True)
        return op(x1, x2)

    return function


def _comparing(op):
    def function(x1, x2):
        if not agree(x1, x2):
            x1, x2 = same(x1, x2)
        return op(x1, x2)

    return function


def _logical(op):
    return lambda x1, x2: op(cast(x1, "bool"), cast(x2, "bool"))


def _bits(op):
    def function(x, y):
        x, y = same(x, y)
        return op(x, y)

    return function


# Functions of floating-point numbers: integers count as such.
arccos = _of_floating(pb.acos)
arccosh = _of_floating(pb.acosh)
arcsin = _of_floating(pb.asin)
arcsinh = _of_floating(pb.asinh)
arctan = _of_floating(pb.atan)
arctanh = _of_floating(pb.atanh)
ceil = _of_floating(pb.ceil)
cos = _of_floating(pb.cos)
cosh = _of_floating(pb.cosh)
exp = _of_floating(pb.exp)
exp2 = _of_floating(pb.exp2)
expm1 = _of_floating(pb.expm1)
fabs = _of_floating(pb.abs)
floor = _of_floating(pb.floor)
log = _of_floating(pb.log)
log10 = _of_floating(pb.log10)
log1p = _of_floating(pb.log1p)
log2 = _of_floating(pb.log2)
sin = _of_floating(pb.sin)
sinh = _of_floating(pb.sinh)
sqrt = _of_floating(pb.sqrt)
tan = _of_floating(pb.tan)
tanh = _of_floating(pb.tanh)
cbrt = _of_floating(pb.cbrt)
angle = _of_floating(pb.angle)
i0 = _of_floating(pb.i0)
sinc = _of_floating(pb.numpy.sinc)

# Functions of any number, with its dtype; booleans are computed as integers, and back.
absolute = _of_any(pb.abs)
conjugate = _of_any(pb.conj)
negative = _of_any(pb.negative)
real = _of_any(pb.real)
sign = _of_any(pb.sign)

# Functions of two numbers, and the dtype for booleans where it is another.
add = _of_pair(pb.add)
floor_divide = _of_pair(pb.floor_divide, "int32")
fmod = _of_pair(pb.fmod, "int32")
maximum = _of_pair(pb.maximum)
minimum = _of_pair(pb.minimum)
mod = _of_pair(pb.remainder, "int32")
multiply = _of_pair(pb.multiply)
power = _of_pair(pb.pow, "int32")
subtract = _of_pair(pb.subtract)
arctan2 = _of_floating_pair(pb.atan2)
divide = _of_floating_pair(pb.divide)
heaviside = _of_floating_pair(pb.heaviside)
hypot = _of_floating_pair(pb.hypot)
logaddexp = _of_floating_pair(pb.logaddexp)
logaddexp2 = _of_floating_pair(pb.logaddexp2)
nextafter = _of_floating_pair(pb.nextafter)
equal = _comparing(pb.equal)
greater = _comparing(pb.greater)
greater_equal = _comparing(pb.greater_equal)
less = _comparing(pb.less)
less_equal = _comparing(pb.less_equal)
not_equal = _comparing(pb.not_equal)
logical_and = _logical(pb.logical_and)
logical_or = _logical(pb.logical_or)
logical_xor = _logical(pb.logical_xor)
bitwise_and = _bits(pb.bitwise_and)
bitwise_left_shift = _bits(pb.bitwise_left_shift)
bitwise_or = _bits(pb.bitwise_or)
bitwise_right_shift = _bits(pb.bitwise_right_shift)
bitwise_xor = _bits(pb.bitwise_xor)
isfinite = _asking(pb.isfinite)
isinf = _asking(pb.isinf)
isnan = _asking(pb.isnan)


# Others -------------------------------------------------------------------------------------------


def bitwise_invert(x):
    return pb.bitwise_invert(convert_to_tensor(x))


def logical_not(x):
    return pb.logical_not(cast(x, "bool"))


def clip(x, x_min, x_max):
    x = numeric(x)
    dtype = x.dtype
    bounds = [
        v if v is None or isinstance(v, NUMBERS) else cast(v, name_of(x)) for v in (x_min, x_max)
    ]
    if name_of(x) not in FLOATS:
        bounds = [v if v is None else cast(v, name_of(x)) for v in bounds]
    low, high = bounds
    x = x if low is None else pb.maximum(x, low)
    return (x if high is None else pb.minimum(x, high)).astype(dtype)


def copy(x):
    return pb.asarray(convert_to_tensor(x), copy=True)


def deg2rad(x):
    return floating(x) * (math.pi / 180)


def rad2deg(x):
    return floating(x) * (180 / math.pi)


def divide_no_nan(x1, x2):
    x1, x2 = same(x1, x2, floating=True)
    zero = x2 == 0
    return pb.where(zero, 0.0, x1 / pb.where(zero, 1.0, x2))


def fmax(x1, x2):
    x1, x2 = same(x1, x2)
    return pb.where(isnan(x1), x2, pb.where(isnan(x2), x1, maximum(x1, x2)))


def fmin(x1, x2):
    x1, x2 = same(x1, x2)
    return pb.where(isnan(x1), x2, pb.where(isnan(x2), x1, minimum(x1, x2)))


def gcd(x1, x2):
    x1, x2 = same(x1, x2)
    return pb.gcd(numeric(x1), numeric(x2)).astype(x1.dtype)


def lcm(x1, x2):
    x1, x2 = same(x1, x2)
    return pb.lcm(numeric(x1), numeric(x2)).astype(x1.dtype)


def imag(x):
    x = convert_to_tensor(x)
    return pb.imag(x) if "complex" in name_of(x) else pb.zeros_like(x)


def isclose(x1, x2, rtol=1e-5, atol=1e-8, equal_nan=False):
    x1, x2 = same(x1, x2, floating=True)
    near = pb.abs(x1 - x2) <= atol + rtol * pb.abs(x2)
    close = pb.logical_or(x1 == x2, pb.logical_and(near, pb.isfinite(x2)))
    if equal_nan:
        close = pb.logical_or(close, pb.logical_and(pb.isnan(x1), pb.isnan(x2)))
    return close


def allclose(x1, x2, rtol=1e-5, atol=1e-8, equal_nan=False):
    return pb.all(isclose(x1, x2, rtol, atol, equal_nan))


def isin(x1, x2, assume_unique=False, invert=False):
    x1, x2 = same(x1, x2)
    return pb.isin(numeric(x1), numeric(x2), invert=invert)


def isneginf(x):
    x = numeric(x)
    return pb.logical_and(isinf(x), x < 0)


def isposinf(x):
    x = numeric(x)
    return pb.logical_and(isinf(x), x > 0)


def isreal(x):
    return imag(numeric(x)) == 0


def ldexp(x1, x2):
    x1, x2 = convert_to_tensor(x1), convert_to_tensor(x2)
    if "int" not in name_of(x2):
        raise TypeError(f"ldexp exponent must be an integer type. Received: x2 dtype={x2.dtype}")
    name = result(name_of(x1), name_of(x2), float)
    return to(pb.ldexp(to(x1, name), x2.astype("int32")), name)


def nan_to_num(x, nan=0.0, posinf=None, neginf=None):
    x = convert_to_tensor(x)
    if name_of(x) not in FLOATS | {"float64"}:
        return x
    info = pb.finfo(x.dtype)
    x = pb.where(x == math.inf, info.max if posinf is None else posinf, x)
    x = pb.where(x == -math.inf, info.min if neginf is None else neginf, x)
    return pb.where(pb.isnan(x), nan, x)


def reciprocal(x):
    return pb.reciprocal(floating(x))


def round(x, decimals=0):
    x = convert_to_tensor(x)
    if name_of(x) not in FLOATS | {"float64", "complex64"}:
        if decimals >= 0:
            return x
        scale = 10.0**-decimals
        return (pb.round(x.astype("float32") / scale) * scale).astype(x.dtype)
    if decimals == 0:
        return pb.round(x)
    scale = 10.0**decimals
    return pb.round(x * scale) / scale


def signbit(x):
    return pb.numpy.signbit(numeric(x))


def square(x):
    return pb.square(numeric(x))


def trunc(x):
    x = convert_to_tensor(x)
    return pb.trunc(x) if name_of(x) in FLOATS | {"float64"} else x


def where(condition, x1=None, x2=None):
    condition = cast(condition, "bool")
    if x1 is None and x2 is None:
        return nonzero(condition)
    if not agree(x1, x2):
        x1, x2 = same(x1, x2)
    return pb.where(condition, x1, x2)


def select(condlist, choicelist, default=0):
    *choices, chosen = same(*choicelist, default)
    for condition, choice in reversed(list(zip(condlist, choices, strict=True))):
        chosen = pb.where(cast(condition, "bool"), choice, chosen)
    return chosen


def view(x, dtype=None):
    # Bits are looked at on the host.
    x = convert_to_tensor(x)
    array = np.array(x.numpy(), order="C")
    return convert_to_tensor(array.view(np.dtype(getattr(pb, dtype or name_of(x)))), dtype)


abs = absolute
bitwise_not = bitwise_invert
conj = conjugate
left_shift = bitwise_left_shift
right_shift = bitwise_right_shift
true_divide = divide
