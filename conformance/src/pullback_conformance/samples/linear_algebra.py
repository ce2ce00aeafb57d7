"""Samples of the products of matrices and vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback import errors
from pullback_conformance.draws import booleans, cnormal, integers, normal, uniform
from pullback_conformance.sample import Array, call, rough, suite, wrong
from pullback_conformance.samples.reductions import accumulated

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

suite("matmul", np.matmul)(
    *(call(normal(*a), normal(*b, seed=1)) for a, b in _SHAPES),
    call(normal(3), normal(2, 3, 3, seed=1), note="a vector and square matrices"),
    call(cnormal(3, 4), cnormal(4, 2, seed=3)),
    call(cnormal(2, 3, 4), cnormal(4, seed=3)),
    call(integers(-9, 9, 3, 4), integers(-9, 9, 4, 2), note="integers"),
    call(uniform(0, 1, 8, 3000), uniform(0, 1, 3000, 5), note="long rows"),
    rough(
        np.array([[np.inf, 1.0], [np.nan, 0.0]]),
        np.array([[0.0, 1.0], [1.0, 2.0]]),
        note="infinities and NaN",
    ),
    wrong(errors.ShapeError, normal(3, 4), normal(3, 4)),
    wrong(errors.ShapeError, normal(), normal(3)),
    wrong(errors.ShapeError, normal(2, 3, 4), normal(3, 4, 2)),
    wrong(errors.DTypeError, booleans(2, 2), booleans(2, 2)),
)


def _linear(x: Array, weight: Array, bias: Array | None = None) -> Any:
    product = np.tensordot(x, weight, 1)
    return product if bias is None else product + bias


suite("linear", _linear)(
    call(normal(3, 4), normal(4, 2, seed=1), normal(2)),
    call(normal(3, 4), normal(4, 2, seed=1), None, note="no bias"),
    call(normal(4), normal(4, 2, seed=1), normal(2), note="one row without its axis"),
    call(normal(2, 5, 3, 4), normal(4, 2, seed=1), normal(2), note="leading axes"),
    call(normal(3, 1), normal(1, 1, seed=1), normal(1)),
    call(cnormal(2, 3, 4), cnormal(4, 2, seed=3), cnormal(2, seed=5), note="complex"),
    call(integers(-9, 9, 3, 4), integers(-9, 9, 4, 2), integers(-9, 9, 2), note="integers"),
    call(normal(0, 4), normal(4, 2), normal(2), note="an empty batch"),
    call(normal(3, 0), normal(0, 2), normal(2), note="no inputs"),
    call(normal(3, 4), normal(4, 0), normal(0), note="no outputs"),
    call(uniform(0, 1, 8, 3000), uniform(0, 1, 3000, 5), normal(5), note="long rows"),
    rough(normal(70, 96), normal(96, 80, seed=1), normal(80), note="larger"),
    rough(
        np.array([[np.inf, 1.0], [np.nan, 0.0]]),
        np.array([[0.0, 1.0], [1.0, 2.0]]),
        np.array([-np.inf, 1.0]),
        note="infinities and NaN",
    ),
    wrong(errors.ShapeError, normal(3, 4), normal(3, 4), normal(4)),
    wrong(errors.ShapeError, normal(3, 4), normal(4, 2), normal(3)),
    wrong(errors.ShapeError, normal(3, 4), normal(4, 2), normal(1)),
    wrong(errors.ShapeError, normal(3, 4), normal(4, 2), normal()),
    wrong(errors.ShapeError, normal(3, 4), normal(4, 2), normal(3, 2)),
    wrong(errors.ShapeError, normal(3, 4), normal(4), None),
    wrong(errors.ShapeError, normal(5, 3, 4), normal(5, 4, 2), None),
    wrong(errors.ShapeError, normal(), normal(1, 2), None),
    wrong(errors.DTypeError, booleans(2, 2), booleans(2, 2), None),
)


def _vecdot(x1: Array, x2: Array, *, axis: int = -1) -> Any:
    x1, x2 = np.broadcast_arrays(x1, x2)
    return np.sum(np.conj(x1) * x2, axis=axis, dtype=x1.dtype)


suite("vecdot", _vecdot)(
    call(normal(4), normal(4, seed=1)),
    call(normal(3, 4), normal(4, seed=1), note="broadcast"),
    call(normal(3, 4), normal(3, 1, seed=1), axis=-2),
    call(cnormal(3, 4), cnormal(2, 1, 4, seed=3), note="complex"),
    call(integers(-5, 5, 2, 3), integers(-5, 5, 2, 3, seed=1), note="integers"),
    call(normal(2, 0), normal(2, 0)),
    wrong(errors.ShapeError, normal(3, 4), normal(3, 5)),
    wrong(errors.AxisError, normal(3, 4), normal(4), axis=-2),
    wrong(errors.AxisError, normal(3, 4), normal(3, 4), axis=1),
)
suite("outer", lambda x1, x2: x1[:, None] * x2[None, :])(
    call(normal(3), normal(4, seed=1)),
    call(cnormal(3), cnormal(2, seed=1)),
    call(integers(-5, 5, 2), integers(-5, 5, 3)),
    call(normal(0), normal(4)),
    wrong(errors.ShapeError, normal(3, 1), normal(4)),
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


suite("cross", _cross, scale=_cross_scale)(
    call(uniform(1, 2, 3), uniform(-2, -1, 3, seed=1)),
    call(normal(2, 3), normal(4, 1, 3, seed=1), note="broadcast"),
    call(normal(3, 4), normal(3, 4, seed=1), axis=-2),
    call(integers(-5, 5, 2, 3), integers(-5, 5, 2, 3, seed=1), note="integers"),
    call(normal(0, 3), normal(0, 3)),
    wrong(errors.ShapeError, normal(2), normal(2)),
    wrong(errors.AxisError, normal(3, 3), normal(3), axis=-2),
)
suite("tensordot", lambda x1, x2, *, axes=2: np.tensordot(x1, x2, axes=axes), slow=True)(
    call(normal(2, 3, 4), normal(3, 4, 5, seed=1)),
    call(normal(2, 3), normal(3, 2, seed=1), axes=1),
    call(normal(3, 3, 2), normal(3, 3, 2, seed=1), axes=([1, 0], [0, 1]), note="axes of one size"),
    call(normal(2), normal(3, seed=1), axes=0),
    call(normal(2, 3, 4), normal(4, 5, 3, seed=1), axes=([2, 1], [0, 2])),
    call(normal(2, 3, 4), normal(4, 5, 3, seed=1), axes=((-1,), (0,))),
    call(normal(2, 3, 4), normal(4, 5, 3, seed=1), axes=(1, 2), note="one axis each"),
    call(normal(2, 3, 4), normal(4, 5, 3, seed=1), axes=(-1, [0]), note="an axis and a sequence"),
    call(integers(-5, 5, 2, 3), integers(-5, 5, 2, 3, seed=1), note="integers"),
    call(cnormal(2, 3), cnormal(3, 2, seed=1), axes=1),
    call(normal(2, 0), normal(0, 3), axes=1),
    wrong(errors.ShapeError, normal(2, 3), normal(2, 3), axes=1),
    wrong(errors.AxisError, normal(2, 3), normal(2, 3), axes=3),
    wrong(errors.AxisError, normal(2, 2), normal(2, 2), axes=([0, 0], [0, 1])),
)

_MATRICES = [
    call(normal(3, 4)),
    call(normal(3, 4), offset=1),
    call(normal(3, 4), offset=-2),
    call(normal(2, 4, 3), offset=-1),
    call(normal(2, 3, 3)),
    call(normal(2, 3), offset=5, note="outside"),
    call(normal(0, 3)),
    call(integers(-5, 5, 3, 3)),
    call(cnormal(2, 3)),
]
_NO_MATRIX: list[Any] = [wrong(errors.ShapeError, normal(3))]
suite("diagonal", lambda x, *, offset=0: np.diagonal(x, offset, -2, -1))(*_MATRICES, *_NO_MATRIX)
suite(
    "trace",
    lambda x, *, offset=0, dtype=None: accumulated(np.sum)(
        np.diagonal(x, offset, -2, -1), axis=-1, dtype=dtype
    ),
)(*_MATRICES, call(normal(2, 3, 3), dtype="float64", dtypes=("float32", "float64")), *_NO_MATRIX)
