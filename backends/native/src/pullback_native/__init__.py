"""Compiled kernels for the NumPy backend of pullback."""

from __future__ import annotations

from collections.abc import Callable

from pullback.hookspecs import hookimpl
from pullback_native import _native
from pullback_native.kernels import KERNELS
from pullback_numpy import threads
from pullback_numpy.kernels import KERNELS as NUMPYS

__all__ = ["INSTRUCTIONS", "pullback_register_kernels"]

#: The set of instructions that the loops use: "avx512", "avx2" or "base".
INSTRUCTIONS: str = _native.use()

# C gives NumPy's kernels what it does not take itself.
_native.prepare(NUMPYS, threads.threads)


@hookimpl
def pullback_register_kernels(register: Callable[..., None]) -> None:
    """Offers the kernels to the NumPy backend, for float32."""
    compiled = {name: getattr(_native, name) for name in _native.KERNELS}
    for name, kernel in (compiled | KERNELS).items():
        # That of the first input.
        register(name, kernel, dtypes=["bool" if name == "where" else "float32"])
