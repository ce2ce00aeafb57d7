"""Kernels that reduce over axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback._numerics import ArrayNamespace
from pullback.dtypes import name_of
from pullback.plugins.records import Kernel


def accumulation(xp: ArrayNamespace) -> Callable[[Any, Any], tuple[Any, Any]]:
    """The native dtypes in which a sum over x is taken and returned.

    Small integers widen; the sums of 16-bit floats are taken in float32.
    """
    half = [getattr(xp, name) for name in ("float16", "bfloat16") if hasattr(xp, name)]

    def dtypes_of(x: Any, dtype: Any) -> tuple[Any, Any]:
        if dtype is not None:
            result = getattr(xp, name_of(dtype))
        elif xp.isdtype(x.dtype, "bool") or x.dtype in (xp.int8, xp.int16):
            result = xp.int32
        else:
            result = xp.uint32 if x.dtype in (xp.uint8, xp.uint16) else x.dtype
        return (xp.float32 if result in half else result), result

    return dtypes_of


def kernels(xp: ArrayNamespace) -> dict[str, Kernel]:
    """Kernels over `xp`."""
    dtypes_of = accumulation(xp)
    names = ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")
    floats = [getattr(xp, name) for name in names if hasattr(xp, name)]

    def accumulated(name: str) -> Kernel:
        reduce = getattr(xp, name)

        def kernel(x: Any, *, axis: object, dtype: object, keepdims: bool) -> Any:
            working, result = dtypes_of(x, dtype)
            if x.dtype != working:
                x = xp.astype(x, working)
            # Small integers only have another dtype by default, and not every library takes one.
            more = {} if working in floats else {"dtype": working}
            total = reduce(x, axis=axis, keepdims=keepdims, **more)
            return total if total.dtype == result else xp.astype(total, result)

        return kernel

    def plain(name: str, of_booleans: str) -> Kernel:
        reduce = getattr(xp, name)

        def kernel(x: Any, *, axis: object, keepdims: bool) -> Any:
            # The standard has no order of booleans.
            chosen = getattr(xp, of_booleans) if x.dtype == xp.bool else reduce
            return chosen(x, axis=axis, keepdims=keepdims)

        return kernel

    simple = {"all": "all", "any": "any", "max": "any", "min": "all"}

    return {
        **{name: accumulated(name) for name in ("prod", "sum") if hasattr(xp, name)},
        **{name: plain(name, other) for name, other in simple.items() if hasattr(xp, name)},
    }
