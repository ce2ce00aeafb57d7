"""The table of NumPy's functions that are made of ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Function = Callable[..., Any]

#: By NumPy's name, such as "sum" and "linalg.norm". Parameters have NumPy's names, and those that
#: are not there have no equivalent.
FUNCTIONS: dict[str, Function] = {}


def routed(*names: str) -> Callable[[Function], Function]:
    """Enters a function in the table under NumPy's names of it."""

    def decorator(function: Function) -> Function:
        for name in names:
            FUNCTIONS[name] = function
        return function

    return decorator


class Unsupported(Exception):
    """Arguments for which a function of the table has no equivalent."""
