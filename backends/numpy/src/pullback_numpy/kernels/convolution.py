"""Convolution, channels last or first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pullback.plugins.backend import Kernel
from pullback_numpy import convolution
from pullback_numpy.typing import Array, Sizes


def to_last(x: Array) -> Array:
    """(batch, channels, *spatial) as (batch, *spatial, channels)."""
    return np.moveaxis(x, 1, -1)


def _conv(x: Array, kernel: Array, *, data_format: str, **options: Any) -> Array:
    if data_format == "channels_last":
        return convolution.conv(x, kernel, **options)
    return np.moveaxis(convolution.conv(to_last(x), kernel, **options), -1, 1)


def _conv_input_gradient(
    g: Array, kernel: Array, *, input_shape: Sizes, data_format: str, **options: Any
) -> Any:
    gradient: Callable[..., Any] = convolution.conv_input_gradient
    if data_format == "channels_last":
        return gradient(g, kernel, input_shape=input_shape, **options)
    batch, channels, *spatial = input_shape
    dx = gradient(to_last(g), kernel, input_shape=(batch, *spatial, channels), **options)
    return np.moveaxis(dx, -1, 1)


def _conv_kernel_gradient(x: Array, g: Array, *, data_format: str, **options: Any) -> Array:
    if data_format == "channels_last":
        return convolution.conv_kernel_gradient(x, g, **options)
    return convolution.conv_kernel_gradient(to_last(x), to_last(g), **options)


KERNELS: dict[str, Kernel] = {
    "conv": _conv,
    "conv_input_gradient": _conv_input_gradient,
    "conv_kernel_gradient": _conv_kernel_gradient,
}
