"""Pooling, channels last or first."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any, Unpack

import numpy as np

from pullback.casting import compute_dtype
from pullback.plugins.records import Kernel, may_decline
from pullback.shapes import channels_last_shape, output_sizes, spatial_of
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


@lru_cache(maxsize=64)
def _pixels(spatial: Sizes, data_format: str, options: tuple[Sizes, Sizes, Any, Sizes]) -> Any:
    """The pixel of each position in each window, where it differs between windows.

    Returns:
        The places of the windows in the table, to which indices into windows are added, and the
        table. Outside of the image it has the nearest position of the window that is inside, as a
        window with nothing larger than the padding has its maximum there.
    """
    pixel, count = np.zeros((1,) * (2 * len(spatial)), np.int64), len(spatial)
    for axis, (size, width, stride, pads, step) in enumerate(zip(spatial, *options, strict=True)):
        out = output_sizes((size,), (width,), (stride,), (pads,), (step,))[0]
        starts = np.arange(out) * stride - pads[0]
        least = starts + step * -(np.minimum(starts, 0) // step)
        places = np.maximum(starts[:, None] + np.arange(width) * step, least[:, None])
        shape = [1] * (2 * count)
        shape[axis], shape[count + axis] = out, width
        pixel = pixel * size + np.minimum(places, max(size - 1, 0)).reshape(shape)
    windows, taps = pixel.shape[:count], prod(pixel.shape[count:])
    starts = np.arange(0, prod(windows) * taps, taps).reshape(*windows, 1)
    return (starts if data_format == "channels_last" else starts[..., 0]), pixel.reshape(-1)


def with_pixels(max_pool: Kernel) -> Kernel:
    """The kernel of `max_pool_with_indices`, by that of `max_pool`."""

    def kernel(x: Array, *, data_format: str, ceil_mode: bool = False, **options: Any) -> Any:
        y, found = max_pool(x, data_format=data_format, **options)
        given = (
            options["window"], options["strides"], options["padding"],
            options.get("dilation") or (1,) * len(options["window"]),
        )  # fmt: skip
        starts, table = _pixels(spatial_of(x.shape, data_format), data_format, given)
        return y, table[starts + found], found

    return kernel


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
    "max_pool_with_indices": with_pixels(_max_pool),
}
