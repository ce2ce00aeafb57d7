"""Kernels of indices: of extreme and nonzero elements, and into sorted vectors."""

from __future__ import annotations

from typing import Any

from pullback.plugins.backend import Kernel


def kernels(xp: Any) -> dict[str, Kernel]:
    """Kernels over `xp`."""

    def arg(name: str) -> Kernel:
        find = getattr(xp, name)

        def kernel(x: Any, *, axis: int | None, keepdims: bool) -> Any:
            return xp.astype(find(x, axis=axis, keepdims=keepdims), xp.int64, copy=False)

        return kernel

    def argwhere(x: Any) -> Any:
        if x.ndim == 0:
            indices = xp.nonzero(xp.reshape(x, (1,)))[0]
            return xp.zeros((indices.shape[0], 0), dtype=xp.int64)
        return xp.astype(xp.stack(xp.nonzero(x), axis=1), xp.int64, copy=False)

    def searchsorted(x1: Any, x2: Any, sorter: Any, *, side: str) -> Any:
        # As a vector: not every namespace takes more than one dimension here.
        flat = xp.reshape(x2, (-1,))
        indices = xp.searchsorted(x1, flat, side=side, sorter=sorter)
        return xp.astype(xp.reshape(indices, x2.shape), xp.int64, copy=False)

    return {
        "argmax": arg("argmax"),
        "argmin": arg("argmin"),
        "argwhere": argwhere,
        "searchsorted": searchsorted,
    }
