"""Special functions over any array API namespace, for backends without their own.

They compute in float64; 16- and 32-bit floats are rounded once, at the end. erf of float32, which
networks are full of, has a form of its own in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback._numerics import error_function, gamma_function
from pullback.array_api.narrowing import narrowing
from pullback.plugins.compiling import known
from pullback.plugins.records import Kernel


def kernels(xp: Any) -> dict[str, Kernel]:
    """Kernels of special functions over `xp`."""
    narrowed = narrowing(xp)

    def in_double(function: Callable[..., Any]) -> Kernel:
        def kernel(x: Any, **attributes: Any) -> Any:
            if x.dtype == xp.float64:
                return function(xp, x, **attributes)
            wide = function(xp, xp.astype(x, xp.float64), **attributes)
            return narrowed(wide, x.dtype)

        return kernel

    def polygamma(xp: Any, x: Any, *, n: int) -> Any:
        return gamma_function.polygamma(xp, x, n=n, below=known(xp.any(x < 0), otherwise=True))

    def erf(x: Any) -> Any:
        if x.dtype == xp.float64:
            return error_function.erf(xp, x)
        if x.dtype == xp.float32:
            return error_function.erf32(xp, x)
        return xp.astype(error_function.erf32(xp, xp.astype(x, xp.float32)), x.dtype)

    return {
        "digamma": in_double(gamma_function.digamma),
        "erf": erf,
        "erfc": in_double(error_function.erfc),
        "erfinv": in_double(error_function.erfinv),
        "lgamma": in_double(gamma_function.lgamma),
        "polygamma": in_double(polygamma),
    }
