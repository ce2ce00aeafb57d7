"""Systems of small triangles and of LU factors; the rest is what the bodies of their ops do."""

from __future__ import annotations

from typing import Any

from pullback.plugins.records import Kernel, may_decline
from pullback_native import _native


def _decline(*_: Any, **__: Any) -> Any:
    return NotImplemented


@may_decline
def _lu_solve(lu: Any, pivots: Any, x2: Any) -> Any:
    return _native.lu_solve(lu, pivots, x2)


@may_decline
def _solve_triangular(x1: Any, x2: Any, *, upper: bool, unit_diagonal: bool) -> Any:
    return _native.solve_triangular(x1, x2, upper=upper, unit_diagonal=unit_diagonal)


#: What the compiled kernels hand calls over to: NumPy has no kernels of these ops.
FALLBACKS: dict[str, Kernel] = {"lu_solve": _decline, "solve_triangular": _decline}
KERNELS: dict[str, Kernel] = {"lu_solve": _lu_solve, "solve_triangular": _solve_triangular}
