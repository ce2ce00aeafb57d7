"""Linear algebra: the extension `linalg` of the array API standard, and some beside it, as `eig`.

>>> pb.linalg.det([[1.0, 2.0], [3.0, 4.0]]).item()
-2.0
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pullback import _hints
from pullback.ops.linalg.decompositions import matrix_rank, pinv, qr, svd, svdvals
from pullback.ops.linalg.eigenvalues import eig, eigh, eigvals, eigvalsh
from pullback.ops.linalg.linear_algebra import (
    cross,
    diagonal,
    matmul,
    outer,
    tensordot,
    trace,
    vecdot,
)
from pullback.ops.linalg.lu import lu_factor, lu_solve
from pullback.ops.linalg.matrix_functions import expm
from pullback.ops.linalg.norms import matrix_norm, vector_norm
from pullback.ops.linalg.solvers import (
    cholesky,
    det,
    inv,
    matrix_power,
    slogdet,
    solve,
    solve_triangular,
)
from pullback.ops.manipulation import matrix_transpose

__all__ = [
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "expm",
    "inv",
    "lu_factor",
    "lu_solve",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]


if not TYPE_CHECKING:
    __getattr__ = _hints.answer_module("pullback.linalg")
