"""The table of NumPy's functions that are made of ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.ops.manipulation import reshape
from pullback.tensor import Tensor, TensorLike

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


def flattened(a: TensorLike, axis: int | None) -> tuple[Any, int]:
    """The array and the axis; where there is none, NumPy flattens."""
    if axis is not None:
        return a, axis
    return (a if type(a) is Tensor and a.ndim == 1 else reshape(a, -1)), 0


class Unsupported(Exception):
    """Arguments for which a function of the table has no equivalent."""
