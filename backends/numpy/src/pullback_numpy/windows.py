"""Sliding windows over channels-last arrays: sizes, scratch memory and blocked patch extraction.

Convolution and pooling share this file. It does no arithmetic: it locates windows and copies them,
a cache-sized block at a time, into memory that each thread reuses.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from pullback.shapes import Pads, output_sizes
from pullback_numpy.typing import Array, Sizes

Block = tuple[int, int, int, int]  # first image, last image, first row, last row; ends exclusive

SPLIT_BYTES = 1 << 20
"""Windows of fewer bytes are not worth a second thread."""

KEPT_BYTES = 32 << 20
"""Larger scratch memory is released after the call: a huge input must not hold memory for ever."""


class _Scratch(threading.local):
    """One growing buffer per thread, so that two threads in a kernel never share one."""

    def __init__(self) -> None:
        self.buffer = _aligned(0)


def _aligned(size: int) -> Array:
    """An array of `size` bytes that starts at a cache line."""
    buffer = np.empty(size + 64, np.uint8)
    start = -buffer.ctypes.data % 64
    return buffer[start : start + size]


_scratch = _Scratch()


def scratch(dtype: np.dtype[Any], *shapes: Sizes) -> list[Array]:
    """Uninitialized arrays in this thread's buffer, valid until this thread's next call."""
    sizes = [-(-prod(shape) * dtype.itemsize // 64) * 64 for shape in shapes]
    need = sum(sizes)
    buffer = _scratch.buffer
    if buffer.size < need:
        buffer = _aligned(need)
        if need <= KEPT_BYTES:
            _scratch.buffer = buffer
    arrays: list[Array] = []
    at = 0
    for shape, size in zip(shapes, sizes, strict=True):
        arrays.append(np.ndarray(shape, dtype, buffer, at))
        at += size
    return arrays


def c_strides(shape: Sizes, itemsize: int) -> Sizes:
    """The byte strides of a C-contiguous array."""
    strides = [itemsize]
    for size in reversed(shape[1:]):
        strides.append(strides[-1] * size)
    return tuple(reversed(strides))


@dataclass(frozen=True, slots=True)
class Layout:
    """The windows over one input shape, and their division into blocks.

    A block is `images` whole images, or, when one image is too much, `rows` rows (of the first
    spatial dimension) of the output of one image.
    """

    spatial: Sizes
    out: Sizes
    window: Sizes
    strides: Sizes
    padding: Pads
    dilation: Sizes
    padded: Sizes  # spatial sizes of the padded buffer of one block
    images: int
    rows: int
    positions: int  # windows in an image

    def blocks(self, images: int) -> Iterator[Block]:
        """Yields all blocks of this number of images."""
        for first in range(0, images, self.images):
            last = min(first + self.images, images)
            for top in range(0, self.out[0], self.rows):
                yield first, last, top, min(top + self.rows, self.out[0])


@lru_cache(maxsize=1024)
def layout(
    spatial: Sizes,
    window: Sizes,
    strides: Sizes,
    padding: Pads,
    dilation: Sizes,
    window_bytes: int,
    block_bytes: int,
) -> Layout:
    """The layout whose blocks hold about `block_bytes` of gathered windows, `window_bytes` each."""
    out = output_sizes(spatial, window, strides, padding, dilation)
    positions = prod(out)
    images, rows = 1, max(1, out[0])
    row_bytes = max(1, window_bytes * prod(out[1:]))
    if row_bytes * rows <= block_bytes:
        images = block_bytes // (row_bytes * rows)
    else:
        pieces = -(-row_bytes * rows // block_bytes)
        rows = -(-rows // pieces)  # even pieces: a short last one would waste BLAS's start
    height = (
        (rows - 1) * strides[0] + dilation[0] * (window[0] - 1) + 1
    )  # rows that no window reaches are left out
    padded = (
        height,
        *(size + low + high for size, (low, high) in zip(spatial[1:], padding[1:], strict=True)),
    )
    return Layout(spatial, out, window, strides, padding, dilation, padded, images, rows, positions)


class PaddedBlocks:
    """Copies blocks of `x` (N, *spatial, C) into a padded buffer (images, *padded, C)."""

    def __init__(self, x: Array, buffer: Array, plan: Layout, fill: Any = 0) -> None:
        self.x, self.buffer, self.plan, self.fill = x, buffer, plan, fill
        buffer.fill(fill)
        self.inner = tuple(
            slice(low, low + size)
            for size, (low, _) in zip(plan.spatial[1:], plan.padding[1:], strict=True)
        )

    def load(self, first: int, last: int, top: int) -> None:
        """Fills the buffer with images first..last, from the first row that row `top` sees."""
        plan = self.plan
        count = last - first
        height = plan.padded[0]
        start = (
            top * plan.strides[0] - plan.padding[0][0]
        )  # the input row at the buffer's first row, may be negative
        begin, end = max(start, 0), min(start + height, plan.spatial[0])
        before, after = min(begin - start, height), max(end - start, 0)
        if begin < end:
            self.buffer[(slice(count), slice(before, after), *self.inner)] = self.x[
                first:last, begin:end
            ]
        else:
            before = after = height
        if plan.rows != plan.out[0]:  # whole images keep their borders from block to block
            self.buffer[:count, :before] = self.fill
            self.buffer[:count, after:] = self.fill


@dataclass(frozen=True, slots=True)
class PatchPlan:
    """A plan to copy the windows of one input shape: all of `patches` that depends on no value."""

    layout: Layout
    direct: bool  # from x itself, which needs no padding
    padded: Sizes
    columns: Sizes  # of one block, flat
    window_size: int  # elements in a window, all groups
    steps: Sizes  # byte strides from window to window, as (N, *out)
    cell: np.dtype[Any]
    lead: tuple[
        Sizes, Sizes
    ]  # sizes and byte strides of what comes before the windows: groups, or taps
    tail: tuple[Sizes, Sizes]  # and of what comes after: taps, or nothing
    matrix: Sizes  # the shape of a block; -1 for its windows
    parts: tuple[tuple[Block, ...], ...]  # neighbouring blocks, to be gathered by one thread each


def plan_patches(
    x: Array,
    window: Sizes,
    strides: Sizes,
    padding: Pads,
    dilation: Sizes,
    groups: int,
    block_bytes: int,
    *,
    by_tap: bool = False,
    parts: int = 8,
) -> PatchPlan:
    """Plans to gather the windows of x (N, *spatial, C) in blocks of about `block_bytes`.

    With `by_tap` a block is (taps, windows, C) instead of (windows, taps * C).
    """
    direct = x.flags.c_contiguous and not any(map(any, padding))
    return _patch_plan(
        x.shape, x.itemsize, direct, window, strides, padding, dilation, groups, by_tap,
        block_bytes, parts,
    )  # fmt: skip


@lru_cache(maxsize=1024)
def _patch_plan(
    shape: Sizes,
    item: int,
    direct: bool,
    window: Sizes,
    strides: Sizes,
    padding: Pads,
    dilation: Sizes,
    groups: int,
    by_tap: bool,
    block_bytes: int,
    parts: int,
) -> PatchPlan:
    channels, taps = shape[-1], prod(window)
    window_bytes = taps * channels * item
    out = output_sizes(shape[1:-1], window, strides, padding, dilation)
    # An even number of blocks, where there are few: two threads are done at the same time.
    total = shape[0] * prod(out) * window_bytes
    if SPLIT_BYTES < total < 8 * block_bytes:
        block_bytes = -(-total // (2 * -(-total // (2 * block_bytes))))
    plan = layout(shape[1:-1], window, strides, padding, dilation, window_bytes, block_bytes)
    many = min(plan.images, shape[0])
    padded = (0,) if direct else (many, *plan.padded, channels)
    steps = c_strides(shape if direct else padded, item)
    # A run of bytes that is contiguous in the input is copied as ONE element of an opaque dtype:
    # NumPy then runs its inner loop over runs instead of starting it once per run (5x5 windows, one
    # channel: 20 to 32 us an image against 12).
    width = channels // groups
    merged = groups == 1 and dilation[-1] == 1 and not by_tap
    tap_shape = window[:-1] if merged else window
    tap_steps = tuple(s * d for s, d in zip(steps[1:-1], dilation, strict=True))[: len(tap_shape)]
    lead: tuple[Sizes, Sizes] = ((), ()) if groups == 1 else ((groups,), (width * item,))
    tail, matrix = (tap_shape, tap_steps), (*lead[0], -1, taps * width)
    if by_tap:
        lead, tail, matrix = tail, ((), ()), (taps, -1, channels)
    blocks = tuple(plan.blocks(shape[0]))
    return PatchPlan(
        plan,
        direct,
        padded,
        (many * plan.rows * (plan.positions // plan.out[0]) * taps * channels,),
        taps * channels,
        (steps[0], *(s * d for s, d in zip(steps[1:-1], strides, strict=True))),
        np.dtype((np.void, item * (window[-1] * width if merged else width))),
        lead,
        tail,
        matrix,
        tuple(blocks[start:stop] for start, stop in even_ranges(len(blocks), parts)),
    )


def even_ranges(total: int, parts: int) -> list[tuple[int, int]]:
    """Splits range(total) into at most `parts` ranges of nearly one size."""
    parts = min(parts, total)
    return [(total * i // parts, total * (i + 1) // parts) for i in range(parts)]


def patches(
    x: Array, plan: PatchPlan, blocks: Iterable[Block], *extra: Sizes, fill: Any = 0
) -> Iterator[tuple[slice, Array, list[Array]]]:
    """Yields (rows, windows, extra) block by block, in scratch memory that the next overwrites.

    x is (N, *spatial, C). `rows` says which of the N * prod(out) windows these are; `windows` is
    (rows, taps * C), or (groups, rows, taps * C / groups) for more groups than one, or (taps, rows,
    C) by tap; `extra` are uninitialized arrays for the caller. The padding holds `fill`.
    """
    geometry = plan.layout
    padded, columns, *rest = scratch(x.dtype, plan.padded, plan.columns, *extra)
    source = x if plan.direct else padded
    loader = None if plan.direct else PaddedBlocks(x, padded, geometry, fill)
    per_row = geometry.positions // geometry.out[0]
    from_steps = (*plan.lead[1], *plan.steps, *plan.tail[1])
    for first, last, top, bottom in blocks:
        offset = 0
        if loader is None:
            offset = first * plan.steps[0] + top * plan.steps[1]
        else:
            loader.load(first, last, top)
        shape = (*plan.lead[0], last - first, bottom - top, *geometry.out[1:], *plan.tail[0])
        np.copyto(
            np.ndarray(shape, plan.cell, columns),
            np.ndarray(shape, plan.cell, source, offset, from_steps),
        )
        start, stop = (
            first * geometry.positions + top * per_row,
            (last - 1) * geometry.positions + bottom * per_row,
        )
        matrix = columns[: (stop - start) * plan.window_size]
        yield slice(start, stop), matrix.reshape(plan.matrix), rest
