"""Samples of complex numbers and their parts."""

from __future__ import annotations

import numpy as np

from pullback import errors
from pullback_conformance.draws import away, booleans, cnormal, integers, normal
from pullback_conformance.sample import Array, call, rough, suite, wrong

_SIGNED = np.array([1.0, -1.0, 0.0, np.inf, -np.inf, np.nan])


def _complex(real: Array, imag: Array) -> Array:
    wide = np.result_type(real, imag, np.float32)
    shape = np.broadcast_shapes(real.shape, imag.shape)
    whole = np.empty(shape, np.result_type(wide, np.complex64))
    whole.real, whole.imag = real, imag
    return whole


_POINTS = _complex(_SIGNED[:, None], _SIGNED).ravel()
_NUMBERS = (
    call(cnormal(3, 4)),
    call(np.asarray(1 - 2j), note="0-d"),
    call(cnormal(0, 3), note="empty"),
    call(away(3, 4), note="real"),
    rough(_POINTS, note="infinities and NaN"),
)
_INTEGERS = call(integers(-5, 5, 3, 4), note="integers")
_TRUTH = (wrong(errors.DTypeError, booleans(3)),)

suite("complex_parts", lambda x: (np.real(x), np.imag(x)))(
    *tuple(one for one in _NUMBERS if one.note != "real"),
    *_TRUTH,
    wrong(errors.DTypeError, normal(3)),
)
suite("real", np.real)(*_NUMBERS, _INTEGERS, *_TRUTH)
suite("imag", np.imag)(*_NUMBERS, _INTEGERS, *_TRUTH)
suite("conj", np.conj)(*_NUMBERS, _INTEGERS, *_TRUTH)
suite("angle", np.angle)(*_NUMBERS, _INTEGERS)
suite("complex", _complex)(
    call(normal(3, 4), normal(3, 4, seed=1), dtypes=("float32", "float64")),
    call(normal(3, 1), normal(4, seed=1), note="broadcast"),
    call(normal(), normal(seed=1), note="0-d"),
    call(normal(0, 3), normal(1, 3), note="empty"),
    call(integers(-5, 5, 3, 2), integers(1, 5, 3, 2), note="integers"),
    rough(_SIGNED[:, None], _SIGNED, note="infinities and NaN"),
    wrong(errors.ShapeError, normal(2, 3), normal(2)),
    wrong(errors.DTypeError, cnormal(3), cnormal(3)),
)
