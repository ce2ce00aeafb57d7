"""Samples of exponentials, logarithms and roots."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback import errors
from pullback_conformance.draws import booleans, cnormal, integers, normal, pairs, uniform
from pullback_conformance.sample import Array, Sample, call, rough, suite, wrong

_SHAPES = (
    call(uniform(0.1, 3, 3, 4)),
    call(uniform(0.1, 3), note="0-d"),
    call(normal(0, 3), note="empty"),
    call(integers(1, 9, 3, 2), note="integers"),
    rough(np.array([0.0, -0.0, np.inf, -np.inf, np.nan]), note="special"),
)
_COMPLEX = call(cnormal(3, 4), note="complex")
_SMALL_COMPLEX = rough(
    np.array([1e-9 - 1e-12j, -1e-9 + 1e-3j, 1e-30j, -5e-7 + 1e-3j]), note="small complex"
)
_ANY_SIGN = call(normal(3, 4, seed=1) * 3, note="both signs")
_SMALL = rough(
    np.concatenate([10.0 ** np.arange(-37, 0, 3), -(10.0 ** np.arange(-37, 0, 3))]), note="small"
)
_POSITIVE = rough(10.0 ** np.arange(-37.0, 38.0, 2.5), note="all sizes")
_EXPONENTS = rough(np.linspace(-104.0, 90.0, 98), note="all sizes")
_NEGATIVE = rough(np.array([-1.0, -1e-30]), note="no result")


def _both(*samples: Sample) -> tuple[Sample, ...]:
    return (*_SHAPES, _COMPLEX, *samples)


def _expm1(x: Any) -> Any:
    y = np.expm1(x)
    # NumPy's multiplies complex infinities by zeros.
    return np.where(np.isfinite(x), y, np.exp(x) - 1) if x.dtype.kind == "c" else y


def _log1p(x: Any) -> Any:
    if x.dtype.kind != "c":
        return np.log1p(x)
    # NumPy's loses small complex numbers.
    a, b = x.real, x.imag
    return 0.5 * np.log1p(a * (2 + a) + b * b) + 1j * np.arctan2(b, 1 + a)


_COMPLEX_IS_WRONG = (wrong(errors.DTypeError, cnormal(3)),)

suite("exp", np.exp)(*_both(_ANY_SIGN, _EXPONENTS))
suite("exp2", np.exp2)(
    *_SHAPES, _ANY_SIGN, rough(np.linspace(-151.0, 130.0, 98), note="all sizes"), *_COMPLEX_IS_WRONG
)
suite("expm1", _expm1)(*_both(_SMALL_COMPLEX, _ANY_SIGN, _SMALL, _EXPONENTS))
suite("log", np.log)(*_both(_POSITIVE, _NEGATIVE))
suite("log1p", _log1p)(*_both(_SMALL_COMPLEX, _SMALL, _POSITIVE))
suite("log2", np.log2)(*_both(_POSITIVE, _NEGATIVE))
suite("log10", np.log10)(*_both(_POSITIVE, _NEGATIVE))
suite("sqrt", np.sqrt)(*_both(_POSITIVE, _NEGATIVE))
suite("rsqrt", lambda x: 1.0 / np.sqrt(x))(*_both(_POSITIVE, _NEGATIVE))

_EXTREMES = np.array([0.0, 1e30, -1e30, 700.0, -700.0, np.inf, -np.inf, np.nan])
_PAIRS = (
    *pairs(normal, normal),
    call(integers(-5, 5, 3, 2), integers(1, 5, 3, 2), note="integers"),
    rough(_EXTREMES[:, None], _EXTREMES, note="extremes"),
    call(np.array([0.5, -3.0]), np.array([0.5, -3.0]), note="equal"),
)
_WRONG_PAIRS = (
    wrong(errors.ShapeError, normal(2, 3), normal(2)),
    wrong(errors.DTypeError, cnormal(3), cnormal(3)),
    wrong(errors.ShapeError, booleans(2, 3), booleans(2)),
)
suite("logaddexp", np.logaddexp)(*_PAIRS, *_WRONG_PAIRS)
suite("logaddexp2", np.logaddexp2)(*_PAIRS, *_WRONG_PAIRS)
suite("cbrt", np.cbrt)(*_SHAPES, _ANY_SIGN, _SMALL, _POSITIVE, *_COMPLEX_IS_WRONG)

_SCALED = np.array([1.0, -0.75, 3e-39, 1e-45, 1e38, 0.0, -0.0, np.inf, -np.inf, np.nan])


def _ldexp(x1: Array, x2: Array) -> Array:
    # NumPy has no loop for unsigned exponents of 64 bits.
    exponent = np.minimum(x2, 2**62) if x2.dtype == np.uint64 else x2
    return np.asarray(np.ldexp(x1, exponent.astype(np.int64)))


suite("ldexp", _ldexp)(
    call(normal(3, 4), integers(-9, 9, 3, 4)),
    call(normal(3, 1), integers(-9, 9, 4), note="broadcast"),
    call(normal(), integers(-9, 9), note="0-d"),
    call(normal(0, 3), integers(1, 3, 1, 3), note="empty"),
    call(integers(-5, 5, 3, 2), integers(1, 5, 3, 2), note="integers"),
    rough(_SCALED[:, None], integers(-300, 300, 41), note="all sizes"),
    rough(normal(4), np.array([-(2**31), 2**31 - 1, 0, 1], np.int32), note="far"),
    rough(normal(3), np.array([-128, 127, 3], np.int8), note="small integers"),
    rough(normal(3), np.array([2**63, 2, 3], np.uint64), note="unsigned"),
    wrong(errors.ShapeError, normal(2, 3), integers(1, 3, 2)),
    wrong(errors.DTypeError, normal(3), normal(3)),
    wrong(errors.DTypeError, cnormal(3), integers(1, 3, 3)),
)
suite("frexp", np.frexp)(*_SHAPES, _ANY_SIGN, _SMALL, _POSITIVE, *_COMPLEX_IS_WRONG)
