"""Convolution over one or two spatial dimensions, channels last, without groups.

The loops read windows where they lie in the image: NumPy's kernel gathers them into a matrix for
BLAS. Input gradients are convolutions too: at stride 1 one of g with the kernel turned round, at
larger strides one for each place that an input can have under the stride.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

import numpy as np

from pullback.plugins.backend import Kernel
from pullback.shapes import output_sizes
from pullback_native import _native
from pullback_native.loops import FLOAT32, LOOPS, empty, plain, run_with_room
from pullback_numpy.convolution import GRADIENT_PARTS
from pullback_numpy.kernels import KERNELS as NUMPYS

_CONV, _KERNEL_GRADIENT = LOOPS["conv"], LOOPS["conv_kernel_gradient"]
#: Multiplications a nanosecond, on one thread.
_SPEED = 50
#: Pixels of the output that make a block: its band of the input stays in the second-level cache.
_PIXELS = 256
_ROOM = "a part of the image"


def _fits(x: Any, other: Any, how: Any) -> bool:
    """Whether the loops are for it."""
    return (
        how["data_format"] == "channels_last"
        and how["groups"] == 1
        and x.ndim <= 4
        and x.dtype == other.dtype == FLOAT32
        and x.size * other.size > 0
    )


def _is_product(window: Any, how: Any) -> bool:
    """Whether every output is made of the one pixel in its place."""
    return prod(window) == 1 and prod(how["strides"]) == 1 and not any(map(any, how["padding"]))


def _numbers(
    x: Any, out: Any, window: Any, features: int, how: Any
) -> tuple[int, float, tuple[int, ...]]:
    """The number of blocks, what each costs, and what the loops are told."""
    one = (1,) * (2 - len(window))
    rows, columns = x.shape[0] * prod((*one, *out)[:1]), out[-1]
    cost = columns * (prod(window) * x.shape[-1] * features / _SPEED + 10)
    blocks = -(-rows // max(1, _PIXELS // columns))
    if rows * cost > 1e5:
        blocks += blocks % 2  # two threads are done at the same time
    step = -(-rows // blocks)
    before = tuple(low for low, _ in how["padding"])
    numbers = (
        *(*one, *x.shape[1:-1], x.shape[-1], *one, *out, *one, *window, *one, *how["strides"]),
        *((0,) * len(one) + before),
        *(*one, *how["dilation"], features, rows, step),
    )
    return -(-rows // step), step * cost, numbers


def _conv(x: Any, kernel: Any, **how: Any) -> Any:
    y = _direct(x, kernel, how)
    return NUMPYS["conv"](x, kernel, **how) if y is None else y


def _direct(x: Any, kernel: Any, how: Any) -> Any:
    """The convolution by the loops; None where they are not for it."""
    window, (channels, features) = kernel.shape[:-2], kernel.shape[-2:]
    if not _fits(x, kernel, how):
        return None
    if _is_product(window, how):
        return _native.matmul(plain(x), kernel.reshape(channels, features))
    out = output_sizes(x.shape[1:-1], window, how["strides"], how["padding"], how["dilation"])
    y = empty((x.shape[0], *out, features))
    if not y.size:
        return y
    blocks, cost, numbers = _numbers(x, out, window, features, how)
    arrays = (plain(x), plain(kernel), y)
    left = run_with_room(_CONV, blocks, 1, cost, arrays, numbers, room=_ROOM)
    return None if left else y


def _conv_input_gradient(g: Any, kernel: Any, *, input_shape: Any, **how: Any) -> Any:
    window, (channels, features) = kernel.shape[:-2], kernel.shape[-2:]
    if not _fits(g, kernel, how) or not prod(input_shape):
        return NUMPYS["conv_input_gradient"](g, kernel, input_shape=input_shape, **how)
    if _is_product(window, how):
        return _native.matmul(plain(g), kernel.reshape(channels, features).T)
    strides, dilation = how["strides"], how["dilation"]
    if any(s > 1 and d > 1 for s, d in zip(strides, dilation, strict=True)):
        return NUMPYS["conv_input_gradient"](g, kernel, input_shape=input_shape, **how)
    if prod(strides) == 1:
        dx = _of_places(g, kernel, input_shape[1:-1], [0] * len(window), how)
    else:
        dx = _of_all_places(g, kernel, input_shape, how)
    if dx is None:
        return NUMPYS["conv_input_gradient"](g, kernel, input_shape=input_shape, **how)
    return dx


def _of_all_places(g: Any, kernel: Any, input_shape: Any, how: Any) -> Any:
    """The gradient where the stride is larger than 1; None where the loops are not for it."""
    strides = how["strides"]
    dx = empty(tuple(input_shape))
    dx.fill(0)
    for places in product(*map(range, strides)):
        # Inputs at these places meet the taps at the same places, and no others.
        taps = kernel[tuple(slice(p, None, s) for p, s in zip(places, strides, strict=True))]
        begins = [
            (p - low) % s for p, s, (low, _) in zip(places, strides, how["padding"], strict=True)
        ]
        inputs = tuple(slice(b, None, s) for b, s in zip(begins, strides, strict=True))
        part = dx[:, *inputs]
        if taps.size and part.size:
            found = _of_places(g, taps, part.shape[1:-1], begins, how)
            if found is None:
                return None
            part[...] = found
    return dx


def _of_places(g: Any, taps: Any, sizes: Any, begins: Any, how: Any) -> Any:
    """The gradient at every stride-th input from `begins` on: a convolution at stride 1 of g.

    None where the loops are not for it.
    """
    window, around = taps.shape[:-2], []
    for axis, (size, begin, width, stride, dilation, (low, _)) in enumerate(
        zip(sizes, begins, window, how["strides"], how["dilation"], how["padding"], strict=True)
    ):
        reach = dilation * (width - 1)
        # The first input of these lies under the first tap of this output, and of none before.
        first = (begin + low) // stride
        before, after = reach - first, first + size - g.shape[axis + 1]
        # Outputs that none of these inputs lies under are left out.
        cut = slice(max(0, -before), g.shape[axis + 1] - max(0, -after))
        g = g[(slice(None),) * (axis + 1) + (cut,)]
        around.append((max(0, before), max(0, after)))
    flipped = taps[(slice(None, None, -1),) * len(window)].swapaxes(-1, -2)
    how = how | {"padding": tuple(around), "strides": (1,) * len(window)}
    if not g.size:
        return np.zeros((g.shape[0], *sizes, flipped.shape[-1]), FLOAT32)
    return _direct(g, flipped, how)


def _conv_kernel_gradient(x: Any, g: Any, *, kernel_shape: Any, **how: Any) -> Any:
    window, features = kernel_shape[:-2], kernel_shape[-1]
    if not _fits(x, g, how) or not prod(kernel_shape):
        return NUMPYS["conv_kernel_gradient"](x, g, kernel_shape=kernel_shape, **how)
    if _is_product(window, how):
        left, right = plain(x).reshape(-1, x.shape[-1]), plain(g).reshape(-1, features)
        return _native.matmul(left.T, right).reshape(kernel_shape)
    blocks, cost, numbers = _numbers(x, g.shape[1:-1], window, features, how)
    parts = min(GRADIENT_PARTS, blocks)
    sums = empty((parts, *kernel_shape))
    arrays, constants = (plain(x), plain(g), sums), (float(parts),)
    each = cost * blocks / parts
    left = run_with_room(_KERNEL_GRADIENT, parts, 1, each, arrays, numbers, constants, room=_ROOM)
    if left:
        return NUMPYS["conv_kernel_gradient"](x, g, kernel_shape=kernel_shape, **how)
    total = sums[0]
    for other in sums[1:]:
        total += other
    return total


KERNELS: dict[str, Kernel] = {
    "conv": _conv,
    "conv_input_gradient": _conv_input_gradient,
    "conv_kernel_gradient": _conv_kernel_gradient,
}
