"""Convolution over one or two spatial dimensions, channels last, without groups.

The loops read windows where they lie in the image: NumPy's kernel gathers them into a matrix for
BLAS. Input gradients are convolutions too: at stride 1 of g with the flipped kernel, at larger
strides one for each position that an input can have under the stride.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any, Unpack

import numpy as np

from pullback.plugins.backend import Kernel
from pullback.shapes import output_sizes
from pullback_native import _native
from pullback_native.kernels.windows import pair, windows
from pullback_native.loops import FLOAT32, LOOPS, Array, Sizes, empty, needs_numpy, plain, run
from pullback_numpy.convolution import GRADIENT_PARTS
from pullback_numpy.kernels import KERNELS as NUMPY_KERNELS
from pullback_numpy.typing import ConvOptions

_CONV, _KERNEL_GRADIENT = LOOPS["conv"], LOOPS["conv_kernel_gradient"]
#: Multiplications a nanosecond, on one thread.
_SPEED = 50
#: Pixels of the output that make a block: its band of the input stays in the second-level cache.
_PIXELS = 256
_ROOM = "a part of the image"


class _Options(ConvOptions):
    data_format: str


def _supports(x: Array, other: Array, options: _Options) -> bool:
    """Returns whether the loops take these arrays."""
    return (
        options["data_format"] == "channels_last"
        and options["groups"] == 1
        and x.ndim <= 4
        and x.dtype == other.dtype == FLOAT32
        and x.size * other.size > 0
    )


def _is_product(window: tuple[int, ...], options: _Options) -> bool:
    """Returns whether every output is made of one pixel, at the same position."""
    return (
        prod(window) == 1
        and prod(options["strides"]) == 1
        and not any(map(any, options["padding"]))
    )


def _plan(
    x: Array, out: Sequence[int], window: tuple[int, ...], features: int, options: _Options
) -> tuple[int, float, Sizes]:
    """The number of blocks, the nanoseconds for each, and the sizes for the loops."""
    sizes = windows(x.shape, out, window, options["strides"], options["padding"])
    rows, columns = x.shape[0] * sizes["out_height"], out[-1]
    cost = columns * (prod(window) * x.shape[-1] * features / _SPEED + 10)
    blocks = -(-rows // max(1, _PIXELS // columns))
    if rows * cost > 1e5:
        blocks += blocks % 2  # two threads are done at the same time
    step = -(-rows // blocks)
    sizes["dilation_height"], sizes["dilation_width"] = pair(options["dilation"])
    sizes["features"], sizes["rows"], sizes["block_rows"] = features, rows, step
    return -(-rows // step), step * cost, sizes


def _conv(x: Array, kernel: Array, **options: Unpack[_Options]) -> Array:
    y = _direct(x, kernel, options)
    return _by_numpy("conv", x, kernel, **options) if y is None else y


def _by_numpy(name: str, *inputs: Array, **attributes: Any) -> Array:
    result: Array = NUMPY_KERNELS[name](*inputs, **attributes)
    return result


def _direct(x: Array, kernel: Array, options: _Options) -> Array | None:
    """The convolution by the loops; None where NumPy's kernel has to do it."""
    window, (channels, features) = kernel.shape[:-2], kernel.shape[-2:]
    if not _supports(x, kernel, options):
        return None
    if _is_product(window, options):
        return _native.matmul(plain(x), kernel.reshape(channels, features))
    strides, padding, dilation = options["strides"], options["padding"], options["dilation"]
    out = output_sizes(x.shape[1:-1], window, strides, padding, dilation)
    y = empty((x.shape[0], *out, features))
    if not y.size:
        return y
    blocks, cost, sizes = _plan(x, out, window, features, options)
    status = run(_CONV, blocks, 1, cost, sizes, x=plain(x), kernel=plain(kernel), y=y)
    return None if needs_numpy(status, _ROOM) else y


def _conv_input_gradient(
    g: Array, kernel: Array, *, input_shape: tuple[int, ...], **options: Unpack[_Options]
) -> Array:
    dx = _direct_input_gradient(g, kernel, input_shape, options)
    if dx is None:
        return _by_numpy("conv_input_gradient", g, kernel, input_shape=input_shape, **options)
    return dx


