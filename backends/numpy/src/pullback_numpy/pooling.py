"""Max and average pooling with their gradients, channels last, for one to three spatial dimensions.

x is (N, *spatial, C), y and the indices (N, *out, C). Everything runs over taps (the positions in a
window): each tap of a block is copied to contiguous memory, then combined by NumPy loops over the
whole block. Loops over the strided taps themselves would start once per C channels, and masked
writes cost eight times a plain loop (3.6 ns an element for `where`, 0.47 to multiply by 0 or 1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, product
from math import prod
from typing import Any

import numpy as np

from pullback.casting import compute_dtype
from pullback.shapes import Pads, output_sizes
from pullback_numpy import threads
from pullback_numpy.typing import Array, Sizes
from pullback_numpy.windows import Block, c_strides, patches, plan_patches, scratch

#: Elements of all taps up to which two calls take less time than a loop over taps.
_FEW = 1024

BLOCK_BYTES = 1 << 21
"""Bytes of gathered taps per block. 512 kB are best for one thread, but two threads take longer
than one on such blocks: they wait for Python's lock. At 2 MB they take 0.8 of its time."""


def max_pool(
    x: Array, *, window: Sizes, strides: Sizes, padding: Pads, dilation: Sizes = ()
) -> tuple[Array, Array]:
    """x (N, *spatial, C) to (y, indices): each window's maximum and its position, int32.

    Positions count row-major through the window, padding (the dtype's least value) included. The
    first maximum wins; a NaN wins over every number, and the first NaN over the others.
    """
    dtype = compute_dtype(x.dtype)
    dilation = dilation or (1,) * len(window)
    if dtype != x.dtype:
        y, indices = max_pool(
            x.astype(dtype), window=window, strides=strides, padding=padding, dilation=dilation
        )
        return y.astype(x.dtype), indices
    channels, taps = x.shape[-1], prod(window)
    shape = (x.shape[0], *output_sizes(x.shape[1:-1], window, strides, padding, dilation), channels)
    y, indices = np.empty(shape, dtype), np.zeros(shape, np.int32)
    if not y.size:
        return y, indices
    best_y, best_i = y.reshape(-1, channels), indices.reshape(-1, channels)
    # Taps come in order, so that the last tap that beat all before it has the highest number:
    # `greater`, `multiply` and `maximum` on small integers, the fastest loops, find positions.
    small = np.dtype(np.uint8 if taps <= 256 else np.int32)
    plan = plan_patches(x, window, strides, padding, dilation, 1, BLOCK_BYTES, by_tap=True)

    def work(blocks: Iterable[Block]) -> None:
        for rows, values, _ in patches(x, plan, blocks, fill=least(dtype)):
            if values.size < _FEW:
                # A NaN is the maximum, and the first maximum has the place.
                np.maximum.reduce(values, 0, out=best_y[rows])
                best_i[rows] = values.argmax(axis=0)
                continue
            best = best_y[rows]
            at, beats, candidate = (
                np.zeros(best.shape, small),
                np.empty(best.shape, np.bool_),
                np.empty(best.shape, small),
            )
            np.copyto(at, np.greater(values[1 % taps], values[0], out=beats).view(np.uint8))
            np.maximum(values[1 % taps], values[0], out=best)
            for tap in range(2, taps):
                np.greater(values[tap], best, out=beats)
                np.multiply(beats.view(np.uint8), small.type(tap), out=candidate)
                np.maximum(at, candidate, out=at)
                np.maximum(best, values[tap], out=best)
            if dtype.kind == "f" and np.isnan(best.max()):
                # Comparisons with NaN are False, so that the loop above missed them.
                lost = np.isnan(best)
                at[lost] = np.isnan(values[:, lost]).argmax(axis=0)
            best_i[rows] = at

    threads.run(work, plan.parts, taps * y.size)
    return y, indices


