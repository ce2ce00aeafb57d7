"""Convolution and its gradients as products of matrices.

Windows are laid out as the rows of a matrix (im2col), which is multiplied by cuBLAS. They take as
many times the memory of the images as a window has taps, so images are split into batches of a
bounded size. If cuDNN is installed, it takes the calls that it supports (`pullback_cupy.cudnn`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Unpack

import cupy

from pullback.casting import compute_dtype
from pullback.dtypes import DType
from pullback.plugins.records import Kernel
from pullback.shapes import Pads, Shape, channels_of, output_sizes, spatial_of
from pullback_cupy import cudnn
from pullback_cupy.compile import contiguous, over_elements
from pullback_cupy.kernels.windows import geometry
from pullback_cupy.typing import Array, ConvOptions

#: Bytes that the rows of one product may take.
MOST_BYTES = 1 << 28


class _Windows:
    """Windows over images of a shape, as matrices."""

    def __init__(
        self, shape: Shape, kernel_shape: Shape, dtype: DType, *, strides: Shape, padding: Pads,
        dilation: Shape, groups: int, data_format: str,
    ) -> None:  # fmt: skip
        *window, self.width, self.filters = kernel_shape
        self.window_options = (tuple(window), strides, padding, dilation, data_format)
        self.taps, self.groups, self.last = (
            math.prod(window),
            groups,
            data_format == "channels_last",
        )
        self.shape, self.dtype = tuple(shape), dtype
        self.channels = channels_of(shape, data_format)
        self.out = output_sizes(spatial_of(shape, data_format), window, strides, padding, dilation)
        self.rows = math.prod(self.out)
        #: True if windows are single elements, so that images are matrices already.
        self.plain = (
            self.taps == 1 and self.last and not any(map(any, padding))
            and all(step == 1 for step in strides)
        )  # fmt: skip

    def batches(self) -> Iterator[slice]:
        """Yields parts of the batch whose rows fit into memory."""
        each = max(1, self.rows * self.taps * self.channels * self.dtype.itemsize)
        step = max(1, MOST_BYTES // each)
        for start in range(0, self.shape[0], step):
            yield slice(start, min(start + step, self.shape[0]))

    def columns(self, x: Array) -> Array:
        """The windows of some images: (groups, rows, taps * width)."""
        count = x.shape[0] * self.rows
        if self.plain:
            columns = x
        else:
            columns = cupy.empty((count, self.taps, self.channels), x.dtype)
            struct = geometry(x.shape, *self.window_options)
            over_elements("windows", "to_columns", columns.size, (x, columns, struct), T=x.dtype)
        if self.groups == 1:
            return columns.reshape(1, count, self.taps * self.channels)
        split = columns.reshape(count, self.taps, self.groups, self.width)
        return cupy.moveaxis(split, 2, 0).reshape(self.groups, count, self.taps * self.width)

    def images(self, columns: Any, shape: Shape) -> Array:
        """The transpose of `columns`: adds up the elements of windows at their positions."""
        count = columns.shape[1]
        if self.groups > 1:
            split = columns.reshape(self.groups, count, self.taps, self.width)
            columns = cupy.moveaxis(split, 0, 2)
        if self.plain:
            return columns.reshape(shape)
        x, columns = cupy.empty(shape, columns.dtype), contiguous(columns)
        struct = geometry(shape, *self.window_options)
        over_elements("windows", "from_columns", x.size, (columns, x, struct), T=x.dtype)
        return x

    def matrix(self, kernel: Array) -> Array:
        """The kernel: (groups, taps * width, filters of a group)."""
        each = self.filters // self.groups
        split = kernel.reshape(self.taps * self.width, self.groups, each)
        return contiguous(cupy.moveaxis(split, 1, 0))

    def results(self, g: Array) -> Array:
        """Results, or their gradient: (groups, rows, filters of a group)."""
        moved = g if self.last else cupy.moveaxis(g, 1, -1)
        rows = g.shape[0] * self.rows
        split = contiguous(moved).reshape(rows, self.groups, self.filters // self.groups)
        return cupy.moveaxis(split, 1, 0)

    def from_results(self, y: Array, batch: int) -> Array:
        """The inverse of `results`: images."""
        joined = cupy.moveaxis(y, 0, 1).reshape(batch, *self.out, self.filters)
        return joined if self.last else cupy.moveaxis(joined, -1, 1)


def _conv(x: Array, kernel: Array, **options: Unpack[ConvOptions]) -> Array:
    y = cudnn.conv(x, kernel, **options)
    if y is not None:
        return y
    windows = _Windows(x.shape, kernel.shape, x.dtype, **options)
    x, matrix = contiguous(x), windows.matrix(kernel)
    parts = [
        windows.from_results(cupy.matmul(windows.columns(x[part]), matrix), part.stop - part.start)
        for part in windows.batches()
    ]
    if not parts:
        return windows.from_results(cupy.empty((options["groups"], 0, windows.filters), x.dtype), 0)
    return parts[0] if len(parts) == 1 else cupy.concatenate(parts)


def _conv_input_gradient(
    g: Array, kernel: Array, *, input_shape: Shape, **options: Unpack[ConvOptions]
) -> Array:
    dx = cudnn.conv_input_gradient(g, kernel, input_shape=input_shape, **options)
    if dx is not None:
        return dx
    windows = _Windows(input_shape, kernel.shape, g.dtype, **options)
    # Each element is a sum over several windows: rounded once, at the end.
    turned = windows.matrix(kernel).swapaxes(1, 2).astype(compute_dtype(g.dtype), copy=False)
    parts = [
        windows.images(
            cupy.matmul(windows.results(g[part]).astype(turned.dtype, copy=False), turned),
            (part.stop - part.start, *input_shape[1:]),
        ).astype(g.dtype, copy=False)
        for part in windows.batches()
    ]
    if not parts:
        return cupy.empty(input_shape, g.dtype)
    return parts[0] if len(parts) == 1 else cupy.concatenate(parts)


def _conv_kernel_gradient(
    x: Array, g: Array, *, kernel_shape: Shape, **options: Unpack[ConvOptions]
) -> Array:
    dk = cudnn.conv_kernel_gradient(x, g, kernel_shape=kernel_shape, **options)
    if dk is not None:
        return dk
    windows = _Windows(x.shape, kernel_shape, x.dtype, **options)
    x, total = contiguous(x), None
    for part in windows.batches():
        term = cupy.matmul(windows.columns(x[part]).swapaxes(1, 2), windows.results(g[part]))
        term = term.astype(compute_dtype(x.dtype), copy=False)
        total = term if total is None else total + term
    if total is None:
        return cupy.zeros(kernel_shape, x.dtype)
    # (groups, taps * width, filters of a group)
    return cupy.moveaxis(total, 0, 1).reshape(kernel_shape).astype(x.dtype, copy=False)


KERNELS: dict[str, Kernel] = {
    "conv": _conv,
    "conv_input_gradient": _conv_input_gradient,
    "conv_kernel_gradient": _conv_kernel_gradient,
}
