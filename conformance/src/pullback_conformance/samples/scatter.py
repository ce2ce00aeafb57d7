"""Samples of the ops that add or put values at positions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pullback import errors
from pullback_conformance.draws import cnormal, distinct, integers, normal
from pullback_conformance.sample import Array, call, rough, suite, wrong

_X = normal(4, 3, 5)
_TWICE = np.array([2, 0, 2, -1, 2])
_ONCE = np.array([2, 0, -1])
_GRID = np.array([[0, 3], [-4, 1]], np.int32)


def _places(x: Array, indices: Array, axis: int) -> Any:
    return (*(slice(None),) * (axis % x.ndim), indices)


def _update(x: Array, indices: Array, updates: Array, axis: int = 0) -> Array:
    result = x.copy()
    result[_places(x, indices, axis)] = updates
    return result


def _combined(ufunc: Any) -> Callable[..., Array]:
    def scatter(x: Array, indices: Array, updates: Array, axis: int = 0) -> Array:
        result = x.copy()
        ufunc.at(result, _places(x, indices, axis), updates)
        return result

    return scatter


_add = _combined(np.add)


def _by_segment(combine: Any, empty: float | None = None) -> Callable[..., Array]:
    """A function of segments that combines the slices of each along their first axis."""

    def segmented(data: Array, segment_ids: Array, num_segments: int, axis: int = 0) -> Array:
        axis = axis % (data.ndim - segment_ids.ndim + 1)
        front = np.moveaxis(data, range(axis, axis + segment_ids.ndim), range(segment_ids.ndim))
        ids, shape = (
            np.arange(num_segments)[segment_ids.reshape(-1)],
            front.shape[segment_ids.ndim :],
        )
        slices = front.reshape(ids.size, *shape)
        parts = [slices[ids == segment] for segment in range(num_segments)]
        none = np.full(shape, _empty(combine, data.dtype) if empty is None else empty, data.dtype)
        found = [combine(part, axis=0) if len(part) else none for part in parts]
        return np.moveaxis(np.asarray(found).reshape(num_segments, *shape), 0, axis)

    return segmented


def _empty(combine: object, dtype: Any) -> float:
    info = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
    infinite = dtype.kind == "f"
    if combine is np.max:
        return -np.inf if infinite else info.min
    return np.inf if infinite else info.max


def _sum(x: Array, axis: int) -> Any:
    # NumPy adds small integers in int64.
    return np.sum(x, axis=axis, dtype=x.dtype)


def _segment_softmax(data: Array, segment_ids: Array, num_segments: int, axis: int = 0) -> Array:
    axis = axis % (data.ndim - segment_ids.ndim + 1)
    places: Any = (*(slice(None),) * axis, segment_ids % num_segments)
    top = _by_segment(np.max)(data, segment_ids, num_segments, axis)
    powers = np.exp(data - top[places])
    weights: Array = (
        powers / _by_segment(np.sum, 0)(powers, segment_ids, num_segments, axis)[places]
    )
    return weights


_WRONG: tuple[Any, ...] = (
    wrong(errors.IndexingError, _X, np.array([4]), normal(1, 3, 5)),
    wrong(errors.IndexingError, _X, np.array([-5]), normal(1, 3, 5)),
    wrong(errors.ShapeError, _X, _ONCE, normal(2, 3, 5)),
    wrong(errors.ShapeError, _X, _ONCE, normal(3, 5)),
    wrong(errors.DTypeError, _X, normal(3), normal(3, 3, 5)),
    wrong(errors.DTypeError, integers(0, 9, 4), _ONCE, normal(3)),
    wrong(errors.AxisError, _X, _ONCE, normal(3, 3, 5), axis=3),
)


def _repeated(draw: Callable[..., Any]) -> tuple[Any, ...]:
    """Calls of ops that take a position several times, with updates drawn by `draw`."""
    return (
        call(_X, _TWICE, draw(5, 3, 5), note="one position three times"),
        call(_X, np.array([1, 1, -3]), draw(4, 3, 5), axis=1),
        call(_X, _GRID, draw(4, 3, 2, 2), axis=-1, note="indices of two axes"),
        call(_X, np.array([[0, 0], [2, -4]]), draw(2, 2, 3, 5), note="two axes, repeated"),
        call(_X, np.array([-4, 0, 3, -1]), draw(4, 3, 5), note="from both ends"),
        call(normal(4), np.array(1), normal(), note="0-d indices"),
        call(_X, np.zeros((0,), np.int64), normal(0, 3, 5), note="no indices"),
        call(normal(4, 0), _TWICE, normal(5, 0), note="empty"),
        call(integers(0, 9, 4), _TWICE, integers(0, 9, 5)),
    )


suite("scatter_add", _add)(
    *_repeated(normal),
    call(cnormal(4), _TWICE, cnormal(5)),
    rough(normal(3), integers(0, 3, 4000), normal(4000), note="many"),
    *_WRONG,
)
suite("scatter_update", _update)(
    call(_X, _ONCE, normal(3, 3, 5)),
    call(_X, np.array([1, -3]), normal(4, 2, 5), axis=1),
    call(_X, _GRID % 3 + [[0, 0], [1, 2]], normal(4, 3, 2, 2), axis=-1),
    call(normal(4), np.array(1), normal(), note="0-d indices"),
    call(_X, np.zeros((0,), np.int64), normal(0, 3, 5), note="no indices"),
    call(integers(0, 9, 4), _ONCE, integers(0, 9, 3)),
    call(cnormal(4), _ONCE, cnormal(3)),
    *_WRONG,
)
suite("scatter_multiply", _combined(np.multiply))(
    *_repeated(normal),
    call(cnormal(4), _TWICE, cnormal(5)),
    call(
        np.array([2.0, 3.0, 4.0]),
        np.array([0, 0, 1, 1, 1]),
        np.array([0.0, 5.0, 0.0, 0.0, 7.0]),
        note="factors of 0",
    ),
    rough(normal(3), integers(0, 3, 400), 2.0 ** integers(-2, 3, 400), note="many"),
    rough(
        np.array([1.0, np.nan, 2.0, 0.0, 5.0]),
        np.array([0, 0, 1, 2, 3]),
        np.array([np.nan, 3.0, 2.0, np.inf, np.inf]),
        note="infinities and NaN",
    ),
    *_WRONG,
)
_NAN = np.array([1.0, np.nan, 2.0, -np.inf])
for _name, _ufunc in (("scatter_max", np.maximum), ("scatter_min", np.minimum)):
    suite(_name, _combined(_ufunc), either_zero=True)(
        *_repeated(distinct),
        rough(
            _NAN,
            np.array([0, 0, 2, 3]),
            np.array([np.nan, 3.0, 2.0, np.inf]),
            note="infinities and NaN",
        ),
        *_WRONG,
        wrong(errors.DTypeError, cnormal(4), _ONCE, cnormal(3)),
    )
_EACH = np.array([2, 0, 1, -1, 2])
_OF_SEGMENTS: tuple[Any, ...] = (
    call(distinct(5, 3), _EACH, num_segments=4),
    call(distinct(2, 5, 3), _EACH, num_segments=3, axis=1),
    call(distinct(3, 2, 2), _GRID % 3, num_segments=3, axis=-1),
    call(normal(5, 0), _TWICE, num_segments=3, note="empty slices"),
    call(integers(0, 9, 5), _TWICE, num_segments=3),
    rough(1 + normal(4000) / 64, integers(0, 3, 4000), num_segments=3, note="many"),
    wrong(errors.IndexingError, normal(2), np.array([0, 3]), num_segments=3),
    wrong(errors.ShapeError, normal(2), np.array([0, 1, 2]), num_segments=3),
    wrong(errors.ShapeError, normal(2), np.array([0, 1]), num_segments=-1),
    wrong(errors.DTypeError, normal(2), normal(2), num_segments=3),
)


def _with_empty(sample: Callable[..., Any]) -> tuple[Any, ...]:
    """Calls with segments that no slice is in."""
    return (
        sample(normal(5, 3), _TWICE, num_segments=4, note="an empty segment"),
        sample(normal(3), np.array(1), num_segments=2, note="0-d ids"),
        sample(normal(0, 3), np.zeros((0,), np.int64), num_segments=2, note="empty"),
    )


_combine: Any


def _prod(x: Array, axis: int) -> Any:
    return np.prod(x, axis=axis, dtype=x.dtype)


suite("segment_prod", _by_segment(_prod, 1))(
    *_OF_SEGMENTS,
    *_with_empty(call),
    call(cnormal(5), _TWICE, num_segments=3),
    call(np.array([0.0, 2.0, 0.0, 0.0]), np.array([0, 0, 1, 1]), num_segments=2, note="zeros"),
)
for _name, _combine in (("segment_sum", _sum), ("segment_mean", np.mean)):
    suite(_name, _by_segment(_combine, 0))(
        *_OF_SEGMENTS,
        *_with_empty(call),
        call(cnormal(5), _TWICE, num_segments=3),
    )
_NAN_AND_TIES = rough(
    np.array([np.nan, 3.0, 2.0, np.inf, 2.0, -np.inf, -np.inf]),
    np.array([0, 0, 2, 3, 2, 4, 4]),
    num_segments=6,
    note="infinities, NaN and ties",
)
for _name, _combine in (("segment_max", np.max), ("segment_min", np.min)):
    suite(_name, _by_segment(_combine), either_zero=True)(
        *_OF_SEGMENTS,
        # No difference of infinities is a number.
        *_with_empty(rough),
        _NAN_AND_TIES,
        wrong(errors.DTypeError, cnormal(2), np.array([0, 1]), num_segments=2),
    )
suite("segment_softmax", _segment_softmax)(
    *_OF_SEGMENTS,
    *_with_empty(call),
    rough(np.array([1e4, 3.0, 1e4, -np.inf, 1.0]), np.array([0, 2, 0, 1, 1]), num_segments=3),
    wrong(errors.DTypeError, cnormal(2), np.array([0, 1]), num_segments=2),
)