def max_pool_gradient(
    g: Array,
    indices: Array,
    *,
    input_shape: Sizes,
    window: Sizes,
    strides: Sizes,
    padding: Pads,
    dilation: Sizes = (),
) -> Array:
    """g and indices (N, *out, C) to the gradient of x, of input_shape: g where the maxima were."""
    dtype = compute_dtype(g.dtype)
    if dtype != g.dtype:
        wide = max_pool_gradient(
            g.astype(dtype),
            indices,
            input_shape=input_shape,
            window=window,
            strides=strides,
            padding=padding,
            dilation=dilation,
        )
        return wide.astype(g.dtype)
    g = np.ascontiguousarray(g)
    bits = np.dtype(f"i{g.itemsize}") if g.itemsize in (4, 8) else None
    small = indices.astype(np.uint8) if prod(window) <= 256 else indices

    def term_of(tap: int, first: int, last: int, out: Array) -> None:
        chosen = np.equal(small[first:last], small.dtype.type(tap))
        if bits is None:
            np.multiply(g[first:last], chosen, out=out)
        else:
            # g's bits times 0 or 1: seven times faster than `where`, and unlike floats an infinity
            # times 0 stays 0.
            whole = out.view(bits)
            np.copyto(whole, chosen.view(np.uint8))
            np.multiply(whole, g[first:last].view(bits), out=whole)

    return _spread(term_of, g, input_shape, window, strides, padding, dilation)


def max_pool_gather(
    x: Array,
    indices: Array,
    *,
    window: Sizes,
    strides: Sizes,
    padding: Pads,
    dilation: Sizes = (),
) -> Array:
    """x (N, *spatial, C) at indices (N, *out, C): its elements there, 0 in the padding.

    This is the linear map whose transpose is `max_pool_gradient`.
    """
    dilation = dilation or (1,) * len(window)
    channels = x.shape[-1]
    if not indices.size:
        return np.zeros(indices.shape, x.dtype)
    wide = x.astype(compute_dtype(x.dtype), copy=False)
    y = np.empty(indices.shape, wide.dtype)
    flat, at = y.reshape(-1, channels), indices.reshape(-1, channels)
    plan = plan_patches(wide, window, strides, padding, dilation, 1, BLOCK_BYTES, by_tap=True)
    for rows, values, _ in patches(wide, plan, chain.from_iterable(plan.parts)):
        flat[rows] = np.take_along_axis(values, at[rows][None].astype(np.intp), axis=0)[0]
    return y.astype(x.dtype, copy=False)


def avg_pool(
    x: Array,
    *,
    window: Sizes,
    strides: Sizes,
    padding: Pads,
    count_include_pad: bool,
    dilation: Sizes = (),
) -> Array:
    """x (N, *spatial, C) to y (N, *out, C), the mean of each window, with or without padding."""
    dtype = compute_dtype(x.dtype)
    if dtype != x.dtype:
        wide = avg_pool(
            x.astype(dtype),
            window=window,
            strides=strides,
            padding=padding,
            count_include_pad=count_include_pad,
            dilation=dilation,
        )
        return wide.astype(x.dtype)
    dilation = dilation or (1,) * len(window)
    channels = x.shape[-1]
    out = output_sizes(x.shape[1:-1], window, strides, padding, dilation)
    y = np.empty((x.shape[0], *out, channels), dtype)
    if not y.size:
        return y
    flat = y.reshape(-1, channels)
    plan = plan_patches(x, window, strides, padding, dilation, 1, BLOCK_BYTES, by_tap=True)

    def work(blocks: Iterable[Block]) -> None:
        for rows, values, _ in patches(x, plan, blocks):
            np.add.reduce(values, axis=0, out=flat[rows])

    threads.run(work, plan.parts, prod(window) * y.size)
    y /= counts_of(x.shape[1:-1], window, strides, padding, count_include_pad, dtype, dilation)
    return y


def avg_pool_gradient(
    g: Array,
    *,
    input_shape: Sizes,
    window: Sizes,
    strides: Sizes,
    padding: Pads,
    count_include_pad: bool,
    dilation: Sizes = (),
) -> Array:
    """g (N, *out, C) to the gradient of x, of input_shape: each g spread evenly over its window."""
    dtype = compute_dtype(g.dtype)
    even = g.astype(dtype, copy=False) / counts_of(
        input_shape[1:-1], window, strides, padding, count_include_pad, dtype, dilation
    )
    even = np.ascontiguousarray(even)
    dx = _spread(
        lambda tap, first, last, out: even[first:last],
        even,
        input_shape,
        window,
        strides,
        padding,
        dilation,
    )
    return dx.astype(g.dtype, copy=False)


