"""Ops that a family before theirs needs: bound when they are first used, typed like imports.

A family imports only from families that are defined before it. A gradient rule or a body that
needs an op from further down writes `late.conj(...)`. So does a function that calls an op of its
own family with a number or with what its caller passed: `late.hypot(1, x)` has the type that
callers see, while `hypot` in its own module takes tensors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pullback._operators import OPERATORS

if TYPE_CHECKING:
    from pullback.ops.arithmetic import slope_quotient
    from pullback.ops.comparison import equal
    from pullback.ops.complex import complex, conj, imag, real
    from pullback.ops.cumulative import cumulative_prod
    from pullback.ops.exponential import exp2, log, sqrt
    from pullback.ops.indexing import take
    from pullback.ops.linalg.decompositions import pinv, svd, svdvals
    from pullback.ops.manipulation import reshape
    from pullback.ops.nn.activations import sigmoid
    from pullback.ops.rounding import copysign, floor, signbit
    from pullback.ops.searching import argwhere
    from pullback.ops.selection import where
    from pullback.ops.slicing import strided_update
    from pullback.ops.trigonometric import asinh, atan2, cos, cosh, hypot, sin, sinh, tan

__all__ = [
    "argwhere",
    "asinh",
    "atan2",
    "complex",
    "conj",
    "copysign",
    "cos",
    "cosh",
    "cumulative_prod",
    "equal",
    "exp2",
    "floor",
    "hypot",
    "imag",
    "log",
    "pinv",
    "real",
    "reshape",
    "sigmoid",
    "signbit",
    "sin",
    "sinh",
    "slope_quotient",
    "sqrt",
    "strided_update",
    "svd",
    "svdvals",
    "take",
    "tan",
    "where",
]


# Hidden from type checkers: a name that is not imported above is an error there.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        function = vars(OPERATORS).get(name)
        if function is None:
            raise AttributeError(f"no op {name!r} is defined")
        globals()[name] = function
        return function
