"""Kernels in C of ops that NumPy has none for, or not for all calls: bodies do the others."""

from __future__ import annotations

from typing import Any

from pullback.plugins.records import Kernel
from pullback_native import _native


def declining(name: str) -> Kernel:
    """The compiled kernel of an op, with the mark that it may decline calls."""
    return _native.chosen(getattr(_native, name), None, 0, False, True)


def _decline(*_: Any, **__: Any) -> Any:
    return NotImplemented


_NAMES = ("lu_solve", "rsqrt", "soft_shrink", "solve_triangular")
#: What the compiled kernels hand calls over to.
FALLBACKS: dict[str, Kernel] = dict.fromkeys(_NAMES, _decline)
KERNELS: dict[str, Kernel] = {name: declining(name) for name in (*_NAMES, "celu")}
