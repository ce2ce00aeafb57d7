"""Pooling: one thread for each element of the result."""

from __future__ import annotations

from typing import Any, Unpack

import cupy
import numpy as np

from pullback.dtypes import DType
from pullback.plugins.records import Kernel, may_decline
from pullback.shapes import (
    Pads,
    Shape,
    channels_of,
    image_shape,
    output_sizes,
    spatial_of,
)
from pullback_cupy.compile import contiguous, over_elements
from pullback_cupy.kernels.windows import geometry
from pullback_cupy.typing import Array, PoolOptions


def _geometry(
    shape: Shape, window: Shape, strides: Shape, padding: Pads, data_format: str,
    dilation: Shape = (), ceil_mode: bool = False,
) -> Any:  # fmt: skip
    dilation = dilation or (1,) * len(window)
    return geometry(shape, window, strides, padding, dilation, data_format)


def _pooled(
    shape: Shape, window: Shape, strides: Shape, padding: Pads, data_format: str,
    dilation: Shape = (), ceil_mode: bool = False,
) -> Shape:  # fmt: skip
    dilation = dilation or (1,) * len(window)
    out = output_sizes(spatial_of(shape, data_format), window, strides, padding, dilation)
    return image_shape(shape[0], out, channels_of(shape, data_format), data_format)


def _least(dtype: DType) -> float:
    return float(np.iinfo(dtype).min) if dtype.kind in "iu" else float("-inf")


def _max_pool(x: Array, **options: Unpack[PoolOptions]) -> tuple[Array, ...]:
    x = contiguous(x)
    shape = _pooled(x.shape, **options)
    y, indices = cupy.empty(shape, x.dtype), cupy.empty(shape, np.int32)
    arguments = (x, y, indices, _geometry(x.shape, **options), _least(x.dtype))
    over_elements("windows", "max_pool", y.size, arguments, T=x.dtype)
    return y, indices


def _max_pool_gradient(
    g: Array, indices: Array, *, input_shape: Shape, **options: Unpack[PoolOptions]
) -> Array:
    g, indices = contiguous(g), contiguous(indices)
    dx = cupy.empty(input_shape, g.dtype)
    arguments = (g, indices, dx, _geometry(input_shape, **options))
    over_elements("windows", "max_pool_gradient", dx.size, arguments, T=g.dtype)
    return dx


def _max_pool_gather(x: Array, indices: Array, **options: Unpack[PoolOptions]) -> Array:
    x, indices = contiguous(x), contiguous(indices)
    y = cupy.empty(indices.shape, x.dtype)
    arguments = (x, indices, y, _geometry(x.shape, **options))
    over_elements("windows", "max_pool_gather", y.size, arguments, T=x.dtype)
    return y


@may_decline
def _avg_pool(x: Array, *, count_include_pad: bool, **options: Unpack[PoolOptions]) -> Any:
    if options.get("ceil_mode"):
        return NotImplemented
    x = contiguous(x)
    y = cupy.empty(_pooled(x.shape, **options), x.dtype)
    arguments = (x, y, _geometry(x.shape, **options), int(count_include_pad))
    over_elements("windows", "avg_pool", y.size, arguments, T=x.dtype)
    return y


@may_decline
def _avg_pool_gradient(
    g: Array, *, input_shape: Shape, count_include_pad: bool, **options: Unpack[PoolOptions]
) -> Any:
    if options.get("ceil_mode"):
        return NotImplemented
    g = contiguous(g)
    dx = cupy.empty(input_shape, g.dtype)
    arguments = (g, dx, _geometry(input_shape, **options), int(count_include_pad))
    over_elements("windows", "avg_pool_gradient", dx.size, arguments, T=g.dtype)
    return dx


KERNELS: dict[str, Kernel] = {
    "avg_pool": _avg_pool,
    "avg_pool_gradient": _avg_pool_gradient,
    "max_pool": _max_pool,
    "max_pool_gather": _max_pool_gather,
    "max_pool_gradient": _max_pool_gradient,
}
