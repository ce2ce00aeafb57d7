"""Which kernel a call gets: of those that a backend has for an op, in turn, or one beside them.

A kernel that may decline is tried first, then the others that take the dtype, then a device that
the backend leaves the op to (`Backend.fallback`), then the body. To all else it is one kernel:
tapes, captured functions and optimizers take it as that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import CodeType, FunctionType
from typing import Any

from pullback import errors
from pullback._dispatch.bodies import drives_several, run_body, without_residuals
from pullback._dispatch.recording import RECORDING, paused, uncaptured
from pullback._dispatch.results import native_arrays
from pullback._tree import each, leaves
from pullback.devices import Device, as_device
from pullback.dtypes import DType
from pullback.plugins.observation import observed
from pullback.plugins.records import Kernel, Native, declines, leaves_out_residuals
from pullback.spec import Op
from pullback.tensor import Tensor, wrap

#: The code of the kernels made here, which are for the device of their first call.
_FOR_ONE_DEVICE: set[CodeType] = set()


def kernel_of(device: Device, op: Op, dtype: DType | None) -> Kernel | None:
    """The kernel of an op where the first input has `dtype`, or its fallback; None for neither."""
    backend = device.backend
    kernel = backend.kernel(op.name, dtype)
    chosen: Kernel
    if kernel is None:
        if op.name in backend.fallback:
            chosen = _fallback(device, op, backend.fallback[op.name])
        elif op.on_any_device is not None:
            chosen = _on_device(device, op.on_any_device)
        else:
            return None
    elif declines(kernel):
        chosen = _in_turn(device, op, dtype)
    else:
        return kernel
    # All of them are one call to an observer.
    return chosen if backend.changes >= 0 else observed(backend, op.name, chosen)


def in_table(op: Op, device: Device, kernel: Kernel) -> Kernel | None:
    """Returns what specialized code calls for a found kernel; None for the general call.

    Of kernels in turn it is the first, whose NotImplemented leads to the general call: the calls
    that it serves cost nothing more.
    """
    backend = device.backend
    observed_now = backend.changes < 0
    made = getattr(kernel, "__wrapped__", kernel) if observed_now else kernel
    if isinstance(made, FunctionType) and made.__code__ in _FOR_ONE_DEVICE:
        first = made.__dict__.get("__wrapped__")
        if first is not None and not op.creates and not observed_now:
            kernel = first
        elif drives_several(backend):
            # The tables are one for all devices of a backend.
            return None
    return on_demand(op, kernel) if op.residuals and backend.keeps_bodies else kernel


def _in_turn(device: Device, op: Op, dtype: DType | None) -> Kernel:
    """A kernel that calls those of an op in the order of their priority until one serves."""
    first, *others = device.backend.kernels_taking(op.name, dtype)

    def kernel(*inputs: Any, **attributes: Any) -> Any:
        result = first(*inputs, **attributes)
        if result is not NotImplemented:
            return result
        spared = attributes.pop("residuals", True) is False
        for other in others:
            # A kernel that cannot leave residuals out returns them, and they are dropped.
            spares = spared and leaves_out_residuals(op, other)
            more = {"residuals": False} if spares else {}
            result = other(*inputs, **attributes, **more)
            if result is not NotImplemented:
                return without_residuals(op, result) if spared and not spares else result
        name = device.backend.fallback.get(op.name)
        if name is not None:
            result = _fallback(device, op, name)(*inputs, **attributes)
        elif op.primitive:
            raise errors.MissingKernelError(
                f"{op.name}: the backend {device.backend.name!r} has declined this call of a "
                f"primitive, and no other of its kernels takes it; use another device, or a "
                f"kernel pack"
            )
        else:
            if "device" in attributes:
                attributes["device"] = device
            arrays = _run_body(op, device, inputs, attributes)
            result = arrays[0] if len(arrays) == 1 else tuple(arrays)
        return without_residuals(op, result) if spared else result

    kernel.__wrapped__ = first  # type: ignore[attr-defined]
    _FOR_ONE_DEVICE.add(kernel.__code__)
    return kernel


def sparing(op: Op, kernel: Kernel) -> Kernel | None:
    """A kernel without residuals, with None in their place; None if the kernel computes them all.

    Args:
        op: an op with residuals.
        kernel: its kernel.
    """
    if not leaves_out_residuals(op, kernel):
        return None
    several, absent = len(op.outputs) > 1, (None,) * len(op.residuals)

    def spare(*inputs: Any, **attributes: Any) -> Any:
        result = kernel(*inputs, **attributes, residuals=False)
        if result is NotImplemented:
            return result
        return (*result, *absent) if several else (result, *absent)

    return spare


def on_demand(op: Op, kernel: Kernel) -> Kernel:
    """A kernel for specialized code, which computes residuals only while a tape records."""
    spare = sparing(op, kernel)
    if spare is None:
        return kernel
    called: Callable[..., Any] = spare

    def call(*inputs: Any, **attributes: Any) -> Any:
        return (kernel if RECORDING.count else called)(*inputs, **attributes)

    call.__wrapped__ = kernel  # type: ignore[attr-defined]
    return call


def _fallback(device: Device, op: Op, name: str) -> Kernel:
    """A kernel that runs the op on the device `name`: arrays go through the host, both ways."""

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

    _FOR_ONE_DEVICE.add(kernel.__code__)
    return kernel


def _on_device(device: Device, function: Callable[..., Any]) -> Kernel:
    def kernel(*inputs: Any, **attributes: Any) -> Any:
        return function(device, *inputs, **attributes)

    _FOR_ONE_DEVICE.add(kernel.__code__)
    return kernel


def _run(
    op: Op, device: Device, inputs: Sequence[Any], attributes: Mapping[str, Any]
) -> Sequence[Native]:
    """The results of an op, the residuals last, for native inputs and canonical attributes."""
    first = next(iter(leaves([*inputs])), None)
    dtype = None if first is None else device.backend.public_dtypes[first.dtype]
    kernel = (
        kernel_of(device, op, dtype)
        if op.name not in device.backend.fallback
        else (device.backend.kernel(op.name, dtype))
    )
    if kernel is not None:
        keywords = {**attributes, "device": device.native} if "device" in attributes else attributes
        return native_arrays(op, device, kernel, inputs, kernel(*inputs, **keywords))
    if op.primitive:
        raise errors.MissingKernelError(
            f"{op.name}: the fallback {device} has no kernel for this primitive either; name "
            f"another device"
        )
    return _run_body(op, device, inputs, attributes)


def _run_body(
    op: Op, device: Device, inputs: Sequence[Any], attributes: Mapping[str, Any]
) -> Sequence[Native]:
    tensors = [each(lambda array: wrap(array, device), operand) for operand in inputs]
    # The ops inside are none of the program that is being captured, or of a tape.
    with uncaptured(), paused():
        result = run_body(op, tensors, attributes)
    results: Sequence[Tensor] = result if isinstance(result, (tuple, list)) else (result,)
    return [tensor._array for tensor in results]


def _moved(array: Native, source: Device, target: Device) -> Native:
    host = source.backend.to_host(array)
    return target.backend.from_host(host, target.native, copy=False)
