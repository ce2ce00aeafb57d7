"""Samples of the incomplete gamma functions."""

from __future__ import annotations

import math
from decimal import Context, Decimal, localcontext
from functools import cache
from typing import Any

import numpy as np

from pullback import errors
from pullback_conformance.draws import cnormal, integers, normal, uniform
from pullback_conformance.sample import Array, call, rough, suite, wrong
from pullback_conformance.samples.special import gamma_parts

_DIGITS = Context(prec=50)
#: Enough for a power whose exponent has terms up to 1e5, of tens of thousands of numbers.
_FEWER_DIGITS = Context(prec=30)
_EULER = Decimal("0.57721566490153286060651209008240243104215933593992")


def _edge(a: float, x: float) -> float | None:
    """P(a, x) where it is known."""
    if not (a >= 0 and x >= 0):
        return math.nan
    rises, falls = a == 0 or x == math.inf, x == 0 or a == math.inf
    if rises or falls:
        return math.nan if rises and falls else float(rises)
    return None


@cache
def _exactly(a: float, x: float, *, upper: bool) -> float:
    known = _edge(a, x)
    if known is not None:
        return 1 - known if upper else known
    with localcontext(_DIGITS):
        found, is_high = _in_digits(Decimal(a), Decimal(x))
        return float(found if is_high is upper else 1 - found)


@cache
def _log(x: Decimal) -> Decimal:
    return x.ln(_DIGITS)


def _in_digits(shape: Decimal, place: Decimal) -> tuple[Decimal, bool]:
    """P(a, x) and False, or Q(a, x) and True."""
    if shape < Decimal("1e-20") and place <= 2:
        # 1 - P would have no digits of Q, which is a E1(x) (DLMF 6.6.2).
        term, total = Decimal(-1), -_EULER - _log(place)
        for k in range(1, 60):
            term *= -place / k
            total += term / k
        return shape * total, True
    # gamma(a) is a quotient of two parts: the logarithm of the lower one takes as long as all else.
    above, product = gamma_parts(shape)
    power = (shape * _log(place) - place - above).exp() * product
    if place > 2 * shape + 20 or (shape < 1 and place > 2):  # DLMF 8.9.2
        count = _levels(float(shape), float(place))
        level = place + 2 * count + 1 - shape
        for n in range(count, 0, -1):
            level = place + 2 * n - 1 - shape - n * (n - shape) / level
        return power / level, True
    term = total = 1 / shape  # DLMF 8.11.4
    n = 0
    while term > total * Decimal("1e-49"):
        n += 1
        term *= place / (shape + n)
        total += term
    return power * total, False


def _levels(a: float, x: float) -> int:
    """The levels of the fraction for Q(a, x) after which its value moves by less than 1e-52 of it.

    By the steps between its convergents (Steed's algorithm), of which floats tell the size.
    """
    count, last = 0, x + 1 - a
    inverse = step = total = 1 / last
    while abs(step) > 1e-52 * total:
        count += 1
        last += 2
        term = -count * (count - a)
        before, inverse = inverse, 1 / (term * inverse + last)
        step *= -term * before * inverse
        total += step
    return count


#: 60 times what a first derivative and 12 times what a second one has of the values at 0, 1, ..., 5
#: steps; and of those at -1, 0 and 1.
_AHEAD: dict[int, tuple[int, ...]] = {
    1: (-137, 300, -300, 200, -75, 12),
    2: (45, -154, 214, -156, 61, -10),
}
_AROUND: dict[int, tuple[int, ...]] = {1: (-30, 0, 30), 2: (12, -24, 12)}


@cache
def _by_order(a: float, x: float, order: int) -> float:
    """A derivative of P(a, x) by a, by a difference of 50 digits; at a = 0 it is from above."""
    if not (a >= 0 and x >= 0) or a == x == math.inf or a == x == 0:
        return math.nan
    if x in (0, math.inf) or a == math.inf:
        return 0.0
    with localcontext(_DIGITS):
        step, values = _near(a, x)
        weights = (_AHEAD if len(values) > 3 else _AROUND)[order]
        total = sum((w * value for w, value in zip(weights, values, strict=True)), Decimal(0))
        total /= 60 if order == 1 else 12
        return float(total / step**order)


@cache
def _near(a: float, x: float) -> tuple[Decimal, list[Decimal]]:
    """A step of a, and P(a, x) at such steps, or P - 1, which has its slopes, if it is smaller."""
    if a < 0.01:
        step, first, count = Decimal("1e-9"), 0, 6
    else:
        step, first, count = Decimal(a) * Decimal("1e-11"), -1, 3
    shapes = [Decimal(a) + (first + k) * step for k in range(count)]
    found = [_in_digits(one, Decimal(x)) if one else (Decimal(0), True) for one in shapes]
    if not any(is_high for _, is_high in found):
        return step, [value for value, _ in found]
    return step, [-value if is_high else value - 1 for value, is_high in found]


def _regularized(a: Array, x: Array, *, upper: bool) -> Array:
    pairs = np.broadcast_arrays(np.asarray(a, np.float64), np.asarray(x, np.float64))
    values = zip(*[p.ravel().tolist() for p in pairs], strict=True)
    found = [_exactly(*pair, upper=upper) for pair in values]
    return np.array(found, np.float64).reshape(pairs[0].shape)


@cache
def _slope(a: float, x: float) -> float:
    if not (0 < a < math.inf and 0 < x < math.inf):
        if not (a > 0 and x >= 0) or a == x == math.inf:
            return math.nan
        return 0.0 if x or a > 1 else (1.0 if a == 1 else math.inf)
    with localcontext(_FEWER_DIGITS):
        shape, place = Decimal(a), Decimal(x)
        above, product = gamma_parts(shape)
        return float(((shape - 1) * place.ln() - place - above).exp() * product)


