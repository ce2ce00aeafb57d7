"""Samples of the elementwise arithmetic."""

from __future__ import annotations

from functools import partial

import numpy as np

from pullback import errors
from pullback_conformance.draws import (
    away,
    booleans,
    cnormal,
    distinct,
    integers,
    normal,
    pairs,
    uniform,
)
from pullback_conformance.sample import Array, call, rough, suite, wrong

_INTEGERS = call(integers(-5, 5, 3, 2), integers(1, 5, 3, 2), note="integers")
_COMPLEX = call(cnormal(3, 4), cnormal(4, seed=1), note="complex")
_PAIRS = (*pairs(normal, away), _INTEGERS, _COMPLEX)
_SPECIAL_PAIRS = rough(
    np.array([1.0, -1.0, 0.0, -0.0, np.inf, -np.inf, np.nan])[:, None],
    np.array([1.0, -1.0, 0.0, -0.0, np.inf, -np.inf, np.nan]),
    note="infinities and NaN",
)
_SPECIAL = rough(
    np.array([0.0, -0.0, 1.0, np.inf, -np.inf, np.nan, 1e30, -1e-30]), note="infinities and NaN"
)
_WRONG = (
    wrong(errors.ShapeError, normal(2, 3), normal(2)),
    wrong(errors.DTypeError, booleans(3), booleans(3)),
)
_WRONG_REAL = (*_WRONG, wrong(errors.DTypeError, cnormal(3), cnormal(3)))
_WRONG_UNARY = (wrong(errors.DTypeError, booleans(3)),)

suite("add", np.add)(*_PAIRS, *_WRONG)
suite("subtract", np.subtract)(*_PAIRS, *_WRONG)
suite("multiply", np.multiply)(
    *_PAIRS,
    call(booleans(3, 4), booleans(4, seed=1), note="booleans"),
    call(booleans(3), booleans(seed=2), note="a boolean"),
    _WRONG[0],
)
suite("divide", np.true_divide)(*_PAIRS, _SPECIAL_PAIRS, *_WRONG[:1])


def _slope_quotient(g: Array, slope: Array) -> Array:
    undefined = (g == 0) & ((slope == 0) | (slope != slope))
    return g / np.where(undefined, 1, slope)


suite("slope_quotient", _slope_quotient)(
    *_PAIRS,
    _SPECIAL_PAIRS,
    rough(np.array([0, 1, 1j, 0]), np.array([0, 2, 0.5j, 1 - 1j]), note="complex zeros"),
    *_WRONG[:1],
)

_UNARY = (
    call(normal(3, 4)),
    call(normal(), note="0-d"),
    call(normal(0, 3), note="empty"),
    call(integers(-5, 5, 3, 2), note="integers"),
    call(cnormal(3, 4), note="complex"),
)
suite("negative", np.negative)(*_UNARY, _SPECIAL, *_WRONG_UNARY)
suite("positive", np.positive)(*_UNARY, _SPECIAL, *_WRONG_UNARY)
suite("square", np.square)(*_UNARY, _SPECIAL, *_WRONG_UNARY)
suite("abs", np.abs)(
    *_UNARY, _SPECIAL, rough(np.array([3e300 + 4e300j, 0j]), note="large"), *_WRONG_UNARY
)


def _sign(x: Array) -> Array:
    if x.dtype.kind != "c":
        return np.sign(x)
    return np.where(x == 0, 0, x / np.where(x == 0, 1, np.abs(x)))


suite("sign", _sign)(*_UNARY, _SPECIAL, *_WRONG_UNARY)
suite("reciprocal", lambda x: 1.0 / x)(
    call(away(3, 4)),
    call(away(), note="0-d"),
    call(normal(0, 3), note="empty"),
    call(integers(1, 9, 3, 2), note="integers"),
    call(cnormal(3, 4), note="complex"),
    _SPECIAL,
)


