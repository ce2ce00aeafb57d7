"""Convolutions of each channel by itself, over one or two spatial dimensions."""

from __future__ import annotations

from functools import lru_cache
from math import isfinite, prod

from pullback.shapes import output_sizes
from pullback_native import _native
from pullback_native.kernels.windows import Padding, pair, windows
from pullback_native.loops import FLOAT32, LOOPS, Array, Sizes, empty, plain, run

_FORWARD = LOOPS["depthwise"]
_INPUT_GRADIENT = LOOPS["depthwise_input_gradient"]
_KERNEL_GRADIENT = LOOPS["depthwise_kernel_gradient"]
#: Nanoseconds of a multiplication.
_TERM = 0.2

_Shape = tuple[int, ...]


def takes(x: Array, other: Array, channels: int, groups: int) -> bool:
    """Returns whether the loops take arrays of images of so many channels, which come last."""
    return (
        groups == channels > 1
        and x.ndim <= 4
        and x.dtype == other.dtype == FLOAT32
        and x.size * other.size > 0
    )


@lru_cache(maxsize=256)
def _plan(
    shape: _Shape, kernel_shape: _Shape, strides: _Shape, padding: Padding, dilation: _Shape
) -> tuple[_Shape, int, float, Sizes]:
    """The shape of the output, its rows, the nanoseconds of a row, and the sizes for the loops."""
    *window, _, features = kernel_shape
    out = output_sizes(shape[1:-1], tuple(window), strides, padding, dilation)
    sizes = windows(shape, out, tuple(window), strides, padding)
    sizes["dilation_height"], sizes["dilation_width"] = pair(dilation)
    sizes["multiplier"], sizes["images"] = features // shape[-1], shape[0]
    cost = sizes["out_width"] * (5 + prod(window) * (2 + _TERM * features))
    return (shape[0], *out, features), shape[0] * sizes["out_height"], cost, sizes


def _is_finite(x: Array) -> bool:
    """Returns whether products by zeros beyond an edge are 0."""
    total = _native.sum(x, axis=tuple(range(x.ndim)), keepdims=False, dtype=None)
    return isfinite(total)


def conv(
    x: Array, kernel: Array, strides: _Shape, padding: Padding, dilation: _Shape
) -> Array | None:
    """The convolution; None where NumPy's kernel has to do it."""
    shape, rows, cost, sizes = _plan(x.shape, kernel.shape, strides, padding, dilation)
    kernel = plain(kernel)
    if not _is_finite(kernel):
        return None
    y = empty(shape)
    if y.size:
        run(_FORWARD, rows, 1 + int(2e4 / cost), cost, sizes, first=plain(x), second=kernel, y=y)
    return y


def input_gradient(
    g: Array, kernel: Array, input_shape: _Shape, strides: _Shape, padding: Padding,
    dilation: _Shape,
) -> Array | None:  # fmt: skip
    """The gradient of the images; None where NumPy's kernel has to do it."""
    _, rows, cost, sizes = _plan(input_shape, kernel.shape, strides, padding, dilation)
    kernel, count = plain(kernel), input_shape[0]
    if not _is_finite(kernel):
        return None
    dx = empty(input_shape)
    run(_INPUT_GRADIENT, count, 1, cost * rows / count, sizes, first=plain(g), second=kernel, y=dx)
    return dx


def kernel_gradient(
    x: Array, g: Array, kernel_shape: _Shape, strides: _Shape, padding: Padding, dilation: _Shape
) -> Array | None:
    """The gradient of the kernel; None where NumPy's kernel has to do it."""
    _, rows, cost, sizes = _plan(x.shape, kernel_shape, strides, padding, dilation)
    g, taps = plain(g), prod(kernel_shape[:-2])
    if not _is_finite(g):
        return None
    dkernel = empty(kernel_shape)
    run(_KERNEL_GRADIENT, taps, 1, cost * rows / taps, sizes, first=plain(x), second=g, y=dkernel)
    return dkernel