def _density(a: Array, x: Array) -> Array:
    pairs = np.broadcast_arrays(np.asarray(a, np.float64), np.asarray(x, np.float64))
    values = zip(*[p.ravel().tolist() for p in pairs], strict=True)
    found = [_slope(*pair) for pair in values]
    return np.array(found, np.float64).reshape(pairs[0].shape)


def _order_slope(a: Array, x: Array, *, order: int = 1) -> Array:
    pairs = np.broadcast_arrays(np.asarray(a, np.float64), np.asarray(x, np.float64))
    values = zip(*[p.ravel().tolist() for p in pairs], strict=True)
    found = [_by_order(*pair, order) for pair in values]
    return np.array(found, np.float64).reshape(pairs[0].shape)


def _terms(a: Array, x: Array) -> Array:
    """The size of the terms of the logarithm: their rounding is a relative error of its power."""
    with np.errstate(all="ignore"):
        sizes = a * np.abs(np.log(x)) + x + a * np.abs(np.log(np.maximum(a, 1))) + 1
    return np.where(np.isfinite(sizes), sizes, 1)


_VALUES = np.array([0.0, 0.5, 1.0, 30.0, np.inf, -1.0, np.nan])
_EDGES = [_VALUES[:, None] + np.zeros(7), _VALUES + np.zeros((7, 1))]
#: The reference adds as many terms as a is large.
_DOMAIN: dict[str, Any] = {
    "domain": {"a": (-1.0, 300.0), "x": (-1.0, 1e4)},
    "integer_domain": {"a": (-1, 100), "x": (-1, 1000)},
    "without": {"exceptional": "the samples have them"},
}
#: a and x of both, near and far from each other.
_PAIRS: list[tuple[Array, Array]] = [
    (uniform(0.3, 5, 3, 4), uniform(0.3, 8, 3, 4, seed=1)),
    (uniform(21, 60, 3, 4), uniform(21, 60, 3, 4, seed=1)),
    (uniform(0.01, 0.9, 5), uniform(0.01, 2, 5, seed=1)),
    (uniform(2, 19, 5), uniform(30, 60, 5, seed=1)),
    (uniform(0.3, 5, 3, 1), uniform(0.3, 8, 4, seed=1)),
]
#: For gradients, whose differences take many values: one of each way.
_FEW = np.array([0.4, 3.0, 5.0, 30.0]), np.array([0.8, 2.5, 9.0, 33.0])
_SHARED: list[Any] = [
    rough(uniform(0.3, 5), uniform(0.3, 5, seed=1), note="0-d"),
    rough(normal(0, 3), normal(0, 3), note="empty"),
    rough(integers(1, 9, 3, 2), integers(1, 9, 3, 2, seed=1), note="integers"),
    rough(*_EDGES, note="edges"),
    wrong(errors.DTypeError, cnormal(3), normal(3)),
    wrong(errors.ShapeError, normal(2), normal(3)),
]


def _scale(a: Array, x: Array, *, upper: bool) -> Array:
    return np.abs(_regularized(a, x, upper=upper)) * _terms(a, x)


def _lower(a: Array, x: Array) -> Array:
    return _regularized(a, x, upper=False)


def _upper(a: Array, x: Array) -> Array:
    return _regularized(a, x, upper=True)


for _name, _function, _is_upper in (("gammainc", _lower, False), ("gammaincc", _upper, True)):
    suite(
        _name,
        _function,
        scale=lambda a, x, u=_is_upper: _scale(a, x, upper=u),
        **_DOMAIN,
        slow=True,
    )(*(rough(*pair) for pair in _PAIRS), call(*_FEW), *_SHARED)
suite("regularized_gamma", _regularized, scale=_scale, **_DOMAIN, slow=True)(
    *(rough(*pair, upper=upper) for pair in _PAIRS for upper in (False, True)),
    *(call(*_FEW, upper=upper) for upper in (False, True)),
    *(rough(*one.inputs, upper=True, note=one.note) for one in _SHARED[:4]),
)
suite(
    "gamma_density",
    _density,
    scale=lambda a, x: _density(a, x) * _terms(a, x),
    **_DOMAIN,
    slow=True,
)(
    *(call(*pair) for pair in _PAIRS[:2]),
    *(call(*pair) for pair in _PAIRS[3:]),
    *_SHARED,
)


def _order_scale(a: Array, x: Array, *, order: int = 1) -> Array:
    """The first derivative may be larger than the second, which has two signs."""
    sizes = np.abs(_order_slope(a, x, order=order))
    if order == 2:
        with np.errstate(all="ignore"):
            rate = 1 + np.abs(np.log(x / np.maximum(a, 1)))
            sizes = sizes + np.where(np.isfinite(rate), rate, 0) * np.abs(_order_slope(a, x))
    return sizes * _terms(a, x)


# Rough: there is no third derivative by a, and differences ask for all.
suite(
    "gamma_order_slope",
    _order_slope,
    scale=_order_scale,
    domain={"a": (-1.0, 40.0), "x": (-1.0, 200.0)},
    integer_domain={"a": (-1, 40), "x": (-1, 200)},
    without={**_DOMAIN["without"], "random": "the reference takes a second for 64 elements"},
    slow=True,
)(
    *(rough(*pair, order=order) for pair in _PAIRS for order in (1, 2)),
    *_SHARED,
    rough(*_EDGES, order=2, note="edges of the second"),
    wrong(errors.InputValueError, normal(3), normal(3), order=3),
)
