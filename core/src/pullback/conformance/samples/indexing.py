"""Samples of the ops that x[key] is made of, and of taking elements by position."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback import errors
from pullback.conformance.sample import (
    Array,
    Sample,
    booleans,
    cnormal,
    integers,
    normal,
    suite,
)

_X = normal(4, 3, 5)
_ALL = slice(None)
# Canonical keys, as `strided_slice` takes them.
_KEYS: tuple[tuple[Any, ...], ...] = (
    (...,),
    (2, ...),
    (_ALL, 1, ...),
    (3, 0, 4, ...),
    (slice(1, 3, 1), ...),
    (slice(0, 4, 3), slice(2, None, -1), ...),
    (slice(2, 2, 1), ...),
    (None, _ALL, None, 2, ...),
    (_ALL, _ALL, slice(4, 0, -2), None, ...),
)


def _updated(x: Array, value: Array, key: Any) -> Array:
    result = x.copy()
    result[key] = value
    return result


def _placed(value: Array, shape: Any, key: Any) -> Array:
    return _updated(np.zeros(shape, value.dtype), value, key)


suite(
    "strided_slice",
    lambda x, key: x[key],
    (
        *(Sample((_X,), {"key": key}) for key in _KEYS),
        Sample((normal(),), {"key": (None, ...)}, note="0-d"),
        Sample((normal(0, 2),), {"key": (_ALL, 1, ...)}, note="empty"),
        Sample((cnormal(4),), {"key": (slice(1, 3, 1), ...)}),
        Sample((booleans(4),), {"key": (1, ...)}),
    ),
)
suite(
    "strided_update",
    _updated,
    (
        *(Sample((_X, np.asarray(normal(*_X[key].shape, seed=1))), {"key": key}) for key in _KEYS),
        Sample((_X, normal()), {"key": (slice(1, 3, 1), ...)}, note="one value for all"),
        Sample((_X, normal(3, 1)), {"key": (2, ...)}, note="broadcast"),
        Sample((normal(), normal(seed=1)), {"key": (...,)}, note="0-d"),
        Sample((integers(0, 9, 4), integers(0, 9, 2)), {"key": (slice(0, 2, 1), ...)}),
    ),
    errors_=(
        ((_X, normal(2)), {"key": (0, ...)}, errors.ShapeError),
        ((integers(0, 9, 4), normal()), {"key": (0, ...)}, errors.DTypeError),
    ),
)
suite(
    "strided_place",
    _placed,
    [
        Sample((np.asarray(normal(*_X[key].shape)),), {"shape": _X.shape, "key": key})
        for key in _KEYS
    ],
    errors_=(((normal(2),), {"shape": (4,), "key": (slice(0, 3, 1), ...)}, errors.ShapeError),),
)

# By position ----------------------------------------------------------------------------------

_ROWS = np.array([2, 0, 0, -1])
_GRID = np.array([[0, 3], [-4, 1]], np.int32)

suite(
    "take",
    lambda x, indices, axis=0: np.take(x, indices, axis),
    (
        Sample((_X, _ROWS)),
        Sample((_X, _ROWS % 3), {"axis": 1}),
        Sample((_X, _GRID), {"axis": -1}),
        Sample((_X, np.array(1)), note="0-d indices"),
        Sample((normal(4), np.array(-1))),
        Sample((_X, np.zeros((0,), np.int64)), note="no indices"),
        Sample((_X, np.array([1, 2], np.uint8)), note="narrow indices"),
        Sample((normal(4, 0), _ROWS), note="empty"),
        Sample((cnormal(4, 2), _ROWS)),
        Sample((booleans(4), _ROWS)),
    ),
    errors_=(
        ((_X, np.array([4])), {}, errors.IndexingError),
        ((_X, np.array([0, -5])), {}, errors.IndexingError),
        ((normal(0), np.array([0])), {}, errors.IndexingError),
        ((normal(0, 0), np.array([0])), {}, errors.IndexingError),
        ((_X, normal(2)), {}, errors.DTypeError),
        ((_X, np.array([1], np.uint64)), {}, errors.DTypeError),
        ((_X, _ROWS), {"axis": 3}, errors.AxisError),
        ((normal(), _ROWS), {}, errors.AxisError),
    ),
)


def _take_along_axis(x: Array, indices: Array, axis: int = -1) -> Array:
    return np.take_along_axis(x, indices, axis)


suite(
    "take_along_axis",
    _take_along_axis,
    (
        Sample((_X, integers(-5, 5, 4, 3, 2))),
        Sample((_X, integers(-4, 4, 6, 3, 5)), {"axis": 0}),
        Sample((_X, integers(-3, 3, 1, 2, 5)), {"axis": 1}, note="indices broadcast"),
        Sample((normal(1, 4), integers(-4, 4, 3, 2)), note="x broadcasts"),
        Sample((normal(4), integers(0, 4, 2))),
        Sample((_X, integers(0, 5, 4, 3, 0)), note="no indices"),
    ),
    errors_=(
        ((_X, integers(0, 3, 4, 3)), {}, errors.ShapeError),
        ((_X, integers(0, 3, 4, 2, 5)), {}, errors.ShapeError),
        ((normal(2, 2), np.array([[0], [2]])), {}, errors.IndexingError),
        ((_X, integers(0, 3, 4, 3, 5)), {"axis": 3}, errors.AxisError),
    ),
)


def _ravel_index(x1: Array, x2: Array, sizes: Any) -> Any:
    both = np.broadcast_arrays(x1, x2)
    return np.ravel_multi_index(tuple(i % n for i, n in zip(both, sizes, strict=True)), sizes)


suite(
    "ravel_index",
    _ravel_index,
    (
        Sample((np.array([0, -1]), np.array([1, 2])), {"sizes": (2, 3)}),
        Sample((np.array([[0], [1]]), np.array([1, -3, 2])), {"sizes": (2, 3)}),
        Sample((np.array(1), np.array(2)), {"sizes": (2, 3)}, note="0-d"),
        Sample((np.array([0, 2], np.uint8), np.array([1], np.int32)), {"sizes": (3, 2)}),
        Sample((np.array([2**16], np.int32), np.array([0], np.int32)), {"sizes": (2**17, 2**17)}),
        Sample((np.zeros((0,), np.int64), np.array([1])), {"sizes": (2, 3)}, note="empty"),
    ),
    without=dict.fromkeys(
        ("values", "exceptional", "broadcasting", "shared"), "indices are inside axes"
    ),
    errors_=(
        ((np.array([0]), np.array([3])), {"sizes": (2, 3)}, errors.IndexingError),
        ((np.array([-3]), np.array([0])), {"sizes": (2, 3)}, errors.IndexingError),
        ((np.array([0, 1]), np.array([0, 1, 2])), {"sizes": (2, 3)}, errors.ShapeError),
        ((np.array([0]), normal(1)), {"sizes": (2, 3)}, errors.DTypeError),
    ),
)
