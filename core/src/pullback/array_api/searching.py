"""Kernels that find things."""

from __future__ import annotations

from typing import Any

from pullback.backend import Kernel


def kernels(xp: Any) -> dict[str, Kernel]:
    """Kernels over `xp`."""

    def arg(name: str) -> Kernel:
        find = getattr(xp, name)

        def kernel(x: Any, *, axis: int | None, keepdims: bool) -> Any:
            return xp.astype(find(x, axis=axis, keepdims=keepdims), xp.int64, copy=False)

        return kernel

    return {name: arg(name) for name in ("argmax", "argmin")}
