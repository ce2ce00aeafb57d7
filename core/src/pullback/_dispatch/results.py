"""Results of kernels: native arrays, or an error that names the op and the kernel's plugin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from pullback import errors
from pullback.devices import Device
from pullback.dtypes import DType
from pullback.plugins.records import Kernel
from pullback.spec import Op


def native_arrays(
    op: Op,
    device: Device,
    kernel: Kernel,
    inputs: Sequence[Any],
    result: object,
    count: int | None = None,
) -> list[Any]:
    """The native arrays that a kernel returned for native inputs, the residuals last.

    There are `count` of them; by default results and residuals.

    Raises:
        BackendError: for another number of them, and for results that are not arrays.
    """
    expected = len(op.outputs) + len(op.residuals) if count is None else count
    native_dtypes = device.backend.public_dtypes
    alike = expected == 1 and inputs and type(result) is type(inputs[0])
    if alike and _is_native(result, native_dtypes):  # as of nearly every call
        return [result]
    if result is NotImplemented:
        drop_kernels(op, device)
        raise errors.BackendError(
            f"{op.name}: {_maker(op, device, kernel)} returned NotImplemented; a kernel that "
            f"leaves calls to others is decorated with @pullback.plugins.records.may_decline"
        )
    arrays = list(result) if isinstance(result, (tuple, list)) else [result]
    if len(arrays) != expected:
        drop_kernels(op, device)
        raise errors.BackendError(
            f"{op.name}: {_maker(op, device, kernel)} returned {len(arrays)} arrays, "
            f"not the {expected} that the op defines; {_fix(op, device, kernel)}"
        )
    leaves = (leaf for a in inputs for leaf in (a if isinstance(a, list) else [a]))
    kind = next((type(leaf) for leaf in leaves if leaf is not None), None)
    for i, array in enumerate(arrays):
        if (kind is not None and type(array) is not kind) or not _is_native(array, native_dtypes):
            try:
                arrays[i] = device.backend.native(array)
            except Exception as error:
                reject(op, device, kernel, array, error)
    return arrays


def _is_native(array: object, native_dtypes: Mapping[Any, DType]) -> bool:
    try:
        return getattr(array, "dtype", None) in native_dtypes
    except TypeError:  # a dtype that has no hash
        return False


def reject(op: Op, device: Device, kernel: Kernel, result: object, error: Exception) -> NoReturn:
    """Raises the error for a kernel's result that its backend cannot make an array of.

    Raises:
        BackendError: it names the op, the kernel's plugin, and what to do.
    """
    drop_kernels(op, device)
    dtype = getattr(result, "dtype", None)
    of = "" if dtype is None else f" of {dtype}"
    raise errors.BackendError(
        f"{op.name}: {_maker(op, device, kernel)} returned {type(result).__name__}{of}, "
        f"not one of its arrays; {_fix(op, device, kernel, or_taken=True)}"
    ) from error


def drop_kernels(op: Op, device: Device) -> None:
    """Empties the table of an op, so that its calls take the general path, which checks results."""
    if op.index < len(device.tables):
        device.tables[op.index].clear()


def _source(op: Op, device: Device, kernel: Kernel) -> str:
    """The name of the kernel's pack; that of the backend if it is the backend's own."""
    own = device.backend.name
    # While a profiler runs, there is a function around it.
    kernels = (kernel, getattr(kernel, "__wrapped__", None))
    return next(
        (entry.source for entry in device.backend.kernels_for(op.name) if entry.kernel in kernels),
        own,
    )


def _maker(op: Op, device: Device, kernel: Kernel) -> str:
    source, own = _source(op, device, kernel), device.backend.name
    pack = f" in the kernel pack {source!r}" * (source != own)
    return f"the kernel of the backend {own!r}{pack}"


def _fix(op: Op, device: Device, kernel: Kernel, *, or_taken: bool = False) -> str:
    if _source(op, device, kernel) != device.backend.name:
        return "fix or upgrade the pack, or leave it out with PULLBACK_KERNEL_PACKS"
    backend = type(device.backend).__name__
    return "fix the kernel" + f", or override {backend}.native to accept that" * or_taken
