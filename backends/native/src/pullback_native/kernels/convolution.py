"""Convolution over one or two spatial dimensions, channels last, without groups.

A block of windows is gathered and multiplied in C, where NumPy's kernel copies into a padded block,
gathers from that, and multiplies, in Python. What needs no gathering, and the input gradient at
larger strides, are NumPy's.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from pullback.backend import Kernel
from pullback_native.blas import BLAS
from pullback_native.loops import FLOAT32, LOOPS, plain, run
from pullback_numpy import threads
from pullback_numpy.arrangement import band_width, banded
from pullback_numpy.convolution import FORWARD_BYTES, GRADIENT_BYTES, GRADIENT_PARTS
from pullback_numpy.kernels import KERNELS as NUMPYS
from pullback_numpy.windows import output_sizes

_CONV, _KERNEL_GRADIENT = LOOPS["conv"], LOOPS["conv_kernel_gradient"]
#: Multiplications a nanosecond, on one thread.
_SPEED = 40


def _fits(x: Any, other: Any, window: Any, how: Any) -> bool:
    """Whether the loops are for it: not for products that need no gathering, nor for groups."""
    return (
        how["data_format"] == "channels_last"
        and how["groups"] == 1
        and x.ndim <= 4
        and x.dtype == FLOAT32
        and x.size * other.size > 0
        and (
            prod(window) > 1 or any(s > 1 for s in how["strides"]) or any(map(any, how["padding"]))
        )
    )


def _numbers(
    x: Any, out: Any, window: Any, features: int, how: Any, block_bytes: int
) -> tuple[int, float, tuple[int, ...]]:
    """The number of blocks, what each costs, and what the loops are told."""
    one = (1,) * (2 - len(window))
    rows, columns = x.shape[0] * prod((*one, *out)[:1]), out[-1]
    inner = prod(window) * x.shape[-1]
    cost = columns * inner * features / _SPEED
    blocks = -(-rows // max(1, block_bytes // (4 * columns * inner)))
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


def _raise_without_memory(failed: Any) -> None:
    if failed[0]:
        raise MemoryError("no room for a block of windows")


def _conv(x: Any, kernel: Any, **how: Any) -> Any:
    window, features = kernel.shape[:-2], kernel.shape[-1]
    if not _fits(x, kernel, window, how):
        return NUMPYS["conv"](x, kernel, **how)
    out = output_sizes(x.shape[1:-1], window, how["strides"], how["padding"], how["dilation"])
    y = np.empty((x.shape[0], *out, features), FLOAT32)
    if not y.size:
        return y
    band = band_width(out[-1], window, how["strides"], how["dilation"], 1, x.shape[-1], features)
    if band > 1:
        stride = how["strides"][-1]
        kernel = banded(kernel, stride, band)
        window, features = kernel.shape[:-2], kernel.shape[-1]
        how = how | {"strides": (*how["strides"][:-1], stride * band)}
        out = (*out[:-1], out[-1] // band)
    failed = np.zeros(1, np.int32)
    blocks, cost, numbers = _numbers(x, out, window, features, how, FORWARD_BYTES)
    with threads.single_blas:
        run(_CONV, blocks, 1, cost, (plain(x), plain(kernel), y, failed), numbers, ())
    _raise_without_memory(failed)
    return y


def _conv_input_gradient(g: Any, kernel: Any, *, input_shape: Any, **how: Any) -> Any:
    window, (channels, features) = kernel.shape[:-2], kernel.shape[-2:]
    reach = [d * (w - 1) for w, d in zip(window, how["dilation"], strict=True)]
    # At stride 1 it is a convolution of g with the kernel turned round, which gathers in place of
    # scattering; that pays where it does for NumPy's kernel.
    turned = (
        _fits(g, kernel, window, how)
        and prod(input_shape) > 0
        and all(s == 1 for s in how["strides"])
        and channels > 4
        and 20 * prod(g.shape[:-1]) >= channels * features
        and all(max(p) <= r for p, r in zip(how["padding"], reach, strict=True))
    )
    if not turned:
        return NUMPYS["conv_input_gradient"](g, kernel, input_shape=input_shape, **how)
    around = tuple((r - a, r - b) for r, (a, b) in zip(reach, how["padding"], strict=True))
    flipped = kernel[(slice(None, None, -1),) * len(window)].swapaxes(-1, -2)
    return _conv(g, flipped, **(how | {"padding": around}))


def _conv_kernel_gradient(x: Any, g: Any, *, kernel_shape: Any, **how: Any) -> Any:
    window, features = kernel_shape[:-2], kernel_shape[-1]
    out = g.shape[1:-1]
    thin = (
        _fits(x, g, window, how)
        and band_width(out[-1], window, how["strides"], how["dilation"], 1, x.shape[-1], features)
        > 1
    )
    if thin or not _fits(x, g, window, how):
        return NUMPYS["conv_kernel_gradient"](x, g, kernel_shape=kernel_shape, **how)
    failed = np.zeros(1, np.int32)
    blocks, cost, numbers = _numbers(x, out, window, features, how, GRADIENT_BYTES)
    parts = min(GRADIENT_PARTS, blocks)
    sums = np.empty((parts, *kernel_shape), FLOAT32)
    with threads.single_blas:
        run(_KERNEL_GRADIENT, parts, 1, cost * blocks / parts,
            (plain(x), plain(g), sums, failed), numbers, (float(parts),))  # fmt: skip
    _raise_without_memory(failed)
    total = sums[0]
    for other in sums[1:]:
        total += other
    return total


KERNELS: dict[str, Kernel] = {
    "conv": _conv,
    "conv_input_gradient": _conv_input_gradient,
    "conv_kernel_gradient": _conv_kernel_gradient,
}
if not BLAS.product:
    KERNELS = {}
