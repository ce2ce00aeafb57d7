"""Polynomials and rational functions of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def polynomial(x: Any, coefficients: Sequence[float]) -> Any:
    """The value of a polynomial at x, by Horner's rule; the constant is the last coefficient."""
    value = x * coefficients[0]
    value += coefficients[1]
    for coefficient in coefficients[2:]:
        # In place where the namespace can: half of the memory traffic.
        value *= x
        value += coefficient
    return value


def ratio(x: Any, coefficients: tuple[Sequence[float], Sequence[float]]) -> Any:
    """The value of a quotient of two polynomials at x."""
    above, below = coefficients
    return polynomial(x, above) / polynomial(x, below)
