"""Samples of complex numbers and their parts."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback import errors
from pullback.conformance.sample import (
    Sample,
    WrongCalls,
    away,
    booleans,
    cnormal,
    integers,
    normal,
    suite,
)

Array = np.ndarray[Any, Any]

_SIGNED = np.array([1.0, -1.0, 0.0, np.inf, -np.inf, np.nan])


def _complex(real: Array, imag: Array) -> Array:
    wide = np.result_type(real, imag, np.float32)
    shape = np.broadcast_shapes(real.shape, imag.shape)
    whole = np.empty(shape, np.result_type(wide, np.complex64))
    whole.real, whole.imag = real, imag
    return whole


_POINTS = _complex(_SIGNED[:, None], _SIGNED).ravel()
_NUMBERS = (
    Sample((cnormal(3, 4),)),
    Sample((np.asarray(1 - 2j),), note="0-d"),
    Sample((cnormal(0, 3),), note="empty"),
    Sample((away(3, 4),), note="real"),
    Sample((_POINTS,), gradient=False, note="infinities and NaN"),
)
_INTEGERS = Sample((integers(-5, 5, 3, 4),), note="integers")
_TRUTH: WrongCalls = (((booleans(3),), {}, errors.DTypeError),)

suite(
    "complex_parts",
    lambda x: (np.real(x), np.imag(x)),
    tuple(one for one in _NUMBERS if one.note != "real"),
    errors_=(*_TRUTH, ((normal(3),), {}, errors.DTypeError)),
)
suite("real", np.real, (*_NUMBERS, _INTEGERS), errors_=_TRUTH)
suite("imag", np.imag, (*_NUMBERS, _INTEGERS), errors_=_TRUTH)
suite("conj", np.conj, (*_NUMBERS, _INTEGERS), errors_=_TRUTH)
suite("angle", np.angle, (*_NUMBERS, _INTEGERS))
suite(
    "complex",
    _complex,
    (
        Sample((normal(3, 4), normal(3, 4, seed=1)), dtypes=("float32", "float64")),
        Sample((normal(3, 1), normal(4, seed=1)), note="broadcast"),
        Sample((normal(), normal(seed=1)), note="0-d"),
        Sample((normal(0, 3), normal(1, 3)), note="empty"),
        Sample((integers(-5, 5, 3, 2), integers(1, 5, 3, 2)), note="integers"),
        Sample((_SIGNED[:, None], _SIGNED), gradient=False, note="infinities and NaN"),
    ),
    errors_=(
        ((normal(2, 3), normal(2)), {}, errors.ShapeError),
        ((cnormal(3), cnormal(3)), {}, errors.DTypeError),
    ),
)
