"""Holds a compiled block against the loops: its bits, and its time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from pullback_native import _native
from pullback_native.compiled.source import BOOLEANS, ROW, Layout
from pullback_native.fused_plan import BLOCK
from pullback_native.loops import Array

_SPECIAL = np.array(
    [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3e38, -3e38, 90.0, -90.0,
     1e-8, -110.0, 0.5, 20.0, -20.0, -85.0],
    np.float32,
)  # fmt: skip
_REPEATS = 25


def is_right(kernel: Any, address: int, layout: Layout) -> bool:
    """Returns whether the block at an address gives the bits of a kernel's loops.

    It runs beside them on numbers of all sizes, and is not right if it never runs itself.
    """
    answered = False
    for values in _values(np.random.default_rng(0)):
        for count, begin in _counts(layout):
            numbers = tuple(map(float, values(layout.numbers)))
            loops = _arrays(layout, values)
            own = [x.copy() for x in loops]
            _native.block(kernel, 0, tuple(loops), numbers, begin, count)
            left = _native.block(kernel, address, tuple(own), numbers, begin, count)
            answered |= not left
            for register in layout.kept:
                if not left and not _same(loops[register], own[register]):
                    return False
    return answered


def is_faster(kernel: Any, address: int, layout: Layout, than: int = 0) -> bool:
    """Returns whether the block at an address takes less time than another, or than the loops."""
    values = next(_values(np.random.default_rng(0)))
    numbers = tuple(map(float, values(layout.numbers)))
    arrays = tuple(_arrays(layout, values))
    least = {than: float("inf"), address: float("inf")}
    for _ in range(_REPEATS):
        for which in least:
            begin = time.perf_counter()
            _native.block(kernel, which, arrays, numbers, 0, _largest(layout))
            least[which] = min(least[which], time.perf_counter() - begin)
    return least[address] < least[than]


def _counts(layout: Layout) -> tuple[tuple[int, int], ...]:
    """Elements of blocks, and where they begin in their rows."""
    if layout.is_over_rows:
        return (layout.block, 0), (layout.width, 0)
    return (BLOCK, 0), (BLOCK - 19, 5), (61, 3)  # whole vectors, and rests of them


def _largest(layout: Layout) -> int:
    return layout.block if layout.is_over_rows else BLOCK


def _values(rng: np.random.Generator) -> Iterator[Any]:
    """Functions that make so many numbers."""
    yield lambda size: rng.standard_normal(size, np.float32)
    yield lambda size: rng.standard_normal(size, np.float32)
    yield lambda size: np.float32(8) * rng.standard_normal(size, np.float32)
    yield lambda size: np.float32(60) * rng.standard_normal(size, np.float32)
    yield lambda size: rng.choice(_SPECIAL, size)
    yield lambda size: rng.integers(0, 1 << 32, size, np.uint32).view(np.float32)


def _arrays(layout: Layout, values: Any) -> list[Array]:
    """An array for each register, with room for a block, or for a row."""
    size, arrays = _largest(layout), []
    for kind in layout.kinds:
        x = values(layout.width if kind == ROW else size)
        arrays.append(np.resize(x > 0, 4 * size) if kind == BOOLEANS else x)
    for kind in layout.outputs:
        arrays.append(values(layout.width) if kind == ROW else np.zeros(size, np.float32))
    return [*arrays, *(np.zeros(size, np.float32) for _ in range(layout.buffers))]


def _same(a: Array, b: Array) -> bool:
    """Returns whether all bits are the same, but for those that tell one NaN from another."""
    if np.array_equal(a.view(np.uint32), b.view(np.uint32)):
        return True
    differ = a.view(np.uint32) != b.view(np.uint32)
    return bool(np.all(np.isnan(a[differ]) & np.isnan(b[differ])))
