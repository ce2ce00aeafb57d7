"""Samples of rounding, signs and the grid of floating-point numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback import errors
from pullback_conformance.draws import away, booleans, cnormal, integers, normal, pairs
from pullback_conformance.sample import Array, call, rough, suite, wrong

_BETWEEN = np.array([-2.7, -1.3, -0.4, 0.3, 0.8, 1.4, 2.6])
_NUMBERS = (
    call(_BETWEEN),
    call(np.asarray(-1.3), note="0-d"),
    call(normal(0, 3), note="empty"),
    call(integers(-9, 9, 3, 4), note="integers"),
    call(integers(0, 9, 3, 4).astype(np.uint8), note="unsigned"),
    rough(
        np.array([-2.5, -1.5, -0.5, -0.0, 0.0, 0.5, 1.5, 2.5, 1e30, np.inf, -np.inf, np.nan]),
        note="halves, infinities and NaN",
    ),
)
_TRUTH = (wrong(errors.DTypeError, booleans(3)),)
_REAL = (*_TRUTH, wrong(errors.DTypeError, cnormal(3)))


def _of_floats(function: Any) -> Any:
    return lambda x: x if x.dtype.kind in "iu" else function(x)


suite("floor", _of_floats(np.floor))(*_NUMBERS, *_REAL)
suite("ceil", _of_floats(np.ceil))(*_NUMBERS, *_REAL)
suite("trunc", _of_floats(np.trunc))(*_NUMBERS, *_REAL)
suite("round", _of_floats(np.rint))(
    *_NUMBERS, call(_BETWEEN + 1j * _BETWEEN[::-1], note="complex"), *_TRUTH
)

_SIGNED = np.array([1.0, -1.0, 0.0, -0.0, np.inf, -np.inf, np.nan])
suite("signbit", np.signbit)(
    call(_SIGNED),
    call(np.asarray(-0.0), note="0-d"),
    call(normal(0, 3), note="empty"),
    wrong(errors.DTypeError, integers(0, 3, 3)),
)
suite("copysign", np.copysign)(
    *pairs(away, away),
    call(integers(-5, 5, 3, 2), integers(1, 5, 3, 2), note="integers"),
    rough(_SIGNED[:, None], _SIGNED, note="infinities and NaN"),
    wrong(errors.ShapeError, normal(2, 3), normal(2)),
)


def _nextafter(x1: Array, x2: Array) -> Any:
    # The neighbours are those of the dtype under test, which a wider one would not find.
    x1, x2 = np.broadcast_arrays(x1, x2)
    # Of equal zeros it is the second (array API standard), which NumPy's of float16 is not.
    return np.where(x1 == x2, x2, np.nextafter(x1, x2))


suite("nextafter", _nextafter, as_given=True)(
    call(normal(3, 4), normal(3, 4, seed=1)),
    call(normal(3, 1), normal(4, seed=1), note="broadcast"),
    call(normal(), normal(seed=1), note="0-d"),
    call(normal(0, 3), normal(1, 3), note="empty"),
    rough(_SIGNED[:, None], _SIGNED, note="special"),
    wrong(errors.ShapeError, normal(2, 3), normal(2)),
)
