"""Kernels of running sums and products."""

from __future__ import annotations

from typing import Any

from pullback._numerics import ArrayNamespace
from pullback.array_api.reductions import accumulation
from pullback.plugins.records import Kernel


def kernels(xp: ArrayNamespace) -> dict[str, Kernel]:
    """Kernels over `xp`."""
    dtypes_of = accumulation(xp)

    def running(name: str) -> Kernel:
        function = getattr(xp, name)

        def kernel(x: Any, *, axis: int, dtype: object, include_initial: bool) -> Any:
            working, result = dtypes_of(x, dtype)
            if x.dtype != working:
                x = xp.astype(x, working)
            totals = function(x, axis=axis, dtype=working, include_initial=include_initial)
            return totals if totals.dtype == result else xp.astype(totals, result)

        return kernel

    names = ("cumulative_prod", "cumulative_sum")
    return {name: running(name) for name in names if hasattr(xp, name)}
