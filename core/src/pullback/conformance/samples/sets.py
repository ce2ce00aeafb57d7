"""Samples of the distinct elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.conformance.sample import Array, Sample, booleans, integers, normal, suite

# The number of values depends on what is equal: there the gradient is that of a choice.
_ANY = [
    Sample((np.array([3.0, 1.0, -2.5, -1.0]),), note="distinct"),
    Sample((np.array([[2.0, 1.0], [1.5, 0.5]]),), note="a matrix of distinct elements"),
    Sample((np.array([3.0, 1.0, 3.0, -1.0, 1.0, 3.0]),), gradient=False),
    Sample((np.array([[2.0, 1.0], [1.0, 2.0], [0.5, 0.5]]),), gradient=False, note="a matrix"),
    Sample((np.array([1.0, np.nan, 1.0, np.nan, np.inf]),), gradient=False, note="each NaN is one"),
    Sample((integers(-3, 3, 4, 5),), note="integers"),
    Sample((booleans(7),), note="truth values"),
    Sample((np.array([1j, 1.0, 1j, 1 + 1j, 0.0]),), gradient=False, note="complex"),
    Sample((np.array([1j, 1.0, 2 + 1j, 0.5]),), note="distinct complex numbers"),
    Sample((normal(0, 3),), note="nothing"),
    Sample((normal(),), note="0-d"),
]


def _all(x: Array) -> Any:
    found = np.unique(x, True, True, True, equal_nan=False)
    values, indices, inverse, counts = found
    return values, indices, inverse.reshape(x.shape), counts


suite(
    "unique_all",
    _all,
    _ANY,
    either_zero=True,
    without={"exceptional": "the order of several NaN is open"},
)
suite("unique_values", lambda x: _all(x)[0], _ANY, either_zero=True)
suite("unique_counts", lambda x: (_all(x)[0], _all(x)[3]), _ANY, either_zero=True)
suite(
    "unique_inverse",
    lambda x: (_all(x)[0], _all(x)[2]),
    _ANY,
    either_zero=True,
    without={"exceptional": "the order of several NaN is open"},
)


def _isin(x1: Array, x2: Array, *, invert: bool = False) -> Any:
    # NaN equals nothing, and is no member of a set of what equals itself.
    among = {b for b in x2.ravel().tolist() if b == b}
    flat = [(a in among) != invert for a in x1.ravel().tolist()]
    return np.array(flat, np.bool_).reshape(x1.shape)


suite(
    "isin",
    _isin,
    [
        Sample((np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([2.0, 5.0, 4.0]))),
        Sample((np.array([1.0, 2.0]), np.array([[2.0], [5.0]])), {"invert": True}),
        Sample((np.array([np.nan, np.inf]), np.array([np.nan, np.inf])), note="NaN"),
        Sample((integers(0, 9, 5), integers(0, 9, 3)), note="integers"),
        Sample((booleans(3), np.array([True])), note="truth values"),
        Sample((np.array([1j, 1.0]), np.array([1j])), note="complex"),
        Sample((normal(3), normal(0)), note="among nothing"),
        Sample((normal(0), normal(3)), note="nothing"),
    ],
)
