"""Samples of functions of matrices."""

from __future__ import annotations

import numpy as np

from pullback import errors
from pullback_conformance.draws import cnormal, integers, normal
from pullback_conformance.sample import Array, call, rough, suite, wrong


def _expm(x: Array) -> Array:
    """The series of each matrix, halved until its norm is at most 1/8, then squared as often."""
    kind = np.result_type(x, np.float64)
    found = np.full(x.shape, np.nan, kind)
    for i in np.ndindex(x.shape[:-2]):
        norm = np.abs(x[i]).sum(axis=-2).max(initial=0.0)
        if not norm < 352_000:
            continue
        halvings = max(0, int(np.ceil(np.log2(max(float(norm), 0.125)))) + 3)
        wide = x[i].astype(np.result_type(x, np.longdouble)) / np.longdouble(2) ** halvings
        total = term = np.eye(x.shape[-1], dtype=wide.dtype)
        for k in range(1, 25):
            term = term @ wide / k
            total = total + term
        for _ in range(halvings):
            total = total @ total
        found[i] = total
    return found


_SYMMETRIC = normal(4, 4) + normal(4, 4).T

suite("expm", _expm)(
    call(normal(3, 3)),
    call(normal(2, 3, 3) * np.array([0.01, 5.0])[:, None, None], note="small and larger"),
    call(cnormal(2, 3, 3), note="complex"),
    call(normal(1, 1)),
    call(integers(-2, 3, 3, 3), note="integers"),
    call(np.triu(normal(3, 3), 1), note="nilpotent"),
    call(np.array([[0.0, 3.0], [-3.0, 0.0]]), note="a rotation"),
    call(np.zeros((2, 2)), note="zeros"),
    call(-_SYMMETRIC @ _SYMMETRIC.T, note="decaying"),
    call(normal(0, 0), note="of no rows"),
    call(normal(0, 3, 3), note="no matrices"),
    rough(
        np.stack([np.full((2, 2), np.nan), np.eye(2), np.diag([np.inf, 1.0]), np.eye(2) * -1e6]),
        note="beyond",
        dtypes=("float32", "float64"),
    ),
    wrong(errors.ShapeError, normal(3)),
    wrong(errors.ShapeError, normal(2, 3)),
)
