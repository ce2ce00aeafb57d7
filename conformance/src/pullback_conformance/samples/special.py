"""Samples of the special functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from functools import cache, partial
from statistics import NormalDist
from typing import Any

import numpy as np

from pullback import errors
from pullback_conformance.draws import cnormal, integers, normal, pairs, uniform
from pullback_conformance.sample import Array, Sample, call, rough, suite, wrong

# SciPy's functions lose digits near zeros and in tails: these series have 50 digits.
_DIGITS = Context(prec=50)
TAU = Decimal("6.2831853071795864769252867665590057683943387987502")
with localcontext(_DIGITS):
    _LOG_TAU = TAU.ln()
    _BERNOULLI = tuple(
        Decimal(above) / below
        for above, below in (
            *((1, 6), (-1, 30), (1, 42), (-1, 30), (5, 66), (-691, 2730), (7, 6), (-3617, 510)),
            *((43867, 798), (-174611, 330), (854513, 138), (-236364091, 2730), (8553103, 6)),
        )
    )
    _STIRLING = tuple(b / (2 * k * (2 * k - 1)) for k, b in enumerate(_BERNOULLI, 1))


def exactly(
    function: Callable[..., Decimal], edge: Callable[..., float | None]
) -> Callable[..., Array]:
    """A reference from a function of one Decimal, and its values where that is not defined."""

    @cache
    def one(x: float, sign: float, **attributes: Any) -> float:
        known = edge(x, **attributes)
        if known is None:
            with localcontext(_DIGITS):
                known = float(function(Decimal(x), **attributes))
        return known

    def reference(x: Array, **attributes: Any) -> Array:
        values = np.asarray(x, np.float64)
        # The sign tells 0.0 and -0.0, which are equal, apart.
        found = [
            one(value, math.copysign(1, value), **attributes) for value in values.ravel().tolist()
        ]
        return np.array(found, np.float64).reshape(values.shape)

    return reference


def _elementwise(function: Callable[[float], float]) -> Callable[[Array], Array]:
    return lambda x: np.vectorize(function, otypes=[np.float64])(np.asarray(x, np.float64))


def _erfinv(x: Decimal) -> Decimal:
    # Newton's method on the power series of erf, DLMF 7.6.1.
    root_pi = (TAU / 2).sqrt()
    # The smaller tail, which a float does not round to 0.
    tail = Decimal(NormalDist().inv_cdf(float(1 - abs(x)) / 2)) / Decimal(2).sqrt()
    y = tail if x < 0 else -tail
    for _ in range(3):
        term = total = y
        n = 0
        while abs(term) > Decimal("1e-55") * abs(y):
            n += 1
            term *= -y * y / n
            total += term / (2 * n + 1)
        y -= (2 * total / root_pi - x) * root_pi / 2 * (y * y).exp()
    return y


def _erfinv_edge(x: float) -> float | None:
    if abs(x) < 1:
        return x if x == 0 else None
    return math.copysign(math.inf, x) if abs(x) == 1 else math.nan


def _is_pole(x: float) -> bool:
    return -math.inf < x <= 0 and x == math.floor(x)


def _sin_cos_pi(x: Decimal) -> tuple[Decimal, Decimal]:
    """sin(pi x) and cos(pi x), by their power series of a remainder of at most a half."""
    nearest = x.to_integral_value()
    angle = (x - nearest) * TAU / 2
    sine = cosine = Decimal(0)
    term = Decimal(1)
    for k in range(60):
        if k % 2:
            sine += term if k % 4 == 1 else -term
        else:
            cosine += term if k % 4 == 0 else -term
        term *= angle / (k + 1)
    return (-sine, -cosine) if nearest % 2 else (sine, cosine)


def gamma_parts(x: Decimal) -> tuple[Decimal, Decimal]:
    """log(gamma(x + n)) and x (x + 1) ... (x + n - 1), for an n with which x + n is 40 or more."""
    product = Decimal(1)
    while x < 40:  # DLMF 5.5.1
        product *= x
        x += 1
    result = (x - Decimal("0.5")) * x.ln() - x + _LOG_TAU / 2
    power, square = x, x * x
    for term in _STIRLING:  # DLMF 5.11.1
        result += term / power
        power *= square
    return result, product


def log_gamma_of(x: Decimal) -> Decimal:
    """log(|gamma(x)|), with the digits of the context."""
    if x < -9:  # DLMF 5.5.3
        return _LOG_TAU - Decimal(2).ln() - abs(_sin_cos_pi(x)[0]).ln() - log_gamma_of(1 - x)
    above, product = gamma_parts(x)
    return above - abs(product).ln()


def _lgamma_edge(x: float) -> float | None:
    if math.isnan(x) or x in (1, 2):
        return x - x
    return math.inf if math.isinf(x) or _is_pole(x) else None


def _polygamma(x: Decimal, n: int = 0) -> Decimal:
    # DLMF 5.15.8 and 5.11.2 from 40 on; below, by recurrence; digamma by 5.5.4 below a half.
    if n == 0 and x < Decimal("0.5"):
        sine, cosine = _sin_cos_pi(x)
        return _polygamma(1 - x) - TAU / 2 * cosine / sine
    result = Decimal(0)
    while x < 40:
        result += math.factorial(n) / x ** (n + 1)
        x += 1
    result += math.factorial(n - 1) / x**n if n else -x.ln()
    result += math.factorial(n) / (2 * x ** (n + 1))
    power = x ** (n + 2)
    for k, b in enumerate(_BERNOULLI, 1):
        result += b * math.factorial(2 * k + n - 1) / math.factorial(2 * k) / power
        power *= x * x
    return result if n % 2 else -result


def _polygamma_edge(x: float, n: int = 0) -> float | None:
    if math.isfinite(x) and not _is_pole(x):
        return None
    if x == math.inf:
        return 0.0 if n else x
    if n % 2:
        return math.inf if _is_pole(x) else math.nan
    return -math.copysign(math.inf, x) if n == x == 0 else math.nan


def _on(low: float, high: float, special: Array, *samples: Sample) -> tuple[Sample, ...]:
    return (
        call(uniform(low, high, 3, 4)),
        call(uniform(low, high), note="0-d"),
        call(normal(0, 3), note="empty"),
        rough(special, note="special"),
        *samples,
    )


_INTEGERS = call(integers(1, 9, 3, 2), note="integers")
_SIGNED = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan])
_SMALL = 10.0 ** np.arange(-37, 0, 3)
_BOTH_SIGNS = rough(np.concatenate([_SMALL, -_SMALL]), note="small")
_COMPLEX = (wrong(errors.DTypeError, cnormal(3)),)

suite("erf", _elementwise(math.erf))(
    *_on(-2, 2, _SIGNED, _INTEGERS, _BOTH_SIGNS, call(np.linspace(-7.0, 7.0, 141), note="line")),
    *_COMPLEX,
)
suite(
    "bell",
    lambda x: np.exp(-np.square(x)) * (2 / math.sqrt(math.pi)),
    scale=lambda x: np.exp(-np.square(x)) * (1 + np.square(np.clip(x, -40, 40))),
)(
    *_on(-2, 2, _SIGNED, rough(np.linspace(-12.0, 12.0, 97), note="line")),
    rough(np.array([1e30, -1e30, np.inf, -np.inf, np.nan]), note="far"),
    *_COMPLEX,
)
suite("erfc", _elementwise(math.erfc))(
    *_on(-2, 2, _SIGNED, _INTEGERS, _BOTH_SIGNS, rough(np.linspace(-7.0, 26.0, 100), note="line")),
    *_COMPLEX,
)
suite("erfinv", exactly(_erfinv, _erfinv_edge), slow=True)(
    *_on(
        -0.9,
        0.9,
        np.array([0.0, -0.0, 1.0, -1.0, 1.5, np.nan]),
        _BOTH_SIGNS,
        rough(1 - 0.5 ** np.arange(1.0, 9.0), note="near 1"),
    ),
    *_COMPLEX,
)

_WHOLE = np.array([0.0, 1.0, 2.0, 3.0, -1.0, -2.0, np.inf, np.nan])
_LINE = np.concatenate([np.linspace(0.1, 30.0, 120), 10.0 ** np.arange(2.0, 30.0, 2.5)])
_REFLECTED = np.array([-0.1, -0.3, -0.7, -1.2, -1.8, -2.3, -3.3, -9.75, -20.25])
_FROM_0 = (
    _INTEGERS,
    rough(_SMALL, note="small"),
    rough(_LINE, note="line"),
    rough(_REFLECTED, note="negative"),
)
# Zeros of lgamma, digamma and polygamma(., 2) below 0, and points near them.
_ZEROS = np.array([-2.4570247382208006, -2.747682646727413, -0.504083008264455, -1.573498473162391])
_ZEROS = np.concatenate([_ZEROS, [-0.4949283347, -2.49949]])
_NEAR_ZEROS = rough(np.concatenate([_ZEROS, _ZEROS + 1e-5, _ZEROS - 1e-9]), note="near zeros")


def _scale_of(reference: Callable[..., Array], other: Callable[..., Any]) -> Callable[..., Array]:
    """The sum of the sizes of both terms of a reflection: the function at 1 - x, and another."""

    def scale(x: Array, **attributes: Any) -> Array:
        values = np.asarray(x, np.float64)
        below = (values < 0) & (values != np.floor(values)) & np.isfinite(values)
        inner = np.where(below, values, -0.5)
        terms = np.abs(reference(1 - inner, **attributes)) + np.abs(other(inner, **attributes))
        return np.where(below, terms, np.abs(reference(values, **attributes)))

    return scale


def _fraction(x: Array) -> Array:
    return x - np.round(x)


def _largest_term(x: Array, n: int = 0) -> Array:
    """The size of what the pole next to x adds to the derivative of order n of digamma."""
    return math.factorial(n) / np.abs(_fraction(x)) ** (n + 1)


_log_gamma = exactly(log_gamma_of, _lgamma_edge)
_derivative = exactly(_polygamma, _polygamma_edge)
suite(
    "lgamma",
    _log_gamma,
    scale=_scale_of(_log_gamma, lambda x: np.log(np.abs(np.sin(np.pi * _fraction(x))) / np.pi)),
)(*_on(0.3, 5, _WHOLE, *_FROM_0, _NEAR_ZEROS), *_COMPLEX)
suite("digamma", _derivative, scale=_scale_of(_derivative, _largest_term))(
    *_on(
        0.3, 5, np.array([0.0, -0.0, 1.0, 2.0, -1.0, -2.0, np.inf, np.nan]), *_FROM_0, _NEAR_ZEROS
    ),
    *_COMPLEX,
)

suite(
    "polygamma",
    _derivative,
    scale=_scale_of(_derivative, _largest_term),
    # The reference takes a step of 1 at a time from the left.
    domain={"x": (-300.0, np.inf)},
    integer_domain={"x": (-300, 2**63)},
)(
    call(uniform(0.3, 5, 3, 4), n=1),
    call(uniform(0.3, 5, 3, 4), n=2, note="n=2"),
    call(uniform(0.3, 5, 3, 4), n=0, note="n=0"),
    call(uniform(0.3, 5), n=1, note="0-d"),
    call(normal(0, 3), n=1, note="empty"),
    call(integers(1, 9, 3, 2), n=1, note="integers"),
    rough(_LINE[:120], n=3, note="line"),
    rough(_REFLECTED, n=30, note="n=30"),
    rough(_LINE[:40], n=30, note="n=30, line"),
    rough(*_NEAR_ZEROS.inputs, n=2, note="near zeros"),
    rough(_REFLECTED, n=1, note="negative"),
    rough(np.array([0.0, 1.0, -1.0, np.inf, np.nan]), n=1, note="special"),
    wrong(errors.DTypeError, cnormal(3), n=1),
    wrong(errors.InputValueError, normal(3), n=-1),
    wrong(errors.InputTypeError, normal(3), n=1.5),
)


def _xlogy(x: Array, y: Array) -> Array:
    return np.where((x == 0) & ~np.isnan(y), 0, x * np.log(y))


suite("xlogy", _xlogy)(
    *pairs(normal, partial(uniform, 0.3, 3), seed=0),
    call(integers(0, 5, 3, 2), integers(1, 5, 3, 2), note="integers"),
    rough(
        np.array([0.0, 0.0, 0.0, 1.0, 2.0, np.inf]),
        np.array([0.0, -1.0, np.inf, 0.0, np.nan, 2.0]),
        note="special",
    ),
    wrong(errors.ShapeError, normal(2, 3), normal(2)),
)
