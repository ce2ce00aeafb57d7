"""Samples of the ops that find things."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback import errors
from pullback_conformance.draws import booleans, distinct, integers, normal
from pullback_conformance.sample import Array, call, suite, wrong

_LINES = [
    call(distinct(3, 4)),
    call(distinct(3, 4), axis=0),
    call(distinct(2, 3, 4), axis=-1, keepdims=True),
    call(distinct(3, 4), keepdims=True),
    call(normal(0, 3), axis=1),
    call(normal(), note="0-d"),
    call(np.array([[1.0, 2.0, 2.0, 1.0]]), axis=1, note="the first of equals"),
    call(np.array([[1.0, np.nan, 2.0], [np.inf, -np.inf, np.nan]]), axis=1, note="NaN"),
    call(integers(-9, 9, 3, 4), axis=1),
    call(booleans(3, 4), axis=1, note="booleans"),
]
_NOTHING = [
    wrong(errors.InputValueError, normal(0, 3), axis=0),
    wrong(errors.InputValueError, normal(0)),
    wrong(errors.AxisError, normal(2, 3), axis=2),
]
suite("argmax", np.argmax)(*_LINES, *_NOTHING)
suite("argmin", np.argmin)(*_LINES, *_NOTHING)


def _argwhere(x: Array) -> Any:
    found = [place for place in np.ndindex(x.shape) if x[place] != 0]
    return np.array(found, np.int64).reshape(len(found), x.ndim)


suite("argwhere", _argwhere)(
    call(booleans(3, 4)),
    call(integers(0, 3, 2, 3, 2)),
    call(np.array([0.0, -0.0, np.nan, 2.0])),
    call(np.zeros((2, 3)), note="none"),
    call(normal(0, 2), note="empty"),
    call(np.asarray(True), note="0-d"),
    call(np.asarray(False), note="0-d false"),
)


def _searchsorted(x1: Array, x2: Array, sorter: Any = None, *, side: str = "left") -> Any:
    line = x1 if sorter is None else x1[sorter]
    if not np.array_equal(np.sort(line), line, equal_nan=line.dtype.kind == "f"):
        raise ValueError("x1 is not sorted")
    flat = [
        sum(bool(a < b if side == "left" else a <= b) for a in line) if b == b else len(line)
        for b in x2.ravel()
    ]
    return np.array(flat, np.int64).reshape(x2.shape)


_STEPS = np.array([1.0, 2.0, 2.0, 4.0, 8.0])
#: Neighbors that float64 does not tell apart.
_BEYOND = 2**53 + np.array([0, 1, 2, 3, 5, 6])
_VALUES = np.array([[0.0, 2.0, 3.0], [8.0, 9.0, -np.inf]])
suite(
    "searchsorted",
    _searchsorted,
    without=dict.fromkeys(("sizes", "exceptional", "pairs", "shared"), "x1 is sorted"),
)(
    call(_STEPS, _VALUES),
    call(_STEPS, _VALUES, side="right"),
    call(_STEPS[[3, 0, 4, 1, 2]], _VALUES, np.array([1, 3, 4, 0, 2])),
    call(_STEPS, np.asarray(2.0), note="0-d"),
    call(_STEPS[:0], _VALUES, note="in nothing"),
    call(_STEPS, _VALUES[:0], note="nothing"),
    call(_STEPS, np.array([np.nan, np.inf]), note="NaN"),
    *(
        call(np.append(_STEPS, [np.nan, np.nan]), _VALUES, side=side, note="in what ends in NaN")
        for side in ("left", "right")
    ),
    call(np.array([1, 3, 5]), integers(0, 7, 4), side="right", note="integers"),
    call(np.array([False, True, True]), booleans(4), side="right", note="booleans"),
    call(_BEYOND, _BEYOND[::-1] + 1, note="integers beyond 2**53"),
    call(_BEYOND, _BEYOND, side="right", note="integers beyond 2**53"),
    wrong(errors.ShapeError, _VALUES, _VALUES),
    wrong(errors.InputValueError, _STEPS, _VALUES, side="middle"),
    wrong(errors.ShapeError, _STEPS, _VALUES, np.array([0, 1])),
)
