"""Kernels that change shapes and make arrays."""

from __future__ import annotations

from typing import Any

from pullback.backend import Kernel


def kernels(xp: Any) -> dict[str, Kernel]:
    """Kernels over `xp`."""

    def reshape(x: Any, *, shape: tuple[int, ...]) -> Any:
        return xp.reshape(x, shape)

    def broadcast_to(x: Any, *, shape: tuple[int, ...]) -> Any:
        return xp.broadcast_to(x, shape)

    def full(*, shape: tuple[int, ...], fill_value: Any, dtype: Any, device: Any) -> Any:
        return xp.full(shape, fill_value, dtype=getattr(xp, dtype.name), device=device)

    return {"broadcast_to": broadcast_to, "full": full, "reshape": reshape}
