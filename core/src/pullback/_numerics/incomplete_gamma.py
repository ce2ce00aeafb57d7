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
from typing import TYPE_CHECKING, Any

from pullback._numerics import ArrayNamespace
from pullback._numerics.error_function import erfc
from pullback._numerics.gamma_function import lgamma
from pullback._numerics.polynomial import polynomial

if TYPE_CHECKING:
    from fractions import Fraction

#: From here on a is large.
LARGE = 20.0
_EULER = 0.5772156649015329
#: What Stirling's formula for log(gamma) lacks, in 1 / a**2 and times a (DLMF 5.11.1).
_STIRLING = (1 / 156, -691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12)
#: (log(1 + u) - u + r u) / 2 r**3 in r**2, r = u / (2 + u).
_LOG1P_REST = tuple(1 / (2 * k + 3) for k in range(24, -1, -1))
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


def _total(terms: list[Fraction]) -> Fraction | int:
    # By `sum` this would seem to need the namespace's.
    return functools.reduce(operator.add, terms, 0)


@functools.cache
def temme() -> list[tuple[float, ...]]:
    """The coefficients c_k of the expansion as polynomials in eta (DLMF 8.12.9 to 8.12.12)."""
    from fractions import Fraction  # takes long, and most programs need none

    size = _POWERS + 2 * _ORDERS + 3
    # Of mu with eta**2 / 2 = mu - log(1 + mu), so that mu dmu/deta = eta (1 + mu).
    mu = [Fraction(0), Fraction(1)]
    for i in range(2, size + 2):
        others = [mu[j] * (i + 1 - j) * mu[i + 1 - j] for j in range(2, i)]
        mu.append((mu[i - 1] - _total(others)) / (i + 1))
    inverse = [Fraction(1)]  # of mu / eta
    for i in range(1, size + 1):
        inverse.append(Fraction(-_total([mu[j + 1] * inverse[i - j] for j in range(1, i + 1)])))
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
    series = polynomial(xp, r * r, _LOG1P_REST)
    far = xp.where(small, 1.0, u)
    return xp.where(small, r * (2 * r * r * series - v), xp.log1p(far) - far)


def log_gamma_of_next(xp: ArrayNamespace, a: Any) -> Any:
    """log(gamma(1 + a)) for a from 0 to 1, exact where it is small."""
    return a * (1 - _EULER) - xp.log1p(a) + a * a * polynomial(xp, a, _near_one())


def log_power_of_large(xp: ArrayNamespace, a: Any, x: Any) -> Any:
    """log(x**a exp(-x) / gamma(a + 1)) for large a."""
    rest = polynomial(xp, 1 / (a * a), _STIRLING) / a
    # Where x is far below a, x / a - 1 has lost the digits of x.
    below = x < 0.5 * a
    near = a * log1p_rest(xp, (xp.where(below, a, x) - a) / a)
    far = a * xp.log(xp.where(below, x, a) / a) - (x - a)
    return xp.where(below, far, near) - rest - 0.5 * xp.log(2 * math.pi * a)


def log_power(xp: ArrayNamespace, a: Any, x: Any) -> Any:
    """log(x**a exp(-x) / gamma(a + 1))."""
    far = log_power_of_large(xp, xp.where(a >= LARGE, a, LARGE), x)
    small = xp.where(a < LARGE, a, 1.0)
    tiny = xp.where(small <= 1, small, 1.0)
    gamma = xp.where(
        small <= 1, log_gamma_of_next(xp, tiny), lgamma(xp, xp.where(small <= 1, 1.0, small) + 1)
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
    return xp.where(inside, found, at_edge(xp, a, x, upper=upper))


def at_edge(xp: ArrayNamespace, a: Any, x: Any, *, upper: bool) -> Any:
    """The function where a or x is 0, infinite, negative or NaN."""
    below, above = (1.0, 0.0) if upper else (0.0, 1.0)
    # P is 0 at x = 0 and for infinite a, and 1 at a = 0 and for infinite x.
    rises = (a >= 0) & (x >= 0) & ((a == 0) | (x == math.inf))
    falls = (a >= 0) & (x >= 0) & ((x == 0) | (a == math.inf))
    zero = xp.where((a > 0) & (a < math.inf), a, 1.0) * 0
    found = xp.where(rises, above, xp.where(falls, zero + below, math.nan))
    return xp.where(rises & falls, math.nan, found)


def _both(xp: ArrayNamespace, a: Any, x: Any) -> tuple[Any, Any]:
    power = xp.exp(log_power(xp, a, x))
    near = (x < a + 1) | (x < 1.5)
    by_series = power * series(a, xp.where(near, x, 0.0))
    by_fraction = power * fraction(a, xp.where(near, a + 2, x))
    is_small = near & (a < 1)
    by_difference = difference(xp, xp.where(is_small, a, 0.5), xp.where(is_small, x, 1.0))
    low = xp.where(near, by_series, 1 - by_fraction)
    high = xp.where(near, xp.where(is_small, by_difference, 1 - by_series), by_fraction)
    chosen = (a >= LARGE) & (xp.abs(x - a) < 0.5 * a)
    below, above = uniform(xp, xp.where(chosen, a, LARGE), xp.where(chosen, x, LARGE))
    return xp.where(chosen, below, low), xp.where(chosen, above, high)


def series(a: Any, x: Any) -> Any:
    """P(a, x) over x**a exp(-x) / gamma(a + 1) for x up to a + 1 or 1.5 (DLMF 8.11.4)."""
    term = total = x * 0 + 1
    for n in range(1, _TERMS):
        term = term * (x / (a + n))
        total = total + term
    return total


def fraction(a: Any, x: Any) -> Any:
    """Q(a, x) over the same for other x: DLMF 8.9.2, two levels of the fraction in one."""
    level = x + (2 * _LEVELS + 1) - a
    for n in range(_LEVELS, 0, -1):
        level = x + (2 * n - 1) - a - n * (n - a) / level
    return a / level


def difference(xp: ArrayNamespace, a: Any, x: Any) -> Any:
    """Q(a, x) for a below 1, x up to 2, where 1 - P would lose the digits of Q (DLMF 8.7.1)."""
    term, others = x * 0 + 1, x * 0
    for n in range(1, 25):
        term = term * (x * (-1 / n))
        others = others + term / (a + n)
    head = a * xp.log(x) - log_gamma_of_next(xp, a)
    return -xp.expm1(head) - xp.exp(head) * a * others


def uniform(xp: ArrayNamespace, a: Any, x: Any) -> tuple[Any, Any]:
    """P and Q by Temme's expansion, for large a with x within a half (DLMF 8.12.3 and 8.12.4)."""
    away = (x - a) / a
    half_square = -log1p_rest(xp, away)  # eta**2 / 2
    eta = xp.sqrt(2 * xp.where(half_square > 0, half_square, 0.0))
    eta = xp.where(away < 0, -eta, eta)
    total = a * 0
    for row in reversed(temme()):
        total = total / a + polynomial(xp, eta, row)
    rest = xp.exp(-a * half_square) / xp.sqrt(2 * math.pi * a) * total
    place = eta * xp.sqrt(a * 0.5)
    return 0.5 * erfc(xp, -place) - rest, 0.5 * erfc(xp, place) + rest
