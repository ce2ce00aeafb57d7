"""Samples of the ops that x[key] is made of, and of taking elements by position."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback import errors
from pullback_conformance.draws import booleans, cnormal, integers, normal
from pullback_conformance.sample import Array, call, suite, wrong

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


def _placed(value: Array, shape: object, key: object) -> Array:
    return _updated(np.zeros(shape, value.dtype), value, key)


suite("strided_slice", lambda x, key: x[key])(
    *(call(_X, key=key) for key in _KEYS),
    call(normal(), key=(None, ...), note="0-d"),
    call(normal(0, 2), key=(_ALL, 1, ...), note="empty"),
    call(cnormal(4), key=(slice(1, 3, 1), ...)),
    call(booleans(4), key=(1, ...)),
)
suite("strided_update", _updated)(
    *(call(_X, np.asarray(normal(*_X[key].shape, seed=1)), key=key) for key in _KEYS),
    call(_X, normal(), key=(slice(1, 3, 1), ...), note="one value for all"),
    call(_X, normal(3, 1), key=(2, ...), note="broadcast"),
    call(normal(), normal(seed=1), key=(...,), note="0-d"),
    call(integers(0, 9, 4), integers(0, 9, 2), key=(slice(0, 2, 1), ...)),
    wrong(errors.ShapeError, _X, normal(2), key=(0, ...)),
    wrong(errors.DTypeError, integers(0, 9, 4), normal(), key=(0, ...)),
)
suite("strided_place", _placed)(
    *(call(np.asarray(normal(*_X[key].shape)), shape=_X.shape, key=key) for key in _KEYS),
    wrong(errors.ShapeError, normal(2), shape=(4,), key=(slice(0, 3, 1), ...)),
)

# By position ----------------------------------------------------------------------------------

_ROWS = np.array([2, 0, 0, -1])
_GRID = np.array([[0, 3], [-4, 1]], np.int32)

suite("take", lambda x, indices, axis=0: np.take(x, indices, axis))(
    call(_X, _ROWS),
    call(_X, _ROWS % 3, axis=1),
    call(_X, _GRID, axis=-1),
    call(_X, np.array(1), note="0-d indices"),
    call(normal(4), np.array(-1)),
    call(_X, np.zeros((0,), np.int64), note="no indices"),
    call(_X, np.array([1, 2], np.uint8), note="narrow indices"),
    call(normal(4, 0), _ROWS, note="empty"),
    call(cnormal(4, 2), _ROWS),
    call(booleans(4), _ROWS),
    wrong(errors.IndexingError, _X, np.array([4])),
    wrong(errors.IndexingError, _X, np.array([0, -5])),
    wrong(errors.IndexingError, normal(0), np.array([0])),
    wrong(errors.IndexingError, normal(0, 0), np.array([0])),
    wrong(errors.DTypeError, _X, normal(2)),
    wrong(errors.DTypeError, _X, np.array([1], np.uint64)),
    wrong(errors.AxisError, _X, _ROWS, axis=3),
    wrong(errors.AxisError, normal(), _ROWS),
)


def _take_along_axis(x: Array, indices: Array, axis: int = -1) -> Array:
    return np.take_along_axis(x, indices, axis)


suite("take_along_axis", _take_along_axis)(
    call(_X, integers(-5, 5, 4, 3, 2)),
    call(_X, integers(-4, 4, 6, 3, 5), axis=0),
    call(_X, integers(-3, 3, 1, 2, 5), axis=1, note="indices broadcast"),
    call(normal(1, 4), integers(-4, 4, 3, 2), note="x broadcasts"),
    call(normal(4), integers(0, 4, 2)),
    call(_X, integers(0, 5, 4, 3, 0), note="no indices"),
    wrong(errors.ShapeError, _X, integers(0, 3, 4, 3)),
    wrong(errors.ShapeError, _X, integers(0, 3, 4, 2, 5)),
    wrong(errors.IndexingError, normal(2, 2), np.array([[0], [2]])),
    wrong(errors.AxisError, _X, integers(0, 3, 4, 3, 5), axis=3),
)


def _put_along_axis(x: Array, indices: Array, values: Array, *, axis: int = -1) -> Array:
    result = x.copy()
    beside = [n if a == axis % x.ndim else x.shape[a] for a, n in enumerate(indices.shape)]
    np.put_along_axis(result, np.broadcast_to(indices, beside), values, axis)
    return result


suite("put_along_axis", _put_along_axis)(
    call(_X, np.argsort(normal(4, 3, 5))[..., :2], normal(4, 3, 2)),
    call(_X, np.argsort(normal(4, 3, 5), axis=0)[1:2], normal(1, 3, 5), axis=0),
    call(_X, np.array([[[-1], [0]]]), normal(4, 1, 1), axis=1, note="both broadcast"),
    call(normal(4), np.array([3, 0]), np.asarray(2.0), note="one value"),
    call(_X, integers(0, 5, 4, 3, 0), normal(4, 3, 0), note="no indices"),
    call(integers(0, 9, 2, 3), np.array([[0], [-1]]), np.array([[7], [8]]), note="integers"),
    wrong(errors.ShapeError, _X, integers(0, 3, 4, 3), normal(4, 3)),
    wrong(errors.ShapeError, normal(1, 4), integers(0, 4, 3, 2), normal(3, 2)),
    wrong(errors.ShapeError, normal(2, 2), np.array([[0], [1]]), normal(2, 2)),
    wrong(errors.IndexingError, normal(2, 2), np.array([[0], [2]]), normal(2, 1)),
    wrong(errors.AxisError, _X, integers(0, 3, 4, 3, 5), normal(4, 3, 5), axis=3),
)


def _place_along_axis(values: Array, indices: Array, shape: Any, axis: int) -> Array:
    result = np.zeros(shape, values.dtype)
    mesh = list(np.ix_(*map(range, shape)))
    mesh[axis] = indices
    np.add.at(result, tuple(mesh), values)
    return result


suite("place_along_axis", _place_along_axis)(
    call(normal(4, 3, 2), integers(-5, 5, 4, 3, 2), shape=_X.shape, axis=2),
    call(normal(6, 3, 5), integers(-4, 4, 6, 3, 5), shape=_X.shape, axis=0),
    call(normal(4, 2, 5), integers(-3, 3, 1, 2, 5), shape=_X.shape, axis=1, note="broadcast"),
    call(normal(3, 2), integers(-4, 4, 3, 2), shape=(1, 4), axis=1, note="added over rows"),
    call(integers(0, 9, 4), np.array([1, 1, 0, 2]), shape=(3,), axis=0),
    call(normal(4, 2, 5), integers(-3, 3, 4, 2, 5), shape=_X.shape, axis=-2, note="from behind"),
    call(normal(4, 3, 0), integers(0, 5, 4, 3, 0), shape=_X.shape, axis=2, note="no indices"),
    wrong(errors.ShapeError, normal(4, 3), integers(0, 3, 4, 2), shape=(4, 3), axis=1),
    wrong(errors.IndexingError, normal(2, 1), np.array([[0], [2]]), shape=(2, 2), axis=1),
    wrong(errors.AxisError, normal(2, 1), np.array([[0], [1]]), shape=(2, 2), axis=2),
)


def _ravel_index(x1: Array, x2: Array, sizes: Any) -> Any:
    both = np.broadcast_arrays(x1, x2)
    return np.ravel_multi_index(tuple(i % n for i, n in zip(both, sizes, strict=True)), sizes)


suite(
    "ravel_index",
    _ravel_index,
    without=dict.fromkeys(
        ("values", "exceptional", "broadcasting", "shared", "random"), "indices are inside axes"
    ),
)(
    call(np.array([0, -1]), np.array([1, 2]), sizes=(2, 3)),
    call(np.array([[0], [1]]), np.array([1, -3, 2]), sizes=(2, 3)),
    call(np.array(1), np.array(2), sizes=(2, 3), note="0-d"),
    call(np.array([0, 2], np.uint8), np.array([1], np.int32), sizes=(3, 2)),
    call(np.array([2**16], np.int32), np.array([0], np.int32), sizes=(2**17, 2**17)),
    call(np.zeros((0,), np.int64), np.array([1]), sizes=(2, 3), note="empty"),
    wrong(errors.IndexingError, np.array([0]), np.array([3]), sizes=(2, 3)),
    wrong(errors.IndexingError, np.array([-3]), np.array([0]), sizes=(2, 3)),
    wrong(errors.ShapeError, np.array([0, 1]), np.array([0, 1, 2]), sizes=(2, 3)),
    wrong(errors.DTypeError, np.array([0]), normal(1), sizes=(2, 3)),
)
