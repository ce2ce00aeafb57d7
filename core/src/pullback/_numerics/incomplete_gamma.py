"""Incomplete gamma functions in array API code for float64.

The identities are those of NIST's Digital Library of Mathematical Functions (DLMF). Every element
goes through each of four ways, and one is chosen: a power series, a continued fraction, a series
for small a, and for large a near x the uniform expansion of Temme, "The asymptotic expansion of
the incomplete gamma functions" (1979).
"""

from __future__ import annotations

import functools
import math
import operator
from fractions import Fraction
from typing import Any

from pullback._numerics import ArrayNamespace
from pullback._numerics.error_function import erfc
from pullback._numerics.gamma_function import lgamma
from pullback._numerics.polynomial import polynomial

#: From here on a is large.
LARGE = 20.0
_EULER = 0.5772156649015329
#: What Stirling's formula for log(gamma) lacks, in 1 / a**2 and times a (DLMF 5.11.1).
_STIRLING = (1 / 156, -691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12)
#: The terms of the power series, the levels of the continued fraction, and the orders and terms of
#: Temme's expansion: what is left out is below 1e-16 where each is used.
_TERMS, _LEVELS, _ORDERS, _POWERS = 80, 60, 9, 24


@functools.cache
def _near_one() -> tuple[float, ...]:
    """(log(gamma(1 + a)) + log(1 + a) - (1 - Euler's constant) a) / a**2 in a (DLMF 5.7.3)."""

    def zeta(k: int) -> float:
        """zeta(k) - 1, by the formula of Euler and Maclaurin (DLMF 25.2.9)."""
        n = 60
        rest = n ** (1.0 - k) / (k - 1) + n**-k / 2 + k / 12 * n ** (-k - 1.0)
        rest -= k * (k + 1) * (k + 2) / 720 * n ** (-k - 3.0)
        rest += k * (k + 1) * (k + 2) * (k + 3) * (k + 4) / 30240 * n ** (-k - 5.0)
        return math.fsum([*(m**-k for m in range(2, n)), rest])

    return tuple((-1) ** k * zeta(k) / k for k in range(59, 1, -1))


def _total(terms: list[Fraction]) -> Fraction:
    # By `sum` this would seem to need the namespace's.
    return functools.reduce(operator.add, terms, Fraction(0))


@functools.cache
def temme() -> list[tuple[float, ...]]:
    """The coefficients c_k of the expansion as polynomials in eta (DLMF 8.12.9 to 8.12.12)."""
    size = _POWERS + 2 * _ORDERS + 3
    # Of mu with eta**2 / 2 = mu - log(1 + mu), so that mu dmu/deta = eta (1 + mu).
    mu = [Fraction(0), Fraction(1)]
    for i in range(2, size + 2):
        others = [mu[j] * (i + 1 - j) * mu[i + 1 - j] for j in range(2, i)]
        mu.append((mu[i - 1] - _total(others)) / (i + 1))
    inverse = [Fraction(1)]  # of mu / eta
    for i in range(1, size + 1):
        inverse.append(-_total([mu[j + 1] * inverse[i - j] for j in range(1, i + 1)]))
    pole = inverse[1:]
    rows = [pole]
    for _ in range(1, _ORDERS):
        row = rows[-1]
        rows.append([(i + 2) * row[i + 2] - row[1] * pole[i] for i in range(len(row) - 2)])
    return [tuple(map(float, reversed(row[:_POWERS]))) for row in rows]


def log1p_rest(xp: ArrayNamespace, u: Any) -> Any:
    """log(1 + u) - u."""
    small = xp.abs(u) < 0.4
    v = xp.where(small, u, 0.0)
    r = v / (2 + v)
    series = polynomial(r * r, [1 / (2 * k + 3) for k in range(24, -1, -1)])
    far = xp.where(small, 1.0, u)
    return xp.where(small, r * (2 * r * r * series - v), xp.log1p(far) - far)


def _log_gamma_of_next(xp: ArrayNamespace, a: Any) -> Any:
    """log(gamma(1 + a)) for a from 0 to 1, exact where it is small."""
    return a * (1 - _EULER) - xp.log1p(a) + a * a * polynomial(a, _near_one())


def log_power(xp: ArrayNamespace, a: Any, x: Any) -> Any:
    """log(x**a exp(-x) / gamma(a + 1))."""
    large = xp.where(a >= LARGE, a, LARGE)
    rest = polynomial(1 / (large * large), _STIRLING) / large
    far = large * log1p_rest(xp, (x - large) / large) - rest
    far = far - 0.5 * xp.log(2 * math.pi * large)
    small = xp.where(a < LARGE, a, 1.0)
    tiny = xp.where(small <= 1, small, 1.0)
    gamma = xp.where(
        small <= 1, _log_gamma_of_next(xp, tiny), lgamma(xp, xp.where(small <= 1, 1.0, small) + 1)
    )
    return xp.where(a >= LARGE, far, small * xp.log(x) - x - gamma)


