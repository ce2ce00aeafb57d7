"""Ops that a family above theirs needs: bound when they are first used, typed like imports.

A family imports only from families that are defined before it. A gradient rule or a body that
needs an op from further down writes `late.conj(...)`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pullback._operators import OPERATORS

if TYPE_CHECKING:
    from pullback.ops.complex import complex, conj, imag, real
    from pullback.ops.cumulative import cumulative_prod
    from pullback.ops.exponential import log
    from pullback.ops.linalg.decompositions import pinv, svd, svdvals
    from pullback.ops.rounding import floor, signbit
    from pullback.ops.trigonometric import asinh, atan2, cos, cosh, hypot, sin, sinh, tan

__all__ = [
    "asinh",
    "atan2",
    "complex",
    "conj",
    "cos",
    "cosh",
    "cumulative_prod",
    "floor",
    "hypot",
    "imag",
    "log",
    "pinv",
    "real",
    "signbit",
    "sin",
    "sinh",
    "svd",
    "svdvals",
    "tan",
]


def __getattr__(name: str) -> Any:
    function = vars(OPERATORS).get(name)
    if function is None:
        raise AttributeError(f"no op {name!r} is defined")
    globals()[name] = function
    return function