# Between quotients that are whole numbers the functions are smooth.
_WHOLE = (
    call(
        np.array([7.3, -7.3, 7.3, -7.3, 0.4, 0.7, -0.7, 0.9]),
        np.array([2.0, 2.0, -2.0, -2.0, 3.0, 0.2, 0.3, -0.25]),
    ),
    call(uniform(4.1, 5.9, 3, 1), np.array([2.0, -2.0]), note="broadcast"),
    call(np.asarray(7.3), np.asarray(-2.0), note="0-d"),
    call(normal(0, 3), normal(1, 3), note="empty"),
    call(integers(-9, 9, 4, 5), np.array([-3, -2, 1, 2, 3], np.int32), note="integers"),
)


def _floor_divide(x1: Array, x2: Array) -> Array:
    if x1.dtype.kind in "iu":
        return np.floor_divide(x1, x2)
    quotient = x1 / x2
    # The quotient of a finite and an infinite number is a zero (array API standard).
    plain = ~(np.isfinite(x1) & np.isfinite(x2)) | (x2 == 0)
    if x1.dtype != np.longdouble:
        # Where there is no place behind the point, the quotient is rounded once, not twice.
        return np.where(plain | (np.abs(quotient) >= 2.0**53), quotient, np.floor(quotient))
    # The floor is rounded to float64 afterwards: it has to be exact, and a remainder is.
    rest = np.fmod(x1, x2)
    whole = np.rint((x1 - rest) / x2)
    whole = np.where((rest != 0) & ((rest < 0) != (x2 < 0)), whole - 1, whole)
    whole = np.where(whole == 0, np.copysign(0, quotient), whole)
    narrow = x1.astype(np.float64) / x2.astype(np.float64)
    return np.where(plain | (np.abs(quotient) >= 2.0**62), narrow, whole)


# Quotients just below a whole number, to which the nearest number would be rounded up, and beyond
# the last number that has a place behind the point.
_LARGE_QUOTIENTS = rough(
    np.array([9007196.0, 4.5e6, -1e7, 3e14, -123456789.0])[:, None],
    np.array([0.1, 0.3, -0.7, 1 / 3, 9.0]),
    dtypes=("float32",),
    note="large quotients",
)
# Just below a whole number, to which the nearest number is rounded up, and none of them large.
_NEARLY_WHOLE = rough(
    np.arange(-40, 41)[:, None] * 0.1, np.array([0.1, 0.3, -0.7]), note="nearly whole quotients"
)
# Zeros with the sign of the divisor among other remainders, of many elements.
_MULTIPLES = rough(
    np.resize([4.0, -4.0, 7.5, 6.0, 0.7], 4097),
    np.resize([-2.0, 2.0, -2.0, -3.0, 3.0, 0.5], 4097),
    dtypes=("float32",),
    note="multiples among others",
)
suite("floor_divide", _floor_divide)(
    *_WHOLE, _SPECIAL_PAIRS, _LARGE_QUOTIENTS, _NEARLY_WHOLE, _MULTIPLES, *_WRONG_REAL
)
suite("integer_floor_divide", np.floor_divide)(
    _INTEGERS,
    call(np.array([7, -7], np.int64), np.asarray(2, np.int64), note="0-d"),
    call(np.zeros((0, 3), np.int32), np.ones((1, 3), np.int32), note="empty"),
    call(np.array([250, 7], np.uint8), np.array([9, 2], np.uint8), note="unsigned"),
    wrong(errors.DTypeError, normal(3), normal(3)),
)
suite("remainder", np.remainder)(*_WHOLE, _SPECIAL_PAIRS, _MULTIPLES, *_WRONG_REAL)
suite("fmod", np.fmod)(*_WHOLE, _SPECIAL_PAIRS, _MULTIPLES, *_WRONG_REAL)


def _heaviside(x1: Array, x2: Array) -> Array:
    # NumPy's has floats alone.
    return np.where(x1 == 0, x2, np.where(np.isnan(x1), x1, (x1 > 0).astype(x1.dtype)))


suite("heaviside", _heaviside)(
    *pairs(away, normal, seed=0),
    call(integers(-2, 2, 4, 5), integers(1, 9, 5), note="integers"),
    _SPECIAL_PAIRS,
    *_WRONG_REAL,
)


def _pow(x1: Array, x2: Array) -> Array:
    # NumPy takes the root for one exponent of 0.5, which is -0 for -0 and NaN for -inf.
    return np.asarray(np.power(*map(np.copy, np.broadcast_arrays(x1, x2))))


