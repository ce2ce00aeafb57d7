"""Samples of systems of linear equations, inverses and determinants."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback import errors
from pullback.conformance.sample import Array, Sample, cnormal, integers, normal, suite


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
    ((normal(2, 3),), {}, errors.ShapeError),
    ((normal(3),), {}, errors.ShapeError),
]
_SINGULAR: Any = ((np.array([[1.0, 2.0], [2.0, 4.0]]),), {}, errors.InputValueError)
_SQUARE = [
    Sample((regular(3, 3),)),
    Sample((regular(2, 3, 3),)),
    Sample((cregular(2, 3, 3),)),
    Sample((regular(1, 1),)),
    Sample((normal(0, 3, 3),), note="no matrices"),
    Sample((integers(1, 5, 2, 2) + 5 * np.eye(2, dtype=np.int32),), note="integers"),
]

suite(
    "solve",
    np.linalg.solve,
    [
        Sample((regular(3, 3), normal(3))),
        Sample((regular(3, 3), normal(3, 2))),
        Sample((regular(2, 3, 3), normal(3)), note="one vector for all"),
        Sample((regular(2, 3, 3), normal(2, 3, 4))),
        Sample((regular(2, 1, 3, 3), normal(4, 3, 2)), note="broadcast"),
        Sample((cregular(3, 3), cnormal(3, 2, seed=3))),
        Sample((regular(3, 3), normal(3, 0))),
        Sample((normal(0, 3, 3), normal(3)), note="no matrices"),
    ],
    errors_=[
        ((normal(2, 3), normal(2)), {}, errors.ShapeError),
        ((normal(3, 3), normal(2)), {}, errors.ShapeError),
        ((normal(3, 3), normal(2, 3)), {}, errors.ShapeError),
        (
            (np.array([[1.0, 2.0], [2.0, 4.0]]), np.array([1.0, 1.0])),
            {},
            errors.InputValueError,
        ),
    ],
)
suite("inv", np.linalg.inv, _SQUARE, errors_=[*NOT_SQUARE, _SINGULAR])
suite(
    "matrix_power",
    lambda x, *, n: np.linalg.matrix_power(x, n),
    [
        Sample((one.inputs[0] / 2 if one.inputs[0].dtype.kind != "i" else one.inputs[0],), {"n": n})
        for one, n in zip((*_SQUARE, *_SQUARE[:3]), (3, 2, 5, 0, 2, 3, -1, -2, 1), strict=True)
    ],
    errors_=[
        ((normal(2, 3),), {"n": 2}, errors.ShapeError),
        ((normal(2, 2),), {"n": 0.5}, errors.InputTypeError),
    ],
)
_DETERMINED = [
    *_SQUARE,
    Sample((normal(0, 0),), note="no elements"),
    Sample((np.array([[0.0, 2.0], [1.0, 0.0]]),), note="negative"),
]
suite("slogdet", lambda x: tuple(np.linalg.slogdet(x)), _DETERMINED, errors_=NOT_SQUARE)
_TWICE = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [0.0, 1.0, -1.0]])


def _det(x: Array) -> Any:
    """By the sum over the first row: exact where the exact one is a small integer."""
    n = x.shape[-1]
    if n == 0:
        return np.ones(x.shape[:-2], x.dtype)
    rest = [np.delete(x[..., 1:, :], j, axis=-1) for j in range(n)]
    terms = [(-1) ** j * x[..., 0, j] * _det(rest[j]) for j in range(n)]
    return np.sum(terms, axis=0)


suite(
    "det",
    _det,
    [
        *_DETERMINED,
        Sample((_TWICE,), gradient=False, note="singular", dtypes=("float64", "float32")),
    ],
    without={"large": "the reference adds a term for each permutation"},
    errors_=NOT_SQUARE,
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
    "_cofactors",
    _cofactors,
    _SQUARE,
    without={"large": "the reference adds a term for each permutation"},
    errors_=NOT_SQUARE,
)


def _cholesky(x: Array, *, upper: bool = False) -> Any:
    turned = np.conj(np.swapaxes(x, -1, -2))
    lower = np.linalg.cholesky((x + turned) / 2)
    return np.conj(np.swapaxes(lower, -1, -2)) if upper else lower


suite(
    "cholesky",
    _cholesky,
    [
        Sample((definite(3, 3),)),
        Sample((definite(2, 3, 3),), {"upper": True}),
        Sample((cdefinite(2, 3, 3),)),
        Sample((cdefinite(3, 3),), {"upper": True}),
        Sample((definite(3, 3) + np.triu(normal(3, 3), 1) / 9,), note="not symmetric"),
        Sample((definite(1, 1),)),
        Sample((normal(0, 3, 3),), note="no matrices"),
    ],
    errors_=[*NOT_SQUARE, ((-np.eye(2),), {}, errors.InputValueError)],
)
