"""Kernels of linear algebra."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from pullback.array_api.narrowing import half_precision
from pullback.casting import casts_to_float32
from pullback.plugins.backend import Kernel


def kernels(xp: Any) -> dict[str, Kernel]:
    """Kernels over `xp`, with those of the linalg tier if it has the extension."""
    half = half_precision(xp)
    widened, narrowed = casts_to_float32(half, xp.float32, xp.astype)

    def in_float32(function: Callable[..., Any]) -> Kernel:
        """The function computed in float32 for 16-bit floats, and rounded once."""

        @functools.wraps(function)
        def kernel(*arrays: Any, **attributes: Any) -> Any:
            if arrays[0].dtype not in half:
                return function(*arrays, **attributes)
            result = function(*[widened(x) for x in arrays], **attributes)
            if isinstance(result, tuple):
                return tuple(narrowed(part, arrays[0]) for part in result)
            return narrowed(result, arrays[0])

        return kernel

    def matmul(x1: Any, x2: Any) -> Any:
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
        return linalg.solve(x1, x2)

    def svd(x: Any, *, full_matrices: bool) -> Any:
        return tuple(linalg.svd(x, full_matrices=full_matrices))

    def eig(x: Any) -> Any:
        result = xp.complex128 if x.dtype in (xp.float64, xp.complex128) else xp.complex64
        return tuple(xp.astype(part, result) for part in linalg.eig(x))

    table = {
        "cholesky": in_float32(cholesky),
        "eigh": in_float32(eigh),
        "matmul": in_float32(matmul),
        "qr": in_float32(qr),
        "slogdet": in_float32(slogdet),
        "solve": in_float32(solve),
        "svd": in_float32(svd),
    }
    return table | ({"eig": eig} if hasattr(linalg, "eig") else {})
