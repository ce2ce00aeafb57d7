"""Samples of exponentials, logarithms and roots."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback import errors
from pullback.conformance.sample import (
    Sample,
    booleans,
    cnormal,
    integers,
    normal,
    suite,
    uniform,
)

_SHAPES = (
    Sample((uniform(0.1, 3, 3, 4),)),
    Sample((uniform(0.1, 3),), note="0-d"),
    Sample((normal(0, 3),), note="empty"),
    Sample((integers(1, 9, 3, 2),), note="integers"),
    Sample((np.array([0.0, -0.0, np.inf, -np.inf, np.nan]),), gradient=False, note="special"),
)
_COMPLEX = Sample((cnormal(3, 4),), note="complex")
_SMALL_COMPLEX = Sample(
    (np.array([1e-9 - 1e-12j, -1e-9 + 1e-3j, 1e-30j, -5e-7 + 1e-3j]),),
    gradient=False,
    note="small complex",
)
_ANY_SIGN = Sample((normal(3, 4, seed=1) * 3,), note="both signs")
_SMALL = Sample(
    (np.concatenate([10.0 ** np.arange(-37, 0, 3), -(10.0 ** np.arange(-37, 0, 3))]),),
    gradient=False,
    note="small",
)
_POSITIVE = Sample((10.0 ** np.arange(-37.0, 38.0, 2.5),), gradient=False, note="all sizes")
_EXPONENTS = Sample((np.linspace(-104.0, 90.0, 98),), gradient=False, note="all sizes")
_NEGATIVE = Sample((np.array([-1.0, -1e-30]),), gradient=False, note="no result")


def _both(*samples: Sample) -> tuple[Sample, ...]:
    return (*_SHAPES, _COMPLEX, *samples)


def _log1p(x: Any) -> Any:
    if x.dtype.kind != "c":
        return np.log1p(x)
    # NumPy's loses small complex numbers.
    a, b = x.real, x.imag
    return 0.5 * np.log1p(a * (2 + a) + b * b) + 1j * np.arctan2(b, 1 + a)


suite("exp", np.exp, _both(_ANY_SIGN, _EXPONENTS))
suite("expm1", np.expm1, _both(_SMALL_COMPLEX, _ANY_SIGN, _SMALL, _EXPONENTS))
suite("log", np.log, _both(_POSITIVE, _NEGATIVE))
suite("log1p", _log1p, _both(_SMALL_COMPLEX, _SMALL, _POSITIVE))
suite("log2", np.log2, _both(_POSITIVE, _NEGATIVE))
suite("log10", np.log10, _both(_POSITIVE, _NEGATIVE))
suite("sqrt", np.sqrt, _both(_POSITIVE, _NEGATIVE))

_EXTREMES = np.array([0.0, 1e30, -1e30, 700.0, -700.0, np.inf, -np.inf, np.nan])
suite(
    "logaddexp",
    np.logaddexp,
    (
        Sample((normal(3, 4), normal(3, 4, seed=1))),
        Sample((normal(3, 1), normal(4, seed=1)), note="broadcast"),
        Sample((normal(), normal(seed=1)), note="0-d"),
        Sample((normal(0, 3), normal(1, 3)), note="empty"),
        Sample((integers(-5, 5, 3, 2), integers(1, 5, 3, 2)), note="integers"),
        Sample((_EXTREMES[:, None], _EXTREMES), gradient=False, note="extremes"),
        Sample((np.array([0.5, -3.0]), np.array([0.5, -3.0])), note="equal"),
    ),
    errors_=(
        ((normal(2, 3), normal(2)), {}, errors.ShapeError),
        ((cnormal(3), cnormal(3)), {}, errors.DTypeError),
        ((booleans(2, 3), booleans(2)), {}, errors.ShapeError),
    ),
)
