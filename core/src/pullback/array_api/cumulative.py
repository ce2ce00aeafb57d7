"""Kernels of running sums and products.

A library may add one element after another. The rounding errors of that grow as the root of the
length n, each with the sum so far: of a million elements they are beyond the 2 log2(n) eps that
the op promises. Long sums run in two levels, within rows and over the rows' totals, each of them
as long as the root of n, so that errors grow as its fourth root.
"""

from __future__ import annotations

import math
from typing import Any

from pullback._numerics import ArrayNamespace
from pullback.array_api.reductions import accumulation
from pullback.plugins.records import Kernel

#: Elements along an axis from which on a sum runs in two levels: below, 2 log2(n) is enough.
LONG = 1 << 13


def kernels(xp: ArrayNamespace) -> dict[str, Kernel]:
    """Kernels over `xp`."""
    dtypes_of = accumulation(xp)

    def running(name: str) -> Kernel:
        function = getattr(xp, name)

        def kernel(x: Any, *, axis: int, dtype: object, include_initial: bool) -> Any:
            working, result = dtypes_of(x, dtype)
            if x.dtype != working:
                x = xp.astype(x, working)
            long = name == "cumulative_sum" and x.shape[axis] >= LONG
            if long and not xp.isdtype(x.dtype, "integral"):
                totals = in_rows(function, x, axis, include_initial)
            else:
                totals = function(x, axis=axis, dtype=working, include_initial=include_initial)
            return totals if totals.dtype == result else xp.astype(totals, result)

        return kernel

    def in_rows(function: Any, x: Any, axis: int, include_initial: bool) -> Any:
        n, x = x.shape[axis], xp.moveaxis(x, axis, -1)
        width = math.isqrt(n)
        lacking = -n % width
        if lacking:
            x = xp.concat([x, xp.zeros_like(x[..., :lacking])], axis=-1)
        within = function(xp.reshape(x, (*x.shape[:-1], -1, width)), axis=-1)
        totals = function(within[..., -1], axis=-1)
        # Not a sum with 0 in the first row, which would lose the sign of -0.
        rest = within[..., 1:, :] + totals[..., :-1, None]
        sums = xp.reshape(xp.concat([within[..., :1, :], rest], axis=-2), x.shape)[..., :n]
        if include_initial:
            sums = xp.concat([xp.zeros_like(sums[..., :1]), sums], axis=-1)
        return xp.moveaxis(sums, -1, axis)

    names = ("cumulative_prod", "cumulative_sum")
    return {name: running(name) for name in names if hasattr(xp, name)}
