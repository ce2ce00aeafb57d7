"""What has to work before anything else can be measured: arrays in, arrays out, and add."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback import dtypes, errors
from pullback.conformance.compare import ConformanceError, identical, require
from pullback.conformance.sample import Array
from pullback.devices import Device
from pullback.dtypes import DType
from pullback.ops.arithmetic import add
from pullback.tensor import wrap

#: A scalar, an empty array, and one that has an order of axes.
SHAPES: tuple[tuple[int, ...], ...] = ((), (0, 3), (2, 3))


def check(device: Device) -> None:
    """Arrays of every dtype that the backend declares go to the device and back; add adds.

    Raises:
        ConformanceError: naming the method of the backend that does not do it, and what it gave.
    """
    backend = device.backend
    require(bool(backend.dtypes), _kind(device), "dtypes is empty; declare those that it holds")
    for dtype in backend.dtypes:
        for shape in SHAPES:
            _round_trip(device, np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype))
    _owns_copies(device, next(iter(backend.dtypes)))
    for dtype in (dtypes.float32, dtypes.float64, dtypes.int32, *backend.dtypes):
        if dtype in backend.dtypes and dtype != dtypes.bool_:
            _adds(device, dtype)
            return


def _kind(device: Device) -> str:
    return type(device.backend).__name__


def _round_trip(device: Device, host: Array) -> None:
    backend, what = device.backend, f"{host.dtype}{list(host.shape)}"
    for copy in (True, False):
        who = f"{_kind(device)}.from_host"
        native = _called(who, what, backend.from_host, host, device.native, copy=copy)
        for name in ("shape", "dtype"):
            require(hasattr(native, name), who, f"gave {native!r}, which has no .{name}")
        require(
            tuple(native.shape) == host.shape,
            who,
            f"gave an array of shape {tuple(native.shape)} for {what}",
        )
        public = _called(who, what, backend.public_dtypes.__getitem__, native.dtype)
        require(public == host.dtype, who, f"gave an array of {public} for {what}")
        who = f"{_kind(device)}.to_host"
        back = _called(who, what, backend.to_host, native)
        require(isinstance(back, np.ndarray), who, f"gave {type(back).__name__}, no NumPy array")
        identical(who, back, host, f"what came back of {what}")


def _owns_copies(device: Device, dtype: DType) -> None:
    host = np.zeros(3, dtype)
    native = device.backend.from_host(host, device.native, copy=True)
    host[...] = 1
    require(
        not np.any(device.backend.to_host(native)),
        f"{_kind(device)}.from_host",
        "with copy=True the array shares memory with the one it was made of",
    )


def _adds(device: Device, dtype: DType) -> None:
    who = f"{_kind(device)}.kernels['add']"
    a, b = np.asarray([1, 2, 3], dtype), np.asarray([10, 20, 30], dtype)
    pair = [wrap(device.backend.from_host(x, device.native, copy=True), device) for x in (a, b)]
    total = _called(who, f"{dtype}[3]", lambda: add(*pair).numpy())
    identical(who, total, np.asarray([11, 22, 33], dtype), "1 2 3 + 10 20 30")


def _called(who: str, what: str, function: Any, *args: Any, **kwargs: Any) -> Any:
    try:
        return function(*args, **kwargs)
    except errors.MissingKernelError:
        raise ConformanceError(f"{who}: there is none; every backend needs it") from None
    except Exception as error:
        raise ConformanceError(f"{who}: raised {error!r} for {what}") from error
