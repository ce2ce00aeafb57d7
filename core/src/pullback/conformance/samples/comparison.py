"""Samples of the comparisons."""

from __future__ import annotations

import numpy as np

from pullback import errors
from pullback.conformance.sample import (
    Sample,
    WrongCalls,
    booleans,
    cnormal,
    integers,
    normal,
    suite,
)

_SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan])
_PAIRS = (
    Sample((integers(0, 3, 3, 4).astype(float), integers(0, 3, 3, 4, seed=1).astype(float))),
    Sample((normal(3, 1), normal(4, seed=1)), note="broadcast"),
    Sample((normal(), normal(seed=1)), note="0-d"),
    Sample((normal(0, 3), normal(1, 3)), note="empty"),
    Sample((integers(-2, 2, 3, 4), integers(-2, 2, 3, 4, seed=1)), note="integers"),
    Sample((integers(-2, 2, 3, 4), np.array([-1.0, 0.5, 1.0, 1.5])), note="mixed"),
    Sample((_SPECIAL[:, None], _SPECIAL), note="infinities and NaN"),
)
_ANY = (
    *_PAIRS,
    Sample((booleans(3, 4), booleans(3, 4, seed=1)), note="truth values"),
    Sample((np.array([1 + 1j, 1 - 1j, 2j]), np.array([1 + 1j, 1 + 1j, 2j])), note="complex"),
)
_SHAPES: WrongCalls = (((normal(2, 3), normal(2)), {}, errors.ShapeError),)
_UNORDERED: WrongCalls = (*_SHAPES, ((cnormal(3), cnormal(3)), {}, errors.DTypeError))

suite("equal", np.equal, _ANY, errors_=_SHAPES)
suite("not_equal", np.not_equal, _ANY, errors_=_SHAPES)
suite("less", np.less, _PAIRS, errors_=_UNORDERED)
suite("less_equal", np.less_equal, _PAIRS, errors_=_UNORDERED)
suite("greater", np.greater, _PAIRS, errors_=_UNORDERED)
suite("greater_equal", np.greater_equal, _PAIRS, errors_=_UNORDERED)

with np.errstate(invalid="ignore"):  # an infinity times 1j
    _PARTS = (_SPECIAL[:, None] + 1j * np.array([0.0, 1.0])).ravel()
    _PARTS = np.concatenate([_PARTS, _PARTS * 1j])
_NUMBERS = (
    Sample((_SPECIAL,)),
    Sample((np.asarray(np.nan),), note="0-d"),
    Sample((normal(0, 3),), note="empty"),
    Sample((integers(-2, 2, 3, 4),), note="integers"),
    Sample((_PARTS,), note="complex"),
)
_TRUTH: WrongCalls = (((booleans(3),), {}, errors.DTypeError),)
suite("isnan", np.isnan, _NUMBERS, errors_=_TRUTH)
suite("isinf", np.isinf, _NUMBERS, errors_=_TRUTH)
suite("isfinite", np.isfinite, _NUMBERS, errors_=_TRUTH)
