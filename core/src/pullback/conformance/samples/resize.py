"""Samples of resizing."""

from __future__ import annotations

from itertools import product
from typing import Any, TypeAlias

import numpy as np

from pullback import errors
from pullback.conformance.draws import normal
from pullback.conformance.sample import call, suite, wrong
from pullback.conformance.samples.convolution import from_last, to_last, tuple_of

Array: TypeAlias = Any


def _resize(
    x: Array, *, size: Any, method: str = "bilinear", data_format: str = "channels_last"
) -> Array:
    x = to_last(x, data_format)
    spatial = x.shape[1:-1]
    out = tuple_of(size, len(spatial))
    y: Array = np.zeros((x.shape[0], *out, x.shape[-1]), x.dtype)
    for place in product(*map(range, out)):
        centers = [(i + 0.5) * n / m - 0.5 for i, n, m in zip(place, spatial, out, strict=True)]
        if method == "nearest":
            # A center on an edge belongs to the pixel above.
            nearest = [int(np.floor(center + 0.5)) for center in centers]
            y[(slice(None), *place)] = x[(slice(None), *nearest)]
            continue
        for corner in product((0, 1), repeat=len(spatial)):
            weight: Any = 1.0
            pixel: list[int] = []
            for side, center, n in zip(corner, centers, spatial, strict=True):
                low = np.floor(center)
                weight *= center - low if side else 1 - (center - low)
                pixel.append(int(np.clip(low + side, 0, n - 1)))
            y[(slice(None), *place)] += weight * x[(slice(None), *pixel)]
    return from_last(y, data_format)


suite("resize", _resize, without={"exceptional": "a weight of 0 may meet a NaN"})(
    call(normal(2, 4, 3), size=7),
    call(normal(2, 4, 3), size=2),
    call(normal(2, 4, 3), size=7, method="nearest"),
    call(normal(1, 4, 5, 2), size=(8, 3)),
    call(normal(1, 4, 6, 2), size=(2, 4), method="nearest"),
    call(normal(1, 2, 3, 4), size=5, data_format="channels_first"),
    call(normal(1, 3, 3, 2), size=3, note="the same size"),
    call(normal(0, 3, 2), size=2, note="empty"),
    wrong(errors.ShapeError, normal(4, 3), size=2),
    wrong(errors.ShapeError, normal(1, 4, 3), size=(2, 2)),
    wrong(errors.ShapeError, normal(1, 4, 3), size=0),
    wrong(errors.ShapeError, normal(1, 0, 3), size=2),
    wrong(errors.InputValueError, normal(1, 4, 3), size=2, method="cubic"),
)
