"""Kernels of linear algebra."""

from __future__ import annotations

from typing import Any

from pullback.backend import Kernel


def kernels(xp: Any) -> dict[str, Kernel]:
    """Kernels over `xp`."""
    half = [getattr(xp, name) for name in ("float16", "bfloat16") if hasattr(xp, name)]

    def matmul(x1: Any, x2: Any) -> Any:
        if x1.dtype in half:
            wide = xp.matmul(xp.astype(x1, xp.float32), xp.astype(x2, xp.float32))
            return xp.astype(wide, x1.dtype)
        return xp.matmul(x1, x2)

    return {"matmul": matmul}
