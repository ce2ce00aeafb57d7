"""Kernels of another device, for the ops that a backend leaves to it (`Backend.fallback`).

The arrays are moved through the host, there and back. To all else it is a kernel of the backend:
tapes, captured functions and optimizers take it as one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pullback import errors
from pullback._dispatch.bodies import run_body
from pullback._dispatch.recording import paused, uncaptured
from pullback._dispatch.results import native_arrays
from pullback._tree import each, leaves
from pullback.devices import Device, as_device
from pullback.dtypes import DType
from pullback.plugins.observation import observed
from pullback.plugins.records import Kernel, Native
from pullback.spec import Op
from pullback.tensor import Tensor, wrap


def kernel_of(device: Device, op: Op, dtype: DType | None) -> Kernel | None:
    """The kernel of an op where the first input has `dtype`, or its fallback; None for neither."""
    backend = device.backend
    kernel = backend.kernel(op.name, dtype)
    if kernel is None and op.name in backend.fallback:
        kernel = _fallback(device, op, backend.fallback[op.name])
        if backend.changes < 0:
            kernel = observed(backend, op.name, kernel)
    return kernel


def _fallback(device: Device, op: Op, name: str) -> Kernel:
    """A kernel that runs the op on the device `name`."""

    def kernel(*inputs: Any, **attributes: Any) -> Any:
        other = as_device(name)
        if other.backend is device.backend:
            raise errors.BackendError(
                f"{op.name}: the fallback of {device} is {other}, a device of the same backend; "
                f"name one of another in {type(device.backend).__name__}.fallback"
            )
        moved = [each(lambda array: _moved(array, device, other), x) for x in inputs]
        if "device" in attributes:
            attributes["device"] = other
        arrays = [_moved(array, other, device) for array in _run(op, other, moved, attributes)]
        return arrays[0] if len(arrays) == 1 else tuple(arrays)

    return kernel


def _run(
    op: Op, device: Device, inputs: Sequence[Any], attributes: Mapping[str, Any]
) -> Sequence[Native]:
    """The results of an op, the residuals last, for native inputs and canonical attributes."""
    first = next(iter(leaves([*inputs])), None)
    dtype = None if first is None else device.backend.public_dtypes[first.dtype]
    kernel = device.backend.kernel(op.name, dtype)
    if kernel is not None:
        keywords = {**attributes, "device": device.native} if "device" in attributes else attributes
        return native_arrays(op, device, kernel, inputs, kernel(*inputs, **keywords))
    if op.primitive:
        raise errors.MissingKernelError(
            f"{op.name}: the fallback {device} has no kernel for this primitive either; name "
            f"another device"
        )
    tensors = [each(lambda array: wrap(array, device), operand) for operand in inputs]
    # The ops inside are none of the program that is being captured, or of a tape.
    with uncaptured(), paused():
        result = run_body(op, tensors, attributes)
    results: Sequence[Tensor] = result if isinstance(result, (tuple, list)) else (result,)
    return [tensor._array for tensor in results]


def _moved(array: Native, source: Device, target: Device) -> Native:
    host = source.backend.to_host(array)
    return target.backend.from_host(host, target.native, copy=False)
