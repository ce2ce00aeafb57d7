"""The instruction set of the loops."""

from __future__ import annotations

import os

from pullback.errors import BackendError
from pullback_native import _native

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
