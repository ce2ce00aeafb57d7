"""Products of matrices by cuBLAS, decompositions by cuSOLVER."""

from __future__ import annotations

from typing import Any

import cupy
import cupyx
import numpy as np

from pullback import array_api
from pullback.casting import compute_dtype
from pullback.plugins.records import Kernel
from pullback_cupy.namespace import xp
from pullback_cupy.typing import Array


def _matmul(x1: Array, x2: Array) -> Array:
    # cuBLAS adds up products of 16-bit floats in float32; see also `pullback_cupy.precision`.
    if x1.ndim > 2 and x2.ndim == 2 and x1.flags.c_contiguous and x1.size:
        # One product over all rows of the stack instead of one a matrix.
        rows = cupy.matmul(x1.reshape(-1, x1.shape[-1]), x2)
        return rows.reshape(*x1.shape[:-1], x2.shape[1])
    return cupy.matmul(x1, x2)


def _hermitian_part(x: Array) -> Array:
    turned = x.swapaxes(-1, -2)
    return (x + (turned.conj() if x.dtype.kind == "c" else turned)) * x.dtype.type(0.5)


def _cholesky(x: Array, *, upper: bool) -> Array:
    w = x.astype(compute_dtype(x.dtype), copy=False)
    with cupyx.errstate(linalg="raise"):
        lower = cupy.linalg.cholesky(_hermitian_part(w)).astype(x.dtype, copy=False)
    turned = lower.swapaxes(-1, -2)
    return (turned.conj() if x.dtype.kind == "c" else turned) if upper else lower


def _eig(x: Array) -> tuple[Array, ...]:
    # On the host: not every version of cuSOLVER takes matrices that are not symmetric.
    results = np.linalg.eig(x.astype(compute_dtype(x.dtype), copy=False).get())
    result = np.complex128 if x.dtype.itemsize > 4 and x.dtype != np.complex64 else np.complex64
    return tuple(cupy.asarray(array.astype(result)) for array in results)


def _loud(kernel: Kernel) -> Kernel:
    """Wraps a kernel to raise cuSOLVER's errors, for which the host waits for the device."""

    def run(*arrays: Any, **attributes: Any) -> Any:
        with cupyx.errstate(linalg="raise"):
            return kernel(*arrays, **attributes)

    return run


_GENERIC = array_api.kernels(xp)

KERNELS: dict[str, Kernel] = {
    **{name: _loud(_GENERIC[name]) for name in ("eigh", "qr", "slogdet", "svd")},
    "cholesky": _cholesky,
    "eig": _eig,
    "matmul": _matmul,
    "solve": _loud(_GENERIC["solve"]),
}
