"""Depthwise convolution, with one input channel a group: sums over taps, not thin GEMMs.

The kernel is (*window, 1, O) with O a multiple of C; output channel o reads input channel o //
(O // C). Below, x has been repeated to O channels, and a "line" is the last spatial dimension and
the channels as one contiguous run: NumPy starts its inner loop once per run, which costs more than
a few dozen channels do.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from pullback.shapes import Pads
from pullback_numpy.typing import Array, Sizes
from pullback_numpy.windows import PaddedBlocks, c_strides, layout, scratch

BLOCK_BYTES = 1 << 18
"""Bytes of output per block, so that its input, output and products stay in L2 together."""


def conv(x: Array, kernel: Array, *, strides: Sizes, padding: Pads, dilation: Sizes) -> Array:
    """x (N, *spatial, C) and kernel (*window, 1, O) to y (N, *out, O)."""
    x = _repeated(x, kernel.shape[-1])
    work = _Work(x.shape, x, kernel.shape[:-2], strides, padding, dilation)
    lines = work.lines(kernel)
    y = np.empty(work.output_shape, x.dtype)
    y_lines = work.as_lines(y)
    for first, last, top, bottom in work.blocks(x):
        total = y_lines[first:last, top:bottom]
        term = work.term[: last - first, : bottom - top]
        for index, line in enumerate(lines):
            source = work.read(index, last - first, bottom - top)
            if index == 0:
                np.multiply(source, line, out=total)
            else:
                np.multiply(source, line, out=term)
                np.add(total, term, out=total)
    return y


def conv_kernel_gradient(
    x: Array, g: Array, *, kernel_shape: Sizes, strides: Sizes, padding: Pads, dilation: Sizes
) -> Array:
    """x (N, *spatial, C) and g (N, *out, O) to the gradient of the kernel (*window, 1, O)."""
    features = kernel_shape[-1]
    x = _repeated(x, features)
    work = _Work(x.shape, x, kernel_shape[:-2], strides, padding, dilation)
    g_lines = work.as_lines(np.ascontiguousarray(g))
    totals = np.zeros((len(work.offsets), g_lines.shape[-1]), g.dtype)
    for first, last, top, bottom in work.blocks(x):
        part = g_lines[first:last, top:bottom]
        term = work.term[: last - first, : bottom - top]
        for index, total in enumerate(totals):
            np.multiply(work.read(index, last - first, bottom - top), part, out=term)
            total += term.reshape(-1, total.size).sum(axis=0, dtype=g.dtype)
    gradient: Array = totals.reshape(len(totals), -1, features).sum(axis=1, dtype=g.dtype)
    return gradient.reshape(kernel_shape)


def conv_input_gradient(
    g: Array, kernel: Array, *, input_shape: Sizes, strides: Sizes, padding: Pads, dilation: Sizes
) -> Array:
    """g (N, *out, O) and kernel (*window, 1, O) to the gradient of x, of input_shape."""
    features, channels = kernel.shape[-1], input_shape[-1]
    work = _Work(
        (*input_shape[:-1], features), g, kernel.shape[:-2], strides, padding, dilation, whole=True
    )
    lines = work.lines(kernel)
    g_lines = work.as_lines(np.ascontiguousarray(g))
    dx = np.empty(work.input_shape, g.dtype)
    inner = tuple(
        slice(low, low + size) for size, (low, _) in zip(input_shape[1:-1], padding, strict=True)
    )
    for first, last, top, bottom in work.plan.blocks(input_shape[0]):
        count, rows = last - first, bottom - top
        if top == 0:
            work.padded[:count].fill(0)
        term = work.term[:count, :rows]
        for index, line in enumerate(lines):
            np.multiply(g_lines[first:last, top:bottom], line, out=term)
            where = work.tap(index, count, rows, top)
            where += term.reshape(where.shape)
        if bottom == work.plan.out[0]:
            dx[first:last] = work.padded[(slice(count), *inner)]
    if features == channels:
        return dx
    total: Array = dx.reshape(*input_shape, features // channels).sum(axis=-1, dtype=g.dtype)
    return total


class _Work:
    """The blocks of one call, its scratch memory, and its taps as lines."""

    def __init__(
        self,
        shape: Sizes,
        like: Array,
        window: Sizes,
        strides: Sizes,
        padding: Pads,
        dilation: Sizes,
        whole: bool = False,
    ) -> None:
        channels, dtype = shape[-1], like.dtype
        spatial = shape[1:-1]
        self.input_shape = shape
        self.plan = plan = layout(
            spatial, window, strides, padding, dilation, channels * dtype.itemsize, BLOCK_BYTES
        )
        self.output_shape = (shape[0], *plan.out, channels)
        self.strides = strides
        many = min(plan.images, shape[0])
        padded = plan.padded
        if whole:  # sums of overlapping blocks need the whole image
            padded = tuple(
                size + low + high for size, (low, high) in zip(spatial, padding, strict=True)
            )
        block = (many, plan.rows, *plan.out[1:-1], plan.out[-1] * channels)
        if len(plan.out) == 1:  # rows and the line are one dimension: rows of one position
            block = (many, plan.rows, channels)
        self.padded, self.term, self.taken = scratch(dtype, (many, *padded, channels), block, block)
        self.steps = c_strides(self.padded.shape, dtype.itemsize)
        self.offsets = [
            sum(o * d * s for o, d, s in zip(tap, dilation, self.steps[1:-1], strict=True))
            for tap in product(*map(range, window))
        ]

    def as_lines(self, array: Array) -> Array:
        """(N, *out, O) as (N, *out[:-1], line); in one dimension a line is one position."""
        return array if array.ndim == 3 else array.reshape(*array.shape[:-2], -1)

    def lines(self, kernel: Array) -> Array:
        """The kernel as (taps, line), each tap's channels repeated along the line."""
        flat = kernel.reshape(-1, kernel.shape[-1])
        return flat if len(self.plan.out) == 1 else np.tile(flat, self.plan.out[-1])

    def blocks(self, x: Array) -> Iterator[tuple[int, int, int, int]]:
        """The plan's blocks, each loaded into the padded buffer."""
        loader = PaddedBlocks(x, self.padded, self.plan)
        for first, last, top, bottom in self.plan.blocks(x.shape[0]):
            loader.load(first, last, top)
            yield first, last, top, bottom

    def tap(self, index: int, count: int, rows: int, top: int = 0) -> Array:
        """A tap's view of the padded buffer, from row `top` of the output, (count, rows, ...)."""
        shape = (count, rows, *self.plan.out[1:], self.output_shape[-1])
        steps = (
            self.steps[0],
            *(s * d for s, d in zip(self.steps[1:-1], self.strides, strict=True)),
            self.steps[-1],
        )
        offset = self.offsets[index] + top * steps[1]
        return np.ndarray(shape, self.padded.dtype, self.padded, offset, steps)

    def read(self, index: int, count: int, rows: int) -> Array:
        """A tap as lines: a view if its pixels are neighbors, else a copy."""
        view = self.tap(index, count, rows)
        if view.ndim == 3:
            return view
        taken = self.taken[:count, :rows]
        if self.strides[-1] == 1:
            return np.ndarray(
                taken.shape,
                view.dtype,
                self.padded,
                self.offsets[index],
                (*view.strides[:-2], view.itemsize),
            )
        np.copyto(taken.reshape(view.shape), view)
        return taken


def _repeated(x: Array, features: int) -> Array:
    """x with each channel repeated for the output channels that read it."""
    return x if x.shape[-1] == features else np.repeat(x, features // x.shape[-1], axis=-1)
