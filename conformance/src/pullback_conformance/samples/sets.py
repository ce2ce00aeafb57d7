"""Samples of the distinct elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback_conformance.draws import booleans, integers, normal
from pullback_conformance.sample import Array, call, rough, suite

# The number of values depends on what is equal: there the gradient is that of a choice.
_ANY = [
    call(np.array([3.0, 1.0, -2.5, -1.0]), note="distinct"),
    call(np.array([[2.0, 1.0], [1.5, 0.5]]), note="a matrix of distinct elements"),
    rough(np.array([3.0, 1.0, 3.0, -1.0, 1.0, 3.0])),
    rough(np.array([[2.0, 1.0], [1.0, 2.0], [0.5, 0.5]]), note="a matrix"),
    rough(np.array([1.0, np.nan, 1.0, np.nan, np.inf]), note="each NaN is one"),
    call(integers(-3, 3, 4, 5), note="integers"),
    call(booleans(7), note="truth values"),
    rough(np.array([1j, 1.0, 1j, 1 + 1j, 0.0]), note="complex"),
    call(np.array([1j, 1.0, 2 + 1j, 0.5]), note="distinct complex numbers"),
    call(normal(0, 3), note="nothing"),
    call(normal(), note="0-d"),
]


def _all(x: Array) -> Any:
    found = np.unique(x, True, True, True, equal_nan=False)
    values, indices, inverse, counts = found
    return values, indices, inverse.reshape(x.shape), counts


_ORDER = {"exceptional": "the order of several NaN is open"}
suite("unique_all", _all, either_zero=True, without=_ORDER)(*_ANY)
suite("unique_values", lambda x: _all(x)[0], either_zero=True)(*_ANY)
suite("unique_counts", lambda x: (_all(x)[0], _all(x)[3]), either_zero=True)(*_ANY)
suite("unique_inverse", lambda x: _all(x)[::2], either_zero=True, without=_ORDER)(*_ANY)


def _isin(x1: Array, x2: Array, *, invert: bool = False) -> Any:
    # NaN equals nothing, and is no member of a set of what equals itself.
    among = {b for b in x2.ravel().tolist() if b == b}
    flat = [(a in among) != invert for a in x1.ravel().tolist()]
    return np.array(flat, np.bool_).reshape(x1.shape)


suite("isin", _isin)(
    call(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([2.0, 5.0, 4.0])),
    call(np.array([1.0, 2.0]), np.array([[2.0], [5.0]]), invert=True),
    call(np.array([np.nan, np.inf]), np.array([np.nan, np.inf]), note="NaN"),
    call(integers(0, 9, 5), integers(0, 9, 3), note="integers"),
    call(booleans(3), np.array([True]), note="truth values"),
    call(np.array([1j, 1.0]), np.array([1j]), note="complex"),
    call(normal(3), normal(0), note="among nothing"),
    call(normal(0), normal(3), note="nothing"),
)
