"""Kernels for any array API namespace: what a backend starts from.

`kernels(xp)` gives a kernel for every primitive that the namespace can serve. Each family of ops
has a file here of the same name, with a function `kernels(xp)` of its own.
"""

from __future__ import annotations

from typing import Any

from pullback.array_api import (
    creation,
    cumulative,
    elementwise,
    fft,
    indexing,
    linalg,
    manipulation,
    random,
    reductions,
    searching,
    sorting,
    special,
)
from pullback.plugins.backend import Kernel

__all__ = ["kernels"]

_FAMILIES = (
    creation,
    cumulative,
    elementwise,
    fft,
    indexing,
    linalg,
    manipulation,
    random,
    reductions,
    searching,
    sorting,
    special,
)


def kernels(xp: Any) -> dict[str, Kernel]:
    """A kernel for every primitive that the array API namespace `xp` can serve, by op name."""
    table: dict[str, Kernel] = {}
    for family in _FAMILIES:
        table.update(family.kernels(xp))
    return table
