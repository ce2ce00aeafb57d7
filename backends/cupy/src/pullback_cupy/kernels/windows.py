"""The geometry of windows over images: the struct Geometry of windows.cu."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from pullback.shapes import Pads, Shape, channels_of, output_sizes, spatial_of

_GEOMETRY = np.dtype(
    [("batch", np.int64), ("channels", np.int64)]
    + [(name, np.int64, 3) for name in ("in", "out", "window", "stride", "pad", "dilation")]
    + [("in_strides", np.int64, 5), ("out_strides", np.int64, 5)]
)


@functools.lru_cache(maxsize=1024)
def geometry(
    shape: Shape, window: Shape, strides: Shape, padding: Pads, dilation: Shape, data_format: str
) -> Any:
    """The struct for images of `shape`, whose results are in the same format."""
    spatial, channels = spatial_of(shape, data_format), channels_of(shape, data_format)
    out = output_sizes(spatial, window, strides, padding, dilation)
    struct = np.zeros((), _GEOMETRY)
    struct["batch"], struct["channels"] = shape[0], channels
    lacking = 3 - len(spatial)
    for name, values, rest in (
        ("in", spatial, 1), ("out", out, 1), ("window", window, 1), ("stride", strides, 1),
        ("pad", [low for low, _ in padding], 0), ("dilation", dilation, 1),
    ):  # fmt: skip
        struct[name] = [rest] * lacking + list(values)
    struct["in_strides"] = _strides(struct["in"].tolist(), channels, data_format)
    struct["out_strides"] = _strides(struct["out"].tolist(), channels, data_format)
    return struct


def _strides(spatial: list[int], channels: int, data_format: str) -> list[int]:
    """The strides, in elements, of the batch, the three spatial dimensions, and the channels."""
    last = data_format == "channels_last"
    inner = channels if last else 1
    steps = [inner * math.prod(spatial[d + 1 :]) for d in range(3)]
    return [channels * math.prod(spatial), *steps, 1 if last else math.prod(spatial)]
