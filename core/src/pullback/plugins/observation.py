"""The calls of kernels as profilers see them. While none runs, nothing is added to a call.

A backend that is observed hands out each kernel with a function around it, so dispatch, captured
functions and optimizers look their kernels up anew when the first observer comes, and again when
the last one has left.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import nullcontext
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # making a protocol takes a millisecond of the import
    from typing import Protocol

    from pullback.plugins.backend import Backend
    from pullback.plugins.records import Kernel, NativeDevice

    class Observer(Protocol):
        """An object that is told of the calls of kernels."""

        #: True to wait, within a call, until the devices of its backend have done their work.
        synchronize: bool

        def record(
            self,
            op_name: str,
            backend: Backend,
            start: int,
            end: int,
            result: object,
            events: Sequence[tuple[Any, Any]],
        ) -> None:
            """Gets one call, in its thread.

            Args:
                op_name: the op.
                backend: the backend that it ran on.
                start: the time in ns.
                end: the same, when the call had returned.
                result: what the kernel returned; None for a kernel that raised.
                events: `Backend.event` before and after it, for each device of the backend.
            """


_LOCK = threading.Lock()
#: A new tuple at each change: threads read it while others come and go.
_observers: tuple[Observer, ...] = ()
#: The native devices of each backend in use.
_devices: dict[Backend, tuple[NativeDevice, ...]] = {}


def join(backend: Backend, device: NativeDevice) -> None:
    """Has a device take part; called when it is first named."""
    with _LOCK:
        _devices[backend] = (*_devices.get(backend, ()), device)
        backend.observe(bool(_observers))


def start(observer: Observer) -> None:
    """Tells an observer of all calls from now on, in every thread."""
    global _observers
    with _LOCK:
        _observers = (*_observers, observer)
        _switch()


def stop(observer: Observer) -> None:
    """Tells an observer of no further call."""
    global _observers
    with _LOCK:
        _observers = tuple(other for other in _observers if other is not observer)
        _switch()


def _switch() -> None:
    for backend in _devices:
        backend.observe(bool(_observers))


def observed(backend: Backend, op_name: str, kernel: Kernel) -> Kernel:
    """A kernel whose calls the observers are told of, within the backend's own annotation."""

    def call(*inputs: Any, **attributes: Any) -> Any:
        observers = _observers
        if not observers:
            return kernel(*inputs, **attributes)
        result = None
        devices = _devices.get(backend, ())
        waits = any(observer.synchronize for observer in observers)
        before = [] if waits else [backend.event(device) for device in devices]
        events: list[tuple[Any, Any]] = []
        start = perf_counter_ns()
        try:
            with backend.annotate(op_name) or nullcontext():
                result = kernel(*inputs, **attributes)
                if waits:
                    for device in devices:
                        backend.synchronize(device)
            return result
        finally:
            end = perf_counter_ns()
            for event, device in zip(before, devices, strict=False):
                if event is not None:
                    events.append((event, backend.event(device)))
            for observer in observers:
                observer.record(op_name, backend, start, end, result, events)

    call.__wrapped__ = kernel  # type: ignore[attr-defined]
    return call
