"""Kernels that change shapes, cut and join."""

from __future__ import annotations

from typing import Any

from pullback._numerics import ArrayNamespace
from pullback.plugins.records import Kernel, Native


def kernels(xp: ArrayNamespace) -> dict[str, Kernel]:
    """Kernels over `xp`."""

    def reshape(x: Any, *, shape: tuple[int, ...]) -> Any:
        return xp.reshape(x, shape)

    def broadcast_to(x: Any, *, shape: tuple[int, ...]) -> Any:
        return xp.broadcast_to(x, shape)

    def permute_dims(x: Any, *, axes: tuple[int, ...]) -> Any:
        return xp.permute_dims(x, axes)

    def concat(arrays: list[Any], *, axis: int | None) -> Any:
        return xp.concat(arrays, axis=axis)

    def strided_slice(x: Any, *, key: tuple[Any, ...]) -> Any:
        return x[key]

    def strided_update(x: Any, value: Native, *, key: tuple[Any, ...]) -> Any:
        result = xp.asarray(x, copy=True)
        # The standard has no None where something is put.
        present = tuple(entry for entry in key if entry is not None)
        if len(present) < len(key):
            value = xp.broadcast_to(value, x[key].shape)
            value = xp.reshape(value, x[present].shape)
        result[present] = value
        return result

    return {
        "broadcast_to": broadcast_to,
        "concat": concat,
        "permute_dims": permute_dims,
        "reshape": reshape,
        "strided_slice": strided_slice,
        "strided_update": strided_update,
    }
