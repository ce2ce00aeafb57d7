"""Kernels for any array API namespace: what a backend starts from.

`kernels(xp)` gives a kernel for every primitive that the namespace can serve. Each family of ops
has a file here of the same name, with a function `kernels(xp)` of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pullback._numerics import ArrayNamespace
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
from pullback.array_api.namespace import completed, lacks
from pullback.array_api.widening import widened
from pullback.plugins.records import Kernel

__all__ = ["kernels", "missing"]

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


def kernels(xp: ArrayNamespace, *, widen: bool | Iterable[str] = False) -> dict[str, Kernel]:
    """A kernel for every primitive that the array API namespace `xp` can serve, by op name.

    A namespace that is nearly standard has no kernels of what it lacks; `missing(xp)` lists that.

    Args:
        xp: the namespace. Its dtypes are those that it has a name for: a backend over NumPy, which
            has no `bfloat16`, leaves it out of its `dtypes`.
        widen: the names of elementwise ops to compute in float32 for 16-bit floats, because the
            library lacks them there or rounds them twice; True for all.
    """
    space, table = _all(xp)
    table = {name: kernel for name, kernel in table.items() if not lacks(space, kernel)}
    return table | widened(space, table, widen)


def missing(xp: ArrayNamespace) -> dict[str, str]:
    """The ops that `kernels(xp)` has no kernel of, and a standard namespace has: what is lacking.

    >>> import numpy as np
    >>> from pullback import array_api
    >>> array_api.missing(np)
    {}
    """
    space, table = _all(xp)
    found: dict[str, str] = {}
    for name in _all(_Everything())[1]:
        if name not in table:
            found[name] = f"no {name} in the namespace or its extensions"
        elif names := lacks(space, table[name]):
            found[name] = f"no {', '.join(names)}"
    return found


class _Everything:
    """A namespace that has every name."""

    def __getattr__(self, name: str) -> _Everything:
        return _Everything()


def _all(xp: ArrayNamespace) -> tuple[Any, dict[str, Kernel]]:
    """The namespace with what can be made for it, and the kernels over it."""
    space = completed(xp)
    table: dict[str, Kernel] = {}
    for family in _FAMILIES:
        table.update(family.kernels(space))
    return space, table
