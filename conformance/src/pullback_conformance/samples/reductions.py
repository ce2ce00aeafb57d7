"""Samples of the reductions."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback import errors
from pullback_conformance.draws import booleans, cnormal, distinct, integers, normal, uniform
from pullback_conformance.sample import (
    Array,
    Sample,
    call,
    reachable,
    rough,
    rounded,
    suite,
    wrong,
)

_AXES: tuple[dict[str, Any], ...] = (
    {},
    {"axis": 0},
    {"axis": -1, "keepdims": True},
    {"axis": (0, 2)},
    {"axis": (2, 0), "keepdims": True},
    {"axis": ()},
    {"keepdims": True},
)
_NOTHING = (
    call(normal(0, 3), axis=0, note="nothing"),
    call(normal(0, 3), axis=1, note="empty result"),
    call(normal(0, 3), note="nothing at all"),
)
_STRANGE = np.array([[1.0, np.nan, 2.0], [np.inf, 1.0, -3.0], [np.inf, -np.inf, 0.0]])
_WRONG_AXIS: list[Any] = [
    wrong(errors.AxisError, normal(2, 3), axis=2),
    wrong(errors.AxisError, normal(2, 3), axis=(0, -2)),
]


def _over(x: Array) -> list[Sample]:
    """x of three axes, reduced over every kind of `axis`."""
    return [call(x, **attributes) for attributes in _AXES]


def _small_integers(low: int, high: int) -> list[Sample]:
    whole = integers(low, high, 3, 4)
    return [
        call(whole.astype(kind), axis=0, note=kind)
        for kind in ("int8", "uint8", "int32", "int64", "uint64")
    ] + [call(booleans(3, 4), note="truth values")]


def accumulated(function: Any) -> Any:
    """The reference of a sum or product, in a wide dtype, and rounded once."""

    def reference(
        x: Array, *, axis: object = None, dtype: object = None, keepdims: bool = False
    ) -> Any:
        kind = {"b": np.int64, "i": np.int64, "u": np.uint64}.get(x.dtype.kind, x.dtype)
        found = function(x, axis=axis, dtype=kind, keepdims=keepdims)
        if dtype is not None:
            return rounded(np.asarray(found), reachable(x, dtype))
        narrow: Any = {np.bool_: np.int32}
        narrow |= dict.fromkeys((np.int8, np.int16, np.int32), np.int32)
        narrow |= dict.fromkeys((np.uint8, np.uint16, np.uint32), np.uint32)
        return np.asarray(found).astype(narrow.get(x.dtype.type, kind))

    return reference


_LARGE = (
    call(uniform(0, 1, 5000, 3), axis=0, note="long columns"),
    call(uniform(0, 1, 3, 5000), axis=1, note="long rows"),
    call(uniform(0, 1, 70, 5, 60), axis=(0, 2), note="long in two axes"),
    call(uniform(0, 1, 40000), note="long"),
)

suite("sum", accumulated(np.sum))(
    *_over(normal(3, 4, 2)),
    *_NOTHING,
    *_small_integers(0, 100),
    *_LARGE,
    call(normal(), note="0-d"),
    call(cnormal(3, 4), axis=1),
    call(normal(3, 4), dtype="float64", dtypes=("float32", "float64")),
    call(booleans(3, 4), dtype="float32", note="truth values as float32"),
    rough(_STRANGE, axis=1, note="infinities and NaN"),
    *_WRONG_AXIS,
)
suite(
    "mean",
    lambda x, *, axis=None, keepdims=False: (
        np.sum(x.astype(np.float64) if x.dtype.kind in "biu" else x, axis=axis, keepdims=keepdims)
        / np.float64(np.prod([x.shape[a] for a in _axes(x, axis)]))
    ),
)(
    *_over(normal(3, 4, 2)),
    *(rough(*one.inputs, **one.attributes, note=one.note) for one in _NOTHING),
    *_LARGE,
    call(normal(), note="0-d"),
    call(cnormal(3, 4), axis=1),
    call(integers(-9, 9, 3, 4), axis=1, note="integers give floats"),
    call(np.full((300,), 1000.0), note="a sum beyond float16"),
    rough(_STRANGE, axis=1, note="infinities and NaN"),
    *_WRONG_AXIS,
)


def _axes(x: Array, axis: Any) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(x.ndim))
    return axis if isinstance(axis, tuple) else (axis,)


_ZEROS = np.array([[0.0, 2.0, 3.0], [0.0, 0.0, 1.5], [1.0, -2.0, 0.5]])

# Slow: of many factors the order decides whether a part of the product overflows.
suite(
    "prod",
    accumulated(np.prod),
    without={"equal": "each product rounds to the same side"},
    slow=True,
)(
    *_over(uniform(0.5, 2, 3, 4, 2)),
    *_NOTHING,
    *_small_integers(1, 4),
    call(normal(), note="0-d"),
    call(cnormal(3, 2), axis=0),
    call(_ZEROS, axis=1, note="zeros"),
    call(_ZEROS, note="several zeros"),
    rough(_STRANGE, axis=1, note="infinities and NaN"),
    *_WRONG_AXIS,
)

_EXTREMA = [
    *_over(distinct(3, 4, 2)),
    call(normal(), note="0-d"),
    call(normal(0, 3), axis=1, note="empty result"),
    call(integers(-9, 9, 3, 4), axis=1, note="integers"),
    call(integers(0, 9, 3, 4).astype(np.uint8), note="bytes"),
    rough(_STRANGE, axis=1, note="infinities and NaN"),
    rough(np.array([[1.0, 1.0, 0.0], [2.0, 2.0, 2.0]]), axis=1),
    call(booleans(3, 4, 2), axis=1, note="booleans"),
    call(booleans(3, 4), keepdims=True, note="all booleans"),
    rough(normal(70, 5, 20), axis=(0, 2), note="many in two axes"),
]
_EMPTY: list[Any] = [
    wrong(errors.InputValueError, normal(0, 3), axis=0),
    wrong(errors.InputValueError, normal(0)),
    *_WRONG_AXIS,
]
suite("max", np.max, either_zero=True)(*_EXTREMA, *_EMPTY)
suite("min", np.min, either_zero=True)(*_EXTREMA, *_EMPTY)

_TRUTH = [
    *(call(booleans(3, 4, 2), **attributes) for attributes in _AXES),
    call(integers(0, 2, 3, 4), axis=1, note="integers"),
    call(normal(3, 4), axis=1, note="floats"),
    call(np.array([[0.0, -0.0], [np.nan, 0.0]]), axis=1, note="NaN is true"),
    call(np.array([[0j, 1j], [0j, 0j]]), axis=1, note="complex"),
    *_NOTHING,
    call(np.asarray(False), note="0-d"),
]
suite("any", np.any)(*_TRUTH, *_WRONG_AXIS)
suite("all", np.all)(*_TRUTH, *_WRONG_AXIS)
suite("count_nonzero", np.count_nonzero)(
    *_TRUTH, call(np.ones((300, 2), bool), axis=0, note="more than a byte holds"), *_WRONG_AXIS
)


def _var(x: Array, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Any:
    x = x.astype(np.float64) if x.dtype.kind in "iu" else x
    count = np.float64(np.prod([x.shape[a] for a in _axes(x, axis)]))
    # A sum, as NumPy warns of the mean of nothing.
    away = x - np.sum(x, axis=axis, keepdims=True) / count
    return np.sum(away * away, axis=axis, keepdims=keepdims) / np.maximum(count - correction, 0)


_SPREAD = [
    *_over(normal(3, 4, 2)[:, :, ::1])[:-3],
    call(normal(3, 4, 2), axis=1, correction=1),
    call(normal(3, 4), axis=1, correction=1.5, keepdims=True),
    call(normal(6) + 1000.0, dtypes=("float64",), note="a large mean"),
    rough(normal(1, 4), axis=0, correction=1, note="no freedom left"),
    call(integers(-9, 9, 3, 4), axis=1, note="integers give floats"),
    rough(_STRANGE, axis=1, note="infinities and NaN"),
    rough(normal(0), note="nothing"),
]
_SQUARED = {"subnormal": "their squares are 0"}
suite("var", _var, without=_SQUARED)(*_SPREAD, call(normal(), note="0-d"), *_WRONG_AXIS)
suite("std", lambda x, **how: np.sqrt(_var(x, **how)), without=_SQUARED)(
    *_SPREAD, rough(np.full((3,), 2.0), note="no spread"), *_WRONG_AXIS
)


def _logsumexp(x: Array, *, axis: Any = None, keepdims: bool = False) -> Any:
    x = x.astype(np.float64) if x.dtype.kind in "iu" else x
    reduce: Any = np.logaddexp.reduce
    return reduce(x, axis=axis, keepdims=keepdims)


suite("logsumexp", _logsumexp)(
    *_over(normal(3, 4, 2))[:5],
    call(normal(3, 4), keepdims=True),
    rough(normal(3, 4, seed=1) * 1000, axis=1, note="large"),
    call(normal(), note="0-d"),
    *(rough(*one.inputs, **one.attributes, note=one.note) for one in _NOTHING),
    rough(
        np.array([[-np.inf, -np.inf], [np.inf, 1.0], [-np.inf, 1.0], [np.nan, 1.0]]),
        axis=1,
        note="infinities and NaN",
    ),
    *_WRONG_AXIS,
)
