"""How windows lie on images: the struct Geometry of windows.cu."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

_GEOMETRY = np.dtype(
    [("batch", np.int64), ("channels", np.int64)]
    + [(name, np.int64, 3) for name in ("in", "out", "window", "stride", "pad", "dilation")]
    + [("in_strides", np.int64, 5), ("out_strides", np.int64, 5)]
)


def spatial_of(shape: Any, data_format: str) -> tuple[int, ...]:
    """The sizes of the spatial dimensions."""
    return tuple(shape[1:-1] if data_format == "channels_last" else shape[2:])


def channels_of(shape: Any, data_format: str) -> int:
    """The number of channels."""
    return int(shape[-1 if data_format == "channels_last" else 1])


def out_sizes(
    spatial: Any, window: Any, strides: Any, padding: Any, dilation: Any
) -> tuple[int, ...]:
    """How many windows fit along each spatial dimension."""
    return tuple(
        max(0, (size + low + high - step * (width - 1) - 1) // stride + 1)
        for size, width, stride, (low, high), step in zip(
            spatial, window, strides, padding, dilation, strict=True
        )
    )


def image_shape(batch: int, spatial: Any, channels: int, data_format: str) -> tuple[int, ...]:
    """The shape of images of these sizes."""
    if data_format == "channels_last":
        return (batch, *spatial, channels)
    return (batch, channels, *spatial)


@functools.lru_cache(maxsize=1024)
def geometry(
    shape: Any, window: Any, strides: Any, padding: Any, dilation: Any, data_format: str
) -> Any:
    """The struct for images of `shape`, whose results are in the same format."""
    spatial, channels = spatial_of(shape, data_format), channels_of(shape, data_format)
    out = out_sizes(spatial, window, strides, padding, dilation)
    how = np.zeros((), _GEOMETRY)
    how["batch"], how["channels"] = shape[0], channels
    lacking = 3 - len(spatial)
    for name, values, rest in (
        ("in", spatial, 1), ("out", out, 1), ("window", window, 1), ("stride", strides, 1),
        ("pad", [low for low, _ in padding], 0), ("dilation", dilation, 1),
    ):  # fmt: skip
        how[name] = [rest] * lacking + list(values)
    how["in_strides"] = _strides(how["in"].tolist(), channels, data_format)
    how["out_strides"] = _strides(how["out"].tolist(), channels, data_format)
    return how


def _strides(spatial: list[int], channels: int, data_format: str) -> list[int]:
    """How far elements are apart along the batch, the three spatial dimensions, and channels."""
    last = data_format == "channels_last"
    inner = channels if last else 1
    steps = [inner * math.prod(spatial[d + 1 :]) for d in range(3)]
    return [channels * math.prod(spatial), *steps, 1 if last else math.prod(spatial)]
