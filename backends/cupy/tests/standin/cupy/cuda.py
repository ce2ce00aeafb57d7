"""`cupy.cuda` of one device that is the host.

While a stream records, what kernels do is kept, and done again at each launch of the graph. What is
asked of streams, events and graphs is in `LOG`.
"""

from __future__ import annotations

import contextlib
import time
import types

import numpy as np

from cupy._array import COPIES, RECORDING

#: What was called, in order.
LOG: list[str] = []


class Device:
    def __init__(self, device=0):
        self.id = int(device)

    def __enter__(self):
        return self

    def __exit__(self, *args):
        return None

    def __eq__(self, other):
        return isinstance(other, Device) and other.id == self.id

    def __hash__(self):
        return self.id

    def synchronize(self):
        COPIES["synchronize"] += 1


class Event:
    def __init__(self, block=False, disable_timing=False):
        self.timed, self.at, self.reached = not disable_timing, None, False

    def record(self, stream=None):
        LOG.append("record event")
        self.at = time.perf_counter()

    def synchronize(self):
        self.reached = True


def get_elapsed_time(start_event, end_event):
    """Milliseconds; an error for events without times, and for one that nobody waited for."""
    if not (start_event.timed and end_event.timed and end_event.reached):
        raise RuntimeError("cudaErrorNotReady: device not ready")
    return (end_event.at - start_event.at) * 1e3


class Stream:
    ptr = 0

    def __init__(self, non_blocking=False):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *args):
        return None

    def begin_capture(self):
        LOG.append("begin capture")
        assert not RECORDING
        RECORDING.append([])

    def end_capture(self):
        LOG.append("end capture")
        return Graph(RECORDING.pop())

    def synchronize(self):
        COPIES["synchronize"] += 1

    def wait_event(self, event):
        LOG.append("wait for event")


class Graph:
    def __init__(self, steps):
        self.steps = steps

    def launch(self, stream=None):
        LOG.append("launch")
        for step in self.steps:
            step()


class MemoryPool:
    def malloc(self, size):
        raise AssertionError("the stand-in allocates by NumPy")


@contextlib.contextmanager
def using_allocator(allocator):
    LOG.append("own memory")
    yield
    LOG.append("memory of all")


class PinnedMemory:
    """Memory with an address and NumPy's buffer protocol, as CuPy's pointer to it."""

    def __new__(cls, size):
        array = np.zeros(size, np.uint8).view(_Buffer)
        array.ptr = array.ctypes.data
        return array


class _Buffer(np.ndarray):
    ptr = 0


def alloc_pinned_memory(size):
    return PinnedMemory(size)


def get_device_id():
    return 0


def get_current_stream():
    return Stream()


runtime = types.SimpleNamespace(getDeviceCount=lambda: 1, memGetInfo=lambda: (1 << 30, 1 << 31))
nccl = types.SimpleNamespace(available=True)
