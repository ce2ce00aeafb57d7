"""Samples of the ops that put things in order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from pullback import errors
from pullback_conformance.draws import booleans, distinct, integers, normal
from pullback_conformance.sample import Array, call, rough, suite, wrong

_NAN = np.array([[3.0, np.nan, -np.inf, 1.0], [np.inf, 0.0, np.nan, np.nan]])
_TIES = np.array([[1.0, 0.0, 1.0, 0.0, 1.0], [2.0, 2.0, 2.0, 1.0, 2.0]])


def _argsort(x: Array, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    if not descending:
        return np.argsort(x, axis=axis, kind="stable")
    back = np.flip(np.argsort(np.flip(x, axis), axis=axis, kind="stable"), axis)
    return x.shape[axis] - 1 - back


def _sort(x: Array, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    found = np.sort(x, axis=axis)
    return np.flip(found, axis) if descending else found


_LINES = [
    call(distinct(3, 4)),
    call(distinct(3, 4), axis=0),
    call(distinct(2, 3, 4), axis=1, descending=True),
    call(distinct(5), stable=False),
    call(distinct(3, 1)),
    call(normal(2, 0), note="nothing"),
    rough(_NAN, note="NaN comes last"),
    rough(_NAN, descending=True, note="NaN comes first"),
    call(integers(-9, 9, 3, 5), axis=1, note="integers"),
    call(integers(0, 9, 20).astype(np.uint8), descending=True, note="bytes"),
    call(booleans(3, 9), descending=True, note="booleans"),
]
_WRONG = [
    wrong(errors.AxisError, normal(2, 3), axis=2),
    wrong(errors.AxisError, normal()),
]
#: Integers of more than 16 and 32 bits apart, by which kernels may sort in passes over digits.
_APART = [
    replace(
        call((np.arange(5000) * 7919 % 5000) * (3 * 2**bits // 10_000), note=f"{bits} bits apart"),
        checks=("value",),
    )
    for bits in (16, 32)
]
suite("sort", _sort, either_zero=True)(*_LINES, *_APART, *_WRONG)
suite("argsort", _argsort)(
    *_LINES,
    *_APART,
    call(_TIES, note="equal elements"),
    call(_TIES, descending=True, note="equal elements backwards"),
    *_WRONG,
)


def _top_k(x: Array, *, k: int, axis: int = -1, largest: bool = True) -> Any:
    indices = np.take(_argsort(x, axis=axis, descending=largest), np.arange(k), axis=axis)
    return np.take_along_axis(x, indices, axis=axis), indices


suite("top_k", _top_k, either_zero=True)(
    call(distinct(3, 5), k=2),
    call(distinct(5, 2), k=3, axis=0),
    call(distinct(3, 5), k=5, largest=False),
    call(distinct(3, 5), k=0),
    rough(_TIES, k=3, note="equal elements"),
    call(integers(-9, 9, 7), k=3),
    call(booleans(2, 7), k=3, largest=False, note="booleans"),
    wrong(errors.InputValueError, normal(3), k=4),
)


#: Methods that take one element or the mean of two, and no other value between them.
_JUMPS = (
    *("lower", "higher", "midpoint", "nearest"),
    *("inverted_cdf", "averaged_inverted_cdf", "closest_observation"),
)
_METHODS = (
    *("linear", "hazen", "weibull", *_JUMPS),
    *("interpolated_inverted_cdf", "median_unbiased", "normal_unbiased"),
)


def _quantile(
    x: Array, *, q: Any, axis: Any = None, keepdims: bool = False, method: Any = "linear"
) -> Any:
    # A level is a float64: at 0.3 two of 6 elements are equally near; in more digits they are not.
    jumps = method in _JUMPS
    levels = np.asarray(q, x.dtype if x.dtype.kind == "f" and not jumps else float)
    found = np.quantile(x, levels, axis=axis, method=method)
    # Between two infinities of one sign NumPy takes their difference.
    low = np.quantile(x, levels, axis=axis, method="lower")
    high = np.quantile(x, levels, axis=axis, method="higher")
    found = np.where(np.isinf(low) & (low == high), low, found)
    # A number beside an infinity is lost in it.
    found = np.where(np.isnan(found) & (np.isinf(low) != np.isinf(high)), low + high, found)
    if not keepdims:
        return found
    axes = range(x.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
    front = np.ndim(q)
    return np.expand_dims(found, [a % x.ndim + front for a in axes])


def _ends(
    x: Array, *, q: Any = 0.5, axis: Any = None, keepdims: bool = False, method: Any = "linear"
) -> Any:
    """The sizes of the two elements between which a quantile lies."""
    axes = range(x.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
    axes = sorted(a % x.ndim for a in axes)
    rows = np.moveaxis(x, axes, range(-len(axes), 0))
    rows = np.sort(rows.reshape(*rows.shape[: x.ndim - len(axes)], -1))
    # The position among the elements is the quantile of their positions.
    at = np.quantile(np.arange(float(rows.shape[-1])), q, method=method)
    sizes = [
        np.moveaxis(np.abs(np.take(rows, end(at).astype(int), -1)), -1, 0)
        if np.ndim(q)
        else np.abs(rows[..., int(end(at))])
        for end in (np.floor, np.ceil)
    ]
    total = sizes[0] + sizes[1]
    return np.expand_dims(total, [a + np.ndim(q) for a in axes]) if keepdims else total


_MIDDLE: list[tuple[Any, dict[str, Any]]] = [
    (distinct(3, 5), {}),
    (distinct(3, 4), {"axis": 0}),
    (distinct(2, 3, 4), {"axis": (0, 2)}),
    (distinct(2, 3, 4), {"axis": -1, "keepdims": True}),
    (integers(-9, 9, 3, 4), {"axis": 1}),
    (normal(0, 3), {"axis": 1}),
]
_NONE = [wrong(errors.InputValueError, normal(0, 3), axis=0, q=0.5)]
suite("quantile", _quantile, scale=_ends)(
    *(call(x, q=0.5, **attributes) for x, attributes in _MIDDLE),
    *(call(x, q=(0.0, 0.25, 1.0), **attributes) for x, attributes in _MIDDLE),
    rough(_NAN[:, 1:], q=0.3, axis=1, note="NaN"),
    # Levels that floats of every size hold: where two elements are equally near, they decide.
    *(call(distinct(3, 6), q=(0.0, 0.25, 0.5, 1.0), axis=1, method=one) for one in _METHODS),
    *(call(distinct(7), q=0.375, method=one, keepdims=True) for one in _METHODS),
    *(call(distinct(7), q=0.25, method=one) for one in _METHODS),
    rough(_NAN[:, 1:], q=0.5, axis=1, method="midpoint", note="NaN"),
    *_NONE,
    wrong(errors.InputValueError, normal(3), q=1.5),
    wrong(errors.InputValueError, normal(3), q=0.5, method="cubic"),
)
suite("median", np.median, scale=_ends)(
    *(call(x, **attributes) for x, attributes in _MIDDLE),
    wrong(errors.InputValueError, normal(0, 3), axis=0),
)
