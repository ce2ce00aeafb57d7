"""The logarithm of the gamma function and its derivatives, in array API code for float64.

The coefficients are from interpolation at Chebyshev nodes with 60 digits; the constant comes last.
The error given with each table is relative to the function. What a rational function adds to a
constant or to leading terms is small beside them, and so is the rounding error of its many terms.

The identities are those of NIST's Digital Library of Mathematical Functions (DLMF).
"""

from __future__ import annotations

import functools
import math
from typing import Any

from pullback._numerics import ArrayNamespace
from pullback._numerics.polynomial import polynomial, ratio

# lgamma(x) / ((x - 1)(x - 2)) - 0.4375 in x - 1 on [1, 3]: 5.2e-17.
_LGAMMA_NEAR = (
    (
        -0.00014484773296223998,
        -0.004654502916770021,
        -0.044656348491962816,
        -0.1717196790794042,
        -0.26315010448104464,
        -0.05464229883366511,
        0.21517593129200396,
        0.13971566490153284,
    ),
    (
        -8.00006940626896e-08,
        0.0003421314143034865,
        0.013389528687126595,
        0.16888503461765253,
        0.9602898005686245,
        2.7893749317259906,
        4.281118806581698,
        3.295459389890682,
        1.0,
    ),
)
# x times what Stirling's formula without its series lacks, in 1 / x**2 on [3, inf]: 8.6e-16.
_LGAMMA_FAR = (
    (
        0.047949044061082816,
        0.7401533079759969,
        1.4475495319750598,
        0.6998240164053198,
        0.08333333333333326,
    ),
    (0.7707173798157785, 9.39675554873276, 17.642111292169787, 8.431221530195907, 1.0),
)

# digamma(x) / (x - root) - 0.75 in x - 1 on [1, 3]: 1.2e-17.
_DIGAMMA_NEAR = (
    (
        -0.00013119741915497668,
        -0.004841353696563387,
        -0.05311001149539819,
        -0.21940953197797022,
        -0.27132865237860687,
        0.2475156214100499,
        0.5003801375034054,
    ),
    (
        -2.1266001426464142e-08,
        0.0001781237084712316,
        0.007541528072930127,
        0.10253791613508487,
        0.6088725387510459,
        1.7164412849668507,
        2.2027432733665075,
        1.0,
    ),
)
# x**2 (log(x) - 1 / 2x - digamma(x)) in 1 / x**2 on [3, inf]: 1.1e-14 of a hundredth of digamma.
_DIGAMMA_FAR = (
    (
        0.10147359097496221,
        1.2645919998876947,
        2.0028200146930577,
        0.8118758582576218,
        0.08333333333333244,
    ),
    (2.1551983302786035, 17.253459834818653, 24.970472162605237, 9.842510299075757, 1.0),
)
# The zero of digamma above 0, in three parts, of which float32 holds the first two.
_ROOT = (1.4616321325302124, 1.243815006546356e-08, -1.2654465062537432e-16)

# Bernoulli numbers B(2), B(4), ...
_BERNOULLI = (
    1 / 6,
    -1 / 30,
    1 / 42,
    -1 / 30,
    5 / 66,
    -691 / 2730,
    7 / 6,
    -3617 / 510,
    43867 / 798,
    -174611 / 330,
    854513 / 138,
)


def _angle(xp: ArrayNamespace, x: Any) -> Any:
    """pi times the distance of x from the nearest integer."""
    return (x - xp.round(x)) * math.pi


def _at_least_1(xp: ArrayNamespace, x: Any) -> Any:
    """1 - x below 0, 1 + x in [0, 1), x from 1 on: the interval of the approximations."""
    return xp.where(x < 0, 1 - x, xp.where(x < 1, 1 + x, x))


def lgamma(xp: ArrayNamespace, x: Any) -> Any:
    """log(|gamma(x)|)."""
    negative, fraction = x < 0, (x >= 0) & (x < 1)
    y = _at_least_1(xp, x)
    # y - 1 and y - 2 without the rounding of y = 1 + x.
    above_1, above_2 = xp.where(fraction, x, y - 1), xp.where(fraction, x - 1, y - 2)
    near = above_1 * above_2 * (0.4375 + ratio(xp, xp.minimum(y, 3.0) - 1, _LGAMMA_NEAR))
    # DLMF 5.11.1.
    big = xp.maximum(y, 3.0)
    rest = ratio(xp, 1 / big / big, _LGAMMA_FAR) / big
    far = (big - 0.5) * (xp.log(big) - 1) + (0.5 * math.log(2 * math.pi) - 0.5 + rest)
    found = xp.where(y < 3, near, far)
    # gamma(x) = gamma(1 + x) / x, and gamma(x) gamma(1 - x) = pi / sin(pi x): DLMF 5.5.1, 5.5.3.
    sine = xp.abs(xp.sin(_angle(xp, x)))
    shift = xp.log(xp.where(negative, sine / math.pi, xp.where(fraction, x, 1.0)))
    found = xp.where(negative, -shift - found, found - shift)
    return xp.where(xp.isinf(x) | (negative & (sine == 0)), math.inf, found)


