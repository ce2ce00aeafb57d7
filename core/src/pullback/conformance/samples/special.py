"""Samples of the special functions, compared with SciPy's."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback import errors
from pullback.conformance.sample import Sample, cnormal, integers, normal, suite, uniform

Array = np.ndarray[Any, Any]


def _scipy(name: str) -> Any:
    def reference(x: Array) -> Array:
        from scipy import special

        return np.asarray(getattr(special, name)(np.asarray(x, np.float64)))

    return reference


def _on(low: float, high: float, special: Array, *samples: Sample) -> tuple[Sample, ...]:
    return (
        Sample((uniform(low, high, 3, 4),)),
        Sample((uniform(low, high),), note="0-d"),
        Sample((normal(0, 3),), note="empty"),
        Sample((special,), gradient=False, note="special"),
        *samples,
    )


_INTEGERS = Sample((integers(1, 9, 3, 2),), note="integers")
_SIGNED = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan])
_SMALL = 10.0 ** np.arange(-37, 0, 3)
_BOTH_SIGNS = Sample((np.concatenate([_SMALL, -_SMALL]),), gradient=False, note="small")
_COMPLEX = (((cnormal(3),), {}, errors.DTypeError),)

suite(
    "erf",
    _scipy("erf"),
    _on(-2, 2, _SIGNED, _INTEGERS, _BOTH_SIGNS, Sample((np.linspace(-7.0, 7.0, 141),), note="line")),
    errors_=_COMPLEX,
)
suite(
    "erfc",
    _scipy("erfc"),
    _on(
        -2,
        2,
        _SIGNED,
        _INTEGERS,
        _BOTH_SIGNS,
        Sample((np.linspace(-7.0, 26.0, 100),), gradient=False, note="line"),
    ),
    errors_=_COMPLEX,
)
suite(
    "erfinv",
    _scipy("erfinv"),
    _on(
        -0.9,
        0.9,
        np.array([0.0, -0.0, 1.0, -1.0, 1.5, np.nan]),
        _BOTH_SIGNS,
        Sample((1 - 0.5 ** np.arange(1.0, 9.0),), gradient=False, note="near 1"),
    ),
    errors_=_COMPLEX,
)

_WHOLE = np.array([0.0, 1.0, 2.0, 3.0, -1.0, -2.0, np.inf, np.nan])
_LINE = np.concatenate([np.linspace(0.1, 30.0, 120), 10.0 ** np.arange(2.0, 30.0, 2.5)])
_REFLECTED = np.array([-0.1, -0.3, -0.7, -1.2, -1.8, -2.3, -3.3, -9.75, -20.25])
_FROM_0 = (
    _INTEGERS,
    Sample((_SMALL,), gradient=False, note="small"),
    Sample((_LINE,), gradient=False, note="line"),
    Sample((_REFLECTED,), gradient=False, note="negative"),
)
suite("lgamma", _scipy("gammaln"), _on(0.3, 5, _WHOLE, *_FROM_0), errors_=_COMPLEX)
suite(
    "digamma",
    _scipy("digamma"),
    _on(0.3, 5, np.array([0.0, -0.0, 1.0, 2.0, -1.0, -2.0, np.inf, np.nan]), *_FROM_0),
    errors_=_COMPLEX,
)


def _polygamma(x: Array, n: int) -> Array:
    from scipy import special

    wide = np.asarray(x, np.float64)
    if n == 0:
        return np.asarray(special.digamma(wide))
    # SciPy sums the series from the left of 0, pole by pole.
    return np.asarray((-1.0) ** (n + 1) * special.gamma(n + 1.0) * special.zeta(n + 1.0, wide))


suite(
    "polygamma",
    _polygamma,
    (
        Sample((uniform(0.3, 5, 3, 4),), {"n": 1}),
        Sample((uniform(0.3, 5, 3, 4),), {"n": 2}, note="n=2"),
        Sample((uniform(0.3, 5, 3, 4),), {"n": 0}, note="n=0"),
        Sample((uniform(0.3, 5),), {"n": 1}, note="0-d"),
        Sample((normal(0, 3),), {"n": 1}, note="empty"),
        Sample((integers(1, 9, 3, 2),), {"n": 1}, note="integers"),
        Sample((_LINE[:120],), {"n": 3}, gradient=False, note="line"),
        Sample((_REFLECTED,), {"n": 1}, gradient=False, note="negative"),
        Sample(
            (np.array([0.0, 1.0, -1.0, np.inf, np.nan]),), {"n": 1}, gradient=False, note="special"
        ),
    ),
    errors_=(
        *(((cnormal(3),), {"n": 1}, errors.DTypeError),),
        ((normal(3),), {"n": -1}, errors.InputValueError),
        ((normal(3),), {"n": 1.5}, errors.InputTypeError),
    ),
)


def _xlogy(x: Array, y: Array) -> Array:
    return np.where((x == 0) & ~np.isnan(y), 0, x * np.log(np.where(x == 0, 1, y)))


suite(
    "xlogy",
    _xlogy,
    (
        Sample((normal(3, 4), uniform(0.3, 3, 3, 4))),
        Sample((normal(3, 1), uniform(0.3, 3, 4)), note="broadcast"),
        Sample((normal(), uniform(0.3, 3)), note="0-d"),
        Sample((normal(0, 3), normal(1, 3)), note="empty"),
        Sample((integers(0, 5, 3, 2), integers(1, 5, 3, 2)), note="integers"),
        Sample(
            (
                np.array([0.0, 0.0, 0.0, 1.0, 2.0, np.inf]),
                np.array([0.0, -1.0, np.inf, 0.0, np.nan, 2.0]),
            ),
            gradient=False,
            note="special",
        ),
    ),
    errors_=(((normal(2, 3), normal(2)), {}, errors.ShapeError),),
)
