"""Samples of the trigonometric and hyperbolic functions."""

from __future__ import annotations

import numpy as np

from pullback import errors
from pullback_conformance.draws import away, cnormal, integers, normal, pairs, uniform
from pullback_conformance.sample import Sample, call, rough, suite, wrong

_SPECIAL = rough(np.array([0.0, -0.0, 1.0, -1.0, 2.0, np.inf, -np.inf, np.nan]), note="special")
_SMALL = 10.0 ** np.arange(-37, 0, 3)
_LARGE = 10.0 ** np.arange(0.0, 38.0, 2.5)
_BOTH_SIGNS = rough(np.concatenate([_SMALL, -_SMALL]), note="small")
_ALL_SIZES = rough(np.concatenate([_SMALL, _LARGE, -_LARGE]), note="all sizes")
_ANGLES = rough(np.linspace(-1000.0, 1000.0, 401), note="many turns")
_COMPLEX = call(cnormal(3, 4), note="complex")


def _on(low: float, high: float, *samples: Sample) -> tuple[Sample, ...]:
    return (
        call(uniform(low, high, 3, 4)),
        call(uniform(low, high), note="0-d"),
        call(normal(0, 3), note="empty"),
        rough(integers(0, 2, 3, 2), note="integers"),
        _SPECIAL,
        _COMPLEX,
        *samples,
    )


suite("sin", np.sin)(*_on(-3, 3, _BOTH_SIGNS, _ANGLES))
suite("cos", np.cos)(*_on(-3, 3, _BOTH_SIGNS, _ANGLES))
suite("tan", np.tan)(*_on(-1.4, 1.4, _BOTH_SIGNS, _ANGLES))
suite("asin", np.arcsin)(*_on(-0.9, 0.9, _BOTH_SIGNS))
suite("acos", np.arccos)(*_on(-0.9, 0.9, _BOTH_SIGNS))
suite("atan", np.arctan)(*_on(-3, 3, _ALL_SIZES))
suite("sinh", np.sinh)(*_on(-3, 3, _BOTH_SIGNS))
suite("cosh", np.cosh)(*_on(-3, 3, _BOTH_SIGNS))
suite("tanh", np.tanh)(*_on(-3, 3, _ALL_SIZES))
# float64 has the digits of the square, extended precision those of its difference from 1.
suite("tanh_gradient", lambda g, out: g * ((1 - out) * (1 + out)), domain={"out": (-1, 1)})(
    call(normal(3, 4), np.tanh(normal(3, 4, seed=1)), note="of tanh"),
    call(normal(3, 1), uniform(-1, 1, 4), note="broadcast"),
    call(normal(), uniform(-1, 1), note="0-d"),
    call(normal(0, 3), normal(1, 3), note="empty"),
    call(normal(8), np.array([1.0, -1, 0.999, -0.999, 0, -0.0, 1e-30, 1]), note="flat"),
    rough(np.array([np.inf, 1.0, np.nan]), np.array([0.5, np.nan, 0.5])),
    call(integers(-5, 5, 3), integers(-1, 2, 3), note="integers"),
    call(cnormal(3, 4), cnormal(3, 4, seed=2) * 0.5, note="complex"),
)
suite("asinh", np.arcsinh)(*_on(-3, 3, _ALL_SIZES))
suite("acosh", np.arccosh)(*_on(1.1, 5, rough(_LARGE, note="all sizes")))
suite("atanh", np.arctanh)(*_on(-0.9, 0.9, _BOTH_SIGNS))

_POINTS = (
    *pairs(away, away),
    call(integers(-5, 5, 3, 2), integers(1, 5, 3, 2), note="integers"),
    rough(
        np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan])[:, None],
        np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan]),
        note="special",
    ),
    rough(
        np.array([3e37, 3e-38, 1.0, 1e-20]), np.array([4e37, 4e-38, 1e-20, 1.0]), note="all sizes"
    ),
)
_WRONG = (
    wrong(errors.ShapeError, normal(2, 3), normal(2)),
    wrong(errors.DTypeError, cnormal(3), cnormal(3)),
)
suite("hypot", np.hypot)(*_POINTS, *_WRONG)
suite("atan2", np.arctan2)(*_POINTS, *_WRONG)
