"""Wrong values that only the device sees: an index outside an axis, a negative integer power.

To look for them at the call would make the host wait for the device at every embedding. Kernels
write them into memory that both see, and whoever waits next (for a value on the host, or with
`device.synchronize()`) gets the error. With CUDA_LAUNCH_BLOCKING=1 every call waits.
"""

from __future__ import annotations

import functools
import os
from typing import Any

import cupy
import numpy as np

from pullback import errors

_OUTSIDE = "an index is outside an axis of size {}"
_MESSAGES = {
    **dict.fromkeys(
        (
            "ravel_index",
            "scatter_add",
            "scatter_max",
            "scatter_min",
            "scatter_update",
            "segment_sum",
            "take",
            "take_along_axis",
        ),
        _OUTSIDE,
    ),
    "pow": "an integer to a negative power is no integer; convert the base to a floating dtype "
    "with x.astype(...)",
}
_PLACES = {name: place for place, name in enumerate(_MESSAGES)}


@functools.cache
def _board() -> tuple[int, Any]:
    """The address of a place for each op, and the places. What is told is never 0."""
    # One for all devices: each of them can write into memory that is pinned.
    memory = cupy.cuda.alloc_pinned_memory(8 * len(_PLACES))
    told = np.frombuffer(memory, np.int64, len(_PLACES))
    told[:] = 0
    return memory.ptr, told


#: Whether every call waits, so that an error comes from the call that made it.
BLOCKING = os.environ.get("CUDA_LAUNCH_BLOCKING") == "1"


def address(op: str) -> Any:
    """The address to which a kernel writes that a call of `op` was wrong."""
    return np.uint64(_board()[0] + 8 * _PLACES[op])


def check() -> None:
    """Raises what has been told by work that is done.

    Raises:
        IndexingError: for an index outside its axis.
        InputValueError: for other values.
    """
    told = _board()[1]
    if not told.any():
        return
    op, place = next((op, place) for op, place in _PLACES.items() if told[place])
    size = int(told[place]) - 1
    told[:] = 0
    kind = errors.IndexingError if _MESSAGES[op] is _OUTSIDE else errors.InputValueError
    raise kind(f"{op}: {_MESSAGES[op].format(size)} (a call made before this one)")


def after_call() -> None:
    """With CUDA_LAUNCH_BLOCKING=1, waits for a call and raises the error that it reported."""
    if BLOCKING:
        cupy.cuda.get_current_stream().synchronize()
        check()
