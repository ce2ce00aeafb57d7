"""Kernels that make arrays, and change their dtype."""

from __future__ import annotations

from typing import Any

from pullback.backend import Kernel
from pullback.dtypes import DType, kind


def kernels(xp: Any) -> dict[str, Kernel]:
    """Kernels over `xp`."""

    def astype(x: Any, *, dtype: DType) -> Any:
        return xp.astype(x, getattr(xp, dtype.name))

    def full(*, shape: tuple[int, ...], fill_value: Any, dtype: DType, device: Any) -> Any:
        if kind(dtype) == 0:
            fill_value = bool(fill_value)
        return xp.full(shape, fill_value, dtype=getattr(xp, dtype.name), device=device)

    def arange(*, start: Any, stop: Any, step: Any, dtype: DType, device: Any) -> Any:
        native = getattr(xp, dtype.name)
        if type(start) is type(stop) is type(step) is int:
            return xp.arange(start, stop, step, dtype=native, device=device)
        # The length as in the op's rule; start + i * step is nearer than adding steps up.
        length = max(0, -int((start - stop) / step // 1))
        counts = xp.arange(length, dtype=xp.float64, device=device)
        return xp.astype(counts * float(step) + float(start), native)

    return {"arange": arange, "astype": astype, "full": full}
