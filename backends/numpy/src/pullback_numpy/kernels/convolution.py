"""Convolution, channels last or first."""

from __future__ import annotations

from typing import Unpack

import numpy as np

from pullback.plugins.records import Kernel
from pullback.shapes import channels_last_shape
from pullback_numpy import convolution
from pullback_numpy.typing import Array, ConvOptions, Sizes


def to_last(x: Array) -> Array:
    """(batch, channels, *spatial) as (batch, *spatial, channels)."""
    return np.moveaxis(x, 1, -1)


def _conv(x: Array, kernel: Array, *, data_format: str, **options: Unpack[ConvOptions]) -> Array:
    if data_format == "channels_last":
        return convolution.conv(x, kernel, **options)
    return np.moveaxis(convolution.conv(to_last(x), kernel, **options), -1, 1)


def _conv_input_gradient(
    g: Array, kernel: Array, *, input_shape: Sizes, data_format: str, **options: Unpack[ConvOptions]
) -> Array:
    if data_format == "channels_last":
        return convolution.conv_input_gradient(g, kernel, input_shape=input_shape, **options)
    shape = channels_last_shape(input_shape, data_format)
    dx = convolution.conv_input_gradient(to_last(g), kernel, input_shape=shape, **options)
    return np.moveaxis(dx, -1, 1)


def _conv_kernel_gradient(
    x: Array, g: Array, *, kernel_shape: Sizes, data_format: str, **options: Unpack[ConvOptions]
) -> Array:
    if data_format != "channels_last":
        x, g = to_last(x), to_last(g)
    return convolution.conv_kernel_gradient(x, g, kernel_shape=kernel_shape, **options)


KERNELS: dict[str, Kernel] = {
    "conv": _conv,
    "conv_input_gradient": _conv_input_gradient,
    "conv_kernel_gradient": _conv_kernel_gradient,
}
