"""Samples of the decompositions: of vectors that are free in sign, what does not depend on it."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback import errors
from pullback_conformance.draws import cnormal, normal
from pullback_conformance.sample import Array, call, rough, suite, wrong
from pullback_conformance.samples.eigenvalues import turned, turned_pair

_NO_MATRIX: list[Any] = [wrong(errors.ShapeError, normal(3))]

_TALL_AND_WIDE = [
    call(normal(3, 3)),
    call(normal(4, 2)),
    call(normal(2, 4)),
    call(normal(2, 3, 2)),
    call(cnormal(3, 2)),
    call(cnormal(2, 3)),
    call(normal(0, 3, 2), note="no matrices"),
]


def _signed_factors(inputs: object, found: Any) -> Any:
    q, r = found
    k = min(q.shape[-1], r.shape[-1])
    first, rows = turned_pair(q[..., :k], r[..., :k, :])
    return (
        np.concatenate([first, turned(q[..., k:])], axis=-1),
        np.concatenate([rows, r[..., k:, :]], axis=-2),
    )


suite("qr", lambda x, *, mode="reduced": tuple(np.linalg.qr(x, mode)), compare=_signed_factors)(
    *_TALL_AND_WIDE,
    rough(normal(3, 2), mode="complete"),
    call(normal(2, 4), mode="complete"),
    *_NO_MATRIX,
    wrong(errors.InputValueError, normal(2, 2), mode="raw"),
)


def _unsigned(inputs: object, found: Any) -> Any:
    left, values, right = found
    k = values.shape[-1]
    columns, rows = turned_pair(left[..., :k], right[..., :k, :])
    # Beyond the singular values, at most one vector: free in sign as well.
    last = np.swapaxes(turned(np.swapaxes(right[..., k:, :], -1, -2)), -1, -2)
    return (
        np.concatenate([columns, turned(left[..., k:])], axis=-1),
        values,
        np.concatenate([rows, last], axis=-2),
    )


suite(
    "svd",
    lambda x, *, full_matrices=True: tuple(np.linalg.svd(x, full_matrices)),
    compare=_unsigned,
)(
    *(
        (call if one.inputs[0].dtype.kind == "f" else rough)(*one.inputs, full_matrices=False)
        for one in _TALL_AND_WIDE
    ),
    *(rough(x) for x in (normal(3, 3), normal(3, 2), normal(2, 2, 3))),
    rough(cnormal(3, 2)),
    *_NO_MATRIX,
)
suite("svdvals", lambda x: np.linalg.svd(x, compute_uv=False))(
    *_TALL_AND_WIDE, rough(np.ones((3, 3)), note="rank 1"), *_NO_MATRIX
)

_RANK_1 = np.outer([1.0, 2.0, 3.0], [1.0, -1.0])


def _rank(x: Array, rtol: Any = None) -> Any:
    s = np.linalg.svd(x, compute_uv=False)
    rtol = max(x.shape[-2:]) * np.finfo(np.float32).eps if rtol is None else rtol
    return np.sum(s > np.asarray(rtol)[..., None] * s[..., :1], axis=-1, dtype=np.int64)


suite("matrix_rank", _rank, without={"random": "the tolerance is that of the dtype"})(
    *_TALL_AND_WIDE,
    call(_RANK_1, note="rank 1"),
    call(np.zeros((2, 3)), note="rank 0"),
    call(np.diag([1.0, 0.1, 0.01]), np.asarray(0.05), note="one tolerance"),
    call(np.stack([np.diag([1.0, 0.1])] * 2), np.array([0.5, 0.01]), note="several"),
    # Singular values on both sides of the default tolerance, and beyond those of other dtypes.
    *(
        rough(tiny * np.diag([1.0, 3e-6, 1e-9, 1e-17]), dtypes=("float32",), note=note)
        for tiny, note in ((1.0, "rank 2 of float32"), (1e-9, "rank 2 of small float32"))
    ),
    rough(
        np.stack([np.diag([1.0, 0.5]), 1e-8 * np.diag([1.0, 0.5])]),
        dtypes=("float32",),
        note="a small one beside a large one",
    ),
    *_NO_MATRIX,
)


def _pinv(x: Array, rtol: Any = None) -> Any:
    if rtol is None:
        rtol = max(x.shape[-2:]) * np.finfo(np.float32).eps
    return np.linalg.pinv(x, rcond=rtol)


suite("pinv", _pinv, without={"random": "the tolerance is that of the dtype"})(
    *_TALL_AND_WIDE,
    rough(_RANK_1, note="rank 1"),
    rough(np.diag([1.0, 0.1, 0.01]), np.asarray(0.05), note="a tolerance"),
    call(normal(2, 0, 3), note="no rows"),
    *_NO_MATRIX,
)
