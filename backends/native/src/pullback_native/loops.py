"""The way to a loop in C: arrays are checked here, for C takes them as it is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pullback_native import _native

FLOAT32 = np.dtype(np.float32)
#: What loops say (c/job.h).
NO_MEMORY = 1

#: run(loop, count, grain, nanoseconds for each, arrays, numbers, constants).
run: Callable[..., None] = _native.run
LOOPS: dict[str, int] = _native.LOOPS
#: empty(shape): of float32; large ones begin with a line of the cache.
empty: Callable[[tuple[int, ...]], Any] = _native.empty


def run_with_room(
    loop: int, count: int, grain: int, cost: float, arrays: tuple[Any, ...],
    numbers: tuple[int, ...], constants: tuple[float, ...] = (), *, room: str,
) -> bool:  # fmt: skip
    """`run`, for a loop that asks for memory, and says so in its last array where there is none.

    Returns:
        Whether NumPy's kernel has to do it: there are infinities or NaN where terms of 0 count.
    """
    said = np.zeros(1, np.int32)
    run(loop, count, grain, cost, (*arrays, said), numbers, constants)
    found = int(said[0])
    if found & NO_MEMORY:
        raise MemoryError(f"no room for {room}")
    return found != 0


def plain(x: Any) -> Any:
    """x, or a copy of it in C order and at an address that suits its dtype: what a loop reads."""
    flags = x.flags
    return x if flags.c_contiguous and flags.aligned else x.copy(order="C")


def all_float32(*arrays: Any) -> bool:
    """Whether those that are there are of float32, in the machine's order."""
    return all(x is None or x.dtype == FLOAT32 for x in arrays)
