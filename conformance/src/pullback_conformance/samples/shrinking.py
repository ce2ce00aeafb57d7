"""Samples of the activations that are 0 for some inputs."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from pullback import errors
from pullback_conformance.draws import away, integers, normal
from pullback_conformance.sample import call, rough, suite, wrong

Array: TypeAlias = Any

_KINKED = (
    call(away(3, 4) * 2),
    call(away(seed=2), note="0-d"),
    call(normal(0, 3), note="empty"),
    call(np.array([0.25, -0.25, 0.75, -0.75, 2.5, -2.5, 9.0, -9.0]), note="both sides"),
    call(integers(-9, 9, 3, 4) * 2 + 1, note="odd integers"),
)
_EDGES = rough(
    np.array([0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1e4, -1e4, np.inf, -np.inf, np.nan]), note="edges"
)


def _soft(x: Array, *, threshold: float = 0.5) -> Array:
    return np.where(np.abs(x) <= threshold, 0, x - np.sign(x) * threshold)


suite("soft_shrink", _soft, either_zero=True)(
    *_KINKED,
    _EDGES,
    call(away(3, 4), threshold=0.125),
    wrong(errors.InputValueError, normal(2), threshold=-1.0),
)
suite(
    "hard_shrink",
    lambda x, *, threshold=0.5: np.where(np.abs(x) <= threshold, 0, x),
    either_zero=True,
)(
    *_KINKED,
    _EDGES,
    call(away(3, 4), threshold=0.125),
    wrong(errors.InputValueError, normal(2), threshold=-1.0),
)
suite("tanh_shrink", lambda x: x - np.tanh(x), scale=lambda x: np.abs(x) + np.abs(np.tanh(x)))(
    *_KINKED, call(np.linspace(-30.0, 30.0, 61), note="line"), rough(np.array([np.inf, np.nan]))
)
suite("threshold", lambda x, *, threshold, value: np.where(x <= threshold, value, x))(
    call(away(3, 4), threshold=0.125, value=-2.5),
    call(away(seed=2), threshold=-0.25, value=0.0, note="0-d"),
    call(normal(0, 3), threshold=0.0, value=1.0, note="empty"),
    rough(_EDGES.inputs[0], threshold=0.5, value=7.0, note="edges"),
)


def _squareplus(x: Array, *, b: float = 4.0) -> Array:
    root = np.hypot(x, np.sqrt(b))
    return np.where(x > 0, (x + root) / 2, b / 2 / (np.abs(x) + root))


suite("squareplus", _squareplus)(
    call(normal(3, 4) * 2),
    call(normal(seed=2), note="0-d"),
    call(normal(0, 3), note="empty"),
    call(np.linspace(-30.0, 30.0, 61), note="line"),
    call(normal(3, 4), b=0.25),
    rough(np.array([1e4, -1e4, np.nan, np.inf]), note="edges"),
    wrong(errors.InputValueError, normal(2), b=0.0),
)
suite("sparse_plus", lambda x: np.where(x >= 1, x, np.where(x <= -1, 0, (x + 1) ** 2 / 4)))(
    *_KINKED, _EDGES
)
suite("sparse_sigmoid", lambda x: np.clip((x + 1) / 2, 0, 1))(*_KINKED, _EDGES)


def _sparsemax(x: Array, *, axis: int = -1) -> Array:
    """Each row by trying every number of probabilities that are not 0."""
    rows = np.moveaxis(x, axis, -1)
    y = np.zeros_like(rows)
    for spot in np.ndindex(rows.shape[:-1]):
        row = rows[spot]
        ordered = np.sort(row)[::-1]
        for k in range(1, len(row) + 1):
            level = (ordered[:k].sum() - 1) / k
            if ordered[k - 1] > level and (k == len(row) or ordered[k] <= level):
                y[spot] = np.maximum(row - level, 0)
    return np.moveaxis(y, -1, axis)


suite(
    "sparsemax",
    _sparsemax,
    scale=lambda x, **how: 0 * x + (1 + 2 * np.max(np.abs(x), initial=0)) * (1 + max(x.shape)),
    without={
        "exceptional": "infinities have no projection",
        "large": "the reference tries every number of classes",
    },
)(
    call(normal(3, 5)),
    call(normal(3, 5) * 3, axis=0),
    call(normal(2, 3, 4), axis=-2),
    call(normal(6, seed=3) / 8, note="none is 0"),
    call(normal(1), note="one class"),
    call(normal(0, 3), note="no rows"),
    rough(np.array([[1.0, 1.0, 0.0], [2.0, 2.0, 2.0]]), note="ties"),
    rough(np.array([[300.0, -300.0, 0.0]]), note="large"),
    call(integers(-5, 5, 2, 3) * 3, note="integers"),
    wrong(errors.AxisError, normal(2, 3), axis=2),
)
