"""The services of a backend beside kernels: copies, host arrays, DLPack, caches, clocks, memory.

They are checked once for a backend, and are a row of the report of their own.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from pullback import dtypes, errors
from pullback.devices import Device, devices
from pullback.ops.arithmetic import negative
from pullback.plugins.backend import Backend
from pullback.tensor import wrap
from pullback_conformance.basics import values_of
from pullback_conformance.case import to_tensor
from pullback_conformance.compare import identical, require
from pullback_conformance.layouts import LAYOUTS
from pullback_conformance.registry import Area, check
from pullback_conformance.sample import Array

#: No axes, one element, several axes, and sizes that libraries no longer put on a stack or a page.
SHAPES = ((), (1,), (1, 1), (3,), (40, 50), (5000,))


#: Elements of an array that is large among those of a process.
_LARGE = 2**23
#: Seconds in which no work of an array of a few megabytes is left.
_MOMENT = 0.05


@check(Area.EDGES, per="backend")
def service_copies(device: Device) -> None:
    """Checks that an array stays when the host array that it was copied from is written to."""
    backend = device.backend
    for host, what in _hosts(device):
        if not host.flags.writeable or not host.size:
            continue
        kept = np.array(host)
        native = backend.from_host(host, device.native, copy=True)
        with np.errstate(all="ignore"):
            host[...] = np.zeros((), host.dtype)
        words = f"from_host with copy=True, after the host array was written to: {what}"
        identical(device, backend.to_host(native), kept, words)


@check(Area.EDGES, per="backend")
def service_host(device: Device) -> None:
    """Checks that nobody can write into a tensor by its host array; and `item`."""
    backend = device.backend
    for host, what in _hosts(device):
        native = backend.from_host(host, device.native, copy=True)
        kept = np.array(backend.to_host(native))
        back = backend.to_host(native)
        if back.flags.writeable and back.size:
            back[...] = np.zeros((), host.dtype)
            words = f"to_host, after its array was written to, of {what}"
            identical(device, backend.to_host(native), kept, words)
        if host.size == 1:
            found, goal = backend.item(native), host.item()
            require(
                type(found) is type(goal) and repr(found) == repr(goal),
                device,
                f"item returned {found!r} for {goal!r}, {what}",
            )


@check(Area.EDGES, per="backend")
def service_devices(device: Device) -> None:
    """Checks the copies to each device of the backend, and back."""
    backend = device.backend
    others = devices(backend.name)
    for host, what in _hosts(device):
        native = backend.from_host(host, device.native, copy=True)
        for other in {device, *others}:
            moved = backend.copy_to_device(native, other.native)
            identical(device, backend.to_host(moved), host, f"copy_to_device({other}) of {what}")
            again = backend.copy_to_device(moved, device.native)
            identical(device, backend.to_host(again), host, f"copy_to_device({device}) of {what}")


class _Exporter:
    """An array of another library, as DLPack sees it; of a library that knows no version of it."""

    def __init__(self, backend: Backend, array: Any, *, old: bool = False) -> None:
        self._backend, self._array, self._old = backend, array, old

    def __dlpack__(self, **kwargs: Any) -> Any:
        if self._old:
            return self._backend.to_dlpack(self._array)
        return self._backend.to_dlpack(self._array, **kwargs)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()


def exchanges(device: Device) -> bool:
    """Returns whether the backend takes arrays by DLPack."""
    return type(device.backend).from_dlpack is not Backend.from_dlpack


@check(Area.EDGES, per="backend", applies=exchanges)
def service_dlpack(device: Device) -> None:
    """Checks that an array is the same after it went through DLPack; of any dtype that it has."""
    backend = device.backend
    every = [*_hosts(device)]
    every += [(x.T, f"{what}, turned") for x, what in every if x.ndim > 1]
    for host, what in every:
        native = backend.from_host(host, device.native, copy=False)
        for copy, old in ((None, False), (True, False), (None, True)):
            exporter = _Exporter(backend, native, old=old)
            try:
                taken = backend.from_dlpack(exporter, device.native, copy=copy)
            except (errors.PullbackError, BufferError):
                continue  # a dtype or a layout that DLPack or the library does not have
            identical(device, backend.to_host(taken), host, f"through DLPack, copy={copy}: {what}")


@check(Area.EDGES, per="backend")
def service_caches(device: Device) -> None:
    """Checks that `clear_caches` leaves arrays and results as they are."""
    backend = device.backend
    held = [
        (backend.from_host(host, device.native, copy=True), np.array(host), what)
        for host, what in _hosts(device)
    ]
    tensors = [wrap(native, device) for native, host, _ in held if host.dtype.kind == "f"]
    results = [negative(tensor) for tensor in tensors]
    expected = [np.array(result.numpy()) for result in results]
    backend.clear_caches()
    for native, host, what in held:
        identical(device, backend.to_host(native), host, f"after clear_caches: {what}")
    for tensor, result, goal in zip(tensors, results, expected, strict=True):
        identical(device, result.numpy(), goal, "an earlier result after clear_caches")
        identical(device, negative(tensor).numpy(), goal, "the same call after clear_caches")


@check(Area.EDGES, per="backend")
def service_clock(device: Device) -> None:
    """Checks that time and memory are numbers that can be."""
    backend, native = device.backend, device.native
    start = backend.event(native)
    if start is not None:
        end = backend.event(native)
        seconds = backend.elapsed(start, end)
        require(0 <= seconds < 60, device, f"elapsed returned {seconds!r} s between two events")
    memory = backend.memory(native)
    if memory is not None:
        require(
            0 <= memory.used <= memory.total and memory.held <= memory.total,
            device,
            f"memory returned {memory}: a part is more than the total",
        )
        require(
            memory.peak is None or memory.peak >= 0,
            device,
            f"memory returned the peak {memory.peak}",
        )


@check(Area.EDGES, per="backend")
def service_memory(device: Device) -> None:
    """Checks that memory in use follows the arrays that are held, and its peak what was in use.

    Other programs may use the device too, and an allocator may hold more than was asked for: half
    of a large array has to be seen.
    """
    backend, native = device.backend, device.native
    first = backend.memory(native)
    if first is None:
        return
    host = np.zeros(_LARGE, np.float32)
    half = host.nbytes // 2

    def used() -> int:
        backend.synchronize(native)
        found = backend.memory(native)
        assert found is not None
        return found.used

    before = used()
    held = [backend.from_host(host, native, copy=True)]
    grown = used()
    require(
        grown >= before + half,
        device,
        f"memory.used went from {before} to {grown} for an array of {host.nbytes} bytes",
    )
    held.clear()
    gc.collect()
    left = used()
    require(
        left <= grown - half,
        device,
        f"memory.used went from {grown} to {left} when an array of {host.nbytes} bytes was freed",
    )
    if first.peak is None:
        return
    try:
        backend.reset_peak(native)
    except errors.BackendError:
        return  # it says that it has none
    after = backend.memory(native)
    peak = after and after.peak
    require(
        peak is not None and peak <= grown - half,
        device,
        f"memory.peak is {peak} after reset_peak, and {left} are in use",
    )


@check(Area.EDGES, per="backend")
def service_waits(device: Device) -> None:
    """Checks that `synchronize` waits: a result is then read as fast as one that has been read."""
    x = to_tensor(np.ones((1500, 1500), np.float32), device)
    if dtypes.float32 not in device.backend.dtypes or not device.backend.kernels_for("negative"):
        return
    late: list[float] = []
    # The quickest of some, since other programs may run amid one.
    for _ in range(4):
        y = negative(x)
        for _ in range(20):
            y = negative(y)
        device.synchronize()
        start = time.perf_counter()
        y.numpy()
        first = time.perf_counter() - start
        start = time.perf_counter()
        y.numpy()
        late.append(first - (time.perf_counter() - start))
    require(
        min(late) < _MOMENT,
        device,
        f"after synchronize, reading a result took {min(late):.3f} s longer than a second time",
    )


def _flushes(device: Device) -> bool:
    return type(device.backend).flush is not Backend.flush


@check(Area.EDGES, per="backend", applies=_flushes)
def service_flush(device: Device) -> None:
    """Checks that `flush` leaves values as they are, with something to begin and with nothing."""
    backend = device.backend
    hosts = [host for host, _ in _hosts(device)]
    arrays = [backend.from_host(host, device.native, copy=True) for host in hosts]
    tensors = [wrap(array, device) for array in arrays]
    numbers = [i for i, host in enumerate(hosts) if host.dtype == dtypes.float32]
    computed = bool(backend.kernels_for("negative"))
    results = [negative(tensors[i]) for i in numbers] if computed else []
    for _ in range(3):
        backend.flush(device.native)
    for i, y in zip(numbers, results, strict=False):
        identical(device, y.numpy(), -hosts[i], "a result from before `flush`")
    for host, tensor in zip(hosts, tensors, strict=True):
        identical(device, tensor.numpy(), host, "an array after `flush`")
    for i in numbers if computed else ():
        identical(device, negative(tensors[i]).numpy(), -hosts[i], "a result after `flush`")


def _hosts(device: Device) -> Iterator[tuple[Array, str]]:
    """New host arrays of every dtype, in all shapes and layouts, each after its description."""
    for dtype in device.backend.dtypes:
        values = values_of(dtype)
        for shape in SHAPES:
            yield np.resize(values, shape).astype(dtype), f"{dtype}{list(shape)}"
        for name, lay in LAYOUTS.items():
            laid: Any = lay(np.resize(values, (2, 5, 6)).astype(dtype))
            yield laid, f"{name} {dtype}[2, 5, 6]"
