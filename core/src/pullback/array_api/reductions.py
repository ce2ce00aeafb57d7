"""Kernels that reduce over axes."""

from __future__ import annotations

from typing import Any

from pullback.backend import Kernel


def kernels(xp: Any) -> dict[str, Kernel]:
    """Kernels over `xp`."""

    def sum(x: Any, *, axis: Any, dtype: Any, keepdims: bool) -> Any:
        native = None if dtype is None else getattr(xp, dtype.name)
        return xp.sum(x, axis=axis, dtype=native, keepdims=keepdims)

    return {"sum": sum}
