"""Samples of the modified Bessel functions of the first kind."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np

from pullback import errors
from pullback_conformance.draws import cnormal, integers, normal, uniform
from pullback_conformance.sample import Array, call, rough, suite, wrong
from pullback_conformance.samples.special import TAU, exactly


def _scaled(x: Decimal, n: int) -> Decimal:
    """exp(-|x|) I_n(x) by DLMF 10.40.1 from 200 on, by the power series 10.25.2 below."""
    size = abs(x)
    sign = -1 if x < 0 and n % 2 else 1
    if size > 200:
        total = term = Decimal(1)
        for k in range(1, 40):
            term *= -Decimal(4 * n * n - (2 * k - 1) ** 2) / (8 * k * size)
            total += term
        return sign * total / (TAU * size).sqrt()
    term = (size / 2) ** n / math.factorial(n)
    total, k = term, 0
    while term > Decimal("1e-60") * total:
        k += 1
        term *= size * size / (4 * k * (k + n))
        total += term
    return sign * total * (-size).exp()


def _edge(x: float, n: int, scaled: bool) -> float | None:
    if math.isnan(x):
        return x
    if x == 0:
        return 0.0 if n else 1.0
    if scaled:
        return math.copysign(0.0, x if n % 2 else 1) if math.isinf(x) else None
    return math.copysign(math.inf, x if n % 2 else 1) if abs(x) > 715 else None


def _bessel(x: Decimal, n: int, scaled: bool = False) -> Decimal:
    return _scaled(x, n) * (1 if scaled else abs(x).exp())


_reference = exactly(
    lambda x, n=0, scaled=False: _bessel(x, n, scaled),
    lambda x, n=0, scaled=False: _edge(x, n, scaled),
)


def _of(order: int, scaled: bool) -> Callable[[Array], Array]:
    return lambda x: _reference(x, n=order, scaled=scaled)


def _terms(x: Array, n: int, scaled: bool = False) -> Any:
    """The size of what the recurrence from orders 0 and 1 takes differences of."""
    near = np.abs(x) < 12
    growth = np.where(near, 1, (1 + 2 * n / np.maximum(np.abs(x), 1)) ** max(n - 1, 0))
    return np.where(near, np.abs(_reference(x, n=n, scaled=scaled)), growth * _of(0, scaled)(x))


_LINE = np.concatenate([np.linspace(-30.0, 30.0, 61), [12.0, -12.0, 11.999, 60.0, 85.0]])
_SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan])
_LARGE = np.array([1e3, -1e4, 3e4])
for _name, _n, _is_scaled in (
    *(("i0", 0, False), ("i0e", 0, True), ("i1", 1, False), ("i1e", 1, True)),
):
    suite(_name, _of(_n, _is_scaled))(
        call(uniform(0.3, 5, 3, 4)),
        call(uniform(-5, -0.3), note="0-d"),
        call(normal(0, 3), note="empty"),
        # I_0(13) is beyond float16.
        call(uniform(12.1, 20 if _is_scaled else 12.4, 5), note="beyond the series"),
        call(integers(1, 9, 3, 2), note="integers"),
        rough(_LINE, note="line"),
        rough(_SPECIAL, note="special"),
        rough(_LARGE, note="large"),
        rough(10.0 ** np.arange(-37, 0, 4), note="small"),
        wrong(errors.DTypeError, cnormal(3)),
    )
suite("bessel_i", _reference, scale=_terms)(
    *(call(uniform(0.3, 5, 3, 4), n=n, scaled=s) for n in (0, 1, 2, 5) for s in (False, True)),
    call(uniform(12.1, 12.4, 5), n=2, note="beyond the series"),
    call(uniform(0.3, 5), n=1, note="0-d"),
    call(normal(0, 3), n=1, note="empty"),
    rough(_LINE, n=3, note="line"),
    rough(_LINE, n=8, scaled=True, note="line, n=8"),
    rough(_SPECIAL, n=2, note="special"),
    rough(_LARGE, n=4, scaled=True, note="large"),
    wrong(errors.DTypeError, cnormal(3), n=1),
    wrong(errors.InputValueError, normal(3), n=-1),
    wrong(errors.InputValueError, normal(3), n=17),
    wrong(errors.InputTypeError, normal(3), n=1.5),
)
