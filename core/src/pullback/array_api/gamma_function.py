"""The logarithm of the gamma function and its derivatives, in array API code in float64.

The rational functions interpolate at Chebyshev nodes; their coefficients, lowest order last, were
computed with 60 digits, and none is negative: nothing cancels. The error given with each is
relative. The asymptotic series are in NIST's Digital Library of Mathematical Functions, chapter 5.
"""

from __future__ import annotations

import math
from typing import Any

from pullback.array_api.polynomial import polynomial, ratio

# lgamma(x) / ((x - 1)(x - 2)) on [1, 3]: 4.0e-18.
_LGAMMA_NEAR = (
    (
        0.0003763030767622707,
        0.24812235865232937,
        9.521192014261896,
        98.76854848908135,
        370.76355449664516,
        549.1682767723507,
        313.57315666045474,
        60.22989360942297,
        2.5012224869546906,
    ),
    (
        0.060117093725430296,
        3.769213152091595,
        59.88362181940515,
        346.64342975777976,
        827.2289568245217,
        828.8036415342509,
        324.965145313882,
        41.35380831542771,
        1.0,
    ),
)

# lgamma(x) / (x - 2) in x - 2 on [3, 8]: 1.4e-18.
_LGAMMA_MIDDLE = (
    (
        1.943011280876193e-08,
        4.678601911892465e-06,
        0.00026549702921314754,
        0.005768336324268088,
        0.058140115666744686,
        0.2955311470331566,
        0.7673540491030595,
        0.9472398109228912,
        0.42278433511813873,
    ),
    (
        3.1626928754807115e-09,
        1.1654785987965756e-06,
        9.096195086863277e-05,
        0.0026383102666459836,
        0.03528051974149038,
        0.239578885939911,
        0.8471889806873325,
        1.4777576314972478,
        1.0,
    ),
)

# x digamma(x) / (x - root) on [1, 8]: 5.0e-18.
_DIGAMMA_NEAR = (
    (
        3.98875427564065e-09,
        1.41158760694682e-06,
        0.00011580094101395404,
        0.0036072814992815293,
        0.05194143683095351,
        0.3787202767752768,
        1.4410293225049646,
        2.785899713668721,
        2.44068070971669,
        0.6841666719588325,
    ),
    (
        5.35547690586181e-10,
        2.6639159598650196e-07,
        2.779620552655763e-05,
        0.0010675466558536155,
        0.018762420519398585,
        0.16729321147081697,
        0.78873265579865,
        1.945157455404718,
        2.3059950465391457,
        1.0,
    ),
)
# The zero of digamma above 0, in two parts.
_ROOT = 1.4616321449683622
_ROOT_REST = 9.549995429965697e-17

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
_STIRLING = tuple(b / (2 * k * (2 * k - 1)) for k, b in enumerate(_BERNOULLI[:9], start=1))[::-1]
_LOGARITHMIC = tuple(b / (2 * k) for k, b in enumerate(_BERNOULLI[:10], start=1))[::-1]


def _turned(xp: Any, x: Any) -> tuple[Any, Any]:
    """Where x is negative, and pi times its distance from the nearest whole number."""
    return x < 0, (x - xp.round(x)) * math.pi


def _at_least_1(xp: Any, x: Any) -> Any:
    """1 - x below 0, 1 + x in [0, 1), x from 1 on: where the functions are approximated."""
    return xp.where(x < 0, 1 - x, xp.where(x < 1, 1 + x, x))


