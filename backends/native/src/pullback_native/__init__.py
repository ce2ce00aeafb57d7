"""Compiled kernels for the NumPy backend of pullback."""

from __future__ import annotations

import os
from collections.abc import Callable

from pullback.errors import BackendError
from pullback.plugins.hookspecs import hookimpl
from pullback_native import _native
from pullback_native.fusion import FUSIBLE, fuse
from pullback_native.kernels import KERNELS
from pullback_numpy import threads
from pullback_numpy.kernels import KERNELS as NUMPY_KERNELS

__all__ = [
    "INSTRUCTIONS",
    "INSTRUCTION_SETS",
    "VARIABLE",
    "pullback_register_fuser",
    "pullback_register_kernels",
]

#: The environment variable that chooses the instruction set; the best of the processor by default.
VARIABLE = "PULLBACK_NATIVE_ISA"
#: All instruction sets that the loops may be compiled for, the best last.
_KNOWN = ("base", "avx2", "avx512")


def _has(name: str) -> bool:
    try:
        _native.use(name)
    except ValueError:
        return False
    return True


def _chosen() -> str:
    """Takes the loops that the environment chooses.

    Raises:
        BackendError: The environment names an instruction set that cannot be used.
    """
    name = os.environ.get(VARIABLE, "").strip().lower()
    if name and name not in INSTRUCTION_SETS:
        known = name in _KNOWN
        why = "this processor or this build lacks them" if known else "the name is unknown"
        raise BackendError(
            f"{VARIABLE}={name}: the kernel pack 'native' cannot use these instructions, {why}; "
            f"set it to {' or '.join(INSTRUCTION_SETS)}, or unset it to have the best of them"
        )
    return str(_native.use(name))


#: The instruction sets that this processor has loops for, the best last.
INSTRUCTION_SETS: tuple[str, ...] = tuple(name for name in _KNOWN if _has(name))
#: The instruction set that the loops use: "avx512", "avx2" or "base".
INSTRUCTIONS: str = _chosen()

# C passes calls that it does not support to NumPy's kernels.
_native.prepare(NUMPY_KERNELS, threads.threads)


@hookimpl
def pullback_register_kernels(register: Callable[..., None]) -> None:
    """Registers the kernels with the NumPy backend, for float32."""
    compiled = {name: getattr(_native, name) for name in _native.KERNELS}
    for name, kernel in (compiled | KERNELS).items():
        in_place = getattr(_native, f"{name.removesuffix('_update')}_in_place", None)
        # The dtype of the first input.
        dtypes = ["bool" if name == "where" else "float32"]
        register(name, kernel, dtypes=dtypes, in_place=in_place)


@hookimpl
def pullback_register_fuser(register: Callable[..., None]) -> None:
    """Registers what makes fused kernels of captured functions."""
    register(fuse, FUSIBLE)
