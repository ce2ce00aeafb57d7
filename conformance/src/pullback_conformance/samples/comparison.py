"""Samples of the comparisons."""

from __future__ import annotations

import numpy as np

from pullback import errors
from pullback_conformance.draws import booleans, cnormal, integers, normal
from pullback_conformance.sample import call, suite, wrong

_SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan])
_PAIRS = (
    call(integers(0, 3, 3, 4).astype(float), integers(0, 3, 3, 4, seed=1).astype(float)),
    call(normal(3, 1), normal(4, seed=1), note="broadcast"),
    call(normal(), normal(seed=1), note="0-d"),
    call(normal(0, 3), normal(1, 3), note="empty"),
    call(integers(-2, 2, 3, 4), integers(-2, 2, 3, 4, seed=1), note="integers"),
    call(integers(-2, 2, 3, 4), np.array([-1.0, 0.5, 1.0, 1.5]), note="mixed"),
    call(_SPECIAL[:, None], _SPECIAL, note="infinities and NaN"),
)
_ANY = (
    *_PAIRS,
    call(booleans(3, 4), booleans(3, 4, seed=1), note="truth values"),
    call(np.array([1 + 1j, 1 - 1j, 2j]), np.array([1 + 1j, 1 + 1j, 2j]), note="complex"),
)
_TRUE = call(booleans(3, 4), booleans(3, 4, seed=1), note="booleans")
_SHAPES = (wrong(errors.ShapeError, normal(2, 3), normal(2)),)
_UNORDERED = (*_SHAPES, wrong(errors.DTypeError, cnormal(3), cnormal(3)))

suite("equal", np.equal)(*_ANY, *_SHAPES)
suite("not_equal", np.not_equal)(*_ANY, *_SHAPES)
suite("less", np.less)(*_PAIRS, _TRUE, *_UNORDERED)
suite("less_equal", np.less_equal)(*_PAIRS, _TRUE, *_UNORDERED)
suite("greater", np.greater)(*_PAIRS, _TRUE, *_UNORDERED)
suite("greater_equal", np.greater_equal)(*_PAIRS, _TRUE, *_UNORDERED)

with np.errstate(invalid="ignore"):  # an infinity times 1j
    _PARTS = (_SPECIAL[:, None] + 1j * np.array([0.0, 1.0])).ravel()
    _PARTS = np.concatenate([_PARTS, _PARTS * 1j])
_NUMBERS = (
    call(_SPECIAL),
    call(np.asarray(np.nan), note="0-d"),
    call(normal(0, 3), note="empty"),
    call(integers(-2, 2, 3, 4), note="integers"),
    call(_PARTS, note="complex"),
)
_TRUTH = (call(booleans(3), note="booleans"),)
suite("isnan", np.isnan)(*_NUMBERS, *_TRUTH)
suite("isinf", np.isinf)(*_NUMBERS, *_TRUTH)
suite("isfinite", np.isfinite)(*_NUMBERS, *_TRUTH)