def lgamma(xp: Any, x: Any) -> Any:
    """log(|gamma(x)|)."""
    negative, angle = _turned(xp, x)
    y = _at_least_1(xp, x)
    # y - 1 and y - 2 without the rounding of y = 1 + x.
    fraction = (x >= 0) & (x < 1)
    near = xp.where(fraction, x, y - 1) * xp.where(fraction, x - 1, y - 2)
    near = near * ratio(xp.minimum(y, xp.asarray(3.0, dtype=x.dtype)), _LGAMMA_NEAR)
    middle = xp.clip(y - 2, 1.0, 6.0)
    middle = middle * ratio(middle, _LGAMMA_MIDDLE)
    # DLMF 5.11.1.
    big = xp.where(y < 8, xp.asarray(8.0, dtype=x.dtype), y)
    series = polynomial(1 / big / big, _STIRLING) / big
    far = (big - 0.5) * (xp.log(big) - 1) + (0.5 * math.log(2 * math.pi) - 0.5 + series)
    found = xp.where(y < 3, near, xp.where(y < 8, middle, far))
    # gamma(x) = gamma(1 + x) / x, and gamma(x) gamma(1 - x) = pi / sin(pi x) (DLMF 5.5.1, 5.5.3).
    factor = xp.where(negative, xp.abs(xp.sin(angle)) / math.pi, xp.where(fraction, x, 1.0))
    shift = xp.log(factor)
    found = xp.where(negative, -shift - found, found - shift)
    return xp.where(xp.isinf(x) | (negative & (angle == 0)), math.inf, found)


def digamma(xp: Any, x: Any) -> Any:
    """The derivative of log(gamma(x))."""
    negative, angle = _turned(xp, x)
    y = _at_least_1(xp, x)
    close = xp.minimum(y, xp.asarray(8.0, dtype=x.dtype))
    near = ((close - _ROOT) - _ROOT_REST) / close * ratio(close, _DIGAMMA_NEAR)
    # DLMF 5.11.2.
    big = xp.where(y < 8, xp.asarray(8.0, dtype=x.dtype), y)
    square = 1 / big / big
    far = xp.log(big) - 0.5 / big - polynomial(square, _LOGARITHMIC) * square
    found = xp.where(y < 8, near, far)
    # digamma(x) = digamma(1 + x) - 1 / x = digamma(1 - x) - pi / tan(pi x) (DLMF 5.5.2, 5.5.4).
    whole = negative & (angle == 0)
    slope = xp.where(whole, math.nan, xp.tan(angle) / math.pi)
    found = xp.where(negative, found - 1 / slope, found)
    return xp.where((x >= 0) & (x < 1), found - 1 / x, found)


_TERMS = 10


def polygamma(xp: Any, x: Any, *, n: int) -> Any:
    """The derivative of order n of digamma."""
    if n == 0:
        return digamma(xp, x)
    negative, angle = _turned(xp, x)
    y = xp.where(negative, 1 - x, x)
    found = _zeta(y, n + 1) * (math.factorial(n) * (-1.0) ** (n + 1))
    # Derivatives of digamma(1 - x) - digamma(x) = pi cot(pi x) (DLMF 5.15.6).
    cotangent = 1 / xp.tan(angle)
    turn = polynomial(cotangent, _cotangent_derivative(n)) * math.pi ** (n + 1)
    found = xp.where(negative, found * (-1.0) ** n - turn, found)
    pole = (x <= 0) & (angle == 0)
    return xp.where(pole, math.inf if n % 2 else math.nan, found)


def _zeta(a: Any, s: int) -> Any:
    """The Hurwitz zeta function for a >= 0 and whole s > 1, by Euler and Maclaurin's summation.

    (DLMF 25.11.5.) All terms of the sum are positive.
    """
    total = 1 / a**s
    for k in range(1, _TERMS):
        total = total + 1 / (a + k) ** s
    end = a + _TERMS
    rest = 1 / (s - 1) + 0.5 / end
    factor = s / end / end
    for k, bernoulli in enumerate(_BERNOULLI, start=1):
        rest = rest + factor * (bernoulli / math.factorial(2 * k))
        factor = factor * ((s + 2 * k - 1) / end) * ((s + 2 * k) / end)
    return total + rest / end ** (s - 1)


def _cotangent_derivative(n: int) -> list[float]:
    """The derivative of order n of cot(t) as a polynomial in cot(t), highest order first."""
    powers = [0, 1]
    for _ in range(n):
        # d/dt p(cot t) = -(1 + cot(t)**2) p'(cot t)
        slope = [i * c for i, c in enumerate(powers)][1:]
        powers = [-(a + b) for a, b in zip([*slope, 0, 0], [0, 0, *slope], strict=True)]
    return [float(c) for c in reversed(powers)]
