"""Errors in values that only the device sees: an index outside an axis, a negative integer power.

To check values at the call would make the host wait for the device at every embedding. Kernels
report errors in memory that host and device share, and the next call that waits (for a value on
the host, or `device.synchronize()`) raises them. With CUDA_LAUNCH_BLOCKING=1 every call waits.
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
    "pow": "an integer to a negative power is not an integer; convert the base to a floating dtype "
    "with x.astype(...)",
}
_SLOTS = {name: slot for slot, name in enumerate(_MESSAGES)}


@functools.cache
def _board() -> tuple[int, Any]:
    """The address of the reports, an integer for each op, and an array of them; 0 is no error."""
    # Shared by all devices: each of them can write into pinned memory.
    memory = cupy.cuda.alloc_pinned_memory(8 * len(_SLOTS))
    reports = np.frombuffer(memory, np.int64, len(_SLOTS))
    reports[:] = 0
    return memory.ptr, reports


#: Whether every call waits, so that an error comes from the call that made it.
BLOCKING = os.environ.get("CUDA_LAUNCH_BLOCKING") == "1"


def address(op: str) -> Any:
    """The address to which a kernel writes that a call of `op` was wrong."""
    return np.uint64(_board()[0] + 8 * _SLOTS[op])


def check() -> None:
    """Raises the error that finished work has reported.

    Raises:
        IndexingError: for an index outside its axis.
        InputValueError: for other values.
    """
    reports = _board()[1]
    if not reports.any():
        return
    op, slot = next((op, slot) for op, slot in _SLOTS.items() if reports[slot])
    size = int(reports[slot]) - 1
    reports[:] = 0
    kind = errors.IndexingError if _MESSAGES[op] is _OUTSIDE else errors.InputValueError
    raise kind(f"{op}: {_MESSAGES[op].format(size)} (a call made before this one)")


def after_call() -> None:
    """With CUDA_LAUNCH_BLOCKING=1, waits for a call and raises the error that it reported."""
    if BLOCKING:
        cupy.cuda.get_current_stream().synchronize()
        check()
