"""Samples of the running sums, products and extrema."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback import errors
from pullback.dtypes import REAL_FLOATING
from pullback_conformance.draws import booleans, cnormal, distinct, integers, normal, uniform
from pullback_conformance.sample import Array, Sample, call, reachable, rough, suite, wrong

_ERRORS = [
    wrong(errors.AxisError, normal(2, 3)),
    wrong(errors.AxisError, normal(2, 3), axis=2),
    wrong(errors.AxisError, normal()),
]


def _running(function: Any, initial: int) -> Any:
    def reference(
        x: Array, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
    ) -> Any:
        axis = 0 if axis is None else axis
        if dtype is not None:
            dtype = reachable(x, dtype)
        narrow = dict.fromkeys(("bool", "int8", "int16"), "int32")
        narrow |= dict.fromkeys(("uint8", "uint16"), "uint32")
        kind = dtype or narrow.get(x.dtype.name, x.dtype)
        if (
            dtype is not None and dtype in REAL_FLOATING
        ):  # results are compared with what is not rounded
            kind = x.dtype if x.dtype.kind == "f" else np.float64
        found = function(x, axis=axis, dtype=kind)
        if include_initial:
            shape = list(found.shape)
            shape[axis] = 1
            found = np.concatenate([np.full(shape, initial, found.dtype), found], axis=axis)
        return found

    return reference


_ZEROS = np.array([[2.0, 0.0, 3.0, -1.0], [0.0, 1.5, 0.0, 2.0], [1.0, 2.0, 3.0, 0.0]])
_STRANGE = np.array([[1.0, np.nan, 2.0], [np.inf, 1.0, -3.0], [1.0, -np.inf, np.inf]])


def _samples(x: Array) -> list[Sample]:
    return [
        call(x[0]),
        call(x, axis=0),
        call(x, axis=-1),
        call(x[:, :1], axis=1),
        call(x[:, :0], axis=1),
        rough(_STRANGE, axis=1, note="infinities and NaN"),
    ]


def _initial(x: Array) -> list[Sample]:
    return [
        call(x, axis=1, include_initial=True),
        call(x[:, :0], axis=1, include_initial=True, note="nothing"),
        call(x, axis=0, dtype="float64", dtypes=("float32", "float64")),
        call(integers(1, 4, 3, 4), axis=1, note="integers"),
        call(integers(1, 4, 3, 4).astype(np.int8), axis=1, note="small integers"),
        call(booleans(5), include_initial=True, note="truth values"),
        call(cnormal(2, 3), axis=1),
    ]


def _running_logsumexp(x: Array, *, axis: int | None = None) -> Array:
    # By doubling: an element goes through as many roundings as the length has binary digits.
    y, step = np.moveaxis(x, axis or 0, -1), 1
    while step < y.shape[-1]:
        y = np.concatenate([y[..., :step], np.logaddexp(y[..., step:], y[..., :-step])], axis=-1)
        step *= 2
    return np.moveaxis(y, -1, axis or 0)


def _extrema(function: Any) -> Any:
    return lambda x, *, axis=None: function.accumulate(x, axis=axis or 0)


suite("cumulative_sum", _running(np.cumsum, 0))(
    *_samples(normal(3, 4)),
    *_initial(normal(3, 4)),
    call(uniform(0, 1, 3000, 2), axis=0, note="long"),
    *_ERRORS,
)
suite(
    "cumulative_prod",
    _running(np.cumprod, 1),
    without={"large": "a product of thousands leaves the range"},
)(
    *_samples(uniform(0.5, 2, 3, 5)),
    *_initial(uniform(0.5, 2, 3, 5)),
    call(_ZEROS, axis=1, note="zeros"),
    *_ERRORS,
)
suite("cumulative_logsumexp", _running_logsumexp)(
    *_samples(normal(3, 5)),
    rough(normal(3, 4) * 1000, axis=1, note="large"),
    rough(np.array([-np.inf, -np.inf, 0.0]), note="empty sums"),
    *_ERRORS,
)
for _name, _larger in (("max", np.maximum), ("min", np.minimum)):
    suite(f"cumulative_{_name}", _extrema(_larger), either_zero=True)(
        *_samples(distinct(3, 5)), call(integers(-5, 5, 7)), call(booleans(7)), *_ERRORS
    )


def _recurrence(a: Array, b: Array, *, axis: int, reverse: bool = False) -> Array:
    a, b = np.moveaxis(a, axis, 0), np.moveaxis(b, axis, 0)
    a = np.roll(a, -1, 0)[::-1] if reverse else a
    y = np.array(b[::-1] if reverse else b)
    for i in range(1, len(y)):
        y[i] = y[i] + a[i] * y[i - 1]
    return np.moveaxis(y[::-1] if reverse else y, 0, axis)


def _recurrence_size(a: Array, b: Array, **how: Any) -> Array:
    """Terms may cancel."""
    return _recurrence(np.abs(a), np.abs(b), **how)


suite(
    "linear_recurrence",
    _recurrence,
    scale=_recurrence_size,
    without={"random": "the order of products decides what infinities and long sequences become"},
)(
    call(normal(5), normal(5, seed=1), axis=0),
    call(normal(5), normal(5, seed=1), axis=0, reverse=True, note="reverse"),
    call(normal(3, 4), normal(3, 4, seed=1), axis=0),
    call(normal(3, 4), normal(3, 4, seed=1), axis=-1, reverse=True, note="rows in reverse"),
    call(normal(2, 5, 3), normal(2, 5, 3, seed=1), axis=1, reverse=True, note="columns in reverse"),
    call(cnormal(2, 5), cnormal(2, 5, seed=1), axis=1, reverse=True, note="complex"),
    call(normal(10, 1), normal(10, 1, seed=1), axis=1, note="one element"),
    call(normal(2, 0), normal(2, 0), axis=1, note="nothing"),
    call(normal(0, 2), normal(0, 2), axis=1, reverse=True, note="no rows"),
    rough(_ZEROS, np.abs(_ZEROS), axis=1, reverse=True, note="zeros"),
    rough(_STRANGE, _STRANGE, axis=1, note="infinities and NaN"),
    rough(uniform(-1, 1, 700, 2), normal(700, 2), axis=0, reverse=True, note="long"),
    rough(uniform(0.9, 1.1, 700), normal(700), axis=0, note="a long vector"),
    wrong(errors.ShapeError, normal(2, 3), normal(3), axis=0),
    wrong(errors.AxisError, normal(2, 3), normal(2, 3), axis=2),
)