def _inside(xp: ArrayNamespace, a: Any, x: Any) -> Any:
    return (x > 0) & (x < math.inf) & (a > 0) & (a < math.inf)


def density(xp: ArrayNamespace, a: Any, x: Any) -> Any:
    """x**(a - 1) exp(-x) / gamma(a)."""
    inside = _inside(xp, a, x)
    b, y = xp.where(inside, a, 1.0), xp.where(inside, x, 1.0)
    # In two factors: the power is below every number sooner than its quotient with x.
    half = xp.exp(log_power(xp, b, y) * 0.5)
    found = half * b / y * half
    at_zero = xp.where(a < 1, math.inf, xp.where(a == 1, b * 0 + 1, 0.0))
    edge = xp.where((a > 0) & (x == 0), at_zero, xp.where((a > 0) & (x > 0), b * 0, math.nan))
    edge = xp.where((a == math.inf) & (x == math.inf), math.nan, edge)
    return xp.where(inside, found, edge)


def regularized(xp: ArrayNamespace, a: Any, x: Any, *, upper: bool) -> Any:
    """P(a, x), or Q(a, x) = 1 - P(a, x) if `upper` (DLMF 8.2.4).

    Args:
        xp: the namespace.
        a: an array of float64, or float32 where the namespace has no wider floats.
        x: the same.
        upper: which of the two.
    """
    inside = _inside(xp, a, x)
    b, y = xp.where(inside, a, 1.0), xp.where(inside, x, 1.0)
    low, high = _both(xp, b, y)
    found = high if upper else low
    below, above = (1.0, 0.0) if upper else (0.0, 1.0)
    # P is 0 at x = 0 and for infinite a, and 1 at a = 0 and for infinite x.
    rises = (a >= 0) & (x >= 0) & ((a == 0) | (x == math.inf))
    falls = (a >= 0) & (x >= 0) & ((x == 0) | (a == math.inf))
    edge = xp.where(rises, above, xp.where(falls, b * 0 + below, math.nan))
    return xp.where(inside, found, xp.where(rises & falls, math.nan, edge))


def _both(xp: ArrayNamespace, a: Any, x: Any) -> tuple[Any, Any]:
    power = xp.exp(log_power(xp, a, x))
    # DLMF 8.11.4, for x up to a + 1.
    near = (x < a + 1) | (x < 1.5)
    y = xp.where(near, x, 0.0)
    term = total = y * 0 + 1
    for n in range(1, _TERMS):
        term = term * (y / (a + n))
        total = total + term
    by_series = power * total
    # DLMF 8.9.2 with every second level taken into the one before, from there on.
    y = xp.where(near, a + 2, x)
    level = y + (2 * _LEVELS + 1) - a
    for n in range(_LEVELS, 0, -1):
        level = y + (2 * n - 1) - a - n * (n - a) / level
    by_fraction = power * a / level
    # DLMF 8.7.1, for a below 1: 1 - P would lose the digits of a small Q.
    is_small = near & (a < 1)
    b, y = xp.where(is_small, a, 0.5), xp.where(is_small, x, 1.0)
    term, others = y * 0 + 1, y * 0
    for n in range(1, 25):
        term = term * (y * (-1 / n))
        others = others + term / (b + n)
    head = b * xp.log(y) - _log_gamma_of_next(xp, b)
    by_difference = -xp.expm1(head) - xp.exp(head) * b * others
    low = xp.where(near, by_series, 1 - by_fraction)
    high = xp.where(near, xp.where(is_small, by_difference, 1 - by_series), by_fraction)
    return _uniform(xp, a, x, low, high)


def _uniform(xp: ArrayNamespace, a: Any, x: Any, low: Any, high: Any) -> tuple[Any, Any]:
    """P and Q by Temme's expansion for large a near x (DLMF 8.12.3 and 8.12.4), or those given."""
    chosen = (a >= LARGE) & (xp.abs(x - a) < 0.5 * a)
    b = xp.where(chosen, a, LARGE)
    away = (xp.where(chosen, x, LARGE) - b) / b
    half_square = -log1p_rest(xp, away)  # eta**2 / 2
    eta = xp.sqrt(2 * xp.where(half_square > 0, half_square, 0.0))
    eta = xp.where(away < 0, -eta, eta)
    total = b * 0
    for row in reversed(temme()):
        total = total / b + polynomial(eta, row)
    rest = xp.exp(-b * half_square) / xp.sqrt(2 * math.pi * b) * total
    place = eta * xp.sqrt(b * 0.5)
    below, above = 0.5 * erfc(xp, -place) - rest, 0.5 * erfc(xp, place) + rest
    return xp.where(chosen, below, low), xp.where(chosen, above, high)
