"""Loops in C for kernels written in Python: `run` passes their arguments by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from pullback_native import _native

_Prepare = TypeVar("_Prepare", bound=Callable[..., Any])

Array: TypeAlias = npt.NDArray[Any]
#: Values of `Sizes` are arguments of a loop that do not change from call to call.
Sizes: TypeAlias = dict[str, Any]

FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
#: The bits of a status (c/job.h).
NO_MEMORY, NOT_FINITE = 1, 2

LOOPS = _native.LOOPS
run = _native.run
empty = _native.empty


def needs_numpy(status: int, room: str) -> bool:
    """Returns whether NumPy's kernel has to repeat the call, by the status that a loop returned.

    It has to if arrays have infinities or NaN, and terms of 0 count.

    Raises:
        MemoryError: The loop had no memory for `room`.
    """
    if status & NO_MEMORY:
        raise MemoryError(f"not enough memory for {room}")
    return status != 0


def prepares(kernel: Any) -> Callable[[_Prepare], _Prepare]:
    """Makes a function the hook by which a kernel is made ready for the shapes of a program."""

    def decorator(prepare: _Prepare) -> _Prepare:
        kernel.prepare = prepare
        return prepare

    return decorator


def once(x: Array) -> Array:
    """Each element of x that is repeated once; its axes are kept."""
    return x[tuple([slice(None) if step else slice(1) for step in x.strides])]


def plain(x: Array) -> Array:
    """x in C order and aligned, as loops read it; a copy if it is not."""
    flags = x.flags
    return x if flags.c_contiguous and flags.aligned else x.copy(order="C")


def plain_or_none(x: Array | None) -> Array | None:
    """As `plain`, for an optional input."""
    return None if x is None else plain(x)


def all_float32(*arrays: Array | None) -> bool:
    """Returns whether the arrays that are not None are float32, in the machine's order."""
    for x in arrays:  # `all` of a generator takes three times as long
        if x is not None and x.dtype is not FLOAT32 and x.dtype != FLOAT32:
            return False
    return True
