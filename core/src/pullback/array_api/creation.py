"""Kernels that make arrays, and change their dtype."""

from __future__ import annotations

from typing import Any

from pullback._numerics import ArrayNamespace
from pullback.array_api.narrowing import dtype_of_positions, narrowing
from pullback.casting import number
from pullback.dtypes import DType, bfloat16, kind, name_of
from pullback.plugins.records import Kernel


def kernels(xp: ArrayNamespace) -> dict[str, Kernel]:
    """Kernels over `xp`."""
    narrowed, whole = narrowing(xp), dtype_of_positions(xp)

    def astype(x: Any, *, dtype: DType) -> Any:
        return narrowed(x, getattr(xp, name_of(dtype)))

    def full(*, shape: tuple[int, ...], fill_value: object, dtype: DType, device: object) -> Any:
        if kind(dtype) == 0:
            fill_value = bool(fill_value)
        elif dtype.itemsize == 2 and type(fill_value) in (int, float):
            fill_value = number(fill_value, dtype).item()
        return xp.full(shape, fill_value, dtype=getattr(xp, name_of(dtype)), **on(device))

    def arange(*, start: Any, stop: object, step: Any, dtype: DType, device: object) -> Any:
        native = getattr(xp, name_of(dtype))
        if type(start) is type(stop) is type(step) is int:
            if dtype == bfloat16:
                return narrowed(xp.arange(start, stop, step, dtype=whole, **on(device)), native)
            return xp.arange(start, stop, step, dtype=native, **on(device))
        # The length as in the op's rule; start + i * step is nearer than adding steps up.
        length = max(0, -int((start - stop) / step // 1))
        if not hasattr(xp, "float64"):
            numbers = [float(start) + i * float(step) for i in range(length)]
            return narrowed(xp.asarray(numbers, dtype=xp.float32, **on(device)), native)
        counts = xp.arange(length, dtype=xp.float64, **on(device))
        return narrowed(counts * float(step) + float(start), native)

    def on(device: Any) -> dict[str, Any]:
        # A library without devices need not take the keyword.
        return {} if device is None else {"device": device}

    return {"arange": arange, "astype": astype, "full": full}
