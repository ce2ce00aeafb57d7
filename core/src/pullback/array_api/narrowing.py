"""Conversion to 16-bit floats in one rounding, for libraries that convert through float32."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from pullback._numerics import ArrayNamespace

#: For each 16-bit float: the largest number, and the midpoint above it, from where it overflows.
_LARGEST = {"float16": (65504.0, 65520.0), "bfloat16": (255.0 * 2.0**120, 511.0 * 2.0**119)}
#: Dtypes that float32 does not hold exactly, with the 16-bit floats that this matters for. All
#: integers in the range of float16 are exact in float32.
_WIDE = {
    "float64": ("float16", "bfloat16"),
    **dict.fromkeys(("int32", "int64", "uint32", "uint64"), ("bfloat16",)),
}


def half_precision(xp: ArrayNamespace) -> tuple[Any, ...]:
    """The 16-bit floats that the namespace has."""
    return tuple(getattr(xp, name) for name in ("float16", "bfloat16") if hasattr(xp, name))


def dtype_of_positions(xp: ArrayNamespace) -> Any:
    """int64, or int32 where the namespace has no integers of 64 bits."""
    return xp.int64 if hasattr(xp, "int64") else xp.int32


def narrowing(xp: ArrayNamespace) -> Callable[[Any, Any], Any]:
    """`xp.astype` with a single rounding, also where that of `xp` rounds twice."""
    twice = [
        (getattr(xp, wide), getattr(xp, short), _LARGEST[short])
        for wide, shorts in _WIDE.items()
        for short in shorts
        if hasattr(xp, wide) and hasattr(xp, short)
    ]

    @cache
    def limits_of(dtype: object, native: object) -> tuple[float, float] | None:
        # By equality: the dtype of an array may have another hash than the namespace's name for it.
        return next((limits for a, b, limits in twice if dtype == a and native == b), None)

    double = getattr(xp, "float64", None)
    small = [getattr(xp, name) for name in ("int32", "uint32") if double is not None]

    def astype(x: Any, native: object) -> Any:
        limits = limits_of(x.dtype, native)
        if limits is None:
            return xp.astype(x, native)
        single = xp.astype(x, xp.float32)
        short = xp.astype(xp.astype(single, native), xp.float32)
        # Only at a midpoint is the neighbor on the other side a 16-bit float too.
        other = single + (single - short)
        is_midpoint = xp.astype(xp.astype(other, native), xp.float32) == other
        # float64 holds these integers exactly, and not every library compares uint32.
        wide = xp.astype(x, xp.float64) if x.dtype in small else x
        back = xp.astype(single, wide.dtype)
        above, below = wide > back, wide < back
        moved = is_midpoint & ((above & (other > short)) | (below & (other < short)))
        rounded = xp.where(moved & xp.isfinite(short), other, short)
        if double is not None and x.dtype == double:
            largest, edge = limits
            rounded = xp.where(xp.isinf(short) & (x < edge) & (x > 0), largest, rounded)
            rounded = xp.where(xp.isinf(short) & (x > -edge) & (x < 0), -largest, rounded)
        return xp.astype(rounded, native)

    return astype
