"""Samples of the eigenvalues: of vectors that are free in sign, what does not depend on it."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback_conformance.draws import cnormal, normal
from pullback_conformance.sample import Array, call, rough, suite
from pullback_conformance.samples.solvers import NOT_SQUARE, cdefinite, definite


def _hermitian(x: Array) -> Array:
    return (x + np.conj(np.swapaxes(x, -1, -2))) / 2


def phases(vectors: Array) -> Array:
    """For each column the number of size 1 that makes a certain weighed sum of it positive."""
    weights = np.sin(1 + np.arange(vectors.shape[-2])).astype(vectors.dtype)
    total = np.sum(np.conj(vectors) * weights[:, None], axis=-2, keepdims=True)
    return np.where(total == 0, 1, total / np.where(total == 0, 1, np.abs(total)))


def turned(vectors: Array) -> Array:
    """Column vectors, free in sign or phase, with those chosen."""
    result: Array = vectors * phases(vectors).astype(vectors.dtype)
    return result


def turned_pair(columns: Array, rows: Array) -> tuple[Array, Array]:
    """Columns, and rows that turn against them."""
    chosen = phases(columns).astype(columns.dtype)
    return columns * chosen, rows * np.conj(np.swapaxes(chosen, -1, -2))


_SYMMETRIC = [
    call(definite(3, 3)),
    call(definite(2, 4, 4)),
    call(definite(3, 3) + np.triu(normal(3, 3), 1) / 9, note="not symmetric"),
    rough(cdefinite(2, 3, 3), note="complex"),
    rough(np.diag([2.0, -1.0, 0.5]), note="diagonal"),
    call(normal(1, 1)),
    call(normal(0, 3, 3), note="no matrices"),
]
suite(
    "eigh",
    lambda x: tuple(np.linalg.eigh(_hermitian(x))),
    compare=lambda inputs, found: (found[0], turned(found[1])),
)(*_SYMMETRIC, *NOT_SQUARE)
suite("eigvalsh", lambda x: np.linalg.eigvalsh(_hermitian(x)))(
    *(call(*one.inputs, note=one.note) for one in _SYMMETRIC),
    rough(np.eye(3), note="equal"),
    *NOT_SQUARE,
)

_GENERAL = [
    rough(normal(3, 3, seed=2)),
    rough(normal(2, 4, 4)),
    rough(cnormal(3, 3)),
    rough(np.array([[0.0, 1.0], [-1.0, 0.0]]), note="a rotation"),
    call(normal(0, 3, 3), note="no matrices"),
]


def _complex(x: Array) -> Array:
    return x.astype(np.result_type(x.dtype, np.complex64))


def _ordered(values: Array) -> Any:
    return np.argsort(np.round(values.real, 3) + 1e3 * np.round(values.imag, 3), axis=-1)


def _in_order(inputs: object, found: Any) -> Any:
    values, vectors = found
    order = _ordered(values)
    vectors = np.take_along_axis(vectors, order[..., None, :], axis=-1)
    return np.take_along_axis(values, order, axis=-1), turned(vectors)


#: Their eigenvalues are real and apart, so that all that is free of the vectors is their sign.
_REAL = call(np.triu(normal(4, 4)) * 0.5 + 0.1 + np.diag([1.0, 2.5, -1.0, 4.0]), note="real")
suite("eig", lambda x: tuple(map(_complex, np.linalg.eig(x))), compare=_in_order)(
    _REAL, *_GENERAL, *NOT_SQUARE
)
suite(
    "eigvals",
    lambda x: _complex(np.linalg.eigvals(x)),
    compare=lambda inputs, found: np.take_along_axis(found, _ordered(found), axis=-1),
)(*(call(*one.inputs, note=one.note) for one in (*_GENERAL, _REAL)), *NOT_SQUARE)
