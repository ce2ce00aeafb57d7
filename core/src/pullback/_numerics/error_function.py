"""The error function, its complement and its inverse, in array API code.

Where a coefficient has no source, it is from interpolation at Chebyshev nodes with 60 digits; the
constant comes last. The error given with each table is relative to the function. What a rational
function adds to a constant is small beside it, and so is the rounding error of its many terms.
"""

from __future__ import annotations

import math
from typing import Any

from pullback._numerics import ArrayNamespace
from pullback._numerics.polynomial import polynomial, ratio

# erf(x) / x - 1 in x**2 on [0, 1]: 1.5e-18.
_NEAR = (
    (
        2.62004511684393e-07,
        -1.0151741106790253e-05,
        6.035267934113398e-05,
        -0.005916695838767964,
        -0.02017972049498644,
        -0.32819034466682256,
        0.12837916709551256,
    ),
    (0.00014676798902935455, 0.004460317865522437, 0.057842704915404664, 0.373394262087327, 1.0),
)

# The same in float32: 1.2e-9.
_NEAR_32 = (
    7.875875062685488e-05,
    -0.000801686428716587,
    0.005189087423433974,
    -0.026854212010626412,
    0.11283594715160218,
    -0.37612626666720334,
    0.12837916584835093,
)

# exp(x**2) erfc(x) in x - 2.5 on [1, 3.93], for float32: 1.6e-8 of exp(x**2).
_FAR_32 = (
    1.7518249007077212e-06,
    -6.2686173428546825e-06,
    1.4002158304025986e-05,
    -5.409429357298008e-05,
    0.00021348729408234157,
    -0.0007382731106649787,
    0.002465697522493005,
    -0.007999721621320875,
    0.02493825091703929,
    -0.07434754939229762,
    0.21080635674009615,
)

# exp(x**2) erfc(x) in x - 1.25 on [0.5, 2], for float32: 2.7e-9.
_MIDDLE_COMPLEMENT_32 = (
    6.318043636163262e-05,
    -0.0001924501098347048,
    0.0004686912827234689,
    -0.0013086977740057642,
    0.0035544257921874944,
    -0.009085889477516493,
    0.02201123123147039,
    -0.05021784342443962,
    0.10679557524701846,
    -0.2088218881173335,
    0.3678229164523611,
)
# x exp(x**2) erfc(x) in 1 / x**2 on [2, inf], for float32: 2.1e-9.
_FAR_COMPLEMENT_32 = (
    -107.49738889196783,
    155.03942634871544,
    -101.83469455396767,
    41.710028357830915,
    -12.75193344215385,
    3.4902677761636687,
    -1.050697190503953,
    0.42301309627168654,
    -0.28209385374919976,
    0.5641895823849815,
)

# (1 + 2x) exp(x**2) erfc(x) in (x - 3.75) / (x + 3.75), for all x >= 0: 5.1e-17. The form is that
# of M. M. Shepherd and J. G. Laframboise, Mathematics of Computation 36 (1981), 249-253.
_SCALED_COMPLEMENT = (
    3.2052623379289157e-10,
    -2.618520156503145e-09,
    -3.798189797736207e-09,
    3.195398612057818e-08,
    2.3398534313040898e-08,
    -2.4851108650210706e-07,
    -5.741076073013916e-08,
    1.7419011945194367e-06,
    -9.733875167494142e-07,
    -1.1437980374495534e-05,
    2.2384138525656757e-05,
    5.164649341002877e-05,
    -0.00029015404203352704,
    0.000293714390578856,
    0.001755625843431864,
    -0.00974657968596217,
    0.028362277420377335,
    -0.05869339857631061,
    0.09230432116025894,
    -0.10880393014246645,
    0.08227673849014977,
    0.003585415485479575,
    -0.14024059858554702,
    1.2375126308378275,
)

