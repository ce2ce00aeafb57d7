"""Samples of the products of matrices and vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback import errors
from pullback.conformance.sample import (
    Array,
    Sample,
    booleans,
    cnormal,
    integers,
    normal,
    suite,
    uniform,
)

_SHAPES: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((3, 4), (4, 2)),
    ((4,), (4,)),
    ((3, 4), (4,)),
    ((4,), (4, 2)),
    ((5, 3, 4), (4, 2)),
    ((5, 3, 4), (4,)),
    ((4,), (5, 4, 2)),
    ((3, 4), (5, 4, 2)),
    ((5, 3, 4), (5, 4, 2)),
    ((5, 1, 3, 4), (2, 4, 2)),
    ((1, 3, 4), (5, 4, 2)),
    ((0, 4), (4, 2)),
    ((3, 0), (0, 2)),
    ((2, 3, 0), (0, 2)),
    ((0, 3, 4), (4, 2)),
)

suite(
    "matmul",
    np.matmul,
    [
        *(Sample((normal(*a), normal(*b, seed=1))) for a, b in _SHAPES),
        Sample((cnormal(3, 4), cnormal(4, 2, seed=3))),
        Sample((cnormal(2, 3, 4), cnormal(4, seed=3))),
        Sample((integers(-9, 9, 3, 4), integers(-9, 9, 4, 2)), note="integers"),
        Sample((uniform(0, 1, 8, 3000), uniform(0, 1, 3000, 5)), note="long rows"),
        Sample(
            (np.array([[np.inf, 1.0], [np.nan, 0.0]]), np.array([[0.0, 1.0], [1.0, 2.0]])),
            gradient=False,
            note="infinities and NaN",
        ),
    ],
    errors_=[
        ((normal(3, 4), normal(3, 4)), {}, errors.ShapeError),
        ((normal(), normal(3)), {}, errors.ShapeError),
        ((normal(2, 3, 4), normal(3, 4, 2)), {}, errors.ShapeError),
        ((booleans(2, 2), booleans(2, 2)), {}, errors.DTypeError),
    ],
)


def _linear(x: Array, weight: Array, bias: Array | None = None) -> Any:
    product = np.tensordot(x, weight, 1)
    return product if bias is None else product + bias


suite(
    "linear",
    _linear,
    [
        Sample((normal(3, 4), normal(4, 2, seed=1), normal(2))),
        Sample((normal(3, 4), normal(4, 2, seed=1), None), note="no bias"),
        Sample((normal(4), normal(4, 2, seed=1), normal(2)), note="one row without its axis"),
        Sample((normal(2, 5, 3, 4), normal(4, 2, seed=1), normal(2)), note="leading axes"),
        Sample((normal(3, 1), normal(1, 1, seed=1), normal(1))),
        Sample((cnormal(2, 3, 4), cnormal(4, 2, seed=3), cnormal(2, seed=5)), note="complex"),
        Sample((integers(-9, 9, 3, 4), integers(-9, 9, 4, 2), integers(-9, 9, 2)), note="integers"),
        Sample((normal(0, 4), normal(4, 2), normal(2)), note="an empty batch"),
        Sample((normal(3, 0), normal(0, 2), normal(2)), note="no inputs"),
        Sample((normal(3, 4), normal(4, 0), normal(0)), note="no outputs"),
        Sample((uniform(0, 1, 8, 3000), uniform(0, 1, 3000, 5), normal(5)), note="long rows"),
        Sample((normal(70, 96), normal(96, 80, seed=1), normal(80)), gradient=False, note="larger"),
        Sample(
            (
                np.array([[np.inf, 1.0], [np.nan, 0.0]]),
                np.array([[0.0, 1.0], [1.0, 2.0]]),
                np.array([-np.inf, 1.0]),
            ),
            gradient=False,
            note="infinities and NaN",
        ),
    ],
    errors_=[
        ((normal(3, 4), normal(3, 4), normal(4)), {}, errors.ShapeError),
        ((normal(3, 4), normal(4, 2), normal(3)), {}, errors.ShapeError),
        ((normal(3, 4), normal(4, 2), normal(1)), {}, errors.ShapeError),
        ((normal(3, 4), normal(4, 2), normal()), {}, errors.ShapeError),
        ((normal(3, 4), normal(4, 2), normal(3, 2)), {}, errors.ShapeError),
        ((normal(3, 4), normal(4), None), {}, errors.ShapeError),
        ((normal(5, 3, 4), normal(5, 4, 2), None), {}, errors.ShapeError),
        ((normal(), normal(1, 2), None), {}, errors.ShapeError),
        ((booleans(2, 2), booleans(2, 2), None), {}, errors.DTypeError),
    ],
)


def _vecdot(x1: Array, x2: Array, *, axis: int = -1) -> Any:
    x1, x2 = np.broadcast_arrays(x1, x2)
    return np.sum(np.conj(x1) * x2, axis=axis, dtype=x1.dtype)


suite(
    "vecdot",
    _vecdot,
    [
        Sample((normal(4), normal(4, seed=1))),
        Sample((normal(3, 4), normal(4, seed=1)), note="broadcast"),
        Sample((normal(3, 4), normal(3, 1, seed=1)), {"axis": -2}),
        Sample((cnormal(3, 4), cnormal(2, 1, 4, seed=3)), note="complex"),
        Sample((integers(-5, 5, 2, 3), integers(-5, 5, 2, 3, seed=1)), note="integers"),
        Sample((normal(2, 0), normal(2, 0))),
    ],
    errors_=[
        ((normal(3, 4), normal(3, 5)), {}, errors.ShapeError),
        ((normal(3, 4), normal(4)), {"axis": -2}, errors.AxisError),
        ((normal(3, 4), normal(3, 4)), {"axis": 1}, errors.AxisError),
    ],
)
suite(
    "outer",
    lambda x1, x2: x1[:, None] * x2[None, :],
    [
        Sample((normal(3), normal(4, seed=1))),
        Sample((cnormal(3), cnormal(2, seed=1))),
        Sample((integers(-5, 5, 2), integers(-5, 5, 3))),
        Sample((normal(0), normal(4))),
    ],
    errors_=[((normal(3, 1), normal(4)), {}, errors.ShapeError)],
)


def _cross(x1: Array, x2: Array, *, axis: int = -1) -> Any:
    x1, x2 = np.broadcast_arrays(x1, x2)
    (a, b, c), (d, e, f) = np.moveaxis(x1, axis, 0), np.moveaxis(x2, axis, 0)
    return np.stack([b * f - c * e, c * d - a * f, a * e - b * d], axis=axis)


def _cross_scale(x1: Array, x2: Array, *, axis: int = -1) -> Any:
    """Each element is a difference of two products: the sum of their sizes."""
    x1, x2 = np.broadcast_arrays(np.abs(x1), np.abs(x2))
    (a, b, c), (d, e, f) = np.moveaxis(x1, axis, 0), np.moveaxis(x2, axis, 0)
    return np.stack([b * f + c * e, c * d + a * f, a * e + b * d], axis=axis)


suite(
    "cross",
    _cross,
    [
        Sample((uniform(1, 2, 3), uniform(-2, -1, 3, seed=1))),
        Sample((normal(2, 3), normal(4, 1, 3, seed=1)), note="broadcast"),
        Sample((normal(3, 4), normal(3, 4, seed=1)), {"axis": -2}),
        Sample((integers(-5, 5, 2, 3), integers(-5, 5, 2, 3, seed=1)), note="integers"),
        Sample((normal(0, 3), normal(0, 3))),
    ],
    errors_=[
        ((normal(2), normal(2)), {}, errors.ShapeError),
        ((normal(3, 3), normal(3)), {"axis": -2}, errors.AxisError),
    ],
    scale=_cross_scale,
)
suite(
    "tensordot",
    lambda x1, x2, *, axes=2: np.tensordot(x1, x2, axes=axes),
    [
        Sample((normal(2, 3, 4), normal(3, 4, 5, seed=1))),
        Sample((normal(2, 3), normal(3, 2, seed=1)), {"axes": 1}),
        Sample((normal(2), normal(3, seed=1)), {"axes": 0}),
        Sample((normal(2, 3, 4), normal(4, 5, 3, seed=1)), {"axes": ([2, 1], [0, 2])}),
        Sample((normal(2, 3, 4), normal(4, 5, 3, seed=1)), {"axes": ((-1,), (0,))}),
        Sample((integers(-5, 5, 2, 3), integers(-5, 5, 2, 3, seed=1)), note="integers"),
        Sample((cnormal(2, 3), cnormal(3, 2, seed=1)), {"axes": 1}),
        Sample((normal(2, 0), normal(0, 3)), {"axes": 1}),
    ],
    errors_=[
        ((normal(2, 3), normal(2, 3)), {"axes": 1}, errors.ShapeError),
        ((normal(2, 3), normal(2, 3)), {"axes": 3}, errors.AxisError),
        ((normal(2, 2), normal(2, 2)), {"axes": ([0, 0], [0, 1])}, errors.AxisError),
    ],
)

_MATRICES = [
    Sample((normal(3, 4),)),
    Sample((normal(3, 4),), {"offset": 1}),
    Sample((normal(3, 4),), {"offset": -2}),
    Sample((normal(2, 4, 3),), {"offset": -1}),
    Sample((normal(2, 3, 3),)),
    Sample((normal(2, 3),), {"offset": 5}, note="outside"),
    Sample((normal(0, 3),)),
    Sample((integers(-5, 5, 3, 3),)),
    Sample((cnormal(2, 3),)),
]
_NO_MATRIX: list[Any] = [((normal(3),), {}, errors.ShapeError)]
suite(
    "diagonal",
    lambda x, *, offset=0: np.diagonal(x, offset, -2, -1),
    _MATRICES,
    errors_=_NO_MATRIX,
)
suite(
    "trace",
    lambda x, *, offset=0, dtype=None: np.sum(
        np.diagonal(x, offset, -2, -1),
        axis=-1,
        dtype=dtype
        or {"int8": "int32", "int16": "int32", "uint8": "uint32", "uint16": "uint32"}.get(
            x.dtype.name, x.dtype
        ),
    ),
    [*_MATRICES, Sample((normal(2, 3, 3),), {"dtype": "float64"}, dtypes=("float32", "float64"))],
    errors_=_NO_MATRIX,
)