suite(
    "pow",
    _pow,
    integer_domain={"x2": (0, 70)},
    without={"complex": "a power magnifies the rounding of its exponent"},
)(
    *pairs(partial(uniform, 0.3, 3), normal),
    call(integers(-5, 5, 3, 2), integers(0, 5, 3, 2), note="integers"),
    call(uniform(0.3, 3, 2, 3) + 0.5j, cnormal(3), note="complex"),
    rough(away(3, 2), np.array([2.0, 3.0]), note="negative base"),
    _SPECIAL_PAIRS,
    *_WRONG,
    wrong(errors.InputValueError, integers(1, 5, 3), np.array([1, -1, 2], np.int32)),
)


def _fixed_power(x: Array, *, exponent: float) -> Array:
    if exponent not in _EXPONENTS or (x.dtype.kind in "iu" and exponent < 3):
        raise ValueError("there is no form of that")
    return _pow(np.atleast_1d(x), np.asarray(exponent, x.dtype)).reshape(x.shape)


_EXPONENTS = (3.0, 4.0, 5.0, -2.0, 0.5, -0.5)
suite("fixed_power", _fixed_power)(
    *(call(uniform(0.3, 3, 3, 4), exponent=n, note=f"by {n}") for n in _EXPONENTS),
    call(uniform(0.3, 3), exponent=0.5, note="0-d"),
    call(normal(0, 3), exponent=3.0, note="empty"),
    call(integers(-5, 5, 3, 2), exponent=3.0, note="integers"),
    call(away(3, 2), exponent=3.0, note="negative base"),
    *(rough(*_SPECIAL.inputs, exponent=n, note=f"infinities by {n}") for n in _EXPONENTS),
)

_ORDERED = (
    call(distinct(3, 4), distinct(3, 4, seed=1) + 0.03),
    call(distinct(3, 1), distinct(4, seed=1) + 0.03, note="broadcast"),
    call(np.asarray(0.5), np.asarray(0.7), note="0-d"),
    call(normal(0, 3), normal(1, 3), note="empty"),
    _INTEGERS,
    _SPECIAL_PAIRS,
    call(booleans(3, 4), booleans(4, seed=1), note="booleans"),
    wrong(errors.ShapeError, normal(2, 3), normal(2)),
    wrong(errors.DTypeError, cnormal(3), cnormal(3)),
)
suite("maximum", np.maximum, either_zero=True)(*_ORDERED)
suite("minimum", np.minimum, either_zero=True)(*_ORDERED)


def _clip(x: Array, min: Array | None = None, max: Array | None = None) -> Array:
    if min is not None:
        x = np.maximum(x, min)
    return x if max is None else np.minimum(x, max)


suite("clip", _clip, either_zero=True)(
    call(distinct(3, 4), np.asarray(-0.23), np.asarray(0.31)),
    call(distinct(3, 4), np.asarray(-0.23), note="min"),
    call(distinct(3, 4), None, np.asarray(0.31), note="max"),
    call(distinct(3, 4), None, None, note="no bound"),
    call(distinct(3, 1), distinct(4) - 0.33, distinct(4) + 0.21, note="broadcast"),
    call(distinct(3, 4), np.asarray(0.41), np.asarray(-0.33), note="min above max"),
    call(np.asarray(2.0), np.asarray(0.0), np.asarray(1.0), note="0-d"),
    call(normal(0, 3), np.asarray(0.0), np.asarray(1.0), note="empty"),
    call(integers(-9, 9, 3, 4), np.asarray(-2), np.asarray(3), note="integers"),
    rough(
        np.array([np.nan, 1.0, 1.0, np.inf, -np.inf, -0.0]),
        np.array([0.0, np.nan, 0.0, 0.0, -np.inf, 0.0]),
        np.array([2.0, 2.0, np.nan, np.inf, 2.0, 2.0]),
        note="infinities and NaN",
    ),
    wrong(errors.ShapeError, normal(2, 3), normal(2)),
    wrong(errors.DTypeError, booleans(3), booleans(3)),
)
