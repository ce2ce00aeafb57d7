"""Kernels that order things."""

from __future__ import annotations

from typing import Any

from pullback._numerics import ArrayNamespace
from pullback.array_api.narrowing import dtype_of_positions
from pullback.plugins.records import Kernel


def kernels(xp: ArrayNamespace) -> dict[str, Kernel]:
    """Kernels over `xp`."""
    whole = dtype_of_positions(xp)

    def argsort(x: Any, *, axis: int, descending: bool, stable: bool) -> Any:
        if descending:
            # Backwards, so that equal elements keep their order when it is turned round again.
            x = xp.flip(x, axis=axis)
        order = xp.argsort(x, axis=axis, stable=stable)
        if descending:
            order = x.shape[axis] - 1 - xp.flip(order, axis=axis)
        return order if order.dtype == whole else xp.astype(order, whole)

    return {"argsort": argsort}
