"""Compiled kernels for the NumPy backend of pullback."""

from __future__ import annotations

from collections.abc import Callable

from pullback.hookspecs import hookimpl
from pullback_native import _native
from pullback_native.blas import address_of_gemm
from pullback_numpy import threads
from pullback_numpy.kernels import KERNELS as NUMPYS

__all__ = ["pullback_register_kernels"]

#: The set of instructions that the loops use: "avx512", "avx2" or "base".
INSTRUCTIONS: str = _native.use()

_native.prepare(NUMPYS, threads.threads, *address_of_gemm())


@hookimpl
def pullback_register_kernels(register: Callable[..., None]) -> None:
    """Offers the kernels to the NumPy backend, for float32."""
    for name in _native.KERNELS:
        register(name, getattr(_native, name), dtypes=["float32"])