def _direct_input_gradient(
    g: Array, kernel: Array, input_shape: tuple[int, ...], options: _Options
) -> Array | None:
    """The input gradient by the loops; None where NumPy's kernel has to do it."""
    window, (channels, features) = kernel.shape[:-2], kernel.shape[-2:]
    if not _supports(g, kernel, options) or not prod(input_shape):
        return None
    if _is_product(window, options):
        return _native.matmul(plain(g), kernel.reshape(channels, features).T)
    strides, dilation = options["strides"], options["dilation"]
    if any(s > 1 and d > 1 for s, d in zip(strides, dilation, strict=True)):
        return None
    if prod(strides) == 1:
        return _at_stride(g, kernel, input_shape[1:-1], [0] * len(window), options)
    return _at_all_positions(g, kernel, input_shape, options)


def _at_all_positions(
    g: Array, kernel: Array, input_shape: tuple[int, ...], options: _Options
) -> Array | None:
    """The input gradient for strides above 1; None where NumPy's kernel has to do it."""
    strides, padding = options["strides"], options["padding"]
    dx = empty(tuple(input_shape))
    dx.fill(0)
    for positions in product(*map(range, strides)):
        # Inputs at these positions meet the taps at the same positions, and no others.
        taps = kernel[tuple(slice(p, None, s) for p, s in zip(positions, strides, strict=True))]
        begins = [(p - low) % s for p, s, (low, _) in zip(positions, strides, padding, strict=True)]
        inputs = tuple(slice(b, None, s) for b, s in zip(begins, strides, strict=True))
        part = dx[:, *inputs]
        if taps.size and part.size:
            gradient = _at_stride(g, taps, part.shape[1:-1], begins, options)
            if gradient is None:
                return None
            part[...] = gradient
    return dx


def _at_stride(
    g: Array, taps: Array, sizes: Sequence[int], begins: Sequence[int], options: _Options
) -> Array | None:
    """The gradient at every stride-th input from `begins` on: a convolution of g at stride 1.

    None where NumPy's kernel has to do it.
    """
    window, around = taps.shape[:-2], []
    strides, dilations, padding = options["strides"], options["dilation"], options["padding"]
    for axis, (size, begin, width, stride, dilation, (low, _)) in enumerate(
        zip(sizes, begins, window, strides, dilations, padding, strict=True)
    ):
        reach = dilation * (width - 1)
        # The first of these inputs lies under the first tap of this output, and of none before.
        first = (begin + low) // stride
        before, after = reach - first, first + size - g.shape[axis + 1]
        # Outputs that none of these inputs lies under are left out.
        cut = slice(max(0, -before), g.shape[axis + 1] - max(0, -after))
        g = g[(slice(None),) * (axis + 1) + (cut,)]
        around.append((max(0, before), max(0, after)))
    flipped = taps[(slice(None, None, -1),) * len(window)].swapaxes(-1, -2)
    if not g.size:
        return np.zeros((g.shape[0], *sizes, flipped.shape[-1]), FLOAT32)
    return _direct(g, flipped, {**options, "padding": tuple(around), "strides": (1,) * len(window)})


def _conv_kernel_gradient(
    x: Array, g: Array, *, kernel_shape: tuple[int, ...], **options: Unpack[_Options]
) -> Array:
    window, features = kernel_shape[:-2], kernel_shape[-1]
    if not _supports(x, g, options) or not prod(kernel_shape):
        return _by_numpy("conv_kernel_gradient", x, g, kernel_shape=kernel_shape, **options)
    if _is_product(window, options):
        left, right = plain(x).reshape(-1, x.shape[-1]), plain(g).reshape(-1, features)
        return _native.matmul(left.T, right).reshape(kernel_shape)
    blocks, cost, sizes = _plan(x, g.shape[1:-1], window, features, options)
    parts = min(GRADIENT_PARTS, blocks)
    sums = empty((parts, *kernel_shape))
    status = run(
        _KERNEL_GRADIENT, parts, 1, cost * blocks / parts, sizes,
        x=plain(x), g=plain(g), sums=sums, parts=parts,
    )  # fmt: skip
    if needs_numpy(status, _ROOM):
        return _by_numpy("conv_kernel_gradient", x, g, kernel_shape=kernel_shape, **options)
    total: Array = sums[0]
    for part in sums[1:]:
        total += part
    return total


KERNELS: dict[str, Kernel] = {
    "conv": _conv,
    "conv_input_gradient": _conv_input_gradient,
    "conv_kernel_gradient": _conv_kernel_gradient,
}
