"""Kernels of indices: of extreme and nonzero elements, and into sorted vectors."""

from __future__ import annotations

from typing import Any

from pullback._numerics import ArrayNamespace
from pullback.array_api.narrowing import dtype_of_positions
from pullback.plugins.records import Kernel, Native


def kernels(xp: ArrayNamespace) -> dict[str, Kernel]:
    """Kernels over `xp`."""
    whole = dtype_of_positions(xp)

    def positions(x: Any) -> Any:
        return x if x.dtype == whole else xp.astype(x, whole)

    def arg(name: str) -> Kernel:
        find = getattr(xp, name)

        def kernel(x: Any, *, axis: int | None, keepdims: bool) -> Any:
            return positions(find(x, axis=axis, keepdims=keepdims))

        return kernel

    def argwhere(x: Any) -> Any:
        if x.ndim == 0:
            indices = xp.nonzero(xp.reshape(x, (1,)))[0]
            return xp.zeros((indices.shape[0], 0), dtype=whole)
        return positions(xp.stack(xp.nonzero(x), axis=1))

    def searchsorted(x1: Native, x2: Any, sorter: Native | None, *, side: str) -> Any:
        # As a vector: not every namespace takes more than one dimension here.
        flat = xp.reshape(x2, (-1,))
        # A sorter of uint64 is not taken by every namespace.
        more = {} if sorter is None else {"sorter": positions(sorter)}
        indices = xp.searchsorted(x1, flat, side=side, **more)
        return positions(xp.reshape(indices, x2.shape))

    table: dict[str, Kernel] = {"argwhere": argwhere, "searchsorted": searchsorted}
    return table | {name: arg(name) for name in ("argmax", "argmin") if hasattr(xp, name)}
