"""Samples of the decompositions: of vectors that are free in sign, what does not depend on it."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback import errors
from pullback.conformance.sample import Array, Sample, cnormal, normal, suite
from pullback.conformance.samples.solvers import NOT_SQUARE, cdefinite, definite

_NO_MATRIX: list[Any] = [((normal(3),), {}, errors.ShapeError)]


def _hermitian(x: Array) -> Array:
    return (x + np.conj(np.swapaxes(x, -1, -2))) / 2


def _phases(vectors: Array) -> Array:
    """For each column the number of size 1 that makes a certain weighed sum of it positive."""
    weights = np.sin(1 + np.arange(vectors.shape[-2])).astype(vectors.dtype)
    total = np.sum(np.conj(vectors) * weights[:, None], axis=-2, keepdims=True)
    return np.where(total == 0, 1, total / np.where(total == 0, 1, np.abs(total)))


def _turned(vectors: Array) -> Array:
    """Column vectors, free in sign or phase, with those chosen."""
    return vectors * _phases(vectors).astype(vectors.dtype)


def _turned_pair(columns: Array, rows: Array) -> tuple[Array, Array]:
    """Columns, and rows that turn against them."""
    phases = _phases(columns).astype(columns.dtype)
    return columns * phases, rows * np.conj(np.swapaxes(phases, -1, -2))


_SYMMETRIC = [
    Sample((definite(3, 3),)),
    Sample((definite(2, 4, 4),)),
    Sample((definite(3, 3) + np.triu(normal(3, 3), 1) / 9,), note="not symmetric"),
    Sample((cdefinite(2, 3, 3),), gradient=False, note="complex"),
    Sample((np.diag([2.0, -1.0, 0.5]),), gradient=False, note="diagonal"),
    Sample((normal(1, 1),)),
    Sample((normal(0, 3, 3),), note="no matrices"),
]
suite(
    "eigh",
    lambda x: tuple(np.linalg.eigh(_hermitian(x))),
    _SYMMETRIC,
    errors_=NOT_SQUARE,
    compare=lambda inputs, found: (found[0], _turned(found[1])),
)
suite(
    "eigvalsh",
    lambda x: np.linalg.eigvalsh(_hermitian(x)),
    [
        *(Sample(one.inputs, note=one.note) for one in _SYMMETRIC),
        Sample((np.eye(3),), gradient=False, note="equal"),
    ],
    errors_=NOT_SQUARE,
)

_GENERAL = [
    Sample((normal(3, 3, seed=2),), gradient=False),
    Sample((normal(2, 4, 4),), gradient=False),
    Sample((cnormal(3, 3),), gradient=False),
    Sample((np.array([[0.0, 1.0], [-1.0, 0.0]]),), gradient=False, note="a rotation"),
    Sample((normal(0, 3, 3),), note="no matrices"),
]


def _complex(x: Array) -> Array:
    return x.astype(np.result_type(x.dtype, np.complex64))


def _ordered(values: Array) -> Any:
    return np.argsort(np.round(values.real, 3) + 1e3 * np.round(values.imag, 3), axis=-1)


def _in_order(inputs: Any, found: Any) -> Any:
    values, vectors = found
    order = _ordered(values)
    vectors = np.take_along_axis(vectors, order[..., None, :], axis=-1)
    return np.take_along_axis(values, order, axis=-1), _turned(vectors)


suite(
    "eig",
    lambda x: tuple(map(_complex, np.linalg.eig(x))),
    _GENERAL,
    errors_=NOT_SQUARE,
    compare=_in_order,
)
suite(
    "eigvals",
    lambda x: _complex(np.linalg.eigvals(x)),
    _GENERAL,
    errors_=NOT_SQUARE,
    compare=lambda inputs, found: np.take_along_axis(found, _ordered(found), axis=-1),
)

_TALL_AND_WIDE = [
    Sample((normal(3, 3),)),
    Sample((normal(4, 2),)),
    Sample((normal(2, 4),)),
    Sample((normal(2, 3, 2),)),
    Sample((cnormal(3, 2),)),
    Sample((cnormal(2, 3),)),
    Sample((normal(0, 3, 2),), note="no matrices"),
]


def _signed_factors(inputs: Any, found: Any) -> Any:
    q, r = found
    k = min(q.shape[-1], r.shape[-1])
    first, rows = _turned_pair(q[..., :k], r[..., :k, :])
    return (
        np.concatenate([first, _turned(q[..., k:])], axis=-1),
        np.concatenate([rows, r[..., k:, :]], axis=-2),
    )


suite(
    "qr",
    lambda x, *, mode="reduced": tuple(np.linalg.qr(x, mode)),
    [
        *_TALL_AND_WIDE,
        Sample((normal(3, 2),), {"mode": "complete"}, gradient=False),
        Sample((normal(2, 4),), {"mode": "complete"}),
    ],
    errors_=[*_NO_MATRIX, ((normal(2, 2),), {"mode": "raw"}, errors.InputValueError)],
    compare=_signed_factors,
)


def _unsigned(inputs: Any, found: Any) -> Any:
    left, values, right = found
    k = values.shape[-1]
    columns, rows = _turned_pair(left[..., :k], right[..., :k, :])
    # Beyond the singular values, at most one vector: free in sign as well.
    last = np.swapaxes(_turned(np.swapaxes(right[..., k:, :], -1, -2)), -1, -2)
    return (
        np.concatenate([columns, _turned(left[..., k:])], axis=-1),
        values,
        np.concatenate([rows, last], axis=-2),
    )


suite(
    "svd",
    lambda x, *, full_matrices=True: tuple(np.linalg.svd(x, full_matrices)),
    [
        *(
            Sample(one.inputs, {"full_matrices": False}, gradient=one.inputs[0].dtype.kind == "f")
            for one in _TALL_AND_WIDE
        ),
        *(Sample((x,), gradient=False) for x in (normal(3, 3), normal(3, 2), normal(2, 2, 3))),
        Sample((cnormal(3, 2),), gradient=False),
    ],
    errors_=_NO_MATRIX,
    compare=_unsigned,
)
suite(
    "svdvals",
    lambda x: np.linalg.svd(x, compute_uv=False),
    [*_TALL_AND_WIDE, Sample((np.ones((3, 3)),), gradient=False, note="rank 1")],
    errors_=_NO_MATRIX,
)

_RANK_1 = np.outer([1.0, 2.0, 3.0], [1.0, -1.0])


def _rank(x: Array, rtol: Any = None) -> Any:
    s = np.linalg.svd(x, compute_uv=False)
    rtol = max(x.shape[-2:]) * np.finfo(np.float32).eps if rtol is None else rtol
    return np.sum(s > np.asarray(rtol)[..., None] * s[..., :1], axis=-1, dtype=np.int64)


suite(
    "matrix_rank",
    _rank,
    [
        *_TALL_AND_WIDE,
        Sample((_RANK_1,), note="rank 1"),
        Sample((np.zeros((2, 3)),), note="rank 0"),
        Sample((np.diag([1.0, 0.1, 0.01]), np.asarray(0.05)), note="one tolerance"),
        Sample((np.stack([np.diag([1.0, 0.1])] * 2), np.array([0.5, 0.01])), note="several"),
    ],
    errors_=_NO_MATRIX,
)


def _pinv(x: Array, rtol: Any = None) -> Any:
    if rtol is None:
        rtol = max(x.shape[-2:]) * np.finfo(np.float32).eps
    return np.linalg.pinv(x, rcond=rtol)


suite(
    "pinv",
    _pinv,
    [
        *_TALL_AND_WIDE,
        Sample((_RANK_1,), gradient=False, note="rank 1"),
        Sample((np.diag([1.0, 0.1, 0.01]), np.asarray(0.05)), gradient=False, note="a tolerance"),
    ],
    errors_=_NO_MATRIX,
)
