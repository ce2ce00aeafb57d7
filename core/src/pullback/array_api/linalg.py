"""Kernels of linear algebra."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from pullback._numerics import ArrayNamespace
from pullback.plugins.records import Kernel, Native

#: The dtypes that matrices are computed in as they are. 16-bit floats are not among them; some are
#: not dtypes of the namespace itself, as NumPy's bfloat16.
_WIDE = (
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    *("float32", "float64", "complex64", "complex128"),
)


def kernels(xp: ArrayNamespace) -> dict[str, Kernel]:
    """Kernels over `xp`, with those of the linalg tier if it has the extension."""
    wide = [getattr(xp, name) for name in _WIDE if hasattr(xp, name)]

    def in_float32(function: Callable[..., Any]) -> Kernel:
        """The function computed in float32 for 16-bit floats, and rounded once."""

        @functools.wraps(function)
        def kernel(*arrays: Any, **attributes: Any) -> Any:
            dtype = arrays[0].dtype
            if dtype in wide:
                return function(*arrays, **attributes)
            result = function(*[xp.astype(x, xp.float32) for x in arrays], **attributes)
            if isinstance(result, tuple):
                return tuple(xp.astype(part, dtype) for part in result)
            return xp.astype(result, dtype)

        return kernel

    def matmul(x1: Native, x2: Native) -> Any:
        return xp.matmul(x1, x2)

    if not hasattr(xp, "linalg"):
        return {"matmul": in_float32(matmul)}
    linalg = xp.linalg

    def hermitian_part(x: Any) -> Any:
        transposed = xp.matrix_transpose(x)
        if xp.isdtype(x.dtype, "complex floating"):
            transposed = xp.conj(transposed)
        return (x + transposed) * 0.5

    def cholesky(x: Any, *, upper: bool) -> Any:
        return linalg.cholesky(hermitian_part(x), upper=upper)

    def eigh(x: Any) -> Any:
        return tuple(linalg.eigh(hermitian_part(x)))

    def qr(x: Any, *, mode: str) -> Any:
        return tuple(linalg.qr(x, mode=mode))

    def slogdet(x: Any) -> Any:
        return tuple(linalg.slogdet(x))

    def solve(x1: Any, x2: Any) -> Any:
        if 1 < x2.ndim < x1.ndim:
            # One matrix for all: some namespaces take its rows for as many vectors.
            x2 = xp.reshape(x2, (1,) * (x1.ndim - x2.ndim) + tuple(x2.shape))
        return linalg.solve(x1, x2)

    def svd(x: Any, *, full_matrices: bool) -> Any:
        return tuple(linalg.svd(x, full_matrices=full_matrices))

    def eig(x: Any) -> Any:
        result = xp.complex128 if x.dtype in doubles else xp.complex64
        return tuple(xp.astype(part, result) for part in linalg.eig(x))

    doubles = [getattr(xp, name) for name in ("float64", "complex128") if hasattr(xp, name)]

    found = {
        function.__name__: in_float32(function)
        for function in (cholesky, eigh, qr, slogdet, solve, svd)
        if hasattr(linalg, function.__name__)
    }
    found["matmul"] = in_float32(matmul)
    return found | ({"eig": eig} if hasattr(linalg, "eig") else {})
