"""The derivatives of the incomplete gamma functions by a, in array API code for float64.

The ways of `incomplete_gamma`, each with its derivatives carried along: the power series (Moore,
"Algorithm AS 187: Derivatives of the incomplete gamma integral", 1982), the continued fraction,
and for large a near x Temme's expansion. No sum of the first derivative loses
digits by cancellation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pullback._numerics import ArrayNamespace
from pullback._numerics.gamma_function import digamma, polygamma
from pullback._numerics.incomplete_gamma import (
    LARGE,
    log1p_rest,
    log_power,
    temme,
)
from pullback._numerics.polynomial import polynomial

#: The terms of the series and the levels of the continued fraction: what is left out is below
#: 1e-15 where each is used.
_TERMS, _LEVELS = 90, 80


def slope_by_order(xp: ArrayNamespace, a: Any, x: Any, *, order: int) -> Any:
    """The first or second derivative of P(a, x) by a, which is that of -Q(a, x).

    Args:
        xp: the namespace.
        a: an array of float64, or float32 where the namespace has no wider floats.
        x: the same.
        order: 1 or 2.
    """
    inside = (x > 0) & (x < math.inf) & (a >= 0) & (a < math.inf)
    b, y = xp.where(inside, a, 1.0), xp.where(inside, x, 1.0)
    found = _uniform(xp, b, y, _elsewhere(xp, b, y, order), order)
    is_flat = (a >= 0) & (x >= 0) & ((a > 0) | (x > 0)) & ((a < math.inf) | (x < math.inf))
    return xp.where(inside, found, xp.where(is_flat, b * 0, math.nan))


def _elsewhere(xp: ArrayNamespace, a: Any, x: Any, order: int) -> Any:
    """By the series, and by the continued fraction, whose tail is `power` a / level."""
    power = xp.exp(log_power(xp, a, x))
    # The derivatives of log(power).
    rate = xp.log(x) - digamma(xp, a + 1)
    turn = -polygamma(xp, a + 1, n=1, below=False) if order == 2 else 0
    # DLMF 8.11.4: P is `power` times the sum of x**n / ((a + 1) ... (a + n)).
    near = (x < a + 1) | (x < 1.5)
    y = xp.where(near, x, 0.0)
    term = total = y * 0 + 1
    harmonic = squares = slope = curve = y * 0
    for n in range(1, _TERMS):
        reciprocal = 1 / (a + n)
        term = term * (y * reciprocal)
        harmonic = harmonic + reciprocal
        total = total + term
        slope = slope - term * harmonic
        if order == 2:
            squares = squares + reciprocal * reciprocal
            curve = curve + term * (harmonic * harmonic + squares)
    if order == 2:
        by_series = power * ((rate * rate + turn) * total + 2 * rate * slope + curve)
    else:
        by_series = power * (total * rate + slope)
    # DLMF 8.9.2.
    y = xp.where(near, a + 2, x)
    level, change, bend = y + (2 * _LEVELS + 1) - a, y * 0 - 1, y * 0
    for n in range(_LEVELS, 0, -1):
        quotient, share = change / level, n * (n - a) / level
        if order == 2:
            bend = share * (bend / level - 2 * quotient * quotient) - 2 * n * quotient / level
        change = n / level + share * quotient - 1
        level = y + (2 * n - 1) - a - share
    slope = rate - change / level
    if order == 2:
        curve = slope * slope + turn - bend / level + (change / level) * (change / level)
        by_fraction = -power / level * (2 * slope + a * curve)
    else:
        by_fraction = -power / level * (1 + a * slope)
    return xp.where(near, by_series, by_fraction)


def _uniform(xp: ArrayNamespace, a: Any, x: Any, other: Any, order: int) -> Any:
    """By Temme's expansion for large a near x (DLMF 8.12.3), or the one given.

    P is erfc(-eta sqrt(a / 2)) / 2 - e S with e = exp(-a eta**2 / 2) / sqrt(2 pi a) and
    S = c_0(eta) + c_1(eta) / a + ..., and its derivative is -e F with a smooth F. At constant x,
    a eta**2 / 2 has the derivative -log(x / a), which is -eta L, and eta has -1 / (a q), where
    q = eta / (x / a - 1) = 1 + eta c_0(eta) and L is 1 + eta times the polynomial of c_0 with its
    coefficients over 2, 3, ...
    """
    chosen = (a >= LARGE) & (xp.abs(x - a) < 0.5 * a)
    b = xp.where(chosen, a, LARGE)
    away = (xp.where(chosen, x, LARGE) - b) / b
    half_square = -log1p_rest(xp, away)
    eta = xp.sqrt(2 * xp.where(half_square > 0, half_square, 0.0))
    eta = xp.where(away < 0, -eta, eta)
    rows = temme()
    poles = [*rows[0], 1.0]
    q, of_q = polynomial(xp, eta, poles), polynomial(xp, eta, _derived(poles))
    lead = [c / (len(poles) - i) for i, c in enumerate(poles)]
    # The derivatives of eta by a, and of S; those of S are of c(eta) + S'(eta, a) / a.
    turn = -1 / (b * q)
    bend = -turn / b - of_q * turn * turn / q
    total = slope = curve = b * 0
    for row in reversed(rows):
        once = polynomial(xp, eta, _derived(row))
        if order == 2:
            twice = polynomial(xp, eta, _derived(_derived(row)))
            curve = (curve - 2 * (slope - total / b) / b) / b + twice * turn * turn + once * bend
        slope = (slope - total / b) / b + once * turn
        total = total / b + polynomial(xp, eta, row)
    log_ratio = xp.log1p(away)
    first = polynomial(xp, eta, lead) + (log_ratio - 0.5 / b) * total + slope
    found = first
    if order == 2:
        # F' and F times the derivative of log(e).
        found = polynomial(xp, eta, _derived(lead)) * turn + (0.5 / b - 1) / b * total
        found = found + (log_ratio - 0.5 / b) * (slope + first) + curve
    found = -found * xp.exp(-b * half_square) / xp.sqrt(2 * math.pi * b)
    return xp.where(chosen, found, other)


def _derived(row: Sequence[float]) -> list[float]:
    """The coefficients of the derivative of a polynomial; the constant is the last."""
    return [(len(row) - 1 - i) * c for i, c in enumerate(row[:-1])]
