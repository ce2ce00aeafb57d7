"""The error function, its complement and its inverse, in array API code.

The rational functions that are not quoted interpolate at Chebyshev nodes; their coefficients,
lowest order last, were computed with 60 digits. The error given with each is relative.
"""

from __future__ import annotations

import math
from typing import Any

from pullback.array_api.polynomial import polynomial, ratio

# erf(x) / x in x**2 on [0, 1]: 1.4e-18.
_NEAR = (
    (
        2.62004511684393e-07,
        -1.0151741106790253e-05,
        0.00020712066837048852,
        -0.0014563779732455276,
        0.037662984420418225,
        0.045203917420504454,
        1.1283791670955126,
    ),
    (
        0.00014676798902935455,
        0.004460317865522437,
        0.057842704915404664,
        0.373394262087327,
        1.0,
    ),
)

# erf(x) / x in x**2 on [0, 15.4]: 1.6e-9. No term is negative, so nothing cancels in float32.
_NEAR_32 = (
    (
        3.1293314589584695e-09,
        9.894879661488938e-07,
        3.3482942080846516e-05,
        0.0006208692954902135,
        0.006402574664042665,
        0.06296122320588297,
        0.2291342928520757,
        1.1283791652807202,
    ),
    (
        8.475723787605204e-08,
        6.765515388122756e-06,
        0.00014915829693068258,
        0.0021359606563360802,
        0.020709144063091767,
        0.1345976045010834,
        0.5363982654075605,
        1.0,
    ),
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

# The normal quantile, from M. J. Wichura, Algorithm AS 241 (PPND16), Applied Statistics 37 (1988),
# 477-484: the middle in 0.180625 - q**2, the tails in r - 1.6 and r - 5, r = sqrt(-log p).
_MIDDLE = (
    (
        2.5090809287301226727e3,
        3.3430575583588128105e4,
        6.7265770927008700853e4,
        4.5921953931549871457e4,
        1.3731693765509461125e4,
        1.9715909503065514427e3,
        1.3314166789178437745e2,
        3.3871328727963666080e0,
    ),
    (
        5.2264952788528545610e3,
        2.8729085735721942674e4,
        3.9307895800092710610e4,
        2.1213794301586595867e4,
        5.3941960214247511077e3,
        6.8718700749205790830e2,
        4.2313330701600911252e1,
        1.0,
    ),
)
_TAIL = (
    (
        7.74545014278341407640e-4,
        2.27238449892691845833e-2,
        2.41780725177450611770e-1,
        1.27045825245236838258e0,
        3.64784832476320460504e0,
        5.76949722146069140550e0,
        4.63033784615654529590e0,
        1.42343711074968357734e0,
    ),
    (
        1.05075007164441684324e-9,
        5.47593808499534494600e-4,
        1.51986665636164571966e-2,
        1.48103976427480074590e-1,
        6.89767334985100004550e-1,
        1.67638483018380384940e0,
        2.05319162663775882187e0,
        1.0,
    ),
)
_FAR_TAIL = (
    (
        2.01033439929228813265e-7,
        2.71155556874348757815e-5,
        1.24266094738807843860e-3,
        2.65321895265761230930e-2,
        2.96560571828504891230e-1,
        1.78482653991729133580e0,
        5.46378491116411436990e0,
        6.65790464350110377720e0,
    ),
    (
        2.04426310338993978564e-15,
        1.42151175831644588870e-7,
        1.84631831751005468180e-5,
        7.86869131145613259100e-4,
        1.48753612908506148525e-2,
        1.36929880922735805310e-1,
        5.99832206555887937690e-1,
        1.0,
    ),
)


def _scaled_complement(size: Any) -> Any:
    """exp(x**2) erfc(x) for x >= 0."""
    return polynomial((size - 3.75) / (size + 3.75), _SCALED_COMPLEMENT) / (1 + 2 * size)


def erf(xp: Any, x: Any) -> Any:
    """The error function in float64."""
    # From 6 on it is 1; what is infinite stays away from the fraction.
    size = xp.minimum(xp.abs(x), xp.asarray(6.0, dtype=x.dtype))
    square = size * size
    near = size * ratio(xp.minimum(square, xp.asarray(1.0, dtype=x.dtype)), _NEAR)
    far = 1 - xp.exp(-square) * _scaled_complement(size)
    return xp.copysign(xp.where(size < 1, near, far), x)


def erf32(xp: Any, x: Any) -> Any:
    """The error function in float32."""
    # From 3.92 on it is 1 in float32.
    limit = xp.asarray(3.92, dtype=x.dtype)
    near = xp.clip(x, -3.92, 3.92)
    inside = near * ratio(near * near, _NEAR_32)
    return xp.where(xp.abs(x) >= limit, xp.sign(x), inside)


def erfc(xp: Any, x: Any) -> Any:
    """1 - erf(x) in float64."""
    # From 27.3 on it is below every number.
    size = xp.minimum(xp.abs(x), xp.asarray(28.0, dtype=x.dtype))
    # exp(-x**2) in two factors, so that the rounding of x**2 is not made larger by exp.
    head = xp.floor(size * 256) / 256
    tail = xp.exp(-head * head) * xp.exp((head - size) * (head + size))
    upper = tail * _scaled_complement(size)
    return xp.where(x < 0, 2 - upper, upper)


def erfinv(xp: Any, x: Any) -> Any:
    """The inverse of the error function in float64."""
    size = xp.abs(x)
    half = 0.5 * size
    middle = half * ratio(0.180625 - half * half, _MIDDLE)
    # 1 - size has no rounding error where the tails begin.
    r = xp.sqrt(-xp.log(0.5 * (1 - size)))
    tail = xp.where(r <= 5, ratio(r - 1.6, _TAIL), ratio(r - 5, _FAR_TAIL))
    found = xp.where(half <= 0.425, middle, tail) * math.sqrt(0.5)
    found = xp.where(size == 1, xp.asarray(math.inf, dtype=x.dtype), found)
    return xp.copysign(found, x)
