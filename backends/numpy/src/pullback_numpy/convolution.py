"""Convolution and its two gradients, channels last, for one to three spatial dimensions.

x is (N, *spatial, C), the kernel (*window, C // groups, O), y (N, *out, O). It is
cross-correlation: nothing is flipped.

The work goes to BLAS. Windows are gathered a cache-sized block at a time into scratch memory and
multiplied straight into the output: a whole batch at once would stream nine copies of the input
through memory (3x3, 32 channels, batch 32: 47 GFLOP/s gathered whole, 76 in blocks).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from math import prod

import numpy as np

from pullback.casting import compute_dtype
from pullback.shapes import Pads, output_sizes
from pullback_numpy import convolution_few, depthwise, threads
from pullback_numpy.arrangement import as_matrix, band_width, banded, exchanged, grouped
from pullback_numpy.products import matmul
from pullback_numpy.typing import Array, Sizes
from pullback_numpy.windows import (
    Block,
    c_strides,
    even_ranges,
    layout,
    patches,
    plan_patches,
    scratch,
)

FORWARD_BYTES = 1 << 20
GRADIENT_BYTES = 1 << 21
GRADIENT_PARTS = 4  # sums that the kernel gradient is made of: each takes a kernel's memory
SCATTER_BYTES = 1 << 20
"""Bytes of gathered windows per block. Measured from 128 kB to 4 MB (two cores with 1.25 MB of L2),
1 to 2 MB is best or nearly so for most shapes. Below 512 kB the GEMMs are too small for two
threads, and for the kernel gradient each block costs one more addition of a whole kernel."""


def conv(
    x: Array, kernel: Array, *, strides: Sizes, padding: Pads, dilation: Sizes, groups: int
) -> Array:
    """x (N, *spatial, C) and kernel (*window, C // groups, O) to y (N, *out, O)."""
    dtype = compute_dtype(x.dtype)
    if dtype != x.dtype:
        y = conv(
            x.astype(dtype),
            kernel.astype(dtype),
            strides=strides,
            padding=padding,
            dilation=dilation,
            groups=groups,
        )
        return y.astype(x.dtype)
    window, channels, features = kernel.shape[:-2], x.shape[-1], kernel.shape[-1]
    out = output_sizes(x.shape[1:-1], window, strides, padding, dilation)
    shape = (x.shape[0], *out, features)
    if not prod(shape) or not kernel.size:
        return np.zeros(shape, dtype)
    if groups == 1 and _is_matmul(window, strides, padding):
        pixels: Array = matmul(x.reshape(-1, channels), kernel.reshape(channels, features))
        return pixels.reshape(shape)
    few = _few(x.shape, window, strides, padding, dilation, groups, features)
    if few is not None:
        return convolution_few.conv(x, kernel, few, by_channel=groups > 1)
    if groups > 1 and groups == channels:
        return depthwise.conv(x, kernel, strides=strides, padding=padding, dilation=dilation)
    band = band_width(out[-1], window, strides, dilation, groups, channels, features)
    y = np.empty(shape, dtype)
    options = strides, padding, dilation, groups
    if band > 1:
        wide = (*strides[:-1], strides[-1] * band), *options[1:]
        _into(y, x, banded(kernel, strides[-1], band), *wide)
    # Outputs of a band contain each other's inputs, times 0: infinities and NaN would spread.
    if band == 1 or np.isnan(np.maximum.reduce(y, axis=None)):
        _into(y, x, kernel, *options)
    return y


#: Products of so many terms take less time than the preparations for blocks of windows.
_FEW_TERMS = 1 << 18


def _few(
    image: Sizes,
    window: Sizes,
    strides: Sizes,
    padding: Pads,
    dilation: Sizes,
    groups: int,
    features: int,
) -> convolution_few.Plan | None:
    """Returns how few elements are convolved; None for many, and for groups of some channels."""
    if groups > 1 and not groups == image[-1] == features:
        return None
    plan = convolution_few.plan_for(image, window, strides, padding, dilation)
    if plan is None or (groups == 1 and prod(plan.windows) * features > _FEW_TERMS):
        return None
    return plan


def _into(
    y: Array, x: Array, kernel: Array, strides: Sizes, padding: Pads, dilation: Sizes, groups: int
) -> None:
    """Writes the convolution to y."""
    window, features = kernel.shape[:-2], kernel.shape[-1]
    target, matrix = grouped(y, features, groups), as_matrix(kernel, groups)
    plan = plan_patches(x, window, strides, padding, dilation, groups, FORWARD_BYTES)

    def work(blocks: Iterable[Block]) -> None:
        for rows, windows, _ in patches(x, plan, blocks):
            np.matmul(windows, matrix, out=target[..., rows, :])

    threads.run_with_blas(work, plan.parts)


def conv_kernel_gradient(
    x: Array,
    g: Array,
    *,
    kernel_shape: Sizes,
    strides: Sizes,
    padding: Pads,
    dilation: Sizes,
    groups: int,
) -> Array:
    """x (N, *spatial, C), g (N, *out, O) to the kernel's gradient (*window, C // groups, O)."""
    dtype = compute_dtype(x.dtype)
    if dtype != x.dtype:
        gradient = conv_kernel_gradient(
            x.astype(dtype),
            g.astype(dtype),
            kernel_shape=kernel_shape,
            strides=strides,
            padding=padding,
            dilation=dilation,
            groups=groups,
        )
        return gradient.astype(x.dtype)
    window, channels, features = kernel_shape[:-2], x.shape[-1], kernel_shape[-1]
    if not g.size or not prod(kernel_shape):
        return np.zeros(kernel_shape, dtype)
    if groups == 1 and _is_matmul(window, strides, padding):
        total: Array = matmul(x.reshape(-1, channels).T, g.reshape(-1, features))
        return total.reshape(kernel_shape)
    few = _few(x.shape, window, strides, padding, dilation, groups, features)
    if few is not None:
        return convolution_few.kernel_gradient(x, g, kernel_shape, few, by_channel=groups > 1)
    if groups > 1 and groups == channels:
        return depthwise.conv_kernel_gradient(
            x, g, kernel_shape=kernel_shape, strides=strides, padding=padding, dilation=dilation
        )
    stride = strides[-1]
    band = band_width(g.shape[-2], window, strides, dilation, groups, channels, features)
    wide = (*window[:-1], window[-1] + (band - 1) * stride)
    strides = (*strides[:-1], stride * band)
    parts = grouped(g, band * features, groups)
    shape: Sizes = (prod(wide) * channels // groups, band * features // groups)
    if groups > 1:
        shape = (groups, *shape)
    plan = plan_patches(
        x, wide, strides, padding, dilation, groups, GRADIENT_BYTES, parts=GRADIENT_PARTS
    )
    # One sum for each part, whichever thread takes it: results do not depend on their order.
    totals = np.empty((len(plan.parts), *shape), dtype)

    def work(part: int) -> None:
        blocks = patches(x, plan, plan.parts[part], shape)
        for number, (rows, windows, (block,)) in enumerate(blocks):
            out = totals[part] if number == 0 else block
            np.matmul(windows.swapaxes(-1, -2), parts[..., rows, :], out=out)
            if number:
                totals[part] += block

    threads.run_with_blas(work, range(len(plan.parts)))
    total = totals[0]
    for other in totals[1:]:
        total += other
    if groups > 1:
        total = np.ascontiguousarray(total.transpose(1, 0, 2))
    if band > 1:  # every output of a band has its own shifted copy of the gradient
        copies = total.reshape(*wide, channels, band, features)
        total = copies[..., : window[-1], :, 0, :].copy()
        for j in range(1, band):
            total += copies[..., j * stride : j * stride + window[-1], :, j, :]
    return total.reshape(kernel_shape)


def conv_input_gradient(
    g: Array,
    kernel: Array,
    *,
    input_shape: Sizes,
    strides: Sizes,
    padding: Pads,
    dilation: Sizes,
    groups: int,
) -> Array:
    """g (N, *out, O), kernel (*window, C // groups, O) to the gradient of x, of input_shape."""
    dtype = compute_dtype(g.dtype)
    if dtype != g.dtype:
        gradient = conv_input_gradient(
            g.astype(dtype),
            kernel.astype(dtype),
            input_shape=input_shape,
            strides=strides,
            padding=padding,
            dilation=dilation,
            groups=groups,
        )
        return gradient.astype(g.dtype)
    window, channels, features = kernel.shape[:-2], input_shape[-1], kernel.shape[-1]
    if not g.size or not kernel.size or not prod(input_shape):
        return np.zeros(input_shape, dtype)
    if groups == 1 and _is_matmul(window, strides, padding):
        pixels: Array = matmul(g.reshape(-1, features), kernel.reshape(channels, features).T)
        return pixels.reshape(input_shape)
    plan = _few(input_shape, window, strides, padding, dilation, groups, features)
    if plan is not None and groups > 1:
        return convolution_few.input_gradient(g, kernel, plan, by_channel=True)
    if groups > 1 and groups == channels:
        return depthwise.conv_input_gradient(
            g, kernel, input_shape=input_shape, strides=strides, padding=padding, dilation=dilation
        )
    reach = [d * (w - 1) for w, d in zip(window, dilation, strict=True)]
    # At stride 1 the gradient is a convolution of g with the kernel flipped and its channels
    # exchanged. That gathers instead of scattering, which pays unless there are few windows
    # (exchanging the channels is slow: 140 us for 3x3, 128 to 128) or few channels in the result
    # (a GEMM of four columns is slow).
    few = 20 * prod(g.shape[:-1]) < channels * features or channels // groups <= 4
    if (
        not few
        and all(s == 1 for s in strides)
        and all(max(p) <= r for p, r in zip(padding, reach, strict=True))
    ):
        flipped = exchanged(kernel[(slice(None, None, -1),) * len(window)], groups)
        around = tuple((r - low, r - high) for r, (low, high) in zip(reach, padding, strict=True))
        return conv(g, flipped, strides=strides, padding=around, dilation=dilation, groups=groups)
    if plan is not None:
        return convolution_few.input_gradient(g, kernel, plan, by_channel=False)
    return _scattered(g, kernel, input_shape, strides, padding, dilation, groups)


def _scattered(
    g: Array,
    kernel: Array,
    input_shape: Sizes,
    strides: Sizes,
    padding: Pads,
    dilation: Sizes,
    groups: int,
) -> Array:
    """The input gradient at any stride: a GEMM, whose rows are added at their windows."""
    window, features, channels = kernel.shape[:-2], kernel.shape[-1], input_shape[-1]
    images, width, taps = input_shape[0], channels // groups, prod(window)
    item = g.itemsize
    spatial = input_shape[1:-1]
    plan = layout(
        spatial, window, strides, padding, dilation, taps * channels * item, SCATTER_BYTES
    )
    out = plan.out
    many = min(plan.images, images)
    per_row = plan.positions // out[0]
    padded = tuple(size + low + high for size, (low, high) in zip(spatial, padding, strict=True))
    bare = padded == spatial
    block = (many * plan.rows * per_row, taps * width)
    dx = (np.zeros if bare else np.empty)(input_shape, g.dtype)
    inner = tuple(slice(low, low + size) for size, (low, _) in zip(spatial, padding, strict=True))
    parts = grouped(g, features, groups).reshape(groups, -1, features // groups)
    matrix = as_matrix(kernel, groups).reshape(groups, taps * width, -1).swapaxes(-1, -2)

    # A spot is the target of some columns of the terms: (byte offset, first column, last column).
    # Adjacent taps that are less than a stride apart never overlap: they form one run and are added
    # together (3x3 at stride 2: two additions per row of taps instead of three). Few channels make
    # runs too short for an inner loop: then each column is added alone, along the last spatial
    # dimension.
    steps = c_strides((many, *padded, channels), item)
    together = min(strides[-1], window[-1]) if dilation[-1] == 1 and groups == 1 else 1
    thin = together * width <= 4
    spots = []
    for index, tap in enumerate(product(*map(range, window))):
        at, column = (
            sum(t * d * s for t, d, s in zip(tap, dilation, steps[1:-1], strict=True)),
            index * width,
        )
        if thin:
            spots += [(at + c * item, column + c, column + c + 1) for c in range(width)]
        elif tap[-1] % together == 0:
            spots.append((at, column, column + min(together, window[-1] - tap[-1]) * width))
    out_steps = (steps[0], *(s * d for s, d in zip(steps[1:-1], strides, strict=True)), item)
    # Blocks of one image overlap, so a thread takes whole images.
    blocks = list(plan.blocks(images))
    per_image = max(1, -(-out[0] // plan.rows)) if plan.images == 1 else 1

    def work(part: tuple[int, int]) -> None:
        sums, terms = scratch(
            g.dtype, (0,) if bare else (many, *padded, channels), (groups, *block)
        )
        for first, last, top, bottom in blocks[part[0] * per_image : part[1] * per_image]:
            count = last - first
            if not bare and top == 0:
                sums[:count].fill(0)
            start = first * plan.positions + top * per_row
            rows = count * (bottom - top) * per_row
            np.matmul(parts[:, start : start + rows], matrix, out=terms[:, :rows])
            origin = top * out_steps[1] + (first * steps[0] if bare else 0)
            for at, left, right in spots:
                for group in range(groups):
                    shape = (count, bottom - top, *out[1:], right - left)
                    offset = origin + at + group * width * item
                    where: Array = np.ndarray(
                        shape, g.dtype, dx if bare else sums, offset, out_steps
                    )
                    term = terms[group, :rows, left:right].reshape(shape)
                    if thin:
                        where, term = where[..., 0], term[..., 0]
                    where += term
            if not bare and bottom == out[0]:
                dx[first:last] = sums[(slice(count), *inner)]

    threads.run_with_blas(work, even_ranges(len(blocks) // per_image, 8))
    return dx


def _is_matmul(window: Sizes, strides: Sizes, padding: Pads) -> bool:
    """Returns whether every pixel is a window of its own, so that nothing needs gathering."""
    return (
        prod(window) == 1
        and all(s == 1 for s in strides)
        and not any(low or high for low, high in padding)
    )
