"""Special functions over any array API namespace, for backends without their own.

They compute in float64; 16- and 32-bit floats are rounded once, at the end. A library without it
computes in float32, where erfc and gamma functions are a few ulp further off. erf of float32,
which networks are full of, has a form of its own in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback._numerics import (
    ArrayNamespace,
    bessel,
    error_function,
    gamma_function,
    incomplete_gamma,
    incomplete_gamma_slope,
)
from pullback.array_api.narrowing import narrowing
from pullback.plugins.compiling import known
from pullback.plugins.records import Kernel

#: The formulas are for backends whose kernels choose between them.
__all__ = ["gamma_function", "incomplete_gamma", "kernels"]


def kernels(xp: ArrayNamespace) -> dict[str, Kernel]:
    """Kernels of special functions over `xp`."""
    narrowed = narrowing(xp)
    double = getattr(xp, "float64", None)

    def widest(
        function: Callable[..., Any],
        single: Callable[..., Any] | None = None,
        short: Callable[..., Any] | None = None,
    ) -> Kernel:
        """A kernel by a function for float64, or `single` for float32 where that is all.

        What is rounded to fewer digits may have a shorter function.
        """
        dtype = xp.float32 if double is None else double
        formula = single if double is None and single is not None else function
        rounded = formula if short is None else short

        def kernel(x: Any, **attributes: object) -> Any:
            if x.dtype == dtype:
                return formula(xp, x, **attributes)
            return narrowed(rounded(xp, xp.astype(x, dtype), **attributes), x.dtype)

        return kernel

    def polygamma(*, short: bool) -> Callable[..., Any]:
        def function(xp: ArrayNamespace, x: Any, *, n: int) -> Any:
            below = known(xp.any(x < 0), otherwise=True)
            return gamma_function.polygamma(xp, x, n=n, below=below, short=short)

        return function

    def erf(x: Any) -> Any:
        if double is not None and x.dtype == double:
            return error_function.erf(xp, x)
        if x.dtype == xp.float32:
            return error_function.erf32(xp, x)
        return xp.astype(error_function.erf32(xp, xp.astype(x, xp.float32)), x.dtype)

    def of_pair(function: Callable[..., Any]) -> Kernel:
        def kernel(a: Any, x: Any, **attributes: object) -> Any:
            wide = xp.float32 if double is None else double
            if x.dtype == wide:
                return function(xp, a, x, **attributes)
            found = function(xp, xp.astype(a, wide), xp.astype(x, wide), **attributes)
            return narrowed(found, x.dtype)

        return kernel

    return {
        "bessel_i": widest(bessel.bessel_i),
        "digamma": widest(gamma_function.digamma),
        "erf": erf,
        "erfc": widest(error_function.erfc, error_function.erfc32),
        "erfinv": widest(error_function.erfinv),
        "gamma_density": of_pair(incomplete_gamma.density),
        "gamma_order_slope": of_pair(incomplete_gamma_slope.slope_by_order),
        "lgamma": widest(gamma_function.lgamma),
        "polygamma": widest(polygamma(short=False), short=polygamma(short=True)),
        "regularized_gamma": of_pair(incomplete_gamma.regularized),
    }
