"""The incomplete gamma functions in NumPy: each number goes the one way that it needs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pullback.array_api.narrowing import narrowing
from pullback.array_api.special import gamma_function
from pullback.array_api.special import incomplete_gamma as formulas
from pullback_numpy.typing import Array

#: Up to so many numbers Python's arithmetic takes less time than the calls of NumPy.
FEW = 96
#: What is less than this part of a sum does not change it.
_NOTHING = 1e-17
_NARROWED = narrowing(np)


class _Numbers:
    """The functions that the formulas need, of Python's numbers."""

    exp, log, log1p, expm1, sqrt, floor = (
        math.exp, math.log, math.log1p, math.expm1, math.sqrt, math.floor,
    )  # fmt: skip
    abs, minimum, maximum = abs, min, max

    @staticmethod
    def where(condition: bool, x1: float, x2: float) -> float:
        return x1 if condition else x2


#: In place of a namespace: the formulas take numbers for arrays.
_PYTHON: Any = _Numbers()


def one(a: float, x: float, upper: bool, short: bool) -> float:
    """P(a, x), or Q(a, x) if `upper`, of one pair with 0 < a < inf and 0 < x < inf.

    `short`: to fewer digits, for what is rounded to float32 or less.

    Raises:
        ArithmeticError: beyond the largest float.
        ValueError: the same, of a logarithm.
    """
    if a >= formulas.LARGE and abs(x - a) < 0.5 * a:
        both: tuple[float, float] = formulas.uniform(_PYTHON, a, x)
        return both[upper]
    near = x < a + 1 or x < 1.5
    if near and upper and a < 1:
        found: float = formulas.difference(_PYTHON, a, x)
        return found
    if a >= formulas.LARGE:
        power = math.exp(formulas.log_power_of_large(_PYTHON, a, x))
    else:
        power = math.exp(a * math.log(x) - x - math.lgamma(a + 1))
    if near:
        term = total = 1.0
        n = a
        least = 1e-11 if short else _NOTHING
        while term > least * total:
            n += 1
            term *= x / n
            total += term
        low = power * total
        return 1 - low if upper else low
    # The error of n levels falls as exp(-4 sqrt(n x)), later where x is near a.
    levels = int(50 / x) + 14 if short else int(90 / x) + 25
    above = x - a
    level = above + (2 * levels + 1)
    for n in range(levels, 0, -1):
        level = above + (2 * n - 1) - n * (n - a) / level
    high = power * (a / level)
    return high if upper else 1 - high


def many(a: Array, x: Array, *, upper: bool) -> Array:
    """The same of rows of float64, with what is not inside, too."""
    inside = (x > 0) & (x < math.inf) & (a > 0) & (a < math.inf)
    large = inside & (a >= formulas.LARGE) & (np.abs(x - a) < 0.5 * a)
    near = (x < a + 1) | (x < 1.5)
    rest = inside & ~large
    y = np.empty(x.shape, x.dtype)
    _where(~inside, y, lambda a, x: formulas.at_edge(np, a, x, upper=upper), a, x)
    _where(large, y, lambda a, x: formulas.uniform(np, a, x)[upper], a, x)
    far = rest & ~near
    near &= rest
    if upper:
        small = near & (a < 1)
        _where(small, y, lambda a, x: formulas.difference(np, a, x), a, x)
        near &= ~small
    _where(near & (x < 4), y, lambda a, x: _low(a, x, upper), a, x)
    _where(near & (x >= 4), y, lambda a, x: _low(a, x, upper), a, x)
    _where(far & (x < 6), y, lambda a, x: _high(a, x, upper, 60), a, x)
    _where(far & (x >= 6), y, lambda a, x: _high(a, x, upper, 30), a, x)
    return y


def _where(mask: Array, y: Array, function: Callable[..., Array], *arrays: Array) -> None:
    """Writes what a function gives for the elements of a mask."""
    places = np.flatnonzero(mask)
    if places.size:
        y[places] = function(*[array[places] for array in arrays])


def _power(a: Array, x: Array) -> Array:
    """x**a exp(-x) / gamma(a + 1)."""
    y = np.empty(x.shape, x.dtype)
    tiny, large = a <= 1, a >= formulas.LARGE

    def small(gamma: Array, a: Array, x: Array) -> Array:
        return a * np.log(x) - x - gamma

    _where(tiny, y, lambda a, x: small(formulas.log_gamma_of_next(np, a), a, x), a, x)
    _where(~(tiny | large), y, lambda a, x: small(gamma_function.lgamma(np, a + 1), a, x), a, x)
    _where(large, y, lambda a, x: formulas.log_power_of_large(np, a, x), a, x)
    power: Array = np.exp(y, out=y)
    return power


def _low(a: Array, x: Array, upper: bool) -> Array:
    term, total, n, part = np.ones_like(x), np.ones_like(x), a.copy(), np.empty_like(x)
    for i in range(1, 200):
        n += 1
        np.divide(x, n, out=part)
        term *= part
        total += term
        # The sums are 1 at least.
        if i % 4 == 0 and np.maximum.reduce(term) < _NOTHING:
            break
    total *= _power(a, x)
    return 1 - total if upper else total


def _high(a: Array, x: Array, upper: bool, levels: int) -> Array:
    above, part = x - a, np.empty_like(x)
    level = above + (2 * levels + 1)
    for n in range(levels, 0, -1):
        np.subtract(n, a, out=part)
        part *= n
        part /= level
        np.add(above, 2 * n - 1, out=level)
        level -= part
    high: Array = _power(a, x) * (a / level)
    return high if upper else np.subtract(1, high)


def regularized(a: Any, x: Any, *, upper: bool) -> Any:
    """The kernel."""
    if a.shape != x.shape:
        a, x = np.broadcast_arrays(a, x)
    wide, far = a.astype(np.float64).reshape(-1), x.astype(np.float64).reshape(-1)
    found = None
    if wide.size <= FEW:
        try:
            found = np.array(
                [
                    one(one_a, one_x, upper, x.itemsize < 8)
                    if 0 < one_a < math.inf and 0 < one_x < math.inf
                    else float(formulas.at_edge(_PYTHON, one_a, one_x, upper=upper))
                    for one_a, one_x in zip(wide.tolist(), far.tolist(), strict=True)
                ],
                np.float64,
            )
        except (ArithmeticError, ValueError):
            found = None
    if found is None:
        found = many(wide, far, upper=upper)
    return _NARROWED(found.reshape(x.shape), x.dtype)
