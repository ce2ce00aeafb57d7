"""The record of memory in use on a device."""

from __future__ import annotations

from typing import NamedTuple


class Memory(NamedTuple):
    """Bytes on a device: used by arrays, held by the allocator, and in total.

    `peak` is the most that arrays used since `Device.reset_peak`, or ever; None if unknown.
    """

    used: int
    held: int
    total: int
    peak: int | None = None
