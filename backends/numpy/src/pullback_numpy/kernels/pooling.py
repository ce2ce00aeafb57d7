"""Pooling, channels last or first."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any, Unpack

import numpy as np

from pullback.casting import compute_dtype
from pullback.plugins.records import Kernel, may_decline
from pullback.shapes import channels_last_shape, spatial_of
from pullback_numpy import pooling, pooling_few
from pullback_numpy.kernels.convolution import to_last
from pullback_numpy.pooling_few import Plan
from pullback_numpy.typing import Array, AvgPoolOptions, DType, PoolOptions, Sizes


def _back(y: Array) -> Array:
    return np.moveaxis(y, -1, 1)


def _plan(shape: Sizes, data_format: str, options: Any) -> Plan | None:
    """Returns how few elements are pooled; None for many."""
    first = 1 if data_format == "channels_last" else 2
    return pooling_few.plan_of(
        shape,
        first,
        options["window"],
        options["strides"],
        options["padding"],
        options.get("dilation", ()),
    )


def _wide(x: Array) -> Array:
    return x.astype(compute_dtype(x.dtype), copy=False)


@lru_cache(maxsize=64)
def _counts(shape: Sizes, data_format: str, dtype: DType, **options: Any) -> Any:
    """The divisors of the sums, with axes of channels as in the images."""
    counts = pooling.counts_of(spatial_of(shape, data_format), **options, dtype=dtype)
    return counts if data_format == "channels_last" or not counts.ndim else counts[..., 0]


def _max_pool(
    x: Array,
    *,
    data_format: str,
    ceil_mode: bool = False,
    residuals: bool = True,
    **options: Unpack[PoolOptions],
) -> Any:
    plan = _plan(x.shape, data_format, options)
    if plan is not None:
        wide = _wide(x)
        if not residuals:
            y = pooling_few.maxima(wide, plan, prod(options["window"]), pooling.least(wide.dtype))
            return y.astype(x.dtype, copy=False)
        y, indices = pooling_few.max_pool(
            wide, plan, prod(options["window"]), pooling.least(wide.dtype)
        )
        return y.astype(x.dtype, copy=False), indices
    if data_format == "channels_last":
        y, indices = pooling.max_pool(x, **options)
    else:
        y, indices = map(_back, pooling.max_pool(to_last(x), **options))
    return (y, indices) if residuals else y


def _max_pool_gradient(
    g: Array,
    indices: Array,
    *,
    input_shape: Sizes,
    data_format: str,
    ceil_mode: bool = False,
    **options: Unpack[PoolOptions],
) -> Array:
    plan = _plan(input_shape, data_format, options)
    if plan is not None:
        dx = pooling_few.max_pool_gradient(_wide(g), indices, plan)
        return dx.astype(g.dtype, copy=False)
    if data_format == "channels_last":
        return pooling.max_pool_gradient(g, indices, input_shape=input_shape, **options)
    g, indices = to_last(g), to_last(indices)
    return _back(
        pooling.max_pool_gradient(
            g, indices, input_shape=channels_last_shape(input_shape, data_format), **options
        )
    )


def _max_pool_gather(
    x: Array,
    indices: Array,
    *,
    data_format: str,
    ceil_mode: bool = False,
    **options: Unpack[PoolOptions],
) -> Array:
    plan = _plan(x.shape, data_format, options)
    if plan is not None:
        return pooling_few.max_pool_gather(x, indices, plan)
    if data_format == "channels_last":
        return pooling.max_pool_gather(x, indices, **options)
    return _back(pooling.max_pool_gather(to_last(x), to_last(indices), **options))


@may_decline
def _avg_pool(
    x: Array, *, data_format: str, ceil_mode: bool = False, **options: Unpack[AvgPoolOptions]
) -> Any:
    if ceil_mode:
        return NotImplemented
    plan = _plan(x.shape, data_format, options)
    if plan is not None:
        wide, taps = _wide(x), prod(options["window"])
        counts = (
            taps if plan.inner is None else _counts(x.shape, data_format, wide.dtype, **options)
        )
        y = pooling_few.avg_pool(wide, plan, taps, counts)
        return y.astype(x.dtype, copy=False)
    if data_format == "channels_last":
        return pooling.avg_pool(x, **options)
    return _back(pooling.avg_pool(to_last(x), **options))


@may_decline
def _avg_pool_gradient(
    g: Array,
    *,
    input_shape: Sizes,
    data_format: str,
    ceil_mode: bool = False,
    **options: Unpack[AvgPoolOptions],
) -> Any:
    if ceil_mode:
        return NotImplemented
    plan = _plan(input_shape, data_format, options)
    if plan is not None:
        wide = _wide(g)
        even = wide / _counts(input_shape, data_format, wide.dtype, **options)
        dx = pooling_few.avg_pool_gradient(even, plan, options["window"])
        return dx.astype(g.dtype, copy=False)
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
