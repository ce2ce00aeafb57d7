"""Kernels and pixels rearranged for the GEMMs of a convolution: by groups, exchanged, banded."""

from __future__ import annotations

from math import prod

import numpy as np

from pullback_numpy.typing import Array, Sizes


def grouped(array: Array, features: int, groups: int) -> Array:
    """The pixels as (rows, features), or (groups, rows, features / groups); views if contiguous."""
    flat = array.reshape(-1, features)
    return flat if groups == 1 else flat.reshape(-1, groups, features // groups).transpose(1, 0, 2)


def as_matrix(kernel: Array, groups: int) -> Array:
    """The kernel as (taps * C, O), or (groups, taps * C / groups, O / groups)."""
    if groups == 1:
        return kernel.reshape(-1, kernel.shape[-1])
    flat = kernel.reshape(-1, groups, kernel.shape[-1] // groups)
    return np.ascontiguousarray(flat.transpose(1, 0, 2))


def exchanged(kernel: Array, groups: int) -> Array:
    """(*window, C // groups, O) to (*window, O // groups, C), group by group."""
    if groups == 1:
        return kernel.swapaxes(-1, -2)
    *window, width, features = kernel.shape
    split = np.moveaxis(kernel.reshape(*window, width, groups, features // groups), -1, -3)
    return split.swapaxes(-1, -2).reshape(*window, features // groups, groups * width)


def band_width(
    out: int,
    window: Sizes,
    strides: Sizes,
    dilation: Sizes,
    groups: int,
    channels: int,
    features: int,
) -> int:
    """The number of neighboring outputs to compute as one.

    With few channels the gathering costs more than the arithmetic, and the GEMM is too thin. `band`
    adjacent outputs share most of their inputs: gathered as one wider window and multiplied with a
    kernel that holds the original `band` times, shifted, they cost up to 1.67 times the arithmetic
    and a fraction of the copying. One channel, 5x5, 32 features on 28x28: 27 us an image without,
    18 with four together; three channels, 3x3: 31 without, 26 with two.
    """
    if groups > 1 or dilation[-1] > 1 or prod(window) * channels > 64:
        return 1
    for band in (4, 3, 2):
        if out % band == 0 and 3 * (band - 1) * strides[-1] <= 2 * window[-1]:
            return band
    return 1


def banded(kernel: Array, stride: int, band: int) -> Array:
    """(*window, C, O) to (*wider window, C, band * O): the kernel once per output of a band."""
    *window, width, channels, features = kernel.shape
    wide = np.zeros((*window, width + (band - 1) * stride, channels, band, features), kernel.dtype)
    for j in range(band):
        wide[..., j * stride : j * stride + width, :, j, :] = kernel
    return wide.reshape(*wide.shape[:-2], band * features)
