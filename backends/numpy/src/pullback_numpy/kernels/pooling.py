"""Pooling, channels last or first."""

from __future__ import annotations

from typing import Unpack

import numpy as np

from pullback.plugins.records import Kernel
from pullback.shapes import channels_last_shape
from pullback_numpy import pooling
from pullback_numpy.kernels.convolution import to_last
from pullback_numpy.typing import Array, AvgPoolOptions, PoolOptions, Sizes


def _back(y: Array) -> Array:
    return np.moveaxis(y, -1, 1)


def _max_pool(x: Array, *, data_format: str, **options: Unpack[PoolOptions]) -> tuple[Array, ...]:
    if data_format == "channels_last":
        return pooling.max_pool(x, **options)
    y, indices = pooling.max_pool(to_last(x), **options)
    return _back(y), _back(indices)


def _max_pool_gradient(
    g: Array,
    indices: Array,
    *,
    input_shape: Sizes,
    data_format: str,
    **options: Unpack[PoolOptions],
) -> Array:
    if data_format == "channels_last":
        return pooling.max_pool_gradient(g, indices, input_shape=input_shape, **options)
    g, indices = to_last(g), to_last(indices)
    return _back(
        pooling.max_pool_gradient(
            g, indices, input_shape=channels_last_shape(input_shape, data_format), **options
        )
    )


def _max_pool_gather(
    x: Array, indices: Array, *, data_format: str, **options: Unpack[PoolOptions]
) -> Array:
    if data_format == "channels_last":
        return pooling.max_pool_gather(x, indices, **options)
    return _back(pooling.max_pool_gather(to_last(x), to_last(indices), **options))


def _avg_pool(x: Array, *, data_format: str, **options: Unpack[AvgPoolOptions]) -> Array:
    if data_format == "channels_last":
        return pooling.avg_pool(x, **options)
    return _back(pooling.avg_pool(to_last(x), **options))


def _avg_pool_gradient(
    g: Array, *, input_shape: Sizes, data_format: str, **options: Unpack[AvgPoolOptions]
) -> Array:
    if data_format == "channels_last":
        return pooling.avg_pool_gradient(g, input_shape=input_shape, **options)
    return _back(
        pooling.avg_pool_gradient(
            to_last(g), input_shape=channels_last_shape(input_shape, data_format), **options
        )
    )


KERNELS: dict[str, Kernel] = {
    "avg_pool": _avg_pool,
    "avg_pool_gradient": _avg_pool_gradient,
    "max_pool": _max_pool,
    "max_pool_gather": _max_pool_gather,
    "max_pool_gradient": _max_pool_gradient,
}
