"""Samples of windows of images, and of their sums."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from pullback import errors
from pullback_conformance.draws import cnormal, integers, normal
from pullback_conformance.sample import call, suite, wrong
from pullback_conformance.samples.convolution import from_last, to_last, tuple_of

Array: TypeAlias = Any


def _pairs(padding: Any, spatial: Any, reach: Any, strides: Any) -> list[tuple[int, int]]:
    if padding == "same":
        total = [
            max(0, (-(-n // s) - 1) * s + r + 1 - n)
            for n, s, r in zip(spatial, strides, reach, strict=True)
        ]
        return [(t // 2, t - t // 2) for t in total]
    return [(0, 0)] * len(spatial) if padding == "valid" else list(padding)


def _places(spatial: Any, *, window: Any, strides: Any = 1, padding: Any = "valid",
            dilation: Any = 1) -> Any:  # fmt: skip
    """For each place and element of a window the pixel that it is; None in the padding."""
    count = len(spatial)
    window, strides, dilation = (tuple_of(v, count) for v in (window, strides, dilation))
    reach = [(w - 1) * d for w, d in zip(window, dilation, strict=True)]
    pads = _pairs(padding, spatial, reach, strides)
    out = [
        max(0, (n + sum(pair) - r - 1) // s + 1)
        for n, pair, r, s in zip(spatial, pads, reach, strides, strict=True)
    ]
    found = {}
    for place in np.ndindex(*out):
        for element in np.ndindex(*window):
            pixel = tuple(
                p * s + e * d - pair[0]
                for p, s, e, d, pair in zip(place, strides, element, dilation, pads, strict=True)
            )
            inside = all(0 <= i < n for i, n in zip(pixel, spatial, strict=True))
            found[(*place, *element)] = pixel if inside else None
    return (*out, *window), found


def _back(patches: Array, data_format: str) -> Array:
    if data_format == "channels_last":
        return patches
    count = (patches.ndim - 2) // 2
    order = (0, patches.ndim - 1, *range(1 + count, 1 + 2 * count), *range(1, 1 + count))
    return patches.transpose(order)


def _unfold(x: Array, *, data_format: str = "channels_last", **how: Any) -> Array:
    x = to_last(x, data_format)
    shape, places = _places(x.shape[1:-1], **how)
    y: Array = np.zeros((x.shape[0], *shape, x.shape[-1]), x.dtype)
    for place, pixel in places.items():
        if pixel is not None:
            y[:, *place] = x[:, *pixel]
    return _back(y, data_format)


def _fold(patches: Array, *, size: Any, data_format: str = "channels_last", **how: Any) -> Array:
    count = (patches.ndim - 2) // 2
    if data_format == "channels_first":
        order = (0, *range(2 + count, 2 + 2 * count), *range(2, 2 + count), 1)
        patches = patches.transpose(order)
    size = tuple_of(size, count)
    _, places = _places(size, window=patches.shape[1 + count : -1], **how)
    y: Array = np.zeros((patches.shape[0], *size, patches.shape[-1]), patches.dtype)
    for place, pixel in places.items():
        if pixel is not None:
            y[:, *pixel] += patches[:, *place]
    return from_last(y, data_format)


_CASES: tuple[tuple[tuple[int, ...], dict[str, Any]], ...] = (
    ((2, 5, 3), {"window": 2}),
    ((1, 6, 5, 2), {"window": (3, 2), "strides": (2, 1)}),
    ((1, 6, 5, 2), {"window": 2, "dilation": (2, 3), "strides": 2}),
    ((1, 5, 4, 2), {"window": 3, "padding": ((1, 0), (2, 1))}),
    ((1, 5, 4, 2), {"window": 3, "padding": "same", "strides": 2}),
    ((2, 3, 5, 4), {"window": 2, "data_format": "channels_first", "padding": ((1, 1), (0, 0))}),
    ((1, 2, 3, 2, 1), {"window": (2, 1, 2)}),
    ((0, 4, 2), {"window": 2}),
)


def _patches(shape: tuple[int, ...], how: dict[str, Any]) -> tuple[Array, dict[str, Any]]:
    """Patches of images of a shape, and how they fold."""
    drawn = normal(*_unfold(np.zeros(shape), **how).shape)
    first = how.get("data_format") == "channels_first"
    rest = {name: value for name, value in how.items() if name != "window"}
    return drawn, {"size": shape[2:] if first else shape[1:-1], **rest}


suite("unfold", _unfold, items=("x",), slow=True)(
    *(call(normal(*shape), **how) for shape, how in _CASES),
    call(integers(-5, 5, 1, 4, 2), window=2, note="integers"),
    call(normal(1, 2, 1), window=3, note="no windows"),
    wrong(errors.ShapeError, normal(4, 3), window=2),
    wrong(errors.ShapeError, normal(1, 4, 3), window=(2, 2)),
    wrong(errors.ShapeError, normal(1, 4, 3), window=0),
)
suite("fold", _fold, items=("patches",), slow=True)(
    *(call(patches, **how) for patches, how in (_patches(*case) for case in _CASES)),
    call(cnormal(1, 3, 2, 1), size=4, note="complex"),
    call(integers(-5, 5, 1, 3, 2, 1), size=4, note="integers"),
    wrong(errors.ShapeError, normal(1, 3, 1), size=4),
    wrong(errors.ShapeError, normal(1, 3, 2, 1), size=5),
    wrong(errors.ShapeError, normal(1, 3, 2, 1), size=(4, 4)),
)
