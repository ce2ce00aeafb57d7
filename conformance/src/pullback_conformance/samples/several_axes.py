"""Samples of gathering and scattering in several axes."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from pullback import errors
from pullback_conformance.draws import booleans, cnormal, distinct, integers, normal
from pullback_conformance.sample import call, suite, wrong

Array: TypeAlias = Any

_POSITIONS = dict.fromkeys(("exceptional", "large", "shared", "equal"), "indices are positions")


def _gather(x: Array, indices: Array) -> Array:
    count = indices.shape[-1]
    y: Array = np.zeros((*indices.shape[:-1], *x.shape[count:]), x.dtype)
    for spot in np.ndindex(indices.shape[:-1]):
        y[spot] = x[tuple(indices[spot])]
    return y


def _scatter(x: Array, indices: Array, updates: Array, *, mode: str = "update") -> Array:
    y = x.copy()
    for spot in np.ndindex(indices.shape[:-1]):
        at = tuple(indices[spot])
        if mode == "update":
            y[at] = updates[spot]
        elif mode == "add":
            y[at] = y[at] + updates[spot]
        else:
            combine = {"multiply": np.multiply, "max": np.maximum, "min": np.minimum}[mode]
            y[at] = combine(y[at], updates[spot])
    return y


def _apart(*sizes: int, count: int, seed: int = 0) -> Array:
    """Positions that do not repeat, some of them counted from the end."""
    chosen = np.random.default_rng(seed).permutation(int(np.prod(sizes)))[:count]
    found = np.stack(np.unravel_index(chosen, sizes), axis=-1)
    found[::2] -= np.array(sizes)
    return found


_AGAIN = np.array([[0, 1], [2, 3], [0, 1], [-3, -3]])  # one place three times
suite("gather_nd", _gather, without=_POSITIONS)(
    call(normal(3, 4, 2), _apart(3, 4, count=5)),
    call(normal(3, 4, 2), _AGAIN, note="a place again"),
    call(normal(3, 4), _apart(3, 4, count=6).reshape(2, 3, 2), note="elements"),
    call(normal(5, 2), _apart(5, count=3), note="one axis"),
    call(normal(2, 3, 4), _apart(2, 3, 4, count=1)[0], note="one element"),
    call(normal(3, 4), np.zeros((0, 2), np.int64), note="nothing"),
    call(booleans(3, 4), _AGAIN, note="truth values"),
    call(integers(-9, 9, 3, 4), _AGAIN.astype(np.int32), note="integers"),
    wrong(errors.ShapeError, normal(3, 4), np.zeros((2, 3), np.int64)),
    wrong(errors.ShapeError, normal(3, 4), np.zeros((2, 0), np.int64)),
    wrong(errors.IndexingError, normal(3, 4), np.array([[0, 4]])),
    wrong(errors.DTypeError, normal(3, 4), normal(1, 2)),
)
suite("scatter_nd", _scatter, without=_POSITIONS)(
    *(
        call(distinct(3, 4, 2), _apart(3, 4, count=5), distinct(5, 2, seed=3), mode=mode)
        for mode in ("update", "add", "multiply", "max", "min")
    ),
    *(
        call(distinct(3, 4), _AGAIN, distinct(4, seed=5), mode=mode, note="a place again")
        for mode in ("add", "multiply", "max", "min")
    ),
    call(normal(3, 4), _apart(3, 4, count=6).reshape(2, 3, 2), normal(2, 3), note="elements"),
    call(normal(5, 2), _apart(5, count=3), normal(3, 2), mode="add", note="one axis"),
    call(normal(3, 4), np.zeros((0, 2), np.int64), normal(0), note="nothing"),
    call(booleans(3, 4), _apart(3, 4, count=3), booleans(3), note="truth values"),
    call(integers(-9, 9, 3, 4), _AGAIN, integers(-9, 9, 4), mode="add", note="integers"),
    wrong(errors.ShapeError, normal(3, 4), np.zeros((2, 2), np.int64), normal(3)),
    wrong(errors.ShapeError, normal(3, 4), np.zeros((2, 3), np.int64), normal(2)),
    wrong(errors.IndexingError, normal(3, 4), np.array([[3, 0]]), normal(1)),
    wrong(errors.InputValueError, normal(3, 4), np.array([[0, 0]]), normal(1), mode="mean"),
    call(cnormal(3, 4), _apart(3, 4, count=3), cnormal(3), mode="multiply", note="complex"),
    wrong(errors.DTypeError, cnormal(3, 4), np.array([[0, 0]]), cnormal(1), mode="max"),
    wrong(errors.DTypeError, booleans(3, 4), np.array([[0, 0]]), booleans(1), mode="min"),
)
