"""Kernels that take and scatter elements by position."""

from __future__ import annotations

from typing import Any

from pullback._numerics import ArrayNamespace
from pullback.array_api.narrowing import dtype_of_positions, half_precision
from pullback.casting import casts_to_float32
from pullback.plugins.compiling import require
from pullback.plugins.records import Kernel, Native


def kernels(xp: ArrayNamespace) -> dict[str, Kernel]:
    """Kernels over `xp`."""
    half, whole = half_precision(xp), dtype_of_positions(xp)
    widened, narrowed = casts_to_float32(half, xp.float32, xp.astype)

    def in_range(indices: Any, size: int) -> Any:
        """The indices as a flat array, none negative."""
        flat = xp.reshape(indices, (-1,))
        if flat.shape[0]:
            first, last = (xp.astype(f(flat), whole, copy=False) for f in (xp.min, xp.max))
            within = (first >= -size) & (last < size)
            require(within, IndexError(f"an index is outside an axis of size {size}"))
        return xp.where(flat < 0, flat + size, flat)

    def take(x: Any, indices: Any, *, axis: int) -> Any:
        taken = xp.take(x, in_range(indices, x.shape[axis]), axis=axis)
        return xp.reshape(taken, (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))

    def scatter(x: Any, indices: Native, updates: Any, axis: int, *, add: bool) -> Any:
        flat = in_range(indices, x.shape[axis])
        count = flat.shape[0]
        updates = xp.reshape(updates, (*x.shape[:axis], count, *x.shape[axis + 1 :]))
        result = xp.asarray(x, copy=True)
        before = (slice(None),) * axis
        # The standard has no assignment to several positions: they are assigned one by one. All
        # updates of a position are added at once, with the accuracy of the namespace's sum.
        order = xp.argsort(flat, stable=True)
        positions = [int(flat[int(order[i])]) for i in range(count)]
        begin = 0
        for end in range(1, count + 1):
            if end < count and positions[end] == positions[begin]:
                continue
            key = (*before, positions[begin], ...)
            if add:
                group = xp.take(updates, order[begin:end], axis=axis)
                result[key] = result[key] + xp.sum(group, axis=axis, dtype=x.dtype)
            else:
                result[key] = updates[(*before, int(order[end - 1]), ...)]
            begin = end
        return result

    def scatter_add(x: Any, indices: Native, updates: Native, *, axis: int) -> Any:
        if x.dtype not in half:
            return scatter(x, indices, updates, axis, add=True)
        # The sums of 16-bit floats are taken in float32.
        return narrowed(scatter(widened(x), indices, widened(updates), axis, add=True), x)

    def scatter_update(x: Native, indices: Native, updates: Native, *, axis: int) -> Any:
        return scatter(x, indices, updates, axis, add=False)

    return {"scatter_add": scatter_add, "scatter_update": scatter_update, "take": take}