def digamma(xp: ArrayNamespace, x: Any) -> Any:
    """The derivative of log(gamma(x))."""
    negative, fraction = x < 0, (x >= 0) & (x < 1)
    y = _at_least_1(xp, x)
    close = xp.minimum(y, 3.0)
    above_root = ((close - _ROOT[0]) - _ROOT[1]) - _ROOT[2]
    near = above_root * (0.75 + ratio(xp, close - 1, _DIGAMMA_NEAR))
    # DLMF 5.11.2.
    big = xp.maximum(y, 3.0)
    square = 1 / big / big
    far = xp.log(big) - (0.5 / big + ratio(xp, square, _DIGAMMA_FAR) * square)
    found = xp.where(y < 3, near, far)
    # digamma(x) = digamma(1 + x) - 1 / x = digamma(1 - x) - pi / tan(pi x): DLMF 5.5.2, 5.5.4.
    angle = _angle(xp, x)
    tangent = xp.where(negative & (angle == 0), math.nan, xp.tan(angle))
    found = xp.where(negative, found - math.pi / tangent, found)
    return xp.where(fraction, found - 1 / x, found)


_TERMS = 10


def polygamma(
    xp: ArrayNamespace, x: Any, *, n: int, below: bool = True, short: bool = False
) -> Any:
    """The derivative of order n of digamma.

    It is (-1)**(n + 1) n! times the sum of 1 / (x + k)**(n + 1) over all k >= 0 (DLMF 5.15.1).
    Below 0: the sum over all whole k, which depends on the fraction of x alone, less that over
    k < 0.

    Args:
        xp: the namespace.
        x: an array of float64, or float32 where the namespace has no wider floats.
        n: the order.
        below: False if no x is negative.
        short: True if the result is rounded to fewer digits, and the last ones need no care.
    """
    if n == 0:
        return digamma(xp, x)
    order, size = n + 1, float(math.factorial(n))
    negative = x < 0
    fraction = x - xp.round(x)
    # From both sides of a half terms cancel that alone may be out of the range of float32.
    small = fraction * 0.0 + size * 0.5**order
    sizes = xp.where(negative, small, size) if below else size
    first = xp.where(negative, fraction, x) if below else x
    total = _power(first, order, sizes) + _tail(xp, first, order, sizes, short)
    if below:
        turned = _tail(xp, xp.where(negative, -fraction, 0.0), order, sizes, short)
        turned = turned - _tail(xp, xp.where(negative, -x, 0.0), order, sizes, short)
        total = xp.where(negative, total - turned if order % 2 else total + turned, total)
        total = xp.where(negative, total * 2.0**order, total)
    sign = (-1.0) ** order
    found = xp.where(x == math.inf, sign * 0.0, sign * total)
    pole = (x <= 0) & (fraction == 0)
    return xp.where(pole, math.inf if n % 2 else math.nan, found)


def _tail(xp: ArrayNamespace, a: Any, s: int, size: Any, short: bool) -> Any:
    """`size` times the sum of 1 / (a + k)**s over all k > 0, for a > -1 and integer s > 1.

    The sum is the Hurwitz zeta function of 1 + a, by Euler and Maclaurin's summation (DLMF
    25.11.5). All its terms are positive.
    """
    end = a + (_TERMS + 1)
    inverse = 1 / end
    series = polynomial(xp, inverse * inverse, _euler_maclaurin(s))
    least = _power(end, s - 1, size, far=True)
    total = (series * inverse * inverse + (0.5 * inverse + 1 / (s - 1))) * least
    if not short:
        total = total * (1 - (s - 1) * _lost(a, _TERMS + 1, end))
    # From the smallest to the largest.
    for k in range(_TERMS, 0, -1):
        base = a + k
        term = _power(base, s, size)
        total = total + (term if short else (1 - s * _lost(a, k, base)) * term)
    return total


@functools.cache
def _euler_maclaurin(s: int) -> tuple[float, ...]:
    """The coefficients B(2k) s (s + 1) ... (s + 2k - 2) / (2k)!, the last first."""
    return tuple(
        bernoulli * math.prod(range(s, s + 2 * k - 1)) / math.factorial(2 * k)
        for k, bernoulli in enumerate(_BERNOULLI, start=1)
    )[::-1]


def _lost(a: Any, k: int, base: Any) -> Any:
    """The relative rounding error of base = a + k."""
    part = base - a
    return ((a - (base - part)) + (k - part)) / base


def _power(base: Any, s: int, size: Any, *, far: bool = False) -> Any:
    """size / base**s, without overflow of base**s for a large size, or for a base that is `far`."""
    half = s // 2 if s > _TERMS or far else 0
    return size / base**half / base ** (s - half) if half else size / base**s
