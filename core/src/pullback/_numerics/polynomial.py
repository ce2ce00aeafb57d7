"""Polynomials and rational functions of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback._numerics import ArrayNamespace


def polynomial(xp: ArrayNamespace, x: Any, coefficients: Sequence[float]) -> Any:
    """The value of a polynomial at x, by Horner's rule; the constant is the last coefficient.

    A namespace may have a way of its own for some arrays, `weighted_powers`: the values of one
    polynomial, or of two.
    """
    other = getattr(xp, "weighted_powers", None)
    if other is not None and (found := other(x, coefficients)) is not None:
        return found
    value = x * coefficients[0]
    value += coefficients[1]
    for coefficient in coefficients[2:]:
        # In place where the namespace can: half of the memory traffic.
        value *= x
        value += coefficient
    return value


def ratio(xp: ArrayNamespace, x: Any, coefficients: tuple[Sequence[float], Sequence[float]]) -> Any:
    """The value of a quotient of two polynomials at x."""
    above, below = coefficients
    other = getattr(xp, "weighted_powers", None)
    if other is not None and (found := other(x, above, below)) is not None:
        return found[0] / found[1]
    return polynomial(xp, x, above) / polynomial(xp, x, below)
