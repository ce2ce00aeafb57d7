"""Kernels that reduce over axes."""

from __future__ import annotations

from typing import Any

from pullback.backend import Kernel


def kernels(xp: Any) -> dict[str, Kernel]:
    """Kernels over `xp`."""

    def result_dtype(x: Any, dtype: Any) -> Any:
        if dtype is not None:
            return getattr(xp, dtype.name)
        if xp.isdtype(x.dtype, "bool") or x.dtype in (xp.int8, xp.int16):
            return xp.int32
        return xp.uint32 if x.dtype in (xp.uint8, xp.uint16) else x.dtype

    def total(name: str) -> Kernel:
        reduce = getattr(xp, name)

        def kernel(x: Any, *, axis: Any, dtype: Any, keepdims: bool) -> Any:
            result = result_dtype(x, dtype)
            working = xp.float32 if result in half else result
            if x.dtype != working:
                x = xp.astype(x, working)
            found = reduce(x, axis=axis, dtype=working, keepdims=keepdims)
            return found if working == result else xp.astype(found, result)

        return kernel

    half = [getattr(xp, name) for name in ("float16", "bfloat16") if hasattr(xp, name)]

    def plain(name: str) -> Kernel:
        reduce = getattr(xp, name)

        def kernel(x: Any, *, axis: Any, keepdims: bool) -> Any:
            return reduce(x, axis=axis, keepdims=keepdims)

        return kernel

    return {
        **{name: total(name) for name in ("prod", "sum")},
        **{name: plain(name) for name in ("all", "any", "max", "min")},
    }