def _spread(
    term_of: Callable[[int, int, int, Array], Array | None],
    like: Array,
    input_shape: Sizes,
    window: Sizes,
    strides: Sizes,
    padding: Pads,
    dilation: Sizes,
) -> Array:
    """Adds every tap's term at the tap's position in an array of input_shape.

    term_of(tap, first image, last image, out) gives (images, *out, C): it returns the array, or
    writes it into `out` and returns None.
    """
    dtype, images, channels = like.dtype, input_shape[0], input_shape[-1]
    if not like.size or not prod(input_shape):
        return np.zeros(input_shape, dtype)
    out = like.shape[1:-1]
    spatial = input_shape[1:-1]
    padded = tuple(size + low + high for size, (low, high) in zip(spatial, padding, strict=True))
    bare = padded == spatial
    many = min(images, max(1, BLOCK_BYTES // (prod(padded) * channels * dtype.itemsize)))
    steps = c_strides((images, *padded, channels), dtype.itemsize)
    # Windows that do not overlap are written, not added, and a pixel's channels are then one
    # element of an opaque dtype (one inner loop over pixels, not one per pixel); only pixels
    # outside all windows need zeros first.
    dilation = dilation or (1,) * len(window)
    apart = all(d * (w - 1) < s for w, s, d in zip(window, strides, dilation, strict=True))
    tiled = apart and all(
        o * s == p and w == s for o, s, p, w in zip(out, strides, padded, window, strict=True)
    )
    dx = (np.empty if tiled or not bare else np.zeros)(input_shape, dtype)
    cell = np.dtype((np.void, channels * dtype.itemsize))
    out_steps = (steps[0], *(s * d for s, d in zip(steps[1:-1], strides, strict=True)))

    def work(images: tuple[int, int]) -> None:
        sums, room = scratch(
            dtype, (0,) if bare else (many, *padded, channels), (many, *out, channels)
        )
        first, last = images
        count = last - first
        if not bare and not tiled:
            sums[:count].fill(0)
        origin = first * steps[0] if bare else 0
        for tap, position in enumerate(product(*map(range, window))):
            offset = origin + sum(
                p * s * d for p, s, d in zip(position, steps[1:-1], dilation, strict=True)
            )
            term = term_of(tap, first, last, room[:count])
            values = room[:count] if term is None else term
            target = dx if bare else sums
            if apart:
                where: Array = np.ndarray((count, *out), cell, target, offset, out_steps)
                np.copyto(where, np.ndarray(where.shape, cell, values))
            else:
                where = np.ndarray(
                    (count, *out, channels), dtype, target, offset, (*out_steps, dtype.itemsize)
                )
                where += values
        if not bare:
            inner = tuple(
                slice(low, low + size) for size, (low, _) in zip(spatial, padding, strict=True)
            )
            dx[first:last] = sums[(slice(count), *inner)]

    threads.run(work, list(_ranges(images, many)), prod(window) * like.size)
    return dx


def _ranges(total: int, step: int) -> Iterator[tuple[int, int]]:
    for first in range(0, total, step):
        yield first, min(first + step, total)


def least(dtype: np.dtype[Any]) -> Any:
    """The value of the dtype that is less than all others."""
    if dtype.kind == "f":
        return -np.inf
    return False if dtype.kind == "b" else np.iinfo(dtype).min


def counts_of(
    spatial: Sizes,
    window: Sizes,
    strides: Sizes,
    padding: Pads,
    count_include_pad: bool,
    dtype: np.dtype[Any],
    dilation: Sizes = (),
) -> Any:
    """The divisor of each window's sum, (*out, 1) or a number; at least 1, so 0 / 0 is 0."""
    if count_include_pad or not any(map(any, padding)):
        return dtype.type(prod(window))
    counts = np.ones((), np.int64)
    dilation = dilation or (1,) * len(window)
    out = output_sizes(spatial, window, strides, padding, dilation)
    for size, width, stride, (low, _), many, step in zip(
        spatial, window, strides, padding, out, dilation, strict=True
    ):
        at = (np.arange(many) * stride - low)[:, None] + np.arange(width) * step
        counts = counts[..., None] * np.count_nonzero((at >= 0) & (at < size), axis=1)
    return np.maximum(counts, 1)[..., None].astype(dtype)
