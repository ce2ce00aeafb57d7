"""The prerequisites of all checks: arrays to the device, arrays back, and `add`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numpy as np

from pullback import dtypes, errors
from pullback.devices import Device
from pullback.dtypes import DType
from pullback.ops.arithmetic import add
from pullback.tensor import wrap
from pullback_conformance.compare import ConformanceError, identical, require
from pullback_conformance.derived.values import LARGE, floats, of
from pullback_conformance.layouts import LAYOUTS
from pullback_conformance.sample import Array

T = TypeVar("T")

_LAYOUTS: tuple[Callable[[Array], Array], ...] = tuple(
    cast(Callable[[Array], Array], lay) for name, lay in LAYOUTS.items() if name != "unaligned"
)
#: A scalar, an empty array, and arrays of several axes.
SHAPES: tuple[tuple[int, ...], ...] = ((), (0, 3), (2, 3), (2, 3, 2), (2, 1, 3, 2), (2, 1, 2, 3, 1))


def check(device: Device) -> None:
    """Moves arrays of every dtype that the backend declares to the device and back; runs `add`.

    Raises:
        ConformanceError: with the method of the backend that fails, and its result.
    """
    backend = device.backend
    require(
        bool(backend.dtypes), _kind(device), "dtypes is empty; declare the dtypes that it supports"
    )
    for dtype in backend.dtypes:
        for shape in SHAPES:
            _round_trip(device, np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype))
        for host in _values(dtype):
            _round_trip(device, host)
        _items(device, dtype)
        _writable(device, dtype)
    _owns_copies(device, next(iter(backend.dtypes)))
    for dtype in (dtypes.float32, dtypes.float64, dtypes.int32, *backend.dtypes):
        if dtype in backend.dtypes and dtype != dtypes.bool_:
            _adds(device, dtype)
            return


def _kind(device: Device) -> str:
    return type(device.backend).__name__


def _round_trip(device: Device, host: Array) -> None:
    backend, argument = device.backend, f"{host.dtype}{list(host.shape)}"
    for copy in (True, False):
        subject = f"{_kind(device)}.from_host"
        native = _called(subject, argument, backend.from_host, host, device.native, copy=copy)
        for name in ("shape", "dtype"):
            if not hasattr(native, name):
                raise ConformanceError(f"{subject}: returned {native!r}, which has no .{name}")
        require(
            tuple(native.shape) == host.shape,
            subject,
            f"returned an array of shape {tuple(native.shape)} for {argument}",
        )
        public = _called(subject, argument, backend.public_dtypes.__getitem__, native.dtype)
        require(public == host.dtype, subject, f"returned an array of {public} for {argument}")
        subject = f"{_kind(device)}.to_host"
        back = _called(subject, argument, backend.to_host, native)
        require(
            isinstance(back, np.ndarray),
            subject,
            f"returned {type(back).__name__}, not a NumPy array",
        )
        identical(subject, back, host, f"the array back from {argument}")


def values_of(dtype: DType) -> Array:
    """Every kind of value of a dtype, complex ones included."""
    if dtype not in dtypes.COMPLEX:
        return of(dtype).astype(dtype)
    parts = floats(dtypes.real_of(dtype))
    values = np.empty(parts.size, dtype)
    values.real, values.imag = parts, np.roll(parts, 7)
    return values


def _values(dtype: DType) -> list[Array]:
    """Every kind of value of a dtype, as many as no block holds, and in other memory layouts."""
    values = values_of(dtype)
    matrix = values[:240].reshape(15, 16)
    return [values, np.resize(values, LARGE), *(lay(matrix) for lay in _LAYOUTS)]


def _items(device: Device, dtype: DType) -> None:
    """Checks that `item` returns the Python number of each value."""
    backend, subject = device.backend, f"{_kind(device)}.item"
    for host in _values(dtype)[0][:80]:
        value = np.asarray(host, dtype)
        native = backend.from_host(value, device.native, copy=True)
        actual = _called(subject, f"{dtype} {value}", backend.item, native)
        goal = value.item()
        require(
            type(actual) is type(goal) and repr(actual) == repr(goal),
            subject,
            f"returned {actual!r} of type {type(actual).__name__} for {dtype} {goal!r}",
        )


def _writable(device: Device, dtype: DType) -> None:
    """Checks that the array of a tensor stays when the host array of it is written to."""
    backend, host = device.backend, np.ones(3, dtype)
    native = backend.from_host(host, device.native, copy=True)
    back = backend.to_host(native)
    if back.flags.writeable:
        back[...] = 0
        require(
            bool(np.all(backend.to_host(native))),
            f"{_kind(device)}.to_host",
            f"the host array of {dtype}[3] shares memory, and can be written; set "
            "flags.writeable = False, or copy",
        )


def _owns_copies(device: Device, dtype: DType) -> None:
    host = np.zeros(3, dtype)
    native = device.backend.from_host(host, device.native, copy=True)
    host[...] = 1
    require(
        not np.any(device.backend.to_host(native)),
        f"{_kind(device)}.from_host",
        "with copy=True the array shares memory with the host array",
    )


def _adds(device: Device, dtype: DType) -> None:
    subject = f"{_kind(device)}.kernels['add']"
    a, b = np.asarray([1, 2, 3], dtype), np.asarray([10, 20, 30], dtype)
    pair = [wrap(device.backend.from_host(x, device.native, copy=True), device) for x in (a, b)]
    total = _called(subject, f"{dtype}[3]", lambda: add(*pair).numpy())
    identical(subject, total, np.asarray([11, 22, 33], dtype), "1 2 3 + 10 20 30")


def _called(
    subject: str, argument: str, function: Callable[..., T], *args: object, **kwargs: object
) -> T:
    try:
        return function(*args, **kwargs)
    except errors.MissingKernelError:
        raise ConformanceError(f"{subject} is missing; every backend needs it") from None
    except Exception as error:
        raise ConformanceError(f"{subject}: raised {error!r} for {argument}") from error
