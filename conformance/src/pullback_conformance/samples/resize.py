"""Samples of resizing."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, TypeAlias

import numpy as np

from pullback import errors
from pullback_conformance.draws import normal
from pullback_conformance.sample import call, suite, wrong
from pullback_conformance.samples.convolution import from_last, to_last, tuple_of

Array: TypeAlias = Any


def _terms(
    spatial: tuple[int, ...], out: tuple[int, ...], method: str
) -> Iterator[tuple[tuple[int, ...], list[int], float]]:
    """The pixels of the result, the pixels that they are made of, and the weights of these."""
    for place in product(*map(range, out)):
        centers = [(i + 0.5) * n / m - 0.5 for i, n, m in zip(place, spatial, out, strict=True)]
        if method == "nearest":
            # A center on an edge belongs to the pixel above.
            yield place, [int(np.floor(center + 0.5)) for center in centers], 1.0
            continue
        for corner in product((0, 1), repeat=len(spatial)):
            weight = 1.0
            pixel: list[int] = []
            for side, center, n in zip(corner, centers, spatial, strict=True):
                low = np.floor(center)
                weight *= center - low if side else 1 - (center - low)
                pixel.append(int(np.clip(low + side, 0, n - 1)))
            yield place, pixel, weight


def _resize(
    x: Array, *, size: Any, method: str = "bilinear", data_format: str = "channels_last"
) -> Array:
    x = to_last(x, data_format)
    out = tuple_of(size, x.ndim - 2)
    y: Array = np.zeros((x.shape[0], *out, x.shape[-1]), x.dtype)
    for place, pixel, weight in _terms(x.shape[1:-1], out, method):
        y[:, *place] += weight * x[:, *pixel]
    return from_last(y, data_format)


def _resize_gradient(
    g: Array, *, size: object, input_shape: object, method: str = "bilinear",
    data_format: str = "channels_last",
) -> Array:  # fmt: skip
    g, images = to_last(g, data_format), to_last(np.zeros(input_shape, g.dtype), data_format)
    dx: Array = np.zeros(images.shape, g.dtype)
    for place, pixel, weight in _terms(images.shape[1:-1], g.shape[1:-1], method):
        dx[:, *pixel] += weight * g[:, *place]
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


suite("resize", _resize, without={"exceptional": "a weight of 0 may meet a NaN"})(
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
    without={"exceptional": "a weight of 0 may meet a NaN"},
)(
    *(call(normal(*_out(shape, how)), input_shape=shape, **how) for shape, how in _CASES),
    call(normal(0, 2, 2), size=2, input_shape=(0, 3, 2), note="empty"),
    wrong(errors.ShapeError, normal(1, 3, 1), size=2, input_shape=(1, 4, 1)),
)
