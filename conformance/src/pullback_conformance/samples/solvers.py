"""Samples of systems of linear equations, inverses and determinants."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from pullback import errors
from pullback_conformance.draws import cnormal, integers, normal
from pullback_conformance.sample import Array, call, rough, suite, wrong


def regular(*shape: int, seed: int = 0) -> Array:
    """Square matrices far from singular."""
    return normal(*shape, seed=seed) + 3 * np.eye(shape[-1])


def cregular(*shape: int, seed: int = 0) -> Array:
    """Complex square matrices far from singular."""
    return cnormal(*shape, seed=seed) + 4 * np.eye(shape[-1])


def definite(*shape: int, seed: int = 0) -> Array:
    """Symmetric positive definite matrices."""
    x = normal(*shape, seed=seed)
    return x @ np.swapaxes(x, -1, -2) + np.eye(shape[-1])


def cdefinite(*shape: int, seed: int = 0) -> Array:
    """Hermitian positive definite matrices."""
    x = cnormal(*shape, seed=seed)
    return x @ np.conj(np.swapaxes(x, -1, -2)) + np.eye(shape[-1])


NOT_SQUARE: list[Any] = [
    wrong(errors.ShapeError, normal(2, 3)),
    wrong(errors.ShapeError, normal(3)),
]
_SINGULAR: Any = wrong(errors.InputValueError, np.array([[1.0, 2.0], [2.0, 4.0]]))
_SQUARE = [
    call(regular(3, 3)),
    call(regular(2, 3, 3)),
    call(cregular(2, 3, 3)),
    call(regular(1, 1)),
    call(normal(0, 3, 3), note="no matrices"),
    call(integers(1, 5, 2, 2) + 5 * np.eye(2, dtype=np.int32), note="integers"),
]

suite("solve", np.linalg.solve)(
    call(regular(3, 3), normal(3)),
    call(regular(3, 3), normal(3, 2)),
    call(regular(2, 3, 3), normal(3), note="one vector for all"),
    call(regular(2, 3, 3), normal(2, 3, 4)),
    call(regular(3, 3, 3), normal(3, 3), note="one matrix for all, of as many rows"),
    call(regular(2, 1, 3, 3), normal(4, 3, 2), note="broadcast"),
    call(cregular(3, 3), cnormal(3, 2, seed=3)),
    call(regular(3, 3), normal(3, 0)),
    call(normal(0, 3, 3), normal(3), note="no matrices"),
    wrong(errors.ShapeError, normal(2, 3), normal(2)),
    wrong(errors.ShapeError, normal(3, 3), normal(2)),
    wrong(errors.ShapeError, normal(3, 3), normal(2, 3)),
    wrong(errors.InputValueError, np.array([[1.0, 2.0], [2.0, 4.0]]), np.array([1.0, 1.0])),
)


def _triangular(x1: Array, x2: Array, *, upper: bool = False, unit_diagonal: bool = False) -> Any:
    triangle = np.triu(x1) if upper else np.tril(x1)
    if unit_diagonal:
        triangle = np.where(np.eye(x1.shape[-1], dtype=bool), 1, triangle)
    return np.linalg.solve(triangle, x2)


suite("solve_triangular", _triangular)(
    call(regular(3, 3), normal(3)),
    call(regular(3, 3), normal(3, 2), upper=True),
    call(regular(3, 3) / 3, normal(3, 2), unit_diagonal=True),
    call(regular(2, 3, 3) / 3, normal(3), upper=True, unit_diagonal=True, note="one for all"),
    call(regular(2, 1, 3, 3), normal(4, 3, 2), note="broadcast"),
    call(cregular(3, 3), cnormal(3, 2, seed=3), upper=True),
    call(regular(3, 3), normal(3, 0), note="no right sides"),
    call(normal(0, 3, 3), normal(3), note="no matrices"),
    wrong(errors.ShapeError, normal(2, 3), normal(2)),
    wrong(errors.ShapeError, normal(3, 3), normal(2, 3)),
    wrong(errors.InputValueError, np.array([[0.0, 2.0], [2.0, 4.0]]), np.array([1.0, 1.0])),
)


def _lu(x: Array) -> Any:
    """By Gaussian elimination of each matrix, one column after the other."""
    *stack, m, n = x.shape
    lu = x.astype(x.dtype if x.dtype.kind in "fc" else np.float64)
    pivots = np.zeros((*stack, min(m, n)), np.int32)
    for at in np.ndindex(*stack):
        for j in range(min(m, n)):
            p = j + int(np.argmax(np.abs(lu[at][j:, j])))
            pivots[(*at, j)] = p
            lu[at][[j, p]] = lu[at][[p, j]]
            top = lu[at][j, j]
            lu[at][j + 1 :, j] /= top or 1
            lu[at][j + 1 :, j + 1 :] -= np.outer(lu[at][j + 1 :, j], lu[at][j, j + 1 :])
    return lu, pivots


def _order(pivots: Array, *, rows: int) -> Array:
    order: Array = np.zeros((*pivots.shape[:-1], rows), np.int64) + np.arange(rows)
    for at in np.ndindex(*pivots.shape[:-1]):
        for j, p in enumerate(pivots[at]):
            order[at][[j, p]] = order[at][[p, j]]
    return order


def _lu_solve(lu: Array, pivots: Array, x2: Array) -> Array:
    n = lu.shape[-1]
    order = _order(pivots, rows=n)
    x1 = np.zeros(lu.shape, lu.dtype)
    product = (np.tril(lu, -1) + np.eye(n)) @ np.triu(lu)
    np.put_along_axis(x1, np.broadcast_to(order[..., None], lu.shape), product, axis=-2)
    return np.linalg.solve(x1, x2)


_AS_PLACES = dict.fromkeys(("exceptional", "large", "shared", "equal"), "pivots are places of rows")
suite("row_order", _order, without=_AS_PLACES)(
    call(np.array([2, 1, 2]), rows=3),
    call(np.array([[3, 3], [0, 1]]), rows=4, note="more rows"),
    call(np.array([[0, 1]], np.int8), rows=2, note="int8"),
    call(np.zeros((0, 2), np.int32), rows=2, note="empty"),
    call(np.zeros((3, 0), np.int32), rows=2, note="no pivots"),
    wrong(errors.ShapeError, np.array([0, 1, 2]), rows=2),
    wrong(errors.DTypeError, normal(2), rows=2),
)
suite("lu_factor", _lu)(
    *_SQUARE,
    call(np.flip(regular(4, 4), 0), note="rows in another order"),
    call(np.flip(regular(5, 5), 0)[:, :3], note="tall"),
    call(np.flip(regular(2, 5, 5), 1)[..., :3, :], note="wide"),
    call(np.flip(regular(5, 5), 0)[:3], note="a wide one alone"),
    call(np.flip(cregular(4, 4), 0)[:, :3], note="tall and complex"),
    call(normal(3, 1), note="a column"),
    call(normal(1, 3), note="a row"),
    call(normal(3, 0), note="no columns"),
    call(normal(0, 3), note="no rows"),
    wrong(errors.ShapeError, normal(3)),
)
_FACTORS = _lu(np.stack([regular(3, 3), np.flip(regular(3, 3), 0)]))
_CFACTORS = _lu(np.flip(cregular(3, 3), 0))
suite("lu_solve", _lu_solve, without=_AS_PLACES)(
    call(*_lu(np.flip(regular(3, 3), 0)), normal(3, 2)),
    call(*_lu(np.flip(regular(3, 3), 0)), normal(3)),
    call(*_FACTORS, normal(3), note="one vector for all"),
    call(*_FACTORS, normal(2, 3, 4)),
    call(_FACTORS[0][:, None], _FACTORS[1][:, None], normal(4, 3, 2), note="broadcast"),
    call(*_CFACTORS, cnormal(3, 2, seed=3)),
    call(*_CFACTORS, normal(3, 2), note="complex factors"),
    call(normal(0, 3, 3), np.zeros((0, 3), np.int32), normal(3), note="no matrices"),
    wrong(errors.ShapeError, normal(2, 3), np.zeros(2, np.int32), normal(2)),
    wrong(errors.ShapeError, normal(3, 3), np.zeros(2, np.int32), normal(3)),
    wrong(errors.ShapeError, normal(3, 3), np.zeros(3, np.int32), normal(2)),
    wrong(errors.DTypeError, normal(3, 3), normal(3), normal(3)),
)
suite("inv", np.linalg.inv)(
    *_SQUARE,
    # The determinants leave the range of float32 on either side.
    *(
        rough(np.diag([n, 2 * n]), dtypes=("float32", "float64"), note=note)
        for n, note in ((1e-25, "tiny"), (1e25, "large"))
    ),
    *NOT_SQUARE,
    _SINGULAR,
)
suite(
    "matrix_power",
    lambda x, *, n: np.linalg.matrix_power(x, n),
    without={"random": "not every matrix of integers has an inverse of integers"},
)(
    *(
        call(one.inputs[0] / 2 if one.inputs[0].dtype.kind != "i" else one.inputs[0], n=n)
        for one, n in zip((*_SQUARE, *_SQUARE[:3]), (3, 2, 5, 0, 2, 3, -1, -2, 1), strict=True)
    ),
    wrong(errors.ShapeError, normal(2, 3), n=2),
    wrong(errors.InputTypeError, normal(2, 2), n=0.5),
)
_DETERMINED = [
    *_SQUARE,
    call(normal(0, 0), note="no elements"),
    call(np.array([[0.0, 2.0], [1.0, 0.0]]), note="negative"),
]
_POWERS_OF_2 = np.array([[[2.0, 0.0], [0.0, 4.0]], [[0.0, 0.0], [0.0, 2.0]]])
suite("slogdet", lambda x: tuple(np.linalg.slogdet(x)))(
    *_DETERMINED,
    replace(
        rough(_POWERS_OF_2, note="the slope of a singular matrix"),
        checks=("slopes",),
        slopes=(np.array([[[0.5, 0.0], [0.0, 0.25]], [[0.0, 0.0], [0.0, 0.5]]]),),
    ),
    *NOT_SQUARE,
)
_TWICE = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [0.0, 1.0, -1.0]])


def _det(x: Array) -> Any:
    """By the sum over the first row: exact where the exact one is a small integer."""
    n = x.shape[-1]
    if n == 0:
        return np.ones(x.shape[:-2], x.dtype)
    rest = [np.delete(x[..., 1:, :], j, axis=-1) for j in range(n)]
    terms = [(-1) ** j * x[..., 0, j] * _det(rest[j]) for j in range(n)]
    return np.sum(terms, axis=0)


suite("det", _det, without={"large": "the reference adds a term for each permutation"})(
    *_DETERMINED, rough(_TWICE, note="singular", dtypes=("float64", "float32")), *NOT_SQUARE
)


def _cofactors(x: Array) -> Any:
    n = x.shape[-1]
    found = np.zeros(x.shape, x.dtype if x.dtype.kind in "fc" else np.float64)
    for i in range(n):
        for j in range(n):
            minor = np.delete(np.delete(x, i, axis=-2), j, axis=-1)
            found[..., i, j] = (-1) ** (i + j) * _det(minor)
    return found


suite(
    "_cofactors", _cofactors, without={"large": "the reference adds a term for each permutation"}
)(*_SQUARE, *NOT_SQUARE)


def _cholesky(x: Array, *, upper: bool = False) -> Any:
    turned = np.conj(np.swapaxes(x, -1, -2))
    lower = np.linalg.cholesky((x + turned) / 2)
    return np.conj(np.swapaxes(lower, -1, -2)) if upper else lower


suite("cholesky", _cholesky)(
    call(definite(3, 3)),
    call(definite(2, 3, 3), upper=True),
    call(cdefinite(2, 3, 3)),
    call(cdefinite(3, 3), upper=True),
    call(definite(3, 3) + np.triu(normal(3, 3), 1) / 9, note="not symmetric"),
    call(definite(1, 1)),
    call(normal(0, 3, 3), note="no matrices"),
    *NOT_SQUARE,
    wrong(errors.InputValueError, -np.eye(2)),
)
