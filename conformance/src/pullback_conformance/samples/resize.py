"""Samples of resizing."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from pullback import errors
from pullback_conformance.draws import normal
from pullback_conformance.sample import call, suite, wrong
from pullback_conformance.samples.convolution import from_last, to_last, tuple_of

Array: TypeAlias = Any


def _taps(n: int, m: int, method: str, rank: int) -> list[tuple[Array, Array]]:
    """The pixels that m pixels are made of along an axis of n, and their weights, first axis."""
    centers = (np.arange(m) + 0.5) * n / m - 0.5
    if method == "nearest":
        # A center on an edge belongs to the pixel above.
        return [(np.floor(centers + 0.5).astype(int), 1)]
    low = np.floor(centers).astype(int)
    part = (centers - low).reshape(-1, *(1,) * (rank - 1))
    return [(np.clip(low + side, 0, n - 1), abs(1 - side - part)) for side in (0, 1)]


def _resize(
    x: Array, *, size: Any, method: str = "bilinear", data_format: str = "channels_last"
) -> Array:
    y = to_last(x, data_format)
    for axis, m in enumerate(tuple_of(size, x.ndim - 2), 1):
        along = np.moveaxis(y, axis, 0)
        taps = _taps(len(along), m, method, x.ndim)
        y = np.moveaxis(sum(weight * along[pixels] for pixels, weight in taps), 0, axis)
    return from_last(y, data_format)


def _resize_gradient(
    g: Array, *, size: object, input_shape: object, method: str = "bilinear",
    data_format: str = "channels_last",
) -> Array:  # fmt: skip
    dx, images = to_last(g, data_format), to_last(np.zeros(input_shape, g.dtype), data_format)
    for axis in range(1, g.ndim - 1):
        along = np.moveaxis(dx, axis, 0)
        n = images.shape[axis]
        sums: Array = np.zeros((n, *along.shape[1:]), g.dtype)
        for pixels, weight in _taps(n, len(along), method, g.ndim):
            np.add.at(sums, pixels, weight * along)
        dx = np.moveaxis(sums, 0, axis)
    return from_last(dx, data_format)


_CASES: tuple[tuple[tuple[int, ...], dict[str, Any]], ...] = (
    ((2, 4, 3), {"size": 7}),
    ((2, 4, 3), {"size": 2}),
    ((2, 4, 3), {"size": 12}),
    ((2, 4, 3), {"size": 7, "method": "nearest"}),
    ((2, 4, 3), {"size": 8, "method": "nearest"}),
    ((2, 1, 3), {"size": 5}),
    ((2, 4, 3), {"size": 1}),
    ((1, 3, 4, 2), {"size": (1, 6)}),
    ((1, 3, 4, 2), {"size": (5, 1), "method": "nearest"}),
    ((1, 4, 5, 2), {"size": (8, 3)}),
    ((1, 4, 6, 2), {"size": (2, 4), "method": "nearest"}),
    ((1, 2, 3, 4), {"size": 5, "data_format": "channels_first"}),
    ((1, 2, 3, 4), {"size": (9, 8), "data_format": "channels_first"}),
)


def _out(shape: tuple[int, ...], how: dict[str, Any]) -> tuple[int, ...]:
    """The shape of the resized images."""
    size = tuple_of(how["size"], len(shape) - 2)
    first = 2 if "data_format" in how else 1
    return (*shape[:first], *size, *shape[first + len(size) :])


suite(
    "resize",
    _resize,
    items=("x",),
    without={"exceptional": "a weight of 0 may meet a NaN"},
)(
    *(call(normal(*shape), **how) for shape, how in _CASES),
    call(normal(1, 3, 3, 2), size=3, note="the same size"),
    call(normal(0, 3, 2), size=2, note="empty"),
    wrong(errors.ShapeError, normal(4, 3), size=2),
    wrong(errors.ShapeError, normal(1, 4, 3), size=(2, 2)),
    wrong(errors.ShapeError, normal(1, 4, 3), size=0),
    wrong(errors.ShapeError, normal(1, 0, 3), size=2),
    wrong(errors.InputValueError, normal(1, 4, 3), size=2, method="cubic"),
)
suite(
    "resize_gradient",
    _resize_gradient,
    items=("g",),
    without={"exceptional": "a weight of 0 may meet a NaN"},
)(
    *(call(normal(*_out(shape, how)), input_shape=shape, **how) for shape, how in _CASES),
    call(normal(0, 2, 2), size=2, input_shape=(0, 3, 2), note="empty"),
    wrong(errors.ShapeError, normal(1, 3, 1), size=2, input_shape=(1, 4, 1)),
)
