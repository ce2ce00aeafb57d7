"""Keeps memory that has been freed for the next array.

glibc gives large blocks back to the system as soon as they are free. The next array of that size
then begins with a page fault every 4 KiB: in a chain of ops on a million elements these took 60 %
of the time. With a higher threshold what one op frees, the next one uses.
"""

from __future__ import annotations

import ctypes
import os
import sys

# From malloc.h.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
#: Free memory at the end of the heap that is kept.
KEPT_BYTES = 1 << 28
#: Blocks from here on are mapped one by one, as glibc does with all that are larger.
_LARGEST = 1 << 25


def keep_freed() -> None:
    """Sets glibc's thresholds, unless the environment does; without glibc does nothing."""
    if not sys.platform.startswith("linux") or "MALLOC_TRIM_THRESHOLD_" in os.environ:
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, _LARGEST)
        mallopt(_TRIM_THRESHOLD, KEPT_BYTES)