# erfinv(x) / x - 1 in 0.7225 - x**2 on [0, 0.85]: 8.4e-17. The arguments are those of
# M. J. Wichura, Algorithm AS 241, Applied Statistics 37 (1988), 477-484.
_INVERSE_MIDDLE = (
    (
        -0.12233167601556243,
        -2.817275718496782,
        -15.778549692687132,
        -32.952462447744466,
        -28.66207254784748,
        -8.287641349257543,
        1.8531027643173492,
        1.4174981167906953,
        0.19753231156709125,
    ),
    (
        0.14340918757944626,
        4.415447845022331,
        34.27168633694469,
        106.68428276815251,
        160.82024089026783,
        127.7637240724386,
        54.455243379012416,
        11.730846723805138,
        1.0,
    ),
)
# erfinv(x) / r - 0.8125 in r - 1.6 on [1.6, 6.2], r = sqrt(-log((1 - x) / 2)): 1.2e-16.
_INVERSE_TAIL = (
    (
        -5.138155862723431e-12,
        3.026392077972123e-06,
        0.00015059020419338527,
        0.0025880777435462617,
        0.020915502364911184,
        0.08773863273716868,
        0.18618428287762775,
        0.14074765044206328,
        -0.11468875247458635,
        -0.18342372899769518,
    ),
    (
        1.6136432049313507e-05,
        0.0008037247818550463,
        0.0140572481249262,
        0.12058757548741654,
        0.5821265879011405,
        1.668883764547003,
        2.8220422500783133,
        2.596400748901827,
        1.0,
    ),
)


def _at_most(xp: ArrayNamespace, x: Any, limit: float) -> Any:
    return xp.minimum(x, limit)


def _scaled_complement(xp: ArrayNamespace, size: Any) -> Any:
    """exp(x**2) erfc(x) for x >= 0."""
    return polynomial(xp, (size - 3.75) / (size + 3.75), _SCALED_COMPLEMENT) / (1 + 2 * size)


def _near(xp: ArrayNamespace, size: Any) -> Any:
    """erf(x) for x in [0, 1]."""
    return size + size * ratio(xp, _at_most(xp, size * size, 1.0), _NEAR)


def erf(xp: ArrayNamespace, x: Any) -> Any:
    """The error function in float64."""
    # From 6 on it is 1.
    size = _at_most(xp, xp.abs(x), 6.0)
    far = 1 - xp.exp(-size * size) * _scaled_complement(xp, size)
    return xp.copysign(xp.where(size < 1, _near(xp, size), far), x)


def erf32(xp: ArrayNamespace, x: Any) -> Any:
    """The error function in float32."""
    # From 3.93 on it is 1 in float32.
    size = _at_most(xp, xp.abs(x), 3.93)
    square = size * size
    near = size + size * polynomial(xp, _at_most(xp, square, 1.0), _NEAR_32)
    far = 1 - xp.exp(-square) * polynomial(xp, size - 2.5, _FAR_32)
    return xp.copysign(xp.where(size < 1, near, far), x)


def erfc(xp: ArrayNamespace, x: Any) -> Any:
    """1 - erf(x) in float64."""
    # From 27.3 on it is below every number.
    size = _at_most(xp, xp.abs(x), 28.0)
    # exp(-x**2) in two factors, or the rounding of x**2 would be multiplied by x**2.
    head = xp.floor(size * 256) / 256
    tail = xp.exp(-head * head) * xp.exp((head - size) * (head + size))
    upper = xp.where(size < 0.5, 1 - _near(xp, size), tail * _scaled_complement(xp, size))
    return xp.where(x < 0, 2 - upper, upper)


def erfc32(xp: ArrayNamespace, x: Any) -> Any:
    """1 - erf(x) in float32: the error of exp and some 3 ulp."""
    # From 10.1 on it is below every number.
    size = _at_most(xp, xp.abs(x), 10.5)
    square = size * size
    # What the rounding of the square has lost: the square of `head` is exact.
    head = xp.floor(size * 256) / 256
    lost = (head * head - square) + (size - head) * (size + head)
    tail = xp.exp(-square)
    tail = tail - tail * lost
    middle = polynomial(xp, _at_most(xp, size, 2.0) - 1.25, _MIDDLE_COMPLEMENT_32)
    reach = xp.maximum(size, 2.0)
    far = polynomial(xp, 1 / (reach * reach), _FAR_COMPLEMENT_32) / reach
    near = 1 - (size + size * polynomial(xp, _at_most(xp, square, 0.25), _NEAR_32))
    upper = xp.where(size < 0.5, near, tail * xp.where(size < 2, middle, far))
    return xp.where(x < 0, 2 - upper, upper)


def erfinv(xp: ArrayNamespace, x: Any) -> Any:
    """The inverse of the error function, in float64 or float32."""
    size = xp.abs(x)
    middle = size + size * ratio(xp, 0.7225 - size * size, _INVERSE_MIDDLE)
    # 1 - size has no rounding error where the tail begins.
    r = xp.sqrt(-xp.log(0.5 * (1 - size)))
    tail = r * 0.8125 + r * ratio(xp, r - 1.6, _INVERSE_TAIL)
    found = xp.where(size <= 0.85, middle, tail)
    return xp.copysign(xp.where(size == 1, math.inf, found), x)
